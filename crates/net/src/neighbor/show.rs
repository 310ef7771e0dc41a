//! The output of `show` commands for neighbors.

use std::fmt::Display;

use serde::Serialize;

use super::entries::{Entry, Key, State};

/// A line of `show ip neighbors`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NeighborView {
    /// Seconds since the neighbor's Ethernet address was last learned, confirmed or set; for a neighbor that has not answered, since the
    /// first request or since the failure.
    pub age: f64,
    /// The neighbor's IP address.
    pub ip: String,
    /// `S` for static, `D` for learned, `I` for a neighbor that has not answered. `R` follows `S` or `D` if the neighbor is a router.
    pub flags: &'static str,
    /// The neighbor's Ethernet address, if it is known.
    pub mac: Option<String>,
    /// Name of the neighbor's interface.
    pub interface: String,
    /// The state: `incomplete`, `failed`, `reachable`, `stale`, `delay`, `probing` or `static`.
    pub state: &'static str,
}

impl NeighborView {
    /// Returns the line for an entry. `interface` is the name of the interface, and `now` the time in
    /// nanoseconds.
    pub fn new<A: Display>(key: Key<A>, entry: Entry, interface: &str, now: u64) -> NeighborView {
        NeighborView {
            age: now.saturating_sub(entry.since) as f64 / 1e9,
            ip: key.1.to_string(),
            flags: match (entry.state, entry.router) {
                (State::Static(_), false) => "S",
                (State::Static(_), true) => "SR",
                (State::Incomplete(_) | State::Failed, _) => "I",
                (_, false) => "D",
                (_, true) => "DR",
            },
            mac: entry.state.mac().map(|m| m.to_string()),
            interface: interface.to_string(),
            state: entry.state.name(),
        }
    }
}
