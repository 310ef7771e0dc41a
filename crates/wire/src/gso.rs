//! Segmentation of a large TCP or UDP packet over IPv4 or IPv6: this module computes the segments and their headers, but does not copy the
//! payload.
//!
//! A host can send up to 64 KiB in one packet if its interface supports segmentation (generic segmentation offload). If such a packet
//! leaves by an interface without that support, it is segmented here: [`Segmentation::new`] examines the headers once,
//! [`Segmentation::segments`] returns the payload range of each segment, and [`Segmentation::write_headers`] writes the headers of a
//! segment with a partial checksum. Once the payload has been added, [`checksum::finish_partial`](crate::checksum::finish_partial)
//! completes the checksum.

use std::fmt;

use crate::extension::Chain;
use crate::ipv4::{self, Ipv4Header, protocol};
use crate::ipv6::Ipv6Header;
use crate::tcp::{Flags, TcpHeader};
use crate::udp::UdpHeader;

/// The kind of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP segments.
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// The reason why a packet cannot be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoError {
    /// The headers are truncated or inconsistent.
    Header,
    /// The packet is neither IPv4 nor IPv6, does not match its segmentation type, is an IPv4 fragment, or has an IPv6 fragment header.
    Kind,
    /// The segment size is 0, or a segment of this size would exceed the maximum packet length.
    Size,
}

impl fmt::Display for GsoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GsoError::Header => "the headers of the packet are malformed",
            GsoError::Kind => "the packet does not match its segmentation type",
            GsoError::Size => "the segment size is invalid",
        })
    }
}

impl std::error::Error for GsoError {}

/// The segmentation of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Segmentation {
    kind: Kind,
    /// Offset of the IP header from the start of the frame in bytes.
    l3: usize,
    /// Offset of the transport header from the start of the frame in bytes.
    l4: usize,
    header_len: usize,
    payload_len: usize,
    size: usize,
    id: u16,
    seq: u32,
    flags: Flags,
}

/// One segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the segment's payload in the packet's payload, in bytes.
    pub start: usize,
    /// Bytes of payload.
    pub len: usize,
    /// Identification (IPv4 only).
    pub id: u16,
    /// TCP sequence number.
    pub seq: u32,
    /// TCP control bits: FIN and PSH on the last segment only, CWR on the first only (RFC 3168 section 6.1.2).
    pub flags: Flags,
}

/// Returns the IP protocol of a kind of segments.
fn protocol_of(kind: Kind) -> u8 {
    match kind {
        Kind::Tcp => protocol::TCP,
        Kind::Udp => protocol::UDP,
    }
}

/// Returns the length of a packet's network headers in bytes, and its IPv4 identification (0 for IPv6).
fn network_header(kind: Kind, packet: &[u8]) -> Result<(usize, u16), GsoError> {
    let (ip, _) = Ipv4Header::split(packet).ok_or(GsoError::Header)?;
    match ip.version() {
        4 if ip.protocol() != protocol_of(kind) || ip.is_fragment() => Err(GsoError::Kind),
        4 if ip.ihl() < 5 => Err(GsoError::Header),
        4 => Ok((ip.header_len(), ip.id())),
        6 => {
            let chain = Chain::of(packet).map_err(|_| GsoError::Header)?;
            let is_kind = chain.protocol == protocol_of(kind) && chain.fragment.is_none();
            if is_kind { Ok((chain.offset, 0)) } else { Err(GsoError::Kind) }
        }
        _ => Err(GsoError::Kind),
    }
}

/// Sets the length and the IPv4 identification `id` in the network headers `packet`, for `transport_len`
/// bytes of transport header and payload. Returns the partial transport checksum, or `None` if the headers
/// are truncated or the length is too large.
fn write_network(kind: Kind, packet: &mut [u8], transport_len: u16, id: u16) -> Option<u16> {
    let total_len = u16::try_from(packet.len()).ok()?.checked_add(transport_len)?;
    if packet.first()? >> 4 == 6 {
        let (ip, _) = Ipv6Header::split_mut(packet)?;
        ip.set_payload_len(total_len.checked_sub(Ipv6Header::LEN as u16)?);
        return Some(ip.pseudo_sum(protocol_of(kind), transport_len.into()).fold());
    }
    let (ip, _) = Ipv4Header::split_mut(packet)?;
    ip.set_total_len(total_len);
    ip.set_id(id);
    let partial = ip.pseudo_sum(transport_len).fold();
    ipv4::write_checksum(packet).then_some(partial)
}

