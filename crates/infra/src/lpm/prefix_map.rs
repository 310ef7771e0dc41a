//! From prefixes to numbers.
//!
//! A hash table that outgrows its memory moves all that is in it at once, tens of milliseconds for a million entries. So
//! they are spread over [`SHARDS`] small ones, of which only one grows at a time. The last gets twice as many as the first, so that
//! they do not all grow one after the other: whatever the number of prefixes, the tables are as full as they are on average.
//!
//! Prefixes that take turns do not make them grow either. What is taken out of a hash table leaves a mark in most cases, and a table
//! with no place left but marked ones would get twice as many, if more than half of it were in use: one after the other did, until
//! nearly all had. It is made anew in its own size instead.

use super::{Address, LpmFull};
use crate::hash::Seeded;
use hashbrown::HashMap;
use std::hash::BuildHasher;

/// Hash tables for each kind of key.
const SHARDS: usize = 256;
/// The shard for each value of some bits of a hash: the density grows from 2/3 to 4/3, and so `x` of them, of 1, have
/// (x + x²/2) / 1.5 of all values.
static PLACES: [u8; 4096] = {
    let (mut places, mut n) = ([0; 4096], 0);
    while n < 4096 {
        // 256 * (sqrt(1 + 3 * n / 4096) - 1)
        places[n] = ((65_536 + 48 * n as u64).isqrt() - 256) as u8;
        n += 1;
    }
    places
};
/// Lengths that a prefix of any family can have.
const LENGTHS: usize = 129;

/// A prefix shorter than an address in one of its size: its bits, after a 1 that says where they begin. A whole address
/// is itself, and lies in tables of its own. Packed, so that an IPv6 prefix and its number take 20 bytes and not 32.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(Rust, packed(4))]
struct Key<A: Address>(A);

impl<A: Address> Key<A> {
    fn new(prefix: A, len: u8) -> Self {
        if len < A::BITS { Self(A::ONE.up(len) | prefix.down(A::BITS - len)) } else { Self(prefix) }
    }

    /// The prefix behind the key of one that is shorter than an address.
    fn prefix(self) -> (A, u8) {
        let bits = self.0;
        let len = A::BITS - 1 - bits.leading_zeros();
        ((bits ^ A::ONE.up(len)).up(A::BITS - len), len)
    }
}

type Shard<A> = HashMap<Key<A>, u32, Seeded>;

/// How many prefixes fit in the memory that a shard has: an eighth of its places stays empty.
fn most<A: Address>(shard: &Shard<A>) -> usize {
    // A place and its tag; the few bytes around them are less than another power of two.
    let places = shard.allocation_size() / (size_of::<(Key<A>, u32)>() + 1);
    if places == 0 { 0 } else { (1 << places.ilog2()) / 8 * 7 }
}

/// Makes sure that one more prefix fits in.
fn make_room_in<A: Address>(shard: &mut Shard<A>) -> Result<(), LpmFull> {
    if shard.len() < shard.capacity() {
        return Ok(());
    }
    let most = most(shard);
    // An eighth of it was taken away at least since it was made: that pays for the move. Up to a half of it the table cleans itself
    // up without other memory.
    if !(most / 2..=most / 8 * 7).contains(&shard.len()) {
        return shard.try_reserve(1).map_err(|_| LpmFull::Memory);
    }
    let mut fresh = HashMap::with_hasher(shard.hasher().clone());
    fresh.try_reserve(most).map_err(|_| LpmFull::Memory)?;
    fresh.extend(shard.drain());
    *shard = fresh;
    Ok(())
}

/// A number for each of many prefixes. In every call bits beyond the length must be 0, and the length at most the
/// address's.
pub struct PrefixMap<A: Address> {
    networks: Vec<Shard<A>>,
    hosts: Vec<Shard<A>>,
    seed: Seeded,
    /// How many prefixes there are of each length.
    count: [usize; LENGTHS],
}

impl<A: Address> Default for PrefixMap<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Address> PrefixMap<A> {
    /// How many parts there are to look at one by one.
    pub const PARTS: usize = 2 * SHARDS;

    /// An empty map.
    pub fn new() -> Self {
        let seed = Seeded::default();
        let shards = || vec![HashMap::with_hasher(seed.clone()); SHARDS];
        Self { networks: shards(), hosts: shards(), seed, count: [0; LENGTHS] }
    }

    /// In which shard a key is: by bits of the hash that its place in the shard does not depend on.
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

