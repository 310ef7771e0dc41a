//! Finds stale neighbors that are in use (RFC 4861 section 7.3.3). Workers count packets per adjacency. The main thread reads the count
//! when an entry becomes stale, and after that at intervals, a limited number of entries each time. So even a single packet is noticed,
//! however late the next check is.

use std::net::Ipv6Addr;

use super::{Routed, Router};
use crate::neighbor::{Event, Key, State};

/// Time between two checks, in nanoseconds.
const INTERVAL: u64 = 100_000_000;
/// Entries per check.
const SLICE: usize = 512;

/// How far the main thread has checked the entries.
#[derive(Default)]
pub(super) struct Usage {
    /// The last entry that was checked; `None` at the start of the table.
    at: Option<Key<Ipv6Addr>>,
    next: u64,
}

impl Router {
    /// Reads the packet counts of neighbors that have just become stale. Packets counted by then are no evidence that a neighbor is
    /// in use.
    pub(super) fn note_staled<A: Routed>(&mut self) {
        for (interface, address) in A::neighbors_mut(&mut self.near).take_staled() {
            self.near.adjacencies.was_used(interface, address.into());
        }
    }

    /// Finds stale neighbors to which packets have been sent since the last check, and reports to the neighbor table that they are
    /// in use.
    pub(super) fn watch_usage(&mut self, now: u64) {
        if now < self.usage.next {
            return;
        }
        self.usage.next = now + INTERVAL;
        let Router { usage, near, .. } = self;
        let mut used = Vec::new();
        let mut seen = 0;
        for (key, entry) in near.neighbors6.entries().behind(usage.at).take(SLICE) {
            (usage.at, seen) = (Some(key), seen + 1);
            if matches!(entry.state, State::Stale(_)) && near.adjacencies.was_used(key.0, key.1.into()) {
                used.push(key);
            }
        }
        if seen < SLICE {
            usage.at = None;
        }
        for key in used {
            self.neighbor_event(now, Event::Used(key));
        }
    }
}