impl Segmentation {
    /// Examines the headers of a packet at the front of `frame`. The IPv4 or IPv6 header is at offset `l3` in bytes. The payload is
    /// `payload_len` bytes long and need not be in `frame`. Each segment except the last has `size` bytes of payload.
    ///
    /// # Errors
    /// If the packet cannot be segmented, see [`GsoError`].
    pub fn new(
        kind: Kind,
        frame: &[u8],
        l3: usize,
        payload_len: usize,
        size: u16,
    ) -> Result<Segmentation, GsoError> {
        let packet = frame.get(l3..).ok_or(GsoError::Header)?;
        let (network_len, id) = network_header(kind, packet)?;
        let l4 = l3 + network_len;
        let transport = packet.get(network_len..).ok_or(GsoError::Header)?;
        let (l4_len, seq, flags) = match kind {
            Kind::Tcp => {
                let (tcp, _) = TcpHeader::split(transport).ok_or(GsoError::Header)?;
                (tcp.header_len(), tcp.seq(), tcp.flags())
            }
            Kind::Udp => (UdpHeader::LEN, 0, Flags::default()),
        };
        let shortest = if kind == Kind::Tcp { TcpHeader::LEN } else { UdpHeader::LEN };
        if l4_len < shortest || transport.len() < l4_len {
            return Err(GsoError::Header);
        }
        let size = usize::from(size);
        if size == 0 || network_len + l4_len + size > usize::from(u16::MAX) {
            return Err(GsoError::Size);
        }
        Ok(Segmentation { kind, l3, l4, header_len: l4 + l4_len, payload_len, size, id, seq, flags })
    }

    /// Length of the headers before each segment's payload in bytes, including the link header.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Number of segments; a packet without payload is one segment.
    pub fn count(&self) -> usize {
        self.payload_len.div_ceil(self.size).max(1)
    }

    /// The segments, in order.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = Segment> + use<> {
        let plan = *self;
        let count = self.count();
        (0..count).map(move |i| plan.segment(i, count))
    }

    fn segment(&self, index: usize, count: usize) -> Segment {
        let start = index * self.size;
        let mut flags = self.flags;
        if index != 0 {
            flags = flags.without(Flags::CWR);
        }
        if index + 1 != count {
            flags = flags.without(Flags::FIN.with(Flags::PSH));
        }
        Segment {
            start,
            len: self.size.min(self.payload_len - start),
            // The identification and the sequence number wrap around.
            id: self.id.wrapping_add(index as u16),
            seq: self.seq.wrapping_add(start as u32),
            flags,
        }
    }

    /// Offset of the first byte that the transport checksum covers, from the start of the frame in bytes.
    pub fn csum_start(&self) -> usize {
        self.l4
    }

    /// Offset of the checksum field from [`csum_start`](Self::csum_start) in bytes.
    pub fn csum_offset(&self) -> usize {
        match self.kind {
            Kind::Tcp => 16,
            Kind::Udp => 6,
        }
    }

    /// Writes the headers of `segment` to the front of `out`, based on the packet's headers at the front of
    /// `frame`, as for [`new`](Self::new). Lengths, identification, sequence number, control bits and the
    /// IPv4 checksum are final; the transport checksum is partial. Returns false if one of the slices is too
    /// short for the headers.
    pub fn write_headers(&self, frame: &[u8], segment: &Segment, out: &mut [u8]) -> bool {
        let (Some(from), Some(out)) = (frame.get(..self.header_len), out.get_mut(..self.header_len)) else {
            return false;
        };
        out.copy_from_slice(from);
        let l4_len = self.header_len - self.l4 + segment.len;
        // `new` has checked that the lengths fit.
        let transport_len = l4_len as u16;
        let Some((packet, transport)) = out.split_at_mut_checked(self.l4) else { return false };
        let Some(packet) = packet.get_mut(self.l3..) else { return false };
        let Some(partial) = write_network(self.kind, packet, transport_len, segment.id) else { return false };
        match self.kind {
            Kind::Tcp => {
                let Some((tcp, _)) = TcpHeader::split_mut(transport) else { return false };
                tcp.set_seq(segment.seq);
                tcp.set_flags(segment.flags);
                tcp.set_checksum(partial);
            }
            Kind::Udp => {
                let Some((udp, _)) = UdpHeader::split_mut(transport) else { return false };
                udp.set_length(transport_len);
                udp.set_checksum(partial);
            }
        }
        true
    }
}
