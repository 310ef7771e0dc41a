//! The whole configuration: `show config yaml`, apply, confirm, save.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::origin::{FrontEnd, Origin, Peer};

use super::long::{ForClient, SLICE, Turn};
use super::whole::{Terms, Whole};
use super::{Context, Output, warnings};
use crate::cli::{Args, CliError, Job, Registry, Rows, Step};
use crate::config::{self, Wanted, Writer};
use crate::files;
use crate::intent::{Edit, Interface, Key, Plan, Snapshot, in_order, recreated, reopened};
use crate::journal;
use crate::startup::Fault;
use crate::system::Catalog;

/// The last line of a configuration that changed while it was shown.
pub(super) const CHANGED: &str =
    "# the configuration changed while it was shown: this is a mixture of old and new parts\n";

/// The polling interval for results of other threads.
pub(super) const LOOK: Duration = Duration::from_millis(2);
/// The longest time to wait for a confirmation, in seconds.
const LONGEST: u64 = 24 * 3600;
/// The interval between attempts to roll back an unconfirmed configuration.
const RETRY: Duration = Duration::from_secs(5);

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show config yaml", "Show the configuration as YAML, for \"config apply\".", |c, a| {
        let writer = Writer::new(c.store.tree(), &c.system.abilities.catalog);
        let writer = if a.call().read_only { writer.hiding_secrets() } else { writer };
        let yaml = Yaml { writer, version: c.store.version(), begun: false };
        Ok(Output::rows(yaml, a.json()))
    });
    r.add(
        "config apply <file:path> [dry-run] [confirm <time:word>] [generation <expected:u64>]",
        "Replace the configuration by that of a YAML file, all or nothing. \"dry-run\" only shows what would change. With \"confirm\", \
         the change is rolled back unless \"config confirm\" follows within this number of minutes (or seconds, as in \"90s\"). \
         \"generation\" refuses the file unless the configuration has this generation.",
        apply,
    );
    r.add("config confirm", "Keep the configuration that was applied with \"confirm\".", |c, _| {
        match &c.unconfirmed {
            Some(waiting) if waiting.expired => Err(CliError::new("too late: the rollback has begun")),
            Some(_) => {
                c.forget_unconfirmed();
                tracing::info!(event = "config", "the configuration is confirmed");
                Ok(Output::text("confirmed"))
            }
            None => Err(CliError::new("no configuration awaits confirmation")),
        }
    });
    r.add(
        "config save [<file:path>]",
        "Write the configuration to a file: YAML if its name ends in .yaml or .yml, otherwise commands. The default is the \
         file that the router starts from (startup-config).",
        save,
    );
}

/// An applied configuration awaiting confirmation.
#[derive(Debug)]
pub struct Unconfirmed {
    /// The generation to roll back to.
    pub(super) generation: u64,
    /// True if the configuration comes from the file that the router starts from.
    pub(super) start: bool,
    /// The time of the rollback, or of the next attempt.
    deadline: Instant,
    /// True while the rollback is pending.
    expired: bool,
    /// The failed attempts to roll back.
    pub(super) failed: Option<Failed>,
}

/// Failed attempts to roll back.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) times: u64,
    /// The last error.
    pub(super) why: String,
}

impl Unconfirmed {
    /// Returns an unconfirmed configuration that is to be rolled back to `generation` after `time`.
    pub(super) fn new(generation: u64, time: Duration, start: bool) -> Unconfirmed {
        Unconfirmed { generation, start, deadline: Instant::now() + time, expired: false, failed: None }
    }

    /// Returns the seconds until the rollback, or until the next attempt.
    pub(super) fn left(&self) -> u64 {
        self.deadline.saturating_duration_since(Instant::now()).as_secs()
    }
}

#[cfg(test)]
impl Unconfirmed {
    /// Makes the rollback due now.
    pub(super) fn expire(&mut self) {
        self.deadline = Instant::now();
    }
}

