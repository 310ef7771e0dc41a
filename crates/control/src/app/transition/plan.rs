//! Planning a change of the whole configuration, on a thread of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drivers::Patience;
use infra::mem::Room;
use model::origin::Origin;
use model::store::Written;
use net::feature::{Prepared, Unready};

use super::Terms;
use crate::app::difference::{difference, numbered};
use crate::app::{Context, Failure, Report, Thread, on_a_thread, warnings};
use crate::config::Wanted;
use crate::intent::{Change, Interface, Key, Note, Plan, Refusal, Refused, Snapshot, Way, reopened, slow};
use crate::journal;
use crate::startup::Fault;
use crate::system::{Abilities, Backed, PATIENCE};

/// Memory in bytes that each object needs in a copy of the configuration. Measured with routes.
const OBJECT: u64 = 256;
/// Memory in bytes that each change of a plan needs, including its text and its journal entry. Measured with routes.
const CHANGE: u64 = 1024;
/// Size in bytes up to which a change is always tried, even if memory is short: an operator must be able to remove objects to free
/// memory.
const LITTLE: u64 = 4 << 20;

/// Time for preparing all devices of a change. Other changes wait meanwhile.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// Gets a configuration, and returns the changes to make to it, or why there are none. Called on the planning thread, because it may have
/// to look at all objects.
pub(super) type Changes = Box<dyn FnOnce(&Snapshot) -> Result<Vec<Change>, Refused> + Send>;

/// The configuration that a change leads to.
pub(super) enum Goal {
    /// The configuration of a file.
    File(Box<Wanted>, Terms),
    /// The configuration of generation `to`: all later changes that are in effect are undone. A dry run only shows what would change.
    Back { to: u64, dry_run: bool },
    /// The configuration without this object and all its dependents.
    Without(Key),
    /// The current configuration with the changes that this function returns.
    After(Changes),
}

impl Goal {
    /// True if the change is only shown, not made.
    pub(super) fn is_dry_run(&self) -> bool {
        matches!(self, Goal::File(_, Terms { dry_run: true, .. }) | Goal::Back { dry_run: true, .. })
    }

    /// Returns the name of the change.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Goal::File(..) => "an apply",
            Goal::Back { .. } => "a rollback",
            Goal::Without(_) => "a removal",
            Goal::After(_) => "a change of many objects",
        }
    }

    /// Converts a refusal to a failure. For a configuration from a file, the failure has the place in the file.
    pub(super) fn refused(&self, Refusal { key, why }: Refusal) -> Failure {
        let place = match (self, key) {
            (Goal::File(wanted, _), Some(key)) => wanted.place(&key),
            _ => None,
        };
        match place {
            Some(place) => Failure::Faults(vec![Fault::new(place, why.to_string())]),
            None => why.into(),
        }
    }
}

/// A plan, and the data for executing and reporting it.
pub(super) struct Planned {
    pub(super) plan: Plan,
    /// Results that were prepared for new interfaces, as in `System::prepared`, by interface name.
    pub(super) prepared: BTreeMap<String, (Backed, Result<Prepared, Unready>)>,
    /// The keys of the changed interfaces. The planning thread collects them, because the main thread would take too long to search all
    /// changes.
    pub(super) interfaces: Vec<Key>,
    /// The interfaces whose devices are opened.
    pub(super) opened: Vec<String>,
    /// Number of changed objects.
    pub(super) objects: usize,
    /// The journal entry.
    pub(super) note: Note,
    /// The lines of the difference, and the warnings, to report to the client.
    pub(super) reports: Vec<Report>,
}

/// The planning of a change, on another thread.
pub(super) struct Planning {
    pub(super) thread: Thread<(Goal, Planned)>,
    /// True if the change is a rollback.
    pub(super) goes_back: bool,
    /// The patience to read the files of new devices. If it ends, the change is refused or, at the start and in a rollback, goes on
    /// without these devices.
    pub(super) patience: Patience,
}

