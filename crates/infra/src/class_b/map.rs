//! A hash table from words to words.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::Duration;

use super::array::{Array, KEY, Place};
use crate::class_a::{Reader, Writer, published};
use crate::quiesce::{Domain, Guard, Mark};
use crate::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{Arc, hint, thread};

/// Number of locks. The upper bits of a key's hash choose its lock.
const LOCKS: usize = 64;
/// Least number of entries to make a table for. With few lines, an entry may find no room although there is some.
const LEAST: usize = 128;
/// Maximum number of places that are made free at once.
const MOST_FREED: usize = 4096;
/// How often an insert tries to take the lock.
const TRIES: usize = 64;

/// A lock in a cache line of its own.
#[repr(align(64))]
struct Lock(AtomicBool);

/// A lock that is held. It is released when this value is dropped.
struct Locked<'l>(&'l Lock);

impl Lock {
    fn try_take(&self) -> Option<Locked<'_>> {
        let taken = !self.0.load(Relaxed) && !self.0.swap(true, Acquire);
        // A value that is made and dropped would release the lock of another thread.
        taken.then(|| Locked(self))
    }

    /// Waits for the lock. Its holder is a thread that inserts one entry.
    fn take(&self) -> Locked<'_> {
        loop {
            match self.try_take() {
                Some(locked) => return locked,
                None => thread::yield_now(),
            }
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Release);
    }
}

/// What all handles share.
struct Shared {
    locks: Box<[Lock]>,
    /// Number of entries.
    len: AtomicUsize,
}

impl Shared {
    fn lock(&self, hash: u64) -> &Lock {
        &self.locks[(hash >> 58) as usize % LOCKS]
    }

    /// Inserts an entry. The caller holds the lock of the key.
    fn insert(&self, arrays: &Arrays, key: u64, hash: u64, value: u64) -> Inserted {
        debug_assert!((1..=KEY).contains(&key) && value != 0, "{key:#x} or {value:#x} is not allowed");
        if arrays.find(key, hash).is_some() {
            return Inserted::Present;
        }
        // The entries of the array `before` must find room, too.
        let is_full = self.len.load(Relaxed) >= arrays.now.most();
        if is_full || arrays.now.insert(key, hash, value).is_none() {
            return Inserted::Full;
        }
        self.len.fetch_add(1, Relaxed);
        Inserted::Yes
    }
}

/// The arrays in use. While the table grows, the entries move one by one from the array `before` to the array `now`.
struct Arrays {
    now: Array,
    before: Option<Array>,
}

/// Makes an empty table with room for about `entries` entries. Its keys are from 1 to 2^62 - 1, and its values are not 0.
///
/// # Errors
/// Fails if the kernel refuses the address range.
pub fn map(domain: &Domain, entries: usize) -> io::Result<(Owner, Map)> {
    // Others must not know which keys are in the same line.
    let now = Array::new(entries.max(LEAST), RandomState::new().hash_one(0u8))?;
    Ok(of(domain, now))
}

/// Makes a table of an empty array.
pub(super) fn of(domain: &Domain, now: Array) -> (Owner, Map) {
    let (writer, arrays) = published(domain, Arrays { now, before: None });
    let locks = (0..LOCKS).map(|_| Lock(AtomicBool::new(false))).collect();
    let shared = Shared { locks, len: AtomicUsize::new(0) };
    let map = Map { arrays, shared: Arc::new(shared) };
    let owner = Owner {
        writer,
        map: map.clone(),
        domain: domain.clone(),
        begun: None,
        moved: 0,
        generation: 0,
        removed: VecDeque::new(),
    };
    (owner, map)
}

/// A handle for lookups and inserts. Cheap to clone.
#[derive(Clone)]
pub struct Map {
    arrays: Reader<Arrays>,
    shared: Arc<Shared>,
}

/// The result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The entry is in the table.
    Yes,
    /// The key was in the table already; the table is unchanged.
    Present,
    /// Another thread had the lock of the key: try again with the next packet.
    Busy,
    /// There is no room, until the owner has made some.
    Full,
}

impl Map {
    /// Returns the table as it is now, for lookups while `guard` is borrowed.
    #[inline(always)]
    pub fn view<'g>(&self, guard: &'g Guard) -> View<'g> {
        View(self.arrays.get(guard))
    }

    /// Inserts an entry.
    #[inline(never)]
    pub fn insert(&self, guard: &Guard, key: u64, value: u64) -> Inserted {
        let arrays = self.arrays.get(guard);
        let hash = arrays.now.hash(key);
        let lock = self.shared.lock(hash);
        let taken = (0..TRIES).find_map(|_| {
            let taken = lock.try_take();
            if taken.is_none() {
                hint::spin_loop();
            }
            taken
        });
        let Some(_locked) = taken else { return Inserted::Busy };
        // Another thread may have inserted the key, or the table may have grown, before the lock was taken.
        let arrays = self.arrays.get(guard);
        self.shared.insert(arrays, key, hash, value)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.shared.len.load(Relaxed)
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Arrays {
    /// Returns the array and the place of a key. While the table grows, an entry is in both arrays for a moment, and the older one counts.
    #[inline(always)]
    fn find(&self, key: u64, hash: u64) -> Option<(&Array, Place)> {
        if let Some(before) = &self.before
            && let Some(at) = before.find(key, hash)
        {
            return Some((before, at));
        }
        Some((&self.now, self.now.find(key, hash)?))
    }
}

/// A table for lookups.
#[derive(Clone, Copy)]
pub struct View<'g>(&'g Arrays);

