//! Tests of the nodes `arp-input`, `ip4-arp` and `arp-release`.

use std::net::Ipv4Addr;
use std::time::Duration;

use testkit::harness::{Harness, Out};
use wire::Mac;
use wire::arp::{ArpPacket, Operation};
use wire::builder::PacketBuilder;

use crate::adjacency::Adjacency;
use crate::ip::Cause;
use crate::neighbor::{Outcome, Release, read_ask};
use crate::testing::Bench;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const PEER_MAC: Mac = Mac([2, 0, 0, 0, 9, 2]);
const OWN_MAC: Mac = Mac([2, 0, 0, 0, 0, 0]);

/// Creates the nodes, and an interface 0 in VRF 3 with the address `OWN`.
fn harness() -> (Bench, Harness) {
    let mut bench = Bench::new();
    assert_eq!(bench.interface(3, Some(OWN)), 0);
    bench.own(&[(3, OWN)]);
    let via = Adjacency { rewrite: None, interface: 5, mtu: 1500, next_hop: PEER.into() };
    assert_eq!(bench.writers.adjacencies.insert(via), Ok(0));
    let harness = bench.harness(|b, t, hooks| {
        crate::nodes::ethernet::install(b, t);
        super::install(b, t, hooks).unwrap();
    });
    (bench, harness)
}

fn arp_in(h: &mut Harness, packet: &[u8]) -> Out {
    let mut out = h.send("arp-input", &[packet], |_, p| {
        p.set_rx_if(0);
        p.set_fib(3);
    });
    assert_eq!(out.len(), 1);
    out.remove(0)
}

/// Returns the packets that were sent to `node`.
fn at<'o>(out: &'o [Out], node: &str) -> Vec<&'o Out> {
    out.iter().filter(|o| o.node == node).collect()
}

fn packet(n: u8) -> Vec<u8> {
    PacketBuilder::ipv4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, n)).udp(1, 2).build()
}

/// Sends packets whose next hop is `PEER` on interface 5.
fn unresolved(h: &mut Harness, packets: &[Vec<u8>]) -> Vec<Out> {
    h.send("ip4-arp", packets, |_, p| {
        p.set_tx_if(5);
        p.set_fwd(0);
        p.set_fib(3);
    })
}

fn release(h: &mut Harness, interface: u32, what: Release) -> Vec<Out> {
    let mut out = h.send("arp-release", &[what.to_bytes()], |_, p| p.set_tx_if(interface));
    out.retain(|o| o.node != "harness-drop");
    out
}

fn hop(outcome: Outcome) -> Release {
    Release::Hop(PEER.into(), outcome)
}

#[test]
fn arp_packets_for_the_router_are_punted() {
    let (_bench, mut h) = harness();
    let sender = (PEER_MAC, PEER);
    let cases = [
        (ArpPacket::request(PEER_MAC, PEER, OWN), "arp-request"),
        (ArpPacket::request(PEER_MAC, Ipv4Addr::UNSPECIFIED, OWN), "arp-request"),
        (ArpPacket::new(Operation::Reply, sender, (OWN_MAC, OWN)), "arp-reply"),
        (ArpPacket::gratuitous(PEER_MAC, PEER), "arp-reply"),
        (ArpPacket::request(PEER_MAC, OWN, OTHER), "arp-conflict"),
        (ArpPacket::gratuitous(PEER_MAC, OWN), "arp-conflict"),
    ];
    for (arp, reason) in cases {
        let out = arp_in(&mut h, arp.as_bytes());
        assert_eq!((out.node.as_str(), out.reason), ("punt", Some(reason)), "{arp:?}");
        assert_eq!((out.bytes.as_slice(), out.record.rx_if), (arp.as_bytes().as_slice(), 0));
    }
}