/// Starts the planning of the change.
///
/// # Errors
/// If the change is refused now, or if the thread cannot be started.
pub(super) fn plan(c: &mut Context, mut goal: Goal, origin: Origin) -> Result<Planning, Failure> {
    let is = c.journal.generation();
    let mut way = None;
    match &goal {
        Goal::File(_, terms) => {
            if let Some(expected) = terms.expected.filter(|e| *e != is) {
                return Err(Failure::Changed { is, expected });
            }
            // A configuration whose rollback failed may be replaced.
            if c.confirmation().is_some_and(|w| w.failed().is_none()) && !terms.dry_run {
                return Err(Failure::Unconfirmed);
            }
        }
        Goal::Back { to, .. } => way = Some(c.journal.back_to(*to)?),
        Goal::Without(_) | Goal::After(_) => {}
    }
    let (now, abilities) = (c.store.snapshot(), c.system.abilities.clone());
    let goes_back = matches!(goal, Goal::Back { .. });
    let time = match &goal {
        Goal::File(_, Terms { quiet: true, .. }) | Goal::Back { .. } | Goal::Without(_) => PATIENCE,
        Goal::File(..) | Goal::After(_) => LONG_PATIENCE,
    };
    let patience = Patience::of(time);
    let shared = patience.clone();
    let thread = on_a_thread(move || {
        let planned = planned(&now, &mut goal, way, &abilities, origin, &shared);
        let planned = planned.map_err(|refusal| goal.refused(refusal))?;
        Ok((goal, planned))
    })?;
    Ok(Planning { thread, goes_back, patience })
}

/// Plans the change, on the planning thread.
fn planned(
    now: &Snapshot,
    goal: &mut Goal,
    way: Option<Way>,
    abilities: &Abilities,
    origin: Origin,
    patience: &Patience,
) -> Result<Planned, Refusal> {
    let mut said = BTreeSet::new();
    if !matches!(goal, Goal::File(..)) {
        there_is_memory_for(now.tree().len(), OBJECT).map_err(|why| Refusal { key: None, why })?;
    }
    let goes_forward = matches!(goal, Goal::File(..) | Goal::After(_));
    let is_dry_run = goal.is_dry_run();
    let is_start = matches!(goal, Goal::File(_, Terms { quiet: true, .. }));
    let quiet = is_start || matches!(goal, Goal::Without(_) | Goal::After(_));
    let after = match (goal, way) {
        (Goal::File(wanted, _), _) => {
            said = numbered(&wanted.tree);
            std::mem::take(&mut wanted.tree)
        }
        (Goal::Without(key), _) => now.without(key),
        (Goal::After(changes), _) => {
            let changes = std::mem::replace(changes, Box::new(|_: &Snapshot| Ok(Vec::new())));
            now.with(changes(now).map_err(|why| Refusal { key: None, why })?)
        }
        (_, Some(way)) => {
            let read = |written: &Written| journal::read(written, &abilities.catalog);
            let tree = way.follow(now.tree().clone(), read).map_err(|why| Refusal { key: None, why })?;
            Snapshot::of(tree)
        }
        _ => now.clone(),
    };
    let mut plan = now.plan(after, abilities, |changes| there_is_memory_for(changes, CHANGE))?;
    let mut reports = if quiet { Vec::new() } else { difference(&plan, &said) };
    let mut prepared = BTreeMap::new();
    for (key, name, backed) in slow(&plan) {
        let ready = if patience.is_over() {
            Err(Unready { about: "", why: Refused::new("other devices took too long") })
        } else {
            backed.prepare(patience)
        };
        match ready {
            Err(unready) if goes_forward && !is_start => {
                return Err(Refusal { key: Some(key.clone()), why: unready.why });
            }
            // At the start and in a rollback, the interface waits for its device if it is not ready.
            done => drop(prepared.insert(name, (backed.clone(), done))),
        }
    }
    let interfaces =
        plan.edits.iter().map(|edit| &edit.key).filter(|key| key.is::<Interface>()).cloned().collect();
    let made = plan.steps.iter().filter(|step| step.from.is_none());
    let opened: Vec<String> =
        made.filter_map(|step| Interface::device_in(&step.key)).chain(reopened(&plan)).collect();
    if is_dry_run {
        reports.extend(warnings::of_devices_in_advance(&plan, &opened).into_iter().map(Report::Warning));
    }
    let edits = std::mem::take(&mut plan.edits);
    let objects = edits.len();
    let edits = if is_start { Vec::new() } else { edits };
    let note = journal::note(origin, edits, |key| plan.after.tree().get(key));
    Ok(Planned { plan, prepared, interfaces, opened, objects, note, reports })
}

/// Refuses a change if there is not enough free memory for `times` objects of `each` bytes.
fn there_is_memory_for(times: usize, each: u64) -> Result<(), Refused> {
    let bytes = times as u64 * each;
    if bytes <= LITTLE {
        return Ok(());
    }
    let why = |e| {
        Refused::new(format!(
            "not enough memory for this change of the configuration: {e}; remove some objects by commands first"
        ))
    };
    Room::now().must_have(bytes).map_err(why)
}
