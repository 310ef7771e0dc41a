//! Made-up results of all procedures, with given numbers.

use std::time::Duration;

use crate::campaign::{
    Campaign, Cell, DelayRun, Delays, DelaysAt, Disorder, Found, Key, Measurement, Metered, Provenance,
    Recovery, Reset, Results, Teardown, Usage,
};
use crate::dut::{Facts, Spec};
use crate::energy;
use crate::engine::limits::Absence;
use crate::engine::receiver::Damaged;
use crate::search::Ended;
use crate::search::Tally;
use crate::search::back_to_back::{BackToBack, BackToBackResult, BurstSummary};
use crate::search::fixed::{Fixed, FixedPoint, FixedResult};
use crate::search::loss_rate::{LossPoint, LossRate, LossRateResult};
use crate::search::mlr::{Goal, GoalResult, Mlr, MlrResult};
use crate::search::profile::Profile;
use crate::search::throughput::{Resolution, Start, Step, Throughput, ThroughputResult};
use crate::sessions::Attempt;
use crate::sessions::capacity::{Capacity, CapacityResult};
use crate::sessions::rate::RateResult;
use crate::stats::ipdv::IpdvFigures;
use crate::stats::jitter::JitterFigures;
use crate::stats::latency::{LatencyFigures, Lost};
use crate::trial::{Invalid, Outcome, Request};

/// Source of the numbers in the results. Returns the elements of `all` in a cycle that begins with the second element.
pub struct Numbers<'a> {
    all: &'a [f64],
    next: usize,
}

