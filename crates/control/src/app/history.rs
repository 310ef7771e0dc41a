//! The journal of changes: what was changed, by whom, and how to roll it back.

use std::time::SystemTime;

use model::origin::Origin;
use model::store::{Counts, Deed, Detail};
use serde::Serialize;

use super::thread::let_go;
use super::transition::Basis;
use super::{Context, Failure, Thread, Transition, on_a_thread};
use crate::intent::{Edit, Entry, HIDDEN, Journal, Note, Noted};
use crate::journal::{self, Found, Keeper};

/// Maximum number of objects in a dropped journal entry that the main thread frees itself. Another thread frees larger entries.
const MUCH: usize = 1000;

impl Context {
    /// Adds a change to the journal after it was made. `edits` are the changed objects.
    pub(crate) fn note(&mut self, origin: Origin, edits: Vec<Edit>) {
        let note = journal::note(origin, edits, |key| self.store.get(key));
        self.remember(|journal| journal.note(note));
    }

    /// Adds an entry to the journal. Does nothing while the router starts, unless the start configuration awaits confirmation: its
    /// rollback needs the entries.
    pub(crate) fn remember(&mut self, tell: impl FnOnce(&mut Journal) -> Option<Noted>) {
        if self.starting && !self.journal.is_held() {
            return;
        }
        let Some(noted) = tell(&mut self.journal) else { return };
        if let Some(keeper) = &self.keeper {
            keeper.keep(noted.entry.clone());
        }
        // Few objects, such as those that a single command changes, are freed here.
        if noted
            .forgotten
            .iter()
            .any(|detail| matches!(detail, Detail::Edits(edits) if edits.all.len() > MUCH))
        {
            let_go(noted);
        }
    }

    /// Continues the journal of earlier runs of the router, which was `found` on disk. `keeper` writes further entries.
    pub(crate) fn go_on_with(&mut self, keeper: Keeper, found: Found) {
        if found.unread > 0 {
            tracing::warn!(
                event = "config",
                "{} changes in the journal cannot be read and are skipped",
                found.unread
            );
        }
        self.journal = Journal::after(found.entries);
        self.keeper = Some(keeper);
    }

    /// Begins to apply the start configuration.
    pub fn begin_start(&mut self, origin: Origin) {
        self.starting = true;
        self.origin = origin;
    }

    /// Ends the router's start, and adds one entry for the start to the journal. This entry cannot be rolled back. `known` is the
    /// number of the newest change of an earlier run that is in effect.
    pub(crate) fn end_start(&mut self, origin: Origin, known: u64) {
        self.starting = false;
        let note = Note::start(origin, self.store.tree().len() as u64);
        self.remember(|journal| Some(journal.note_start(known, note)));
    }

    /// Starts a thread that searches for the newest change of an earlier run that is in effect. The changes after it were not saved.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn find_last_in_effect(&self) -> Result<Thread<u64>, Failure> {
        let (stack, now) = (self.journal.stack(), self.store.snapshot());
        let catalog = self.system.abilities.catalog.clone();
        on_a_thread(move || Ok(stack.in_effect(now.tree(), |written| journal::read(written, &catalog))))
    }

    /// Returns a rollback of the last `n` changes in effect. If `n` is `None`, it depends on whether a configuration awaits confirmation:
    /// if so, returns a rollback of this configuration and all later changes, and otherwise of the last change. With `dry_run`, the
    /// rollback only reports what would change. If `expected` is given, the configuration must have this generation.
    ///
    /// # Errors
    /// If the configuration has another generation, fewer than `n` changes are in effect, or `n` is 0. The rollback itself fails if the
    /// configuration changes before it can begin: then the last changes are others.
    pub fn roll_back(
        &self,
        n: Option<usize>,
        dry_run: bool,
        expected: Option<u64>,
    ) -> Result<Transition, Failure> {
        let is = self.journal.generation();
        if let Some(expected) = expected.filter(|expected| *expected != is) {
            return Err(Failure::Changed { is, expected });
        }
        // A number of changes means those of the present. A rollback of an unconfirmed configuration also undoes later changes.
        let (n, basis) = match (n, self.confirmation()) {
            (None, Some(waiting)) => {
                let later = self.journal.changes().take_while(|entry| entry.number > waiting.generation);
                (later.count(), Basis::Unconfirmed { before: waiting.generation, is: expected })
            }
            (n, _) => (n.unwrap_or(1), Basis::Generation(is)),
        };
        let last = n.checked_sub(1).and_then(|n| self.journal.changes().nth(n)).map(|entry| entry.number);
        let there = || Failure::NoWayBack { there: self.journal.can_be_taken_back() };
        let back = Transition::back_to(last.ok_or_else(there)? - 1, dry_run, self.origin.clone());
        Ok(back.on(basis))
    }
}

