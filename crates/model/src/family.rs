//! The address families, and their names in commands, files and metrics.

use std::net::IpAddr;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both families.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// Returns the family of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Returns the family's name for people.
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    /// Returns the family's word in names of nodes, labels and settings.
    pub fn word(self) -> &'static str {
        match self {
            Family::V4 => "ip4",
            Family::V6 => "ip6",
        }
    }

    /// Returns the name of the grammar type for prefixes of this family.
    pub fn prefix(self) -> &'static str {
        match self {
            Family::V4 => "prefix4",
            Family::V6 => "prefix6",
        }
    }

    /// Returns the word that follows the verb in the family's own commands, such as `ip6` in `show ip6 fib`.
    pub fn noun(self) -> &'static str {
        match self {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        }
    }
}
