//! The end of a change of the whole configuration.

use std::time::{Duration, Instant};

use net::router::InterfaceInfo;

use super::plan::Goal;
use super::{Made, Stage, Terms};
use crate::app::confirmation::Confirmation;
use crate::app::failure::in_words;
use crate::app::thread::let_go;
use crate::app::work::Report;
use crate::app::{Context, Failure, warnings};
use crate::intent::Interface;
use crate::system::Absence;

/// How long a change waits for the links of reopened devices. The peer of a memif tries to connect once a second.
const LINKS: Duration = Duration::from_secs(3);

/// Ends the change after all steps are made or rolled back.
///
/// # Errors
/// If the steps were rolled back. The error is the reason.
pub(super) fn end(c: &mut Context, made: Made) -> Result<Stage, Failure> {
    let Made { turn, goal, mut making, after, note, interfaces, opened, mut reports } = made;
    c.system.prepared.clear();
    if let Goal::Back { .. } = goal {
        c.system.absence = Absence::Refused;
    }
    if let Err(refusal) = making.end() {
        c.journal.hold(c.confirmation().map(|waiting| waiting.generation));
        let refused = goal.refused(refusal);
        if !matches!(goal, Goal::Without(_) | Goal::After(_)) {
            tracing::warn!(event = "config", "configuration change failed: {refused}");
        }
        let_go((goal, making, note, after));
        return Err(refused);
    }
    let mut warn = |why: String| reports.push(Report::Warning(why));
    for key in interfaces {
        if let Some(name) = Interface::device_in(&key)
            && c.system.router.interface_named(&name).is_some_and(InterfaceInfo::is_absent)
        {
            warn(format!("{name} has no device: the interface waits for it"));
        }
        let wanted = after.tree().get(&key).and_then(|value| value.get::<Interface>());
        if let Some((name, wanted)) = Interface::name_in(&key).zip(wanted) {
            warnings::missing_queues(&name, wanted, &c.system.router).into_iter().for_each(&mut warn);
        }
    }
    for name in opened {
        warnings::of_device(&name, &c.system.router).into_iter().for_each(&mut warn);
    }
    let generation = c.journal.generation();
    let was = c.store.arrive(after);
    c.remember(|journal| match goal {
        Goal::Back { to, .. } => Some(journal.note_rollback(to, note)),
        Goal::File(..) | Goal::Without(_) | Goal::After(_) => journal.note(note),
    });
    arrived(c, &goal);
    match &goal {
        Goal::Without(_) | Goal::After(_) => reports.extend(c.goes_back_too().map(Report::Warning)),
        Goal::Back { to, .. } => tracing::info!(event = "config", "rolled back to generation {to}"),
        Goal::File(_, terms) => {
            tracing::info!(event = "config", "a configuration was applied");
            reports.extend(await_confirmation(c, terms, generation));
        }
    }
    reports.push(Report::Arrived { generation: c.journal.generation(), changed: true });
    let_go((was, goal, making));
    Ok(Stage::Opening(turn, reports.into(), Instant::now() + LINKS))
}

/// If `terms` require a confirmation, begins to wait for it. Without a confirmation, the router rolls back to `generation` later.
fn await_confirmation(c: &mut Context, terms: &Terms, generation: u64) -> Vec<Report> {
    let Some(time) = terms.confirm else { return Vec::new() };
    tracing::info!(
        event = "config",
        "the configuration rolls back to generation {generation} in {} unless confirmed",
        in_words(time)
    );
    c.journal.hold(Some(generation));
    c.confirmation = Some(Confirmation::new(generation, c.journal.generation(), time, terms.start));
    let mut reports = vec![Report::AwaitsConfirmation(time)];
    if terms.start {
        let why = "the router starts from this file: a restart applies it, confirmed or not";
        reports.push(Report::Warning(why.into()));
    }
    reports
}

/// Updates the confirmation after a successful change. If this change has rolled back or replaced the configuration that awaited
/// confirmation, the wait ends.
pub(super) fn arrived(c: &mut Context, goal: &Goal) {
    let settled = |waiting: &Confirmation| match goal {
        // A rollback of later changes only: the applied configuration still awaits confirmation.
        Goal::Back { to, .. } => *to <= waiting.generation,
        Goal::File(..) => true,
        Goal::Without(_) | Goal::After(_) => false,
    };
    if let Goal::File(_, terms) = goal {
        c.start_is_stale &= !terms.start;
    }
    let Some(waiting) = c.confirmation().filter(|w| settled(w)) else { return };
    if let (true, Goal::Back { .. }, Some(file)) = (waiting.start, goal, &c.startup_config) {
        tracing::warn!(
            event = "config",
            "the router starts from {}, whose configuration was rolled back: a restart would apply it again; run config save, or fix the file",
            file.display()
        );
        c.start_is_stale = true;
    }
    c.forget_confirmation();
}
