//! Builds nodes from their contents.

use super::{
    change::Slot,
    cut::{Piece, What, apart, cut_up, intervals},
    node::{INTERVALS, table, unit},
    pool::{Size, UNIT},
    runs::Runs,
    store::Builder,
};
use crate::lpm::{Address, LpmFull};
use std::borrow::Cow;

/// Maximum number of intervals in two levels of lists. For more intervals, a table is built.
pub(super) const MOST: usize = INTERVALS * INTERVALS;

/// A range of addresses that have the same leaf, or are below the same child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub first: u128,
    pub last: u128,
    /// A leaf, or a child. For a child, the slot's `len` is the number of first bits that all addresses below the child have in
    /// common.
    pub slot: Slot,
    /// If `slot` is a child: the default of the child.
    pub under: Slot,
}

/// The contents that a list would have if it were built with the depth `depth`.
struct Cuts<'i> {
    /// Number of pieces that need a node below the list.
    below: usize,
    depth: u8,
    items: Cow<'i, [Item]>,
    pieces: Vec<Piece>,
}

impl Builder {
    /// Adds the contents of the table `child` to `items`, and marks the table as replaced.
    pub fn take_table_apart(&mut self, child: u32, depth: u8, path: u128, items: &mut Vec<Item>) {
        self.give_up(child);
        for byte in 0..=255 {
            let slot = self.table_slot(child, byte);
            if !slot.is_empty() {
                let first = path & u128::mask(depth) | u128::from(byte).up(120 - depth);
                items.push(self.item(first, first.last(depth + 8), slot, depth + 8));
            }
        }
        merge(items);
    }

    fn item(&self, first: u128, last: u128, slot: Slot, depth: u8) -> Item {
        match slot.is_child() {
            true => Item { first, last, slot: Slot { len: depth, ..slot }, under: self.default(slot.entry) },
            false => Item { first, last, slot, under: Slot::default() },
        }
    }

