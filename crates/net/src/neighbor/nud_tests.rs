//! Tests of the table's Neighbor Discovery rules with a simulated clock.

use std::collections::{HashMap, HashSet};
use std::net::Ipv6Addr;

use proptest::prelude::*;
use wire::{Mac, ipv6};

use super::config::Config;
use super::entries::State;
use super::table::{Action, Event, Neighbors};
use crate::Unused;
use crate::ip::Prefix6;

type Key = super::Key<Ipv6Addr>;

const SECOND: u64 = 1_000_000_000;
const OWN: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const PEER: Key = (7, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2));
const A: Mac = Mac([2, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([2, 0, 0, 0, 0, 0xb]);

struct Clocked {
    table: Neighbors<Ipv6Addr>,
    now: u64,
}

impl Clocked {
    fn new() -> Clocked {
        Clocked { table: Neighbors::default(), now: 1000 * SECOND }
    }

    fn event(&mut self, event: Event<Ipv6Addr>) -> Vec<Action<Ipv6Addr>> {
        let mut out = Vec::new();
        let _ = self.table.handle(self.now, event, &mut out);
        out
    }

    /// Lets `seconds` pass. Returns the actions, each with its time in seconds from the start.
    fn pass(&mut self, seconds: u64) -> Vec<(u64, Action<Ipv6Addr>)> {
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

    fn is_router(&self, key: Key) -> bool {
        self.table.entries().get(key).is_some_and(|e| e.router)
    }
}

/// Returns a table in which the entry of `PEER` is in the given state with the Ethernet address `A`. The
/// state is reached by events.
fn in_state(state: State) -> Clocked {
    let mut t = Clocked::new();
    if state != State::Stale(A) || t.event(mentioned(A)).is_empty() {
        t.event(Event::Resolve(PEER));
        t.event(advertisement(Some(A), true, true));
    }
    match state {
        State::Incomplete(_) => {
            t = Clocked::new();
            t.event(Event::Resolve(PEER));
        }
        State::Failed => {
            t = Clocked::new();
            t.event(Event::Resolve(PEER));
            t.pass(3);
        }
        State::Delay(_) | State::Probing(..) => {
            t.pass(46);
            t.event(Event::Used(PEER));
            t.pass(if state == State::Delay(A) { 0 } else { 5 });
        }
        State::Static(_) => drop(t.event(Event::Set { key: PEER, mac: A, fixed: true })),
        State::Reachable(_) | State::Stale(_) => {}
    }
    assert_eq!(t.state(PEER), Some(state));
    t
}

fn advertisement(mac: Option<Mac>, solicited: bool, overrides: bool) -> Event<Ipv6Addr> {
    Event::Advertisement { key: PEER, mac, router: false, solicited, overrides }
}

fn mentioned(mac: Mac) -> Event<Ipv6Addr> {
    Event::Mentioned { key: PEER, mac, router: false }
}

fn solicitation(sender: Ipv6Addr, source_mac: Option<Mac>, target: Ipv6Addr) -> Event<Ipv6Addr> {
    let for_us = target == OWN;
    Event::Solicitation {
        interface: 7,
        sender: (A, sender),
        source_mac,
        target,
        for_us,
        anycast: false,
        on_link: true,
    }
}

#[test]
fn rfc4861_7_2_2_three_solicitations_then_failed() {
    let mut t = Clocked::new();
    let request = Action::Request(PEER, None);
    assert_eq!(t.event(Event::Resolve(PEER)), [request]);
    assert_eq!(t.pass(3), [(1, request), (2, request), (3, Action::Failed(PEER))]);
}

/// Tests every row for received advertisements in the table of RFC 4861 appendix C, and the rules of section 7.2.5.
#[test]
fn rfc4861_7_2_5_every_case_of_an_advertisement() {
    use Action::{Changed, Resolved};
    use State::{Delay, Failed, Incomplete, Probing, Reachable, Stale, Static};
    let (incomplete, probing) = (Incomplete(1), Probing(A, 1));
    // The state, the address, solicited, overrides: the state and actions afterwards.
    let cases = [
        (incomplete, None, true, true, incomplete, vec![]),
        (incomplete, Some(A), true, true, Reachable(A), vec![Resolved(PEER, A)]),
        (incomplete, Some(A), true, false, Reachable(A), vec![Resolved(PEER, A)]),
        (incomplete, Some(A), false, true, Stale(A), vec![Resolved(PEER, A)]),
        (incomplete, Some(A), false, false, Stale(A), vec![Resolved(PEER, A)]),
        (Failed, Some(A), false, false, Stale(A), vec![Resolved(PEER, A)]),
        (Failed, None, true, false, Failed, vec![]),
        (Reachable(A), Some(B), true, false, Stale(A), vec![]),
        (Reachable(A), Some(B), false, false, Stale(A), vec![]),
        (Stale(A), Some(B), true, false, Stale(A), vec![]),
        (Delay(A), Some(B), true, false, Delay(A), vec![]),
        (probing, Some(B), true, false, probing, vec![]),
        (Reachable(A), Some(B), true, true, Reachable(B), vec![Changed(PEER, B)]),
        (probing, Some(B), true, true, Reachable(B), vec![Changed(PEER, B)]),
        (Reachable(A), Some(B), false, true, Stale(B), vec![Changed(PEER, B)]),
        (Delay(A), Some(B), false, true, Stale(B), vec![Changed(PEER, B)]),
        (Stale(A), Some(A), true, false, Reachable(A), vec![]),
        (Delay(A), None, true, false, Reachable(A), vec![]),
        (probing, Some(A), true, true, Reachable(A), vec![]),
        (Reachable(A), Some(A), false, true, Reachable(A), vec![]),
        (Stale(A), None, false, true, Stale(A), vec![]),
        (probing, Some(A), false, false, probing, vec![]),
        (Static(A), Some(B), true, true, Static(A), vec![]),
    ];
    for (before, mac, solicited, overrides, after, actions) in cases {
        let mut t = in_state(before);
        let what = format!("{before:?}, {mac:?}, solicited {solicited}, overrides {overrides}");
        assert_eq!(t.event(advertisement(mac, solicited, overrides)), actions, "{what}");
        assert_eq!(t.state(PEER), Some(after), "{what}");
    }
    let mut t = Clocked::new();
    assert_eq!(t.event(advertisement(Some(A), true, true)), []);
    assert_eq!(t.state(PEER), None, "it was not requested");
}

/// The rules of RFC 4861 sections 6.2.6, 6.3.4 and 7.2.3.
#[test]
fn source_link_layer_options_make_stale_entries() {
    use State::{Delay, Incomplete, Probing, Reachable, Stale, Static};
    for state in [Reachable(A), Stale(A), Delay(A), Probing(A, 1)] {
        let mut t = in_state(state);
        assert_eq!((t.event(mentioned(A)), t.state(PEER)), (vec![], Some(state)), "no change");
        assert_eq!(t.event(mentioned(B)), [Action::Changed(PEER, B)]);
        assert_eq!(t.state(PEER), Some(Stale(B)));
    }
    let mut t = in_state(Static(A));
    assert_eq!((t.event(mentioned(B)), t.state(PEER)), (vec![], Some(Static(A))));
    let mut t = in_state(Incomplete(1));
    assert_eq!(t.event(mentioned(A)), [Action::Resolved(PEER, A)]);
    assert_eq!(t.state(PEER), Some(Stale(A)));
    let mut t = Clocked::new();
    let said = Event::Mentioned { key: PEER, mac: A, router: true };
    assert_eq!(t.event(said), [Action::Resolved(PEER, A)]);
    assert!(t.is_router(PEER));
    // A solicitation does not reveal whether its sender is a router. A router solicitation shows that it is
    // not.
    t.event(solicitation(PEER.1, Some(A), OWN));
    assert!(t.is_router(PEER));
    t.event(mentioned(A));
    assert!(!t.is_router(PEER));
}

#[test]
fn rfc4861_7_2_3_and_4_a_solicitation_is_answered_and_learned() {
    let mut t = Clocked::new();
    let answer = Action::Reply((7, OWN), (A, PEER.1));
    assert_eq!(t.event(solicitation(PEER.1, Some(A), OWN)), [answer, Action::Resolved(PEER, A)]);
    assert_eq!(t.state(PEER), Some(State::Stale(A)));
    assert_eq!(t.event(solicitation(PEER.1, Some(A), OWN)), [answer], "no change");
    assert_eq!(t.event(solicitation(PEER.1, None, OWN)), [answer], "to the frame's source");
    assert_eq!(t.event(solicitation(PEER.1, Some(B), PEER.1)), [], "it solicits another address");
    assert_eq!(t.state(PEER), Some(State::Stale(A)));
    let other = (7, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3));
    t.event(solicitation(other.1, Some(A), PEER.1));
    assert_eq!(t.state(other), None);
    // A node that is about to use our address: the answer goes to all nodes.
    let all = (ipv6::multicast_mac(ipv6::ALL_NODES), Ipv6Addr::from(ipv6::ALL_NODES));
    let answer = Action::Reply((7, OWN), all);
    assert_eq!(t.event(solicitation(Ipv6Addr::UNSPECIFIED, None, OWN)), [answer]);
    assert_eq!(t.table.entries().count(), 1);
    assert_eq!(t.table.counters().replies, 4);
    let far = Event::Solicitation {
        interface: 7,
        sender: (A, other.1),
        source_mac: Some(A),
        target: OWN,
        for_us: true,
        anycast: false,
        on_link: false,
    };
    assert_eq!(t.event(far).len(), 1);
    assert_eq!(t.state(other), None, "no host of this link");
}

#[test]
fn rfc4861_7_2_7_anycast_answers_are_delayed_and_limited() {
    let mut t = Clocked::new();
    let ask = |n: u16| {
        let sender = (Mac([2, 0, 0, 0, (n >> 8) as u8, n as u8]), PEER.1);
        let key = Event::Solicitation {
            interface: 7,
            sender,
            source_mac: None,
            target: OWN,
            for_us: true,
            anycast: true,
            on_link: true,
        };
        (key, Action::Reply((7, OWN), sender))
    };
    assert_eq!(t.event(ask(1).0), []);
    assert_eq!(t.event(ask(1).0), [], "one answer only");
    assert_eq!(t.pass(1), [(0, ask(1).1)]);
    assert_eq!(t.table.counters().replies, 1);
    let mut out = Vec::new();
    let done: Vec<_> = (0..70).map(|n| t.table.handle(t.now, ask(n).0, &mut out)).collect();
    assert_eq!(done.iter().filter(|d| **d == Err(Unused::Answers)).count(), 70 - 64);
    assert!(t.pass(1).len() == 64 && t.pass(10).is_empty());
    // Not from an interface that is down, or from a network that the router has left.
    t.event(ask(1).0);
    t.event(Event::Down(7));
    t.event(ask(1).0);
    t.event(Event::LeftNetwork(7, Prefix6::new(OWN, 64)));
    assert_eq!(t.pass(2), []);
}

#[test]
fn rfc4861_7_3_3_only_used_neighbors_are_probed() {
    let mut t = in_state(State::Reachable(A));
    assert_eq!(t.event(Event::Used(PEER)), []);
    assert_eq!(t.state(PEER), Some(State::Reachable(A)));
    t.pass(14);
    assert_eq!(t.state(PEER), Some(State::Reachable(A)), "at least half of 30 seconds");
    assert_eq!(t.pass(32), []);
    assert_eq!(t.state(PEER), Some(State::Stale(A)), "at most one and a half times 30 seconds");
    assert_eq!(t.pass(600), [], "it is not used");
    t.event(Event::Used(PEER));
    assert_eq!(t.state(PEER), Some(State::Delay(A)));
    t.event(Event::Used(PEER));
    let probe = Action::Request(PEER, Some(A));
    assert_eq!(t.pass(5), [(5, probe)]);
    assert_eq!(t.event(Event::Resolve(PEER)), [Action::Resolved(PEER, A)], "usable while it is probed");
    assert_eq!(t.pass(2), [(1, probe), (2, probe)]);
    assert_eq!(t.pass(1), [(1, Action::Lost(PEER, A))]);
    assert_eq!(t.state(PEER), None);
    // A neighbor with waiting packets is in use.
    let mut t = in_state(State::Stale(A));
    assert_eq!(t.event(Event::Resolve(PEER)), [Action::Resolved(PEER, A)]);
    assert_eq!(t.state(PEER), Some(State::Delay(A)));
    // An unused neighbor is eventually removed.
    let mut t = in_state(State::Stale(A));
    assert_eq!(t.pass(1199), []);
    assert_eq!(t.pass(1), [(1, Action::Lost(PEER, A))]);
}

#[test]
fn rfc4861_6_3_2_reachable_times_are_randomized() {
    let mut t = Clocked::new();
    let key = |n: u128| (7, Ipv6Addr::from(0xfe80 << 112 | n));
    for n in 0..100 {
        t.event(Event::Resolve(key(n)));
        let event = Event::Advertisement {
            key: key(n),
            mac: Some(A),
            router: false,
            solicited: true,
            overrides: true,
        };
        t.event(event);
    }
    let old = |t: &Clocked| (0..100).filter(|n| t.state(key(*n)) == Some(State::Stale(A))).count();
    assert_eq!((t.pass(14), old(&t)), (vec![], 0));
    t.pass(16);
    assert!((20..80).contains(&old(&t)), "{}", old(&t));
    t.pass(16);
    assert_eq!(old(&t), 100);
}

#[test]
fn rfc4861_7_2_6_an_address_is_announced_three_times() {
    let mut t = Clocked::new();
    let announce = Action::Announce((7, OWN));
    t.event(Event::Announce((7, OWN)));
    assert_eq!(t.pass(60), [(0, announce), (1, announce), (2, announce)]);
    t.event(Event::Announce((7, OWN)));
    t.pass(0);
    t.event(Event::LeftNetwork(7, Prefix6::new(PEER.1, 64)));
    assert_eq!(t.pass(60), []);
}

#[test]
fn stale_entries_are_evicted_before_used_ones() {
    let mut t = Clocked::new();
    t.table.config.max_entries = 2;
    let key = |n: u128| (7, Ipv6Addr::from(0xfe80 << 112 | n));
    for (n, solicited) in [(1, true), (2, false)] {
        t.event(Event::Resolve(key(n)));
        let mac = Some(A);
        t.event(Event::Advertisement { key: key(n), mac, router: false, solicited, overrides: true });
        t.now += 1;
    }
    let out = t.event(Event::Resolve(key(3)));
    assert_eq!(out, [Action::Lost(key(2), A), Action::Request(key(3), None)]);
    assert_eq!(t.state(key(1)), Some(State::Reachable(A)));
}

#[test]
fn a_removed_network_removes_its_neighbors() {
    let mut t = in_state(State::Reachable(A));
    let far = (7, Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 2));
    let event = |key| Event::Mentioned { key, mac: B, router: false };
    t.event(event(far));
    assert_eq!(t.event(Event::LeftNetwork(7, Prefix6::new(OWN, 64))), [Action::Lost(PEER, A)]);
    assert_eq!(t.state(far), Some(State::Stale(B)));
    assert_eq!(t.event(Event::LeftNetwork(7, Prefix6::DEFAULT)), [Action::Lost(far, B)]);
}

#[test]
fn states_are_counted_under_their_names() {
    let t = in_state(State::Delay(A));
    let of: HashMap<_, _> = t.table.entries().by_state().collect();
    assert_eq!((of.len(), of["delay"], of["stale"]), (7, 1, 0));
    let arp: Vec<_> = super::Entries::<std::net::Ipv4Addr>::default().by_state().map(|s| s.0).collect();
    assert_eq!(arp, ["incomplete", "failed", "reachable", "probing", "static"]);
}

fn any_event() -> impl Strategy<Value = Event<Ipv6Addr>> {
    let key = || (0u32..3, 2u128..8).prop_map(|(i, n)| (i, Ipv6Addr::from(0xfe80 << 112 | n)));
    let mac = || (1u8..5).prop_map(|n| Mac([2, 0, 0, 0, 0, n]));
    let some_mac = || prop::option::of(mac());
    prop_oneof![
        6 => key().prop_map(Event::Resolve),
        6 => (key(), some_mac(), any::<[bool; 3]>()).prop_map(|(key, mac, [router, solicited, overrides])| {
            Event::Advertisement { key, mac, router, solicited, overrides }
        }),
        4 => (key(), some_mac(), mac(), any::<(bool, bool, bool)>()).prop_map(|(key, source_mac, mac, (for_us, anycast, on_link))| {
            let target = if for_us { OWN } else { PEER.1 };
            Event::Solicitation { interface: key.0, sender: (mac, key.1), source_mac, target, for_us, anycast, on_link }
        }),
        2 => (key(), mac(), any::<bool>()).prop_map(|(key, mac, router)| Event::Mentioned { key, mac, router }),
        4 => key().prop_map(Event::Used),
        2 => (key(), mac(), any::<bool>()).prop_map(|(key, mac, fixed)| Event::Set { key, mac, fixed }),
        1 => key().prop_map(Event::Remove),
        1 => (0u32..3).prop_map(Event::Flush),
        1 => (0u32..3).prop_map(Event::Down),
        1 => (0u32..3).prop_map(Event::Gone),
        1 => key().prop_map(|(i, a)| Event::LeftNetwork(i, Prefix6::new(a, 127))),
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
    fn follow(&mut self, t: &Clocked, actions: &[Action<Ipv6Addr>]) {
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
                Action::Failed(key) => drop(self.waiting.remove(&key)),
                Action::Request(key, to) => {
                    assert_eq!(to, self.macs.get(&key).copied());
                    let last = self.asked.insert(key, t.now);
                    assert!(last.is_none_or(|last| t.now >= last + SECOND), "two requests in a second");
                }
                Action::Reply(..) | Action::Announce(_) | Action::Defend(..) => {}
            }
        }
        let known = |e: &super::Entry| e.state.mac();
        let all: HashMap<Key, Mac> =
            t.table.entries().iter().filter_map(|(key, e)| Some((key, known(&e)?))).collect();
        assert_eq!(all, self.macs);
        self.asked.retain(|key, _| t.state(*key).is_some());
        let (count, unresolved) = (t.table.entries().count(), t.table.entries().unresolved());
        assert!(count <= t.table.config.max_entries && unresolved <= t.table.config.max_unresolved);
        assert!(t.table.entries().consistent());
    }

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
        events in prop::collection::vec((0u64..4000, any_event()), 1..120),
        max_entries in 1usize..8,
        max_unresolved in 1usize..4,
    ) {
        let mut t = Clocked::new();
        t.table.config = Config { max_entries, max_unresolved, max_age: 7 * SECOND, ..Config::default() };
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
        // Entries that are neither used nor static are eventually removed.
        let end = t.now + 1300 * SECOND;
        follower.pass(&mut t, end);
        prop_assert!(t.table.entries().iter().all(|(_, e)| matches!(e.state, State::Static(_))));
    }
}
