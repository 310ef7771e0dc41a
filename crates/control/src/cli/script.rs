//! Commands from files: reading, checking and `exec`.

use crate::files;
use drivers::{Patience, Waiter};
use model::cli::{Answer, Args, CHUNK, Call, CliError, Job, Line, Output, Registry, Step, Values, comment};
use model::origin::FrontEnd;
use model::place::{Fault, Place};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum length of a command in bytes.
pub(super) const LONGEST: usize = 64 << 10;
/// Maximum depth of nested `exec` commands.
const DEEPEST: u8 = 8;
/// How long a job (a long command) runs at a time. In between, the main thread does its other work.
const SLICE: Duration = Duration::from_micros(500);
/// Maximum number of commands in one batch of a file.
const BATCH: usize = 64;
/// Maximum number of batches that wait for the main thread.
const BATCHES: usize = 16;
/// How often the main thread checks for more commands.
const LOOK: Duration = Duration::from_millis(1);

/// A reader of commands, one per line. A command continues on the next line if its line ends with a `\`, or while a `{` is open. A VPP
/// comment, `comment { … }`, continues while its `{` is open.
pub(super) struct Commands<R> {
    input: R,
    line: usize,
    /// True at the end, or after an error that prevents reading on.
    ended: bool,
}

/// A command, and where it is in the file.
#[derive(Debug, PartialEq)]
pub(super) struct Command {
    pub(super) text: String,
    /// The number of the command's first line, from 1.
    pub(super) line: usize,
    /// For each line of the command: the offset of its text in `text`, in bytes.
    parts: Vec<usize>,
}

/// Why lines could not be read as a command.
#[derive(Debug, PartialEq)]
pub(super) struct Unread {
    pub(super) line: usize,
    /// Column in the line, in characters from 1.
    pub(super) column: usize,
    pub(super) error: CliError,
}

impl<R: BufRead> Commands<R> {
    pub(super) fn new(input: R) -> Commands<R> {
        Commands { input, line: 0, ended: false }
    }

    /// Returns the next command; `None` at the end of the input. The call after an error continues after the faulty lines.
    ///
    /// # Errors
    /// If lines cannot be read as a command. The error has their position in the file.
    pub(super) fn next(&mut self) -> Result<Option<Command>, Unread> {
        let (mut command, mut parts) = (String::new(), Vec::new());
        let mut begin = 0;
        let mut open = 0;
        // Number of open braces of a comment, and the line in which it begins.
        let mut commented = (0, 0);
        let mut unread = None;
        while !self.ended {
            let mut bytes = Vec::new();
            let limit = LONGEST.saturating_sub(command.len()) as u64;
            let read = (&mut self.input).take(limit).read_until(b'\n', &mut bytes);
            let at = |line, column, error: CliError| Unread { line, column, error };
            let read = read.map_err(|error| {
                self.ended = true;
                at(self.line + 1, 1, CliError::new(error.to_string()))
            })?;
            if read as u64 == limit && !bytes.ends_with(b"\n") {
                let line = if begin > 0 { begin } else { self.line + 1 };
                // The start of the next command is unknown.
                self.ended = true;
                return Err(at(line, 1, format!("the command is longer than {LONGEST} bytes").into()));
            }
            if read == 0 {
                self.ended = true;
                match (open, commented) {
                    (1.., _) => return Err(at(begin, 1, "the '{' in this command is never closed".into())),
                    (_, (1.., line)) => {
                        return Err(at(line, 1, "the '{' in this comment is never closed".into()));
                    }
                    _ => break,
                }
            }
            self.line += 1;
            let text = String::from_utf8_lossy(&bytes);
            if let Err(error) = std::str::from_utf8(&bytes) {
                let valid = String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default());
                let column = valid.chars().count() + 1;
                unread.get_or_insert(at(self.line, column, "expected text in UTF-8".into()));
            }
            let text_of_comment = if commented.0 > 0 { Some(&*text) } else { comment(&text) };
            if let Some(words) = text_of_comment.filter(|_| command.is_empty()) {
                let line = if commented.0 > 0 { commented.1 } else { self.line };
                commented = (commented.0 + depth(words), line);
                match unread.take() {
                    Some(unread) => return Err(unread),
                    None => continue,
                }
            }
            let found = Line::read(&text);
            open += found
                .tokens
                .iter()
                .filter(|token| !token.quoted)
                .map(|token| depth(&token.text))
                .sum::<i64>();
            let part = text.get(..found.end).unwrap_or_default().trim_end();
            let (part, goes_on) = part.strip_suffix('\\').map_or((part, false), |part| (part, true));
            if command.is_empty() && part.is_empty() && !goes_on && unread.is_none() {
                continue;
            }
            if command.is_empty() {
                begin = self.line;
            } else {
                command.push(' ');
            }
            parts.push(command.len());
            command += part;
            if open <= 0 && !goes_on {
                break;
            }
        }
        match unread {
            Some(unread) => Err(unread),
            None => Ok((!command.is_empty()).then_some(Command { text: command, line: begin, parts })),
        }
    }
}

