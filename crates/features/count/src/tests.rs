//! Tests which packets are counted, and for which interface.

use std::net::Ipv4Addr;

use net::testing::Bench;
use wire::builder::PacketBuilder;

use crate::{Count, install};

#[test]
fn packets_and_bytes_are_counted_by_interface() {
    let bench = Bench::new();
    let mut h = bench.harness(|b, _, hooks| {
        b.arc("ip4-unicast", "ip4-lookup", graph::ArcKey::Rx);
        install(b, hooks).unwrap();
    });
    let [from, to] = [1, 2].map(|n| Ipv4Addr::new(192, 0, 2, n));
    let sent: Vec<_> = (0..600).map(|n| PacketBuilder::ipv4(from, to).payload(&vec![0; n]).build()).collect();
    let out = h.send("ip4-count", &sent, |i, p| p.set_rx_if(2 + i as u32 % 3));
    assert!(out.iter().all(|o| o.node == "ip4-lookup" && o.bytes == sent[o.from.unwrap()]));
    assert_eq!(out.len(), 600);
    let counts = bench.counts::<Count>();
    for interface in 0..3 {
        let bytes: usize = sent.iter().skip(interface).step_by(3).map(Vec::len).sum();
        assert_eq!(counts.read(2 + interface as u32), [200, bytes as u64]);
    }
    assert_eq!(counts.read(0), [0, 0]);
}
