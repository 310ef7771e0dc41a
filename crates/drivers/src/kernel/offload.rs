//! Conversion between virtio headers and packet flags. A virtio header describes a packet's unfinished checksum and
//! segmentation.

use buf::{Flags, Gso, GsoKind, Packet};
use wire::{TcpHeader, UdpHeader, VirtioNetHeader, virtio};

/// Maximum number of segments into which a packet may be cut, the same as when the router itself cuts packets. A packet needs more only if
/// its segments are tiny. Cutting 65,000 segments out of one packet would keep the kernel, and with it the sending worker, busy for many
/// milliseconds.
const MOST_SEGMENTS: usize = 256;

/// Stores in a packet the offloads that `header` describes. The packet must already have its bytes. Returns the packet's flags, including
/// those of the offloads, for [`Frame::note`](buf::Frame::note). `None` means that the header contradicts the packet, or demands an
/// unknown segmentation or more than 256 segments: the caller must drop the packet.
#[must_use]
pub(crate) fn receive(header: &VirtioNetHeader, packet: &mut Packet<'_>) -> Option<Flags> {
    let mut flags = packet.flags();
    let (start, offset) = (header.csum_start(), header.csum_offset());
    if header.is_csum_partial() {
        if usize::from(start) + usize::from(offset) + 2 > packet.len() {
            return None;
        }
        (packet.cold_mut().csum_start, packet.cold_mut().csum_offset) = (start, offset);
        flags |= Flags::CSUM_PARTIAL;
    }
    if header.is_gso() {
        let kind = match header.gso_type() {
            virtio::GSO_TCPV4 => GsoKind::Tcp4,
            virtio::GSO_TCPV6 => GsoKind::Tcp6,
            virtio::GSO_UDP_L4 => GsoKind::UdpL4,
            _ => return None,
        };
        // The header's `hdr_len` is a hint that is often too large. Every segment needs a checksum, so the packet's
        // checksum is partial and starts at the transport header.
        if !header.is_csum_partial() || header.gso_size() == 0 {
            return None;
        }
        let transport = packet.bytes().get(usize::from(start)..)?;
        let transport_len = match kind {
            GsoKind::Tcp4 | GsoKind::Tcp6 => TcpHeader::split(transport)?.0.header_len(),
            GsoKind::UdpL4 => UdpHeader::LEN,
        };
        if transport_len > transport.len() {
            return None;
        }
        let header_len = start + transport_len as u16;
        let payload = packet.total_len().saturating_sub(usize::from(header_len));
        if payload.div_ceil(usize::from(header.gso_size())) > MOST_SEGMENTS {
            return None;
        }
        packet.cold_mut().set_gso(Gso { kind, ecn: header.gso_ecn(), size: header.gso_size(), header_len });
        flags |= Flags::GSO;
    }
    packet.set_flags(flags);
    Some(flags)
}

/// Returns the virtio header with the packet's pending offloads.
#[inline]
pub(crate) fn transmit(packet: &Packet<'_>) -> VirtioNetHeader {
    let flags = packet.flags();
    let cold = packet.cold();
    let mut header = VirtioNetHeader::zeroed();
    if flags.any(Flags::CSUM_PARTIAL) {
        header = VirtioNetHeader::needs_csum(cold.csum_start, cold.csum_offset);
    }
    if flags.any(Flags::GSO)
        && let Some(gso) = cold.gso()
    {
        let kind = match gso.kind {
            GsoKind::Tcp4 => virtio::GSO_TCPV4,
            GsoKind::Tcp6 => virtio::GSO_TCPV6,
            GsoKind::UdpL4 => virtio::GSO_UDP_L4,
        };
        let ecn = if gso.ecn { virtio::GSO_ECN } else { 0 };
        header = header.with_gso(kind | ecn, gso.header_len, gso.size);
    }
    header
}

#[cfg(test)]
mod tests {
    use buf::{Frame, Pool};
    use proptest::prelude::*;
    use wire::builder::PacketBuilder;

    use super::*;

