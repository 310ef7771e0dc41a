use super::*;
use crate::{
    mem::Pages,
    quiesce::Domain,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use proptest::prelude::*;
use std::{collections::BTreeSet, time::Instant};

/// Stops the readers when a test ends, even if it panics. If they continued, the threads that wait for the readers would hang.
pub(super) struct Stop<'s>(pub &'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn ip(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32, u8, u32),
    Remove(u32, u8),
}

/// Generates addresses from a small set, so that prefixes nest, repeat and share /24s.
fn address() -> impl Strategy<Value = u32> {
    let byte = || prop::sample::select(vec![0u8, 1, 127, 128, 254, 255]);
    let high = prop::sample::select(vec![(0u8, 0u8), (10, 0), (10, 1), (255, 255)]);
    (high, byte(), byte()).prop_map(|((a, b), c, d)| ip(a, b, c, d))
}

fn length() -> impl Strategy<Value = u8> {
    prop_oneof![1 => Just(0u8), 3 => 1u8..12, 1 => 12u8..16, 6 => 16u8..=24, 10 => 25u8..=32, 1 => 33u8..=255]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (address(), length(), 1u32..9).prop_map(|(p, l, leaf)| Op::Insert(p, l, leaf)),
        (address(), length()).prop_map(|(p, l)| Op::Remove(p, l)),
    ]
}

/// Returns the first and the last address of every prefix in `ops`, and the addresses next to them: there the
/// results of lookups change.
fn corners(ops: &[Op]) -> Vec<u32> {
    let corners = |op: &Op| {
        let (Op::Insert(p, l, _) | Op::Remove(p, l)) = *op;
        let host = u32::MAX.checked_shr(l.min(32).into()).unwrap_or(0);
        let (first, last) = (p & !host, p | host);
        [first, last, first.wrapping_sub(1), last.wrapping_add(1), p]
    };
    ops.iter().flat_map(corners).collect::<BTreeSet<_>>().into_iter().collect()
}

fn assert_same(writer: &Dir24Writer, reader: &Dir24Reader, oracle: &NaiveLpm<u32>, addrs: &[u32]) {
    let mut leaves = vec![u32::MAX; addrs.len()];
    reader.lookup_many(addrs, &mut leaves);
    for (&addr, &leaf) in addrs.iter().zip(&leaves) {
        assert_eq!(reader.lookup(addr), oracle.lookup(addr), "{addr:08x}");
        assert_eq!(leaf, oracle.lookup(addr), "{addr:08x} by lookup_many");
    }
    assert_eq!(writer.len(), oracle.len());
    let routes: BTreeSet<_> = writer.iter().collect();
    assert_eq!(routes, oracle.iter().collect());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_oracle(ops in prop::collection::vec(op(), 1..60)) {
        let (mut writer, reader) = dir24(&Domain::new(), 64, Pages::Small).unwrap();
        let mut oracle = NaiveLpm::new();
        let addrs = corners(&ops);
        for op in ops {
            match op {
                Op::Insert(p, l, leaf) => {
                    prop_assert_eq!(writer.insert(p, l, leaf), oracle.insert(p, l, leaf));
                    prop_assert_eq!(writer.exact(p, l), Some(leaf));
                }
                Op::Remove(p, l) => {
                    prop_assert_eq!(writer.remove(p, l), oracle.remove(p, l));
                    prop_assert_eq!(writer.exact(p, l), None);
                }
            }
            assert_same(&writer, &reader, &oracle, &addrs);
        }
        // An emptied table has no routes, and all groups are free.
        for (p, l, _) in oracle.iter() {
            writer.remove(p, l);
        }
        assert_same(&writer, &reader, &NaiveLpm::new(), &addrs);
        for group in 0..64 {
            prop_assert_eq!(writer.insert(group << 8, 32, 1), Ok(None));
        }
    }
}

