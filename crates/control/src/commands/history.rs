//! Past changes of the configuration: history and rollback.

use std::time::SystemTime;

use model::store::{Counts, Deed, Detail};
use serde::Serialize;

use super::long::ForClient;
use super::whole::{Thread, Whole, let_go, on_a_thread};
use super::{Context, Output};
use crate::cli::{Args, CliError, PAGE, Registry, Rows, Table};
use crate::intent::{Edit, Entry, HIDDEN, Journal, Note, Noted};
use crate::journal::{self, Found, Keeper};
use model::origin::Origin;

/// If a change that the journal forgets has more objects than this, another thread frees them.
const MUCH: usize = 1000;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "show config history [<n:u32>]",
        "Show the changes of the configuration, the newest first, or the last n. \"Back\" is the number for \"config rollback\".",
        history,
    );
    r.add(
        "show config change <number:u64>",
        "Show a change, by its number in \"show config history\": its author, and what it added (+) and removed (-).",
        change,
    );
    r.add(
        "config rollback [<n:u32>]",
        "Roll back the last change in effect, or the last n. A second rollback undoes the next older \
         change, not the first rollback. \"config diff rollback\" shows a preview.",
        |c, a| rollback(c, a, false),
    );
    r.add(
        "config diff rollback [<n:u32>]",
        "Show what \"config rollback\" would change, without changing anything.",
        |c, a| rollback(c, a, true),
    );
}

impl Context {
    /// Adds a change to the journal after it was made. `edits` are the changed objects.
    pub(super) fn note(&mut self, origin: Origin, edits: Vec<Edit>) {
        let note = journal::note(origin, edits, |key| self.store.get(key));
        self.remember(|journal| journal.note(note));
    }

    /// Adds an entry to the journal. Does nothing during the start, unless a configuration awaiting confirmation
    /// needs the entries for its rollback.
    pub(super) fn remember(&mut self, tell: impl FnOnce(&mut Journal) -> Option<Noted>) {
        if self.starting && !self.journal.is_held() {
            return;
        }
        let Some(noted) = tell(&mut self.journal) else { return };
        if let Some(keeper) = &self.keeper {
            keeper.keep(noted.entry.clone());
        }
        // The changes of single commands are freed quickly.
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

    /// Ends the start, and adds one entry for it to the journal, which cannot be rolled back. `known` is the number of the newest earlier
    /// change that is in effect.
    pub(crate) fn end_start(&mut self, origin: Origin, known: u64) {
        self.starting = false;
        let note = Note::start(origin, self.store.tree().len() as u64);
        self.remember(|journal| Some(journal.note_start(known, note)));
    }

    /// Starts a thread that searches for the newest change of an earlier run that is in effect. The changes after it were not saved.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn find_last_in_effect(&self) -> Result<Thread<u64>, CliError> {
        let (stack, now) = (self.journal.stack(), self.store.snapshot());
        let catalog = self.system.abilities.catalog.clone();
        on_a_thread(move || Ok(stack.in_effect(now.tree(), |written| journal::read(written, &catalog))))
    }
}

fn rollback(c: &mut Context, a: &Args, dry_run: bool) -> Result<Output, CliError> {
    let n = match (a.get::<u32>("n"), &c.unconfirmed) {
        (Some(n), _) => n as usize,
        // Without a number, roll back the change awaiting confirmation.
        (None, Some(waiting)) => {
            c.journal.changes().take_while(|entry| entry.number > waiting.generation).count()
        }
        (None, None) => 1,
    };
    let last = n.checked_sub(1).and_then(|n| c.journal.changes().nth(n)).map(|entry| entry.number);
    let Some(last) = last else {
        let message = match c.journal.can_be_taken_back() {
            0 => "no change to roll back (show config history)".into(),
            there => format!("the number of changes to roll back must be 1 to {there} (show config history)"),
        };
        return Err(a.fault("n", message));
    };
    Ok(Output::job(ForClient::new(Whole::back_to(last - 1, dry_run, c.origin.clone()), c)))
}

/// An entry of the journal, as shown.
#[derive(Serialize)]
struct Past {
    /// The number with which `config rollback` undoes this change and all later ones; none if this change is not in effect.
    back: Option<usize>,
    generation: u64,
    kind: &'static str,
    time: String,
    unix_seconds: u64,
    age_seconds: u64,
    user: String,
    uid: Option<u32>,
    front_end: String,
    command: String,
    added: u64,
    modified: u64,
    removed: u64,
    changed: String,
    /// Generation of the rollback that undid this change. For a change lost because it was not saved: generation of
    /// the start that lost it.
    taken_back_by: Option<u64>,
    #[serde(skip)]
    lost: bool,
    before_this_start: bool,
}

