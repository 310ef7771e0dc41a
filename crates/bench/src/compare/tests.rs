use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::campaign::{
    Campaign, DelayRun, Delays, DelaysAt, DirectionDelays, Disorder, Found, Metered, Recovery, Reset,
    Teardown, Usage, head,
};
use crate::energy;
use crate::search::throughput::{Resolution, ThroughputResult};
use crate::search::{Ended, Tally};
use crate::sessions::Attempt;
use crate::sessions::capacity::{Capacity, CapacityResult};
use crate::sessions::rate::RateResult;
use crate::stats::latency::{LatencyFigures, Lost};
use crate::trial::{Invalid, Outcome, Request};

const ASKED: &str = "name = 'a'\nduts = ['linux']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n";

/// Values of a simulated router: one for each repetition.
struct Made {
    fps: Vec<f64>,
    ns: Vec<u64>,
    lost: Vec<u64>,
}

impl Made {
    fn steady(fps: f64, runs: usize) -> Made {
        Made { fps: vec![fps; runs], ns: vec![20_000; runs], lost: vec![0; runs] }
    }
}

fn outcome(lost: u64) -> Outcome {
    let request = Request { load_fps: 1e4, duration: Duration::from_secs(1) };
    let (sent, took) = (10_000, request.duration);
    Outcome { request, intended: sent, sent, received: sent - lost, took, invalid: Vec::new() }
}

fn search(results: &Results, fps: f64) -> ThroughputResult {
    ThroughputResult {
        asked: results.profile.throughput(1e3, 1e7),
        ended: Ended::Found,
        throughput_fps: Some(fps).filter(|fps| *fps > 0.0),
        upper_fps: None,
        upper_unproved: false,
        tally: Tally::default(),
        outcomes: Vec::new(),
    }
}

fn run(ns: u64, lost: u64) -> DelayRun {
    let figures = LatencyFigures {
        frames: 10_000,
        lost: Lost::default(),
        minimum_ns: ns / 2,
        typical_ns: ns as f64,
        worst_case_ns: ns * 3,
        maximum_ns: ns * 4,
        mean_ns: ns as f64,
        pdv_ns: ns * 3 - ns / 2,
    };
    let usage = Usage { seconds: 1.0, busy: Some(1.5), dut_busy: None, meters: Vec::new() };
    let delays = Delays { figures, ipdv: None, jitter: None, bins: Vec::new(), directions: Vec::new() };
    DelayRun { outcome: outcome(lost), delays: Some(delays), usage }
}

fn measured(found: Found) -> Measurement {
    Measurement {
        found,
        limited_by_tester: false,
        repeated: 0,
        disorder: Disorder::default(),
        absence: None,
        counters: Vec::new(),
    }
}

fn results(made: &Made) -> Results {
    let mut results = head(&Campaign::parse(ASKED).unwrap());
    let searches = made.fps.iter().map(|fps| search(&results, *fps)).collect();
    let runs = made.ns.iter().zip(&made.lost).map(|(ns, lost)| run(*ns, *lost)).collect();
    let delays = vec![DelaysAt {
        name: "50 % of the throughput".into(),
        load_fps: 1e4,
        limited_by_tester: Some(false),
        runs,
    }];
    let key = Key {
        dut: "linux".into(),
        traffic: "rfc2544".into(),
        size: 64,
        bidirectional: false,
        routes: 0,
        sessions: 0,
        flows: 0,
    };
    let measurements = vec![measured(Found::Throughput(searches)), measured(Found::Latency(delays))];
    results.cells.push(Cell {
        key,
        tester_fps: 1e6,
        tester_delays: None,
        link_fps: 1e7,
        idle: Vec::new(),
        measurements,
    });
    results
}

fn compared(base: &Results, new: &Results) -> Comparison {
    compare(base, new, &Bootstrap { resamples: 1_000, ..Bootstrap::default() })
}

