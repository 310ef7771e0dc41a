//! Largest tables that fit each cache of a processor. Okelmann 2019 marks these table sizes in its plots (sections 6.3.1 and 6.3.2).

use serde::{Deserialize, Serialize};

/// Minimum size of a table entry: key and value, without buckets, padding and free slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Key size in bits.
    pub key_bits: u32,
    /// Value size in bits.
    pub value_bits: u32,
}

impl Entry {
    /// VPP's layer 2 table: 64-bit keys and values, so that a cache of n bytes holds n / 16 entries.
    pub const L2FIB: Self = Self { key_bits: 64, value_bits: 64 };
    /// VPP's IPv6 table: 128-bit keys and 32-bit values, so that a cache of n bytes holds n / 20 entries.
    ///
    /// Okelmann 2019 prints n · 8 / (128 + 32) = n / 24, and derives 350,000 entries in 8 MiB. That is a mistake: 8 / 160 is 1 / 20, and 8
    /// MiB hold 419,430 entries.
    pub const IP6FIB: Self = Self { key_bits: 128, value_bits: 32 };

    /// Returns the maximum number of entries in `bytes` bytes; `None` if the entry has 0 bits.
    pub fn that_fit(self, bytes: u64) -> Option<u64> {
        let fit = (u128::from(bytes) * 8).checked_div(u128::from(self.bits()))?;
        Some(u64::try_from(fit).unwrap_or(u64::MAX))
    }

    /// Returns the minimum number of bytes for `entries` entries.
    pub fn bytes_of(self, entries: u64) -> u64 {
        u64::try_from((u128::from(entries) * u128::from(self.bits())).div_ceil(8)).unwrap_or(u64::MAX)
    }

    fn bits(self) -> u64 {
        u64::from(self.key_bits) + u64::from(self.value_bits)
    }
}

/// Sizes of a processor's data caches, in bytes: the caches of one core, and the last level, which the cores share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caches {
    /// The first level, for data.
    pub l1: u64,
    /// The second level.
    pub l2: u64,
    /// The third level.
    pub l3: u64,
}

/// Largest tables, in entries, that fit each cache. In practice, the throughput drops at smaller tables already, since a table never has a
/// cache to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// Entries that fit the first level.
    pub l1: u64,
    /// Entries that fit the second level.
    pub l2: u64,
    /// Entries that fit the third level.
    pub l3: u64,
}

/// Smallest cache that a table fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The first level.
    L1,
    /// The second level.
    L2,
    /// The third level.
    L3,
    /// No cache is large enough.
    Memory,
}

impl Caches {
    /// Returns the largest tables of such entries that fit each cache; `None` if the entry has 0 bits.
    pub fn marks(&self, entry: Entry) -> Option<Marks> {
        Some(Marks {
            l1: entry.that_fit(self.l1)?,
            l2: entry.that_fit(self.l2)?,
            l3: entry.that_fit(self.l3)?,
        })
    }

    /// Returns the smallest cache that holds `entries` entries.
    pub fn level_of(&self, entry: Entry, entries: u64) -> Level {
        let bytes = entry.bytes_of(entries);
        let levels = [(self.l1, Level::L1), (self.l2, Level::L2), (self.l3, Level::L3)];
        levels.into_iter().find(|(size, _)| bytes <= *size).map_or(Level::Memory, |(_, level)| level)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The Xeon E3-1230 that Okelmann 2019 used (table 5.1).
    const E3_1230: Caches = Caches { l1: 32 << 10, l2: 256 << 10, l3: 8 << 20 };

    #[test]
    fn cache_limits_equal_those_of_the_thesis() {
        assert_eq!(E3_1230.marks(Entry::L2FIB), Some(Marks { l1: 2048, l2: 16_384, l3: 524_288 }));
        assert_eq!(E3_1230.marks(Entry::IP6FIB), Some(Marks { l1: 1638, l2: 13_107, l3: 419_430 }));
        // The printed n / 24, which the thesis rounds to 350,000.
        assert_eq!(E3_1230.l3 / 24, 349_525);
    }

    #[test]
    fn an_entry_without_bits_has_no_cache_limits() {
        assert_eq!(E3_1230.marks(Entry { key_bits: 0, value_bits: 0 }), None);
        assert_eq!(Entry::IP6FIB.that_fit(u64::MAX), Some(u64::MAX / 20));
        assert_eq!(Entry { key_bits: 1, value_bits: 0 }.that_fit(u64::MAX), Some(u64::MAX));
        assert_eq!(Entry::L2FIB.bytes_of(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_table_at_the_limit_fits_and_a_larger_one_does_not(
            key_bits in 1u32..256,
            value_bits in 0u32..256,
            bytes in 1u64..1 << 40,
        ) {
            let entry = Entry { key_bits, value_bits };
            let most = entry.that_fit(bytes).unwrap();
            prop_assert!(entry.bytes_of(most) <= bytes);
            prop_assert!(entry.bytes_of(most + 1) > bytes);
            let caches = Caches { l1: bytes, l2: bytes * 2, l3: bytes * 3 };
            prop_assert_eq!(caches.level_of(entry, most), Level::L1);
            prop_assert!(caches.level_of(entry, most + 1) > Level::L1);
        }
    }
}
