//! The configuration as a whole: shown, applied, taken back, saved.

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
use crate::intent::{Catalog, Edit, Interface, Key, Plan, Snapshot, in_order, made_anew, opened_anew};
use crate::journal;
use crate::startup::Fault;

/// What stands below a configuration that changed while it was shown.
pub(super) const CHANGED: &str =
    "# it has changed while it was shown: this is not the configuration of any one moment\n";

/// How often what is done on another thread is asked for.
pub(super) const LOOK: Duration = Duration::from_millis(2);
/// The longest time to wait for a confirmation, in seconds.
const LONGEST: u64 = 24 * 3600;
/// How often it is tried to take back what nobody has confirmed.
const RETRY: Duration = Duration::from_secs(5);

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show config yaml", "Show the configuration as a file for \"config apply\".", |c, a| {
        let writer = Writer::new(c.store.tree(), &c.system.abilities.catalog);
        let writer = if a.call().read_only { writer.hiding_secrets() } else { writer };
        let yaml = Yaml { writer, version: c.store.version(), begun: false };
        Ok(Output::rows(yaml, a.json()))
    });
    r.add(
        "config apply <file:path> [dry-run] [confirm <time:word>] [generation <expected:u64>]",
        "Make the configuration what a YAML file says, all or nothing. With \"dry-run\" only show what would change; \
         with \"confirm\" take it back after so many minutes (or seconds, as in \"90s\") unless \"config confirm\" is said; \
         with \"generation\" only if nobody has changed anything since.",
        apply,
    );
    r.add("config confirm", "Keep the configuration that was applied with \"confirm\".", |c, _| {
        match &c.unconfirmed {
            Some(waiting) if waiting.expired => Err(CliError::new("it is too late: it goes back")),
            Some(_) => {
                c.forget_unconfirmed();
                tracing::info!(event = "config", "the configuration is confirmed");
                Ok(Output::text("confirmed"))
            }
            None => Err(CliError::new("nothing waits for a confirmation")),
        }
    });
    r.add(
        "config save [<file:path>]",
        "Write the configuration to a file: YAML if its name ends in .yaml or .yml, otherwise commands. Without a file, to \
         the one that the router was started with (startup-config).",
        save,
    );
}

/// An applied configuration that waits to be confirmed.
#[derive(Debug)]
pub struct Unconfirmed {
    /// What it goes back to.
    pub(super) generation: u64,
    /// It is what the router starts from.
    pub(super) start: bool,
    /// When it goes back, or when that is tried again.
    deadline: Instant,
    /// It is on its way back.
    expired: bool,
    /// It did not get there.
    pub(super) failed: Option<Failed>,
}

/// How it was on the way back.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) times: u64,
    /// What was wrong the last time.
    pub(super) why: String,
}

impl Unconfirmed {
    /// It goes back to this generation in this time.
    pub(super) fn new(generation: u64, time: Duration, start: bool) -> Unconfirmed {
        Unconfirmed { generation, start, deadline: Instant::now() + time, expired: false, failed: None }
    }

    /// Seconds until it goes back, or until that is tried again.
    pub(super) fn left(&self) -> u64 {
        self.deadline.saturating_duration_since(Instant::now()).as_secs()
    }
}

#[cfg(test)]
impl Unconfirmed {
    /// The time is over.
    pub(super) fn expire(&mut self) {
        self.deadline = Instant::now();
    }
}

impl Context {
    /// Takes back what nobody has confirmed in time. Called now and then.
    pub fn look_at_confirmation(&mut self) {
        let due = |w: &&mut Unconfirmed| !w.expired && Instant::now() >= w.deadline;
        let Some(waiting) = self.unconfirmed.as_mut().filter(due) else { return };
        waiting.expired = true;
        let generation = waiting.generation;
        if waiting.failed.is_none() {
            tracing::warn!(
                event = "config",
                "nobody confirmed the configuration in time: going back to generation {generation}"
            );
        }
        let origin = Origin::new(FrontEnd::Router, Peer::Own, "nobody confirmed it in time");
        let back = Whole::back_to(generation, false, origin).unasked();
        self.abandoned.borrow_mut().push_back(Box::new(back));
    }

    /// Whether what nobody has confirmed goes back to this generation.
    pub(super) fn goes_back_to(&self, generation: u64) -> bool {
        self.unconfirmed.as_ref().is_some_and(|w| w.expired && w.generation == generation)
    }

    /// What nobody has confirmed could not be taken back: that is tried again.
    pub(super) fn way_back_failed(&mut self, e: &CliError) {
        let Some(waiting) = &mut self.unconfirmed else { return };
        (waiting.expired, waiting.deadline) = (false, Instant::now() + RETRY);
        let why = e.to_string();
        let times = waiting.failed.as_ref().map_or(0, |failed| failed.times);
        if waiting.failed.as_ref().is_none_or(|failed| failed.why != why) {
            tracing::error!(
                event = "config",
                "the configuration that nobody confirmed could not be taken back, which is tried again every {}: {why}",
                in_words(RETRY)
            );
        }
        waiting.failed = Some(Failed { times: times + 1, why });
    }

    /// How often it was tried in vain to take back what nobody confirmed, and what was wrong the last time; 0 and nothing if
    /// all is well.
    pub fn vain_ways_back(&self) -> (u64, &str) {
        let failed = self.unconfirmed.as_ref().and_then(|waiting| waiting.failed.as_ref());
        failed.map_or((0, ""), |failed| (failed.times, &failed.why))
    }

    /// Nothing waits to be confirmed any more.
    pub(super) fn forget_unconfirmed(&mut self) {
        self.unconfirmed = None;
        self.journal.hold(None);
    }
}

