//! Addresses of interfaces, and the routes that follow from them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use infra::lpm::Address as _;

use super::side::Connected;
use super::{InterfaceInfo, Routed, Router, RouterError};
use crate::interface::Kind;
use crate::ip::{Address, OwnAddresses, Path, Prefix, Source};
use crate::nd::Standing;

impl Router {
    /// Gives an interface an address, and the router the routes that follow from it.
    ///
    /// # Errors
    /// When the address is no host's, or its network overlaps another interface's in the same VRF.
    pub fn add_address(&mut self, index: u32, address: Address) -> Result<(), RouterError> {
        let (fib, name) = (self.interface(index)?.fib, self.interface(index)?.name.clone());
        address.check()?;
        let is_static = match address.address {
            IpAddr::V4(a) => self.near.is_static(index, a),
            IpAddr::V6(a) => self.near.is_static(index, a),
        };
        if is_static {
            return Err(RouterError(format!(
                "{} is the address of a static neighbour on {name}: forget that first",
                address.address
            )));
        }
        let has = |i: &InterfaceInfo| i.addresses.iter().any(|a| a.address == address.address);
        if has(self.interface(index)?) {
            return Err(RouterError(format!("{name} has the address {} already", address.address)));
        }
        if let Some(lender) = self.interface(index)?.unnumbered.and_then(|l| self.near.interfaces.get(l)) {
            let other = &lender.name;
            return Err(RouterError(format!(
                "{name} uses the addresses of {other}: it is to have none of its own"
            )));
        }
        if !address.is_link_local() {
            self.must_be_apart(fib, index, address)?;
        }
        self.near.interfaces.add_address(index, address);
        if let Err(e) = self.sync_connected(index) {
            self.near.interfaces.remove_address(index, address);
            self.sync_connected(index)?;
            return Err(e);
        }
        self.ip4.own_changed |= address.address.is_ipv4();
        self.changed(index)
    }

