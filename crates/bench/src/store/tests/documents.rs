//! What is written is what is read.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::campaign::{Delays, Flow};
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
        figure().prop_map(Invalid::Stolen),
        any::<String>().prop_map(Invalid::Clock),
    ]
}

fn delays() -> impl Strategy<Value = Delays> {
    (vec(any::<u64>(), 4), figure(), figure(), vec(any::<(u64, u64)>(), 0..50)).prop_map(
        |(ns, typical_ns, mean_ns, bins)| Delays {
            figures: LatencyFigures {
                frames: ns[0],
                lost: Lost { frames: ns[1], penalty_ns: ns[2] },
                minimum_ns: ns[3],
                typical_ns,
                worst_case_ns: ns[0],
                maximum_ns: ns[1],
                mean_ns,
                pdv_ns: ns[2],
            },
            ipdv: None,
            bins,
        },
    )
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
            lag: counts[5],
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
    fn trials_and_results_come_back_to_the_last_bit(all in vec(any_trial(), 1..5)) {
        let (_directory, store) = store();
        let recorder = store.begin(&asked("a")).unwrap();
        recorder.cell(&cell(key("linux", 64), 1e6)).unwrap();
        all.iter().for_each(|t| recorder.trial(t).unwrap());
        prop_assert_eq!(&trials(&store, recorder.id()), &all);
        let runs = all.into_iter().map(|t| DelayRun { outcome: t.outcome, delays: t.delays, usage: t.usage });
        let at = DelaysAt { name: "1 %".into(), load_fps: 0.1 + 0.2, runs: runs.collect() };
        let found = Measurement { found: Found::Loads(vec![at]), ..measurement(Procedure::Loads) };
        recorder.measurement(&key("linux", 64), &found).unwrap();
        let results = store.results(recorder.id()).unwrap();
        prop_assert_eq!(&results.cells[0].measurements, &[found]);
    }
}

#[test]
fn a_figure_that_is_none_gets_not_in() {
    let (_directory, store) = store();
    let recorder = store.begin(&asked("a")).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut one = trial(key("linux", 64), 1);
        one.outcome.invalid.push(Invalid::Late(bad));
        let why = recorder.trial(&one).unwrap_err().to_string();
        assert!(why.contains("infinite, or no number") && why.contains("linux"), "{why}");
        // Without this, it would be read as one that is not known.
        let mut one = trial(key("linux", 64), 1);
        one.usage.busy = Some(bad);
        assert!(recorder.trial(&one).is_err());
    }
    recorder.trial(&trial(key("linux", 64), 1)).unwrap();
    assert_eq!(trials(&store, recorder.id()).len(), 1);
}