/// The configuration as YAML, by lines.
struct Yaml {
    writer: Writer,
    /// Of the store, when the first line was shown.
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

/// A time in words.
pub(super) fn in_words(time: Duration) -> String {
    let (n, unit) = match time.as_secs() {
        n if n > 0 && n % 60 == 0 => (n / 60, "minute"),
        n => (n, "second"),
    };
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}

/// The interfaces that have an index.
pub(super) fn numbered(at: &Snapshot) -> BTreeSet<Key> {
    let interfaces = at.tree().range(Key::all::<Interface>());
    let numbered = interfaces.filter(|(_, v)| v.get::<Interface>().is_some_and(|i| i.index.is_some()));
    numbered.map(|(key, _)| key.clone()).collect()
}

/// Changes as an operator reads them: the commands that go, those that come, warnings, and the interfaces whose traffic stops for it.
/// `numbered` are the interfaces whose index was asked for.
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
    for name in made_anew(plan) {
        text += &format!("! {name} is made anew: its traffic stops\n");
    }
    for name in opened_anew(plan) {
        text += &format!("! {name} is opened anew: its traffic stands still meanwhile\n");
    }
    text
}

fn apply(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let path: PathBuf = a.need("file")?;
    let dry_run = a.has("dry-run");
    let confirm = a.get::<String>("time").map(|word| {
        let (number, unit) = word.strip_suffix('s').map_or((&*word, 60), |number| (number, 1));
        let seconds = number.parse().ok().and_then(|n: u64| n.checked_mul(unit));
        let fault = || {
            a.fault("time", "a confirmation is waited for 1 to 1440 minutes, or 1s to 86400s, as in \"90s\"")
        };
        seconds.filter(|s| (1..=LONGEST).contains(s)).map(Duration::from_secs).ok_or_else(fault)
    });
    let confirm = confirm.transpose()?;
    if dry_run && confirm.is_some() {
        return Err(a.fault("confirm", "with dry-run nothing is applied, so nothing waits to be confirmed"));
    }
    let terms = Terms { dry_run, confirm, expected: a.get("expected"), ..Terms::default() };
    Ok(Output::job(ForClient::new(Whole::file(path, terms, c)?, c)))
}

/// Reads a file. This process can read files that its client cannot: of one that is no configuration, nothing is shown.
///
/// # Errors
/// That it cannot be read, or is no configuration.
pub(super) fn load(path: &Path, catalog: &Catalog) -> Result<Wanted, CliError> {
    let file = path.display();
    let text = files::read(path).map_err(|e| CliError::new(format!("{file}: {e}")))?;
    let wanted = config::read(&text, &file.to_string(), catalog);
    if wanted.is_foreign() {
        return Err(CliError::new(format!(
            "{file}: this is no configuration: it has none of the sections of one. Nothing of it is shown: volley check {file} \
             shows what is wrong with it"
        )));
    }
    Ok(wanted)
}

/// Everything that is wrong with a file.
pub(super) fn faulty(faults: &[Fault]) -> CliError {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    CliError::new(format!("{}\nnothing was changed: mend the file first", lines.join("\n")))
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
        // A restart would bring back what goes back by itself.
        let message = "what was applied last waits to be confirmed, or goes back: first config confirm, or config rollback";
        return Err(a.fault("save", message));
    }
    let form = if is_yaml(&path) { Form::Yaml(Writer::default()) } else { Form::Commands(None, false) };
    Ok(Output::job(Save { args: a.clone(), path, stage: Saving::Waiting(form) }))
}

/// What is written.
enum Form {
    Yaml(Writer),
    /// The last object that is written, and whether indices are.
    Commands(Option<Key>, bool),
}

enum Saving {
    /// Until nothing is being changed that takes long.
    Waiting(Form),
    /// Nothing is changed meanwhile.
    Writing { form: Form, text: String, _turn: Turn },
    /// To bring it to the disk may take long. Returns whether it is the file that the router starts from.
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
                        tracing::info!("{} is removed: a save that did not end left it", left.display());
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
                    Some(Err(_)) => return self.failed("it could not be written to its end"),
                };
                *out += &format!("{} written, as {form}\n", self.path.display());
                c.start_is_stale &= !is_start;
                for i in c.system.router.interfaces().filter(|i| i.is_absent()) {
                    *out += &format!(
                        "! {} is without its device: a router that starts from this file waits for that\n",
                        i.name
                    );
                }
                Step::Done
            }
        }
    }
}

/// Whether a file of this name is YAML.
pub fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "yaml" || e == "yml")
}

/// How the names of files that are being written begin and end.
const BEGUN: (&str, &str) = (".volley-save-", ".tmp");

/// Removes what saves that were killed have left in a folder: files that nobody has locked. Gives what was removed.
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

/// Writes a file so that whoever reads its name finds the old text or the new one, also after a crash or on a full disk. Gives
/// what saves that were killed had left, which is removed.
fn write_whole(path: &Path, text: &str) -> std::io::Result<Vec<PathBuf>> {
    // What a link points to is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let old = fs::metadata(&path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    let permissions = old.map_or(Permissions::from_mode(0o640), |old| old.permissions());
    let gone = remove_left_behind(folder);
    let mut new = tempfile::Builder::new().prefix(BEGUN.0).suffix(BEGUN.1).tempfile_in(folder)?;
    // It is somebody's who has it locked. Should it have been taken for left behind in between, to give it its name fails.
    new.as_file().lock()?;
    new.as_file().set_permissions(permissions)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(&path)?;
    File::open(folder)?.sync_all()?;
    Ok(gone)
}
