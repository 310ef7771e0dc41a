//! Shallow virtual reassembly: assigns the ports of a datagram's first fragment to the later ones. This module does not parse packets.
//!
//! Fragments that arrive before the first one wait for it; those that arrive after it continue at once. A
//! datagram stays in the table until it expires: its bytes are not counted, so the table cannot know when it
//! is complete.

use std::hash::Hash;

use buf::Held;
use graph::reasons;
use net::ip::{Packets, Ports};

use crate::fragment::Key;
use crate::shards::{DatagramView, Shard, Totals};
use crate::waiting::{Fill, Limits, NONE, Span, View, Waiting, Why};

reasons! {
    pub enum Reason {
        Malformed = "bad-fragment", Error, "an invalid fragment: it has no data, or it ends beyond the longest packet, or it is not the \
                                            last one and its length is not a multiple of 8 bytes";
        Tiny = "tiny-fragment", Warn, "the fragment would overwrite the flags of a TCP header (RFC 1858 section 3)";
        Overlap = "overlap", Warn, "another first fragment of the datagram had different ports";
        TooMany = "too-many-fragments", Warn, "too many fragments of one datagram wait for its first one";
        Displaced = "displaced-datagrams", Warn, "too many datagrams wait for their first fragment: the oldest is dropped";
        Crowded = "displaced-buffers", Warn, "waiting fragments occupy too many buffers: the oldest datagrams are dropped";
    }
}

/// Maps the key `K` of each datagram to the datagram's ports. Until the first fragment has arrived, the ports are unknown, and the
/// entry holds the fragments that wait for them.
pub struct PortsOf<K, T> {
    waiting: Waiting<K, Option<Ports>, T>,
    /// Number of datagrams whose first fragment has arrived.
    learned: u64,
}

impl<K: Copy + Eq + Hash, T> PortsOf<K, T> {
    /// Returns an empty table.
    pub fn new(limits: Limits) -> PortsOf<K, T> {
        PortsOf { waiting: Waiting::new(limits), learned: 0 }
    }

    /// Takes a first fragment with its `ports`. Passes this fragment to `each` with the ports, and then the fragments of the datagram that
    /// waited for the ports. Fragments that must be dropped are passed to `each` with a reason instead: the first fragment if an earlier
    /// first fragment had different ports, and the fragments of evicted datagrams.
    pub fn first(
        &mut self,
        now: u64,
        key: K,
        ports: Ports,
        item: T,
        mut each: impl FnMut(Result<Ports, Reason>, T),
    ) {
        let Some(at) = self.at(now, key, &mut each) else { return each(Err(Reason::Displaced), item) };
        match self.waiting.state(at) {
            Some(Some(known)) if *known != ports => return each(Err(Reason::Overlap), item),
            Some(state @ None) => {
                *state = Some(ports);
                self.learned += 1;
            }
            _ => {}
        }
        each(Ok(ports), item);
        self.waiting.empty(at, |_, item| each(Ok(ports), item));
    }

    /// Takes a later fragment. If the ports of its datagram are known, passes the fragment to `each` with the ports; if not, keeps
    /// it. If this fragment or others must be dropped, passes them to `each` with a reason.
    pub fn later(
        &mut self,
        now: u64,
        key: K,
        span: Span,
        item: T,
        mut each: impl FnMut(Result<Ports, Reason>, T),
    ) {
        let Some(at) = self.at(now, key, &mut each) else { return each(Err(Reason::Displaced), item) };
        if let Some(Some(ports)) = self.waiting.state(at) {
            return each(Ok(*ports), item);
        }
        if self.waiting.fragments(at) >= self.waiting.limits().fragments {
            return each(Err(Reason::TooMany), item);
        }
        let after = self.waiting.last(at).map_or(NONE, |l| l.0);
        let kept = self.waiting.keep(at, after, span, item, |why, item| each(Err(reason(why)), item));
        if let Err(item) = kept {
            each(Err(Reason::Crowded), item);
        }
    }

    /// Returns the index of a datagram. Adds the datagram if the table does not have it yet. `None` if the
    /// limit on datagrams is 0.
    fn at(&mut self, now: u64, key: K, each: &mut impl FnMut(Result<Ports, Reason>, T)) -> Option<u32> {
        if let Some(at) = self.waiting.find(&key) {
            return Some(at);
        }
        self.waiting.open(now, key, None, |why, item| each(Err(reason(why)), item))
    }

    /// Removes the datagrams that have expired at `now`, at most `most` of them. Passes their waiting
    /// fragments to `each`.
    pub fn expire(&mut self, now: u64, most: usize, mut each: impl FnMut(T)) {
        self.waiting.expire(now, most, |_, item| each(item));
    }

    /// Returns when the oldest datagram expires, in nanoseconds; `None` if there is no datagram.
    pub fn due(&self) -> Option<u64> {
        self.waiting.due()
    }

    /// Sets the limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.waiting.set_limits(limits);
    }

    /// Returns the number of datagrams, including those with known ports, and the number of waiting fragments
    /// and their buffers.
    pub fn fill(&self) -> Fill {
        self.waiting.fill()
    }

    /// Returns the number of datagrams whose first fragment has arrived.
    pub fn learned(&self) -> u64 {
        self.learned
    }

    /// Returns the datagrams, the oldest first.
    pub fn views(&self) -> impl Iterator<Item = View<K, Option<Ports>>> {
        self.waiting.views()
    }

    /// Removes all datagrams; passes all fragments to `each`.
    pub fn clear(&mut self, each: impl FnMut(T)) {
        self.waiting.clear(each);
    }
}

impl<A: Packets> Shard for PortsOf<Key<A>, Held> {
    fn set_limits(&mut self, limits: Limits) {
        PortsOf::set_limits(self, limits);
    }

    fn totals(&self) -> Totals {
        Totals { fill: self.fill(), completed: self.learned() }
    }

    fn views(&self) -> Vec<DatagramView> {
        let ports = |ports: Ports| (ports.src, ports.dst);
        PortsOf::views(self).map(|v| DatagramView::new(&v, v.state.map(ports))).collect()
    }

    fn due(&self) -> Option<u64> {
        PortsOf::due(self)
    }

    fn clear(&mut self) {
        PortsOf::clear(self, Held::discard);
    }
}

fn reason(why: Why) -> Reason {
    match why {
        Why::Datagrams => Reason::Displaced,
        Why::Buffers => Reason::Crowded,
    }
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
