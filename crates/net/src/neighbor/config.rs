//! What the operator may ask of the table of neighbours.

/// Bounds of the table of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Entries in all, at most; beyond them the oldest entries that were learned give way.
    pub max_entries: usize,
    /// Entries without an answer, at most; beyond them the oldest of these give way.
    pub max_unresolved: usize,
    /// Nanoseconds after which an entry that was learned counts as old. ARP asks for it again then (RFC 1122 section
    /// 2.3.2.1: on the order of a minute); Neighbor Discovery only once it is used, and takes half to one and a half times
    /// as long (BaseReachableTime, RFC 4861 section 6.3.2).
    pub max_age: u64,
}

impl Config {
    /// Bounds of ARP's table.
    pub const ARP: Config = Config { max_entries: 50_000, max_unresolved: 4_096, max_age: 60_000_000_000 };
    /// Bounds of Neighbor Discovery's table; the age is REACHABLE_TIME of RFC 4861 section 10.
    pub const ND: Config = Config { max_age: 30_000_000_000, ..Config::ARP };
}

impl Default for Config {
    fn default() -> Self {
        Config::ARP
    }
}
