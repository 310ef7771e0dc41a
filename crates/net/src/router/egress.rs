//! The output interface and the source address of the router's own packets.

use std::net::IpAddr;

use super::{Routed, Router, RouterError};
use crate::ip::{Address, MAX_TABLES, Path};

/// The output interface and the next hop of packets to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress<A> {
    /// The output interface; `None` if the destination is the router itself, or the next hop is on no interface's link.
    pub interface: Option<u32>,
    /// The next hop, or the destination if it is on the interface's link or is the router itself.
    pub near: A,
}

/// The reason why the router cannot send from an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSource {
    /// The router is still testing this address of the interface with this name for duplicates (RFC 4862 section 5.4).
    Tentative(IpAddr, String),
    /// The given address is not an address of the router in this VRF.
    NotOwn,
    /// The router has no address in the VRF.
    Missing,
}

impl Router {
    /// Returns the output interface and the next hop of packets to a destination. For a link-local destination, `on` is the interface of
    /// its link.
    ///
    /// # Errors
    /// If no route leads to the destination, or its route leads to no interface. The error text is a clause for a message such as
    /// "`destination` cannot be pinged: …".
    pub fn egress<A: Routed>(
        &self,
        fib: u16,
        destination: A,
        on: Option<u32>,
    ) -> Result<Egress<A>, RouterError> {
        let scoped = |on| A::scoped(destination.to_bits(), on);
        if let Some(on) = on.filter(|on| scoped(*on) != destination.to_bits()) {
            return Ok(Egress { interface: Some(on), near: destination });
        }
        let refused = |why: &str| RouterError::new(why);
        let mut table = fib;
        for _ in 0..MAX_TABLES {
            let Some((prefix, _, to)) = A::side(self).routes.lookup(table, destination) else {
                let table = self.vrfs.table(table);
                return Err(refused(&format!("no route in table {table} covers it")));
            };
            // For a recursive path, take an end of its trail. If there are several, any of them is suitable.
            let end = to.trail.as_ref().and_then(|t| t.ends.first()).map(|end| end.0);
            let Some(path) = end.or_else(|| to.list.paths().next()) else { continue };
            return match path {
                Path::Via { next_hop, interface } => {
                    let near = A::of(next_hop)
                        .ok_or_else(|| refused("the next hop of its route is of the other address family"))?;
                    let interface = interface.or_else(|| self.near.connected(table, next_hop));
                    Ok(Egress { interface, near })
                }
                Path::Attached(interface) => Ok(Egress { interface: Some(interface), near: destination }),
                Path::Local => Ok(Egress { interface: None, near: destination }),
                Path::Drop => Err(refused(&format!("the route {prefix} drops packets"))),
                Path::Unreachable => Err(refused(&format!("the route {prefix} is unreachable"))),
                Path::Prohibit => Err(refused(&format!("the route {prefix} is prohibited"))),
                Path::Feature(kind, index) => {
                    let what = self.forwarding_text(kind, index);
                    Err(refused(&format!(
                        "the route {prefix} leads to {what}, not to an interface: give an interface"
                    )))
                }
                Path::LinkLocal => Err(refused("it is link-local: give an interface")),
                Path::Table(next) => {
                    table = next;
                    continue;
                }
            };
        }
        Err(refused("the routes to it form a loop between tables"))
    }

    /// Returns the source address for packets that leave by `egress`: `wanted`, if it is given. Otherwise, returns the first of these that
    /// exists: the destination if it is the router's own, an address of the interface in the network of the next hop, the first address of
    /// the interface, the lowest address in the VRF. Addresses that were just added or removed are taken into account.
    ///
    /// # Errors
    /// If the router cannot send from the address, or has none.
    pub fn egress_source<A: Routed>(
        &mut self,
        fib: u16,
        egress: Egress<A>,
        wanted: Option<IpAddr>,
    ) -> Result<A, NoSource> {
        self.publish_own();
        let tentative = || self.tentative_source::<A>(fib, egress.interface, wanted);
        let Some(wanted) = wanted else {
            let found = self.source_towards(fib, egress);
            return found.ok_or_else(|| tentative().unwrap_or(NoSource::Missing));
        };
        if let Some(why) = tentative() {
            return Err(why);
        }
        let own = A::side(self).own.get();
        let is_own = |a: &A| own.contains(fib, A::scoped(a.to_bits(), egress.interface.unwrap_or(0)));
        A::of(wanted).filter(is_own).ok_or(NoSource::NotOwn)
    }

    /// Returns an error if the router still tests an address for duplicates: the address `wanted` or, if it is `None`, an address of the
    /// output interface (without an output interface, any address in the VRF).
    fn tentative_source<A: Routed>(
        &self,
        fib: u16,
        interface: Option<u32>,
        wanted: Option<IpAddr>,
    ) -> Option<NoSource> {
        let fits = |address: &A| wanted.is_none_or(|wanted| A::of(wanted) == Some(*address));
        let mut all = self.interfaces().filter(|i| i.fib == fib);
        all.find_map(|i| {
            let here = wanted.is_some() || interface.is_none_or(|on| on == i.index);
            let address = A::tentative(i).find(fits).filter(|_| here)?;
            Some(NoSource::Tentative(address.into(), i.name.clone()))
        })
    }

    fn source_towards<A: Routed>(&self, fib: u16, Egress { interface, near }: Egress<A>) -> Option<A> {
        let own = A::side(self).own.get();
        if interface.is_none() && own.contains(fib, near.to_bits()) {
            return Some(near);
        }
        let of = interface.and_then(|i| self.near.interfaces.get(i)).filter(|i| i.fib == fib);
        let addresses: Vec<Address<A>> = of.map_or_else(Vec::new, |i| A::own(i).collect());
        let best = addresses.iter().find(|a| a.prefix().contains(near)).or_else(|| addresses.first());
        best.map(|a| a.address).or_else(|| own.first(fib))
    }
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
