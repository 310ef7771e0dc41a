//! `volley ctl`: the client of the command line. Its I/O is blocking, because it waits for one thing at a time.

use super::editor;
use super::listen::roots;
use super::protocol::{Reply, Request};
use super::screen;
use super::script::{Command, Commands, Unread};
use memchr::memchr;
use model::cli::{CliError, Completion, is_comment, quote, quote_typed};
use model::visible::visible;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Uid;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, IsTerminal, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The router's default CLI socket.
pub const DEFAULT_SOCKET: &str = "/run/volley/cli.sock";

/// How often a waiting client checks for an interrupt.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum length of a line of a reply in bytes. The lines of a router are far shorter.
const LONGEST_REPLY: usize = 64 << 20;
/// Maximum size in bytes of an output that this program stores completely before it processes it.
const MOST_KEPT: usize = 64 << 20;
/// Maximum time until a router answers a greeting, or a request for completions. An interrupt does not end these waits. `volley capture` is
/// an exception: it waits for the greeting without a limit, until it is interrupted.
const ANSWERED: Duration = Duration::from_secs(5);
/// Maximum number of completions. A router sends fewer.
const MOST_CANDIDATES: usize = 1000;
/// Maximum length in bytes of the text of a completion, and of its help. A router sends shorter ones.
const LONGEST_CANDIDATE: usize = 1024;

/// The options of `volley ctl`.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The router's socket: a path, or `127.0.0.1:PORT`.
    pub socket: PathBuf,
    /// True to print answers as JSON.
    pub json: bool,
    /// True to continue after a command from standard input has failed.
    pub keep_going: bool,
    /// The command; `-` for commands from standard input; empty for a prompt.
    pub words: Vec<String>,
}

/// Why a command's output is missing or incomplete.
#[derive(Debug)]
pub enum Failure {
    /// The router refused the command or could not carry it out, with this message.
    Refused(String),
    /// The operator interrupted the command.
    Interrupted,
    /// The operator left the pager before the end.
    Left,
    /// The router cannot be reached, or closed the connection. The text includes advice.
    Unreachable(String),
    /// The router closed the connection before starting the command, for this reason.
    Closed(String),
    /// The output could not be written.
    Output(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(message) | Failure::Unreachable(message) | Failure::Closed(message) => {
                f.write_str(message)
            }
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::Left => f.write_str("the pager was closed before the end"),
            Failure::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

impl Failure {
    /// Returns the exit code: 2 if the router was not reached or closed the connection, 1 for other failures. If the reader of the output
    /// stopped early, or the operator left the pager, the code is 0.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Unreachable(_) | Failure::Closed(_) => 2,
            Failure::Left => 0,
            Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe => 0,
            _ => 1,
        }
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection to a router.
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    prompt: String,
}

impl Connection {
    /// Connects to the socket at `socket`, a path as described for [`ClientOptions::socket`].
    ///
    /// # Errors
    /// If no router answers within 5 s, or the router has no room for another client.
    pub fn open(socket: &Path) -> Result<Connection, Failure> {
        in_time(|is_late| Connection::open_unless(socket, is_late))
    }

    /// Connects like [`open`](Connection::open), but gives up when `interrupted` returns true.
    fn open_unless(socket: &Path, interrupted: &dyn Fn() -> bool) -> Result<Connection, Failure> {
        let stream = connect(socket).map_err(|error| unreachable(socket, &error))?;
        let mut connection = Connection { stream: BufReader::new(stream), prompt: String::new() };
        connection.send(&Request::Hello)?;
        match connection.receive(interrupted)? {
            Reply::Hello { prompt } => connection.prompt = prompt,
            Reply::Closed(why) => return Err(Failure::Closed(why)),
            _ => {}
        }
        Ok(connection)
    }

    /// Returns the prompt that the router sent.
    pub fn prompt(&self) -> &str {
        &self.prompt
    }

