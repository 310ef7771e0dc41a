//! Prefixes of either family.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use infra::lpm::Address;

use super::family::Ip;

/// A prefix. Its host bits are 0.
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
    /// The default route's prefix, which covers all addresses.
    pub const DEFAULT: Prefix<A> = Prefix { bits: A::Bits::ZERO, len: 0 };

    /// Returns the prefix of `len` bits that contains `address`. A `len` beyond the address length counts as
    /// the address length.
    pub fn new(address: A, len: u8) -> Prefix<A> {
        let (bits, len) = address.to_bits().canonical(len);
        Prefix { bits, len }
    }

    /// Returns the host prefix of one address.
    pub fn host(address: A) -> Prefix<A> {
        Prefix::new(address, A::Bits::BITS)
    }

    /// Parses a prefix. Set host bits are refused, because either the address or the length may be wrong.
    ///
    /// # Errors
    /// Returns a message that describes what is wrong in the text.
    pub fn exact(text: &str) -> Result<Prefix<A>, String> {
        let prefix: Prefix<A> = text.parse()?;
        match text.split('/').next().and_then(|address| address.parse::<A>().ok()) {
            Some(address) if prefix.address() == address => Ok(prefix),
            _ => Err(format!("{text} has host bits set: did you mean {prefix}?")),
        }
    }

    /// Returns the first address of the prefix.
    pub fn address(self) -> A {
        A::from_bits(self.bits)
    }

    /// The first address of the prefix as a number in host byte order.
    pub fn bits(self) -> A::Bits {
        self.bits
    }

    /// The length of the prefix in bits.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u8 {
        self.len
    }

    /// True if the prefix contains `address`.
    pub fn contains(self, address: A) -> bool {
        self.bits.covers(self.len, address.to_bits())
    }

    /// True if the prefix contains `other` or is equal to it.
    pub fn covers(self, other: Prefix<A>) -> bool {
        other.len >= self.len && self.contains(other.address())
    }

    /// Returns the last address of the prefix. For an IPv4 network, it is the directed broadcast address.
    pub fn last(self) -> A {
        A::from_bits(self.bits.last(self.len))
    }

    /// Returns the next prefix of the same length; `None` after the last one.
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

/// A prefix of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpPrefix {
    /// An IPv4 prefix.
    V4(Prefix4),
    /// An IPv6 prefix.
    V6(Prefix6),
}

impl IpPrefix {
    /// Returns the prefix of `len` bits that contains `address`. A `len` beyond the address length counts as
    /// the address length.
    pub fn new(address: IpAddr, len: u8) -> IpPrefix {
        match address {
            IpAddr::V4(address) => IpPrefix::V4(Prefix::new(address, len)),
            IpAddr::V6(address) => IpPrefix::V6(Prefix::new(address, len)),
        }
    }

    /// Returns the host prefix of one address.
    pub fn host(address: IpAddr) -> IpPrefix {
        IpPrefix::new(address, u8::MAX)
    }

    /// Returns the prefix of the default route of the same family.
    pub fn whole(self) -> IpPrefix {
        IpPrefix::new(self.address(), 0)
    }

    /// Parses a prefix. Set host bits are refused.
    ///
    /// # Errors
    /// Returns a message that describes what is wrong in the text.
    pub fn exact(text: &str) -> Result<IpPrefix, String> {
        if text.contains(':') {
            Prefix::exact(text).map(IpPrefix::V6)
        } else {
            Prefix::exact(text).map(IpPrefix::V4)
        }
    }

    /// Returns the prefix as a `Prefix<A>`; `None` if it is of the other family.
    pub fn of<A: Ip>(self) -> Option<Prefix<A>> {
        A::of(self.address()).map(|address| Prefix::new(address, self.len()))
    }

    /// The first address of the prefix.
    pub fn address(self) -> IpAddr {
        match self {
            IpPrefix::V4(p) => p.address().into(),
            IpPrefix::V6(p) => p.address().into(),
        }
    }

    /// The last address of the prefix.
    pub fn last(self) -> IpAddr {
        match self {
            IpPrefix::V4(p) => p.last().into(),
            IpPrefix::V6(p) => p.last().into(),
        }
    }

