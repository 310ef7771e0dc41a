//! Tests which packets are copied, and at which point.

use std::net::Ipv4Addr;

use testkit::harness::Harness;
use wire::builder::PacketBuilder;

use buf::bpf::Program;
use net::testing::Bench;

use crate::node;
use crate::rings::{Captured, Point, Rings, WAITING};

/// Returns the rings of a capture, and a graph with the interface nodes and the capture features.
fn bench() -> (Rings, Harness) {
    let bench = Bench::new();
    let rings = Rings::new(&bench.domain);
    let harness = bench.harness(|b, t, _| {
        net::nodes::interface::install(b, t);
        node::install(b, &rings);
    });
    (rings, harness)
}

/// A copy: the packet's length, and the kept bytes.
#[derive(Debug, PartialEq)]
struct Copied {
    len: usize,
    bytes: Vec<u8>,
}

fn taken(rings: &Rings) -> Vec<Copied> {
    let mut all = Vec::new();
    let copied = |c: &Captured| Copied { len: c.len as usize, bytes: c.bytes().to_vec() };
    while rings.take(10, |c| all.push(copied(c))) > 0 {}
    all
}

/// Returns a frame with the UDP source port `port`.
fn frame_from(port: u16) -> Vec<u8> {
    let packet = PacketBuilder::ipv4(Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(198, 51, 100, 1));
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
    frame.extend(packet.udp(port, 2).payload(&[7; 100]).build());
    frame
}

/// Returns the UDP source port of a frame.
fn port_of(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[34], frame[35]])
}

fn frame() -> Vec<u8> {
    frame_from(1)
}

/// The rings of removed workers are freed. Otherwise each change of the number of workers would cost memory.
#[test]
fn rings_of_removed_workers_are_freed() {
    let (rings, mut h) = bench();
    assert_eq!(rings.points(), Point::ALL.len());
    rings.begin(&[Point::Drop], 60, None);
    let (arc, feature) = Point::Drop.feature();
    h.arcs().enable(arc, feature, 3, true).unwrap();
    h.send("error-drop", &[frame()], |_, p| p.set_rx_if(3));
    drop(h);
    let copies = rings.copies(Point::Rx);
    assert_eq!(rings.points(), 2, "the ring with a copy stays");
    assert_eq!(taken(&rings).len(), 1);
    for _ in 0..10 {
        drop(rings.copies(Point::Tx));
        assert_eq!(rings.points(), 2, "one of a worker, and the last one");
    }
    drop(copies);
}

#[test]
fn dropped_packets_are_copied_with_their_link_header() {
    let (rings, mut h) = bench();
    rings.begin(&[Point::Drop], 60, None);
    let (arc, feature) = Point::Drop.feature();
    h.arcs().enable(arc, feature, 3, true).unwrap();
    let sent: Vec<_> = (0..9).map(frame_from).collect();
    let send = |h: &mut Harness| {
        h.send("error-drop", &sent, |i, p| {
            // A node that has read the network header drops half of them.
            if i % 2 == 0 {
                assert!(p.advance(14));
                p.mark_l3(14);
            }
            p.set_rx_if(2 + i as u32 % 3);
        })
    };
    send(&mut h);
    // The expected copies: the packets received on interface 3.
    let copied = |n: usize| Copied { len: sent[n].len(), bytes: sent[n][..60].to_vec() };
    assert_eq!(taken(&rings), [1, 4, 7].map(copied));
    h.arcs().enable(arc, feature, 3, false).unwrap();
    send(&mut h);
    assert!(taken(&rings).is_empty());
    assert_eq!(rings.lost(), 0);
}

#[test]
fn a_full_ring_counts_lost_copies() {
    let (rings, mut h) = bench();
    rings.begin(&Point::ALL, usize::MAX, None);
    let (arc, feature) = Point::Drop.feature();
    h.arcs().enable(arc, feature, 3, true).unwrap();
    for _ in 0..10 {
        h.send("error-drop", &vec![frame(); 200], |_, p| p.set_rx_if(3));
    }
    let all = taken(&rings);
    assert!(all.iter().all(|c| c.bytes == frame()));
    assert!(all.len() >= WAITING && all.len() < 2000, "{}", all.len());
    assert_eq!(rings.lost() as usize, 2000 - all.len());
}

/// Matches frames with this EtherType in bytes 12 and 13.
fn ethertype(kind: u16) -> Program {
    let lines = format!("40 0 0 12\n21 0 1 {kind}\n6 0 0 1\n6 0 0 0");
    Program::new(&lines.lines().map(|l| l.parse().unwrap()).collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_filter_gets_packets_with_their_link_header() {
    let (rings, mut h) = bench();
    let (arc, feature) = Point::Drop.feature();
    h.arcs().enable(arc, feature, 3, true).unwrap();
    let mut arp = frame();
    arp[13] = 6;
    let send = |h: &mut Harness| {
        h.send("error-drop", &[frame(), arp.clone(), frame()], |_, p| {
            assert!(p.advance(14));
            p.mark_l3(14);
            p.set_rx_if(3);
        })
    };
    rings.begin(&[Point::Drop], 100, Some(ethertype(0x806)));
    send(&mut h);
    let all = taken(&rings);
    assert!(all.len() == 1 && all[0].bytes == arp[..100]);
    // Copies that remain from an earlier capture do not belong to the next one.
    send(&mut h);
    rings.begin(&[Point::Drop], 100, None);
    send(&mut h);
    assert_eq!(taken(&rings).len(), 3);
    assert_eq!(rings.lost(), 0);
}

#[test]
fn no_ring_starves_another() {
    let (rings, mut h) = bench();
    rings.begin(&Point::ALL, 60, None);
    for (port, point) in [(0, Point::Rx), (1, Point::Drop)] {
        h.send(point.feature().1, &vec![frame_from(port); 200], |_, p| p.set_rx_if(1));
    }
    let mut from = [0; 2];
    rings.take(30, |c| from[usize::from(port_of(c.bytes()))] += 1);
    assert_eq!(from, [15, 15]);
}

#[test]
fn copies_keep_the_order_of_their_packets() {
    let (rings, mut h) = bench();
    rings.begin(&Point::ALL, 60, None);
    let way = [Point::Drop, Point::Rx, Point::Rx, Point::Drop, Point::Rx];
    for (port, point) in (0..).zip(way) {
        h.send(point.feature().1, &[frame_from(port)], |_, p| p.set_rx_if(1));
    }
    assert!(taken(&rings).iter().map(|c| port_of(&c.bytes)).eq(0..5));
}
