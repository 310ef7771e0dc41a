//! Segmentation and checksums by `interface-output`, compared with a plain implementation.

use std::net::Ipv4Addr;

use buf::{Flags, Gso, GsoKind, Held, Packet, TxCaps};
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::Mac;
use wire::builder::PacketBuilder;
use wire::tcp;

use super::tests::{PLAIN, device, output};
use crate::testing::{Bench, checksum, transport_checksum};

const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const DST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// The output interface of the packets.
const TX: u32 = 0;

/// Creates a harness with only `interface-output`, and a device with these capabilities.
fn harness_for(caps: TxCaps) -> (Bench, Harness) {
    let mut bench = Bench::new();
    assert_eq!(device(&mut bench, true, 0, caps).0, TX);
    let h = output(&bench);
    (bench, h)
}

fn harness() -> (Bench, Harness) {
    harness_for(PLAIN)
}

/// A packet for segmentation offload, as a host sends it.
#[derive(Clone, Debug)]
struct Large {
    kind: GsoKind,
    frame: Vec<u8>,
    l3: usize,
    l4: usize,
    /// Length of all headers, in bytes.
    headers: usize,
    size: u16,
}

impl Large {
    fn set(&self, p: &mut Packet<'_>) {
        p.set_tx_if(TX);
        p.set_flags(p.flags() | Flags::GSO | Flags::CSUM_PARTIAL);
        let gso = Gso { kind: self.kind, ecn: false, size: self.size, header_len: self.headers as u16 };
        p.cold_mut().set_gso(gso);
    }

