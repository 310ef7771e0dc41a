//! Changes of the whole configuration, all or nothing: by applying a file, by a rollback, by removing an object with many dependents, or
//! by an API request that changes many objects.
//!
//! Reading, checking and planning run on a thread of their own, with a [`Snapshot`] of the current configuration. The main thread executes
//! the steps of the plan in slices, and then replaces the old configuration by the new one at once. No other change is made between
//! planning and the end (docs/decisions/0020).

mod end;
mod plan;
mod read;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use drivers::Patience;
use model::origin::{FrontEnd, Origin};

use super::work::{Go, LOOK, Report, SLICE, Turn, Work};
use super::{Context, Failure, FileThread, joined, warnings};
use crate::intent::{Change, Key, Making, Note, Plan, Refused, Snapshot};
use crate::system::{Absence, Interruption};
use plan::{Goal, Planned, Planning, plan};
use read::Read;

pub use read::Reading;

/// A plan with at least this number of steps reports its progress.
const LONG: usize = 10_000;
/// Maximum number of changes that the main thread makes at once. It takes about 5 µs to change a route, and about 100 µs to change
/// the addresses of an interface.
pub(crate) const AT_ONCE: usize = 64;
/// Approximate number of bytes of reports that one slice passes on.
const CHUNK: usize = 32 << 10;

/// The options of applying a configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// True to only report what would change.
    pub dry_run: bool,
    /// Time after which the configuration is rolled back unless it is confirmed; `None` for no rollback.
    pub confirm: Option<Duration>,
    /// The generation that the configuration must have, or the change is refused; `None` for any.
    pub expected: Option<u64>,
    /// True while the router starts: no differences are reported, and the journal gets no change.
    pub quiet: bool,
    /// True if the router starts from this file. Determined when the file is read; the caller's value is ignored.
    pub start: bool,
}

/// A change of the whole configuration.
pub struct Transition {
    stage: Stage,
    /// The user and the command that requested the change.
    origin: Origin,
    /// True if the client has disconnected.
    cut_off: bool,
    /// True if the router itself started the change: errors go to the log.
    unasked: bool,
    /// The basis of a rollback that a client has requested.
    basis: Option<Basis>,
    /// Called once the change is made or turns out to have no steps, before any other change can begin.
    then: Option<Then>,
}

/// The way to remove an object with all its dependents.
pub(crate) enum Removal {
    /// By these changes at once.
    AtOnce(Vec<Change>),
    /// By a long change, because the dependents may be many.
    Long(Transition),
}

/// A function that is called after a change.
type Then = Box<dyn FnOnce(&mut Context) -> Result<(), Failure>>;

enum Stage {
    Reading(FileThread<Read>),
    /// Waits until other long changes have ended.
    Waiting(Goal),
    Planning(Turn, Planning),
    Making(Box<Made>),
    /// Waits until reopened devices have their links again, but not beyond this time.
    Opening(Turn, VecDeque<Report>, Instant),
    /// Passes the reports on, about [`CHUNK`] bytes in each slice.
    Telling(VecDeque<Report>),
    Over,
}

/// A plan whose steps are being executed.
struct Made {
    turn: Turn,
    goal: Goal,
    making: Making,
    after: Snapshot,
    note: Note,
    interfaces: Vec<Key>,
    opened: Vec<String>,
    reports: Vec<Report>,
}

impl Context {
    /// Begins to apply the configuration in a file.
    ///
    /// # Errors
    /// If the thread to read the file cannot be started.
    pub fn apply(&self, file: PathBuf, terms: Terms) -> Result<Transition, Failure> {
        let catalog = self.system.abilities.catalog.clone();
        self.apply_read(Reading::begin(file, Patience::without_end(), catalog)?, terms)
    }

    /// Like [`apply`](Context::apply), for a file that is already being read.
    ///
    /// # Errors
    /// If the thread to check the file cannot be started.
    pub fn apply_read(&self, reading: Reading, terms: Terms) -> Result<Transition, Failure> {
        let checked = reading.checked(terms, self.system.abilities.clone(), self.startup_config.clone())?;
        let mut origin = self.origin.clone();
        if origin.front_end == FrontEnd::Cli {
            origin.front_end = FrontEnd::File;
        }
        Ok(Transition::new(Stage::Reading(checked), origin))
    }

