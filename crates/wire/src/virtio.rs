//! The virtio network header (virtio 1.2 section 5.1.6) as Linux puts it in front of packets on AF_PACKET sockets
//! (`PACKET_VNET_HDR`) and tap devices (`IFF_VNET_HDR`): it says what checksums and segments are still to be made.
//!
//! There the fields are in host order (the "legacy" format), not in little-endian order as on a virtio device.

use crate::field::put;

/// [`VirtioNetHeader::flags`]: the checksum field holds the sum of the pseudo header only; `csum_start` and
/// `csum_offset` say what is to be summed up.
pub const NEEDS_CSUM: u8 = 1;

/// [`VirtioNetHeader::gso_type`]: an ordinary packet.
pub const GSO_NONE: u8 = 0;
/// TCP over IPv4, to be cut.
pub const GSO_TCPV4: u8 = 1;
/// TCP over IPv6, to be cut.
pub const GSO_TCPV6: u8 = 4;
/// UDP, to be cut into datagrams.
pub const GSO_UDP_L4: u8 = 5;
/// A bit beside the type: the first segment carries CWR, the others must not (RFC 3168).
pub const GSO_ECN: u8 = 0x80;

header! {
    /// The header as drivers see it by default.
    VirtioNetHeader, 10
}

impl VirtioNetHeader {
    /// What a packet needs whose checksum is to be completed: `offset` bytes behind `start` is the field, and from
    /// `start` to the end is summed up.
    pub fn needs_csum(start: u16, offset: u16) -> Self {
        let mut h = Self::zeroed();
        h.0[0] = NEEDS_CSUM;
        h.set_csum_start(start);
        put::<8, 2, _>(&mut h.0, offset.to_ne_bytes());
        h
    }

    /// The same packet, to be cut into segments of `size` bytes of payload as `gso_type` says; all headers together
    /// are `hdr_len` bytes long.
    pub fn with_gso(mut self, gso_type: u8, hdr_len: u16, size: u16) -> Self {
        self.0[1] = gso_type;
        self.set_hdr_len(hdr_len);
        put::<4, 2, _>(&mut self.0, size.to_ne_bytes());
        self
    }

    /// [`NEEDS_CSUM`], and bits that mean nothing here.
    #[inline(always)]
    pub const fn flags(&self) -> u8 {
        self.0[0]
    }

    /// Kind of segmentation without the ECN bit: [`GSO_NONE`], [`GSO_TCPV4`], …
    #[inline(always)]
    pub const fn gso_type(&self) -> u8 {
        self.0[1] & !GSO_ECN
    }

    /// Whether [`GSO_ECN`] is set.
    #[inline(always)]
    pub const fn gso_ecn(&self) -> bool {
        self.0[1] & GSO_ECN != 0
    }

    /// Length of all headers in bytes: a hint, often too large; what the packet itself says counts.
    #[inline(always)]
    pub const fn hdr_len(&self) -> u16 {
        u16::from_ne_bytes([self.0[2], self.0[3]])
    }

    /// Bytes of payload in each segment but the last.
    #[inline(always)]
    pub const fn gso_size(&self) -> u16 {
        u16::from_ne_bytes([self.0[4], self.0[5]])
    }

    /// Where the summing starts, from the start of the frame.
    #[inline(always)]
    pub const fn csum_start(&self) -> u16 {
        u16::from_ne_bytes([self.0[6], self.0[7]])
    }

    /// Where the checksum field is, from `csum_start`.
    #[inline(always)]
    pub const fn csum_offset(&self) -> u16 {
        u16::from_ne_bytes([self.0[8], self.0[9]])
    }

    /// Whether the checksum is to be completed.
    #[inline(always)]
    pub const fn is_csum_partial(&self) -> bool {
        self.0[0] & NEEDS_CSUM != 0
    }

    /// Whether the packet is to be cut.
    #[inline(always)]
    pub const fn is_gso(&self) -> bool {
        self.gso_type() != GSO_NONE
    }

    /// Follows `bytes` more (fewer, if negative) in front of the network header, such as a VLAN tag that was put back.
    pub fn shift(&mut self, bytes: i16) {
        if self.is_csum_partial() {
            self.set_csum_start(self.csum_start().saturating_add_signed(bytes));
        }
        if self.is_gso() {
            self.set_hdr_len(self.hdr_len().saturating_add_signed(bytes));
        }
    }

    #[inline(always)]
    fn set_csum_start(&mut self, start: u16) {
        put::<6, 2, _>(&mut self.0, start.to_ne_bytes());
    }

    #[inline(always)]
    fn set_hdr_len(&mut self, len: u16) {
        put::<2, 2, _>(&mut self.0, len.to_ne_bytes());
    }
}
