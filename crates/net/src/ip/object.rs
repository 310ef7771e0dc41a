//! Forwarding objects, which are the actions that lookups find.

use super::cause::Cause;
use super::kind::{ForwardingKind, MOST};

/// The action for packets to a destination. It is one word in the table of objects, so a single store replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// Send over the adjacency with this index.
    Adjacency(u32),
    /// The destination is on the link of this interface (glean). The destination's Ethernet address must be resolved.
    Glean(u32),
    /// The destination is this router.
    Local,
    /// Drop silently (blackhole).
    Drop,
    /// Drop, and report the cause to the source.
    Report(Cause),
    /// The destination is link-local. It is looked up again as an address on the packet's link.
    LinkLocal,
    /// Look up the destination again in the VRF with this FIB index.
    Table(u16),
    /// Send over one of several paths. The number is the index of the [`Buckets`](super::balance::Buckets) in which the packet's flow
    /// selects the path.
    Balance(u32),
    /// Pass to the node of a feature's forwarding kind. The number is the index of an entry in the feature's table.
    Feature(ForwardingKind, u32),
    /// Drop the packet: its paths have just lost their interfaces, and the routes will be withdrawn soon.
    Unresolved,
}

const ADJACENCY: u64 = 1;
const GLEAN: u64 = 2;
const LOCAL: u64 = 3;
const DROP: u64 = 4;
const REPORT: u64 = 5;
const TABLE: u64 = 6;
const UNRESOLVED: u64 = 7;
const BALANCE: u64 = 8;
const LINK_LOCAL: u64 = 9;
/// The lowest byte of a word for the first forwarding kind that a feature registers. The features' other kinds follow it.
const FEATURE: u64 = 16;
const _: () = assert!(FEATURE + MOST as u64 <= 1 << 8);

impl Object {
    /// Returns the object as a word. The kind is in the lowest 8 bits, and the value in the upper 32 bits.
    #[inline(always)]
    pub fn to_word(self) -> u64 {
        let (kind, value) = match self {
            Object::Adjacency(a) => (ADJACENCY, a),
            Object::Glean(i) => (GLEAN, i),
            Object::Local => (LOCAL, 0),
            Object::Drop => (DROP, 0),
            Object::Report(c) => (REPORT, c.to_raw()),
            Object::Table(t) => (TABLE, u32::from(t)),
            Object::Unresolved => (UNRESOLVED, 0),
            Object::LinkLocal => (LINK_LOCAL, 0),
            Object::Balance(buckets) => (BALANCE, buckets),
            Object::Feature(kind, index) => (FEATURE + u64::from(kind.to_raw()), index),
        };
        kind | u64::from(value) << 32
    }

    /// Returns the adjacency index that a word contains; `None` if the word is not an adjacency. Nodes check for this common case
    /// first.
    #[inline(always)]
    pub fn adjacency(word: u64) -> Option<u32> {
        (word as u8 == ADJACENCY as u8).then_some((word >> 32) as u32)
    }

    /// Returns the index of the [`Buckets`](super::balance::Buckets) that a word contains; `None` if the word is not for several paths.
    #[inline(always)]
    pub fn balance(word: u64) -> Option<u32> {
        (word as u8 == BALANCE as u8).then_some((word >> 32) as u32)
    }

    /// Returns the object that a word stands for. A word that was never written is 0: it stands for the ICMP error "no route".
    #[inline(always)]
    pub fn from_word(word: u64) -> Object {
        let value = (word >> 32) as u32;
        match word & 0xff {
            ADJACENCY => Object::Adjacency(value),
            GLEAN => Object::Glean(value),
            LOCAL => Object::Local,
            DROP => Object::Drop,
            REPORT => Object::Report(Cause::from_raw(value)),
            TABLE => Object::Table(value as u16),
            UNRESOLVED => Object::Unresolved,
            LINK_LOCAL => Object::LinkLocal,
            BALANCE => Object::Balance(value),
            kind @ FEATURE.. => Object::Feature(ForwardingKind::from_raw((kind - FEATURE) as u8), value),
            _ => Object::Report(Cause::NoRoute),
        }
    }
}
