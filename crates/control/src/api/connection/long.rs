//! Requests that take several slices: commands, and changes of many objects.

use std::io;
use std::time::{Duration, Instant};

use model::cli::{Answer, Call, CliError, Job, Step};
use model::origin::FrontEnd;
use model::reason::Reason;
use vapi::Code;

use super::{Connection, LONGEST_COMMAND, Socket};
use crate::api::change;
use crate::app::{Attended, Context, Go, LOOK, Transition};

/// Maximum time for which a request waits until other long changes have ended. A longer time would be useless: clients give up after 5 to
/// 10 s without a reply.
pub(super) const BUSY: Duration = Duration::from_secs(10);

impl Connection {
    /// Runs the commands in `lines`, one after the other, each to its end. Returns their output.
    ///
    /// If a command fails, the output ends with its error message, no further command runs, and the function also returns the API's return
    /// value for a failure. A negative result ([`Reason::Negative`]) is not a failure: the next command runs.
    ///
    /// # Errors
    /// If the client leaves.
    pub(super) async fn command(
        &mut self,
        lines: &str,
        socket: &mut Socket,
    ) -> io::Result<(String, Option<Code>)> {
        let call = Call {
            role: self.api.role,
            front_end: FrontEnd::Api,
            peer: self.peer.clone(),
            ..Call::default()
        };
        let (mut out, until) = (String::new(), Instant::now() + LONGEST_COMMAND);
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let ran = self.api.commands.run(&mut self.cx.borrow_mut(), line, call.clone());
            let ended = match ran {
                Ok(Answer { text, job }) => {
                    out += &text;
                    match job {
                        Some(job) => self.finish(job, &mut out, until, socket).await?,
                        None => self.within(&out, until),
                    }
                }
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                out += &format!("{}\n", error.render());
                // Like in VPP, a negative result of a command is no failure of the request.
                if error.reason() == Reason::Negative {
                    continue;
                }
                return Ok((out, Some(Code::UNSPECIFIED)));
            }
            self.pause(socket).await?;
        }
        Ok((out, None))
    }

    /// Runs the job of a long command to its end.
    ///
    /// # Errors
    /// Outer error: the client leaves. Inner error: the command fails, or exceeds a limit.
    async fn finish(
        &mut self,
        mut job: Box<dyn Job<Context>>,
        out: &mut String,
        until: Instant,
        socket: &mut Socket,
    ) -> io::Result<Result<(), CliError>> {
        loop {
            let step = job.step(&mut self.cx.borrow_mut(), out);
            let time = match step {
                Step::Done => return Ok(self.within(out, until)),
                Step::Failed(error) => return Ok(Err(error)),
                Step::Data { .. } => {
                    return Ok(Err(CliError::new("this command outputs binary data: use volley ctl")));
                }
                Step::Again => Duration::ZERO,
                Step::After(time) => time,
            };
            if let Err(error) = self.within(out, until) {
                return Ok(Err(error));
            }
            self.next_slice(time.min(until.saturating_duration_since(Instant::now())), socket).await?;
        }
    }

    /// Waits until no other long change is running, but not beyond the time `until`.
    ///
    /// # Errors
    /// If the client leaves.
    pub(super) async fn wait_for_changes(&mut self, until: Instant, socket: &mut Socket) -> io::Result<()> {
        while self.cx.borrow().must_be_idle().is_err() && Instant::now() < until {
            self.next_slice(LOOK, socket).await?;
        }
        Ok(())
    }

    /// If the request has begun a change of many objects, runs this change to its end. If the client leaves before the end, the change is
    /// rolled back. If other changes keep it waiting until the time `until`, it is refused.
    ///
    /// # Errors
    /// Outer error: the client leaves. Inner error: the return value of a refused change.
    pub(super) async fn finish_begun(
        &mut self,
        until: Instant,
        socket: &mut Socket,
    ) -> io::Result<Result<(), Code>> {
        let Some(change) = self.cx.borrow_mut().begun.take() else { return Ok(Ok(())) };
        let mut work = Attended::new(change, &self.cx.borrow());
        loop {
            let went = work.step(&mut self.cx.borrow_mut(), &mut Vec::new());
            let time = match went {
                Ok(Go::Done) => return Ok(Ok(())),
                Ok(Go::Again) => Duration::ZERO,
                Ok(Go::After(time)) => time,
                Err(failure) => return Ok(Err(change::refused(failure))),
            };
            if Instant::now() >= until && work.work().is_some_and(Transition::is_waiting) {
                return Ok(Err(Code::BUSY));
            }
            self.next_slice(time, socket).await?;
        }
    }

    /// Ends this slice, lets other work run for `time`, and begins the next slice.
    ///
    /// # Errors
    /// If the client leaves.
    async fn next_slice(&mut self, time: Duration, socket: &mut Socket) -> io::Result<()> {
        // Keeps the turn until all other tasks have run.
        socket.glance().await?;
        self.turn = None;
        if !time.is_zero() {
            socket.wait(time).await?;
        }
        self.begin_slice().await;
        Ok(())
    }
}
