//! Addresses of interfaces, and the routes that follow from them.

use std::net::Ipv4Addr;

use super::{Router, RouterError};
use crate::interface::Kind;
use crate::ip::{OwnAddresses, Path, Prefix4, Source};
use crate::neighbor::State;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The router's own address.
    pub address: Ipv4Addr,
    /// Length of the connected network's prefix in bits.
    pub len: u8,
}

impl Address {
    /// The connected network.
    pub fn network(self) -> Prefix4 {
        Prefix4::new(self.address, self.len)
    }

    /// Whether an interface can have this address.
    ///
    /// # Errors
    /// When it is no host's.
    pub fn check(self) -> Result<(), RouterError> {
        let bits = self.address.to_bits();
        if self.len == 0 || self.len > 32 {
            return Err(RouterError(format!("the prefix length of {self} must be 1 to 32")));
        }
        if bits == 0 || wire::ipv4::is_martian_source(bits) || bits >> 28 == 0xf {
            return Err(RouterError(format!("{} cannot be an interface's address", self.address)));
        }
        if self.is_end(self.address) {
            return Err(RouterError(format!(
                "{} is the first or last address of {}, not a host's",
                self.address,
                self.network()
            )));
        }
        Ok(())
    }

    /// Whether `other` is the first or last address of the connected network, and so no host's.
    pub fn is_end(self, other: Ipv4Addr) -> bool {
        self.len < 31 && (other == self.network().address() || other == self.network().last())
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl Router {
    /// Gives an interface an address, and the router the routes that follow from it.
    ///
    /// # Errors
    /// When the address is no host's, or its network overlaps another interface's in the same VRF.
    pub fn add_address(&mut self, index: u32, address: Address) -> Result<(), RouterError> {
        let (fib, name) = (self.interface(index)?.fib, self.interface(index)?.name.clone());
        address.check()?;
        let known = self.near.neighbors.entries().get((index, address.address)).map(|e| e.state);
        if matches!(known, Some(State::Static(_))) {
            return Err(RouterError(format!(
                "{} is the address of a static neighbour on {name}: forget that first",
                address.address
            )));
        }
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
        self.near.interfaces.add_address(index, address);
        if let Err(e) = self.sync_connected(index) {
            self.near.interfaces.remove_address(index, address);
            self.sync_connected(index)?;
            return Err(e);
        }
        self.own.set(self.own.get().clone().with(fib, address));
        self.changed(index)
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
        self.near.interfaces.remove_address(index, address);
        let all = self.interfaces().flat_map(|i| i.addresses.iter().map(|a| (i.fib, *a)));
        self.own.set(all.fold(OwnAddresses::default(), |own, (fib, a)| own.with(fib, a)));
        self.sync_connected(index)?;
        self.changed_with(index, Some(address.network()))
    }

    /// Makes the routes that follow from interface addresses what they should be.
    pub(super) fn sync_connected(&mut self, index: u32) -> Result<(), RouterError> {
        let mut wanted = Vec::new();
        if let Some(i) = self.near.interfaces.get(index)
            && self.near.usable(index)
        {
            // Two addresses may say the same of a prefix, or one that the other's network ends there: what comes first
            // here counts.
            let mut want = |prefix, path| {
                if !wanted.iter().any(|w: &(u16, Prefix4, Path)| w.1 == prefix) {
                    wanted.push((i.fib, prefix, path));
                }
            };
            i.addresses.iter().for_each(|a| want(Prefix4::host(a.address), Path::Local));
            for a in i.addresses.iter().filter(|a| a.len < 32 && i.kind != Kind::Loopback) {
                want(a.network(), Path::Attached(index));
            }
            for a in i.addresses.iter().filter(|a| a.len < 31) {
                want(Prefix4::host(a.network().last()), Path::Drop);
                want(Prefix4::host(a.network().address()), Path::Drop);
            }
        }
        let had = std::mem::take(self.connected.entry(index).or_default());
        for (fib, prefix, _) in had.iter().filter(|h| !wanted.iter().any(|w| w.0 == h.0 && w.1 == h.1)) {
            self.routes.remove(*fib, *prefix, Source::Interface, &mut self.near)?;
        }
        let mut done = Vec::new();
        let mut result = Ok(());
        for (fib, prefix, path) in wanted {
            if result.is_ok() {
                result = self.routes.add(fib, prefix, Source::Interface, path.into(), &mut self.near);
            }
            if result.is_ok() || had.contains(&(fib, prefix, path)) {
                done.push((fib, prefix, path));
            }
        }
        self.connected.insert(index, done);
        Ok(result?)
    }
}
