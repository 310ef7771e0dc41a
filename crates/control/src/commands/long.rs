//! Long-running commands. Some must continue after their client has disconnected.

use crate::app::{Attended, Context, Go, Lasting, Report, Slice, Unattended, Work};
use crate::cli::{Args, CliError, Job, Step};

/// A job that must not stop halfway.
pub(super) trait Unfinished: Job<Context> {
    /// Called when the client has disconnected. Returns true if the job must continue without it.
    fn cut_off(&mut self) -> bool;
}

/// A job for a client. When the client disconnects, [`Unfinished::cut_off`] decides whether the job continues or ends.
pub(super) struct ForClient<J: Unfinished + 'static>(Attended<Rest<J>>);

impl<J: Unfinished> ForClient<J> {
    pub fn new(job: J, c: &Context) -> ForClient<J> {
        ForClient(Attended::new(Rest(job), c))
    }
}

impl<J: Unfinished> Job<Context> for ForClient<J> {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let step = match self.0.slice(c, |Rest(job), c| job.step(c, out)) {
            Slice::Abandoned => Step::Again,
            Slice::Own(step) => step,
            Slice::Nothing => Step::Done,
        };
        if matches!(step, Step::Done | Step::Failed(_)) {
            self.0.end();
        }
        step
    }
}

/// A job that can run without its client.
struct Rest<J>(J);

impl<J: Unfinished> Lasting for Rest<J> {
    fn cut_off(&mut self) -> bool {
        self.0.cut_off()
    }
}

impl<J: Unfinished> Unattended for Rest<J> {
    fn go_on(&mut self, c: &mut Context) -> Go {
        match self.0.step(c, &mut String::new()) {
            Step::Again | Step::Data { .. } => Go::Again,
            Step::After(time) => Go::After(time),
            Step::Done | Step::Failed(_) => Go::Done,
        }
    }
}

/// Runs long work as the job of a command, and writes the work's reports as lines of text.
pub(super) struct Told<W> {
    work: W,
    /// The argument at which errors are marked, if any.
    about: Option<(Args, &'static str)>,
    /// The output at the end.
    end: String,
}

impl<W: Work> Told<W> {
    pub fn new(work: W) -> Told<W> {
        Told { work, about: None, end: String::new() }
    }

    /// Returns the same job, but with errors that point to the argument `name` of the command.
    pub fn about(self, args: &Args, name: &'static str) -> Told<W> {
        Told { about: Some((args.clone(), name)), ..self }
    }

    /// Returns the same job, but with this text as its last output.
    pub fn ending_with(self, end: String) -> Told<W> {
        Told { end, ..self }
    }
}

impl<W: Work> Job<Context> for Told<W> {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let mut reports = Vec::new();
        let went = self.work.step(c, &mut reports);
        reports.iter().for_each(|report| write(report, out));
        match went {
            Ok(Go::Again) => Step::Again,
            Ok(Go::After(time)) => Step::After(time),
            Ok(Go::Done) => {
                out.push_str(&std::mem::take(&mut self.end));
                Step::Done
            }
            Err(e) => Step::Failed(match &self.about {
                Some((args, name)) => args.about(name, e),
                None => CliError::from(e),
            }),
        }
    }
}

impl<W: Work> Unfinished for Told<W> {
    fn cut_off(&mut self) -> bool {
        self.work.cut_off()
    }
}

/// Appends a report as text.
fn write(report: &Report, out: &mut String) {
    match report {
        Report::Difference(lines) => out.push_str(lines),
        // Operators see the generation in the history.
        Report::Arrived { .. } => {}
        Report::Warning(_) => out.extend(["! ", &report.to_string(), "\n"]),
        Report::Progress { .. } => out.extend(["# ", &report.to_string(), "\n"]),
        _ => out.extend([&report.to_string(), "\n"]),
    }
}