impl Command {
    /// Returns the line and column of the byte at `at` of the command's text. Columns count characters from 1.
    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.parts.partition_point(|part| *part <= at).saturating_sub(1);
        let part = self.parts.get(line).copied().unwrap_or(0);
        let before = self.text.get(part..at.min(self.text.len())).unwrap_or_default();
        (self.line + line, before.chars().count() + 1)
    }
}

/// Returns the number of braces that a word opens, minus those it closes.
fn depth(word: &str) -> i64 {
    word.chars().map(|c| i64::from(c == '{') - i64::from(c == '}')).sum()
}

/// A message from the thread that reads a file: commands and faults, with a `None` at the end of the file; or the error, if the
/// file cannot be opened.
type Batch = io::Result<Vec<Result<Option<Command>, Unread>>>;

/// Reads the file to its end or its first fault, or until the receiver is dropped.
fn read(path: &Path, patience: &Patience, to: &SyncSender<Batch>) {
    let mut commands = match files::open(path, patience) {
        Ok(file) => Commands::new(BufReader::new(file)),
        Err(e) => return drop(to.send(Err(e))),
    };
    let mut ended = false;
    while !ended {
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH && !ended {
            let next = commands.next();
            // Commands after a fault are not run.
            ended = !matches!(next, Ok(Some(_)));
            batch.push(next);
        }
        if to.send(Ok(batch)).is_err() {
            return;
        }
    }
}

/// A command file that is being run. A thread reads it.
///
/// This process can read files that its clients cannot. So a client is always told the position of a fault, but the text of the faulty line
/// is not always shown. It is shown if the line is a command, or if an earlier line was a command and this line begins like one.
pub(super) struct Script<C> {
    registry: Rc<Registry<C>>,
    batches: Receiver<Batch>,
    /// Ends the reading with this job.
    _waiter: Waiter,
    waiting: VecDeque<Result<Option<Command>, Unread>>,
    path: PathBuf,
    call: Call,
    /// The arguments of the client's `exec` command; `None` for a file that the router runs at its start.
    args: Option<Args>,
    /// The long command in progress, and its job.
    job: Option<(Command, Box<dyn Job<C>>)>,
    /// True if a line of the file was a command.
    familiar: bool,
}

/// Adds the command `exec`.
pub fn exec<C: Values + 'static>(registry: &mut Registry<C>) {
    registry.add_own(
        "exec <file:path>",
        "Run the commands in a file, up to the first that fails.",
        |registry, args| {
            let path: PathBuf = args.need("file")?;
            let script = Script::begin(Rc::clone(registry), &path, args.call());
            let script = script.map_err(|error| args.fault("file", error))?;
            Ok(Output::job(Script { args: Some(args.clone()), ..script }))
        },
    );
}

