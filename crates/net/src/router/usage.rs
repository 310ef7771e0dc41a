//! Which neighbours that were not heard of for a while are used (RFC 4861 section 7.3.3): workers count what they send over each
//! adjacency, and the main thread looks at these counts now and then, at some entries at a time.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use super::Router;
use crate::neighbor::{Event, Key, State};

/// Time between two looks, nanoseconds.
const INTERVAL: u64 = 100_000_000;
/// Entries that are looked at each time.
const SLICE: usize = 512;

/// What was seen of stale neighbours.
#[derive(Default)]
pub(super) struct Usage {
    /// Packets that had been sent to each.
    sent: BTreeMap<Key<Ipv6Addr>, u64>,
    /// The last one that was looked at.
    at: Option<Key<Ipv6Addr>>,
    next: u64,
}

impl Router {
    /// Looks for stale neighbours that packets were sent to since the last look.
    pub(super) fn watch_usage(&mut self, now: u64) {
        if now < self.usage.next {
            return;
        }
        self.usage.next = now + INTERVAL;
        let Router { usage, near, tables, .. } = self;
        let mut used = Vec::new();
        let mut seen = 0;
        for (key, entry) in near.neighbors6.entries().behind(usage.at).take(SLICE) {
            (usage.at, seen) = (Some(key), seen + 1);
            if !matches!(entry.state, State::Stale(_)) {
                usage.sent.remove(&key);
                continue;
            }
            let Some(index) = near.adjacencies.index_of(key.0, key.1.into()) else { continue };
            let [packets, _] = tables.adjacency_counters.total(index);
            let before = usage.sent.insert(key, packets);
            used.extend(before.filter(|before| *before != packets).map(|_| key));
        }
        if seen < SLICE {
            usage.at = None;
            // Of neighbours that went nothing is to stay.
            usage.sent.retain(|key, _| near.neighbors6.entries().get(*key).is_some());
        }
        for key in used {
            self.neighbor_event(now, Event::Used(key));
        }
    }
}
