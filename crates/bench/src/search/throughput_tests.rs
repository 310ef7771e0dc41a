use proptest::prelude::*;

use super::*;
use crate::search::Valid;
use crate::sim::Router;

fn search() -> Throughput {
    Throughput {
        min_fps: 1e3,
        max_fps: 14_880_952.0,
        start: Start::Maximum,
        step: Step::Halve,
        resolution: Resolution::Absolute(1e3),
        duration: Duration::from_secs(60),
    }
}

fn run(search: Throughput, router: &mut dyn Measure) -> ThroughputResult {
    let mut told = 0;
    let result = search.search(router, &mut |progress| told = progress.tally.trials).unwrap();
    assert!(result.tally.trials <= search.trials_at_most());
    if !matches!(result.ended, Ended::Failed(_)) {
        assert_eq!(told as usize, result.outcomes.len());
    }
    result
}

#[test]
fn a_router_as_fast_as_the_link_takes_one_trial() {
    let result = run(search(), &mut Router::new(2e7));
    assert_eq!((result.ended, result.tally.trials), (Ended::AllForwarded, 1));
    assert_eq!((result.throughput_fps, result.upper_fps), (Some(14_880_952.0), None));
}

#[test]
fn a_router_as_fast_as_the_link_is_found_from_any_start() {
    for start in [Start::Middle, Start::At(5e6), Start::At(1e3), Start::At(14_880_952.0)] {
        let result = run(Throughput { start, ..search() }, &mut Router::new(2e7));
        assert_eq!((result.ended, result.throughput_fps), (Ended::AllForwarded, Some(14_880_952.0)));
    }
}

#[test]
fn a_router_that_never_forwards_has_no_throughput() {
    for capacity in [0.0, 999.0] {
        let result = run(search(), &mut Router::new(capacity));
        assert_eq!((result.ended, result.throughput_fps), (Ended::NothingForwarded, None));
        assert_eq!(result.upper_fps, Some(1e3));
    }
}

#[test]
fn the_smallest_load_can_be_the_throughput() {
    let result = run(search(), &mut Router::new(1e3));
    assert_eq!((result.ended, result.throughput_fps), (Ended::Found, Some(1e3)));
}

#[test]
fn a_failure_keeps_earlier_results() {
    // The router forwards up to 5 million frames per second and loses some of them up to 8 million; above that, trials fail.
    let asked = Throughput { start: Start::At(4e6), ..search() };
    let result = run(asked, &mut Router::new(5e6).fails_above(8e6));
    assert!(matches!(result.ended, Ended::Failed(ref why) if why.contains("8000000")), "{:?}", result.ended);
    assert_eq!((result.throughput_fps, result.upper_fps), (Some(4e6), None));
    assert_eq!((result.tally.trials, result.outcomes.len()), (2, 1));
}

#[test]
fn any_fixed_loss_means_no_throughput() {
    let result = run(search(), &mut Router::new(2e7).loss(1e-4));
    assert_eq!(result.ended, Ended::NothingForwarded);
}

#[test]
fn the_rate_of_the_sender_bounds_the_throughput() {
    let result = run(search(), &mut Router::new(1e7).sender(3e6));
    assert!((result.throughput_fps.unwrap() - 3e6).abs() <= 1e3 && result.upper_fps.unwrap() >= 3e6);
}

#[test]
fn a_bound_by_invalid_trials_is_marked() {
    let mut always = |request: Request| {
        let mut router = Router::new(1e7).invalid(if request.load_fps > 2e6 { 1.0 } else { 0.0 });
        router.measure(request)
    };
    let result = run(search(), &mut Valid::new(&mut always as &mut dyn FnMut(Request) -> _, 2));
    assert_eq!((result.ended, result.upper_unproved), (Ended::Found, true));
    assert!(result.throughput_fps.unwrap() <= 2e6 && result.tally.invalid > 0);
    assert!(!run(search(), &mut Router::new(5e6)).upper_unproved);
    // An invalid trial does not matter once a valid trial at a lower load has loss.
    let mut at_first = |request: Request| {
        Router::new(5e6).invalid(if request.load_fps > 1e7 { 1.0 } else { 0.0 }).measure(request)
    };
    let result = run(search(), &mut at_first);
    assert_eq!((result.upper_unproved, result.tally.invalid), (false, 1));
}

