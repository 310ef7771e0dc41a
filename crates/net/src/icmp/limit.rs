//! How many messages a second may be sent.
//!
//! Each worker has limits of its own: with n workers the router sends up to n times as many.

use std::hash::{BuildHasher, Hash};

use infra::hash::{Seeded, bucket};

/// Sources that are told apart. Two that fall on the same bucket share its rate.
const SOURCES: u32 = 1024;

/// So many a second, and so many at once after a pause.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Nanoseconds between two that come evenly.
    interval: u64,
    /// Nanoseconds in which an empty bucket fills up.
    full: u64,
}

impl Rate {
    /// A rate of `per_second` ≥ 1 with a burst of `burst` ≥ 1.
    pub const fn new(per_second: u32, burst: u32) -> Rate {
        let interval = 1_000_000_000 / per_second as u64;
        Rate { interval, full: interval * burst as u64 }
    }
}

/// A token bucket in one word: when it will be full again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket(u64);

impl Bucket {
    /// Takes a token, if there is one at `now` (nanoseconds of any clock that does not run backwards).
    pub fn pass(&mut self, rate: Rate, now: u64) -> bool {
        let then = self.0.max(now) + rate.interval;
        let pass = then - now <= rate.full;
        if pass {
            self.0 = then;
        }
        pass
    }
}

/// Why a message is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many for one source.
    Source,
    /// Too many in all.
    Total,
}

/// A limit for each source, and one for all of them.
pub struct Limiter {
    per_source: Rate,
    in_total: Rate,
    /// Secret, so that nobody can choose sources that share the bucket of another.
    seed: Seeded,
    sources: Box<[Bucket]>,
    total: Bucket,
}

impl Limiter {
    /// A limiter with full buckets.
    pub fn new(per_source: Rate, in_total: Rate) -> Limiter {
        let sources = vec![Bucket::default(); SOURCES as usize].into();
        Limiter { per_source, in_total, seed: Seeded::default(), sources, total: Bucket::default() }
    }

    /// Whether a message to this source (an address and its VRF) may be sent at `now`.
    ///
    /// # Errors
    /// Which limit is against it.
    pub fn pass(&mut self, fib: u16, source: impl Hash, now: u64) -> Result<(), Refused> {
        let hash = self.seed.hash_one((u32::from(fib), source));
        let own = self.sources.get_mut(bucket((hash >> 32) as u32, SOURCES) as usize);
        if !own.is_some_and(|b| b.pass(self.per_source, now)) {
            return Err(Refused::Source);
        }
        if self.total.pass(self.in_total, now) { Ok(()) } else { Err(Refused::Total) }
    }
}
