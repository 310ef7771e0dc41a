//! The protocol: what is known of neighbours, and what to do about it. It has no clock and sends nothing; whoever owns
//! it passes events and the time in, and carries out the actions. There is one table for each family of addresses; what
//! is different is in `family.rs`, and what Neighbor Discovery does otherwise than ARP in `nud.rs`.
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

use infra::mem::Allowance;
use wire::Mac;
use wire::arp::Operation;

use super::config::Config;
use super::entries::{Entries, Entry, Key, State};
use super::family::Family;
use crate::Unused;
use crate::ip::Prefix;
use crate::jitter::Jitter;

const SECOND: u64 = 1_000_000_000;
/// Time between two requests for the same address (RETRANS_TIMER of RFC 4861 section 10).
const RETRY: u64 = SECOND;
/// Requests without an answer after which a neighbour counts as gone (MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT).
const TRIES: u8 = 3;
/// How long one that did not answer is remembered.
const REMEMBER_FAILED: u64 = 3 * SECOND;
/// An address is defended no more than once in this time (DEFEND_INTERVAL).
const DEFEND_INTERVAL: u64 = 10 * SECOND;
/// Within this time one answers who asks for an anycast address (MAX_ANYCAST_DELAY_TIME, RFC 4861 section 10): others answer,
/// too.
const ANYCAST_DELAY: u64 = SECOND;
/// Answers that wait for their time, at most.
const MAX_ANSWERS: usize = 64;
/// Bytes of an entry, with its adjacency, the counters of each worker, and its timers.
const ENTRY: u64 = 2048;
/// Entries that are accepted even when memory runs out.
const FEW: usize = 1024;
/// Entries worked on in one call of [`Neighbors::timeout`].
const BATCH: usize = 256;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<A: Family = Ipv4Addr> {
    /// Packets wait for this neighbour.
    Resolve(Key<A>),
    /// A valid ARP packet came in by `interface`.
    Arp {
        /// The interface.
        interface: u32,
        /// Request or reply.
        op: Operation,
        /// Who sent it.
        sender: (Mac, A),
        /// The address that it asks for, or answers to.
        target: A,
        /// Whether `target` is an address of this interface.
        for_us: bool,
        /// Whether a host on the interface's networks can have the sender's address.
        on_link: bool,
    },
    /// A valid neighbor solicitation came in by `interface`.
    Solicitation {
        /// The interface.
        interface: u32,
        /// Who sent it: the address of the frame, and that of the packet, which may be unspecified.
        sender: (Mac, A),
        /// The Ethernet address that the sender says it has.
        source_mac: Option<Mac>,
        /// The address that it asks for.
        target: A,
        /// Whether `target` is an address of this interface.
        for_us: bool,
        /// Whether other routers have it, too.
        anycast: bool,
        /// Whether a host on the interface's networks can have the sender's address.
        on_link: bool,
    },
    /// A valid neighbor advertisement came in about this neighbour.
    Advertisement {
        /// The neighbour.
        key: Key<A>,
        /// The Ethernet address that it says it has.
        mac: Option<Mac>,
        /// It says that it is a router.
        router: bool,
        /// It says that it was asked.
        solicited: bool,
        /// It says that what was known before does not count any more.
        overrides: bool,
    },
    /// A neighbour said by the way which Ethernet address it has, in a router solicitation or advertisement.
    Mentioned {
        /// The neighbour.
        key: Key<A>,
        /// Its address.
        mac: Mac,
        /// Whether it is a router.
        router: bool,
    },
    /// Packets were sent to this neighbour. Whoever owns the table says so of entries that are [`State::Stale`].
    Used(Key<A>),
    /// Another station, with this Ethernet address, claims an address of this interface.
    Conflict(Key<A>, Mac),
    /// The interface came up with this address, or was given it.
    Announce(Key<A>),
    /// The operator says which address a neighbour has: for good, or as if it had been learned.
    Set {
        /// The neighbour.
        key: Key<A>,
        /// Its address.
        mac: Mac,
        /// For good.
        fixed: bool,
    },
    /// The operator takes an entry away.
    Remove(Key<A>),
    /// The operator has everything forgotten that was learned on the interface.
    Flush(u32),
    /// The interface went down.
    Down(u32),
    /// The interface is gone.
    Gone(u32),
    /// The interface is not on this network any more.
    LeftNetwork(u32, Prefix<A>),
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<A = Ipv4Addr> {
    /// Ask for an address: everybody, or the station that had it.
    Request(Key<A>, Option<Mac>),
    /// Tell whoever has these addresses that the IP address of the key is this router's.
    Reply(Key<A>, (Mac, A)),
    /// Tell everybody that the address is this router's.
    Announce(Key<A>),
    /// Announce the address too, because the station with this Ethernet address claims it.
    Defend(Key<A>, Mac),
    /// The neighbour's address is known: packets may go.
    Resolved(Key<A>, Mac),
    /// The neighbour has another address than before.
    Changed(Key<A>, Mac),
    /// The neighbour's address is not known any more.
    Lost(Key<A>),
    /// The neighbour does not answer: packets that wait for it cannot go.
    Failed(Key<A>),
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
    /// New entries when memory had run out: each replaced the oldest, or was refused.
    pub no_memory: u64,
    /// ARP packets of others that claimed an address of this router.
    pub conflicts: u64,
}

/// The table.
#[derive(Debug)]
pub struct Neighbors<A = Ipv4Addr> {
    /// Bounds. A smaller one takes effect with the next new entry.
    pub config: Config,
    /// Memory for new entries.
    pub(super) memory: Allowance,
    pub(super) entries: Entries<A>,
    /// Announcements to come: when, and how many.
    announcements: BTreeMap<Key<A>, (u64, u8)>,
    /// Answers that are not sent at once: when, for which address, and to whom.
    answers: Vec<(u64, Key<A>, (Mac, A))>,
    /// Until when an address is not defended again.
    defended: BTreeMap<Key<A>, u64>,
    pub(super) counters: Counters,
    jitter: Jitter,
}

impl<A: Family> Default for Neighbors<A> {
    fn default() -> Self {
        Neighbors {
            config: A::CONFIG,
            memory: Allowance::default(),
            entries: Entries::default(),
            announcements: BTreeMap::new(),
            answers: Vec::new(),
            defended: BTreeMap::new(),
            counters: Counters::default(),
            jitter: Jitter::default(),
        }
    }
}

impl<A: Family> Neighbors<A> {
    /// The neighbour's Ethernet address, if it is known.
    pub fn mac_of(&self, key: Key<A>) -> Option<Mac> {
        self.entries.get(key)?.state.mac()
    }

    /// The entries, to be looked at.
    pub fn entries(&self) -> &Entries<A> {
        &self.entries
    }

    /// The entries that became stale since this was last asked. Whoever owns the table looks from then on whether they are used.
    pub fn take_staled(&mut self) -> Vec<Key<A>> {
        self.entries.take_staled()
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes an event in; what is to be done is added to `out`.
    ///
    /// # Errors
    /// Why what a station sent changes nothing, and is not answered.
    pub fn handle(&mut self, now: u64, event: Event<A>, out: &mut Vec<Action<A>>) -> Result<(), Unused> {
        match event {
            Event::Resolve(key) => self.resolve(now, key, out),
            Event::Arp { interface, op, sender, target, for_us, on_link } => {
                let answers = op == Operation::Request && for_us;
                if answers {
                    self.counters.replies += 1;
                    out.push(Action::Reply((interface, target), sender));
                }
                let announced = op == Operation::Reply || target == sender.1;
                let create = match (for_us, on_link) {
                    (true, true) => Ok(()),
                    (_, false) => Err(Unused::OffLink),
                    (false, true) if announced => Err(Unused::NotAsked),
                    (false, true) => Err(Unused::NotForUs),
                };
                let learned = self.learn(now, (interface, sender.1), sender.0, create, out);
                return if answers { Ok(()) } else { learned };
            }
            // RFC 4861 section 7.2.3: one for somebody else means nothing, other than a request of ARP.
            Event::Solicitation { for_us: false, .. } => return Err(Unused::NotForUs),
            Event::Solicitation { interface, sender, source_mac, target, anycast, on_link, .. } => {
                let to = A::answered((source_mac.unwrap_or(sender.0), sender.1));
                let answered = self.answer(now, (interface, target), to, anycast, out);
                let create = if on_link { Ok(()) } else { Err(Unused::OffLink) };
                let learned =
                    source_mac.map(|mac| self.mentioned(now, (interface, sender.1), mac, None, create, out));
                return if learned == Some(Ok(())) { Ok(()) } else { answered };
            }
            Event::Advertisement { key, mac, router, solicited, overrides } => {
                return self.advertised(now, key, mac, (router, solicited, overrides), out);
            }
            Event::Mentioned { key, mac, router } => {
                return self.mentioned(now, key, mac, Some(router), Ok(()), out);
            }
            Event::Used(key) => self.used(now, key),
            Event::Conflict(key, mac) => self.defend(now, key, mac, out),
            Event::Announce(key) => {
                self.announcements.insert(key, (now, A::ANNOUNCEMENTS));
            }
            Event::Set { key, mac, fixed: false } => {
                if matches!(self.entries.get(key), Some(Entry { state: State::Static(_), .. })) {
                    self.forget(key, out);
                }
                return self.learn(now, key, mac, Ok(()), out);
            }
            Event::Set { key, mac, fixed: true } => {
                let before = self.entries.get(key);
                if before.is_some() || self.make_room(false, out) {
                    let router = before.is_some_and(|b| b.router);
                    let entry = Entry { state: State::Static(mac), router, since: now, due: None };
                    self.complete(key, before, entry, out);
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
                let keys: Vec<Key<A>> = self.entries.of(interface).map(|e| e.0).collect();
                keys.into_iter().for_each(|key| self.forget(key, out));
            }
            Event::LeftNetwork(interface, network) => {
                let stays = |k: &Key<A>| k.0 != interface || !network.contains(k.1);
                self.announcements.retain(|k, _| stays(k));
                self.answers.retain(|(_, k, _)| stays(k));
                self.defended.retain(|k, _| stays(k));
                self.forget_learned(interface, |a| network.contains(a), out);
            }
        }
        Ok(())
    }

    /// Answers who asks for an address; later, if others may answer as well (RFC 4861 section 7.2.7).
    fn answer(
        &mut self,
        now: u64,
        own: Key<A>,
        to: (Mac, A),
        anycast: bool,
        out: &mut Vec<Action<A>>,
    ) -> Result<(), Unused> {
        if !anycast {
            self.counters.replies += 1;
            out.push(Action::Reply(own, to));
        } else if !self.answers.iter().any(|(_, key, asker)| (*key, *asker) == (own, to)) {
            if self.answers.len() >= MAX_ANSWERS {
                return Err(Unused::Answers);
            }
            self.answers.push((now + self.jitter.up_to(ANYCAST_DELAY), own, to));
        }
        Ok(())
    }

    /// When [`timeout`](Self::timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<u64> {
        let announcement = self.announcements.values().map(|a| a.0).min();
        let entry = self.entries.first_due().map(|d| d.0);
        let answer = self.answers.iter().map(|a| a.0).min();
        announcement.into_iter().chain(entry).chain(answer).min()
    }

    /// Does what is due, up to a number of entries that keeps the call short: what is left is still due afterwards.
    pub fn timeout(&mut self, now: u64, out: &mut Vec<Action<A>>) {
        let Counters { announcements: sent, .. } = &mut self.counters;
        self.announcements.retain(|key, (due, left)| {
            if *due <= now {
                out.push(Action::Announce(*key));
                *sent += 1;
                (*due, *left) = (now + A::ANNOUNCE_INTERVAL, *left - 1);
            }
            *left > 0
        });
        let due = self.answers.extract_if(.., |answer| answer.0 <= now);
        let answers = due.map(|(_, own, to)| Action::Reply(own, to));
        let before = out.len();
        out.extend(answers);
        self.counters.replies += (out.len() - before) as u64;
        for _ in 0..BATCH {
            match self.entries.first_due() {
                Some((due, key)) if due <= now => self.due(now, key, out),
                _ => return,
            }
        }
    }

    /// The time of an entry has come.
    fn due(&mut self, now: u64, key: Key<A>, out: &mut Vec<Action<A>>) {
        let Some(entry) = self.entries.get(key) else { return };
        match entry.state {
            State::Incomplete(tries) if tries < TRIES => {
                self.ask(now, key, Entry { state: State::Incomplete(tries + 1), ..entry }, out);
            }
            State::Incomplete(_) => {
                let due = Some(now + REMEMBER_FAILED);
                let failed = Entry { state: State::Failed, router: false, since: now, due };
                self.entries.put(key, failed);
                self.counters.failed += 1;
                out.push(Action::Failed(key));
            }
            State::Reachable(mac) if A::NUD => self.entries.put(key, entry.stale(now, mac)),
            State::Reachable(mac) | State::Delay(mac) => {
                self.ask(now, key, Entry { state: State::Probing(mac, 1), ..entry }, out);
            }
            State::Probing(mac, tries) if tries < TRIES => {
                self.ask(now, key, Entry { state: State::Probing(mac, tries + 1), ..entry }, out);
            }
            State::Failed | State::Stale(_) | State::Probing(..) | State::Static(_) => self.forget(key, out),
        }
    }

    fn ask(&mut self, now: u64, key: Key<A>, entry: Entry, out: &mut Vec<Action<A>>) {
        self.entries.put(key, Entry { due: Some(now + RETRY), ..entry });
        self.counters.requests += 1;
        out.push(Action::Request(key, entry.state.mac()));
    }

    fn resolve(&mut self, now: u64, key: Key<A>, out: &mut Vec<Action<A>>) {
        match self.entries.get(key).map(|e| (e.state, e.state.mac())) {
            Some((_, Some(mac))) => {
                self.used(now, key);
                out.push(Action::Resolved(key, mac));
            }
            Some((State::Failed, None)) => out.push(Action::Failed(key)),
            Some(_) => {}
            None if self.make_room(true, out) => {
                let entry = Entry { state: State::Incomplete(1), router: false, since: now, due: None };
                self.ask(now, key, entry, out);
            }
            None => out.push(Action::Failed(key)),
        }
    }

    /// A neighbour made its address known. An entry follows it; a new one is made unless `create` says why not.
    fn learn(
        &mut self,
        now: u64,
        key: Key<A>,
        mac: Mac,
        create: Result<(), Unused>,
        out: &mut Vec<Action<A>>,
    ) -> Result<(), Unused> {
        let before = self.entries.get(key);
        self.may_follow(before, create, out)?;
        let router = before.is_some_and(|b| b.router);
        let entry = self.reachable(now, mac, router);
        self.complete(key, before, entry, out);
        Ok(())
    }

    /// Whether an entry follows what its neighbour says; for one that there is not yet, `create` is asked, and room made.
    pub(super) fn may_follow(
        &mut self,
        before: Option<Entry>,
        create: Result<(), Unused>,
        out: &mut Vec<Action<A>>,
    ) -> Result<(), Unused> {
        match before {
            Some(Entry { state: State::Static(_), .. }) => Err(Unused::Static),
            Some(_) => Ok(()),
            None => {
                create?;
                if self.make_room(false, out) { Ok(()) } else { Err(Unused::Full) }
            }
        }
    }

    /// The entry of a neighbour that was heard of now.
    pub(super) fn reachable(&mut self, now: u64, mac: Mac, router: bool) -> Entry {
        let age = self.config.max_age;
        let age = if A::NUD { self.jitter.between(age / 2, age.saturating_add(age / 2)) } else { age };
        Entry { state: State::Reachable(mac), router, since: now, due: Some(now.saturating_add(age)) }
    }

    /// Puts an entry with an address in place of what was known before.
    pub(super) fn complete(
        &mut self,
        key: Key<A>,
        before: Option<Entry>,
        entry: Entry,
        out: &mut Vec<Action<A>>,
    ) {
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
    pub(super) fn make_room(&mut self, unresolved: bool, out: &mut Vec<Action<A>>) -> bool {
        let before = self.entries.count();
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
        if before > self.entries.count() || before < FEW || self.memory.take(ENTRY) {
            return true;
        }
        // Reuse the memory of the oldest entry.
        self.counters.no_memory += 1;
        let oldest = self.entries.first_to_go();
        oldest.into_iter().for_each(|key| self.forget(key, out));
        oldest.is_some()
    }

    fn forget(&mut self, key: Key<A>, out: &mut Vec<Action<A>>) {
        match self.entries.remove(key).map(|e| e.state) {
            Some(State::Incomplete(_)) => out.push(Action::Failed(key)),
            Some(State::Failed) | None => {}
            Some(_) => out.push(Action::Lost(key)),
        }
    }

    fn forget_learned(&mut self, interface: u32, which: impl Fn(A) -> bool, out: &mut Vec<Action<A>>) {
        let learned = |(key, e): &(Key<A>, Entry)| !matches!(e.state, State::Static(_)) && which(key.1);
        let keys: Vec<Key<A>> = self.entries.of(interface).filter(learned).map(|e| e.0).collect();
        keys.into_iter().for_each(|key| self.forget(key, out));
    }

    /// Nothing more is to be said on an interface.
    fn silence(&mut self, interface: u32) {
        self.announcements.retain(|k, _| k.0 != interface);
        self.answers.retain(|(_, k, _)| k.0 != interface);
        self.defended.retain(|k, _| k.0 != interface);
    }

    /// Defends an address by announcing it, once in a while: a router never gives an address up (RFC 5227 section 2.4,
    /// alternative c).
    fn defend(&mut self, now: u64, key: Key<A>, mac: Mac, out: &mut Vec<Action<A>>) {
        self.counters.conflicts += 1;
        if self.defended.get(&key).is_none_or(|until| *until <= now) {
            self.defended.insert(key, now + DEFEND_INTERVAL);
            self.counters.announcements += 1;
            out.push(Action::Defend(key, mac));
        }
    }
}
