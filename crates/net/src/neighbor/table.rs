//! The neighbor protocol: the state of each neighbor, and the actions that follow from events. The table has
//! no clock and sends nothing: the caller passes in events and the time, and executes the actions. There is
//! one table for each family. The differences between the families are in `family.rs`, and the special rules
//! of Neighbor Discovery in `nud.rs`.
//!
//! ```text
//!              Resolve                answer                  max_age              3 × no answer
//!   (nothing) ─────────→ Incomplete ──────────→ Reachable ─────────────→ Probing ───────────────→ (nothing)
//!                            │ 3 × no answer        ↑                       │ answer
//!                            └──→ Failed (3 s)      └───────────────────────┘
//! ```
//!
//! The router requests a neighbor's address at most once a second, and three times in a row (RFC 1812 section
//! 3.3.2, RFC 1122 section 2.3.2). It probes a known neighbor by unicast before it removes the entry (RFC
//! 1122 section 2.3.2.1). A neighbor that did not answer keeps a failed entry for a while, so that a scan of
//! a network costs little.

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
/// Number of unanswered requests after which a neighbor is unreachable (MAX_MULTICAST_SOLICIT,
/// MAX_UNICAST_SOLICIT).
const TRIES: u8 = 3;
/// Lifetime of a failed entry.
const REMEMBER_FAILED: u64 = 3 * SECOND;
/// Minimum time between two defenses of an address (DEFEND_INTERVAL).
const DEFEND_INTERVAL: u64 = 10 * SECOND;
/// Maximum delay of an answer for an anycast address, since other routers answer too (MAX_ANYCAST_DELAY_TIME,
/// RFC 4861 section 10).
const ANYCAST_DELAY: u64 = SECOND;
/// Maximum number of delayed answers.
const MAX_ANSWERS: usize = 64;
/// Estimated memory of an entry in bytes, with its adjacency, each worker's counters, and its timers.
const ENTRY: u64 = 2048;
/// Up to this number of entries, new entries are accepted even when memory runs out.
const FEW: usize = 2048;
/// Maximum number of expired entries handled in one call of [`Neighbors::timeout`].
const BATCH: usize = 256;

/// Input events.
#[derive(Clone, Copy, Debug)]
pub enum Event<A: Family = Ipv4Addr> {
    /// Packets wait for the address of this neighbor.
    Resolve(Key<A>),
    /// A valid ARP packet was received on `interface`.
    Arp {
        /// The interface.
        interface: u32,
        /// Request or reply.
        op: Operation,
        /// The sender of the packet.
        sender: (Mac, A),
        /// The target IP address of the packet.
        target: A,
        /// True if the router answers for `target` on this interface, and `target` is not the sender's address.
        for_us: bool,
        /// True if the sender's address is a host address in one of the interface's networks.
        on_link: bool,
    },
    /// A valid neighbor solicitation was received on `interface`.
    Solicitation {
        /// The interface.
        interface: u32,
        /// The sender: the source of the Ethernet frame, and the source of the IPv6 packet, which may be
        /// unspecified.
        sender: (Mac, A),
        /// The Ethernet address in the source link-layer address option.
        source_mac: Option<Mac>,
        /// The solicited address.
        target: A,
        /// True if the router answers for `target` on this interface, and `target` is not the sender's address.
        for_us: bool,
        /// True if `target` is an anycast address, which other routers have too.
        anycast: bool,
        /// True if the sender's address is a host address in one of the interface's networks.
        on_link: bool,
    },
    /// A valid neighbor advertisement about this neighbor was received.
    Advertisement {
        /// The neighbor.
        key: Key<A>,
        /// The Ethernet address in the target link-layer address option.
        mac: Option<Mac>,
        /// The router flag.
        router: bool,
        /// The solicited flag: the advertisement answers a solicitation.
        solicited: bool,
        /// The override flag: the advertised Ethernet address replaces a known one.
        overrides: bool,
    },
    /// A router solicitation or advertisement contained a neighbor's Ethernet address.
    Mentioned {
        /// The neighbor.
        key: Key<A>,
        /// The neighbor's Ethernet address.
        mac: Mac,
        /// True if the neighbor is a router.
        router: bool,
    },
    /// Packets were sent to this neighbor. The owner of the table reports this event for [`State::Stale`]
    /// entries.
    Used(Key<A>),
    /// Another station claims an address of this interface. The second value is the station's Ethernet
    /// address.
    Conflict(Key<A>, Mac),
    /// The interface came up with this address, or the address was added to it.
    Announce(Key<A>),
    /// The operator sets a neighbor's Ethernet address: permanently, or as if it had been learned.
    Set {
        /// The neighbor.
        key: Key<A>,
        /// The neighbor's Ethernet address.
        mac: Mac,
        /// True for a permanent entry.
        fixed: bool,
    },
    /// The operator removes an entry.
    Remove(Key<A>),
    /// The operator removes all learned entries of an interface.
    Flush(u32),
    /// The interface went down: its learned entries are removed.
    Down(u32),
    /// The interface was removed: all its entries are removed.
    Gone(u32),
    /// This network was removed from the interface.
    LeftNetwork(u32, Prefix<A>),
}