    /// Returns the way to remove an object with all its dependents: at once, or by a long change if the dependents are many.
    pub(crate) fn removal(&self, key: Key) -> Removal {
        let tree = self.store.snapshot();
        if tree.has_many_dependents(&key, AT_ONCE) {
            return Removal::Long(Transition::new(Stage::Waiting(Goal::Without(key)), self.origin.clone()));
        }
        // The snapshot is dropped here. If it still existed during the change, the change would copy the whole tree.
        Removal::AtOnce(tree.with_dependents(&key).into_iter().map(Change::remove).collect())
    }

    /// Returns a change of many objects. When the change can begin, `changes` gets the configuration of that time, and returns the
    /// changes to make, or an error to make none.
    pub fn change_many(
        &self,
        changes: impl FnOnce(&Snapshot) -> Result<Vec<Change>, Refused> + Send + 'static,
    ) -> Transition {
        Transition::new(Stage::Waiting(Goal::After(Box::new(changes))), self.origin.clone())
    }
}

/// The state of the configuration for which a rollback was requested.
pub(super) enum Basis {
    /// The configuration has this generation.
    Generation(u64),
    /// A configuration awaits confirmation, and `before` is the generation before it was applied. The configuration has generation `is`, if
    /// given.
    Unconfirmed { before: u64, is: Option<u64> },
}

impl Basis {
    fn holds(&self, c: &Context) -> bool {
        match self {
            Basis::Generation(generation) => c.journal.generation() == *generation,
            Basis::Unconfirmed { before, is } => {
                is.is_none_or(|is| c.journal.generation() == is)
                    && c.confirmation().is_some_and(|waiting| waiting.generation == *before)
            }
        }
    }
}

impl Transition {
    /// Makes the change call `then` after its last step, before any other change can begin. Such a change does not wait for the links of
    /// reopened devices before it passes its reports on.
    pub(crate) fn followed_by(
        self,
        then: impl FnOnce(&mut Context) -> Result<(), Failure> + 'static,
    ) -> Transition {
        Transition { then: Some(Box::new(then)), ..self }
    }

    /// If all steps are done (`stage` is a stage after the last step), calls `then`. Returns the next stage.
    fn follow(&mut self, c: &mut Context, stage: Stage) -> Result<Stage, Failure> {
        let told = match stage {
            Stage::Opening(turn, told, _) if self.then.is_some() => {
                drop(turn);
                told
            }
            Stage::Telling(told) => told,
            other => return Ok(other),
        };
        if let Some(then) = self.then.take() {
            c.origin = self.origin.clone();
            then(c)?;
        }
        Ok(Stage::Telling(told))
    }

