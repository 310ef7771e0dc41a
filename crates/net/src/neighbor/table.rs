//! The protocol: what is known of neighbours, and what to do about it. It has no clock and sends nothing; whoever owns
//! it passes events and the time in, and carries out the actions.
//!
//! ```text
//!              Resolve                answer                  max_age              3 × no answer
//!   (nothing) ─────────→ Incomplete ──────────→ Reachable ─────────────→ Probing ───────────────→ (nothing)
//!                            │ 3 × no answer        ↑                       │ answer
//!                            └──→ Failed (3 s)      └───────────────────────┘
//! ```
//!
//! A neighbour is asked for once a second at most, three times in a row (RFC 1812 section 3.3.2, RFC 1122 section
//! 2.3.2). What is known is asked again by unicast before it is forgotten (RFC 1122 section 2.3.2.1). One that did not
//! answer is remembered for a while, so that a scan of a network costs little.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use wire::Mac;
use wire::arp::Operation;

use super::config::Config;
use super::entries::{Entries, Entry, Key, State};
use crate::ip::Prefix4;

const SECOND: u64 = 1_000_000_000;
/// Time between two requests for the same address.
const RETRY: u64 = SECOND;
/// Requests without an answer after which a neighbour counts as gone.
const TRIES: u8 = 3;
/// How long one that did not answer is remembered.
const REMEMBER_FAILED: u64 = 3 * SECOND;
/// Time between two announcements of an address (ANNOUNCE_INTERVAL, RFC 5227 section 1.1).
const ANNOUNCE_INTERVAL: u64 = 2 * SECOND;
/// How often an address is announced (ANNOUNCE_NUM).
const ANNOUNCEMENTS: u8 = 2;
/// An address is defended no more than once in this time (DEFEND_INTERVAL).
const DEFEND_INTERVAL: u64 = 10 * SECOND;
/// Entries worked on in one call of [`Neighbors::timeout`].
const BATCH: usize = 256;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Packets wait for this neighbour.
    Resolve(Key),
    /// A valid ARP packet came in by `interface`.
    Arp {
        /// The interface.
        interface: u32,
        /// Request or reply.
        op: Operation,
        /// Who sent it.
        sender: (Mac, Ipv4Addr),
        /// The address that it asks for, or answers to.
        target: Ipv4Addr,
        /// Whether `target` is an address of this interface.
        for_us: bool,
        /// Whether a host on the interface's networks can have the sender's address.
        on_link: bool,
    },
    /// Another station, with this Ethernet address, claims an address of this interface.
    Conflict(Key, Mac),
    /// The interface came up with this address, or was given it.
    Announce(Key),
    /// The operator says which address a neighbour has: for good, or as if it had been learned.
    Set {
        /// The neighbour.
        key: Key,
        /// Its address.
        mac: Mac,
        /// For good.
        fixed: bool,
    },
    /// The operator takes an entry away.
    Remove(Key),
    /// The operator has everything forgotten that was learned on the interface.
    Flush(u32),
    /// The interface went down.
    Down(u32),
    /// The interface is gone.
    Gone(u32),
    /// The interface is not on this network any more.
    LeftNetwork(u32, Prefix4),
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask for an address: everybody, or the station that had it.
    Request(Key, Option<Mac>),
    /// Tell the station with this address and IPv4 address that the IPv4 address of the key is this router's.
    Reply(Key, (Mac, Ipv4Addr)),
    /// Tell everybody that the address is this router's.
    Announce(Key),
    /// Announce the address too, because the station with this Ethernet address claims it.
    Defend(Key, Mac),
    /// The neighbour's address is known: packets may go.
    Resolved(Key, Mac),
    /// The neighbour has another address than before.
    Changed(Key, Mac),
    /// The neighbour's address is not known any more.
    Lost(Key),
    /// The neighbour does not answer: packets that wait for it cannot go.
    Failed(Key),
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Requests sent.
    pub requests: u64,
    /// Replies sent.
    pub replies: u64,
    /// Announcements sent.
    pub announcements: u64,
    /// Neighbours that answered, or made themselves known.
    pub resolved: u64,
    /// Neighbours that did not answer.
    pub failed: u64,
    /// Neighbours that changed their Ethernet address.
    pub changed: u64,
    /// Entries that gave way to others because the table was full.
    pub recycled: u64,
    /// New entries refused because the table was full of static ones.
    pub refused: u64,
    /// ARP packets of others that claimed an address of this router.
    pub conflicts: u64,
}

