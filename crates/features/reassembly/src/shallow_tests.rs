//! Tests the nodes: when fragments pass, and which ports later features read.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use buf::{FeatureField, Packet};
use graph::{ArcKey, Cx, NoReason, PacketNode, Verdict};
use net::ip::{PORTS, Ports};
use net::testing::Bench;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::flow::FiveTuple;

use crate::lab::{HOST, IN, OWN, cut, datagram, ends, is_due};
use crate::shallow::INFO;
use crate::state::Reassembly;

/// Returns a graph with the nodes, enabled on interface `IN`.
fn harness() -> (Harness, Bench) {
    let bench = Bench::new();
    let mut h = bench.harness(|b, _, hooks| {
        b.arc("ip4-unicast", "ip4-lookup", ArcKey::Rx);
        crate::install_shallow(b, hooks).unwrap();
    });
    h.arcs().enable("ip4-unicast", PORTS, IN, true).unwrap();
    (h, bench)
}

/// A feature that reads ports: it records those of each packet.
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
fn later_features_get_the_ports_of_every_fragment() {
    let (bench, learned) = (Bench::new(), Arc::<Mutex<Vec<_>>>::default());
    let mut h = bench.harness(|b, _, hooks| {
        b.arc("ip4-unicast", "ip4-lookup", ArcKey::Rx);
        crate::install_shallow(b, hooks).unwrap();
        let (field, notes) = (b.field_of(PORTS).unwrap(), learned.clone());
        b.packet(move |_| Ok(PortReader(field, notes.clone())));
        b.feature("ip4-unicast", "port-reader", &[PORTS], &[]);
    });
    for feature in [PORTS, "port-reader"] {
        h.arcs().enable("ip4-unicast", feature, IN, true).unwrap();
    }
    let mut packets = cut(&datagram(100).build(), 3);
    packets.reverse();
    let fragments = packets.len();
    let ping = PacketBuilder::ipv4(HOST, OWN).id(9).echo_request(0x1234, 1).payload(&[0; 40]).build();
    packets.extend(cut(&ping, 3).into_iter().rev());
    // An unfragmented packet has its own ports, and needs no field.
    packets.push(datagram(9).build());
    let out = send(&mut h, &packets);
    assert!(out.iter().all(|o| o.node == "ip4-lookup"), "{:?}", ends(&out));
    let mut expected = vec![(1000, 53); fragments];
    expected.extend([(0x1234, 0x1234); 2]);
    expected.push((0, 0));
    assert_eq!(*learned.lock().unwrap(), expected);
}

#[test]
fn fragments_and_whole_packets_keep_their_order() {
    let (mut h, _bench) = harness();
    let (whole, fragments) = (datagram(9).build(), cut(&datagram(100).build(), 6));
    let mut packets = vec![whole.clone()];
    for fragment in fragments {
        packets.extend([fragment, whole.clone()]);
    }
    let sent: Vec<_> = send(&mut h, &packets).into_iter().map(|o| o.bytes).collect();
    assert_eq!(sent, packets);
}

fn send(h: &mut Harness, packets: &[Vec<u8>]) -> Vec<Out> {
    h.send(PORTS, packets, |_, p| p.set_rx_if(IN))
}

#[test]
fn fragments_wait_for_the_first_and_have_the_same_hash() {
    let (mut h, bench) = harness();
    let fragments = cut(&datagram(100).build(), 3);
    assert_eq!(ends(&send(&mut h, &fragments[2..])), []);
    assert_eq!(ends(&send(&mut h, &[datagram(9).build()])), [("ip4-lookup", None)], "others pass");
    let out = send(&mut h, &[fragments[1].clone(), fragments[0].clone(), fragments[1].clone()]);
    let mut expected = vec![&fragments[0]];
    expected.extend(&fragments[2..]);
    expected.extend([&fragments[1]; 2]);
    let sent: Vec<&Vec<u8>> = out.iter().map(|o| &o.bytes).collect();
    assert_eq!(sent, expected);
    let flow =
        FiveTuple { src: HOST.to_bits(), dst: OWN.to_bits(), src_port: 1000, dst_port: 53, protocol: 17 };
    assert!(out.iter().all(|o| o.node == "ip4-lookup" && o.record.hash == flow.hash()));
    let views = bench.state(|all: &mut Reassembly| all.views(PORTS).unwrap());
    assert_eq!(views[0].ports, Some((1000, 53)));
}

#[test]
fn tiny_empty_and_overlapping_fragments_are_dropped() {
    let (mut h, _bench) = harness();
    let tcp = PacketBuilder::ipv4(HOST, OWN).protocol(6).payload(&[0; 16]).fragment(1, true).build();
    let empty = PacketBuilder::ipv4(HOST, OWN).protocol(6).fragment(9, true).build();
    let first = datagram(24).fragment(0, true);
    let second = first.clone().udp(1001, 53).build();
    let out = send(&mut h, &[tcp, empty, first.build(), second]);
    let reasons = [Some("tiny-fragment"), Some("bad-fragment"), None, Some("overlap")];
    let by_packet = |i: usize| out.iter().find(|o| o.from == Some(i)).map(|o| o.reason);
    assert_eq!([0, 1, 2, 3].map(|i| by_packet(i).unwrap()), reasons);
}

#[test]
fn fragments_without_a_first_one_are_dropped() {
    let (mut h, bench) = harness();
    let fragments = cut(&datagram(100).build(), 3);
    send(&mut h, &fragments[1..]);
    h.advance(Duration::from_secs(3));
    assert!(is_due(&h, &bench, &INFO));
    let out = h.send(INFO.expire, &[&[0u8; 0]], |_, _| ());
    assert_eq!(ends(&out), vec![(INFO.expire, Some("sv-timed-out")); fragments.len() - 1]);
}
