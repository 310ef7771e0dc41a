use proptest::prelude::*;

use super::*;
use crate::search::Valid;
use crate::sim::Router;

const ASKED: BackToBack = BackToBack {
    max_fps: 2e6,
    throughput_fps: 1e6,
    longest: 60_000_000,
    resolution: 1,
    repetitions: 50,
    verifications: 0,
};

fn run(asked: BackToBack, router: &mut dyn Measure) -> BackToBackResult {
    let result = asked.search(router, &mut |_| ()).unwrap();
    assert!(result.tally.trials <= asked.trials_at_most());
    assert_ne!(result.ended, Ended::OutOfBudget);
    result
}

#[test]
fn the_corrected_buffer_time_equals_the_buffer() {
    let result = run(ASKED, &mut Router::new(1e6).queue(1000));
    assert_eq!((&result.ended, result.bursts.len()), (&Ended::Found, 50));
    let summary = result.summary.unwrap();
    // At twice the capacity half of a burst is queued: 2000 frames fill a buffer of 1000 (plus rounding).
    assert!((2000..=2002).contains(&summary.min) && summary.min == summary.max && summary.deviation == 0.0);
    assert!((summary.implied_seconds - 1e-3).abs() < 2e-6);
    // That buffer holds 1000 frames, which take 0.5 ms at 2 million per second.
    assert!((summary.corrected_seconds - 0.5e-3).abs() < 1e-6);
}

#[test]
fn bursts_are_summarized() {
    let summary = ASKED.summary(&[4, 1, 3, 2]).unwrap();
    assert_eq!((summary.mean, summary.min, summary.max), (2.5, 1, 4));
    // Sample deviation: the sum of squares is divided by n − 1.
    assert!((summary.deviation - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
    assert_eq!((ASKED.summary(&[7]).unwrap().deviation, ASKED.summary(&[])), (0.0, None));
}

#[test]
fn no_search_runs_if_the_link_is_the_limit() {
    let result = run(BackToBack { throughput_fps: 2e6, ..ASKED }, &mut Router::new(2e6));
    assert_eq!((result.ended, result.tally.trials, result.summary), (Ended::AllForwarded, 0, None));
}

#[test]
fn an_unlimited_buffer_ends_the_search() {
    let result = run(ASKED, &mut Router::new(1e6).queue(1_000_000_000));
    assert_eq!((result.ended, result.tally.trials), (Ended::AllForwarded, 1));
}

#[test]
fn a_dead_router_passes_no_burst() {
    for resolution in [1, 100, 60_000_000, u64::MAX] {
        let result = run(BackToBack { resolution, ..ASKED }, &mut Router::new(0.0));
        assert_eq!((result.ended, result.summary), (Ended::NothingForwarded, None));
    }
}

#[test]
fn a_failure_keeps_earlier_repetitions() {
    let mut trials = 0;
    let mut fails = |request| {
        trials += 1;
        Router::new(1e6).queue(100).fails_above(if trials > 60 { 0.0 } else { 1e9 }).measure(request)
    };
    let result = run(ASKED, &mut fails);
    assert!(matches!(result.ended, Ended::Failed(_)) && result.bursts.len() == 2, "{result:?}");
    assert!(result.summary.is_some());
}

#[test]
fn verification_forgives_single_spikes() {
    let noisy = |verifications| {
        let mut router = Router::new(1e6).queue(5000).spikes(0.1, 0.0).seed(2);
        run(BackToBack { verifications, ..ASKED }, &mut router).summary.unwrap()
    };
    let (plain, verified) = (noisy(0), noisy(2));
    assert!(verified.deviation < plain.deviation && verified.mean > plain.mean, "{plain:?} {verified:?}");
}

#[test]
fn a_burst_with_loss_is_verified_as_configured() {
    // Bursts of 2 frames and of 1 frame, three times each.
    let asked = BackToBack { verifications: 2, longest: 2, ..ASKED };
    assert_eq!(run(asked, &mut Router::new(0.0)).tally.trials, 6);
}

#[test]
fn bad_input_names_its_field() {
    let field = |bad: BackToBack| bad.search(&mut Router::new(1.0), &mut |_| ()).unwrap_err().field;
    assert_eq!(field(BackToBack { max_fps: f64::NAN, ..ASKED }), "max_fps");
    assert_eq!(field(BackToBack { throughput_fps: -1.0, ..ASKED }), "throughput_fps");
    assert_eq!(field(BackToBack { longest: 1, ..ASKED }), "longest");
    assert_eq!(field(BackToBack { resolution: 0, ..ASKED }), "resolution");
    assert_eq!(field(BackToBack { repetitions: 0, ..ASKED }), "repetitions");
}

proptest! {
    #[test]
    fn every_buffer_is_measured_within_the_resolution(
        capacity in 1e5f64..1.8e6, queue in 1u64..100_000, resolution in 1u64..2000, repetitions in 1u32..4,
    ) {
        let asked = BackToBack { resolution, repetitions, throughput_fps: capacity, ..ASKED };
        let result = run(asked, &mut Router::new(capacity).queue(queue));
        prop_assert_eq!(&result.ended, &Ended::Found);
        // The longest burst n satisfies n − n·capacity/max = queue.
        let exact = queue as f64 / (1.0 - capacity / ASKED.max_fps);
        let rounding = 1.0 / (1.0 - capacity / ASKED.max_fps) + 1.0;
        for &burst in &result.bursts {
            let below = exact - burst as f64;
            prop_assert!(below <= resolution as f64 + rounding && below >= -rounding, "{} {}", exact, burst);
        }
        let seconds = result.summary.unwrap().corrected_seconds;
        let slack = (resolution as f64 + rounding) / ASKED.max_fps;
        prop_assert!((seconds - queue as f64 / ASKED.max_fps).abs() <= slack);
    }

    #[test]
    fn a_search_with_noise_ends(seed: u64, verifications in 0u32..4) {
        let mut router = Valid::new(Router::noisy(1e6, seed), 2);
        run(BackToBack { verifications, repetitions: 5, ..ASKED }, &mut router);
    }
}