impl Numbers<'_> {
    fn f(&mut self) -> f64 {
        self.next += 1;
        if self.all.is_empty() { 0.0 } else { self.all[self.next % self.all.len()] }
    }

    fn u(&mut self) -> u64 {
        self.f() as u64
    }

    fn some(&mut self) -> Option<f64> {
        let f = self.f();
        (!self.next.is_multiple_of(3)).then_some(f)
    }

    fn outcome(&mut self) -> Outcome {
        let request = Request { load_fps: self.f(), duration: Duration::from_millis(100) };
        let invalid = if self.next.is_multiple_of(2) {
            vec![Invalid::Late(1.5), Invalid::Clock("a|b\n<c>".into())]
        } else {
            vec![]
        };
        let (intended, sent, received) = (self.u(), self.u(), self.u());
        Outcome { request, intended, sent, received, took: Duration::from_millis(120), invalid }
    }

    fn delays(&mut self) -> Option<Delays> {
        let lost = Lost { frames: self.u(), penalty_ns: self.u() };
        let figures = LatencyFigures {
            frames: self.u(),
            lost,
            minimum_ns: self.u(),
            typical_ns: self.f(),
            worst_case_ns: self.u(),
            maximum_ns: self.u(),
            mean_ns: self.f(),
            pdv_ns: self.u(),
        };
        let ipdv = IpdvFigures {
            pairs: self.u(),
            undefined: self.u(),
            minimum_ns: -(self.u().min(1 << 60) as i64),
            median_ns: self.f(),
            maximum_ns: self.f() as i64,
        };
        let mut bins: Vec<(u64, u64)> = (0..3).map(|_| (self.u(), self.u())).collect();
        bins.sort_unstable();
        let directions = Vec::new();
        (!self.next.is_multiple_of(4)).then_some(Delays {
            figures,
            ipdv: Some(ipdv),
            jitter: Some(JitterFigures { smoothed_ns: self.f(), mean_ns: self.f() }),
            bins,
            directions,
        })
    }

    fn metered(&mut self) -> Metered {
        let energy = energy::Energy {
            seconds: self.f(),
            joules: self.f(),
            resolution: energy::Resolution::Joules(self.f()),
            readings: self.u(),
            longest_gap: self.f(),
            parts: Vec::new(),
        };
        self.meter("PDU | 5", energy::Reading::Energy(energy))
    }

    fn timed(&mut self) -> Metered {
        let core = energy::CoreTime {
            core: 0,
            user: self.f(),
            system: self.f(),
            irq: self.f(),
            softirq: self.f(),
            steal: self.f(),
        };
        let time = energy::CpuReading {
            seconds: self.f(),
            total: self.f(),
            whose: energy::Whose::Cores,
            cores: vec![core],
            threads: Vec::new(),
            cgroup: None,
        };
        self.meter("cpu", energy::Reading::CpuTime(time))
    }

    fn meter(&mut self, name: &str, reading: energy::Reading) -> Metered {
        let work = energy::Work { frames: self.u(), bytes: self.u() };
        let kind = match reading {
            energy::Reading::Energy(_) => energy::Kind::Energy,
            energy::Reading::CpuTime(_) => energy::Kind::CpuTime,
        };
        let figures = Some(energy::Results::of(&reading, Some(&reading), work));
        Metered { meter: name.into(), kind, reading: Ok(reading), figures }
    }

    fn at(&mut self, name: &str, runs: usize) -> DelaysAt {
        let run = |n: &mut Self| DelayRun {
            outcome: n.outcome(),
            delays: n.delays(),
            usage: Usage {
                seconds: n.f(),
                busy: n.some(),
                dut_busy: n.some(),
                meters: vec![n.metered(), n.timed()],
            },
        };
        DelaysAt {
            name: name.into(),
            load_fps: self.f(),
            limited_by_tester: Some(runs.is_multiple_of(2)),
            runs: (0..runs).map(|_| run(self)).collect(),
        }
    }

    fn ended(&mut self) -> Ended {
        match self.u() % 5 {
            0 => Ended::Found,
            1 => Ended::AllForwarded,
            2 => Ended::NothingForwarded,
            3 => Ended::OutOfBudget,
            _ => Ended::Failed("no | answer & none".into()),
        }
    }

    fn fixed(&mut self, runs: usize) -> FixedResult {
        let point = FixedPoint {
            load_fps: self.f(),
            loss_ratio: self.some(),
            forwarding_fps: (0..runs).map(|_| self.f()).collect(),
            mean_fps: self.some(),
            outcomes: (0..runs).map(|_| self.outcome()).collect(),
        };
        let asked = Fixed::maximum_receive_rate(self.f(), Duration::from_secs(1), 1);
        FixedResult { asked, ended: self.ended(), points: vec![point], tally: Tally::default() }
    }

    fn search(&mut self) -> ThroughputResult {
        let asked = Throughput {
            min_fps: self.f(),
            max_fps: self.f(),
            start: Start::Maximum,
            step: Step::Halve,
            resolution: Resolution::Relative(0.1),
            duration: Duration::from_secs(1),
        };
        ThroughputResult {
            asked,
            ended: self.ended(),
            throughput_fps: self.some(),
            upper_fps: self.some(),
            upper_unproved: self.next.is_multiple_of(2),
            tally: Tally { trials: u32::MAX, invalid: 1, spent: Duration::MAX },
            outcomes: vec![self.outcome()],
        }
    }

    fn attempt(&mut self) -> Attempt {
        Attempt {
            connections: self.u(),
            rate_fps: self.f(),
            arrived: self.u(),
            different: self.u(),
            confirmed: self.some().map(|n| n as u64),
            counted: self.some().map(|n| n as u64),
            invalid: self.outcome().invalid,
            took: Duration::from_secs(1),
        }
    }

    fn rate(&mut self) -> RateResult {
        RateResult { connections: self.u(), search: self.search(), attempts: vec![self.attempt()] }
    }

    fn capacity(&mut self) -> CapacityResult {
        let asked = Capacity {
            first: 1,
            most: 2,
            rate_fps: self.f(),
            resolution: Resolution::Relative(0.1),
            repeats: 1,
        };
        CapacityResult {
            asked,
            ended: self.ended(),
            connections: self.some().map(|n| n as u64),
            upper: self.some().map(|n| n as u64),
            upper_unproved: self.next.is_multiple_of(2),
            attempts: vec![self.attempt()],
        }
    }

    fn teardown(&mut self) -> Teardown {
        Teardown {
            filled: self.attempt(),
            seconds: self.f(),
            empty_seconds: self.f(),
            left: self.some().map(|n| n as u64),
        }
    }

    fn found(&mut self, runs: usize) -> Vec<Found> {
        let goal = |n: &mut Self| GoalResult {
            goal: Goal::csit_ndr(),
            ended: n.ended(),
            lower_fps: n.some(),
            upper_fps: n.some(),
            conditional_fps: n.some(),
            upper_unproved: true,
        };
        let summary = BurstSummary {
            mean: self.f(),
            min: self.u(),
            max: self.u(),
            deviation: self.f(),
            implied_seconds: self.f(),
            corrected_seconds: self.f(),
        };
        let asked = BackToBack {
            max_fps: self.f(),
            throughput_fps: self.f(),
            longest: 9,
            resolution: 1,
            repetitions: 1,
            verifications: 1,
        };
        let bursts = (0..runs).map(|_| self.u()).collect();
        let back = BackToBackResult {
            asked,
            ended: self.ended(),
            bursts,
            summary: (runs > 0).then_some(summary),
            tally: Tally::default(),
        };
        let point = |n: &mut Self| LossPoint { share: n.f(), loss_ratio: n.f(), outcome: n.outcome() };
        let loss = LossRateResult {
            asked: LossRate { max_fps: self.f(), step: 0.1, duration: Duration::from_secs(1) },
            ended: self.ended(),
            points: (0..runs).map(|_| point(self)).collect(),
            tally: Tally::default(),
        };
        let recovery = |n: &mut Self| Recovery {
            overload_fps: n.f(),
            relief_fps: n.f(),
            seconds: n.some(),
            outcomes: vec![n.outcome()],
        };
        let reset = |n: &mut Self| Reset { load_fps: n.f(), seconds: n.some(), outcome: n.outcome() };
        vec![
            Found::Throughput((0..runs).map(|_| self.search()).collect()),
            Found::Latency(vec![self.at("50 % of the throughput", runs), self.at("90 %", runs)]),
            Found::Variation(vec![self.at("the throughput", runs)]),
            Found::LossRate(loss),
            Found::BackToBack(back),
            Found::NdrPdr(
                (0..runs)
                    .map(|_| MlrResult {
                        asked: Mlr::csit(1.0, 2.0),
                        goals: vec![goal(self)],
                        loads: vec![],
                        tally: Tally::default(),
                    })
                    .collect(),
            ),
            Found::MaximumReceiveRate(self.fixed(runs)),
            Found::Loads((0..5).map(|_| self.at("10 %", runs)).collect()),
            Found::Soak(self.fixed(runs)),
            Found::Recovery((0..runs).map(|_| recovery(self)).collect()),
            Found::Reset((0..runs).map(|_| reset(self)).collect()),
            Found::SessionRate((0..runs).map(|_| self.rate()).collect()),
            Found::SessionCapacity((0..runs).map(|_| self.capacity()).collect()),
            Found::SessionTeardown((0..runs).map(|_| self.teardown()).collect()),
        ]
    }
}

