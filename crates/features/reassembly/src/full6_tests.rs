//! Tests the IPv6 nodes with packets that arrive in fragments.

use std::net::Ipv6Addr;
use std::time::Duration;

use buf::{Flags, Packet};
use graph::ArcKey;
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::protocol::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING, UDP};
use wire::{Ipv6Header, ipv6};

use crate::family::Fragmented;
use crate::lab::{become_whole, ends, is_due, payload, run_out};
use crate::state::Reassembly;
use net::ip::Cause;
use net::testing::Bench;

const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
const OWN: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const FULL: &str = Ipv6Addr::FULL.name;
const EXPIRE: &str = Ipv6Addr::FULL.expire;

/// Returns a graph with this crate's nodes and `ip6-local`, and their shared tables.
fn harness() -> (Harness, Bench) {
    let bench = Bench::new();
    let h = bench.harness(|b, t, hooks| {
        net::testing::local_nodes(b, t);
        b.arc("ip4-unicast", "ip4-lookup", ArcKey::Rx);
        crate::install(b, t, hooks).unwrap();
        t.ip6.protocols.register(b, UDP.into(), "udp").unwrap();
    });
    (h, bench)
}

fn datagram(len: usize) -> PacketBuilder {
    PacketBuilder::ipv6(HOST, OWN).udp(1000, 53).payload(&payload(len))
}

/// Returns a packet's fragments. Each fragment has the first `front` bytes of the packet (its headers up to the cut), a fragment header,
/// and up to `piece` times 8 bytes of the rest. `named_at` is the offset of the "next header" byte that announces the fragment header.
fn cut_behind(packet: &[u8], (front, named_at): (usize, usize), id: u32, piece: usize) -> Vec<Vec<u8>> {
    let (head, rest) = packet.split_at(front);
    let pieces = rest.chunks(piece * 8).count();
    let one = |(i, part): (usize, &[u8])| {
        let place = (i * piece * 8) as u16 | u16::from(i + 1 < pieces);
        let fragment = [&[head[named_at], 0][..], &place.to_be_bytes(), &id.to_be_bytes()].concat();
        let mut bytes = [head, &fragment, part].concat();
        bytes[named_at] = FRAGMENT;
        let payload = bytes.len() as u16 - 40;
        bytes[4..6].copy_from_slice(&payload.to_be_bytes());
        bytes
    };
    rest.chunks(piece * 8).enumerate().map(one).collect()
}

/// Like [`cut_behind`], but cuts the packet directly after its IPv6 header. So only the first fragment has the extension headers.
fn cut(packet: &[u8], piece: usize) -> Vec<Vec<u8>> {
    cut_behind(packet, (40, 6), 77, piece)
}

fn causes(out: &[Out]) -> Vec<Cause> {
    assert!(out.iter().all(|o| (o.node.as_str(), o.reason) == ("ip6-icmp-error", None)), "{:?}", ends(out));
    out.iter().map(|o| Cause::from_raw(o.record.fwd)).collect()
}

proptest! {
    /// Fragments of any size in any order are reassembled to the datagram, in one buffer each or in several,
    /// with link headers of any length in front, and with extension headers before and after the fragment
    /// header.
    #[test]
    fn fragments_are_reassembled(
        len in 1usize..20_000, piece in 9usize..700, hops: bool, route: bool, options in 0usize..3, seed: u64,
        lead in 0usize..40, padding in 0usize..20,
    ) {
        let mut packet = datagram(len);
        for (kind, wanted) in [(HOP_BY_HOP, hops), (ROUTING, route), (DESTINATION_OPTIONS, options > 0)] {
            if wanted {
                packet = packet.extension(kind, if kind == ROUTING { &[] } else { &[1, 4] });
            }
        }
        let packet = packet.build();
        let front = 40 + 8 * (usize::from(hops) + usize::from(route));
        let named_at = if front > 40 { front - 8 } else { 6 };
        let fragments = cut_behind(&packet, (front, named_at), 7, piece.max(len.div_ceil(100 * 8)));
        prop_assume!(fragments.len() > 1);
        become_whole::<Ipv6Addr>(&mut harness().0, &fragments, &packet, (seed, lead, padding));
    }

    /// Whatever bytes follow the fragment header, each packet waits, or is dropped, reported, delivered or looked up.
    #[test]
    fn any_bytes_are_handled(packets in prop::collection::vec((any::<[u8; 4]>(), prop::collection::vec(any::<u8>(), 0..100)), 1..20)) {
        let (mut h, bench) = harness();
        let packets: Vec<Vec<u8>> = packets.into_iter().map(|([next, reserved, place, more], rest)| {
            let fragment = [next, reserved, place & 0x81, more & 9, 0, 0, 0, 0];
            PacketBuilder::ipv6(HOST, OWN).protocol(FRAGMENT).payload(&[&fragment[..], &rest].concat()).build()
        }).collect();
        let out = h.send("ip6-local", &packets, |_, _| ());
        let known = ["ip6-icmp-error", "ip6-lookup", "udp"];
        prop_assert!(out.iter().all(|o| o.reason.is_some() || known.contains(&o.node.as_str())), "{:?}", ends(&out));
        run_out::<Ipv6Addr>(&mut h, &bench);
    }
}

