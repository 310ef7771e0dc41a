//! Documents read back equal the written ones.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::campaign::{Delays, DirectionDelays, Flow, Teardown};
use crate::engine::receiver::Damaged;
use crate::search::throughput::{Resolution, Start, Step, Throughput};
use crate::sessions::capacity::Capacity;
use crate::sessions::rate;
use crate::sim::Nat;
use crate::stats::latency::{LatencyFigures, Lost};
use crate::trial::Invalid;

fn figure() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
}

fn invalid() -> impl Strategy<Value = Invalid> {
    prop_oneof![
        figure().prop_map(Invalid::Late),
        any::<u64>().prop_map(Invalid::Lagged),
        figure().prop_map(Invalid::Away),
        figure().prop_map(Invalid::Stolen),
        any::<String>().prop_map(Invalid::Clock),
    ]
}

fn delays() -> impl Strategy<Value = Delays> {
    let way = latency().prop_map(|figures| DirectionDelays { figures, ipdv: None });
    (latency(), vec(any::<(u64, u64)>(), 0..50), vec(way, 0..3)).prop_map(|(figures, bins, directions)| {
        Delays { figures, ipdv: None, jitter: None, bins, directions }
    })
}

fn latency() -> impl Strategy<Value = LatencyFigures> {
    (vec(any::<u64>(), 4), figure(), figure()).prop_map(|(ns, typical_ns, mean_ns)| LatencyFigures {
        frames: ns[0],
        lost: Lost { frames: ns[1], penalty_ns: ns[2] },
        minimum_ns: ns[3],
        typical_ns,
        worst_case_ns: ns[0],
        maximum_ns: ns[1],
        mean_ns,
        pdv_ns: ns[2],
    })
}

prop_compose! {
    fn any_trial()(
        name in any::<String>(),
        counts in vec(any::<u64>(), 6),
        load_fps in figure(),
        took in any::<Duration>(),
        invalid in vec(invalid(), 0..3),
        figures in vec(figure(), 3),
        last_lost in option::of(figure()),
        busy in option::of(figure()),
        delays in option::of(delays()),
    ) -> Trial {
        let mut trial = trial(key(&name, 64), counts[0]);
        trial.outcome.request.load_fps = load_fps;
        (trial.outcome.took, trial.outcome.invalid) = (took, invalid);
        trial.usage = Usage { seconds: figures[0], busy, dut_busy: None, meters: Vec::new() };
        trial.flows.push(Flow {
            direction: 1,
            name,
            intended: counts[0],
            sent: counts[1],
            refused: counts[2],
            unmade: counts[3],
            received: counts[4],
            duplicated: 0,
            reordered: 0,
            damaged: Damaged { length: counts[0], ..Damaged::default() },
            lag: counts[5],
            behind: Some(figures[0]),
            fastest: figures[1],
            late: figures[2],
            last_lost,
            last_received: last_lost,
        });
        Trial { delays, ..trial }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn trials_and_results_are_read_back_exactly(all in vec(any_trial(), 1..5)) {
        let (_directory, store) = store();
        let recorder = store.begin(&asked("a")).unwrap();
        recorder.cell(&cell(key("linux", 64), 1e6)).unwrap();
        all.iter().for_each(|t| recorder.trial(t).unwrap());
        prop_assert_eq!(&trials(&store, recorder.id()), &all);
        let runs = all.into_iter().map(|t| DelayRun { outcome: t.outcome, delays: t.delays, usage: t.usage });
        let at = DelaysAt { name: "1 %".into(), load_fps: 0.1 + 0.2, limited_by_tester: Some(false), runs: runs.collect() };
        let found = Measurement { found: Found::Loads(vec![at]), ..measurement(Procedure::Loads) };
        recorder.measurement(&key("linux", 64), &found).unwrap();
        let results = store.results(recorder.id()).unwrap();
        prop_assert_eq!(&results.cells[0].measurements, &[found]);
    }
}

#[test]
fn infinite_and_nan_figures_are_refused() {
    let (_directory, store) = store();
    let recorder = store.begin(&asked("a")).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut one = trial(key("linux", 64), 1);
        one.outcome.invalid.push(Invalid::Late(bad));
        let why = recorder.trial(&one).unwrap_err().to_string();
        assert!(why.contains("infinite or not a number") && why.contains("linux"), "{why}");
        // Without the check, this figure would be read back as unknown.
        let mut one = trial(key("linux", 64), 1);
        one.usage.busy = Some(bad);
        assert!(recorder.trial(&one).is_err());
    }
    recorder.trial(&trial(key("linux", 64), 1)).unwrap();
    assert_eq!(trials(&store, recorder.id()).len(), 1);
}

/// Results about connections are stored; documents of older testers, which lack them, are read as having none.
#[test]
fn connections_are_stored_and_absent_in_older_documents() {
    let mut nat = Nat::new(100).rate(30_000.0, 4).invalid(0.2, 1);
    let resolution = Resolution::Relative(0.01);
    let asked_capacity = Capacity { first: 30, most: 1_000, rate_fps: 10_000.0, resolution, repeats: 1 };
    let capacity = asked_capacity.search(&mut nat, &mut |_| ()).unwrap();
    let (start, step, duration) = (Start::Maximum, Step::Halve, Duration::ZERO);
    let asked_rate = Throughput { min_fps: 1e3, max_fps: 1e5, start, step, resolution, duration };
    let rate = rate::search(asked_rate, 90, 1, &mut nat, &mut |_| ()).unwrap();
    let filled = capacity.attempts[0].clone();
    let teardown = Teardown { filled, seconds: 0.3, empty_seconds: 0.1, left: Some(0) };
    assert_eq!(teardown.per_second().map(f64::round), Some(150.0));
    let all = [
        Found::SessionRate(vec![rate]),
        Found::SessionCapacity(vec![capacity]),
        Found::SessionTeardown(vec![teardown]),
    ];
    let all = all.map(|found| Measurement { found, ..measurement(Procedure::Loads) });
    let (_directory, store) = store();
    let recorder = store.begin(&asked("a")).unwrap();
    let key = Key { sessions: 90, ..key("linux", 64) };
    recorder.cell(&cell(key.clone(), 1e6)).unwrap();
    all.iter().for_each(|m| recorder.measurement(&key, m).unwrap());
    let cells = store.results(recorder.id()).unwrap().cells;
    assert_eq!((&cells[0].key, cells[0].measurements.len()), (&key, all.len()));
    for one in &all {
        assert_eq!(cells[0].found(one.found.procedure()), Some(one));
    }
    let before = r#"{"dut":"linux","traffic":"rfc2544","size":64,"bidirectional":false,"routes":0}"#;
    assert_eq!(serde_json::from_str::<Key>(before).unwrap(), Key { sessions: 0, ..key });
}

/// Before MLRsearch was repeated, its result was one search.
#[test]
fn a_single_search_of_older_stores_is_read_as_one_repetition() {
    let search = serde_json::json!({
        "asked": crate::search::mlr::Mlr::csit(1e3, 1e6), "goals": [], "loads": [], "tally": crate::search::Tally::default(),
    });
    let of = |result: serde_json::Value| {
        let text = serde_json::json!({ "procedure": "ndr-pdr", "result": result });
        serde_json::from_value::<Found>(text).unwrap()
    };
    assert_eq!(of(search.clone()), of(serde_json::json!([search])));
}
