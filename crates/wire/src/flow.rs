//! Flow identification and flow hashes.
//!
//! All fragments of a datagram have the same hash, because the ports of a fragment count as 0, even in the first one. All unfragmented
//! packets in one direction of a connection also have the same hash. This module processes one packet at a time. Vectorized versions must
//! return the same results.

use crate::ethernet::ethertype;
use crate::extension::{self, Chain};
use crate::ipv4::{Ipv4Header, protocol};
use crate::ipv6::Ipv6Header;

/// Addresses, ports and protocol of an IPv4 packet in host order. Ports are 0 if there are none.
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

/// Returns the five-tuple of the IPv4 packet at the front of `l3`; `None` if the IPv4 header is truncated, its version is not 4, or its
/// length is less than 20 bytes.
///
/// A packet with a truncated transport header counts as having no ports.
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

/// Returns the hash of the five-tuple of the IPv4 packet at the front of `l3`, like [`five_tuple`] and [`FiveTuple::hash`]. It is faster for
/// packets without options that have at least 4 bytes of payload.
#[inline(always)]
pub fn flow_hash(l3: &[u8]) -> Option<u32> {
    let Some(head) = l3.first_chunk::<24>().filter(|head| head[0] == 0x45) else { return slow_flow_hash(l3) };
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let protocol = head[9];
    // Offset and "more fragments" (RFC 791 section 3.1).
    let is_fragment = word(4) & 0x3fff != 0;
    let ports = if protocol::has_ports(protocol) && !is_fragment { word(20) } else { 0 };
    let (addresses, rest) = (u64::from(word(12)) << 32 | u64::from(word(16)), u64::from(protocol) << 32);
    Some(hash_words(addresses, rest | u64::from(ports)))
}

#[cold]
#[inline(never)]
fn slow_flow_hash(l3: &[u8]) -> Option<u32> {
    five_tuple(l3).map(FiveTuple::hash)
}

impl FiveTuple {
    /// Returns the five-tuple of the opposite direction.
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

    /// Returns a hash for load sharing, in which every bit of the five-tuple affects every bit of the result.
    /// The two directions of a connection have different hashes.
    #[inline(always)]
    pub const fn hash(self) -> u32 {
        let ports = (self.src_port as u64) << 16 | self.dst_port as u64;
        hash_words((self.src as u64) << 32 | self.dst as u64, (self.protocol as u64) << 32 | ports)
    }

    /// Like [`hash`](Self::hash), but both directions of a connection have the same hash.
    #[inline(always)]
    pub const fn symmetric_hash(self) -> u32 {
        let a = (self.src as u64) << 16 | self.src_port as u64;
        let b = (self.dst as u64) << 16 | self.dst_port as u64;
        if a <= b { self.hash() } else { self.reversed().hash() }
    }
}

/// Like [`FiveTuple`], for an IPv6 packet. The protocol of a fragment is [`protocol::FRAGMENT`], because the fragments of a datagram may
/// name different protocols (RFC 8200 section 4.5). The protocol is also [`protocol::FRAGMENT`] if the upper layer of the packet cannot be
/// found.
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

/// Returns the five-tuple of the IPv6 packet at the front of `l3`, with the ports after its extension headers; `None` if the IPv6 header is
/// truncated or its version is not 6.
///
/// A packet with a truncated transport header counts as having no ports.
#[inline]
pub fn five_tuple6(l3: &[u8]) -> Option<FiveTuple6> {
    let (ip, _) = Ipv6Header::split(l3).filter(|(ip, _)| ip.version() == 6)?;
    let (protocol, upper) = upper_layer(ip, l3);
    Some(tuple6(ip, protocol, upper))
}

/// Returns the upper-layer protocol of an IPv6 packet, and the bytes of the upper layer. There are no bytes for a fragment, or if the upper
/// layer cannot be found.
#[inline]
fn upper_layer<'a>(ip: &Ipv6Header, l3: &'a [u8]) -> (u8, &'a [u8]) {
    let (protocol, offset) = match ip.next_header() {
        first if extension::is_extension(first) => behind_extensions(l3),
        protocol => (protocol, Ipv6Header::LEN),
    };
    (protocol, l3.get(offset..).unwrap_or(&[]))
}

/// Returns the upper-layer protocol of a packet with extension headers, and the offset of the upper layer in `l3`. The function is
/// not inlined, because few packets have extension headers.
#[inline(never)]
fn behind_extensions(l3: &[u8]) -> (u8, usize) {
    match Chain::of(l3) {
        Ok(chain) if !chain.is_fragment() => (chain.protocol, chain.offset),
        _ => (protocol::FRAGMENT, l3.len()),
    }
}

/// Returns the five-tuple of a packet with this header and the upper layer `upper`.
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
    /// Returns the five-tuple of the opposite direction.
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

    /// See [`FiveTuple::hash`].
    #[inline(always)]
    pub const fn hash(self) -> u32 {
        let ports = (self.src_port as u32) << 16 | self.dst_port as u32;
        ends_hash(self.protocol as u32, fold(self.src), fold(self.dst), ports)
    }

    /// See [`FiveTuple::symmetric_hash`].
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

/// Maximum number of VLAN tags that [`frame_hash`] skips.
const TAGS: usize = 3;
/// Maximum number of tunnel headers that [`frame_hash`] skips.
const TUNNELS: usize = 2;

/// Returns a hash of the flow of an Ethernet frame, to distribute work by flow. Both directions of a
/// connection have the same hash, and so do all fragments of a datagram.
///
/// The function skips up to three VLAN tags, and up to two outer headers of IP in IP (RFC 2003, 4213) or of GRE without routing (RFC 2784,
/// 2890). The outer headers are skipped because they are the same for all flows in a tunnel. VXLAN is not skipped: its outer source port
/// differs by inner flow (RFC 7348 section 5). A frame without IP has a hash of its Ethernet addresses and type. A frame that is too short
/// for both addresses has the hash 0.
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

/// Returns the hash of a packet with the EtherType `kind`; `None` if this is not IP, or if the IP header is malformed. `tunnels`: the
/// maximum number of tunnel headers to skip.
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

/// Returns the hash of the packet in a tunnel; `None` if `protocol` is not a tunnel, if the tunnel does not contain a valid IP packet, or
/// if `tunnels` is 0. `tunnels`: the maximum number of tunnel headers to skip.
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

/// Folds 128 bits into 64. Two addresses that differ only in the upper half or only in the lower half have different results.
#[inline(always)]
const fn fold(address: u128) -> u64 {
    ((address >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ address as u64
}

/// Returns a hash of the addresses `a` and `b`, their protocol and both ports. The result depends on the order of the addresses.
#[inline(always)]
const fn ends_hash(protocol: u32, a: u64, b: u64, ports: u32) -> u32 {
    hash_words(multiply(a ^ KEYS[2], b ^ KEYS[3]), (protocol as u64) << 32 | ports as u64)
}

/// Numbers with about as many ones as zeros: digits of π behind the point. They keep words of zeros from making products of 0.
const KEYS: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

/// Returns the exclusive or of the two halves of the product.
#[inline(always)]
const fn multiply(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// Returns a hash of two words. It takes two multiplications of 64 bits, whose halves are combined: in the middle of a product, every bit of
/// the factors has an effect.
#[inline(always)]
pub const fn hash_words(a: u64, b: u64) -> u32 {
    let mixed = multiply(multiply(a ^ KEYS[0], b ^ KEYS[1]) ^ KEYS[2], KEYS[3]);
    mixed as u32 ^ (mixed >> 32) as u32
}
