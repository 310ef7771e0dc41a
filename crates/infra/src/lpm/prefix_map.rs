//! A map from prefixes to numbers.
//!
//! A hash table that outgrows its memory moves all entries at once, which takes tens of milliseconds for a
//! million entries. So the entries are spread over [`SHARDS`] small tables, of which only one grows at a
//! time. They grow at different times because they have different shares of the entries: the last table gets
//! twice as many as the first. Therefore the average load of the tables is the same for any number of
//! prefixes.
//!
//! Removing some prefixes and adding others does not make the tables grow either. A removed entry usually
//! leaves a tombstone. If all free slots of a hash table are tombstones and more than half of the table is in
//! use, the table doubles; over time, nearly all tables would double. To prevent this, such a table is
//! rebuilt in its present size.

use super::{Address, LpmFull};
use crate::hash::Seeded;
use hashbrown::HashMap;
use std::hash::BuildHasher;

/// Number of hash tables (shards) for prefixes shorter than an address. There are as many further shards for
/// whole addresses.
const SHARDS: usize = 256;
/// The shard for each value of 12 bits of a hash. The number of values per shard rises from 2/3 of the
/// average (first shard) to 4/3 (last shard). So the first fraction `x` of the shards has the fraction (x +
/// x²/2) / 1.5 of all values.
static PLACES: [u8; 4096] = {
    let (mut places, mut n) = ([0; 4096], 0);
    while n < 4096 {
        // 256 * (sqrt(1 + 3 * n / 4096) - 1)
        places[n] = ((65_536 + 48 * n as u64).isqrt() - 256) as u8;
        n += 1;
    }
    places
};
/// Number of possible prefix lengths, for either address family.
const LENGTHS: usize = 129;

/// A prefix shorter than an address, encoded in the size of an address: a 1 bit that marks the start, and
/// then the prefix's bits. A whole address is its own key; such keys are in separate tables. The type is
/// packed, so that an IPv6 prefix with its number takes 20 bytes and not 32.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(Rust, packed(4))]
struct Key<A: Address>(A);

impl<A: Address> Key<A> {
    fn new(prefix: A, len: u8) -> Self {
        if len < A::BITS { Self(A::ONE.up(len) | prefix.down(A::BITS - len)) } else { Self(prefix) }
    }

    /// Returns the prefix of a key. The key must be that of a prefix shorter than an address.
    fn prefix(self) -> (A, u8) {
        let bits = self.0;
        let len = A::BITS - 1 - bits.leading_zeros();
        ((bits ^ A::ONE.up(len)).up(A::BITS - len), len)
    }
}

type Shard<A> = HashMap<Key<A>, u32, Seeded>;

/// Returns the number of prefixes that fit into a shard's memory. An eighth of the slots stays empty.
fn most<A: Address>(shard: &Shard<A>) -> usize {
    // A place is a slot and its tag. The table's few other bytes are lost when the number is rounded down to
    // a power of two.
    let places = shard.allocation_size() / (size_of::<(Key<A>, u32)>() + 1);
    if places == 0 { 0 } else { (1 << places.ilog2()) / 8 * 7 }
}

/// Ensures that a shard has room for one more prefix.
fn make_room_in<A: Address>(shard: &mut Shard<A>) -> Result<(), LpmFull> {
    if shard.len() < shard.capacity() {
        return Ok(());
    }
    let most = most(shard);
    // Rebuild the table if it has lost at least an eighth of its entries since it was built, which pays for
    // the rebuild. If it is at most half full, it cleans itself up without additional memory.
    if !(most / 2..=most / 8 * 7).contains(&shard.len()) {
        return shard.try_reserve(1).map_err(|_| LpmFull::Memory);
    }
    let mut fresh = HashMap::with_hasher(shard.hasher().clone());
    fresh.try_reserve(most).map_err(|_| LpmFull::Memory)?;
    fresh.extend(shard.drain());
    *shard = fresh;
    Ok(())
}

/// A map from prefixes to numbers. In all calls, the host bits of a prefix must be 0, and its length must be
/// at most the address length.
pub struct PrefixMap<A: Address> {
    networks: Vec<Shard<A>>,
    hosts: Vec<Shard<A>>,
    seed: Seeded,
    /// Number of prefixes of each length.
    count: [usize; LENGTHS],
}

impl<A: Address> Default for PrefixMap<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Address> PrefixMap<A> {
    /// Number of parts of a map: see [`part`](Self::part).
    pub const PARTS: usize = 2 * SHARDS;

