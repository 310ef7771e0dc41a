//! Differences between IPv4 and IPv6 addresses and tables, for code that serves both families. The
//! differences between packets are in `packet.rs`.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use infra::lpm::{Address, Dir24Reader, Dir24Writer, Lpm, LpmLookup, TrieReader, TrieWriter, dir24, trie};
use infra::mem::Pages;
use infra::quiesce::Domain;

use super::path::Path;

/// Maximum number of /24 networks that contain longer prefixes, in one VRF.
const GROUPS: u32 = 1 << 20;

/// A value for each address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerFamily<T> {
    /// The IPv4 value.
    pub ip4: T,
    /// The IPv6 value.
    pub ip6: T,
}

impl<T> PerFamily<T> {
    /// Returns a family's value.
    pub fn of<A: Ip>(&self) -> &T {
        A::choose(&self.ip4, &self.ip6)
    }

    /// Returns a family's value, mutable.
    pub fn of_mut<A: Ip>(&mut self) -> &mut T {
        A::choose(&mut self.ip4, &mut self.ip6)
    }

    /// Returns both values, IPv4 first.
    pub fn each(self) -> [T; 2] {
        [self.ip4, self.ip6]
    }
}

/// The address type of a family. Generic code names the family by this type.
pub trait Ip: Copy + Ord + Hash + Debug + Display + FromStr + Into<IpAddr> + Send + Sync + 'static {
    /// The address as a number in host byte order.
    type Bits: Address;
    /// The lookup table of a VRF, as the main thread writes it.
    type Lookup: Lpm<Addr = Self::Bits>;
    /// The lookup table of a VRF, as workers read it.
    type Reader: LpmLookup<Addr = Self::Bits> + Clone + Send + Sync + 'static;

    /// "IPv4" or "IPv6".
    const NAME: &'static str;
    /// True if the last address of a network is its broadcast address.
    const HAS_BROADCAST: bool;
    /// An example prefix for error messages.
    const EXAMPLE: &'static str;
    /// Prefixes to which packets are never forwarded, unless there is a route for the same or a longer
    /// prefix. They are installed as routes of the least preferred source.
    const SPECIAL: &'static [(Self, u8, Path)];

    /// Returns the address as a number in host byte order.
    fn to_bits(self) -> Self::Bits;
    /// Returns the address of a number in host byte order.
    fn from_bits(bits: Self::Bits) -> Self;
    /// Returns the address if it is of this family.
    fn of(address: IpAddr) -> Option<Self>;
    /// Returns the one of the two values that is for this family.
    fn choose<T>(ip4: T, ip6: T) -> T;

    /// Returns the writer and the reader of an empty lookup table. If `large` is true, the table is for many
    /// routes: an IPv4 table then uses huge pages.
    ///
    /// # Errors
    /// If memory for the table cannot be allocated.
    fn table(domain: &Domain, large: bool) -> io::Result<(Self::Lookup, Self::Reader)>;
    /// Returns the cost of writing a prefix of this length: about how many entries of the table are written.
    fn cost(len: u8) -> usize;
}

impl Ip for Ipv4Addr {
    type Bits = u32;
    type Lookup = Dir24Writer;
    type Reader = Dir24Reader;

    const NAME: &'static str = "IPv4";
    const HAS_BROADCAST: bool = true;
    const EXAMPLE: &'static str = "192.0.2.0/24";
    /// Drops packets to "this network", loopback and reserved addresses (RFC 1812 section 5.3.7). Drops packets to link-local addresses,
    /// too, because the default route must not cover them (RFC 3927 section 7). Packets to the limited broadcast address (RFC 1812 section
    /// 5.3.5.1) are for this router.
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
    /// The unspecified address, loopback, and IPv4-mapped addresses, which never occur on the wire (RFC 6890
    /// section 2.2.3). Also link-local addresses (RFC 4291 section 2.5.6), which are valid on one link only.
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

    /// Returns the same cost for every prefix length: writing a prefix changes entries in only one node of the tree, or in the first table.
    fn cost(_: u8) -> usize {
        512
    }
}
