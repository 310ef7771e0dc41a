//! Unnumbered interfaces, which use another interface's addresses, and proxy ARP and Neighbor Discovery (RFC 1027, RFC
//! 4389 section 4.1): answers for hosts behind other interfaces. Both are off by default.

use super::{InterfaceInfo, Neighborhood, Routed, Router, RouterError};
use crate::ip::{Address, Object};

impl Neighborhood {
    /// Returns the interface whose addresses an unnumbered interface uses.
    pub(super) fn lender(&self, info: &InterfaceInfo) -> Option<&InterfaceInfo> {
        self.interfaces.get(info.unnumbered?).filter(|lender| lender.fib == info.fib)
    }

    /// Returns the addresses that the router may send from on an interface: the interface's own, and those it borrows.
    pub(super) fn speaks_from<A: Routed>(&self, info: &InterfaceInfo) -> Vec<Address<A>> {
        A::own(info).chain(self.lender(info).into_iter().flat_map(A::own)).collect()
    }

    /// True if an address is the subnet-router anycast address of a network of this interface.
    pub(super) fn is_anycast<A: Routed>(&self, info: &InterfaceInfo, address: A) -> bool {
        self.speaks_from::<A>(info).iter().any(|a| a.anycast() == Some(address))
    }
}

impl Router {
    /// Makes an interface use the addresses of another one in its VRF; `None` turns this off.
    ///
    /// # Errors
    /// If the interface or the lender does not exist, they are the same, the interface has addresses or only receives, or
    /// the lender is unnumbered itself.
    pub fn set_unnumbered(&mut self, index: u32, lender: Option<u32>) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        if let Some(lender) = lender {
            self.must_send(index)?;
            let other = self.interface(lender)?;
            if lender == index {
                return Err(RouterError(format!(
                    "{} cannot be unnumbered to itself: name another interface",
                    info.name
                )));
            }
            if !info.addresses.is_empty() {
                let name = &info.name;
                return Err(RouterError(format!("{name} has addresses of its own: remove them first")));
            }
            if let Some(third) = self.near.lender(other) {
                let (name, third) = (&other.name, &third.name);
                return Err(RouterError(format!(
                    "{name} is itself unnumbered to {third}: use {third} instead"
                )));
            }
        }
        self.info_mut(index)?.unnumbered = lender;
        self.changed(index)
    }

    /// Turns proxy ARP and Neighbor Discovery on or off: answers on this interface for hosts reached by other
    /// interfaces.
    ///
    /// # Errors
    /// If there is no such interface, or it only receives.
    pub fn set_proxy(&mut self, index: u32, on: bool) -> Result<(), RouterError> {
        if on {
            self.must_send(index)?;
        }
        self.info_mut(index)?.proxy = on;
        self.changed(index)
    }

    /// True if the router answers for an address on an interface: the address is its own there, or proxied.
    pub(super) fn answers_for<A: Routed>(&self, interface: u32, address: A) -> bool {
        let Some(info) = self.near.interfaces.get(interface) else { return false };
        let own = self.near.speaks_from::<A>(info);
        own.iter().any(|a| a.address == address || a.anycast() == Some(address))
            || info.proxy && self.is_behind_another(info, address)
    }

    /// True if packets to an address leave by another interface.
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

    /// Returns the interfaces that use this interface's addresses.
    pub(super) fn borrowers(&self, lender: u32) -> Vec<u32> {
        self.interfaces().filter(|i| i.unnumbered == Some(lender)).map(|i| i.index).collect()
    }
}
