//! Checks of a campaign that change nothing on the machine.

use std::collections::HashSet;

use super::check_traffic::ends;
use super::{Campaign, Fault, Procedure, Test};
use crate::dut;
use crate::energy;
use crate::sessions;
use crate::testbed;
use crate::traffic::{BUILTIN, MOST_NETWORKS};

/// Maximum number of repetitions of a measurement.
const MOST_REPETITIONS: u32 = 10_000;

impl Campaign {
    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// Returns the first fault and its remedy.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let ensure = |holds: bool, why: &str| if holds { Ok(()) } else { Err(Fault(why.into())) };
        ensure(!self.duts.is_empty(), "duts: at least one router is needed")?;
        ensure(!self.tests.is_empty(), "test: at least one [[test]] is needed")?;
        dut::check(&self.duts, &self.testbed).map_err(Fault)?;
        let seconds = |s: f64| (0.01..=86_400.0).contains(&s);
        let why = "trial-seconds: must be from 0.01 to 86400";
        ensure(self.trial_seconds.is_none_or(seconds), why)?;
        let why = format!("repetitions: must be from 1 to {MOST_REPETITIONS}");
        ensure(self.repetitions.is_none_or(|n| (1..=MOST_REPETITIONS).contains(&n)), &why)?;
        let minutes = |m: f64| (0.01..=1e6).contains(&m);
        ensure(self.most_minutes.is_none_or(minutes), "most-minutes: must be from 0.01 to 1000000")?;
        let soak = self.soak;
        let why = "soak: \"each\" must be at least 0.01, and \"seconds\" must be from the value of \"each\" to 86400";
        ensure(seconds(soak.each) && soak.seconds >= soak.each && seconds(soak.seconds), why)?;
        let share = |s: &f64| *s > 0.0 && *s <= 1.0;
        ensure(share(&soak.share), "soak: share of the throughput must be above 0 and at most 1")?;
        let why = "latency-at: needs shares of the throughput, each above 0 and at most 1";
        ensure(!self.latency_at.is_empty() && self.latency_at.iter().all(share), why)?;
        let why = format!("most-sessions: must be at most {}", sessions::MOST);
        ensure(self.most_sessions <= sessions::MOST, &why)?;
        self.validity.check().map_err(|e| Fault(format!("validity: {e}")))?;
        self.check_procedures()?;
        for (n, meter) in self.meters.iter().enumerate() {
            meter.check().map_err(|e| Fault(format!("meter {}: {e}", n + 1)))?;
            let physical = self.testbed.kind == testbed::Kind::Physical;
            if *meter == energy::Spec::CPU && physical {
                let why = "cores: the router runs on another machine: list cores of this machine, or remove the meter";
                return Err(Fault(format!("meter {}: {why}", n + 1)));
            }
            if meter.is_remote() && !physical {
                let why = "virtual links put the tester into its own network namespace, where it cannot reach this meter: \
                           use a meter of kind \"command\" that prints the counter";
                return Err(Fault(format!("meter {}: {why}", n + 1)));
            }
        }
        self.check_traffics()?;
        let mut before = HashSet::new();
        for (n, test) in self.tests.iter().enumerate() {
            let named = |e: Fault| Fault(format!("test {} ({}): {e}", n + 1, test.traffic));
            self.check_test(test).map_err(named)?;
            // Results are stored by key, so no two measurements may have the same key.
            if let Some(size) = self.sizes(test).into_iter().find(|size| !before.insert(test.key(*size))) {
                return Err(named(Fault(format!("duplicate measurement with {size} bytes: remove one"))));
            }
        }
        Ok(())
    }

    /// Checks that this machine meets the campaign's needs. Changes nothing.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn check_machine(&self) -> Result<(), Fault> {
        if let Some(directory) = &self.testbed.record {
            testbed::lab::check_path(directory).map_err(|e| Fault(format!("testbed: record: {e}")))?;
        }
        testbed::check_machine(&self.testbed).map_err(|e| Fault(e.0))
    }

    fn check_procedures(&self) -> Result<(), Fault> {
        if self.procedures.is_empty() {
            return Err(Fault("procedures: at least one is needed".into()));
        }
        for (n, procedure) in self.procedures.iter().enumerate() {
            let (before, name) = (&self.procedures[..n], procedure.name());
            let why = match procedure {
                p if before.contains(p) => "is listed twice",
                Procedure::SelfTest | Procedure::WarmUp => "always runs first: remove it",
                p if p.needs_throughput() && !before.contains(&Procedure::Throughput) => {
                    "needs the throughput: put \"throughput\" before it"
                }
                Procedure::Loads if self.loads.is_empty() => {
                    "needs loads, such as loads = [\"10 %\", \"1 Gbit/s\"]"
                }
                _ => continue,
            };
            return Err(Fault(format!("procedures {}: {name:?} {why}", n + 1)));
        }
        let fixed = self.duts.iter().enumerate().find(|(_, dut)| !dut.can_restart());
        if let (true, Some((n, dut))) = (self.procedures.contains(&Procedure::Reset), fixed) {
            let why = "the procedure \"reset\" cannot restart this router (only routers of kind volley, or of kind command with the key \"restart\"): \
                       measure this router in a campaign without \"reset\"";
            return Err(Fault(dut.fault(n, why)));
        }
        if !self.goals.is_empty() && !self.procedures.contains(&Procedure::NdrPdr) {
            return Err(Fault("goal: needs the procedure \"ndr-pdr\": add it to procedures".into()));
        }
        for (n, goal) in self.goals.iter().enumerate() {
            goal.check().map_err(|e| Fault(format!("goal {}: {e}", n + 1)))?;
        }
        if !self.loads.is_empty() && !self.procedures.contains(&Procedure::Loads) {
            return Err(Fault("loads: needs the procedure \"loads\": add it to procedures".into()));
        }
        Ok(())
    }

    fn check_test(&self, test: &Test) -> Result<(), Fault> {
        let none = || {
            let builtin = BUILTIN.iter().map(|(name, _)| *name);
            let names: Vec<_> = self.traffics.iter().map(|t| t.name.as_str()).chain(builtin).collect();
            Fault(format!("traffic: unknown: use one of {}", names.join(", ")))
        };
        let own = self.traffic(&test.traffic, 0).ok_or_else(none)?.own_size();
        match own {
            Some(_) if !test.sizes.is_empty() => {
                return Err(Fault("sizes: this traffic sets its own frame sizes: remove sizes".into()));
            }
            None if test.sizes.is_empty() => return Err(Fault("sizes: at least one is needed".into())),
            _ => {}
        }
        if test.routes > MOST_NETWORKS {
            return Err(Fault(format!("routes: must be at most {MOST_NETWORKS}")));
        }
        let timed = [Procedure::Recovery, Procedure::Reset];
        let stamped = self.traffic(&test.traffic, 0).is_some_and(|t| t.is_stamped());
        if let Some(procedure) = self.procedures.iter().find(|p| timed.contains(p) && !stamped) {
            return Err(Fault(format!(
                "{} needs a flow with mark = \"stamped\": the time of each lost frame counts, and the frames of a flood have no numbers",
                procedure.name()
            )));
        }
        if test.routes > 0 && self.procedures.contains(&Procedure::Reset) {
            let why = "a restarted router loses its routes: measure \"reset\" in a campaign without routes";
            return Err(Fault(format!("routes: {why}")));
        }
        self.check_sessions(test)?;
        if test.flows > sessions::MOST {
            return Err(Fault(format!("flows: must be at most {}", sessions::MOST)));
        }
        if test.flows > 0 && (test.routes > 0 || test.sessions > 0) {
            let why =
                "cannot be combined with routes or sessions, which set the flows themselves: remove flows";
            return Err(Fault(format!("flows: {why}")));
        }
        self.check_vlans(test)?;
        for (n, size) in own.into_iter().chain(test.sizes.iter().copied()).enumerate() {
            let traffic = self.traffic(&test.traffic, size).ok_or_else(none)?;
            let flows = traffic.flows(&ends()).map_err(|e| Fault(format!("sizes {}: {e}", n + 1)))?;
            if test.flows > 0 {
                traffic.in_flows(&ends(), 1).map_err(|e| Fault(format!("flows: {e}")))?;
            }
            let fits = self.check_links(&traffic).map_err(|(_, why)| why);
            fits.map_err(|why| Fault(format!("sizes {}: {why}", n + 1)))?;
            if test.sessions > 0 {
                let table = sessions::Table::new(&flows, &flows, 1, 1);
                table.map_err(|e| Fault(format!("sessions: {e}")))?;
            }
        }
        Ok(())
    }

    fn check_sessions(&self, test: &Test) -> Result<(), Fault> {
        let needs = self.procedures.iter().find(|p| p.needs_sessions());
        let why = match (test.sessions, needs) {
            (0, Some(procedure)) => {
                format!("the procedure {:?} needs sessions, such as sessions = 10000", procedure.name())
            }
            (n, _) if n > sessions::MOST => format!("must be at most {}", sessions::MOST),
            (1.., _) if self.testbed.senders() > 0 => {
                "cannot be combined with \"senders\" in [testbed]: remove one of the two".into()
            }
            (1.., _) if test.routes > 0 => "cannot be combined with routes: remove one of the two".into(),
            (1.., _) if self.procedures.contains(&Procedure::Reset) => {
                "a restarted router loses its sessions: measure \"reset\" in a campaign without sessions"
                    .into()
            }
            _ => return Ok(()),
        };
        Err(Fault(format!("sessions: {why}")))
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