    /// Builds nodes with these items, and with `default` for all other addresses. The items are in order. All items have prefixes
    /// longer than `at` bits, and all their addresses have the same first `at` bits.
    pub fn build(&mut self, at: u8, default: Slot, items: &[Item]) -> Result<Slot, LpmFull> {
        let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(default) };
        let longest = items.iter().map(|item| item.slot.len).max().unwrap_or(128);
        let children = items.iter().filter(|item| item.slot.is_child());
        let deepest = children.map(|item| item.slot.len).min().unwrap_or(128);
        let most = longest.next_multiple_of(8).min(deepest).min(at.saturating_add(64));
        let mut best: Option<Cuts<'_>> = None;
        for depth in (at + 8..=most).rev().step_by(8) {
            if last.last.down(128 - depth) - first.first.down(128 - depth) >= u128::from(u16::MAX) {
                continue;
            }
            let items = apart(items, depth);
            let pieces = cut_up(&items, depth);
            let below = pieces.iter().filter(|p| matches!(p.what, What::Below(..))).count();
            if intervals(&pieces) <= MOST && best.as_ref().is_none_or(|best| below < best.below) {
                let done = below == 0;
                best = Some(Cuts { below, depth, items, pieces });
                if done {
                    break;
                }
            }
        }
        if let Some(Cuts { depth, items, pieces, .. }) = best {
            return self.build_list(depth, default, &items, &pieces);
        }
        let entry = table(self.take(Size::Table)?, at);
        for word in 0..Size::Table.units() as usize * UNIT {
            self.pool.set(unit(entry), word, 0);
        }
        self.set_default(entry, default);
        let start = first.first.down(120 - at) as u8;
        let items = apart(items, at + 8);
        for piece in cut_up(&items, at + 8) {
            let slot = self.slot(&piece, at + 8, &items)?;
            for point in piece.points {
                self.set_table_slot(entry, start + point as u8, slot);
            }
        }
        Ok(Slot { entry, len: 0 })
    }

    /// Returns the slot for a piece of a node's contents. If the piece has items with prefixes longer than `depth`, builds a node
    /// for them.
    fn slot(&mut self, piece: &Piece, depth: u8, items: &[Item]) -> Result<Slot, LpmFull> {
        match &piece.what {
            What::Whole(item) if item.slot.is_child() => {
                Ok(Slot { entry: self.with_default(item.slot.entry, item.under)?, len: 0 })
            }
            What::Whole(item) => Ok(item.slot),
            What::Below(range, under) => {
                let longer = items[range.clone()].iter().filter(|item| item.slot.len > depth);
                let below: Vec<_> = longer.map(|item| item.without_shorter(depth)).collect();
                let slot = self.build(depth, *under, &below)?;
                Ok(if slot.is_child() { Slot { len: 0, ..slot } } else { slot })
            }
        }
    }

    fn build_list(
        &mut self,
        depth: u8,
        default: Slot,
        items: &[Item],
        pieces: &[Piece],
    ) -> Result<Slot, LpmFull> {
        let mut all = Vec::with_capacity(intervals(pieces));
        let mut end = 0;
        for piece in pieces {
            if piece.points.start > end {
                all.push((piece.points.start.into(), Slot::default()));
            }
            all.push((piece.points.end.into(), self.slot(piece, depth, items)?));
            end = piece.points.end;
        }
        let origin = items.first().map_or(0, |item| item.first);
        Ok(Slot::child(self.levels(origin, depth, default, 0, &all)?))
    }

    /// Builds nodes for a single prefix longer than `at`, with `default` for all other addresses.
    pub fn build_one(&mut self, at: u8, default: Slot, prefix: u128, to: Slot) -> Result<Slot, LpmFull> {
        let depth = to.len.next_multiple_of(8).min(at.saturating_add(64));
        let points = 1 << depth.saturating_sub(to.len);
        let slot = if to.len > depth { self.build_one(depth, Slot::default(), prefix, to)? } else { to };
        Ok(Slot::child(self.levels(prefix, depth, default, 0, &[(points, slot)])?))
    }

    /// Builds nodes from `runs`, the contents of a list. `depth` is the list's depth in bits. Points of `runs` are counted from the
    /// address `origin`.
    pub fn build_runs(
        &mut self,
        at: u8,
        default: Slot,
        origin: u128,
        depth: u8,
        runs: &Runs,
    ) -> Result<Slot, LpmFull> {
        if runs.all.is_empty() {
            return Ok(default);
        }
        if runs.fit() {
            return Ok(Slot::child(self.levels(origin, depth, default, runs.start, &runs.all)?));
        }
        let items = self.items(origin, depth, runs);
        self.build(at, default, &items)
    }

    /// Converts `runs`, the contents of a list, to items. `depth` is the list's depth in bits. Points of `runs` are counted from
    /// the address `origin`.
    pub fn items(&self, origin: u128, depth: u8, runs: &Runs) -> Vec<Item> {
        let address = |point: i128| origin.wrapping_add((point as u128).up(128 - depth));
        let (mut items, mut start) = (Vec::with_capacity(runs.all.len() + 1), runs.start);
        for (end, slot) in &runs.all {
            if !slot.is_empty() {
                items.push(self.item(address(start), address(end - 1).last(depth), *slot, depth));
            }
            start = *end;
        }
        items
    }
}

impl Item {
    /// Adds a prefix to ordered items. The prefix must be inside one of the items, or overlap none.
    pub fn insert(items: &mut Vec<Item>, prefix: u128, slot: Slot) {
        let new = Item { first: prefix, last: prefix.last(slot.len), slot, under: Slot::default() };
        let at = items.partition_point(|item| item.last < new.first);
        let around = items.get(at).copied().filter(|item| item.first <= new.first);
        let before =
            around.filter(|item| item.first < new.first).map(|item| Item { last: new.first - 1, ..item });
        let behind =
            around.filter(|item| item.last > new.last).map(|item| Item { first: new.last + 1, ..item });
        let parts = before.into_iter().chain([new]).chain(behind);
        items.splice(at..at + usize::from(around.is_some()), parts);
    }

    /// Returns a copy of the item. If its default is from a prefix of at most `depth` bits, the copy has no default, because the node above
    /// then has the same default.
    fn without_shorter(&self, depth: u8) -> Item {
        let under = if self.under.len > depth { self.under } else { Slot::default() };
        Item { under, ..*self }
    }
}

/// Merges neighbors that have the same leaf and no addresses between them.
pub(super) fn merge(items: &mut Vec<Item>) {
    items.dedup_by(|next, item| {
        let alike =
            next.slot == item.slot && !item.slot.is_child() && item.last.wrapping_add(1) == next.first;
        if alike {
            item.last = next.last;
        }
        alike
    });
}
