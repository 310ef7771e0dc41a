//! The configuration as a document: reading it, replacing it, patching it, confirming it, and rolling it back.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::{Response, StatusCode};
use infra::mem::Room;
use model::yaml::pointers;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{Body, Cut, JSON, PIECE, Problem, YAML, json, pieces, tagged, whole};
use super::client::Client;
use super::requests::{Asked, Shared, Tags, bad};
use crate::app::{Context, Failure, LOOK, Report, SLICE, Terms, Transition, joined, on_a_thread};
use crate::config::Writer;
use crate::startup::{Fault, Place};

/// Maximum length of a document, in bytes. A million routes have about 60 MB.
const LONGEST: usize = 256 << 20;
/// Maximum length of a patch, and of the configuration that is patched, in bytes: both are parsed as a whole.
const LONGEST_PATCH: usize = 4 << 20;
const LONGEST_PATCHED: usize = 16 << 20;
/// Bytes of memory for each byte of a configuration that is patched.
const PER_BYTE: u64 = 16;
/// Maximum length of the difference in an answer, in bytes.
const LONGEST_DIFFERENCE: usize = 1 << 20;
/// The longest time to wait for a confirmation, in seconds.
const LONGEST_WAIT: u64 = 24 * 3600;
/// The media type of a patch (RFC 7396).
pub(super) const PATCH: &str = "application/merge-patch+json";
/// How often a patch is tried when other clients change the configuration meanwhile.
const TRIES: usize = 5;

