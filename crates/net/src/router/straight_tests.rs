//! Tests that the straight way (`nodes/ip/straight.rs`) sends the same packets as the separate nodes, and keeps their order.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use buf::Frame;
use proptest::prelude::*;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::lab::{Lab, own_mac};
use crate::ip::{Address, IpPrefix, Path};

/// Hosts on the first link, by family.
const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 2);
/// Hosts on the second link.
const B4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const C4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 2);
const A_MAC: Mac = Mac([2, 0, 0, 0, 0xa, 2]);
const B_MAC: Mac = Mac([2, 0, 0, 0, 0xb, 2]);
/// MTU of the second link in bytes.
const MTU: u16 = 1300;

/// Returns a router whose neighbors are known.
fn lab() -> Lab {
    let mut lab = Lab::new(|index| Address::new(Ipv4Addr::new(10, 0, index as u8 + 1, 1), 24));
    for index in 0..2u32 {
        let own = Ipv6Addr::new(0x2001, 0xdb8, 0, index as u16 + 1, 0, 0, 0, 1);
        lab.router.add_address(index, Address::new(own, 64)).unwrap();
    }
    lab.pass(5000);
    lab.router.set_mtu(1, MTU).unwrap();
    lab.router.add_neighbor(0, A4, A_MAC, true).unwrap();
    lab.router.add_neighbor(0, A6, A_MAC, true).unwrap();
    for host in [B4, C4] {
        lab.router.add_neighbor(1, host, B_MAC, true).unwrap();
    }
    lab.router.add_neighbor(1, B6, B_MAC, true).unwrap();
    let several = [B4, C4].map(|hop| Path::Via { next_hop: hop.into(), interface: None });
    for path in several {
        lab.router.add_route(0, "198.51.100.0/24".parse::<IpPrefix>().unwrap(), path).unwrap();
    }
    lab.run();
    (0..2).for_each(|link| drop(lab.sent(link)));
    lab.router.graph().stats().clear_runtime();
    lab
}

/// Passes frames that arrived on the first link to `ethernet-input`, all in one vector. Traced packets do not go the straight way.
fn feed(lab: &mut Lab, frames: &[Vec<u8>], traced: bool) -> [Vec<Vec<u8>>; 2] {
    let mut cache = lab.router.pool().cache();
    let mut vector = Frame::new();
    assert_eq!(vector.alloc(&mut cache, frames.len()), frames.len());
    for (mut packet, bytes) in vector.packets().zip(frames) {
        assert!(packet.fill(bytes));
    }
    vector.set_rx(0);
    if traced {
        vector.set_traced(0..frames.len(), 0);
    }
    let node = lab.router.graph().node("ethernet-input").unwrap();
    let mut participant = lab.router.participant();
    let section = participant.enter();
    lab.workers[0].feed(section.guard(), lab.now, node, &mut vector);
    drop(section);
    cache.publish();
    drop(cache);
    lab.run();
    [lab.sent(0), lab.sent(1)]
}

/// Returns how many packets a node has processed.
fn count(lab: &Lab, node: &str) -> u64 {
    lab.router.graph().stats().runtime(None).iter().find(|n| n.name == node).map_or(0, |n| n.packets)
}

/// Returns the clocks per packet that were measured in a node; 0 if packets only went through it in another node.
fn clocks(lab: &Lab, node: &str) -> f64 {
    lab.router
        .graph()
        .stats()
        .runtime(None)
        .iter()
        .find(|n| n.name == node)
        .map_or(0.0, |n| n.clocks_per_packet)
}

/// Returns the packets and bytes sent over each adjacency, and sent on the second link.
fn sent_counts(lab: &Lab) -> (Vec<[u64; 2]>, [u64; 2]) {
    let tables = lab.router.tables();
    ((0..32).map(|index| tables.adjacency_counters.total(index)).collect(), tables.counters.tx.total(1))
}

/// What a packet of the test is like.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Like {
    /// It fits, and goes to the host B, or over one of two paths.
    Plain {
        shared: bool,
    },
    /// It is shorter than an Ethernet frame, so it is padded.
    Short,
    /// It is longer than the second link's MTU.
    Long,
    Options,
    /// It is for the router itself.
    Local,
    /// Its TTL expires.
    Late,
    /// There is no route to its destination.
    Lost,
    /// Its source address is the router's own.
    Martian,
    /// Its IP header is incomplete.
    Cut,
    /// It is to another station.
    NotForUs,
    /// Its EtherType is not known.
    Unknown,
}

