//! What is copied where, and what is not.

use std::net::Ipv4Addr;

use testkit::harness::Harness;
use wire::builder::PacketBuilder;

use super::*;
use crate::testing::Bench;

/// What every graph has, with captures on it.
fn bench() -> (Bench, Harness) {
    let bench = Bench::new();
    let harness = bench.harness(|b, t, _| {
        crate::interface::install(b, t);
        super::install(b, t).unwrap();
    });
    (bench, harness)
}

fn taken(bench: &Bench) -> Vec<Captured> {
    let mut all = Vec::new();
    while bench.tables.captures.take(10, |c| all.push(c)) > 0 {}
    all
}

fn frame() -> Vec<u8> {
    let packet = PacketBuilder::ipv4(Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(198, 51, 100, 1));
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
    frame.extend(packet.udp(1, 2).payload(&[7; 100]).build());
    frame
}

#[test]
fn dropped_packets_are_copied_from_their_link_header_on() {
    let (bench, mut h) = bench();
    let captures = &bench.tables.captures;
    captures.keep(60);
    let (arc, feature) = Point::Drop.feature();
    h.arcs().enable(arc, feature, 3, true).unwrap();
    let sent = vec![frame(); 9];
    let send = |h: &mut Harness| {
        h.send("error-drop", &sent, |i, p| {
            // Half of them are dropped by who looks at the network header.
            if i % 2 == 0 {
                assert!(p.advance(14));
                p.mark_l3(14);
            }
            p.set_rx_if(2 + i as u32 % 3);
        })
    };
    send(&mut h);
    let all = taken(&bench);
    assert_eq!(all.len(), 3);
    for c in &all {
        assert_eq!((c.interface, c.point, c.len as usize), (3, Point::Drop, sent[0].len()));
        assert_eq!(c.bytes(), &sent[0][..60]);
    }
    h.arcs().enable(arc, feature, 3, false).unwrap();
    send(&mut h);
    assert!(taken(&bench).is_empty());
    assert_eq!(captures.lost(), 0);
}

#[test]
fn a_full_ring_loses_copies_and_says_how_many() {
    let (bench, mut h) = bench();
    bench.tables.captures.keep(u32::MAX);
    let (arc, feature) = Point::Drop.feature();
    h.arcs().enable(arc, feature, 3, true).unwrap();
    for _ in 0..10 {
        h.send("error-drop", &vec![frame(); 200], |_, p| p.set_rx_if(3));
    }
    let all = taken(&bench);
    assert!(all.iter().all(|c| c.bytes() == frame()));
    assert!(all.len() >= WAITING && all.len() < 2000, "{}", all.len());
    assert_eq!(bench.tables.captures.lost() as usize, 2000 - all.len());
}
