//! Changes nodes below the first table.

use super::{
    build::Item,
    change::{Change, Slot},
    list::List,
    node::{CHILD, INNER, INTERVALS, TABLE},
    runs::Paint,
    writer::TrieWriter,
};
use crate::lpm::{Address, LpmFull};

/// Removing a route turns a table into a list if the table then has at most this many places where neighboring entries differ.
const FEW: usize = 6;
/// Minimum number of intervals of an inner list (the second level of a list) after the removal of a route. An inner list with fewer
/// intervals is merged into the rest of the list.
const LEAST: usize = 3;

impl TrieWriter {
    /// Applies `change` below `slot`, and returns the slot that replaces it. `slot` is for all addresses with the same first
    /// `depth` bits; the changed prefix has more than `depth` bits.
    pub(super) fn change(&mut self, slot: Slot, depth: u8, change: &Change) -> Result<Slot, LpmFull> {
        match () {
            () if slot.is_child() && slot.entry & TABLE != 0 => self.change_table(slot.entry, depth, change),
            () if slot.is_child() => self.change_list(slot.entry, depth, change),
            () if change.adds => self.nodes.build_one(depth, slot, change.prefix, change.to),
            () => Ok(slot),
        }
    }

    /// Like [`change`](Self::change), for a slot of a node that has prefixes longer than `at` bits.
    ///
    /// Longer prefixes may together cover all addresses below the slot. They then hide the prefix that covers the slot as a whole,
    /// and a node built in this state does not have the hidden prefix as its default. When one of the longer prefixes is removed,
    /// this function sets the default.
    fn change_child(&mut self, slot: Slot, at: u8, depth: u8, change: &Change) -> Result<Slot, LpmFull> {
        let mut entry = slot.entry;
        if slot.is_child() && !change.adds && (at + 1..=depth).contains(&change.to.len) {
            entry = self.nodes.with_default(entry, change.to)?;
            self.covers |= entry != slot.entry;
        }
        self.change(Slot { entry, ..slot }, depth, change)
    }

    /// Returns the slot that replaces `slot`, whose addresses are all in the changed prefix. If the change
    /// [replaces](Change::replaces) the leaf in `slot`, the result is `to`. If the change replaces the default of the child in
    /// `slot`, the result is the child with the default `to`. Otherwise the result is `slot`.
    fn cover(&mut self, slot: Slot, to: Slot, change: &Change) -> Result<Slot, LpmFull> {
        if !slot.is_child() {
            return Ok(if change.replaces(slot.len) { to } else { slot });
        }
        if !change.replaces(self.nodes.default(slot.entry).len) {
            return Ok(slot);
        }
        let entry = self.nodes.with_default(slot.entry, to)?;
        self.covers |= entry != slot.entry;
        Ok(Slot::child(entry))
    }

    fn change_table(&mut self, table: u32, at: u8, change: &Change) -> Result<Slot, LpmFull> {
        let same = Slot::child(table);
        let depth = at + 8;
        let first = change.prefix.bits(at, 8) as u8;
        if change.len > depth {
            let old = self.nodes.table_slot(table, first);
            let new = self.change_child(old, at, depth, change)?;
            return if new == old { Ok(same) } else { self.set_in_table(table, at, change, &[(first, new)]) };
        }
        let mut slots = Vec::new();
        for byte in first..=change.last().bits(at, 8) as u8 {
            let old = self.nodes.table_slot(table, byte);
            let new = self.cover(old, change.to(at), change)?;
            if new != old {
                slots.push((byte, new));
            }
        }
        if slots.is_empty() { Ok(same) } else { self.set_in_table(table, at, change, &slots) }
    }

    fn set_in_table(
        &mut self,
        table: u32,
        at: u8,
        change: &Change,
        slots: &[(u8, Slot)],
    ) -> Result<Slot, LpmFull> {
        let stays = change.adds || self.nodes.has_more_than(table, FEW + 2 * slots.len());
        if stays && self.in_place() {
            self.nodes.make_room()?;
            for (byte, slot) in slots {
                self.nodes.set_table_slot(table, *byte, *slot);
            }
            return Ok(Slot::child(table));
        }
        let new = self.nodes.with_table_slots(table, slots)?;
        if change.adds || self.nodes.has_more_than(new, FEW) {
            return Ok(Slot::child(new));
        }
        let (default, mut items) = (self.nodes.default(new), Vec::new());
        self.nodes.take_table_apart(new, at, change.prefix, &mut items);
        self.nodes.build(at, default, &items)
    }