#[test]
fn other_arp_packets_are_dropped_with_their_reason() {
    let (_bench, mut h) = harness();
    let request = |mac, ip, target| ArpPacket::request(mac, ip, target).0.to_vec();
    let good = request(PEER_MAC, PEER, OWN);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let ip = |a| request(PEER_MAC, a, OWN);
    let cases = [
        (good[..27].to_vec(), "too-short"),
        (with(1, 6), "bad-hardware"),
        (with(4, 8), "bad-hardware"),
        (with(2, 0x86), "bad-protocol"),
        (with(5, 16), "bad-protocol"),
        (with(7, 3), "bad-operation"),
        (with(7, 0), "bad-operation"),
        (request(Mac::ZERO, PEER, OWN), "bad-sender-mac"),
        (request(Mac::BROADCAST, PEER, OWN), "bad-sender-mac"),
        (ip(Ipv4Addr::LOCALHOST), "bad-sender-ip"),
        (ip(Ipv4Addr::new(224, 0, 0, 5)), "bad-sender-ip"),
        (ip(Ipv4Addr::BROADCAST), "bad-sender-ip"),
        (request(OWN_MAC, OWN, OWN), "own-packet"),
        (request(PEER_MAC, PEER, OTHER), "not-for-us"),
        (request(PEER_MAC, Ipv4Addr::UNSPECIFIED, OTHER), "not-for-us"),
    ];
    for (bytes, reason) in &cases {
        let out = arp_in(&mut h, bytes);
        assert_eq!((out.node.as_str(), out.reason), ("arp-input", Some(*reason)), "{bytes:02x?}");
    }
    // The same request in another VRF is not for this router.
    let out = h.send("arp-input", &[good], |_, p| p.set_fib(4));
    assert_eq!(out[0].reason, Some("not-for-us"));
}

#[test]
fn packets_wait_for_their_next_hop_and_keep_their_order() {
    let (_bench, mut h) = harness();
    let packets: Vec<Vec<u8>> = (0..10).map(packet).collect();
    let out = unresolved(&mut h, &packets[..7]);
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!((out[0].node.as_str(), out[0].reason), ("punt", Some("ip4-resolve")));
    let mut ask = h.held(&out[0].bytes);
    ask.packet().set_tx_if(out[0].record.tx_if);
    assert_eq!(read_ask(&ask.packet()), Some((5, PEER)));
    ask.discard();
    assert_eq!(unresolved(&mut h, &packets[7..]).len(), 0, "already requested");

    assert_eq!(release(&mut h, 4, hop(Outcome::Resolved)).len(), 0, "the same address on another interface");
    let out = release(&mut h, 5, hop(Outcome::Resolved));
    assert_eq!(out.len(), 10);
    for (out, packet) in out.iter().zip(&packets) {
        assert_eq!((out.node.as_str(), &out.bytes), ("ip4-lookup", packet));
        assert_eq!((out.record.fwd, out.record.fib), (0, 3), "held packets are looked up again");
    }
    assert_eq!(release(&mut h, 5, hop(Outcome::Resolved)).len(), 0);
}

#[test]
fn the_main_thread_is_asked_to_resolve_once_a_second() {
    let (_bench, mut h) = harness();
    let mut asked = Vec::new();
    for tenth in 0..25 {
        if !unresolved(&mut h, &[packet(1)]).is_empty() {
            asked.push(tenth);
        }
        h.advance(Duration::from_millis(100));
    }
    assert_eq!(asked, [0, 10, 20]);
}

/// Each time the next hop is resolved, its adjacency is lost again at once, as after `clear ip neighbors`.
#[test]
fn a_lost_next_hop_is_requested_again_at_once() {
    let (_bench, mut h) = harness();
    for n in 0..5 {
        let out = unresolved(&mut h, &[packet(n)]);
        assert_eq!(out[0].reason, Some("ip4-resolve"));
        assert_eq!(release(&mut h, 5, hop(Outcome::Resolved)).len(), 1);
    }
}

#[test]
fn a_packet_released_twice_is_dropped_without_a_request() {
    let (_bench, mut h) = harness();
    unresolved(&mut h, &[packet(1)]);
    let out = release(&mut h, 5, hop(Outcome::Resolved));
    let flags = out[0].record.flags;
    let out = h.send("ip4-arp", &[packet(1)], |_, p| {
        p.set_tx_if(5);
        p.set_fwd(0);
        p.set_flags(p.flags() | flags);
    });
    assert_eq!((out.len(), out[0].node.as_str(), out[0].reason), (1, "ip4-arp", Some("hold-again")));
    h.advance(Duration::from_millis(999));
    assert_eq!(unresolved(&mut h, &[packet(4)]).len(), 0, "requested a moment ago, without an answer");
    h.advance(Duration::from_millis(1));
    assert_eq!(unresolved(&mut h, &[packet(5)])[0].reason, Some("ip4-resolve"));
}