#[test]
fn bad_input_names_its_field() {
    let field = |bad: Throughput| bad.search(&mut Router::new(1.0), &mut |_| ()).unwrap_err().field;
    assert_eq!(field(Throughput { min_fps: 0.0, ..search() }), "min_fps");
    assert_eq!(field(Throughput { min_fps: f64::NAN, ..search() }), "min_fps");
    assert_eq!(field(Throughput { max_fps: 500.0, ..search() }), "max_fps");
    assert_eq!(field(Throughput { max_fps: f64::INFINITY, ..search() }), "max_fps");
    assert_eq!(field(Throughput { start: Start::At(2e7), ..search() }), "start");
    assert_eq!(field(Throughput { resolution: Resolution::Absolute(0.0), ..search() }), "resolution");
    assert_eq!(field(Throughput { resolution: Resolution::Relative(1.0), ..search() }), "resolution");
    assert_eq!(field(Throughput { duration: Duration::ZERO, ..search() }), "duration");
    assert_eq!(field(Throughput { duration: Duration::from_micros(10), ..search() }), "duration");
    let told = Throughput { max_fps: 500.0, ..search() }.check().unwrap_err().to_string();
    assert_eq!(told, "max_fps must be above min_fps (1000), is 500");
}

fn any_search() -> impl Strategy<Value = Throughput> {
    let start = prop_oneof![Just(Start::Maximum), Just(Start::Middle), (1e3f64..1e7).prop_map(Start::At)];
    let step = prop_oneof![Just(Step::Halve), Just(Step::HalveRatio)];
    let resolution = prop_oneof![
        (1.0f64..1e5).prop_map(Resolution::Absolute),
        (1e-4f64..0.2).prop_map(Resolution::Relative),
    ];
    (start, step, resolution, 1u64..120).prop_map(|(start, step, resolution, seconds)| Throughput {
        start,
        step,
        resolution,
        max_fps: 1e7,
        duration: Duration::from_secs(seconds),
        ..search()
    })
}

proptest! {
    /// The search ends on its own, after at most [`Throughput::trials_at_most`] trials, and its bounds enclose the capacity.
    #[test]
    fn every_capacity_is_found_within_the_resolution(asked in any_search(), log_capacity in 3.0f64..7.0) {
        let capacity = 10f64.powf(log_capacity);
        let result = run(asked, &mut Router::new(capacity));
        // Less than one frame per trial is not visible.
        let frame = 1.0 / asked.duration.as_secs_f64();
        prop_assert_eq!(&result.ended, &Ended::Found, "{:?}", result);
        let (lower, upper) = (result.throughput_fps.unwrap(), result.upper_fps.unwrap());
        prop_assert!(asked.resolution.reached(lower, upper) && lower < upper);
        prop_assert!(lower <= capacity + frame && capacity - frame <= upper, "{} {} {}", lower, capacity, upper);
    }

    /// For every kind of bottleneck, the throughput is the largest load without loss.
    #[test]
    fn the_throughput_of_every_kind_of_router_is_found(
        asked in any_search(), kind in 0..4, log_limit in 4.0f64..6.5, queue in 1u64..5000,
    ) {
        let limit = 10f64.powf(log_limit);
        let seconds = asked.duration.as_secs_f64();
        let (mut router, exact) = match kind {
            0 => (Router::new(limit).queue(queue), limit + queue as f64 / seconds),
            1 => (Router::new(2.0 * limit).knee(limit, 0.01), limit),
            2 => (Router::new(2.0 * limit).sender(limit), limit),
            _ => (Router::new(limit).knee(2.0 * limit, 1.0), limit),
        };
        let result = run(asked, &mut router);
        prop_assert_eq!(&result.ended, &Ended::Found);
        let (lower, upper) = (result.throughput_fps.unwrap(), result.upper_fps.unwrap());
        prop_assert!(asked.resolution.reached(lower, upper));
        prop_assert!(lower <= exact + 2.0 / seconds && exact - 2.0 / seconds <= upper, "{} {} {}", lower, exact, upper);
    }

    /// A capacity with jitter is found within its jitter.
    #[test]
    fn a_varying_capacity_is_found_within_its_range(asked in any_search(), log_capacity in 3.5f64..6.9, seed: u64) {
        let capacity = 10f64.powf(log_capacity);
        let result = run(asked, &mut Router::new(capacity).jitter(0.005).seed(seed));
        prop_assert_eq!(&result.ended, &Ended::Found);
        let (lower, upper) = (result.throughput_fps.unwrap(), result.upper_fps.unwrap());
        let frame = 1.0 / asked.duration.as_secs_f64();
        prop_assert!(asked.resolution.reached(lower, upper));
        prop_assert!(lower <= capacity * 1.005 + frame && upper >= capacity * 0.995 - frame);
    }

    /// After a random loss at some load, the search continues below that load, as in RFC 2544: the throughput is then too low, but never
    /// too high.
    #[test]
    fn a_search_with_noise_ends(asked in any_search(), log_capacity in 3.0f64..7.5, seed: u64) {
        let capacity = 10f64.powf(log_capacity);
        let mut router = Valid::new(Router::noisy(capacity, seed), 3);
        let result = run(asked, &mut router);
        prop_assert!(!matches!(result.ended, Ended::OutOfBudget | Ended::Failed(_)));
        let queue = 256.0 / asked.duration.as_secs_f64();
        prop_assert!(result.throughput_fps.unwrap_or(0.0) <= capacity * 1.005 + queue + 1.0);
    }
}
