//! What the operator sees of neighbours.

use serde::Serialize;

use super::entries::{Entry, Key, State};

/// A line of `show ip neighbors`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NeighborView {
    /// Seconds since it was last heard of, or since the asking began.
    pub age: f64,
    /// Its IPv4 address.
    pub ip: String,
    /// `S` for static, `D` for learned, `I` for one that has not answered.
    pub flags: &'static str,
    /// Its Ethernet address, if it is known.
    pub mac: Option<String>,
    /// Name of the interface.
    pub interface: String,
    /// `incomplete`, `failed`, `reachable`, `probing` or `static`.
    pub state: &'static str,
}

impl NeighborView {
    /// An entry at `now`, on the interface with this name.
    pub fn new(key: Key, entry: Entry, interface: &str, now: u64) -> NeighborView {
        NeighborView {
            age: now.saturating_sub(entry.since) as f64 / 1e9,
            ip: key.1.to_string(),
            flags: match entry.state {
                State::Static(_) => "S",
                State::Reachable(_) | State::Probing(..) => "D",
                State::Incomplete(_) | State::Failed => "I",
            },
            mac: entry.state.mac().map(|m| m.to_string()),
            interface: interface.to_string(),
            state: entry.state.name(),
        }
    }
}