/// Returns the frame of a packet. `flow` and `number` are in its ports.
fn frame(like: Like, ip6: bool, flow: u16, number: u16) -> Vec<u8> {
    let far = Ipv4Addr::new(198, 51, 100, 7);
    let (own4, own6) = (Ipv4Addr::new(10, 0, 2, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 1));
    let to4 = match like {
        Like::Plain { shared: true } => far,
        Like::Local => own4,
        Like::Lost => Ipv4Addr::new(203, 0, 113, 9),
        _ => B4,
    };
    let to6 = match like {
        Like::Local => own6,
        Like::Lost => Ipv6Addr::new(0x2001, 0xdb8, 77, 0, 0, 0, 0, 1),
        _ => B6,
    };
    let martian = like == Like::Martian;
    let packet = match ip6 {
        false => PacketBuilder::ipv4(if martian { own4 } else { A4 }, to4),
        true => PacketBuilder::ipv6(if martian { own6 } else { A6 }, to6),
    };
    let station = if like == Like::NotForUs { Mac([2, 0, 0, 0, 9, 9]) } else { own_mac(0) };
    let packet = packet.ethernet(A_MAC, station).udp(1000 + flow, 2000 + number).id(number);
    let packet = match like {
        Like::Short => packet.payload(b"x").frame_len(60),
        Like::Long => packet.payload(&[7; MTU as usize]),
        Like::Options if ip6 => packet.extension(0, &[1, 4, 0, 0, 0, 0]).payload(&[8; 64]),
        Like::Options => packet.options(&[1; 4]).payload(&[8; 64]),
        Like::Late => packet.ttl(1).payload(&[9; 64]),
        _ => packet.payload(&[number as u8; 64]),
    };
    let mut bytes = packet.build();
    match like {
        Like::Cut => bytes.truncate(14 + 12),
        Like::Unknown => bytes[12..14].copy_from_slice(&[0x12, 0x34]),
        _ => {}
    }
    bytes
}

fn any_like() -> impl Strategy<Value = Like> {
    prop_oneof![
        12 => any::<bool>().prop_map(|shared| Like::Plain { shared }),
        4 => Just(Like::Short),
        2 => Just(Like::Long),
        1 => Just(Like::Options),
        1 => Just(Like::Local),
        1 => Just(Like::Late),
        1 => Just(Like::Lost),
        1 => Just(Like::Martian),
        1 => Just(Like::Cut),
        1 => Just(Like::NotForUs),
        1 => Just(Like::Unknown),
    ]
}

/// Returns frames in an order of their own, without the fields that depend on the order in which ICMP errors are made.
fn sorted(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = frames.to_vec();
    for frame in &mut all {
        if frame[12..14] == [8, 0] {
            frame[18..20].fill(0);
            frame[24..26].fill(0);
        }
    }
    all.sort();
    all
}

