//! Tests of the listener with a simulated clock.

use super::*;

const MS_AT: u64 = 1_000_000;

fn group(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, n)
}

fn groups(of: &[u16]) -> BTreeSet<Ipv6Addr> {
    of.iter().map(|n| group(*n)).collect()
}

fn handle(l: &mut Listener, now: u64, event: Event) -> Vec<Report> {
    let mut out = Vec::new();
    l.handle(now, event, &mut out);
    out
}

fn due(l: &mut Listener) -> (u64, Vec<Report>) {
    let (at, mut out) = (l.poll_timeout().unwrap(), Vec::new());
    l.timeout(at, &mut out);
    (at, out)
}

fn query(group: Option<Ipv6Addr>) -> Event {
    Event::Query(3, Query { version: 2, group, max_response: 10_000 })
}

#[test]
fn rfc3810_6_1_a_change_is_reported_at_once_and_repeated() {
    let mut l = Listener { jitter: Jitter::seeded(1), ..Listener::default() };
    let first = handle(&mut l, 5, Event::Groups(3, groups(&[1, 2])));
    assert_eq!(first, [Report(3, vec![(Record::Join, group(1)), (Record::Join, group(2))])]);
    let (at, again) = due(&mut l);
    assert!((5..=5 + AGAIN).contains(&at) && again == first);
    assert_eq!(l.poll_timeout(), None);
    assert_eq!(handle(&mut l, at, Event::Groups(3, groups(&[1, 2]))), [], "nothing changed");

    let now = 10 * AGAIN;
    let change = handle(&mut l, now, Event::Groups(3, groups(&[2, 3])));
    assert_eq!(change, [Report(3, vec![(Record::Leave, group(1)), (Record::Join, group(3))])]);
    // The group is joined again before the second report, which has the current state.
    let back = handle(&mut l, now + 1, Event::Groups(3, groups(&[1, 2, 3])));
    assert_eq!(back, [Report(3, vec![(Record::Join, group(1))])]);
    assert_eq!(due(&mut l).1, [Report(3, vec![(Record::Join, group(1)), (Record::Join, group(3))])]);
    assert_eq!(l.groups(3).collect::<Vec<_>>(), [1, 2, 3].map(group));
}

#[test]
fn rfc3810_6_2_queries_are_answered_in_time_and_once() {
    let mut l = Listener { jitter: Jitter::seeded(7), ..Listener::default() };
    handle(&mut l, 0, Event::Groups(3, groups(&[1, 2])));
    due(&mut l);
    let now = 20 * AGAIN;
    assert_eq!(handle(&mut l, now, query(Some(group(9)))), []);
    assert_eq!(l.poll_timeout(), None, "the query was for a group that was not joined");
    handle(&mut l, now, query(Some(group(2))));
    handle(&mut l, now, query(None));
    let (at, answer) = due(&mut l);
    assert!(at <= now + 10_000 * MS_AT);
    assert_eq!(answer, [Report(3, vec![(Record::IsJoined, group(1)), (Record::IsJoined, group(2))])]);
    assert_eq!(l.poll_timeout(), None);
    handle(&mut l, at, query(None));
    handle(&mut l, at, Event::Down(3));
    assert_eq!((l.poll_timeout(), l.groups(3).count()), (None, 0));
}
