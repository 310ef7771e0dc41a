//! The nodes: what becomes of packets that come in fragments.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use buf::{FeatureField, Flags, Packet};
use graph::{ArcKey, Cx, NoReason, PacketNode, Verdict};
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::flow::FiveTuple;
use wire::{Ipv4Header, ipv4};

use super::lab::{IN, become_whole, ends, payload, run_out};
use super::{Fragmented, Kind, Limits, Ports, Reassembly, SHALLOW};
use crate::icmp::Cause;
use crate::ip::local::Ip4Local;
use crate::testing::{Bench, checksum};

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FULL: &str = Ipv4Addr::FULL;
const EXPIRE: &str = Ipv4Addr::EXPIRE;

/// The nodes of this folder and `ip4-local`, and the tables that they share.
fn harness() -> (Harness, Reassembly) {
    let bench = Bench::new();
    let h = bench.harness(|b, t, hooks| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip4Local::new(&tables)));
        b.arc("ip4-unicast", "ip4-lookup", ArcKey::Rx);
        super::install(b, t, hooks).unwrap();
        t.ip4.protocols.register(b, 17, "udp").unwrap();
    });
    (h, bench.tables.reassembly)
}

fn datagram(len: usize) -> PacketBuilder {
    PacketBuilder::ipv4(HOST, OWN).id(77).udp(1000, 53).payload(&payload(len))
}

/// A packet in fragments of `piece` times 8 bytes of payload.
fn cut(packet: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let header = usize::from(packet[0] & 15) * 4;
    let (head, payload) = packet.split_at(header);
    let pieces = payload.chunks(piece * 8).count();
    let one = |(i, part): (usize, &[u8])| {
        let mut bytes = [head, part].concat();
        let total = bytes.len() as u16;
        let (h, _) = Ipv4Header::split_mut(&mut bytes).unwrap();
        h.set_total_len(total);
        h.set_flags_fragment((i * piece) as u16 | ((i + 1 < pieces) as u16) << 13);
        assert!(ipv4::write_checksum(&mut bytes));
        bytes
    };
    payload.chunks(piece * 8).enumerate().map(one).collect()
}

proptest! {
    /// Fragments of any size in any order, in one buffer each or in several, with link headers of any length in front,
    /// are the datagram again.
    #[test]
    fn fragments_become_the_datagram(
        len in 1usize..20_000, piece in 1usize..700, options in 0usize..10, seed: u64, lead in 0usize..40,
        padding in 0usize..20,
    ) {
        let packet = datagram(len).options(&vec![1; options * 4]).build();
        let piece = piece.max(len.div_ceil(100 * 8));
        let fragments = cut(&packet, piece);
        prop_assume!(fragments.len() > 1);
        become_whole::<Ipv4Addr>(&mut harness().0, &fragments, &packet, (seed, lead, padding));
    }
}

#[test]
fn datagrams_do_not_mix() {
    let (mut h, _tables) = harness();
    let base = datagram(30);
    let others = [
        base.clone().build(),
        base.clone().id(78).build(),
        base.clone().protocol(6).build(),
        PacketBuilder::ipv4(HOST, Ipv4Addr::new(192, 0, 2, 2)).id(77).udp(1000, 53).payload(&[1; 30]).build(),
        PacketBuilder::ipv4(OWN, OWN).id(77).udp(1000, 53).payload(&[1; 30]).build(),
        base.build(),
    ];
    let cut: Vec<Vec<Vec<u8>>> = others.iter().map(|p| cut(p, 2)).collect();
    // The first fragment of each, then the second of each, and so on.
    let turns =
        (0..3).flat_map(|turn| cut.iter().enumerate().filter_map(move |(i, f)| Some((i, f.get(turn)?))));
    let (of, arriving): (Vec<usize>, Vec<&Vec<u8>>) = turns.unzip();
    let out = h.send(FULL, &arriving, |i, p| p.set_fib((of[i] == 5) as u16));
    let whole: Vec<Vec<u8>> = out.into_iter().map(|o| o.bytes).collect();
    assert_eq!(whole.len(), others.len());
    assert!(others.iter().all(|packet| whole.contains(packet)));
}