#[test]
fn rfc8200_4_5_fragments_of_different_datagrams_do_not_mix() {
    let (mut h, _bench) = harness();
    let packet = datagram(30).build();
    let link_local =
        PacketBuilder::ipv6("fe80::9".parse().unwrap(), OWN).udp(1000, 53).payload(&[1; 30]).build();
    let other = PacketBuilder::ipv6(OWN, OWN).udp(1000, 53).payload(&[1; 30]).build();
    // Datagrams that differ in source, destination, identification, VRF, or the link of a link-local address.
    let sent = [
        (&packet, 77, 0, 0),
        (&packet, 78, 0, 0),
        (&packet, 77 | 1 << 16, 0, 0),
        (&packet, 77, 5, 0),
        (&other, 77, 0, 0),
        (&link_local, 77, 0, 0),
        (&link_local, 77, 0, 1),
    ];
    let cut: Vec<Vec<Vec<u8>>> = sent.iter().map(|(p, id, ..)| cut_behind(p, (40, 6), *id, 2)).collect();
    let turns =
        (0..3).flat_map(|turn| cut.iter().enumerate().filter_map(move |(i, f)| Some((i, f.get(turn)?))));
    let (of, arriving): (Vec<usize>, Vec<&Vec<u8>>) = turns.unzip();
    let out = h.send(FULL, &arriving, |i, p| {
        p.set_fib(sent[of[i]].2);
        p.set_rx_if(sent[of[i]].3);
    });
    let whole: Vec<&Vec<u8>> = out.iter().map(|o| &o.bytes).collect();
    assert_eq!(whole, sent.map(|s| s.0));
}

#[test]
fn rfc8200_4_5_the_first_fragment_sets_the_next_header() {
    let (mut h, _bench) = harness();
    let packet = datagram(100).build();
    let mut fragments = cut(&packet, 4);
    for later in &mut fragments[1..] {
        later[40] = DESTINATION_OPTIONS;
    }
    fragments.reverse();
    let out = h.send(FULL, &fragments, |_, _| ());
    assert_eq!((ends(&out), &out[0].bytes), (vec![("ip6-lookup", None)], &packet));
}

#[test]
fn rfc5722_overlaps_drop_the_datagram_without_a_report() {
    let (mut h, _bench) = harness();
    let mut fragments = cut(&datagram(100).build(), 4);
    // The second fragment begins 8 bytes too early.
    fragments[1][43] -= 8;
    let out = h.send(FULL, &fragments, |_, _| ());
    assert_eq!(ends(&out), vec![(FULL, Some("overlap")); fragments.len()]);
}

#[test]
fn rfc8200_4_5_invalid_fragments_are_reported_to_the_source() {
    let (mut h, bench) = harness();
    let piece = |offset, more, len| datagram(len).fragment(offset, more).build();
    // The UDP header is part of the fragment.
    for (packet, cause) in [
        (piece(0, true, 3), Some(Cause::ParameterProblem(4))),
        (piece(7, true, 9), Some(Cause::ParameterProblem(4))),
        (piece(8190, false, 8), Some(Cause::ParameterProblem(42))),
        (piece(8190, true, 8), Some(Cause::ParameterProblem(42))),
        (piece(8190, false, 7), None),
        (piece(0, true, 8), None),
    ] {
        let out = h.send("ip6-local", &[packet], |_, _| ());
        assert_eq!(causes(&out), Vec::from_iter(cause));
    }
    // The headers in front of the fragment header add to the datagram's length.
    let behind = datagram(7).extension(ROUTING, &[]).fragment(8190, false).build();
    assert_eq!(causes(&h.send("ip6-local", &[behind], |_, _| ())), [Cause::ParameterProblem(50)]);
    let empty = PacketBuilder::ipv6(HOST, OWN).protocol(UDP).fragment(9, false).build();
    assert_eq!(ends(&h.send("ip6-local", &[empty], |_, _| ())), [(FULL, Some("bad-fragment"))]);
    // The last two of the pieces in the list above are valid, and wait for the rest of their datagram.
    let fill = bench.state(|all: &mut Reassembly| all.totals(FULL).unwrap().fill);
    assert_eq!(fill.fragments, 2);
    run_out::<Ipv6Addr>(&mut h, &bench);
}

#[test]
fn the_longest_datagram_passes_and_longer_ones_are_dropped() {
    let (mut h, _bench) = harness();
    let longest = datagram(65_535 - 8).build();
    let out = h.send("ip6-local", &cut(&longest, 180), |_, _| ());
    assert_eq!((ends(&out), &out[0].bytes), (vec![("ip6-lookup", None)], &longest));
    // The datagram fits behind the headers of its last fragment, but not behind those of its first fragment.
    let first = datagram(65_512 - 8).extension(ROUTING, &[]).fragment(0, true).build();
    let last = datagram(0).protocol(UDP).fragment(65_512 / 8, false).payload(&[0; 20]).build();
    let out = h.send(FULL, &[first, last], |_, _| ());
    assert_eq!(ends(&out), [(FULL, Some("too-long")); 2]);
}

