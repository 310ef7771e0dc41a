//! Tests of the fragments that `ip4-rewrite` makes: they are reassembled by a simple implementation.

use std::net::Ipv4Addr;

use buf::layout::DATA_ROOM;
use buf::{Flags, Gso, GsoKind, Held, LinkHeader, Packet};
use drivers::pktgen::{self, Stream, Template};
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::Mac;
use wire::builder::PacketBuilder;

use super::rewrite::Rewrite;
use crate::adjacency::Adjacency;
use crate::ip::Address;
use crate::testing::{self, Bench, checksum};

const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const DST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// The only adjacency.
const ADJACENCY: u32 = 0;

/// Creates a harness with only the rewrite node, and an adjacency with this MTU that exists as long as the
/// returned bench.
fn harness(mtu: u16) -> (Bench, Harness) {
    let mut bench = Bench::new();
    let rewrite = LinkHeader::new(&[&[4; 6][..], &[2; 6], &[8, 0]].concat());
    let record = Adjacency { rewrite, interface: 3, mtu, next_hop: DST.into() };
    assert_eq!(bench.writers.adjacencies.insert(record), Ok(ADJACENCY));
    let h = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |s| Rewrite::<Ipv4Addr>::new(&tables, s.worker));
    });
    (bench, h)
}

fn udp(payload: usize) -> PacketBuilder {
    PacketBuilder::ipv4(SRC, DST).udp(1, 2).payload(&bytes(payload))
}

/// Returns `len` bytes whose values depend on their position, so that a misplaced byte is noticed.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * i) >> 3) as u8 ^ i as u8).collect()
}

