//! Parts of the lookup tables that are small enough for loom to explore all interleavings. The tests are in
//! `crate::loom_tests`.

use super::{
    LpmFull, NO_ROUTE, trie,
    wide::{self, WideReader},
};
use crate::{
    quiesce::Domain,
    sync::{
        Arc,
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Release},
        },
    },
};

/// One entry of a trie's first table, with the list to which it leads.
pub struct List(trie::OneList);

impl List {
    /// Returns a list with a single leaf.
    pub fn new(domain: &Domain, leaf: u32) -> List {
        List(trie::OneList::new(domain, leaf))
    }

    /// Returns a handle for a reader.
    pub fn reader(&self) -> trie::OneListReader {
        self.0.reader()
    }

    /// Replaces the list by one with another leaf.
    pub fn replace(&mut self, leaf: u32) {
        self.0.replace(leaf).expect("room for a list");
    }

    /// Builds a list with `leaf` that is never published. Does nothing if all blocks are in use.
    pub fn build_elsewhere(&mut self, leaf: u32) {
        let built = self.0.build(leaf);
        assert!(matches!(built, Ok(_) | Err(LpmFull::Blocks)));
    }
}

/// A table with a single entry for a longer route, and a default route that is stored separately.
pub struct Wide {
    narrow: Arc<AtomicU32>,
    wide: wide::Wide<1>,
}

/// The reader's side.
pub struct WideLookup {
    narrow: Arc<AtomicU32>,
    wide: WideReader<1>,
}

impl Wide {
    /// Returns a table with a default route to `leaf`.
    pub fn new(leaf: u32) -> Wide {
        let mut wide = wide::Wide::new().expect("addresses");
        wide.paint(0..2, leaf, 0, |_| true);
        Wide { narrow: Arc::new(AtomicU32::new(NO_ROUTE)), wide }
    }

    /// Returns a handle for a reader.
    pub fn reader(&self) -> WideLookup {
        WideLookup { narrow: self.narrow.clone(), wide: self.wide.reader() }
    }

    /// Sets the leaf of the longer route.
    pub fn set_narrow(&mut self, leaf: u32) {
        self.narrow.store(leaf, Release);
    }

    /// Sets the leaf of the default route.
    pub fn set_wide(&mut self, leaf: u32) {
        self.wide.paint(0..1, leaf, 0, |_| true);
    }
}

impl WideLookup {
    /// Returns the leaf that a lookup finds.
    pub fn leaf(&self) -> u32 {
        match self.narrow.load(Acquire) {
            NO_ROUTE => self.wide.settle(0, || self.narrow.load(Acquire)),
            leaf => leaf,
        }
    }
}