/// An entry that a lookup has found.
#[derive(Clone, Copy)]
pub struct Entry<'g> {
    array: &'g Array,
    at: Place,
    /// The value when the entry was found.
    pub value: u64,
}

impl<'g> View<'g> {
    /// Returns the hash of a key, for the other methods.
    #[inline(always)]
    pub fn hash(self, key: u64) -> u64 {
        self.0.now.hash(key)
    }

    /// Prefetches the cache line in which a key usually is.
    #[inline(always)]
    pub fn prefetch(self, hash: u64) {
        self.0.now.prefetch(hash);
    }

    /// Returns the entry with this key, a number from 1 to 2^62 - 1.
    #[inline(always)]
    pub fn find(self, key: u64, hash: u64) -> Option<Entry<'g>> {
        let Arrays { now, before } = self.0;
        if let Some(before) = before
            && let Some(entry) = Entry::of(before, key, hash)
        {
            return Some(entry);
        }
        Entry::of(now, key, hash)
    }
}

impl<'g> Entry<'g> {
    #[inline(always)]
    fn of(array: &'g Array, key: u64, hash: u64) -> Option<Entry<'g>> {
        let at = array.find(key, hash)?;
        let value = array.value(at).load(Acquire);
        (value != 0).then_some(Entry { array, at, value })
    }

    /// Changes the value, if it is still the one that was found. Returns true if it was.
    #[inline(always)]
    pub fn replace(self, value: u64) -> bool {
        self.array.value(self.at).compare_exchange(self.value, value, AcqRel, Relaxed).is_ok()
    }
}

/// The only handle that removes entries, and makes the table larger.
pub struct Owner {
    writer: Writer<Arrays>,
    map: Map,
    domain: Domain,
    /// While the table grows: when all lookups use the larger array, too.
    begun: Option<Mark>,
    /// While the table grows: number of lines whose entries have moved.
    moved: usize,
    /// Number of times that growth has begun or ended.
    generation: u64,
    /// Places of removed entries in the array `now`, which lookups may still use.
    removed: VecDeque<(Mark, Place)>,
}

impl Owner {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the table in bytes, if all its pages are in use.
    pub fn bytes(&self) -> usize {
        let Arrays { now, before } = self.writer.get();
        now.bytes() + before.as_ref().map_or(0, Array::bytes)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: u64) -> Option<u64> {
        let arrays = self.writer.get();
        let (array, at) = arrays.find(key, arrays.now.hash(key))?;
        Some(array.value(at).load(Acquire)).filter(|value| *value != 0)
    }

    /// Changes the value of a key, if it is `seen`. Returns true if it was.
    pub fn replace(&mut self, key: u64, seen: u64, value: u64) -> bool {
        let arrays = self.writer.get();
        let found = arrays.find(key, arrays.now.hash(key));
        found
            .is_some_and(|(array, at)| array.value(at).compare_exchange(seen, value, AcqRel, Acquire).is_ok())
    }

    /// Inserts an entry. Waits for the lock of the key. After [`Inserted::Full`], [`make_room`](Self::make_room) makes room, if it may.
    pub fn insert(&mut self, key: u64, value: u64) -> Inserted {
        let arrays = self.writer.get();
        let hash = arrays.now.hash(key);
        let _locked = self.map.shared.lock(hash).take();
        self.map.shared.insert(arrays, key, hash, value)
    }

    /// Removes the entry of a key if its value is `seen`. Returns true if it was.
    pub fn remove(&mut self, key: u64, seen: u64) -> bool {
        let arrays = self.writer.get();
        let hash = arrays.now.hash(key);
        let _locked = self.map.shared.lock(hash).take();
        let Some((array, at)) = arrays.find(key, hash) else { return false };
        if array.remove(at, seen).is_err() {
            return false;
        }
        self.map.shared.len.fetch_sub(1, Relaxed);
        // The array `before` gets no more entries, so its places need not become free.
        if std::ptr::eq(array, &arrays.now) {
            self.removed.push_back((self.domain.mark(), at));
        }
        true
    }

    /// Number of lines of entries. Each entry stays in its line until the table grows.
    pub fn lines(&self) -> usize {
        let Arrays { now, before } = self.writer.get();
        now.lines() + before.as_ref().map_or(0, Array::lines)
    }

