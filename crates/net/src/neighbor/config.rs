//! Configuration of the neighbor table.

/// Limits of the neighbor table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum number of entries. A new entry beyond this number replaces the oldest learned entry.
    pub max_entries: usize,
    /// Maximum number of entries of neighbors that have not answered. A new entry beyond this number replaces
    /// the oldest of these entries.
    pub max_unresolved: usize,
    /// Nanoseconds until a learned entry must be confirmed. ARP then sends a request again (RFC 1122 section
    /// 2.3.2.1: on the order of a minute). Neighbor Discovery probes only when the entry is used, and takes a
    /// random time from half to one and a half times this value (BaseReachableTime, RFC 4861 section 6.3.2).
    pub max_age: u64,
}

impl Config {
    /// Default limits of the ARP table.
    pub const ARP: Config = Config { max_entries: 50_000, max_unresolved: 4_096, max_age: 60_000_000_000 };
    /// Default limits of the Neighbor Discovery table. The age is REACHABLE_TIME of RFC 4861 section 10.
    pub const ND: Config = Config { max_age: 30_000_000_000, ..Config::ARP };
}

impl Default for Config {
    fn default() -> Self {
        Config::ARP
    }
}
