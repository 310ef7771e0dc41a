//! Rate limits for messages.
//!
//! Each worker has its own limits: with n workers the router sends up to n times as many messages.

use std::hash::{BuildHasher, Hash};

use infra::hash::{Seeded, bucket};

/// Number of buckets for sources. Sources in the same bucket share its rate.
const SOURCES: u32 = 1024;

/// A rate with a burst after a pause.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Nanoseconds between two messages at the steady rate.
    interval: u64,
    /// Nanoseconds until an empty bucket is full.
    full: u64,
}

impl Rate {
    /// Returns a rate of `per_second` ≥ 1 with a burst of `burst` ≥ 1.
    pub const fn new(per_second: u32, burst: u32) -> Rate {
        let interval = 1_000_000_000 / per_second as u64;
        Rate { interval, full: interval * burst as u64 }
    }
}

/// A token bucket in one word: the time when it will be full again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket(u64);

impl Bucket {
    /// Takes a token if there is one at `now` (nanoseconds of any monotonic clock).
    pub fn pass(&mut self, rate: Rate, now: u64) -> bool {
        let then = self.0.max(now) + rate.interval;
        let pass = then - now <= rate.full;
        if pass {
            self.0 = then;
        }
        pass
    }
}

/// Why a message must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many messages to one source.
    Source,
    /// Too many messages in total.
    Total,
}

/// A limit for each source, and one for all sources.
pub struct Limiter {
    per_source: Rate,
    in_total: Rate,
    /// A secret, so that an attacker cannot choose sources in another source's bucket.
    seed: Seeded,
    sources: Box<[Bucket]>,
    total: Bucket,
}

impl Limiter {
    /// Returns a limiter with full buckets.
    pub fn new(per_source: Rate, in_total: Rate) -> Limiter {
        let sources = vec![Bucket::default(); SOURCES as usize].into();
        Limiter { per_source, in_total, seed: Seeded::default(), sources, total: Bucket::default() }
    }

    /// Checks that a message to this source (an address and its VRF) may be sent at `now`.
    ///
    /// # Errors
    /// The exceeded limit.
    pub fn pass(&mut self, fib: u16, source: impl Hash, now: u64) -> Result<(), Refused> {
        let hash = self.seed.hash_one((u32::from(fib), source));
        let own = self.sources.get_mut(bucket((hash >> 32) as u32, SOURCES) as usize);
        if !own.is_some_and(|b| b.pass(self.per_source, now)) {
            return Err(Refused::Source);
        }
        if self.total.pass(self.in_total, now) { Ok(()) } else { Err(Refused::Total) }
    }
}
