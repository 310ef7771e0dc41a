//! Tests the IPv4 nodes with packets that arrive in fragments.

use std::net::Ipv4Addr;
use std::time::Duration;

use buf::{Flags, Packet};
use graph::ArcKey;
use proptest::prelude::*;
use testkit::harness::Harness;
use wire::builder::PacketBuilder;
use wire::{Ipv4Header, ipv4};

use crate::family::Fragmented;
use crate::lab::{HOST, OWN, become_whole, cut, datagram, ends, is_due, run_out};
use crate::state::Reassembly;
use crate::waiting::Limits;
use net::ip::Cause;
use net::testing::{Bench, checksum};

const FULL: &str = Ipv4Addr::FULL.name;
const EXPIRE: &str = Ipv4Addr::FULL.expire;

/// Returns a graph with this crate's nodes and `ip4-local`, and their shared tables.
fn harness() -> (Harness, Bench) {
    let bench = Bench::new();
    let h = bench.harness(|b, t, hooks| {
        net::testing::local_nodes(b, t);
        b.arc("ip4-unicast", "ip4-lookup", ArcKey::Rx);
        crate::install(b, t, hooks).unwrap();
        t.ip4.protocols.register(b, 17, "udp").unwrap();
    });
    (h, bench)
}

proptest! {
    /// Fragments of any size in any order are reassembled to the datagram, in one buffer each or in several,
    /// with link headers of any length in front.
    #[test]
    fn fragments_are_reassembled(
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
fn fragments_of_different_datagrams_do_not_mix() {
    let (mut h, _bench) = harness();
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
    let (mut h, _bench) = harness();
    let packet = datagram(100).build();
    let mut fragments = cut(&packet, 4);
    // The second fragment begins 8 bytes too early.
    let (second, _) = Ipv4Header::split_mut(&mut fragments[1]).unwrap();
    second.set_flags_fragment(second.flags_fragment() - 1);
    assert!(ipv4::write_checksum(&mut fragments[1]));
    let out = h.send(FULL, &fragments, |_, _| ());
    assert_eq!(ends(&out), vec![(FULL, Some("overlap")); fragments.len()]);
}

#[test]
fn a_reassembled_group_datagram_skips_the_lookup() {
    let (mut h, _bench) = harness();
    let packet = PacketBuilder::ipv4(HOST, Ipv4Addr::new(224, 0, 0, 9)).udp(1, 520).payload(&[0; 50]).build();
    let mut set = |i: usize, p: &mut Packet<'_>| {
        p.set_flags(p.flags() | if i == 1 { Flags::L2_MULTICAST } else { Flags::NONE });
    };
    let out = h.send("ip4-local", &cut(&packet, 4), &mut set);
    assert_eq!(ends(&out), [("udp", None)]);
    assert!(out[0].record.flags.any(Flags::L2_MULTICAST), "how one of the fragments came is how it came");
}

#[test]
fn rfc3168_5_3_congestion_marks_are_kept() {
    let whole = |codes: [u8; 3]| {
        let (mut h, _bench) = harness();
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
fn too_long_datagrams_are_dropped() {
    let (mut h, _bench) = harness();
    let ping_of_death = datagram(100).fragment(8185, false).build();
    assert_eq!(ends(&h.send(FULL, &[ping_of_death], |_, _| ())), [(FULL, Some("too-long"))]);
    // The datagram fits behind a header of 20 bytes, but not behind the header of its first fragment.
    let first = datagram(0).options(&[1; 40]).payload(&[0; 65_392 - 8]).fragment(0, true).build();
    let last =
        PacketBuilder::ipv4(HOST, OWN).id(77).protocol(17).payload(&[0; 120]).fragment(65_392 / 8, false);
    let out = h.send(FULL, &[first, last.build()], |_, _| ());
    assert_eq!(ends(&out), [(FULL, Some("too-long")); 2]);
}

#[test]
fn fragments_with_pending_offloads_are_dropped() {
    let (mut h, _bench) = harness();
    let fragments = cut(&datagram(100).build(), 7);
    for flag in [Flags::GSO, Flags::CSUM_PARTIAL] {
        let out = h.send(FULL, &fragments, |_, p| p.set_flags(p.flags() | flag));
        assert_eq!(ends(&out), vec![(FULL, Some("unfinished")); fragments.len()]);
    }
}

#[test]
fn rfc1122_3_3_2_incomplete_datagrams_are_reported_to_the_source() {
    let (mut h, bench) = harness();
    let fragments = cut(&datagram(100).build(), 4);
    h.send(FULL, &fragments[..2], |_, p| p.set_fwd(5));
    h.send(FULL, &cut(&datagram(100).id(78).build(), 4)[1..], |_, _| ());
    h.advance(Duration::from_millis(29_999));
    assert!(!is_due(&h, &bench, Ipv4Addr::FULL));
    assert_eq!(ends(&h.send(EXPIRE, &[&[0u8; 0]], |_, _| ())), []);
    h.advance(Duration::from_millis(1));
    assert!(is_due(&h, &bench, Ipv4Addr::FULL));
    let mut out = h.send(EXPIRE, &[&[0u8; 0]], |_, _| ());
    out.sort_by_key(|o| o.node.clone());
    assert_eq!(ends(&out)[0], ("ip4-icmp-error", None));
    assert_eq!(ends(&out)[1..], vec![(EXPIRE, Some("full-timed-out")); fragments.len()]);
    assert_eq!((&out[0].bytes, out[0].record.fwd), (&fragments[0], Cause::Feature(0).to_raw()));
    assert!(!is_due(&h, &bench, Ipv4Addr::FULL));
}

#[test]
fn limits_apply_and_can_be_changed() {
    let (mut h, bench) = harness();
    let firsts: Vec<Vec<u8>> = (0..1000).map(|id| datagram(40).id(id).fragment(0, true).build()).collect();
    let limit = |change: fn(Limits) -> Limits| {
        bench.state(|all: &mut Reassembly| all.set_limits(FULL, change(all.limits(FULL).unwrap())).unwrap());
    };
    let fill = || bench.state(|all: &mut Reassembly| all.totals(FULL).unwrap().fill);
    limit(|limits| Limits { datagrams: 40, ..limits });
    let out = h.send(FULL, &firsts, |_, _| ());
    assert!(out.iter().all(|o| o.reason == Some("displaced-datagrams")));
    assert_eq!((fill().datagrams as usize + out.len(), fill().datagrams), (1000, 40));
    limit(|limits| Limits { buffers: 4, ..limits });
    let out = h.send(FULL, &firsts[..100], |_, _| ());
    assert!(out.iter().any(|o| o.reason == Some("displaced-buffers")));
    assert!(fill().buffers <= 4);
    let views = bench.state(|all: &mut Reassembly| all.views(FULL).unwrap());
    assert!(
        views.len() <= 40
            && views.iter().all(|v| (v.src, v.dst, v.protocol) == (HOST.into(), OWN.into(), Some(17)))
    );
    run_out::<Ipv4Addr>(&mut h, &bench);
}