    /// True if the change waits until other long changes have ended.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    fn new(stage: Stage, origin: Origin) -> Transition {
        Transition { stage, origin, cut_off: false, unasked: false, basis: None, then: None }
    }

    /// Returns a rollback to generation `to`, which undoes all later changes. An interface whose device is missing is restored without the
    /// device, and waits for it. A dry run only reports what would change.
    pub(super) fn back_to(to: u64, dry_run: bool, origin: Origin) -> Transition {
        Transition::new(Stage::Waiting(Goal::Back { to, dry_run }), origin)
    }

    /// Sets the origin of the change, which the journal names.
    pub(crate) fn by(self, origin: Origin) -> Transition {
        Transition { origin, ..self }
    }

    /// Makes a rollback fail if it has lost its basis when it can begin.
    pub(super) fn on(self, basis: Basis) -> Transition {
        Transition { basis: Some(basis), ..self }
    }

    /// Marks this change as the automatic rollback of an unconfirmed configuration. When this rollback can begin, it first checks whether
    /// it is still due, and otherwise does nothing.
    pub(super) fn unasked(self) -> Transition {
        Transition { unasked: true, ..self }
    }

    /// Runs one slice. Returns the next stage, and the time until the next slice.
    fn go_on(&mut self, c: &mut Context, reports: &mut Vec<Report>) -> Result<(Stage, Duration), Failure> {
        let now = |stage| Ok((stage, Duration::ZERO));
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Reading(reader) if !reader.is_finished() => Ok((Stage::Reading(reader), LOOK)),
            Stage::Reading(reader) => {
                let (wanted, terms) = reader.joined()?.settled(c.store.tree(), reports)?;
                now(Stage::Waiting(Goal::File(wanted.into(), terms)))
            }
            Stage::Waiting(Goal::Back { to, .. }) if self.unasked && !c.goes_back_to(to) => now(Stage::Over),
            Stage::Waiting(goal) => match c.changes.turn(goal.name()) {
                Some(turn) => {
                    if self.basis.as_ref().is_some_and(|basis| !basis.holds(c)) {
                        return Err(Failure::Overtaken);
                    }
                    now(Stage::Planning(turn, plan(c, goal, self.origin.clone())?))
                }
                None => Ok((Stage::Waiting(goal), LOOK)),
            },
            Stage::Planning(turn, planning) if !planning.thread.is_finished() => {
                // The rollback of an unconfirmed configuration is due, and waits.
                if c.is_going_back() && !planning.goes_back {
                    planning.patience.end();
                }
                Ok((Stage::Planning(turn, planning), LOOK))
            }
            // The client has disconnected: the plan is dropped.
            Stage::Planning(..) if self.cut_off => now(Stage::Over),
            Stage::Planning(turn, planning) => {
                let stage = begin(c, turn, joined(planning.thread)?);
                now(self.follow(c, stage)?)
            }
            Stage::Making(made) => {
                let stage = made.go_on(c, reports)?;
                now(self.follow(c, stage)?)
            }
            Stage::Opening(turn, told, until) if c.system.is_interrupted() && Instant::now() < until => {
                Ok((Stage::Opening(turn, told, until), LOOK))
            }
            Stage::Opening(_, mut told, _) => {
                told.extend(c.system.interruptions().map(|Interruption { text, over }| {
                    if over { Report::Note(text) } else { Report::Warning(text) }
                }));
                now(Stage::Telling(told))
            }
            Stage::Telling(mut told) => {
                tell(&mut told, reports);
                now(if told.is_empty() { Stage::Over } else { Stage::Telling(told) })
            }
            Stage::Over => now(Stage::Over),
        }
    }
}

impl Work for Transition {
    fn step(&mut self, c: &mut Context, reports: &mut Vec<Report>) -> Result<Go, Failure> {
        match self.go_on(c, reports) {
            Ok((Stage::Over, _)) => Ok(Go::Done),
            Ok((stage, time)) => {
                self.stage = stage;
                Ok(if time.is_zero() { Go::Again } else { Go::After(time) })
            }
            Err(e) => {
                if self.unasked {
                    c.way_back_failed(&e);
                }
                Err(e)
            }
        }
    }

    /// If steps are being executed, begins to roll them back. Returns true if the change needs further slices. A completed change stays.
    fn cut_off(&mut self) -> bool {
        self.cut_off = true;
        match &mut self.stage {
            // The thread has a snapshot of the configuration, so nothing may change until the thread ends.
            Stage::Planning(_, planning) => {
                planning.patience.end();
                true
            }
            Stage::Making(made) => {
                made.making.turn_back(Refused::new("the client disconnected"));
                true
            }
            _ => false,
        }
    }
}

impl Made {
    /// Executes the next steps of the plan.
    fn go_on(mut self: Box<Made>, c: &mut Context, reports: &mut Vec<Report>) -> Result<Stage, Failure> {
        let (begun, start) = (self.making.progress(), Instant::now());
        let mut more = true;
        while more && start.elapsed() < SLICE {
            more = self.making.go_on(&mut c.system);
        }
        let progress = self.making.progress();
        self.turn.tell(progress);
        if self.making.goes_back() {
            self.turn.goes_on_as(match self.goal {
                Goal::Without(_) => "the rollback of a removal",
                Goal::After(_) => "the rollback of a change of many objects",
                _ => "the rollback of an apply",
            });
        } else {
            reports.extend(tenths(begun, progress));
        }
        if more { Ok(Stage::Making(self)) } else { end::end(c, *self) }
    }
}

