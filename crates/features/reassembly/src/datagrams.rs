//! Assigns fragments to datagrams (RFC 791 section 3.2, RFC 815). This module does not parse packets.
//!
//! A datagram with overlapping fragments is dropped as a whole, including fragments that arrive later (RFC 5722 requires this for IPv6; RFC
//! 8900 section 3.7). No honest sender makes overlapping fragments, and the router cannot know which of two different bytes is right. A
//! second fragment with the same start and end is a copy made by the network; only the copy is dropped.

use std::hash::Hash;

use buf::Held;
use net::ip::Packets;

use crate::fragment::{Fragment, Key, Reason};
use crate::shards::{DatagramView, Shard, Totals};
use crate::waiting::{Fill, Limits, NONE, Span, View, Waiting, Why};

/// The state of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Length of the datagram's payload in bytes; `None` until the last fragment has arrived.
    len: Option<u32>,
    /// Number of payload bytes received.
    have: u32,
    /// The ECN code points of the received fragments, one bit each.
    ecn: u8,
    /// Why the datagram can no longer be reassembled; `None` if it still can. All its fragments are dropped for this reason.
    spoilt: Option<Reason>,
}

/// A datagram of which all fragments have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    at: u32,
    /// Length of the datagram's payload, in bytes.
    pub len: u32,
    /// The ECN code points of the datagram's fragments, one bit each.
    pub ecn: u8,
}

/// Datagrams that wait for more fragments, by their keys `K`. `T` is a stored fragment.
pub struct Datagrams<K, T> {
    waiting: Waiting<K, Datagram, T>,
    completed: u64,
}

impl<K: Copy + Eq + Hash, T> Datagrams<K, T> {
    /// Returns an empty table.
    pub fn new(limits: Limits) -> Datagrams<K, T> {
        Datagrams { waiting: Waiting::new(limits), completed: 0 }
    }

    /// Takes a fragment that arrived at `now` (nanoseconds). If this fragment or others are dropped, passes
    /// them to `refuse`. Returns the datagram if all its fragments have arrived; the caller then calls
    /// [`take`](Self::take).
    pub fn add(
        &mut self,
        now: u64,
        key: K,
        fragment: Fragment,
        item: T,
        mut refuse: impl FnMut(Reason, T),
    ) -> Option<Whole> {
        let span = fragment.span;
        if let Err(reason) = fragment.check() {
            refuse(reason, item);
            return None;
        }
        let at = match self.waiting.find(&key) {
            Some(at) => at,
            None => {
                let new = Datagram::default();
                match self.waiting.open(now, key, new, |why, item| refuse(displaced(why), item)) {
                    Some(at) => at,
                    None => {
                        refuse(Reason::Displaced, item);
                        return None;
                    }
                }
            }
        };
        let after = match self.place(at, &fragment) {
            Ok(after) => after,
            Err(reason) => {
                refuse(reason, item);
                if reason != Reason::Duplicate {
                    self.spoil(at, reason, &mut refuse);
                }
                return None;
            }
        };
        let kept = self.waiting.keep(at, after, span, item, |why, item| refuse(displaced(why), item));
        if let Err(item) = kept {
            refuse(Reason::Crowded, item);
            self.spoil(at, Reason::Crowded, &mut refuse);
            return None;
        }
        let datagram = self.waiting.state(at)?;
        datagram.have += span.end - span.start;
        datagram.ecn |= 1 << fragment.ecn;
        if !fragment.more {
            datagram.len = Some(span.end);
        }
        // No fragments overlap or exceed the end, so this number of bytes means that all have arrived.
        let whole = datagram.len.filter(|&len| len == datagram.have)?;
        Some(Whole { at, len: whole, ecn: datagram.ecn })
    }

    /// Marks a datagram as lost, for `reason`: drops its waiting fragments now, and later ones on arrival.
    fn spoil(&mut self, at: u32, reason: Reason, refuse: &mut impl FnMut(Reason, T)) {
        if let Some(datagram) = self.waiting.state(at) {
            datagram.spoilt = Some(reason);
        }
        self.waiting.empty(at, |_, item| refuse(reason, item));
    }

