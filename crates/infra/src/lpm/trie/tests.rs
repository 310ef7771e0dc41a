use super::*;
use crate::{
    hash::mix64,
    lpm::{Lpm, LpmFull, MAX_LEAF, NaiveLpm, tests::Stop},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

#[derive(Clone, Debug)]
enum Op {
    Insert(u128, u8, u32),
    Remove(u128, u8),
}

/// Generates addresses with few different bytes, so that prefixes nest, repeat and share nodes.
fn address() -> impl Strategy<Value = u128> {
    let high =
        prop::sample::select(vec![0x2001_0db8u128, 0x2001_0db9, 0x2001_0d00, 0x2a00_1450, 0, 0xffff_ffff]);
    let byte = || prop::sample::select(vec![0u8, 1, 2, 127, 128, 255]);
    let any = prop_oneof![2 => byte(), 3 => any::<u8>()];
    (
        high,
        prop::array::uniform3(any),
        prop::array::uniform8(byte()),
        prop::sample::select(vec![0u128, 0xffff]),
    )
        .prop_map(|(high, middle, low, rest)| {
            let bytes = middle.iter().chain(&low).fold(high, |all, byte| all << 8 | u128::from(*byte));
            bytes << 8 | rest & 0xff
        })
}

fn length() -> impl Strategy<Value = u8> {
    let usual = prop::sample::select(vec![20u8, 21, 29, 32, 33, 40, 44, 48, 56, 64, 112, 127, 128]);
    prop_oneof![1 => 0u8..14, 2 => 14u8..=21, 2 => 22u8..=32, 6 => 33u8..=56, 4 => 57u8..=128, 12 => usual, 1 => 129u8..=255]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (address(), length(), 1u32..9).prop_map(|(p, l, leaf)| Op::Insert(p, l, leaf)),
        1 => (address(), length()).prop_map(|(p, l)| Op::Remove(p, l)),
    ]
}

fn corners(p: u128, l: u8) -> [u128; 5] {
    let (first, len) = p.canonical(l);
    let last = first.last(len);
    [first, last, first.wrapping_sub(1), last.wrapping_add(1), p]
}

