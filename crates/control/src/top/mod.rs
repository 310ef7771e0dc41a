//! `volley top`: interfaces, workers, nodes and drops of a running router, live in a terminal.
//!
//! This is an ordinary client of the CLI: it asks for `show … --json` once per interval, so read-only users can watch, too.

mod keys;
mod page;
mod sample;
mod screen;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::cli::client::{Connection, Failure};
use keys::Keys;
use sample::Sample;
use screen::{Screen, Wish};

/// The shortest and the longest interval in seconds.
const INTERVALS: (f64, f64) = (0.1, 60.0);

/// The router to watch, and how often.
pub struct Options {
    /// The router's CLI socket.
    pub socket: PathBuf,
    /// Seconds between two samples.
    pub interval: f64,
}

/// Shows the router until the operator leaves. Returns the exit code: 2 if the router cannot be reached or closes the connection, 1 after
/// any other failure, such as a bad interval or no terminal, and otherwise 0.
pub fn run(options: &Options) -> ExitCode {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        eprintln!(
            "volley top needs a terminal; elsewhere, use volley ctl \"show interface rates\", or the metrics for Prometheus"
        );
        return ExitCode::FAILURE;
    }
    let (least, most) = INTERVALS;
    if !(least..=most).contains(&options.interval) {
        eprintln!("the interval must be {least} to {most} seconds");
        return ExitCode::FAILURE;
    }
    let mut connection = match Connection::open(&options.socket) {
        Ok(connection) => connection,
        Err(failure) => return failed(&failure),
    };
    let mut terminal = match ratatui::try_init() {
        Ok(terminal) => terminal,
        Err(error) => return failed(&Failure::Output(error)),
    };
    let result = watch(&mut connection, &mut terminal, options);
    ratatui::restore();
    match result {
        Ok(()) | Err(Failure::Interrupted) => ExitCode::SUCCESS,
        Err(failure) => failed(&failure),
    }
}

fn failed(failure: &Failure) -> ExitCode {
    eprintln!("volley top: {failure}");
    ExitCode::from(failure.code())
}

/// Draws the router's state once per interval and after each key, until the operator leaves.
fn watch(
    connection: &mut Connection,
    terminal: &mut ratatui::DefaultTerminal,
    options: &Options,
) -> Result<(), Failure> {
    let every = Duration::from_secs_f64(options.interval);
    let mut screen = Screen::new(&options.socket.display().to_string());
    let (mut next, keys) = (Instant::now(), Keys::default());
    let interrupted = || keys.ask_to_end();
    loop {
        if Instant::now() >= next {
            next = Instant::now() + every;
            if !screen.is_paused() {
                screen.take(Sample::ask(connection, &interrupted)?);
            }
        }
        terminal.draw(|frame| screen.draw(frame)).map_err(Failure::Output)?;
        let key = keys.next(next.saturating_duration_since(Instant::now())).map_err(Failure::Output)?;
        match key.and_then(|key| screen.key(key)) {
            Some(Wish::Leave) => return Ok(()),
            Some(Wish::Detail(command)) => {
                screen.detail(&command, &text(connection, &command, &interrupted)?);
            }
            None => {}
        }
    }
}

/// Returns the output of a command. If the router refuses the command, returns the message instead: the selected object may have been
/// deleted.
fn text(
    connection: &mut Connection,
    command: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<String, Failure> {
    match connection.output(command, false, interrupted) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Err(Failure::Refused(message)) => Ok(message),
        Err(failure) => Err(failure),
    }
}