    /// The length of the prefix in bits.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u8 {
        match self {
            IpPrefix::V4(p) => p.len(),
            IpPrefix::V6(p) => p.len(),
        }
    }

    /// True if the prefix contains `address`.
    pub fn contains(self, address: IpAddr) -> bool {
        self.covers(IpPrefix::host(address))
    }

    /// True if the prefix contains `other` or is equal to it.
    pub fn covers(self, other: IpPrefix) -> bool {
        match (self, other) {
            (IpPrefix::V4(mine), IpPrefix::V4(other)) => mine.covers(other),
            (IpPrefix::V6(mine), IpPrefix::V6(other)) => mine.covers(other),
            _ => false,
        }
    }

    /// Returns the `n`th prefix of the same length after this one (0: this one); `None` after the last one.
    pub fn nth(self, n: u32) -> Option<IpPrefix> {
        let bits = match self {
            IpPrefix::V4(p) => u128::from(p.bits()) << 96,
            IpPrefix::V6(p) => p.bits(),
        };
        let step = 1u128.checked_shl(128 - u32::from(self.len())).unwrap_or(0);
        let on = bits.checked_add(if step == 0 && n > 0 { None } else { step.checked_mul(n.into()) }?)?;
        Some(match self {
            IpPrefix::V4(p) => IpPrefix::V4(Prefix::new(Ipv4Addr::from_bits((on >> 96) as u32), p.len())),
            IpPrefix::V6(p) => IpPrefix::V6(Prefix::new(Ipv6Addr::from_bits(on), p.len())),
        })
    }

    /// Returns the number of prefixes of the same length from this one to the last one, both included; at most [`u128::MAX`].
    pub fn from_here_on(self) -> u128 {
        let (bits, most) = match self {
            IpPrefix::V4(p) => (u128::from(p.bits()) << 96, 1u128.checked_shl(p.len().into())),
            IpPrefix::V6(p) => (p.bits(), 1u128.checked_shl(p.len().into())),
        };
        let before = bits.checked_shr(128 - u32::from(self.len())).unwrap_or(0);
        // There are 2¹²⁸ prefixes of 128 bits.
        most.map_or((u128::MAX - before).saturating_add(1), |most| most - before)
    }
}

impl<A: Ip> From<Prefix<A>> for IpPrefix {
    fn from(prefix: Prefix<A>) -> IpPrefix {
        IpPrefix::new(prefix.address().into(), prefix.len())
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpPrefix::V4(p) => p.fmt(f),
            IpPrefix::V6(p) => p.fmt(f),
        }
    }
}

impl FromStr for IpPrefix {
    type Err = String;
    fn from_str(s: &str) -> Result<IpPrefix, String> {
        if s.contains(':') { s.parse().map(IpPrefix::V6) } else { s.parse().map(IpPrefix::V4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_contain_and_cover_their_range() {
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
        let nth = |text: &str, n| text.parse::<IpPrefix>().unwrap().nth(n).map(|p| p.to_string());
        assert_eq!(nth("10.0.0.0/24", 256), Some("10.1.0.0/24".into()));
        assert_eq!(
            (nth("255.255.255.254/32", 1), nth("255.255.255.254/32", 2)),
            (Some("255.255.255.255/32".into()), None)
        );
        assert_eq!((nth("0.0.0.0/0", 0), nth("::/0", 1)), (Some("0.0.0.0/0".into()), None));
        assert_eq!((nth("2001:db8::/64", 1), nth("ffff::/16", 1)), (Some("2001:db8:0:1::/64".into()), None));
        let left = |text: &str| text.parse::<IpPrefix>().unwrap().from_here_on();
        assert_eq!(
            (left("255.255.255.254/32"), left("0.0.0.0/0"), left("ffff::/16"), left("::/0")),
            (2, 1, 1, 1)
        );
        assert_eq!((left("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"), left("::/128")), (1, u128::MAX));
        assert!("10.0.0.0/33".parse::<Prefix4>().is_err() && "10.0.0/8".parse::<Prefix4>().is_err());
    }
}