    fn change_list(&mut self, list: u32, at: u8, change: &Change) -> Result<Slot, LpmFull> {
        let depth = self.nodes.depth(list);
        let mut put = None;
        if change.len > depth
            && let Some(child) = self.child_in_list(list, depth, change.prefix)
        {
            let new = self.change_child(Slot::child(child), at, depth, change)?;
            if new.entry == child {
                return Ok(Slot::child(list));
            }
            put = Some(new);
        }
        let l = self.nodes.read_list(list);
        let points = l.points(change);
        if change.len > depth && put.is_none() {
            if !change.adds {
                return Ok(Slot::child(list));
            }
            // If the list has no children yet, build the nodes anew: a list of another depth may need no children, or fewer of them later.
            if !l.intervals().iter().any(|(_, slot)| slot.is_child()) || !l.reaches(&points) {
                return self.build_anew(list, &l, at, change);
            }
            let old = self.nodes.list_slot(&l, points.start);
            put = Some(self.change(old, depth, change)?);
        }
        let paint = Paint { points, change, to: change.to(at), put };
        if let Some(new) = self.change_line(list, &l, &paint)? {
            return Ok(Slot::child(new));
        }
        self.nodes.take_apart(list, &l, &paint, &mut self.runs);
        self.cover_children(&paint)?;
        self.nodes.build_runs(at, l.default, l.origin(change.prefix), l.depth, &self.runs)
    }

    /// Returns the child for an address in a list of one or two levels; `None` if there is a leaf or nothing.
    fn child_in_list(&self, list: u32, depth: u8, address: u128) -> Option<u32> {
        let child = self.reader.nodes.in_list(list, &address).entry;
        match child & CHILD {
            0 => None,
            _ if child & TABLE == 0 && self.nodes.depth(child) == depth => {
                self.child_in_list(child, depth, address)
            }
            _ => Some(child),
        }
    }

    /// Builds new nodes with the best depth, from the contents of a list and the changed prefix. The prefix must cover none of
    /// these contents.
    fn build_anew(&mut self, list: u32, l: &List, at: u8, change: &Change) -> Result<Slot, LpmFull> {
        let none = Paint { points: 0..0, change, to: change.to, put: None };
        self.nodes.take_apart(list, l, &none, &mut self.runs);
        let mut items = self.nodes.items(l.origin(change.prefix), l.depth, &self.runs);
        Item::insert(&mut items, change.prefix, change.to);
        self.nodes.build(at, l.default, &items)
    }

    /// Tries to make the changes of `paint` in a list by changing a single cache line. Returns the list, or the list that replaces
    /// it; `None` if one line is not enough.
    fn change_line(&mut self, list: u32, l: &List, paint: &Paint) -> Result<Option<u32>, LpmFull> {
        let held = l.holding(&paint.points);
        if let Some((n, _)) = held
            && l.slot(n).is_inner()
        {
            let inner = l.slot(n).entry;
            let of = self.nodes.read_list(inner);
            let new = self.change_line(inner, &of, &paint.behind(l.offset(&of)))?;
            return match new {
                Some(new) if new == inner => Ok(Some(list)),
                Some(entry) => self.set_in_list(list, l, n, Slot { entry, len: INNER }).map(Some),
                None => Ok(None),
            };
        }
        if l.intervals().iter().any(|(_, slot)| slot.is_inner()) {
            return Ok(None);
        }
        if let Some((n, true)) = held {
            let old = l.slot(n);
            let new = match paint.put {
                Some(new) => new,
                None => self.cover(old, paint.to, paint.change)?,
            };
            if new == old {
                return Ok(Some(list));
            }
            if new.is_child() || paint.change.adds {
                return self.set_in_list(list, l, n, new).map(Some);
            }
        }
        self.runs.open(paint);
        self.runs.add_list(l, 0, paint);
        self.runs.close(paint);
        let least = if paint.change.adds { 1 } else { LEAST };
        if !(least..=INTERVALS).contains(&self.runs.all.len()) || !self.runs.fit() {
            return Ok(None);
        }
        self.cover_children(paint)?;
        self.nodes.give_up(list);
        let origin = l.origin(paint.change.prefix);
        self.nodes.levels(origin, l.depth, l.default, self.runs.start, &self.runs.all).map(Some)
    }

    /// Sets the new default in the children that the change covers.
    fn cover_children(&mut self, paint: &Paint) -> Result<(), LpmFull> {
        if paint.put.is_some() {
            return Ok(());
        }
        let mut start = self.runs.start;
        for n in 0..self.runs.all.len() {
            let (end, slot) = self.runs.all[n];
            if slot.is_child() && start < paint.points.end && paint.points.start < end {
                self.runs.all[n].1 = self.cover(slot, paint.to, paint.change)?;
            }
            start = end;
        }
        Ok(())
    }

    /// Sets `slot` in interval `n` of a list. Returns the list, or the copy that replaces it if published
    /// entries must not change.
    fn set_in_list(&mut self, list: u32, l: &List, n: usize, slot: Slot) -> Result<u32, LpmFull> {
        let new = if self.in_place() {
            self.nodes.make_room()?;
            list
        } else {
            self.nodes.copy(list)?
        };
        self.nodes.set_list_slot(new, l, n, slot);
        Ok(new)
    }
}
