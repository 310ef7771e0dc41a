//! Tests of MSS clamping. The expected packets are built anew with the lower MSS.

use proptest::prelude::*;
use testkit::harness::{Harness, Out};

use super::*;
use net::testing::{Bench, checksum};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Makes a family's packets byte by byte, without the builder of the crate `wire`.
trait ByHand: Clamped {
    /// Returns a packet with this TCP segment, and fills in the segment's checksum. The lower 13 bits of
    /// `fragment` are the fragment offset in units of 8 bytes, and the next bit is "more fragments".
    fn packet(segment: &[u8], fragment: u16) -> Vec<u8>;
}

impl ByHand for Ipv4Addr {
    fn packet(segment: &[u8], fragment: u16) -> Vec<u8> {
        let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 1, 2];
        let pseudo = [&p[12..20], &[0, 6], &(segment.len() as u16).to_be_bytes()].concat();
        p[2..4].copy_from_slice(&(20 + segment.len() as u16).to_be_bytes());
        p[6..8].copy_from_slice(&fragment.to_be_bytes());
        p.extend(summed(&pseudo, segment));
        p
    }
}

impl ByHand for Ipv6Addr {
    /// Adds a destination options header if the segment's length is an odd multiple of 4 bytes.
    fn packet(segment: &[u8], fragment: u16) -> Vec<u8> {
        let mut headers = vec![(60, vec![0, 1, 4, 0, 0, 0, 0]); segment.len() / 4 % 2];
        if fragment != 0 {
            let [a, b] = (fragment << 3 | fragment >> 13 & 1).to_be_bytes();
            headers.push((44, vec![0, a, b, 0, 0, 0, 7]));
        }
        let next = |at: usize| headers.get(at).map_or(6, |h: &(u8, Vec<u8>)| h.0);
        let mut p = vec![0x60, 0, 0, 0, 0, 0, next(0), 64];
        p.extend((0..32).map(|i| 0x20 + i));
        let pseudo = [&p[8..40], &(segment.len() as u32).to_be_bytes(), &[0, 0, 0, 6]].concat();
        p[4..6].copy_from_slice(&((8 * headers.len() + segment.len()) as u16).to_be_bytes());
        for (i, (_, body)) in headers.iter().enumerate() {
            p.push(next(i + 1));
            p.extend(body);
        }
        p.extend(summed(&pseudo, segment));
        p
    }
}

