//! What tells flows apart, and a hash of it.
//!
//! All fragments of a datagram hash alike, and so do all packets of a connection: a fragment, the first one too,
//! counts as having no ports. This is the plain version, which vectorised ones have to agree with.

use crate::ethernet::ethertype;
use crate::extension::{self, Chain};
use crate::ipv4::{Ipv4Header, protocol};
use crate::ipv6::Ipv6Header;

/// Addresses, ports and protocol of an IPv4 packet, in host order. Ports are 0 where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FiveTuple {
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// IP protocol.
    pub protocol: u8,
}

/// The five-tuple of the IPv4 packet at the front of `l3`; `None` if there is no whole IPv4 header.
///
/// A packet whose transport header is cut off counts as having no ports.
#[inline]
pub fn five_tuple(l3: &[u8]) -> Option<FiveTuple> {
    let (ip, _) = Ipv4Header::split(l3)?;
    if ip.version() != 4 || ip.ihl() < 5 {
        return None;
    }
    let l4 = l3.get(ip.header_len()..)?;
    let ports = match l4.first_chunk::<4>() {
        Some(&ports) if protocol::has_ports(ip.protocol()) && !ip.is_fragment() => u32::from_be_bytes(ports),
        _ => 0,
    };
    Some(FiveTuple {
        src: ip.src_u32(),
        dst: ip.dst_u32(),
        src_port: (ports >> 16) as u16,
        dst_port: ports as u16,
        protocol: ip.protocol(),
    })
}

impl FiveTuple {
    /// The five-tuple of the opposite direction.
    #[inline(always)]
    pub const fn reversed(self) -> FiveTuple {
        FiveTuple {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }

    /// A hash in which every bit of the five-tuple reaches every bit of the result, for load sharing: the two directions
    /// of a connection hash differently.
    #[inline(always)]
    pub const fn hash(self) -> u32 {
        let ports = (self.src_port as u32) << 16 | self.dst_port as u32;
        hash_words(self.protocol as u32, self.src, self.dst, ports)
    }

    /// As [`hash`](Self::hash), but both directions of a connection hash alike.
    #[inline(always)]
    pub const fn symmetric_hash(self) -> u32 {
        let a = (self.src as u64) << 16 | self.src_port as u64;
        let b = (self.dst as u64) << 16 | self.dst_port as u64;
        if a <= b { self.hash() } else { self.reversed().hash() }
    }
}

/// As [`FiveTuple`], of an IPv6 packet. A fragment has the protocol [`protocol::FRAGMENT`], for the fragments of a datagram
/// need not agree about what they carry (RFC 8200 section 4.5); and so has a packet whose upper layer is not to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FiveTuple6 {
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol of the upper layer.
    pub protocol: u8,
}

/// The five-tuple of the IPv6 packet at the front of `l3`, behind its extension headers; `None` if there is no whole
/// IPv6 header.
///
/// A packet whose transport header is cut off counts as having no ports.
#[inline]
pub fn five_tuple6(l3: &[u8]) -> Option<FiveTuple6> {
    let (ip, _) = Ipv6Header::split(l3).filter(|(ip, _)| ip.version() == 6)?;
    let (protocol, upper) = upper_layer(ip, l3);
    Some(tuple6(ip, protocol, upper))
}

/// What an IPv6 packet carries, and its bytes: of a fragment, and where that is not to be found, nothing.
#[inline]
fn upper_layer<'a>(ip: &Ipv6Header, l3: &'a [u8]) -> (u8, &'a [u8]) {
    let (protocol, offset) = match ip.next_header() {
        first if extension::is_extension(first) => behind_extensions(l3),
        protocol => (protocol, Ipv6Header::LEN),
    };
    (protocol, l3.get(offset..).unwrap_or(&[]))
}

/// The same behind extension headers, which few packets have, and where it begins.
#[inline(never)]
fn behind_extensions(l3: &[u8]) -> (u8, usize) {
    match Chain::of(l3) {
        Ok(chain) if !chain.is_fragment() => (chain.protocol, chain.offset),
        _ => (protocol::FRAGMENT, l3.len()),
    }
}

/// The five-tuple of a packet with this header that carries `upper`.
#[inline]
fn tuple6(ip: &Ipv6Header, protocol: u8, upper: &[u8]) -> FiveTuple6 {
    let ports = match upper.first_chunk::<4>() {
        Some(&ports) if protocol::has_ports(protocol) => u32::from_be_bytes(ports),
        _ => 0,
    };
    FiveTuple6 {
        src: ip.src_u128(),
        dst: ip.dst_u128(),
        src_port: (ports >> 16) as u16,
        dst_port: ports as u16,
        protocol,
    }
}

