//! Configuration of the neighbor table.

/// Limits of the neighbor table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum number of entries. A new entry beyond this number replaces the oldest failed entry. If there is no failed entry, it replaces
    /// the oldest incomplete one, otherwise the oldest stale one, otherwise the oldest of the other learned entries.
    pub max_entries: usize,
    /// Maximum number of entries of neighbors that have not answered. A new one beyond this number replaces the oldest failed entry or, if
    /// there is none, the oldest incomplete one.
    pub max_unresolved: usize,
    /// Nanoseconds until a learned entry must be confirmed. ARP then sends a request again (RFC 1122 section
    /// 2.3.2.1: on the order of a minute). Neighbor Discovery probes only when the entry is used, and takes a
    /// random time from half to one and a half times this value (BaseReachableTime, RFC 4861 section 6.3.2).
    pub max_age: u64,
    /// Number of times that a new address of the router is announced.
    pub announcements: u8,
}

impl Config {
    /// Default limits of the ARP table.
    /// The number of announcements is ANNOUNCE_NUM of RFC 5227 section 1.1.
    pub const ARP: Config =
        Config { max_entries: 50_000, max_unresolved: 4_096, max_age: 60_000_000_000, announcements: 2 };
    /// Default limits of the Neighbor Discovery table. The age and the number of announcements are REACHABLE_TIME and
    /// MAX_NEIGHBOR_ADVERTISEMENT of RFC 4861 section 10.
    pub const ND: Config = Config { max_age: 30_000_000_000, announcements: 3, ..Config::ARP };
}

impl Default for Config {
    fn default() -> Self {
        Config::ARP
    }
}
