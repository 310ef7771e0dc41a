//! Changes of the whole configuration, all or nothing: by applying a file, by a rollback, or by removing an object with
//! many dependents.
//!
//! Reading, checking and planning run on a thread of their own, with a [`Snapshot`] of the current configuration. The main thread executes
//! the steps of the plan in slices, and then replaces the old configuration by the new one at once. No other change is made between
//! planning and the end (docs/decisions/0020).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use infra::mem::Room;
use net::feature::Prepared;
use net::router::InterfaceInfo;

use super::config::{LOOK, Unconfirmed, difference, faulty, in_words, load, numbered};
use super::long::{SLICE, Turn, Unfinished};
use super::{Context, warnings};
use crate::cli::{CliError, Job, Step};
use crate::config::{Doubt, Wanted};
use crate::files;
use crate::intent::{
    Interface, Key, Making, Note, Plan, Refusal, Refused, Snapshot, Tree, Way, reopened, slow,
};
use crate::journal;
use crate::startup::Fault;
use crate::system::{Abilities, Absence, Backed, Catalog};
use model::origin::{FrontEnd, Origin};
use model::store::Written;
use std::sync::Arc;

/// A plan with at least this number of steps reports its progress.
const LONG: usize = 10_000;
/// How long a change waits for the links of reopened devices. The peer of a memif tries to connect once a second.
const LINKS: Duration = Duration::from_secs(3);
/// Bytes of text given to the client at once.
const CHUNK: usize = 32 << 10;

/// Bytes of memory for each object in a copy of the configuration, measured with routes.
const OBJECT: u64 = 256;
/// Bytes of memory for each change in a plan, with the change's text and journal entry, measured with routes.
const CHANGE: u64 = 1024;
/// A change that needs at most this number of bytes is always tried: an operator must be able to free memory when it is short.
const LITTLE: u64 = 4 << 20;

/// The options of applying a configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// Only show what would change.
    pub dry_run: bool,
    /// Roll back after this time without confirmation.
    pub confirm: Option<Duration>,
    /// Refuse if the configuration has another generation.
    pub expected: Option<u64>,
    /// True while the router starts: no differences are shown, and the journal gets no change.
    pub quiet: bool,
    /// True if the router starts from this file. Set by [`Whole::read`].
    pub start: bool,
}

/// The configuration that a change leads to.
enum Goal {
    /// The configuration of a file.
    File(Box<Wanted>, Terms),
    /// The configuration of generation `to`: all later changes that are in effect are undone. A dry run only shows what would change.
    Back { to: u64, dry_run: bool },
    /// The configuration without this object and all its dependents.
    Without(Key),
}

/// A plan, with what its execution and its reports need.
struct Planned {
    plan: Plan,
    /// Prepared interfaces, as in [`System`](crate::system::System).
    prepared: BTreeMap<String, (Backed, Prepared)>,
    /// The keys of the changed interfaces. The planning thread collects them, because the main thread would take too long to search all
    /// changes.
    interfaces: Vec<Key>,
    /// The interfaces whose devices are opened.
    opened: Vec<String>,
    /// Number of changed objects.
    objects: usize,
    /// The journal entry.
    note: Note,
    text: String,
}

pub(crate) type Thread<T> = JoinHandle<Result<T, CliError>>;

enum Stage {
    Reading(Thread<Read>),
    /// Waits until other long changes have ended.
    Waiting(Goal),
    Planning(Turn, Thread<(Goal, Planned)>),
    Making(Box<Made>),
    /// Waits until reopened devices have their links again, or for the time limit.
    Opening(Turn, String, Instant),
    /// Shows the text of the changes, from this byte on.
    Telling(String, usize),
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
    text: String,
}

/// A file that a separate thread reads.
pub struct Reading(PathBuf, Thread<Wanted>);

impl Reading {
    /// Begins to read a file.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn begin(path: PathBuf, catalog: Arc<Catalog>) -> Result<Reading, CliError> {
        let file = path.clone();
        Ok(Reading(path, on_a_thread(move || load(&file, &catalog))?))
    }
}

/// A file that was read.
struct Read {
    wanted: Wanted,
    terms: Terms,
    faults: Vec<Fault>,
    /// Broken rules that a running router may break, too.
    doubts: Vec<(Fault, Doubt)>,
}

