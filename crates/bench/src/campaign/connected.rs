//! Trials through connections of a stateful router (RFC 9693).

use super::Procedure;
use super::procedures::LEAST;
use super::recorded::Recorded;
use crate::engine::run::Direction;
use crate::sessions::{Attempt, Establish, Phases, Table, attempt};
use crate::trial::{Failure, Outcome, Request};

/// Connections that trials use.
pub(super) struct Sessions {
    /// Connection table, large enough for every procedure of the campaign.
    pub table: Table,
    /// Number of connections that trials use: the first entries of the table.
    pub connections: u64,
    /// True if both the initiator and the responder send in trials.
    pub bidirectional: bool,
    /// Rate at which connections are established before a trial, in connections per second. Halved after each attempt in which connections
    /// were lost.
    pub rate_fps: f64,
}

impl Sessions {
    /// Uses the first `connections` entries of a table. The first attempt uses a rate that establishes all of them within a
    /// second.
    pub fn new(table: Table, connections: u64, bidirectional: bool) -> Sessions {
        Sessions { table, connections, bidirectional, rate_fps: (connections as f64).max(LEAST) }
    }

    /// Returns the traffic of trials through established connections.
    fn directions(&self) -> Result<Vec<Direction>, Failure> {
        let mut all = vec![self.table.forth(self.connections)?];
        if self.bidirectional {
            all.push(self.table.back()?);
        }
        Ok(all)
    }
}

impl Recorded<'_> {
    /// Establishes all connections of the trials again, if the trials use connections. Halves the rate after each attempt in which
    /// connections were lost (RFC 9693 section 4.2).
    ///
    /// # Errors
    /// Returns an error if a trial has no outcome, the connections cannot be deleted, or connections are lost even at the lowest rate.
    pub fn connect(&mut self) -> Result<(), Failure> {
        let Some(mut sessions) = self.sessions.take() else { return Ok(()) };
        // The trials that establish connections do not count for the current procedure.
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
                    "the router established only {learned} of {connections} sessions ({} frames arrived): try fewer sessions",
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
        trial.map(|t| t.outcome).ok_or_else(|| Failure("internal error: no trial".into()))
    }

    /// Deletes the router's connections. Does nothing if the router tracks none, or the tester cannot delete them.
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
