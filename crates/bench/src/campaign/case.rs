//! Measures one traffic with one frame size: first over a cable between the tester's own ports, then with each router.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use buf::Pool;

use super::connected::Sessions;
use super::keeper::Keeper;
use super::procedures::Bench;
use super::recorded::{Recorded, Strain};
use super::repeated::Repeated;
use super::results::Ceiling;
use super::run::Left;
use super::visits::Visit;
use super::{Campaign, Cell, Disorder, Key, Procedure, Results, Test};
use crate::dut::{Dut, Networks, Which};
use crate::energy::Meters;
use crate::engine::limits::Absence;
use crate::engine::run::{Direction, Engine};
use crate::search::Valid;
use crate::search::profile::Profile;
use crate::sessions::Table;
use crate::testbed::Bed;
use crate::traffic::Family;
use crate::trial::Failure;
use crate::trial::link::Link;

/// Shared context of all cases of a campaign.
pub(super) struct Setup<'a> {
    pub campaign: &'a Campaign,
    pub profile: &'a Profile,
    pub pool: &'a Pool,
    pub keeper: &'a dyn Keeper,
    /// Set when the campaign must stop.
    pub stop: &'a AtomicBool,
    /// Time after which no procedure begins; `None` without a limit.
    pub until: Option<Instant>,
    /// Receives progress lines.
    pub say: &'a dyn Fn(&str),
}

/// Reason why the trials of a router cannot begin.
enum Unprepared {
    /// The router cannot be measured with this traffic; the campaign continues.
    Router(Failure),
    /// Results cannot be stored.
    Store(Failure),
}

/// A case to measure: traffic of one kind with one frame size.
pub(super) struct Case {
    /// Traffic, frame size and options of the case, with the name of the current router.
    pub key: Key,
    /// Maximum rate and delays of the tester alone with this traffic.
    pub tester: Ceiling,
    /// Link that carries the frames.
    link: Link,
}

impl Case {
    pub fn new(test: &Test, size: usize, bed: &Bed) -> Case {
        Case { key: test.key(size), tester: Ceiling::default(), link: bed.link() }
    }

    /// Returns the link's maximum rate in frames per second.
    pub fn link_fps(&self) -> f64 {
        self.link.max_fps(self.key.size as u32)
    }
}