/// Output actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<A = Ipv4Addr> {
    /// Send a request for a neighbor's Ethernet address: by unicast to this Ethernet address, or to all nodes
    /// if the second value is `None`.
    Request(Key<A>, Option<Mac>),
    /// Send a reply to this Ethernet and IP address. The reply says that the IP address in the key belongs to this router.
    Reply(Key<A>, (Mac, A)),
    /// Announce to all nodes that the address is this router's.
    Announce(Key<A>),
    /// Announce to all nodes that the address is this router's, because the station with this Ethernet
    /// address claims it too.
    Defend(Key<A>, Mac),
    /// The neighbor's Ethernet address is known: packets can be sent.
    Resolved(Key<A>, Mac),
    /// The neighbor's Ethernet address has changed.
    Changed(Key<A>, Mac),
    /// The neighbor's Ethernet address is no longer known. The second value is the last known address.
    Lost(Key<A>, Mac),
    /// The neighbor does not answer: its waiting packets cannot be sent.
    Failed(Key<A>),
}

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Requests sent.
    pub requests: u64,
    /// Replies sent.
    pub replies: u64,
    /// Announcements sent.
    pub announcements: u64,
    /// Neighbors whose Ethernet address was learned, by an answer or another message.
    pub resolved: u64,
    /// Neighbors that did not answer.
    pub failed: u64,
    /// Neighbors that changed their Ethernet address.
    pub changed: u64,
    /// Entries replaced because a limit of the table was reached.
    pub recycled: u64,
    /// New entries refused because the table was full of static entries.
    pub refused: u64,
    /// Number of new entries for which no memory was free. Each replaced another entry or was refused.
    pub no_memory: u64,
    /// Packets of other stations that claimed an address of this router.
    pub conflicts: u64,
}

/// The table.
#[derive(Debug)]
pub struct Neighbors<A = Ipv4Addr> {
    /// Limits of the table. If a limit becomes smaller, it takes effect with the next new entry.
    pub config: Config,
    /// Memory that new entries may use.
    pub(super) memory: Allowance,
    pub(super) entries: Entries<A>,
    /// Pending announcements of an address: the time of the next one, and the number left.
    announcements: BTreeMap<Key<A>, (u64, u8)>,
    /// Delayed answers: the time, this router's address, and the destination.
    answers: Vec<(u64, Key<A>, (Mac, A))>,
    /// The time before which an address is not defended again.
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
    /// Returns the neighbor's Ethernet address, if it is known.
    pub fn mac_of(&self, key: Key<A>) -> Option<Mac> {
        self.entries.get(key)?.state.mac()
    }

    /// The entries, read-only.
    pub fn entries(&self) -> &Entries<A> {
        &self.entries
    }

    /// Returns the entries that became stale since the last call. From then on, the owner of the table must
    /// check whether packets are sent to them.
    pub fn take_staled(&mut self) -> Vec<Key<A>> {
        self.entries.take_staled()
    }

