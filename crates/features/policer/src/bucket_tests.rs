//! Tests that the buckets give the colors of the RFCs' algorithms, and that several threads can share them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
/// The latest start of a test in nanoseconds, after about nine years: credit is exact until the end of the test.
const LATE: u64 = (1 << 58) - (1 << 44);

/// A policer as the RFCs describe it: it counts tokens, and adds the arriving ones to the counts.
pub(crate) struct Oracle {
    params: Params,
    tc: u128,
    /// Tokens in the second bucket: Te in RFC 2697 and RFC 4115, Tp in RFC 2698.
    te: u128,
    last: u64,
}

impl Oracle {
    /// Returns a policer whose buckets are full at `now` (nanoseconds).
    pub(crate) fn new(params: Params, now: u64) -> Oracle {
        Oracle { params, tc: params.cb.into(), te: params.eb.into(), last: now }
    }

    /// Returns the number of tokens that arrive between the last call of `police` and `now`. `rate` is in the unit of the parameters.
    fn arrive(&self, rate: u64, now: u64) -> u128 {
        let per_second = u128::from(rate) * if self.params.unit == Unit::Kbps { 125 } else { 1 };
        let by = |time: u64| u128::from(time) * per_second / u128::from(SECOND);
        by(now) - by(self.last)
    }

    pub(crate) fn police(&mut self, now: u64, tokens: u32, came: Color) -> Color {
        let Params { kind, cir, eir, cb, eb, aware, .. } = self.params;
        let (cb, eb) = (u128::from(cb), u128::from(eb));
        let (c, e) = (self.arrive(cir, now), self.arrive(eir, now));
        self.last = now;
        let b = u128::from(tokens);
        let came = if aware { came } else { Color::Green };
        match kind {
            Kind::OneRateTwoColors => {
                self.tc = cb.min(self.tc + c);
                if came == Color::Green && self.tc >= b {
                    self.tc -= b;
                    return Color::Green;
                }
                Color::Red
            }
            Kind::OneRateThreeColors => {
                // RFC 2697 section 3: "If Tc is less than CBS, Tc is incremented by one, else if Te is less than EBS, Te is
                // incremented by one, else neither".
                let into_c = c.min(cb - self.tc);
                self.tc += into_c;
                self.te = eb.min(self.te + (c - into_c));
                if came == Color::Green && self.tc >= b {
                    self.tc -= b;
                    return Color::Green;
                }
                if came != Color::Red && self.te >= b {
                    self.te -= b;
                    return Color::Yellow;
                }
                Color::Red
            }
            Kind::TwoRates2698 => {
                self.tc = cb.min(self.tc + c);
                self.te = eb.min(self.te + e);
                if came == Color::Red || self.te < b {
                    return Color::Red;
                }
                self.te -= b;
                if came == Color::Yellow || self.tc < b {
                    return Color::Yellow;
                }
                self.tc -= b;
                Color::Green
            }
            Kind::TwoRates4115 => {
                self.tc = cb.min(self.tc + c);
                self.te = eb.min(self.te + e);
                if came == Color::Green && self.tc >= b {
                    self.tc -= b;
                    return Color::Green;
                }
                if came != Color::Red && self.te >= b {
                    self.te -= b;
                    return Color::Yellow;
                }
                Color::Red
            }
        }
    }
}

pub(crate) fn params() -> impl Strategy<Value = Params> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let unit = prop::sample::select(vec![Unit::Kbps, Unit::Pps]);
    let rate = prop_oneof![8u64..100, 8u64..100_000, 8u64..400_000_000];
    let burst = prop_oneof![1u64..100, 1u64..20_000, 1u64..10_000_000];
    (kind, unit, rate.clone(), rate, burst.clone(), burst, any::<bool>()).prop_map(
        |(kind, unit, cir, eir, cb, eb, aware)| {
            let one_rate = matches!(kind, Kind::OneRateTwoColors | Kind::OneRateThreeColors);
            let eir = match kind {
                _ if one_rate => 0,
                Kind::TwoRates2698 => eir.max(cir),
                _ => eir,
            };
            let eb = if kind == Kind::OneRateTwoColors { 0 } else { eb };
            Params { kind, unit, cir, eir, cb, eb, aware, ..Params::default() }
        },
    )
}

/// Generates vectors: for each, the nanoseconds since the previous vector, and the tokens and color on arrival of its packets.
fn vectors() -> impl Strategy<Value = Vec<(u64, Vec<(u32, Color)>)>> {
    let gap = prop_oneof![Just(0u64), 0u64..10_000, 0u64..SECOND, 0u64..100 * SECOND];
    let color = prop::sample::select(vec![Color::Green, Color::Green, Color::Yellow, Color::Red]);
    let tokens = prop_oneof![1u32..4, 64u32..1600, 1u32..70_000];
    prop::collection::vec((gap, prop::collection::vec((tokens, color), 1..20)), 1..30)
}

