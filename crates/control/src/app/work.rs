//! Long work. It runs in slices, and other work runs between them. At most one change of the whole configuration runs at a time, and none
//! while loads run.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use super::failure::in_words;
use super::{Context, Failure};
use crate::config::Format;
use crate::intent::Family;

/// Maximum duration of a slice, and so the longest delay of other work.
pub(crate) const SLICE: Duration = Duration::from_millis(1);
/// The polling interval for results of other threads.
pub(crate) const LOOK: Duration = Duration::from_millis(2);
/// Maximum time for which a change waits at once for the work of disconnected clients.
const PATIENCE: Duration = Duration::from_millis(100);

/// The work of disconnected clients, in errors.
const ABANDONED: &str = "the rollback of a change whose client has left";

/// A request that takes more than one slice.
pub trait Work {
    /// Runs one slice, and appends its reports to `reports`.
    ///
    /// # Errors
    /// If the request fails. Then `step` must not be called again.
    fn step(&mut self, c: &mut Context, reports: &mut Vec<Report>) -> Result<Go, Failure>;

    /// Called when the client has disconnected. Returns true if the work must continue.
    fn cut_off(&mut self) -> bool;
}

/// The time of the next slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// The next slice runs after other work had its turn.
    Again,
    /// The next slice runs after this time.
    After(Duration),
    /// The work is done.
    Done,
}

/// A report of long work to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The progress of the work.
    Progress {
        /// Number of steps made so far.
        done: usize,
        /// Number of all steps.
        of: usize,
    },
    /// Some lines of the difference that a change makes. Each line is a command, marked `-` if it is removed and `+` if it is
    /// added.
    Difference(String),
    /// A warning, in one line.
    Warning(String),
    /// An effect of the change on traffic, in one line.
    Note(String),
    /// The end of a change: the generation of the configuration, and whether the change has changed anything.
    Arrived {
        /// The generation of the configuration after the change.
        generation: u64,
        /// False if nothing was changed.
        changed: bool,
    },
    /// The configuration already had the wanted content, so nothing was changed.
    Unchanged,
    /// A dry run has found no changes.
    WouldNotChange,
    /// The configuration is rolled back after this time unless it is confirmed.
    AwaitsConfirmation(Duration),
    /// The configuration was saved in this file.
    Saved {
        /// The file.
        file: PathBuf,
        /// Its format.
        format: Format,
    },
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Progress { done, of } => {
                write!(f, "{done} of {of} steps ({} %)", 100 * done / (*of).max(1))
            }
            Report::Difference(text) | Report::Warning(text) | Report::Note(text) => f.write_str(text),
            Report::Arrived { generation, .. } => write!(f, "the configuration has generation {generation}"),
            Report::Unchanged => f.write_str("nothing has changed"),
            Report::WouldNotChange => f.write_str("nothing would change"),
            Report::AwaitsConfirmation(time) => {
                write!(f, "rolls back in {} unless confirmed: config confirm", in_words(*time))
            }
            Report::Saved { file, format } => write!(f, "{} written, as {}", file.display(), format.name()),
        }
    }
}

/// Work that continues after its client has disconnected.
pub trait Unattended {
    /// Runs one slice.
    fn go_on(&mut self, c: &mut Context) -> Go;
}

impl<W: Work> Unattended for W {
    fn go_on(&mut self, c: &mut Context) -> Go {
        // The log has the errors that matter.
        self.step(c, &mut Vec::new()).unwrap_or(Go::Done)
    }
}

/// Work for a client, which may have to continue after the client has disconnected.
pub(crate) trait Lasting: Unattended {
    /// Called when the client has disconnected. Returns true if the work must continue.
    fn cut_off(&mut self) -> bool;
}

impl<W: Work> Lasting for W {
    fn cut_off(&mut self) -> bool {
        Work::cut_off(self)
    }
}

/// Work for a client. If the client disconnects while the work must continue, the work becomes [`Abandoned`].
pub(crate) struct Attended<L: Lasting + 'static> {
    work: Option<L>,
    abandoned: Abandoned,
}

/// The result of one slice.
pub(crate) enum Slice<R> {
    /// The slice ran abandoned work of clients that have left. Such work runs before the work of this client.
    Abandoned,
    /// The slice ran the client's work, with this result.
    Own(R),
    /// The slice ran nothing, because the client's work has ended.
    Nothing,
}

impl<L: Lasting> Attended<L> {
    pub(crate) fn new(work: L, c: &Context) -> Attended<L> {
        Attended { work: Some(work), abandoned: c.abandoned.clone() }
    }

    /// Returns the work, unless it has ended.
    pub(crate) fn work(&self) -> Option<&L> {
        self.work.as_ref()
    }

    /// Runs one slice. Abandoned work, whose clients have left, comes first. If none of it can run now, calls `go` to run the
    /// client's work.
    pub(crate) fn slice<R>(
        &mut self,
        c: &mut Context,
        go: impl FnOnce(&mut L, &mut Context) -> R,
    ) -> Slice<R> {
        if c.tidy() == Some(Duration::ZERO) {
            return Slice::Abandoned;
        }
        self.work.as_mut().map_or(Slice::Nothing, |work| Slice::Own(go(work, c)))
    }

    /// Marks the work as ended, so that it is not continued when the client disconnects.
    pub(crate) fn end(&mut self) {
        self.work = None;
    }
}

impl<W: Work> Attended<W> {
    /// Runs one slice.
    ///
    /// # Errors
    /// If the work fails.
    pub(crate) fn step(&mut self, c: &mut Context, reports: &mut Vec<Report>) -> Result<Go, Failure> {
        let went = match self.slice(c, |work, c| work.step(c, reports)) {
            Slice::Abandoned => Ok(Go::Again),
            Slice::Own(went) => went,
            Slice::Nothing => Ok(Go::Done),
        };
        if matches!(went, Ok(Go::Done) | Err(_)) {
            self.end();
        }
        went
    }
}