    /// Runs a command. Writes its output to `out` as it arrives, and stops when `interrupted` returns true.
    ///
    /// # Errors
    /// If the command failed or did not end. The connection stays usable only after [`Failure::Refused`].
    pub fn run(
        &mut self,
        line: &str,
        json: bool,
        out: &mut dyn Write,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        self.carry_out(line, (json, false), out, &mut String::new(), interrupted)
    }

    /// Runs a command, and returns its output as a whole.
    ///
    /// # Errors
    /// As [`run`](Connection::run), or if the output has more than 64 MiB.
    pub(crate) fn output(
        &mut self,
        line: &str,
        json: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, Failure> {
        let mut kept = Kept(Vec::new());
        self.run(line, json, &mut kept, interrupted)?;
        Ok(kept.0)
    }

    /// Runs a command, without checking for interrupts. Repeats it if the line ends with `| watch`.
    fn say(&mut self, line: &str, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
        match screen::watched(line) {
            Some(watched) => screen::watch(self, watched, json, out, &|| false),
            None => self.run(line, json, out, &|| false),
        }
    }

    /// Runs a command with binary output. Sets `told` to the latest summary of the output. The summary is valid however the command ends.
    ///
    /// # Errors
    /// As [`run`](Connection::run).
    pub fn stream(
        &mut self,
        line: &str,
        out: &mut dyn Write,
        told: &mut String,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        self.carry_out(line, (false, true), out, told, interrupted)
    }

    fn carry_out(
        &mut self,
        line: &str,
        (json, binary): (bool, bool),
        out: &mut dyn Write,
        told: &mut String,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        let directory = std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned();
        self.send(&Request::Run { line: line.to_owned(), json, directory, binary })?;
        loop {
            match self.receive(interrupted)? {
                Reply::Out(text) => {
                    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)?;
                }
                Reply::Data { .. } if !binary => return Err(foreign("it sent binary data instead of text")),
                Reply::Data { bytes, told: now } => {
                    *told = now;
                    self.pass_on(bytes, out, interrupted)?;
                }
                Reply::Failed(message) => return Err(Failure::Refused(message)),
                Reply::Done | Reply::Completion(_) | Reply::Hello { .. } => return Ok(()),
                Reply::Closed(why) => return Err(Failure::Closed(why)),
            }
        }
    }

    /// Returns the possible completions of `line`.
    ///
    /// # Errors
    /// If the router closed the connection, or does not answer within 5 s. The connection is not usable then.
    pub fn complete(&mut self, line: &str) -> Result<Completion, Failure> {
        self.send(&Request::Complete { line: line.to_owned() })?;
        match in_time(|is_late| self.receive(is_late))? {
            // The completions begin within the line, unless the router sent a wrong answer.
            Reply::Completion(mut completion) if line.is_char_boundary(completion.from) => {
                completion.candidates.truncate(MOST_CANDIDATES);
                completion.candidates.retain(|one| one.text.len().max(one.help.len()) <= LONGEST_CANDIDATE);
                Ok(completion)
            }
            Reply::Closed(why) => Err(Failure::Closed(why)),
            _ => Ok(Completion::default()),
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(request).map_err(|error| lost(&error.into()))?;
        line.push(b'\n');
        match self.stream.get_mut().write_all(&line) {
            // The router may have sent a reason before closing.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                match self.receive(&|| false) {
                    Ok(Reply::Closed(why)) => Err(Failure::Closed(why)),
                    _ => Err(lost(&error)),
                }
            }
            written => written.map_err(|error| lost(&error)),
        }
    }

