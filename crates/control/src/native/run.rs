//! Commands: `show` commands one by one, and others in a list.

use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::{Response, StatusCode};
use model::cli::{Answer, Call, CliError, Job, Step};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

use super::answer::{Body, Cut, JSON, Problem, json, pieces};
use super::client::Client;
use super::requests::{Asked, bad};
use crate::app::Context;

/// Length of a piece of an answer, in bytes.
const PIECE: usize = 64 << 10;
/// Maximum length of the output of all commands of a request, in bytes.
const LONGEST_OUTPUT: usize = 4 << 20;
/// Maximum time of all commands of a request.
const LONGEST: Duration = Duration::from_secs(60);

/// The rest of a command's output.
type Rest = Option<Box<dyn Job<Context>>>;

/// Runs a slice of a command. Returns the rest of the command, and the time until its next slice.
fn step(c: &mut Context, rest: &mut Rest, out: &mut String) -> Result<Duration, CliError> {
    let Some(job) = rest else { return Ok(Duration::ZERO) };
    match job.step(c, out) {
        Step::Again => Ok(Duration::ZERO),
        Step::After(time) => Ok(time),
        Step::Done => {
            *rest = None;
            Ok(Duration::ZERO)
        }
        Step::Failed(error) => Err(error),
        Step::Data { .. } => Err(CliError::new("this command outputs binary data: use volley ctl")),
    }
}

/// Answers with the output of a `show` command as JSON.
pub(super) async fn show(client: &Rc<Client>, asked: &Asked) -> Result<Response<Body>, Problem> {
    let words = asked.rest.split('/').filter(|word| !word.is_empty());
    let line = words.fold(String::from("show"), |line, word| line + " " + word);
    // Of a command that changes nothing, the right to change anything is of no use.
    let call = Call { read_only: true, ..client.call() };
    let commands = client.commands.clone();
    let answer = client.slice(|c| commands.run(c, &line, call)).await;
    // The path names what is shown.
    let Answer { mut text, job: mut rest } =
        answer.map_err(|e| Problem::new(StatusCode::NOT_FOUND, e.render()))?;
    // Commands fail before their first output, so the first slices decide the status.
    while rest.is_some() && text.is_empty() {
        let time = client.slice(|c| step(c, &mut rest, &mut text)).await?;
        sleep(time).await;
    }
    let reader = client.clone();
    Ok(pieces(&client.seat, JSON, async move |to| {
        loop {
            let is_over = rest.is_none();
            if (is_over || text.len() >= PIECE) && !text.is_empty() {
                // Without a receiver, the client is gone, and this task is about to be aborted.
                if to.send(std::mem::take(&mut text).into()).await.is_err() {
                    return Ok(());
                }
            }
            if is_over {
                return Ok(());
            }
            let time = reader.slice(|c| step(c, &mut rest, &mut text)).await;
            let time = time.map_err(|error| Cut(error.to_string()))?;
            if !time.is_zero() {
                sleep(time).await;
            }
        }
    }))
}

/// The body of a request for commands.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Commands {
    /// The commands, in order.
    commands: Vec<String>,
}

/// What a command has done.
#[derive(Serialize)]
struct Ran {
    command: String,
    /// Its output: JSON if the command has JSON, otherwise text.
    #[serde(skip_serializing_if = "Value::is_null")]
    output: Value,
    /// Why it failed. The commands after it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The answer to a request for commands.
#[derive(Serialize)]
struct Results {
    results: Vec<Ran>,
    /// True if all commands ran.
    complete: bool,
}

/// Runs commands, until one fails.
pub(super) async fn commands(client: &Rc<Client>, mut asked: Asked) -> Result<Response<Body>, Problem> {
    let Commands { commands } = asked.fields(client).await?;
    if commands.is_empty() {
        return Err(bad("expected { \"commands\": [ \"...\" ] } with at least one command"));
    }
    let (mut hold, mut bytes, until) = (client.hold(), 0, Instant::now() + LONGEST);
    let all = commands.len();
    let mut results = Vec::new();
    for command in commands {
        let mut out = String::new();
        let ended = run(client, &command, &mut out, until).await;
        bytes += out.len();
        let ended = ended.and_then(|()| hold.set(2 * bytes)).and_then(|()| within(bytes));
        let output =
            if out.is_empty() { Value::Null } else { serde_json::from_str(&out).unwrap_or(Value::from(out)) };
        let error = ended.err().map(|error| error.render());
        let failed = error.is_some();
        results.push(Ran { command, output, error });
        if failed {
            break;
        }
    }
    let complete = results.len() == all && results.iter().all(|ran| ran.error.is_none());
    Ok(json(&client.seat, &Results { results, complete }))
}

fn within(bytes: usize) -> Result<(), CliError> {
    let why = || format!("the output is longer than {LONGEST_OUTPUT} bytes: use volley ctl");
    if bytes <= LONGEST_OUTPUT { Ok(()) } else { Err(CliError::new(why())) }
}

/// Runs one command to its end.
async fn run(client: &Rc<Client>, line: &str, out: &mut String, until: Instant) -> Result<(), CliError> {
    let commands = client.commands.clone();
    let Answer { text, job: mut rest } =
        client.slice(|c| commands.run(c, line.trim(), client.call())).await?;
    *out += &text;
    while rest.is_some() {
        within(out.len())?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let seconds = LONGEST.as_secs();
            return Err(CliError::new(format!(
                "stopped after {seconds} s: use volley ctl for commands that wait"
            )));
        }
        let time = client.slice(|c| step(c, &mut rest, out)).await?;
        sleep(time.min(left)).await;
    }
    Ok(())
}
