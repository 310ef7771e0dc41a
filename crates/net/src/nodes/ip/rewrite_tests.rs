//! `ip4-rewrite`.

use std::net::Ipv4Addr;

use buf::{Flags, Gso, GsoKind, LinkHeader};
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::{Ipv4Header, Mac, ethertype};

use super::rewrite::Rewrite;
use crate::adjacency::{Adjacency, ethernet};
use crate::ethernet::Tags;
use crate::ip::Cause;
use crate::testing::{Bench, checksum};

const NEXT_HOP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MTU: u16 = 1500;
/// A complete adjacency without tags. The interface of each adjacency is its number + 20.
const PLAIN: u32 = 0;
/// A complete adjacency with one tag.
const TAG: u32 = 1;
/// A complete adjacency with two tags.
const TWO_TAGS: u32 = 2;
/// An adjacency without a link header.
const INCOMPLETE: u32 = 3;
/// A number without an adjacency.
const NONE: u32 = 4;

fn headers() -> [Vec<u8>; 3] {
    let macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    [
        [&macs[..], &[8, 0]].concat(),
        [&macs[..], &[0x81, 0, 0, 100, 8, 0]].concat(),
        [&macs[..], &[0x88, 0xa8, 0, 200, 0x81, 0, 1, 44, 8, 0]].concat(),
    ]
}

fn bench() -> (Bench, Harness) {
    let mut bench = Bench::new();
    let tags = |outer_service, outer, inner| Some(Tags { outer_service, outer, inner });
    let of = [None, tags(false, 100, None), tags(true, 200, Some(300))];
    let (dst, src) = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));
    for index in PLAIN..=INCOMPLETE {
        let rewrite =
            of.get(index as usize).and_then(|t| LinkHeader::new(&ethernet(dst, src, *t, ethertype::IPV4)));
        let record = Adjacency { rewrite, interface: 20 + index, mtu: MTU, next_hop: NEXT_HOP.into() };
        assert_eq!(bench.writers.adjacencies.insert(record), Ok(index));
    }
    let h = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |s| Rewrite::<Ipv4Addr>::new(&tables, s.worker));
    });
    (bench, h)
}

fn packet(len: usize) -> PacketBuilder {
    PacketBuilder::ipv4([192, 0, 2, 9].into(), [198, 51, 100, 1].into()).udp(1, 2).frame_len(len)
}

/// Sends packets over adjacencies, as if they had been received with an Ethernet header of 14 bytes.
fn send_all(h: &mut Harness, packets: &[(u32, Vec<u8>)], flags: Flags) -> Vec<Out> {
    let whole: Vec<_> = packets.iter().map(|(_, packet)| [&[0; 14][..], packet].concat()).collect();
    h.send("ip4-rewrite", &whole, |i, p| {
        assert!(p.advance(14));
        p.mark_l3(14);
        p.set_fwd(packets[i].0);
        p.set_flags(p.flags() | flags);
    })
}

/// Sends a packet over an adjacency. Expects one packet as output, and returns it.
fn send(h: &mut Harness, adjacency: u32, packet: &[u8], flags: Flags) -> Out {
    let mut out = send_all(h, &[(adjacency, packet.to_vec())], flags);
    assert_eq!(out.len(), 1);
    out.remove(0)
}

/// Returns `packet` as it should be sent on the next link: with the TTL decremented.
fn forwarded(packet: &[u8]) -> Vec<u8> {
    let mut p = packet.to_vec();
    p[8] -= 1;
    wire::ipv4::write_checksum(&mut p);
    p
}

#[test]
fn link_headers_are_written_and_adjacencies_count() {
    let (bench, mut h) = bench();
    for (index, header) in headers().into_iter().enumerate() {
        let sent = packet(100).build();
        let out = send(&mut h, index as u32, &sent, Flags::NONE);
        assert_eq!((out.node.as_str(), out.record.tx_if), ("ip4-output", 20 + index as u32));
        assert_eq!(out.bytes, [header.clone(), forwarded(&sent)].concat());
        let bytes = (header.len() + sent.len()) as u64;
        assert_eq!(bench.tables.adjacency_counters.read(index as u32), [1, bytes]);
    }
}