impl Setup<'_> {
    /// True if no further procedure may begin: the campaign's time is over, or it must stop.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Runs the procedures of a [`Visit`] to a router, and adds the results to those of earlier visits. If the router cannot be prepared,
    /// records this as a failure and runs no procedure. If a procedure fails, records this and runs the next one. Ends early if the
    /// campaign must end.
    ///
    /// # Errors
    /// Returns an error if results cannot be stored.
    pub fn cell(
        &self,
        case: &Case,
        visit: Visit,
        bed: &mut Bed,
        dut: &mut dyn Dut,
        left: &mut Left,
        results: &mut Results,
    ) -> Result<(), Failure> {
        let Case { key, tester, .. } = case;
        let place = format!("{}, {}, {} bytes", key.dut, key.label(), key.size);
        let trials = match self.prepared(case, &place, bed, dut, results) {
            Ok(trials) => trials,
            Err(Unprepared::Store(e)) => return Err(e),
            Err(Unprepared::Router(e)) => {
                left.leave_out(visit.steps(self.campaign, self.profile.repetitions));
                return results.fail(format!("{place}: {e}"), self.keeper);
            }
        };
        let before = results.cells.iter().position(|cell| cell.key == *key);
        let cell = Cell {
            key: key.clone(),
            tester_fps: tester.fps,
            tester_delays: tester.delays.clone(),
            link_fps: case.link_fps(),
            idle: trials.idle.clone(),
            measurements: before.map(|at| results.cells[at].measurements.clone()).unwrap_or_default(),
        };
        self.keeper.cell(&cell)?;
        let one = Profile { repetitions: 1, ..self.profile.clone() };
        let bench = Bench {
            campaign: self.campaign,
            profile: self.profile,
            round: 1,
            tester_fps: tester.fps,
            link_fps: case.link_fps(),
            throughput_fps: cell.throughput_fps(),
            session_fps: cell.session_fps(),
            say: self.say,
            valid: Valid::new(trials, self.profile.invalid_repeats),
        };
        let mut repeated = Repeated::new(self, place, &one, bench, cell);
        for procedure in visit.procedures(self.campaign) {
            let rounds = visit.rounds(procedure, self.profile.repetitions);
            if !repeated.procedure(procedure, rounds, left, results)? {
                break;
            }
        }
        let cell = repeated.into_cell();
        match before {
            Some(at) => results.cells[at] = cell,
            None => results.cells.push(cell),
        }
        Ok(())
    }

    /// Gives the router its routes, and reads the meters without traffic. Returns the runner of the router's trials, with meters. Adds a
    /// caveat for each meter without readings, for loads above the links' rate, and if a trial has fewer frames than the case has flows.
    fn prepared<'b>(
        &'b self,
        case: &Case,
        place: &str,
        bed: &mut Bed,
        dut: &'b mut dyn Dut,
        results: &mut Results,
    ) -> Result<Recorded<'b>, Unprepared> {
        let Case { key, tester, .. } = case;
        let router = Unprepared::Router;
        self.networks(key, bed).and_then(|wanted| dut.set_networks(&wanted, bed)).map_err(router)?;
        let dut = &*dut;
        let mut trials = self.trials(case, bed, Some(dut)).map_err(router)?;
        let mut meters = Meters::open(&self.campaign.meters, dut.cores(), &dut.processes());
        let mut caveats = Vec::new();
        for why in meters.missing() {
            let what = format!("{why}: the readings of this meter are missing");
            (self.say)(&what);
            caveats.push(("", what));
        }
        trials.idle = meters.idle(self.profile.idle);
        trials.meters = Some(meters);
        if let Some(left_out) = self.campaign.left_out(key.size) {
            caveats.push((&key.dut, format!("{place}, {left_out}")));
        }
        let frames = tester.fps * self.profile.duration.as_secs_f64();
        if f64::from(key.flows) > frames {
            let why =
                format!("the tester sends at most {frames:.0} frames in a trial, too few to use every flow");
            caveats.push((&key.dut, format!("{place}: {why}")));
        }
        for (of, what) in caveats {
            results.warn(of, what, self.keeper).map_err(Unprepared::Store)?;
        }
        Ok(trials)
    }

    /// Returns the networks for which the router needs routes. These are the test's destination networks (`routes`), and the traffic's own
    /// destinations, unless they lie in the network behind a link. Routes to that network are part of each router's setup.
    fn networks(&self, key: &Key, bed: &Bed) -> Result<Vec<Networks>, Failure> {
        let Key { traffic, size, routes, bidirectional, .. } = key;
        let Some(traffic) = self.campaign.traffic(traffic, *size) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for link in [1, 0].into_iter().take(if *bidirectional { 2 } else { 1 }) {
            if *routes > 0 {
                let first = |family| Networks { link, family, which: Which::First(*routes) };
                all.extend(traffic.families().into_iter().map(first));
            }
            let known = [bed.links[link].ipv4.1, bed.links[link].ipv6.1];
            for net in traffic.own_networks(link == 0) {
                let family = if net.addr().is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
                if !known.iter().any(|known| known.contains(&net)) {
                    all.push(Networks { link, family, which: Which::Own(net) });
                }
            }
        }
        Ok(all)
    }

    /// Creates the connection table for the flows of both directions. Then replaces `directions` by a single direction: the initiator's
    /// frames on the first `connections` connections of the table.
    fn sessions(
        &self,
        connections: u32,
        directions: &mut Vec<Direction>,
        bidirectional: bool,
        seed: u64,
    ) -> Result<Sessions, Failure> {
        let most = match self.campaign.procedures.contains(&Procedure::SessionCapacity) {
            true => self.campaign.most_sessions.max(connections),
            false => connections,
        };
        let [forth, back] = &directions[..] else {
            return Err(Failure("internal error: sessions need two directions".into()));
        };
        let table = Table::new(&forth.flows, &back.flows, most, seed)?;
        *directions = vec![table.forth(connections.into())?];
        Ok(Sessions::new(table, connections.into(), bidirectional))
    }

    /// Returns the runner of a case's trials, which stores each trial.
    pub fn trials<'b>(
        &'b self,
        case: &Case,
        bed: &mut Bed,
        dut: Option<&'b dyn Dut>,
    ) -> Result<Recorded<'b>, Failure> {
        let (name, waits) = (&case.key.traffic, self.profile.waits);
        let none = || Failure(format!("unknown traffic {name}"));
        let mut traffic = self.campaign.traffic(name, case.key.size).ok_or_else(none)?;
        if case.key.routes > 0 {
            traffic = traffic.to_networks(case.key.routes);
        }
        let mut directions = Vec::new();
        let both = case.key.bidirectional || case.key.sessions > 0;
        for (from, to) in [(0, 1), (1, 0)].into_iter().take(if both { 2 } else { 1 }) {
            let ends = bed.ends(from);
            let ends = if case.key.routes > 0 { ends.to_networks(from == 1) } else { ends };
            let flows = match case.key.flows {
                0 => traffic.flows(&ends),
                n => traffic.in_flows(&ends, n),
            };
            let flows = flows.map_err(|e| Failure(e.to_string()))?;
            directions.push(Direction { from, to, flows });
        }
        let sessions = match case.key.sessions {
            0 => None,
            n => Some(self.sessions(n, &mut directions, case.key.bidirectional, traffic.seed)?),
        };
        let limits = self.campaign.validity.over(bed.limits());
        let mut engine =
            Engine::new(bed.ports()?, directions, self.pool, limits, waits.residual, traffic.seed);
        engine.set_hops(bed.hops);
        engine.set_sender_cores(bed.sender_cores().to_vec());
        Ok(Recorded {
            engine,
            dut,
            keeper: self.keeper,
            stop: self.stop,
            key: case.key.clone(),
            sessions,
            flows: traffic.flows.into_iter().map(|flow| flow.name).collect(),
            procedure: Procedure::SelfTest,
            repetition: 1,
            waits,
            meters: None,
            idle: Vec::new(),
            last: None,
            strain: Strain::default(),
            disorder: Disorder::default(),
            absence: Absence::default(),
        })
    }
}
