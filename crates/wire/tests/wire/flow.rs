use proptest::prelude::*;
use wire::builder::PacketBuilder;
use wire::flow::{FiveTuple, FiveTuple6, five_tuple, five_tuple6, flow_hash, frame_hash, hash_words};
use wire::protocol;

fn any_tuple() -> impl Strategy<Value = FiveTuple> {
    any::<(u32, u32, u16, u16, u8)>().prop_map(|(src, dst, src_port, dst_port, protocol)| FiveTuple {
        src,
        dst,
        src_port,
        dst_port,
        protocol,
    })
}

#[test]
fn fragments_of_a_datagram_are_one_flow() {
    let packet = PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 1, 1].into()).udp(1234, 80);
    let whole = five_tuple(&packet.build()).unwrap();
    assert_eq!((whole.src_port, whole.dst_port, whole.protocol), (1234, 80, protocol::UDP));
    let first = five_tuple(&packet.clone().fragment(0, true).build()).unwrap();
    let last = five_tuple(&packet.fragment(10, false).build()).unwrap();
    assert_eq!(first, last);
    assert_eq!((first.src_port, first.dst_port), (0, 0));
}

#[test]
fn only_some_protocols_have_ports() {
    for proto in 0..=255 {
        let packet = PacketBuilder::ipv4([1; 4].into(), [2; 4].into()).protocol(proto).payload(&[1, 2, 3, 4]);
        let expected = if [6, 17, 33, 132, 136].contains(&proto) { (0x0102, 0x0304) } else { (0, 0) };
        let t = five_tuple(&packet.build()).unwrap();
        assert_eq!((t.src_port, t.dst_port), expected, "protocol {proto}");
        let with_options = five_tuple(&packet.options(&[1, 1, 1, 1]).build()).unwrap();
        assert_eq!(with_options, t);
    }
}

#[test]
fn invalid_headers_have_no_five_tuple() {
    let l3 = PacketBuilder::ipv4([1; 4].into(), [2; 4].into()).udp(1, 2).build();
    assert!(five_tuple(&l3).is_some());
    for first in [0x44, 0x65, 0x35, 0x05, 0x4f] {
        let bad = [&[first], &l3[1..]].concat();
        assert_eq!(five_tuple(&bad), None, "0x{first:02x}");
    }
}