/// Makes the spec of a router: the kernel if the name begins with "linux", else Volley.
pub fn router(name: &str, workers: usize) -> Spec {
    let kind = if name.starts_with("linux") { "linux" } else { "volley" };
    serde_json::from_value(serde_json::json!({ "kind": kind, "name": name, "workers": workers })).unwrap()
}

/// Makes results of all procedures, for these routers and two frame sizes, with `runs` runs. Figures come from `numbers`; `name` is in all
/// texts.
pub fn results(numbers: &[f64], routers: &[&str], runs: usize, name: &str) -> Results {
    let mut n = Numbers { all: numbers, next: 0 };
    let text = "name = 'x'\nduts = ['linux']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n";
    let mut campaign = Campaign::parse(text).unwrap();
    campaign.name = name.into();
    campaign.published = true;
    let mut cells = Vec::new();
    for (dut, size) in routers.iter().flat_map(|dut| [64, 1518].map(|size| (dut, size))) {
        let key = Key {
            dut: (*dut).into(),
            traffic: "rfc2544".into(),
            size,
            bidirectional: true,
            routes: 0,
            sessions: 0,
            flows: 0,
        };
        let measurement = |found| Measurement {
            found,
            limited_by_tester: true,
            repeated: 7,
            disorder: Disorder {
                received: 9,
                duplicated: 1,
                reordered: 2,
                damaged: Damaged { length: 4, checksum: 0, ttl: 5, payload: 6 },
                astray: 3,
            },
            absence: Some(Absence { behind: 0.001, away: 0.0005, waited: Some(0.01) }),
            counters: vec![(name.into(), "1|2".into())],
        };
        let measurements = n.found(runs).into_iter().map(measurement).collect();
        cells.push(Cell {
            key,
            tester_fps: n.f(),
            tester_delays: None,
            link_fps: n.f(),
            idle: Vec::new(),
            measurements,
        });
    }
    let facts = |dut: &&str| Facts {
        name: (*dut).into(),
        version: name.into(),
        configuration: vec![name.into()],
        processor_time: name.into(),
    };
    campaign.duts = routers.iter().zip([1, 2, 4, 8]).map(|(dut, workers)| router(dut, workers)).collect();
    Results {
        profile: Profile::quick(),
        campaign,
        provenance: Provenance { begun: "now".into(), facts: vec![("clock".into(), name.into())] },
        conditions: vec![name.into()],
        duts: routers.iter().map(facts).collect(),
        cells,
        caveats: Vec::new(),
        failures: vec![name.into()],
        parts: Vec::new(),
    }
}