fn assert_same(reader: &TrieReader, oracle: &NaiveLpm<u128>, addrs: &[u128]) -> Result<(), TestCaseError> {
    let mut leaves = vec![u32::MAX; addrs.len()];
    reader.lookup_many(addrs, &mut leaves);
    for (&addr, &leaf) in addrs.iter().zip(&leaves) {
        prop_assert_eq!(reader.lookup(addr), oracle.lookup(addr), "{:032x}", addr);
        prop_assert_eq!(leaf, oracle.lookup(addr), "{:032x} by lookup_many", addr);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_oracle(ops in prop::collection::vec(op(), 1..250)) {
        let (mut writer, reader) = trie(&Domain::new()).unwrap();
        let mut oracle = NaiveLpm::new();
        let mut addrs = BTreeSet::new();
        for (n, op) in ops.iter().enumerate() {
            match *op {
                Op::Insert(p, l, leaf) => {
                    addrs.extend(corners(p, l));
                    prop_assert_eq!(writer.insert(p, l, leaf), oracle.insert(p, l, leaf));
                    prop_assert_eq!(writer.exact(p, l), Some(leaf));
                }
                Op::Remove(p, l) => {
                    // More often than not an existing prefix.
                    let (p, l) = match oracle.iter().nth(n % 7 * oracle.len() / 5) {
                        Some((p, l, _)) => (p, l),
                        None => (p, l),
                    };
                    prop_assert_eq!(writer.remove(p, l), oracle.remove(p, l));
                    prop_assert_eq!(writer.exact(p, l), None);
                }
            }
            if n % 16 == 0 || n + 1 == ops.len() {
                let addrs: Vec<_> = addrs.iter().copied().collect();
                assert_same(&reader, &oracle, &addrs)?;
            }
        }
        prop_assert_eq!(writer.len(), oracle.len());
        prop_assert_eq!(writer.iter().collect::<BTreeSet<_>>(), oracle.iter().collect());
        // An emptied table has no routes, and all nodes are free.
        for (p, l, _) in oracle.iter() {
            writer.remove(p, l);
        }
        let addrs: Vec<_> = addrs.iter().copied().collect();
        assert_same(&reader, &NaiveLpm::new(), &addrs)?;
        prop_assert_eq!(writer.nodes_in_use(), 0);
    }
}

/// Two adjacent prefixes have the same leaf. They are on both sides of the border between two points of a
/// list, whose depth must become smaller.
#[test]
fn adjacent_prefixes_with_one_leaf_are_found_at_a_border() {
    let (mut writer, reader) = trie(&Domain::new()).unwrap();
    let mut oracle = NaiveLpm::new();
    let mut addrs = Vec::new();
    for (high, len, leaf) in [
        (0x2a00_1450_0100_u128, 44, 5),
        (0x2a00_1450_00f0, 44, 5),
        (0x2a00_1450_0000, 33, 3),
        (0x2a00_1450_8000, 33, 8),
    ] {
        let prefix = high << 80;
        addrs.extend(corners(prefix, len));
        writer.insert(prefix, len, leaf).unwrap();
        oracle.insert(prefix, len, leaf).unwrap();
        assert_same(&reader, &oracle, &addrs).unwrap();
    }
}

const NET: u128 = 0x2001_0db8 << 96;

/// Many adjacent routes: lists become tables, and become lists again when routes are removed.
#[test]
fn agrees_with_the_oracle_with_dense_prefixes() {
    let (mut writer, reader) = trie(&Domain::new()).unwrap();
    let mut oracle = NaiveLpm::new();
    let random = |n: u64| u128::from(mix64(n)) << 64 | u128::from(mix64(!n));
    // A prefix for each number: most of them dense, some around and below others.
    let prefix = |n: u64| {
        let r = random(n);
        let len = [48, 48, 48, 44, 40, 36, 33, 56, 64, 128, 29, 26][n as usize % 12];
        let dense = NET | (r & 0xfff << 80) | if n.is_multiple_of(5) { r & 7 << 40 | r & 3 } else { 0 };
        (if n.is_multiple_of(7) { NET ^ r >> 24 } else { dense }, len)
    };
    let check = |oracle: &NaiveLpm<u128>, salt: u64| {
        let near = |n: u64| prefix(n % 4000).0 ^ 1 << (mix64(n) % 104);
        let addrs: Vec<_> = (0..512).map(|n| near(mix64(n + salt))).collect();
        let mut leaves = vec![0; addrs.len()];
        reader.lookup_many(&addrs, &mut leaves);
        for (addr, leaf) in addrs.iter().zip(leaves) {
            assert_eq!(leaf, oracle.lookup(*addr), "{addr:032x}");
        }
    };
    for n in 0..4000 {
        let (p, l) = prefix(n);
        assert_eq!(writer.insert(p, l, 1 + n as u32), oracle.insert(p, l, 1 + n as u32));
        if n % 400 == 399 {
            check(&oracle, n);
        }
    }
    let full = writer.nodes_in_use();
    for n in 0..4000 {
        let (p, l) = prefix(mix64(n) % 4000);
        assert_eq!(writer.remove(p, l), oracle.remove(p, l));
        if n % 400 == 399 {
            check(&oracle, n);
        }
    }
    for (p, l, _) in oracle.iter() {
        writer.remove(p, l).unwrap();
    }
    assert_eq!((writer.len(), writer.nodes_in_use()), (0, 0), "{full} units before");
}

#[test]
fn refused_prefixes_change_nothing() {
    let d = Domain::new();
    let mut w = TrieWriter::new(&d, 4096).unwrap();
    let r = w.reader();
    for leaf in [0, MAX_LEAF + 1, u32::MAX] {
        assert_eq!(w.insert(NET, 32, leaf), Err(LpmFull::Leaf(leaf)));
    }
    w.insert(NET, 32, MAX_LEAF).unwrap();
    let route = |n: u128| NET | n << 80 | n << 8;
    let full = (1..10_000).find(|n| w.insert(route(*n), 120, *n as u32) == Err(LpmFull::Blocks)).unwrap();
    assert_eq!((r.lookup(route(full)), w.exact(route(full), 120), w.len()), (MAX_LEAF, None, full as usize));
    assert_eq!((1..full).find(|n| r.lookup(route(*n)) != *n as u32), None);
    // Routes can be removed even if none can be added; then there is room again.
    for n in 1..full {
        assert_eq!(w.remove(route(n), 120), Some(n as u32));
    }
    assert_eq!(w.insert(route(full), 120, 1), Ok(None));
    assert_eq!((r.lookup(route(full)), r.lookup(route(1))), (1, MAX_LEAF));
}

#[test]
fn routes_take_memory_only_where_they_write() {
    let (mut w, _) = trie(&Domain::new()).unwrap();
    w.insert(0, 0, 1).unwrap();
    w.insert(0xfe80 << 112, 10, 2).unwrap();
    w.insert(0xff00 << 112, 8, 2).unwrap();
    w.insert(1, 128, 2).unwrap();
    for n in 0..6 {
        w.insert(0x2001 << 112 | n << 80 | n << 64, 64, 3).unwrap();
    }
    assert!(w.memory_bytes() < 200 << 10, "{}", w.memory_bytes());
    // A prefix that covers all others changes none of their nodes.
    let nodes = w.nodes_in_use();
    for len in 0..=32 {
        w.insert(0x2001 << 112, len, 4).unwrap();
    }
    assert_eq!(w.nodes_in_use(), nodes);
    for n in 0..1 << 16 {
        w.insert(0x2001 << 112 | n << 84, 48, 3).unwrap();
    }
    let each = w.memory_bytes() >> 16;
    assert!((20..100).contains(&each), "{each} bytes a route");
}

/// Shorter and longer routes are added and removed in turns, but each address always has one. Meanwhile,
/// nodes are added and removed, and other routes turn lists into tables and tables into lists. A reader
/// always finds one of the leaves of the address: never none, and never that of another address.
#[test]
fn a_reader_always_finds_a_leaf_of_its_own_address() {
    let d = Domain::new();
    let (mut w, r) = trie(&d).unwrap();
    let pairs = [
        (0, 13),
        (12, 24),
        (16, 32),
        (20, 21),
        (13, 64),
        (32, 33),
        (28, 64),
        (32, 40),
        (36, 48),
        (40, 128),
        (33, 47),
    ];
    // A separate place for each pair, with addresses of the longer prefix.
    let place = |n: usize| (0x2001_0d00 + n as u128 * 0x10_0000) << 96 | 0x0123_4567_89ab_cdef << 32;
    let (stop, rounds) = (AtomicBool::new(false), AtomicBool::new(false));
    w.insert(place(0), 0, 100).unwrap();
    for (n, (short, _)) in pairs.iter().enumerate().skip(1) {
        w.insert(place(n), *short, 100 + n as u32).unwrap();
    }
    std::thread::scope(|scope| {
        let (stopping, stop, rounds) = (Stop(&stop), &stop, &rounds);
        let mut worker = d.register();
        let checks = scope.spawn(move || {
            let addrs: Vec<_> = (0..256).map(|i| place(i % pairs.len())).collect();
            let mut leaves = vec![0; 256];
            let mut section = worker.enter();
            while !stop.load(Relaxed) {
                r.lookup_many(&addrs, &mut leaves);
                for (i, leaf) in leaves.iter().enumerate() {
                    let n = (i % pairs.len()) as u32;
                    let one = r.lookup(addrs[i]);
                    for leaf in [*leaf, one] {
                        assert!([100 + n, 200 + n].contains(&leaf), "{:?}: {leaf}", pairs[n as usize]);
                    }
                }
                rounds.store(true, Relaxed);
                section.quiescent();
            }
        });
        let start = Instant::now();
        let mut round = 0;
        while start.elapsed().as_millis() < 1000 || !rounds.load(Relaxed) {
            assert!(start.elapsed().as_secs() < 60, "the reader does not run");
            for (n, (short, long)) in pairs.into_iter().enumerate() {
                let (short_leaf, long_leaf) = (100 + n as u32, 200 + n as u32);
                w.insert(place(n), long, long_leaf).unwrap();
                w.remove(place(n), short).unwrap();
                // Other routes are added and removed next to the longer route. None of them covers its addresses.
                for other in 0..if long > 24 { round % 80 } else { 0 } {
                    let beside = place(n) ^ (1 + other) << (128 - long) << (long / 8 % 3);
                    if !place(n).covers(long, beside) {
                        let _ = w.insert(beside, long, 7);
                    }
                }
                if round % 13 == n as u128 {
                    std::thread::yield_now();
                }
                w.insert(place(n), short, short_leaf).unwrap();
                w.remove(place(n), long).unwrap();
                for other in 0..if long > 24 { round % 80 } else { 0 } {
                    let beside = place(n) ^ (1 + other) << (128 - long) << (long / 8 % 3);
                    if !place(n).covers(long, beside) {
                        let _ = w.remove(beside, long);
                    }
                }
            }
            round += 1;
            if checks.is_finished() {
                break;
            }
        }
        drop(stopping);
        checks.join().unwrap();
    });
}

/// Returns the number of nodes on an address's path.
fn nodes_to(r: &TrieReader, addr: u128) -> usize {
    let way = std::iter::successors(Some(r.entry(addr)), |entry| {
        (entry & CHILD != 0).then(|| r.nodes.in_child(*entry, &addr).entry)
    });
    way.take_while(|entry| entry & CHILD != 0).count()
}

/// A shorter route is added, which changes the default of the first node on a path. Then a longer route is
/// removed from the third node. A reader that remembers the old default must not miss the longer route. The
/// second node, a list or a table, may not be changed in place for this.
#[test]
fn a_reader_uses_no_outdated_default() {
    let d = Domain::new();
    let (mut w, r) = trie(&d).unwrap();
    let (short, long) = ((NET, 32), (NET | 1 << 72, 72));
    w.insert(NET, 28, 3).unwrap();
    for side in [0, 1 << 89, 1 << 90] {
        for n in 0..3 {
            w.insert(NET ^ side | n << 72 | 5 << 56, 72, 7).unwrap();
            w.insert(NET ^ side | n << 72 | 9 << 56, 72, 7).unwrap();
        }
    }
    for (others, tables) in [(3, 0), (100, 1)] {
        // With 100 more routes, the list in the middle becomes a table.
        for n in 0..others {
            w.insert(NET | n << 80 | n << 73 | 1 << 72 | 1 << 62, 72, 7).unwrap();
        }
        w.insert(long.0, long.1, 2).unwrap();
        assert!(nodes_to(&r, long.0) >= 3);
        let middle = r.nodes.in_child(r.entry(long.0), &long.0).entry;
        assert_eq!((middle & CHILD, u32::from(middle & TABLE != 0)), (CHILD, tables));
        let (stop, looked) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (stopping, stop, looked, r) = (Stop(&stop), &stop, &looked, &r);
            let mut worker = d.register();
            let checks = scope.spawn(move || {
                let mut leaves = [0; 256];
                let mut section = worker.enter();
                while !stop.load(Relaxed) {
                    r.lookup_many(&[long.0; 256], &mut leaves);
                    assert_eq!(leaves.iter().find(|leaf| ![1, 2].contains(*leaf)), None);
                    looked.store(true, Relaxed);
                    section.quiescent();
                }
            });
            let start = Instant::now();
            while (start.elapsed().as_millis() < 700 || !looked.load(Relaxed)) && !checks.is_finished() {
                assert!(start.elapsed().as_secs() < 60, "the reader does not run");
                w.insert(short.0, short.1, 1).unwrap();
                w.remove(long.0, long.1).unwrap();
                w.insert(long.0, long.1, 2).unwrap();
                w.remove(short.0, short.1).unwrap();
            }
            drop(stopping);
            checks.join().unwrap();
        });
    }
}

