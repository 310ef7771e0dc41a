//! Saving the configuration in a file.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use drivers::Patience;

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
        let journal = c.keeper.as_ref().map(|keeper| keeper.path().to_owned());
        let place = files::Place::to_write()?;
        let write = move || {
            let _place = place;
            let is = |other: Option<PathBuf>| {
                other.map_or(Ok(false), |other| files::same(&other, &path, &Patience::without_end()))
            };
            if is(journal)? {
                return Err(io::Error::other("it is the router's journal: use another name"));
            }
            let to = path.clone();
            for left in files::apart(move || files::replace(&to, &text))?? {
                tracing::info!("removed {}, left by an interrupted save", left.display());
            }
            is(start)
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