impl Read {
    /// Returns the configuration of the file. Rules that the `running` configuration breaks, too, are only warnings: a router accepts its own
    /// configuration. While it starts, all of them are.
    ///
    /// # Errors
    /// If the file has faults, or breaks other rules.
    fn settled(self, running: &Tree, out: &mut String) -> Result<(Wanted, Terms), CliError> {
        let Read { wanted, terms, mut faults, doubts } = self;
        for (broken, doubt) in doubts {
            match terms.quiet {
                true => tracing::warn!("{broken}"),
                false if doubt.is_in(running) => *out += &format!("! {broken}\n"),
                false => faults.push(broken),
            }
        }
        faults.sort_by(|a, b| a.place.cmp(&b.place));
        if faults.is_empty() { Ok((wanted, terms)) } else { Err(faulty(&faults)) }
    }
}

/// A change of the whole configuration.
pub struct Whole {
    stage: Stage,
    /// The user and the command.
    origin: Origin,
    /// True if the client has disconnected.
    cut_off: bool,
    /// True if the router itself started the change: errors go to the log.
    unasked: bool,
}

impl Whole {
    /// Returns a change that applies a file.
    ///
    /// # Errors
    /// If the thread to read the file cannot be started.
    pub fn file(path: PathBuf, terms: Terms, c: &Context) -> Result<Whole, CliError> {
        Whole::read(Reading::begin(path, c.system.abilities.catalog.clone())?, terms, c)
    }

    /// Returns a change that applies a file already being read.
    ///
    /// # Errors
    /// If the thread to check the file cannot be started.
    pub fn read(Reading(path, reading): Reading, terms: Terms, c: &Context) -> Result<Whole, CliError> {
        let (abilities, start) = (c.system.abilities.clone(), c.startup_config.clone());
        let reader = on_a_thread(move || {
            let mut wanted = joined(reading)?;
            let start = start.is_some_and(|start| files::same(&start, &path));
            let doubts = wanted.take_doubts();
            let faults = wanted.faults(&abilities);
            Ok(Read { wanted, terms: Terms { start, ..terms }, faults, doubts })
        })?;
        let mut origin = c.origin.clone();
        if origin.front_end == FrontEnd::Cli {
            origin.front_end = FrontEnd::File;
        }
        Ok(Whole::new(Stage::Reading(reader), origin))
    }

    fn new(stage: Stage, origin: Origin) -> Whole {
        Whole { stage, origin, cut_off: false, unasked: false }
    }

    /// Returns a rollback to generation `to`. It undoes all later changes. Interfaces are restored even if their devices are missing now,
    /// and wait for the devices. A dry run only shows what would change.
    pub fn back_to(to: u64, dry_run: bool, origin: Origin) -> Whole {
        Whole::new(Stage::Waiting(Goal::Back { to, dry_run }), origin)
    }

    /// Returns a removal of an object with many dependents.
    pub fn without(key: Key, origin: Origin) -> Whole {
        Whole::new(Stage::Waiting(Goal::Without(key)), origin)
    }

    /// Makes this change the automatic rollback of an unconfirmed configuration. If the rollback is no longer due when it gets the turn, it
    /// does nothing.
    pub fn unasked(self) -> Whole {
        Whole { unasked: true, ..self }
    }

    /// Runs one slice. Returns the next stage, and the time until the next slice.
    fn go_on(&mut self, c: &mut Context, out: &mut String) -> Result<(Stage, Duration), CliError> {
        let now = |stage| Ok((stage, Duration::ZERO));
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Reading(reader) if !reader.is_finished() => Ok((Stage::Reading(reader), LOOK)),
            Stage::Reading(reader) => {
                let (wanted, terms) = joined(reader)?.settled(c.store.tree(), out)?;
                now(Stage::Waiting(Goal::File(wanted.into(), terms)))
            }
            Stage::Waiting(Goal::Back { to, .. }) if self.unasked && !c.goes_back_to(to) => now(Stage::Over),
            Stage::Waiting(goal) => {
                let what = match goal {
                    Goal::File(..) => "an apply",
                    Goal::Back { .. } => "a rollback",
                    Goal::Without(_) => "a removal",
                };
                match c.changes.turn(what) {
                    Some(turn) => now(Stage::Planning(turn, plan(c, goal, self.origin.clone())?)),
                    None => Ok((Stage::Waiting(goal), LOOK)),
                }
            }
            Stage::Planning(turn, planner) if !planner.is_finished() => {
                Ok((Stage::Planning(turn, planner), LOOK))
            }
            // The client has disconnected: the plan is dropped.
            Stage::Planning(..) if self.cut_off => now(Stage::Over),
            Stage::Planning(turn, planner) => now(begin(c, turn, joined(planner)?)),
            Stage::Making(mut made) => {
                let (begun, start) = (made.making.progress(), Instant::now());
                let mut more = true;
                while more && start.elapsed() < SLICE {
                    more = made.making.go_on(&mut c.system);
                }
                made.turn.tell(made.making.progress());
                if made.making.goes_back() {
                    made.turn.goes_on_as(match made.goal {
                        Goal::Without(_) => "the rollback of a removal",
                        _ => "the rollback of an apply",
                    });
                } else {
                    tell_progress(begun, made.making.progress(), out);
                }
                if more { now(Stage::Making(made)) } else { now(end(c, *made)?) }
            }
            Stage::Opening(turn, text, until) if c.system.is_interrupted() && Instant::now() < until => {
                Ok((Stage::Opening(turn, text, until), LOOK))
            }
            Stage::Opening(_, text, _) => now(Stage::Telling(text + &c.system.interruptions(), 0)),
            Stage::Telling(text, from) => {
                let to = text.floor_char_boundary(from + CHUNK);
                out.push_str(text.get(from..to).unwrap_or_default());
                now(if to < text.len() { Stage::Telling(text, to) } else { Stage::Over })
            }
            Stage::Over => now(Stage::Over),
        }
    }
}

