//! Long changes: they run in slices, and no other change is made in between.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::Context;
use crate::cli::{CliError, Job, Step};

/// Maximum duration of a slice. Other commands wait so long.
pub(super) const SLICE: Duration = Duration::from_millis(1);

/// Jobs without clients that must still run to their end.
pub type Abandoned = Rc<RefCell<VecDeque<Box<dyn Job<Context>>>>>;

/// The right to change the configuration, until it is dropped.
pub(super) struct Turn(Rc<Running>);

/// The name and the progress of the running change.
pub(super) struct Running {
    what: Cell<&'static str>,
    percent: Cell<usize>,
}

impl Turn {
    /// Sets the progress: steps made, and all steps.
    pub fn tell(&self, (done, of): (usize, usize)) {
        self.0.percent.set(100 * done / of.max(1));
    }

    /// Changes the name of the running change.
    pub fn goes_on_as(&self, what: &'static str) {
        self.0.what.set(what);
    }
}

/// The state shared by all long changes.
#[derive(Default)]
pub(super) struct Changes {
    turn: Weak<Running>,
    /// Each running change that works object by object holds a clone. Other changes can be made between its slices.
    beside: Rc<()>,
}

impl Changes {
    /// Returns the turn for the change named `what`; `None` while another change has the turn, or works object by object.
    pub fn turn(&mut self, what: &'static str) -> Option<Turn> {
        if self.turn.strong_count() > 0 || Rc::strong_count(&self.beside) > 1 {
            return None;
        }
        let running = Rc::new(Running { what: Cell::new(what), percent: Cell::new(0) });
        self.turn = Rc::downgrade(&running);
        Some(Turn(running))
    }

    /// Returns a token for a change that works object by object. While the token exists, nobody gets the turn.
    pub fn beside(&self) -> Rc<()> {
        Rc::clone(&self.beside)
    }

    /// Refuses a change while another one has the turn.
    ///
    /// # Errors
    /// Returns the name and the progress of the other change.
    pub fn must_be_free(&self) -> Result<(), CliError> {
        let Some(running) = self.turn.upgrade() else { return Ok(()) };
        let (what, percent) = (running.what.get(), running.percent.get());
        Err(CliError::new(format!("{what} is running ({percent} %): try again when it is done")))
    }
}

/// A job that must not stop halfway.
pub(super) trait Unfinished: Job<Context> {
    /// Called when the client has disconnected. Returns true if the job must continue without it.
    fn cut_off(&mut self) -> bool;
}

/// A job for a client. If the client disconnects, the job continues if [`Unfinished::cut_off`] returns true.
pub(super) struct ForClient<J: Unfinished + 'static> {
    job: Option<J>,
    abandoned: Abandoned,
}

impl<J: Unfinished> ForClient<J> {
    pub fn new(job: J, c: &Context) -> ForClient<J> {
        ForClient { job: Some(job), abandoned: c.abandoned.clone() }
    }
}

impl<J: Unfinished> Job<Context> for ForClient<J> {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        // Abandoned jobs come first.
        if c.tidy() == Some(Duration::ZERO) {
            return Step::Again;
        }
        let Some(job) = &mut self.job else { return Step::Done };
        let step = job.step(c, out);
        if matches!(step, Step::Done | Step::Failed(_)) {
            self.job = None;
        }
        step
    }
}

impl<J: Unfinished> Drop for ForClient<J> {
    fn drop(&mut self) {
        if let Some(mut job) = self.job.take()
            && job.cut_off()
        {
            self.abandoned.borrow_mut().push_back(Box::new(job));
        }
    }
}

impl Context {
    /// Runs a slice of about a millisecond of the first abandoned job. Returns the time until the next slice; `None` if
    /// there are no more jobs.
    pub fn tidy(&mut self) -> Option<Duration> {
        let mut job = self.abandoned.borrow_mut().pop_front()?;
        match job.step(self, &mut String::new()) {
            Step::Again | Step::Data { .. } => {
                self.abandoned.borrow_mut().push_front(job);
                Some(Duration::ZERO)
            }
            Step::After(time) => {
                self.abandoned.borrow_mut().push_back(job);
                Some(time)
            }
            Step::Done | Step::Failed(_) => self.has_abandoned().then_some(Duration::ZERO),
        }
    }

    /// True if there are abandoned jobs.
    pub(super) fn has_abandoned(&self) -> bool {
        !self.abandoned.borrow().is_empty()
    }

    /// Runs the abandoned jobs to their end, so that another change can be made. Jobs that wait are not completed.
    pub(super) fn finish_abandoned(&mut self) {
        while self.tidy() == Some(Duration::ZERO) {}
    }
}
