//! The router's own addresses, in a set for the quick check of each received packet.

use std::collections::{HashMap, HashSet};

use infra::lpm::Address as _;

use super::address::Address;
use super::family::Ip;
use super::packet::Packets;

/// The router's own addresses of one family, by VRF. A received packet with one of these source addresses is
/// a martian.
#[derive(Clone)]
pub struct OwnAddresses<A: Ip> {
    exact: HashSet<(u16, A::Bits)>,
    /// The lowest address of each VRF that is neither link-local nor tentative.
    first: HashMap<u16, A>,
    /// Subnet-router anycast addresses of connected networks, by VRF. Other routers may send from them; this
    /// router does not.
    anycast: HashSet<(u16, A::Bits)>,
    /// Broadcast addresses of connected networks, which are invalid sources too.
    broadcasts: HashSet<(u16, A::Bits)>,
    /// A Bloom filter with one hash, over the low bits of `exact` and `broadcasts`. For most packets, the filter alone shows that the
    /// source is in neither set.
    filter: [u64; 8],
}

impl<A: Ip> Default for OwnAddresses<A> {
    fn default() -> Self {
        let (exact, first, anycast, broadcasts) = Default::default();
        OwnAddresses { exact, first, anycast, broadcasts, filter: [0; 8] }
    }
}

/// Returns the position of an address in the Bloom filter: the index of a word, and a mask with one bit set.
/// Both depend on the low bits of the address, because the low bits differ among hosts.
#[inline(always)]
fn bit(address: u32) -> (usize, u64) {
    ((address & 7) as usize, 1 << (address >> 3 & 63))
}

impl<A: Packets> OwnAddresses<A> {
    /// Returns the set with one more interface address. The address's broadcast or anycast address, if it has
    /// one, is added, too. Link-local addresses are [scoped](Packets::scoped).
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

    /// Returns the set with a tentative address, which is not used as a source yet.
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

    /// True if no packet may have the source `address` in VRF `fib`, because this is an address of the router
    /// or a broadcast address.
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

    /// True if `address` is the subnet-router anycast address of a connected network in VRF `fib`.
    pub fn is_anycast(&self, fib: u16, address: A::Bits) -> bool {
        self.anycast.contains(&(fib, address))
    }

    /// Returns the router's lowest address in VRF `fib` that is neither link-local nor tentative. It is the source address when there is no
    /// better one.
    pub fn first(&self, fib: u16) -> Option<A> {
        self.first.get(&fib).copied()
    }

    /// True if `address` is the router's own in VRF `fib`, even if it is still tentative.
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
