//! Tests of the neighbor protocol with a simulated clock.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use infra::mem::{Allowance, Room};
use proptest::prelude::*;
use wire::Mac;
use wire::arp::Operation;

use super::config::Config;
use super::entries::{Key, State};
use super::table::{Action, Event, Neighbors};
use crate::ip::Prefix4;

const SECOND: u64 = 1_000_000_000;
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Key = (7, Ipv4Addr::new(10, 0, 0, 2));
const OTHER: Key = (7, Ipv4Addr::new(10, 0, 0, 3));
const A: Mac = Mac([2, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([2, 0, 0, 0, 0, 0xb]);

/// A table with a simulated clock.
struct Clocked {
    table: Neighbors,
    now: u64,
}

impl Clocked {
    fn new(config: Config) -> Clocked {
        let mut table = Neighbors::default();
        table.config = config;
        Clocked { table, now: 1000 * SECOND }
    }

    fn event(&mut self, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        let _ = self.table.handle(self.now, event, &mut out);
        out
    }

    /// Lets `seconds` pass. Returns the actions, each with its time in seconds from the start.
    fn pass(&mut self, seconds: u64) -> Vec<(u64, Action)> {
        let (start, end) = (self.now, self.now + seconds * SECOND);
        let mut all = Vec::new();
        while let Some(due) = self.table.poll_timeout().filter(|d| *d <= end) {
            self.now = self.now.max(due);
            let mut out = Vec::new();
            self.table.timeout(self.now, &mut out);
            all.extend(out.into_iter().map(|a| ((self.now - start) / SECOND, a)));
        }
        self.now = end;
        all
    }

    fn state(&self, key: Key) -> Option<State> {
        self.table.entries().get(key).map(|e| e.state)
    }
}

fn clocked() -> Clocked {
    Clocked::new(Config::default())
}

/// Returns the event of a valid ARP packet for `target`. `key` has the receiving interface and the sender's
/// IP address; `mac` is the sender's Ethernet address.
fn arp(op: Operation, key: Key, mac: Mac, target: Ipv4Addr) -> Event {
    let for_us = target == OWN;
    Event::Arp { interface: key.0, op, sender: (mac, key.1), target, for_us, on_link: true }
}

fn reply(key: Key, mac: Mac) -> Event {
    arp(Operation::Reply, key, mac, OWN)
}

#[test]
fn rfc1812_3_3_2_one_arp_request_a_second_then_failed() {
    let mut t = clocked();
    assert_eq!(t.event(Event::Resolve(PEER)), [Action::Request(PEER, None)]);
    assert_eq!(t.event(Event::Resolve(PEER)), [], "already requested");
    let request = Action::Request(PEER, None);
    assert_eq!(t.pass(3), [(1, request), (2, request), (3, Action::Failed(PEER))]);
    assert_eq!(t.event(Event::Resolve(PEER)), [Action::Failed(PEER)], "remembered");
    assert_eq!(t.pass(3), []);
    assert_eq!(t.event(Event::Resolve(PEER)), [request], "removed, and requested again");
    assert_eq!((t.table.counters().requests, t.table.counters().failed), (4, 1));
}

#[test]
fn a_reply_resolves_an_entry() {
    let mut t = clocked();
    t.event(Event::Resolve(PEER));
    t.pass(1);
    assert_eq!(t.event(reply(PEER, A)), [Action::Resolved(PEER, A)]);
    assert_eq!(t.event(Event::Resolve(PEER)), [Action::Resolved(PEER, A)], "known");
    assert_eq!(t.pass(10), [], "no more requests");
}

#[test]
fn a_failed_neighbor_is_learned_from_its_next_packet() {
    let mut t = clocked();
    t.event(Event::Resolve(PEER));
    t.pass(4);
    assert_eq!(t.state(PEER), Some(State::Failed));
    assert_eq!(t.event(arp(Operation::Request, PEER, A, PEER.1)), [Action::Resolved(PEER, A)]);
}

#[test]
fn rfc826_a_request_for_us_is_answered_and_learned() {
    let mut t = clocked();
    let answer = Action::Reply((7, OWN), (A, PEER.1));
    assert_eq!(t.event(arp(Operation::Request, PEER, A, OWN)), [answer, Action::Resolved(PEER, A)]);
    assert_eq!(t.event(arp(Operation::Request, PEER, A, OWN)), [answer], "no change");
}

#[test]
fn rfc5227_1_1_a_probe_is_answered_but_not_learned() {
    let mut t = clocked();
    let sender = (A, Ipv4Addr::UNSPECIFIED);
    let probe = Event::Arp {
        interface: 7,
        op: Operation::Request,
        sender,
        target: OWN,
        for_us: true,
        on_link: false,
    };
    assert_eq!(t.event(probe), [Action::Reply((7, OWN), sender)]);
    assert_eq!(t.table.entries().count(), 0);
}

#[test]
fn rfc826_foreign_requests_update_but_create_no_entry() {
    let mut t = clocked();
    let announcement = |mac| arp(Operation::Request, PEER, mac, PEER.1);
    assert_eq!(t.event(announcement(A)), []);
    assert_eq!(t.state(PEER), None);
    t.event(reply(PEER, A));
    assert_eq!(t.event(announcement(B)), [Action::Changed(PEER, B)]);
    assert_eq!(t.table.mac_of(PEER), Some(B));
}

#[test]
fn rfc1122_2_3_2_1_an_old_entry_is_probed_by_unicast_first() {
    let mut t = clocked();
    t.event(reply(PEER, A));
    assert_eq!(t.pass(59), []);
    let probe = Action::Request(PEER, Some(A));
    assert_eq!(t.pass(2), [(1, probe), (2, probe)]);
    assert_eq!(t.event(Event::Resolve(PEER)), [Action::Resolved(PEER, A)], "usable while it is probed");
    assert_eq!(t.event(reply(PEER, A)), []);
    assert_eq!(t.pass(59), [], "the answer restarted its lifetime");
    assert_eq!(t.pass(4), [(1, probe), (2, probe), (3, probe), (4, Action::Lost(PEER, A))]);
    assert_eq!(t.state(PEER), None);
}

#[test]
fn a_static_entry_stays_until_its_interface_is_removed() {
    let mut t = clocked();
    t.event(reply(PEER, A));
    let set = |mac, fixed| Event::Set { key: PEER, mac, fixed };
    assert_eq!(t.event(set(B, true)), [Action::Changed(PEER, B)]);
    assert_eq!(t.event(reply(PEER, A)), []);
    assert_eq!(t.event(Event::Flush(7)), []);
    assert_eq!(t.event(Event::Down(7)), []);
    assert_eq!(t.pass(5000), []);
    assert_eq!(t.event(Event::Resolve(PEER)), [Action::Resolved(PEER, B)]);
    assert_eq!(t.event(Event::Gone(7)), [Action::Lost(PEER, B)]);
    t.event(set(B, true));
    assert_eq!(t.event(Event::Remove(PEER)), [Action::Lost(PEER, B)]);
    t.event(set(B, true));
    t.event(set(A, false));
    assert_eq!(t.state(PEER), Some(State::Reachable(A)), "not static any more");
}

#[test]
fn down_flush_and_a_removed_network_remove_learned_entries() {
    for event in [Event::Down(7), Event::Flush(7), Event::LeftNetwork(7, Prefix4::new(PEER.1, 24))] {
        let mut t = clocked();
        let (elsewhere, outside) = ((8, PEER.1), (7, Ipv4Addr::new(10, 0, 1, 2)));
        t.event(reply(PEER, A));
        t.event(reply(elsewhere, A));
        t.event(reply(outside, A));
        t.event(Event::Resolve(OTHER));
        let out = t.event(event);
        assert!(out.starts_with(&[Action::Lost(PEER, A), Action::Failed(OTHER)]), "{event:?}: {out:?}");
        assert_eq!(t.table.mac_of(elsewhere), Some(A));
        let stays = matches!(event, Event::LeftNetwork(..));
        assert_eq!(t.table.mac_of(outside).is_some(), stays, "{event:?}");
    }
}

#[test]
fn the_oldest_unresolved_entries_are_evicted_first() {
    let mut t = Clocked::new(Config { max_entries: 4, max_unresolved: 2, ..Config::default() });
    let key = |n| (7, Ipv4Addr::new(10, 0, 0, n));
    for n in 10..12 {
        t.event(reply(key(n), A));
        t.now += 1;
    }
    for n in 20..22 {
        t.event(Event::Resolve(key(n)));
        t.now += 1;
    }
    let out = t.event(Event::Resolve(key(22)));
    assert_eq!(out, [Action::Failed(key(20)), Action::Request(key(22), None)], "too many unresolved");
    let out = t.event(reply(key(12), A));
    assert_eq!(out, [Action::Failed(key(21)), Action::Resolved(key(12), A)], "too many in all");
    t.event(reply(key(22), A));
    assert_eq!(t.event(reply(key(13), B)), [Action::Lost(key(10), A), Action::Resolved(key(13), B)]);
    assert_eq!(t.table.counters().recycled, 3);
}

#[test]
fn a_table_full_of_static_entries_refuses_new_ones() {
    let mut t = Clocked::new(Config { max_entries: 1, ..Config::default() });
    t.event(Event::Set { key: PEER, mac: A, fixed: true });
    assert_eq!(t.event(Event::Resolve(OTHER)), [Action::Failed(OTHER)]);
    assert_eq!(t.event(reply(OTHER, B)), []);
    assert_eq!((t.table.entries().count(), t.table.counters().refused), (1, 2));
}

#[test]
fn without_memory_the_oldest_entry_above_2048_is_evicted() {
    let mut t = clocked();
    let key = |n: u16| (7, Ipv4Addr::from_bits(0x0a00_0000 + u32::from(n)));
    t.table.memory = Allowance::of(|| Room { bytes: 0, promised: 0, bound: String::new(), huge: None });
    for n in 0..2048 {
        t.event(reply(key(n), A));
        t.now += 1;
    }
    assert_eq!((t.table.entries().count(), t.table.counters().no_memory), (2048, 0));
    assert_eq!(t.event(reply(key(3000), A)), [Action::Lost(key(0), A), Action::Resolved(key(3000), A)]);
    let counters = t.table.counters();
    assert_eq!((t.table.entries().count(), counters.no_memory, counters.recycled), (2048, 1, 0));
}

#[test]
fn rfc5227_2_3_an_address_is_announced_twice_in_two_seconds() {
    let mut t = clocked();
    let (key, announce) = ((7, OWN), Action::Announce((7, OWN)));
    t.event(Event::Announce(key));
    assert_eq!(t.pass(60), [(0, announce), (2, announce)]);
    for end in [Event::Down(7), Event::Gone(7), Event::LeftNetwork(7, Prefix4::new(OWN, 24))] {
        t.event(Event::Announce(key));
        assert_eq!(t.pass(1), [(0, announce)]);
        t.event(end);
        assert_eq!(t.pass(60), [], "{end:?}");
    }
}

#[test]
fn rfc5227_2_4_c_an_address_is_defended_once_in_ten_seconds() {
    let mut t = clocked();
    let conflict = Event::Conflict((7, OWN), B);
    assert_eq!(t.event(conflict), [Action::Defend((7, OWN), B)]);
    t.pass(9);
    assert_eq!(t.event(conflict), []);
    t.pass(1);
    assert_eq!(t.event(conflict), [Action::Defend((7, OWN), B)]);
    assert_eq!(t.table.counters().conflicts, 3);
    assert_eq!(t.table.entries().count(), 0, "its address is not learned as a neighbor");
}

#[test]
fn many_due_entries_are_handled_in_slices() {
    let mut t = clocked();
    let keys: Vec<Key> = (0..1000).map(|n| (7, Ipv4Addr::from_bits(0x0a00_0100 + n))).collect();
    keys.iter().for_each(|k| drop(t.event(Event::Resolve(*k))));
    let (mut slices, mut out) = (0, Vec::new());
    let due = t.now + SECOND;
    while t.table.poll_timeout().is_some_and(|at| at <= due) {
        let before = out.len();
        t.table.timeout(due, &mut out);
        assert!(out.len() - before <= 256);
        slices += 1;
    }
    assert_eq!((slices, out.len()), (4, 1000));
}

fn any_event() -> impl Strategy<Value = Event> {
    let key = || (0u32..3, 2u8..8).prop_map(|(i, n)| (i, Ipv4Addr::new(10, 0, i as u8, n)));
    let mac = || (1u8..5).prop_map(|n| Mac([2, 0, 0, 0, 0, n]));
    let op = prop_oneof![Just(Operation::Request), Just(Operation::Reply)];
    prop_oneof![
        6 => key().prop_map(Event::Resolve),
        6 => (op, key(), mac(), any::<bool>(), any::<bool>()).prop_map(|(op, key, mac, for_us, on_link)| {
            let target = if for_us { OWN } else { key.1 };
            Event::Arp { interface: key.0, op, sender: (mac, key.1), target, for_us, on_link }
        }),
        2 => (key(), mac(), any::<bool>()).prop_map(|(key, mac, fixed)| Event::Set { key, mac, fixed }),
        2 => key().prop_map(Event::Remove),
        1 => key().prop_map(Event::Announce),
        1 => (key(), mac()).prop_map(|(key, mac)| Event::Conflict(key, mac)),
        1 => (0u32..3).prop_map(Event::Flush),
        1 => (0u32..3).prop_map(Event::Down),
        1 => (0u32..3).prop_map(Event::Gone),
        1 => key().prop_map(|(i, a)| Event::LeftNetwork(i, Prefix4::new(a, 30))),
    ]
}

/// Derives the known Ethernet addresses from the actions alone, and checks that they match the table.
#[derive(Default)]
struct Follower {
    macs: HashMap<Key, Mac>,
    waiting: HashSet<Key>,
    asked: HashMap<Key, u64>,
}

impl Follower {
    fn follow(&mut self, t: &Clocked, actions: &[Action]) {
        for action in actions {
            match *action {
                Action::Resolved(key, mac) => {
                    assert_eq!(*self.macs.entry(key).or_insert(mac), mac, "a change is reported as such");
                    self.waiting.remove(&key);
                }
                Action::Changed(key, mac) => {
                    assert!(self.macs.insert(key, mac).is_some_and(|old| old != mac));
                }
                Action::Lost(key, mac) => {
                    assert_eq!(self.macs.remove(&key), Some(mac), "lost an unknown address")
                }
                Action::Failed(key) => {
                    self.waiting.remove(&key);
                }
                Action::Request(key, to) => {
                    assert_eq!(to, self.macs.get(&key).copied());
                    let last = self.asked.insert(key, t.now);
                    assert!(last.is_none_or(|last| t.now >= last + SECOND), "two requests in a second");
                }
                Action::Reply(..) | Action::Announce(_) | Action::Defend(..) => {}
            }
        }
        for (key, entry) in t.table.entries().iter() {
            assert_eq!(self.macs.get(&key).copied(), entry.state.mac());
        }
        let known = t.table.entries().iter().filter(|(_, e)| e.state.mac().is_some()).count();
        assert_eq!(known, self.macs.len());
        // A removed neighbor may be requested again immediately.
        self.asked.retain(|key, _| t.state(*key).is_some());
        let (count, unresolved) = (t.table.entries().count(), t.table.entries().unresolved());
        assert!(count <= t.table.config.max_entries && unresolved <= t.table.config.max_unresolved);
        assert!(t.table.entries().consistent());
    }

    /// Lets time pass until `end`, and checks that each call handles all expired timers.
    fn pass(&mut self, t: &mut Clocked, end: u64) {
        while let Some(due) = t.table.poll_timeout().filter(|d| *d <= end) {
            t.now = t.now.max(due);
            let mut out = Vec::new();
            t.table.timeout(t.now, &mut out);
            assert!(
                t.table.poll_timeout().is_none_or(|next| next > t.now),
                "all expired timers were handled"
            );
            self.follow(t, &out);
        }
        t.now = end;
    }
}

proptest! {
    #[test]
    fn the_table_keeps_its_limits_and_answers_under_any_events(
        events in prop::collection::vec((0u64..2500, any_event()), 1..120),
        max_entries in 1usize..8,
        max_unresolved in 1usize..4,
    ) {
        let mut t = Clocked::new(Config { max_entries, max_unresolved, max_age: 7 * SECOND, ..Config::default() });
        let mut follower = Follower::default();
        for (ms, event) in events {
            let end = t.now + ms * 1_000_000;
            follower.pass(&mut t, end);
            if let Event::Resolve(key) = event {
                follower.waiting.insert(key);
            }
            let out = t.event(event);
            follower.follow(&t, &out);
        }
        let end = t.now + 4 * SECOND;
        follower.pass(&mut t, end);
        prop_assert!(follower.waiting.is_empty(), "without an answer: {:?}", follower.waiting);
    }
}