#[test]
fn rfc1812_5_3_1_the_ttl_is_decremented() {
    let (bench, mut h) = bench();
    for ttl in 0..=255u8 {
        let sent = packet(60).ttl(ttl).build();
        let out = send(&mut h, PLAIN, &sent, Flags::NONE);
        if ttl <= 1 {
            assert_eq!((out.node.as_str(), out.record.fwd), ("ip4-icmp-error", Cause::TtlExpired.to_raw()));
            assert_eq!(out.bytes, sent, "reported unchanged");
        } else {
            assert_eq!((out.node.as_str(), out.bytes[14 + 8]), ("ip4-output", ttl - 1));
            assert_eq!(checksum(&out.bytes[14..34]), 0);
        }
        // The TTL of the router's own packets does not change.
        let out = send(&mut h, PLAIN, &sent, Flags::LOCAL_ORIGIN);
        assert_eq!((out.node.as_str(), &out.bytes[14..]), ("ip4-output", &sent[..]), "{ttl}");
    }
    assert_eq!(bench.tables.adjacency_counters.read(PLAIN)[0], 254 + 256);
}

proptest! {
    /// The adjusted checksum equals a recomputed one, also if the header has options.
    #[test]
    fn the_adjusted_checksum_equals_the_computed_one(ttl in 2u8.., tos: u8, id: u16, words in 0usize..11, src: u32, dst: u32) {
        let packet = PacketBuilder::ipv4(src.into(), dst.into()).ttl(ttl).tos(tos).id(id).options(&vec![1; words * 4]);
        let sent = packet.udp(1, 2).build();
        let out = send(&mut bench().1, PLAIN, &sent, Flags::NONE);
        prop_assert_eq!(checksum(&out.bytes[14..34 + words * 4]), 0);
        prop_assert_eq!(&out.bytes[14..], &forwarded(&sent)[..]);
    }
}

