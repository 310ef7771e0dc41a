//! Commands: `show` commands one by one, and others in a list.

use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::{Response, StatusCode};
use model::cli::{Answer, Call, CliError, Job, Step, quote};
use model::reason::Reason;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::sleep;

use super::answer::{Body, Cut, JSON, PIECE, Problem, held, pieces};
use super::client::Client;
use super::requests::{Asked, bad, no_memory};
use crate::app::Context;
use crate::cli::Hold;

/// Maximum length of the output of all commands of a request, in bytes. Longer lists are for `GET /v1/show`.
const LONGEST_OUTPUT: usize = 1 << 20;
/// Maximum number of commands of a request.
const MOST: usize = 1000;
/// Maximum time of all commands of a request.
const LONGEST: Duration = Duration::from_secs(60);

/// The rest of a command's output.
type Rest = Option<Box<dyn Job<Context>>>;

/// Runs a slice of a command, and waits until its next slice. Reserves memory for the output and for what the command keeps.
async fn step(client: &Client, rest: &mut Rest, out: &mut String, hold: &mut Hold) -> Result<(), CliError> {
    let Some(job) = rest else { return Ok(()) };
    let (step, kept) = client.slice(|c| (job.step(c, out), job.kept())).await;
    let time = match step {
        Step::Again => Duration::ZERO,
        Step::After(time) => time,
        Step::Done => {
            *rest = None;
            Duration::ZERO
        }
        Step::Failed(error) => return Err(error),
        Step::Data { .. } => {
            return Err(CliError::new("this command outputs binary data: use volley ctl"));
        }
    };
    hold.set(out.len() + kept)?;
    // Other tasks have run after the slice.
    if !time.is_zero() {
        sleep(time).await;
    }
    Ok(())
}

/// Answers with the output of a `show` command as JSON.
pub(super) async fn show(client: &Rc<Client>, asked: &Asked) -> Result<Response<Body>, Problem> {
    let line = asked.rest.iter().fold(String::from("show"), |line, word| line + " " + &quote(word));
    // Of a command that changes nothing, the right to change anything is of no use.
    let call = Call { read_only: true, ..client.call() };
    let commands = client.commands.clone();
    // The path names what is shown.
    let refused = |e: CliError| match e.reason() {
        Reason::Other => Problem::new(StatusCode::NOT_FOUND, e.render()),
        _ => e.into(),
    };
    let answer = client.slice(|c| commands.run(c, &line, call)).await;
    let Answer { mut text, job: mut rest } = answer.map_err(refused)?;
    let mut hold = client.hold();
    // Commands fail before their first output, so the first slices decide the status.
    while rest.is_some() && text.is_empty() {
        step(client, &mut rest, &mut text, &mut hold).await?;
    }
    let reader = client.clone();
    Ok(pieces(&client.seat, JSON, client.hold(), async move |to| {
        while rest.is_some() || !text.is_empty() {
            if rest.is_none() || text.len() >= PIECE {
                // Without a receiver, the client is gone, and this task is about to be aborted.
                if to.send(std::mem::take(&mut text).into()).await.is_err() {
                    break;
                }
            }
            let stepped = step(&reader, &mut rest, &mut text, &mut hold).await;
            stepped.map_err(|error| Cut(error.to_string()))?;
        }
        Ok(())
    }))
}

/// The body of a request for commands.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Commands {
    /// The commands, in order.
    commands: Vec<String>,
}

/// Runs commands, until one fails.
pub(super) async fn commands(client: &Rc<Client>, mut asked: Asked) -> Result<Response<Body>, Problem> {
    let Commands { commands } = asked.fields(client).await?;
    if !(1..=MOST).contains(&commands.len()) {
        return Err(bad(format!("expected {{ \"commands\": [ \"...\" ] }} with 1 to {MOST} commands")));
    }
    let (mut hold, until) = (client.hold(), Instant::now() + LONGEST);
    let (mut text, mut complete) = (String::from("{\n  \"results\": ["), true);
    for (n, command) in commands.iter().enumerate() {
        let mut out = String::new();
        let ended = run(client, command, &mut out, until, LONGEST_OUTPUT.saturating_sub(text.len())).await;
        text += if n == 0 { "\n    { " } else { ",\n    { " };
        text += &format!("\"command\": {}", Value::from(command.as_str()));
        if !out.is_empty() {
            // The output of a command that fails in the middle is no whole JSON.
            let is_json = serde_json::from_str::<IgnoredAny>(&out).is_ok();
            let out = if is_json { out.trim_end().to_owned() } else { Value::from(out).to_string() };
            text += &format!(", \"output\": {out}");
        }
        if let Err(error) = &ended {
            text += &format!(", \"error\": {}", Value::from(error.render()));
        }
        text += " }";
        hold.set(text.len()).map_err(no_memory)?;
        if ended.is_err() {
            complete = false;
            break;
        }
    }
    text += &format!("\n  ],\n  \"complete\": {complete}\n}}\n");
    Ok(held(&client.seat, text, hold))
}

/// Runs one command to its end. Its output may have `most` bytes.
async fn run(
    client: &Client,
    line: &str,
    out: &mut String,
    until: Instant,
    most: usize,
) -> Result<(), CliError> {
    let within = |out: &str| {
        if Instant::now() >= until {
            let seconds = LONGEST.as_secs();
            return Err(CliError::new(format!(
                "stopped after {seconds} s: use volley ctl for commands that wait"
            )));
        }
        let why = || {
            format!(
                "the output of all commands is longer than {LONGEST_OUTPUT} bytes: use GET /v1/show, or volley ctl"
            )
        };
        if out.len() <= most { Ok(()) } else { Err(CliError::new(why())) }
    };
    within(out)?;
    let commands = client.commands.clone();
    let Answer { text, job: mut rest } =
        client.slice(|c| commands.run(c, line.trim(), client.call())).await?;
    *out += &text;
    let mut hold = client.hold();
    while rest.is_some() {
        within(out)?;
        step(client, &mut rest, out, &mut hold).await?;
    }
    within(out)
}
