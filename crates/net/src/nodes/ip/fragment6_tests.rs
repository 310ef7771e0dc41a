//! Tests of the fragments that `ip6-rewrite` makes of the router's own packets: they are reassembled by a
//! simple implementation.

use std::net::Ipv6Addr;

use buf::{Flags, LinkHeader};
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::protocol::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP};

use super::rewrite::Rewrite;
use crate::adjacency::Adjacency;
use crate::ip::Cause;
use crate::testing::Bench;

const SRC: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 9);
/// The only adjacency.
const ADJACENCY: u32 = 0;

/// Creates a harness with only the rewrite node, and an adjacency with this MTU that exists as long as the
/// returned bench.
fn harness(mtu: u16) -> (Bench, Harness) {
    let mut bench = Bench::new();
    let rewrite = LinkHeader::new(&[&[4; 6][..], &[2; 6], &[0x86, 0xdd]].concat());
    let record = Adjacency { rewrite, interface: 3, mtu, next_hop: DST.into() };
    assert_eq!(bench.writers.adjacencies.insert(record), Ok(ADJACENCY));
    let h = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |s| Rewrite::<Ipv6Addr>::new(&tables, s.worker));
    });
    (bench, h)
}

fn udp(len: usize) -> PacketBuilder {
    let bytes: Vec<u8> = (0..len).map(|i| ((i * i) >> 3) as u8 ^ i as u8).collect();
    PacketBuilder::ipv6(SRC, DST).udp(1, 2).payload(&bytes)
}

fn send(h: &mut Harness, packet: &[u8], flags: Flags) -> Vec<Out> {
    h.send("ip6-rewrite", &[packet], |_, p| {
        p.set_flags(flags);
        p.set_fwd(ADJACENCY);
    })
}

/// Returns the fragments without their link headers. Panics on any other output.
fn fragments(out: Vec<Out>) -> Vec<Vec<u8>> {
    for o in &out {
        assert_eq!((o.node.as_str(), o.reason, o.from), ("ip6-output", None, Some(0)));
        assert!(!o.record.flags.any(Flags::CSUM_PARTIAL | Flags::CHAINED));
        assert_eq!(o.bytes[12..14], [0x86, 0xdd]);
    }
    out.into_iter().map(|o| o.bytes[14..].to_vec()).collect()
}

fn be16(b: &[u8], at: usize) -> usize {
    usize::from(b[at]) << 8 | usize::from(b[at + 1])
}

/// Reassembles all fragments of a packet, given in order, by RFC 8200 section 4.5. In each fragment, `front` bytes of headers precede the
/// fragment header. The byte at `named_at` is the next-header field that announces the fragment header.
fn reassemble(fragments: &[Vec<u8>], front: usize, named_at: usize) -> Vec<u8> {
    let first = &fragments[0];
    let mut whole = first[..front].to_vec();
    for (i, f) in fragments.iter().enumerate() {
        assert_eq!(be16(f, 4) + 40, f.len());
        assert_eq!((&f[..4], &f[6..front]), (&first[..4], &first[6..front]));
        assert_eq!((f[named_at], f[front], f[front + 1]), (FRAGMENT, first[front], 0));
        assert_eq!(&f[front + 4..front + 8], &first[front + 4..front + 8], "identification");
        let place = be16(f, front + 2);
        assert_eq!((place & !7, place & 6), (whole.len() - front, 0), "fragment {i} follows the last one");
        assert_eq!(place & 1 == 1, i + 1 < fragments.len(), "more fragments follow");
        whole.extend(&f[front + 8..]);
    }
    whole[named_at] = first[front];
    let payload = whole.len() as u16 - 40;
    whole[4..6].copy_from_slice(&payload.to_be_bytes());
    whole
}

proptest! {
    #[test]
    fn fragments_are_the_packet_in_pieces(
        mtu in 1280u16..9200, len in 1240usize..65_000, hops: bool, options: bool, padding in 0usize..50, partial: bool,
    ) {
        let mut b = udp(len);
        for (kind, wanted) in [(HOP_BY_HOP, hops), (DESTINATION_OPTIONS, options)] {
            if wanted {
                b = b.extension(kind, &[1, 4]);
            }
        }
        let packet = b.build();
        prop_assume!(packet.len() > usize::from(mtu));
        let sent = if partial { b.clone().partial_checksum().build() } else { packet.clone() };
        let out = harness(mtu).1.send("ip6-rewrite", &[[sent, vec![0xee; padding]].concat()], |_, p| {
            p.set_flags(Flags::LOCAL_ORIGIN | if partial { Flags::CSUM_PARTIAL } else { Flags::NONE });
            (p.cold_mut().csum_start, p.cold_mut().csum_offset) = ((b.header_len() - 8) as u16, 6);
            p.set_fwd(ADJACENCY);
        });
        let (front, named_at) = if hops { (48, 40) } else { (40, 6) };
        let fragments = fragments(out);
        prop_assert_eq!(reassemble(&fragments, front, named_at), packet);
        // Every link carries 1,280 bytes; the path MTU is unknown.
        let (last, others) = fragments.split_last().unwrap();
        prop_assert!(last.len() <= 1280);
        prop_assert!(others.iter().all(|f| (1273..=1280).contains(&f.len()) && (f.len() - front).is_multiple_of(8)));
    }

    /// For any bytes, each output packet is sent, reported to its source, or has a drop reason.
    #[test]
    fn any_bytes_are_handled(next in prop::sample::select(vec![0u8, 17, 43, 44, 51, 60]), rest in prop::collection::vec(any::<u8>(), 0..400), mtu in 0u16..300) {
        let packet = udp(0).protocol(next).payload(&rest).build();
        let out = send(&mut harness(mtu).1, &packet, Flags::LOCAL_ORIGIN);
        let ends = ["ip6-output", "ip6-icmp-error"];
        prop_assert!(out.iter().all(|o| o.reason.is_some() || ends.contains(&o.node.as_str())));
    }
}

#[test]
fn rfc8200_5_forwarded_packets_are_not_fragmented() {
    let out = send(&mut harness(1400).1, &udp(1500).build(), Flags::NONE);
    let cause = Cause::from_raw(out[0].record.fwd);
    assert_eq!((out[0].node.as_str(), cause), ("ip6-icmp-error", Cause::FragmentationNeeded(1400)));
}

#[test]
fn rfc7739_identifications_are_not_sequential() {
    let (_bench, mut h) = harness(1280);
    let ids: Vec<u32> = (0..20)
        .map(|_| {
            let first = &fragments(send(&mut h, &udp(1500).build(), Flags::LOCAL_ORIGIN))[0];
            u32::from_be_bytes(first[44..48].try_into().unwrap())
        })
        .collect();
    let near = ids.windows(2).filter(|w| w[1].wrapping_sub(w[0]) < 1 << 16).count();
    assert!(near < 3, "{ids:?}");
}

#[test]
fn packets_that_cannot_be_fragmented_are_dropped_whole() {
    let refused = |mtu: u16, packet: &PacketBuilder| {
        let out = send(&mut harness(mtu).1, &packet.build(), Flags::LOCAL_ORIGIN);
        assert_eq!((out.len(), out[0].node.as_str()), (1, "ip6-rewrite"));
        out[0].reason.unwrap()
    };
    assert_eq!(refused(55, &udp(100)), "mtu-too-small");
    assert_eq!(refused(100, &udp(100).extension(HOP_BY_HOP, &[0; 86])), "bad-header");
    assert_eq!(refused(60, &udp(8 * 256)), "too-many-fragments");
}