#[test]
fn packets_to_a_failed_next_hop_are_reported_for_a_second() {
    let (_bench, mut h) = harness();
    unresolved(&mut h, &[packet(1), packet(2)]);
    let failed = |out: &[Out]| {
        out.iter().all(|o| o.node == "ip4-icmp-error" && o.record.fwd == Cause::HostUnreachable.to_raw())
    };
    let out = release(&mut h, 5, hop(Outcome::Failed));
    assert!(out.len() == 2 && failed(&out), "{out:?}");
    h.advance(Duration::from_millis(999));
    let out = unresolved(&mut h, &[packet(3)]);
    assert!(out.len() == 1 && failed(&out), "{out:?}");
    h.advance(Duration::from_millis(1));
    let out = unresolved(&mut h, &[packet(4)]);
    assert_eq!(out[0].reason, Some("ip4-resolve"), "requested again");
    release(&mut h, 5, hop(Outcome::Failed));
    assert_eq!(release(&mut h, 5, hop(Outcome::Resolved)).len(), 0);
    let out = unresolved(&mut h, &[packet(5)]);
    assert_eq!(
        out[0].reason,
        Some("ip4-resolve"),
        "it was resolved before, so the packet waits and a request is sent"
    );
}

#[test]
fn a_full_next_hop_queue_drops_its_oldest_packet() {
    let (_bench, mut h) = harness();
    let packets: Vec<Vec<u8>> = (0..70).map(packet).collect();
    let out = unresolved(&mut h, &packets);
    let dropped = at(&out, "ip4-arp");
    assert_eq!(dropped.len(), 6);
    for (out, packet) in dropped.iter().zip(&packets) {
        assert_eq!((out.reason, &out.bytes), (Some("hold-next-hop-full"), packet));
    }
    let out = release(&mut h, 5, hop(Outcome::Resolved));
    assert!(out.iter().map(|o| &o.bytes).eq(&packets[6..]));
}

#[test]
fn a_waiting_packet_expires() {
    let (_bench, mut h) = harness();
    unresolved(&mut h, &[packet(1)]);
    h.advance(Duration::from_millis(4999));
    assert_eq!(release(&mut h, 5, Release::Sweep).len(), 0);
    h.advance(Duration::from_millis(101));
    let out = release(&mut h, 5, Release::Sweep);
    assert_eq!((out.len(), out[0].reason), (1, Some("hold-expired")));
    unresolved(&mut h, &[packet(2)]);
    h.advance(Duration::from_secs(6));
    let out = h.send("ip4-arp", &[packet(3)], |_, p| p.set_tx_if(6));
    assert_eq!(at(&out, "ip4-arp")[0].reason, Some("hold-expired"), "any packet makes the node sweep");
}

#[test]
fn an_invalid_message_releases_no_packet() {
    let (_bench, mut h) = harness();
    unresolved(&mut h, &[packet(1)]);
    for bytes in [&[][..], &[1, 10, 0, 0], &[9, 10, 0, 0, 2], &[1, 10, 0, 0, 2, 0]] {
        let out = h.send("arp-release", &[bytes], |_, p| p.set_tx_if(5));
        assert!(at(&out, "ip4-lookup").is_empty() && at(&out, "ip4-icmp-error").is_empty());
    }
    // Packets that still wait when the worker stops are freed; the harness checks that.
}

#[test]
fn without_a_buffer_for_the_request_the_packet_is_dropped() {
    let (_bench, mut h) = harness();
    let all: Vec<_> = (1..h.pool().stats().total).map(|_| h.held(b"")).collect();
    let out = unresolved(&mut h, &[packet(1)]);
    assert_eq!(
        out.iter().map(|o| (o.node.as_str(), o.reason)).collect::<Vec<_>>(),
        [("ip4-arp", Some("no-buffer"))]
    );
    all.into_iter().for_each(buf::Held::discard);
    // No request was sent, so the next packet causes one.
    let out = unresolved(&mut h, &[packet(2)]);
    assert_eq!(
        out.iter().map(|o| (o.node.as_str(), o.reason)).collect::<Vec<_>>(),
        [("punt", Some("ip4-resolve"))]
    );
}
