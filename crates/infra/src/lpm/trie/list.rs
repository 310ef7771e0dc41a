//! Reads and builds lists, for the writer.

use super::{
    change::{Change, Slot},
    node::{INNER, INTERVALS, cut, depth, list, unit},
    pool::Size,
    runs::{Paint, Runs},
    store::Builder,
};
use crate::lpm::{Address, LpmFull};
use std::ops::Range;

/// A list, as the writer reads it.
pub(super) struct List {
    base: u64,
    pub depth: u8,
    /// For each interval its end and its contents, from the first interval to the last.
    intervals: [(u16, Slot); INTERVALS],
    n: usize,
    pub default: Slot,
}

impl List {
    /// Returns for each interval its end and its contents.
    pub fn intervals(&self) -> &[(u16, Slot)] {
        &self.intervals[..self.n]
    }

    /// Returns the contents of interval `n`; an empty slot if there is no such interval.
    pub fn slot(&self, n: usize) -> Slot {
        self.intervals.get(n).map_or(Slot::default(), |(_, slot)| *slot)
    }

    /// Returns the address at which the list begins. `path` is any address below the list.
    pub fn origin(&self, path: u128) -> u128 {
        let behind = 8 * cut(self.depth).0;
        path & u128::mask(64 - behind) | u128::from(self.base).up(behind)
    }

    /// Returns the points of a change, counted from the list's first point.
    pub fn points(&self, change: &Change) -> Range<i128> {
        change.points(self.origin(change.prefix), self.depth)
    }

    /// Returns the distance from the first point of this list to the first point of an inner list.
    pub fn offset(&self, inner: &List) -> i128 {
        i128::from(inner.base.wrapping_sub(self.base) >> cut(self.depth).1)
    }

    /// True if one list could contain these points in addition to the points of this list.
    pub fn reaches(&self, points: &Range<i128>) -> bool {
        let end = self.intervals().last().map_or(0, |(end, _)| (*end).into());
        points.end.max(end) - points.start.min(0) <= u16::MAX.into()
    }

    /// Returns the interval that contains all of these points, and whether the points fill the interval.
    /// `None` if no interval contains all of them.
    pub fn holding(&self, points: &Range<i128>) -> Option<(usize, bool)> {
        let mut start = 0;
        for (n, (end, _)) in self.intervals().iter().enumerate() {
            let end = i128::from(*end);
            if points.start < end {
                return (start <= points.start && points.end <= end).then_some((n, (start..end) == *points));
            }
            start = end;
        }
        None
    }
}

impl Builder {
    /// Returns the depth of the list `child`: the number of bits to which the list's addresses are truncated.
    pub fn depth(&self, child: u32) -> u8 {
        let high = self.pool.get(unit(child), 2);
        depth(((high >> 48) as u8, (high >> 56) as u8))
    }

    /// Reads the list `child`.
    pub fn read_list(&self, child: u32) -> List {
        let words = self.pool.words_of(unit(child));
        let high = words[2];
        let end = |lane: usize| ([words[1], high][lane / 4] >> (16 * (lane % 4))) as u16;
        let entry = |half: usize| (words[half / 2] >> (32 * (half % 2))) as u32;
        let (n, lengths, default_len) = match (0..INTERVALS).find(|lane| end(*lane) == 0).unwrap_or(INTERVALS)
        {
            1 => (1, words[1] >> 32, words[1] >> 40),
            n => (n, words[7], words[7] >> 56),
        };
        let mut intervals = [(0, Slot::default()); INTERVALS];
        for (interval, lane) in intervals.iter_mut().zip((0..n).rev()) {
            *interval = (end(lane), Slot { entry: entry(7 + lane), len: (lengths >> (8 * lane)) as u8 });
        }
        let default = Slot { entry: entry(6), len: default_len as u8 };
        List { base: words[0], depth: depth(((high >> 48) as u8, (high >> 56) as u8)), intervals, n, default }
    }

    fn write_list(&mut self, l: &List) -> Result<u32, LpmFull> {
        let size = if l.n == 1 { Size::Half } else { Size::Line };
        let at = self.take(size)?;
        let (bytes, bits) = cut(l.depth);
        let mut lanes = u128::from(bytes) << 112 | u128::from(bits) << 120;
        let mut halves = [0; INTERVALS + 1];
        let mut lengths = 0;
        for (lane, (end, slot)) in l.intervals().iter().rev().enumerate() {
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

    /// Sets the contents of interval `n` of a list. Readers see the old or the new contents.
    pub fn set_list_slot(&mut self, child: u32, l: &List, n: usize, slot: Slot) {
        let (at, lane) = (unit(child), l.n - 1 - n);
        self.set_half(at, 7 + lane, slot.entry);
        if l.n == 1 { self.set_byte(at, 1, 4, slot.len) } else { self.set_byte(at, 7, lane, slot.len) }
    }

    /// Returns the slot for a point in a list of one or two levels.
    pub fn list_slot(&self, l: &List, point: i128) -> Slot {
        match l.holding(&(point..point + 1)).map(|(n, _)| l.slot(n)) {
            Some(slot) if slot.is_inner() => {
                let inner = self.read_list(slot.entry);
                self.list_slot(&inner, point - l.offset(&inner))
            }
            slot => slot.unwrap_or_default(),
        }
    }

    /// Marks the nodes of a list as replaced. Makes the changes of `paint` in the list's contents, and writes
    /// the result to `runs`.
    pub fn take_apart(&mut self, list: u32, l: &List, paint: &Paint, runs: &mut Runs) {
        self.give_up(list);
        runs.open(paint);
        for (end, slot) in l.intervals() {
            if slot.is_inner() {
                let inner = self.read_list(slot.entry);
                self.give_up(slot.entry);
                runs.add_list(&inner, l.offset(&inner), paint);
                runs.add((*end).into(), Slot::default(), paint);
            } else {
                runs.add((*end).into(), *slot, paint);
            }
        }
        runs.close(paint);
    }

    /// Builds a list with the intervals `all`, in two levels if necessary. Each interval in `all` is its end
    /// and its contents. The first interval begins at `start`. `start` and the ends are points: addresses
    /// truncated to `depth` bits, counted from the point of `origin`.
    pub fn levels(
        &mut self,
        origin: u128,
        depth: u8,
        default: Slot,
        start: i128,
        all: &[(i128, Slot)],
    ) -> Result<u32, LpmFull> {
        let (bytes, bits) = cut(depth);
        let first = origin.wrapping_add((start as u128).up(128 - depth));
        let base = first.down(8 * bytes) as u64 >> bits << bits;
        let mut l = List { base, depth, intervals: [(0, Slot::default()); INTERVALS], n: 0, default };
        if all.len() <= INTERVALS {
            for (to, (end, slot)) in l.intervals.iter_mut().zip(all) {
                *to = ((end - start) as u16, *slot);
            }
            l.n = all.len();
            return self.write_list(&l);
        }
        l.n = all.len().div_ceil(INTERVALS);
        let mut from = start;
        for part in 0..l.n {
            let of = &all[part * all.len() / l.n..(part + 1) * all.len() / l.n];
            let end = of.last().map_or(from, |(end, _)| *end);
            let entry = self.levels(origin, depth, Slot::default(), from, of)?;
            l.intervals[part] = ((end - start) as u16, Slot { entry, len: INNER });
            from = end;
        }
        self.write_list(&l)
    }
}