#[test]
fn refused_prefixes_change_nothing() {
    let d = Domain::new();
    let mut worker = d.register();
    let (mut w, r) = dir24(&d, 1, Pages::Small).unwrap();
    for leaf in [0, MAX_LEAF + 1, u32::MAX] {
        assert_eq!(w.insert(ip(10, 0, 0, 0), 8, leaf), Err(LpmFull::Leaf(leaf)));
    }
    w.insert(ip(10, 0, 0, 0), 8, MAX_LEAF).unwrap();
    w.insert(ip(10, 0, 0, 1), 32, 1).unwrap();
    assert_eq!(w.insert(ip(10, 0, 1, 1), 32, 2), Err(LpmFull::Groups(1)));
    assert_eq!((r.lookup(ip(10, 0, 1, 1)), w.exact(ip(10, 0, 1, 1), 32), w.len()), (MAX_LEAF, None, 2));
    // The only group becomes free when the worker has passed a quiescent point.
    let mut section = worker.enter();
    w.remove(ip(10, 0, 0, 1), 32).unwrap();
    assert_eq!(w.insert(ip(10, 0, 1, 1), 32, 2), Err(LpmFull::Groups(1)));
    section.quiescent();
    assert_eq!(w.insert(ip(10, 0, 1, 1), 32, 2), Ok(None));
    assert_eq!((r.lookup(ip(10, 0, 0, 1)), r.lookup(ip(10, 0, 1, 1))), (MAX_LEAF, 2));
}

#[test]
fn the_widest_prefixes() {
    let (mut w, r) = dir24(&Domain::new(), 4, Pages::Small).unwrap();
    w.insert(0, 1, 1).unwrap();
    w.insert(u32::MAX, 1, 2).unwrap();
    w.insert(0, 0, 3).unwrap();
    w.insert(ip(128, 0, 0, 0), 2, 4).unwrap();
    assert_eq!([0, u32::MAX >> 1, 1 << 31, 3 << 30, u32::MAX].map(|a| r.lookup(a)), [1, 1, 4, 2, 2]);
    w.remove(ip(128, 0, 0, 0), 2).unwrap();
    assert_eq!([1 << 31, 3 << 30].map(|a| r.lookup(a)), [2, 2]);
    w.insert(ip(128, 0, 0, 0), 2, 4).unwrap();
    w.remove(1 << 31, 1).unwrap();
    assert_eq!([u32::MAX >> 1, 1 << 31, 3 << 30, u32::MAX].map(|a| r.lookup(a)), [1, 4, 3, 3]);
    w.remove(0, 0).unwrap();
    assert_eq!([u32::MAX >> 1, 1 << 31, 3 << 30, u32::MAX].map(|a| r.lookup(a)), [1, 4, 0, 0]);
}