impl Past {
    fn of(journal: &Journal, entry: &Entry, back: Option<usize>) -> Past {
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

    fn objects(&self) -> String {
        let counts = [('+', self.added), ('~', self.modified), ('-', self.removed)];
        let some = counts.iter().filter(|(_, n)| *n > 0).map(|(sign, n)| format!("{sign}{n}"));
        some.collect::<Vec<_>>().join(" ")
    }

    fn what(&self) -> String {
        match self.taken_back_by {
            Some(by) if self.lost => format!("{} (not in effect since start {by})", self.changed),
            Some(by) => format!("{} (rolled back by {by})", self.changed),
            None => self.changed.clone(),
        }
    }
}

/// The entries of the journal.
struct History {
    /// The number of the last entry shown.
    last: Option<u64>,
    /// Maximum number of further entries.
    left: usize,
    /// The number of the newest shown entry that an earlier run of the router made.
    earlier: Option<u64>,
    table: Table,
}

impl Rows<Context> for History {
    type Row = Past;

    fn next(&mut self, c: &Context, page: &mut Vec<Past>) -> bool {
        let mut back = 0;
        for entry in c.journal.entries() {
            back += usize::from(entry.is_in_effect());
            if self.last.is_some_and(|last| entry.number >= last) {
                continue;
            }
            if page.len() == PAGE || self.left == 0 {
                break;
            }
            page.push(Past::of(&c.journal, entry, entry.is_in_effect().then_some(back)));
            self.left -= 1;
            self.earlier = self.earlier.or(entry.earlier.then_some(entry.number));
        }
        self.last = page.last().map(|past| past.generation).or(self.last);
        !page.is_empty()
    }

    fn text(&mut self, page: &[Past], out: &mut String) {
        for p in page {
            let back = p.back.map_or("-".into(), |n| n.to_string());
            let (number, objects, what) = (p.generation.to_string(), p.objects(), p.what());
            let (time, user, front_end) = (p.time.clone(), p.user.clone(), p.front_end.clone());
            self.table.row(vec![back, number, time, user, front_end, objects, what, p.command.clone()]);
        }
        self.table.flush(out);
    }

    fn end(&mut self, c: &Context, out: &mut String) {
        if let Some(number) = self.earlier {
            *out += &format!(
                "changes up to {number} were made before the router started: they can be rolled back if their objects are still \
                 the same\n"
            );
        }
        if let Some(trouble) = c.keeper.as_ref().and_then(Keeper::trouble) {
            *out += &format!("! {trouble}\n");
        }
        let Some(waiting) = &c.unconfirmed else { return };
        let (generation, left) = (waiting.generation, waiting.left());
        *out += &match &waiting.failed {
            None => format!("rolls back to generation {generation} in {left} s unless confirmed\n"),
            Some(failed) => format!(
                "overdue rollback to generation {generation}: attempt {} failed, the next one is in {left} s: {}\n",
                failed.times, failed.why
            ),
        };
    }
}

fn history(_: &mut Context, a: &Args) -> Result<Output, CliError> {
    let table = Table::new(&["Back", "Change", "Time", "User", "From", "Objects", "What", "Command"]);
    let left = a.get::<u32>("n").map_or(usize::MAX, |n| n as usize);
    Ok(Output::rows(History { last: None, left, earlier: None, table }, a.json()))
}

/// The lines of one change.
struct Shown {
    /// The lines before the details.
    head: Vec<String>,
    detail: Detail<crate::system::System>,
    /// Index of the next object, or offset of the next byte of a written change.
    next: usize,
}

impl Rows<Context> for Shown {
    type Row = String;

    fn next(&mut self, _: &Context, page: &mut Vec<String>) -> bool {
        page.append(&mut self.head);
        match &self.detail {
            Detail::Edits(edits) => {
                let some = edits.all.iter().skip(self.next).take(PAGE);
                some.for_each(|edit| {
                    page.extend(journal::public_difference(edit).lines().map(str::to_string))
                });
                self.next += PAGE;
                self.next < edits.all.len()
            }
            Detail::Written(written) => {
                let rest = written.difference.get(self.next..).unwrap_or_default();
                for line in rest.split_inclusive('\n').take(PAGE) {
                    self.next += line.len();
                    page.push(line.trim_end().to_string());
                }
                self.next < written.difference.len()
            }
            Detail::Forgotten => false,
        }
    }

    fn text(&mut self, page: &[String], out: &mut String) {
        page.iter().for_each(|line| out.extend([line, "\n"]));
    }
}

fn change(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let number: u64 = a.need("number")?;
    let Some(entry) = c.journal.entry(number) else {
        return Err(a.fault("number", "the journal has no change with this number (show config history)"));
    };
    let past = Past::of(&c.journal, entry, None);
    let mut head = vec![
        format!("# change {number}: {}", past.what()),
        format!("# {} by {} ({}): {}", past.time, past.user, past.front_end, past.command),
    ];
    if matches!((&entry.detail, entry.deed), (Detail::Forgotten, Deed::Change | Deed::Rollback(_))) {
        head.push(format!("# {}", entry.what_is_forgotten()));
    }
    Ok(Output::rows(Shown { head, detail: entry.detail.clone(), next: 0 }, a.json()))
}