impl Job<Context> for Whole {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        match self.go_on(c, out) {
            Ok((Stage::Over, _)) => Step::Done,
            Ok((stage, time)) => {
                self.stage = stage;
                if time.is_zero() { Step::Again } else { Step::After(time) }
            }
            Err(e) => {
                if self.unasked {
                    c.way_back_failed(&e);
                }
                Step::Failed(e)
            }
        }
    }
}

impl Unfinished for Whole {
    /// Rolls back a change in progress. A completed change stays.
    fn cut_off(&mut self) -> bool {
        self.cut_off = true;
        match &mut self.stage {
            // The thread has a snapshot: nothing may change until it ends.
            Stage::Planning(..) => true,
            Stage::Making(made) => {
                made.making.turn_back(Refused("the client disconnected".into()));
                true
            }
            _ => false,
        }
    }
}

/// Reports progress after each tenth of a long plan. `before` and `done` are the steps done before and after this slice, and `of` is the
/// number of all steps.
fn tell_progress((before, _): (usize, usize), (done, of): (usize, usize), out: &mut String) {
    let tenth = |n: usize| 10 * n / of.max(1);
    if of >= LONG && tenth(done) > tenth(before) && done < of {
        *out += &format!("# {done} of {of} steps ({} %)\n", 100 * done / of);
    }
}

/// Starts the planning of the change on another thread.
fn plan(c: &mut Context, mut goal: Goal, origin: Origin) -> Result<Thread<(Goal, Planned)>, CliError> {
    let generation = c.journal.generation();
    let mut way = None;
    match &goal {
        Goal::File(_, terms) => {
            if let Some(expected) = terms.expected.filter(|e| *e != generation) {
                return Err(CliError::new(format!(
                    "the configuration has generation {generation}, not {expected}: it was changed (show config history)"
                )));
            }
            // A configuration whose rollback failed may be replaced.
            if c.unconfirmed.as_ref().is_some_and(|w| w.failed.is_none()) && !terms.dry_run {
                return Err(CliError::new(
                    "the last applied configuration awaits confirmation: run config confirm or config rollback first",
                ));
            }
        }
        Goal::Back { to, .. } => way = Some(c.journal.back_to(*to).map_err(|e| CliError::new(e.0))?),
        Goal::Without(_) => {}
    }
    let (now, abilities) = (c.store.snapshot(), c.system.abilities.clone());
    on_a_thread(move || {
        let planned =
            planned(&now, &mut goal, way, &abilities, origin).map_err(|refusal| told(&goal, refusal))?;
        Ok((goal, planned))
    })
}

