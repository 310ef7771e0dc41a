//! Chance for timers: what is to happen at about a time, so that many who do the same do not do it at once.

use std::hash::BuildHasher;

use infra::hash::{Seeded, mix64};

/// Numbers that look random (SplitMix64). They keep nobody out.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Default for Jitter {
    /// With a seed from the system's randomness.
    fn default() -> Self {
        Jitter(Seeded::default().hash_one(0u64))
    }
}

impl Jitter {
    /// The same numbers each time, for tests.
    #[cfg(test)]
    pub fn seeded(seed: u64) -> Jitter {
        Jitter(seed)
    }

    /// Any number from 0 to `most`.
    pub fn up_to(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // The product is less than 2^128, because both factors are at most 2^64.
        ((u128::from(mix64(self.0)) * (u128::from(most) + 1)) >> 64) as u64
    }

    /// Any number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.up_to(most.saturating_sub(least))
    }
}
