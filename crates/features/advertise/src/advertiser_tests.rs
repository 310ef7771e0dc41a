//! Tests of the advertiser with a simulated clock.

use proptest::prelude::*;

use super::*;

const LINK: u32 = 7;

struct Clocked {
    advertiser: Advertiser,
    now: u64,
}

impl Clocked {
    fn new(seed: u64) -> Clocked {
        Clocked {
            advertiser: Advertiser { jitter: Jitter::seeded(seed), ..Advertiser::default() },
            now: SECOND,
        }
    }

    fn event(&mut self, event: Event) {
        self.advertiser.handle(self.now, event);
    }

    /// Lets `seconds` pass. Returns the actions with their times.
    fn pass(&mut self, seconds: u64) -> Vec<(u64, Action)> {
        let end = self.now + seconds * SECOND;
        let mut all = Vec::new();
        while let Some(due) = self.advertiser.poll_timeout().filter(|due| *due <= end) {
            assert!(due >= self.now);
            self.now = due;
            let mut out = Vec::new();
            self.advertiser.timeout(due, &mut out);
            assert!(!out.is_empty() && self.advertiser.poll_timeout().is_none_or(|next| next > due));
            all.extend(out.into_iter().map(|a| (due, a)));
        }
        self.now = end;
        all
    }
}

/// Returns an advertiser with an interface that has been advertising for 60 seconds, so that the initial advertisements have been sent.
fn settled(seed: u64) -> Clocked {
    let mut t = Clocked::new(seed);
    t.event(Event::Start(LINK, Interval::default()));
    t.pass(60);
    t
}

fn gaps(sent: &[(u64, Action)]) -> Vec<u64> {
    sent.windows(2).map(|w| w[1].0 - w[0].0).collect()
}

#[test]
fn rfc4861_6_2_1_intervals_outside_the_bounds_are_invalid() {
    for (min, max, fits) in [
        (3, 4, true),
        (198, 600, true),
        (1350, 1800, true),
        (2, 4, false),
        (3, 3, false),
        (451, 600, false),
        (1351, 1801, false),
        (0, 0, false),
        (u64::MAX / 8, 1800, false),
    ] {
        assert_eq!(Interval::new(min, max).is_ok(), fits, "{min} to {max}");
    }
}

#[test]
fn rfc4861_6_2_4_the_first_three_advertisements_are_fast() {
    for seed in 0..20 {
        let mut t = Clocked::new(seed);
        t.event(Event::Start(LINK, Interval::default()));
        let sent = t.pass(6000);
        assert!(sent.iter().all(|s| s.1 == Action::Advertise(LINK)));
        assert!(sent[0].0 - SECOND <= SECOND / 2);
        let gaps = gaps(&sent);
        assert_eq!(gaps[..2], [16 * SECOND; 2]);
        assert!(gaps[2..].iter().all(|g| (200 * SECOND..=600 * SECOND).contains(g)), "{gaps:?}");
        assert!(gaps.len() >= 10 && gaps[2..].windows(2).any(|w| w[0].abs_diff(w[1]) > 10 * SECOND));
    }
}

#[test]
fn rfc4861_6_2_6_solicitations_share_one_answer_in_half_a_second() {
    for seed in 0..20 {
        let mut t = settled(seed);
        let asked = t.now;
        (0..100).for_each(|_| t.event(Event::Solicited(LINK)));
        let sent = t.pass(60);
        assert_eq!(sent.len(), 1);
        assert!(sent[0].0 - asked <= SECOND / 2);
        // After this answer, at most one advertisement in three seconds is sent, however often hosts ask.
        let mut sent = Vec::new();
        for _ in 0..300 {
            t.event(Event::Solicited(LINK));
            t.event(Event::Solicited(8));
            sent.extend(t.pass(1));
        }
        assert!((80..=100).contains(&sent.len()), "{}", sent.len());
        assert!(gaps(&sent).iter().all(|g| *g >= 3 * SECOND));
    }
}

