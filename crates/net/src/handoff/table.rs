//! The assignment of shards to workers.

/// Number of shards that flows are hashed to.
pub const SHARDS: usize = 1024;
/// An overloaded worker gives away 1/`PART` of its shards at a time.
const PART: usize = 8;

/// The worker of each shard. It is immutable, and replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards([u16; SHARDS]);

impl Default for Shards {
    /// Assigns all shards to the first worker.
    fn default() -> Shards {
        Shards([0; SHARDS])
    }
}

impl Shards {
    /// Returns the worker of the flows with this hash.
    #[inline(always)]
    pub fn worker(&self, hash: u32) -> u16 {
        self.0[hash as usize % SHARDS]
    }

    /// Returns the worker of each shard.
    pub fn workers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|w| usize::from(*w))
    }

    /// Returns the assignment in which all shards are shared evenly by the first `workers` workers.
    pub fn shared_out(&self, workers: usize) -> Shards {
        let owners: Vec<usize> = self.workers().collect();
        let mut shared = self.clone();
        for (to, from) in shared.0.iter_mut().zip(share_out(&owners, workers)) {
            *to = from as u16;
        }
        shared
    }

    /// Returns a copy of the assignment in which `shards` are given to `worker`. Numbers beyond the last shard are ignored.
    pub fn given(&self, shards: &[usize], worker: usize) -> Shards {
        let mut given = self.clone();
        for shard in shards {
            if let Some(w) = given.0.get_mut(*shard) {
                *w = worker as u16;
            }
        }
        given
    }

    /// Returns a copy of the assignment in which one of every `PART` shards of the worker `busiest` is given to the worker `calmest`.
    /// Returns `None` if `busiest` has fewer than `PART` shards: its load is then not caused by its shards.
    ///
    /// The load of a single shard is unknown. So only a few shards move at once, and the next check of the load shows the effect.
    pub fn relieved(&self, busiest: usize, calmest: usize) -> Option<Shards> {
        let own = self.workers().enumerate().filter(|(_, w)| *w == busiest).map(|(shard, _)| shard);
        let some: Vec<usize> = own.skip(PART - 1).step_by(PART).collect();
        (!some.is_empty()).then(|| self.given(&some, calmest))
    }
}

/// Shares items between the first `workers` workers, so that their numbers of items differ by one at most. `owners` is the present worker
/// of each item. As few items as possible move.
pub fn share_out(owners: &[usize], workers: usize) -> Vec<usize> {
    let workers = workers.max(1);
    // Every worker gets `each` items, and some get one more, beginning with those that have most.
    let (each, mut more) = (owners.len() / workers, owners.len() % workers);
    let mut has = vec![0; workers];
    owners.iter().filter(|w| **w < workers).for_each(|w| has[*w] += 1);
    let mut order: Vec<usize> = (0..workers).collect();
    order.sort_by_key(|w| std::cmp::Reverse(has[*w]));
    let mut room = vec![each; workers];
    for worker in order {
        if more > 0 {
            room[worker] += 1;
            more -= 1;
        }
    }
    let mut shared: Vec<Option<usize>> = Vec::new();
    for &owner in owners {
        let stays = room.get_mut(owner).filter(|room| **room > 0);
        shared.push(stays.map(|room| {
            *room -= 1;
            owner
        }));
    }
    let mut free = room.into_iter().enumerate().flat_map(|(worker, room)| std::iter::repeat_n(worker, room));
    shared.into_iter().map(|owner| owner.or_else(|| free.next()).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The workers' numbers of items differ by one at most, and no more items move than must.
        #[test]
        fn work_is_balanced_with_the_fewest_moves(
            owners in prop::collection::vec(0usize..10, 0..200),
            workers in 1usize..10,
        ) {
            let shared = share_out(&owners, workers);
            prop_assert_eq!(shared.len(), owners.len());
            let has = |of: &[usize], worker| of.iter().filter(|w| **w == worker).count();
            let now: Vec<usize> = (0..workers).map(|w| has(&shared, w)).collect();
            prop_assert_eq!(now.iter().sum::<usize>(), owners.len());
            prop_assert!(now.iter().max().unwrap() - now.iter().min().unwrap() <= 1);
            // A worker's items beyond its share must move, and so must the items of removed workers.
            let stays: usize = (0..workers).map(|w| has(&owners, w).min(now[w])).sum();
            let stayed = owners.iter().zip(&shared).filter(|(a, b)| a == b).count();
            prop_assert_eq!(stayed, stays);
        }
    }

    /// Returns each worker's load if all shards cost the same. `besides` is each worker's load from other work, and `offered` is the load
    /// of all shards.
    fn loads(shards: &Shards, besides: &[f64], offered: f64) -> Vec<f64> {
        let has = |worker| shards.workers().filter(|w| *w == worker).count() as f64 / SHARDS as f64;
        besides.iter().enumerate().map(|(worker, own)| own + offered * has(worker)).collect()
    }

    proptest! {
        /// Whatever other load the workers have, each move of shards relieves the busiest worker, and the moves come to an end.
        #[test]
        fn shards_move_until_overload_is_relieved(
            besides in prop::collection::vec(0.0..0.8f64, 2..6),
            offered in 0.0..3.0f64,
        ) {
            let mut shards = Shards::default().shared_out(besides.len());
            for round in 0.. {
                let before = loads(&shards, &besides, offered);
                let by_load = |a: &usize, b: &usize| before[*a].total_cmp(&before[*b]);
                let busiest = (0..before.len()).max_by(by_load).unwrap();
                let calmest = (0..before.len()).min_by(by_load).unwrap();
                if before[busiest] <= 0.85 || before[calmest] >= 0.6 {
                    break;
                }
                let Some(next) = shards.relieved(busiest, calmest) else { break };
                let after = loads(&next, &besides, offered);
                prop_assert!(after[busiest] < before[busiest]);
                let moved = shards.workers().zip(next.workers()).filter(|(a, b)| a != b).count();
                prop_assert!(moved > 0 && moved <= SHARDS / PART);
                prop_assert!(round < 200, "{before:?} {after:?}");
                shards = next;
            }
            let end = loads(&shards, &besides, offered);
            let has = |worker| shards.workers().filter(|w| *w == worker).count();
            let too_much = (0..end.len()).any(|w| end[w] > 0.85 && has(w) >= PART);
            prop_assert!(!too_much || end.iter().all(|l| *l >= 0.6), "{end:?}");
        }
    }

    #[test]
    fn shards_return_to_their_default_worker() {
        let one = Shards::default();
        let four = one.shared_out(4);
        let each = |s: &Shards, worker| s.workers().filter(|w| *w == worker).count();
        assert_eq!([0, 1, 2, 3].map(|w| each(&four, w)), [256; 4]);
        assert_eq!(four.shared_out(1), one);
        let moved = four.given(&[10, 11, 12], 3).given(&[1023, 5000], 2);
        assert!((10..13).all(|hash| moved.worker(hash) == 3) && moved.worker(1023 + 4096) == 2);
        assert_eq!(moved.worker(20), four.worker(20));
    }
}