fn summed(pseudo: &[u8], segment: &[u8]) -> Vec<u8> {
    let mut segment = segment.to_vec();
    let sum = checksum(&[pseudo, &segment].concat());
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// Returns a TCP packet with these options and a correct checksum.
fn packet<A: ByHand>(flags: u8, options: &[u8], fragment: u16) -> Vec<u8> {
    let mut list = options.to_vec();
    list.resize(list.len().next_multiple_of(4), 0);
    let words = (20 + list.len()) as u8 / 4;
    let mut segment = vec![4, 0, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, words << 4, flags, 1, 0, 0, 0, 0, 0];
    segment.extend(&list);
    segment.extend(b"payload");
    A::packet(&segment, fragment)
}

fn mss(size: u16) -> [u8; 4] {
    let [high, low] = size.to_be_bytes();
    [2, 4, high, low]
}

/// Returns a graph with both nodes of a family. The MSS is limited in packets received on interface 0 or sent
/// by it; the other interface has no limit.
fn harness<A: ByHand>(most: u16) -> (Bench, Harness) {
    limited::<A>(Mss { clamping: Clamping::Both, most })
}

fn limited<A: ByHand>(limit: Mss) -> (Bench, Harness) {
    let mut bench = Bench::new();
    let index = bench.interface(0, Some(Ipv4Addr::new(10, 0, 0, 1)));
    let h = bench.harness(|b, _, hooks| {
        b.arc(A::NODES.unicast, A::NODES.lookup, graph::ArcKey::Rx);
        b.arc(A::NODES.output, "interface-output", graph::ArcKey::Tx);
        install::<A>(b, hooks).unwrap();
    });
    let mut limits = Clamps::default();
    *limits.0.of_mut::<A>() = limit;
    bench.set(index, limits);
    (bench, h)
}

fn through(h: &mut Harness, node: &str, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut out: Vec<Out> = h.send(node, packets, |_, p| {
        p.set_rx_if(0);
        p.set_tx_if(0);
    });
    out.sort_by_key(|o| o.from);
    out.into_iter().map(|o| o.bytes).collect()
}

/// In SYN segments that are whole or a first fragment, an MSS above `most` becomes `most`, with the right checksum. All other packets stay
/// unchanged.
fn only_what_is_too_much_is_lowered<A: ByHand>(packets: &[(u8, usize, Option<u16>, u16)], most: u16) {
    let (_bench, mut h) = harness::<A>(most);
    let list = |pad: usize, size: Option<u16>| {
        // Padding options come first, so that the MSS option lies at odd offsets, too.
        let mut list = vec![1u8; pad];
        list.extend(size.iter().flat_map(|size| mss(*size)));
        list.extend([3, 3, 7]);
        list
    };
    let sent: Vec<Vec<u8>> =
        packets.iter().map(|(flags, pad, size, f)| packet::<A>(*flags, &list(*pad, *size), *f)).collect();
    let wanted = packets.iter().map(|(flags, pad, size, f)| {
        let lowered = if flags & SYN != 0 && f & 0x1fff == 0 { size.map(|s| s.min(most)) } else { *size };
        packet::<A>(*flags, &list(*pad, lowered), *f)
    });
    let wanted: Vec<Vec<u8>> = wanted.collect();
    for node in [A::IN, A::OUT] {
        assert_eq!(through(&mut h, node, &sent), wanted, "{node}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn only_too_large_mss_values_are_lowered(
        packets in prop::collection::vec(
            (any::<u8>(), 0usize..6, prop::option::of(1u16..10_000), prop::sample::select(vec![0u16, 0, 0, 0x2000, 3])), 1..40),
        most in 100u16..9000,
    ) {
        only_what_is_too_much_is_lowered::<Ipv4Addr>(&packets, most);
        only_what_is_too_much_is_lowered::<Ipv6Addr>(&packets, most);
    }

    /// Whatever follows an IPv6 header, the length stays, and at most four bytes change: two of an MSS and two of a checksum.
    #[test]
    fn any_bytes_are_handled(next in prop::sample::select(vec![0u8, 6, 6, 43, 44, 51, 60, 135]), rest in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
        bytes.resize(40, 0xfd);
        bytes.extend(rest);
        let after = through(&mut harness::<Ipv6Addr>(1).1, Ipv6Addr::IN, std::slice::from_ref(&bytes)).remove(0);
        prop_assert_eq!(after.len(), bytes.len());
        prop_assert!(after.iter().zip(&bytes).filter(|(a, b)| a != b).count() <= 4);
    }
}

#[test]
fn malformed_or_truncated_options_stay_unchanged() {
    let packet = packet::<Ipv4Addr>;
    let (bench, mut h) = harness::<Ipv4Addr>(1000);
    let mut cut = packet(SYN, &mss(1460), 0);
    cut.truncate(41);
    let mut long = packet(SYN, &mss(1460), 0);
    long[32] = 0xf0;
    let mut short = packet(SYN, &mss(1460), 0);
    short[32] = 0x40;
    let broken =
        [vec![2, 0, 5, 180], vec![2, 3, 5, 180], vec![7, 40, 2, 4, 5, 180], vec![2], vec![0, 2, 4, 5, 180]];
    let mut packets: Vec<Vec<u8>> = broken.iter().map(|list| packet(SYN | ACK, list, 0)).collect();
    packets.extend([cut, long.clone(), short]);
    let after = through(&mut h, Ipv4Addr::IN, &packets);
    // One TCP header claims to be longer than the packet: its MSS is either lowered, or left unchanged.
    assert_eq!(after[..6], packets[..6]);
    assert_eq!(after[7], packets[7]);
    assert_eq!(bench.counts::<Clamps>().read(0), [u64::from(after[6] != long), 0]);
}

/// A worker in the node while clamping is switched off lowers nothing: no MSS becomes 0.
#[test]
fn without_clamping_no_mss_is_lowered() {
    let (_bench, mut h) = limited::<Ipv4Addr>(Mss { clamping: Clamping::Off, most: 1400 });
    let packets = [packet::<Ipv4Addr>(SYN, &mss(1460), 0), packet::<Ipv4Addr>(SYN, &mss(u16::MAX), 0)];
    assert_eq!(through(&mut h, Ipv4Addr::IN, &packets), packets);
    assert_eq!(Mss { clamping: Clamping::Rx, most: 900 }.limit(), 900);
}

fn counted<A: ByHand>() -> [u64; 2] {
    let (bench, mut h) = harness::<A>(1400);
    let says = |flags, size| packet::<A>(flags, &mss(size), 0);
    through(&mut h, A::IN, &[says(SYN, 1460), says(SYN | ACK, 1401), says(SYN, 1400)]);
    bench.counts::<Clamps>().read(0)
}

#[test]
fn lowered_packets_are_counted() {
    assert_eq!([counted::<Ipv4Addr>(), counted::<Ipv6Addr>()], [[2, 0], [0, 2]]);
}

#[test]
fn rfc6946_the_mss_is_lowered_behind_an_atomic_fragment_header() {
    let (bench, mut h) = harness::<Ipv6Addr>(1000);
    let atomic = |size| {
        let mut p = packet::<Ipv6Addr>(SYN, &mss(size), 0);
        let next = std::mem::replace(&mut p[6], 44);
        p.splice(40..40, [next, 0, 0, 0, 0, 0, 0, 7]);
        let payload = (p.len() - 40) as u16;
        p[4..6].copy_from_slice(&payload.to_be_bytes());
        p
    };
    for node in [Ipv6Addr::IN, Ipv6Addr::OUT] {
        let after = through(&mut h, node, &[atomic(1460), atomic(900)]);
        assert_eq!(after, [atomic(1000), atomic(900)], "{node}");
    }
    assert_eq!(bench.counts::<Clamps>().read(0), [0, 2]);
}
