//! UDP (RFC 768).

use crate::checksum::{self, PseudoHeader, Sum};
use crate::field::{get16, put};
use crate::ipv4::protocol;

header! {
    /// Ports, length and checksum.
    UdpHeader, 8
}

impl UdpHeader {
    /// Returns a header without a checksum (0), for a payload of `payload_len` bytes.
    ///
    /// The caller must check beforehand that the payload fits into a datagram. Otherwise the header gets the
    /// maximum length.
    pub fn new(src_port: u16, dst_port: u16, payload_len: usize) -> Self {
        let mut h = Self::zeroed();
        h.set_src_port(src_port);
        h.set_dst_port(dst_port);
        h.set_length(u16::try_from(payload_len.saturating_add(Self::LEN)).unwrap_or(u16::MAX));
        h
    }

    /// Source port.
    #[inline(always)]
    pub const fn src_port(&self) -> u16 {
        get16::<0, _>(&self.0)
    }

    /// Destination port.
    #[inline(always)]
    pub const fn dst_port(&self) -> u16 {
        get16::<2, _>(&self.0)
    }

    /// Length of header and payload in bytes; at least 8 in a valid header.
    #[inline(always)]
    pub const fn length(&self) -> u16 {
        get16::<4, _>(&self.0)
    }

    /// Checksum; 0 if the sender computed none.
    #[inline(always)]
    pub const fn checksum(&self) -> u16 {
        get16::<6, _>(&self.0)
    }

    /// Returns the checksum of the datagram that consists of this header and `payload`, in a packet with the
    /// header `ip`. The present value of the checksum field is ignored.
    pub fn compute_checksum(&self, ip: &impl PseudoHeader, payload: &[u8]) -> u16 {
        self.sum(ip, payload).plus(Sum::of_u16(!self.checksum())).checksum_nonzero()
    }

    /// True if the checksum is right, or if it is 0 and the packet is IPv4: 0 means "no checksum", which IPv6 does not allow. The length of
    /// `payload` must match the header.
    pub fn checksum_ok<H: PseudoHeader>(&self, ip: &H, payload: &[u8]) -> bool {
        match self.checksum() {
            0 => H::UDP_CHECKSUM_OPTIONAL,
            _ => self.sum(ip, payload).is_valid(),
        }
    }

    fn sum(&self, ip: &impl PseudoHeader, payload: &[u8]) -> Sum {
        let pseudo = ip.pseudo_header(protocol::UDP, self.length().into());
        pseudo.plus(Sum::of(&self.0)).plus(Sum::of(payload))
    }

    /// Updates the checksum for a changed word of the datagram or pseudo header. An absent checksum stays
    /// absent.
    #[inline(always)]
    pub fn update_checksum16(&mut self, old: u16, new: u16) {
        if self.checksum() != 0 {
            self.set_checksum(checksum::nonzero(checksum::update16(self.checksum(), old, new)));
        }
    }

    /// Like [`update_checksum16`](Self::update_checksum16), for an address.
    #[inline(always)]
    pub fn update_checksum32(&mut self, old: u32, new: u32) {
        if self.checksum() != 0 {
            self.set_checksum(checksum::nonzero(checksum::update32(self.checksum(), old, new)));
        }
    }

    /// Sets the source port. This and the setters below do not update the checksum.
    #[inline(always)]
    pub fn set_src_port(&mut self, port: u16) {
        put::<0, 2, _>(&mut self.0, port.to_be_bytes());
    }

    /// Sets the destination port.
    #[inline(always)]
    pub fn set_dst_port(&mut self, port: u16) {
        put::<2, 2, _>(&mut self.0, port.to_be_bytes());
    }

    /// Sets the length of header and payload.
    #[inline(always)]
    pub fn set_length(&mut self, len: u16) {
        put::<4, 2, _>(&mut self.0, len.to_be_bytes());
    }

    /// Sets the checksum.
    #[inline(always)]
    pub fn set_checksum(&mut self, checksum: u16) {
        put::<6, 2, _>(&mut self.0, checksum.to_be_bytes());
    }
}
