//! What the tests of both families' nodes have in common.

use std::time::Duration;

use testkit::harness::{Harness, Out};

use crate::family::Fragmented;
use crate::state::Reassembly;
use net::ip::Packets;
use net::testing::Bench;

/// Interface that packets come in by.
pub const IN: u32 = 3;

/// Bytes that do not repeat soon.
pub fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * i) >> 3) as u8 ^ i as u8).collect()
}

/// Lets all that waits run out.
pub fn run_out<A: Fragmented>(h: &mut Harness, bench: &Bench) {
    h.advance(Duration::from_secs(60));
    while is_due::<A>(h, bench) {
        h.send(A::FULL.expire, &[&[0u8; 0]], |_, _| ());
    }
}

/// Whether the time of some datagram is over.
pub fn is_due<A: Fragmented>(h: &Harness, bench: &Bench) -> bool {
    bench.state(|all: &mut Reassembly| all.due(h.now()).any(|expire| expire == A::FULL.expire))
}

/// Where packets end, and why if they are dropped.
pub fn ends(out: &[Out]) -> Vec<(&str, Option<&'static str>)> {
    out.iter().map(|o| (o.node.as_str(), o.reason)).collect()
}

/// Fragments that come in any order, with a link header of `lead` bytes in front and `padding` behind, become this packet, and that is
/// for UDP.
pub fn become_whole<A: Packets>(
    h: &mut Harness,
    fragments: &[Vec<u8>],
    packet: &[u8],
    (seed, lead, padding): (u64, usize, usize),
) {
    let mut order: Vec<usize> = (0..fragments.len()).collect();
    order.sort_by_key(|i| infra::hash::mix64(seed ^ *i as u64));
    let around = |i: &usize| [&vec![0xee; lead], &fragments[*i][..], &vec![0xdd; padding]].concat();
    let arriving: Vec<Vec<u8>> = order.iter().map(around).collect();
    let out = h.send(A::NODES.local, &arriving, |_, p| {
        assert!(p.advance(lead));
        p.mark_l3(lead as u8);
        p.set_rx_if(IN);
        p.set_fib(7);
        p.set_fwd(99);
    });
    assert_eq!(ends(&out), [(A::NODES.lookup, None)]);
    assert_eq!(out[0].bytes, packet);
    assert_eq!(order[out[0].from.unwrap()], 0, "the first fragment is the one that goes on");
    let r = out[0].record;
    assert_eq!((r.rx_if, r.fib, r.fwd), (IN, 7, 0));
    assert!(usize::from(r.len) >= packet.len().min(128), "headers are together");
    // And on its second way it is no fragment any more.
    let again = h.send(A::NODES.local, &[&out[0].bytes], |_, _| ());
    assert_eq!(ends(&again), [("udp", None)]);
}
