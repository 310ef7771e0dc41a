//! Forwarding objects: what the leaf of a lookup stands for.

use super::kind::{ForwardingKind, MOST};
use crate::icmp::Cause;

/// What to do with packets to a destination. One word in the table of objects, so that it is replaced in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// Send over this adjacency.
    Adjacency(u32),
    /// The destination is on the link of this interface: resolve it.
    Glean(u32),
    /// The destination is this router.
    Local,
    /// Drop without a word (blackhole).
    Drop,
    /// Drop, and report it to the source.
    Report(Cause),
    /// The destination means a host of one link only: look up again as an address of the packet's.
    LinkLocal,
    /// Look up again in another VRF.
    Table(u16),
    /// Send by whichever of several ways these [`Buckets`](super::balance::Buckets) have for the packet's flow.
    Balance(u32),
    /// As a feature forwards: the entry at this index of its table.
    Feature(ForwardingKind, u32),
    /// Drop: the path has just lost its interface, and its routes are about to give way to others.
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
/// The first of the features' kinds.
const FEATURE: u64 = 16;
const _: () = assert!(FEATURE + MOST as u64 <= 1 << 8);

impl Object {
    /// The word: kind in the low byte, value in the high half.
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

    /// The adjacency behind a word, if that is what it means: nearly always, so that it is asked first.
    #[inline(always)]
    pub fn adjacency(word: u64) -> Option<u32> {
        (word as u8 == ADJACENCY as u8).then_some((word >> 32) as u32)
    }

    /// The buckets behind a word, if the ways to go are several.
    #[inline(always)]
    pub fn balance(word: u64) -> Option<u32> {
        (word as u8 == BALANCE as u8).then_some((word >> 32) as u32)
    }

    /// The object behind a word; a word that nobody wrote (0: no route) is reported as no route.
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