/// Returns the verdict on a figure.
fn said<'a>(comparison: &'a Comparison, figure: &str) -> &'a Judgement {
    let row = comparison.rows.iter().find(|row| row.figure == figure);
    &row.unwrap_or_else(|| panic!("no {figure} in {comparison:?}")).judgement
}

fn verdict(comparison: &Comparison, figure: &str) -> Option<Verdict> {
    match said(comparison, figure) {
        Judgement::Compared(c) => Some(c.verdict),
        _ => None,
    }
}

#[test]
fn goals_of_repeated_searches_are_judged() {
    let of = |fps: f64| {
        let mut all = results(&Made::steady(1e6, 10));
        let one = |n: u32| crate::search::mlr::MlrResult {
            asked: crate::search::mlr::Mlr::csit(1e3, 1e7),
            goals: vec![crate::search::mlr::GoalResult {
                goal: crate::search::mlr::Goal::csit_ndr(),
                ended: Ended::Found,
                lower_fps: Some(fps),
                upper_fps: Some(fps * 1.004),
                conditional_fps: Some(fps * (1.0 + f64::from(n % 3) / 1e4)),
                upper_unproved: false,
            }],
            loads: Vec::new(),
            tally: Tally::default(),
        };
        all.cells[0].measurements = vec![measured(Found::NdrPdr((0..10).map(one).collect()))];
        all
    };
    let name = "NDR, conditional throughput";
    assert_eq!(verdict(&compared(&of(1e6), &of(9e5)), name), Some(Verdict::Worse));
    // Less than the goal's width is no difference.
    assert_eq!(verdict(&compared(&of(1e6), &of(0.997e6)), name), Some(Verdict::NoDifference));
}

#[test]
fn directions_are_compared_one_by_one() {
    let of = |back_ns: u64| {
        let mut all = results(&Made::steady(1e6, 10));
        let Found::Latency(at) = &mut all.cells[0].measurements[1].found else { panic!() };
        for run in &mut at[0].runs {
            let way =
                |ns: u64| DirectionDelays { figures: self::run(ns, 0).delays.unwrap().figures, ipdv: None };
            run.delays.as_mut().unwrap().directions = vec![way(10_000), way(back_ns)];
        }
        all
    };
    let load = "at 50 % of the throughput";
    let c = compared(&of(10_000), &of(20_000));
    for what in ["median delay", "99.9 % delay"] {
        assert_eq!(verdict(&c, &format!("{what} {load}, left to right")), Some(Verdict::NoDifference));
        assert_eq!(verdict(&c, &format!("{what} {load}, right to left")), Some(Verdict::Worse));
    }
    let stamped = format!("loss of stamped frames {load}, right to left");
    assert_eq!(verdict(&c, &stamped), Some(Verdict::NoDifference));
    // Only stamped flows have delays, so the loss of these flows does not replace the loss of all frames.
    assert_eq!(verdict(&c, &format!("loss {load}")), Some(Verdict::NoDifference));
    // A figure for both directions together would only widen the intervals of the other figures.
    assert!(c.rows.iter().all(|row| row.figure != format!("median delay {load}")), "{:?}", c.rows);
    // Results stored before directions were recorded separately are compared for both directions together.
    let c = compared(&results(&Made::steady(1e6, 10)), &of(20_000));
    assert_eq!(verdict(&c, &format!("median delay {load}")), Some(Verdict::NoDifference));
    assert!(c.only_new.iter().any(|what| what.ends_with("right to left")), "{:?}", c.only_new);
}

