//! Properties that hold for any router and any goals.

use proptest::prelude::*;

use super::tests::{MAX, ndr, run};
use super::*;
use crate::search::Valid;
use crate::sim::{Random, Router};

fn any_goal() -> impl Strategy<Value = Goal> {
    let shares =
        (prop_oneof![Just(0.0), 1e-5f64..0.2], prop_oneof![Just(0.0), Just(0.5), 0f64..0.9], 5e-4f64..0.1);
    let times = (200u64..2000, 1f64..8.0, 1f64..30.0);
    (shares, times).prop_map(|((loss_ratio, exceed_ratio, width), (initial, longer, sum))| {
        let initial_duration = Duration::from_millis(initial);
        let final_duration = initial_duration.mul_f64(longer);
        let duration_sum = final_duration.mul_f64(sum);
        Goal {
            name: "any".into(),
            loss_ratio,
            exceed_ratio,
            width,
            initial_duration,
            final_duration,
            duration_sum,
        }
    })
}

fn any_goals() -> impl Strategy<Value = Mlr> {
    (prop::collection::vec(any_goal(), 1..4), 0u32..4, any::<bool>()).prop_map(|(goals, preceding, took)| {
        Mlr {
            goals,
            preceding,
            effective: if took { Effective::Took } else { Effective::Sent },
            limits: Limits { trials: 100_000, time: None },
            ..Mlr::csit(9_001.0, MAX)
        }
    })
}

proptest! {
    /// The number of trials is at most [`Mlr::trials_without_noise`].
    #[test]
    fn every_capacity_is_found_within_the_width(asked in any_goals(), log_capacity in 4.5f64..7.1) {
        let capacity = 10f64.powf(log_capacity);
        let result = run(&asked, &mut Router::new(capacity));
        let bound = asked.trials_without_noise();
        prop_assert!(result.tally.trials <= bound, "{} above {}", result.tally.trials, bound);
        for found in &result.goals {
            // Tolerance: a trial has a whole number of frames, and the shortest trials have few frames.
            let frames = 2.0 / found.goal.initial_duration.as_secs_f64();
            let exact = capacity / (1.0 - found.goal.loss_ratio);
            prop_assert!(found.lower_fps.unwrap() <= exact + frames);
            match found.upper_fps {
                Some(upper) => prop_assert!(upper >= exact - frames),
                None => prop_assert!(exact >= MAX - frames),
            }
        }
    }

    /// A router's buffer holds the same number of frames in each trial, so shorter trials pass at larger loads. The search must find the
    /// capacity that trials of the final duration show.
    #[test]
    fn the_capacity_is_found_despite_a_buffer(log_capacity in 5.0f64..7.0, queue in 1u64..5000) {
        let capacity = 10f64.powf(log_capacity);
        let result = run(&Mlr { goals: vec![Goal::rfc2544()], ..ndr() }, &mut Router::new(capacity).queue(queue));
        let (lower, upper) = (result.goals[0].lower_fps.unwrap(), result.goals[0].upper_fps.unwrap());
        let exact = capacity + queue as f64 / 60.0;
        prop_assert!(lower <= exact + 1.0 && exact - 1.0 <= upper, "{} {} {}", lower, exact, upper);
        prop_assert!(result.tally.trials <= 60, "{:?}", result.tally);
    }

    /// Searches with CSIT's goals on a noisy virtual machine. The capacity has 0.5 % jitter, so that the result may be off by a similar
    /// share.
    #[test]
    fn the_capacity_is_found_despite_noise(log_capacity in 5.5f64..7.1, seed: u64) {
        let capacity = 10f64.powf(log_capacity);
        let asked = Mlr::csit(9_001.0, MAX);
        let result = run(&asked, &mut Valid::new(Router::noisy(capacity, seed), 3));
        prop_assert!(result.tally.trials <= asked.trials_without_noise(), "{:?}", result.tally);
        for found in &result.goals {
            let exact = capacity / (1.0 - found.goal.loss_ratio);
            let (low, high) = (exact * (1.0 - 0.005 - 2.0 * 0.005), exact * (1.0 + 0.005) + 300.0);
            prop_assert!((low..=high).contains(&found.lower_fps.unwrap()), "{:?} of {}", found, exact);
        }
    }

    /// Random outcomes: no panic, no endless loop, and the results match the trials.
    #[test]
    fn any_outcomes_end_the_search(asked in any_goals(), seed: u64, calm in 0f64..1.0, invalid in 0f64..0.3) {
        let mut random = Random::new(seed);
        let mut nonsense = |request: Request| {
            let loss = if random.happens(calm) { 0.0 } else { random.unit().powi(8) };
            Router::new(f64::INFINITY).loss(loss).invalid(invalid).seed(random.bits()).measure(request)
        };
        let asked = Mlr { limits: Limits { trials: 500, time: None }, ..asked };
        run(&asked, &mut nonsense);
    }
}
