//! Allocates, changes and replaces nodes, for the writer.

use super::{
    change::Slot,
    node::{CHILD, TABLE, TABLE_ENTRIES, TABLE_LENGTHS, unit},
    pool::{Block, Pool, Size, UNIT},
};
use crate::lpm::LpmFull;

/// The nodes and their memory, as the writer uses them.
pub(super) struct Builder {
    pub pool: Pool,
    /// Blocks allocated since the last publication.
    fresh: Vec<Block>,
    /// Blocks that readers cannot find any more after the next publication.
    stale: Vec<Block>,
}

impl Builder {
    pub fn new(pool: Pool) -> Builder {
        Builder { pool, fresh: Vec::new(), stale: Vec::new() }
    }

    /// Reserves memory so that [`published`](Self::published) cannot fail.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn make_room(&mut self) -> Result<(), LpmFull> {
        self.pool.make_room(self.stale.len())
    }

    /// Retires the nodes that were replaced. The caller must have published the new nodes.
    pub fn published(&mut self) {
        self.fresh.clear();
        if !self.stale.is_empty() {
            self.pool.retire(self.stale.drain(..));
        }
    }

    /// Frees the new nodes if a change failed before they were published. The nodes that they would have
    /// replaced stay.
    pub fn abandoned(&mut self) {
        self.stale.clear();
        for block in self.fresh.drain(..) {
            self.pool.give_back(block);
        }
    }

    /// Allocates a block for a new node.
    pub fn take(&mut self, size: Size) -> Result<u32, LpmFull> {
        let unit = self.pool.take(size)?;
        self.fresh.push((unit, size));
        Ok(unit)
    }

    pub fn half(&self, unit: u32, at: usize) -> u32 {
        (self.pool.get(unit, at / 2) >> (at % 2 * 32)) as u32
    }

    pub fn set_half(&mut self, unit: u32, at: usize, value: u32) {
        let keep = u64::from(u32::MAX) << ((1 - at % 2) * 32);
        let word = self.pool.get(unit, at / 2) & keep | u64::from(value) << (at % 2 * 32);
        self.pool.set(unit, at / 2, word);
    }

    pub fn byte(&self, unit: u32, word: usize, at: usize) -> u8 {
        (self.pool.get(unit, word + at / 8) >> (at % 8 * 8)) as u8
    }

    pub fn set_byte(&mut self, unit: u32, word: usize, at: usize, value: u8) {
        let shift = at % 8 * 8;
        let old = self.pool.get(unit, word + at / 8);
        self.pool.set(unit, word + at / 8, old & !(0xff << shift) | u64::from(value) << shift);
    }

    /// True if the list at `unit` has a single interval, and so takes half a cache line.
    pub fn is_half(&self, unit: u32) -> bool {
        self.pool.get(unit, 1) as u32 >> 16 == 0
    }

    fn size(&self, child: u32) -> Size {
        match () {
            () if child & TABLE != 0 => Size::Table,
            () if self.is_half(unit(child)) => Size::Half,
            () => Size::Line,
        }
    }

    /// Returns the default of a child.
    pub fn default(&self, child: u32) -> Slot {
        let at = unit(child);
        match self.size(child) {
            Size::Half => Slot { entry: self.half(at, 6), len: self.byte(at, 1, 5) },
            Size::Line => Slot { entry: self.half(at, 6), len: self.byte(at, 7, 7) },
            Size::Table => Slot { entry: self.half(at, 0), len: self.half(at, 1) as u8 },
        }
    }

    /// Sets the default of a child, in the child's own memory.
    pub fn set_default(&mut self, child: u32, default: Slot) {
        let at = unit(child);
        match self.size(child) {
            Size::Half => self.set_byte(at, 1, 5, default.len),
            Size::Line => self.set_byte(at, 7, 7, default.len),
            Size::Table => {
                return self.pool.set(at, 0, u64::from(default.len) << 32 | u64::from(default.entry));
            }
        }
        self.set_half(at, 6, default.entry);
    }

    /// Returns a child with the default `default`: `child` itself if this is its default, otherwise a copy
    /// that replaces it.
    pub fn with_default(&mut self, child: u32, default: Slot) -> Result<u32, LpmFull> {
        if self.default(child) == default {
            return Ok(child);
        }
        let copy = self.copy(child)?;
        self.set_default(copy, default);
        Ok(copy)
    }

    /// Replaces a child by a copy, and returns the copy.
    pub fn copy(&mut self, child: u32) -> Result<u32, LpmFull> {
        let size = self.size(child);
        let (from, to) = (unit(child), self.take(size)?);
        for word in 0..size.units() as usize * UNIT {
            self.pool.set(to, word, self.pool.get(from, word));
        }
        self.stale.push((from, size));
        Ok(child ^ from ^ to)
    }

    /// Marks a child as replaced: readers cannot find it after the next publication.
    pub fn give_up(&mut self, child: u32) {
        self.stale.push((unit(child), self.size(child)));
    }

    /// Returns the entry of the table `child` for this byte of an address.
    pub fn table_slot(&self, child: u32, byte: u8) -> Slot {
        let at = unit(child);
        let entry = self.half(at, 2 * TABLE_ENTRIES + usize::from(byte));
        // A child's length is 0 and need not be read.
        Slot { entry, len: if entry & CHILD == 0 { self.byte(at, TABLE_LENGTHS, byte.into()) } else { 0 } }
    }

    /// True if the table `child` has more than `n` places where neighboring entries differ.
    pub fn has_more_than(&self, child: u32, n: usize) -> bool {
        let slot = |byte| self.table_slot(child, byte);
        (1..=255).filter(|byte| slot(*byte) != slot(byte - 1)).nth(n).is_some()
    }

    /// Sets the entry of a table for this byte of an address. Readers see the old or the new entry.
    pub fn set_table_slot(&mut self, child: u32, byte: u8, slot: Slot) {
        self.set_half(unit(child), 2 * TABLE_ENTRIES + usize::from(byte), slot.entry);
        self.set_byte(unit(child), TABLE_LENGTHS, byte.into(), slot.len);
    }

    /// Replaces the table `child` by a copy, and sets `slots` in the copy, each for a byte of an address.
    /// Returns the copy.
    pub fn with_table_slots(&mut self, child: u32, slots: &[(u8, Slot)]) -> Result<u32, LpmFull> {
        let copy = self.copy(child)?;
        for (byte, slot) in slots {
            self.set_table_slot(copy, *byte, *slot);
        }
        Ok(copy)
    }
}