#[test]
fn rfc8200_4_5_incomplete_datagrams_are_reported_to_the_source() {
    let (mut h, bench) = harness();
    let fragments = cut(&datagram(100).build(), 4);
    h.send(FULL, &fragments[..2], |_, p| p.set_fwd(5));
    h.send(FULL, &cut_behind(&datagram(100).build(), (40, 6), 78, 4)[1..], |_, _| ());
    h.advance(Duration::from_millis(59_999));
    assert!(!is_due(&h, &bench, Ipv6Addr::FULL));
    h.advance(Duration::from_millis(1));
    assert!(is_due(&h, &bench, Ipv6Addr::FULL));
    let mut out = h.send(EXPIRE, &[&[0u8; 0]], |_, _| ());
    out.sort_by_key(|o| o.node.clone());
    assert_eq!(ends(&out)[0], ("ip6-icmp-error", None));
    assert_eq!(ends(&out)[1..], vec![(EXPIRE, Some("full-timed-out")); fragments.len()]);
    assert_eq!((&out[0].bytes, out[0].record.fwd), (&fragments[0], Cause::Feature(0).to_raw()));
}

#[test]
fn a_reassembled_group_datagram_skips_the_lookup() {
    let (mut h, _bench) = harness();
    let group = Ipv6Addr::from_bits(ipv6::ALL_NODES);
    let packet = PacketBuilder::ipv6(HOST, group).udp(1, 521).payload(&[0; 50]).build();
    let mut set = |i: usize, p: &mut Packet<'_>| {
        p.set_flags(p.flags() | if i == 1 { Flags::L2_MULTICAST } else { Flags::NONE });
    };
    let out = h.send("ip6-local", &cut(&packet, 4), &mut set);
    assert_eq!(ends(&out), [("udp", None)]);
    assert!(out[0].record.flags.any(Flags::L2_MULTICAST), "how one of the fragments came is how it came");
}

#[test]
fn rfc3168_5_3_congestion_marks_are_kept() {
    let whole = |codes: [u8; 3]| {
        let (mut h, _bench) = harness();
        let mut fragments = cut(&datagram(100).build(), 5);
        for (f, code) in fragments.iter_mut().zip(codes) {
            Ipv6Header::split_mut(f).unwrap().0.set_traffic_class(0xb8 | code);
        }
        let out = h.send(FULL, &fragments, |_, _| ());
        let bad = out.iter().find_map(|o| o.reason);
        (Ipv6Header::split(&out[0].bytes).unwrap().0.traffic_class(), bad)
    };
    assert_eq!(whole([2, 2, 2]), (0xba, None));
    assert_eq!(whole([2, 3, 2]), (0xbb, None));
    assert_eq!(whole([2, 3, 0]).1, Some("bad-ecn"));
}

#[test]
fn a_datagram_can_contain_a_fragment_header() {
    let (mut h, _bench) = harness();
    // RFC 6946: an atomic fragment is treated like a packet without the header.
    let atomic = datagram(3000).fragment(0, false).build();
    let out = h.send("ip6-local", &cut(&atomic, 50), |_, _| ());
    assert_eq!((ends(&out), &out[0].bytes), (vec![("ip6-lookup", None)], &atomic));
    let out = h.send("ip6-local", &[&out[0].bytes], |_, _| ());
    assert_eq!(ends(&out), [("udp", None)]);
    // A twice fragmented packet is reassembled twice, in any order of its pieces, and with pieces in several
    // buffers.
    let whole = datagram(12_000).build();
    let pieces = cut_behind(&whole, (40, 6), 1, 400);
    let again = pieces.iter().zip(2..).map(|(piece, id)| cut_behind(piece, (40, 6), id, 100));
    let mut arriving: Vec<Vec<u8>> = again.flatten().collect();
    arriving.reverse();
    let out = h.send("ip6-local", &arriving, |_, _| ());
    assert_eq!(ends(&out), vec![("ip6-lookup", None); pieces.len()]);
    let once: Vec<&Vec<u8>> = out.iter().map(|o| &o.bytes).collect();
    assert!(pieces.iter().all(|piece| once.contains(&piece)));
    let out = h.send("ip6-local", &once, |_, _| ());
    assert_eq!((ends(&out), &out[0].bytes), (vec![("ip6-lookup", None)], &whole));
    // Each piece is the whole content of an atomic fragment. The headers of the first piece, its outer
    // fragment header included, become those of the whole.
    let wrapped = pieces.iter().zip(2..).flat_map(|(piece, id)| cut_behind(piece, (40, 6), id, 1000));
    let out = h.send("ip6-local", &Vec::from_iter(wrapped), |_, _| ());
    assert_eq!(ends(&out), [("ip6-lookup", None)]);
    let out = h.send("ip6-local", &[&out[0].bytes], |_, _| ());
    assert_eq!((ends(&out), &out[0].bytes[48..]), (vec![("udp", None)], &whole[40..]));
}
