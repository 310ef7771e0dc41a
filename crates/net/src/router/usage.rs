//! Which neighbours that were not heard of for a while are used (RFC 4861 section 7.3.3): workers count what they send over each
//! adjacency, and the main thread looks at this count when an entry becomes stale, and then now and then, at some entries at a time. So
//! a single packet is noticed, however long the next look is away.

use std::net::Ipv6Addr;

use super::{Routed, Router};
use crate::neighbor::{Event, Key, State};

/// Time between two looks, nanoseconds.
const INTERVAL: u64 = 100_000_000;
/// Entries that are looked at each time.
const SLICE: usize = 512;

/// How far the main thread has looked.
#[derive(Default)]
pub(super) struct Usage {
    /// The last one that was looked at.
    at: Option<Key<Ipv6Addr>>,
    next: u64,
}

impl Router {
    /// What was sent to neighbours before they became stale does not count as use.
    pub(super) fn note_staled<A: Routed>(&mut self) {
        for (interface, address) in A::neighbors_mut(&mut self.near).take_staled() {
            self.near.adjacencies.was_used(interface, address.into());
        }
    }

    /// Looks for stale neighbours that packets were sent to since the last look.
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
