//! Invalid trials are repeated: the one place for that.

use std::time::Duration;

use crate::trial::{Failure, Measure, Outcome, Request};

/// Repeats invalid trials of another `Measure`, up to a number of times, and counts them. One that is still invalid
/// after the last repeat is returned as it is, its reasons in [`Outcome::invalid`].
///
/// A borrowed `Measure` is wrapped as a closure: `Valid::new(|request| measure.measure(request), 3)`.
#[derive(Clone, Debug)]
pub struct Valid<M> {
    inner: M,
    repeats: u32,
    repeated: u64,
    given_up: u64,
    wasted: Duration,
}

impl<M: Measure> Valid<M> {
    /// Repeats an invalid trial of `inner` up to `repeats` times.
    pub fn new(inner: M, repeats: u32) -> Self {
        Valid { inner, repeats, repeated: 0, given_up: 0, wasted: Duration::ZERO }
    }

    /// Trials that were invalid and have been repeated.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Trials that stayed invalid.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// The time that repeated trials took: it is in no [`Outcome::took`].
    pub fn wasted(&self) -> Duration {
        self.wasted
    }

    /// Whoever runs the trials.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// The same, to be told what the trials are for.
    pub fn inner_mut(&mut self) -> &mut M {
        &mut self.inner
    }

    /// The same, to go on with.
    pub fn into_inner(self) -> M {
        self.inner
    }
}

impl<M: Measure> Measure for Valid<M> {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        for _ in 0..self.repeats {
            let outcome = self.inner.measure(request)?;
            if outcome.is_valid() {
                return Ok(outcome);
            }
            self.repeated += 1;
            self.wasted += outcome.took;
        }
        let outcome = self.inner.measure(request)?;
        self.given_up += u64::from(!outcome.is_valid());
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Router;

    const REQUEST: Request = Request { load_fps: 1e5, duration: Duration::from_secs(1) };

    #[test]
    fn a_valid_trial_is_run_once() {
        let mut valid = Valid::new(Router::new(1e6), 3);
        assert!(valid.measure(REQUEST).unwrap().is_valid());
        assert_eq!((valid.inner().trials(), valid.repeated(), valid.given_up()), (1, 0, 0));
    }

    #[test]
    fn one_that_stays_invalid_is_returned_marked() {
        let mut valid = Valid::new(Router::new(1e6).invalid(1.0), 3);
        let outcome = valid.measure(REQUEST).unwrap();
        assert!(!outcome.is_valid());
        assert_eq!((valid.inner().trials(), valid.repeated(), valid.given_up()), (4, 3, 1));
        assert_eq!(valid.wasted(), Duration::from_secs(3));
    }

    #[test]
    fn repeats_make_invalid_trials_rare() {
        let mut valid = Valid::new(Router::new(1e6).invalid(0.3).seed(11), 4);
        let invalid = (0..1000).filter(|_| !valid.measure(REQUEST).unwrap().is_valid()).count();
        // 0.3⁵ is 0.24 %.
        assert!(invalid < 10, "{invalid}");
        assert!((350..500).contains(&valid.repeated()), "{}", valid.repeated());
    }

    #[test]
    fn a_failure_is_not_repeated() {
        let mut valid = Valid::new(Router::new(1e6).fails_above(1e4), 3);
        assert!(valid.measure(REQUEST).is_err());
        assert_eq!(valid.inner().trials(), 1);
    }
}
