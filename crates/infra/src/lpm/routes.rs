//! The routes of an IPv4 table as they were added: a hash table from prefix to leaf for each length.

use super::{LpmFull, NO_ROUTE};
use crate::hash::Seeded;
use std::{array, collections::HashMap};

/// Cuts a length to 32 and a prefix to its length.
pub(super) fn canonical(prefix: u32, len: u8) -> (u32, u8) {
    let len = len.min(32);
    (prefix & mask(len), len)
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// Prefixes and lengths are canonical in every call.
pub(super) struct Routes {
    by_len: [HashMap<u32, u32, Seeded>; 33],
}

impl Routes {
    pub fn new() -> Self {
        let seed = Seeded::default();
        Self { by_len: array::from_fn(|_| HashMap::with_hasher(seed.clone())) }
    }

    /// Makes sure that the next route of this length has room.
    pub fn make_room(&mut self, len: u8) -> Result<(), LpmFull> {
        self.by_len[usize::from(len)].try_reserve(1).map_err(|_| LpmFull::Memory)
    }

    pub fn insert(&mut self, prefix: u32, len: u8, leaf: u32) -> Option<u32> {
        self.by_len[usize::from(len)].insert(prefix, leaf)
    }

    pub fn remove(&mut self, prefix: u32, len: u8) -> Option<u32> {
        self.by_len[usize::from(len)].remove(&prefix)
    }

    pub fn get(&self, prefix: u32, len: u8) -> Option<u32> {
        self.by_len[usize::from(len)].get(&prefix).copied()
    }

    /// Leaf and length of the longest route around this prefix that is shorter than it, the default route not
    /// counted; [`NO_ROUTE`] and 0 when there is none.
    pub fn cover(&self, prefix: u32, len: u8) -> (u32, u8) {
        let at = |shorter| Some((self.get(prefix & mask(shorter), shorter)?, shorter));
        (1..len).rev().find_map(at).unwrap_or((NO_ROUTE, 0))
    }

    pub fn len(&self) -> usize {
        self.by_len.iter().map(HashMap::len).sum()
    }

    /// All routes as (prefix, length, leaf), by length.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u8, u32)> {
        (0..)
            .zip(&self.by_len)
            .flat_map(|(len, routes)| routes.iter().map(move |(&prefix, &leaf)| (prefix, len, leaf)))
    }

    /// A place in a hash table takes eight bytes and one for its tag.
    pub fn memory_bytes(&self) -> usize {
        9 * self.by_len.iter().map(HashMap::capacity).sum::<usize>()
    }
}
