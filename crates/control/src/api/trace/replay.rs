//! Replays traces: repeats those requests of a file that can change something, and the commands in it, in their order. Each repeated
//! request is a change of its own, as if a client had made it. Other messages are skipped.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use drivers::Patience;
use model::origin::Origin;
use vapi::table::{Runs, Serve};
use vapi::wire::{Field as _, Line, Reader};
use vapi::{Caller, Code};

use super::file::{self, Trace, Unknown};
use super::{Known, Traced};
use crate::api::change;
use crate::app::{Attended, Context, FileThread, Go, LOOK, SLICE, Transition};
use crate::cli::{Answer, Args, Call, CliError, Job, Registry, Step};

/// Maximum depth of nested replays: a replayed command may replay a file itself.
const DEEPEST: u8 = 8;
/// The client of replayed requests. No connection has this number.
const NO_CLIENT: u64 = u64::MAX;

/// A thread that reads a trace.
pub(crate) type Reading = FileThread<Trace, CliError>;

/// Reads a trace on another thread.
///
/// # Errors
/// If the thread cannot be started.
pub(crate) fn reading(path: PathBuf, is_json: bool, known: Arc<Known>) -> Result<Reading, CliError> {
    let read = move |patience: &Patience| {
        let read = file::read(&path, patience, is_json, &known);
        read.map_err(|e| CliError::new(format!("{}: {e}", path.display())))
    };
    Ok(FileThread::begin(read)?)
}

/// A command that replays a trace.
pub(crate) struct Replay {
    args: Args,
    registry: Rc<Registry<Context>>,
    path: PathBuf,
    is_json: bool,
    /// The range of messages to replay.
    range: (usize, usize),
    reading: Option<Reading>,
    known: Option<Arc<Known>>,
    messages: VecDeque<(usize, Result<Traced, Unknown>)>,
    running: Option<Running>,
    /// Numbers of replayed messages, of refused ones among these, and of skipped messages.
    counts: [usize; 3],
}

/// A request that may take several slices, with its number and name.
struct Running {
    number: usize,
    name: String,
    work: Work,
}

enum Work {
    Change(Attended<Transition>),
    /// Commands that are not run yet, and the job of the command that runs, if it takes several slices.
    Commands(VecDeque<String>, Option<Box<dyn Job<Context>>>),
}

impl Replay {
    /// Returns the job of the command `args`, which replays the messages `range` (the first and the last) of a file.
    ///
    /// # Errors
    /// If replays are nested too deeply.
    pub(crate) fn new(
        registry: &Rc<Registry<Context>>,
        args: &Args,
        path: PathBuf,
        is_json: bool,
        range: (usize, usize),
    ) -> Result<Replay, CliError> {
        if args.call().depth >= DEEPEST {
            return Err(args.fault("file", format!("more than {DEEPEST} levels of nested replays")));
        }
        Ok(Replay {
            args: args.clone(),
            registry: registry.clone(),
            path,
            is_json,
            range,
            reading: None,
            known: None,
            messages: VecDeque::new(),
            running: None,
            counts: [0; 3],
        })
    }

    /// Starts the thread that reads the file, and takes its result. Returns a step while the thread reads, or if it fails.
    fn read(&mut self, c: &Context, out: &mut String) -> Option<Step> {
        if self.known.is_none() {
            let known = self.known.insert(Arc::new(Known::of(&c.definitions)));
            match reading(self.path.clone(), self.is_json, known.clone()) {
                Ok(reading) => self.reading = Some(reading),
                Err(e) => return Some(Step::Failed(e)),
            }
        }
        let reading = self.reading.as_ref()?;
        if !reading.is_finished() {
            return Some(Step::After(LOOK));
        }
        let read = self.reading.take()?.joined().and_then(|trace: Trace| {
            let messages = part(trace.messages, self.range).map_err(CliError::new)?;
            Ok((messages, trace.wrapped))
        });
        match read {
            Ok((messages, wrapped)) => {
                self.messages = messages;
                if wrapped {
                    out.push_str("older messages are missing in this trace\n");
                }
                None
            }
            Err(e) => Some(Step::Failed(self.args.about("file", e))),
        }
    }