/// A past change, from an entry of the journal.
#[derive(Clone, Debug, Serialize)]
pub struct Past {
    /// Number of changes to pass to [`Context::roll_back`] so that it undoes this change and all later ones. `None` if this change is not
    /// in effect.
    pub back: Option<usize>,
    /// The change's number, which is also the generation of the configuration after the change.
    pub generation: u64,
    /// The kind of change: `change`, `start` or `rollback`.
    pub kind: &'static str,
    /// The time of the change, in the format of RFC 3339, in UTC.
    pub time: String,
    /// The time of the change, in seconds since 1970.
    pub unix_seconds: u64,
    /// Seconds since the change.
    pub age_seconds: u64,
    /// Name of the user.
    pub user: String,
    /// The user's ID, if known.
    pub uid: Option<u32>,
    /// The front end of the request.
    pub front_end: String,
    /// The request, such as a command.
    pub command: String,
    /// Number of added objects.
    pub added: u64,
    /// Number of modified objects.
    pub modified: u64,
    /// Number of removed objects.
    pub removed: u64,
    /// The first changed objects, as text.
    pub changed: String,
    /// The generation of the rollback that undid this change. If a restart lost the unsaved change, the generation of that start. `None` if
    /// the change is in effect.
    pub taken_back_by: Option<u64>,
    #[serde(skip)]
    lost: bool,
    /// True if an earlier run of the router made the change.
    pub before_this_start: bool,
}

impl Past {
    /// Returns the description of a journal entry. `back` is the number of changes to pass to [`Context::roll_back`] to undo the change;
    /// `None` if the change is not in effect.
    pub fn of(journal: &Journal, entry: &Entry, back: Option<usize>) -> Past {
        let by = entry.undone.and_then(|by| journal.entry(by));
        let since = entry.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let Counts { added, changed, removed } = entry.counts;
        let command = if entry.secret { HIDDEN.into() } else { entry.origin.line.to_string() };
        Past {
            back,
            generation: entry.number,
            kind: match entry.deed {
                Deed::Change => "change",
                Deed::Start(_) => "start",
                Deed::Rollback(_) => "rollback",
            },
            time: humantime::format_rfc3339_seconds(entry.time).to_string(),
            unix_seconds: since.as_secs(),
            age_seconds: entry.time.elapsed().unwrap_or_default().as_secs(),
            user: entry.origin.peer.to_string(),
            uid: entry.origin.peer.uid(),
            front_end: entry.origin.front_end.to_string(),
            command,
            added,
            modified: changed,
            removed,
            changed: entry.title.clone(),
            taken_back_by: entry.undone,
            lost: by.is_some_and(|by| matches!(by.deed, Deed::Start(_))),
            before_this_start: entry.earlier,
        }
    }

    /// Describes the change: the changed objects and, if it is no longer in effect, the rollback or start that undid it.
    pub fn what(&self) -> String {
        match self.taken_back_by {
            Some(by) if self.lost => format!("{} (not in effect since start {by})", self.changed),
            Some(by) => format!("{} (rolled back by {by})", self.changed),
            None => self.changed.clone(),
        }
    }
}
