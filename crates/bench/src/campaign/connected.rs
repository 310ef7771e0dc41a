//! Trials through connections of a stateful router (RFC 9693).

use super::Procedure;
use super::procedures::LEAST;
use super::recorded::Recorded;
use crate::engine::run::Direction;
use crate::sessions::{Attempt, Establish, Phases, Table, attempt};
use crate::trial::{Failure, Outcome, Request};

/// What trials go through.
pub(super) struct Sessions {
    /// As many as any procedure of the campaign needs.
    pub table: Table,
    /// Of them those that trials go through.
    pub connections: u64,
    /// Whether both sides send in trials.
    pub bidirectional: bool,
    /// How fast they are established before a trial: as fast as has gone well.
    pub rate_fps: f64,
}

impl Sessions {
    /// The first `connections` of a table. They are established within a second, until it is known how fast the router is.
    pub fn new(table: Table, connections: u64, bidirectional: bool) -> Sessions {
        Sessions { table, connections, bidirectional, rate_fps: (connections as f64).max(LEAST) }
    }

    /// What is sent in trials, once all are established.
    fn directions(&self) -> Result<Vec<Direction>, Failure> {
        let mut all = vec![self.table.forth(self.connections)?];
        if self.bidirectional {
            all.push(self.table.back()?);
        }
        Ok(all)
    }
}

impl Recorded<'_> {
    /// Establishes all connections of the trials anew, if they go through any: at half the rate where some did not come through, and so
    /// on (RFC 9693 section 4.2).
    ///
    /// # Errors
    /// When they cannot be established, however slowly.
    pub fn connect(&mut self) -> Result<(), Failure> {
        let Some(mut sessions) = self.sessions.take() else { return Ok(()) };
        // These trials are none of the procedure's own.
        let procedure = std::mem::replace(&mut self.procedure, Procedure::WarmUp);
        let done = self.connect_all(&mut sessions);
        (self.procedure, self.sessions) = (procedure, Some(sessions));
        self.engine.set_directions(done?);
        Ok(())
    }

    fn connect_all(&mut self, sessions: &mut Sessions) -> Result<Vec<Direction>, Failure> {
        let connections = sessions.connections;
        loop {
            self.forget()?;
            let (first, rate_fps) = (sessions.table.first_phase(connections)?, sessions.rate_fps);
            let learn = &mut |number, frame: &[u8]| sessions.table.learn(number, frame);
            let outcome = self.phase(first, Request::burst(connections, rate_fps), learn)?;
            let learned = sessions.table.learned();
            if learned == connections {
                return sessions.directions();
            }
            if rate_fps <= LEAST {
                return Err(Failure(format!(
                    "of {connections} sessions {} came through the router, {learned} of them different: fewer sessions may do",
                    outcome.received
                )));
            }
            sessions.rate_fps = (rate_fps / 2.0).max(LEAST);
        }
    }
}

impl Phases for Recorded<'_> {
    fn phase(
        &mut self,
        direction: Direction,
        request: Request,
        came: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Outcome, Failure> {
        self.engine.set_directions(vec![direction]);
        let trial = self.watched(&[request], |stamp, frame| came(stamp.sequence, frame))?.pop();
        trial.map(|t| t.outcome).ok_or_else(|| Failure("no trial".into()))
    }

    /// A router that tracks nothing has nothing to forget.
    fn forget(&mut self) -> Result<(), Failure> {
        self.dut.and_then(|dut| dut.forget_sessions()).unwrap_or(Ok(()))
    }

    fn counted(&self) -> Option<u64> {
        self.dut.and_then(|dut| dut.sessions())
    }
}

impl Establish for Recorded<'_> {
    fn establish(&mut self, connections: u64, rate_fps: f64) -> Result<Attempt, Failure> {
        let none = || Failure("the test has no sessions".into());
        let mut sessions = self.sessions.take().ok_or_else(none)?;
        let attempt = attempt(self, &mut sessions.table, connections, rate_fps);
        self.sessions = Some(sessions);
        attempt
    }
}