    /// Continues the running request, or begins the next one. Returns a step if the job must pause.
    fn next(&mut self, c: &mut Context, out: &mut String) -> Option<Step> {
        if let Some(mut running) = self.running.take() {
            return match running.work.step(c, &self.registry, self.args.call(), out) {
                Ok(ended) => {
                    self.ended(c, running.number, &running.name, ended, out);
                    None
                }
                Err(pause) => {
                    self.running = Some(running);
                    Some(pause)
                }
            };
        }
        let Some((number, message)) = self.messages.pop_front() else {
            let [replayed, refused, skipped] = self.counts;
            *out += &format!(
                "{replayed} requests replayed, {refused} of them refused; {skipped} other messages skipped\n"
            );
            return Some(Step::Done);
        };
        let message = match message {
            Ok(message) => message,
            Err(why) => {
                *out += &format!("message {number} skipped: {why}\n");
                self.counts[2] += 1;
                return None;
            }
        };
        let table = c.definitions.clone();
        let entry = table.get(message.id);
        let changes = |entry: &&vapi::table::Entry<Context>| match &entry.serve {
            // Registrations for events are skipped: they would belong to a client that does not exist.
            Serve::Request { runs, .. } => *runs != Runs::Reading,
            Serve::Socket => entry.info.name == "cli_inband",
            _ => false,
        };
        let Some(entry) = entry.filter(changes) else {
            self.counts[2] += 1;
            return None;
        };
        if c.must_be_idle().is_err() {
            self.messages.push_front((number, Ok(message)));
            return Some(Step::After(LOOK));
        }
        let name = entry.info.name.as_str();
        c.origin = Origin::new(
            self.args.call().front_end,
            self.args.call().peer.clone(),
            &format!("api trace replay: {name}"),
        );
        let mut r = Reader::new(message.bytes.get(8..).unwrap_or_default());
        let work = match &entry.serve {
            Serve::Request { answer, .. } => {
                let caller = Caller { client: NO_CLIENT, context: 0 };
                let answered = answer(c, &caller, &mut r);
                match c.begun.take() {
                    Some(change) => Work::Change(Attended::new(change, c)),
                    None => {
                        let code = answered.map_or(Code::INVALID_VALUE.0, |reply| reply.retval);
                        let result = if code < 0 { Err(Code(code)) } else { Ok(()) };
                        self.ended(c, number, name, result, out);
                        return None;
                    }
                }
            }
            _ => {
                let lines = Line::take(&mut r).unwrap_or_default().0;
                let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
                Work::Commands(lines.collect(), None)
            }
        };
        self.running = Some(Running { number, name: name.to_owned(), work });
        None
    }

    fn ended(
        &mut self,
        c: &mut Context,
        number: usize,
        name: &str,
        result: Result<(), Code>,
        out: &mut String,
    ) {
        self.counts[0] += 1;
        if let Err(Code(code)) = result {
            self.counts[1] += 1;
            *out += &format!("message {number}, {name}, is refused: {code}\n");
        }
        if let Some(warning) = c.warning.take() {
            *out += &format!("message {number}, {name}: {warning}\n");
        }
    }
}

impl Work {
    /// Runs a slice. Returns the result of the request at its end.
    ///
    /// # Errors
    /// If the request still runs: the job's next step.
    fn step(
        &mut self,
        c: &mut Context,
        registry: &Rc<Registry<Context>>,
        call: &Call,
        out: &mut String,
    ) -> Result<Result<(), Code>, Step> {
        match self {
            Work::Change(change) => match change.step(c, &mut Vec::new()) {
                Ok(Go::Done) => Ok(Ok(())),
                Ok(Go::Again) => Err(Step::Again),
                Ok(Go::After(time)) => Err(Step::After(time)),
                Err(failure) => Ok(Err(change::refused(failure))),
            },
            Work::Commands(lines, job) => {
                let step = match job {
                    Some(job) => job.step(c, out),
                    None => Step::Done,
                };
                match step {
                    Step::Done => *job = None,
                    Step::Failed(error) => return Ok(Err(shown(&error, out))),
                    wait => return Err(wait),
                }
                let Some(line) = lines.pop_front() else { return Ok(Ok(())) };
                let call = Call { depth: call.depth + 1, binary: false, json: false, ..call.clone() };
                match registry.run(c, &line, call) {
                    Ok(Answer { text, job: rest }) => {
                        out.push_str(&text);
                        *job = rest;
                        Err(Step::Again)
                    }
                    Err(error) => Ok(Err(shown(&error, out))),
                }
            }
        }
    }
}

/// Shows the error of a command. Returns the return value of its request.
fn shown(error: &CliError, out: &mut String) -> Code {
    *out += &format!("{}\n", error.render());
    Code::UNSPECIFIED
}

impl Job<Context> for Replay {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        if let Some(step) = self.read(c, out) {
            return step;
        }
        let begun = Instant::now();
        while begun.elapsed() < SLICE {
            if let Some(step) = self.next(c, out) {
                return step;
            }
        }
        Step::Again
    }
}

/// Returns the messages from the first to the last number, with their numbers.
///
/// # Errors
/// If there are no such messages.
pub(crate) fn part<T>(
    messages: Vec<T>,
    (first, last): (usize, usize),
) -> Result<VecDeque<(usize, T)>, String> {
    let count = messages.len();
    let is_all = (first, last) == (0, usize::MAX);
    if !is_all && (first > last || first >= count || (last != usize::MAX && last >= count)) {
        let highest = count
            .checked_sub(1)
            .map_or("the file has none".into(), |last| format!("the file has messages 0 to {last}"));
        return Err(format!("no such messages: {highest}"));
    }
    let length = last.saturating_sub(first).saturating_add(1);
    Ok(messages.into_iter().enumerate().skip(first).take(length).collect())
}