impl<C: Values + 'static> Script<C> {
    fn begin(registry: Rc<Registry<C>>, path: &Path, call: &Call) -> Result<Script<C>, String> {
        if call.depth >= DEEPEST {
            return Err(format!("more than {DEEPEST} levels of nested exec: does a file exec itself?"));
        }
        let (send, batches) = sync_channel(BATCHES);
        // A signal ends the start, even if the file system does not answer.
        let is_start = call.front_end == FrontEnd::Start;
        let patience = if is_start { Patience::for_ever() } else { Patience::without_end() };
        let waiter = Waiter(patience.clone());
        let file = path.to_owned();
        let thread =
            thread::Builder::new().name("volley_exec".into()).spawn(move || read(&file, &patience, &send));
        thread.map_err(|e| format!("cannot start a thread to read {}: {e}", path.display()))?;
        let front_end = if call.front_end == FrontEnd::Cli { FrontEnd::File } else { call.front_end };
        let call = Call { depth: call.depth + 1, binary: false, front_end, ..call.clone() };
        let (waiting, path) = (VecDeque::new(), path.to_owned());
        Ok(Script {
            registry,
            batches,
            _waiter: waiter,
            waiting,
            path,
            call,
            args: None,
            job: None,
            familiar: false,
        })
    }

    /// Returns the failure of a command, with the column if the error has one. Hides the error's text if the line must not be shown (see
    /// [`Script`]).
    fn fault_in(&self, command: &Command, error: CliError, cx: &C) -> Step {
        let at = error.place_in(&command.text);
        let (line, column) = at.map_or((command.line, 0), |at| command.place(at));
        let shown = || {
            let is_command = self.registry.check(&command.text, cx).is_ok();
            is_command || self.familiar && self.registry.begins(&command.text, cx)
        };
        let error = match self.args.is_none() || shown() {
            true => error,
            false => CliError::new(format!(
                "not a command. The line is hidden, because the file does not look like a command file: run \
                 volley check {} to see it",
                self.path.display()
            )),
        };
        if at.is_none() {
            return self.fault(line, error);
        }
        Step::Failed(error.within(format_args!("{}:{line}:{column}", self.path.display())))
    }

    fn fault(&self, line: usize, error: CliError) -> Step {
        Step::Failed(error.within(format_args!("{}:{line}", self.path.display())))
    }

    /// Returns the next command of the file.
    ///
    /// # Errors
    /// If there is no command now. The error is the job's next step: it waits, ends, or fails.
    fn next(&mut self) -> Result<Command, Step> {
        loop {
            match self.waiting.pop_front() {
                Some(Ok(Some(command))) => return Ok(command),
                Some(Ok(None)) => return Err(Step::Done),
                Some(Err(Unread { line, error, .. })) => return Err(self.fault(line, error)),
                None => {}
            }
            let why = match self.batches.try_recv() {
                Ok(Ok(batch)) => {
                    self.waiting.extend(batch);
                    continue;
                }
                Err(TryRecvError::Empty) => return Err(Step::After(LOOK)),
                Ok(Err(e)) => e.to_string(),
                Err(TryRecvError::Disconnected) => "internal error: the reading thread died".into(),
            };
            let error = CliError::new(format!("cannot read {}: {why}", self.path.display()));
            return Err(Step::Failed(match &self.args {
                Some(args) => args.about("file", error),
                None => error,
            }));
        }
    }
}

impl<C: Values + 'static> Job<C> for Script<C> {
    fn step(&mut self, cx: &mut C, out: &mut String) -> Step {
        if let Some((command, mut job)) = self.job.take() {
            match job.step(cx, out) {
                Step::Done => {}
                Step::Failed(error) => return self.fault_in(&command, error, cx),
                wait => {
                    self.job = Some((command, job));
                    return wait;
                }
            }
        }
        let begun = Instant::now();
        while begun.elapsed() < SLICE && out.len() < CHUNK {
            let command = match self.next() {
                Ok(command) => command,
                Err(step) => return step,
            };
            self.familiar = self.familiar || self.registry.check(&command.text, cx).is_ok();
            match self.registry.run(cx, &command.text, self.call.clone()) {
                Ok(Answer { text, job }) => {
                    out.push_str(&text);
                    self.job = job.map(|job| (command, job));
                }
                Err(error) => return self.fault_in(&command, error, cx),
            }
            if self.job.is_some() {
                break;
            }
        }
        Step::Again
    }
}

/// Returns all syntax errors in a text with commands. `file` is the name of the text in messages; `values` knows the configured names. Does
/// not run the commands, and does not check whether they would succeed.
pub fn check_commands<C: Values + 'static>(
    registry: &Registry<C>,
    values: &dyn Values,
    text: impl BufRead,
    file: &str,
) -> Vec<Fault> {
    let place = |line, column| Place::File { file: file.into(), line, column };
    let (mut commands, mut faults) = (Commands::new(text), Vec::new());
    loop {
        match commands.next() {
            Ok(None) => return faults,
            Ok(Some(command)) => {
                let Err(error) = registry.check(&command.text, values) else { continue };
                let at = error.place_in(&command.text).unwrap_or(0);
                let (line, column) = command.place(at);
                faults.push(Fault::new(&place(line, column), error.in_one_line()));
            }
            Err(Unread { line, column, error }) => {
                faults.push(Fault::new(&place(line, column), error.in_one_line()))
            }
        }
    }
}

/// Runs the commands in the file `path` at the router's start, as `exec` does. Passes their output to `say` as it
/// arrives.
///
/// # Errors
/// The error of the first failed command, with file and line. The commands before that one stay in effect.
pub async fn run_file<C: Values + 'static>(
    registry: &Rc<Registry<C>>,
    cx: &RefCell<C>,
    path: &Path,
    say: impl FnMut(&str),
) -> Result<(), CliError> {
    let call = Call { front_end: FrontEnd::Start, ..Call::default() };
    let mut script = Script::begin(Rc::clone(registry), path, &call)?;
    run_job(&mut script, cx, say).await
}

