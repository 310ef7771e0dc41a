//! Nodes from what is in them, and back.

use super::{
    node::{CHILD, INTERVALS, TABLE, TABLE_ENTRIES, TABLE_LENGTHS, cut, depth, list, table, unit},
    pool::{Block, Pool, Size},
};
use crate::lpm::{Address, LpmFull};
use std::ops::Range;

/// So many intervals are in two levels of lists; where there are more is a table.
const MOST: usize = INTERVALS * INTERVALS;

/// An entry, and the length of the prefix behind it: 0 for none. A child has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    pub entry: u32,
    pub len: u8,
}

impl Slot {
    pub fn is_child(self) -> bool {
        self.entry & CHILD != 0
    }

    pub fn is_empty(self) -> bool {
        self.entry == 0
    }
}

/// Addresses with one leaf, or below one child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub first: u128,
    pub last: u128,
    /// The leaf; or the child, and how many bits of its addresses are the same.
    pub slot: Slot,
    /// Under a child: its default.
    pub under: Slot,
}

/// A list by its parts.
struct List {
    base: u64,
    depth: u8,
    /// The intervals' ends and entries, the first first.
    intervals: [(u16, Slot); INTERVALS],
    n: usize,
    default: Slot,
}

impl List {
    /// Address of the interval that begins at `at`; `path` is any address below the list.
    fn address(&self, at: u16, path: u128) -> u128 {
        let behind = 8 * cut(self.depth).0;
        let base = path & u128::mask(64 - behind) | u128::from(self.base).up(behind);
        base.wrapping_add(u128::from(at).up(128 - self.depth))
    }

    /// Which interval an address is in.
    fn find(&self, address: u128) -> Option<usize> {
        let (bytes, bits) = cut(self.depth);
        let at = (address.down(8 * bytes) as u64).wrapping_sub(self.base) >> bits;
        (0..self.n).find(|n| at < u64::from(self.intervals[*n].0))
    }
}

/// A piece of what is in a node, in addresses cut to its depth, counted from the first.
struct Piece {
    points: Range<u64>,
    what: What,
}

enum What {
    /// This is all there is.
    Whole(Item),
    /// There is more below: the items in this range that are longer, over this one.
    Below(Range<usize>, Slot),
}

/// The nodes, as the writer sees them.
pub(super) struct Builder {
    pub pool: Pool,
    /// Blocks that were taken since the last publication.
    fresh: Vec<Block>,
    /// Blocks that will no longer be found after the next one.
    stale: Vec<Block>,
}

impl Builder {
    pub fn new(pool: Pool) -> Builder {
        Builder { pool, fresh: Vec::new(), stale: Vec::new() }
    }