/// What a change has changed.
#[derive(Default, Serialize)]
struct Changed {
    /// The generation of the configuration after the change.
    generation: u64,
    /// False if the configuration already was as wanted, or after a dry run.
    changed: bool,
    /// The commands that the change removes (`- `) and adds (`+ `).
    difference: Vec<String>,
    /// True if the difference is longer than what is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The seconds after which the change is rolled back unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    rolls_back_in: Option<u64>,
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

/// Returns a writer of the configuration for a client.
fn writer(c: &Context, client: &Client) -> Writer {
    let writer = Writer::new(c.store.tree(), &c.system.abilities.catalog);
    if client.read_only { writer.hiding_secrets() } else { writer }
}

/// Appends pages of the configuration for a slice, or until there are enough for a piece. Returns true if there is more.
///
/// # Errors
/// If the configuration has another version: the text would mix two.
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

/// Begins to write the configuration for a client. Returns its generation, if it is certain, its version, and the writer.
async fn begin(client: &Client) -> (Option<u64>, u64, Writer) {
    client
        .slice(|c| {
            // A load of routes changes the configuration, and the journal only at its end.
            let generation = (!c.changes.is_loading()).then(|| c.journal.generation());
            (generation, c.store.version(), writer(c, client))
        })
        .await
}

/// Answers with the configuration, as JSON or YAML.
pub(super) async fn get(client: &Rc<Client>, asked: &Asked) -> Result<Response<Body>, Problem> {
    let in_yaml = asked.prefers_yaml();
    let (generation, version, writer) = begin(client).await;
    if let (Tags::One(known), Some(is)) = (asked.known()?, generation)
        && known == is
    {
        return Ok(tagged(whole(&client.seat, StatusCode::NOT_MODIFIED, JSON, ""), is));
    }
    let mut writer = if in_yaml { writer } else { writer.in_json() };
    let reader = client.clone();
    let response = pieces(&client.seat, if in_yaml { YAML } else { JSON }, client.hold(), async move |to| {
        let mut more = true;
        while more {
            let mut text = String::new();
            more = reader.slice(|c| page(c, version, &mut writer, &mut text)).await?;
            // Without a receiver, the client is gone, and this task is about to be aborted.
            if !text.is_empty() && to.send(text.into()).await.is_err() {
                break;
            }
        }
        Ok(())
    });
    Ok(match generation {
        Some(generation) => tagged(response, generation),
        None => response,
    })
}

/// Returns how a document is applied.
fn terms(asked: &Asked) -> Result<Terms, Problem> {
    let (dry_run, confirm) =
        (asked.flag("dry-run")?, asked.parameter::<u64>("confirm", "a number of seconds")?);
    if confirm.is_some_and(|seconds| !(1..=LONGEST_WAIT).contains(&seconds)) {
        return Err(bad(format!("confirm must be 1 to {LONGEST_WAIT} seconds")));
    }
    if dry_run && confirm.is_some() {
        return Err(bad("confirm cannot be combined with dry-run: nothing is applied"));
    }
    let expected = match asked.expected()? {
        Tags::One(generation) => Some(generation),
        Tags::Unsaid | Tags::Any => None,
    };
    Ok(Terms { dry_run, confirm: confirm.map(Duration::from_secs), expected, ..Terms::default() })
}

/// Refuses a body of another media type than these. A body without a type is accepted.
fn must_be(asked: &Asked, kinds: &[&str]) -> Result<(), Problem> {
    match asked.kind() {
        Some(kind) if !kinds.contains(&kind.as_str()) => {
            let why = format!("expected a body of the type {}", kinds.join(" or "));
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
        }
        _ => Ok(()),
    }
}

/// Replaces the configuration by the document in the body.
pub(super) async fn put(client: &Rc<Client>, mut asked: Asked) -> Result<Response<Body>, Problem> {
    must_be(&asked, &[JSON, YAML])?;
    let terms = terms(&asked)?;
    let document = Shared(asked.document(client, LONGEST).await?);
    apply(client, &asked.line, document, terms).await.map_err(|(problem, _)| problem)
}

/// Changes the parts of the configuration that the patch in the body names.
pub(super) async fn patch(client: &Rc<Client>, mut asked: Asked) -> Result<Response<Body>, Problem> {
    must_be(&asked, &[PATCH, JSON])?;
    let wanted = terms(&asked)?;
    let patch = Shared(asked.document(client, LONGEST_PATCH).await?);
    // Patches take much more memory than documents: one at a time. A long one has the right already, and must not wait for itself.
    let _permit = if patch.0.is_long() { None } else { Some(client.long().await?) };
    for _ in 0..TRIES {
        let (generation, now) = whole_text(client).await?;
        if let Some(expected) = wanted.expected.filter(|expected| *expected != generation) {
            return Err(Failure::Changed { is: generation, expected }.into());
        }
        let patch = patch.clone();
        let document = on_thread(move || merged(&now, patch.as_ref())).await??;
        let terms = Terms { expected: Some(generation), ..wanted };
        match apply(client, &asked.line, document, terms).await {
            Err((_, true)) if wanted.expected.is_none() => {}
            answered => return answered.map_err(|(problem, _)| problem.without_lines()),
        }
    }
    Err(changes_too_often())
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
async fn whole_text(client: &Rc<Client>) -> Result<(u64, String), Problem> {
    for _ in 0..TRIES {
        let (generation, version, writer) = begin(client).await;
        let Some(generation) = generation else {
            return Err(Failure::Busy { what: "a load of routes", percent: 0 }.into());
        };
        let (mut writer, mut text) = (writer.in_json(), String::new());
        loop {
            let mut piece = String::new();
            let Ok(more) = client.slice(|c| page(c, version, &mut writer, &mut piece)).await else { break };
            text += &piece;
            if text.len() > LONGEST_PATCHED {
                let why = format!(
                    "the configuration has more than {LONGEST_PATCHED} bytes, too many for a patch: use PUT, commands, or the binary API"
                );
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            if !more {
                return Ok((generation, text));
            }
        }
    }
    Err(changes_too_often())
}

/// Applies a document. The error is the problem, and true if the configuration has another generation than expected.
async fn apply(
    client: &Rc<Client>,
    line: &str,
    document: impl AsRef<[u8]> + Clone + Send + 'static,
    terms: Terms,
) -> Result<Response<Body>, (Problem, bool)> {
    let sent = document.clone();
    let begun = client.change(line, move |c| c.apply_sent(sent, terms)).await;
    let applied = match begun {
        Ok(transition) => finish(client, transition).await,
        Err(failure) => Err(failure),
    };
    match applied {
        Ok(response) => Ok(response),
        Err(failure) => {
            let is_changed = matches!(failure, Failure::Changed { .. });
            Err((pointed(failure.into(), document).await, is_changed))
        }
    }
}

/// Runs a change to its end, and answers with what it has changed.
async fn finish(client: &Rc<Client>, transition: Transition) -> Result<Response<Body>, Failure> {
    let mut changed = Changed::default();
    client.finish(transition, |report| changed.add(report)).await?;
    Ok(tagged(json(&client.seat, &changed), changed.generation))
}

/// Adds the JSON Pointers of the faults of a document.
async fn pointed(problem: Problem, document: impl AsRef<[u8]> + Send + 'static) -> Problem {
    let place = |fault: &Fault| match fault.place {
        Place::File { line, column, .. } => Some((line, column)),
        _ => None,
    };
    let places: Vec<Option<(usize, usize)>> = problem.faults().iter().map(place).collect();
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

/// Keeps the configuration that awaits confirmation.
pub(super) async fn confirm(client: &Rc<Client>, asked: &Asked) -> Result<Response<Body>, Problem> {
    let confirm = |c: &mut Context| c.confirm().map(|()| c.journal.generation());
    let generation = client.change(&asked.line, confirm).await?;
    Ok(tagged(json(&client.seat, &Changed { generation, ..Changed::default() }), generation))
}

/// The body of a request for a rollback.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RollbackRequest {
    /// Number of changes to roll back.
    changes: Option<usize>,
}

/// Rolls back the last changes.
pub(super) async fn roll_back(client: &Rc<Client>, mut asked: Asked) -> Result<Response<Body>, Problem> {
    let dry_run = asked.flag("dry-run")?;
    let RollbackRequest { changes } = asked.fields(client).await?;
    let back = client.change(&asked.line, |c| c.roll_back(changes, dry_run)).await?;
    Ok(finish(client, back).await?)
}

/// Returns a configuration after a merge patch, both as JSON.
///
/// # Errors
/// If the patch is not a JSON object, or if there is not enough memory.
fn merged(now: &str, patch: &[u8]) -> Result<Arc<[u8]>, Problem> {
    let no_memory = |e| Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("no memory for a patch: {e}"));
    Room::now().must_have(PER_BYTE * (now.len() + patch.len()) as u64).map_err(no_memory)?;
    let patch: Value =
        serde_json::from_slice(patch).map_err(|e| bad(format!("the patch is not JSON: {e}")))?;
    if !patch.is_object() {
        return Err(bad("the patch is not a JSON object"));
    }
    let internal = |e| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal error: the configuration is not JSON: {e}"),
        )
    };
    let mut all: Value = serde_json::from_str(now).map_err(internal)?;
    merge(&mut all, patch);
    Ok(format!("{all:#}").into_bytes().into())
}

/// Applies a merge patch (RFC 7396 section 2).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(members) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(all) = target else { return };
    for (name, value) in members {
        match value {
            Value::Null => drop(all.remove(&name)),
            value => merge(all.entry(name).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn patches_are_merged_as_the_rfc_says() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (mut target, patch, result) in cases {
            merge(&mut target, patch);
            assert_eq!(target, result);
        }
    }
}