/// The hash by its description, with numbers of any size: each product is split at 2^64, and its halves are combined.
fn plain_hash(a: u64, b: u64) -> u32 {
    const PI: [u128; 4] =
        [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
    let halves = |product: u128| (product % (1 << 64)) ^ (product / (1 << 64));
    let first = halves((u128::from(a) ^ PI[0]) * (u128::from(b) ^ PI[1]));
    let second = halves((first ^ PI[2]) * PI[3]);
    ((second % (1 << 32)) ^ (second / (1 << 32))) as u32
}

/// Each input bit changes each output bit in about half of the cases, even for adjacent inputs, such as addresses and ports.
#[test]
fn every_bit_reaches_every_bit() {
    const SAMPLES: u64 = 4000;
    let input = |i: u64| -> [u32; 4] {
        [6, 0x0a00_0000 + i as u32, 0xc612_0000 + (i as u32 >> 4), (1024 + i as u32) << 16 | 80]
    };
    let of = |protocol: u32, src: u32, dst: u32, ports: u32| {
        hash_words(u64::from(src) << 32 | u64::from(dst), u64::from(protocol) << 32 | u64::from(ports))
    };
    for bit in 0..(8 + 3 * 32) {
        let mut flips = [0u32; 32];
        for i in 0..SAMPLES {
            let [s, a, b, c] = input(i);
            let mut other = [s, a, b, c];
            if bit < 8 {
                other[0] ^= 1 << bit;
            } else {
                other[1 + (bit - 8) / 32] ^= 1 << ((bit - 8) % 32);
            }
            let diff = of(s, a, b, c) ^ of(other[0], other[1], other[2], other[3]);
            for (out, n) in flips.iter_mut().enumerate() {
                *n += diff >> out & 1;
            }
        }
        for (out, &n) in flips.iter().enumerate() {
            let share = f64::from(n) / SAMPLES as f64;
            assert!(
                (0.42..0.58).contains(&share),
                "input bit {bit} flips output bit {out} in {share} of cases"
            );
        }
    }
}

/// Flows that differ only in the source port are distributed over 1,024 shards about as evenly as random flows.
#[test]
fn ports_spread() {
    let mut shards = vec![0u32; 1024];
    for port in 0..=u16::MAX {
        let t = FiveTuple { src: 0x0a00_0001, dst: 0x0a00_0101, src_port: port, dst_port: 80, protocol: 6 };
        shards[(t.hash() % 1024) as usize] += 1;
    }
    // 64 on average; seven standard deviations are 56.
    assert!(shards.iter().all(|n| (8..=120).contains(n)), "{:?}", (shards.iter().min(), shards.iter().max()));
}

proptest! {
    #[test]
    fn hash_agrees(t in any_tuple()) {
        let ports = u64::from(t.src_port) << 16 | u64::from(t.dst_port);
        let (ends, rest) = (u64::from(t.src) << 32 | u64::from(t.dst), u64::from(t.protocol) << 32 | ports);
        prop_assert_eq!(t.hash(), plain_hash(ends, rest));
    }

    /// The fast hash of a packet is that of its five-tuple, for whole, truncated and malformed packets.
    #[test]
    fn the_hash_of_a_packet_is_that_of_its_five_tuple(
        t in any_tuple(),
        options in 0usize..3,
        fragment in (0u16..3, any::<bool>()),
        cut in 0usize..64,
        first in prop::option::weighted(0.2, any::<u8>()),
    ) {
        let packet = l3(t).options(&[1; 8][..4 * options]).fragment(fragment.0, fragment.1);
        let mut packet = packet.build();
        packet.truncate(cut);
        if let (Some(byte), Some(first)) = (packet.first_mut(), first) {
            *byte = first;
        }
        prop_assert_eq!(flow_hash(&packet), five_tuple(&packet).map(FiveTuple::hash));
    }

    #[test]
    fn directions(t in any_tuple()) {
        prop_assert_eq!(t.reversed().reversed(), t);
        prop_assert_eq!(t.symmetric_hash(), t.reversed().symmetric_hash());
        prop_assert!([t.hash(), t.reversed().hash()].contains(&t.symmetric_hash()));
        if t != t.reversed() {
            // Two in 2^32 would be equal by chance.
            prop_assert_ne!(t.hash(), t.reversed().hash());
        }
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        prop_assert!(five_tuple(&bytes).is_none() || bytes.len() >= 20);
        prop_assert!(five_tuple6(&bytes).is_none() || bytes.len() >= 40);
    }

    #[test]
    fn agrees_with_etherparse(
        t in any_tuple(), tcp in any::<bool>(),
        options in prop::collection::vec(Just(1u8), 0..40),
        cut in 0usize..80,
    ) {
        let b = PacketBuilder::ipv4(t.src.into(), t.dst.into()).options(&options);
        let b = if tcp { b.tcp(t.src_port, t.dst_port, 1, 2, wire::tcp::Flags::ACK) } else { b.udp(t.src_port, t.dst_port) };
        let l3 = b.build();
        let parsed = etherparse::SlicedPacket::from_ip(&l3).unwrap();
        let ports = match parsed.transport {
            Some(etherparse::TransportSlice::Tcp(h)) => (h.source_port(), h.destination_port()),
            Some(etherparse::TransportSlice::Udp(h)) => (h.source_port(), h.destination_port()),
            other => panic!("neither TCP nor UDP: {other:?}"),
        };
        let expected = FiveTuple { src_port: ports.0, dst_port: ports.1, protocol: if tcp { 6 } else { 17 }, ..t };
        prop_assert_eq!(five_tuple(&l3), Some(expected));
        // Truncated: without the header, no tuple; without the ports, none in the tuple.
        let short = &l3[..cut.min(l3.len())];
        let header_len = usize::from(l3[0] & 15) * 4;
        match five_tuple(short) {
            None => prop_assert!(short.len() < header_len),
            Some(t) if short.len() < header_len + 4 => prop_assert_eq!((t.src_port, t.dst_port), (0, 0)),
            Some(t) => prop_assert_eq!(t, expected),
        }
    }
}

const A: wire::Mac = wire::Mac([2, 0, 0, 0, 0, 1]);
const B: wire::Mac = wire::Mac([2, 0, 0, 0, 0, 2]);

fn l3(t: FiveTuple) -> PacketBuilder {
    let packet = PacketBuilder::ipv4(t.src.into(), t.dst.into()).protocol(t.protocol);
    packet.payload(&[t.src_port.to_be_bytes(), t.dst_port.to_be_bytes(), [0; 2], [0; 2]].concat())
}

fn framed(kind: u16, tags: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut frame = [B.0, A.0].concat();
    tags.iter().for_each(|vid| frame.extend([0x81, 0, (vid >> 8) as u8, *vid as u8]));
    frame.extend(kind.to_be_bytes());
    frame.extend(packet);
    frame
}

fn ipv6(src: [u8; 16], dst: [u8; 16], next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, (payload.len() >> 8) as u8, payload.len() as u8, next, 64];
    packet.extend(src);
    packet.extend(dst);
    packet.extend(payload);
    packet
}

