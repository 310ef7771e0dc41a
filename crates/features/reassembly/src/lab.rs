//! Functions for the tests of all nodes.

use std::net::Ipv4Addr;
use std::time::Duration;

use net::ip::Packets;
use net::testing::Bench;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::{Ipv4Header, ipv4};

use crate::family::Fragmented;
use crate::kind::KindInfo;
use crate::state::Reassembly;

/// The interface that receives the packets.
pub const IN: u32 = 3;
/// Source of IPv4 datagrams.
pub const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
/// Destination of IPv4 datagrams.
pub const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Returns `len` bytes without short repetitions.
pub fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * i) >> 3) as u8 ^ i as u8).collect()
}

/// Returns a UDP datagram of IPv4 with `len` bytes of payload.
pub fn datagram(len: usize) -> PacketBuilder {
    PacketBuilder::ipv4(HOST, OWN).id(77).udp(1000, 53).payload(&payload(len))
}

/// Cuts a packet into fragments, each with `piece` times 8 bytes of payload; the last one may have less.
pub fn cut(packet: &[u8], piece: usize) -> Vec<Vec<u8>> {
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

/// Lets all waiting datagrams expire, and removes them.
pub fn run_out<A: Fragmented>(h: &mut Harness, bench: &Bench) {
    h.advance(Duration::from_secs(60));
    while is_due(h, bench, A::FULL) {
        h.send(A::FULL.expire, &[&[0u8; 0]], |_, _| ());
    }
}

/// True if a datagram of the table `info` has expired.
pub fn is_due(h: &Harness, bench: &Bench, info: &KindInfo) -> bool {
    bench.state(|all: &mut Reassembly| all.due(h.now()).any(|expire| expire == info.expire))
}

/// Returns the last node of each packet, and the reason if the packet was dropped.
pub fn ends(out: &[Out]) -> Vec<(&str, Option<&'static str>)> {
    out.iter().map(|o| (o.node.as_str(), o.reason)).collect()
}

/// Checks that fragments, in an order that depends on `seed`, are reassembled to `packet`, a UDP packet. Each arrives with a link header of
/// `lead` bytes in front and `padding` bytes behind.
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
    assert_eq!(
        order[out[0].from.unwrap()],
        0,
        "the reassembled packet is in the buffer of the first fragment"
    );
    let r = out[0].record;
    assert_eq!((r.rx_if, r.fib, r.fwd), (IN, 7, 0));
    assert!(usize::from(r.len) >= packet.len().min(128), "headers are together");
    // Sent once more, the reassembled packet is not a fragment any more.
    let again = h.send(A::NODES.local, &[&out[0].bytes], |_, _| ());
    assert_eq!(ends(&again), [("udp", None)]);
}
