//! The writer's side of the trie.

use super::{
    TrieReader, WIDE,
    build::{Builder, Item, Slot, merge},
    node::{CHILD, Nodes, TABLE},
    pool::{Pool, words},
};
use crate::{
    lpm::{
        Address, Lpm, LpmFull, MAX_LEAF, NO_ROUTE, PrefixMap,
        first::{BITS, First},
        wide::Wide,
    },
    mem::Pages,
    quiesce::{Domain, Mark},
    sync::atomic::Ordering::{Relaxed, Release},
};
use std::{io, ops::Range};

/// A table with so many intervals or fewer becomes a list when a route goes.
const FEW: usize = 6;

/// The one handle that may change the table.
pub struct TrieWriter {
    reader: TrieReader,
    first: First,
    wide: Wide<WIDE>,
    nodes: Builder,
    routes: PrefixMap<u128>,
    /// When the default of a node last changed, until all readers have passed that.
    covered: Option<Mark>,
    /// Whether this change is one of a node's default.
    covers: bool,
}

/// What is to become of a prefix's addresses.
struct Change {
    prefix: u128,
    len: u8,
    /// What they get: the prefix's leaf, or that of the next shorter one.
    to: Slot,
    adds: bool,
}

impl Change {
    /// Whether a prefix of this length gives way.
    fn replaces(&self, len: u8) -> bool {
        if self.adds { len <= self.len } else { len == self.len }
    }

    /// What the addresses get in a node that has prefixes longer than `depth`.
    fn to(&self, depth: u8) -> Slot {
        if self.to.len > depth { self.to } else { Slot::default() }
    }

    fn last(&self) -> u128 {
        self.prefix.last(self.len)
    }

    /// The values of the first bits that it covers.
    fn first_bits(&self, bits: u8) -> Range<usize> {
        let start = self.prefix.bits(0, bits) as usize;
        start..start + (1 << (bits - self.len))
    }
}

impl TrieWriter {
    /// An empty table of at most `units` units of nodes.
    pub(super) fn new(domain: &Domain, units: u32) -> io::Result<TrieWriter> {
        let (first, wide, words) = (First::new(Pages::Small)?, Wide::new()?, words()?);
        let reader = TrieReader {
            first: first.entries.clone(),
            nodes: Nodes::new(words.clone())?,
            wide: wide.reader(),
        };
        let nodes = Builder::new(Pool::new(domain, words, units));
        Ok(TrieWriter { reader, first, wide, nodes, routes: PrefixMap::new(), covered: None, covers: false })
    }

    /// Another handle for readers.
    pub fn reader(&self) -> TrieReader {
        self.reader.clone()
    }

    /// Units of nodes that are neither free nor waiting for readers.
    #[cfg(all(test, not(loom)))]
    pub(super) fn nodes_in_use(&self) -> u32 {
        self.nodes.pool.in_use()
    }

