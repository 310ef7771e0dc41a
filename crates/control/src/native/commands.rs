//! Commands, for all protocols: `show` commands one by one, and others in a list.

use std::time::{Duration, Instant};

use hyper::StatusCode;
use model::cli::{Answer, Call, CliError, Job, Role, Step};
use model::reason::Reason;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::sleep;

use super::body::PIECE;
use super::client::Client;
use super::problem::{Problem, bad, no_memory};
use crate::app::Context;
use crate::cli::Hold;

/// Maximum length of the commands of a request with their output and error messages, in bytes. The output of [`Shown`] is not limited.
const LONGEST_OUTPUT: usize = 1 << 20;
/// Maximum number of commands of a request.
const MOST: usize = 1000;
/// Maximum time of all commands of a request.
const LONGEST: Duration = Duration::from_secs(60);

/// The job that produces the rest of a command's output; `None` if the command has ended.
type Rest = Option<Box<dyn Job<Context>>>;

/// A command while its output is read.
pub(super) struct Running {
    rest: Rest,
    /// Output that was not taken yet.
    text: String,
    /// The memory reserved for the output and for the command.
    hold: Hold,
    /// True if the command may output binary data.
    is_binary: bool,
}

impl Running {
    /// Runs the first slice of a command.
    ///
    /// # Errors
    /// If the command fails.
    pub(super) async fn begin(client: &Client, line: &str, call: Call) -> Result<Running, CliError> {
        let (commands, is_binary) = (client.commands.clone(), call.binary);
        let Answer { text, job: rest } = client.slice(|c| commands.run(c, line.trim(), call)).await?;
        Ok(Running { rest, text, hold: client.hold(), is_binary })
    }

    /// Runs a slice of the command, and waits until the next slice is due. Reserves memory for the output and for the data that the command
    /// holds. Returns the binary output of the slice.
    async fn step(&mut self, client: &Client) -> Result<Vec<u8>, CliError> {
        let Some(job) = &mut self.rest else { return Ok(Vec::new()) };
        let (step, kept) = client.slice(|c| (job.step(c, &mut self.text), job.kept())).await;
        let (mut data, mut time) = (Vec::new(), Duration::ZERO);
        match step {
            Step::Again => {}
            Step::After(after) => time = after,
            Step::Done => self.rest = None,
            Step::Failed(error) => return Err(error),
            Step::Data { bytes, .. } if self.is_binary => data = bytes,
            Step::Data { .. } => {
                return Err(CliError::new("this command outputs binary data: use volley ctl"));
            }
        }
        self.hold.set(self.text.len() + data.len() + kept)?;
        // Other tasks have already run after the slice, so no sleep is needed for them.
        if !time.is_zero() {
            sleep(time).await;
        }
        Ok(data)
    }

    /// Returns the next piece of the binary output; `None` at its end.
    ///
    /// # Errors
    /// If the command fails.
    pub(super) async fn data(&mut self, client: &Client) -> Result<Option<Vec<u8>>, CliError> {
        while self.rest.is_some() {
            let data = self.step(client).await?;
            if !data.is_empty() {
                client.works();
                return Ok(Some(data));
            }
            // A client that waits for packets may have to make room for another one.
            client.rests();
        }
        Ok(None)
    }
}

/// The output of a `show` command while a client reads it.
pub(super) struct Shown(Running);

impl Shown {
    /// Runs a command until its first output.
    ///
    /// # Errors
    /// If the command fails before its first output.
    pub(super) async fn begin(client: &Client, line: &str) -> Result<Shown, Problem> {
        // The request's path names what is shown, so an error without a specific reason means that it does not exist.
        let refused = |e: CliError| match e.reason() {
            Reason::Other => Problem::new(StatusCode::NOT_FOUND, e.render()),
            _ => e.into(),
        };
        // A `show` command changes nothing, so a viewer's rights are enough.
        let call = Call { role: Role::Viewer, ..client.call() };
        let mut running = Running::begin(client, line, call).await.map_err(refused)?;
        while running.rest.is_some() && running.text.is_empty() {
            running.step(client).await?;
        }
        Ok(Shown(running))
    }

    /// Returns the next piece of the output, as JSON; `None` at its end.
    ///
    /// # Errors
    /// If the command fails.
    pub(super) async fn next(&mut self, client: &Client) -> Result<Option<String>, CliError> {
        let Shown(running) = self;
        while running.rest.is_some() && running.text.len() < PIECE {
            running.step(client).await?;
        }
        let text = std::mem::take(&mut running.text);
        Ok((!text.is_empty()).then_some(text))
    }
}

/// A command that was run.
pub(super) struct Ran {
    pub(super) command: String,
    /// Its output as JSON; empty if there is none.
    pub(super) output: String,
    /// Why it failed; `None` if it succeeded.
    pub(super) error: Option<String>,
}

/// Runs commands, until one fails. Returns those that ran, and a reservation of their memory.
///
/// # Errors
/// If there are no commands, too many of them, or if there is no memory for their output.
pub(super) async fn run_all(client: &Client, commands: Vec<String>) -> Result<(Vec<Ran>, Hold), Problem> {
    if !(1..=MOST).contains(&commands.len()) {
        return Err(bad(format!("expected 1 to {MOST} commands")));
    }
    let (mut hold, until) = (client.hold(), Instant::now() + LONGEST);
    let (mut all, mut bytes) = (Vec::new(), 0);
    for command in commands {
        let mut out = String::new();
        let ended = run(client, &command, &mut out, until, LONGEST_OUTPUT.saturating_sub(bytes)).await;
        // The output of a command that fails in the middle is no whole JSON.
        let is_json = out.is_empty() || serde_json::from_str::<IgnoredAny>(&out).is_ok();
        let output = if is_json { out.trim_end().to_owned() } else { Value::from(out).to_string() };
        let error = ended.err().map(|error| error.render());
        bytes += command.len() + output.len() + error.as_ref().map_or(0, String::len);
        hold.set(bytes).map_err(no_memory)?;
        let failed = error.is_some();
        all.push(Ran { command, output, error });
        if failed {
            break;
        }
    }
    Ok((all, hold))
}

/// Runs one command to its end. Stops the command at the time `until`, or if its output is longer than `most` bytes. Moves the output into
/// `out`.
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
                "the output of all commands is longer than {LONGEST_OUTPUT} bytes: use a request for one show command, or volley ctl"
            )
        };
        if out.len() <= most { Ok(()) } else { Err(CliError::new(why())) }
    };
    within(out)?;
    let mut running = Running::begin(client, line, client.call()).await?;
    // The output stays in `running` until the end: it is in the reservation of memory there.
    let ended = loop {
        if let Err(error) = within(&running.text) {
            break Err(error);
        }
        if running.rest.is_none() {
            break Ok(());
        }
        if let Err(error) = running.step(client).await {
            break Err(error);
        }
    };
    *out = running.text;
    ended
}