/// Returns the numbers of the whole UDP packets on a link, by family and flow, in the order in which they were sent.
fn orders(frames: &[Vec<u8>]) -> BTreeMap<(u8, u16), Vec<u16>> {
    let mut all: BTreeMap<(u8, u16), Vec<u16>> = BTreeMap::new();
    for frame in frames {
        let at = match frame[12..14] {
            // Of the fragments, the first ones have the ports. Packets with options are not compared.
            [8, 0] if frame[14] == 0x45 && frame[23] == 17 && frame[20] & 0x1f == 0 && frame[21] == 0 => 34,
            [0x86, 0xdd] if frame[20] == 17 => 54,
            _ => continue,
        };
        let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        all.entry((frame[12], port(at))).or_default().push(port(at + 2));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the packets of a vector are, the straight way and the separate nodes send the same ones, and keep the order of each flow.
    #[test]
    fn the_straight_way_sends_what_the_nodes_send(
        packets in prop::collection::vec((any_like(), prop::bool::weighted(0.2), 0u16..3), 1..40),
        family in any::<bool>(),
    ) {
        let frames: Vec<Vec<u8>> = (0..).zip(&packets).map(|(number, (like, other, flow))| {
            frame(*like, family != *other, *flow, number)
        }).collect();
        let (mut straight, mut plain) = (lab(), lab());
        let (fast, slow) = (feed(&mut straight, &frames, false), feed(&mut plain, &frames, true));
        for link in 0..2 {
            prop_assert_eq!(sorted(&fast[link]), sorted(&slow[link]), "link {}", link);
        }
        for (flow, numbers) in orders(&fast[1]) {
            prop_assert!(numbers.is_sorted(), "flow {:?}: {:?}", flow, numbers);
        }
        let drops = |lab: &Lab| {
            let stats = lab.router.graph().stats();
            let all = stats.dropped().into_iter().filter(|dropped| dropped.packets > 0);
            all.map(|dropped| (dropped.node, dropped.reason.name, dropped.packets)).collect::<Vec<_>>()
        };
        prop_assert_eq!(drops(&straight), drops(&plain));
        prop_assert_eq!(sent_counts(&straight), sent_counts(&plain));
        // The nodes count the packets that went through them, either way.
        for node in ["ip4-input", "ip4-lookup", "ip4-rewrite", "ip6-input", "ip6-lookup", "ip6-rewrite", "interface-output", "interface-tx"] {
            prop_assert_eq!(count(&straight, node), count(&plain, node), "{}", node);
        }
    }
}

#[test]
fn packets_behind_a_fragmented_one_do_not_overtake_it() {
    let mut lab = lab();
    let likes =
        [Like::Plain { shared: false }, Like::Long, Like::Plain { shared: false }, Like::Short, Like::Long];
    let frames: Vec<Vec<u8>> = (0..).zip(likes).map(|(n, like)| frame(like, false, 1, n)).collect();
    let [_, sent] = feed(&mut lab, &frames, false);
    assert_eq!(sent.len(), 7, "two packets were cut in two");
    assert_eq!(orders(&sent)[&(8, 1001)], [2000, 2001, 2002, 2003, 2004]);
}

/// Returns frames of plain packets, enough for a timed vector.
fn plain_frames(count: u16) -> Vec<Vec<u8>> {
    (0..count).map(|n| frame(Like::Plain { shared: false }, false, 1, n)).collect()
}

#[test]
fn plain_packets_of_small_tables_go_straight() {
    let mut lab = lab();
    assert_eq!(feed(&mut lab, &plain_frames(40), false)[1].len(), 40);
    assert_eq!((count(&lab, "ip4-lookup"), clocks(&lab, "ip4-lookup")), (40, 0.0));
    assert!(clocks(&lab, "ethernet-input") > 0.0);
    assert_eq!((count(&lab, "interface-tx"), clocks(&lab, "interface-tx")), (40, 0.0));
    feed(&mut lab, &plain_frames(40), true);
    assert!(
        clocks(&lab, "ip4-lookup") > 0.0 && clocks(&lab, "interface-tx") > 0.0,
        "the nodes' own work is timed"
    );
}

#[test]
fn long_vectors_of_large_tables_do_not_go_straight() {
    let mut lab = lab();
    for n in 0..300u32 {
        let prefix = IpPrefix::new(Ipv4Addr::from_bits(0x1400_0000 + (n << 8)).into(), 24);
        lab.router.add_route(0, prefix, Path::Via { next_hop: B4.into(), interface: None }).unwrap();
    }
    lab.run();
    assert_eq!(feed(&mut lab, &plain_frames(40), false)[1].len(), 40);
    assert!(clocks(&lab, "ip4-lookup") > 0.0);
}

/// A frame that is not for one interface waits at `interface-tx`. A later frame for one interface must not overtake it.
#[test]
fn a_frame_for_one_interface_does_not_overtake_a_waiting_one() {
    let mut lab = lab();
    // Many packets that are cut in two become two frames for `interface-output`. The first one also has a packet for the first link.
    let mut frames: Vec<Vec<u8>> = (0..200).map(|n| frame(Like::Long, false, 1, n)).collect();
    let back = PacketBuilder::ipv4(B4, A4).ethernet(A_MAC, own_mac(0)).udp(9, 9).payload(&[1; 64]).build();
    frames.insert(1, back);
    let [first, second] = feed(&mut lab, &frames, false);
    assert_eq!((first.len(), second.len()), (1, 400));
    let numbers: Vec<u16> = (2000..2200).collect();
    assert_eq!(orders(&second)[&(8, 1001)], numbers);
}
