//! Flushes of the MAC table by epochs, and the removal of void entries.

use std::ops::Range;

use super::{Bridges, Known, MOST_BYTES, forgotten};
use crate::bridge::mac::{self, Place};

/// Number of flushes of one domain or port after which each flush looks through a part of the table: before an epoch returns, none of its
/// entries may be left.
const MANY_FLUSHES: u32 = 100;
/// The part of the table that such a flush looks through: 100 of them make two passes.
const HURRY: usize = 50;
/// Number of flushes after which all void entries are removed at once. So many come only if the table grows meanwhile.
const MOST_FLUSHES: u32 = 240;
/// Number of steps in which the whole table is looked through.
const STEPS: usize = 100;
/// Maximum number of lines of a step.
const MOST_LINES: usize = 4096;
/// Time between two of these steps, in nanoseconds. If the steps are shorter, there are more.
const STEP: u64 = 100_000_000;
/// Time between two steps of the table's growth, in nanoseconds.
const GROWTH: u64 = 1_000_000;
/// Number of lines whose entries move to the larger table in one step.
const LINES: usize = 4096;

/// The epoch of a domain or of a port.
#[derive(Clone, Copy, Default)]
pub(super) struct Epoch {
    pub(super) now: u8,
    /// Number of flushes since all void entries were removed, and in the present pass.
    flushes: [u32; 2],
}

impl Epoch {
    /// Begins the next epoch. Returns the number of flushes of which entries may be left.
    fn next(&mut self) -> u32 {
        self.now = self.now.wrapping_add(1);
        self.flushes.iter_mut().for_each(|n| *n += 1);
        self.flushes[0]
    }
}

/// A time since which a station must have been heard.
#[derive(Clone, Copy)]
pub(super) struct Since {
    /// In seconds of the monotonic clock, modulo 2^16. Later ones are good.
    pub(super) heard: u16,
    /// The pass through the table in which this began.
    pub(super) passes: u64,
}

impl Bridges {
    /// The epoch of an interface.
    pub(crate) fn epoch(&self, interface: u32) -> u8 {
        self.epochs.get(&interface).copied().unwrap_or_default().now
    }

    /// Forgets the learned addresses of an interface. Returns its new epoch, for its [port](crate::BridgePort).
    pub(crate) fn next_epoch(&mut self, interface: u32) -> u8 {
        let flushes = self.epochs.entry(interface).or_default().next();
        self.keep_up(flushes);
        self.epoch(interface)
    }

    /// Forgets the learned addresses of a domain.
    pub(crate) fn flush(&mut self, id: u32) {
        let flushes = self.begin_epoch(id);
        self.keep_up(flushes);
    }

    fn begin_epoch(&mut self, id: u32) -> u32 {
        let flushes = self.by_id.get_mut(&id).map_or(0, |known| known.epoch.next());
        // Publishing fails only for want of memory for a new index.
        let _ = self.publish(id);
        flushes
    }

    /// Removes void entries if there were this many flushes since all of them were removed.
    fn keep_up(&mut self, flushes: u32) {
        match flushes {
            MOST_FLUSHES.. => self.remove_void(),
            MANY_FLUSHES.. => self.step(self.owner.lines().div_ceil(HURRY), self.second),
            _ => {}
        }
    }

    /// Forgets the learned addresses of all domains.
    pub(crate) fn flush_all(&mut self) {
        let ids: Vec<u32> = self.by_id.keys().copied().collect();
        let flushes = ids.into_iter().map(|id| self.begin_epoch(id)).max();
        self.keep_up(flushes.unwrap_or(0));
    }

    /// Removes all entries of earlier epochs.
    fn remove_void(&mut self) {
        // In pieces, so that the lists of void entries stay small.
        for line in (0..self.owner.lines()).step_by(MOST_LINES) {
            self.sweep(line..line + MOST_LINES, None);
        }
        self.all_epochs(|epoch| epoch.flushes = [0; 2]);
    }

