//! Interface addresses, and the routes that they require.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use infra::lpm::Address as _;

use super::events::Loss;
use super::side::Connected;
use super::{InterfaceInfo, Routed, Router, RouterError};
use crate::interface::Kind;
use crate::ip::{Address, IpPrefix, OwnAddresses, Path, Prefix, Source};
use crate::nd::Standing;

impl Router {
    /// Adds an address to an interface. See [`add_addresses`](Self::add_addresses).
    ///
    /// # Errors
    /// If the address is refused.
    pub fn add_address(&mut self, index: u32, address: Address) -> Result<(), RouterError> {
        self.add_addresses(index, &[address])
    }

    /// Adds addresses to an interface and installs their routes: all or none. The interface's routes are updated once for all
    /// addresses, because an update takes time in proportion to the number of addresses.
    ///
    /// # Errors
    /// If an address is not a host address, its network overlaps another interface's network in the same VRF, the address is in use, the
    /// interface cannot send or is unnumbered, or a route cannot be added.
    pub fn add_addresses(&mut self, index: u32, added: &[Address]) -> Result<(), RouterError> {
        if added.is_empty() {
            return Ok(());
        }
        let before = self.interface(index)?.addresses.clone();
        let mut known: HashSet<IpAddr> = before.iter().map(|a| a.address).collect();
        added.iter().try_for_each(|address| self.may_add(index, *address, &mut known))?;
        self.near.interfaces.set_addresses(index, [&before[..], added].concat());
        self.ip4.own_changed |= added.iter().any(|a| a.address.is_ipv4());
        self.sync_connected(index).and_then(|()| self.changed(index)).inspect_err(|_| {
            self.near.interfaces.set_addresses(index, before);
            self.goes_back(index, &[]);
        })
    }