/// Reports progress after each tenth of a long plan. `before` and `done` are the steps done before and after this slice, and `of` is the
/// number of all steps.
fn tenths((before, _): (usize, usize), (done, of): (usize, usize)) -> Option<Report> {
    let tenth = |n: usize| 10 * n / of.max(1);
    (of >= LONG && tenth(done) > tenth(before) && done < of).then_some(Report::Progress { done, of })
}

/// Moves reports of about [`CHUNK`] bytes from `told` to `reports`. Splits a longer difference at the end of a line.
fn tell(told: &mut VecDeque<Report>, reports: &mut Vec<Report>) {
    let mut room = CHUNK;
    while room > 0
        && let Some(mut report) = told.pop_front()
    {
        let len = match &mut report {
            Report::Difference(text) => {
                let end = text.get(text.floor_char_boundary(room)..).and_then(|rest| rest.find('\n'));
                let at = end.map_or(text.len(), |end| text.floor_char_boundary(room) + end + 1);
                if at < text.len() {
                    let rest = text.split_off(at);
                    told.push_front(Report::Difference(rest));
                }
                at
            }
            Report::Warning(text) | Report::Note(text) => text.len(),
            _ => 1,
        };
        reports.push(report);
        room = room.saturating_sub(len);
    }
}

/// Begins the steps of a finished plan.
fn begin(c: &mut Context, turn: Turn, (goal, planned): (Goal, Planned)) -> Stage {
    let Planned { plan, prepared, interfaces, opened, objects, note, mut reports } = planned;
    let generation = c.journal.generation();
    let nothing =
        |report| Stage::Telling(VecDeque::from([report, Report::Arrived { generation, changed: false }]));
    if let Goal::File(_, Terms { confirm: None, quiet: false, .. }) = goal
        && !c.journal.has_room(objects)
    {
        reports.push(Report::Warning(format!(
            "a change of {objects} objects is too large for the history: it cannot be rolled back unless it is applied with \
             \"confirm\""
        )));
    }
    if goal.is_dry_run() {
        let queues = warnings::queues_in_advance(&plan, &interfaces, &opened, &c.system.router);
        reports.extend(queues.into_iter().map(Report::Warning));
        return if reports.is_empty() {
            nothing(Report::WouldNotChange)
        } else {
            reports.push(Report::Arrived { generation, changed: false });
            Stage::Telling(reports.into())
        };
    }
    if plan.steps.is_empty() {
        // The configuration already is as wanted.
        if let Goal::Back { to, .. } = goal {
            c.remember(|journal| Some(journal.note_rollback(to, note)));
        }
        end::arrived(c, &goal);
        return nothing(Report::Unchanged);
    }
    match goal {
        Goal::Back { .. } => c.system.absence = Absence::Any,
        // Keep all entries from now on, whatever their size, for the rollback of the unconfirmed configuration. If another configuration
        // awaits confirmation, its entries are kept already, and this change will be among them.
        Goal::File(_, Terms { confirm: Some(_), .. }) if c.confirmation().is_none() => {
            c.journal.hold(Some(c.journal.generation()));
        }
        Goal::File(..) | Goal::Without(_) | Goal::After(_) => {}
    }
    let Plan { steps, after, .. } = plan;
    c.system.prepared = prepared;
    let making = Making::begin(steps, &mut c.system);
    Stage::Making(Made { turn, goal, making, after, note, interfaces, opened, reports }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_differences_are_told_in_whole_lines() {
        let line = format!("+ {}\n", "é".repeat(500));
        let text = line.repeat(100);
        let warning = Report::Warning("w".into());
        let mut told = VecDeque::from([Report::Difference(text.clone()), warning.clone()]);
        let (mut whole, mut rounds) = (String::new(), 0);
        while !told.is_empty() {
            let mut reports = Vec::new();
            tell(&mut told, &mut reports);
            rounds += 1;
            for report in &reports {
                match report {
                    Report::Difference(part) => {
                        assert!(part.ends_with('\n') && part.len() < CHUNK + line.len());
                        whole += part;
                    }
                    other => assert_eq!(*other, warning),
                }
            }
        }
        assert_eq!((whole, rounds), (text, 4));
    }
}
