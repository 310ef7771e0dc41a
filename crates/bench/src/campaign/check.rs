//! What is wrong with a campaign, before anything is touched.

use std::collections::HashSet;

use super::check_traffic::ends;
use super::{Campaign, Fault, Procedure, Test};
use crate::dut;
use crate::energy;
use crate::sessions;
use crate::testbed;
use crate::traffic::{BUILTIN, MOST_NETWORKS};

impl Campaign {
    /// Checks all that can be.
    ///
    /// # Errors
    /// The first fault, and what would do.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let ensure = |holds: bool, why: &str| if holds { Ok(()) } else { Err(Fault(why.into())) };
        ensure(!self.duts.is_empty(), "duts: one router at least")?;
        ensure(!self.tests.is_empty(), "test: one at least")?;
        dut::check(&self.duts, &self.testbed).map_err(Fault)?;
        let seconds = |s: f64| (0.01..=86_400.0).contains(&s);
        let why = "trial-seconds: a trial sends for 0.01 to 86400 seconds";
        ensure(self.trial_seconds.is_none_or(seconds), why)?;
        ensure(self.repetitions != Some(0), "repetitions: one at least")?;
        let soak = self.soak;
        let why = "soak: each has 0.01 seconds at least, and seconds are no less than each";
        ensure(seconds(soak.each) && soak.seconds >= soak.each && seconds(soak.seconds), why)?;
        let share = |s: &f64| *s > 0.0 && *s <= 1.0;
        ensure(share(&soak.share), "soak: share is above 0 and no more than 1, of the throughput")?;
        let why = "latency-at: shares of the throughput, above 0 and no more than 1";
        ensure(!self.latency_at.is_empty() && self.latency_at.iter().all(share), why)?;
        let why = format!("most-sessions: {} at most", sessions::MOST);
        ensure(self.most_sessions <= sessions::MOST, &why)?;
        self.check_procedures()?;
        for (n, meter) in self.meters.iter().enumerate() {
            meter.check().map_err(|e| Fault(format!("meter {}: {e}", n + 1)))?;
            let physical = self.testbed.kind == testbed::Kind::Physical;
            if *meter == energy::Spec::CPU && physical {
                let why = "cores: the router is another machine: name the cores of this one that are meant, or leave the meter away";
                return Err(Fault(format!("meter {}: {why}", n + 1)));
            }
            if meter.is_remote() && !physical {
                let why = "on virtual links the tester is in namespaces of its own, from where nothing on the network is reached: \
                           have a command print its counter";
                return Err(Fault(format!("meter {}: {why}", n + 1)));
            }
        }
        self.check_traffics()?;
        let mut before = HashSet::new();
        for (n, test) in self.tests.iter().enumerate() {
            let named = |e: Fault| Fault(format!("test {} ({}): {e}", n + 1, test.traffic));
            self.check_test(test).map_err(named)?;
            // The same has one place among the results.
            if let Some(size) = self.sizes(test).into_iter().find(|size| !before.insert(test.key(*size))) {
                return Err(named(Fault(format!(
                    "the same with {size} bytes is there already: leave one away"
                ))));
            }
        }
        Ok(())
    }

    /// Checks that this machine has what the campaign asks for. Nothing is touched.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn check_machine(&self) -> Result<(), Fault> {
        if let Some(directory) = &self.testbed.record {
            testbed::lab::check_path(directory).map_err(|e| Fault(format!("testbed: record: {e}")))?;
        }
        testbed::check_machine(&self.testbed).map_err(|e| Fault(e.0))?;
        dut::check_clocks(&self.duts, &self.testbed).map_err(Fault)
    }

    fn check_procedures(&self) -> Result<(), Fault> {
        if self.procedures.is_empty() {
            return Err(Fault("procedures: one at least".into()));
        }
        for (n, procedure) in self.procedures.iter().enumerate() {
            let (before, name) = (&self.procedures[..n], procedure.name());
            let why = match procedure {
                p if before.contains(p) => "stands there twice",
                Procedure::SelfTest | Procedure::WarmUp => "runs before all others by itself",
                p if p.needs_throughput() && !before.contains(&Procedure::Throughput) => {
                    "begins with the throughput: put \"throughput\" before it"
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
            let why = "the procedure \"reset\" restarts it, which the tester can do with volley, and with command that has the key restart: \
                       measure the others in a campaign without";
            return Err(Fault(dut.fault(n, why)));
        }
        if !self.goals.is_empty() && !self.procedures.contains(&Procedure::NdrPdr) {
            return Err(Fault("goal: the procedure \"ndr-pdr\" is not among the procedures".into()));
        }
        for (n, goal) in self.goals.iter().enumerate() {
            goal.check().map_err(|e| Fault(format!("goal {}: {e}", n + 1)))?;
        }
        if !self.loads.is_empty() && !self.procedures.contains(&Procedure::Loads) {
            return Err(Fault("loads: the procedure \"loads\" is not among the procedures".into()));
        }
        Ok(())
    }

    fn check_test(&self, test: &Test) -> Result<(), Fault> {
        let none = || {
            let builtin = BUILTIN.iter().map(|(name, _)| *name);
            let names: Vec<_> = self.traffics.iter().map(|t| t.name.as_str()).chain(builtin).collect();
            Fault(format!("traffic: there is no such one: one of {}", names.join(", ")))
        };
        let own = self.traffic(&test.traffic, 0).ok_or_else(none)?.own_size();
        match own {
            Some(_) if !test.sizes.is_empty() => {
                return Err(Fault("sizes: its frames have sizes of their own: leave sizes away".into()));
            }
            None if test.sizes.is_empty() => return Err(Fault("sizes: it has none".into())),
            _ => {}
        }
        if test.routes > MOST_NETWORKS {
            return Err(Fault(format!("routes: {MOST_NETWORKS} at most")));
        }
        let timed = [Procedure::Recovery, Procedure::Reset];
        let stamped = self.traffic(&test.traffic, 0).is_some_and(|t| t.is_stamped());
        if let Some(procedure) = self.procedures.iter().find(|p| timed.contains(p) && !stamped) {
            return Err(Fault(format!(
                "{} needs a flow that is stamped: of a flood nobody knows which frames were lost",
                procedure.name()
            )));
        }
        if test.routes > 0 && self.procedures.contains(&Procedure::Reset) {
            let why = "a router that was restarted has them no more: measure reset in a campaign without";
            return Err(Fault(format!("routes: {why}")));
        }
        self.check_sessions(test)?;
        if test.flows > sessions::MOST {
            return Err(Fault(format!("flows: {} at most", sessions::MOST)));
        }
        if test.flows > 0 && (test.routes > 0 || test.sessions > 0) {
            let why = "routes and sessions bring flows of their own: leave flows away, or those";
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
                format!("the procedure {:?} needs some, such as sessions = 10000", procedure.name())
            }
            (n, _) if n > sessions::MOST => format!("{} at most", sessions::MOST),
            (1.., _) if test.routes > 0 => "traffic goes through sessions or to routes, not both".into(),
            (1.., _) if self.procedures.contains(&Procedure::Reset) => {
                "a router that was restarted has them no more: measure reset in a campaign without".into()
            }
            _ => return Ok(()),
        };
        Err(Fault(format!("sessions: {why}")))
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
