//! Tests of duplicate address detection with a simulated clock.

use proptest::prelude::*;

use super::*;

const KEY: Key<Ipv6Addr> = (7, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
const OTHER: Key<Ipv6Addr> = (7, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));

fn event(dad: &mut Dad, now: u64, event: Event) -> Vec<Action> {
    let mut out = Vec::new();
    dad.handle(now, event, &mut out);
    out
}

/// Lets time pass until `end`. Returns the actions with their times.
fn pass(dad: &mut Dad, end: u64) -> Vec<(u64, Action)> {
    let mut all = Vec::new();
    while let Some(due) = dad.poll_timeout().filter(|due| *due <= end) {
        let mut out = Vec::new();
        dad.timeout(due, &mut out);
        assert!(dad.poll_timeout().is_none_or(|next| next > due), "all expired timers were handled");
        all.extend(out.into_iter().map(|a| (due, a)));
    }
    all
}

fn start(key: Key<Ipv6Addr>) -> Event {
    Event::Start { key, delay: false }
}

#[test]
fn rfc4862_5_4_an_address_is_probed_and_unique_a_second_later() {
    let mut dad = Dad::default();
    assert_eq!(event(&mut dad, 0, start(KEY)), [Action::Probe(KEY)]);
    assert!(dad.is_tentative(KEY) && !dad.is_tentative(OTHER));
    assert_eq!(pass(&mut dad, 60 * SECOND), [(SECOND, Action::Unique(KEY))]);
    assert!(!dad.is_tentative(KEY));
    dad.transmits = 3;
    event(&mut dad, 0, start(KEY));
    let expected = [(1, Action::Probe(KEY)), (2, Action::Probe(KEY)), (3, Action::Unique(KEY))];
    assert_eq!(pass(&mut dad, 60 * SECOND), expected.map(|(s, a)| (s * SECOND, a)));
    dad.transmits = 0;
    assert_eq!(event(&mut dad, 0, start(KEY)), [Action::Unique(KEY)]);
    assert_eq!(dad.poll_timeout(), None);
}

#[test]
fn rfc4862_5_4_2_the_first_probe_is_sent_within_a_second() {
    let mut at = Vec::new();
    for seed in 0..20 {
        let mut dad = Dad { jitter: Jitter::seeded(seed), ..Dad::default() };
        assert_eq!(event(&mut dad, 5 * SECOND, Event::Start { key: KEY, delay: true }), []);
        let done = pass(&mut dad, 60 * SECOND);
        assert_eq!((done[0].1, done[1]), (Action::Probe(KEY), (done[0].0 + SECOND, Action::Unique(KEY))));
        assert!((5 * SECOND..=6 * SECOND).contains(&done[0].0));
        at.push(done[0].0);
    }
    at.sort_unstable();
    assert!(at[19] - at[0] > SECOND / 2, "not all at once");
}

#[test]
fn rfc4862_5_4_3_and_4_other_claims_make_an_address_a_duplicate() {
    for claim in [Event::Solicited(KEY), Event::Advertised(KEY)] {
        let mut dad = Dad::default();
        event(&mut dad, 0, start(KEY));
        event(&mut dad, 0, start(OTHER));
        assert_eq!(event(&mut dad, 1, claim), [Action::Duplicate(KEY)]);
        assert_eq!(event(&mut dad, 1, claim), [], "it is reported once");
        assert_eq!(pass(&mut dad, 60 * SECOND), [(SECOND, Action::Unique(OTHER))]);
        assert_eq!(event(&mut dad, 61 * SECOND, Event::Advertised(OTHER)), [], "the detection is over");
    }
}

#[test]
fn removed_addresses_are_not_probed() {
    for end in [Event::Stop(KEY), Event::Down(7)] {
        let mut dad = Dad::default();
        event(&mut dad, 0, start(KEY));
        event(&mut dad, 0, start((8, KEY.1)));
        assert_eq!(event(&mut dad, 1, end), []);
        assert_eq!(pass(&mut dad, 60 * SECOND), [(SECOND, Action::Unique((8, KEY.1)))]);
    }
}

proptest! {
    /// After any events, each started address is decided exactly once, as unique or duplicate, unless it was
    /// stopped or its interface went down. No other address is decided.
    #[test]
    fn every_address_is_decided_under_any_events(
        events in prop::collection::vec((0u64..1500, 0u32..2, 0u8..3, 0u8..6), 1..60),
        transmits in 0u8..4,
        seed: u64,
    ) {
        let mut dad = Dad { transmits, jitter: Jitter::seeded(seed), ..Dad::default() };
        let (mut now, mut open) = (0, std::collections::BTreeSet::new());
        let decide = |open: &mut std::collections::BTreeSet<_>, out: Vec<Action>| {
            for action in out {
                match action {
                    Action::Probe(key) => assert!(open.contains(&key)),
                    Action::Unique(key) | Action::Duplicate(key) => assert!(open.remove(&key)),
                }
            }
        };
        for (ms, interface, host, what) in events {
            let key = (interface, Ipv6Addr::from(0xfe80u128 << 112 | u128::from(host)));
            let end = now + ms * 1_000_000;
            decide(&mut open, pass(&mut dad, end).into_iter().map(|a| a.1).collect());
            now = end;
            let happened = match what {
                0..3 => Event::Start { key, delay: what == 1 },
                3 => Event::Solicited(key),
                4 => Event::Stop(key),
                _ => Event::Down(interface),
            };
            match happened {
                Event::Start { .. } => drop(open.insert(key)),
                Event::Stop(_) => drop(open.remove(&key)),
                Event::Down(_) => open.retain(|k| k.0 != interface),
                _ => {}
            }
            decide(&mut open, event(&mut dad, now, happened));
            prop_assert!(open.iter().all(|key| dad.is_tentative(*key)));
        }
        let wait = (u64::from(transmits) + 2) * SECOND;
        decide(&mut open, pass(&mut dad, now + wait).into_iter().map(|a| a.1).collect());
        prop_assert!(open.is_empty() && dad.poll_timeout().is_none());
    }
}