impl<L: Lasting> Drop for Attended<L> {
    fn drop(&mut self) {
        if let Some(mut work) = self.work.take()
            && Lasting::cut_off(&mut work)
        {
            self.abandoned.borrow_mut().push_back(Box::new(work));
        }
    }
}

/// Long work whose client has disconnected, and which must still run to its end.
pub type Abandoned = Rc<RefCell<VecDeque<Box<dyn Unattended>>>>;

/// The exclusive right to change the configuration. The right ends when this value is dropped.
pub(super) struct Turn(Rc<Running>);

/// The name and the progress of the running change.
struct Running {
    what: Cell<&'static str>,
    percent: Cell<usize>,
}

impl Turn {
    /// Sets the progress: number of steps made so far, and of all steps.
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
pub(crate) struct Changes {
    turn: Weak<Running>,
    /// Each running change that changes one object at a time, such as a load of routes, holds a clone. Other commands can change
    /// the configuration between the slices of such a change.
    beside: Rc<()>,
    /// The running loads.
    loads: RefCell<Vec<Weak<Scope>>>,
}

/// The routes that a load changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// The number of the VRF.
    pub(crate) table: u32,
    /// True if the load also removes the VRF's other static routes of the address family `family`.
    pub(crate) replaces: bool,
    /// The address family of the load's routes. `None` if the load may have routes of both families, or if the family is not known yet.
    pub(crate) family: Option<Family>,
}

impl Changes {
    /// Returns the exclusive right to change the configuration, for the change named `what`. Returns `None` while another change has this
    /// right, or while a change that works object by object is running (see `beside`).
    pub(super) fn turn(&mut self, what: &'static str) -> Option<Turn> {
        if self.turn.strong_count() > 0 || self.is_loading() {
            return None;
        }
        let running = Rc::new(Running { what: Cell::new(what), percent: Cell::new(0) });
        self.turn = Rc::downgrade(&running);
        Some(Turn(running))
    }

    /// Returns a token for a change that changes one object at a time, such as a load of routes. While the token exists, `turn`
    /// returns `None` for every change.
    pub fn beside(&self) -> Rc<()> {
        Rc::clone(&self.beside)
    }

    /// Registers a load. It counts as running as long as the result exists.
    ///
    /// # Errors
    /// If another load conflicts with this one. Two running loads of a VRF conflict if one of them also removes the VRF's other routes,
    /// because these may be routes of the other load. Loads that are known to have different address families do not conflict.
    pub(super) fn load(&self, scope: Scope) -> Result<Rc<Scope>, Failure> {
        let mut loads = self.loads.borrow_mut();
        loads.retain(|load| load.strong_count() > 0);
        let conflicts = |other: &Scope| {
            let apart = other.family.is_some_and(|family| scope.family.is_some_and(|own| own != family));
            other.table == scope.table && (other.replaces || scope.replaces) && !apart
        };
        if loads.iter().filter_map(Weak::upgrade).any(|other| conflicts(&other)) {
            return Err(Failure::Busy { what: "another load of the same VRF", percent: 0 });
        }
        let load = Rc::new(scope);
        loads.push(Rc::downgrade(&load));
        Ok(load)
    }

    /// True while a change that works object by object is running. Its changes get an entry in the journal only when it ends.
    pub(crate) fn is_loading(&self) -> bool {
        Rc::strong_count(&self.beside) > 1
    }

    /// Refuses a change while another change has the exclusive right to change the configuration.
    ///
    /// # Errors
    /// Returns the name and the progress of the other change.
    pub fn must_be_free(&self) -> Result<(), Failure> {
        let Some(running) = self.turn.upgrade() else { return Ok(()) };
        Err(Failure::Busy { what: running.what.get(), percent: running.percent.get() })
    }
}

impl Context {
    /// Runs a slice, about a millisecond, of the first long work whose client has disconnected. Returns the time until the next
    /// slice; `None` if no such work is left.
    pub fn tidy(&mut self) -> Option<Duration> {
        let mut work = self.abandoned.borrow_mut().pop_front()?;
        let next = work.go_on(self);
        self.abandoned_waits = matches!(next, Go::After(_));
        match next {
            Go::Again => {
                self.abandoned.borrow_mut().push_front(work);
                Some(Duration::ZERO)
            }
            Go::After(time) => {
                self.abandoned.borrow_mut().push_back(work);
                Some(time)
            }
            Go::Done => (!self.abandoned.borrow().is_empty()).then_some(Duration::ZERO),
        }
    }

    /// Refuses a change while another change has the exclusive right to change the configuration, or while work of a disconnected client
    /// is being ended. For clients that wait until both are over.
    ///
    /// # Errors
    /// The other change, or that work.
    pub(crate) fn must_be_idle(&self) -> Result<(), Failure> {
        self.changes.must_be_free()?;
        match self.abandoned.borrow().is_empty() || self.abandoned_waits {
            true => Ok(()),
            false => Err(Failure::Busy { what: ABANDONED, percent: 0 }),
        }
    }

    /// Runs the work of disconnected clients to its end, so that another change can be made. Returns early if some of this work has
    /// to wait ([`Go::After`]).
    ///
    /// # Errors
    /// If the work takes longer than [`PATIENCE`]. It goes on in slices.
    pub(crate) fn finish_abandoned(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.tidy() == Some(Duration::ZERO) {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Busy { what: ABANDONED, percent: 0 });
            }
        }
        Ok(())
    }
}
