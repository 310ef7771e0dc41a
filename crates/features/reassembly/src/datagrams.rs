//! Reassembly: which fragments make which datagram (RFC 791 section 3.2, RFC 815), without packets.
//!
//! A datagram whose fragments overlap is dropped as a whole, with what may still come of it: nobody who fragments makes
//! such, and which of two bytes is right cannot be told (RFC 5722 has it so for IPv6; RFC 8900 section 3.7). A fragment that
//! comes twice with the same extent is a copy that the network made; it is dropped, and no more.

use std::hash::Hash;

use buf::Held;
use net::ip::Packets;

use crate::fragment::{Fragment, Key, Reason};
use crate::shards::{DatagramView, Shard, Totals};
use crate::waiting::{Fill, Limits, NONE, Span, View, Waiting, Why};

/// What is known of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes of its payload, once the last fragment has come.
    len: Option<u32>,
    /// Bytes that have come.
    have: u32,
    /// Which of the four ECN code points its fragments have, one bit each.
    ecn: u8,
    /// Why it cannot become whole any more: what comes is dropped for this reason.
    spoilt: Option<Reason>,
}

/// A datagram that has all its fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    at: u32,
    /// Bytes of its payload.
    pub len: u32,
    /// Which of the four ECN code points its fragments have, one bit each.
    pub ecn: u8,
}

/// Datagrams that wait for more fragments, by their keys `K`.
pub struct Datagrams<K, T> {
    waiting: Waiting<K, Datagram, T>,
    completed: u64,
}

impl<K: Copy + Eq + Hash, T> Datagrams<K, T> {
    /// No datagrams.
    pub fn new(limits: Limits) -> Datagrams<K, T> {
        Datagrams { waiting: Waiting::new(limits), completed: 0 }
    }

    /// Takes a fragment, which came at `now`. What is dropped is given to `refuse`, this fragment or others. Gives the
    /// datagram if it is whole now; its fragments are to be [taken](Self::take).
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
        // Nothing overlaps and nothing lies behind the end, so as many bytes as that are all bytes.
        let whole = datagram.len.filter(|&len| len == datagram.have)?;
        Some(Whole { at, len: whole, ecn: datagram.ecn })
    }

    /// Gives a datagram up: what came and what will come is dropped.
    fn spoil(&mut self, at: u32, reason: Reason, refuse: &mut impl FnMut(Reason, T)) {
        if let Some(datagram) = self.waiting.state(at) {
            datagram.spoilt = Some(reason);
        }
        self.waiting.empty(at, |_, item| refuse(reason, item));
    }

    /// Behind which place of a datagram's list a fragment belongs.
    fn place(&mut self, at: u32, fragment: &Fragment) -> Result<u32, Reason> {
        let Span { start, end, .. } = fragment.span;
        let Some(datagram) = self.waiting.state(at).copied() else { return Err(Reason::Displaced) };
        if let Some(reason) = datagram.spoilt {
            return Err(reason);
        }
        let last = self.waiting.last(at);
        let behind_end = datagram.len.is_some_and(|len| end > len || (end == len && fragment.more));
        // Fragments mostly come in order; what comes in any other is looked for from the front.
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

    /// Gives the fragments of a whole datagram to `each`, in order, and forgets it.
    pub fn take(&mut self, whole: Whole, mut each: impl FnMut(T)) {
        self.completed += 1;
        self.waiting.close(whole.at, |_, item| each(item));
    }

    /// Forgets the datagrams that have waited too long, `most` of them at most. `each` is given their fragments, and for
    /// each whether it is the first of its datagram.
    pub fn expire(&mut self, now: u64, most: usize, mut each: impl FnMut(bool, T)) {
        self.waiting.expire(now, most, |span, item| each(span.start == 0, item));
    }

    /// When the oldest datagram will have waited too long.
    pub fn due(&self) -> Option<u64> {
        self.waiting.due()
    }

    /// Sets the limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.waiting.set_limits(limits);
    }

    /// How much waits.
    pub fn fill(&self) -> Fill {
        self.waiting.fill()
    }

    /// Datagrams that became whole.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// The datagrams that wait, the oldest first.
    pub fn views(&self) -> impl Iterator<Item = View<K, Datagram>> {
        self.waiting.views()
    }

    /// Forgets everything; gives all fragments to `each`.
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