    /// Makes sure that [`published`](Self::published) cannot fail.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn make_room(&mut self) -> Result<(), LpmFull> {
        self.pool.make_room(self.stale.len())
    }

    /// What was built is where readers find it.
    pub fn published(&mut self) {
        self.fresh.clear();
        if !self.stale.is_empty() {
            self.pool.retire(self.stale.drain(..));
        }
    }

    /// What was built will not be used.
    pub fn abandoned(&mut self) {
        self.stale.clear();
        for block in self.fresh.drain(..) {
            self.pool.give_back(block);
        }
    }

    fn take(&mut self, size: Size) -> Result<u32, LpmFull> {
        let unit = self.pool.take(size)?;
        self.fresh.push((unit, size));
        Ok(unit)
    }

    fn half(&self, unit: u32, at: usize) -> u32 {
        (self.pool.get(unit, at / 2) >> (at % 2 * 32)) as u32
    }

    fn set_half(&mut self, unit: u32, at: usize, value: u32) {
        let keep = u64::from(u32::MAX) << ((1 - at % 2) * 32);
        let word = self.pool.get(unit, at / 2) & keep | u64::from(value) << (at % 2 * 32);
        self.pool.set(unit, at / 2, word);
    }

    fn byte(&self, unit: u32, word: usize, at: usize) -> u8 {
        (self.pool.get(unit, word + at / 8) >> (at % 8 * 8)) as u8
    }

    fn set_byte(&mut self, unit: u32, word: usize, at: usize, value: u8) {
        let shift = at % 8 * 8;
        let old = self.pool.get(unit, word + at / 8);
        self.pool.set(unit, word + at / 8, old & !(0xff << shift) | u64::from(value) << shift);
    }

    /// Whether a list has one interval only.
    fn is_half(&self, unit: u32) -> bool {
        self.pool.get(unit, 1) as u32 >> 16 == 0
    }

    fn size(&self, child: u32) -> Size {
        match () {
            () if child & TABLE != 0 => Size::Table,
            () if self.is_half(unit(child)) => Size::Half,
            () => Size::Line,
        }
    }

    /// How many bits the addresses of a list are cut to.
    fn depth(&self, child: u32) -> u8 {
        let high = self.pool.get(unit(child), 2);
        depth(((high >> 48) as u8, (high >> 56) as u8))
    }

    /// Whether the entry of a list of this depth leads to more intervals of the same list.
    fn is_inner(&self, slot: Slot, depth: u8) -> bool {
        slot.is_child() && slot.entry & TABLE == 0 && self.depth(slot.entry) == depth
    }

    /// The default of a child.
    pub fn default(&self, child: u32) -> Slot {
        let at = unit(child);
        match self.size(child) {
            Size::Half => Slot { entry: self.half(at, 6), len: self.byte(at, 1, 5) },
            Size::Line => Slot { entry: self.half(at, 6), len: self.byte(at, 7, 7) },
            Size::Table => Slot { entry: self.half(at, 0), len: self.half(at, 1) as u8 },
        }
    }

    /// Sets the default of a child in its place.
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

    /// The child with another default.
    pub fn with_default(&mut self, child: u32, default: Slot) -> Result<u32, LpmFull> {
        if self.default(child) == default {
            return Ok(child);
        }
        let copy = self.copy(child)?;
        self.set_default(copy, default);
        Ok(copy)
    }

    /// A copy of a child in place of it.
    fn copy(&mut self, child: u32) -> Result<u32, LpmFull> {
        let size = self.size(child);
        let (from, to) = (unit(child), self.take(size)?);
        for word in 0..size.units() as usize * super::pool::UNIT {
            self.pool.set(to, word, self.pool.get(from, word));
        }
        self.stale.push((from, size));
        Ok(child ^ from ^ to)
    }

    fn read_list(&self, child: u32) -> List {
        let at = unit(child);
        let lanes = u128::from(self.pool.get(at, 2)) << 64 | u128::from(self.pool.get(at, 1));
        let end = |lane: usize| (lanes >> (16 * lane)) as u16;
        let n = if self.is_half(at) {
            1
        } else {
            (0..INTERVALS).find(|lane| end(*lane) == 0).unwrap_or(INTERVALS)
        };
        let len = |lane: usize| if n == 1 { self.byte(at, 1, 4) } else { self.byte(at, 7, lane) };
        let mut intervals = [(0, Slot::default()); INTERVALS];
        for (interval, lane) in intervals.iter_mut().zip((0..n).rev()) {
            *interval = (end(lane), Slot { entry: self.half(at, 7 + lane), len: len(lane) });
        }
        List {
            base: self.pool.get(at, 0),
            depth: self.depth(child),
            intervals,
            n,
            default: self.default(child),
        }
    }

    fn write_list(&mut self, l: &List) -> Result<u32, LpmFull> {
        let size = if l.n == 1 { Size::Half } else { Size::Line };
        let at = self.take(size)?;
        let (bytes, bits) = cut(l.depth);
        let mut lanes = u128::from(bytes) << 112 | u128::from(bits) << 120;
        let mut halves = [0; INTERVALS + 1];
        let mut lengths = 0;
        for (lane, (end, slot)) in l.intervals[..l.n].iter().rev().enumerate() {
            lanes |= u128::from(*end) << (16 * lane);
            halves[lane + 1] = slot.entry;
            lengths |= u64::from(slot.len) << (8 * lane);
        }
        halves[0] = l.default.entry;
        if size == Size::Half {
            lanes |= u128::from(lengths) << 32 | u128::from(l.default.len) << 40;
        } else {
            self.pool.set(at, 7, lengths | u64::from(l.default.len) << 56);
        }
        self.pool.set(at, 0, l.base);
        self.pool.set(at, 1, lanes as u64);
        self.pool.set(at, 2, (lanes >> 64) as u64);
        for (word, pair) in halves.chunks(2).take(if size == Size::Half { 1 } else { 4 }).enumerate() {
            self.pool.set(at, 3 + word, u64::from(pair[1]) << 32 | u64::from(pair[0]));
        }
        Ok(list(at))
    }

    /// Adds what is in a list to `items`, and gives the list's nodes up.
    pub fn take_list_apart(&mut self, child: u32, path: u128, items: &mut Vec<Item>) {
        let l = self.read_list(child);
        self.stale.push((unit(child), self.size(child)));
        let mut first = 0;
        for (end, slot) in &l.intervals[..l.n] {
            if self.is_inner(*slot, l.depth) {
                self.take_list_apart(slot.entry, path, items);
            } else if !slot.is_empty() {
                let last = l.address(end - 1, path).last(l.depth);
                items.push(self.item(l.address(first, path), last, *slot, l.depth));
            }
            first = *end;
        }
    }

    /// Adds what is in a table to `items`, and gives the table up.
    pub fn take_table_apart(&mut self, child: u32, depth: u8, path: u128, items: &mut Vec<Item>) {
        self.stale.push((unit(child), Size::Table));
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

    /// The entry of a table for a byte.
    pub fn table_slot(&self, child: u32, byte: u8) -> Slot {
        let at = unit(child);
        let entry = self.half(at, 2 * TABLE_ENTRIES + usize::from(byte));
        Slot { entry, len: self.byte(at, TABLE_LENGTHS, byte.into()) }
    }

    /// Whether a table has more than `n` intervals of equal entries.
    pub fn has_more_than(&self, child: u32, n: usize) -> bool {
        let slot = |byte| self.table_slot(child, byte);
        (1..=255).filter(|byte| slot(*byte) != slot(byte - 1)).nth(n).is_some()
    }

    /// Sets the entry of a table, of which readers may see one or the other.
    pub fn set_table_slot(&mut self, child: u32, byte: u8, slot: Slot) {
        self.set_half(unit(child), 2 * TABLE_ENTRIES + usize::from(byte), slot.entry);
        self.set_byte(unit(child), TABLE_LENGTHS, byte.into(), slot.len);
    }

    /// A table with other entries for some bytes, in place of this one.
    pub fn with_table_slots(&mut self, child: u32, slots: &[(u8, Slot)]) -> Result<u32, LpmFull> {
        let copy = self.copy(child)?;
        for (byte, slot) in slots {
            self.set_table_slot(copy, *byte, *slot);
        }
        Ok(copy)
    }

    /// The child of a list on an address's way, below all of the list's levels, and its depth.
    pub fn list_child(&self, child: u32, address: u128) -> Option<(u32, u8)> {
        let l = self.read_list(child);
        let (_, slot) = l.intervals[l.find(address)?];
        match slot {
            _ if self.is_inner(slot, l.depth) => self.list_child(slot.entry, address),
            _ if slot.is_child() => Some((slot.entry, l.depth)),
            _ => None,
        }
    }

    /// The list with another child on an address's way, in place of this one.
    pub fn with_list_child(&mut self, child: u32, address: u128, new: u32) -> Result<u32, LpmFull> {
        let mut l = self.read_list(child);
        self.stale.push((unit(child), self.size(child)));
        if let Some(n) = l.find(address) {
            let slot = l.intervals[n].1;
            let inner = self.is_inner(slot, l.depth);
            l.intervals[n].1.entry =
                if inner { self.with_list_child(slot.entry, address, new)? } else { new };
        }
        self.write_list(&l)
    }

    /// Makes nodes of items, in order and longer than `depth`, the number of bits in which all of them are the same; and
    /// over a default.
    pub fn build(&mut self, at: u8, default: Slot, items: &[Item]) -> Result<Slot, LpmFull> {
        let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(default) };
        let longest = items.iter().map(|item| item.slot.len).max().unwrap_or(128);
        let children = items.iter().filter(|item| item.slot.is_child());
        let deepest = children.map(|item| item.slot.len).min().unwrap_or(128);
        let most = longest.next_multiple_of(8).min(deepest).min(at.saturating_add(64));
        let mut best: Option<(usize, u8, Vec<Piece>)> = None;
        for depth in (at + 8..=most).rev().step_by(8) {
            if last.last.down(128 - depth) - first.first.down(128 - depth) >= u128::from(u16::MAX) {
                continue;
            }
            let pieces = cut_up(items, depth);
            let below = pieces.iter().filter(|p| matches!(p.what, What::Below(..))).count();
            if intervals(&pieces) <= MOST && best.as_ref().is_none_or(|(least, ..)| below < *least) {
                let done = below == 0;
                best = Some((below, depth, pieces));
                if done {
                    break;
                }
            }
        }
        if let Some((_, depth, pieces)) = best {
            return self.build_list(depth, default, items, &pieces);
        }
        // All in one byte's value: a table would have but one entry.
        let same = ((first.first ^ last.last).leading_zeros() as u8 / 8 * 8).min(most);
        if same > at {
            return self.build_list(same, default, items, &cut_up(items, same));
        }
        let entry = table(self.take(Size::Table)?, at);
        for word in 0..Size::Table.units() as usize * super::pool::UNIT {
            self.pool.set(unit(entry), word, 0);
        }
        self.set_default(entry, default);
        let start = first.first.down(120 - at) as u8;
        for piece in cut_up(items, at + 8) {
            let slot = self.slot(&piece, at + 8, items)?;
            for point in piece.points {
                self.set_table_slot(entry, start + point as u8, slot);
            }
        }
        Ok(Slot { entry, len: 0 })
    }

    /// The entry of a piece.
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
                all.push((piece.points.start, Slot::default()));
            }
            all.push((piece.points.end, self.slot(piece, depth, items)?));
            end = piece.points.end;
        }
        let (bytes, bits) = cut(depth);
        let base = items.first().map_or(0, |item| item.first.down(8 * bytes) as u64) >> bits << bits;
        let entry = self.levels(base, depth, default, &all)?;
        Ok(Slot { entry, len: 0 })
    }

    /// A list of intervals, each with its end; of two levels if need be.
    fn levels(&mut self, base: u64, depth: u8, default: Slot, all: &[(u64, Slot)]) -> Result<u32, LpmFull> {
        let mut l = List { base, depth, intervals: [(0, Slot::default()); INTERVALS], n: 0, default };
        if all.len() <= INTERVALS {
            for (to, (end, slot)) in l.intervals.iter_mut().zip(all) {
                *to = (*end as u16, *slot);
            }
            l.n = all.len();
            return self.write_list(&l);
        }
        let parts = all.len().div_ceil(INTERVALS);
        let mut start = 0;
        for part in 0..parts {
            let of = &all[part * all.len() / parts..(part + 1) * all.len() / parts];
            let relative: Vec<_> = of.iter().map(|(end, slot)| (end - start, *slot)).collect();
            let end = of.last().map_or(start, |(end, _)| *end);
            let base = base.wrapping_add(start << cut(depth).1);
            let entry = self.levels(base, depth, Slot::default(), &relative)?;
            l.intervals[part] = (end as u16, Slot { entry, len: 0 });
            start = end;
        }
        l.n = parts;
        self.write_list(&l)
    }
}