/// Runs a job to its end. Passes its output to `say` as it arrives.
///
/// # Errors
/// If the job fails.
pub async fn run_job<C>(
    job: &mut impl Job<C>,
    cx: &RefCell<C>,
    mut say: impl FnMut(&str),
) -> Result<(), CliError> {
    loop {
        let mut text = String::new();
        let step = job.step(&mut cx.borrow_mut(), &mut text);
        say(&text);
        match step {
            Step::Again | Step::Data { .. } => tokio::task::yield_now().await,
            Step::After(time) => tokio::time::sleep(time).await,
            Step::Done => return Ok(()),
            Step::Failed(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl<R: BufRead> Commands<R> {
        /// Skips the first command, and returns the second one.
        fn skipping_one(mut self) -> Result<Option<Command>, Unread> {
            self.next()?;
            self.next()
        }
    }

    fn all(text: &str) -> Vec<(usize, String)> {
        let mut commands = Commands::new(text.as_bytes());
        std::iter::from_fn(|| commands.next().unwrap()).map(|c| (c.line, c.text)).collect()
    }

    #[test]
    fn commands_may_span_lines() {
        let text = "# head\n\na b # tail\npg new { # x\n  size 64\n} end\nlong \\\n line\nlast";
        let expected = [(3, "a b"), (4, "pg new {   size 64 } end"), (7, "long   line"), (9, "last")];
        assert_eq!(all(text), expected.map(|(line, text)| (line, text.to_owned())));
    }

    proptest! {
        /// Quoted words of a saved file, such as descriptions, never continue on the next line.
        #[test]
        fn quoted_words_do_not_go_on_in_the_next_line(
            list in prop::collection::vec(r#"[^\r\n]{0,4}[a{}\\"'#/ ]{0,3}"#, 1..4),
        ) {
            let words: Vec<_> = list.iter().map(|word| model::cli::quote(word)).collect();
            let line = format!("set {}", words.join(" "));
            prop_assert_eq!(all(&format!("{line}\nlast")), [(1, line), (2, "last".to_owned())]);
        }
    }

    #[test]
    fn comments_may_span_lines() {
        let text =
            "comment one {\n it's { nested } x\n} y\na\n// b {\nCOMMENT it's\n  comment { c }\nd // e\n";
        assert_eq!(all(text), [(4, "a".to_owned()), (8, "d // e".to_owned())]);
        let Unread { line, error, .. } = Commands::new(&b"a\ncomment {\nb\n"[..]).skipping_one().unwrap_err();
        assert_eq!((line, error.to_string().contains("comment is never closed")), (2, true), "{error}");
    }

    #[test]
    fn places_are_lines_and_columns_of_the_file() {
        let mut commands = Commands::new(&b"\n  a {\n\xc3\xa9 b\n}\nlast x\n"[..]);
        let command = commands.next().unwrap().unwrap();
        assert_eq!((command.line, command.text.as_str()), (2, "  a { é b }"));
        let place = |word: &str| command.place(command.text.find(word).unwrap());
        assert_eq!(["a", "é", "b", "}"].map(place), [(2, 3), (3, 1), (3, 3), (4, 1)]);
        let command = commands.next().unwrap().unwrap();
        assert_eq!(command.place(5), (5, 6));
        assert_eq!(command.place(6), (5, 7), "behind the end");
    }

    #[test]
    fn unclosed_and_too_long_commands_are_refused_with_their_line() {
        let fault = |text: &str| {
            let Unread { line, error, .. } = Commands::new(text.as_bytes()).next().unwrap_err();
            (line, error)
        };
        assert_eq!(fault("\na {\nb\n"), (2, "the '{' in this command is never closed".into()));
        for text in ["x".repeat(LONGEST + 10), format!("{{\n{}", "word \n".repeat(LONGEST / 5))] {
            let (line, error) = fault(&text);
            assert_eq!((line, error.to_string().contains("longer")), (1, true), "{error}");
        }
    }

    #[test]
    fn reading_continues_after_invalid_utf8() {
        let mut commands = Commands::new(&b"a\n\xc3\xa9\xff\nb {\n\xff }\nc\n"[..]);
        let mut all = Vec::new();
        loop {
            match commands.next() {
                Ok(None) => break,
                Ok(Some(Command { line, text, .. })) => all.push((line, 0, text)),
                Err(Unread { line, column, error }) => all.push((line, column, error.to_string())),
            }
        }
        let no_text = || "expected text in UTF-8".to_string();
        assert_eq!(all, [(1, 0, "a".into()), (2, 2, no_text()), (4, 1, no_text()), (5, 0, "c".into())]);
    }
}
