//! What is in a list while it changes.

use super::{
    build::MOST,
    change::{Change, Slot},
    list::List,
};
use std::ops::Range;

/// What some points get: addresses cut to the depth of a list, counted from its first.
pub(super) struct Paint<'c> {
    pub points: Range<i128>,
    pub change: &'c Change,
    /// What they get where what there is gives way to the change.
    pub to: Slot,
    /// What they get whatever there is.
    pub put: Option<Slot>,
}

impl Paint<'_> {
    /// What is in the place of a slot within the points, if it is a leaf.
    fn over(&self, slot: Slot) -> Slot {
        match self.put {
            Some(new) => new,
            None if !slot.is_child() && self.change.replaces(slot.len) => self.to,
            None => slot,
        }
    }

    /// The same, counted from a point that comes later.
    pub fn behind(&self, first: i128) -> Self {
        Self { points: self.points.start - first..self.points.end - first, ..*self }
    }
}

/// Intervals side by side, never two alike next to each other; the first one and the last one have something.
#[derive(Default)]
pub(super) struct Runs {
    /// So far all points are in.
    at: i128,
    /// Where the first interval begins.
    pub start: i128,
    /// Where each ends, and what it has.
    pub all: Vec<(i128, Slot)>,
}

impl Runs {
    /// Begins with a list's first point, or the first that is painted if that comes before.
    pub fn open(&mut self, paint: &Paint) {
        self.all.clear();
        self.at = paint.points.start.min(0);
        self.add(0, Slot::default(), paint);
    }

    /// Adds the points up to `end`, painted.
    pub fn add(&mut self, end: i128, slot: Slot, paint: &Paint) {
        let Range { start: from, end: to } = paint.points;
        if from < end && self.at < to {
            self.push(from, slot);
            self.push(end.min(to), paint.over(slot));
        }
        self.push(end, slot);
    }

    /// Adds what is in one list, whose first point is `first`.
    pub fn add_list(&mut self, l: &List, first: i128, paint: &Paint) {
        self.add(first, Slot::default(), paint);
        for (end, slot) in l.intervals() {
            self.add(first + i128::from(*end), *slot, paint);
        }
    }

    /// Ends with the last point that is painted, if that comes behind all others.
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

    /// Whether they are something, and fit into a list of two levels.
    pub fn fit(&self) -> bool {
        let points = self.all.last().map_or(0, |(end, _)| end - self.start);
        (1..=MOST).contains(&self.all.len()) && points <= u16::MAX.into()
    }
}
