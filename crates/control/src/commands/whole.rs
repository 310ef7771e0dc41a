//! The configuration becomes another one, wholly or not at all: by a file that is applied, by a rollback, or because much of it goes.
//!
//! Reading, checking and planning take their time on a thread of their own, which has a [`Snapshot`] of the configuration
//! as it is. The main thread makes the steps of the plan in slices, and then puts the new configuration in place of the
//! old one in one moment. From the beginning of the plan to the end nothing else is changed
//! (docs/decisions/0020).

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
use crate::config::Wanted;
use crate::files;
use crate::intent::{
    Abilities, Backed, Catalog, Interface, Key, Making, Note, Plan, Refusal, Refused, Snapshot, Way,
    opened_anew, slow,
};
use crate::journal;
use crate::startup::Fault;
use crate::system::Absence;
use model::origin::{FrontEnd, Origin};
use model::store::Written;
use std::sync::Arc;

/// Plans with more steps say how far they are.
const LONG: usize = 10_000;
/// How long it is waited for the links of devices that were opened anew. The peer of a memif tries once a second.
const LINKS: Duration = Duration::from_secs(3);
/// How much text is given to the client at once, bytes.
const CHUNK: usize = 32 << 10;

/// Bytes of an object in a copy of the configuration, measured with routes.
const OBJECT: u64 = 256;
/// Bytes of a change in a plan, with its text and its journal entry, measured with routes.
const CHANGE: u64 = 1024;
/// A change that takes no more bytes is always tried: a router that is short of memory must be able to free some.
const LITTLE: u64 = 4 << 20;

/// On what terms a configuration is applied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// Only say what would change.
    pub dry_run: bool,
    /// Take it back after this time, unless it is confirmed.
    pub confirm: Option<Duration>,
    /// Only if the configuration is still of this generation.
    pub expected: Option<u64>,
    /// Nobody reads what changes, and it is no change for the journal: the router starts with it.
    pub quiet: bool,
    /// It is the file that the router starts from; [`Whole::read`] finds out.
    pub start: bool,
}

/// What the configuration is to become.
enum Goal {
    /// What a file says.
    File(Box<Wanted>, Terms),
    /// What it was before all changes behind this generation that are in effect. Or it is only said what would change.
    Back { to: u64, dry_run: bool },
    /// What it is without an object, and all that cannot be without that.
    Without(Key),
}

/// A plan, and what is to be said of it.
struct Planned {
    plan: Plan,
    /// What was prepared for interfaces, as in [`System`](crate::system::System).
    prepared: BTreeMap<String, (Backed, Prepared)>,
    /// The interfaces that change. To look for them among all that does takes the main thread too long.
    interfaces: Vec<Key>,
    /// The interfaces whose devices are opened.
    opened: Vec<String>,
    /// How many objects change.
    objects: usize,
    /// For the journal.
    note: Note,
    text: String,
}

pub(crate) type Thread<T> = JoinHandle<Result<T, CliError>>;

enum Stage {
    Reading(Thread<(Wanted, Terms)>),
    /// Until others that change much have come to an end.
    Waiting(Goal),
    Planning(Turn, Thread<(Goal, Planned)>),
    Making(Box<Made>),
    /// Until devices that were opened anew have their links again, or have not.
    Opening(Turn, String, Instant),
    /// What has changed is told, from this byte on.
    Telling(String, usize),
    Over,
}

/// What is being made.
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

/// A file that is being read, on a thread of its own.
pub struct Reading(PathBuf, Thread<Wanted>);

impl Reading {
    /// Begins.
    ///
    /// # Errors
    /// When there can be no thread that reads the file.
    pub fn begin(path: PathBuf, catalog: Arc<Catalog>) -> Result<Reading, CliError> {
        let file = path.clone();
        Ok(Reading(path, on_a_thread(move || load(&file, &catalog))?))
    }
}

/// The change.
pub struct Whole {
    stage: Stage,
    /// Who asks for it, and how.
    origin: Origin,
    /// The client is gone.
    cut_off: bool,
    /// Nobody asked for it: what goes wrong is for the log.
    unasked: bool,
}

impl Whole {
    /// To what a file says.
    ///
    /// # Errors
    /// When there can be no thread that reads the file.
    pub fn file(path: PathBuf, terms: Terms, c: &Context) -> Result<Whole, CliError> {
        Whole::read(Reading::begin(path, c.system.abilities.catalog.clone())?, terms, c)
    }