/// Plans the change, on the planning thread.
fn planned(
    now: &Snapshot,
    goal: &mut Goal,
    way: Option<Way>,
    abilities: &Abilities,
    origin: Origin,
) -> Result<Planned, Refusal> {
    let mut said = BTreeSet::new();
    if !matches!(goal, Goal::File(..)) {
        there_is_memory_for(now.tree().len(), OBJECT).map_err(|why| Refusal { key: None, why })?;
    }
    let goes_forward = matches!(goal, Goal::File(..));
    let is_start = matches!(goal, Goal::File(_, Terms { quiet: true, .. }));
    let quiet = is_start || matches!(goal, Goal::Without(_));
    let after = match (goal, way) {
        (Goal::File(wanted, _), _) => {
            said = numbered(&wanted.tree);
            std::mem::take(&mut wanted.tree)
        }
        (Goal::Without(key), _) => now.without(key),
        (_, Some(way)) => {
            let read = |written: &Written| journal::read(written, &abilities.catalog);
            let tree = way.follow(now.tree().clone(), read).map_err(|why| Refusal { key: None, why })?;
            Snapshot::of(tree)
        }
        _ => now.clone(),
    };
    let mut plan = now.plan(after, abilities, |changes| there_is_memory_for(changes, CHANGE))?;
    let text = if quiet { String::new() } else { difference(&plan, &said) };
    let mut prepared = BTreeMap::new();
    for (key, name, backed) in slow(&plan) {
        match backed.prepare() {
            Ok(one) => drop(prepared.insert(name, (backed.clone(), one))),
            Err(unready) if goes_forward => {
                return Err(Refusal { key: Some(key.clone()), why: unready.why });
            }
            // In a rollback the interface waits for its device.
            Err(_) => {}
        }
    }
    let interfaces =
        plan.edits.iter().map(|edit| &edit.key).filter(|key| key.is::<Interface>()).cloned().collect();
    let made = plan.steps.iter().filter(|step| step.from.is_none());
    let opened = made.filter_map(|step| Interface::device_in(&step.key)).chain(reopened(&plan)).collect();
    let edits = std::mem::take(&mut plan.edits);
    let objects = edits.len();
    let edits = if is_start { Vec::new() } else { edits };
    let note = journal::note(origin, edits, |key| plan.after.tree().get(key));
    Ok(Planned { plan, prepared, interfaces, opened, objects, note, text })
}

/// Refuses a change if there is not enough free memory for `times` objects of `each` bytes.
fn there_is_memory_for(times: usize, each: u64) -> Result<(), Refused> {
    let bytes = times as u64 * each;
    if bytes <= LITTLE {
        return Ok(());
    }
    let why = |e| {
        Refused(format!(
            "not enough memory for this change of the configuration: {e}; remove some objects by commands first"
        ))
    };
    Room::now().must_have(bytes).map_err(why)
}

/// Returns a refusal as an error, with its place in the file.
fn told(goal: &Goal, Refusal { key, why }: Refusal) -> CliError {
    match (goal, key) {
        (Goal::File(wanted, _), Some(key)) => match wanted.place(&key) {
            Some(place) => faulty(&[Fault::new(place, why.to_string())]),
            None => CliError::new(why.to_string()),
        },
        _ => CliError::new(why.to_string()),
    }
}

/// Begins the steps of a finished plan.
fn begin(c: &mut Context, turn: Turn, (goal, planned): (Goal, Planned)) -> Stage {
    let Planned { plan, prepared, interfaces, opened, objects, note, mut text } = planned;
    let nothing = |text: &str| Stage::Telling(text.into(), 0);
    if let Goal::File(_, Terms { confirm: None, quiet: false, .. }) = goal
        && !c.journal.has_room(objects)
    {
        text += &format!(
            "! a change of {objects} objects is too large for the history: it cannot be rolled back unless it is applied with \
             \"confirm\"\n"
        );
    }
    if let Goal::File(_, Terms { dry_run: true, .. }) | Goal::Back { dry_run: true, .. } = goal {
        return if text.is_empty() { nothing("nothing would change\n") } else { Stage::Telling(text, 0) };
    }
    if plan.steps.is_empty() {
        // The configuration already is as wanted.
        if let Goal::Back { to, .. } = goal {
            c.remember(|journal| Some(journal.note_rollback(to, note)));
        }
        arrived(c, &goal);
        return nothing("nothing has changed\n");
    }
    match goal {
        Goal::Back { .. } => c.system.absence = Absence::Any,
        // The journal must keep the way back, whatever its size. If it already keeps an earlier one, that includes this
        // change.
        Goal::File(_, Terms { confirm: Some(_), .. }) if c.unconfirmed.is_none() => {
            c.journal.hold(Some(c.journal.generation()));
        }
        Goal::File(..) | Goal::Without(_) => {}
    }
    let Plan { steps, after, .. } = plan;
    c.system.prepared = prepared;
    let making = Making::begin(steps, &mut c.system);
    Stage::Making(Made { turn, goal, making, after, note, interfaces, opened, text }.into())
}

