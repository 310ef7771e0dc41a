//! Lists that may be very long. They are written page by page, so that the main thread can do other work between pages.

use super::output::{CHUNK, Job, Step};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// Maximum time of a slice, after which other work gets its turn.
const SLICE: Duration = Duration::from_micros(500);

/// The usual number of rows in a page.
pub const PAGE: usize = 64;

/// A potentially long list, read with a cursor. The cursor remembers its position, not the rows, because rows may be added and removed
/// between two pages. A row that exists from the beginning to the end of the listing is shown exactly once.
pub trait Rows<C> {
    /// A row, in the form that `--json` shows.
    type Row: Serialize;

    /// Appends the next page, of about [`PAGE`] rows, to `page`. Appends no rows if it found none within a
    /// fraction of a millisecond. Returns true if there may be more.
    fn next(&mut self, cx: &C, page: &mut Vec<Self::Row>) -> bool;

    /// Writes a page as text. The first call also writes the headings; its page is empty if the list is
    /// empty.
    fn text(&mut self, page: &[Self::Row], out: &mut String);

    /// Returns how many bytes of memory the cursor holds between two pages; 0 if the cursor is always small.
    fn kept(&self) -> usize {
        0
    }

    /// Writes the text below the list.
    fn end(&mut self, _cx: &C, _out: &mut String) {}
}

/// Shows rows, as text or as a JSON array.
pub(super) struct Listing<R, T> {
    rows: R,
    page: Vec<T>,
    json: bool,
    /// True if anything was written: an element, or in text at least the headings.
    begun: bool,
}

impl<R, T> Listing<R, T> {
    pub(super) fn new(rows: R, json: bool) -> Listing<R, T> {
        Listing { rows, page: Vec::new(), json, begun: false }
    }
}

impl<C, T: Serialize, R: Rows<C, Row = T>> Job<C> for Listing<R, T> {
    fn step(&mut self, cx: &mut C, out: &mut String) -> Step {
        let (start, before) = (Instant::now(), out.len());
        while start.elapsed() < SLICE && out.len() - before < CHUNK {
            self.page.clear();
            let more = self.rows.next(cx, &mut self.page);
            let due = !self.page.is_empty() || !(more || self.begun);
            match self.json {
                true => self.page.iter().for_each(|row| element(row, &mut self.begun, out)),
                false if due => {
                    self.rows.text(&self.page, out);
                    self.begun = true;
                }
                false => {}
            }
            if !more {
                match (self.json, self.begun) {
                    (true, true) => out.push_str("\n]\n"),
                    (true, false) => out.push_str("[]\n"),
                    (false, _) => self.rows.end(cx, out),
                }
                return Step::Done;
            }
        }
        Step::Again
    }

    fn kept(&self) -> usize {
        self.rows.kept()
    }
}

/// Appends an element of a JSON array in its printed form, indented by two blanks.
fn element(row: &impl Serialize, begun: &mut bool, out: &mut String) {
    // Serialization fails for maps whose keys are not strings; rows have none.
    let Ok(text) = serde_json::to_string_pretty(row) else { return };
    out.push_str(if std::mem::replace(begun, true) { ",\n  " } else { "[\n  " });
    // A line feed within a string is escaped.
    for (n, line) in text.split('\n').enumerate() {
        out.push_str(if n == 0 { "" } else { "\n  " });
        out.push_str(line);
    }
}

/// Sorts many values in small steps: they are added in runs, each run is sorted alone, and the smallest values of the
/// runs are merged.
pub struct Merge<T> {
    /// The sorted runs; each has its smallest value last.
    runs: Vec<Vec<T>>,
    /// The smallest value of each non-empty run, and the index of the run.
    heads: BinaryHeap<Reverse<(T, usize)>>,
}

impl<T: Ord> Default for Merge<T> {
    /// Returns a sorter without values.
    fn default() -> Merge<T> {
        Merge { runs: Vec::new(), heads: BinaryHeap::new() }
    }
}