impl Context {
    /// Starts the rollback of a configuration that was not confirmed in time. Called regularly.
    pub fn look_at_confirmation(&mut self) {
        let due = |w: &&mut Unconfirmed| !w.expired && Instant::now() >= w.deadline;
        let Some(waiting) = self.unconfirmed.as_mut().filter(due) else { return };
        waiting.expired = true;
        let generation = waiting.generation;
        if waiting.failed.is_none() {
            tracing::warn!(
                event = "config",
                "the configuration was not confirmed in time: rolling back to generation {generation}"
            );
        }
        let origin = Origin::new(FrontEnd::Router, Peer::Own, "not confirmed in time");
        let back = Whole::back_to(generation, false, origin).unasked();
        self.abandoned.borrow_mut().push_back(Box::new(back));
    }

    /// True if a rollback to this generation is due because the configuration was not confirmed.
    pub(super) fn goes_back_to(&self, generation: u64) -> bool {
        self.unconfirmed.as_ref().is_some_and(|w| w.expired && w.generation == generation)
    }

    /// Records a failed rollback of the unconfirmed configuration, and schedules the next attempt.
    pub(super) fn way_back_failed(&mut self, e: &CliError) {
        let Some(waiting) = &mut self.unconfirmed else { return };
        (waiting.expired, waiting.deadline) = (false, Instant::now() + RETRY);
        let why = e.to_string();
        let times = waiting.failed.as_ref().map_or(0, |failed| failed.times);
        if waiting.failed.as_ref().is_none_or(|failed| failed.why != why) {
            tracing::error!(
                event = "config",
                "the unconfirmed configuration could not be rolled back: {why}; the router tries again every {}",
                in_words(RETRY)
            );
        }
        waiting.failed = Some(Failed { times: times + 1, why });
    }

    /// Returns the number of failed attempts to roll back the unconfirmed configuration, and the last error; 0 and
    /// an empty text if there are none.
    pub fn vain_ways_back(&self) -> (u64, &str) {
        let failed = self.unconfirmed.as_ref().and_then(|waiting| waiting.failed.as_ref());
        failed.map_or((0, ""), |failed| (failed.times, &failed.why))
    }

    /// Ends the wait for a confirmation.
    pub(super) fn forget_unconfirmed(&mut self) {
        self.unconfirmed = None;
        self.journal.hold(None);
    }
}

/// The lines of the configuration as YAML.
struct Yaml {
    writer: Writer,
    /// The store's version when the first line was shown.
    version: u64,
    begun: bool,
}

impl Rows<Context> for Yaml {
    type Row = String;

    fn next(&mut self, c: &Context, page: &mut Vec<String>) -> bool {
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            text = header(c.journal.generation());
        }
        let more = self.writer.page(c.store.tree(), &mut text);
        page.extend(text.lines().map(str::to_string));
        more
    }

    fn text(&mut self, page: &[String], out: &mut String) {
        page.iter().for_each(|line| out.extend([line, "\n"]));
    }

    fn end(&mut self, c: &Context, out: &mut String) {
        if c.store.version() != self.version {
            out.push_str(CHANGED);
        }
    }
}

fn header(generation: u64) -> String {
    format!(
        "# generation {generation} of a Volley router's configuration; docs/guide/configuration.md describes it\n"
    )
}

/// Formats a time in words.
pub(super) fn in_words(time: Duration) -> String {
    let (n, unit) = match time.as_secs() {
        n if n > 0 && n % 60 == 0 => (n / 60, "minute"),
        n => (n, "second"),
    };
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}

/// Returns the interfaces with a configured index.
pub(super) fn numbered(at: &Snapshot) -> BTreeSet<Key> {
    let interfaces = at.tree().range(Key::all::<Interface>());
    let numbered = interfaces.filter(|(_, v)| v.get::<Interface>().is_some_and(|i| i.index.is_some()));
    numbered.map(|(key, _)| key.clone()).collect()
}

/// Returns the changes of a plan as commands removed (-) and added (+), with warnings and the interfaces whose traffic
/// stops. `numbered` are the interfaces with a configured index.
pub(super) fn difference(plan: &Plan, numbered: &BTreeSet<Key>) -> String {
    let mut text = String::new();
    for Edit { key, old, new } in &plan.edits {
        text += &journal::difference(key, old.as_ref(), new.as_ref(), numbered.contains(key));
    }
    for Edit { key, new, .. } in &plan.edits {
        if let Some(new) = new {
            new.warnings(&mut |why| text += &format!("! {key}: {why}\n"));
        }
    }
    text += &warnings::unreachable_next_hops(plan);
    for name in recreated(plan) {
        text += &format!("! {name} is recreated: its traffic stops\n");
    }
    for name in reopened(plan) {
        text += &format!("! {name} is reopened: its traffic is interrupted\n");
    }
    text
}

