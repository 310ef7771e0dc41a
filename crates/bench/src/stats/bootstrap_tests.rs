use proptest::prelude::*;

use super::*;

fn runs(results: &[f64]) -> Runs {
    Runs::new(results).unwrap()
}

/// Does the same as `Draws` in a simple way: collects the runs, sorts them, and takes the median.
fn drawn_plainly(set: &Runs, mut generator: Pcg64, sets: u32) -> Vec<f64> {
    let mut one = |_| set.sorted()[pick(&mut generator, set.len())];
    (0..sets).map(|_| runs(&(0..set.len()).map(&mut one).collect::<Vec<_>>()).median()).collect()
}

/// Returns the exact probability that the median of a drawn set is among the `k` smallest of the `n` runs; `n` is odd. That is the case if
/// more than half of the `n` draws are among these `k` runs (Maritz and Jarrett 1978).
fn exact_probability(n: usize, k: usize) -> f64 {
    let p = k as f64 / n as f64;
    let mut term = (1.0 - p).powi(n as i32);
    let mut below_half = 0.0;
    for hits in 0..n.div_ceil(2) {
        below_half += term;
        term *= (n - hits) as f64 / (hits + 1) as f64 * p / (1.0 - p);
    }
    1.0 - below_half
}

#[test]
fn a_seed_gives_the_same_interval_in_all_versions() {
    let set = runs(&[10.0, 12.0, 11.0, 15.0, 9.0, 14.0, 13.0, 8.0, 16.0, 11.5]);
    let interval = Bootstrap::default().median(&set).unwrap();
    assert_eq!(interval, Bootstrap::default().median(&set).unwrap());
    // If this changes, intervals in old reports can no longer be reproduced.
    assert_eq!((interval.estimate, interval.low, interval.high), (11.75, 10.0, 14.0));
    let mut generator = Bootstrap::default().generator();
    let picked: Vec<usize> = (0..10).map(|_| pick(&mut generator, 1000)).collect();
    assert_eq!(picked, [442, 27, 684, 639, 223, 959, 333, 890, 997, 519]);
}

#[test]
fn intervals_equal_those_of_theory() {
    for n in [7, 11, 21, 51] {
        let set = runs(&(1..=n).map(|x| x as f64).collect::<Vec<_>>());
        let interval = Bootstrap { resamples: 40_000, ..Bootstrap::default() }.median(&set).unwrap();
        let at = |share: f64| (1..n).find(|k| exact_probability(n, *k) >= share).unwrap() as f64;
        // Drawing has an error of about 0.001. If the theoretical 2.5 % is close to a run's boundary, the next run may result.
        let near = |k: f64, share: f64| at(share - 0.003) <= k && k <= at(share + 0.003);
        assert!(near(interval.low, 0.025), "{n}: {interval:?}, not {}", at(0.025));
        assert!(near(interval.high, 0.975), "{n}: {interval:?}, not {}", at(0.975));
    }
}

#[test]
fn the_interval_covers_the_true_median_at_its_level() {
    // Skewed like latencies: exponential, with median ln 2.
    let mut generator = Pcg64::new(7, 7);
    let mut exponential = || -(1.0 - generator.next_u64() as f64 / 2f64.powi(64)).ln() + 1e-12;
    for (n, at_least) in [(6, 0.90), (10, 0.92), (20, 0.93), (50, 0.93)] {
        let hits = (0..1000)
            .filter(|_| {
                let set = runs(&(0..n).map(|_| exponential()).collect::<Vec<_>>());
                let interval = Bootstrap { resamples: 1000, ..Bootstrap::default() }.median(&set).unwrap();
                (interval.low..=interval.high).contains(&2f64.ln())
            })
            .count();
        assert!(hits as f64 / 1000.0 >= at_least, "{n} runs: {hits} of 1000");
    }
}

#[test]
fn too_few_runs_are_refused() {
    assert_eq!([0.5, 0.9, 0.95, 0.99].map(fewest_runs), [2, 5, 6, 8]);
    let too_few = Error::TooFew { what: "runs", have: 5, needed: 6 };
    let (five, six) = (runs(&[1.0; 5]), runs(&[1.0; 6]));
    assert_eq!(Bootstrap::default().median(&five), Err(too_few.clone()));
    assert_eq!(Bootstrap::default().ratio_of_medians(&six, &five), Err(too_few));
    assert!(Bootstrap::default().median(&six).is_ok());
}

#[test]
fn invalid_settings_are_refused() {
    let set = runs(&[1.0; 20]);
    for level in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(Bootstrap { level, ..Bootstrap::default() }.median(&set).is_err(), "{level}");
    }
    assert!(Bootstrap { resamples: 39, ..Bootstrap::default() }.median(&set).is_err());
    assert!(Bootstrap { resamples: 40, ..Bootstrap::default() }.median(&set).is_ok());
    let zero =
        Bootstrap::default().ratio_of_medians(&set, &runs(&[0.0, 1.0, 1.0, 1.0, 1.0, 1.0])).unwrap_err();
    assert_eq!(zero.to_string(), "the minimum of the base runs is 0: it must be a finite number above 0");
}

#[test]
fn the_lowest_level_is_still_an_interval() {
    let set = runs(&(0..50).map(f64::from).collect::<Vec<_>>());
    let interval = Bootstrap { level: 1e-12, ..Bootstrap::default() }.median(&set).unwrap();
    assert!(interval.low <= interval.high, "{interval:?}");
}

#[test]
fn runs_without_noise_have_intervals_without_width() {
    let ratio = Bootstrap::default().ratio_of_medians(&runs(&[3.0; 6]), &runs(&[2.0; 7])).unwrap();
    assert_eq!((ratio.estimate, ratio.low, ratio.high), (1.5, 1.5, 1.5));
    let difference = Bootstrap::default().difference_of_medians(&runs(&[0.0; 6]), &runs(&[2.0; 7])).unwrap();
    assert_eq!((difference.estimate, difference.low, difference.high), (-2.0, -2.0, -2.0));
}

proptest! {
    #[test]
    fn counting_and_sorting_draw_the_same_medians(
        results in prop::collection::vec(-1e6f64..1e6, 1..30),
        seed in any::<u64>(),
    ) {
        let set = runs(&results);
        let (mut draws, generator) = (Draws::new(&set), Bootstrap { seed, ..Bootstrap::default() }.generator());
        let mut again = generator.clone();
        let counted: Vec<f64> = (0..20).map(|_| draws.median(&mut again)).collect();
        prop_assert_eq!(counted, drawn_plainly(&set, generator, 20));
    }

    #[test]
    fn an_interval_holds_the_estimate_and_stays_among_the_runs(
        results in prop::collection::vec(1f64..1e6, 6..30),
        seed in any::<u64>(),
    ) {
        let set = runs(&results);
        let interval = Bootstrap { seed, resamples: 500, level: 0.95 }.median(&set).unwrap();
        prop_assert!(interval.low <= interval.estimate && interval.estimate <= interval.high);
        prop_assert!(set.minimum() <= interval.low && interval.high <= set.maximum());
    }
}
