//! Tests of the simulated routers.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::trial::{Measure, Outcome, Request};

fn at(load_fps: f64, seconds: f64) -> Request {
    Request { load_fps, duration: Duration::from_secs_f64(seconds) }
}

fn run(router: &mut dyn Measure, load_fps: f64, seconds: f64) -> Outcome {
    router.measure(at(load_fps, seconds)).unwrap()
}

#[test]
fn the_ideal_router_loses_frames_above_its_capacity() {
    let mut router = Router::new(1e6);
    assert_eq!(run(&mut router, 1e6, 1.0).lost(), 0);
    assert_eq!(run(&mut router, 1.1e6, 2.0).lost(), 200_000);
    assert_eq!(run(&mut Router::new(0.0).queue(1000), 10.0, 1.0).loss_ratio(), 1.0);
}

#[test]
fn a_buffer_lets_short_bursts_pass() {
    let mut router = Router::new(1e6).queue(1000);
    // At 2 million per second, one of two frames goes into the buffer.
    assert_eq!(router.measure(Request::burst(2000, 2e6)).unwrap().lost(), 0);
    assert_eq!(router.measure(Request::burst(2010, 2e6)).unwrap().lost(), 5);
}

#[test]
fn each_configured_fault_occurs() {
    assert_eq!(run(&mut Router::new(1e6).loss(0.01), 1e5, 1.0).lost(), 1000);
    let mut knee = Router::new(1e6).knee(5e5, 0.1);
    assert_eq!(run(&mut knee, 5e5, 1.0).lost(), 0);
    assert_eq!(run(&mut knee, 8e5, 1.0).lost(), 30_000);
    assert_eq!(run(&mut knee, 2e6, 1.0).lost(), 1_000_000);
    assert!(Router::new(1e6).fails_above(1e5).measure(at(2e5, 1.0)).is_err());
    let short = run(&mut Router::new(1e6).sender(5e5), 8e5, 1.0);
    assert_eq!((short.sent, short.lost()), (500_000, 300_000));
    assert!(!run(&mut Router::new(1e6).invalid(1.0), 8e5, 1.0).is_valid());
}

#[test]
fn noise_has_the_configured_share() {
    let mut router = Router::new(1e6).spikes(0.1, 1e-3).invalid(0.2).seed(7);
    let outcomes: Vec<Outcome> = (0..10_000).map(|_| run(&mut router, 9e5, 1.0)).collect();
    let lossy = outcomes.iter().filter(|o| o.lost() > 0).count();
    let invalid = outcomes.iter().filter(|o| !o.is_valid()).count();
    assert!((900..1100).contains(&lossy) && (1850..2150).contains(&invalid), "{lossy} {invalid}");
    let mut router = Router::new(1e6).jitter(0.01);
    let received: Vec<u64> = (0..1000).map(|_| run(&mut router, 2e6, 1.0).received).collect();
    assert!(received.iter().all(|n| (990_000..=1_010_000).contains(n)));
    assert!(received.iter().min() < Some(&991_000));
}

#[test]
fn the_same_seed_gives_the_same_trials() {
    let outcomes = |seed| {
        let mut router = Router::noisy(1e6, seed);
        (0..50).map(|_| run(&mut router, 1e6, 1.0)).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(3), outcomes(3));
    assert_ne!(outcomes(3), outcomes(4));
}

/// The time between frames at 100,000 per second, in nanoseconds.
const GAP: u64 = 10_000;

fn evenly(frames: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..frames).map(|seq| (seq * GAP, seq))
}

#[test]
fn a_path_without_settings_is_a_wire() {
    let mut path = Path::new(1);
    let arrivals = path.pass_all(evenly(100));
    assert!(arrivals.iter().zip(evenly(100)).all(|(a, (sent, seq))| (a.arrived_ns, a.seq) == (sent, seq)));
    assert_eq!(path.truth(), Truth { sent: 100, ..Truth::default() });
}

