//! The configuration as a document: reading it, replacing it, patching it, confirming it, and rolling it back. For all protocols.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use model::yaml::pointers;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use super::body::{Cut, PIECE};
use super::client::Client;
use super::patch::{Form, patched};
use super::problem::{Problem, bad};
use super::upload::Document;
use crate::app::{Context, Failure, LOOK, Report, SLICE, Terms, Transition, joined, on_a_thread};
use crate::config::Writer;

/// Maximum length of a document, in bytes. A million routes have about 60 MB.
pub(super) const LONGEST: usize = 256 << 20;
/// Maximum length of a patch, in bytes. It is parsed as a whole.
pub(super) const LONGEST_PATCH: usize = 4 << 20;
/// Maximum length of a configuration that is patched, in bytes. It is parsed as a whole, too.
const LONGEST_PATCHED: usize = 16 << 20;
/// Maximum length of the difference in an answer, in bytes.
const LONGEST_DIFFERENCE: usize = 1 << 20;
/// The longest time to wait for a confirmation, in seconds.
const LONGEST_WAIT: u64 = 24 * 3600;
/// How often a patch is tried when other clients change the configuration meanwhile.
const TRIES: usize = 5;

/// The result of a change, for its client.
#[derive(Default, Serialize)]
pub(super) struct Changed {
    /// The generation of the configuration after the change: the number of the last entry in the journal.
    pub(super) generation: u64,
    /// False if the configuration already was as wanted, and after a dry run or a confirmation.
    pub(super) changed: bool,
    /// The commands that the change removes (`- `) and adds (`+ `).
    pub(super) difference: Vec<String>,
    /// True if the difference is longer than what is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_cut: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
    /// The seconds after which the change is rolled back unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rolls_back_in: Option<u64>,
    /// Length of the difference, in bytes.
    #[serde(skip)]
    bytes: usize,
}

impl Changed {
    fn add(&mut self, report: Report) {
        match report {
            Report::Difference(text) => {
                for line in text.lines() {
                    self.is_cut |= self.bytes + line.len() > LONGEST_DIFFERENCE;
                    if !self.is_cut {
                        self.bytes += line.len();
                        self.difference.push(line.to_owned());
                    }
                }
            }
            Report::Warning(why) => self.warnings.push(why),
            Report::Note(what) => self.notes.push(what),
            Report::AwaitsConfirmation(time) => self.rolls_back_in = Some(time.as_secs()),
            Report::Arrived { generation, changed } => {
                (self.generation, self.changed) = (generation, changed)
            }
            Report::Progress { .. } | Report::Unchanged | Report::WouldNotChange | Report::Saved { .. } => {}
        }
    }
}

/// Returns a writer of the configuration for a client. It hides secrets unless the client is an admin.
fn writer(c: &Context, client: &Client) -> Writer {
    let writer = Writer::new(c.store.tree(), &c.system.abilities.catalog);
    if client.identity.role.is_admin() { writer } else { writer.hiding_secrets() }
}

/// Appends pages of the configuration to `text`, until the time of a slice has passed, or the text is long enough for a piece of an answer.
/// Returns true if there is more.
///
/// # Errors
/// If the configuration no longer has this version: the text would mix two versions.
fn page(c: &Context, version: u64, writer: &mut Writer, text: &mut String) -> Result<bool, Cut> {
    if c.store.version() != version {
        return Err(Cut("the configuration changed while the client read it".into()));
    }
    let begun = Instant::now();
    let mut more = true;
    while more && text.len() < PIECE && begun.elapsed() < SLICE {
        more = writer.page(c.store.tree(), text);
    }
    Ok(more)
}

/// The configuration while a client reads it.
pub(super) struct Reader {
    /// The generation of the configuration; `None` while a load of routes is running, because a load counts as a change only at its end.
    pub(super) generation: Option<u64>,
    version: u64,
    writer: Writer,
    more: bool,
}

