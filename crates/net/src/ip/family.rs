//! What IPv4 and IPv6 differ in, for code that serves both: addresses and tables here, packets in `packet.rs`.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use infra::lpm::{Address, Dir24Reader, Dir24Writer, Lpm, LpmLookup, TrieReader, TrieWriter, dir24, trie};
use infra::mem::Pages;
use infra::quiesce::Domain;

use super::path::Path;

/// /24s that have longer prefixes in them, at most, in one VRF.
const GROUPS: u32 = 1 << 20;

/// Something for each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerFamily<T> {
    /// That of IPv4.
    pub ip4: T,
    /// That of IPv6.
    pub ip6: T,
}

impl<T> PerFamily<T> {
    /// That of a family.
    pub fn of<A: Ip>(&self) -> &T {
        A::choose(&self.ip4, &self.ip6)
    }

    /// That of a family, to be changed.
    pub fn of_mut<A: Ip>(&mut self) -> &mut T {
        A::choose(&mut self.ip4, &mut self.ip6)
    }

    /// Both, that of IPv4 first.
    pub fn each(self) -> [T; 2] {
        [self.ip4, self.ip6]
    }
}

/// An address, by which its family is told.
pub trait Ip: Copy + Ord + Hash + Debug + Display + FromStr + Into<IpAddr> + Send + Sync + 'static {
    /// The address as a number in host byte order.
    type Bits: Address;
    /// The lookup table of a VRF as its writer has it.
    type Lookup: Lpm<Addr = Self::Bits>;
    /// And as workers have it.
    type Reader: LpmLookup<Addr = Self::Bits> + Clone + Send + Sync + 'static;

    /// "IPv4" or "IPv6".
    const NAME: &'static str;
    /// Whether the last address of a network means all its hosts.
    const HAS_BROADCAST: bool;
    /// A prefix, for whoever typed something else.
    const EXAMPLE: &'static str;
    /// Destinations that no packet may be forwarded to, whatever longer or shorter routes there are, unless somebody says so.
    const SPECIAL: &'static [(Self, u8, Path)];

    /// As a number in host byte order.
    fn to_bits(self) -> Self::Bits;
    /// From a number in host byte order.
    fn from_bits(bits: Self::Bits) -> Self;
    /// The address, if it is of this family.
    fn of(address: IpAddr) -> Option<Self>;
    /// What is this family's of the two.
    fn choose<T>(ip4: T, ip6: T) -> T;

    /// Makes an empty lookup table; `large` if it is to have memory for many routes at once.
    ///
    /// # Errors
    /// When memory is not to be had.
    fn table(domain: &Domain, large: bool) -> io::Result<(Self::Lookup, Self::Reader)>;
    /// What it costs to write a prefix of this length into the table, in entries of it.
    fn cost(len: u8) -> usize;
}

impl Ip for Ipv4Addr {
    type Bits = u32;
    type Lookup = Dir24Writer;
    type Reader = Dir24Reader;

    const NAME: &'static str = "IPv4";
    const HAS_BROADCAST: bool = true;
    const EXAMPLE: &'static str = "192.0.2.0/24";
    /// RFC 1812 sections 5.3.5.1 and 5.3.7: "this network", loopback, reserved; and the limited broadcast, which is for
    /// whoever hears it. RFC 3927 section 7: link-local addresses, which no default route covers.
    const SPECIAL: &'static [(Ipv4Addr, u8, Path)] = &[
        (Ipv4Addr::new(0, 0, 0, 0), 8, Path::Drop),
        (Ipv4Addr::new(127, 0, 0, 0), 8, Path::Drop),
        (Ipv4Addr::new(169, 254, 0, 0), 16, Path::Drop),
        (Ipv4Addr::new(240, 0, 0, 0), 4, Path::Drop),
        (Ipv4Addr::BROADCAST, 32, Path::Local),
    ];

    fn to_bits(self) -> u32 {
        Ipv4Addr::to_bits(self)
    }

    fn from_bits(bits: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(bits)
    }

    #[inline(always)]
    fn choose<T>(ip4: T, _: T) -> T {
        ip4
    }

    fn of(address: IpAddr) -> Option<Ipv4Addr> {
        if let IpAddr::V4(address) = address { Some(address) } else { None }
    }

    fn table(domain: &Domain, large: bool) -> io::Result<(Dir24Writer, Dir24Reader)> {
        dir24(domain, GROUPS, if large { Pages::Huge } else { Pages::Small })
    }

    fn cost(len: u8) -> usize {
        1 << (24 - len.clamp(9, 24))
    }
}

impl Ip for Ipv6Addr {
    type Bits = u128;
    type Lookup = TrieWriter;
    type Reader = TrieReader;

    const NAME: &'static str = "IPv6";
    const HAS_BROADCAST: bool = false;
    const EXAMPLE: &'static str = "2001:db8::/32";
    /// RFC 6890 section 2.2.3: the unspecified address, loopback, and IPv4 addresses in the form of IPv6 are on no wire; link-local
    /// ones (RFC 4291 section 2.5.6) are on one link only.
    const SPECIAL: &'static [(Ipv6Addr, u8, Path)] = &[
        (Ipv6Addr::UNSPECIFIED, 128, Path::Drop),
        (Ipv6Addr::LOCALHOST, 128, Path::Drop),
        (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, Path::Drop),
        (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, Path::LinkLocal),
    ];

    fn to_bits(self) -> u128 {
        Ipv6Addr::to_bits(self)
    }

    fn from_bits(bits: u128) -> Ipv6Addr {
        Ipv6Addr::from_bits(bits)
    }

    #[inline(always)]
    fn choose<T>(_: T, ip6: T) -> T {
        ip6
    }

    fn of(address: IpAddr) -> Option<Ipv6Addr> {
        if let IpAddr::V6(address) = address { Some(address) } else { None }
    }

    fn table(domain: &Domain, _: bool) -> io::Result<(TrieWriter, TrieReader)> {
        trie(domain)
    }

    /// A change reaches a node's entries, or some of the first table's, and never what lies below.
    fn cost(_: u8) -> usize {
        512
    }
}
