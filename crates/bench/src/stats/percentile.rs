//! Percentiles by rank.

use serde::{Deserialize, Serialize};

/// A percentile by nearest rank: of n values in ascending order, the one with index ceil(p·n) − 1.
///
/// At least the share p of all values is at or below it; it is the smallest value for which this is true. RFC 8219 uses it for worst-case
/// latency and delay variation (sections 7.2 and 7.3.1). Of 20 runs, the 1st and 99th percentile are the minimum and the maximum.
///
/// The share is stored in parts per million. In floating point, 0.07 · 100 is slightly more than 7, and would select the 8th value instead
/// of the 7th.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Percentile(u32);

impl Percentile {
    /// The 1st percentile.
    pub const P1: Self = Self(10_000);
    /// The 99th percentile.
    pub const P99: Self = Self(990_000);
    /// The 99.9th percentile.
    pub const P99_9: Self = Self(999_000);

    /// Returns the percentile of this many parts per million, from 1 to 1,000,000; `None` for any other number.
    pub const fn parts_per_million(parts: u32) -> Option<Self> {
        if parts >= 1 && parts <= 1_000_000 { Some(Self(parts)) } else { None }
    }

    /// Returns the rank of the percentile among `values` values, from 1; `None` if there are no values.
    pub const fn rank(self, values: u64) -> Option<u64> {
        if values == 0 {
            return None;
        }
        // The product exceeds 64 bits for more than 18 · 10^12 values; an hour at 400 Gbit/s comes close to that.
        Some((self.0 as u128 * values as u128).div_ceil(1_000_000) as u64)
    }
}

impl TryFrom<u32> for Percentile {
    type Error = String;

    fn try_from(parts: u32) -> Result<Self, String> {
        Self::parts_per_million(parts).ok_or_else(|| {
            format!("not a percentile: {parts}; it must be from 1 to 1000000 parts per million")
        })
    }
}

impl From<Percentile> for u32 {
    fn from(percentile: Percentile) -> u32 {
        percentile.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_follow_the_definition() {
        let ranks = |n| [Percentile::P1, Percentile::P99, Percentile::P99_9].map(|p| p.rank(n).unwrap());
        assert_eq!(ranks(1), [1, 1, 1]);
        assert_eq!(ranks(20), [1, 20, 20]);
        assert_eq!(ranks(1000), [10, 990, 999]);
        assert_eq!(ranks(50_000), [500, 49_500, 49_950]);
        assert_eq!(Percentile::P99.rank(0), None);
        // With floating point this would be 8.
        assert_eq!(Percentile::parts_per_million(70_000).unwrap().rank(100), Some(7));
        assert_eq!(Percentile::P99_9.rank(u64::MAX), Some(18_428_297_329_635_842_064));
    }

    #[test]
    fn invalid_percentiles_are_refused() {
        assert_eq!(Percentile::parts_per_million(0), None);
        assert_eq!(Percentile::parts_per_million(1_000_001), None);
        assert!(Percentile::try_from(0).unwrap_err().contains("not a percentile"));
    }

    proptest! {
        /// Applies the definition literally: tries every rank.
        #[test]
        fn the_rank_is_the_first_that_covers_the_share(parts in 1u32..=1_000_000, values in 1u64..3000) {
            let covers = |rank: &u64| u128::from(*rank) * 1_000_000 >= u128::from(parts) * u128::from(values);
            let rank = Percentile::parts_per_million(parts).unwrap().rank(values);
            prop_assert_eq!(rank, (1..=values).find(covers));
        }
    }
}
