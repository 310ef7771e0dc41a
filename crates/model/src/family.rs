//! The families of addresses, by the words that commands, files and metrics have for them.

use std::net::IpAddr;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// That of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    /// Its word where the other one has one, too: in names of nodes, labels, settings.
    pub fn word(self) -> &'static str {
        match self {
            Family::V4 => "ip4",
            Family::V6 => "ip6",
        }
    }

    /// The type of its prefixes in the grammar of commands.
    pub fn prefix(self) -> &'static str {
        match self {
            Family::V4 => "prefix4",
            Family::V6 => "prefix6",
        }
    }

    /// The word that its own commands have behind their verb.
    pub fn noun(self) -> &'static str {
        match self {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        }
    }
}
