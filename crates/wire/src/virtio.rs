//! The virtio network header (virtio 1.2 section 5.1.6), as Linux puts it before packets on AF_PACKET sockets
//! (`PACKET_VNET_HDR`) and tap devices (`IFF_VNET_HDR`). It describes pending checksums and segmentation.
//!
//! On these sockets and devices, the fields are in host order (the "legacy" format). On a virtio device, they
//! are in little-endian order.

use crate::field::put;

/// [`VirtioNetHeader::flags`]: the checksum field contains only the sum of the pseudo header. `csum_start` and `csum_offset` say how to
/// complete the checksum.
pub const NEEDS_CSUM: u8 = 1;

/// [`VirtioNetHeader::gso_type`]: an ordinary packet.
pub const GSO_NONE: u8 = 0;
/// TCP over IPv4, to be segmented.
pub const GSO_TCPV4: u8 = 1;
/// TCP over IPv6, to be segmented.
pub const GSO_TCPV6: u8 = 4;
/// UDP, to be segmented into several datagrams.
pub const GSO_UDP_L4: u8 = 5;
/// A bit in the byte of the segmentation type: only the first segment may have CWR set (RFC 3168).
pub const GSO_ECN: u8 = 0x80;

header! {
    /// The header without `num_buffers`, as Linux uses it by default (`struct virtio_net_hdr`).
    VirtioNetHeader, 10
}

impl VirtioNetHeader {
    /// Returns the header of a packet with a partial checksum: the field is `offset` bytes after `start`, and
    /// the sum covers the bytes from `start` to the end.
    pub fn needs_csum(start: u16, offset: u16) -> Self {
        let mut h = Self::zeroed();
        h.0[0] = NEEDS_CSUM;
        h.set_csum_start(start);
        put::<8, 2, _>(&mut h.0, offset.to_ne_bytes());
        h
    }

    /// Returns the header with a request to segment the packet: by `gso_type`, into segments of `size` bytes
    /// of payload. All headers of the packet together have `hdr_len` bytes.
    pub fn with_gso(mut self, gso_type: u8, hdr_len: u16, size: u16) -> Self {
        self.0[1] = gso_type;
        self.set_hdr_len(hdr_len);
        put::<4, 2, _>(&mut self.0, size.to_ne_bytes());
        self
    }

    /// Flags of the packet: [`NEEDS_CSUM`], or other bits that this router ignores.
    #[inline(always)]
    pub const fn flags(&self) -> u8 {
        self.0[0]
    }

    /// Kind of segmentation without the ECN bit: [`GSO_NONE`], [`GSO_TCPV4`], …
    #[inline(always)]
    pub const fn gso_type(&self) -> u8 {
        self.0[1] & !GSO_ECN
    }

    /// True if [`GSO_ECN`] is set.
    #[inline(always)]
    pub const fn gso_ecn(&self) -> bool {
        self.0[1] & GSO_ECN != 0
    }

    /// Length of all headers in bytes. It is only a hint, and often too large. The headers themselves show
    /// their length.
    #[inline(always)]
    pub const fn hdr_len(&self) -> u16 {
        u16::from_ne_bytes([self.0[2], self.0[3]])
    }

    /// Bytes of payload in each segment except the last.
    #[inline(always)]
    pub const fn gso_size(&self) -> u16 {
        u16::from_ne_bytes([self.0[4], self.0[5]])
    }

    /// Offset of the first byte that the checksum covers, from the start of the frame in bytes.
    #[inline(always)]
    pub const fn csum_start(&self) -> u16 {
        u16::from_ne_bytes([self.0[6], self.0[7]])
    }

    /// Offset of the checksum field from `csum_start` in bytes.
    #[inline(always)]
    pub const fn csum_offset(&self) -> u16 {
        u16::from_ne_bytes([self.0[8], self.0[9]])
    }

    /// True if the checksum is partial.
    #[inline(always)]
    pub const fn is_csum_partial(&self) -> bool {
        self.0[0] & NEEDS_CSUM != 0
    }

    /// True if the packet needs segmentation.
    #[inline(always)]
    pub const fn is_gso(&self) -> bool {
        self.gso_type() != GSO_NONE
    }

    /// Adapts the offsets after `bytes` bytes were inserted (removed, if negative) before the network header,
    /// for example a restored VLAN tag.
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
