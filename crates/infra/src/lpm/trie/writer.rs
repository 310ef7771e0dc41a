//! The writer's side of the trie.

use super::{
    FIRST, TrieReader, WIDE, WIDEST,
    change::{Change, Slot},
    node::{CHILD, Nodes},
    pool::{Pool, words},
    runs::Runs,
    store::Builder,
};
use crate::{
    lpm::{Address, Lpm, LpmFull, MAX_LEAF, NO_ROUTE, PrefixMap, RouteCount, first::First, wide::Wide},
    mem::Pages,
    quiesce::{Domain, Mark},
    sync::atomic::Ordering::{Relaxed, Release},
};
use std::io;

/// The only handle with which the table can be changed.
pub struct TrieWriter {
    pub(super) reader: TrieReader,
    first: First<FIRST>,
    wide: Wide<WIDE>,
    widest: Wide<WIDEST>,
    pub(super) nodes: Builder,
    routes: PrefixMap<u128>,
    /// Quiescence mark of the last change of a node's default; `None` if all readers have passed it.
    covered: Option<Mark>,
    /// True if the current change alters a node's default.
    pub(super) covers: bool,
    /// The contents of a list during a change. The memory is reused.
    pub(super) runs: Runs,
}

impl TrieWriter {
    /// Returns an empty table. Its nodes can use at most `units` units of memory (32 bytes each).
    pub(super) fn new(domain: &Domain, units: u32) -> io::Result<TrieWriter> {
        let (first, wide, widest) = (First::new(Pages::Small)?, Wide::new()?, Wide::new()?);
        let words = words()?;
        let reader = TrieReader {
            first: first.entries.clone(),
            nodes: Nodes::new(words.clone())?,
            wide: wide.reader(),
            widest: widest.reader(),
            count: RouteCount::default(),
        };
        let nodes = Builder::new(Pool::new(domain, words, units));
        Ok(TrieWriter {
            reader,
            first,
            wide,
            widest,
            nodes,
            routes: PrefixMap::new(),
            covered: None,
            covers: false,
            runs: Runs::default(),
        })
    }

    /// Returns a handle for another reader.
    pub fn reader(&self) -> TrieReader {
        self.reader.clone()
    }

    /// Returns the number of units that nodes use, without retired units.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn nodes_in_use(&self) -> u32 {
        self.nodes.pool.in_use()
    }

    fn apply(&mut self, change: &Change) -> Result<(), LpmFull> {
        if self.covered.is_some_and(|mark| self.nodes.pool.passed(mark)) {
            self.covered = None;
        }
        self.nodes.pool.begin(!change.adds);
        let Slot { entry, len } = change.to;
        let done = match change.len {
            0..=WIDEST => {
                self.widest.paint(change.first_bits(WIDEST), entry, len, |old| change.replaces(old));
                Ok(())
            }
            _ if change.len <= WIDE => {
                self.wide.paint(change.first_bits(WIDE), entry, len, |old| change.replaces(old));
                Ok(())
            }
            _ if change.len <= FIRST => {
                self.paint_first(change);
                Ok(())
            }
            _ => self.change_below(change),
        };
        let covers = std::mem::take(&mut self.covers);
        if done.is_err() {
            self.nodes.abandoned();
        } else if covers {
            self.covered = Some(self.nodes.pool.mark());
        }
        done
    }

    /// True if published entries may be changed in place: no reader can still be using an outdated default.
    pub(super) fn in_place(&self) -> bool {
        !self.covers && self.covered.is_none()
    }

    /// Changes those entries of the first table that are for addresses of the prefix. An entry that leads to
    /// a node stays, and the node gets another default.
    fn paint_first(&mut self, change: &Change) {
        let (range, to) = (change.first_bits(FIRST), change.to(WIDE));
        self.first.touch(range.clone());
        for at in range {
            let entry = self.first.entries[at].load(Relaxed);
            if entry & CHILD != 0 {
                if change.replaces(self.nodes.default(entry).len) {
                    self.nodes.set_default(entry, to);
                    self.covers = true;
                }
            } else if change.replaces(self.first.len[at]) {
                self.first.entries[at].store(to.entry, Release);
                self.first.len[at] = to.len;
            }
        }
    }

    /// Changes the nodes to which an entry of the first table leads.
    fn change_below(&mut self, change: &Change) -> Result<(), LpmFull> {
        let at = change.prefix.bits(0, FIRST) as usize;
        let entry = self.first.entries[at].load(Relaxed);
        let old = Slot { entry, len: if entry & CHILD == 0 { self.first.len[at] } else { 0 } };
        let new = self.change(old, FIRST, change)?;
        self.nodes.make_room()?;
        if new != old {
            self.first.touch(at..at + 1);
            self.first.len[at] = new.len;
            // The new nodes are complete, so they can be linked.
            self.first.entries[at].store(new.entry, Release);
        }
        self.nodes.published();
        Ok(())
    }
}

impl Lpm for TrieWriter {
    type Addr = u128;

    fn insert(&mut self, prefix: u128, len: u8, leaf: u32) -> Result<Option<u32>, LpmFull> {
        let (prefix, len) = prefix.canonical(len);
        if leaf == NO_ROUTE || leaf > MAX_LEAF {
            return Err(LpmFull::Leaf(leaf));
        }
        // Prefetch the first nodes while the map of prefixes is searched.
        let entry = self.reader.fetch_node(prefix);
        self.reader.fetch_below(entry, prefix);
        let old = self.routes.try_insert(prefix, len, leaf)?;
        if let Err(full) = self.apply(&Change { prefix, len, to: Slot { entry: leaf, len }, adds: true }) {
            match old {
                Some(old) => self.routes.insert(prefix, len, old),
                None => self.routes.remove(prefix, len),
            };
            return Err(full);
        }
        self.reader.count.set(self.routes.len());
        Ok(old)
    }

    fn remove(&mut self, prefix: u128, len: u8) -> Option<u32> {
        let (prefix, len) = prefix.canonical(len);
        let old = self.routes.get(prefix, len)?;
        // Each table (the two separate tables, the first table, the nodes below it) has only prefixes of some
        // lengths. If none of these covers the removed prefix, its entries become empty.
        let least = match len {
            ..=WIDEST => 0,
            _ if len <= WIDE => WIDEST + 1,
            _ if len <= FIRST => WIDE + 1,
            _ => FIRST + 1,
        };
        let (entry, cover_len) = self.routes.cover(prefix, len, least).unwrap_or((NO_ROUTE, 0));
        self.apply(&Change { prefix, len, to: Slot { entry, len: cover_len }, adds: false }).ok()?;
        self.routes.remove(prefix, len);
        self.reader.count.set(self.routes.len());
        Some(old)
    }

    fn exact(&self, prefix: u128, len: u8) -> Option<u32> {
        let (prefix, len) = prefix.canonical(len);
        self.routes.get(prefix, len)
    }

    fn iter(&self) -> impl Iterator<Item = (u128, u8, u32)> {
        self.routes.iter()
    }

    fn len(&self) -> usize {
        self.routes.len()
    }

    fn memory_bytes(&self) -> usize {
        self.first.memory_bytes()
            + self.wide.memory_bytes()
            + self.widest.memory_bytes()
            + self.nodes.pool.memory_bytes()
            + self.routes.memory_bytes()
    }
}
