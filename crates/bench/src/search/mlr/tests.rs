use super::*;
use crate::sim::Router;
use crate::trial::Failure;

pub(super) const MAX: f64 = 14_880_952.0;

pub(super) fn ndr() -> Mlr {
    Mlr { goals: vec![Goal::csit_ndr()], ..Mlr::csit(9_001.0, MAX) }
}

/// Runs a search, and checks the invariants of any result.
pub(super) fn run(asked: &Mlr, measure: &mut dyn Measure) -> MlrResult {
    let mut told = 0;
    let result = asked.search(measure, &mut |progress| told = progress.tally.trials).unwrap();
    let failed = result.goals.iter().any(|goal| matches!(goal.ended, Ended::Failed(_)));
    let tried: usize = result.loads.iter().map(|load| load.trials.len()).sum();
    assert_eq!((told, told as usize), (result.tally.trials - u32::from(failed), tried));
    assert!(result.tally.trials <= asked.limits.trials);
    assert!(result.loads.iter().all(|load| load.load_fps >= asked.min_fps && load.load_fps <= asked.max_fps));
    for found in &result.goals {
        let target = Target::from(&found.goal);
        assert_eq!((found.lower_fps, found.upper_fps), relevant(&target, &result.loads));
        match found.ended {
            Ended::Found => assert!(target.reached(found.lower_fps.unwrap(), found.upper_fps.unwrap())),
            Ended::AllForwarded => {
                assert_eq!((found.lower_fps, found.upper_fps), (Some(asked.max_fps), None))
            }
            Ended::NothingForwarded => {
                assert_eq!((found.lower_fps, found.upper_fps), (None, Some(asked.min_fps)))
            }
            Ended::OutOfBudget | Ended::Failed(_) => (),
        }
        if let (Some(lower), Some(conditional)) = (found.lower_fps, found.conditional_fps) {
            assert!(conditional <= lower && conditional >= lower * (1.0 - found.goal.loss_ratio) - 1e-6);
        }
    }
    result
}

/// Computes the relevant bounds by their definition, from the trials alone.
fn relevant(target: &Target, loads: &[LoadTried]) -> (Option<f64>, Option<f64>) {
    let class = |load: &&LoadTried| {
        let mut sums = Sums::default();
        load.trials.iter().for_each(|seen| sums.add(target, seen));
        sums.classify(target)
    };
    let of = |wanted: Class| loads.iter().filter(move |load| class(load) == wanted).map(|load| load.load_fps);
    let upper = of(Class::Upper).min_by(f64::total_cmp);
    let lower = of(Class::Lower).filter(|&fps| upper.is_none_or(|upper| fps < upper)).max_by(f64::total_cmp);
    (lower, upper)
}

fn ends(result: &MlrResult) -> Vec<Ended> {
    result.goals.iter().map(|goal| goal.ended.clone()).collect()
}

#[test]
fn ndr_and_pdr_of_an_ideal_router() {
    let result = run(&Mlr::csit(9_001.0, MAX), &mut Router::new(5.5e6));
    let [ndr, pdr] = &result.goals[..] else { panic!("{result:?}") };
    assert_eq!(ends(&result), [Ended::Found, Ended::Found]);
    assert!(ndr.lower_fps.unwrap() <= 5.5e6 && ndr.upper_fps.unwrap() > 5.5e6);
    // 0.5 % of the sent frames may be lost.
    assert!(pdr.lower_fps.unwrap() <= 5.5e6 / 0.995 && pdr.upper_fps.unwrap() >= 5.5e6 / 0.995 - 1.0);
    assert!((pdr.conditional_fps.unwrap() - 5.5e6).abs() < 5.5e6 * 0.005);
    assert!(result.tally.trials <= 35, "{}", result.tally.trials);
}

#[test]
fn goals_share_their_trials() {
    let together = run(&Mlr::csit(9_001.0, MAX), &mut Router::new(5.5e6)).tally.trials;
    let alone = |goal: Goal| run(&Mlr { goals: vec![goal], ..ndr() }, &mut Router::new(5.5e6)).tally.trials;
    let apart = alone(Goal::csit_ndr()) + alone(Goal::csit_pdr());
    assert!(together < apart, "{together} {apart}");
}

