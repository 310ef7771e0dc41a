//! Cutting a large TCP or UDP packet over IPv4 or IPv6 into segments: the arithmetic and the headers, not the copying.
//!
//! A host hands over up to 64 KiB in one packet when its interface says that it can cut it (generic segmentation
//! offload). Where such a packet leaves by an interface that cannot, it is cut here: [`Segmentation::new`] looks at the
//! headers once, [`Segmentation::segments`] says what each segment carries, and
//! [`Segmentation::write_headers`] writes its headers, with a partial checksum that
//! [`checksum::finish_partial`](crate::checksum::finish_partial) completes once the payload is behind them.

use std::fmt;

use crate::extension::Chain;
use crate::ipv4::{self, Ipv4Header, protocol};
use crate::ipv6::Ipv6Header;
use crate::tcp::{Flags, TcpHeader};
use crate::udp::UdpHeader;

/// What the segments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP segments.
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// Why a packet cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoError {
    /// The headers are cut off or contradict themselves.
    Header,
    /// The packet is not what its kind says, or a fragment.
    Kind,
    /// The segment size is 0, or a segment would be longer than a packet can be.
    Size,
}

impl fmt::Display for GsoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GsoError::Header => "headers of the packet to cut are malformed",
            GsoError::Kind => "the packet to cut is of another kind than announced",
            GsoError::Size => "segment size is impossible",
        })
    }
}

impl std::error::Error for GsoError {}

/// How one packet is cut.
#[derive(Clone, Copy, Debug)]
pub struct Segmentation {
    kind: Kind,
    /// Offsets from the start of the frame.
    l3: usize,
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
    /// First byte of its payload in that of the packet.
    pub start: usize,
    /// Bytes of payload.
    pub len: usize,
    /// Identification of IPv4; IPv6 has none.
    pub id: u16,
    /// TCP sequence number.
    pub seq: u32,
    /// TCP control bits: FIN and PSH on the last segment only, CWR on the first only (RFC 3168 section 6.1.2).
    pub flags: Flags,
}

/// What a segment of this kind is in an IP header.
fn protocol_of(kind: Kind) -> u8 {
    match kind {
        Kind::Tcp => protocol::TCP,
        Kind::Udp => protocol::UDP,
    }
}

/// Bytes of a packet's network headers, and its identification.
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

/// Makes the network headers right for `transport_len` bytes behind them; gives the partial checksum of those.
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
    /// Looks at the headers of a packet, which `frame` begins with (all that is known of the payload is its length); the
    /// header of IPv4 or IPv6 is at `l3`. Each segment but the last carries `size` bytes of payload.
    ///
    /// # Errors
    /// When the packet cannot be cut, see [`GsoError`].
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

    /// Bytes of headers in front of each segment's payload, the link header included.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// How many segments there are; a packet without payload is one.
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
            // Both count modulo their width.
            id: self.id.wrapping_add(index as u16),
            seq: self.seq.wrapping_add(start as u32),
            flags,
        }
    }

    /// Where summing for the transport checksum starts, from the start of the frame.
    pub fn csum_start(&self) -> usize {
        self.l4
    }

    /// Where the checksum field is, from [`csum_start`](Self::csum_start).
    pub fn csum_offset(&self) -> usize {
        match self.kind {
            Kind::Tcp => 16,
            Kind::Udp => 6,
        }
    }

    /// Writes the headers of `segment` to the front of `out`, from those of the packet, which `frame` begins with as it
    /// did for [`new`](Self::new): lengths, identification, sequence number, control bits and the checksum of IPv4 are
    /// right, and the transport checksum is partial. Gives whether both slices hold the headers.
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