#[test]
fn overlapping_fragments_are_dropped_with_their_datagram() {
    let (mut h, _tables) = harness();
    let packet = datagram(100).build();
    let mut fragments = cut(&packet, 4);
    // The second one begins 8 bytes too early.
    let (second, _) = Ipv4Header::split_mut(&mut fragments[1]).unwrap();
    second.set_flags_fragment(second.flags_fragment() - 1);
    assert!(ipv4::write_checksum(&mut fragments[1]));
    let out = h.send(FULL, &fragments, |_, _| ());
    assert_eq!(ends(&out), vec![(FULL, Some("overlap")); fragments.len()]);
}

#[test]
fn a_datagram_to_a_group_is_not_looked_up() {
    let (mut h, _tables) = harness();
    let packet = PacketBuilder::ipv4(HOST, Ipv4Addr::new(224, 0, 0, 9)).udp(1, 520).payload(&[0; 50]).build();
    let mut set = |i: usize, p: &mut Packet<'_>| {
        p.set_flags(p.flags() | if i == 1 { Flags::L2_MULTICAST } else { Flags::NONE });
    };
    let out = h.send("ip4-local", &cut(&packet, 4), &mut set);
    assert_eq!(ends(&out), [("udp", None)]);
    assert!(out[0].record.flags.any(Flags::L2_MULTICAST), "how one of the fragments came is how it came");
}

#[test]
fn rfc3168_5_3_no_mark_of_congestion_is_lost() {
    let whole = |codes: [u8; 3]| {
        let (mut h, _tables) = harness();
        let mut fragments = cut(&datagram(100).build(), 5);
        for (f, code) in fragments.iter_mut().zip(codes) {
            f[1] = 0xb8 | code;
            assert!(ipv4::write_checksum(f));
        }
        let out = h.send(FULL, &fragments, |_, _| ());
        let bad = out.iter().find_map(|o| o.reason);
        assert_eq!(checksum(&out[0].bytes[..20]), 0);
        (out[0].bytes[1], bad)
    };
    assert_eq!(whole([2, 2, 2]), (0xba, None));
    assert_eq!(whole([0, 0, 0]), (0xb8, None));
    assert_eq!(whole([2, 3, 2]), (0xbb, None));
    assert_eq!(whole([1, 2, 1]), (0xb9, None));
    assert_eq!(whole([2, 3, 0]).1, Some("bad-ecn"));
}

#[test]
fn more_than_a_packet_can_be_is_dropped() {
    let (mut h, _tables) = harness();
    let ping_of_death = datagram(100).fragment(8185, false).build();
    assert_eq!(ends(&h.send(FULL, &[ping_of_death], |_, _| ())), [(FULL, Some("too-long"))]);
    // Fits behind a header of 20 bytes, but not behind the one of its first fragment.
    let first = datagram(0).options(&[1; 40]).payload(&[0; 65_392 - 8]).fragment(0, true).build();
    let last =
        PacketBuilder::ipv4(HOST, OWN).id(77).protocol(17).payload(&[0; 120]).fragment(65_392 / 8, false);
    let out = h.send(FULL, &[first, last.build()], |_, _| ());
    assert_eq!(ends(&out), [(FULL, Some("too-long")); 2]);
}

#[test]
fn what_is_still_to_be_done_cannot_be_done_to_a_fragment() {
    let (mut h, _tables) = harness();
    let fragments = cut(&datagram(100).build(), 7);
    for flag in [Flags::GSO, Flags::CSUM_PARTIAL] {
        let out = h.send(FULL, &fragments, |_, p| p.set_flags(p.flags() | flag));
        assert_eq!(ends(&out), vec![(FULL, Some("unfinished")); fragments.len()]);
    }
}