/// Sends one packet after `lead` bytes of link header. Each value of `lead` puts other bytes of the packet at the boundaries between
/// buffers. The packet counts as the router's own, so its TTL does not change.
fn send(h: &mut Harness, lead: usize, packet: &[u8], mut set: impl FnMut(&mut Packet<'_>)) -> Vec<Out> {
    h.send("ip4-rewrite", &[[&vec![0xee; lead], packet].concat()], |_, p| {
        p.set_flags(Flags::LOCAL_ORIGIN);
        assert!(p.advance(lead));
        p.mark_l3(lead as u8);
        p.set_fwd(ADJACENCY);
        set(p);
    })
}

/// Returns the fragments without their link headers. Panics on any other output.
fn fragments(out: Vec<Out>) -> Vec<Vec<u8>> {
    for o in &out {
        assert_eq!((o.node.as_str(), o.reason, o.from), ("ip4-output", None, Some(0)));
        assert!(!o.record.flags.any(Flags::CSUM_PARTIAL | Flags::CHAINED | Flags::GSO));
        assert_eq!(o.bytes[..14], [4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 8, 0]);
    }
    out.into_iter().map(|o| o.bytes[14..].to_vec()).collect()
}

fn be16(b: &[u8], at: usize) -> usize {
    usize::from(b[at]) << 8 | usize::from(b[at + 1])
}

fn header_len(packet: &[u8]) -> usize {
    usize::from(packet[0] & 15) * 4
}

/// Reassembles all fragments of a packet, given in order, by RFC 791 section 3.2.
fn reassemble(fragments: &[Vec<u8>]) -> Vec<u8> {
    let first = &fragments[0];
    let mut whole = first[..header_len(first)].to_vec();
    let header = whole.len();
    let start = (be16(first, 6) & 0x1fff) * 8;
    for (i, f) in fragments.iter().enumerate() {
        assert_eq!((f[0] >> 4, be16(f, 2)), (4, f.len()));
        assert_eq!(checksum(&f[..header_len(f)]), 0, "header checksum");
        assert_eq!((f[1], &f[4..6], f[6] & 0xc0), (first[1], &first[4..6], first[6] & 0xc0));
        assert_eq!((&f[8..10], &f[12..20]), (&first[8..10], &first[12..20]));
        assert_eq!(
            (be16(f, 6) & 0x1fff) * 8 - start,
            whole.len() - header,
            "fragment {i} follows the last one"
        );
        assert!(i + 1 == fragments.len() || f[6] & 0x20 != 0, "more fragments follow");
        whole.extend(&f[header_len(f)..]);
    }
    let total = whole.len() as u16;
    whole[2..4].copy_from_slice(&total.to_be_bytes());
    let more = fragments[fragments.len() - 1][6] & 0x20;
    whole[6] = whole[6] & !0x20 | more;
    whole[10..12].copy_from_slice(&[0, 0]);
    let sum = checksum(&whole[..header]);
    whole[10..12].copy_from_slice(&sum.to_be_bytes());
    whole
}

/// The IPv4 options of a packet.
#[derive(Clone, Debug)]
struct Options {
    /// The list of options as it is in the packet.
    all: Vec<u8>,
    /// The options that later fragments must have, padded to whole words.
    copied: Vec<u8>,
}

fn options() -> impl Strategy<Value = Options> {
    let one = prop_oneof![
        Just(vec![1]),
        (2u8.., prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(kind, data)| [
            &[kind, 2 + data.len() as u8],
            &data[..]
        ]
        .concat()),
    ];
    // Bytes after the end of the list are ignored, whatever they look like.
    let end = prop_oneof![Just(vec![]), Just(vec![0, 0x94, 4, 0, 0])];
    (prop::collection::vec(one, 0..8), end).prop_map(|(list, end)| {
        let mut options = Options { all: Vec::new(), copied: Vec::new() };
        for option in list {
            if options.all.len() + option.len() + end.len() <= 40 {
                options.all.extend(&option);
                if option[0] >= 128 {
                    options.copied.extend(&option);
                }
            }
        }
        options.all.extend(end);
        options.copied.resize(options.copied.len().next_multiple_of(4), 0);
        options
    })
}

/// Generates an MTU and a payload length that needs at most 256 fragments.
fn sizes() -> impl Strategy<Value = (u16, usize)> {
    prop_oneof![(68u16..600, 0usize..2000), (600u16..9200, 0usize..65_000)]
}

proptest! {
    #[test]
    fn fragments_are_the_packet_in_pieces(
        (mtu, len) in sizes(), options in options(), place: u16, more: bool, numbers: (u16, u8, u8),
        lead in 0usize..40, padding in 0usize..50,
    ) {
        let offset = usize::from(place) % ((65_535 - len) / 8 + 1);
        let (id, tos, ttl) = numbers;
        let packet = PacketBuilder::ipv4(SRC, DST)
            .id(id).tos(tos).ttl(ttl)
            .options(&options.all)
            .fragment(offset as u16, more)
            .payload(&bytes(len))
            .build();
        prop_assume!(packet.len() > usize::from(mtu));
        let out = send(&mut harness(mtu).1, lead, &[packet.clone(), vec![0xee; padding]].concat(), |_| ());
        let fragments = fragments(out);
        prop_assert_eq!(reassemble(&fragments), packet);

        let most = usize::from(mtu).min(DATA_ROOM);
        let (last, others) = fragments.split_last().unwrap();
        prop_assert!(last.len() <= most);
        for f in others {
            prop_assert!((f.len() - header_len(f)).is_multiple_of(8));
            prop_assert!((most - 7..=most).contains(&f.len()), "{} of {most}", f.len());
        }
        for f in &fragments[1..] {
            prop_assert_eq!(&f[20..header_len(f)], &options.copied[..]);
        }
    }

    #[test]
    fn partial_checksums_are_completed(
        tcp: bool, (mtu, len) in sizes(), options in options(), lead in 0usize..40, padding in 0usize..50,
    ) {
        let b = PacketBuilder::ipv4(SRC, DST).options(&options.all).payload(&bytes(len));
        let b = if tcp { b.tcp(1, 2, 3, 4, wire::tcp::Flags::ACK) } else { b.udp(1, 2) };
        let partial = [b.clone().partial_checksum().build(), vec![0xee; padding]].concat();
        prop_assume!(partial.len() > usize::from(mtu));
        let out = send(&mut harness(mtu).1, lead, &partial, |p| {
            p.set_flags(p.flags() | Flags::CSUM_PARTIAL);
            let start = lead + header_len(&partial);
            (p.cold_mut().csum_start, p.cold_mut().csum_offset) = (start as u16, if tcp { 16 } else { 6 });
        });
        prop_assert_eq!(reassemble(&fragments(out)), b.build());
    }

    /// For any bytes, each output packet is sent, reported to its source, or has a drop reason.
    #[test]
    fn any_bytes_are_handled(
        bytes in prop::collection::vec(any::<u8>(), 0..200), plain: bool, partial: bool, words: (u16, u16), mtu in 0u16..300,
    ) {
        let mut bytes = bytes;
        if plain && bytes.len() >= 20 {
            bytes[0] = 0x40 | bytes[0] & 15;
            let len = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
        }
        let out = send(&mut harness(mtu).1, 0, &bytes, |p| {
            if partial {
                p.set_flags(p.flags() | Flags::CSUM_PARTIAL);
                (p.cold_mut().csum_start, p.cold_mut().csum_offset) = words;
            }
        });
        let ends = ["ip4-output", "ip4-icmp-error"];
        prop_assert!(out.iter().all(|o| o.reason.is_some() || ends.contains(&o.node.as_str())));
    }
}

#[test]
fn rfc791_3_1_later_fragments_have_the_options_with_the_copied_bit() {
    let (record_route, source_route) = ([7, 7, 4, 0, 0, 0, 0], [0x83, 7, 4, 10, 0, 0, 1]);
    let all = [&record_route[..], &[1], &source_route, &[0]].concat();
    let packet = PacketBuilder::ipv4(SRC, DST).options(&all).payload(&bytes(100)).build();
    let fragments = fragments(send(&mut harness(68).1, 0, &packet, |_| ()));
    assert_eq!(fragments.len(), 3);
    assert_eq!((fragments[0][0], &fragments[0][20..36]), (0x49, &all[..]));
    for later in &fragments[1..] {
        assert_eq!((later[0], &later[20..28]), (0x47, &[0x83, 7, 4, 10, 0, 0, 1, 0][..]));
    }
}

#[test]
fn copied_options_end_at_an_invalid_length() {
    for bad in [&[0x94, 0, 0, 0][..], &[0x94, 1, 0, 0], &[0x94, 5, 0, 0], &[1, 1, 1, 0x94]] {
        let options = [&[0x94, 4, 1, 2], bad].concat();
        let packet = PacketBuilder::ipv4(SRC, DST).options(&options).payload(&bytes(100)).build();
        let fragments = fragments(send(&mut harness(68).1, 0, &packet, |_| ()));
        assert_eq!(reassemble(&fragments), packet);
        assert_eq!((fragments[1][0], &fragments[1][20..24]), (0x46, &options[..4]));
    }
}

#[test]
fn fragments_inherit_the_metadata_of_the_packet() {
    let out = send(&mut harness(1000).1, 0, &udp(1500).build(), |p| {
        p.set_fib(7);
        p.set_rx_if(8);
        p.set_hash(10);
        p.set_flags(p.flags() | Flags::L2_BROADCAST);
    });
    assert_eq!(out.len(), 2);
    for o in out {
        let r = o.record;
        assert_eq!((r.fib, r.rx_if, r.tx_if, r.hash, r.fwd), (7, 8, 3, 10, ADJACENCY));
        assert_eq!(r.flags, Flags::L2_BROADCAST | Flags::LOCAL_ORIGIN | Flags::TRACED);
    }
}

/// Sends one packet, which must be dropped unchanged. Returns the reason.
fn refused(h: &mut Harness, packet: &[u8], set: impl FnMut(&mut Packet<'_>)) -> &'static str {
    let out = send(h, 0, packet, set);
    assert_eq!((out.len(), out[0].node.as_str(), &out[0].bytes[..]), (1, "ip4-rewrite", packet));
    out[0].reason.unwrap()
}

#[test]
fn packets_that_cannot_be_fragmented_are_dropped_whole() {
    let (_bench, h) = &mut harness(1000);
    let good = udp(1500).build();
    assert_eq!(refused(h, &good, |p| p.set_fwd(ADJACENCY + 1)), "stale-adjacency");
    for len in [1001, good.len() - 1] {
        assert_eq!(refused(h, &good[..len], |_| ()), "bad-header", "{len}");
    }
    // The flags are present, but not the whole header.
    for len in 8..20 {
        assert_eq!(refused(&mut harness(7).1, &good[..len], |_| ()), "bad-header", "{len}");
    }
    let with = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        packet
    };
    assert_eq!(refused(h, &with(0, 0x44), |_| ()), "bad-header");
    // A payload of 1,508 bytes: the largest offset at which it ends within 65,535 bytes, and the next one.
    assert_eq!(fragments(send(h, 0, &udp(1500).fragment(8003, true).build(), |_| ())).len(), 2);
    assert_eq!(refused(h, &udp(1500).fragment(8004, true).build(), |_| ()), "bad-offset");
    for (start, offset) in [(20, 2000), (u16::MAX, u16::MAX), (1527, 0)] {
        let reason = refused(h, &good, |p| {
            p.set_flags(p.flags() | Flags::CSUM_PARTIAL);
            (p.cold_mut().csum_start, p.cold_mut().csum_offset) = (start, offset);
        });
        assert_eq!(reason, "bad-checksum-place");
    }
    for (kind, size) in [(GsoKind::Tcp6, 1400), (GsoKind::UdpL4, DATA_ROOM as u16)] {
        assert_eq!(refused(h, &udp(3000).build(), |p| large(p, kind, size)), "bad-segmentation");
    }
    let many = udp(257 * 41).build();
    assert_eq!(refused(&mut harness(68).1, &many, |p| large(p, GsoKind::UdpL4, 41)), "too-many-fragments");
}

/// Marks a packet for segmentation into segments with `size` bytes of payload.
fn large(p: &mut Packet<'_>, kind: GsoKind, size: u16) {
    p.set_flags(p.flags() | Flags::GSO | Flags::CSUM_PARTIAL);
    p.cold_mut().set_gso(Gso { kind, ecn: false, size, header_len: 28 });
}

#[test]
fn gso_packets_are_segmented_before_fragmentation() {
    let whole = udp(3000).id(7);
    let out = send(&mut harness(1000).1, 18, &whole.clone().partial_checksum().build(), |p| {
        large(p, GsoKind::UdpL4, 1400);
    });
    // Two datagrams of 1,400 bytes in two fragments each, and a shorter one in one.
    let fragments = fragments(out);
    assert_eq!(fragments.iter().map(|f| f.len() <= 1000).collect::<Vec<_>>(), [true; 5]);
    let payload = bytes(3000);
    for (i, (parts, sent)) in fragments.chunks(2).zip(payload.chunks(1400)).enumerate() {
        let datagram = whole.clone().id(7 + i as u16).payload(sent).build();
        assert_eq!(reassemble(parts), datagram);
    }
}

#[test]
fn an_mtu_has_room_for_the_header_and_eight_bytes() {
    let packet = udp(100).options(&[1; 40]).build();
    assert_eq!(refused(&mut harness(67).1, &packet, |_| ()), "mtu-too-small");
    assert!(fragments(send(&mut harness(68).1, 0, &packet, |_| ())).len() > 1);
    assert_eq!(refused(&mut harness(27).1, &udp(100).build(), |_| ()), "mtu-too-small");
}

#[test]
fn a_packet_has_at_most_256_fragments() {
    let (_bench, h) = &mut harness(68);
    let payload = |len| PacketBuilder::ipv4(SRC, DST).payload(&bytes(len)).build();
    assert_eq!(fragments(send(h, 0, &payload(256 * 48), |_| ())).len(), 256);
    assert_eq!(refused(h, &payload(256 * 48 + 1), |_| ()), "too-many-fragments");
}

#[test]
fn without_buffers_for_all_fragments_none_is_sent() {
    let (_bench, mut h) = harness(300);
    let packet = udp(60_000).build();
    // The packet's buffers are in the harness's cache afterwards.
    let held = h.held(&packet);
    let mut cache = h.pool().cache();
    let mut taken: Vec<Held> = std::iter::from_fn(|| Held::alloc(&mut cache)).collect();
    // The packet becomes 215 fragments.
    taken.drain(..150).for_each(Held::discard);
    let reason = refused(&mut h, &packet, |_| ());
    taken.into_iter().for_each(|held| held.free(&mut cache));
    drop(cache);
    held.discard();
    assert_eq!(reason, "no-buffer");
    assert_eq!(fragments(send(&mut h, 0, &packet, |_| ())).len(), 215);
}

/// The whole router forwards between two links. The packets that it sends on the link with an MTU of 1,000
/// bytes are checked.
#[test]
fn rfc1812_4_2_2_7_a_router_fragments_packets_above_the_mtu() {
    let (mut router, mut worker) = testing::router();
    let macs = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];
    let (host, far) = (Ipv4Addr::new(10, 0, 1, 2), Ipv4Addr::new(10, 0, 2, 2));
    let mut ends = Vec::new();
    for (i, mac) in (1..).zip(macs) {
        let (device, generator, sink) =
            pktgen::open(&pktgen::Config { mac: mac.0, ..pktgen::Config::default() });
        let index = router.add_device(&format!("pg{i}"), device).unwrap();
        router.set_mtu(index, if i == 1 { 9000 } else { 1000 }).unwrap();
        router.add_address(index, Address::new(Ipv4Addr::new(10, 0, i, 1), 24)).unwrap();
        router.set_admin(index, true).unwrap();
        router.add_neighbor(index, Ipv4Addr::new(10, 0, i, 2), Mac([4, 0, 0, 0, 0, i]), true).unwrap();
        ends.push((generator, sink));
    }
    let mut turns = |router: &mut crate::router::Router| {
        for now in 1..4 {
            testing::turn(router, &mut worker);
            router.poll(now);
        }
    };
    turns(&mut router);
    ends[1].1.keep(16);
    let packet = PacketBuilder::ipv4(host, far).udp(1, 2).payload(&bytes(1900));
    let (large, small) = (packet.clone().ttl(9), packet.clone().payload(b"small").ttl(9));
    let frame = |b: &PacketBuilder| Template::fixed(b.clone().ethernet(Mac([4; 6]), macs[0]).build());
    let templates = vec![frame(&large), frame(&small), frame(&large)];
    let stream = Stream { name: "s".into(), templates, limit: Some(3), ..Stream::default() };
    ends[0].0.add(stream).unwrap();
    ends[0].0.set_enabled(None, true);
    turns(&mut router);

    let sent: Vec<_> = ends[1].1.take().into_iter().map(|captured| captured.bytes).collect();
    let link = [&[4, 0, 0, 0, 0, 2][..], &macs[1].0, &[8, 0]].concat();
    assert!(sent.iter().all(|frame| frame[..14] == link && frame.len() <= 1014));
    let packets: Vec<_> = sent.iter().map(|frame| frame[14..].to_vec()).collect();
    let (whole, parts): (Vec<_>, Vec<_>) = packets.into_iter().partition(|p| be16(p, 6) & 0x3fff == 0);
    assert_eq!(whole, [small.ttl(8).build()]);
    assert_eq!(parts.len(), 4);
    for packet in parts.chunks(2) {
        assert_eq!(reassemble(packet), large.clone().ttl(8).build());
    }
}