/// Routes of 8 to 32 bits are added, changed and removed; groups are created, dropped and reused. Meanwhile, a reader always finds the
/// leaf from before or from after a change: never none, and never that of another address. The test runs for at least a second, until the
/// reader has found a leaf of a /24 and one of a longer prefix. This may take up to a minute, because prefixes longer than /24 are not
/// added while all groups wait for a reader that has no processor.
#[test]
fn a_reader_always_finds_a_leaf_of_its_own_address() {
    let d = Domain::new();
    let (mut w, r) = dir24(&d, 3, Pages::Small).unwrap();
    w.insert(ip(10, 0, 0, 0), 8, 1).unwrap();
    // Separate leaves for each third octet: 100 + n for its /24, 200 + n for its longer prefixes.
    const NETS: u32 = 8;
    let (stop, seen_all) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stopping = Stop(&stop);
        let mut worker = d.register();
        let (stop, seen_all, reader) = (&stop, &seen_all, &r);
        let checks = scope.spawn(move || {
            let mut seen = BTreeSet::new();
            let mut section = worker.enter();
            for n in (0..NETS).cycle() {
                let addrs = [1, 100, 130, 255].map(|host| ip(10, 0, n as u8, host));
                let mut leaves = [0; 4];
                reader.lookup_many(&addrs, &mut leaves);
                for (addr, leaf) in
                    addrs.iter().zip(leaves).chain(addrs.iter().map(|a| (a, reader.lookup(*a))))
                {
                    assert!([1, 2, 3, 4, 100 + n, 200 + n].contains(&leaf), "{addr:08x} -> {leaf}");
                    seen.insert(leaf);
                }
                section.quiescent();
                if seen.range(200..).next().is_some() && seen.range(100..200).next().is_some() {
                    seen_all.store(true, Relaxed);
                }
                if stop.load(Relaxed) {
                    break;
                }
            }
        });
        let start = Instant::now();
        let mut round = 0u32;
        while start.elapsed().as_millis() < 1000 || !seen_all.load(Relaxed) {
            assert!(
                start.elapsed().as_secs() < 60,
                "after {round} rounds the reader has not seen all leaves"
            );
            let n = round % NETS;
            let net = ip(10, 0, n as u8, 0);
            // With a single processor, the reader would hardly ever run at the interesting moment.
            let pause = |step| {
                if round % 101 == step {
                    std::thread::yield_now();
                }
            };
            w.insert(net, 24, 100 + n).unwrap();
            pause(1);
            w.insert(ip(10, 0, 0, 0), 16, 4).unwrap();
            // All groups may be waiting for the reader: a refusal is right then.
            for (step, (host, len)) in [(128, 25), (130, 32), (255, 32), (0, 26)].into_iter().enumerate() {
                let _ = w.insert(net + host, len, 200 + n);
                pause(2 + step as u32);
            }
            w.insert(ip(10, 0, 0, 0), 8, 1 + round % 3).unwrap();
            w.remove(net, 24).unwrap();
            pause(6);
            w.remove(ip(10, 0, 0, 0), 16).unwrap();
            for (host, len) in [(130, 32), (0, 26), (128, 25), (255, 32)] {
                w.remove(net + host, len);
            }
            pause(7);
            round += 1;
            if checks.is_finished() {
                break;
            }
        }
        drop(stopping);
        checks.join().unwrap();
        assert!(seen_all.load(Relaxed), "after {round} rounds");
    });
}

/// A /24 is added before the /8 that covers it is removed, and the /8 is added before the /24 is removed. The
/// reader always finds one of the two, although they are stored in different places.
#[test]
fn a_reader_finds_the_wide_or_the_narrow_route() {
    let d = Domain::new();
    let (mut w, r) = dir24(&d, 1, Pages::Small).unwrap();
    w.insert(ip(10, 0, 0, 0), 8, 1).unwrap();
    let (stop, seen_both) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (stopping, stop, seen_both) = (Stop(&stop), &stop, &seen_both);
        let checks = scope.spawn(move || {
            let (mut leaves, mut seen) = ([0; 256], BTreeSet::new());
            while !stop.load(Relaxed) {
                r.lookup_many(&[ip(10, 0, 0, 1); 256], &mut leaves);
                seen.extend(leaves);
                assert!(seen.is_subset(&[1, 2].into()), "{seen:?}");
                seen_both.store(seen.len() == 2, Relaxed);
            }
        });
        let start = Instant::now();
        let mut round = 0u32;
        while (start.elapsed().as_millis() < 500 || !seen_both.load(Relaxed)) && !checks.is_finished() {
            assert!(start.elapsed().as_secs() < 60, "the reader has not seen both in {round} rounds");
            // With a single processor, the reader would only see one of them by chance.
            let pause = |step| {
                if round % 101 == step {
                    std::thread::yield_now();
                }
            };
            w.insert(ip(10, 0, 0, 0), 24, 2).unwrap();
            w.remove(ip(10, 0, 0, 0), 8).unwrap();
            pause(1);
            w.insert(ip(10, 0, 0, 0), 8, 1).unwrap();
            w.remove(ip(10, 0, 0, 0), 24).unwrap();
            pause(2);
            round += 1;
        }
        drop(stopping);
        checks.join().unwrap();
    });
}

