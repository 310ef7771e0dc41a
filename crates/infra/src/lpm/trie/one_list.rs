//! A trie that has a single list, for loom.

use super::{change::Slot, node::Nodes, pool::Pool, store::Builder};
use crate::{
    lpm::LpmFull,
    mem::{Pages, Zeroed},
    quiesce::Domain,
    sync::{
        Arc,
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// An entry of the first table, and the writer of the list to which this entry leads.
pub struct OneList {
    entry: Arc<AtomicU32>,
    nodes: Nodes,
    builder: Builder,
}

/// The reader's side.
pub struct OneListReader {
    entry: Arc<AtomicU32>,
    nodes: Nodes,
}

impl OneList {
    /// Returns a list, with memory for a second one.
    pub fn new(domain: &Domain, leaf: u32) -> OneList {
        let words = Zeroed::with_pages(8 + 41 * 4, Pages::Small).expect("memory").share();
        let builder = Builder::new(Pool::new(domain, words.clone(), 2));
        let mut list = OneList { entry: Arc::new(AtomicU32::new(0)), nodes: Nodes::of_any(words), builder };
        list.publish(leaf).expect("room for a list");
        list
    }

    /// Returns a handle for a reader.
    pub fn reader(&self) -> OneListReader {
        OneListReader { entry: self.entry.clone(), nodes: self.nodes.clone() }
    }

    /// Builds a list in which the addresses 0 to 255 have the leaf `leaf`.
    pub fn build(&mut self, leaf: u32) -> Result<u32, LpmFull> {
        let slot = Slot { entry: leaf, len: 120 };
        Ok(self.builder.build_one(80, Slot::default(), 0, slot)?.entry)
    }

    fn publish(&mut self, leaf: u32) -> Result<(), LpmFull> {
        let new = self.build(leaf)?;
        self.builder.make_room()?;
        self.entry.store(new, Release);
        self.builder.published();
        Ok(())
    }

    /// Replaces the list by one with another leaf.
    pub fn replace(&mut self, leaf: u32) -> Result<(), LpmFull> {
        self.builder.give_up(self.entry.load(Relaxed));
        self.publish(leaf)
    }
}

impl OneListReader {
    /// Returns the leaf that a lookup finds.
    pub fn leaf(&self) -> u32 {
        self.nodes.in_list(self.entry.load(Acquire), &7).entry
    }
}