    /// Returns the segments that the node should send, by a simple implementation of RFC 9293, RFC 3168 and RFC 768.
    fn cut(&self) -> Vec<Vec<u8>> {
        let payload = &self.frame[self.headers..];
        let mut chunks: Vec<&[u8]> = payload.chunks(usize::from(self.size)).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        let (count, mut seq, mut id) =
            (chunks.len(), be32(&self.frame, self.l4 + 4), be16(&self.frame, self.l3 + 4));
        let mut all = Vec::new();
        for (i, chunk) in chunks.into_iter().enumerate() {
            let mut s = self.frame[..self.headers].to_vec();
            s.extend(chunk);
            let (l3_len, l4_len) = ((s.len() - self.l3) as u16, (s.len() - self.l4) as u16);
            let sum_at = self.l4 + if self.kind == GsoKind::Tcp4 { 16 } else { 6 };
            if self.kind == GsoKind::Tcp4 {
                put(&mut s, self.l4 + 4, &seq.to_be_bytes());
                if i > 0 {
                    s[self.l4 + 13] &= !0x80;
                }
                if i + 1 < count {
                    s[self.l4 + 13] &= !0x09;
                }
            } else {
                put(&mut s, self.l4 + 4, &l4_len.to_be_bytes());
            }
            put(&mut s, self.l3 + 2, &l3_len.to_be_bytes());
            put(&mut s, self.l3 + 4, &id.to_be_bytes());
            put(&mut s, self.l3 + 10, &[0, 0]);
            let sum = checksum(&s[self.l3..self.l4]);
            put(&mut s, self.l3 + 10, &sum.to_be_bytes());
            put(&mut s, sum_at, &[0, 0]);
            let sum = transport_checksum(&s[self.l3..]);
            put(&mut s, sum_at, &(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
            (seq, id) = (seq.wrapping_add(chunk.len() as u32), id.wrapping_add(1));
            all.push(s);
        }
        all
    }
}

fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

fn be32(b: &[u8], at: usize) -> u32 {
    u32::from(be16(b, at)) << 16 | u32::from(be16(b, at + 2))
}

fn put(b: &mut [u8], at: usize, value: &[u8]) {
    b[at..at + value.len()].copy_from_slice(value);
}

/// Generates TCP and UDP packets with 0 to 2 VLAN tags. The TCP header and the IPv4 header may have options.
fn large() -> impl Strategy<Value = Large> {
    let headers = (any::<bool>(), 0usize..3, 0usize..10, 0usize..10, any::<u8>());
    let numbers = (any::<u32>(), any::<u16>(), any::<u8>());
    let sizes = prop_oneof![(1u16..40, 0usize..3000), (500u16..1500, 0usize..60_000)];
    (headers, numbers, sizes).prop_map(
        |((tcp, tags, ip_words, tcp_words, flags), (seq, id, fill), (size, len))| {
            let payload: Vec<u8> =
                (0..len).map(|i| (i as u8).wrapping_mul(31) ^ fill ^ (i >> 8) as u8).collect();
            let mut b = PacketBuilder::ipv4(SRC, DST)
                .ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
                .id(id)
                .tos(fill)
                .options(&vec![1; ip_words * 4]);
            for tag in 0..tags {
                b = b.vlan(100 + tag as u16);
            }
            let (l3, l4) = (b.link_len(), b.link_len() + 20 + ip_words * 4);
            if tcp {
                let options = vec![1; tcp_words * 4];
                b = b.tcp(1000, 80, seq, 7, tcp::Flags(flags)).payload(&[options, payload].concat());
                let mut frame = b.build();
                frame[l4 + 12] = (5 + tcp_words as u8) << 4;
                Large { kind: GsoKind::Tcp4, frame, l3, l4, headers: l4 + 20 + tcp_words * 4, size }
            } else {
                let frame = b.udp(1000, 53).payload(&payload).build();
                Large { kind: GsoKind::UdpL4, frame, l3, l4, headers: l4 + 8, size }
            }
        },
    )
}

/// Checks that all packets are sent to the device. Returns their frames.
fn segments(out: Vec<Out>) -> Vec<Vec<u8>> {
    for o in &out {
        assert_eq!((o.node.as_str(), o.reason, o.record.tx_if), ("interface-tx", None, TX));
        assert!(!o.record.flags.any(Flags::GSO | Flags::CSUM_PARTIAL | Flags::CHAINED));
        assert_eq!(o.from, Some(0), "the trace goes on with the segments");
    }
    out.into_iter().map(|o| o.bytes).collect()
}

proptest! {
    #[test]
    fn segments_equal_those_of_a_simple_implementation(large in large()) {
        let expected = large.cut();
        prop_assume!(expected.len() <= 256);
        let out = harness().1.send("interface-output", &[&large.frame], |_, p| large.set(p));
        prop_assert_eq!(segments(out), expected);
    }

    /// Bytes after the end of the IP packet are not payload.
    #[test]
    fn padding_is_not_segmented(large in large(), padding in 1usize..100) {
        let expected = large.cut();
        prop_assume!(expected.len() <= 256);
        let padded = [large.frame.clone(), vec![0xee; padding]].concat();
        let out = harness().1.send("interface-output", &[padded], |_, p| large.set(p));
        prop_assert_eq!(segments(out), expected);
    }

    #[test]
    fn partial_checksums_are_completed(
        tcp: bool, tags in 0usize..3, is_routed: bool, len in 0usize..5000, options in 0usize..10, fill: u8,
    ) {
        let mut b = PacketBuilder::ipv4(SRC, DST)
            .ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
            .options(&vec![1; options * 4])
            .payload(&vec![fill; len]);
        for tag in 0..tags {
            b = b.vlan(100 + tag as u16);
        }
        let b = if tcp { b.tcp(1, 2, 3, 4, tcp::Flags::ACK) } else { b.udp(1, 2) };
        // The offset counts from the link header. Only a routed packet has a known network header.
        let link = 14 + 4 * tags as u8;
        let out = harness().1.send("interface-output", &[b.clone().partial_checksum().build()], |_, p| {
            p.set_tx_if(TX);
            p.set_flags(p.flags() | Flags::CSUM_PARTIAL);
            if is_routed {
                p.mark_l3(link);
            }
            let cold = p.cold_mut();
            cold.csum_start = u16::from(link) + 20 + options as u16 * 4;
            cold.csum_offset = if tcp { 16 } else { 6 };
        });
        prop_assert!(out[0].reason.is_none() && !out[0].record.flags.any(Flags::CSUM_PARTIAL));
        prop_assert_eq!(&out[0].bytes, &b.build());
    }
}

fn tcp_packet(payload: usize, size: u16) -> Large {
    let b = PacketBuilder::ipv4(SRC, DST).ethernet(Mac([2; 6]), Mac([4; 6]));
    let frame = b.tcp(1, 2, 3, 4, tcp::Flags::ACK).payload(&vec![5; payload]).build();
    Large { kind: GsoKind::Tcp4, frame, l3: 14, l4: 34, headers: 54, size }
}

/// Sends a copy of `large` for each pair of transmit interface and offload flags, all in one vector. Returns the output.
fn send(h: &mut Harness, sent: &[(u32, Flags)], large: &Large) -> Vec<Out> {
    h.send("interface-output", &vec![&large.frame; sent.len()], |i, p| {
        large.set(p);
        p.set_tx_if(sent[i].0);
        p.mark_l3(14);
        (p.cold_mut().csum_start, p.cold_mut().csum_offset) = (34, 16);
        let both = Flags::GSO | Flags::CSUM_PARTIAL;
        p.set_flags(p.flags() & !both | sent[i].1);
    })
}

#[test]
fn packets_are_prepared_for_the_devices_offloads() {
    let large = tcp_packet(3000, 1000);
    let sorts = [Flags::NONE, Flags::CSUM_PARTIAL, Flags::GSO | Flags::CSUM_PARTIAL];
    for (gso, csum) in [(false, false), (false, true), (true, false), (true, true)] {
        let (bench, mut h) = harness_for(TxCaps { gso, csum });
        // First each kind of packet by itself, then all in one vector.
        let mut vectors: Vec<Vec<(u32, Flags)>> = sorts.iter().map(|f| vec![(TX, *f)]).collect();
        vectors.push(sorts.iter().map(|f| (TX, *f)).collect());
        let mut counted = [0, 0];
        for sent in vectors {
            let out = send(&mut h, &sent, &large);
            for (i, (_, flags)) in sent.into_iter().enumerate() {
                let of: Vec<&Out> = out.iter().filter(|o| o.from == Some(i)).collect();
                let cuts = flags.any(Flags::GSO) && !(gso && csum);
                let left = if cuts || !csum { Flags::NONE } else { flags };
                assert_eq!(of.len(), if cuts { 3 } else { 1 }, "{flags:?} {gso} {csum}");
                let offload = |o: &Out| o.record.flags & (Flags::GSO | Flags::CSUM_PARTIAL);
                assert!(of.iter().all(|o| o.node == "interface-tx" && offload(o) == left));
                counted[0] += of.len() as u64;
                counted[1] += of.iter().map(|o| o.bytes.len() as u64).sum::<u64>();
            }
        }
        assert_eq!(bench.tables.counters.tx.read(TX), counted, "what leaves is counted");
    }
}

proptest! {
    /// Packets to one interface are sent in their order of arrival, even if some are segmented.
    #[test]
    fn segmentation_keeps_the_order_of_packets(
        sent in prop::collection::vec((0u32..4, 0usize..3), 1..300),
    ) {
        let mut bench = Bench::new();
        let caps = [(false, false), (true, false), (false, true), (true, true)];
        for (n, (gso, csum)) in caps.into_iter().enumerate() {
            assert_eq!(device(&mut bench, true, 0, TxCaps { gso, csum }).0, n as u32);
        }
        let large = tcp_packet(30, 10);
        let flags = [Flags::NONE, Flags::CSUM_PARTIAL, Flags::GSO | Flags::CSUM_PARTIAL];
        let sent: Vec<_> = sent.into_iter().map(|(to, sort)| (to, flags[sort])).collect();
        let out = send(&mut output(&bench), &sent, &large);
        prop_assert!(out.iter().all(|o| o.node == "interface-tx"));
        for to in 0..4 {
            let mut order: Vec<_> = out.iter().filter(|o| o.record.tx_if == to).filter_map(|o| o.from).collect();
            prop_assert!(order.is_sorted(), "{order:?}");
            order.dedup();
            prop_assert!(order.into_iter().eq((0..sent.len()).filter(|&i| sent[i].0 == to)));
        }
    }
}

/// Sends one packet, which must be dropped without sending any segment. Returns the reason.
fn refused(h: &mut Harness, frame: &[u8], set: impl FnMut(usize, &mut Packet<'_>)) -> &'static str {
    let out = h.send("interface-output", &[frame], set);
    assert_eq!((out.len(), out[0].node.as_str(), &out[0].bytes[..]), (1, "interface-output", frame));
    out[0].reason.unwrap()
}

#[test]
fn packets_that_cannot_be_segmented_are_dropped_whole() {
    let (_bench, h) = &mut harness();
    let many = tcp_packet(257 * 10, 10);
    assert_eq!(refused(h, &many.frame, |_, p| many.set(p)), "too-many-segments");
    let jumbo = tcp_packet(5000, 2100);
    assert_eq!(refused(h, &jumbo.frame, |_, p| jumbo.set(p)), "segment-too-large");
    let nothing = tcp_packet(100, 0);
    assert_eq!(refused(h, &nothing.frame, |_, p| nothing.set(p)), "bad-headers");
    let six = Large { kind: GsoKind::Tcp6, ..tcp_packet(3000, 1000) };
    assert_eq!(refused(h, &six.frame, |_, p| six.set(p)), "bad-headers");
    let udp = Large { kind: GsoKind::UdpL4, ..tcp_packet(3000, 1000) };
    assert_eq!(refused(h, &udp.frame, |_, p| udp.set(p)), "bad-headers");
    let cut_off = tcp_packet(0, 1000);
    for len in 0..54 {
        assert_eq!(refused(h, &cut_off.frame[..len], |_, p| cut_off.set(p)), "bad-headers", "{len}");
    }
}

#[test]
fn rfc768_a_checksum_of_zero_is_sent_as_all_ones() {
    let datagram = |payload: u16| {
        let b = PacketBuilder::ipv4(SRC, DST).ethernet(Mac([2; 6]), Mac([4; 6])).udp(1, 2);
        b.payload(&payload.to_be_bytes()).partial_checksum().build()
    };
    // With this payload the datagram's checksum becomes zero.
    let mut plain = datagram(0);
    put(&mut plain, 40, &[0, 0]);
    let frame = datagram(transport_checksum(&plain[14..]));
    let out = harness().1.send("interface-output", &[&frame], |_, p| {
        p.set_tx_if(TX);
        p.set_flags(p.flags() | Flags::CSUM_PARTIAL);
        p.mark_l3(14);
        (p.cold_mut().csum_start, p.cold_mut().csum_offset) = (34, 6);
    });
    assert_eq!(be16(&out[0].bytes, 40), 0xffff);
}

#[test]
fn a_checksum_place_outside_of_the_packet_is_dropped() {
    let frame = tcp_packet(100, 0).frame;
    for (start, offset) in [(34, 200), (u16::MAX, u16::MAX), (153, 0)] {
        let reason = refused(&mut harness().1, &frame, |_, p| {
            p.set_tx_if(TX);
            p.set_flags(p.flags() | Flags::CSUM_PARTIAL);
            (p.cold_mut().csum_start, p.cold_mut().csum_offset) = (start, offset);
        });
        assert_eq!(reason, "bad-checksum-place");
    }
}

#[test]
fn without_buffers_for_all_segments_none_is_sent() {
    let (_bench, mut h) = harness();
    let large = tcp_packet(60_000, 300);
    let packet = h.held(&large.frame);
    let mut cache = h.pool().cache();
    let mut taken: Vec<Held> = std::iter::from_fn(|| Held::alloc(&mut cache)).collect();
    // The harness takes some buffers. The worker finds 150 of the 200 buffers that it needs.
    taken.drain(..150).for_each(Held::discard);
    let reason = refused(&mut h, &large.frame, |_, p| large.set(p));
    taken.into_iter().for_each(|held| held.free(&mut cache));
    drop(cache);
    packet.discard();
    assert_eq!(reason, "no-buffer");
    assert_eq!(segments(h.send("interface-output", &[&large.frame], |_, p| large.set(p))).len(), 200);
}
