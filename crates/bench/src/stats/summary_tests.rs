use proptest::prelude::*;

use super::*;
use crate::stats::Error;

fn summary(results: &[f64]) -> Summary {
    Summary::of(&Runs::new(results).unwrap())
}

#[test]
fn a_set_is_summarized() {
    let s = summary(&[4.0, 1.0, 3.0, 2.0, 10.0]);
    assert_eq!((s.median, s.minimum, s.maximum, s.mean, s.runs), (3.0, 1.0, 10.0, 4.0, 5));
    assert_eq!((s.p1, s.p99), (1.0, 10.0));
    assert_eq!(s.standard_deviation, Some(12.5f64.sqrt()));
    assert_eq!(s.dispersion_percent, Some(300.0));
}

#[test]
fn an_even_number_has_the_mean_of_the_middle_two() {
    assert_eq!(summary(&[1.0, 4.0, 2.0, 100.0]).median, 3.0);
}

#[test]
fn percentiles_exclude_extremes_from_a_hundred_runs_on() {
    let results: Vec<f64> = (1..=200).map(f64::from).collect();
    let s = summary(&results);
    assert_eq!((s.p1, s.p99), (2.0, 198.0));
}

#[test]
fn one_run_has_no_deviation_and_a_median_of_zero_no_dispersion() {
    let s = summary(&[5.0]);
    assert_eq!((s.median, s.standard_deviation, s.dispersion_percent), (5.0, None, Some(0.0)));
    assert_eq!(summary(&[0.0, 0.0, 1.0]).dispersion_percent, None);
}

#[test]
fn invalid_results_are_refused_not_skipped() {
    assert_eq!(Runs::new(&[]), Err(Error::Empty));
    assert!(matches!(Runs::new(&[1.0, f64::NAN]), Err(Error::NotFinite(1, _))));
    assert_eq!(Runs::new(&[f64::NEG_INFINITY]), Err(Error::NotFinite(0, f64::NEG_INFINITY)));
    assert_eq!(Runs::complete(&[Some(1.0), None, Some(2.0)]), Err(Error::Missing(1)));
    assert_eq!(Runs::complete(&[]), Err(Error::Empty));
    assert_eq!(Runs::complete(&[Some(2.0), Some(1.0)]), Runs::new(&[1.0, 2.0]));
}

proptest! {
    /// Textbook two-pass computation over the unsorted results.
    #[test]
    fn figures_equal_those_of_the_definitions(results in prop::collection::vec(-1e9f64..1e9, 2..60)) {
        let s = summary(&results);
        let n = results.len() as f64;
        let mean = results.iter().sum::<f64>() / n;
        let variance = results.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        prop_assert!((s.mean - mean).abs() <= 1e-5);
        prop_assert!((s.standard_deviation.unwrap() - variance.sqrt()).abs() <= 1e-5 * (1.0 + variance.sqrt()));
        let below = results.iter().filter(|x| **x < s.median).count();
        let above = results.iter().filter(|x| **x > s.median).count();
        prop_assert!(below * 2 <= results.len() && above * 2 <= results.len());
        prop_assert!(s.minimum <= s.p1 && s.p1 <= s.median && s.median <= s.p99 && s.p99 <= s.maximum);
        prop_assert_eq!(s.runs, results.len());
    }

    #[test]
    fn the_order_of_runs_does_not_matter(results in prop::collection::vec(-1e9f64..1e9, 1..30)) {
        let reversed: Vec<f64> = results.iter().rev().copied().collect();
        prop_assert_eq!(summary(&results), summary(&reversed));
    }

    #[test]
    fn figures_of_equal_runs_are_all_equal(value in -1e9f64..1e9, runs in 2usize..40) {
        let s = summary(&vec![value; runs]);
        prop_assert_eq!([s.median, s.minimum, s.maximum, s.mean, s.p1, s.p99], [value; 6]);
        prop_assert_eq!(s.standard_deviation, Some(0.0));
    }
}