#[test]
fn only_changed_figures_are_reported() {
    let base = Made::steady(1e6, 10);
    let new = Made { fps: vec![8e5; 10], ns: vec![15_000; 10], lost: vec![100; 10] };
    let c = compared(&results(&base), &results(&new));
    assert_eq!(verdict(&c, "throughput"), Some(Verdict::Worse));
    assert_eq!(verdict(&c, "median delay at 50 % of the throughput"), Some(Verdict::Better));
    assert_eq!(verdict(&c, "99.9 % delay at 50 % of the throughput"), Some(Verdict::Better));
    assert_eq!(verdict(&c, "loss at 50 % of the throughput"), Some(Verdict::Worse));
    let busy = "processors of the machine at 50 % of the throughput";
    assert_eq!(verdict(&c, busy), Some(Verdict::NoDifference));
    assert!(c.is_worse() && (c.judged, c.rows.len()) == (5, 5));
    let text = c.markdown();
    assert!(
        text.contains("| throughput | 1000000 fps | 800000 fps | × 0.800 | 0.800 to 0.800 | **worse** |")
    );
    assert!(text.contains("| 0 % | 1.000 % | +1.000 | 1.000 to 1.000 | **worse** |"), "{text}");
    assert!(
        text.contains("5 figures are judged at a confidence level of 95 % together, 99.000 % each."),
        "{text}"
    );
    assert!(text.contains("Some figures are worse beyond the noise, and some are better."), "{text}");
}

/// Adds a meter's reading in joules to each run; `step` is the resolution in joules.
fn metered(mut results: Results, joules: f64, step: f64) -> Results {
    let Found::Latency(all) = &mut results.cells[0].measurements[1].found else { panic!("latency") };
    for run in &mut all[0].runs {
        let reading = energy::Reading::Energy(energy::Energy {
            joules,
            seconds: 1.0,
            resolution: energy::Resolution::Joules(step),
            readings: 2,
            longest_gap: 1.0,
            parts: Vec::new(),
        });
        let work = energy::Work { frames: run.outcome.received, bytes: 64 * run.outcome.received };
        let figures = Some(energy::Results::of(&reading, None, work));
        run.usage.meters =
            vec![Metered { meter: "pdu".into(), kind: energy::Kind::Energy, reading: Ok(reading), figures }];
    }
    results
}

#[test]
fn energy_is_compared_within_the_meters_resolution() {
    let of = |joules, step| metered(results(&Made::steady(1e6, 10)), joules, step);
    let figure = "packets per Wh by pdu at 50 % of the throughput";
    let said = |base: &Results, new: &Results| verdict(&compared(base, new), figure);
    assert_eq!(said(&of(100.0, 0.1), &of(110.0, 0.1)), Some(Verdict::Worse));
    assert_eq!(said(&of(110.0, 0.1), &of(100.0, 0.1)), Some(Verdict::Better));
    // 10 J more is within the 36 J steps of a counter of 0.01 Wh.
    assert_eq!(said(&of(100.0, 36.0), &of(110.0, 36.0)), Some(Verdict::NoDifference));
}

#[test]
fn connections_are_compared_by_number_and_rate() {
    let of = |connections: u64, fps: f64, seconds: f64| {
        let mut results = results(&Made::steady(1e6, 1));
        let filled = Attempt {
            connections,
            rate_fps: fps,
            arrived: connections,
            different: connections,
            confirmed: Some(connections),
            counted: None,
            invalid: Vec::new(),
            took: Duration::ZERO,
        };
        let rate = RateResult { connections, search: search(&results, fps), attempts: Vec::new() };
        let resolution = Resolution::Relative(0.01);
        let capacity = CapacityResult {
            asked: Capacity { first: 1, most: 1 << 20, rate_fps: fps, resolution, repeats: 1 },
            ended: Ended::Found,
            connections: Some(connections),
            upper: Some(connections + 1),
            upper_unproved: false,
            attempts: Vec::new(),
        };
        let teardown = Teardown { filled, seconds: seconds + 0.01, empty_seconds: 0.01, left: None };
        results.cells[0].measurements = vec![
            measured(Found::SessionRate(vec![rate; 10])),
            measured(Found::SessionCapacity(vec![capacity; 10])),
            measured(Found::SessionTeardown(vec![teardown; 10])),
        ];
        results
    };
    let c = compared(&of(10_000, 1e5, 0.1), &of(20_000, 5e4, 0.2));
    assert_eq!(verdict(&c, "establishment rate"), Some(Verdict::Worse));
    assert_eq!(verdict(&c, "capacity"), Some(Verdict::Better));
    assert_eq!(verdict(&c, "tear-down rate"), Some(Verdict::NoDifference));
    assert!(
        c.markdown().contains("| capacity | 10000 connections | 20000 connections |"),
        "{}",
        c.markdown()
    );
}

