//! Multipath: the packets of one route are shared between several paths. A flow hash selects one of
//! [`BUCKETS`] buckets, and each bucket belongs to one path.
//!
//! A [`Layout`] assigns buckets in proportion to the paths' weights. When paths are added or removed, as few buckets as possible change:
//! the buckets of a removed path are spread over the remaining paths, and a new path gets its share from each of the old ones. All other
//! flows stay on their paths. Each path first gets one bucket. The remaining buckets are divided by Webster's method, which is also used to
//! divide the seats of a parliament among parties.

use super::object::Object;
use super::path::Path;

/// Number of hash buckets.
pub const BUCKETS: usize = 256;
/// Maximum number of paths of one route.
pub const MAX_WAYS: usize = 64;

/// The buckets of one route, as workers read them.
pub struct Buckets {
    /// For each bucket, the encoded forwarding object of its path.
    words: [u64; BUCKETS],
    /// The encoded forwarding object of each path, in the order of the layout.
    ways: Box<[u64]>,
}

impl Buckets {
    /// Returns the encoded forwarding object of the path for flows with this hash. The upper 8 bits of the hash select the bucket, because
    /// the lower bits select the worker.
    #[inline(always)]
    pub fn word(&self, hash: u32) -> u64 {
        self.words[(hash >> 24) as usize]
    }

    /// Returns the encoded forwarding objects in the buckets, one for each path.
    pub fn ways(&self) -> &[u64] {
        &self.ways
    }
}

/// A path, and its weight relative to other paths, which is 1 or more.
pub type Way = (Path, u64);

/// An assignment of buckets to paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    ways: Vec<Way>,
    /// For each bucket, the index of its path in `ways`.
    of: [u8; BUCKETS],
}

/// Marks a bucket without a path.
const NOBODY: u8 = u8::MAX;

impl Layout {
    /// Returns the layout for these paths, without regard to an earlier layout. There must be 1 to
    /// [`MAX_WAYS`] different paths; further ones are ignored.
    pub fn new(ways: &[Way]) -> Layout {
        Layout { ways: Vec::new(), of: [NOBODY; BUCKETS] }.changed(ways)
    }

    /// Returns a layout for the paths `ways`. It differs from this layout in as few buckets as possible.
    pub fn changed(&self, ways: &[Way]) -> Layout {
        let ways = &ways[..ways.len().min(MAX_WAYS)];
        let now_at =
            |(path, _): &Way| ways.iter().position(|way| way.0 == *path).map_or(NOBODY, |at| at as u8);
        let now: Vec<u8> = self.ways.iter().map(now_at).collect();
        let mut of = self.of.map(|way| now.get(usize::from(way)).copied().unwrap_or(NOBODY));
        let mut has = vec![0u64; ways.len()];
        for way in of {
            if let Some(has) = has.get_mut(usize::from(way)) {
                *has += 1;
            }
        }
        for bucket in &mut of {
            if *bucket == NOBODY
                && let Some(to) = (0..ways.len()).rev().max_by(|a, b| claims(ways, &has, *a, *b))
            {
                has[to] += 1;
                *bucket = to as u8;
            }
        }
        while let Some((from, to)) = unfair(ways, &has)
            && let Some(bucket) = of.iter().rposition(|way| usize::from(*way) == from)
        {
            has[from] -= 1;
            has[to] += 1;
            of[bucket] = to as u8;
        }
        Layout { ways: ways.to_vec(), of }
    }

    /// Returns the paths, each with its number of buckets.
    pub fn shares(&self) -> impl Iterator<Item = (Path, usize)> {
        let has = |at| self.of.iter().filter(|way| usize::from(**way) == at).count();
        self.ways.iter().enumerate().map(move |(at, way)| (way.0, has(at)))
    }

    /// Returns the buckets for workers. `means` contains the current forwarding object of each path, in the layout's order.
    pub(crate) fn buckets(&self, means: &[Object]) -> Buckets {
        let word = |way: u8| means.get(usize::from(way)).unwrap_or(&Object::Unresolved).to_word();
        Buckets { words: self.of.map(word), ways: means.iter().map(|object| object.to_word()).collect() }
    }
}

/// Returns twice the divisor of Webster's method (Sainte-Laguë) for a path that has `has` buckets. The path with the largest quotient, its
/// weight divided by its divisor, gets the next bucket. The divisor of a path without a bucket is 0, so such a path comes first.
fn divisor(has: u64) -> u128 {
    if has == 0 { 0 } else { 2 * u128::from(has) + 1 }
}

