//! The configuration as a whole: shown, applied, taken back, saved.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use super::{Context, Output};
use crate::cli::{Args, CliError, Job, Registry, Step, Table};
use crate::config::{self, Wanted};
use crate::intent::{Change, Store, dump, key_name};
use crate::startup::Fault;

/// How often a file that is being read is asked for.
const LOOK: Duration = Duration::from_millis(2);
/// The longest time to wait for a confirmation.
const LONGEST: u32 = 24 * 60;

/// The largest file that is read, in bytes: some millions of routes.
const LARGEST: u64 = 512 << 20;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show config yaml", "Show the configuration as a file for \"config apply\".", |c, _| {
        Ok(Output::text(header(c.journal.generation()) + &config::write(c.store.tree())))
    });
    r.add("show config history", "Show the changes that can be taken back, the newest first.", history);
    r.add(
        "config apply <file:path> [dry-run] [confirm <minutes:u32>] [generation <expected:u64>]",
        "Make the configuration what a YAML file says, all or nothing. With \"dry-run\" only show what would change; \
         with \"confirm\" take it back after these minutes unless \"config confirm\" is said; with \"generation\" only \
         if nobody has changed anything since.",
        apply,
    );
    r.add("config confirm", "Keep the configuration that was applied with \"confirm\".", |c, _| {
        let waiting = c.unconfirmed.take();
        c.journal.hold(None);
        match waiting {
            Some(_) => {
                tracing::info!(event = "config", "the configuration is confirmed");
                Ok(Output::text("confirmed"))
            }
            None => Err(CliError::new("nothing waits for a confirmation")),
        }
    });
    r.add(
        "config rollback [<n:u32>]",
        "Take back the last change of the configuration, or the last n; this is a change, too.",
        rollback,
    );
    r.add(
        "config save <file:path>",
        "Write the configuration to a file: YAML if its name ends in .yaml or .yml, otherwise commands.",
        save,
    );
}

/// An applied configuration that waits to be confirmed.
#[derive(Clone, Copy, Debug)]
pub struct Unconfirmed {
    /// What it goes back to.
    generation: u64,
    deadline: Instant,
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
        let Some(waiting) = self.unconfirmed.filter(|w| Instant::now() >= w.deadline) else { return };
        tracing::warn!(
            event = "config",
            "nobody confirmed the configuration in time: going back to generation {}",
            waiting.generation
        );
        if let Err(e) = self.back_to(waiting.generation) {
            tracing::error!(event = "config", "going back to generation {}: {e}", waiting.generation);
            // Tried once: what is refused now is refused in a second, too.
            self.unconfirmed = None;
            self.journal.hold(None);
        }
    }

    /// Makes the configuration what it was, and says what changed.
    fn back_to(&mut self, generation: u64) -> Result<Vec<Change>, CliError> {
        let back = self.journal.back_to(generation);
        let mut back =
            back.ok_or_else(|| CliError::new("the changes since then are no longer remembered"))?;
        // What changed in between may be as it was again.
        back.retain(|change| self.store.get(&change.key) != change.value.as_ref());
        self.transact(back.clone())?;
        // What goes back less far leaves the applied configuration to be confirmed.
        if self.unconfirmed.is_some_and(|waiting| generation <= waiting.generation) {
            self.unconfirmed = None;
            self.journal.hold(None);
        }
        Ok(back)
    }
}

fn header(generation: u64) -> String {
    format!(
        "# generation {generation} of a Volley router's configuration; docs/configuration.md describes it\n"
    )
}

/// Changes as an operator reads them: the commands that go, and those that come. `store` is what there is before.
fn difference(store: &Store, changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        let of = |value: Option<&_>| value.map(|v| dump(&change.key, v)).unwrap_or_default();
        let (old, new) = (of(store.get(&change.key)), of(change.value.as_ref()));
        old.iter().filter(|line| !new.contains(line)).for_each(|line| text += &format!("- {line}\n"));
        new.iter().filter(|line| !old.contains(line)).for_each(|line| text += &format!("+ {line}\n"));
        if old == new || old.iter().all(|l| new.contains(l)) && new.iter().all(|l| old.contains(l)) {
            text += &format!("~ the order of {}\n", key_name(&change.key));
        }
    }
    text
}