    /// Connected networks of a VRF are apart, whatever interfaces they are on.
    fn must_be_apart(&self, fib: u16, index: u32, address: Address) -> Result<(), RouterError> {
        let name = &self.interface(index)?.name;
        for other in self.near.interfaces.overlapping(fib, address.network()) {
            for a in &other.addresses {
                if a.address == address.address {
                    return Err(RouterError(format!("{} has the address {} already", other.name, a.address)));
                }
                let (mine, theirs) = (address.network(), a.network());
                if other.index != index && (mine.covers(theirs) || theirs.covers(mine)) {
                    return Err(RouterError(format!(
                        "{address} on {name} overlaps {a} on {}: connected networks must be apart",
                        other.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Takes an address from an interface.
    ///
    /// # Errors
    /// When the interface has no such address.
    pub fn remove_address(&mut self, index: u32, address: Address) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        if !info.addresses.contains(&address) {
            return Err(RouterError(format!("{} has no address {address}", info.name)));
        }
        let silent = !info.ip6 && info.addresses.iter().all(|a| a.address.is_ipv4() || *a == address);
        if silent {
            // Without its last one it has nothing to say so from.
            self.cease_advertising(&[index]);
        }
        self.near.interfaces.remove_address(index, address);
        self.ip4.own_changed |= address.address.is_ipv4();
        let done =
            self.sync_connected(index).and_then(|()| self.changed_with(index, Some(address.network())));
        done.inspect_err(|_| {
            self.near.interfaces.add_address(index, address);
            self.goes_back(index, silent);
        })
    }

    /// A change of addresses was refused half-way, and those that there were are there again: so is what follows from them.
    fn goes_back(&mut self, index: u32, advertised: bool) {
        if let Err(e) = self.changed(index) {
            tracing::error!("interface {index} after a change that was refused: {e}");
        }
        if advertised {
            self.resume_advertising(&[index]);
        }
    }

    /// Says whether IPv6 is spoken on an interface that has no IPv6 address but a link-local one.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_ip6(&mut self, index: u32, on: bool) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        let (was, silent) = (info.ip6, !on && info.addresses.iter().all(|a| a.address.is_ipv4()));
        if silent {
            self.cease_advertising(&[index]);
        }
        self.info_mut(index)?.ip6 = on;
        self.changed(index).or_else(|refused| {
            self.info_mut(index)?.ip6 = was;
            self.goes_back(index, silent);
            Err(refused)
        })
    }

    /// Shows workers the router's own addresses, if they changed. Once a turn, not once an address: a set with thousands takes
    /// about a millisecond to make.
    pub(super) fn publish_own(&mut self) {
        self.publish_own_of::<Ipv4Addr>();
        self.publish_own_of::<Ipv6Addr>();
    }

    fn publish_own_of<A: Routed>(&mut self) {
        let (side, near) = A::side_mut(self);
        if std::mem::take(&mut side.own_changed) {
            side.own.set(near.interfaces.values().fold(OwnAddresses::default(), |own, i| {
                let own = A::own(i).fold(own, |own, a| own.with(i.fib, a, i.index));
                // What others say of those that are not used yet is for this router to hear.
                A::tentative(i).fold(own, |own, a| own.with_tentative(i.fib, a, i.index))
            }));
        }
    }

    /// Makes the routes that follow from interface addresses what they should be.
    pub(super) fn sync_connected(&mut self, index: u32) -> Result<(), RouterError> {
        self.sync_connected_of::<Ipv4Addr>(index)?;
        self.sync_connected_of::<Ipv6Addr>(index)
    }

    fn sync_connected_of<A: Routed>(&mut self, index: u32) -> Result<(), RouterError> {
        let usable = self.near.usable(index);
        let info = self.near.interfaces.get(index).filter(|_| usable);
        let wanted = info.map_or_else(Vec::new, connected::<A>);
        let (side, near) = A::side_mut(self);
        let had = std::mem::take(side.connected.entry(index).or_default());
        for (fib, prefix, _) in had.iter().filter(|h| !wanted.iter().any(|w| w.0 == h.0 && w.1 == h.1)) {
            side.routes.remove(*fib, *prefix, Source::INTERFACE, near)?;
        }
        let mut done = Vec::new();
        let mut result = Ok(());
        for (fib, prefix, path) in wanted {
            if result.is_ok() {
                result = side.routes.add(fib, prefix, Source::INTERFACE, path.into(), near);
            }
            if result.is_ok() || had.contains(&(fib, prefix, path)) {
                done.push((fib, prefix, path));
            }
        }
        side.connected.insert(index, done);
        Ok(result?)
    }
}

/// The routes that follow from the addresses of an interface which can be used. Two addresses may say the same of a prefix, or
/// one that the other's network ends there: what comes first counts.
fn connected<A: Routed>(i: &InterfaceInfo) -> Vec<Connected<A>> {
    let mut wanted: Vec<Connected<A>> = Vec::new();
    let mut want = |prefix, path| {
        if !wanted.iter().any(|w| w.1 == prefix) {
            wanted.push((i.fib, prefix, path));
        }
    };
    let scoped = |address: A| A::from_bits(A::scoped(address.to_bits(), i.index));
    let all: Vec<Address<A>> = A::all(i).collect();
    let host = |address| Prefix::host(scoped(address));
    let most = A::Bits::BITS;
    A::own(i).for_each(|a| want(host(a.address), Path::Local));
    // What is not used yet is asked for by nobody else either.
    A::tentative(i).for_each(|a| want(host(a), Path::Drop));
    for a in all.iter().filter(|a| a.len < most && i.kind != Kind::Loopback) {
        want(Prefix::new(scoped(a.address), a.len), i.attached::<A>());
    }
    A::own(i).filter_map(Address::anycast).for_each(|a| want(host(a), Path::Local));
    for a in all.iter().filter(|a| a.len < most - 1) {
        if A::HAS_BROADCAST {
            want(host(a.prefix().last()), Path::Drop);
        }
        want(host(a.prefix().address()), Path::Drop);
    }
    wanted
}

impl InterfaceInfo {
    /// The path to all that is on its link: behind one from point to point whoever is there takes it.
    pub(super) fn attached<A: Routed>(&self) -> Path {
        match self.kind.is_point_to_point() {
            true => {
                Path::Via { next_hop: A::from_bits(A::Bits::default()).into(), interface: Some(self.index) }
            }
            false => Path::Attached(self.index),
        }
    }

    /// Whether it speaks IPv6: the operator says so, or it has an IPv6 address.
    pub fn speaks_ip6(&self) -> bool {
        self.ip6 || self.addresses.iter().any(|a| a.address.is_ipv6())
    }

    /// Its link-local IPv6 address, if it speaks IPv6: one that it was given, or that which follows from its Ethernet address (RFC
    /// 4291 appendix A).
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        let given = self.addresses_of::<Ipv6Addr>().find(|a| Address::from(*a).is_link_local());
        let own = || Ipv6Addr::from_bits(wire::ipv6::link_local(self.mac));
        self.speaks_ip6().then(|| given.map_or_else(own, |a| a.address))
    }

    /// Its IPv6 addresses, the link-local one included, whether it was given or not.
    pub fn all_ip6(&self) -> Vec<Address<Ipv6Addr>> {
        let mut all: Vec<Address<Ipv6Addr>> = self.addresses_of().collect();
        let implied = self.link_local().filter(|l| all.iter().all(|a| a.address != *l));
        all.extend(implied.map(|address| Address { address, len: 64 }));
        all
    }

    /// How one of its IPv6 addresses stands; one of an interface without neighbours is nobody else's.
    pub fn standing(&self, address: Ipv6Addr) -> Option<Standing> {
        let alone = (!self.kind.has_neighbors()).then_some(Standing::Unique);
        alone.or_else(|| self.standing.get(&address).copied())
    }

    /// Those of [`all_ip6`](Self::all_ip6) that nobody else has, as far as is known.
    pub fn own_ip6(&self) -> impl Iterator<Item = Address<Ipv6Addr>> {
        self.all_ip6().into_iter().filter(|a| self.standing(a.address) == Some(Standing::Unique))
    }

    /// Its link-local address, once it is in use.
    pub(super) fn usable_link_local(&self) -> Option<Ipv6Addr> {
        self.link_local().filter(|a| self.standing(*a) == Some(Standing::Unique))
    }

    /// Whether a host on one of its networks can have this address.
    pub(super) fn on_link<A: Routed>(&self, address: A) -> bool {
        A::own(self).any(|a| a.prefix().contains(address) && !a.is_end(address))
    }
}
