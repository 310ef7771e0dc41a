//! MSS clamping against packets made anew.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use testkit::harness::{Harness, Out};

use super::*;
use crate::testing::{Bench, transport_checksum};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A TCP packet with these options, whose checksum is right.
fn packet(flags: u8, options: &[u8], fragment: u16) -> Vec<u8> {
    let mut list = options.to_vec();
    list.resize(list.len().next_multiple_of(4), 0);
    let total = 20 + 20 + list.len() + 7;
    let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 1, 2];
    p[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    p[6..8].copy_from_slice(&fragment.to_be_bytes());
    p.extend([
        0x04,
        0x00,
        0,
        80,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        ((20 + list.len()) as u8 / 4) << 4,
        flags,
        1,
        0,
        0,
        0,
        0,
        0,
    ]);
    p.extend(&list);
    p.extend(b"payload");
    let checksum = transport_checksum(&p);
    p[36..38].copy_from_slice(&checksum.to_be_bytes());
    p
}

fn mss(size: u16) -> [u8; 4] {
    let [high, low] = size.to_be_bytes();
    [2, 4, high, low]
}

/// Both nodes, with a limit for what comes in by interface 0 or leaves by it.
fn harness(most: u16) -> (Bench, Harness) {
    let mut bench = Bench::new();
    let index = bench.interface(0, Some(Ipv4Addr::new(10, 0, 0, 1)));
    let mut record = bench.writers.interfaces.get(index).unwrap().clone();
    record.mss4 = most;
    bench.writers.interfaces.set(index, record).unwrap();
    let h = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |s| TcpMssClamp::<false>::new(&tables, s.worker));
        let tables = t.clone();
        b.frame(move |s| TcpMssClamp::<true>::new(&tables, s.worker));
        b.arc("ip4-unicast", "ip4-lookup", graph::ArcKey::Rx);
        b.arc("ip4-output", "interface-output", graph::ArcKey::Tx);
        b.feature("ip4-unicast", IN, &[], &[]);
        b.feature("ip4-output", OUT, &[], &[]);
    });
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// What is too much becomes the limit, with a checksum as if it had been said; all other packets stay as they are.
    #[test]
    fn only_what_is_too_much_is_lowered(
        packets in prop::collection::vec(
            (any::<u8>(), 0usize..6, prop::option::of(1u16..10_000), prop::sample::select(vec![0u16, 0, 0, 0x2000, 3])), 1..40),
        most in 100u16..9000,
    ) {
        let (_bench, mut h) = harness(most);
        let list = |pad: usize, size: Option<u16>| {
            // Some options without a meaning in front, so that it lies at odd places, too.
            let mut list = vec![1u8; pad];
            list.extend(size.iter().flat_map(|size| mss(*size)));
            list.extend([3, 3, 7]);
            list
        };
        let sent: Vec<Vec<u8>> = packets.iter().map(|(flags, pad, size, f)| packet(*flags, &list(*pad, *size), *f)).collect();
        let wanted: Vec<Vec<u8>> = packets.iter().map(|(flags, pad, size, f)| {
            let lowered = if flags & SYN != 0 && f & 0x1fff == 0 { size.map(|s| s.min(most)) } else { *size };
            packet(*flags, &list(*pad, lowered), *f)
        }).collect();
        for node in [IN, OUT] {
            prop_assert_eq!(through(&mut h, node, &sent), wanted.clone(), "{}", node);
        }
    }
}

#[test]
fn lists_that_are_broken_or_cut_off_stay_as_they_are() {
    let (bench, mut h) = harness(1000);
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
    let after = through(&mut h, IN, &packets);
    // The header of one is said to be longer than the packet has options: what it says is still lowered, or not at all.
    assert_eq!(after[..6], packets[..6]);
    assert_eq!(after[7], packets[7]);
    assert_eq!(bench.tables.mss_clamped.read(0), [u64::from(after[6] != long)]);
}

/// Who is in the node when it is switched off finds nothing to lower: no segment is said to be of no byte.
#[test]
fn what_is_not_clamped_has_no_limit() {
    let (_bench, mut h) = harness(Mss::default().most4());
    let packets = [packet(SYN, &mss(1460), 0), packet(SYN, &mss(u16::MAX), 0)];
    assert_eq!(through(&mut h, IN, &packets), packets);
    assert_eq!(Mss { clamping: Clamping::Rx, ip4: 900 }.most4(), 900);
}

#[test]
fn what_is_lowered_is_counted() {
    let (bench, mut h) = harness(1400);
    let packets = [packet(SYN, &mss(1460), 0), packet(SYN | ACK, &mss(1401), 0), packet(SYN, &mss(1400), 0)];
    through(&mut h, IN, &packets);
    assert_eq!(bench.tables.mss_clamped.read(0), [2]);
}