/// Ends the change after all steps are made or rolled back.
fn end(
    c: &mut Context,
    Made { turn, goal, mut making, after, note, interfaces, opened, mut text }: Made,
) -> Result<Stage, CliError> {
    let generation = c.journal.generation();
    c.system.prepared.clear();
    if let Goal::Back { .. } = goal {
        c.system.absence = Absence::Refused;
    }
    if let Err(refusal) = making.end() {
        c.journal.hold(c.unconfirmed.as_ref().map(|waiting| waiting.generation));
        let refused = told(&goal, refusal);
        if !matches!(goal, Goal::Without(_)) {
            tracing::warn!(event = "config", "configuration change failed: {refused}");
        }
        let_go((goal, making, note, after));
        return Err(refused);
    }
    for key in interfaces {
        if let Some(name) = Interface::device_in(&key)
            && c.system.router.interface_named(&name).is_some_and(InterfaceInfo::is_absent)
        {
            text += &format!("! {name} has no device: the interface waits for it\n");
        }
        let wanted = after.tree().get(&key).and_then(|value| value.get::<Interface>());
        if let Some((name, wanted)) = Interface::name_in(&key).zip(wanted) {
            text += &warnings::missing_queues(&name, wanted, &c.system.router);
        }
    }
    for name in opened {
        text += &warnings::of_device(&name, &c.system.router);
    }
    let was = c.store.arrive(after);
    c.remember(|journal| match goal {
        Goal::Back { to, .. } => Some(journal.note_rollback(to, note)),
        Goal::File(..) | Goal::Without(_) => journal.note(note),
    });
    arrived(c, &goal);
    match &goal {
        Goal::Without(_) => text += &c.goes_back_too().unwrap_or_default(),
        Goal::Back { to, .. } => tracing::info!(event = "config", "rolled back to generation {to}"),
        Goal::File(_, terms) => {
            tracing::info!(event = "config", "a configuration was applied");
            if let Some(time) = terms.confirm {
                let words = in_words(time);
                tracing::info!(
                    event = "config",
                    "the configuration rolls back to generation {generation} in {words} unless confirmed"
                );
                c.journal.hold(Some(generation));
                c.unconfirmed = Some(Unconfirmed::new(generation, time, terms.start));
                text += &format!("rolls back in {words} unless confirmed: config confirm\n");
                if terms.start {
                    text += "! the router starts from this file: a restart applies it, confirmed or not\n";
                }
            }
        }
    }
    let_go((was, goal, making));
    Ok(Stage::Opening(turn, text, Instant::now() + LINKS))
}

/// Updates the confirmation after a successful change. An applied configuration no longer awaits confirmation if it was
/// rolled back or replaced.
fn arrived(c: &mut Context, goal: &Goal) {
    let settled = |waiting: &Unconfirmed| match goal {
        // A rollback of later changes only: the applied configuration still awaits confirmation.
        Goal::Back { to, .. } => *to <= waiting.generation,
        Goal::File(..) => true,
        Goal::Without(_) => false,
    };
    if let Goal::File(_, terms) = goal {
        c.start_is_stale &= !terms.start;
    }
    let Some(waiting) = c.unconfirmed.as_ref().filter(|w| settled(w)) else { return };
    if let (true, Goal::Back { .. }, Some(file)) = (waiting.start, goal, &c.startup_config) {
        tracing::warn!(
            event = "config",
            "the router starts from {}, whose configuration was rolled back: a restart would apply it again; run config save, or fix the file",
            file.display()
        );
        c.start_is_stale = true;
    }
    c.forget_unconfirmed();
}

/// Frees large data on another thread, because that takes as long as creating it.
pub(super) fn let_go(much: impl Send + 'static) {
    // If the thread cannot be started, the data is freed here.
    drop(thread::Builder::new().name("volley_config".into()).spawn(move || drop(much)));
}

/// Starts work on another thread.
///
/// # Errors
/// If the thread cannot be started.
pub(super) fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CliError> + Send + 'static,
) -> Result<Thread<T>, CliError> {
    let thread = thread::Builder::new().name("volley_config".into()).spawn(work);
    thread.map_err(|e| CliError::new(format!("no thread can be started: {e}")))
}

/// Returns the result of a thread that has ended.
///
/// # Errors
/// Returns the thread's error, or says that the thread panicked.
pub(crate) fn joined<T>(thread: Thread<T>) -> Result<T, CliError> {
    thread.join().unwrap_or_else(|_| Err(CliError::new("internal error: a configuration thread died")))
}