#[test]
fn frames_held_back_are_reordered() {
    let mut path = Path::new(5).reordering(0.05, 3 * GAP + 1).delay(Delay::Fixed(700));
    let arrivals = path.pass_all(evenly(10_000));
    let truth = path.truth();
    assert!((400..600).contains(&truth.held_back), "{truth:?}");
    // Not every frame held back is overtaken: the last frame is not, nor a frame whose three followers were all held back, too.
    let late = reordered(&arrivals);
    assert!(late <= truth.held_back && late + 5 > truth.held_back, "{late} of {}", truth.held_back);
    assert_eq!((truth.min_delay_ns, truth.max_delay_ns), (700, 700 + 3 * GAP + 1));
}

#[test]
fn copies_do_not_count_as_reordered() {
    let mut path = Path::new(2).duplication(0.5);
    let arrivals = path.pass_all(evenly(1000));
    assert_eq!(arrivals.len() as u64, 1000 + path.truth().duplicated);
    assert_eq!(reordered(&arrivals), 0);
}

#[test]
fn queue_delays_equal_the_formula() {
    let delay = Delay::Queue { fixed_ns: 5_000, service_ns: 1_000.0 };
    let mut before = 0.0;
    for load_fps in [1e5, 3e5, 5e5, 7e5, 9e5] {
        let mut path = Path::new(9).delay(delay);
        let gap = 1e9 / load_fps;
        let frames = 400_000;
        path.pass_all((0..frames).map(|seq| ((seq as f64 * gap) as u64, seq)));
        let mean = path.truth().delay_sum_ns as f64 / frames as f64;
        let exact = delay.mean_ns(load_fps).unwrap();
        // A frame that would overtake waits, so the mean is slightly above the formula's.
        assert!(
            mean > before && mean > 0.95 * exact && mean < 1.15 * exact,
            "{load_fps}: {mean}, not {exact}"
        );
        before = mean;
    }
    assert_eq!(delay.mean_ns(1e6), None);
}

proptest! {
    /// Two independent computations of the lost frames agree, except for 2 frames and 0.1 %: the arithmetic over the whole trial, and the
    /// simulation frame by frame. The queue holds at least one frame. Without a queue, the simulation would lose more frames, because its
    /// server would idle between two arrivals.
    #[test]
    fn computed_and_simulated_frames_agree(
        capacity in 1e4f64..1e6, load in 0.5f64..3.0, queue in 1u64..500, frames in 100u64..5000,
    ) {
        let request = Request::burst(frames, capacity * load);
        let whole = Router::new(capacity).queue(queue).measure(request).unwrap();
        let each = Path::new(1).capacity(capacity, queue).measure(request).unwrap();
        // Tolerance for the frame in service, and for rounding at both ends.
        prop_assert!(whole.lost().abs_diff(each.lost()) <= 2 + (frames as f64 * 1e-3) as u64,
            "{} against {}", whole.lost(), each.lost());
    }

    #[test]
    fn the_truth_adds_up(
        seed: u64, loss in 0.0..0.5, copies in 0.0..0.5, late in 0.0..0.5, from in 0u64..1000, more in 0u64..100_000,
    ) {
        let mut path = Path::new(seed).loss(loss).duplication(copies).reordering(late, 5 * GAP)
            .delay(Delay::Jittered(from, from + more));
        let arrivals = path.pass_all(evenly(500));
        let truth = path.truth();
        prop_assert_eq!(arrivals.len() as u64, truth.sent - truth.lost + truth.duplicated);
        prop_assert!(reordered(&arrivals) <= truth.held_back * 2);
        let mut seen: Vec<u64> = arrivals.iter().map(|a| a.seq).collect();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len() as u64, truth.sent - truth.lost);
        prop_assert!(arrivals.iter().all(|a| a.arrived_ns >= a.seq * GAP + from));
        prop_assert!(truth.sent == truth.lost || truth.min_delay_ns >= from);
    }
}
