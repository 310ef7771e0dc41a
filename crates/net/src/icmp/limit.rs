//! Rate limits for ICMP messages.
//!
//! Each worker has its own limits, so with n workers the router sends up to n times as many messages.

use std::hash::{BuildHasher, Hash};

use infra::hash::{Seeded, bucket};

/// A steady rate, and the burst that is allowed after a pause.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Nanoseconds between two messages at the steady rate.
    interval: u64,
    /// Nanoseconds until an empty bucket is full again.
    full: u64,
}

impl Rate {
    /// Returns a rate of `per_second` messages per second, with a burst of `burst` messages. Both must be at
    /// least 1.
    pub const fn new(per_second: u32, burst: u32) -> Rate {
        let interval = 1_000_000_000 / per_second as u64;
        Rate { interval, full: interval * burst as u64 }
    }
}

/// A token bucket in one word: the time when the bucket will be full again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket(u64);

impl Bucket {
    /// Takes a token, if there is one at the time `now` (nanoseconds of any monotonic clock). Returns true if there was one.
    pub fn pass(&mut self, rate: Rate, now: u64) -> bool {
        let then = self.0.max(now) + rate.interval;
        let pass = then - now <= rate.full;
        if pass {
            self.0 = then;
        }
        pass
    }
}

/// The reason why a message must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The limit for one source is exceeded.
    Source,
    /// The limit for all sources is exceeded.
    Total,
}

/// A limit for each source, and one for all sources together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The rate for one source.
    pub per_source: Rate,
    /// The rate for all sources together.
    pub in_total: Rate,
    /// Number of token buckets for sources. The hash of a source selects its bucket. Sources with the same bucket share the bucket's rate.
    pub buckets: u32,
}

/// Checks [`Limits`].
pub struct Limiter {
    limits: Limits,
    /// A secret key of the hash that selects a source's bucket. An attacker who knew it could choose source addresses that share the bucket
    /// of another source.
    seed: Seeded,
    sources: Box<[Bucket]>,
    total: Bucket,
}

impl Limiter {
    /// Returns a limiter with full buckets.
    pub fn new(limits: Limits) -> Limiter {
        let sources = vec![Bucket::default(); limits.buckets as usize].into();
        Limiter { limits, seed: Seeded::default(), sources, total: Bucket::default() }
    }

    /// Checks that a message about a packet from this source (an address and its VRF) may be sent at the time
    /// `now`, in nanoseconds.
    ///
    /// # Errors
    /// The exceeded limit.
    pub fn pass(&mut self, fib: u16, source: impl Hash, now: u64) -> Result<(), Refused> {
        let hash = self.seed.hash_one((u32::from(fib), source));
        let own = self.sources.get_mut(bucket((hash >> 32) as u32, self.limits.buckets) as usize);
        if !own.is_some_and(|b| b.pass(self.limits.per_source, now)) {
            return Err(Refused::Source);
        }
        if self.total.pass(self.limits.in_total, now) { Ok(()) } else { Err(Refused::Total) }
    }
}
