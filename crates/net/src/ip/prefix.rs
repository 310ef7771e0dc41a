//! IPv4 prefixes.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An IPv4 prefix; bits beyond its length are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix4 {
    bits: u32,
    len: u8,
}

impl Prefix4 {
    /// 0.0.0.0/0.
    pub const DEFAULT: Prefix4 = Prefix4 { bits: 0, len: 0 };

    /// The prefix of `len` ≤ 32 bits (more count as 32) that `address` lies in.
    pub fn new(address: Ipv4Addr, len: u8) -> Prefix4 {
        let len = len.min(32);
        Prefix4 { bits: address.to_bits() & mask(len), len }
    }

    /// The prefix of one address.
    pub fn host(address: Ipv4Addr) -> Prefix4 {
        Prefix4::new(address, 32)
    }

    /// Its first address.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.bits)
    }

    /// Its first address as a number in host byte order.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Its length in bits, 0–32.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u8 {
        self.len
    }

    /// Whether `address` lies in it.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.len) == self.bits
    }

    /// Whether `other` is this prefix or lies in it.
    pub fn covers(self, other: Prefix4) -> bool {
        other.len >= self.len && self.contains(other.address())
    }

    /// Its last address: the directed broadcast address of a link.
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.bits | !mask(self.len))
    }

    /// The next prefix of the same length; `None` behind the last one.
    pub fn next(self) -> Option<Prefix4> {
        let step = 1u32.checked_shl(32 - u32::from(self.len))?;
        Some(Prefix4 { bits: self.bits.checked_add(step)?, len: self.len })
    }
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

impl fmt::Display for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.address(), self.len))
    }
}

impl FromStr for Prefix4 {
    type Err = String;
    fn from_str(s: &str) -> Result<Prefix4, String> {
        let wrong = || format!("\"{s}\" is not an IPv4 prefix like 192.0.2.0/24");
        let (address, len) = s.split_once('/').unwrap_or((s, "32"));
        let len: u8 = len.parse().ok().filter(|l| *l <= 32).ok_or_else(wrong)?;
        Ok(Prefix4::new(address.parse().map_err(|_| wrong())?, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_cover_what_they_should() {
        let p: Prefix4 = "10.1.0.0/16".parse().unwrap();
        assert!(p.contains(Ipv4Addr::new(10, 1, 255, 255)) && !p.contains(Ipv4Addr::new(10, 2, 0, 0)));
        assert_eq!(p.last(), Ipv4Addr::new(10, 1, 255, 255));
        assert_eq!(p.next().unwrap().to_string(), "10.2.0.0/16");
        assert!(Prefix4::DEFAULT.covers(p) && !p.covers(Prefix4::DEFAULT));
        assert_eq!("255.255.255.255/32".parse::<Prefix4>().unwrap().next(), None);
        assert_eq!(Prefix4::DEFAULT.next(), None);
        assert!("10.0.0.0/33".parse::<Prefix4>().is_err() && "10.0.0/8".parse::<Prefix4>().is_err());
    }
}
