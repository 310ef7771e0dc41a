//! Saving the configuration in a file.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::work::{Go, LOOK, Report, SLICE, Turn, Work};
use super::{Context, Failure};
use crate::config::{Format, Writer};
use crate::files;
use crate::intent::{Key, in_order};
use crate::journal::Keeper;

/// Maximum time for which a save waits until the journal is on the disk.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the first line of a configuration of this generation.
pub(crate) fn header(generation: u64) -> String {
    format!(
        "# generation {generation} of a Volley router's configuration; docs/guide/configuration.md describes it\n"
    )
}

impl Context {
    /// Begins to save the configuration in `file`, in the [format](Format::of) of its name. The default is the file that the router starts
    /// from.
    ///
    /// # Errors
    /// If no file is named and the router was started without one, or if the applied configuration awaits confirmation.
    pub fn save(&self, file: Option<PathBuf>) -> Result<Save, Failure> {
        let Some(path) = file.or_else(|| self.startup_config.clone()) else {
            let why = "the router was started without a startup-config: name the file to write";
            return Err(Failure::from(why.to_string()));
        };
        must_be_confirmed(self)?;
        Ok(Save { path, stage: Saving::Waiting })
    }
}

/// Refuses to save a configuration that may be rolled back: a restart would apply it.
fn must_be_confirmed(c: &Context) -> Result<(), Failure> {
    match c.confirmation() {
        Some(_) => {
            let why =
                "the applied configuration is not confirmed: run config confirm or config rollback first";
            Err(Failure::from(why.to_string()))
        }
        None => Ok(()),
    }
}

/// The format in which the configuration is written, and the position of the writer.
enum Form {
    Document(Writer),
    /// The configuration is written as commands. The values are the key of the last object written, and true if the commands
    /// include the indices of interfaces.
    Commands(Option<Key>, bool),
}

enum Saving {
    /// The save waits until other long changes have ended.
    Waiting,
    /// The save appends the configuration to `text`. The configuration cannot change meanwhile.
    Writing { form: Form, text: String, _turn: Turn },
    /// A thread writes the file, which may take long. The thread returns true if the router starts from this file. `queued` is the number
    /// of journal entries before the save.
    Storing { writer: Option<JoinHandle<io::Result<bool>>>, queued: u64 },
    /// The configuration file is on the disk. The save waits until the journal is on the disk, too, but at most until `until`. If the
    /// router crashed before that, the journal could lack the last of the saved changes. Then a rollback of one change would undo an older
    /// change.
    Journal { queued: u64, until: Instant },
}

/// A running save.
pub struct Save {
    path: PathBuf,
    stage: Saving,
}

impl Save {
    fn failed(&self, e: impl Display) -> Failure {
        format!("{} was not written, and no file was changed: {e}", self.path.display()).into()
    }

    /// Starts the thread that writes the file.
    fn store(&self, c: &Context, text: String) -> io::Result<JoinHandle<io::Result<bool>>> {
        let (path, start) = (self.path.clone(), c.startup_config.clone());
        let write = move || {
            let to = path.clone();
            for left in files::apart(move || write_whole(&to, &text))?? {
                tracing::info!("removed {}, left by an interrupted save", left.display());
            }
            Ok(start.is_some_and(|start| files::same(&start, &path)))
        };
        thread::Builder::new().name("volley_config".into()).spawn(write)
    }
}

impl Work for Save {
    fn step(&mut self, c: &mut Context, reports: &mut Vec<Report>) -> Result<Go, Failure> {
        match &mut self.stage {
            Saving::Waiting => {
                let Some(_turn) = c.changes.turn("config save") else { return Ok(Go::After(LOOK)) };
                // While the save waited, a configuration may have been applied.
                must_be_confirmed(c)?;
                let document = || Writer::new(c.store.tree(), &c.system.abilities.catalog);
                let heading = || header(c.journal.generation());
                let (form, text) = match Format::of(&self.path) {
                    Format::Commands => (Form::Commands(None, !in_order(c.store.tree())), heading()),
                    Format::Yaml => (Form::Document(document()), heading()),
                    // JSON has no comments.
                    Format::Json => (Form::Document(document().in_json()), String::new()),
                };
                self.stage = Saving::Writing { form, text, _turn };
                Ok(Go::Again)
            }
            Saving::Writing { form, text, .. } => {
                if form.write(c, text) {
                    return Ok(Go::Again);
                }
                let text = std::mem::take(text);
                let writer = self.store(c, text).map_err(|e| self.failed(e))?;
                let queued = c.keeper.as_ref().map_or(0, Keeper::queued);
                self.stage = Saving::Storing { writer: Some(writer), queued };
                Ok(Go::Again)
            }
            Saving::Storing { writer, queued } => {
                let queued = *queued;
                let is_start = match writer.take_if(|writer| writer.is_finished()).map(JoinHandle::join) {
                    None => return Ok(Go::After(LOOK)),
                    Some(Ok(Ok(is_start))) => is_start,
                    Some(Ok(Err(e))) => return Err(self.failed(e)),
                    Some(Err(_)) => return Err(self.failed("internal error: the writing thread died")),
                };
                c.start_is_stale &= !is_start;
                self.stage = Saving::Journal { queued, until: Instant::now() + PATIENCE };
                Ok(Go::Again)
            }
            Saving::Journal { queued, until } => {
                let waits = c.keeper.as_ref().is_some_and(|keeper| !keeper.has_written(*queued));
                if waits && Instant::now() < *until {
                    return Ok(Go::After(LOOK));
                }
                let trouble = c.keeper.as_ref().and_then(Keeper::fails);
                let slow =
                    waits.then(|| "the last changes are not in the journal yet: the disk is slow".into());
                reports.push(Report::Saved { file: self.path.clone(), format: Format::of(&self.path) });
                reports.extend(trouble.or(slow).map(Report::Warning));
                let absent = c.system.router.interfaces().filter(|i| i.is_absent());
                reports.extend(absent.map(|i| {
                    Report::Warning(format!(
                        "{} has no device: a router that starts from this file runs without it until the device appears",
                        i.name
                    ))
                }));
                Ok(Go::Done)
            }
        }
    }

    fn cut_off(&mut self) -> bool {
        // A thread that writes the file ends by itself.
        false
    }
}

impl Form {
    /// Appends the next part of the configuration to `text`, for the time of one slice. Returns true if more is left.
    fn write(&mut self, c: &Context, text: &mut String) -> bool {
        let start = Instant::now();
        let mut more = true;
        while more && start.elapsed() < SLICE {
            more = match self {
                Form::Document(writer) => writer.page(c.store.tree(), text),
                Form::Commands(last, indices) => {
                    let object = c.store.behind(last.as_ref()).next();
                    let lines = object.iter().flat_map(|(k, v)| v.dump(k, *indices));
                    lines.for_each(|line| *text += &(line + "\n"));
                    *last = object.map(|(key, _)| key.clone());
                    last.is_some()
                }
            };
        }
        more
    }
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
    // The lock protects the file from other saves. If another save removed the file before it was locked, renaming it fails.
    new.as_file().lock()?;
    new.as_file().set_permissions(permissions)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(&path)?;
    File::open(folder)?.sync_all()?;
    Ok(gone)
}
