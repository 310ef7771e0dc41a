//! Small, fast hash functions for integers, for tables with addresses or indices as keys.
//!
//! The mixers without a seed are bijections with fixed constants: an attacker who chooses the keys can put all
//! of them into one bucket of a table. Tables with keys from the network use [`Seeded`].

use std::hash::{BuildHasher, Hasher, RandomState};

/// Mixes 32 bits so that every input bit changes about half of the output bits (MurmurHash3's finalizer).
#[inline(always)]
pub const fn mix32(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Mixes 64 bits so that every input bit changes about half of the output bits (SplitMix64's finalizer).
#[inline(always)]
pub const fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Maps a well-mixed hash to `0..n` without a division. Returns 0 if `n` is 0.
#[inline(always)]
pub const fn bucket(hash: u32, n: u32) -> u32 {
    ((hash as u64 * n as u64) >> 32) as u32
}

/// Builds hashers for integer keys from a secret seed.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Default for Seeded {
    /// Takes the seed from the system's random numbers.
    fn default() -> Self {
        Self(RandomState::new().hash_one(0u8))
    }
}

impl BuildHasher for Seeded {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        SeededHasher(self.0)
    }
}

/// Hashes the integers that are written to it; see [`Seeded`].
#[derive(Clone, Debug)]
pub struct SeededHasher(u64);

impl Hasher for SeededHasher {
    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn write_u64(&mut self, x: u64) {
        self.0 = mix64(self.0 ^ x);
    }

    #[inline(always)]
    fn write_u128(&mut self, x: u128) {
        self.write_u64(x as u64);
        self.write_u64((x >> 64) as u64);
    }

    #[inline(always)]
    fn write_u32(&mut self, x: u32) {
        self.write_u64(x.into());
    }

    #[inline(always)]
    fn write_u8(&mut self, x: u8) {
        self.write_u64(x.into());
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u8(byte);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// If any input bit is flipped, 30 % to 70 % of the output bits flip, on average over several inputs.
    #[test]
    fn every_bit_counts() {
        for bit in 0..64 {
            let flips: u32 = (0..256u64).map(|x| (mix64(x) ^ mix64(x ^ (1 << bit))).count_ones()).sum();
            assert!((256 * 64 * 3 / 10..256 * 64 * 7 / 10).contains(&flips), "bit {bit}: {flips}");
        }
        for bit in 0..32 {
            let flips: u32 = (0..256u32).map(|x| (mix32(x) ^ mix32(x ^ (1 << bit))).count_ones()).sum();
            assert!((256 * 32 * 3 / 10..256 * 32 * 7 / 10).contains(&flips), "bit {bit}: {flips}");
        }
    }

    #[test]
    fn buckets_cover_the_range_evenly() {
        let mut hits = [0u32; 7];
        for x in 0..70_000 {
            hits[bucket(mix32(x), 7) as usize] += 1;
        }
        assert!(hits.iter().all(|&h| (9_500..10_500).contains(&h)), "{hits:?}");
        assert_eq!((bucket(u32::MAX, 0), bucket(u32::MAX, u32::MAX)), (0, u32::MAX - 1));
    }

    #[test]
    fn seeds_differ() {
        let (a, b) = (Seeded::default(), Seeded::default());
        assert_eq!(a.hash_one(5u32), a.hash_one(5u32));
        assert_ne!(a.hash_one(5u32), b.hash_one(5u32));
    }
}