#[test]
fn short_trials_save_long_ones() {
    let goals = vec![Goal::rfc2544(), Goal::tst009()];
    let result = run(&Mlr { goals, ..ndr() }, &mut Router::new(5.5e6));
    assert_eq!(ends(&result), [Ended::Found, Ended::Found]);
    assert_eq!(result.goals[0].conditional_fps, result.goals[0].lower_fps);
    assert!(result.tally.spent < Duration::from_secs(10 * 60), "{:?}", result.tally);
    let bisection = Mlr { preceding: 0, goals: vec![Goal::rfc2544()], ..ndr() };
    assert!(run(&bisection, &mut Router::new(5.5e6)).tally.trials <= bisection.trials_without_noise());
}

#[test]
fn fastest_and_dead_routers_end_the_search() {
    let asked = Mlr::csit(9_001.0, MAX);
    let fast = run(&asked, &mut Router::new(2e7));
    assert_eq!((ends(&fast), fast.loads.len()), (vec![Ended::AllForwarded; 2], 1));
    assert_eq!(fast.goals[0].conditional_fps, Some(MAX));
    let dead = run(&asked, &mut Router::new(0.0));
    assert_eq!(ends(&dead), [Ended::NothingForwarded, Ended::NothingForwarded]);
    assert!(dead.tally.trials <= 30, "{}", dead.tally.trials);
    assert_eq!(
        ends(&run(&asked, &mut Router::new(8_000.0))),
        [Ended::NothingForwarded, Ended::NothingForwarded]
    );
}

#[test]
fn a_fixed_loss_has_a_pdr_but_no_ndr() {
    let result = run(&Mlr::csit(9_001.0, MAX), &mut Router::new(5e6).loss(1e-3));
    assert_eq!(ends(&result), [Ended::NothingForwarded, Ended::Found]);
    let lower = result.goals[1].lower_fps.unwrap();
    assert!(lower > 5e6 * 0.99 && lower < 5e6 * 1.005, "{lower}");
}

#[test]
fn a_knee_separates_ndr_and_pdr() {
    // 1 % of the frames above 4 million per second is lost, so 0.5 % of all at 8 million.
    let result = run(&Mlr::csit(9_001.0, MAX), &mut Router::new(1e7).knee(4e6, 0.01));
    assert_eq!(ends(&result), [Ended::Found, Ended::Found]);
    let lowers: Vec<f64> = result.goals.iter().map(|goal| goal.lower_fps.unwrap()).collect();
    assert!((3.97e6..=4.001e6).contains(&lowers[0]) && (7.95e6..=8.001e6).contains(&lowers[1]), "{lowers:?}");
}

#[test]
fn a_failure_keeps_earlier_results() {
    let gone = run(&ndr(), &mut Router::new(1e6).fails_above(2e6));
    assert!(matches!(gone.goals[0].ended, Ended::Failed(_)) && gone.loads.is_empty());
    let mut trials = 0;
    let mut later = |request| {
        trials += 1;
        if trials > 20 { Err(Failure("a port is gone".into())) } else { Router::new(1e6).measure(request) }
    };
    let result = run(&Mlr::csit(9_001.0, MAX), &mut later);
    let ndr = &result.goals[0];
    assert_eq!(ends(&result), vec![Ended::Failed("a port is gone".into()); 2]);
    assert!(ndr.lower_fps.is_some() || ndr.upper_fps.is_some(), "{ndr:?}");
}

#[test]
fn limits_end_the_search() {
    let trials = Mlr { limits: Limits { trials: 10, time: None }, ..ndr() };
    let result = run(&trials, &mut Router::new(1e6));
    assert_eq!((ends(&result), result.tally.trials), (vec![Ended::OutOfBudget], 10));
    let time = Mlr { limits: Limits { trials: 1000, time: Some(Duration::from_secs(12)) }, ..ndr() };
    let mut slow = Router::new(1e6).overhead(Duration::from_secs(3));
    assert_eq!(run(&time, &mut slow).tally.trials, 3);
}

