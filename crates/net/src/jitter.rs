//! Random jitter for timers, so that many stations with the same timer do not act at the same moment.

use std::hash::BuildHasher;

use infra::hash::{Seeded, mix64};

/// A pseudo-random generator (SplitMix64). Not cryptographically secure.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Default for Jitter {
    /// Returns a generator with a seed from the system's randomness.
    fn default() -> Self {
        Jitter(Seeded::default().hash_one(0u64))
    }
}

impl Jitter {
    /// Returns a generator with a fixed seed, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn seeded(seed: u64) -> Jitter {
        Jitter(seed)
    }

    /// Returns a number from 0 to `most`, both included.
    pub fn up_to(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // The product is less than 2^128, because both factors are at most 2^64.
        ((u128::from(mix64(self.0)) * (u128::from(most) + 1)) >> 64) as u64
    }

    /// Returns a number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.up_to(most.saturating_sub(least))
    }
}