    /// To what a file says that is being read already.
    ///
    /// # Errors
    /// When there can be no thread that checks the file.
    pub fn read(Reading(path, reading): Reading, terms: Terms, c: &Context) -> Result<Whole, CliError> {
        let (abilities, start) = (c.system.abilities.clone(), c.startup_config.clone());
        let reader = on_a_thread(move || {
            let wanted = joined(reading)?;
            let start = start.is_some_and(|start| files::same(&start, &path));
            match wanted.faults(&abilities) {
                faults if faults.is_empty() => Ok((wanted, Terms { start, ..terms })),
                faults => Err(faulty(&faults)),
            }
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

    /// Back to what it was before the changes behind this generation. Whatever devices are gone meanwhile: their interfaces come back,
    /// and wait for them. With `dry_run` it is only said what would change.
    pub fn back_to(to: u64, dry_run: bool, origin: Origin) -> Whole {
        Whole::new(Stage::Waiting(Goal::Back { to, dry_run }), origin)
    }

    /// Without an object that much else needs.
    pub fn without(key: Key, origin: Origin) -> Whole {
        Whole::new(Stage::Waiting(Goal::Without(key)), origin)
    }

    /// The same for what nobody has confirmed, which nobody asks for: unless there is no need any more when it is its turn.
    pub fn unasked(self) -> Whole {
        Whole { unasked: true, ..self }
    }

    /// One slice; the next stage, and when to go on.
    fn go_on(&mut self, c: &mut Context, out: &mut String) -> Result<(Stage, Duration), CliError> {
        let now = |stage| Ok((stage, Duration::ZERO));
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Reading(reader) if !reader.is_finished() => Ok((Stage::Reading(reader), LOOK)),
            Stage::Reading(reader) => {
                let (wanted, terms) = joined(reader)?;
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
            // What was planned is not begun any more.
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
                        Goal::Without(_) => "the taking back of a removal",
                        _ => "the taking back of an apply",
                    });
                } else {
                    tell_progress(begun, made.making.progress(), out);
                }
                if more { now(Stage::Making(made)) } else { now(end(c, *made)?) }
            }
            Stage::Opening(turn, text, until) if c.system.stands_still() && Instant::now() < until => {
                Ok((Stage::Opening(turn, text, until), LOOK))
            }
            Stage::Opening(_, text, _) => now(Stage::Telling(text + &c.system.stood_still(), 0)),
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
    /// What is made is taken back; what is made wholly, stays.
    fn cut_off(&mut self) -> bool {
        self.cut_off = true;
        match &mut self.stage {
            // The thread has the snapshot, with which nothing should be changed.
            Stage::Planning(..) => true,
            Stage::Making(made) => {
                made.making.turn_back(Refused("its client went away".into()));
                true
            }
            _ => false,
        }
    }
}

/// A line for every tenth of a long way.
fn tell_progress((before, _): (usize, usize), (done, of): (usize, usize), out: &mut String) {
    let tenth = |n: usize| 10 * n / of.max(1);
    if of >= LONG && tenth(done) > tenth(before) && done < of {
        *out += &format!("# {done} of {of} steps ({} %)\n", 100 * done / of);
    }
}

/// Has the way to the goal planned on another thread.
fn plan(c: &mut Context, mut goal: Goal, origin: Origin) -> Result<Thread<(Goal, Planned)>, CliError> {
    let generation = c.journal.generation();
    let mut way = None;
    match &goal {
        Goal::File(_, terms) => {
            if let Some(expected) = terms.expected.filter(|e| *e != generation) {
                return Err(CliError::new(format!(
                    "the configuration is of generation {generation}, not {expected}: somebody has changed it (show config \
                     history)"
                )));
            }
            // What cannot be taken back, another one may take the place of.
            if c.unconfirmed.as_ref().is_some_and(|w| w.failed.is_none()) && !terms.dry_run {
                return Err(CliError::new(
                    "the last one that was applied waits to be confirmed: config confirm, or config rollback",
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

/// On the thread.
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
            // On the way back the interface waits for what it is made of.
            Err(_) => {}
        }
    }
    let interfaces =
        plan.edits.iter().map(|edit| &edit.key).filter(|key| key.is::<Interface>()).cloned().collect();
    let made = plan.steps.iter().filter(|step| step.from.is_none());
    let opened = made.filter_map(|step| Interface::device_in(&step.key)).chain(opened_anew(&plan)).collect();
    let edits = std::mem::take(&mut plan.edits);
    let objects = edits.len();
    let edits = if is_start { Vec::new() } else { edits };
    let note = journal::note(origin, edits, |key| plan.after.tree().get(key));
    Ok(Planned { plan, prepared, interfaces, opened, objects, note, text })
}

/// Refuses to take `each` bytes so many times where there is no memory for that.
fn there_is_memory_for(times: usize, each: u64) -> Result<(), Refused> {
    let bytes = times as u64 * each;
    if bytes <= LITTLE {
        return Ok(());
    }
    let why = |e| {
        Refused(format!(
            "the change of the configuration is too large: {e}: remove some objects by commands first"
        ))
    };
    Room::now().must_have(bytes).map_err(why)
}

/// A refusal with the place in the file that it is about.
fn told(goal: &Goal, Refusal { key, why }: Refusal) -> CliError {
    match (goal, key) {
        (Goal::File(wanted, _), Some(key)) => match wanted.place(&key) {
            Some(place) => faulty(&[Fault::new(place, why.to_string())]),
            None => CliError::new(why.to_string()),
        },
        _ => CliError::new(why.to_string()),
    }
}

/// The plan is there.
fn begin(c: &mut Context, turn: Turn, (goal, planned): (Goal, Planned)) -> Stage {
    let Planned { plan, prepared, interfaces, opened, objects, note, mut text } = planned;
    let nothing = |text: &str| Stage::Telling(text.into(), 0);
    if let Goal::File(_, Terms { confirm: None, quiet: false, .. }) = goal
        && !c.journal.has_room(objects)
    {
        text += &format!(
            "! a change of {objects} objects is not remembered: it cannot be rolled back unless it is applied with \"confirm\"\n"
        );
    }
    if let Goal::File(_, Terms { dry_run: true, .. }) | Goal::Back { dry_run: true, .. } = goal {
        return if text.is_empty() { nothing("nothing would change\n") } else { Stage::Telling(text, 0) };
    }
    if plan.steps.is_empty() {
        // That is what was wanted.
        if let Goal::Back { to, .. } = goal {
            c.remember(|journal| Some(journal.note_rollback(to, note)));
        }
        arrived(c, &goal);
        return nothing("nothing has changed\n");
    }
    match goal {
        Goal::Back { .. } => c.system.absence = Absence::Any,
        // However much it changes, the way back must be remembered; one that is remembered already leads past here.
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

/// All steps are made, or taken back.
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
            tracing::warn!(event = "config", "a configuration was refused: {refused}");
        }
        let_go((goal, making, note, after));
        return Err(refused);
    }
    for key in interfaces {
        if let Some(name) = Interface::device_in(&key)
            && c.system.router.interface_named(&name).is_some_and(InterfaceInfo::is_absent)
        {
            text += &format!("! {name} is without its device: it waits for that\n");
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
        Goal::Back { to, .. } => tracing::info!(event = "config", "rolled back to what generation {to} was"),
        Goal::File(_, terms) => {
            tracing::info!(event = "config", "a configuration was applied");
            if let Some(time) = terms.confirm {
                let words = in_words(time);
                tracing::info!(
                    event = "config",
                    "it goes back to generation {generation} in {words} unless confirmed"
                );
                c.journal.hold(Some(generation));
                c.unconfirmed = Some(Unconfirmed::new(generation, time, terms.start));
                text += &format!("goes back in {words} unless confirmed: config confirm\n");
                if terms.start {
                    text += "! the router starts from this file: a restart applies it, confirmed or not\n";
                }
            }
        }
    }
    let_go((was, goal, making));
    Ok(Stage::Opening(turn, text, Instant::now() + LINKS))
}

/// The configuration is what was wanted: so what waited to be confirmed before need not be, unless it is still there.
fn arrived(c: &mut Context, goal: &Goal) {
    let settled = |waiting: &Unconfirmed| match goal {
        // What goes back less far leaves the applied configuration to be confirmed.
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
            "the router starts from {}, which is what went back: a restart would apply it; say config save, or mend it",
            file.display()
        );
        c.start_is_stale = true;
    }
    c.forget_unconfirmed();
}

/// Lets go of much elsewhere, for that takes as long as to make it.
pub(super) fn let_go(much: impl Send + 'static) {
    // Without a thread it is done here.
    drop(thread::Builder::new().name("volley_config".into()).spawn(move || drop(much)));
}

/// Has work done on another thread.
///
/// # Errors
/// When there can be none.
pub(super) fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CliError> + Send + 'static,
) -> Result<Thread<T>, CliError> {
    let thread = thread::Builder::new().name("volley_config".into()).spawn(work);
    thread.map_err(|e| CliError::new(format!("no thread can be started to look at the configuration: {e}")))
}

/// What a thread has found that has ended.
///
/// # Errors
/// As that, or that it did not come to its end.
pub(crate) fn joined<T>(thread: Thread<T>) -> Result<T, CliError> {
    thread
        .join()
        .unwrap_or_else(|_| Err(CliError::new("the configuration could not be looked at to its end")))
}