impl Reader {
    /// Begins to write the configuration for a client, as JSON if `in_json`, otherwise as YAML.
    pub(super) async fn begin(client: &Client, in_json: bool) -> Reader {
        client
            .slice(|c| {
                // A load of routes changes the configuration at once, but adds to the journal only at its end.
                let generation = (!c.changes.is_loading()).then(|| c.journal.generation());
                let writer = writer(c, client);
                let writer = if in_json { writer.in_json() } else { writer };
                Reader { generation, version: c.store.version(), writer, more: true }
            })
            .await
    }

    /// Returns the next piece of the text; `None` at its end.
    ///
    /// # Errors
    /// If the configuration has changed since the beginning.
    pub(super) async fn next(&mut self, client: &Client) -> Result<Option<String>, Cut> {
        let Reader { version, writer, more, .. } = self;
        let mut text = String::new();
        while *more && text.is_empty() {
            *more = client.slice(|c| page(c, *version, writer, &mut text)).await?;
        }
        Ok((!text.is_empty()).then_some(text))
    }
}

/// Returns the options for applying a document. `confirm` is a number of seconds.
///
/// # Errors
/// If these options contradict each other, or if the number is not valid.
pub(super) fn terms(dry_run: bool, confirm: Option<u64>, expected: Option<u64>) -> Result<Terms, Problem> {
    if confirm.is_some_and(|seconds| !(1..=LONGEST_WAIT).contains(&seconds)) {
        return Err(bad(format!("confirm must be 1 to {LONGEST_WAIT} seconds")));
    }
    if dry_run && confirm.is_some() {
        return Err(bad("confirm cannot be combined with dry-run: nothing is applied"));
    }
    Ok(Terms { dry_run, confirm: confirm.map(Duration::from_secs), expected, ..Terms::default() })
}

/// Replaces the configuration by a document. `line` names the request in the journal.
///
/// # Errors
/// If the document has faults, or if the change is refused.
pub(super) async fn put(
    client: &Client,
    line: &str,
    document: Document,
    terms: Terms,
) -> Result<Changed, Problem> {
    apply(client, line, document, terms).await.map_err(|(problem, _)| problem)
}

/// Changes the parts of the configuration that a patch names. `line` names the request in the journal.
///
/// # Errors
/// If the patch, or the configuration after it, has faults, or if the change is refused.
pub(super) async fn patch(
    client: &Client,
    line: &str,
    form: Form,
    patch: Document,
    wanted: Terms,
) -> Result<Changed, Problem> {
    // A patch needs much more memory than a document, so only one is made at a time. A long patch already has this right, and must not wait
    // for itself.
    let permit = Arc::new(if patch.is_long() { None } else { Some(client.long().await?) });
    for _ in 0..TRIES {
        let (generation, now) = whole_text(client).await?;
        if let Some(expected) = wanted.expected.filter(|expected| *expected != generation) {
            return Err(Failure::Changed { is: generation, expected }.into());
        }
        let right = Right { patch: patch.clone(), _permit: permit.clone() };
        let document = on_thread(move || {
            let bytes = patched(form, &now, right.patch.as_ref())?;
            Ok::<Patched, Problem>(Patched { bytes, _right: right })
        });
        let document = document.await??;
        let terms = Terms { expected: Some(generation), ..wanted };
        match apply(client, line, document, terms).await {
            Err((_, true)) if wanted.expected.is_none() => {}
            answered => return answered.map_err(|(problem, _)| problem.without_lines()),
        }
    }
    Err(changes_too_often())
}

/// The right to make a patch: that of a long document, or a permit. A thread keeps it until it ends, even if the client leaves before.
#[derive(Clone)]
struct Right {
    patch: Document,
    _permit: Arc<Option<OwnedSemaphorePermit>>,
}

/// The configuration after a patch, with the right to have it.
#[derive(Clone)]
struct Patched {
    bytes: Arc<[u8]>,
    _right: Right,
}

impl AsRef<[u8]> for Patched {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn changes_too_often() -> Problem {
    let why = "other clients change the configuration again and again: try again later";
    Problem::new(StatusCode::CONFLICT, why)
}

/// Does work on another thread, and waits for its result.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let thread = on_a_thread(move || Ok::<T, Failure>(work()))?;
    while !thread.is_finished() {
        tokio::time::sleep(LOOK).await;
    }
    joined(thread)
}