    fn apply(&mut self, change: &Change) -> Result<(), LpmFull> {
        if self.covered.is_some_and(|mark| self.nodes.pool.passed(mark)) {
            self.covered = None;
        }
        self.nodes.pool.removes(!change.adds);
        let done = match change.len {
            0..=WIDE => {
                let Slot { entry, len } = change.to;
                self.wide.paint(change.first_bits(WIDE), entry, len, |old| change.replaces(old));
                Ok(())
            }
            _ if change.len <= BITS => {
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

    /// Gives the prefix's entries of the first table another leaf, and the nodes there another default.
    fn paint_first(&mut self, change: &Change) {
        let (range, to) = (change.first_bits(BITS), change.to(WIDE));
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

    /// Changes what hangs on an entry of the first table.
    fn change_below(&mut self, change: &Change) -> Result<(), LpmFull> {
        let at = change.prefix.bits(0, BITS) as usize;
        let old = Slot { entry: self.first.entries[at].load(Relaxed), len: self.first.len[at] };
        let new = self.change(old, BITS, change)?;
        self.nodes.make_room()?;
        if new != old {
            self.first.touch(at..at + 1);
            self.first.len[at] = new.len;
            // What hangs there is complete: readers may come.
            self.first.entries[at].store(new.entry, Release);
        }
        self.nodes.published();
        Ok(())
    }

    /// What is to be in place of an entry that leads below `depth` bits, for a prefix that is longer.
    fn change(&mut self, slot: Slot, depth: u8, change: &Change) -> Result<Slot, LpmFull> {
        if !slot.is_child() {
            let item = Item {
                first: change.prefix,
                last: change.last(),
                slot: change.to(depth),
                under: Slot::default(),
            };
            return if change.adds { self.nodes.build(depth, slot, &[item]) } else { Ok(slot) };
        }
        if slot.entry & TABLE != 0 {
            self.change_table(slot.entry, depth, change)
        } else {
            self.change_list(slot.entry, depth, change)
        }
    }

    fn change_list(&mut self, list: u32, depth: u8, change: &Change) -> Result<Slot, LpmFull> {
        let mut below = None;
        if let Some((child, child_depth)) = self.nodes.list_child(list, change.prefix)
            && child_depth < change.len
        {
            let new = self.change(Slot { entry: child, len: 0 }, child_depth, change)?;
            if new.entry == child {
                return Ok(Slot { entry: list, len: 0 });
            }
            if new.is_child() {
                let entry = self.nodes.with_list_child(list, change.prefix, new.entry)?;
                return Ok(Slot { entry, len: 0 });
            }
            below = Some((child, new));
        }
        let (default, mut items) = (self.nodes.default(list), Vec::new());
        self.nodes.take_list_apart(list, change.prefix, &mut items);
        match below {
            // The child has nothing left in it.
            Some((child, slot)) => {
                for item in items.iter_mut().filter(|item| item.slot.entry == child) {
                    item.slot = slot;
                }
                items.retain(|item| !item.slot.is_empty());
            }
            None => {
                let (painted, covers) = paint(&items, change, change.to(depth));
                (items, self.covers) = (painted, self.covers | covers);
            }
        }
        merge(&mut items);
        self.nodes.build(depth, default, &items)
    }

    fn change_table(&mut self, table: u32, depth: u8, change: &Change) -> Result<Slot, LpmFull> {
        let start = change.prefix.bits(depth, 8) as u8;
        let mut slots = Vec::new();
        if change.len > depth + 8 {
            let old = self.nodes.table_slot(table, start);
            let new = self.change(old, depth + 8, change)?;
            if new != old {
                slots.push((start, new));
            }
        } else {
            let to = change.to(depth);
            for byte in start..=change.last().bits(depth, 8) as u8 {
                let old = self.nodes.table_slot(table, byte);
                if !old.is_child() && change.replaces(old.len) {
                    slots.push((byte, to));
                } else if old.is_child() && change.replaces(self.nodes.default(old.entry).len) {
                    slots.push((byte, Slot { entry: self.nodes.with_default(old.entry, to)?, len: 0 }));
                    self.covers = true;
                }
            }
        }
        if slots.is_empty() {
            return Ok(Slot { entry: table, len: 0 });
        }
        let stays = change.adds || self.nodes.has_more_than(table, FEW + 2 * slots.len());
        if stays && !self.covers && self.covered.is_none() {
            self.nodes.make_room()?;
            for (byte, slot) in &slots {
                self.nodes.set_table_slot(table, *byte, *slot);
            }
            return Ok(Slot { entry: table, len: 0 });
        }
        let new = self.nodes.with_table_slots(table, &slots)?;
        if change.adds || self.nodes.has_more_than(new, FEW) {
            return Ok(Slot { entry: new, len: 0 });
        }
        let (default, mut items) = (self.nodes.default(new), Vec::new());
        self.nodes.take_table_apart(new, depth, change.prefix, &mut items);
        self.nodes.build(depth, default, &items)
    }
}

/// Gives the addresses of a prefix to it, or takes them away; and says whether a child has another default now.
fn paint(items: &[Item], change: &Change, to: Slot) -> (Vec<Item>, bool) {
    let mut covers = false;
    let (first, last) = (change.prefix, change.last());
    let mut new = Vec::with_capacity(items.len() + 2);
    let mut add = |first: u128, last: u128, item: &Item| {
        if !item.slot.is_empty() {
            new.push(Item { first, last, ..*item });
        }
    };
    let mine = Item { first, last, slot: to, under: Slot::default() };
    // The first address of the prefix that no item was found for; none when all have one.
    let mut open = Some(first).filter(|_| change.adds);
    for item in items {
        if item.first > last || item.last < first {
            if item.first > last
                && let Some(from) = open.take()
            {
                add(from, last, &mine);
            }
            add(item.first, item.last, item);
            continue;
        }
        if let Some(from) = open
            && from < item.first
        {
            add(from, item.first - 1, &mine);
        }
        open = open.and(item.last.checked_add(1)).filter(|next| *next <= last);
        if item.slot.is_child() {
            let under = if change.replaces(item.under.len) { to } else { item.under };
            covers |= under != item.under;
            add(item.first, item.last, &Item { under, ..*item });
        } else if change.replaces(item.slot.len) {
            if item.first < first {
                add(item.first, first - 1, item);
            }
            add(item.first.max(first), item.last.min(last), &mine);
            if item.last > last {
                add(last + 1, item.last, item);
            }
        } else {
            add(item.first, item.last, item);
        }
    }
    if let Some(from) = open {
        add(from, last, &mine);
    }
    (new, covers)
}

impl Lpm for TrieWriter {
    type Addr = u128;

    fn insert(&mut self, prefix: u128, len: u8, leaf: u32) -> Result<Option<u32>, LpmFull> {
        let (prefix, len) = prefix.canonical(len);
        if leaf == NO_ROUTE || leaf > MAX_LEAF {
            return Err(LpmFull::Leaf(leaf));
        }
        self.routes.make_room(prefix, len)?;
        self.apply(&Change { prefix, len, to: Slot { entry: leaf, len }, adds: true })?;
        Ok(self.routes.insert(prefix, len, leaf))
    }

    fn remove(&mut self, prefix: u128, len: u8) -> Option<u32> {
        let (prefix, len) = prefix.canonical(len);
        let old = self.routes.get(prefix, len)?;
        // Beside the table, in the first table and below it only prefixes of such lengths count; where there is none,
        // what is there says nothing.
        let least = match len {
            ..=WIDE => 0,
            _ if len <= BITS => WIDE + 1,
            _ => BITS + 1,
        };
        let (entry, cover_len) = self.routes.cover(prefix, len, least).unwrap_or((NO_ROUTE, 0));
        self.apply(&Change { prefix, len, to: Slot { entry, len: cover_len }, adds: false }).ok()?;
        self.routes.remove(prefix, len);
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
            + self.nodes.pool.memory_bytes()
            + self.routes.memory_bytes()
    }
}