    /// Returns the slot after which a new fragment belongs in its datagram's list (`NONE`: at the front). An
    /// error says why the fragment must be dropped.
    fn place(&mut self, at: u32, fragment: &Fragment) -> Result<u32, Reason> {
        let Span { start, end, .. } = fragment.span;
        let Some(datagram) = self.waiting.state(at).copied() else { return Err(Reason::Displaced) };
        if let Some(reason) = datagram.spoilt {
            return Err(reason);
        }
        let last = self.waiting.last(at);
        let behind_end = datagram.len.is_some_and(|len| end > len || (end == len && fragment.more));
        // Fragments mostly arrive in order; others are searched from the front.
        let (before, next) = match last {
            Some(last) if last.1.end <= start => (Some(last), None),
            _ => {
                let mut before = None;
                let next = self.waiting.spans(at).find(|s| {
                    let found = s.1.start >= start;
                    before = if found { before } else { Some(*s) };
                    found
                });
                (before, next)
            }
        };
        if next.is_some_and(|(_, s)| (s.start, s.end) == (start, end)) {
            return Err(Reason::Duplicate);
        }
        let cuts_last = !fragment.more && last.is_some_and(|(_, s)| s.end > end);
        let second_end = !fragment.more && datagram.len.is_some();
        let overlap = before.is_some_and(|(_, s)| s.end > start) || next.is_some_and(|(_, s)| s.start < end);
        if overlap || behind_end || cuts_last || second_end {
            return Err(Reason::Overlap);
        }
        if self.waiting.fragments(at) >= self.waiting.limits().fragments {
            return Err(Reason::TooMany);
        }
        Ok(before.map_or(NONE, |b| b.0))
    }

    /// Passes the fragments of a complete datagram to `each` in order, and removes the datagram.
    pub fn take(&mut self, whole: Whole, mut each: impl FnMut(T)) {
        self.completed += 1;
        self.waiting.close(whole.at, |_, item| each(item));
    }

    /// Removes the datagrams that have expired at `now`, at most `most` of them. Passes their fragments to
    /// `each`, with true for the first fragment of a datagram.
    pub fn expire(&mut self, now: u64, most: usize, mut each: impl FnMut(bool, T)) {
        self.waiting.expire(now, most, |span, item| each(span.start == 0, item));
    }

    /// Returns when the oldest datagram expires, in nanoseconds; `None` if no datagram waits.
    pub fn due(&self) -> Option<u64> {
        self.waiting.due()
    }

    /// Sets the limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.waiting.set_limits(limits);
    }

    /// Returns the number of waiting datagrams, fragments and buffers.
    pub fn fill(&self) -> Fill {
        self.waiting.fill()
    }

    /// Returns the number of datagrams of which all fragments have arrived, even if they could not be joined.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Returns the waiting datagrams, the oldest first.
    pub fn views(&self) -> impl Iterator<Item = View<K, Datagram>> {
        self.waiting.views()
    }

    /// Removes all datagrams; passes all fragments to `each`.
    pub fn clear(&mut self, each: impl FnMut(T)) {
        self.waiting.clear(each);
    }
}

fn displaced(why: Why) -> Reason {
    match why {
        Why::Datagrams => Reason::Displaced,
        Why::Buffers => Reason::Crowded,
    }
}

impl<A: Packets> Shard for Datagrams<Key<A>, Held> {
    fn set_limits(&mut self, limits: Limits) {
        Datagrams::set_limits(self, limits);
    }

    fn totals(&self) -> Totals {
        Totals { fill: self.fill(), completed: self.completed() }
    }

    fn views(&self) -> Vec<DatagramView> {
        Datagrams::views(self).map(|v| DatagramView::new(&v, None)).collect()
    }

    fn due(&self) -> Option<u64> {
        Datagrams::due(self)
    }

    fn clear(&mut self) {
        Datagrams::clear(self, Held::discard);
    }
}

#[cfg(test)]
#[path = "datagrams_tests.rs"]
mod tests;