    /// Makes sure that this prefix has room: inserting it next cannot fail.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn make_room(&mut self, prefix: A, len: u8) -> Result<(), LpmFull> {
        let key = Key::new(prefix, len);
        make_room_in(self.shard_mut(key, len))
    }

    /// Sets the prefix's number. Returns the former one.
    pub fn insert(&mut self, prefix: A, len: u8, value: u32) -> Option<u32> {
        let key = Key::new(prefix, len);
        let old = self.shard_mut(key, len).insert(key, value);
        self.count[usize::from(len)] += usize::from(old.is_none());
        old
    }

    /// Sets the prefix's number if there is room. Returns the former one.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn try_insert(&mut self, prefix: A, len: u8, value: u32) -> Result<Option<u32>, LpmFull> {
        let key = Key::new(prefix, len);
        let shard = self.shard_mut(key, len);
        make_room_in(shard)?;
        let old = shard.insert(key, value);
        self.count[usize::from(len)] += usize::from(old.is_none());
        Ok(old)
    }

    /// Forgets the prefix. Returns its number.
    pub fn remove(&mut self, prefix: A, len: u8) -> Option<u32> {
        let key = Key::new(prefix, len);
        let old = self.shard_mut(key, len).remove(&key);
        self.count[usize::from(len)] -= usize::from(old.is_some());
        old
    }

    /// The prefix's number.
    pub fn get(&self, prefix: A, len: u8) -> Option<u32> {
        if self.count[usize::from(len)] == 0 {
            return None;
        }
        let key = Key::new(prefix, len);
        self.shard(key, len).get(&key).copied()
    }

    /// Number and length of the longest prefix around this one that is shorter than it, but has `least` bits.
    pub fn cover(&self, prefix: A, len: u8, least: u8) -> Option<(u32, u8)> {
        (least..len).rev().find_map(|shorter| Some((self.get(prefix & A::mask(shorter), shorter)?, shorter)))
    }

    /// How many prefixes there are of each length, from 0 to the address's.
    pub fn lengths(&self) -> &[usize] {
        &self.count[..=usize::from(A::BITS)]
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
    pub fn iter(&self) -> impl Iterator<Item = (A, u8, u32)> {
        Self::of(&self.networks, &self.hosts)
    }

    /// The prefixes of one part, in no order. A prefix is always in the same part, whatever comes and goes.
    pub fn part(&self, n: usize) -> impl Iterator<Item = (A, u8, u32)> {
        Self::of(self.networks.get(n), n.checked_sub(SHARDS).and_then(|n| self.hosts.get(n)))
    }

    /// The prefixes of these shards.
    fn of<'m>(
        networks: impl IntoIterator<Item = &'m Shard<A>>,
        hosts: impl IntoIterator<Item = &'m Shard<A>>,
    ) -> impl Iterator<Item = (A, u8, u32)> {
        // A map of few prefixes has few shards that hold any: the others cost one look.
        let used = |shard: &&Shard<A>| !shard.is_empty();
        let networks = networks.into_iter().filter(used).flatten().map(|(key, value)| {
            let (prefix, len) = key.prefix();
            (prefix, len, *value)
        });
        networks.chain(hosts.into_iter().filter(used).flatten().map(|(key, value)| (key.0, A::BITS, *value)))
    }

    /// Memory in use, in bytes, whether prefixes are in it or were.
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
    fn every_prefix_has_a_key_of_its_own() {
        has_own_keys(&[0, 0x8000_0000, 0xa5a5_a5a5, u32::MAX]);
        has_own_keys(&[0, 1 << 127, 0x2001_0db8_a5a5_a5a5_5a5a_5a5a_1234_5678, u128::MAX]);
    }

    /// IPv6 routes are all in 2000::/3: they are spread all the same.
    fn spreads<A: Address>(network: impl Fn(u32) -> A, network_len: u8, host: impl Fn(u32) -> A) {
        let mut map = PrefixMap::new();
        for n in 0..100_000 {
            map.insert(network(n), network_len, 1);
            map.insert(host(n), A::BITS, 1);
        }
        let parts: Vec<_> = (0..PrefixMap::<A>::PARTS).flat_map(|n| map.part(n)).collect();
        assert_eq!((parts.len(), map.part(PrefixMap::<A>::PARTS).count()), (map.len(), 0));
        let most = map.networks.iter().chain(&map.hosts).map(HashMap::len).max();
        // 4/3 of the mean are expected in the last, and more than five times the deviation beyond that in none.
        assert!(most < Some(660), "{most:?} of 100,000 are in one");
    }

    #[test]
    fn no_hash_table_gets_large() {
        spreads(|n| n << 8, 24, |n| n);
        spreads(|n| 0x2001 << 112 | u128::from(n) << 80, 48, |n| 0x2001 << 112 | u128::from(n));
    }

    /// Tables that double in size are half full at worst, but never all of them at once.
    #[test]
    fn the_tables_do_not_all_grow_at_once() {
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

    /// The budget for routes must not take memory for free that a table still has.
    #[test]
    fn memory_that_prefixes_leave_behind_is_counted() {
        const ALL: u32 = 60_000;
        let mut map = PrefixMap::new();
        (0..ALL).for_each(|n| assert!(map.insert(n << 8, 24, 1).is_none()));
        let full = map.memory_bytes();
        (0..ALL).for_each(|n| assert!(map.remove(n << 8, 24).is_some()));
        assert_eq!((map.len(), map.memory_bytes()), (0, full));
    }

    /// One goes and another one comes, at any time: what most routers see.
    #[test]
    fn prefixes_that_take_turns_take_no_more_memory() {
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
    fn a_prefix_takes_no_more_than_its_bits_and_its_number() {
        assert_eq!((size_of::<(Key<u32>, u32)>(), size_of::<(Key<u128>, u32)>()), (8, 20));
    }
}
