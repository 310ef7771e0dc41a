//! Long-running commands. Some must continue after their client has disconnected.

use std::time::Duration;

use crate::app::{Abandoned, Context, Go, Report, Unattended, Work};
use crate::cli::{Args, CliError, Job, Step};

/// A job that must not stop halfway.
pub(super) trait Unfinished: Job<Context> {
    /// Called when the client has disconnected. Returns true if the job must continue without it.
    fn cut_off(&mut self) -> bool;
}

/// A job for a client. If the client disconnects, the job continues if [`Unfinished::cut_off`] returns true.
pub(super) struct ForClient<J: Unfinished + 'static> {
    job: Option<J>,
    abandoned: Abandoned,
}

impl<J: Unfinished> ForClient<J> {
    pub fn new(job: J, c: &Context) -> ForClient<J> {
        ForClient { job: Some(job), abandoned: c.abandoned.clone() }
    }
}

impl<J: Unfinished> Job<Context> for ForClient<J> {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        // Abandoned work comes first.
        if c.tidy() == Some(Duration::ZERO) {
            return Step::Again;
        }
        let Some(job) = &mut self.job else { return Step::Done };
        let step = job.step(c, out);
        if matches!(step, Step::Done | Step::Failed(_)) {
            self.job = None;
        }
        step
    }
}

impl<J: Unfinished> Drop for ForClient<J> {
    fn drop(&mut self) {
        if let Some(mut job) = self.job.take()
            && job.cut_off()
        {
            self.abandoned.borrow_mut().push_back(Box::new(Rest(job)));
        }
    }
}

/// The rest of a job whose client has disconnected.
struct Rest<J>(J);

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
}

impl<W: Work> Told<W> {
    pub fn new(work: W) -> Told<W> {
        Told { work, about: None }
    }

    /// Returns the same job, whose failures are marked at the command's argument `name`.
    pub fn about(self, args: &Args, name: &'static str) -> Told<W> {
        Told { about: Some((args.clone(), name)), ..self }
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
            Ok(Go::Done) => Step::Done,
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
        Report::Warning(_) => out.extend(["! ", &report.to_string(), "\n"]),
        Report::Progress { .. } => out.extend(["# ", &report.to_string(), "\n"]),
        _ => out.extend([&report.to_string(), "\n"]),
    }
}