/// Two /41s cover all addresses of a /40, and so hide the /39 that covers them. While the /39 is hidden, a node is built for the /40. When
/// one of the /41s is removed, the /39 applies again to the addresses of this /41.
#[test]
fn a_hidden_prefix_is_found_after_the_longer_one_is_removed() {
    let (mut w, r) = trie(&Domain::new()).unwrap();
    w.insert(NET, 39, 1).unwrap();
    w.insert(NET, 41, 2).unwrap();
    w.insert(NET | 1 << 87, 41, 3).unwrap();
    // Too many routes for a list of depth 48.
    for n in 0..60 {
        w.insert(NET | n << 82 | 1 << 72, 56, 4).unwrap();
    }
    for n in 0..4 {
        w.insert(NET ^ (1 + n) << 92 | 1 << 72, 56, 4).unwrap();
    }
    assert_eq!([NET, NET | 1 << 87].map(|addr| r.lookup(addr)), [2, 3]);
    w.remove(NET, 41).unwrap();
    assert_eq!([NET, NET | 1 << 87].map(|addr| r.lookup(addr)), [1, 3]);
    w.remove(NET | 1 << 87, 41).unwrap();
    assert_eq!([NET, NET | 1 << 87].map(|addr| r.lookup(addr)), [1, 1]);
}

/// While a reader passes a quiescent point only every 600 ms, changes take less than 5 MiB of additional memory.
#[test]
fn a_slow_reader_does_not_let_the_table_grow() {
    let d = Domain::new();
    let (mut w, _) = trie(&d).unwrap();
    let mut change = |n: u128| {
        let prefix = NET | (n % 20_000) << 80;
        let _ = match (n / 20_000).is_multiple_of(2) {
            true => w.insert(prefix, 48, 1).unwrap(),
            false => w.remove(prefix, 48),
        };
        w.memory_bytes()
    };
    let before = (0..40_000).map(&mut change).last().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stopping, stop, mut worker) = (Stop(&stop), &stop, d.register());
        scope.spawn(move || {
            while !stop.load(Relaxed) {
                let section = worker.enter();
                std::thread::sleep(Duration::from_millis(600));
                drop(section);
            }
        });
        let start = Instant::now();
        let changes = (0..).map_while(|n| (start.elapsed().as_millis() < 1300).then(|| change(n)));
        let most = changes.max().unwrap();
        drop(stopping);
        assert!(most < before + (5 << 20), "{before} bytes grew to {most}");
    });
}