#[test]
fn rfc1191_4_packets_above_the_mtu_are_reported_or_fragmented() {
    let (bench, mut h) = bench();
    let mtu = usize::from(MTU);
    for index in [PLAIN, TAG, TWO_TAGS] {
        // VLAN tags do not count.
        let fits = packet(mtu).dont_fragment().build();
        assert_eq!(send(&mut h, index, &fits, Flags::NONE).node, "ip4-output");
    }
    let before = bench.tables.adjacency_counters.read(PLAIN);
    for len in [mtu + 1, 5000] {
        let out = send(&mut h, PLAIN, &packet(len).dont_fragment().build(), Flags::NONE);
        let cause = Cause::FragmentationNeeded(MTU).to_raw();
        assert_eq!((out.node.as_str(), out.record.fwd), ("ip4-icmp-error", cause), "{len}");
    }
    assert_eq!(bench.tables.adjacency_counters.read(PLAIN), before, "unsent packets are not counted");
    for (len, pieces) in [(mtu + 1, 2), (5000, 4)] {
        let out = send_all(&mut h, &[(PLAIN, packet(len).ttl(7).build())], Flags::NONE);
        assert_eq!(out.len(), pieces);
        assert!(out.iter().all(|o| (o.node.as_str(), o.bytes[14 + 8]) == ("ip4-output", 6)));
        // An expired packet is reported, not fragmented.
        assert_eq!(send(&mut h, PLAIN, &packet(len).ttl(1).build(), Flags::NONE).node, "ip4-icmp-error");
    }
    // Headers of the fragments, and Ethernet headers.
    let bytes = (mtu + 1 + 20) + (5000 + 3 * 20) + 6 * 14;
    let counted = bench.tables.adjacency_counters.read(PLAIN);
    assert_eq!([counted[0] - before[0], counted[1] - before[1]], [6, bytes as u64]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// For any vector, packets over one adjacency leave in the order of arrival, whether they are fragmented
    /// or not.
    #[test]
    fn fragmentation_keeps_the_order_of_packets(
        sent in prop::collection::vec((PLAIN..INCOMPLETE, prop_oneof![3 => 60usize..1500, 1 => 1501usize..5000], 1u8..5, any::<bool>()), 1..300),
    ) {
        let (bench, mut h) = bench();
        let packets: Vec<_> = sent.iter().map(|&(adjacency, len, ttl, dont_fragment)| {
            let b = packet(len).ttl(ttl);
            (adjacency, if dont_fragment { b.dont_fragment() } else { b }.build())
        }).collect();
        let out = send_all(&mut h, &packets, Flags::NONE);
        prop_assert!(out.iter().all(|o| o.reason.is_none()));
        for adjacency in PLAIN..INCOMPLETE {
            let of: Vec<&Out> = out.iter().filter(|o| o.node == "ip4-output" && o.record.fwd == adjacency).collect();
            let order: Vec<_> = of.iter().filter_map(|o| o.from).collect();
            prop_assert!(order.is_sorted(), "{order:?}");
            let bytes: usize = of.iter().map(|o| o.bytes.len()).sum();
            prop_assert_eq!(bench.tables.adjacency_counters.read(adjacency), [of.len() as u64, bytes as u64]);
            let mut arrived = order.clone();
            arrived.dedup();
            let expected = (0..sent.len()).filter(|&i| {
                let (to, len, ttl, dont_fragment) = sent[i];
                to == adjacency && ttl > 1 && (len <= usize::from(MTU) || !dont_fragment)
            });
            prop_assert!(arrived.into_iter().eq(expected));
        }
    }
}

/// Sends a TCP packet of 5,000 bytes over an adjacency, to be cut into segments of `size` bytes of payload.
/// Returns the output.
fn pieces_of_large(h: &mut Harness, adjacency: u32, size: u16, dont_fragment: bool) -> Vec<Out> {
    let b = PacketBuilder::ipv4([192, 0, 2, 9].into(), [198, 51, 100, 1].into()).partial_checksum();
    let b = b.tcp(1, 2, 3, 4, wire::tcp::Flags::ACK).frame_len(5000);
    let sent = if dont_fragment { b.dont_fragment() } else { b }.build();
    h.send("ip4-rewrite", &[[vec![0; 14], sent].concat()], |_, p| {
        assert!(p.advance(14));
        p.mark_l3(14);
        p.set_fwd(adjacency);
        p.set_flags(p.flags() | Flags::GSO | Flags::CSUM_PARTIAL);
        (p.cold_mut().csum_start, p.cold_mut().csum_offset) = (34, 16);
        p.cold_mut().set_gso(Gso { kind: GsoKind::Tcp4, ecn: false, size, header_len: 54 });
    })
}

/// Sends a packet like [`pieces_of_large`]. Expects one packet as output, and returns it.
fn send_large(h: &mut Harness, adjacency: u32, size: u16, dont_fragment: bool) -> Out {
    let mut out = pieces_of_large(h, adjacency, size, dont_fragment);
    assert_eq!(out.len(), 1);
    out.remove(0)
}

#[test]
fn segments_of_gso_packets_must_fit_the_mtu() {
    let (_bench, mut h) = bench();
    for (size, fits) in [(1, true), (1460, true), (1461, false), (u16::MAX, false)] {
        let out = send_large(&mut h, PLAIN, size, true);
        let node = if fits { "ip4-output" } else { "ip4-icmp-error" };
        assert_eq!((out.node.as_str(), out.reason), (node, None), "{size}");
        // A packet that may be fragmented gets segments that fit.
        let out = send_large(&mut h, PLAIN, size, false);
        let segment = out.cold.gso().map(|g| g.size);
        assert_eq!((out.node.as_str(), segment), ("ip4-output", Some(size.min(1460))), "{size}");
    }
}

#[test]
fn udp_gso_datagrams_keep_their_size() {
    let (_bench, mut h) = bench();
    for (size, fits) in [(1472, true), (1473, false)] {
        let whole = [vec![0; 14], packet(5000).build()].concat();
        let out = h.send("ip4-rewrite", &[whole], |_, p| {
            assert!(p.advance(14));
            p.mark_l3(14);
            p.set_fwd(PLAIN);
            p.set_flags(p.flags() | Flags::GSO | Flags::CSUM_PARTIAL);
            p.cold_mut().set_gso(Gso { kind: GsoKind::UdpL4, ecn: false, size, header_len: 42 });
        });
        // Three datagrams in two fragments each, and a shorter one in one.
        assert_eq!(out.len(), if fits { 1 } else { 7 }, "{size}");
        for o in out {
            assert_eq!((o.node.as_str(), o.record.flags.any(Flags::GSO)), ("ip4-output", fits), "{size}");
            assert!(!fits || o.cold.gso().map(|g| g.size) == Some(size));
        }
    }
}

#[test]
fn segments_are_fragmented_if_the_mtu_is_below_their_headers() {
    let mut bench = Bench::new();
    let rewrite = LinkHeader::new(&ethernet(Mac([2; 6]), Mac([4; 6]), None, ethertype::IPV4));
    let narrow = |mtu| Adjacency { rewrite, interface: 20, mtu, next_hop: NEXT_HOP.into() };
    let [one, none] = [41, 40].map(|mtu| bench.writers.adjacencies.insert(narrow(mtu)).unwrap());
    let mut h = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |s| Rewrite::<Ipv4Addr>::new(&tables, s.worker));
    });
    assert_eq!(send_large(&mut h, one, 1000, false).cold.gso().map(|g| g.size), Some(1));
    // Four segments of 1,000 bytes and one of 960, each with a TCP header, in units of 16 bytes; the last
    // fragment has up to 20.
    let out = pieces_of_large(&mut h, none, 1000, false);
    assert_eq!(out.len(), 4 * 64 + 61);
    assert!(out.iter().all(|o| o.node == "ip4-output" && o.bytes.len() <= 14 + 40));
}

