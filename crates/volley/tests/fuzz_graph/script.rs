//! A script: an input that is read as a sequence of choices. Any sequence of bytes is a valid script. When the bytes are used up, the
//! script ends.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::Mac;

/// Returns the router's address in network `n`; the addresses of the hosts in this network follow. The first networks are those of the
/// links.
pub fn own(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, n as u8, 1)
}

/// Returns the router's IPv6 address in network `n`; the addresses of the hosts in this network follow.
pub fn own6(n: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, n as u16, 0, 0, 0, 1)
}

fn special6(n: u8) -> Ipv6Addr {
    match n {
        0 => Ipv6Addr::UNSPECIFIED,
        1 => Ipv6Addr::LOCALHOST,
        2 => Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x0a00, 1),
        3..8 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, [1, 2, 5, 0x16, 0xfb][usize::from(n) - 3]),
        8..16 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, n.into()),
        16 => Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 1),
        17 => Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1),
        18..32 => Ipv6Addr::new(0xfe80, 0, 0, (n & 3).into(), 0, 0, 0, 1),
        n => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, (n & 7).into()),
    }
}

/// Returns one of a few addresses that hosts, routes and packets have in common, so that they often match.
fn special(n: u8) -> Ipv4Addr {
    match n {
        0 => Ipv4Addr::UNSPECIFIED,
        1 => Ipv4Addr::BROADCAST,
        2 => Ipv4Addr::LOCALHOST,
        3 => Ipv4Addr::new(224, 0, 0, 5),
        4 => Ipv4Addr::new(239, 1, 2, 3),
        5 => Ipv4Addr::new(240, 0, 0, 1),
        6 => Ipv4Addr::new(198, 18, 0, 1),
        7 => Ipv4Addr::new(0, 1, 2, 3),
        n => Ipv4Addr::new(10, 0, n & 7, n >> 3),
    }
}

/// A script: the bytes that are not used yet.
pub struct Script<'d> {
    data: &'d [u8],
}

impl<'d> Script<'d> {
    pub fn new(data: &'d [u8]) -> Script<'d> {
        Script { data }
    }

    /// True if all bytes are used; further choices are 0.
    pub fn is_over(&self) -> bool {
        self.data.is_empty()
    }

    pub fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.data.split_first() else { return 0 };
        self.data = rest;
        *first
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    /// Returns a number below `n`, which must be at most 256.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.u8()) % n.max(1)
    }

    /// Returns true with the probability 1/`n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Returns up to `n` bytes unchanged.
    pub fn bytes(&mut self, n: usize) -> &'d [u8] {
        let (now, rest) = self.data.split_at(n.min(self.data.len()));
        self.data = rest;
        now
    }

    pub fn address(&mut self) -> Ipv4Addr {
        match self.below(8) {
            0 => Ipv4Addr::from_bits(self.u32()),
            1 => special(self.u8()),
            2 => Ipv4Addr::new(10, 0, self.u8() & 7, self.u8()),
            3 => Ipv4Addr::new(10, self.u8() & 3, self.u8() & 3, self.u8() & 3),
            _ => Ipv4Addr::new(10, 0, self.u8() & 7, 1 + (self.u8() & 3)),
        }
    }

    pub fn address6(&mut self) -> Ipv6Addr {
        match self.below(8) {
            0 => Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|_| self.u8())),
            1 | 2 => special6(self.u8()),
            3 => Ipv6Addr::new(
                0x2001,
                0xdb8,
                (self.u8() & 3).into(),
                (self.u8() & 7).into(),
                0,
                0,
                0,
                self.u16(),
            ),
            _ => {
                Ipv6Addr::new(0x2001, 0xdb8, 0, (self.u8() & 7).into(), 0, 0, 0, (1 + (self.u8() & 3)).into())
            }
        }
    }

    pub fn mac(&mut self) -> Mac {
        match self.below(8) {
            0 => Mac::BROADCAST,
            1 => Mac::ZERO,
            2 => Mac([1, 0, 0x5e, 0, 0, self.u8()]),
            _ => Mac([2, 0, 0, 0, 1, self.u8() & 7]),
        }
    }
}
