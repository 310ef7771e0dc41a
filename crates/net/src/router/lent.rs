//! Unnumbered interfaces, proxy ARP and proxy Neighbor Discovery (RFC 1027, RFC 4389 section 4.1). An unnumbered interface uses the
//! addresses of another interface. A proxy answers for hosts behind other interfaces. All are off by default.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{InterfaceInfo, Neighborhood, Routed, Router, RouterError};
use crate::ip::{Address, Object};

impl Neighborhood {
    /// Returns the interface whose addresses the interface `info` uses; `None` if `info` is not unnumbered, or the two interfaces are in
    /// different VRFs.
    pub(super) fn lender(&self, info: &InterfaceInfo) -> Option<&InterfaceInfo> {
        self.interfaces.get(info.unnumbered?).filter(|lender| lender.fib == info.fib)
    }

    /// Returns the addresses that the router may send from on an interface: the interface's own addresses, and those of the interface to
    /// which it is unnumbered.
    pub(super) fn speaks_from<A: Routed>(&self, info: &InterfaceInfo) -> Vec<Address<A>> {
        A::own(info).chain(self.lender(info).into_iter().flat_map(A::own)).collect()
    }

    /// Returns the addresses from which workers may send on an interface: those of [`speaks_from`](Self::speaks_from), without another
    /// interface's link-local address, which is valid on that link only.
    pub(super) fn sources(&self, info: &InterfaceInfo) -> Vec<Address> {
        let ip4 = self.speaks_from::<Ipv4Addr>(info).into_iter().map(Address::from);
        let own = Ipv6Addr::own(info).map(Address::from);
        let lent = self.lender(info).into_iter().flat_map(Ipv6Addr::own).map(Address::from);
        ip4.chain(own).chain(lent.filter(|a| !a.is_link_local())).collect()
    }

    /// True if an address is the subnet-router anycast address of one of the interface's networks.
    pub(super) fn is_anycast<A: Routed>(&self, info: &InterfaceInfo, address: A) -> bool {
        self.speaks_from::<A>(info).iter().any(|a| a.anycast() == Some(address))
    }
}

impl Router {
    /// Publishes an interface and those unnumbered to it after a change of the addresses from which the router may send.
    pub(super) fn publish_sources(&mut self, index: u32) -> Result<(), RouterError> {
        self.near.publish(index)?;
        self.publish_borrowers(index)
    }

    /// Publishes the interfaces that are unnumbered to this one: their records contain its addresses.
    pub(super) fn publish_borrowers(&mut self, index: u32) -> Result<(), RouterError> {
        self.borrowers(index).into_iter().try_for_each(|borrower| self.near.publish(borrower))
    }

    /// Makes an interface unnumbered: it uses the addresses of the interface `lender` as long as both are in the same VRF. With `None`, the
    /// interface is no longer unnumbered.
    ///
    /// # Errors
    /// If one of the interfaces does not exist, both are the same, the interface has addresses or cannot send, or the lender is unnumbered
    /// itself.
    pub fn set_unnumbered(&mut self, index: u32, lender: Option<u32>) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        if let Some(lender) = lender {
            self.must_send(index)?;
            let other = self.interface(lender)?;
            if lender == index {
                return Err(RouterError::new(format!(
                    "{} cannot be unnumbered to itself: name another interface",
                    info.name
                )));
            }
            if !info.addresses.is_empty() {
                let name = &info.name;
                return Err(RouterError::new(format!("{name} has addresses of its own: remove them first")));
            }
            if let Some(third) = self.near.lender(other) {
                let (name, third) = (&other.name, &third.name);
                return Err(RouterError::new(format!(
                    "{name} is itself unnumbered to {third}: use {third} instead"
                )));
            }
        }
        self.near.interfaces.set_lender(index, lender);
        self.changed(index)
    }

    /// Enables or disables proxy ARP and proxy Neighbor Discovery on an interface: on its link, the router answers for hosts that
    /// it reaches through other interfaces.
    ///
    /// # Errors
    /// If there is no such interface, or frames cannot be sent on it.
    pub fn set_proxy(&mut self, index: u32, on: bool) -> Result<(), RouterError> {
        if on {
            self.must_send(index)?;
        }
        self.info_mut(index)?.proxy = on;
        self.changed(index)
    }

    /// True if the router answers requests for an address on an interface: because the address is the router's own there, or as a proxy.
    pub(super) fn answers_for<A: Routed>(&self, interface: u32, address: A) -> bool {
        let Some(info) = self.near.interfaces.get(interface) else { return false };
        let own = self.near.speaks_from::<A>(info);
        own.iter().any(|a| a.address == address || a.anycast() == Some(address))
            || info.proxy && self.is_behind_another(info, address)
    }

    /// True if packets to an address are sent on another interface than `info`, or are shared between several paths.
    fn is_behind_another<A: Routed>(&self, info: &InterfaceInfo, address: A) -> bool {
        let found = A::side(self).routes.lookup(info.fib, address);
        match found.and_then(|(_, _, path)| path.resolved) {
            Some(Object::Adjacency(at)) => {
                self.near.adjacencies.get(at).is_some_and(|a| a.interface != info.index)
            }
            Some(Object::Glean(by)) => by != info.index,
            Some(Object::Balance(_)) => true,
            _ => false,
        }
    }

    /// Returns the interfaces that are unnumbered to this one.
    pub(super) fn borrowers(&self, lender: u32) -> Vec<u32> {
        self.near.interfaces.borrowers(lender).collect()
    }
}
