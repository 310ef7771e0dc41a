//! Tests of `ip4-local` and its registry.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;

use super::local::Ip4Local;
use crate::ip::Cause;
use crate::testing::Bench;

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const KNOWN: u8 = 89;

fn harness() -> Harness {
    Bench::new().harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip4Local::new(&tables)));
        t.ip4.protocols.register(b, u16::from(KNOWN), "known").unwrap();
        t.ip4.fragments.register(b, 0, "fragments").unwrap();
    })
}

fn packet() -> PacketBuilder {
    PacketBuilder::ipv4(HOST, OWN).protocol(KNOWN).payload(b"data")
}

fn send(h: &mut Harness, packet: &[u8]) -> Out {
    let mut out = h.send("ip4-local", &[packet], |_, _| ());
    assert_eq!(out.len(), 1);
    out.remove(0)
}

proptest! {
    /// The next node gets the packet with the length that its header says, whatever the padding was.
    #[test]
    fn padding_is_removed_before_the_next_node(len in 0usize..6000, padding in 0usize..3000, options in 0usize..10) {
        let mut h = harness();
        let packet = packet().options(&vec![1; options * 4]).payload(&vec![3; len]).build();
        let out = send(&mut h, &[packet.clone(), vec![0xff; padding]].concat());
        prop_assert_eq!((out.node.as_str(), out.reason), ("known", None));
        prop_assert_eq!(out.bytes, packet);
    }

    /// For any bytes, the node returns an edge or a drop reason.
    #[test]
    fn any_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let out = send(&mut harness(), &bytes);
        prop_assert!(out.reason.is_some() || ["known", "ip4-icmp-error", "fragments"].contains(&out.node.as_str()));
    }
}

#[test]
fn rfc1812_5_2_7_1_an_unknown_protocol_is_reported() {
    let out = send(&mut harness(), &packet().protocol(KNOWN + 1).build());
    assert_eq!((out.node.as_str(), out.reason), ("ip4-icmp-error", None));
    assert_eq!(out.record.fwd, Cause::ProtocolUnreachable.to_raw());
}

#[test]
fn fragments_are_dropped_without_reassembly() {
    let mut h = Bench::new().harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip4Local::new(&tables)));
    });
    let out = send(&mut h, &packet().fragment(5, true).build());
    assert_eq!((out.node.as_str(), out.reason), ("ip4-local", Some("fragment")));
}

#[test]
fn all_fragments_go_to_reassembly() {
    let mut h = harness();
    for (offset, more) in [(0, true), (5, true), (5, false)] {
        let fragment = packet().fragment(offset, more).build();
        let out = send(&mut h, &[fragment.clone(), vec![0; 20]].concat());
        assert_eq!((out.node.as_str(), out.reason), ("fragments", None));
        assert_eq!(out.bytes, fragment, "without padding");
    }
    assert_eq!(send(&mut h, &packet().dont_fragment().build()).node, "known");
}

#[test]
fn packets_with_inconsistent_lengths_are_dropped() {
    let good = packet().build();
    let mut longer = good.clone();
    longer[3] += 1;
    let mut no_header = good.clone();
    no_header[3] = 19;
    let mut short_ihl = good.clone();
    short_ihl[0] = 0x44;
    let mut long_ihl = good.clone();
    long_ihl[0] = 0x4f;
    for bad in [&longer[..], &no_header, &short_ihl, &long_ihl, &good[..19], &[]] {
        let out = send(&mut harness(), bad);
        assert_eq!((out.node.as_str(), out.reason), ("ip4-local", Some("bad-length")));
    }
}

#[test]
fn a_header_across_two_segments_is_dropped() {
    let long = packet().options(&[1; 40]).payload(&[0; 4000]).build();
    let mut h = harness();
    for len in [20, 59, 60] {
        let out = h.send("ip4-local", &[&long], |_, p| {
            // The header has the matching length, so that nothing else is wrong.
            let cut = p.len() - len;
            p.set_len(len);
            p.bytes_mut()[2..4].copy_from_slice(&((long.len() - cut) as u16).to_be_bytes());
        });
        assert_eq!(out[0].reason, if len < 60 { Some("bad-length") } else { None }, "{len}");
    }
}

#[test]
fn two_nodes_cannot_register_one_protocol() {
    let bench = Bench::new();
    bench.harness(|b, t, _| {
        let early = t.ip4.protocols.register(b, 1, "known").unwrap_err().to_string();
        assert!(early.contains("ip4-local"), "{early}");
        let tables = t.clone();
        b.frame(move |_| Ok(Ip4Local::new(&tables)));
        t.ip4.protocols.register(b, 1, "known").unwrap();
        let second = t.ip4.protocols.register(b, 1, "other").unwrap_err().to_string();
        assert!(
            second.contains("already belongs to another node") && second.contains("\"other\""),
            "{second}"
        );
        let large = t.ip4.protocols.register(b, 256, "known").unwrap_err().to_string();
        assert!(large.contains("too large"), "{large}");
        assert_eq!(
            (t.ip4.protocols.get(1).is_some(), t.ip4.protocols.get(2), t.ip4.protocols.get(300)),
            (true, None, None)
        );
    });
}
