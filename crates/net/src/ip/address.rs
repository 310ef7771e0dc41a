//! Addresses of interfaces.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use infra::lpm::Address as _;
use wire::{ipv4, ipv6};

use super::family::Ip;
use super::prefix::{IpPrefix, Prefix};

/// The reason why an interface cannot have an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress(pub String);

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for BadAddress {}

/// An address of an interface. With `A = IpAddr` it is of either family, otherwise of the family `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address<A = IpAddr> {
    /// The router's own address.
    pub address: A,
    /// Length of the connected network's prefix in bits.
    pub len: u8,
}

impl model::cli::FromArg for Address {
    fn from_arg(value: &model::cli::Value, call: &model::cli::Call) -> Option<Address> {
        let (address, len): (IpAddr, u8) = model::cli::FromArg::from_arg(value, call)?;
        Some(Address { address, len })
    }
}

impl Address {
    /// Returns an address of either family.
    pub fn new(address: impl Into<IpAddr>, len: u8) -> Address {
        Address { address: address.into(), len }
    }

    /// Returns the address as an `Address<A>`; `None` if it is of the other family.
    pub fn of<A: Ip>(self) -> Option<Address<A>> {
        Some(Address { address: A::of(self.address)?, len: self.len })
    }

    /// Returns the connected network.
    pub fn network(self) -> IpPrefix {
        IpPrefix::new(self.address, self.len)
    }

    /// True if the address is link-local (RFC 4291 section 2.5.6). Several links may have the same link-local
    /// network.
    pub fn is_link_local(self) -> bool {
        matches!(self.address, IpAddr::V6(a) if ipv6::is_link_local(a.to_bits()))
    }

    /// True if `other` is an address of the connected network that hosts do not use: the first one or, with IPv4, the last one. False in a
    /// network of one or two addresses, and for an address of the other family.
    pub fn is_end(self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(address), IpAddr::V4(other)) => Address { address, len: self.len }.is_end(other),
            (IpAddr::V6(address), IpAddr::V6(other)) => Address { address, len: self.len }.is_end(other),
            _ => false,
        }
    }

    /// Checks that an interface can have this address.
    ///
    /// # Errors
    /// Fails if the address is not a host address, or if the prefix length is out of range.
    pub fn check(self) -> Result<(), BadAddress> {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        if self.len == 0 || self.len > most {
            return Err(BadAddress(format!("the prefix length of {self} must be 1 to {most}")));
        }
        let no_host = match self.address {
            IpAddr::V4(a) => {
                a.is_unspecified() || ipv4::is_martian_source(a.to_bits()) || a.to_bits() >> 28 == 0xf
            }
            // A link-local address with other bits in the middle would belong to another link (see
            // `Packets::scoped`).
            IpAddr::V6(a) => {
                let a = a.to_bits();
                ipv6::is_unspecified(a) || ipv6::is_martian_source(a) || ipv6::is_bad_link_local(a)
            }
        };
        if self.is_link_local() && self.len < 64 {
            return Err(BadAddress(format!(
                "the prefix length of {self} must be 64 to 128: every link-local network is fe80::/64 or inside it"
            )));
        }
        if no_host {
            return Err(BadAddress(format!("{} cannot be an interface's address", self.address)));
        }
        if self.is_end(self.address) {
            let (address, network) = (self.address, self.network());
            return Err(BadAddress(format!(
                "{address} is the first or last address of {network}, not a host address"
            )));
        }
        Ok(())
    }
}

impl<A: Ip> Address<A> {
    /// Returns the connected network.
    pub fn prefix(self) -> Prefix<A> {
        Prefix::new(self.address, self.len)
    }

    /// Returns the anycast address of all routers of the connected network (RFC 4291 section 2.6.1), which is the first address of an IPv6
    /// network. IPv4 networks, and networks of two addresses (RFC 6164) or one, have none.
    pub fn anycast(self) -> Option<A> {
        (!A::HAS_BROADCAST && self.len < A::Bits::BITS - 1).then(|| self.prefix().address())
    }

    /// True if `other` is the first address of the connected network or, with IPv4, the last one: hosts do not use these. The first address
    /// is the network itself or, with IPv6, the subnet-router anycast address (RFC 4291 section 2.6.1). The last address is the directed
    /// broadcast of IPv4 (RFC 1812 section 4.2.2.11). In networks of two addresses or one, hosts use all addresses (RFC 3021, RFC 6164).
    pub fn is_end(self, other: A) -> bool {
        let network = self.prefix();
        self.len < A::Bits::BITS - 1
            && (other == network.address() || A::HAS_BROADCAST && other == network.last())
    }
}

impl<A: fmt::Display> fmt::Display for Address<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl From<Address<Ipv4Addr>> for Address {
    fn from(a: Address<Ipv4Addr>) -> Address {
        Address::new(a.address, a.len)
    }
}

impl From<Address<Ipv6Addr>> for Address {
    fn from(a: Address<Ipv6Addr>) -> Address {
        Address::new(a.address, a.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        let (address, len) = text.split_once('/').unwrap();
        Address::new(address.parse::<IpAddr>().unwrap(), len.parse().unwrap())
    }

    #[test]
    fn only_host_addresses_are_valid_for_interfaces() {
        for good in
            ["10.0.0.1/24", "10.0.0.0/31", "10.0.0.9/32", "2001:db8::1/64", "2001:db8::/127", "fe80::1/64"]
        {
            assert_eq!(address(good).check(), Ok(()), "{good}");
        }
        // The last address of an IPv6 network is a host address; the first one is its routers' anycast
        // address.
        assert_eq!(address("2001:db8::ffff:ffff:ffff:ffff/64").check(), Ok(()));
        for (bad, why) in [
            ("10.0.0.0/24", "10.0.0.0 is the first or last address of 10.0.0.0/24"),
            ("10.0.0.255/24", "first or last"),
            ("224.0.0.1/24", "cannot be an interface's address"),
            ("10.0.0.1/33", "must be 1 to 32"),
            ("2001:db8::/64", "2001:db8:: is the first or last address of 2001:db8::/64"),
            ("::1/128", "cannot be"),
            ("ff02::1/64", "cannot be"),
            ("::/64", "cannot be"),
            ("fe80:0:0:3::1/64", "cannot be"),
            ("fe90::1/64", "cannot be"),
            ("2001:db8::1/0", "must be 1 to 128"),
            ("fe80::1/10", "must be 64 to 128"),
        ] {
            assert!(address(bad).check().unwrap_err().0.contains(why), "{bad}");
        }
    }
}