proptest! {
    /// Under VLAN tags and in tunnels, the hash of a frame is the symmetric hash of the inner five-tuple, in both directions.
    #[test]
    fn a_flow_keeps_its_hash_under_tags_and_in_tunnels(
        mut tuple in any_tuple(),
        udp in any::<bool>(),
        tags in prop::collection::vec(0u16..4096, 0..4),
        outer in any::<(u32, u32)>(),
        gre_options in 0u16..8,
    ) {
        tuple.protocol = if udp { protocol::UDP } else { protocol::TCP };
        let wanted = tuple.symmetric_hash();
        for tuple in [tuple, tuple.reversed()] {
            let packet = l3(tuple).build();
            prop_assert_eq!(frame_hash(&framed(0x0800, &tags, &packet)), wanted);
            let tunnel = |protocol, payload: &[u8]| {
                PacketBuilder::ipv4(outer.0.into(), outer.1.into()).protocol(protocol).payload(payload).build()
            };
            let ipip = tunnel(protocol::IPIP, &packet);
            prop_assert_eq!(frame_hash(&framed(0x0800, &tags, &ipip)), wanted, "IP in IP");
            let [c, k, s] = [gre_options & 4, gre_options & 2, gre_options & 1];
            let flags = c << 13 | k << 12 | s << 12;
            let options = vec![7; 4 * gre_options.count_ones() as usize];
            let gre = [&flags.to_be_bytes()[..], &[8, 0], &options, &packet].concat();
            prop_assert_eq!(frame_hash(&framed(0x0800, &tags, &tunnel(protocol::GRE, &gre))), wanted, "GRE");
            let over6 = ipv6([1; 16], [2; 16], protocol::IPIP, &packet);
            prop_assert_eq!(frame_hash(&framed(0x86dd, &tags, &over6)), wanted, "IP in IPv6");
            // RFC 2473 section 4.1.1: a limit on encapsulations in destination options.
            let limited = [&[protocol::IPIP, 0, 4, 1, 4, 1, 0, 0][..], &packet].concat();
            let over6 = ipv6([1; 16], [2; 16], protocol::DESTINATION_OPTIONS, &limited);
            prop_assert_eq!(frame_hash(&framed(0x86dd, &tags, &over6)), wanted, "after options");
        }
    }

    #[test]
    fn both_directions_of_ipv6_and_of_other_types_are_one_flow(
        (src, dst) in any::<([u8; 16], [u8; 16])>(),
        ports in any::<(u16, u16)>(),
        protocol in prop::sample::select(vec![6u8, 17, 58, 200]),
        options in 0u8..4,
        kind in 0x0900u16..0xffff,
    ) {
        // After any number of destination options headers.
        let packet = |src, dst, a: u16, b: u16| {
            let header = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
            let mut payload: Vec<u8> = (1..options).flat_map(|_| header(60)).collect();
            payload.extend((options > 0).then(|| header(protocol)).into_iter().flatten());
            payload.extend([a.to_be_bytes(), b.to_be_bytes(), [0; 2], [0; 2]].concat());
            ipv6(src, dst, if options > 0 { 60 } else { protocol }, &payload)
        };
        let (there, back) = (packet(src, dst, ports.0, ports.1), packet(dst, src, ports.1, ports.0));
        prop_assert_eq!(frame_hash(&framed(0x86dd, &[], &there)), frame_hash(&framed(0x86dd, &[], &back)));
        let (a, b) = if matches!(protocol, 6 | 17) { ports } else { (0, 0) };
        let number = u128::from_be_bytes;
        let tuple = FiveTuple6 { src: number(src), dst: number(dst), src_port: a, dst_port: b, protocol };
        prop_assert_eq!(five_tuple6(&there), Some(tuple));
        prop_assert_eq!(five_tuple6(&back), Some(tuple.reversed()));
        prop_assert_eq!(tuple.symmetric_hash(), frame_hash(&framed(0x86dd, &[], &there)));
        prop_assert_eq!(tuple.symmetric_hash(), tuple.reversed().symmetric_hash());
        prop_assert!([tuple.hash(), tuple.reversed().hash()].contains(&tuple.symmetric_hash()));
        prop_assert!(tuple == tuple.reversed() || tuple.hash() != tuple.reversed().hash());

        let there = framed(kind, &[], &src);
        let back = [&there[6..12], &there[..6], &there[12..]].concat();
        prop_assert_eq!(frame_hash(&there), frame_hash(&back));
    }

    /// All fragments have the same hash, even if they name different protocols or the first one is malformed.
    #[test]
    fn all_fragments_of_an_ipv6_datagram_are_one_flow(
        (src, dst) in any::<([u8; 16], [u8; 16])>(),
        headers in prop::collection::vec(any::<[u8; 2]>(), 2..5),
        hop_by_hop in any::<bool>(),
    ) {
        let (last, mut tuples) = (headers.len() - 1, Vec::new());
        for (i, [next, first]) in headers.into_iter().enumerate() {
            let mut payload = if hop_by_hop { vec![44, 0, 1, 4, 0, 0, 0, 0] } else { Vec::new() };
            payload.extend([next, 0, 0, (i as u8) << 3 | u8::from(i != last), 1, 2, 3, 4]);
            payload.extend([first; 8]);
            let packet = ipv6(src, dst, if hop_by_hop { 0 } else { 44 }, &payload);
            tuples.push((five_tuple6(&packet), frame_hash(&framed(0x86dd, &[], &packet))));
        }
        prop_assert!(tuples[0].0.is_some() && tuples.iter().all(|t| *t == tuples[0]));
        let (there, back) = (ipv6(src, dst, 44, &[0; 7]), ipv6(dst, src, 44, &[0; 7]));
        prop_assert_eq!(frame_hash(&framed(0x86dd, &[], &there)), frame_hash(&framed(0x86dd, &[], &back)));
    }

    #[test]
    fn any_bytes_have_a_hash(bytes in prop::collection::vec(any::<u8>(), 0..128), kind in any::<bool>()) {
        frame_hash(&bytes);
        frame_hash(&framed(if kind { 0x0800 } else { 0x86dd }, &[], &bytes));
    }
}

