//! Tests the table against a simple model, which has an entry for every byte.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::Datagrams;
use crate::fragment::{Fragment, Reason};
use crate::waiting::{Fill, Limits, Span};

const SECOND: u64 = 1_000_000_000;
const LIMITS: Limits = Limits { datagrams: 8, fragments: 6, buffers: 100, timeout: 30 * SECOND };

fn fragment(start: u32, len: u32, more: bool) -> Fragment {
    Fragment { span: Span { start, end: start + len, buffers: 1 }, more, header: 20, counted: 20, ecn: 0 }
}

/// Datagrams that became complete and fragments that were dropped; fragments are given by their numbers.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    whole: Vec<Vec<usize>>,
    refused: Vec<(Reason, usize)>,
}

impl Outcome {
    fn sorted(mut self) -> Outcome {
        self.refused.sort_by_key(|r| r.1);
        self
    }
}

fn add(t: &mut Datagrams<u16, usize>, now: u64, id: u16, f: Fragment, n: usize, out: &mut Outcome) {
    if let Some(whole) = t.add(now, id, f, n, |reason, n| out.refused.push((reason, n))) {
        let mut parts = Vec::new();
        t.take(whole, |n| parts.push(n));
        out.whole.push(parts);
    }
}

/// One datagram of the simple model: for each byte the number of its fragment, and the datagram's end.
#[derive(Default)]
struct Plain {
    bytes: BTreeMap<u32, usize>,
    parts: Vec<(u32, u32, usize)>,
    end: Option<u32>,
    spoilt: Option<Reason>,
}

fn plain_add(t: &mut BTreeMap<u16, Plain>, id: u16, f: Fragment, n: usize, out: &mut Outcome) {
    let (start, end) = (f.span.start, f.span.end);
    if end == start || (f.more && (end - start) % 8 != 0) {
        return out.refused.push((Reason::Malformed, n));
    }
    if end + 20 > 65_535 {
        return out.refused.push((Reason::TooLong, n));
    }
    let d = t.entry(id).or_default();
    if let Some(reason) = d.spoilt {
        return out.refused.push((reason, n));
    }
    if d.parts.iter().any(|p| (p.0, p.1) == (start, end)) {
        return if d.end == Some(end) && f.more {
            spoil(d, Reason::Duplicate, n, out)
        } else {
            out.refused.push((Reason::Duplicate, n))
        };
    }
    let taken = (start..end).any(|b| d.bytes.contains_key(&b));
    let beyond = d.end.is_some_and(|e| end > e || !f.more || end == e);
    let cuts = !f.more && d.bytes.keys().any(|&b| b >= end);
    if taken || beyond || cuts {
        return spoil(d, Reason::Overlap, n, out);
    }
    if d.parts.len() >= LIMITS.fragments as usize {
        return spoil(d, Reason::TooMany, n, out);
    }
    d.bytes.extend((start..end).map(|b| (b, n)));
    d.parts.push((start, end, n));
    d.end = d.end.or((!f.more).then_some(end));
    if let Some(e) = d.end
        && (0..e).all(|b| d.bytes.contains_key(&b))
    {
        let mut parts = std::mem::take(&mut d.parts);
        parts.sort();
        out.whole.push(parts.into_iter().map(|p| p.2).collect());
        t.remove(&id);
    }
}

fn spoil(d: &mut Plain, reason: Reason, n: usize, out: &mut Outcome) {
    // A copy of the last fragment is dropped like any other copy, even if it has the flag "more fragments".
    if reason == Reason::Duplicate {
        return out.refused.push((reason, n));
    }
    d.spoilt = Some(reason);
    out.refused.push((reason, n));
    out.refused.extend(d.parts.drain(..).map(|p| (reason, p.2)));
}

/// Generates fragments of one small datagram, so that they often touch or overlap.
fn any_fragment() -> impl Strategy<Value = Fragment> {
    let len = prop_oneof![8 => (1u32..4).prop_map(|units| units * 8), 2 => 1u32..24, 1 => Just(0)];
    let start = prop_oneof![20 => 0u32..8, 1 => Just(8191), 1 => Just(8180)];
    (start, len, prop::bool::weighted(0.8)).prop_map(|(start, len, more)| fragment(start * 8, len, more))
}