    /// Returns the keys and the values of the entries in these lines.
    pub fn entries(&self, lines: std::ops::Range<usize>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let Arrays { now, before } = self.writer.get();
        let of = move |array: &'_ Array, first: usize| {
            let bound = |line: usize| line.saturating_sub(first).min(array.lines());
            bound(lines.start)..bound(lines.end)
        };
        let in_now = of(now, 0).flat_map(|line| now.entries(line));
        let in_before = before
            .iter()
            .flat_map(move |before| of(before, now.lines()).flat_map(|line| before.entries(line)));
        in_now.chain(in_before).map(|(_, key, value)| (key, value))
    }

    /// True while entries move to a larger array.
    pub fn grows(&self) -> bool {
        self.writer.get().before.is_some()
    }

    /// Does the owner's work of now and then: reuses the places of removed entries, begins to make the table larger if it is nearly full and
    /// will not take more than `most` bytes, and moves the entries of up to `lines` lines. Calls `lost` with the key and the value of an entry
    /// that finds no room in the larger table, which hardly ever happens. Returns true if there is more to do at once.
    ///
    /// # Errors
    /// Fails if there is no memory for a larger table.
    pub fn tend(&mut self, lines: usize, most: usize, lost: impl FnMut(u64, u64)) -> io::Result<bool> {
        let is_behind = self.free(MOST_FREED) == MOST_FREED;
        if self.grows() {
            return Ok(self.grow(lines, lost));
        }
        let now = &self.writer.get().now;
        if self.len() > now.enough() && now.bytes().saturating_mul(2) <= most {
            self.begin_to_grow()?;
        }
        Ok(self.grows() || is_behind)
    }

    /// Makes up to `most` places of removed entries free that no lookup uses any more. Returns their number.
    fn free(&mut self, most: usize) -> usize {
        let (reached, mut freed) = (self.domain.all_passed(), 0);
        while freed < most
            && let Some((_, at)) = self.removed.pop_front_if(|(mark, _)| *mark <= reached)
        {
            self.writer.get().now.free(at);
            freed += 1;
        }
        freed
    }

    /// Makes room after [`Inserted::Full`], if the table then takes at most `most` bytes. Waits for readers for up to `patience`. Must not be
    /// called within a section. Returns false if there is no room. `lost` is as for [`tend`](Self::tend).
    ///
    /// # Errors
    /// Fails if there is no memory for a larger table.
    pub fn make_room(
        &mut self,
        most: usize,
        patience: Duration,
        lost: impl FnMut(u64, u64),
    ) -> io::Result<bool> {
        // The places of removed entries may be all that is missing.
        if !self.removed.is_empty() {
            self.domain.synchronize(patience);
            if self.free(usize::MAX) > 0 {
                return Ok(true);
            }
        }
        if self.grows() && (!self.domain.synchronize(patience) || self.grow(usize::MAX, lost)) {
            return Ok(false);
        }
        let may_grow = self.writer.get().now.bytes().saturating_mul(2) <= most;
        if may_grow {
            self.begin_to_grow()?;
        }
        Ok(may_grow)
    }

    /// Changes when growth begins or ends: entries are then in other lines.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Adds an array of twice the size, into which [`grow`](Self::grow) moves the entries.
    fn begin_to_grow(&mut self) -> io::Result<()> {
        let before = self.writer.get().now.clone();
        let now = before.larger()?;
        // An insert that takes its lock from now on finds the new array. Those that have a lock end first.
        self.writer.set(Arrays { now, before: Some(before) });
        self.map.shared.locks.iter().for_each(|lock| drop(lock.take()));
        self.begun = Some(self.domain.mark());
        self.generation += 1;
        self.removed.clear();
        self.moved = 0;
        Ok(())
    }

    /// Moves the entries of up to `lines` lines to the larger array. Returns true if there are more.
    fn grow(&mut self, lines: usize, mut lost: impl FnMut(u64, u64)) -> bool {
        let arrays = self.writer.get();
        let Some(before) = &arrays.before else { return false };
        // A lookup that began earlier would not find an entry that has moved.
        if self.begun.is_some_and(|mark| !self.domain.passed(mark)) {
            return true;
        }
        let end = self.moved.saturating_add(lines).min(before.lines());
        for line in self.moved..end {
            for (at, key, _) in before.entries(line) {
                let hash = before.hash(key);
                let _locked = self.map.shared.lock(hash).take();
                let mut value = before.value(at).load(Acquire);
                let to = arrays.now.insert(key, hash, value);
                // Until the entry is removed from `before`, others find and change it there.
                while let Err(newer) = before.remove(at, value) {
                    value = newer;
                    if let Some(to) = to {
                        arrays.now.value(to).store(value, Release);
                    }
                }
                if to.is_none() {
                    self.map.shared.len.fetch_sub(1, Relaxed);
                    lost(key, value);
                }
            }
        }
        self.moved = end;
        if end < before.lines() {
            return true;
        }
        let now = arrays.now.clone();
        self.writer.set(Arrays { now, before: None });
        self.generation += 1;
        false
    }
}
