//! The layout of a buffer, in bytes from its start:
//!
//! ```text
//!    0 ..  128   room for a DPDK mbuf
//!  128 ..  160   link: how the buffer is chained, and whose it is
//!  160 ..  192   cold header: what few packets need, valid by flag
//!  192 ..  256   feature fields
//!  256 ..  512   headroom
//!  512 .. 2624   data
//! ```
//!
//! The stride, 2,624 bytes, is 41 cache lines. It is odd on purpose: with an even stride the headers of a vector
//! share a few sets of the first-level cache (at 2,048 bytes a header touch costs 7–9 clocks, at 2,624 about 2).

/// Bytes from one buffer to the next.
pub const STRIDE: usize = 2624;
/// Where the link begins.
pub(crate) const LINK: usize = 128;
/// Where the cold header begins.
pub const COLD: usize = 160;
/// Where the feature fields begin.
pub const FEATURE: usize = 192;
/// Bytes of all feature fields together.
pub const FEATURE_LEN: usize = HEADROOM - FEATURE;
/// Where the headroom begins: the lowest offset that a packet can have.
pub const HEADROOM: usize = 256;
/// Where a driver puts the first byte of a received packet.
pub const DATA: usize = 512;
/// Bytes that are readable behind every legal offset, so that a header can be read without a length check.
pub const PEEK: usize = 128;
/// The highest offset that a packet can have.
pub const MAX_OFFSET: usize = STRIDE - PEEK;
/// Bytes of data that fit in one buffer without using its headroom.
pub const DATA_ROOM: usize = STRIDE - DATA;

/// Buffer indexes count cache lines.
pub const LINE: usize = 64;

const _: () = assert!(STRIDE.is_multiple_of(LINE) && (STRIDE / LINE) % 2 == 1);
const _: () = assert!(size_of::<Link>() == COLD - LINK && size_of::<Cold>() == FEATURE - COLD);

/// How a packet that is larger than the link's MTU is to be cut (the words of the virtio-net header).
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

/// Segmentation that is still to be done: valid with [`Flags::GSO`](crate::Flags::GSO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Which protocol is cut.
    pub kind: GsoKind,
    /// Explicit congestion notification: CWR is set on the first segment only.
    pub ecn: bool,
    /// Bytes of payload a segment (the MSS).
    pub size: u16,
    /// Bytes of all headers, from the Ethernet header to the end of the TCP or UDP header.
    pub header_len: u16,
}

/// How a buffer hangs together with others. Ownership rests on it, so nobody outside of this crate gets to see it.
#[repr(C)]
pub(crate) struct Link {
    /// The next segment's buffer; 0 behind the last (`CHAINED`).
    pub(crate) next: u32,
    /// Where this buffer's data lies when it is a later segment.
    pub(crate) seg_off: u16,
    pub(crate) seg_len: u16,
    /// Bytes of all segments behind the first, in the head (`CHAINED`).
    pub(crate) tail_len: u32,
    /// How many chains share this buffer as a later segment.
    pub(crate) shares: u32,
    /// Which pool the buffer belongs to.
    pub(crate) pool: u32,
    /// In debug builds: 1 while the buffer is out of its pool.
    pub(crate) allocated: u8,
    _reserved: [u8; 11],
}

/// The cold header: fields that few packets need. Each is valid only while the record's flag says so.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Cold {
    /// Which trace this packet belongs to (`TRACED`).
    pub trace: u32,
    /// Where the partial checksum starts, from the first byte of the packet's Ethernet header (`CSUM_PARTIAL`).
    pub csum_start: u16,
    /// Where the checksum is stored, from `csum_start` (`CSUM_PARTIAL`).
    pub csum_offset: u16,
    gso_size: u16,
    gso_header_len: u16,
    gso_kind: u8,
    gso_ecn: u8,
    _reserved: [u8; 18],
}

impl Cold {
    /// The segmentation that is still to be done; `None` when the words make no sense.
    pub fn gso(&self) -> Option<Gso> {
        let kind = match self.gso_kind {
            1 => GsoKind::Tcp4,
            4 => GsoKind::Tcp6,
            5 => GsoKind::UdpL4,
            _ => return None,
        };
        Some(Gso { kind, ecn: self.gso_ecn != 0, size: self.gso_size, header_len: self.gso_header_len })
    }

    /// Notes the segmentation that is still to be done. The caller sets [`Flags::GSO`](crate::Flags::GSO).
    pub fn set_gso(&mut self, gso: Gso) {
        self.gso_kind = gso.kind as u8;
        self.gso_ecn = gso.ecn as u8;
        self.gso_size = gso.size;
        self.gso_header_len = gso.header_len;
    }
}