    /// Checks that an interface can have a further address. Then adds the address to `known`, which contains the interface's
    /// addresses so far.
    fn may_add(&self, index: u32, address: Address, known: &mut HashSet<IpAddr>) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        let (fib, name) = (info.fib, &info.name);
        address.check()?;
        self.must_send(index)?;
        let is_static = match address.address {
            IpAddr::V4(a) => self.near.is_static(index, a),
            IpAddr::V6(a) => self.near.is_static(index, a),
        };
        if is_static {
            return Err(RouterError::new(format!(
                "{} is the address of a static neighbor on {name}: remove the neighbor first",
                address.address
            )));
        }
        if !known.insert(address.address) {
            return Err(RouterError::new(format!("{name} has the address {} already", address.address)));
        }
        if let Some(lender) = info.unnumbered.and_then(|l| self.near.interfaces.get(l)) {
            let other = &lender.name;
            return Err(RouterError::new(format!(
                "{name} uses the addresses of {other} (unnumbered): it cannot have its own"
            )));
        }
        if !address.is_link_local() {
            self.must_be_apart(fib, index, address)?;
        }
        Ok(())
    }

    /// Checks that the network of a new address does not overlap the connected networks of other interfaces in the VRF, and that the
    /// address is not in use there.
    fn must_be_apart(&self, fib: u16, index: u32, address: Address) -> Result<(), RouterError> {
        let name = &self.interface(index)?.name;
        let overlapping = self.near.interfaces.overlapping(fib, address.network());
        for other in overlapping.filter(|other| other.index != index) {
            for a in &other.addresses {
                if a.address == address.address {
                    return Err(RouterError::new(format!(
                        "{} has the address {} already",
                        other.name, a.address
                    )));
                }
                let (mine, theirs) = (address.network(), a.network());
                if mine.covers(theirs) || theirs.covers(mine) {
                    return Err(RouterError::new(format!(
                        "{address} on {name} overlaps {a} on {}: connected networks must not overlap",
                        other.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Removes an address from an interface. See [`remove_addresses`](Self::remove_addresses).
    ///
    /// # Errors
    /// If the interface has no such address.
    pub fn remove_address(&mut self, index: u32, address: Address) -> Result<(), RouterError> {
        self.remove_addresses(index, &[address])
    }

    /// Removes addresses from an interface, all or none. The routes of the interface are updated once for all addresses.
    ///
    /// # Errors
    /// If the interface lacks one or more of the addresses.
    pub fn remove_addresses(&mut self, index: u32, removed: &[Address]) -> Result<(), RouterError> {
        if removed.is_empty() {
            return Ok(());
        }
        let info = self.interface(index)?;
        let before = info.addresses.clone();
        let known: HashSet<Address> = before.iter().copied().collect();
        if let Some(address) = removed.iter().find(|a| !known.contains(a)) {
            return Err(RouterError::new(format!("{} has no address {address}", info.name)));
        }
        let gone: HashSet<Address> = removed.iter().copied().collect();
        let loses = |ip4: bool| {
            let mut of_family = before.iter().filter(|a| a.address.is_ipv4() == ip4).peekable();
            of_family.peek().is_some() && of_family.all(|a| gone.contains(a))
        };
        let losses = [(loses(true), Loss::Ip4), (loses(false) && !info.ip6, Loss::Ip6)];
        let losses: Vec<Loss> = losses.into_iter().filter(|(is, _)| *is).map(|(_, loss)| loss).collect();
        losses.iter().for_each(|loss| self.leaving(&[index], *loss));
        let stay = before.iter().filter(|a| !gone.contains(a)).copied().collect();
        self.near.interfaces.set_addresses(index, stay);
        self.ip4.own_changed |= removed.iter().any(|a| a.address.is_ipv4());
        let left: Vec<IpPrefix> = removed.iter().map(|a| a.network()).collect();
        let done = self.sync_connected(index).and_then(|()| self.changed_with(index, &left));
        done.inspect_err(|_| {
            self.near.interfaces.set_addresses(index, before);
            self.goes_back(index, &losses);
        })
    }

    /// Updates workers, routes and neighbors, after a change of an interface's addresses was refused and undone. If features were
    /// notified of `losses` before the change, notifies them that the interface keeps its addresses.
    fn goes_back(&mut self, index: u32, losses: &[Loss]) {
        if let Err(e) = self.changed(index) {
            tracing::error!("interface {index}: rollback of a refused change failed: {e}");
        }
        if !losses.is_empty() {
            self.staying(&[index]);
        }
    }

    /// Enables or disables IPv6 on an interface. An interface with a configured IPv6 address uses IPv6 in any case.
    ///
    /// # Errors
    /// If there is no such interface, or it cannot send.
    pub fn set_ip6(&mut self, index: u32, on: bool) -> Result<(), RouterError> {
        if on {
            self.must_send(index)?;
        }
        let info = self.interface(index)?;
        let was = info.ip6;
        let is_last = was && !on && info.addresses.iter().all(|a| a.address.is_ipv4());
        let loss = is_last.then_some(Loss::Ip6);
        if let Some(loss) = loss {
            self.leaving(&[index], loss);
        }
        self.info_mut(index)?.ip6 = on;
        self.changed(index).or_else(|refused| {
            self.info_mut(index)?.ip6 = was;
            self.goes_back(index, loss.as_slice());
            Err(refused)
        })
    }

    /// Publishes the router's own addresses to the workers, if they changed. The main thread's loop calls it once in each
    /// iteration, not for each address: building a set of thousands of addresses takes about a millisecond.
    pub(super) fn publish_own(&mut self) {
        self.publish_own_of::<Ipv4Addr>();
        self.publish_own_of::<Ipv6Addr>();
    }

    fn publish_own_of<A: Routed>(&mut self) {
        let (side, near) = A::side_mut(self);
        if std::mem::take(&mut side.own_changed) {
            side.own.set(near.interfaces.values().fold(OwnAddresses::default(), |own, i| {
                let own = A::own(i).fold(own, |own, a| own.with(i.fib, a, i.index));
                // Workers must also punt messages of other stations about tentative addresses.
                A::tentative(i).fold(own, |own, a| own.with_tentative(i.fib, a, i.index))
            }));
        }
    }

    /// Updates the routes that an interface's addresses require.
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
        let stays: HashSet<_> = wanted.iter().map(|(fib, prefix, _)| (*fib, *prefix)).collect();
        for (fib, prefix, _) in had.iter().filter(|(fib, prefix, _)| !stays.contains(&(*fib, *prefix))) {
            side.routes.remove(*fib, *prefix, Source::INTERFACE, near)?;
        }
        let had: BTreeMap<_, _> = had.into_iter().map(|(fib, prefix, path)| ((fib, prefix), path)).collect();
        let mut done = Vec::new();
        let mut result = Ok(());
        for (fib, prefix, path) in wanted {
            if result.is_ok() {
                result = side.routes.add(fib, prefix, Source::INTERFACE, path.into(), near);
            }
            if result.is_ok() || had.get(&(fib, prefix)) == Some(&path) {
                done.push((fib, prefix, path));
            }
        }
        side.connected.insert(index, done);
        Ok(result?)
    }
}

/// Returns the routes that a usable interface's addresses require. Several addresses can require routes with the same prefix, for
/// example if one address is the last address of another one's network. Only the first of these routes is returned.
fn connected<A: Routed>(i: &InterfaceInfo) -> Vec<Connected<A>> {
    let (mut wanted, mut known): (Vec<Connected<A>>, HashSet<Prefix<A>>) = Default::default();
    let mut want = |prefix, path| {
        if known.insert(prefix) {
            wanted.push((i.fib, prefix, path));
        }
    };
    let scoped = |address: A| A::from_bits(A::scoped(address.to_bits(), i.index));
    let all: Vec<Address<A>> = A::all(i).collect();
    let host = |address| Prefix::host(scoped(address));
    let most = A::Bits::BITS;
    A::own(i).for_each(|a| want(host(a.address), Path::Local));
    // Drop packets to a tentative address: the router must not resolve it as a neighbor's.
    A::tentative(i).for_each(|a| want(host(a), Path::Drop));
    for a in all.iter().filter(|a| a.len < most && i.kind != Kind::Loopback(None)) {
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
    /// Returns the path to the interface's link: to the peer if the interface is point-to-point, otherwise to attached hosts.
    pub(super) fn attached<A: Routed>(&self) -> Path {
        match self.kind.is_point_to_point() {
            true => {
                Path::Via { next_hop: A::from_bits(A::Bits::default()).into(), interface: Some(self.index) }
            }
            false => Path::Attached(self.index),
        }
    }

    /// True if IPv6 is enabled on the interface: by the operator, or because the interface has an IPv6 address.
    pub fn speaks_ip6(&self) -> bool {
        self.ip6 || self.addresses.iter().any(|a| a.address.is_ipv6())
    }

    /// Returns the interface's link-local IPv6 address, if IPv6 is enabled. It is the configured address or, without one, derived from the
    /// Ethernet address (RFC 4291 appendix A).
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        let given = self.addresses_of::<Ipv6Addr>().find(|a| Address::from(*a).is_link_local());
        let own = || Ipv6Addr::from_bits(wire::ipv6::link_local(self.mac));
        self.speaks_ip6().then(|| given.map_or_else(own, |a| a.address))
    }

    /// Returns the interface's IPv6 addresses, including the link-local address, whether configured or derived.
    pub fn all_ip6(&self) -> Vec<Address<Ipv6Addr>> {
        let mut all: Vec<Address<Ipv6Addr>> = self.addresses_of().collect();
        let implied = self.link_local().filter(|l| all.iter().all(|a| a.address != *l));
        all.extend(implied.map(|address| Address { address, len: 64 }));
        all
    }

    /// Returns the duplicate address detection state of an IPv6 address of the interface. On an interface without neighbors, every address
    /// is unique. `None` if the interface is down or does not have the address.
    pub fn standing(&self, address: Ipv6Addr) -> Option<Standing> {
        let alone = (!self.kind.has_neighbors()).then_some(Standing::Unique);
        alone.or_else(|| self.standing.get(&address).copied())
    }

    /// Returns those addresses of [`all_ip6`](Self::all_ip6) that passed duplicate address detection.
    pub fn own_ip6(&self) -> impl Iterator<Item = Address<Ipv6Addr>> {
        self.all_ip6().into_iter().filter(|a| self.standing(a.address) == Some(Standing::Unique))
    }

    /// Returns the interface's link-local address if it has passed duplicate address detection.
    pub fn usable_link_local(&self) -> Option<Ipv6Addr> {
        self.link_local().filter(|a| self.standing(*a) == Some(Standing::Unique))
    }

    /// True if the address is a host address in one of the interface's networks.
    pub(super) fn on_link<A: Routed>(&self, address: A) -> bool {
        A::own(self).any(|a| a.prefix().contains(address) && !a.is_end(address))
    }
}