impl<T: Ord + Copy> Merge<T> {
    /// Returns the memory that the values occupy, in bytes.
    pub fn bytes(&self) -> usize {
        self.runs.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
    }

    /// True if no value remains.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Removes and returns the smallest remaining value, if `wanted` returns true for it.
    pub fn next_if(&mut self, wanted: impl FnOnce(T) -> bool) -> Option<T> {
        let Reverse((value, _)) = *self.heads.peek()?;
        wanted(value).then(|| self.next()).flatten()
    }

    /// Adds a run of values, in any order.
    pub fn add(&mut self, mut run: Vec<T>) {
        run.sort_unstable_by_key(|value| Reverse(*value));
        self.heads.extend(run.pop().map(|first| Reverse((first, self.runs.len()))));
        self.runs.push(run);
    }
}

impl<T: Ord + Copy> Iterator for Merge<T> {
    type Item = T;

    /// Removes and returns the smallest remaining value.
    fn next(&mut self) -> Option<T> {
        let mut head = self.heads.peek_mut()?;
        let Reverse((value, run)) = *head;
        match self.runs[run].pop() {
            Some(next) => *head = Reverse((next, run)),
            None => drop(std::collections::binary_heap::PeekMut::pop(head)),
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Answer, Output};
    use proptest::prelude::*;

    /// A list of numbers, from this one up to the limit in the context, which may change between two pages.
    struct Count(u32);

    impl Rows<u32> for Count {
        type Row = (u32, &'static str);

        fn next(&mut self, to: &u32, page: &mut Vec<Self::Row>) -> bool {
            let first = self.0;
            self.0 = (first + PAGE as u32).min(*to).max(first);
            page.extend((first..self.0).map(|n| (n, "a\nb")));
            self.0 < *to
        }

        fn text(&mut self, page: &[Self::Row], out: &mut String) {
            if page.first().is_none_or(|first| first.0 == 0) {
                out.push_str("head\n");
            }
            page.iter().for_each(|row| *out += &format!("{}\n", row.0));
        }

        fn end(&mut self, to: &u32, out: &mut String) {
            *out += &format!("{to} in all\n");
        }
    }

    fn shown(to: u32, json: bool) -> String {
        let Answer { text: mut out, job } = Output::rows(Count(0), json).render(json);
        let mut job = job.unwrap();
        while matches!(job.step(&mut { to }, &mut out), Step::Again) {}
        out
    }

    #[test]
    fn heading_and_footer_are_written_once() {
        assert_eq!(shown(0, false), "head\n0 in all\n");
        let numbers: String = (0..1000).map(|n| format!("{n}\n")).collect();
        assert_eq!(shown(1000, false), format!("head\n{numbers}1000 in all\n"));
    }

    #[test]
    fn an_array_in_slices_is_printed_as_a_whole() {
        for to in [0, 1, PAGE as u32, 1000] {
            let at_once: Vec<_> = (0..to).map(|n| (n, "a\nb")).collect();
            assert_eq!(shown(to, true), format!("{}\n", serde_json::to_string_pretty(&at_once).unwrap()));
        }
    }

    #[test]
    fn a_long_list_is_printed_in_slices() {
        let mut out = String::new();
        let mut job = Output::rows(Count(0), false).render(false).job.unwrap();
        assert!(matches!(job.step(&mut { u32::MAX }, &mut out), Step::Again));
        assert!(out.len() < 2 * CHUNK, "{} bytes", out.len());
    }

    proptest! {
        #[test]
        fn runs_are_merged_in_order(runs in prop::collection::vec(prop::collection::vec(0..100_u32, 0..20), 0..10)) {
            let mut merge = Merge::default();
            runs.iter().for_each(|run| merge.add(run.clone()));
            let mut all = runs.concat();
            all.sort_unstable();
            prop_assert_eq!(merge.collect::<Vec<_>>(), all);
        }
    }
}
