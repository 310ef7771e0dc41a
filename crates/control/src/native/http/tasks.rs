//! The operations in HTTP.

use std::rc::Rc;
use std::time::Duration;

use hyper::{Response, StatusCode};
use model::cli::quote;
use serde::Deserialize;
use serde_json::Value;

use super::answer::{JSON, LINES, PCAP, Refused, YAML, answer, held, json, tagged, whole};
use super::requests::{Asked, Tags};
use crate::app::Terms;
use crate::native::body::{Body, Cut};
use crate::native::client::Client;
use crate::native::commands::{Ran, Shown, run_all};
use crate::native::document::{self, Changed, LONGEST, LONGEST_PATCH, Reader};
use crate::native::packets::{Captured, Traced, Wanted, traced};
use crate::native::patch::Form;
use crate::native::problem::Problem;
use crate::native::watch::Watcher;

/// The media type of a merge patch (RFC 7396).
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
/// The media type of a list of operations (RFC 6902).
pub(super) const JSON_PATCH: &str = "application/json-patch+json";

type Answered = Result<Response<Body>, Refused>;

/// Answers with the configuration, as JSON or YAML; without a body if the client already knows its generation (304).
pub(super) async fn get(client: &Rc<Client>, asked: &Asked) -> Answered {
    let in_yaml = asked.prefers_yaml();
    let mut config = Reader::begin(client, !in_yaml).await;
    let generation = config.generation;
    let is_known = match asked.known()? {
        Tags::One(known) => generation == Some(known),
        // There is always a configuration (RFC 9110 section 13.1.2).
        Tags::Any => true,
        Tags::Unsaid => false,
    };
    if is_known {
        let unchanged = whole(client, StatusCode::NOT_MODIFIED, JSON, "");
        return Ok(match generation {
            Some(generation) => tagged(unchanged, generation),
            None => unchanged,
        });
    }
    let reader = client.clone();
    let body = Body::pieces(client, async move |to| {
        while let Some(text) = config.next(&reader).await? {
            // Without a receiver, the client is gone, and this task is about to be aborted.
            if to.send(text.into()).await.is_err() {
                break;
            }
        }
        Ok(())
    });
    let response = answer(StatusCode::OK, if in_yaml { YAML } else { JSON }, body);
    Ok(match generation {
        Some(generation) => tagged(response, generation),
        None => response,
    })
}

/// Returns the generation that the configuration must have for the request, if the client names one.
fn expected(asked: &Asked) -> Result<Option<u64>, Problem> {
    Ok(match asked.expected()? {
        Tags::One(generation) => Some(generation),
        Tags::Unsaid | Tags::Any => None,
    })
}

/// Returns the options for applying a document.
fn terms(asked: &Asked) -> Result<Terms, Problem> {
    let confirm = asked.parameter("confirm", "a number of seconds")?;
    document::terms(asked.flag("dry-run")?, confirm, expected(asked)?)
}

/// Refuses a body with a media type other than `kinds`. A body without a type is accepted.
fn must_be(asked: &Asked, kinds: &[&str]) -> Result<(), Problem> {
    match asked.kind() {
        Some(kind) if !kinds.contains(&kind.as_str()) => {
            let why = format!("expected a body of the type {}", kinds.join(" or "));
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
        }
        _ => Ok(()),
    }
}

fn changed(client: &Rc<Client>, changed: &Changed) -> Answered {
    Ok(tagged(json(client, changed), changed.generation))
}

/// Replaces the configuration by the document in the body.
pub(super) async fn put(client: &Rc<Client>, mut asked: Asked) -> Answered {
    must_be(&asked, &[JSON, YAML])?;
    let terms = terms(&asked)?;
    let document = asked.document(client, LONGEST).await?;
    changed(client, &document::put(client, &asked.line, document, terms).await?)
}

/// Changes the parts of the configuration that the patch in the body names.
pub(super) async fn patch(client: &Rc<Client>, mut asked: Asked) -> Answered {
    must_be(&asked, &[MERGE_PATCH, JSON, JSON_PATCH])?;
    let form = if asked.kind().as_deref() == Some(JSON_PATCH) { Form::Operations } else { Form::Merge };
    let terms = terms(&asked)?;
    let patch = asked.document(client, LONGEST_PATCH).await?;
    changed(client, &document::patch(client, &asked.line, form, patch, terms).await?)
}

/// Keeps the configuration that awaits confirmation.
pub(super) async fn confirm(client: &Rc<Client>, asked: &Asked) -> Answered {
    changed(client, &document::confirm(client, &asked.line, expected(asked)?).await?)
}

/// The body of a request for a rollback.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RollbackRequest {
    /// Number of changes to roll back.
    changes: Option<usize>,
}

