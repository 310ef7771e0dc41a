//! Terminal features of the client: a pager for long lists, and `show … | watch`.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use super::client::{Connection, Failure};

/// The pager if `PAGER` is not set.
const PAGER: &str = "less";
/// Options for `less`, set in its environment unless the operator has set `LESS`: quit if the text fits on one screen (F), show colors (R),
/// and leave the text on the screen (X).
const LESS: &str = "FRX";
/// Default interval of `| watch`, in seconds.
const EVERY: f64 = 2.0;
/// Interval between checks for an interrupt while waiting.
const LOOK: Duration = Duration::from_millis(50);
/// Moves the cursor to the top left corner and erases the screen.
const ERASE: &str = "\x1b[H\x1b[J";

/// Standard output, through a pager if there is one.
pub(super) struct Paged(Option<Child>);

impl Paged {
    /// Starts the pager of the environment variable `PAGER`, or `less`. If it cannot be started, or is `cat`, text goes straight to
    /// standard output.
    pub(super) fn start() -> Paged {
        let pager = std::env::var("PAGER").unwrap_or_else(|_| PAGER.into());
        let mut words = pager.split_whitespace();
        let Some(program) = words.next().filter(|program| *program != "cat") else { return Paged(None) };
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", LESS);
        }
        Paged(command.spawn().ok())
    }

    /// Waits until the operator leaves the pager.
    pub(super) fn end(self) {
        if let Some(mut child) = self.0 {
            drop(child.stdin.take());
            // A failure cannot be reported anywhere.
            let _ = child.wait();
        }
    }
}

impl Write for Paged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.as_mut().and_then(|child| child.stdin.as_mut()) {
            Some(pager) => pager.write(bytes),
            None => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.as_mut().and_then(|child| child.stdin.as_mut()) {
            Some(pager) => pager.flush(),
            None => io::stdout().flush(),
        }
    }
}

/// True for `show` commands: their output goes to the pager.
pub(super) fn is_list(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|first| first.len() >= 2 && "show".starts_with(first))
}

/// Runs a command with its output in the pager. Leaving the pager ends the command.
pub(super) fn page(
    connection: &mut Connection,
    line: &str,
    json: bool,
    interrupted: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let mut pager = Paged::start();
    let result = connection.run(line, json, &mut pager, interrupted);
    pager.end();
    match result {
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::Left),
        result => result,
    }
}

/// Returns the command and its interval if the line is a `show` command that ends with `| watch` or `| watch SECONDS` (0.1 to 3600). Other
/// commands are not repeated: they may change something.
pub(super) fn watched(line: &str) -> Option<(&str, Duration)> {
    let (command, watch) = line.rsplit_once('|')?;
    let mut words = watch.split_whitespace();
    let seconds = match (words.next(), words.next(), words.next()) {
        (Some("watch"), None, _) => EVERY,
        (Some("watch"), Some(seconds), None) => {
            seconds.parse().ok().filter(|s| (0.1..=3600.0).contains(s))?
        }
        _ => return None,
    };
    let command = command.trim();
    is_list(command).then(|| (command, Duration::from_secs_f64(seconds)))
}

/// Shows a command's output again and again, until the command fails or is interrupted.
///
/// # Errors
/// If the command fails or is interrupted.
pub(super) fn watch(
    connection: &mut Connection,
    (line, every): (&str, Duration),
    json: bool,
    out: &mut dyn Write,
    interrupted: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let erase = if io::stdout().is_terminal() { ERASE } else { "" };
    loop {
        let begun = Instant::now();
        let text = connection.output(line, json, interrupted)?;
        let now = humantime::format_rfc3339_seconds(SystemTime::now());
        let shown = write!(out, "{erase}Every {} s: {line}    {now}\n\n", every.as_secs_f64())
            .and_then(|()| out.write_all(&text))
            .and_then(|()| writeln!(out))
            .and_then(|()| out.flush());
        shown.map_err(Failure::Output)?;
        while begun.elapsed() < every {
            if interrupted() {
                return Err(Failure::Interrupted);
            }
            std::thread::sleep(LOOK.min(every));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_returns_command_and_interval() {
        let two = Duration::from_secs(2);
        assert_eq!(watched("show int | watch"), Some(("show int", two)));
        assert_eq!(
            watched("show int|match eth| watch 0.5"),
            Some(("show int|match eth", Duration::from_millis(500)))
        );
        for line in [
            "show int",
            "show int | match watch",
            "show int | watch 0",
            "show int | watch x",
            "show int | watch 1 2",
            "set interface mtu 1400 host-eth1 | watch",
        ] {
            assert_eq!(watched(line), None, "{line}");
        }
    }

    #[test]
    fn only_show_commands_are_lists() {
        assert!(is_list("show ip fib") && is_list("sh int"));
        assert!(!is_list("s int") && !is_list("ping 10.0.0.1") && !is_list("showing") && !is_list(""));
    }
}