    /// Returns an empty map.
    pub fn new() -> Self {
        let seed = Seeded::default();
        let shards = || vec![HashMap::with_hasher(seed.clone()); SHARDS];
        Self { networks: shards(), hosts: shards(), seed, count: [0; LENGTHS] }
    }

    /// Returns the number of a key's shard. The shard, and the key's slot in the shard, come from different bits of the hash.
    fn place(&self, key: Key<A>) -> usize {
        PLACES[(self.seed.hash_one(key) >> 40) as usize % PLACES.len()].into()
    }

    fn shard(&self, key: Key<A>, len: u8) -> &Shard<A> {
        let of = if len < A::BITS { &self.networks } else { &self.hosts };
        &of[self.place(key)]
    }

    fn shard_mut(&mut self, key: Key<A>, len: u8) -> &mut Shard<A> {
        let place = self.place(key);
        let of = if len < A::BITS { &mut self.networks } else { &mut self.hosts };
        &mut of[place]
    }

    /// Reserves room for this prefix, so that inserting it in the next call cannot fail.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn make_room(&mut self, prefix: A, len: u8) -> Result<(), LpmFull> {
        let key = Key::new(prefix, len);
        make_room_in(self.shard_mut(key, len))
    }

    /// Sets the prefix's number. Returns the previous number, if there was one.
    pub fn insert(&mut self, prefix: A, len: u8, value: u32) -> Option<u32> {
        let key = Key::new(prefix, len);
        let old = self.shard_mut(key, len).insert(key, value);
        self.count[usize::from(len)] += usize::from(old.is_none());
        old
    }

    /// Sets the prefix's number if there is room. Returns the previous number, if there was one.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn try_insert(&mut self, prefix: A, len: u8, value: u32) -> Result<Option<u32>, LpmFull> {
        let key = Key::new(prefix, len);
        let shard = self.shard_mut(key, len);
        make_room_in(shard)?;
        let old = shard.insert(key, value);
        self.count[usize::from(len)] += usize::from(old.is_none());
        Ok(old)
    }

    /// Removes the prefix. Returns the prefix's number, if it was in the map.
    pub fn remove(&mut self, prefix: A, len: u8) -> Option<u32> {
        let key = Key::new(prefix, len);
        let old = self.shard_mut(key, len).remove(&key);
        self.count[usize::from(len)] -= usize::from(old.is_some());
        old
    }

    /// Returns the prefix's number, if it is in the map.
    pub fn get(&self, prefix: A, len: u8) -> Option<u32> {
        if self.count[usize::from(len)] == 0 {
            return None;
        }
        let key = Key::new(prefix, len);
        self.shard(key, len).get(&key).copied()
    }

    /// Finds the longest other prefix that covers this one and has at least `least` bits. Returns that prefix's number and length; `None`
    /// if there is no such prefix.
    pub fn cover(&self, prefix: A, len: u8, least: u8) -> Option<(u32, u8)> {
        (least..len).rev().find_map(|shorter| Some((self.get(prefix & A::mask(shorter), shorter)?, shorter)))
    }

    /// Returns the number of prefixes of each length, from length 0 to the address length.
    pub fn lengths(&self) -> &[usize] {
        &self.count[..=usize::from(A::BITS)]
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.count.iter().sum()
    }

    /// True if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all prefixes as (prefix, length, number), in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (A, u8, u32)> {
        Self::of(&self.networks, &self.hosts)
    }

    /// Returns the prefixes of part `n` (below [`PARTS`](Self::PARTS)), in no particular order. A prefix is
    /// always in the same part, whatever is added and removed.
    pub fn part(&self, n: usize) -> impl Iterator<Item = (A, u8, u32)> {
        Self::of(self.networks.get(n), n.checked_sub(SHARDS).and_then(|n| self.hosts.get(n)))
    }

    /// Returns the prefixes of these shards as (prefix, length, number).
    fn of<'m>(
        networks: impl IntoIterator<Item = &'m Shard<A>>,
        hosts: impl IntoIterator<Item = &'m Shard<A>>,
    ) -> impl Iterator<Item = (A, u8, u32)> {
        // Small maps use few shards, so skip the empty ones.
        let used = |shard: &&Shard<A>| !shard.is_empty();
        let networks = networks.into_iter().filter(used).flatten().map(|(key, value)| {
            let (prefix, len) = key.prefix();
            (prefix, len, *value)
        });
        networks.chain(hosts.into_iter().filter(used).flatten().map(|(key, value)| (key.0, A::BITS, *value)))
    }

    /// Returns the number of bytes of memory in use, including memory of removed prefixes that the tables
    /// still have.
    pub fn memory_bytes(&self) -> usize {
        let tables: usize = self.networks.iter().chain(&self.hosts).map(HashMap::allocation_size).sum();
        tables + 2 * SHARDS * size_of::<Shard<A>>()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn has_own_keys<A: Address>(prefixes: &[A]) {
        for len in 0..A::BITS {
            for prefix in prefixes {
                let (prefix, len) = prefix.canonical(len);
                assert_eq!(Key::new(prefix, len).prefix(), (prefix, len));
            }
        }
    }

    #[test]
    fn every_prefix_has_its_own_key() {
        has_own_keys(&[0, 0x8000_0000, 0xa5a5_a5a5, u32::MAX]);
        has_own_keys(&[0, 1 << 127, 0x2001_0db8_a5a5_a5a5_5a5a_5a5a_1234_5678, u128::MAX]);
    }

    /// Checks that no shard gets many more prefixes than the others. All IPv6 routes are in 2000::/3, and
    /// must be spread evenly, too.
    fn spreads<A: Address>(network: impl Fn(u32) -> A, network_len: u8, host: impl Fn(u32) -> A) {
        let mut map = PrefixMap::new();
        for n in 0..100_000 {
            map.insert(network(n), network_len, 1);
            map.insert(host(n), A::BITS, 1);
        }
        let parts: Vec<_> = (0..PrefixMap::<A>::PARTS).flat_map(|n| map.part(n)).collect();
        assert_eq!((parts.len(), map.part(PrefixMap::<A>::PARTS).count()), (map.len(), 0));
        let most = map.networks.iter().chain(&map.hosts).map(HashMap::len).max();
        // The last shard should get 4/3 of the mean, and none should exceed that by more than five standard
        // deviations.
        assert!(most < Some(660), "{most:?} of 100,000 are in one shard");
    }

    #[test]
    fn no_hash_table_gets_large() {
        spreads(|n| n << 8, 24, |n| n);
        spreads(|n| 0x2001 << 112 | u128::from(n) << 80, 48, |n| 0x2001 << 112 | u128::from(n));
    }

    /// A hash table that has just doubled is half empty. The tables must not all double at the same time, or
    /// the memory per prefix would rise sharply.
    #[test]
    fn tables_do_not_all_grow_at_once() {
        let mut map = PrefixMap::new();
        for n in 0..400_000u32 {
            map.insert(n << 12, 20, 1);
            map.insert(n << 8, 24, 1);
            if n >= 50_000 && n % 10_000 == 0 {
                let each = map.memory_bytes() as f64 / map.len() as f64;
                assert!((13.5..17.0).contains(&each), "{each} bytes of {} prefixes", map.len());
            }
        }
    }

    /// Memory that a table keeps after prefixes were removed must count as used, because routes may have a
    /// limited amount of memory.
    #[test]
    fn memory_of_removed_prefixes_is_counted() {
        const ALL: u32 = 60_000;
        let mut map = PrefixMap::new();
        (0..ALL).for_each(|n| assert!(map.insert(n << 8, 24, 1).is_none()));
        let full = map.memory_bytes();
        (0..ALL).for_each(|n| assert!(map.remove(n << 8, 24).is_some()));
        assert_eq!((map.len(), map.memory_bytes()), (0, full));
    }

    /// A prefix is removed and another one is added, again and again, as usual in routers. Memory grows by less than a quarter.
    #[test]
    fn alternating_prefixes_take_no_more_memory() {
        const ALL: u128 = 60_000;
        let mut map = PrefixMap::<u128>::new();
        let network = |n: u128| 0x2001 << 112 | n << 80;
        (0..ALL).for_each(|n| assert!(map.insert(network(n), 48, 1).is_none()));
        let (first, mut sizes) = (map.memory_bytes(), Vec::new());
        for n in 0..10 * ALL {
            map.remove(network(n), 48);
            map.try_insert(network(n + ALL), 48, 1).unwrap();
            if n % ALL == 0 {
                sizes.push(map.memory_bytes());
            }
        }
        let last = map.memory_bytes();
        assert!(last < first + first / 4, "bytes: {first} at first, then {sizes:?}, and {last}");
    }

    #[test]
    fn an_entry_is_only_a_prefix_and_a_number() {
        assert_eq!((size_of::<(Key<u32>, u32)>(), size_of::<(Key<u128>, u32)>()), (8, 20));
    }
}
