//! The oracle: a list of prefixes, searched from the longest to the shortest.

use super::{Lpm, LpmFull, LpmLookup, MAX_LEAF, NO_ROUTE};
use std::collections::BTreeMap;

/// The simplest IPv4 table that can be right. Tests compare the fast ones with it.
#[derive(Clone, Debug, Default)]
pub struct NaiveLpm {
    /// From (length, prefix) to the leaf.
    routes: BTreeMap<(u8, u32), u32>,
}

impl NaiveLpm {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }
}

fn key(prefix: u32, len: u8) -> (u8, u32) {
    let len = len.min(32);
    (len, if len == 0 { 0 } else { prefix >> (32 - len) << (32 - len) })
}

impl Lpm for NaiveLpm {
    type Addr = u32;

    fn insert(&mut self, prefix: u32, len: u8, leaf: u32) -> Result<Option<u32>, LpmFull> {
        if leaf == NO_ROUTE || leaf > MAX_LEAF {
            return Err(LpmFull::Leaf(leaf));
        }
        Ok(self.routes.insert(key(prefix, len), leaf))
    }

    fn remove(&mut self, prefix: u32, len: u8) -> Option<u32> {
        self.routes.remove(&key(prefix, len))
    }

    fn exact(&self, prefix: u32, len: u8) -> Option<u32> {
        self.routes.get(&key(prefix, len)).copied()
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u8, u32)> {
        self.routes.iter().map(|(&(len, prefix), &leaf)| (prefix, len, leaf))
    }

    fn len(&self) -> usize {
        self.routes.len()
    }

    fn memory_bytes(&self) -> usize {
        self.routes.len() * size_of::<((u8, u32), u32)>()
    }
}

impl LpmLookup for NaiveLpm {
    type Addr = u32;

    fn lookup(&self, addr: u32) -> u32 {
        (0..=32).rev().find_map(|len| self.exact(addr, len)).unwrap_or(NO_ROUTE)
    }
}