#[test]
fn rfc1122_3_3_2_the_source_hears_of_a_datagram_that_did_not_become_whole() {
    let (mut h, tables) = harness();
    let fragments = cut(&datagram(100).build(), 4);
    h.send(FULL, &fragments[..2], |_, p| p.set_fwd(5));
    h.send(FULL, &cut(&datagram(100).id(78).build(), 4)[1..], |_, _| ());
    h.advance(Duration::from_millis(29_999));
    assert!(!tables.is_due::<Ipv4Addr>(h.now()));
    assert_eq!(ends(&h.send(EXPIRE, &[&[0u8; 0]], |_, _| ())), []);
    h.advance(Duration::from_millis(1));
    assert!(tables.is_due::<Ipv4Addr>(h.now()));
    let mut out = h.send(EXPIRE, &[&[0u8; 0]], |_, _| ());
    out.sort_by_key(|o| o.node.clone());
    assert_eq!(ends(&out)[0], ("ip4-icmp-error", None));
    assert_eq!(ends(&out)[1..], vec![(EXPIRE, Some("full-timed-out")); fragments.len()]);
    assert_eq!((&out[0].bytes, out[0].record.fwd), (&fragments[0], Cause::ReassemblyTimeout.to_raw()));
    assert!(!tables.is_due::<Ipv4Addr>(h.now()));
}

#[test]
fn limits_hold_and_can_be_changed() {
    let (mut h, tables) = harness();
    let firsts: Vec<Vec<u8>> = (0..1000).map(|id| datagram(40).id(id).fragment(0, true).build()).collect();
    tables.set_limits(Kind::Full4, Limits { datagrams: 40, ..tables.limits(Kind::Full4) });
    let out = h.send(FULL, &firsts, |_, _| ());
    assert!(out.iter().all(|o| o.reason == Some("displaced-datagrams")));
    let fill = tables.totals(Kind::Full4).fill;
    assert_eq!((fill.datagrams as usize + out.len(), fill.datagrams), (1000, 40));
    tables.set_limits(Kind::Full4, Limits { buffers: 4, ..tables.limits(Kind::Full4) });
    let out = h.send(FULL, &firsts[..100], |_, _| ());
    assert!(out.iter().any(|o| o.reason == Some("displaced-buffers")));
    assert!(tables.totals(Kind::Full4).fill.buffers <= 4);
    let views = tables.views(Kind::Full4);
    assert!(
        views.len() <= 40
            && views.iter().all(|v| (v.src, v.dst, v.protocol) == (HOST.into(), OWN.into(), Some(17)))
    );
    run_out::<Ipv4Addr>(&mut h, &tables);
}

/// `ip4-sv-reassembly`, switched on for `IN`.
fn shallow() -> (Harness, Reassembly) {
    let (mut h, tables) = harness();
    h.arcs().enable("ip4-unicast", "ip4-sv-reassembly", IN, true).unwrap();
    (h, tables)
}

/// A feature that looks at ports: it notes what it learns of each packet.
struct PortReader(FeatureField<Ports>, Arc<Mutex<Vec<(u16, u16)>>>);
graph::edges! { enum ReaderNext { Continue = "next-feature" } }

impl PacketNode for PortReader {
    const NAME: &'static str = "port-reader";
    type Next = ReaderNext;
    type Drop = NoReason;
    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<ReaderNext, NoReason> {
        let ports = p.feature(self.0);
        self.1.lock().unwrap().push((ports.src, ports.dst));
        Verdict::Next(ReaderNext::Continue)
    }
}

#[test]
fn a_feature_behind_learns_the_ports_of_every_fragment() {
    let (bench, learned) = (Bench::new(), Arc::<Mutex<Vec<_>>>::default());
    let mut h = bench.harness(|b, t, hooks| {
        b.arc("ip4-unicast", "ip4-lookup", ArcKey::Rx);
        super::install(b, t, hooks).unwrap();
        let (field, notes) = (b.field_of(SHALLOW).unwrap(), learned.clone());
        b.packet(move |_| Ok(PortReader(field, notes.clone())));
        b.feature("ip4-unicast", "port-reader", &[SHALLOW], &[]);
    });
    for feature in [SHALLOW, "port-reader"] {
        h.arcs().enable("ip4-unicast", feature, IN, true).unwrap();
    }
    let mut packets = cut(&datagram(100).build(), 3);
    packets.reverse();
    let fragments = packets.len();
    let ping = PacketBuilder::ipv4(HOST, OWN).id(9).echo_request(0x1234, 1).payload(&[0; 40]).build();
    packets.extend(cut(&ping, 3).into_iter().rev());
    // A whole one has its own ports, and needs no field.
    packets.push(datagram(9).build());
    let out = send_shallow(&mut h, &packets);
    assert!(out.iter().all(|o| o.node == "ip4-lookup"), "{:?}", ends(&out));
    let mut expected = vec![(1000, 53); fragments];
    expected.extend([(0x1234, 0x1234); 2]);
    expected.push((0, 0));
    assert_eq!(*learned.lock().unwrap(), expected);
}