/// Returns the configuration as JSON, and its generation. Begins again when the configuration changes meanwhile.
async fn whole_text(client: &Client) -> Result<(u64, String), Problem> {
    for _ in 0..TRIES {
        let mut reader = Reader::begin(client, true).await;
        let Some(generation) = reader.generation else {
            return Err(Failure::Busy { what: "a load of routes", percent: 0 }.into());
        };
        let mut text = String::new();
        loop {
            match reader.next(client).await {
                Ok(Some(piece)) => text += &piece,
                Ok(None) => return Ok((generation, text)),
                Err(Cut(_)) => break,
            }
            if text.len() > LONGEST_PATCHED {
                let why = format!(
                    "the configuration has more than {LONGEST_PATCHED} bytes, too many for a patch: use a whole document, commands, or a load"
                );
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
            }
        }
    }
    Err(changes_too_often())
}

/// Applies a document. The error has the problem. It also has a flag, which is true if the configuration does not have the expected
/// generation.
async fn apply(
    client: &Client,
    line: &str,
    document: impl AsRef<[u8]> + Clone + Send + 'static,
    terms: Terms,
) -> Result<Changed, (Problem, bool)> {
    let sent = document.clone();
    let begun = client.change(line, move |c| c.apply_sent(sent, terms)).await;
    let applied = match begun {
        Ok(transition) => finish(client, transition).await,
        Err(failure) => Err(failure),
    };
    match applied {
        Ok(changed) => Ok(changed),
        Err(failure) => {
            let is_changed = matches!(failure, Failure::Changed { .. });
            Err((pointed(failure.into(), document).await, is_changed))
        }
    }
}

/// Runs a change to its end. Returns what it has changed.
async fn finish(client: &Client, transition: Transition) -> Result<Changed, Failure> {
    let mut changed = Changed::default();
    client.finish(transition, |report| changed.add(report)).await?;
    Ok(changed)
}

/// Adds the JSON Pointers of the faults of a document.
async fn pointed(problem: Problem, document: impl AsRef<[u8]> + Send + 'static) -> Problem {
    let places: Vec<Option<(usize, usize)>> = problem.faults().map(|fault| fault.place).collect();
    let wanted: BTreeSet<(usize, usize)> = places.iter().flatten().copied().collect();
    if wanted.is_empty() {
        return problem;
    }
    let search =
        move || str::from_utf8(document.as_ref()).map(|text| pointers(text, &wanted)).unwrap_or_default();
    match on_thread(search).await {
        Ok(found) => {
            problem.pointing(places.iter().map(|place| found.get(place.as_ref()?).cloned()).collect())
        }
        Err(_) => problem,
    }
}

/// Keeps the configuration that awaits confirmation. If `expected` is given, that configuration must have been applied as this generation.
/// `line` names the request in the journal.
///
/// # Errors
/// If no configuration awaits confirmation, or another one, or if its rollback has begun.
pub(super) async fn confirm(client: &Client, line: &str, expected: Option<u64>) -> Result<Changed, Problem> {
    // A confirmation does not wait for other changes: its time may end.
    let confirm = |c: &mut Context| {
        c.origin = client.origin(line);
        c.confirm(expected).map(|()| c.journal.generation())
    };
    let generation = client.slice(confirm).await?;
    Ok(Changed { generation, ..Changed::default() })
}

/// Rolls back this number of changes. If `changes` is `None`, rolls back the configuration that awaits confirmation or, if there is none,
/// the last change. If `expected` is given, the configuration must have this generation. `line` names the request in the journal.
///
/// # Errors
/// If the configuration has another generation, or if there are fewer changes that can be rolled back.
pub(super) async fn roll_back(
    client: &Client,
    line: &str,
    changes: Option<usize>,
    dry_run: bool,
    expected: Option<u64>,
) -> Result<Changed, Problem> {
    // The client means the changes of now, not those that are made while it waits.
    let back = client.look(|c| c.roll_back(changes, dry_run, expected))?;
    let back = client.change(line, |c| back.by(c.origin.clone())).await;
    Ok(finish(client, back).await?)
}