fn apply(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let path: PathBuf = a.need("file")?;
    let dry_run = a.has("dry-run");
    let confirm = a.get::<String>("time").map(|word| {
        let (number, unit) = word.strip_suffix('s').map_or((&*word, 60), |number| (number, 1));
        let seconds = number.parse().ok().and_then(|n: u64| n.checked_mul(unit));
        let fault = || a.fault("time", "the time to confirm must be 1 to 1440 minutes, or 1s to 86400s");
        seconds.filter(|s| (1..=LONGEST).contains(s)).map(Duration::from_secs).ok_or_else(fault)
    });
    let confirm = confirm.transpose()?;
    if dry_run && confirm.is_some() {
        return Err(a.fault("confirm", "confirm cannot be combined with dry-run: nothing is applied"));
    }
    let terms = Terms { dry_run, confirm, expected: a.get("expected"), ..Terms::default() };
    Ok(Output::job(ForClient::new(Whole::file(path, terms, c)?, c)))
}

/// Reads a configuration file. The router can read files that its client cannot, so no error shows the content of a file that is not a
/// configuration.
///
/// # Errors
/// If the file cannot be read, or is not a configuration.
pub(super) fn load(path: &Path, catalog: &Catalog) -> Result<Wanted, CliError> {
    let file = path.display();
    let text = files::read(path).map_err(|e| CliError::new(format!("{file}: {e}")))?;
    let wanted = config::read(&text, &file.to_string(), catalog);
    if wanted.is_foreign() {
        return Err(CliError::new(format!(
            "{file}: not a configuration: it has no known section. Its content is not shown here: run volley check {file} for \
             details"
        )));
    }
    Ok(wanted)
}

/// Returns an error with all faults of a file.
pub(super) fn faulty(faults: &[Fault]) -> CliError {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    CliError::new(format!("{}\nno changes made: fix the errors above", lines.join("\n")))
}

fn save(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let path = match (a.get::<PathBuf>("file"), &c.startup_config) {
        (Some(path), _) => path,
        (None, Some(path)) => path.clone(),
        (None, None) => {
            let message = "the router was started without a startup-config: name the file to write";
            return Err(a.fault("save", message));
        }
    };
    if c.unconfirmed.is_some() {
        // A restart would apply a configuration that may be rolled back.
        let message =
            "the applied configuration is not confirmed: run config confirm or config rollback first";
        return Err(a.fault("save", message));
    }
    let form = if is_yaml(&path) { Form::Yaml(Writer::default()) } else { Form::Commands(None, false) };
    Ok(Output::job(Save { args: a.clone(), path, stage: Saving::Waiting(form) }))
}

/// The format of the file.
enum Form {
    Yaml(Writer),
    /// The key of the last object written, and whether the commands include the indices of interfaces.
    Commands(Option<Key>, bool),
}