    fn tcp() -> Vec<u8> {
        let b = PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 1, 1].into());
        b.ethernet(wire::Mac([2, 0, 0, 0, 0, 1]), wire::Mac([2, 0, 0, 0, 0, 2]))
            .tcp(1, 2, 3, 4, wire::tcp::Flags::ACK)
            .payload(&[0; 200])
            .build()
    }

    /// Passes a packet through `receive` and `transmit`. Returns the flags and the resulting header.
    fn pass(bytes: &[u8], header: VirtioNetHeader) -> Option<(Flags, VirtioNetHeader)> {
        let mut cache = Pool::new(8).unwrap().cache();
        let mut frame = Frame::new();
        frame.alloc(&mut cache, 1);
        let mut packet = frame.get(0).unwrap();
        packet.fill(bytes);
        let flags = receive(&header, &mut packet);
        let out = flags.map(|f| (f, transmit(&packet)));
        frame.note(flags.unwrap_or_default());
        frame.free(&mut cache);
        out
    }

    #[test]
    fn virtio_headers_are_preserved() {
        let none = VirtioNetHeader::zeroed();
        assert_eq!(pass(&tcp(), none), Some((Flags::NONE, none)));
        let csum = VirtioNetHeader::needs_csum(34, 16);
        assert_eq!(pass(&tcp(), csum), Some((Flags::CSUM_PARTIAL, csum)));
        let gso = csum.with_gso(virtio::GSO_TCPV4 | virtio::GSO_ECN, 54, 100);
        assert_eq!(pass(&tcp(), gso), Some((Flags::CSUM_PARTIAL | Flags::GSO, gso)));
        // A hint that is too large is corrected.
        let hint = csum.with_gso(virtio::GSO_TCPV4, 150, 100);
        assert_eq!(pass(&tcp(), hint).unwrap().1.hdr_len(), 54);
    }

    #[test]
    fn contradictions_are_refused() {
        let csum = VirtioNetHeader::needs_csum;
        let refused = |h| assert_eq!(pass(&tcp(), h), None, "{h:?}");
        refused(csum(254, 0));
        refused(csum(34, 219));
        refused(csum(u16::MAX, u16::MAX));
        refused(csum(34, 16).with_gso(virtio::GSO_TCPV4, 54, 0));
        // 257 segments of one byte; 256 are accepted.
        let with = |payload: usize| {
            tcp()[..54].iter().copied().chain(std::iter::repeat_n(0, payload)).collect::<Vec<u8>>()
        };
        let tiny = csum(34, 16).with_gso(virtio::GSO_TCPV4, 54, 1);
        assert_eq!(pass(&with(257), tiny), None);
        assert!(pass(&with(256), tiny).is_some());
        // UDP fragmentation (obsolete), and an undefined type.
        refused(csum(34, 16).with_gso(3, 54, 100));
        refused(csum(34, 16).with_gso(2, 54, 100));
        refused(csum(240, 2).with_gso(virtio::GSO_TCPV4, 54, 100));
        refused(VirtioNetHeader::zeroed().with_gso(virtio::GSO_TCPV4, 54, 100));
        let mut cut = tcp();
        cut[46] = 0xf0;
        cut.truncate(70);
        assert_eq!(pass(&cut, csum(34, 16).with_gso(virtio::GSO_TCPV4, 54, 100)), None);
    }

    proptest! {
        /// For any header and any bytes, accepted offsets lie within the packet.
        #[test]
        fn offsets_stay_within_the_packet(header: [u8; 10], bytes in prop::collection::vec(any::<u8>(), 14..300)) {
            if let Some((flags, out)) = pass(&bytes, VirtioNetHeader(header)) {
                let end = usize::from(out.csum_start()) + usize::from(out.csum_offset()) + 2;
                prop_assert!(!flags.any(Flags::CSUM_PARTIAL) || end <= bytes.len());
                prop_assert!(!flags.any(Flags::GSO) || usize::from(out.hdr_len()) <= bytes.len());
            }
        }
    }
}