/// Returns the fragments of a datagram of `len` bytes, each with `piece` times 8 bytes.
fn cut(len: u32, piece: u32) -> Vec<Fragment> {
    let starts = (0..len).step_by(piece as usize * 8);
    starts.map(|at| fragment(at, (len - at).min(piece * 8), at + piece * 8 < len)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// For any fragments in any order, the table and the simple model do the same with each fragment.
    #[test]
    fn the_table_agrees_with_a_simple_one(all in prop::collection::vec((0u16..3, any_fragment()), 0..60)) {
        let (mut t, mut plain) = (Datagrams::new(LIMITS), BTreeMap::new());
        for (n, (id, f)) in all.into_iter().enumerate() {
            let (mut got, mut expected) = (Outcome::default(), Outcome::default());
            add(&mut t, 5, id, f, n, &mut got);
            plain_add(&mut plain, id, f, n, &mut expected);
            prop_assert_eq!(got.sorted(), expected.sorted(), "fragment {}: {:?} of {}", n, f, id);
            let waiting: usize = plain.values().map(|d| d.parts.len()).sum();
            let fill = Fill { datagrams: plain.len() as u32, fragments: waiting as u32, buffers: waiting as u32 };
            prop_assert_eq!(t.fill(), fill);
        }
    }

    /// In any order of fragments and copies, a datagram is complete as soon as each of its fragments has arrived. If one fragment is lost,
    /// the datagram never becomes complete.
    #[test]
    fn a_datagram_becomes_whole_in_any_order(
        len in 17u32..500, piece in 2u32..20, seed: u64, copies in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
        lost in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let limits = Limits { fragments: 64, ..LIMITS };
        let mut t = Datagrams::new(limits);
        let pieces = cut(len, piece);
        prop_assume!(pieces.len() > 1);
        let lost = lost.map(|i| i.index(pieces.len()));
        let mut order: Vec<usize> = (0..pieces.len()).chain(copies.iter().map(|i| i.index(pieces.len()))).collect();
        order.retain(|i| Some(*i) != lost);
        order.sort_by_key(|i| infra::hash::mix64(seed ^ *i as u64));
        // Copies of the fragments of a complete datagram begin a new datagram.
        let mut out = Outcome::default();
        for &i in &order {
            add(&mut t, 5, 1, pieces[i], i, &mut out);
            if !out.whole.is_empty() {
                break;
            }
        }
        let expected: Vec<Vec<usize>> = if lost.is_some() { vec![] } else { vec![(0..pieces.len()).collect()] };
        prop_assert_eq!(out.whole, expected);
        prop_assert!(out.refused.iter().all(|r| r.0 == Reason::Duplicate));
    }

    /// For any number of fragments and datagrams, no limit is exceeded, and the table returns each fragment
    /// exactly once.
    #[test]
    fn no_limit_is_exceeded(
        all in prop::collection::vec((0u16..40, any_fragment(), 1u32..6, 0u64..3), 0..300),
        limits in (0u32..6, 1u32..5, 0u32..12),
    ) {
        let limits = Limits { datagrams: limits.0, fragments: limits.1, buffers: limits.2, timeout: 20 };
        let mut t = Datagrams::new(limits);
        let (mut now, mut out, mut left) = (0, Outcome::default(), Vec::new());
        let n = all.len();
        for (i, (id, mut f, buffers, time)) in all.into_iter().enumerate() {
            f.span.buffers = buffers;
            now += time;
            t.expire(now, 100, |_, n| left.push(n));
            prop_assert!(t.due().is_none_or(|due| due > now && due <= now + 20));
            add(&mut t, now, id, f, i, &mut out);
            let fill = t.fill();
            prop_assert!(fill.datagrams <= limits.datagrams && fill.buffers <= limits.buffers);
            prop_assert!(t.views().all(|v| v.fill.fragments <= limits.fragments));
            prop_assert_eq!(t.views().count(), fill.datagrams as usize);
            prop_assert!(t.views().map(|v| v.since).is_sorted());
        }
        t.clear(|n| left.push(n));
        prop_assert_eq!(t.fill(), Fill::default());
        left.extend(out.whole.concat());
        left.extend(out.refused.iter().map(|r| r.1));
        left.sort_unstable();
        prop_assert_eq!(left, (0..n).collect::<Vec<_>>());
    }
}

#[test]
fn a_flood_of_first_fragments_does_not_block_others() {
    let mut t = Datagrams::new(LIMITS);
    let mut out = Outcome::default();
    for id in 100..1000 {
        add(&mut t, u64::from(id), id, fragment(0, 8, true), usize::from(id), &mut out);
    }
    assert_eq!(t.fill(), Fill { datagrams: 8, fragments: 8, buffers: 8 });
    let displaced: Vec<usize> = out.refused.iter().map(|r| r.1).collect();
    assert_eq!(displaced, (100..992).collect::<Vec<_>>(), "the oldest go first");
    assert!(out.refused.iter().all(|r| r.0 == Reason::Displaced));
    for (i, f) in cut(40, 1).into_iter().enumerate() {
        add(&mut t, 2000, 1, f, i, &mut out);
    }
    assert_eq!(out.whole, [[0, 1, 2, 3, 4]]);
    assert_eq!(t.completed(), 1);
}

#[test]
fn too_many_buffers_evict_the_oldest_datagrams() {
    let mut t = Datagrams::new(LIMITS);
    let mut out = Outcome::default();
    let large = |start| Fragment {
        span: Span { buffers: 40, ..fragment(start, 8, true).span },
        ..fragment(start, 8, true)
    };
    add(&mut t, 1, 1, large(0), 1, &mut out);
    add(&mut t, 2, 2, large(0), 2, &mut out);
    add(&mut t, 3, 1, large(8), 3, &mut out);
    assert_eq!(out.refused, [(Reason::Crowded, 2)], "a datagram does not displace itself");
    add(&mut t, 4, 1, large(16), 4, &mut out);
    let out = out.sorted();
    assert_eq!(out.refused, [1, 2, 3, 4].map(|n| (Reason::Crowded, n)), "alone it is too large");
    assert_eq!(t.fill().buffers, 0);
}

#[test]
fn the_oldest_datagrams_expire_first() {
    let mut t = Datagrams::new(LIMITS);
    let mut out = Outcome::default();
    add(&mut t, SECOND, 1, fragment(0, 8, true), 0, &mut out);
    add(&mut t, 2 * SECOND, 2, fragment(8, 8, true), 1, &mut out);
    // Later fragments do not extend the time of their datagram.
    add(&mut t, 29 * SECOND, 1, fragment(8, 8, true), 2, &mut out);
    assert_eq!(t.due(), Some(31 * SECOND));
    let mut gone = Vec::new();
    t.expire(31 * SECOND - 1, 100, |first, n| gone.push((first, n)));
    assert_eq!(gone, []);
    t.expire(31 * SECOND, 100, |first, n| gone.push((first, n)));
    assert_eq!(gone, [(true, 0), (false, 2)]);
    t.expire(60 * SECOND, 100, |first, n| gone.push((first, n)));
    assert_eq!(gone[2..], [(false, 1)]);
    assert_eq!((t.due(), out), (None, Outcome::default()));
}

#[test]
fn rfc5722_a_datagram_with_an_overlap_is_never_completed() {
    let mut t = Datagrams::new(LIMITS);
    let mut out = Outcome::default();
    for (n, f) in
        [fragment(0, 16, true), fragment(8, 16, true), fragment(16, 8, false), fragment(0, 16, true)]
            .into_iter()
            .enumerate()
    {
        add(&mut t, 5, 1, f, n, &mut out);
    }
    assert_eq!(out.sorted().refused, [0, 1, 2, 3].map(|n| (Reason::Overlap, n)));
    // After the datagram has expired, its identification may be used again.
    t.expire(5 + 30 * SECOND, 1, |_, _| ());
    let mut out = Outcome::default();
    for (n, f) in cut(16, 1).into_iter().enumerate() {
        add(&mut t, 40 * SECOND, 1, f, n, &mut out);
    }
    assert_eq!(out.whole, [[0, 1]]);
}