#[test]
fn too_few_repetitions_give_no_verdict() {
    let c = compared(&results(&Made::steady(1e6, 5)), &results(&Made::steady(1e3, 20)));
    assert!(!c.is_worse() && c.judged == 0);
    assert_eq!(*said(&c, "throughput"), Judgement::TooFew { have: 5, needed: 6 });
    assert!(c.markdown().contains("not enough repetitions: 5 of 6"), "{}", c.markdown());
    assert!(c.markdown().contains("No figure has enough repetitions"), "{}", c.markdown());
    // Six repetitions are enough for one figure, but not for five figures together.
    let c = compared(&results(&Made::steady(1e6, 6)), &results(&Made::steady(1e3, 6)));
    assert_eq!(*said(&c, "throughput"), Judgement::TooFew { have: 6, needed: 8 });
}

#[test]
fn results_limited_by_the_tester_get_no_verdict() {
    let (base, mut new) = (results(&Made::steady(1e6, 10)), results(&Made::steady(8e5, 10)));
    new.cells[0].measurements[0].limited_by_tester = true;
    assert!(matches!(said(&compared(&base, &new), "throughput"), Judgement::LimitedByTester(_)));
    assert!(!compared(&base, &new).is_worse());
    // The other way round there is no verdict either: the old router may have been as good.
    assert!(matches!(said(&compared(&new, &base), "throughput"), Judgement::LimitedByTester(_)));
    // If the better side was limited, it is even better than measured.
    new.cells[0].measurements[0].limited_by_tester = false;
    let mut base = base;
    base.cells[0].measurements[0].limited_by_tester = true;
    assert!(compared(&base, &new).is_worse());
}

#[test]
fn a_load_above_the_tester_does_not_affect_other_loads() {
    let (base, mut new) = (results(&Made::steady(1e6, 10)), results(&Made::steady(1e6, 10)));
    let Found::Latency(all) = &mut new.cells[0].measurements[1].found else { panic!() };
    all[0].runs = (0..10).map(|_| run(90_000, 0)).collect();
    let figure = "median delay at 50 % of the throughput";
    // Another load of the procedure was too much for the tester.
    new.cells[0].measurements[1].limited_by_tester = true;
    assert_eq!(verdict(&compared(&base, &new), figure), Some(Verdict::Worse));
    // Old results (`None`) have no flag for each load, so the procedure's flag applies.
    for limited in [Some(true), None] {
        let Found::Latency(all) = &mut new.cells[0].measurements[1].found else { panic!() };
        all[0].limited_by_tester = limited;
        assert!(matches!(said(&compared(&base, &new), figure), Judgement::LimitedByTester(_)));
    }
}

#[test]
fn a_router_that_forwards_nothing_any_more_is_worse() {
    let c = compared(&results(&Made::steady(1e6, 10)), &results(&Made::steady(0.0, 10)));
    assert_eq!(verdict(&c, "throughput"), Some(Verdict::Worse));
}

#[test]
fn invalid_trials_are_counted_but_not_compared() {
    let (base, mut new) = (results(&Made::steady(1e6, 10)), results(&Made::steady(1e6, 10)));
    let Found::Latency(all) = &mut new.cells[0].measurements[1].found else { panic!("latency") };
    for run in &mut all[0].runs[..2] {
        run.outcome.invalid.push(Invalid::Lagged(1_000));
        run.outcome.received = 0;
    }
    let c = compared(&base, &new);
    let row = c.rows.iter().find(|row| row.figure.starts_with("loss")).unwrap();
    assert_eq!((row.new.runs.len(), row.new.left_out, row.new.median), (8, 2, Some(0.0)));
    assert!(c.markdown().contains("(2 left out)"), "{}", c.markdown());
}

