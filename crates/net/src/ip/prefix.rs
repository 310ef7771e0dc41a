//! Prefixes of either family.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use infra::lpm::Address;

use super::family::Ip;

/// A prefix; bits beyond its length are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A: Ip> {
    bits: A::Bits,
    len: u8,
}

/// An IPv4 prefix.
pub type Prefix4 = Prefix<Ipv4Addr>;
/// An IPv6 prefix.
pub type Prefix6 = Prefix<Ipv6Addr>;

impl<A: Ip> Prefix<A> {
    /// All addresses: the default route's.
    pub const DEFAULT: Prefix<A> = Prefix { bits: A::Bits::ZERO, len: 0 };

    /// The prefix of `len` bits (more than an address has count as all) that `address` lies in.
    pub fn new(address: A, len: u8) -> Prefix<A> {
        let (bits, len) = address.to_bits().canonical(len);
        Prefix { bits, len }
    }

    /// The prefix of one address.
    pub fn host(address: A) -> Prefix<A> {
        Prefix::new(address, A::Bits::BITS)
    }

    /// The prefix that a text names, with zeros behind its length: what is meant by others is not clear.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn exact(text: &str) -> Result<Prefix<A>, String> {
        let prefix: Prefix<A> = text.parse()?;
        match text.split('/').next().and_then(|address| address.parse::<A>().ok()) {
            Some(address) if prefix.address() == address => Ok(prefix),
            _ => Err(format!("{text} has bits behind its length: {prefix} is meant, or another length")),
        }
    }

    /// Its first address.
    pub fn address(self) -> A {
        A::from_bits(self.bits)
    }

    /// Its first address as a number in host byte order.
    pub fn bits(self) -> A::Bits {
        self.bits
    }

    /// Its length in bits.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u8 {
        self.len
    }

    /// Whether `address` lies in it.
    pub fn contains(self, address: A) -> bool {
        self.bits.covers(self.len, address.to_bits())
    }

    /// Whether `other` is this prefix or lies in it.
    pub fn covers(self, other: Prefix<A>) -> bool {
        other.len >= self.len && self.contains(other.address())
    }

    /// Its last address: of an IPv4 link, the directed broadcast address.
    pub fn last(self) -> A {
        A::from_bits(self.bits.last(self.len))
    }

    /// The next prefix of the same length; `None` behind the last one.
    pub fn next(self) -> Option<Prefix<A>> {
        let bits = self.bits.last(self.len).next()?;
        Some(Prefix { bits, len: self.len })
    }
}

impl<A: Ip> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.address(), self.len))
    }
}

impl<A: Ip> FromStr for Prefix<A> {
    type Err = String;
    fn from_str(s: &str) -> Result<Prefix<A>, String> {
        let wrong = || format!("\"{s}\" is not an {} prefix like {}", A::NAME, A::EXAMPLE);
        let (address, len) = match s.split_once('/') {
            Some((address, len)) => (address, len.parse().map_err(|_| wrong())?),
            None => (s, A::Bits::BITS),
        };
        if len > A::Bits::BITS {
            return Err(wrong());
        }
        Ok(Prefix::new(address.parse().map_err(|_| wrong())?, len))
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
        let p: Prefix6 = "2001:db8::/32".parse().unwrap();
        assert_eq!(
            (p.last().to_string(), p.next()),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff".into(), "2001:db9::/32".parse().ok())
        );
        assert!(p.contains("2001:db8:1::9".parse().unwrap()) && !p.contains("2001:db9::".parse().unwrap()));
        assert!(
            "2001:db8::/129"
                .parse::<Prefix6>()
                .unwrap_err()
                .contains("is not an IPv6 prefix like 2001:db8::/32")
        );
        assert!("10.0.0.0/33".parse::<Prefix4>().is_err() && "10.0.0/8".parse::<Prefix4>().is_err());
    }
}
