//! The router's own addresses, as the input check reads them.

use std::collections::{HashMap, HashSet};

use infra::lpm::Address as _;

use super::address::Address;
use super::family::Ip;
use super::packet::Packets;

/// The router's own addresses of a family by VRF. A packet that claims to come from one of them is a martian.
#[derive(Clone)]
pub struct OwnAddresses<A: Ip> {
    exact: HashSet<(u16, A::Bits)>,
    /// The lowest address by VRF.
    first: HashMap<u16, A>,
    /// Addresses that all routers of a connected network have, by VRF. Others may send from them, and this router does not.
    anycast: HashSet<(u16, A::Bits)>,
    /// Broadcast addresses of connected networks: nobody's source either.
    broadcasts: HashSet<(u16, A::Bits)>,
    /// One bit by the low bits of an address, for both sets: most packets need no more than this.
    filter: [u64; 8],
}

impl<A: Ip> Default for OwnAddresses<A> {
    fn default() -> Self {
        let (exact, first, anycast, broadcasts) = Default::default();
        OwnAddresses { exact, first, anycast, broadcasts, filter: [0; 8] }
    }
}

/// The low bits of an address are the ones that differ among hosts.
#[inline(always)]
fn bit(address: u32) -> (usize, u64) {
    ((address & 7) as usize, 1 << (address >> 3 & 63))
}

impl<A: Packets> OwnAddresses<A> {
    /// The set with one more address, that of an interface, and with the broadcast or anycast address of its network, if that has
    /// one. Link-local ones are in it [scoped](Packets::scoped).
    pub fn with(mut self, fib: u16, address: Address<A>, interface: u32) -> OwnAddresses<A> {
        let own = address.address;
        if A::scoped(own.to_bits(), interface) == own.to_bits() {
            self.first.entry(fib).and_modify(|a| *a = own.min(*a)).or_insert(own);
        }
        if A::HAS_BROADCAST && address.len < A::Bits::BITS - 1 {
            let broadcast = address.prefix().last().to_bits();
            self.broadcasts.insert((fib, broadcast));
            self.filter(broadcast);
        }
        let anycast = address.anycast().map(|a| (fib, A::scoped(a.to_bits(), interface)));
        self.anycast.extend(anycast);
        self.with_tentative(fib, own, interface)
    }

    /// The set with an address that is not used yet: nothing is sent from it.
    pub fn with_tentative(mut self, fib: u16, address: A, interface: u32) -> OwnAddresses<A> {
        let scoped = A::scoped(address.to_bits(), interface);
        self.exact.insert((fib, scoped));
        self.filter(scoped);
        self
    }

    fn filter(&mut self, address: A::Bits) {
        let (word, mask) = bit(address.low());
        self.filter[word] |= mask;
    }

    /// Whether no packet may come from `address` in VRF `fib`: the router's own, or a broadcast address.
    #[inline(always)]
    pub fn forbids_source(&self, fib: u16, address: A::Bits) -> bool {
        let (word, mask) = bit(address.low());
        self.filter[word & 7] & mask != 0 && self.forbids_exactly(fib, address)
    }

    #[cold]
    #[inline(never)]
    fn forbids_exactly(&self, fib: u16, address: A::Bits) -> bool {
        self.exact.contains(&(fib, address)) || self.broadcasts.contains(&(fib, address))
    }

    /// Whether `address` is that of all routers of a network that this one is connected to in VRF `fib`.
    pub fn is_anycast(&self, fib: u16, address: A::Bits) -> bool {
        self.anycast.contains(&(fib, address))
    }

    /// The router's lowest address in VRF `fib` that is no link-local one, for whoever needs one and has no better.
    pub fn first(&self, fib: u16) -> Option<A> {
        self.first.get(&fib).copied()
    }

    /// Whether `address` is the router's own in VRF `fib`.
    #[inline(always)]
    pub fn contains(&self, fib: u16, address: A::Bits) -> bool {
        let (word, mask) = bit(address.low());
        self.filter[word & 7] & mask != 0 && self.contains_exactly(fib, address)
    }

    #[cold]
    #[inline(never)]
    fn contains_exactly(&self, fib: u16, address: A::Bits) -> bool {
        self.exact.contains(&(fib, address))
    }
}