fn items(packets: &[(u32, Color)]) -> Vec<Item> {
    packets.iter().map(|&(tokens, came)| Item { tokens, came, color: Color::Green }).collect()
}

/// Polices a vector as the nodes do: takes the tokens of all packets at once if the policer ignores their colors on arrival and all of them
/// conform, otherwise colors each packet.
fn police(policer: &Policer, worker: usize, now: u64, items: &mut [Item]) {
    let sum = items.iter().map(|i| u64::from(i.tokens)).sum();
    if policer.is_aware() || !policer.all(worker, now, sum) {
        policer.each(worker, now, items);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Several workers police packets in vectors. The packets get the same colors as from the RFCs' algorithms, which police packets one by
    /// one.
    #[test]
    fn colors_agree_with_the_rfcs(
        params in params(), vectors in vectors(), start in 0u64..LATE, workers in prop::collection::vec(0usize..5, 30),
    ) {
        prop_assert_eq!(params.check(), Ok(()));
        let (policer, mut oracle) = (Policer::new(&params, 3, start), Oracle::new(params, start));
        let mut now = start;
        for ((gap, packets), worker) in vectors.iter().zip(workers) {
            now += gap;
            let mut got = items(packets);
            police(&policer, worker, now, &mut got);
            for (i, item) in got.iter().enumerate() {
                let (tokens, came) = packets[i];
                prop_assert_eq!(item.color, oracle.police(now, tokens, came), "packet {} at {}", i, now);
            }
            let [c, e] = policer.tokens(now);
            let te = if params.kind == Kind::OneRateTwoColors { 0 } else { oracle.te };
            prop_assert_eq!([u128::from(c), u128::from(e)], [oracle.tc, te]);
        }
    }

    /// A clock that runs backwards adds no tokens: green packets take at most the committed burst, plus the tokens that arrive by the
    /// latest time at the committed rate.
    #[test]
    fn differing_clocks_grant_no_extra_tokens(
        params in params(), steps in prop::collection::vec((0u64..5 * SECOND, 1u32..3000), 1..100),
    ) {
        let policer = Policer::new(&params, 1, 0);
        let (mut latest, mut green) = (0, 0u128);
        for (now, tokens) in steps {
            latest = latest.max(now);
            let mut one = [Item { tokens, ..Item::default() }];
            policer.each(0, now, &mut one);
            green += if one[0].color == Color::Green { u128::from(tokens) } else { 0 };
            let rate = u128::from(params.per_second(params.cir));
            prop_assert!(green <= u128::from(latest) * rate / u128::from(SECOND) + u128::from(params.cb));
        }
    }

    /// A change of a policer leaves its buckets as full as before, in proportion to their sizes; if the type or the unit changes, they are
    /// full.
    #[test]
    fn a_changed_policer_keeps_its_fill_level(params in params(), other in params(), now in 0u64..1 << 50, take in 0u32..5000) {
        let old = Policer::new(&params, 1, 0);
        old.each(0, now, &mut [Item { tokens: take, ..Item::default() }]);
        let new = Policer::instead_of(&old, &other, 2, now);
        let ([c, e], [c2, e2]) = (old.tokens(now), new.tokens(now));
        if (params.kind, params.unit) != (other.kind, other.unit) {
            prop_assert_eq!([c2, e2], [other.cb, other.eb]);
        } else {
            prop_assert_eq!(u128::from(c2), u128::from(c) * u128::from(other.cb) / u128::from(params.cb));
            if params.eb > 0 {
                prop_assert_eq!(u128::from(e2), u128::from(e) * u128::from(other.eb) / u128::from(params.eb));
            }
        }
    }
}

fn colors(policer: &Policer, packets: &[(u64, u32, Color)]) -> Vec<Color> {
    let color = |&(now, tokens, came): &(u64, u32, Color)| {
        let mut one = [Item { tokens, came, color: Color::Green }];
        policer.each(0, now, &mut one);
        one[0].color
    };
    packets.iter().map(color).collect()
}

use Color::{Green, Red, Yellow};

/// A millisecond in nanoseconds: at 8 kbit/s, a byte arrives in this time.
const MS: u64 = 1_000_000;
const SLOW: Params = Params {
    kind: Kind::OneRateThreeColors,
    unit: Unit::Kbps,
    cir: 8,
    eir: 0,
    cb: 1000,
    eb: 500,
    aware: false,
    round: crate::rate::Round::Closest,
    conform: Action::Transmit,
    exceed: Action::Transmit,
    violate: Action::Drop,
};

#[test]
fn rfc2697_overflow_fills_the_excess_bucket() {
    let p = Policer::new(&SLOW, 1, 0);
    let blind =
        [(0, 1000, Green), (0, 500, Green), (0, 1, Green), (999 * MS, 1000, Green), (1000 * MS, 1000, Green)];
    assert_eq!(colors(&p, &blind), [Green, Yellow, Red, Red, Green]);
    // For 1.2 s the first bucket fills, then the second: 200 bytes.
    assert_eq!(
        colors(&p, &[(2200 * MS, 1000, Red), (2200 * MS, 200, Red), (2200 * MS, 1, Red)]),
        [Green, Yellow, Red]
    );
    let aware = Policer::new(&Params { aware: true, ..SLOW }, 1, 0);
    let came = [(0, 100, Red), (0, 500, Yellow), (0, 1, Yellow), (0, 1000, Green), (0, 1, Green)];
    assert_eq!(colors(&aware, &came), [Red, Yellow, Red, Green, Red]);
}

#[test]
fn rfc2698_the_peak_rate_limits_all_packets() {
    let params = Params { kind: Kind::TwoRates2698, eir: 16, eb: 1500, ..SLOW };
    let p = Policer::new(&params, 1, 0);
    let blind =
        [(0, 1000, Green), (0, 500, Green), (0, 1, Green), (100 * MS, 201, Green), (100 * MS, 200, Green)];
    assert_eq!(colors(&p, &blind), [Green, Yellow, Red, Red, Yellow]);
    let aware = Policer::new(&Params { aware: true, ..params }, 1, 0);
    let came = [
        (0, 1500, Yellow),
        (0, 1, Green),
        (250 * MS, 501, Green),
        (250 * MS, 500, Green),
        (250 * MS, 1, Red),
    ];
    assert_eq!(colors(&aware, &came), [Yellow, Red, Red, Green, Red]);
}

#[test]
fn rfc4115_the_excess_bucket_is_independent() {
    // The excess rate may be less than the committed one.
    let params = Params { kind: Kind::TwoRates4115, cir: 16, eir: 8, ..SLOW };
    let p = Policer::new(&params, 1, 0);
    let blind = [
        (0, 1000, Green),
        (0, 500, Green),
        (0, 1, Green),
        (100 * MS, 200, Green),
        (100 * MS, 100, Green),
        (100 * MS, 1, Green),
    ];
    assert_eq!(colors(&p, &blind), [Green, Yellow, Red, Green, Yellow, Red]);
    let aware = Policer::new(&Params { aware: true, ..params }, 1, 0);
    assert_eq!(
        colors(&aware, &[(0, 500, Yellow), (0, 1, Yellow), (0, 1000, Green), (0, 1, Red)]),
        [Yellow, Red, Green, Red]
    );
}

#[test]
fn pps_policers_count_packets() {
    let p = Policer::new(&Params { unit: Unit::Pps, cir: 1, cb: 2, ..Params::default() }, 1, 0);
    assert_eq!(
        colors(
            &p,
            &[(0, 1, Green), (0, 1, Green), (0, 1, Green), (SECOND - 1, 1, Green), (SECOND, 1, Green)]
        ),
        [Green, Green, Red, Red, Green]
    );
}

/// From 8 kbit/s to 400 Gbit/s, the tokens that pass are at most those that the rate and the burst allow, and at most 0.1 % fewer.
#[test]
fn rates_are_within_a_thousandth() {
    for (kbps, gap) in [(8, 10 * MS), (64, MS), (10_000, 100_000), (1_000_000, 2000), (400_000_000, 10)] {
        let p = Policer::new(&Params { cir: kbps, cb: 30_000, ..Params::default() }, 1, 0);
        let (mut passed, packets) = (0, 500_000);
        for i in 0..packets {
            let mut one = [Item { tokens: 64 + (i * 7919 % 1400) as u32, ..Item::default() }];
            p.each(0, i * gap, &mut one);
            passed += if one[0].color == Green { u64::from(one[0].tokens) } else { 0 };
        }
        // All arriving and initial tokens, less those not enough for a packet.
        let wanted = (kbps * 125) * ((packets - 1) * gap) / SECOND + 30_000;
        let slack = wanted / 1000;
        assert!((wanted - slack..=wanted).contains(&passed), "{kbps} kbit/s: {passed} of {wanted}");
    }
}

/// Checks that threads that share a policer together pass no more tokens than a single worker would, and hardly fewer. Workers below
/// `known` have their own cells.
fn race(params: Params, known: usize, threads: usize) {
    const ROUNDS: u64 = 20_000;
    let policer = Policer::new(&params, known, 0);
    let clock = AtomicU64::new(0);
    let colored: [AtomicU64; 3] = Default::default();
    thread::scope(|s| {
        for worker in 0..threads {
            let (policer, clock, colored) = (&policer, &clock, &colored);
            s.spawn(move || {
                for round in 0..ROUNDS {
                    let now = clock.fetch_add(500, Ordering::Relaxed);
                    let mut vector: Vec<Item> = (0..=round % 3)
                        .map(|k| Item { tokens: 60 + (round * 7 + k * 131) as u32 % 1400, ..Item::default() })
                        .collect();
                    police(policer, worker, now, &mut vector);
                    for item in vector {
                        colored[item.color as usize].fetch_add(item.tokens.into(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let time = clock.load(Ordering::Relaxed);
    let [green, yellow, red] = colored.map(|n| n.load(Ordering::Relaxed));
    assert!(red > 0, "more was offered than passes");
    let by = |rate: u64| (u128::from(time) * u128::from(rate) * 125 / u128::from(SECOND)) as u64;
    let (c, e) = (by(params.cir) + params.cb, by(params.eir) + params.eb);
    // Tolerance: a worker whose clock is behind may refuse packets that another worker could pass.
    let slack = by(params.cir.max(params.eir)) / 50 + 3 * 1500;
    let near = |got: u64, most: u64| got <= most && got + slack >= most;
    match params.kind {
        Kind::OneRateTwoColors => assert!(near(green, c), "{green} of {c}"),
        // The bounds are wide, because tokens may remain in either bucket.
        Kind::OneRateThreeColors => {
            assert!(
                green <= c && green + yellow <= c + params.eb && green + yellow + slack >= c,
                "{green} {yellow} of {c}"
            );
        }
        Kind::TwoRates2698 => assert!(green <= c && near(green + yellow, e), "{green} {yellow} of {c} {e}"),
        Kind::TwoRates4115 => assert!(near(green, c) && near(yellow, e), "{green} {yellow} of {c} {e}"),
    }
}

#[test]
fn threads_share_a_bucket_exactly() {
    for kind in Kind::ALL {
        let eir = match kind {
            Kind::OneRateTwoColors | Kind::OneRateThreeColors => 0,
            _ => 4_000_000,
        };
        let eb = if kind == Kind::OneRateTwoColors { 0 } else { 20_000 };
        let params = Params { kind, cir: 3_000_000, cb: 10_000, eir, eb, ..Params::default() };
        // With fewer cells than threads some threads share the spare one.
        for (known, threads) in [(4, 4), (3, 3), (1, 4), (0, 2)] {
            race(params, known, threads);
        }
    }
}

#[test]
fn the_common_case_reads_one_cache_line() {
    assert_eq!(std::mem::offset_of!(Policer, e), 64, "the excess bucket begins the second line");
    assert_eq!((size_of::<Policer>(), size_of::<Cell>()), (128, 64));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// At each of several attempts, other workers publish states between a worker's read of the state and its compare-and-exchange. Their
    /// packets then take tokens before this worker's packets. No worker ever overwrites the state that the shared word names.
    #[test]
    fn a_worker_overtaken_by_others_retries(
        params in params(), rounds in prop::collection::vec((0usize..4, prop::collection::vec((0usize..4, 1u32..3000), 0..8)), 1..20),
    ) {
        let policer = Policer::new(&Params { aware: false, ..params }, 3, 0);
        let mut oracle = Oracle::new(Params { aware: false, ..params }, 0);
        let named = |policer: &Policer| {
            let word = policer.word.load(Ordering::Relaxed);
            let Some(cell) = policer.cells.get((word >> 1 & 0x7fff) as usize) else { return };
            assert_ne!(cell.next.load(Ordering::Relaxed), word & 1, "the next state to be written is the one that counts");
        };
        for (now, (me, others)) in (0u64..).step_by(10_000_000).zip(rounds) {
            let mut faster = others.iter().filter(|(other, _)| *other != me);
            let mut color = Color::Green;
            let arrived = policer.arrived(now);
            let seen: Vec<_> = {
                let mut seen = Vec::new();
                policer.change(me, |state| {
                    policer.fill(state, arrived);
                    color = policer.color(state, arrived, 700, Color::Green);
                    // Two other workers publish before each attempt, so that a worker's states alternate.
                    for (other, tokens) in faster.by_ref().take(2) {
                        let mut one = [Item { tokens: *tokens, ..Item::default() }];
                        policer.each(*other, now, &mut one);
                        named(&policer);
                        seen.push((*tokens, one[0].color));
                    }
                    true
                });
                seen
            };
            named(&policer);
            for (tokens, color) in seen {
                prop_assert_eq!(oracle.police(now, tokens, Color::Green), color);
            }
            prop_assert_eq!(oracle.police(now, 700, Color::Green), color);
            let te = if params.kind == Kind::OneRateTwoColors { 0 } else { oracle.te };
            prop_assert_eq!(policer.tokens(now).map(u128::from), [oracle.tc, te]);
        }
    }
}
