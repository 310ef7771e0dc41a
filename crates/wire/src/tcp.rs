//! TCP (RFC 9293).

use std::fmt;

use crate::checksum::{self, PseudoHeader, Sum};
use crate::field::{get16, get32, put};
use crate::ipv4::protocol;
use crate::options::{Ipv4Option, Options};

/// The control bits of a segment.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push: pass the data to the application now.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment number is valid.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is valid.
    pub const URG: Flags = Flags(0x20);
    /// Echo of congestion experienced (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// True if both sets have a bit in common.
    #[inline(always)]
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the union of both sets.
    #[inline(always)]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns this set without the bits of `other`.
    #[inline(always)]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let mut gap = "";
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 >> bit & 1 != 0 {
                write!(f, "{gap}{name}")?;
                gap = " ";
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({self})")
    }
}

header! {
    /// The fixed part of a TCP header; options follow if [`header_len`](TcpHeader::header_len) is more than
    /// 20.
    TcpHeader, 20
}

impl TcpHeader {
    /// Returns a header without options, with a window of 65,535 and checksum 0.
    pub fn new(src_port: u16, dst_port: u16, seq: u32, ack: u32, flags: Flags) -> Self {
        let mut h = Self::zeroed();
        h.set_src_port(src_port);
        h.set_dst_port(dst_port);
        h.set_seq(seq);
        put::<8, 4, _>(&mut h.0, ack.to_be_bytes());
        h.0[12] = 5 << 4;
        h.set_flags(flags);
        put::<14, 2, _>(&mut h.0, u16::MAX.to_be_bytes());
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

    /// Sequence number of the first byte of data, or of the SYN if that flag is set.
    #[inline(always)]
    pub const fn seq(&self) -> u32 {
        get32::<4, _>(&self.0)
    }

    /// Acknowledgment number: the next sequence number expected.
    #[inline(always)]
    pub const fn ack(&self) -> u32 {
        get32::<8, _>(&self.0)
    }

    /// Data offset in 32-bit words; at least 5 in a valid header.
    #[inline(always)]
    pub const fn data_offset(&self) -> u8 {
        self.0[12] >> 4
    }

    /// Length of the header with its options in bytes; less than 20 in an invalid header.
    #[inline(always)]
    pub const fn header_len(&self) -> usize {
        self.data_offset() as usize * 4
    }

    /// Control bits.
    #[inline(always)]
    pub const fn flags(&self) -> Flags {
        Flags(self.0[13])
    }

    /// Window, unscaled.
    #[inline(always)]
    pub const fn window(&self) -> u16 {
        get16::<14, _>(&self.0)
    }

    /// Checksum.
    #[inline(always)]
    pub const fn checksum(&self) -> u16 {
        get16::<16, _>(&self.0)
    }

    /// Returns the checksum of the segment that consists of this header and `rest` (options and payload), in
    /// a packet with the header `ip`. The present value of the checksum field is ignored.
    pub fn compute_checksum(&self, ip: &impl PseudoHeader, rest: &[u8]) -> u16 {
        self.sum(ip, rest).plus(Sum::of_u16(!self.checksum())).checksum()
    }

    /// True if the checksum is right. `rest` is options and payload.
    pub fn checksum_ok(&self, ip: &impl PseudoHeader, rest: &[u8]) -> bool {
        self.sum(ip, rest).is_valid()
    }

    fn sum(&self, ip: &impl PseudoHeader, rest: &[u8]) -> Sum {
        // A packet's length fits into 16 bits, and so do its parts; anything longer fails the comparison.
        let len = u16::try_from(rest.len() + Self::LEN).unwrap_or(u16::MAX);
        ip.pseudo_header(protocol::TCP, len.into()).plus(Sum::of(&self.0)).plus(Sum::of(rest))
    }

    /// Updates the checksum for a changed word of the segment or pseudo header.
    #[inline(always)]
    pub fn update_checksum16(&mut self, old: u16, new: u16) {
        self.set_checksum(checksum::update16(self.checksum(), old, new));
    }

    /// Like [`update_checksum16`](Self::update_checksum16), for an address or a sequence number.
    #[inline(always)]
    pub fn update_checksum32(&mut self, old: u32, new: u32) {
        self.set_checksum(checksum::update32(self.checksum(), old, new));
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

    /// Sets the sequence number.
    #[inline(always)]
    pub fn set_seq(&mut self, seq: u32) {
        put::<4, 4, _>(&mut self.0, seq.to_be_bytes());
    }

    /// Sets the control bits.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: Flags) {
        self.0[13] = flags.0;
    }

    /// Sets the checksum.
    #[inline(always)]
    pub fn set_checksum(&mut self, checksum: u16) {
        put::<16, 2, _>(&mut self.0, checksum.to_be_bytes());
    }
}

/// Type and length of the maximum segment size option (RFC 9293 section 3.7.1).
const MSS: (u8, usize) = (2, 4);

/// Lowers the maximum segment size (MSS) in a segment with SYN to `most` bytes; `segment` begins with the TCP
/// header. Updates the checksum only if `whole` is true: a partial checksum does not cover the options yet.
/// Returns true if the MSS was higher.
pub fn clamp_mss(segment: &mut [u8], most: u16, whole: bool) -> bool {
    let Some((header, _)) = TcpHeader::split(segment) else { return false };
    if !header.flags().any(Flags::SYN) {
        return false;
    }
    let list = segment.get(TcpHeader::LEN..header.header_len()).unwrap_or(&[]);
    // The list has the same format as the options of an IPv4 header.
    let is_mss = |o: &Ipv4Option<'_>| (o.kind, o.bytes.len()) == MSS;
    let Some(option) = Options::of(list).map_while(Result::ok).find(is_mss) else { return false };
    let (at, old) = (TcpHeader::LEN + option.at + 2, u16::from_be_bytes([option.bytes[2], option.bytes[3]]));
    if old <= most {
        return false;
    }
    segment[at..at + 2].copy_from_slice(&most.to_be_bytes());
    if whole && let Some((header, _)) = TcpHeader::split_mut(segment) {
        // At an odd offset the two bytes are halves of two words.
        let word = |n: u16| if at % 2 == 1 { n.swap_bytes() } else { n };
        header.update_checksum16(word(old), word(most));
    }
    true
}
