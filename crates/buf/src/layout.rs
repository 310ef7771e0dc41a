//! The layout of a buffer, in bytes from its start:
//!
//! ```text
//!    0 ..  128   room for a DPDK mbuf
//!  128 ..  160   link: the chain of buffers, and the pool
//!  160 ..  192   cold header: fields of few packets, valid by flag
//!  192 ..  256   feature fields
//!  256 ..  512   headroom
//!  512 .. 2624   data
//! ```
//!
//! The stride, 2,624 bytes, is 41 cache lines. The number of lines is odd on purpose: with an even number,
//! the headers of a vector share a few sets of the first-level cache (at 2,048 bytes a header touch costs 7–9
//! clocks, at 2,624 about 2).

/// Bytes from one buffer to the next.
pub const STRIDE: usize = 2624;
/// Offset of the link.
pub(crate) const LINK: usize = 128;
/// Offset of the cold header.
pub const COLD: usize = 160;
/// Offset of the feature fields.
pub const FEATURE: usize = 192;
/// Length of all feature fields in bytes.
pub const FEATURE_LEN: usize = HEADROOM - FEATURE;
/// Offset of the headroom: the lowest offset of a packet.
pub const HEADROOM: usize = 256;
/// Offset of the first byte of a received packet.
pub const DATA: usize = 512;
/// Bytes that are readable after every valid offset, so that a header can be read without a length check.
pub const PEEK: usize = 128;
/// The highest offset of a packet.
pub const MAX_OFFSET: usize = STRIDE - PEEK;
/// Bytes of data that fit into one buffer without its headroom.
pub const DATA_ROOM: usize = STRIDE - DATA;

/// Unit of buffer indexes in bytes: a cache line.
pub const LINE: usize = 64;

const _: () = assert!(STRIDE.is_multiple_of(LINE) && (STRIDE / LINE) % 2 == 1);
const _: () = assert!(size_of::<Link>() == COLD - LINK && size_of::<Cold>() == FEATURE - COLD);

/// The kind of segmentation that a packet larger than the link's MTU needs (the values of the virtio-net header).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4 = 1,
    /// TCP over IPv6.
    Tcp6 = 4,
    /// UDP, cut into datagrams (`UDP_SEGMENT`).
    UdpL4 = 5,
}

/// Pending segmentation: valid with [`Flags::GSO`](crate::Flags::GSO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// The protocol to segment.
    pub kind: GsoKind,
    /// True if explicit congestion notification is in use: only the first segment then gets the CWR flag.
    pub ecn: bool,
    /// Payload bytes of a segment (the MSS).
    pub size: u16,
    /// Bytes of all headers, from the Ethernet header to the end of the TCP or UDP header.
    pub header_len: u16,
}

/// The chaining of a buffer to other buffers. Ownership depends on these fields, so they are private to this
/// crate.
#[repr(C)]
pub(crate) struct Link {
    /// The next buffer of the packet's chain; 0 in the last one. Valid only if the packet is `CHAINED`.
    pub(crate) next: u32,
    /// Offset of the data in this buffer, if the buffer is not the first of its chain.
    pub(crate) seg_off: u16,
    pub(crate) seg_len: u16,
    /// Bytes in all buffers of the chain after the first. Valid only in the first buffer of a `CHAINED` packet.
    pub(crate) tail_len: u32,
    /// Number of buffers whose `next` is this buffer. If there are several, packets share the chain from this buffer on.
    pub(crate) shares: u32,
    /// The buffer's pool.
    pub(crate) pool: u32,
    /// In debug builds: 1 while the buffer is allocated.
    pub(crate) allocated: u8,
    _reserved: [u8; 11],
}

/// The cold header: fields that few packets need. Each field is valid only while the packet's record has the flag in parentheses.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Cold {
    /// Number of the packet's trace (`TRACED`).
    pub trace: u32,
    /// Start of the partial checksum, from the first byte of the packet's Ethernet header (`CSUM_PARTIAL`).
    pub csum_start: u16,
    /// Offset of the checksum field from `csum_start` (`CSUM_PARTIAL`).
    pub csum_offset: u16,
    gso_size: u16,
    gso_header_len: u16,
    gso_kind: u8,
    gso_ecn: u8,
    _reserved: [u8; 18],
}

impl Cold {
    /// Returns the pending segmentation; `None` if its kind is invalid.
    pub fn gso(&self) -> Option<Gso> {
        let kind = match self.gso_kind {
            1 => GsoKind::Tcp4,
            4 => GsoKind::Tcp6,
            5 => GsoKind::UdpL4,
            _ => return None,
        };
        Some(Gso { kind, ecn: self.gso_ecn != 0, size: self.gso_size, header_len: self.gso_header_len })
    }

    /// Sets the pending segmentation. The caller sets [`Flags::GSO`](crate::Flags::GSO).
    pub fn set_gso(&mut self, gso: Gso) {
        self.gso_kind = gso.kind as u8;
        self.gso_ecn = gso.ecn as u8;
        self.gso_size = gso.size;
        self.gso_header_len = gso.header_len;
    }
}
