//! What tells flows apart, and a hash of it.
//!
//! All fragments of a datagram hash alike, and so do all packets of a connection: a fragment, the first one too,
//! counts as having no ports. This is the plain version, which vectorised ones have to agree with.

use crate::ipv4::{Ipv4Header, protocol};

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
