//! The router's own addresses, as the input check reads them.

use std::collections::HashSet;

/// The router's own IPv4 addresses by VRF. A packet that claims to come from one of them is a martian.
#[derive(Clone, Default)]
pub struct OwnAddresses {
    exact: HashSet<(u16, u32)>,
    /// One bit by the hash of an address: most packets need no more than this.
    filter: [u64; 8],
}

#[inline(always)]
fn bit(address: u32) -> (usize, u64) {
    let h = address.wrapping_mul(0x9e37_79b1) >> 23;
    ((h >> 6) as usize, 1 << (h & 63))
}

impl OwnAddresses {
    /// The set of these addresses.
    pub fn new(addresses: impl IntoIterator<Item = (u16, u32)>) -> OwnAddresses {
        let exact: HashSet<(u16, u32)> = addresses.into_iter().collect();
        let mut filter = [0; 8];
        for (_, address) in &exact {
            let (word, mask) = bit(*address);
            filter[word] |= mask;
        }
        OwnAddresses { exact, filter }
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
