//! Changes that take long: they are made in slices, and nothing else is changed in between.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::Context;
use crate::cli::{CliError, Job, Step};

/// How long a slice lasts: what others wait for.
pub(super) const SLICE: Duration = Duration::from_millis(1);

/// Jobs that go on without a client, for they must not stop halfway.
pub type Abandoned = Rc<RefCell<VecDeque<Box<dyn Job<Context>>>>>;

/// The right to change the configuration, as long as it is kept.
pub(super) struct Turn(Rc<Running>);

/// What runs, and how far it is.
pub(super) struct Running {
    what: Cell<&'static str>,
    percent: Cell<usize>,
}

impl Turn {
    /// So many of so many steps are made.
    pub fn tell(&self, (done, of): (usize, usize)) {
        self.0.percent.set(100 * done / of.max(1));
    }

    /// From here on this is done.
    pub fn goes_on_as(&self, what: &'static str) {
        self.0.what.set(what);
    }
}

/// What is shared by all long changes.
#[derive(Default)]
pub(super) struct Changes {
    turn: Weak<Running>,
    /// Changes that run beside others, object by object, have one of these.
    beside: Rc<()>,
}

impl Changes {
    /// The turn, unless another one has it, or changes are under way that it would come in between.
    pub fn turn(&mut self, what: &'static str) -> Option<Turn> {
        if self.turn.strong_count() > 0 || Rc::strong_count(&self.beside) > 1 {
            return None;
        }
        let running = Rc::new(Running { what: Cell::new(what), percent: Cell::new(0) });
        self.turn = Rc::downgrade(&running);
        Some(Turn(running))
    }

    /// Until what is given is dropped, nobody has the turn.
    pub fn beside(&self) -> Rc<()> {
        Rc::clone(&self.beside)
    }

    /// Refuses a change while another one runs.
    ///
    /// # Errors
    /// What runs, and how far it is.
    pub fn must_be_free(&self) -> Result<(), CliError> {
        let Some(running) = self.turn.upgrade() else { return Ok(()) };
        let (what, percent) = (running.what.get(), running.percent.get());
        Err(CliError::new(format!("{what} is running ({percent} %): try again when it is done")))
    }
}

/// A job that has to come to an end of some kind.
pub(super) trait Unfinished: Job<Context> {
    /// The client is gone. Returns whether there is something left to do.
    fn cut_off(&mut self) -> bool;
}

/// A job for a client. When the client goes away, what is left of it goes on without.
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
        // What others left half-done comes first.
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
    /// Goes on, for a slice of about a millisecond, with what was left half-done. Returns in what time there is more to do,
    /// if there is.
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

    /// Whether something that was cut off is yet to be brought to an end.
    pub(super) fn has_abandoned(&self) -> bool {
        !self.abandoned.borrow().is_empty()
    }

    /// Takes back what was cut off, as far as it need not be waited for: before anything else is changed.
    pub(super) fn finish_abandoned(&mut self) {
        while self.tidy() == Some(Duration::ZERO) {}
    }
}