#[test]
fn a_router_that_never_recovers_is_worse() {
    let with = |seconds: Option<f64>| {
        let mut results = results(&Made::steady(1e6, 10));
        let one = Recovery { overload_fps: 1e6, relief_fps: 5e5, seconds, outcomes: vec![outcome(1)] };
        results.cells[0].measurements.push(measured(Found::Recovery(vec![one; 10])));
        results
    };
    let c = compared(&with(Some(0.1)), &with(None));
    assert_eq!(verdict(&c, "recovery from overload"), Some(Verdict::Worse));
}

#[test]
fn outages_of_invalid_trials_are_not_compared() {
    let late = || Outcome { invalid: vec![Invalid::Lagged(1_000)], ..outcome(1) };
    let with = |overload: Outcome, reset: Outcome| {
        let mut results = results(&Made::steady(1e6, 1));
        let outcomes = vec![overload, outcome(1)];
        let recovery = Recovery { overload_fps: 1e6, relief_fps: 5e5, seconds: None, outcomes };
        let reset = Reset { load_fps: 5e5, seconds: None, outcome: reset };
        results.cells[0].measurements =
            vec![measured(Found::Recovery(vec![recovery; 3])), measured(Found::Reset(vec![reset; 3]))];
        results
    };
    let c = compared(&with(outcome(1), outcome(1)), &with(late(), late()));
    let sides = |side: fn(&Row) -> &Side| {
        c.rows.iter().map(|r| (side(r).runs.len(), side(r).left_out)).collect::<Vec<_>>()
    };
    assert_eq!((sides(|r| &r.base), sides(|r| &r.new)), (vec![(3, 0); 2], vec![(0, 3); 2]));
}

#[test]
fn unmatched_results_and_conditions_are_listed() {
    let (base, mut new) = (results(&Made::steady(1e6, 10)), results(&Made::steady(1e6, 10)));
    new.cells[0].measurements.remove(1);
    new.profile.repetitions = 77;
    new.provenance.facts.push(("color".into(), "red".into()));
    new.conditions.push("It rained.".into());
    let c = compared(&base, &new);
    assert_eq!(
        (c.only_base.as_slice(), c.only_new.len()),
        (&["linux, rfc2544, 64 bytes, latency".into()][..], 0)
    );
    for words in ["profile, repetitions: 3, and 77", "color: unknown, and red", "only in the new: It rained."]
    {
        assert!(c.conditions.iter().any(|c| c == words), "{words}: {:?}", c.conditions);
    }
    let back = compared(&new, &base);
    assert_eq!((back.only_base.len(), back.only_new.len()), (0, 1));
    assert_eq!(compared(&base, &base).conditions, [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Results with any noise do not differ from themselves. With noise of ±1 %, a throughput 20 % lower is detected.
    #[test]
    fn equal_results_do_not_differ_and_a_fifth_less_is_worse(
        runs in prop::collection::vec((0.99f64..1.01, 10_000u64..90_000, 0u64..50), 12..24),
    ) {
        let made = Made {
            fps: runs.iter().map(|r| r.0 * 1e6).collect(),
            ns: runs.iter().map(|r| r.1).collect(),
            lost: runs.iter().map(|r| r.2).collect(),
        };
        let base = results(&made);
        let same = compared(&base, &base);
        for row in &same.rows {
            let none = matches!(&row.judgement, Judgement::Compared(c) if c.verdict == Verdict::NoDifference);
            prop_assert!(none, "{row:?}");
        }
        let less = results(&Made { fps: made.fps.iter().map(|fps| fps * 0.8).collect(), ..made });
        prop_assert_eq!(verdict(&compared(&base, &less), "throughput"), Some(Verdict::Worse));
        prop_assert_eq!(verdict(&compared(&less, &base), "throughput"), Some(Verdict::Better));
        // JSON preserves the comparison.
        let json = serde_json::to_string(&same).unwrap();
        prop_assert_eq!(serde_json::from_str::<Comparison>(&json).unwrap(), same);
    }
}
