//! The contents of a list during a change.

use super::{
    build::MOST,
    change::{Change, Slot},
    list::List,
};
use std::ops::Range;

/// A change of a list's contents at some points. A point is an address truncated to the list's depth. Points
/// are counted from the list's first point.
pub(super) struct Paint<'c> {
    pub points: Range<i128>,
    pub change: &'c Change,
    /// The new slot for those of the points whose present leaf the change [replaces](Change::replaces).
    pub to: Slot,
    /// If given, the new slot for all of the points, whatever their present contents are.
    pub put: Option<Slot>,
}

impl Paint<'_> {
    /// Returns the new slot for a point that has `slot` now. A child is replaced only if `put` is given.
    fn over(&self, slot: Slot) -> Slot {
        match self.put {
            Some(new) => new,
            None if !slot.is_child() && self.change.replaces(slot.len) => self.to,
            None => slot,
        }
    }

    /// Returns the same `Paint` with its points counted from `first`.
    pub fn behind(&self, first: i128) -> Self {
        Self { points: self.points.start - first..self.points.end - first, ..*self }
    }
}

/// The contents of a list as adjacent intervals. Neighbors with equal leaves are merged. The first and the
/// last interval are not empty.
#[derive(Default)]
pub(super) struct Runs {
    /// Point at which the next added interval begins.
    at: i128,
    /// Start of the first interval.
    pub start: i128,
    /// For each interval, its end and its contents.
    pub all: Vec<(i128, Slot)>,
}

impl Runs {
    /// Clears the contents. The new contents begin at the first point of the list (0) or of `paint`,
    /// whichever is lower.
    pub fn open(&mut self, paint: &Paint) {
        self.all.clear();
        self.at = paint.points.start.min(0);
        self.add(0, Slot::default(), paint);
    }

    /// Adds an interval with the contents `slot`. It begins where the interval added before it ended, and ends
    /// before `end`. The changes of `paint` are made in the part of the interval that they cover.
    pub fn add(&mut self, end: i128, slot: Slot, paint: &Paint) {
        let Range { start: from, end: to } = paint.points;
        if from < end && self.at < to {
            self.push(from, slot);
            self.push(end.min(to), paint.over(slot));
        }
        self.push(end, slot);
    }

    /// Applies the changes of `paint` to the contents of the list `l`, and adds the result. `first` is the
    /// list's first point.
    pub fn add_list(&mut self, l: &List, first: i128, paint: &Paint) {
        self.add(first, Slot::default(), paint);
        for (end, slot) in l.intervals() {
            self.add(first + i128::from(*end), *slot, paint);
        }
    }

    /// Adds the points of `paint` after the list's last interval. Then removes the last interval if it is
    /// empty.
    pub fn close(&mut self, paint: &Paint) {
        self.add(paint.points.end, Slot::default(), paint);
        if self.all.last().is_some_and(|(_, slot)| slot.is_empty()) {
            self.all.pop();
        }
    }

    fn push(&mut self, end: i128, slot: Slot) {
        if end <= self.at {
            return;
        }
        match self.all.last_mut() {
            None if slot.is_empty() => {}
            Some((last, of)) if *of == slot && !slot.is_child() => *last = end,
            last => {
                if last.is_none() {
                    self.start = self.at;
                }
                self.all.push((end, slot));
            }
        }
        self.at = end;
    }

    /// True if there are intervals, and all of them fit into a list of two levels.
    pub fn fit(&self) -> bool {
        let points = self.all.last().map_or(0, |(end, _)| end - self.start);
        (1..=MOST).contains(&self.all.len()) && points <= u16::MAX.into()
    }
}