impl FiveTuple6 {
    /// The five-tuple of the opposite direction.
    #[inline(always)]
    pub const fn reversed(self) -> FiveTuple6 {
        FiveTuple6 {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }

    /// As [`FiveTuple::hash`].
    #[inline(always)]
    pub const fn hash(self) -> u32 {
        let ports = (self.src_port as u32) << 16 | self.dst_port as u32;
        ends_hash(self.protocol as u32, fold(self.src), fold(self.dst), ports)
    }

    /// As [`FiveTuple::symmetric_hash`].
    #[inline(always)]
    pub const fn symmetric_hash(self) -> u32 {
        let (src, dst) = (fold(self.src), fold(self.dst));
        if src < dst || (src == dst && self.src_port <= self.dst_port) {
            self.hash()
        } else {
            self.reversed().hash()
        }
    }
}

/// VLAN tags that [`frame_hash`] looks behind.
const TAGS: usize = 3;
/// Headers of tunnels that it looks behind.
const TUNNELS: usize = 2;

/// A hash of the flow that an Ethernet frame belongs to, for sharing the work on flows: both directions of a connection
/// hash alike, and so do all fragments of a datagram.
///
/// It looks behind VLAN tags, and into IP in IP (RFC 2003, 4213) and GRE without routing (RFC 2784, 2890), whose outer
/// headers are the same for all that a tunnel carries. VXLAN and its like tell their flows apart by the outer source port
/// (RFC 7348 section 5). What is no IP packet is told apart by its stations and its type.
pub fn frame_hash(frame: &[u8]) -> u32 {
    let Some(stations) = frame.first_chunk::<12>() else { return 0 };
    let (mut at, mut kind) = (12, be16(frame, 12));
    for _ in 0..TAGS {
        match kind {
            Some(tag) if ethertype::is_vlan(tag) => (at, kind) = (at + 4, be16(frame, at + 4)),
            _ => break,
        }
    }
    let kind = kind.unwrap_or(0);
    let packet = frame.get(at + 2..).unwrap_or_default();
    packet_hash(kind, packet, TUNNELS).unwrap_or_else(|| {
        let (dst, src) = stations.split_at(6);
        let word = |mac: &[u8]| mac.iter().fold(0, |word: u64, byte| word << 8 | u64::from(*byte));
        let (a, b) = (word(dst), word(src));
        ends_hash(kind.into(), a.min(b), a.max(b), 0)
    })
}

/// The hash of an IP packet; `None` for what is none.
fn packet_hash(kind: u16, packet: &[u8], tunnels: usize) -> Option<u32> {
    match kind {
        ethertype::IPV4 => {
            let tuple = five_tuple(packet)?;
            let header = usize::from(packet[0] & 15) * 4;
            let whole = Ipv4Header::split(packet).is_some_and(|(ip, _)| !ip.is_fragment());
            let inner = || inner_hash(tuple.protocol, packet.get(header..)?, tunnels);
            Some(whole.then(inner).flatten().unwrap_or_else(|| tuple.symmetric_hash()))
        }
        ethertype::IPV6 => {
            let (ip, _) = Ipv6Header::split(packet)?;
            let (protocol, upper) = upper_layer(ip, packet);
            let inner = inner_hash(protocol, upper, tunnels);
            Some(inner.unwrap_or_else(|| tuple6(ip, protocol, upper).symmetric_hash()))
        }
        _ => None,
    }
}

/// The hash of what a tunnel carries; `None` for what is no tunnel, or nothing that flows could be told from.
fn inner_hash(protocol: u8, payload: &[u8], tunnels: usize) -> Option<u32> {
    let tunnels = tunnels.checked_sub(1)?;
    match protocol {
        protocol::IPIP => packet_hash(ethertype::IPV4, payload, tunnels),
        protocol::IPV6 => packet_hash(ethertype::IPV6, payload, tunnels),
        protocol::GRE => {
            let flags = be16(payload, 0)?;
            // Checksum, key and sequence number are four bytes each; version 0, no source routing.
            if flags & 0x4fff != 0 {
                return None;
            }
            let options = (flags & 0xb000).count_ones() as usize;
            packet_hash(be16(payload, 2)?, payload.get(4 + 4 * options..)?, tunnels)
        }
        _ => None,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

/// 128 bits in 64, so that those that differ in a few bits anywhere differ.
const fn fold(address: u128) -> u64 {
    ((address >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ address as u64
}

/// A hash of two ends, in this order, and their ports.
#[inline(always)]
const fn ends_hash(seed: u32, a: u64, b: u64, ports: u32) -> u32 {
    let words = hash_words(seed, (a >> 32) as u32, a as u32, ports);
    hash_words(words, (b >> 32) as u32, b as u32, ports)
}

/// MurmurHash3 (x86, 32 bits) of three words: multiplications of 32 bits only, which every vector unit has.
#[inline(always)]
pub const fn hash_words(seed: u32, a: u32, b: u32, c: u32) -> u32 {
    let mut h = block(block(block(seed, a), b), c) ^ 12;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

#[inline(always)]
const fn block(h: u32, word: u32) -> u32 {
    let k = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (h ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}
