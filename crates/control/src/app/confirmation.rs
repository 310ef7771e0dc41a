//! Confirmation: an applied configuration can be rolled back unless the operator confirms it in time.

use std::time::{Duration, Instant};

use model::origin::{FrontEnd, Origin, Peer};

use super::failure::in_words;
use super::{Context, Failure, Transition};

/// The interval between attempts to roll back an unconfirmed configuration.
const RETRY: Duration = Duration::from_secs(5);

/// An applied configuration awaiting confirmation.
#[derive(Debug)]
pub struct Confirmation {
    /// The generation to roll back to.
    pub generation: u64,
    /// The generation of the applied configuration.
    pub(super) applied: u64,
    /// True if the configuration comes from the file that the router starts from.
    pub(super) start: bool,
    /// The time of the rollback, or of the next attempt.
    deadline: Instant,
    /// True from the deadline until the rollback succeeds or fails.
    expired: bool,
    /// The failed attempts to roll back.
    failed: Option<Failed>,
}

/// Failed attempts to roll back.
#[derive(Debug)]
struct Failed {
    times: u64,
    /// The last error.
    why: String,
}

impl Confirmation {
    /// Returns the state of a configuration that was applied as generation `applied`, awaits confirmation, and is rolled back to
    /// `generation` after `time`. `start` is true if the configuration comes from the file that the router starts from.
    pub(super) fn new(generation: u64, applied: u64, time: Duration, start: bool) -> Confirmation {
        let deadline = Instant::now() + time;
        Confirmation { generation, applied, start, deadline, expired: false, failed: None }
    }

    /// Returns the number of seconds until the configuration is rolled back or, after a failed rollback, until the next attempt.
    pub fn left(&self) -> u64 {
        self.deadline.saturating_duration_since(Instant::now()).as_secs()
    }

    /// Returns the number of failed attempts to roll back, and the last error; `None` if there are none.
    pub fn failed(&self) -> Option<(u64, &str)> {
        self.failed.as_ref().map(|failed| (failed.times, &*failed.why))
    }
}

impl Context {
    /// Returns the applied configuration that awaits confirmation, if there is one.
    pub fn confirmation(&self) -> Option<&Confirmation> {
        self.confirmation.as_ref()
    }

    /// Confirms the configuration that awaits confirmation, so that it is not rolled back. If `expected` is given, confirms only the
    /// configuration that was applied as this generation.
    ///
    /// # Errors
    /// If no configuration awaits confirmation, or another one, or if its rollback has begun.
    pub fn confirm(&mut self, expected: Option<u64>) -> Result<(), Failure> {
        let waiting = self.confirmation.as_ref().ok_or(Failure::NothingToConfirm)?;
        let is = waiting.applied;
        if let Some(expected) = expected.filter(|expected| *expected != is) {
            return Err(Failure::OtherUnconfirmed { is, expected });
        }
        if waiting.expired {
            return Err(Failure::TooLate);
        }
        self.forget_confirmation();
        tracing::info!(event = "config", "the configuration is confirmed");
        Ok(())
    }

    /// Starts the rollback of a configuration that was not confirmed in time. Called regularly.
    pub fn look_at_confirmation(&mut self) {
        let due = |w: &&mut Confirmation| !w.expired && Instant::now() >= w.deadline;
        let Some(waiting) = self.confirmation.as_mut().filter(due) else { return };
        waiting.expired = true;
        let generation = waiting.generation;
        if waiting.failed.is_none() {
            tracing::warn!(
                event = "config",
                "the configuration was not confirmed in time: rolling back to generation {generation}"
            );
        }
        let origin = Origin::new(FrontEnd::Router, Peer::Own, "not confirmed in time");
        let back = Transition::back_to(generation, false, origin).unasked();
        self.abandoned.borrow_mut().push_back(Box::new(back));
    }

    /// True if the first attempt to roll back an unconfirmed configuration is due or running. Then long changes that work object by object,
    /// such as loads of routes, end early. Later attempts do not end such changes.
    pub(crate) fn is_going_back(&self) -> bool {
        self.confirmation.as_ref().is_some_and(|waiting| waiting.expired && waiting.failed.is_none())
    }

    /// Refuses to begin a change that works object by object, such as a load of routes, while an unconfirmed configuration is rolled back.
    /// The rollback would have to wait for the end of such a change.
    ///
    /// # Errors
    /// If that rollback is due or running.
    pub(crate) fn must_not_go_back(&self) -> Result<(), Failure> {
        let what = "the rollback of a configuration that was not confirmed";
        match &self.confirmation {
            Some(waiting) if waiting.expired => Err(Failure::Busy { what, percent: 0 }),
            _ => Ok(()),
        }
    }

    /// True if a rollback to this generation is due because the configuration was not confirmed.
    pub(super) fn goes_back_to(&self, generation: u64) -> bool {
        self.confirmation.as_ref().is_some_and(|w| w.expired && w.generation == generation)
    }

    /// Records a failed rollback of the unconfirmed configuration, and schedules the next attempt.
    pub(super) fn way_back_failed(&mut self, e: &Failure) {
        let Some(waiting) = &mut self.confirmation else { return };
        (waiting.expired, waiting.deadline) = (false, Instant::now() + RETRY);
        let why = e.to_string();
        let times = waiting.failed.as_ref().map_or(0, |failed| failed.times);
        if waiting.failed.as_ref().is_none_or(|failed| failed.why != why) {
            tracing::error!(
                event = "config",
                "the unconfirmed configuration could not be rolled back: {why}; the router tries again every {}",
                in_words(RETRY)
            );
        }
        waiting.failed = Some(Failed { times: times + 1, why });
    }

    /// Ends the wait for a confirmation.
    pub(super) fn forget_confirmation(&mut self) {
        self.confirmation = None;
        self.journal.hold(None);
    }

    /// Returns a warning for a change that is made while a configuration awaits confirmation: if that configuration is rolled back, so is
    /// this change. `None` if no configuration awaits confirmation.
    pub(crate) fn goes_back_too(&self) -> Option<String> {
        let left = self.confirmation.as_ref()?.left();
        Some(format!(
            "the applied configuration awaits confirmation: without config confirm, both it and this change are rolled back in {left} s"
        ))
    }

    /// Makes the rollback of the unconfirmed configuration due now.
    #[cfg(test)]
    pub(crate) fn expire_confirmation(&mut self) {
        self.confirmation.as_mut().expect("an unconfirmed configuration").deadline = Instant::now();
    }
}