    fn all_epochs(&mut self, change: impl FnMut(&mut Epoch)) {
        self.by_id
            .values_mut()
            .map(|known| &mut known.epoch)
            .chain(self.epochs.values_mut())
            .for_each(change);
    }

    fn tend(&mut self) -> bool {
        let Bridges { owner, domains, .. } = self;
        let lost = |key: u64, value: u64| forgotten(domains, key, value);
        // Without memory, the table keeps its size.
        owner.tend(LINES, MOST_BYTES, lost).unwrap_or(false)
    }

    /// Removes the void entries of these lines. `now` is the time, if ages count.
    fn sweep(&mut self, lines: Range<usize>, now: Option<u16>) {
        let Bridges { owner, domains, epochs, by_id, ids, .. } = self;
        let is_void = |key: u64, value: u64| {
            let (Some(domain), place) = (domains.get(mac::split(key).0), Place::of(value)) else {
                return true;
            };
            let port = epochs.get(&place.port).copied().unwrap_or_default();
            // An epoch that begins now is not published yet.
            let known = ids.get(&mac::split(key).0).and_then(|id| by_id.get(id));
            let epoch = mac::epoch(known.map_or(domain.epoch, |known| known.epoch.now), port.now);
            let age = now.map_or(0, |now| domain.age(now));
            place.is_void(epoch, age, now.unwrap_or_default())
        };
        let void: Vec<_> = owner.entries(lines).filter(|(key, value)| is_void(*key, *value)).collect();
        for (key, value) in void {
            if owner.remove(key, value) {
                forgotten(domains, key, value);
            }
        }
    }

    /// Does the work of now and then: removes void entries, and makes the table larger. Returns the time of the next call.
    pub(crate) fn turn(&mut self, now: u64) -> Option<u64> {
        self.second = Some(mac::second(now));
        let told = self.tell_hosts(now);
        self.look_through(now).into_iter().chain(told).min()
    }

    fn look_through(&mut self, now: u64) -> Option<u64> {
        if self.tend() {
            return Some(now + GROWTH);
        }
        if self.by_id.is_empty() && self.owner.is_empty() && self.leaving.is_empty() {
            return None;
        }
        if now < self.next {
            return Some(self.next);
        }
        let wanted = self.owner.lines().div_ceil(STEPS);
        let lines = wanted.min(MOST_LINES);
        self.next = now + STEP * lines as u64 / wanted as u64;
        self.step(lines, Some(mac::second(now)));
        Some(self.next)
    }

    /// Looks through the next lines of the table. `now` is the time, if ages count.
    fn step(&mut self, lines: usize, now: Option<u16>) {
        let all = self.owner.lines();
        if self.line == 0 {
            self.generation = self.owner.generation();
        }
        let end = (self.line + lines).min(all);
        self.sweep(self.line..end, now);
        self.line = end;
        if end == all {
            self.line = 0;
            // If the table grew meanwhile, entries may have moved to lines that were looked at before.
            if self.generation == self.owner.generation() {
                self.end_pass();
            }
        }
    }

    /// Notes that the whole table was looked through.
    fn end_pass(&mut self) {
        self.passes += 1;
        self.all_epochs(|epoch| epoch.flushes = [epoch.flushes[1], 0]);
        let is_over = |known: &Known| known.since.is_some_and(|since| self.passes >= since.passes + 2);
        let over: Vec<u32> =
            self.by_id.iter().filter(|(_, known)| is_over(known)).map(|(id, _)| *id).collect();
        for id in over {
            if let Some(known) = self.by_id.get_mut(&id) {
                known.since = None;
            }
            // Publishing fails only for want of memory for a new index.
            let _ = self.publish(id);
        }
        let (passes, free) = (self.passes, &mut self.free);
        // A domain may have been removed in the middle of a pass.
        self.leaving.retain(|(index, since)| {
            let is_gone = passes >= since + 2;
            if is_gone {
                free.insert(*index);
            }
            !is_gone
        });
    }
}