/// Rolls back the last changes.
pub(super) async fn roll_back(client: &Rc<Client>, mut asked: Asked) -> Answered {
    let (dry_run, expected) = (asked.flag("dry-run")?, expected(&asked)?);
    let RollbackRequest { changes } = asked.fields(client).await?;
    changed(client, &document::roll_back(client, &asked.line, changes, dry_run, expected).await?)
}

/// Answers with the output of a `show` command as JSON.
pub(super) async fn show(client: &Rc<Client>, asked: &Asked) -> Answered {
    let line = asked.rest.iter().fold(String::from("show"), |line, word| line + " " + &quote(word));
    Ok(show_all(client, Shown::begin(client, &line).await?))
}

fn show_all(client: &Rc<Client>, mut shown: Shown) -> Response<Body> {
    let reader = client.clone();
    let body = Body::pieces(client, async move |to| {
        while let Some(text) = shown.next(&reader).await.map_err(|error| Cut(error.to_string()))? {
            // Without a receiver, the client is gone, and this task is about to be aborted.
            if to.send(text.into()).await.is_err() {
                break;
            }
        }
        Ok(())
    });
    answer(StatusCode::OK, JSON, body)
}

/// The body of a request for a trace.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceRequest {
    node: String,
    packets: u32,
    #[serde(default)]
    filter: String,
    wait_ms: Option<u32>,
}

/// Traces packets, and answers with them.
pub(super) async fn trace(client: &Rc<Client>, mut asked: Asked) -> Answered {
    let TraceRequest { node, packets, filter, wait_ms } = asked.fields(client).await?;
    let wait = wait_ms.map(|ms| Duration::from_millis(ms.into()));
    let shown = traced(client, &Traced { node, packets, filter, wait }).await?;
    Ok(show_all(client, shown))
}

/// Answers with copies of packets, until there are enough, or until the client leaves.
pub(super) async fn capture(client: &Rc<Client>, asked: &Asked) -> Answered {
    let mut points = Vec::new();
    for point in ["rx", "tx", "drop"] {
        if asked.flag(point)? {
            points.push(point);
        }
    }
    let text = |name| asked.parameter::<String>(name, "a text").map(Option::unwrap_or_default);
    let number = |name| asked.parameter(name, "a number");
    let wanted = Wanted {
        points,
        interface: text("interface")?,
        packets: number("packets")?,
        bytes: number("bytes")?,
        filter: text("filter")?,
    };
    let mut captured = Captured::begin(client, &wanted).await?;
    let reader = client.clone();
    let body = Body::pieces(client, async move |to| {
        while let Some(pcap) = captured.next(&reader).await.map_err(|error| Cut(error.to_string()))? {
            // Without a receiver, the client is gone, and this task is about to be aborted.
            if to.send(pcap.into()).await.is_err() {
                break;
            }
        }
        Ok(())
    });
    Ok(answer(StatusCode::OK, PCAP, body))
}

/// The body of a request for commands.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Commands {
    /// The commands, in order.
    commands: Vec<String>,
}

/// Runs commands, until one fails.
pub(super) async fn commands(client: &Rc<Client>, mut asked: Asked) -> Answered {
    let Commands { commands } = asked.fields(client).await?;
    let wanted = commands.len();
    let (all, hold) = run_all(client, commands).await?;
    let complete = all.len() == wanted && all.iter().all(|ran| ran.error.is_none());
    let mut text = String::from("{\n  \"results\": [");
    for (n, Ran { command, output, error }) in all.into_iter().enumerate() {
        text += if n == 0 { "\n    { " } else { ",\n    { " };
        text += &format!("\"command\": {}", Value::from(command));
        if !output.is_empty() {
            text += &format!(", \"output\": {output}");
        }
        if let Some(error) = error {
            text += &format!(", \"error\": {}", Value::from(error));
        }
        text += " }";
    }
    text += &format!("\n  ],\n  \"complete\": {complete}\n}}\n");
    Ok(held(client, text, hold))
}

/// Answers with events, one per line, until the client leaves. An empty line shows that the connection lives.
pub(super) fn watch(client: &Rc<Client>) -> Response<Body> {
    let (watcher, mut watch) = (client.clone(), Watcher::new());
    let body = Body::pieces(client, async move |to| {
        loop {
            let mut text = String::new();
            for event in watch.next(&watcher).await.map_err(|problem| Cut(problem.detail))? {
                // All names in these objects are strings, so serializing cannot fail.
                text += &serde_json::to_string(&event).unwrap_or_default();
                text.push('\n');
            }
            if text.is_empty() {
                text.push('\n');
            }
            // Without a receiver, the client is gone, and this task is about to be aborted.
            if to.send(text.into()).await.is_err() {
                return Ok(());
            }
        }
    });
    answer(StatusCode::OK, LINES, body)
}