/// Routes of up to 8 bits write the leaves of first bytes, not entries of the table: they take little memory.
#[test]
fn a_wide_route_writes_no_entry() {
    let (mut w, r) = dir24(&Domain::new(), 4, Pages::Small).unwrap();
    for len in 0..=8 {
        w.insert(ip(192, 0, 0, 0), len, u32::from(len) + 1).unwrap();
    }
    assert_eq!(r.lookup(ip(192, 1, 2, 3)), 9);
    let routes = w.memory_bytes();
    assert!(routes < 64 << 10, "{routes}");
    w.insert(ip(192, 0, 0, 0), 9, 10).unwrap();
    assert!(w.memory_bytes() >= routes + (160 << 10), "this one does: 4 bytes and 1 for each of 32,768 /24s");
}

/// A lookup finds the current default route where no other route covers the address, even for an empty entry of a group.
#[test]
fn the_default_route_covers_all_other_addresses() {
    let (mut w, r) = dir24(&Domain::new(), 4, Pages::Small).unwrap();
    w.insert(ip(192, 0, 2, 1), 32, 5).unwrap();
    let addrs = [ip(192, 0, 2, 1), ip(192, 0, 2, 2), ip(203, 0, 113, 1)];
    assert_eq!(addrs.map(|a| r.lookup(a)), [5, 0, 0]);
    assert_eq!(w.insert(0, 0, 7), Ok(None));
    assert_eq!(addrs.map(|a| r.lookup(a)), [5, 7, 7]);
    assert_eq!(w.insert(ip(1, 2, 3, 4), 0, 8), Ok(Some(7)));
    assert_eq!(addrs.map(|a| r.lookup(a)), [5, 8, 8]);
    w.remove(ip(192, 0, 2, 1), 32).unwrap();
    assert_eq!(addrs.map(|a| r.lookup(a)), [8, 8, 8]);
    assert_eq!(w.remove(0, 0), Some(8));
    assert_eq!(addrs.map(|a| r.lookup(a)), [0, 0, 0]);
}

#[test]
fn routes_take_memory_only_where_they_write() {
    for (pages, least, most) in [(Pages::Huge, 6 << 20, 7 << 20), (Pages::Small, 0, 160 << 10)] {
        let (mut w, _) = dir24(&Domain::new(), 1 << 16, pages).unwrap();
        assert!(w.memory_bytes() < 64 << 10, "{}", w.memory_bytes());
        w.insert(0, 0, 1).unwrap();
        w.insert(ip(10, 0, 0, 0), 24, 1).unwrap();
        w.insert(ip(10, 200, 0, 0), 24, 1).unwrap();
        w.insert(ip(20, 0, 0, 7), 32, 1).unwrap();
        assert!((least..most).contains(&w.memory_bytes()), "{pages:?} {}", w.memory_bytes());
        for n in 0..1 << 16 {
            w.insert(n << 16, 24, 1).unwrap();
        }
        // The whole first table, the length of each /24, and the routes.
        assert!((80 << 20..90 << 20).contains(&w.memory_bytes()), "{pages:?} {}", w.memory_bytes());
    }
}

/// Small pages become huge while readers use them: where there are many prefixes, and where there are many
/// groups.
#[test]
fn lookups_are_correct_while_small_pages_become_huge() {
    let (mut w, r) = dir24(&Domain::new(), 1 << 12, Pages::Small).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stopping, stop) = (Stop(&stop), &stop);
        w.insert(ip(10, 0, 0, 0), 24, 1).unwrap();
        let reader = r.clone();
        let checks = scope.spawn(move || {
            let mut rounds = 0;
            while !stop.load(Relaxed) {
                assert_eq!(reader.lookup(ip(10, 0, 0, 1)), 1);
                rounds += 1;
            }
            rounds
        });
        for n in 1..1 << 11 {
            w.insert(ip(10, 0, 0, 0) + (n << 18), 24, n + 1).unwrap();
            w.insert(ip(10, 0, 1, 1) + (n << 18), 32, n + 2).unwrap();
        }
        drop(stopping);
        assert!(checks.join().unwrap() > 0);
    });
    for n in 1..1 << 11 {
        let start = ip(10, 0, 0, 0) + (n << 18);
        assert_eq!([0, 0x100, 0x101, 0x102].map(|at| r.lookup(start + at)), [n + 1, 0, n + 2, 0]);
    }
}