#[test]
fn fragments_of_a_tunnelled_packet_stay_together() {
    let inner = PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 1, 1].into()).udp(1234, 80).build();
    let outer = PacketBuilder::ipv4([1; 4].into(), [2; 4].into()).protocol(protocol::IPIP).payload(&inner);
    let [first, last] = [(0, true), (10, false)].map(|(at, more)| outer.clone().fragment(at, more).build());
    assert_eq!(frame_hash(&framed(0x0800, &[], &first)), frame_hash(&framed(0x0800, &[], &last)));
}

#[test]
fn flows_that_differ_a_little_spread_over_all_shards() {
    let hash = |n: u32| {
        frame_hash(&framed(
            0x0800,
            &[],
            &l3(FiveTuple {
                src: 0x0a00_0000 + (n & 255),
                dst: 0x0a01_0000 + (n >> 8),
                src_port: 1024,
                dst_port: 80,
                protocol: protocol::UDP,
            })
            .build(),
        ))
    };
    let hash6 = |n: u32| {
        let (mut src, mut dst) = ([0x20; 16], [0x20; 16]);
        (src[15], dst[7]) = (n as u8, (n >> 8) as u8);
        frame_hash(&framed(0x86dd, &[], &ipv6(src, dst, 17, &[4, 0, 0, 80])))
    };
    for hash in [&hash as &dyn Fn(u32) -> u32, &hash6] {
        let mut shards = [0; 1024];
        (0..65_536).for_each(|n| shards[hash(n) as usize % 1024] += 1);
        let (least, most) = (shards.iter().min().unwrap(), shards.iter().max().unwrap());
        assert!(*least > 32 && *most < 112, "{least} to {most} of 64");
    }
}