#[test]
fn fragments_keep_their_place_among_whole_packets() {
    let (mut h, _tables) = shallow();
    let (whole, fragments) = (datagram(9).build(), cut(&datagram(100).build(), 6));
    let mut packets = vec![whole.clone()];
    for fragment in fragments {
        packets.extend([fragment, whole.clone()]);
    }
    let sent: Vec<_> = send_shallow(&mut h, &packets).into_iter().map(|o| o.bytes).collect();
    assert_eq!(sent, packets);
}

fn send_shallow(h: &mut Harness, packets: &[Vec<u8>]) -> Vec<Out> {
    h.send("ip4-sv-reassembly", packets, |_, p| p.set_rx_if(IN))
}

#[test]
fn no_fragment_goes_before_the_first_and_all_hash_alike() {
    let (mut h, tables) = shallow();
    let fragments = cut(&datagram(100).build(), 3);
    assert_eq!(ends(&send_shallow(&mut h, &fragments[2..])), []);
    assert_eq!(ends(&send_shallow(&mut h, &[datagram(9).build()])), [("ip4-lookup", None)], "others pass");
    let out = send_shallow(&mut h, &[fragments[1].clone(), fragments[0].clone(), fragments[1].clone()]);
    let mut expected = vec![&fragments[0]];
    expected.extend(&fragments[2..]);
    expected.extend([&fragments[1]; 2]);
    let sent: Vec<&Vec<u8>> = out.iter().map(|o| &o.bytes).collect();
    assert_eq!(sent, expected);
    let flow =
        FiveTuple { src: HOST.to_bits(), dst: OWN.to_bits(), src_port: 1000, dst_port: 53, protocol: 17 };
    assert!(out.iter().all(|o| o.node == "ip4-lookup" && o.record.hash == flow.hash()));
    assert_eq!(tables.views(Kind::Shallow4)[0].ports, Some((1000, 53)));
}

#[test]
fn fragments_that_no_feature_can_judge_are_dropped() {
    let (mut h, _tables) = shallow();
    let tcp = PacketBuilder::ipv4(HOST, OWN).protocol(6).payload(&[0; 16]).fragment(1, true).build();
    let empty = PacketBuilder::ipv4(HOST, OWN).protocol(6).fragment(9, true).build();
    let first = datagram(24).fragment(0, true);
    let second = first.clone().udp(1001, 53).build();
    let out = send_shallow(&mut h, &[tcp, empty, first.build(), second]);
    let reasons = [Some("tiny-fragment"), Some("bad-fragment"), None, Some("overlap")];
    let by_packet = |i: usize| out.iter().find(|o| o.from == Some(i)).map(|o| o.reason);
    assert_eq!([0, 1, 2, 3].map(|i| by_packet(i).unwrap()), reasons);
}

#[test]
fn fragments_whose_first_does_not_come_are_dropped() {
    let (mut h, tables) = shallow();
    let fragments = cut(&datagram(100).build(), 3);
    send_shallow(&mut h, &fragments[1..]);
    h.advance(Duration::from_secs(3));
    assert!(tables.is_due::<Ipv4Addr>(h.now()));
    let out = h.send(EXPIRE, &[&[0u8; 0]], |_, _| ());
    assert_eq!(ends(&out), vec![(EXPIRE, Some("sv-timed-out")); fragments.len() - 1]);
}
