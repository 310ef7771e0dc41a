//! Interfaces without addresses of their own, which use another one's (unnumbered), and interfaces that answer for hosts behind
//! others (proxy ARP, RFC 1027, and its like of Neighbor Discovery, RFC 4389 section 4.1). Both are off unless asked for.

use super::{InterfaceInfo, Neighborhood, Routed, Router, RouterError};
use crate::ip::{Address, Object};

impl Neighborhood {
    /// The interface whose addresses an interface without any uses.
    pub(super) fn lender(&self, info: &InterfaceInfo) -> Option<&InterfaceInfo> {
        self.interfaces.get(info.unnumbered?).filter(|lender| lender.fib == info.fib)
    }

    /// The addresses that the router speaks from on an interface: its own, and those that it uses.
    pub(super) fn speaks_from<A: Routed>(&self, info: &InterfaceInfo) -> Vec<Address<A>> {
        A::own(info).chain(self.lender(info).into_iter().flat_map(A::own)).collect()
    }

    /// Whether an address is the anycast address of the routers on a network of this interface.
    pub(super) fn is_anycast<A: Routed>(&self, info: &InterfaceInfo, address: A) -> bool {
        self.speaks_from::<A>(info).iter().any(|a| a.anycast() == Some(address))
    }
}

impl Router {
    /// Lets an interface use the addresses of another one in its VRF, or no more.
    ///
    /// # Errors
    /// When there is no such interface, it would use its own, it has addresses, or the other one uses somebody else's.
    pub fn set_unnumbered(&mut self, index: u32, lender: Option<u32>) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        if let Some(lender) = lender {
            let other = self.interface(lender)?;
            if lender == index {
                return Err(RouterError(format!("{} cannot use its own addresses", info.name)));
            }
            if !info.addresses.is_empty() {
                let name = &info.name;
                return Err(RouterError(format!("{name} has addresses of its own: remove them first")));
            }
            if let Some(third) = self.near.lender(other) {
                let (name, third) = (&other.name, &third.name);
                return Err(RouterError(format!(
                    "{name} uses the addresses of {third} itself: name that one"
                )));
            }
        }
        self.info_mut(index)?.unnumbered = lender;
        self.changed(index)
    }

    /// Lets an interface answer whoever asks for hosts that the router reaches by another interface, or no more.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_proxy(&mut self, index: u32, on: bool) -> Result<(), RouterError> {
        self.info_mut(index)?.proxy = on;
        self.changed(index)
    }

    /// Whether the router answers for an address on an interface: it is its own there, or it stands in for who has it.
    pub(super) fn answers_for<A: Routed>(&self, interface: u32, address: A) -> bool {
        let Some(info) = self.near.interfaces.get(interface) else { return false };
        let own = self.near.speaks_from::<A>(info);
        own.iter().any(|a| a.address == address || a.anycast() == Some(address))
            || info.proxy && self.is_behind_another(info, address)
    }

    /// Whether packets to an address leave by another interface.
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

    /// Those that use an interface's addresses.
    pub(super) fn borrowers(&self, lender: u32) -> Vec<u32> {
        self.interfaces().filter(|i| i.unnumbered == Some(lender)).map(|i| i.index).collect()
    }
}