#[test]
fn waits_can_count_as_time_of_trials() {
    let slow = || Router::new(1e6).overhead(Duration::from_millis(500));
    let sent = run(&ndr(), &mut slow()).tally.trials;
    let took = run(&Mlr { effective: Effective::Took, ..ndr() }, &mut slow()).tally.trials;
    // 10.5 of 21 s are 11 trials of 1 s, or 7 of 1.5 s.
    assert!(took < sent, "{took} {sent}");
}

#[test]
fn a_bound_by_invalid_trials_is_marked() {
    let mut busy = |request: Request| {
        let invalid = if request.load_fps > 2e6 { 1.0 } else { 0.0 };
        Router::new(1e7).invalid(invalid).measure(request)
    };
    let result = run(&ndr(), &mut busy);
    assert_eq!((&result.goals[0].ended, result.goals[0].upper_unproved), (&Ended::Found, true));
    assert!(result.goals[0].lower_fps.unwrap() <= 2e6 && result.tally.invalid > 0);
    assert!(!run(&ndr(), &mut Router::new(1e7)).goals[0].upper_unproved);
}

#[test]
fn progress_shows_goal_bounds_and_remaining_trials() {
    let mut names = Vec::new();
    let mut left = Vec::new();
    let mut told = |progress: &Progress<'_>| {
        names.push(progress.goal.to_string());
        left.push((progress.trials_left, progress.time_left));
    };
    Mlr::csit(9_001.0, MAX).search(&mut Router::new(5.5e6), &mut told).unwrap();
    assert!(names.iter().any(|name| name == "NDR") && names.iter().any(|name| name == "PDR"));
    assert!(left[0].0 < 150 && left[0].1 < Duration::from_secs(150), "{:?}", left[0]);
    assert!(left.last().unwrap().0 < left[0].0);
    let limits = Limits { trials: 10, time: Some(Duration::from_secs(8)) };
    let mut within = |progress: &Progress<'_>| {
        assert!(progress.trials_left + progress.tally.trials <= 10);
        assert!(progress.time_left + progress.tally.spent <= Duration::from_secs(8));
    };
    Mlr { limits, ..ndr() }.search(&mut Router::new(5.5e6), &mut within).unwrap();
}

#[test]
fn bad_input_names_its_field() {
    let field = |bad: Mlr| bad.search(&mut Router::new(1.0), &mut |_| ()).unwrap_err().field;
    assert_eq!(field(Mlr { goals: vec![], ..ndr() }), "goals");
    assert_eq!(field(Mlr { min_fps: 0.0, ..ndr() }), "min_fps");
    assert_eq!(field(Mlr { min_fps: MAX, ..ndr() }), "max_fps");
    assert_eq!(field(Mlr { preceding: 9, ..ndr() }), "preceding");
    assert_eq!(field(Mlr { limits: Limits { trials: 0, time: None }, ..ndr() }), "limits");
    let goal = |change: fn(&mut Goal)| {
        let mut goal = Goal::csit_ndr();
        change(&mut goal);
        field(Mlr { goals: vec![goal], ..ndr() })
    };
    assert_eq!(goal(|goal| goal.exceed_ratio = 1.0), "exceed_ratio");
    assert_eq!(goal(|goal| goal.loss_ratio = -0.1), "loss_ratio");
    assert_eq!(goal(|goal| goal.loss_ratio = f64::NAN), "loss_ratio");
    assert_eq!(goal(|goal| goal.width = 0.0), "width");
    assert_eq!(goal(|goal| goal.initial_duration = Duration::ZERO), "initial_duration");
    assert_eq!(goal(|goal| goal.initial_duration = Duration::from_micros(10)), "initial_duration");
    assert_eq!(goal(|goal| goal.final_duration = Duration::from_millis(10)), "final_duration");
    assert_eq!(goal(|goal| goal.duration_sum = Duration::from_millis(10)), "duration_sum");
    let mut bad = Goal::csit_ndr();
    bad.exceed_ratio = 1.5;
    assert_eq!(
        bad.check().unwrap_err().to_string(),
        "exceed_ratio must be from 0 to below 1, is 1.5 (goal NDR)"
    );
}