impl Item {
    /// The item below a node at `depth` that has the shorter prefixes.
    fn without_shorter(&self, depth: u8) -> Item {
        let under = if self.under.len > depth { self.under } else { Slot::default() };
        Item { under, ..*self }
    }
}

/// How many intervals a list of the pieces has: they, and the gaps between them.
fn intervals(pieces: &[Piece]) -> usize {
    pieces.len() + pieces.windows(2).filter(|pair| pair[0].points.end < pair[1].points.start).count()
}

/// Cuts items into what a node of this depth says of each point: all, or that there is more below.
fn cut_up(items: &[Item], depth: u8) -> Vec<Piece> {
    let start = items.first().map_or(0, |item| item.first.down(128 - depth));
    let point = |address: u128| (address.down(128 - depth) - start) as u64;
    let mut pieces: Vec<Piece> = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let (mut points, is_below) = (point(item.first)..point(item.last) + 1, item.slot.len > depth);
        // The last piece is one point with more below, and this item begins in it.
        if let Some(Piece { points: of, what: What::Below(range, under) }) = pieces.last_mut()
            && of.start == points.start
        {
            range.end = i + 1;
            if is_below {
                take_over(under, item.under, depth);
                continue;
            }
            *under = item.slot;
            points.start += 1;
            if points.is_empty() {
                continue;
            }
        }
        if is_below {
            let mut under = Slot::default();
            take_over(&mut under, item.under, depth);
            pieces.push(Piece { points, what: What::Below(i..i + 1, under) });
            continue;
        }
        // The next item is longer, and begins in this one's last point.
        let next =
            items.get(i + 1).filter(|next| next.slot.len > depth && point(next.first) + 1 == points.end);
        points.end -= u64::from(next.is_some());
        let after = points.end..points.end + 1;
        if !points.is_empty() {
            pieces.push(Piece { points, what: What::Whole(*item) });
        }
        if next.is_some() {
            pieces.push(Piece { points: after, what: What::Below(i..i + 1, item.slot) });
        }
    }
    pieces
}

/// What lies under a child lies under all of its point, if it is no longer than the point.
fn take_over(under: &mut Slot, of_child: Slot, depth: u8) {
    if of_child.len > 0 && of_child.len <= depth {
        *under = of_child;
    }
}

/// Makes one of neighbours that are alike.
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
