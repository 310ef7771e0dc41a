//! What the operator may ask of the table of neighbours.

/// Bounds of the table of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Entries in all, at most; beyond them the oldest entries that were learned give way.
    pub max_entries: usize,
    /// Entries without an answer, at most; beyond them the oldest of these give way.
    pub max_unresolved: usize,
    /// Nanoseconds after which an entry that was learned is asked for again (RFC 1122 section 2.3.2.1: on the order of a
    /// minute).
    pub max_age: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config { max_entries: 50_000, max_unresolved: 4_096, max_age: 60_000_000_000 }
    }
}
