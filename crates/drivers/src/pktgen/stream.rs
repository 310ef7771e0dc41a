//! What the operator says of a stream.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A stream of packets.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its name, unique in its generator.
    pub name: String,
    /// What its packets look like: at least one.
    pub templates: Vec<Template>,
    /// Packets a second; `None`: as many as are taken.
    pub rate_pps: Option<f64>,
    /// It ends after so many packets; `None`: never.
    pub limit: Option<u64>,
    /// Packets a vector, 1 to 256.
    pub vector: usize,
    /// Start of the random numbers.
    pub seed: u64,
}

impl Default for Stream {
    /// No template yet; without rate and limit, full vectors.
    fn default() -> Stream {
        Stream {
            name: String::new(),
            templates: Vec::new(),
            rate_pps: None,
            limit: None,
            vector: buf::FRAME_SIZE,
            seed: 1,
        }
    }
}

/// A kind of packet.
#[derive(Clone, Debug)]
pub struct Template {
    /// The packet from its Ethernet header on; it is cut, or filled up with zeros, to the size.
    pub bytes: Vec<u8>,
    /// Bytes a packet has, without a frame check sequence behind. At most 2,112.
    pub size: RangeInclusive<usize>,
    /// How sizes follow each other, where there is a choice.
    pub sizes: Sizes,
    /// Whether the checksum of the UDP, TCP or ICMP header behind an IPv4 header, or an IPv6 header without
    /// extension headers, is computed for each packet.
    pub l4_checksum: bool,
    /// What varies, each on bytes of its own.
    pub fields: Vec<Field>,
    /// How often it is chosen, in relation to the stream's other templates; at least 1.
    pub weight: u32,
}

impl Template {
    /// A packet as it is.
    pub fn fixed(bytes: Vec<u8>) -> Template {
        Template {
            size: bytes.len()..=bytes.len(),
            sizes: Sizes::Random,
            l4_checksum: false,
            bytes,
            fields: Vec::new(),
            weight: 1,
        }
    }
}

/// How the sizes of packets follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The least first, each a byte more than the one before, and after the greatest the least again.
    Increasing,
    /// Any of them.
    Random,
}

/// A number in the packet that varies, most significant byte first.
#[derive(Clone, Debug)]
pub struct Field {
    /// Where it begins, in bytes from the start of the packet.
    pub offset: usize,
    /// Bytes it has, 1 to 8.
    pub width: usize,
    /// How it varies.
    pub mode: Mode,
    /// Whether the checksum of the IPv4 header, in which the field lies, follows it. It is behind Ethernet and any VLAN tags.
    pub ip4_checksum: bool,
}

/// How a field varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// From `min` in steps of `step` up to `max` at most, then from `min` again.
    Increment {
        /// The first value.
        min: u64,
        /// The last value there may be.
        max: u64,
        /// From one to the next, at least 1.
        step: u64,
    },
    /// Any value from `min` to `max`.
    Random {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// The size of the packet, less so many bytes: what length fields hold.
    Size {
        /// Bytes in front of what the field counts.
        less: usize,
    },
    /// These, one after the other, and after the last the first again. Lists of the same length go together: two of eight bytes
    /// side by side are one of IPv6 addresses.
    List(Arc<[u64]>),
}

/// Why a stream cannot be: it names the template and the field, both counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError(pub String);

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StreamError {}
