//! From IPv4 prefixes to numbers.
//!
//! A hash table that outgrows its memory moves all that is in it at once, tens of milliseconds for a million entries. So
//! they are spread over [`SHARDS`] small ones, of which only one grows at a time.

use super::LpmFull;
use crate::hash::{Seeded, mix32};
use std::collections::HashMap;

/// Hash tables for each kind of key.
const SHARDS: usize = 256;

/// Cuts a length to 32 and a prefix to its length.
pub(super) fn canonical(prefix: u32, len: u8) -> (u32, u8) {
    let len = len.min(32);
    (prefix & mask(len), len)
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// A prefix of up to 31 bits in 32: its bits, after a 1 that says where they begin. A /32 is its address, and lies in
/// tables of its own.
fn key(prefix: u32, len: u8) -> u32 {
    match len {
        0 => 1,
        1..32 => 1 << len | prefix >> (32 - len),
        _ => prefix,
    }
}

/// The prefix of up to 31 bits behind a key.
fn prefix_of(key: u32) -> (u32, u8) {
    let len = 31 - key.leading_zeros();
    ((key ^ 1 << len).checked_shl(32 - len).unwrap_or(0), len as u8)
}

type Shard = HashMap<u32, u32, Seeded>;

/// A number for each of many IPv4 prefixes. In every call bits beyond the length must be 0, and the length at most 32.
pub struct PrefixMap {
    networks: Vec<Shard>,
    hosts: Vec<Shard>,
    /// How many prefixes there are of each length.
    count: [usize; 33],
}

impl Default for PrefixMap {
    fn default() -> Self {
        Self::new()
    }
}

impl PrefixMap {
    /// How many parts there are to look at one by one.
    pub const PARTS: usize = 2 * SHARDS;

    /// An empty map.
    pub fn new() -> Self {
        let seed = Seeded::default();
        let shards = || vec![HashMap::with_hasher(seed.clone()); SHARDS];
        Self { networks: shards(), hosts: shards(), count: [0; 33] }
    }

    fn shard(&self, key: u32, len: u8) -> &Shard {
        let of = if len < 32 { &self.networks } else { &self.hosts };
        &of[mix32(key) as usize % SHARDS]
    }

    fn shard_mut(&mut self, key: u32, len: u8) -> &mut Shard {
        let of = if len < 32 { &mut self.networks } else { &mut self.hosts };
        &mut of[mix32(key) as usize % SHARDS]
    }

    /// Makes sure that this prefix has room: inserting it next cannot fail.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn make_room(&mut self, prefix: u32, len: u8) -> Result<(), LpmFull> {
        let key = key(prefix, len);
        self.shard_mut(key, len).try_reserve(1).map_err(|_| LpmFull::Memory)
    }

    /// Sets the prefix's number. Returns the former one.
    pub fn insert(&mut self, prefix: u32, len: u8, value: u32) -> Option<u32> {
        let key = key(prefix, len);
        let old = self.shard_mut(key, len).insert(key, value);
        self.count[usize::from(len)] += usize::from(old.is_none());
        old
    }

    /// Forgets the prefix. Returns its number.
    pub fn remove(&mut self, prefix: u32, len: u8) -> Option<u32> {
        let key = key(prefix, len);
        let old = self.shard_mut(key, len).remove(&key);
        self.count[usize::from(len)] -= usize::from(old.is_some());
        old
    }

    /// The prefix's number.
    pub fn get(&self, prefix: u32, len: u8) -> Option<u32> {
        if self.count[usize::from(len)] == 0 {
            return None;
        }
        let key = key(prefix, len);
        self.shard(key, len).get(&key).copied()
    }

    /// Number and length of the longest prefix around this one that is shorter than it, but has `least` bits.
    pub fn cover(&self, prefix: u32, len: u8, least: u8) -> Option<(u32, u8)> {
        (least..len).rev().find_map(|shorter| Some((self.get(prefix & mask(shorter), shorter)?, shorter)))
    }

    /// How many prefixes there are of each length.
    pub fn lengths(&self) -> &[usize; 33] {
        &self.count
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.count.iter().sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All prefixes as (prefix, length, number), in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u8, u32)> {
        (0..Self::PARTS).flat_map(|n| self.part(n))
    }

    /// The prefixes of one part, in no order. A prefix is always in the same part, whatever comes and goes.
    pub fn part(&self, n: usize) -> impl Iterator<Item = (u32, u8, u32)> {
        let networks = self.networks.get(n).into_iter().flatten().map(|(key, value)| {
            let (prefix, len) = prefix_of(*key);
            (prefix, len, *value)
        });
        let hosts = n.checked_sub(SHARDS).and_then(|n| self.hosts.get(n));
        networks.chain(hosts.into_iter().flatten().map(|(address, value)| (*address, 32, *value)))
    }

    /// Memory in use, in bytes: eight a place in a hash table, and one for its tag.
    pub fn memory_bytes(&self) -> usize {
        let places: usize = self.networks.iter().chain(&self.hosts).map(HashMap::capacity).sum();
        9 * places + 2 * SHARDS * size_of::<Shard>()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_has_a_key_of_its_own() {
        for len in 0..32 {
            for prefix in [0, 0x8000_0000, 0xa5a5_a5a5, u32::MAX] {
                let canonical = canonical(prefix, len);
                assert_eq!(prefix_of(key(canonical.0, canonical.1)), canonical);
            }
        }
    }

    #[test]
    fn no_hash_table_gets_large() {
        let mut map = PrefixMap::new();
        for n in 0..100_000u32 {
            map.insert(n << 8, 24, 1);
            map.insert(n, 32, 1);
        }
        let parts: Vec<_> = (0..PrefixMap::PARTS).flat_map(|n| map.part(n)).collect();
        assert_eq!((parts.len(), map.part(PrefixMap::PARTS).count()), (map.len(), 0));
        let most = map.networks.iter().chain(&map.hosts).map(HashMap::len).max();
        assert!(most < Some(600), "{most:?} of 100,000 are in one");
    }
}
