//! The router's own addresses, as the input check reads them.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use crate::router::Address;

/// The router's own IPv4 addresses by VRF. A packet that claims to come from one of them is a martian.
#[derive(Clone, Default)]
pub struct OwnAddresses {
    exact: HashSet<(u16, u32)>,
    /// The lowest address by VRF.
    first: HashMap<u16, Ipv4Addr>,
    /// Broadcast addresses of connected networks: nobody's source either.
    broadcasts: HashSet<(u16, u32)>,
    /// One bit by the low bits of an address, for both sets: most packets need no more than this.
    filter: [u64; 8],
}

/// The low bits of an address are the ones that differ among hosts.
#[inline(always)]
fn bit(address: u32) -> (usize, u64) {
    ((address & 7) as usize, 1 << (address >> 3 & 63))
}

impl OwnAddresses {
    /// The set with one more address, and with the broadcast address of its network, if that has one.
    pub fn with(mut self, fib: u16, address: Address) -> OwnAddresses {
        let own = address.address;
        self.exact.insert((fib, own.to_bits()));
        self.first.entry(fib).and_modify(|a| *a = own.min(*a)).or_insert(own);
        self.filter(own.to_bits());
        if address.len < 31 {
            let broadcast = address.network().last().to_bits();
            self.broadcasts.insert((fib, broadcast));
            self.filter(broadcast);
        }
        self
    }

    fn filter(&mut self, address: u32) {
        let (word, mask) = bit(address);
        self.filter[word] |= mask;
    }

    /// Whether no packet may come from `address` in VRF `fib`: the router's own, or a broadcast address.
    #[inline(always)]
    pub fn forbids_source(&self, fib: u16, address: u32) -> bool {
        let (word, mask) = bit(address);
        self.filter[word & 7] & mask != 0 && self.forbids_exactly(fib, address)
    }

    #[cold]
    #[inline(never)]
    fn forbids_exactly(&self, fib: u16, address: u32) -> bool {
        self.exact.contains(&(fib, address)) || self.broadcasts.contains(&(fib, address))
    }

    /// The router's lowest address in VRF `fib`, for whoever needs one and has no better.
    pub fn first(&self, fib: u16) -> Option<Ipv4Addr> {
        self.first.get(&fib).copied()
    }

    /// Whether `address` is the router's own in VRF `fib`.
    #[inline(always)]
    pub fn contains(&self, fib: u16, address: u32) -> bool {
        let (word, mask) = bit(address);
        self.filter[word & 7] & mask != 0 && self.contains_exactly(fib, address)
    }

    #[cold]
    #[inline(never)]
    fn contains_exactly(&self, fib: u16, address: u32) -> bool {
        self.exact.contains(&(fib, address))
    }
}