    /// Copies the next `left` bytes from the connection to `out`.
    fn pass_on(
        &mut self,
        mut left: usize,
        out: &mut dyn Write,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        while left > 0 {
            if interrupted() {
                return Err(Failure::Interrupted);
            }
            let n = match self.stream.fill_buf() {
                Ok([]) => return Err(lost(&ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => {
                    let n = bytes.len().min(left);
                    out.write_all(&bytes[..n]).map_err(Failure::Output)?;
                    n
                }
                Err(error) if is_pause(&error) => 0,
                Err(error) => return Err(lost(&error)),
            };
            self.stream.consume(n);
            left -= n;
        }
        out.flush().map_err(Failure::Output)
    }

    fn receive(&mut self, interrupted: &dyn Fn() -> bool) -> Result<Reply, Failure> {
        let mut line = Vec::new();
        loop {
            // Checked in every round, so that a command with endless output can be interrupted.
            if interrupted() {
                return Err(Failure::Interrupted);
            }
            let (n, ended) = match self.stream.fill_buf() {
                Ok([]) => return Err(lost(&ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => {
                    let end = memchr(b'\n', bytes).map(|at| at + 1);
                    let n = end.unwrap_or(bytes.len());
                    line.extend_from_slice(&bytes[..n]);
                    (n, end.is_some())
                }
                Err(error) if is_pause(&error) => continue,
                Err(error) => return Err(lost(&error)),
            };
            self.stream.consume(n);
            if ended {
                break;
            }
            if line.len() > LONGEST_REPLY {
                return Err(foreign(&format!("a line has more than {} MiB", LONGEST_REPLY >> 20)));
            }
        }
        serde_json::from_slice(&line).map(Reply::visible).map_err(|error| foreign(&error.to_string()))
    }
}

/// Runs `ask` with a time limit of 5 s. The function passed to `ask` returns true once the limit has passed.
fn in_time<T>(ask: impl FnOnce(&dyn Fn() -> bool) -> Result<T, Failure>) -> Result<T, Failure> {
    let begun = Instant::now();
    ask(&|| begun.elapsed() > ANSWERED).map_err(|failure| match failure {
        Failure::Interrupted => {
            Failure::Unreachable(format!("the router has not answered within {} s", ANSWERED.as_secs()))
        }
        other => other,
    })
}

fn foreign(why: &str) -> Failure {
    Failure::Unreachable(format!("the server is not volley, or has another version: {}", visible(why)))
}

/// Keeps all output of a command, up to [`MOST_KEPT`] bytes.
struct Kept(Vec<u8>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_KEPT {
            return Err(io::Error::other(format!("the router sent more than {} MiB", MOST_KEPT >> 20)));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// True if a read ended without data because a signal interrupted it, or because no data arrived for [`LOOK`].
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn connect(socket: &Path) -> io::Result<Box<dyn Stream>> {
    if let Some(address) = socket.to_str().and_then(|text| text.parse::<SocketAddr>().ok()) {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LOOK))?;
        return Ok(Box::new(stream));
    }
    let stream = match roots_own(socket).map(UnixStream::connect) {
        Some(Ok(stream)) => stream,
        // If root's socket fails, tries the other one. A router that stops removes root's socket first; a killed router leaves both.
        Some(Err(_)) | None => UnixStream::connect(socket)?,
    };
    stream.set_read_timeout(Some(LOOK))?;
    Ok(Box::new(stream))
}

/// Returns the path of root's own socket beside `socket`, if this process runs as root and both sockets have the same owner.
fn roots_own(socket: &Path) -> Option<PathBuf> {
    if !Uid::effective().is_root() {
        return None;
    }
    let own = roots(socket);
    let [its, others] = [&own, socket].map(|path: &Path| path.symlink_metadata());
    let (its, others) = (its.ok()?, others.ok()?);
    (its.file_type().is_socket() && its.uid() == others.uid()).then_some(own)
}

fn unreachable(socket: &Path, error: &io::Error) -> Failure {
    let advice = match error.kind() {
        ErrorKind::NotFound => {
            "is volley running? -s selects another socket (unix { cli-listen ... } in startup.conf)"
        }
        ErrorKind::ConnectionRefused => "volley is not running, or it ended without removing its socket",
        ErrorKind::PermissionDenied => {
            "only root and the socket's group may use it (unix { gid ... } in startup.conf)"
        }
        _ => "is this volley's CLI socket?",
    };
    Failure::Unreachable(format!("cannot connect to {}: {error}\n{advice}", socket.display()))
}

fn lost(error: &io::Error) -> Failure {
    Failure::Unreachable(format!("the router has closed the connection ({error}); is it still running?"))
}

/// Returns the router's completions of the last of `words`, for shells. The list is empty if no router answers, or if the router has
/// another version.
pub fn candidates(socket: &Path, words: &[String]) -> Vec<String> {
    let Some((begun, before)) = words.split_last() else { return Vec::new() };
    let mut line: String = before.iter().map(|word| format!("{} ", quote(word))).collect();
    line += begun;
    let completion = Connection::open(socket).and_then(|mut connection| connection.complete(&line));
    let candidates = completion.unwrap_or_default().candidates;
    candidates.into_iter().filter(|c| !c.placeholder).map(|c| c.text).collect()
}

/// Runs the client. Returns the exit code: 2 if no router was reached or the router closed the connection, 1 if a command failed or its
/// output could not be written, and otherwise 0.
pub fn run(options: ClientOptions) -> ExitCode {
    let stdin = io::stdin();
    if options.words.is_empty() && stdin.is_terminal() && io::stdout().is_terminal() {
        return conclude(editor::interact(&options));
    }
    ExitCode::from(run_with(&options, &mut stdin.lock(), &mut io::stdout(), &mut io::stderr()))
}

/// Runs `volley capture`. Writes packets to standard output until the capture ends, the reader closes the pipe, or the
/// operator interrupts it. Prints a summary at the end.
pub fn capture(socket: &Path, words: &[String]) -> ExitCode {
    if io::stdout().is_terminal() {
        eprintln!("packets are binary data: use volley capture ... | tcpdump -r -, or ... > FILE");
        return ExitCode::FAILURE;
    }
    // A second signal ends the program, in case it is stuck.
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = flag::register_conditional_shutdown(signal, 130, Arc::clone(&interrupt))
            .and_then(|_| flag::register(signal, Arc::clone(&interrupt)));
        if let Err(error) = registered {
            return conclude(Err(Failure::Output(error)));
        }
    }
    let line: Vec<_> = ["capture"].into_iter().chain(words.iter().map(String::as_str)).map(quote).collect();
    let (mut told, mut out) = (String::new(), io::stdout());
    let interrupted = || interrupt.load(Ordering::Relaxed) || nobody_reads();
    let result = Connection::open_unless(socket, &interrupted)
        .and_then(|mut connection| connection.stream(&line.join(" "), &mut out, &mut told, &interrupted));
    if !told.is_empty() {
        eprintln!("{told}");
    }
    match result {
        // An interrupt is the usual end of a capture.
        Err(Failure::Interrupted) => ExitCode::SUCCESS,
        other => conclude(other),
    }
}

/// True if standard output is a pipe without a reader.
fn nobody_reads() -> bool {
    let out = io::stdout();
    let mut polled = [PollFd::new(out.as_fd(), PollFlags::empty())];
    poll(&mut polled, PollTimeout::ZERO).is_ok()
        && polled[0].revents().is_some_and(|said| said.contains(PollFlags::POLLERR))
}

/// Runs the CLI on the router's own standard input, until the operator leaves or the input ends. Failures of commands are printed and do
/// not end the CLI.
pub fn console(socket: PathBuf, line_mode: bool) {
    let options = ClientOptions { socket, json: false, keep_going: true, words: Vec::new() };
    let stdin = io::stdin();
    if stdin.is_terminal() && io::stdout().is_terminal() && !line_mode {
        conclude(editor::interact(&options));
        return;
    }
    let (prompted, mut input) = (stdin.is_terminal(), stdin.lock());
    let result = Connection::open(&options.socket).and_then(|mut connection| {
        script(&mut connection, &options, prompted, &mut input, &mut io::stdout(), &mut io::stderr())
    });
    conclude(result.map(|_| ()));
}

/// Runs the client without a terminal: runs the command in the words of `options` or, if they are `-` or empty, the commands from
/// `input`. Returns the exit code.
pub fn run_with(
    options: &ClientOptions,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
    errors: &mut dyn Write,
) -> u8 {
    let result =
        Connection::open(&options.socket).and_then(|mut connection| match options.words.as_slice() {
            [] => script(&mut connection, options, false, input, out, errors),
            [dash] if dash == "-" => script(&mut connection, options, false, input, out, errors),
            // A single word may be a whole line, as in `volley ctl "show version"`.
            [line] => connection.say(line, options.json, out).map(|()| 0),
            // The shell has removed the quotes of a comment.
            [first, ..] if first.starts_with('#') || is_comment(first) => Ok(0),
            words => {
                // A word that is only a bar begins a filter. Its quotes were for the shell.
                let word = |word| if word == "|" { Cow::Borrowed(word) } else { quote_typed(word) };
                let line: Vec<_> = words.iter().map(|text| word(text.as_str())).collect();
                connection.say(&line.join(" "), options.json, out).map(|()| 0)
            }
        });
    result.unwrap_or_else(|failure| report(&failure, options.json, errors))
}

/// Runs commands from `input`, up to `quit` or the end of the input. Shows the prompt if `prompted`. Returns the exit code.
///
/// A failed command ends the run, and its error is returned. With `keep_going`, its error is printed at once, and the run continues.
fn script(
    connection: &mut Connection,
    options: &ClientOptions,
    prompted: bool,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
    errors: &mut dyn Write,
) -> Result<u8, Failure> {
    let (mut commands, mut code) = (Commands::new(input), 0);
    loop {
        if prompted {
            write!(out, "{}", connection.prompt()).and_then(|()| out.flush()).map_err(Failure::Output)?;
        }
        let next = match commands.next() {
            Ok(next) => next,
            Err(Unread { line, column, error }) => {
                let failure = Failure::Refused(format!("line {line}, column {column}: {error}"));
                if !options.keep_going {
                    return Err(failure);
                }
                code = report(&failure, options.json, errors);
                continue;
            }
        };
        let next = next.filter(|command| !is_farewell(&command.text));
        let Some(Command { line, text, .. }) = next else { return Ok(code) };
        match connection.run(&text, options.json, out, &|| false) {
            Err(Failure::Refused(message)) => {
                let failure =
                    Failure::Refused(if prompted { message } else { numbered(line, message, options.json) });
                if !options.keep_going {
                    return Err(failure);
                }
                code = report(&failure, options.json, errors);
            }
            other => other?,
        }
    }
}

/// True if the line asks to leave the CLI.
pub(super) fn is_farewell(line: &str) -> bool {
    matches!(line.trim(), "quit" | "exit" | "q")
}

/// Adds the number of the input line to an error message; in JSON as the field `input_line`.
fn numbered(line: usize, message: String, json: bool) -> String {
    let number = |mut error: serde_json::Value| {
        error.get_mut("error")?.as_object_mut()?.insert("input_line".into(), line.into());
        serde_json::to_string_pretty(&error).ok()
    };
    let numbered = if json { serde_json::from_str(&message).ok().and_then(number) } else { None };
    numbered.unwrap_or_else(|| format!("line {line}:\n{message}"))
}

/// Prints a failure, as JSON on request ([`CliError::json`]). Returns the exit code.
fn report(failure: &Failure, json: bool, errors: &mut dyn Write) -> u8 {
    let code = failure.code();
    if code != 0 {
        let text = match failure {
            // The router's errors are JSON already.
            Failure::Refused(message) if json && message.starts_with('{') => message.clone(),
            other if json => CliError::new(other.to_string()).json(),
            other => other.to_string(),
        };
        // A failure to write it cannot be reported anywhere.
        let _ = writeln!(errors, "{text}");
    }
    code
}

fn conclude(result: Result<(), Failure>) -> ExitCode {
    ExitCode::from(result.map_or_else(|failure| report(&failure, false, &mut io::stderr()), |()| 0))
}
