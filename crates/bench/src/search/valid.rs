//! Repeats invalid trials.

use crate::trial::{Failure, Measure, Outcome, Request};

/// A `Measure` that repeats invalid trials of another `Measure`, up to a limit, and counts the repeats. A trial that is still invalid after
/// the last repeat is returned, with its reasons in [`Outcome::invalid`].
///
/// To wrap a borrowed `Measure`, use a closure: `Valid::new(|request| measure.measure(request), 3)`.
#[derive(Clone, Debug)]
pub struct Valid<M> {
    inner: M,
    repeats: u32,
    repeated: u64,
}

impl<M> Valid<M> {
    /// Makes a `Measure` that repeats an invalid trial of `inner` up to `repeats` times.
    pub fn new(inner: M, repeats: u32) -> Self {
        Valid { inner, repeats, repeated: 0 }
    }

    /// Returns the number of repeats so far. A repeat of a [group](Self::until) counts as one.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Returns the wrapped `Measure`.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// Returns the wrapped `Measure` as mutable, for example to set the procedure of the next trials.
    pub fn inner_mut(&mut self) -> &mut M {
        &mut self.inner
    }

    /// Runs a group of trials with `run`. Repeats the whole group while its result is not valid, but no more often than a single
    /// trial would be repeated.
    ///
    /// # Errors
    /// If `run` fails; a failed group is not repeated.
    pub fn until<T>(
        &mut self,
        is_valid: impl Fn(&T) -> bool,
        mut run: impl FnMut(&mut M) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        for _ in 0..self.repeats {
            let came = run(&mut self.inner)?;
            if is_valid(&came) {
                return Ok(came);
            }
            self.repeated += 1;
        }
        run(&mut self.inner)
    }
}

impl<M: Measure> Measure for Valid<M> {
    fn measure(&mut self, request: Request) -> Result<Outcome, Failure> {
        self.until(Outcome::is_valid, |inner| inner.measure(request))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sim::Router;

    const REQUEST: Request = Request { load_fps: 1e5, duration: Duration::from_secs(1) };

    #[test]
    fn a_valid_trial_is_run_once() {
        let mut valid = Valid::new(Router::new(1e6), 3);
        assert!(valid.measure(REQUEST).unwrap().is_valid());
        assert_eq!((valid.inner().trials(), valid.repeated()), (1, 0));
    }

    #[test]
    fn a_trial_that_stays_invalid_is_returned_as_invalid() {
        let mut valid = Valid::new(Router::new(1e6).invalid(1.0), 3);
        let outcome = valid.measure(REQUEST).unwrap();
        assert!(!outcome.is_valid());
        assert_eq!((valid.inner().trials(), valid.repeated()), (4, 3));
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
    fn several_trials_are_repeated_together() {
        let mut valid = Valid::new(Router::new(1e6), 3);
        let mut run = 0;
        let of_third = |runs: &u32| *runs == 3;
        let came = valid.until(of_third, |router| {
            run += 1;
            router.measure(REQUEST)?;
            router.measure(REQUEST).map(|_| run)
        });
        assert_eq!((came, valid.repeated(), valid.inner().trials()), (Ok(3), 2, 6));
    }

    #[test]
    fn a_failure_is_not_repeated() {
        let mut valid = Valid::new(Router::new(1e6).fails_above(1e4), 3);
        assert!(valid.measure(REQUEST).is_err());
        assert_eq!(valid.inner().trials(), 1);
    }
}