/// The table.
#[derive(Debug, Default)]
pub struct Neighbors {
    /// Bounds. A smaller one takes effect with the next new entry.
    pub config: Config,
    entries: Entries,
    /// Announcements to come: when, and how many.
    announcements: BTreeMap<Key, (u64, u8)>,
    /// Until when an address is not defended again.
    defended: BTreeMap<Key, u64>,
    counters: Counters,
}

impl Neighbors {
    /// The neighbour's Ethernet address, if it is known.
    pub fn mac_of(&self, key: Key) -> Option<Mac> {
        self.entries.get(key)?.state.mac()
    }

    /// The entries, to be looked at.
    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes an event in; what is to be done is added to `out`.
    pub fn handle(&mut self, now: u64, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::Resolve(key) => self.resolve(now, key, out),
            Event::Arp { interface, op, sender, target, for_us, on_link } => {
                if op == Operation::Request && for_us {
                    self.counters.replies += 1;
                    out.push(Action::Reply((interface, target), sender));
                }
                self.learn(now, (interface, sender.1), sender.0, for_us && on_link, out);
            }
            Event::Conflict(key, mac) => self.defend(now, key, mac, out),
            Event::Announce(key) => {
                self.announcements.insert(key, (now, ANNOUNCEMENTS));
            }
            Event::Set { key, mac, fixed: false } => {
                if matches!(self.entries.get(key), Some(Entry { state: State::Static(_), .. })) {
                    self.forget(key, out);
                }
                self.learn(now, key, mac, true, out);
            }
            Event::Set { key, mac, fixed: true } => {
                let before = self.entries.get(key);
                if before.is_some() || self.make_room(false, out) {
                    self.complete(
                        key,
                        before,
                        Entry { state: State::Static(mac), since: now, due: None },
                        out,
                    );
                }
            }
            Event::Remove(key) => self.forget(key, out),
            Event::Flush(interface) => self.forget_learned(interface, |_| true, out),
            Event::Down(interface) => {
                self.silence(interface);
                self.forget_learned(interface, |_| true, out);
            }
            Event::Gone(interface) => {
                self.silence(interface);
                let keys: Vec<Key> = self.entries.of(interface).map(|e| e.0).collect();
                keys.into_iter().for_each(|key| self.forget(key, out));
            }
            Event::LeftNetwork(interface, network) => {
                let stays = |k: &Key| k.0 != interface || !network.contains(k.1);
                self.announcements.retain(|k, _| stays(k));
                self.defended.retain(|k, _| stays(k));
                self.forget_learned(interface, |a| network.contains(a), out);
            }
        }
    }

    /// When [`timeout`](Self::timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<u64> {
        let announcement = self.announcements.values().map(|a| a.0).min();
        let entry = self.entries.first_due().map(|d| d.0);
        announcement.into_iter().chain(entry).min()
    }

    /// Does what is due, up to a number of entries that keeps the call short: what is left is still due afterwards.
    pub fn timeout(&mut self, now: u64, out: &mut Vec<Action>) {
        let Counters { announcements: sent, .. } = &mut self.counters;
        self.announcements.retain(|key, (due, left)| {
            if *due <= now {
                out.push(Action::Announce(*key));
                *sent += 1;
                (*due, *left) = (now + ANNOUNCE_INTERVAL, *left - 1);
            }
            *left > 0
        });
        for _ in 0..BATCH {
            match self.entries.first_due() {
                Some((due, key)) if due <= now => self.due(now, key, out),
                _ => return,
            }
        }
    }

    /// The time of an entry has come.
    fn due(&mut self, now: u64, key: Key, out: &mut Vec<Action>) {
        let Some(entry) = self.entries.get(key) else { return };
        match entry.state {
            State::Incomplete(tries) if tries < TRIES => {
                self.ask(now, key, State::Incomplete(tries + 1), entry.since, out);
            }
            State::Incomplete(_) => {
                let failed = Entry { state: State::Failed, since: now, due: Some(now + REMEMBER_FAILED) };
                self.entries.put(key, failed);
                self.counters.failed += 1;
                out.push(Action::Failed(key));
            }
            State::Reachable(mac) => self.ask(now, key, State::Probing(mac, 1), entry.since, out),
            State::Probing(mac, tries) if tries < TRIES => {
                self.ask(now, key, State::Probing(mac, tries + 1), entry.since, out);
            }
            State::Failed | State::Probing(..) | State::Static(_) => self.forget(key, out),
        }
    }

    fn ask(&mut self, now: u64, key: Key, state: State, since: u64, out: &mut Vec<Action>) {
        self.entries.put(key, Entry { state, since, due: Some(now + RETRY) });
        self.counters.requests += 1;
        out.push(Action::Request(key, state.mac()));
    }

    fn resolve(&mut self, now: u64, key: Key, out: &mut Vec<Action>) {
        match self.entries.get(key).map(|e| (e.state, e.state.mac())) {
            Some((_, Some(mac))) => out.push(Action::Resolved(key, mac)),
            Some((State::Failed, None)) => out.push(Action::Failed(key)),
            Some(_) => {}
            None if self.make_room(true, out) => self.ask(now, key, State::Incomplete(1), now, out),
            None => out.push(Action::Failed(key)),
        }
    }

    /// A neighbour made its address known. An entry follows it; a new one is made only if `create`.
    fn learn(&mut self, now: u64, key: Key, mac: Mac, create: bool, out: &mut Vec<Action>) {
        let before = self.entries.get(key);
        match before {
            Some(Entry { state: State::Static(_), .. }) => return,
            None if !create || !self.make_room(false, out) => return,
            _ => {}
        }
        let due = now.saturating_add(self.config.max_age);
        self.complete(key, before, Entry { state: State::Reachable(mac), since: now, due: Some(due) }, out);
    }

    /// Puts an entry with an address in place of what was known before.
    fn complete(&mut self, key: Key, before: Option<Entry>, entry: Entry, out: &mut Vec<Action>) {
        self.entries.put(key, entry);
        match (before.and_then(|b| b.state.mac()), entry.state.mac()) {
            (None, Some(mac)) => {
                self.counters.resolved += 1;
                out.push(Action::Resolved(key, mac));
            }
            (Some(old), Some(mac)) if old != mac => {
                self.counters.changed += 1;
                out.push(Action::Changed(key, mac));
            }
            _ => {}
        }
    }

    /// Makes room for one more entry; `false` when there is none to be had.
    fn make_room(&mut self, unresolved: bool, out: &mut Vec<Action>) -> bool {
        while self.entries.count() >= self.config.max_entries
            || (unresolved && self.entries.unresolved() >= self.config.max_unresolved.max(1))
        {
            let Some(key) = self.entries.first_to_go() else {
                self.counters.refused += 1;
                return false;
            };
            self.counters.recycled += 1;
            self.forget(key, out);
        }
        true
    }

    fn forget(&mut self, key: Key, out: &mut Vec<Action>) {
        match self.entries.remove(key).map(|e| e.state) {
            Some(State::Incomplete(_)) => out.push(Action::Failed(key)),
            Some(State::Reachable(_) | State::Probing(..) | State::Static(_)) => out.push(Action::Lost(key)),
            Some(State::Failed) | None => {}
        }
    }

    fn forget_learned(&mut self, interface: u32, which: impl Fn(Ipv4Addr) -> bool, out: &mut Vec<Action>) {
        let learned = |(key, e): &(Key, Entry)| !matches!(e.state, State::Static(_)) && which(key.1);
        let keys: Vec<Key> = self.entries.of(interface).filter(learned).map(|e| e.0).collect();
        keys.into_iter().for_each(|key| self.forget(key, out));
    }

    /// Nothing more is to be said on an interface.
    fn silence(&mut self, interface: u32) {
        self.announcements.retain(|k, _| k.0 != interface);
        self.defended.retain(|k, _| k.0 != interface);
    }

    /// Defends an address by announcing it, once in a while: a router never gives an address up (RFC 5227 section 2.4,
    /// alternative c).
    fn defend(&mut self, now: u64, key: Key, mac: Mac, out: &mut Vec<Action>) {
        self.counters.conflicts += 1;
        if self.defended.get(&key).is_none_or(|until| *until <= now) {
            self.defended.insert(key, now + DEFEND_INTERVAL);
            self.counters.announcements += 1;
            out.push(Action::Defend(key, mac));
        }
    }
}
