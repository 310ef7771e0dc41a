//! Parts of the tables, small enough for loom to try all interleavings of. What there is to try is in
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

/// One entry of the first table of a trie, and the list behind it.
pub struct List(trie::OneList);

impl List {
    /// A list with one leaf.
    pub fn new(domain: &Domain, leaf: u32) -> List {
        List(trie::OneList::new(domain, leaf))
    }

    /// A handle for a reader.
    pub fn reader(&self) -> trie::OneListReader {
        self.0.reader()
    }

    /// Puts a list with another leaf in its place.
    pub fn replace(&mut self, leaf: u32) {
        self.0.replace(leaf).expect("there is room");
    }

    /// Makes a list that nobody is shown, if there is room.
    pub fn build_elsewhere(&mut self, leaf: u32) {
        let built = self.0.build(leaf);
        assert!(matches!(built, Ok(_) | Err(LpmFull::Blocks)));
    }
}

/// A table of one entry, and the default beside it.
pub struct Wide {
    narrow: Arc<AtomicU32>,
    wide: wide::Wide<1>,
}

/// What a reader has of it.
pub struct WideLookup {
    narrow: Arc<AtomicU32>,
    wide: WideReader<1>,
}

impl Wide {
    /// A default route.
    pub fn new(leaf: u32) -> Wide {
        let mut wide = wide::Wide::new().expect("addresses");
        wide.paint(0..2, leaf, 0, |_| true);
        Wide { narrow: Arc::new(AtomicU32::new(NO_ROUTE)), wide }
    }

    /// A handle for a reader.
    pub fn reader(&self) -> WideLookup {
        WideLookup { narrow: self.narrow.clone(), wide: self.wide.reader() }
    }

    /// Sets the longer route.
    pub fn set_narrow(&mut self, leaf: u32) {
        self.narrow.store(leaf, Release);
    }

    /// Sets the default route.
    pub fn set_wide(&mut self, leaf: u32) {
        self.wide.paint(0..1, leaf, 0, |_| true);
    }
}

impl WideLookup {
    /// What a lookup finds.
    pub fn leaf(&self) -> u32 {
        match self.narrow.load(Acquire) {
            NO_ROUTE => self.wide.settle(0, || self.narrow.load(Acquire)),
            leaf => leaf,
        }
    }
}