#[test]
fn rfc4861_6_2_5_a_stopping_router_withdraws_three_times() {
    let mut t = settled(1);
    t.event(Event::Stop(LINK));
    assert!(t.advertiser.has_more_to_say(LINK));
    let sent = t.pass(600);
    assert!(!t.advertiser.has_more_to_say(LINK));
    assert_eq!(sent.iter().map(|s| s.1).collect::<Vec<_>>(), [Action::Withdraw(LINK); 3]);
    assert_eq!(gaps(&sent), [3 * SECOND; 2]);
    t.event(Event::Solicited(LINK));
    t.event(Event::Changed(LINK));
    assert_eq!(t.pass(600), []);
    // A restart cancels the remaining final advertisements.
    t.event(Event::Start(LINK, Interval::default()));
    t.pass(60);
    t.event(Event::Stop(LINK));
    t.pass(1);
    t.event(Event::Start(LINK, Interval::default()));
    let sent = t.pass(10);
    assert_eq!(sent.iter().map(|s| s.1).collect::<Vec<_>>(), [Action::Advertise(LINK)]);
    assert!(t.advertiser.has_more_to_say(LINK));
    t.event(Event::Down(LINK));
    assert_eq!(t.pass(6000), [], "nothing is sent");
    assert!(!t.advertiser.has_more_to_say(LINK));
}

#[test]
fn changes_are_advertised_soon_and_three_times() {
    let mut t = settled(1);
    let changed = t.now;
    t.event(Event::Changed(LINK));
    let sent = t.pass(60);
    assert_eq!(sent.len(), 3);
    assert_eq!(sent[0].0, changed);
    let again = t.now;
    t.event(Event::Changed(LINK));
    t.pass(1);
    t.event(Event::Changed(LINK));
    assert_eq!(t.pass(5)[0].0, again + 3 * SECOND, "but at least three seconds after the last");
}

proptest! {
    /// For any events, advertisements on an interface are at least three seconds apart, unless the interface was down in between. After the
    /// last event, each advertising interface sends an advertisement within ten minutes, and other interfaces send none.
    #[test]
    fn advertisements_keep_their_intervals_under_any_events(
        events in prop::collection::vec((0u64..20, 0u32..2, 0u8..8), 1..80),
        seed: u64,
    ) {
        let mut t = Clocked::new(seed);
        let mut sent: [Vec<(u64, Action)>; 2] = Default::default();
        let mut serves = [false; 2];
        for (seconds, interface, what) in events {
            for (at, action) in t.pass(seconds) {
                let (Action::Advertise(i) | Action::Withdraw(i)) = action;
                prop_assert_eq!(matches!(action, Action::Advertise(_)), serves[i as usize]);
                sent[i as usize].push((at, action));
            }
            let i = interface as usize;
            let event = match what {
                0 => Event::Start(interface, Interval::new(3, 4).unwrap()),
                1 => Event::Start(interface, Interval::default()),
                2 => Event::Stop(interface),
                3 => Event::Down(interface),
                4 => Event::Changed(interface),
                _ => Event::Solicited(interface),
            };
            t.event(event);
            match event {
                Event::Start(..) => serves[i] = true,
                Event::Stop(_) => serves[i] = false,
                Event::Down(_) => {
                    serves[i] = false;
                    // The advertiser has forgotten the interface, so the next advertisement may follow at
                    // once.
                    prop_assert!(gaps(&sent[i]).iter().all(|g| *g >= GAP));
                    sent[i].clear();
                }
                _ => {}
            }
        }
        prop_assert!(sent.iter().all(|s| gaps(s).iter().all(|g| *g >= GAP)));
        let soon = t.pass(600);
        for (i, serves) in serves.iter().enumerate() {
            prop_assert_eq!(soon.iter().any(|s| s.1 == Action::Advertise(i as u32)), *serves);
        }
        prop_assert_eq!(t.advertiser.poll_timeout().is_some(), serves.contains(&true));
    }
}

#[test]
fn nothing_follows_the_final_advertisement_of_a_leaving_link() {
    let mut t = settled(3);
    assert!(t.advertiser.knows(LINK) && t.advertiser.serves(LINK) && t.advertiser.has_more_to_say(LINK));
    // The event for another link, on which nothing is advertised, changes nothing.
    t.event(Event::Ceased(LINK + 1));
    assert!(!t.advertiser.knows(LINK + 1));
    t.event(Event::Ceased(LINK));
    for event in [Event::Changed(LINK), Event::Solicited(LINK), Event::Stop(LINK)] {
        t.event(event);
        assert_eq!(t.pass(4000), []);
        assert!(!t.advertiser.serves(LINK) && !t.advertiser.has_more_to_say(LINK));
    }
    // The link was not removed after all, and advertising starts again.
    assert!(t.advertiser.knows(LINK));
    let now = t.now;
    t.event(Event::Start(LINK, Interval::default()));
    let sent = t.pass(60);
    assert!(sent[0].0 <= now + ANSWER && sent.iter().all(|s| s.1 == Action::Advertise(LINK)), "{sent:?}");
}
