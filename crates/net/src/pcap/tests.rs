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

fn copy_of(c: &Captured) -> Copied {
    Copied { interface: c.interface, point: c.point, len: c.len as usize, bytes: c.bytes().to_vec() }
}

struct Copied {
    interface: u32,
    point: Point,
    len: usize,
    bytes: Vec<u8>,
}

fn taken(bench: &Bench) -> Vec<Copied> {
    let mut all = Vec::new();
    while bench.tables.captures.take(10, |c| all.push(copy_of(c))) > 0 {}
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
    captures.begin(&[Point::Drop], 60, None);
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
        assert_eq!((c.interface, c.point, c.len), (3, Point::Drop, sent[0].len()));
        assert_eq!(c.bytes, &sent[0][..60]);
    }
    h.arcs().enable(arc, feature, 3, false).unwrap();
    send(&mut h);
    assert!(taken(&bench).is_empty());
    assert_eq!(captures.lost(), 0);
}

#[test]
fn a_full_ring_loses_copies_and_says_how_many() {
    let (bench, mut h) = bench();
    bench.tables.captures.begin(&Point::ALL, usize::MAX, None);
    let (arc, feature) = Point::Drop.feature();
    h.arcs().enable(arc, feature, 3, true).unwrap();
    for _ in 0..10 {
        h.send("error-drop", &vec![frame(); 200], |_, p| p.set_rx_if(3));
    }
    let all = taken(&bench);
    assert!(all.iter().all(|c| c.bytes == frame()));
    assert!(all.len() >= WAITING && all.len() < 2000, "{}", all.len());
    assert_eq!(bench.tables.captures.lost() as usize, 2000 - all.len());
}

/// Takes frames whose byte 12 and 13 are this Ethertype.
fn ethertype(kind: u16) -> Program {
    let lines = format!("40 0 0 12\n21 0 1 {kind}\n6 0 0 1\n6 0 0 0");
    Program::new(&lines.lines().map(|l| l.parse().unwrap()).collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_filter_sees_packets_from_their_link_header_on() {
    let (bench, mut h) = bench();
    let captures = &bench.tables.captures;
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
    captures.begin(&[Point::Drop], 100, Some(ethertype(0x806)));
    send(&mut h);
    let all = taken(&bench);
    assert!(all.len() == 1 && all[0].bytes == arp[..100]);
    // What an earlier capture left is none of the next one's.
    send(&mut h);
    captures.begin(&[Point::Drop], 100, None);
    send(&mut h);
    assert_eq!(taken(&bench).len(), 3);
    assert_eq!(captures.lost(), 0);
}

#[test]
fn no_ring_starves_another() {
    let (bench, mut h) = bench();
    bench.tables.captures.begin(&Point::ALL, 60, None);
    for (point, interface) in [(Point::Rx, 2), (Point::Drop, 3)] {
        let (arc, feature) = point.feature();
        h.arcs().enable(arc, feature, interface, true).unwrap();
        h.send(feature, &vec![frame(); 200], |_, p| p.set_rx_if(interface));
    }
    let mut by = [0; 2];
    bench.tables.captures.take(30, |c| by[usize::from(c.point == Point::Drop)] += 1);
    assert_eq!(by, [15, 15]);
}

#[test]
fn copies_come_in_the_order_in_which_they_were_made() {
    let (bench, mut h) = bench();
    bench.tables.captures.begin(&Point::ALL, 60, None);
    let way = [Point::Drop, Point::Rx, Point::Rx, Point::Drop, Point::Rx];
    for point in way {
        h.send(point.feature().1, &[frame()], |_, p| p.set_rx_if(1));
    }
    assert_eq!(taken(&bench).iter().map(|c| c.point).collect::<Vec<_>>(), way);
}