/// Compares how much the paths with the indices `a` and `b` deserve the next bucket, by weight divided by [`divisor`]. The greater one gets
/// the bucket.
fn claims(ways: &[Way], has: &[u64], a: usize, b: usize) -> std::cmp::Ordering {
    let one = |way: usize, other: usize| u128::from(ways[way].1) * divisor(has[other]);
    one(a, b).cmp(&one(b, a)).then_with(|| has[b].cmp(&has[a]))
}

/// Returns the indices of two paths, such that moving a bucket from the first to the second makes the layout
/// fairer. `None` if the layout is fair.
fn unfair(ways: &[Way], has: &[u64]) -> Option<(usize, usize)> {
    let to = (0..ways.len()).rev().max_by(|a, b| claims(ways, has, *a, *b))?;
    let less: Vec<u64> = has.iter().map(|has| has.saturating_sub(1)).collect();
    let from = (0..ways.len()).filter(|at| has[*at] > 1).min_by(|a, b| claims(ways, &less, *a, *b))?;
    let (new, old) = (divisor(has[to]), divisor(less[from]));
    (from != to && u128::from(ways[to].1) * old > u128::from(ways[from].1) * new).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn way(n: u32) -> Path {
        Path::Via { next_hop: Ipv4Addr::from_bits(n).into(), interface: None }
    }

    fn ways(of: &[(u32, u64)]) -> Vec<Way> {
        of.iter().map(|(n, weight)| (way(*n), *weight)).collect()
    }

    /// Generates different paths with weights.
    fn any() -> impl Strategy<Value = Vec<Way>> {
        let weights = prop::collection::btree_map(0..100u32, 1..256u64, 1..MAX_WAYS);
        weights.prop_map(|of| ways(&of.into_iter().collect::<Vec<_>>()))
    }

    fn is_fair(layout: &Layout) -> Result<(), TestCaseError> {
        let total: u64 = layout.ways.iter().map(|way| way.1).sum();
        let has: Vec<usize> = layout.shares().map(|share| share.1).collect();
        prop_assert_eq!(has.iter().sum::<usize>(), BUCKETS);
        for ((_, weight), has) in layout.ways.iter().zip(&has) {
            prop_assert!(*has > 0);
            let share = (BUCKETS as u64 * weight) as f64 / total as f64;
            // A path whose share is less than one bucket gets one bucket, at the expense of the other paths.
            let small = layout.ways.iter().filter(|way| BUCKETS as u64 * way.1 < 2 * total).count() as f64;
            prop_assert!((*has as f64 - share).abs() <= 1.5 + small, "{has} of {share}: {layout:?}");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn buckets_are_distributed_by_weight(ways in any()) {
            is_fair(&Layout::new(&ways))?;
        }

        #[test]
        fn only_flows_of_removed_paths_move(ways in any(), gone in 0..u64::MAX) {
            let before = Layout::new(&ways);
            let stay: Vec<Way> =
                ways.iter().enumerate().filter(|(n, _)| gone >> n & 1 == 0).map(|(_, way)| *way).collect();
            prop_assume!(!stay.is_empty());
            let after = before.changed(&stay);
            is_fair(&after)?;
            for (old, new) in before.of.iter().zip(&after.of) {
                let (old, new) = (ways[usize::from(*old)].0, stay[usize::from(*new)].0);
                prop_assert!(old == new || !stay.iter().any(|way| way.0 == old));
            }
        }

        #[test]
        fn flows_move_only_to_added_paths(ways in any(), n in 0usize..MAX_WAYS) {
            let n = n % ways.len();
            prop_assume!(n > 0);
            let before = Layout::new(&ways[..n]);
            let after = before.changed(&ways);
            is_fair(&after)?;
            for (old, new) in before.of.iter().zip(&after.of) {
                prop_assert!(old == new || usize::from(*new) >= n);
            }
        }
    }

    #[test]
    fn weights_count() {
        let layout = Layout::new(&ways(&[(1, 3), (2, 1)]));
        assert_eq!(layout.shares().map(|share| share.1).collect::<Vec<_>>(), [192, 64]);
        let more = layout.changed(&ways(&[(1, 1), (2, 1)]));
        assert_eq!(more.shares().map(|share| share.1).collect::<Vec<_>>(), [128, 128]);
        assert_eq!(layout.changed(&layout.ways), layout);
    }
}
