//! Descriptions of packet streams.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::pcap::Recording;

/// A stream of packets.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Name, unique in its generator.
    pub name: String,
    /// Packet templates, at least one unless [`recorded`](Stream::recorded) has the packets.
    pub templates: Vec<Template>,
    /// Packets of a capture, sent in order and repeated; `None` if the packets are made from templates.
    pub recorded: Option<Arc<Recording>>,
    /// Number of the receive queue that receives the packets.
    pub queue: usize,
    /// Packets per second; `None` means as fast as possible.
    pub rate_pps: Option<f64>,
    /// Number of packets after which the stream ends; `None` means no limit.
    pub limit: Option<u64>,
    /// Packets per vector, 1 to 256.
    pub vector: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Stream {
    /// Returns a stream for the first queue with full vectors, but without templates, rate or limit.
    fn default() -> Stream {
        Stream {
            name: String::new(),
            templates: Vec::new(),
            recorded: None,
            queue: 0,
            rate_pps: None,
            limit: None,
            vector: buf::FRAME_SIZE,
            seed: 1,
        }
    }
}

/// A packet template.
#[derive(Clone, Debug)]
pub struct Template {
    /// Bytes from the Ethernet header on, truncated or zero-padded to the packet's size.
    pub bytes: Vec<u8>,
    /// Packet sizes in bytes, without frame check sequence; 14 to 2,112.
    pub size: RangeInclusive<usize>,
    /// Order of the sizes.
    pub sizes: Sizes,
    /// True to compute the UDP, TCP or ICMP checksum of each packet. The transport header must follow an IPv4 header,
    /// or an IPv6 header without extension headers.
    pub l4_checksum: bool,
    /// Fields that vary. They must not overlap.
    pub fields: Vec<Field>,
    /// Weight relative to the stream's other templates, at least 1.
    pub weight: u32,
}

impl Template {
    /// Returns a template of one fixed packet.
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

/// Order of packet sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Sizes from the smallest to the largest in steps of one byte, then from the smallest again.
    Increasing,
    /// Uniformly random.
    Random,
}

/// A varying number in the packet, in network byte order.
#[derive(Clone, Debug)]
pub struct Field {
    /// Offset in bytes from the start of the packet.
    pub offset: usize,
    /// Width in bytes, 1 to 8.
    pub width: usize,
    /// How the value varies.
    pub mode: Mode,
    /// True to update the IPv4 header's checksum when this field varies. The field must then lie in the IPv4 header, which follows
    /// the Ethernet header and any VLAN tags.
    pub ip4_checksum: bool,
}

/// How a field varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The value increases from `min` to at most `max` in steps of `step`, then starts at `min` again.
    Increment {
        /// The first value.
        min: u64,
        /// Upper limit of the values.
        max: u64,
        /// Step between values, at least 1.
        step: u64,
    },
    /// Uniformly random from `min` to `max`.
    Random {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// The packet's size minus `less`, for length fields.
    Size {
        /// Number of bytes that the length field does not include, such as those of the link header.
        less: usize,
    },
    /// The values of a list in order, repeated. Lists of the same length advance together: two 8-byte fields side by
    /// side make a list of IPv6 addresses.
    List(Arc<[u64]>),
}

/// The reason why a stream is invalid. The text names the stream; the template and the field, both counted from 0, if the fault is in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError(pub String);

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StreamError {}
