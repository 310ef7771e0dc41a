//! What is wrong with a campaign, before anything is touched.

use std::collections::HashSet;

use super::{Campaign, Fault, Procedure, Test};
use crate::dut;
use crate::energy;
use crate::sessions;
use crate::testbed;
use crate::traffic::{BUILTIN, Ends, MOST_NETWORKS};
use wire::Mac;

/// A size that frames of every kind can have.
const USUAL: usize = 1518;

/// Ends of which nothing is known yet.
fn ends() -> Ends {
    Ends::rfc(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), false)
}

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
        for (n, traffic) in self.traffics.iter().enumerate() {
            // Frames without a size have that of a test, which is not at fault here.
            let flows = traffic.sized(USUAL).flows(&ends());
            flows.map_err(|e| Fault(format!("traffic {} ({}): {e}", n + 1, traffic.name)))?;
        }
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
        for (n, size) in own.into_iter().chain(test.sizes.iter().copied()).enumerate() {
            let traffic = self.traffic(&test.traffic, size).ok_or_else(none)?;
            let flows = traffic.flows(&ends()).map_err(|e| Fault(format!("sizes {}: {e}", n + 1)))?;
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
mod tests {
    use super::super::TEMPLATE;
    use super::*;
    use crate::stats::fewest_runs;

    const GOOD: &str = "name = 'a'\nduts = ['linux']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n";

    #[test]
    fn what_is_wrong_with_traffic_of_ones_own_is_said_there() {
        let own = "[[traffic]]\nname = 'own'\n[[traffic.flows]]\nname = 'a'\nframes = [\n  { family = 'ipv4' },\n  { family = 'ipv4', size = 9 },\n]\n";
        let said = |text: String| Campaign::parse(&text).map_or_else(|e| e.0, |_| "nothing".into());
        let why = "line 12: traffic 1 (own): flows 1 (a): frames 2: a frame of 9 bytes is impossible";
        assert!(said(format!("{GOOD}{own}")).starts_with(why), "{}", said(format!("{GOOD}{own}")));
        let good = GOOD.replace("rfc2544", "own").replace("[64]", "[64, 63]");
        let why = "line 5: test 1 (own): sizes 2: flows 1 (a): frames 1: a frame of 63 bytes";
        let own = own.replace("size = 9", "size = 90");
        assert!(said(format!("{good}{own}")).starts_with(why), "{}", said(format!("{good}{own}")));
    }

    #[test]
    fn outages_need_frames_with_numbers() {
        let of = |procedures: &str, mark: &str| {
            let own = format!(
                "[[traffic]]\nname = 'own'\n[[traffic.flows]]\nname = 'a'\nmark = '{mark}'\nframes = [{{ family = 'ipv4' }}]\n"
            );
            let good = GOOD.replace("rfc2544", "own").replace("linux", "volley");
            let head = format!("procedures = ['throughput', {procedures}]\n{good}");
            Campaign::parse(&(head + &own))
        };
        for procedure in ["'recovery'", "'reset'"] {
            let fault = of(procedure, "flood").expect_err("a flood");
            assert!(fault.0.contains("test 1 (own)") && fault.0.contains("stamped"), "{fault}");
            assert!(of(procedure, "stamped").is_ok(), "{:?}", of(procedure, "stamped"));
        }
        assert!(of("'latency'", "flood").is_ok());
    }

    #[test]
    fn what_a_command_restarts_may_be_reset() {
        let duts = "procedures = ['throughput', 'reset']\nduts = ['volley', { kind = 'command', start = 'x', restart = 'y' }]";
        let parsed = Campaign::parse(&GOOD.replace("duts = ['linux']", duts));
        assert!(parsed.is_ok(), "{parsed:?}");
    }

    #[test]
    fn what_init_writes_is_a_campaign() -> Result<(), Fault> {
        let campaign = Campaign::parse(TEMPLATE)?;
        assert_eq!((campaign.duts.len(), campaign.cells().count()), (2, 4));
        // What it says of comparisons is so.
        let needed = fewest_runs(0.95);
        assert!(TEMPLATE.contains(&format!("from {needed} on")), "{needed}");
        Ok(())
    }

    #[test]
    fn what_is_commented_out_there_is_right_too() -> Result<(), Fault> {
        let (before, example) = TEMPLATE.split_once("# [[traffic]]").ok_or_else(|| Fault("none".into()))?;
        let lines = example.lines().map(|line| line.strip_prefix("# ").unwrap_or(line));
        let text = format!("{before}[[traffic]]{}", lines.collect::<Vec<_>>().join("\n"));
        let campaign = Campaign::parse(&text)?;
        assert_eq!((campaign.traffics.len(), campaign.tests.len()), (1, 3));
        Ok(())
    }

    #[test]
    fn a_mix_has_sizes_of_its_own() -> Result<(), Fault> {
        let campaign = Campaign::parse(&GOOD.replace("'rfc2544'\nsizes = [64]", "'imix'"))?;
        let sizes: Vec<_> = campaign.cells().map(|(_, size)| size).collect();
        // (28 · 64 + 16 · 570 + 4 · 1518) / 48
        assert_eq!(sizes, [354]);
        Ok(())
    }

    #[test]
    fn faults_name_their_place_and_what_would_do() {
        assert!(Campaign::parse(GOOD).is_ok());
        let with = |line: &str| format!("name = 'a'\n{line}\n");
        let cases = [
            ("duts = ['linux']", "duts = ['linux']\ncolour = 'red'".to_owned(), "line 3"),
            ("'rfc2544'", "'rfc2545'".into(), "line 4: test 1 (rfc2545): traffic: there is no such one: one of rfc2544, "),
            ("'linux'", "'linus'".into(), "there is no router \"linus\": one of linux, volley, vpp"),
            ("[64]", "[63]".into(), "a frame of 63 bytes is impossible: this kind has 64 to 2116"),
            ("[64]", "[\n64,\n63]".into(), "line 7: test 1 (rfc2544): sizes 2: "),
            ("'rfc2544'\nsizes = [64]", "'rfc5180'\nsizes = [64]".into(), "this kind has 84 to 2116"),
            ("[64]", "[]".into(), "line 5: test 1 (rfc2544): sizes: it has none"),
            ("[64]", "[64, 512, 64]".into(), "line 3: test 1 (rfc2544): the same with 64 bytes is there already"),
            (
                "[[test]]",
                "[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\nbidirectional = true\n[[test]]\ntraffic = 'rfc2544'\nsizes = [512, 64]\n[[test]]".into(),
                "line 10: test 3 (rfc2544): the same with 64 bytes",
            ),
            ("'rfc2544'\nsizes = [64]", "'imix'\n[[test]]\ntraffic = 'imix'".into(), "test 2 (imix): the same with 354"),
            ("'rfc2544'", "'imix'".into(), "line 5: test 1 (imix): sizes: its frames"),
            ("name = 'a'\n", with("profile = 'slow'"), "line 2"),
            ("name = 'a'\n", with("trial-seconds = 0"), "line 2: trial-seconds: a trial sends for 0.01 to"),
            ("name = 'a'\n", with("repetitions = 0"), "repetitions: one at least"),
            ("name = 'a'\n", with("procedures = []"), "procedures: one at least"),
            ("name = 'a'\n", with("procedures = ['speed']"), "line 2"),
            ("name = 'a'\n", with("procedures = [\n'latency']"), "line 3: procedures 1: \"latency\" begins with the throughput: put \"throughput\" before it"),
            ("name = 'a'\n", with("procedures = ['ndr-pdr', 'ndr-pdr']"), "stands there twice"),
            ("name = 'a'\n", with("procedures = ['loads']"), "needs loads"),
            ("name = 'a'\n", with("loads = ['10 %']"), "is not among the procedures"),
            ("name = 'a'\n", with("procedures = ['loads']\nloads = ['10 m']"), "line 3"),
            ("[[test]]", "[[goal]]\nname = 'x'\n[[test]]".into(), "\"ndr-pdr\" is not among"),
            (
                "[[test]]",
                "procedures = ['ndr-pdr']\n[[goal]]\nname = 'x'\nwidth = 2\n[[test]]".into(),
                "line 6: goal 1: width must be from",
            ),
            ("[[test]]", "[[goal]]\nname = 'x'\nfinal-seconds = -1\n[[test]]".into(), "line 5"),
            ("[64]", "[64]\nroutes = 5000000".into(), "line 6: test 1 (rfc2544): routes: 4194304 at most"),
            ("[64]", "[64]\nsessions = 5000000".into(), "test 1 (rfc2544): sessions: 4194304 at most"),
            (
                "[64]",
                "[64]\nsessions = 5\nroutes = 5".into(),
                "sessions: traffic goes through sessions or to routes",
            ),
            (
                "'rfc2544'\nsizes = [64]",
                "'imix'\nsessions = 5".into(),
                "one flow of one kind of frame, of UDP",
            ),
            (
                "name = 'a'\n",
                with("procedures = ['session-rate']"),
                "sessions: the procedure \"session-rate\" needs",
            ),
            (
                "'linux']\n[[test]]",
                "'volley']\nprocedures = ['throughput', 'reset']\n[[test]]\nsessions = 5".into(),
                "has them no more",
            ),
            (
                "duts = ['linux']",
                "procedures = ['throughput', 'reset']\nduts = [\n'volley',\n'linux']".into(),
                "line 5: router 2 (linux): the procedure \"reset\" restarts it",
            ),
            (
                "duts = ['linux']",
                "procedures = ['throughput', 'reset']\nduts = ['volley',\n{ kind = 'command', start = 'x' }]".into(),
                "line 4: router 2 (command): the procedure \"reset\" restarts it",
            ),
            (
                "'linux']",
                "'none']\n[testbed]\nkind = 'physical'\nports = ['a', 'b']\ngbit = 1\n[[meter]]\nkind = 'cpu'".into(),
                "meter 1: cores: the router is another machine",
            ),
            ("['linux']", "[\n'linux',\n{ kind = 'linux',\n mode = 'tuned' }]".into(), "line 4: router 2 (linux): another"),
            ("['linux']", "[]".into(), "line 2: duts: one router at least"),
            ("name = 'a'\n", with("latency-at = [1.1]"), "latency-at: shares"),
            ("name = 'a'\n", with("soak = { seconds = 1, each = 2 }"), "soak: each"),
            ("name = 'a'\n", with("soak = { share = 0 }"), "soak: share"),
        ];
        for (from, to, why) in cases {
            let text = GOOD.replacen(from, &to, 1);
            let said = Campaign::parse(&text).map_or_else(|e| e.to_string(), |_| "nothing".into());
            assert!(said.contains(why), "{said}\nand not: {why}");
        }
    }
}
