//! The reference table for tests: a list of prefixes, searched from the longest to the shortest.

use super::{Address, Lpm, LpmFull, LpmLookup, MAX_LEAF, NO_ROUTE};
use std::collections::BTreeMap;

/// The simplest correct table. Tests compare the fast tables with it.
#[derive(Clone, Debug, Default)]
pub struct NaiveLpm<A: Address> {
    /// The leaf of each route, by (length, prefix).
    routes: BTreeMap<(u8, A), u32>,
}

impl<A: Address> NaiveLpm<A> {
    /// Returns an empty table.
    pub fn new() -> Self {
        Self::default()
    }
}

fn key<A: Address>(prefix: A, len: u8) -> (u8, A) {
    let (prefix, len) = prefix.canonical(len);
    (len, prefix)
}

impl<A: Address> Lpm for NaiveLpm<A> {
    type Addr = A;

    fn insert(&mut self, prefix: A, len: u8, leaf: u32) -> Result<Option<u32>, LpmFull> {
        if leaf == NO_ROUTE || leaf > MAX_LEAF {
            return Err(LpmFull::Leaf(leaf));
        }
        Ok(self.routes.insert(key(prefix, len), leaf))
    }

    fn remove(&mut self, prefix: A, len: u8) -> Option<u32> {
        self.routes.remove(&key(prefix, len))
    }

    fn exact(&self, prefix: A, len: u8) -> Option<u32> {
        self.routes.get(&key(prefix, len)).copied()
    }

    fn iter(&self) -> impl Iterator<Item = (A, u8, u32)> {
        self.routes.iter().map(|(&(len, prefix), &leaf)| (prefix, len, leaf))
    }

    fn len(&self) -> usize {
        self.routes.len()
    }

    fn memory_bytes(&self) -> usize {
        self.routes.len() * size_of::<((u8, A), u32)>()
    }
}

impl<A: Address> LpmLookup for NaiveLpm<A> {
    type Addr = A;

    fn lookup(&self, addr: A) -> u32 {
        (0..=A::BITS).rev().find_map(|len| self.exact(addr, len)).unwrap_or(NO_ROUTE)
    }

    fn routes(&self) -> usize {
        self.routes.len()
    }

    fn fetch(&self, _: A) {}
}