fn apply(_: &mut Context, a: &Args) -> Result<Output, CliError> {
    let path: PathBuf = a.need("file")?;
    let minutes = a.get::<u32>("minutes");
    if minutes.is_some_and(|m| !(1..=LONGEST).contains(&m)) {
        return Err(a.fault("minutes", format!("a confirmation is waited for 1 to {LONGEST} minutes")));
    }
    // Reading a large file takes its time, which is not the router's.
    let reader = std::thread::Builder::new().name("volley_config".into()).spawn(move || load(&path));
    let reader =
        reader.map_err(|e| CliError::new(format!("no thread can be started to read the file: {e}")))?;
    let terms = Terms { dry_run: a.has("dry-run"), minutes, expected: a.get("expected") };
    Ok(Output::job(Apply { reader: Some(reader), terms }))
}

/// Reads a file; for [`daemon`](crate::daemon) too.
///
/// # Errors
/// That it cannot be read, or everything that is wrong with its form.
pub fn load(path: &Path) -> Result<Wanted, CliError> {
    let failed = |e: &dyn std::fmt::Display| CliError::new(format!("{}: {e}", path.display()));
    // Asked before it is opened: who opens a pipe waits for its other end.
    let about = fs::metadata(path).map_err(|e| failed(&e))?;
    if !about.is_file() {
        return Err(failed(&"it is no ordinary file"));
    }
    if about.len() > LARGEST {
        return Err(failed(&format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    let text = fs::read_to_string(path).map_err(|e| failed(&e))?;
    config::read(&text, &path.display().to_string()).map_err(|faults| faulty(&faults))
}

fn faulty(faults: &[Fault]) -> CliError {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    CliError::new(format!("{}\nnothing was changed: mend the file first", lines.join("\n")))
}

/// On what terms a configuration is applied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// Only say what would change.
    dry_run: bool,
    /// Take it back after so many minutes, unless it is confirmed.
    minutes: Option<u32>,
    /// Only if the configuration is still of this generation.
    expected: Option<u64>,
}

struct Apply {
    reader: Option<JoinHandle<Result<Wanted, CliError>>>,
    terms: Terms,
}

impl Job<Context> for Apply {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        if self.reader.as_ref().is_some_and(|r| !r.is_finished()) {
            return Step::After(LOOK);
        }
        let Some(read) = self.reader.take().map(JoinHandle::join) else { return Step::Done };
        let read = read.unwrap_or_else(|_| Err(CliError::new("the file could not be read to its end")));
        match read.and_then(|wanted| apply_wanted(c, &wanted, self.terms)) {
            Ok(text) => {
                *out += &text;
                Step::Done
            }
            Err(e) => Step::Failed(e),
        }
    }
}

/// Makes the configuration what is wanted, on these terms; says what changed, or would.
///
/// # Errors
/// Every fault with its place, or why it was refused; nothing has changed then.
pub fn apply_wanted(c: &mut Context, wanted: &Wanted, terms: Terms) -> Result<String, CliError> {
    let Terms { dry_run, minutes, expected } = terms;
    let before = c.journal.generation();
    if let Some(expected) = expected.filter(|e| *e != before) {
        return Err(CliError::new(format!(
            "the configuration is of generation {before}, not {expected}: somebody has changed it (show config history)"
        )));
    }
    if c.unconfirmed.is_some() && !dry_run {
        return Err(CliError::new(
            "the last one that was applied waits to be confirmed: config confirm, or config rollback",
        ));
    }
    let faults = wanted.faults(&c.system);
    if !faults.is_empty() {
        return Err(faulty(&faults));
    }
    let changes = c.store.diff(&wanted.tree);
    let text = difference(&c.store, &changes);
    if dry_run {
        return Ok(if text.is_empty() { "nothing would change\n".into() } else { text });
    }
    if changes.is_empty() {
        return Ok("nothing has changed\n".into());
    }
    // However much it changes, the way back must be remembered.
    c.journal.hold(minutes.map(|_| before));
    let done = c.transact(changes);
    if let Err(e) = &done {
        tracing::warn!(event = "config", "a configuration was refused: {e}");
    }
    let Some(minutes) = minutes.filter(|_| done.is_ok()) else {
        c.journal.hold(None);
        return done.map(|()| {
            tracing::info!(event = "config", "a configuration was applied");
            text
        });
    };
    tracing::info!(
        event = "config",
        "a configuration was applied that goes back to generation {before} in {minutes} minutes unless confirmed"
    );
    let deadline = Instant::now() + Duration::from_secs(60 * u64::from(minutes));
    c.unconfirmed = Some(Unconfirmed { generation: before, deadline });
    Ok(format!("{text}goes back in {minutes} minutes unless confirmed: config confirm\n"))
}

fn rollback(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let n = match (a.get::<u32>("n"), c.unconfirmed) {
        (Some(n), _) => u64::from(n),
        // What waits to be confirmed is what an operator means who says no number.
        (None, Some(waiting)) => c.journal.generation() - waiting.generation,
        (None, None) => 1,
    };
    let there = c.journal.entries().count() as u64;
    if n == 0 || n > there {
        let message = match there {
            0 => "no change is remembered".into(),
            _ => format!("the last 1 to {there} changes can be taken back"),
        };
        return Err(a.fault("n", message));
    }
    let generation = c.journal.generation() - n;
    let back = c.journal.back_to(generation).unwrap_or_default();
    let text = difference(&c.store, &back);
    c.back_to(generation)?;
    tracing::info!(event = "config", "rolled back to what generation {generation} was");
    Ok(Output::text(text))
}

#[derive(Serialize)]
struct Past {
    back: usize,
    generation: u64,
    unix_seconds: u64,
    changed: String,
}

fn history(c: &mut Context, _: &Args) -> Result<Output, CliError> {
    let mut t = Table::new(&["Back", "Generation", "Age", "Changed"]);
    let mut all = Vec::new();
    for (n, e) in c.journal.entries().enumerate() {
        let since = e.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let age = e.time.elapsed().unwrap_or_default().as_secs();
        t.row(vec![(n + 1).to_string(), e.generation.to_string(), format!("{age} s"), e.what()]);
        all.push(Past {
            back: n + 1,
            generation: e.generation,
            unix_seconds: since.as_secs(),
            changed: e.what(),
        });
    }
    let mut text = t.to_string();
    if let Some(waiting) = c.unconfirmed {
        let left = waiting.deadline.saturating_duration_since(Instant::now()).as_secs();
        text += &format!("goes back to generation {} in {left} s unless confirmed\n", waiting.generation);
    }
    Ok(Output::show(&all, text))
}

fn save(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let path: PathBuf = a.need("file")?;
    let yaml = is_yaml(&path);
    let text = match yaml {
        true => config::write(c.store.tree()),
        false => c.store.iter().flat_map(|(k, v)| dump(k, v)).map(|line| line + "\n").collect(),
    };
    let text = header(c.journal.generation()) + &text;
    write_whole(&path, &text)
        .map_err(|e| a.fault("file", format!("{} was not written, and is as it was: {e}", path.display())))?;
    let form = if yaml { "YAML" } else { "commands" };
    Ok(Output::text(format!("{} written, as {form}", path.display())))
}

/// Whether a file of this name is YAML.
pub fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "yaml" || e == "yml")
}

/// Writes a file so that whoever reads its name finds the old text or the new one, also after a crash or on a full disk.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    // What a link points to is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = fs::metadata(&path).map_or(Permissions::from_mode(0o640), |old| old.permissions());
    let mut new = tempfile::Builder::new().prefix(".volley-").tempfile_in(folder)?;
    new.as_file().set_permissions(permissions)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(&path)?;
    File::open(folder)?.sync_all()
}