enum Saving {
    /// The save waits until other long changes have ended.
    Waiting(Form),
    /// The configuration is appended to `text`. No other change is made meanwhile.
    Writing { form: Form, text: String, _turn: Turn },
    /// A thread writes the file, which may take long. The text is the name of the format. The thread returns true if the router starts from
    /// this file.
    Storing(&'static str, Option<JoinHandle<io::Result<bool>>>),
}

struct Save {
    args: Args,
    path: PathBuf,
    stage: Saving,
}

impl Save {
    fn failed(&self, e: impl Display) -> Step {
        let message = format!("{} was not written, and no file was changed: {e}", self.path.display());
        Step::Failed(self.args.fault("file", message))
    }
}

impl Job<Context> for Save {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        match &mut self.stage {
            Saving::Waiting(form) => {
                let Some(_turn) = c.changes.turn("config save") else { return Step::After(LOOK) };
                let form = match form {
                    Form::Yaml(_) => Form::Yaml(Writer::new(c.store.tree(), &c.system.abilities.catalog)),
                    Form::Commands(..) => Form::Commands(None, !in_order(c.store.tree())),
                };
                self.stage = Saving::Writing { form, text: header(c.journal.generation()), _turn };
                Step::Again
            }
            Saving::Writing { form, text, .. } => {
                let start = Instant::now();
                let mut more = true;
                while more && start.elapsed() < SLICE {
                    more = match form {
                        Form::Yaml(writer) => writer.page(c.store.tree(), text),
                        Form::Commands(last, indices) => {
                            let object = c.store.behind(last.as_ref()).next();
                            object
                                .iter()
                                .flat_map(|(k, v)| v.dump(k, *indices))
                                .for_each(|line| *text += &(line + "\n"));
                            *last = object.map(|(key, _)| key.clone());
                            last.is_some()
                        }
                    };
                }
                if more {
                    return Step::Again;
                }
                let form = if matches!(form, Form::Yaml(_)) { "YAML" } else { "commands" };
                let (path, text) = (self.path.clone(), std::mem::take(text));
                let start = c.startup_config.clone();
                let writer = thread::Builder::new().name("volley_config".into());
                let write = move || {
                    let to = path.clone();
                    for left in files::apart(move || write_whole(&to, &text))?? {
                        tracing::info!("removed {}, left by an interrupted save", left.display());
                    }
                    Ok(start.is_some_and(|start| files::same(&start, &path)))
                };
                match writer.spawn(write) {
                    Ok(writer) => self.stage = Saving::Storing(form, Some(writer)),
                    Err(e) => return self.failed(e),
                }
                Step::Again
            }
            Saving::Storing(form, writer) => {
                let form = *form;
                let is_start = match writer.take_if(|writer| writer.is_finished()).map(JoinHandle::join) {
                    None => return Step::After(LOOK),
                    Some(Ok(Ok(is_start))) => is_start,
                    Some(Ok(Err(e))) => return self.failed(e),
                    Some(Err(_)) => return self.failed("internal error: the writing thread died"),
                };
                *out += &format!("{} written, as {form}\n", self.path.display());
                c.start_is_stale &= !is_start;
                for i in c.system.router.interfaces().filter(|i| i.is_absent()) {
                    *out += &format!(
                        "! {} has no device: a router that starts from this file runs without it until the device appears\n",
                        i.name
                    );
                }
                Step::Done
            }
        }
    }
}

/// True if a file of this name is YAML.
pub fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "yaml" || e == "yml")
}

/// Prefix and suffix of the name of a file that is being written.
const BEGUN: (&str, &str) = (".volley-save-", ".tmp");

/// Removes the files that interrupted saves have left in a folder, and returns their paths. A running save locks its file, so its file
/// stays.
fn remove_left_behind(folder: &Path) -> Vec<PathBuf> {
    let mut gone = Vec::new();
    let begun = |name: &OsStr| name.to_str().is_some_and(|n| n.starts_with(BEGUN.0) && n.ends_with(BEGUN.1));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if begun(&entry.file_name()) && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let left = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if left && fs::remove_file(entry.path()).is_ok() {
                gone.push(entry.path());
            }
        }
    }
    gone
}

/// Replaces a file atomically: even after a crash or on a full disk, the file has either the old text or the new one. Also removes the
/// files that interrupted saves have left in the same folder, and returns their paths.
fn write_whole(path: &Path, text: &str) -> std::io::Result<Vec<PathBuf>> {
    // Replaces the target of a link, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let old = fs::metadata(&path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    let permissions = old.map_or(Permissions::from_mode(0o640), |old| old.permissions());
    let gone = remove_left_behind(folder);
    let mut new = tempfile::Builder::new().prefix(BEGUN.0).suffix(BEGUN.1).tempfile_in(folder)?;
    // The lock protects the file from other saves. If another save has removed it before, renaming it fails.
    new.as_file().lock()?;
    new.as_file().set_permissions(permissions)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(&path)?;
    File::open(folder)?.sync_all()?;
    Ok(gone)
}