    /// The event counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Handles an event. Adds the actions to `out`.
    ///
    /// # Errors
    /// The reason why a message from a station is neither used nor answered.
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
            // RFC 4861 section 7.2.3: unlike an ARP request, a solicitation for another node has no effect.
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
                if self.config.announcements > 0 {
                    self.announcements.insert(key, (now, self.config.announcements));
                }
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

    /// Answers a solicitation for one of this router's addresses: at once, or for an anycast address after a
    /// random delay because other routers may answer too (RFC 4861 section 7.2.7).
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

    /// Returns the time at which [`timeout`](Self::timeout) must be called next; `None` if there is no timer.
    pub fn poll_timeout(&self) -> Option<u64> {
        let announcement = self.announcements.values().map(|a| a.0).min();
        let entry = self.entries.first_due().map(|d| d.0);
        let answer = self.answers.iter().map(|a| a.0).min();
        announcement.into_iter().chain(entry).chain(answer).min()
    }

    /// Handles expired timers. To keep the call short, it handles at most 256 entries; the next call
    /// continues.
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

    /// Handles an entry's expired timer.
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

    /// Learns a neighbor's Ethernet address from ARP or the operator, and updates the neighbor's entry. If
    /// the neighbor has no entry, adds one if `create` is `Ok`, or else returns the error in `create`.
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

    /// Checks that a message may update a neighbor's entry `before`. If there is no entry, makes room for one
    /// if `create` is `Ok`, or else returns the error in `create`.
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

    /// Returns a reachable entry, confirmed at `now`.
    pub(super) fn reachable(&mut self, now: u64, mac: Mac, router: bool) -> Entry {
        let age = self.config.max_age;
        let age = if A::NUD { self.jitter.between(age / 2, age.saturating_add(age / 2)) } else { age };
        Entry { state: State::Reachable(mac), router, since: now, due: Some(now.saturating_add(age)) }
    }

    /// Replaces the entry `before` by `entry`, which must have an Ethernet address, and adds the resulting
    /// action to `out`.
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

    /// Makes room for one more entry, if necessary by removing others. `unresolved` is true if the new entry's neighbor has not
    /// answered. Returns false if there is no room.
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
        // Reuse the memory of the entry that is first in the order of replacement.
        self.counters.no_memory += 1;
        let oldest = self.entries.first_to_go();
        oldest.into_iter().for_each(|key| self.forget(key, out));
        oldest.is_some()
    }

    fn forget(&mut self, key: Key<A>, out: &mut Vec<Action<A>>) {
        let Some(Entry { state, .. }) = self.entries.remove(key) else { return };
        match (state, state.mac()) {
            (_, Some(mac)) => out.push(Action::Lost(key, mac)),
            (State::Incomplete(_), None) => out.push(Action::Failed(key)),
            _ => {}
        }
    }

    fn forget_learned(&mut self, interface: u32, which: impl Fn(A) -> bool, out: &mut Vec<Action<A>>) {
        let learned = |(key, e): &(Key<A>, Entry)| !matches!(e.state, State::Static(_)) && which(key.1);
        let keys: Vec<Key<A>> = self.entries.of(interface).filter(learned).map(|e| e.0).collect();
        keys.into_iter().for_each(|key| self.forget(key, out));
    }

    /// Cancels the pending announcements and answers of an interface, and forgets when its addresses were defended.
    fn silence(&mut self, interface: u32) {
        self.announcements.retain(|k, _| k.0 != interface);
        self.answers.retain(|(_, k, _)| k.0 != interface);
        self.defended.retain(|k, _| k.0 != interface);
    }

    /// Defends an address: announces it, at most once in [`DEFEND_INTERVAL`]. A router never gives up an
    /// address (RFC 5227 section 2.4, alternative c).
    fn defend(&mut self, now: u64, key: Key<A>, mac: Mac, out: &mut Vec<Action<A>>) {
        self.counters.conflicts += 1;
        if self.defended.get(&key).is_none_or(|until| *until <= now) {
            self.defended.insert(key, now + DEFEND_INTERVAL);
            self.counters.announcements += 1;
            out.push(Action::Defend(key, mac));
        }
    }
}