#[test]
fn offload_words_follow_the_link_header() {
    let (_bench, mut h) = bench();
    for (adjacency, header) in headers().iter().enumerate() {
        let out = send_large(&mut h, adjacency as u32, 1000, true);
        let more = header.len() as u16 - 14;
        assert_eq!((out.cold.csum_start, out.cold.csum_offset), (34 + more, 16));
        assert_eq!(out.cold.gso().map(|g| (g.header_len, g.size)), Some((54 + more, 1000)));
    }
}

#[test]
fn rfc1812_5_3_4_link_layer_broadcasts_are_not_forwarded() {
    let (_bench, mut h) = bench();
    let sent = packet(60).build();
    for flag in [Flags::L2_BROADCAST, Flags::L2_MULTICAST] {
        let out = send(&mut h, PLAIN, &sent, flag);
        assert_eq!((out.node.as_str(), out.reason), ("ip4-rewrite", Some("link-broadcast")));
        assert_eq!(out.bytes, sent);
        assert_eq!(send(&mut h, PLAIN, &sent, flag | Flags::LOCAL_ORIGIN).node, "ip4-output");
    }
}

#[test]
fn packets_for_incomplete_adjacencies_go_to_arp() {
    let (bench, mut h) = bench();
    for ttl in [1, 64] {
        let sent = packet(60).ttl(ttl).build();
        let out = send(&mut h, INCOMPLETE, &sent, Flags::NONE);
        let r = out.record;
        assert_eq!((out.node.as_str(), r.tx_if, r.fwd), ("ip4-arp", 20 + INCOMPLETE, INCOMPLETE));
        assert_eq!(out.bytes, sent, "its TTL is not decremented yet");
    }
    let sent = packet(60).build();
    let out = send(&mut h, NONE, &sent, Flags::NONE);
    assert_eq!((out.node.as_str(), out.reason), ("ip4-rewrite", Some("stale-adjacency")));
    assert_eq!(out.bytes, sent);
    assert_eq!([INCOMPLETE, NONE].map(|i| bench.tables.adjacency_counters.read(i)), [[0, 0]; 2]);
}

#[test]
fn packets_without_headroom_are_dropped() {
    let (bench, mut h) = bench();
    let sent = packet(60).build();
    let out = h.send("ip4-rewrite", &[&sent], |_, p| {
        // As close to the start of the buffer as the pool allows: less than a header.
        while p.push(1) {}
        let n = p.len() - sent.len();
        p.bytes_mut().copy_within(n.., 0);
        p.set_len(sent.len());
        p.set_fwd(PLAIN);
    });
    assert_eq!((out[0].node.as_str(), out[0].reason), ("ip4-rewrite", Some("no-headroom")));
    assert_eq!(bench.tables.adjacency_counters.read(PLAIN), [0, 0]);
}

#[test]
fn mixed_vectors_count_each_adjacency() {
    let (bench, mut h) = bench();
    let sent = packet(60).build();
    let out = h.send("ip4-rewrite", &vec![&sent; 700], |i, p| p.set_fwd([0, 1, 1, 0, 2, 4, 3][i % 7]));
    let to = |i: u32| out.iter().filter(|o| o.node == "ip4-output" && o.record.tx_if == 20 + i).count();
    assert_eq!([PLAIN, TAG, TWO_TAGS].map(to), [200, 200, 100]);
    let counted = [PLAIN, TAG, TWO_TAGS].map(|i| bench.tables.adjacency_counters.read(i));
    assert_eq!(counted, [[200, 200 * 74], [200, 200 * 78], [100, 100 * 82]]);
    assert!(out.iter().all(|o| Ipv4Header::split(&o.bytes).is_some()));
}
