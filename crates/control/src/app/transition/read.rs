//! Reading the file of a wanted configuration, on a thread of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drivers::Patience;

use crate::app::{Context, Failure, FileThread, Report, Terms, Transition};
use crate::config::{self, Doubt, Wanted};
use crate::files;
use crate::intent::Tree;
use crate::startup::Fault;
use crate::system::{Abilities, Catalog};

/// A document that a separate thread reads.
pub struct Reading {
    /// Its file; `None` if a client has sent it.
    file: Option<PathBuf>,
    thread: FileThread<Wanted>,
}

/// The name of a document that a client has sent, for messages.
const SENT: &str = "the document";

impl Reading {
    /// Begins to read a file with this patience.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn begin(path: PathBuf, patience: Patience, catalog: Arc<Catalog>) -> Result<Reading, Failure> {
        let file = path.clone();
        let thread = FileThread::with(patience, move |patience| load(&file, patience, &catalog))?;
        Ok(Reading { file: Some(path), thread })
    }

    /// Begins to read a document that a client has sent.
    ///
    /// # Errors
    /// If the thread cannot be started.
    fn of(document: impl AsRef<[u8]> + Send + 'static, catalog: Arc<Catalog>) -> Result<Reading, Failure> {
        let read = move |_: &Patience| {
            let bytes = document.as_ref();
            let _memory = files::Parsing::of(bytes.len() as u64)
                .map_err(|e| Failure::from(format!("{SENT} is too large: {e}")))?;
            let text = std::str::from_utf8(bytes)
                .map_err(|e| Failure::from(format!("{SENT} is not UTF-8 text: byte {}", e.valid_up_to())))?;
            Ok(config::read(text, SENT, &catalog))
        };
        Ok(Reading { file: None, thread: FileThread::begin(read)? })
    }

    /// Checks the file on another thread, once it has been read. `start` is the file that the router starts from.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn checked(
        self,
        terms: Terms,
        abilities: Arc<Abilities>,
        start: Option<PathBuf>,
    ) -> Result<FileThread<Read>, Failure> {
        let Reading { file, thread } = self;
        thread.then(move |mut wanted, patience| {
            let start = match start.zip(file) {
                Some((start, file)) => files::same(&start, &file, patience)
                    .map_err(|e| Failure::from(format!("{}: {e}", file.display())))?,
                None => false,
            };
            let doubts = wanted.take_doubts();
            let faults = wanted.faults(&abilities);
            Ok(Read { wanted, terms: Terms { start, ..terms }, faults, doubts })
        })
    }
}

impl Context {
    /// Begins to apply a document that a client has sent.
    ///
    /// # Errors
    /// If the thread to read the document cannot be started.
    pub fn apply_sent(
        &self,
        document: impl AsRef<[u8]> + Send + 'static,
        terms: Terms,
    ) -> Result<Transition, Failure> {
        self.apply_read(Reading::of(document, self.system.abilities.catalog.clone())?, terms)
    }
}

/// Reads a configuration file. The router can read files that its client cannot, so no error shows the content of a file that is not a
/// configuration.
///
/// # Errors
/// If the file cannot be read, or is not a configuration.
fn load(path: &Path, patience: &Patience, catalog: &Catalog) -> Result<Wanted, Failure> {
    let file = path.display();
    let text = files::read(path, patience).map_err(|e| format!("{file}: {e}"))?;
    let wanted = config::read(&text, &file.to_string(), catalog);
    if wanted.is_foreign() {
        return Err(Failure::from(format!(
            "{file}: not a configuration: it has no known section. Its content is not shown here: run volley check {file} for \
             details"
        )));
    }
    Ok(wanted)
}

/// A document that was read and checked.
pub(super) struct Read {
    wanted: Wanted,
    terms: Terms,
    faults: Vec<Fault>,
    /// Violations of rules that hold for files, but not for commands.
    doubts: Vec<(Fault, Doubt)>,
}

impl Read {
    /// Returns the configuration of the file. Some rules hold for files, but not for commands. If the `running` configuration
    /// breaks such a rule in the same way as the file, the fault is only a warning: a router must accept its own configuration as a
    /// file. When the router starts, such a fault is always only a warning.
    ///
    /// # Errors
    /// If the file has other faults.
    pub(super) fn settled(
        self,
        running: &Tree,
        reports: &mut Vec<Report>,
    ) -> Result<(Wanted, Terms), Failure> {
        let Read { wanted, terms, mut faults, doubts } = self;
        for (broken, doubt) in doubts {
            match terms.quiet {
                true => tracing::warn!("{broken}"),
                false if doubt.is_in(running) => reports.push(Report::Warning(broken.to_string())),
                false => faults.push(broken),
            }
        }
        faults.sort_by(|a, b| a.place.cmp(&b.place));
        if faults.is_empty() { Ok((wanted, terms)) } else { Err(Failure::Faults(faults)) }
    }
}
