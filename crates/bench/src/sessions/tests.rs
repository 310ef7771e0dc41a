//! Attempts and searches with simulated routers of known table size and rate.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use buf::{Cache, Frame, Pool, TxCaps, TxQueue, Unsent};
use infra::clock::{Clock, tsc};
use proptest::prelude::*;
use wire::Mac;

use super::capacity::{Capacity, CapacityResult};
use super::*;
use crate::cable::cable;
use crate::engine::check::repair;
use crate::engine::limits::Limits;
use crate::engine::run::{Direction, Engine, Port};
use crate::search::Ended;
use crate::search::throughput::{Resolution, Start, Step, Throughput};
use crate::sim::{Full, Nat};
use crate::traffic::{Ends, builtin};
use crate::trial::{Failure, Outcome, Request};

fn asked(min_fps: f64, max_fps: f64) -> Throughput {
    let (start, step, resolution) = (Start::Maximum, Step::HalveRatio, Resolution::Relative(0.01));
    Throughput { min_fps, max_fps, start, step, resolution, duration: Duration::ZERO }
}

fn capacity(most: u64, rate_fps: f64) -> Capacity {
    Capacity { first: 64, most, rate_fps, resolution: Resolution::Relative(0.001), repeats: 2 }
}

fn held(nat: &mut Nat, most: u64, rate_fps: f64) -> CapacityResult {
    capacity(most, rate_fps).search(nat, &mut |_| ()).expect("a good configuration")
}

proptest! {
    // Simulated frame by frame: each case has about ten thousand frames.
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The search finds the router's rate within the resolution.
    #[test]
    fn the_rate_of_a_router_is_found(
        rate in 2_000.0f64..900_000.0,
        queue in 0u32..20,
        connections in 500u64..2_000,
        seed: u64,
    ) {
        let mut nat = Nat::new(20_000).rate(rate, queue).invalid(0.05, seed);
        let found = rate::search(asked(1_000.0, 1e6), connections, 5, &mut nat, &mut |_| ()).unwrap();
        let fps = found.search.throughput_fps.unwrap();
        // Frames in the queue at the end are not lost, so a rate slightly above the router's passes.
        let borne = rate * connections as f64 / (connections as f64 - f64::from(queue) - 2.0);
        prop_assert!(fps >= rate * 0.985 && fps <= borne * 1.001, "{fps} of {rate}: {found:?}");
        prop_assert_eq!(&found.search.ended, &Ended::Found);
        prop_assert!(found.attempts.len() >= found.search.outcomes.len());
        prop_assert!(found.search.outcomes.iter().all(|o| o.intended == connections));
    }

    /// The search finds the table's size, whether a full table refuses the newest connection or evicts the oldest one. It also finds the
    /// size if the router sustains only half of the rate.
    #[test]
    fn the_size_of_a_table_is_found(size in 1usize..2_000, evict: bool, slow: bool, seed: u64) {
        let full = if evict { Full::Evict } else { Full::Refuse };
        let rate = if slow { 60_000.0 } else { 200_000.0 };
        let mut nat = Nat::new(size).full(full).rate(rate, 8).invalid(0.02, seed);
        let found = held(&mut nat, 1 << 14, 100_000.0);
        let (lower, upper) = (found.connections.unwrap(), found.upper.unwrap());
        prop_assert!(lower <= size as u64 && (size as u64) < upper, "{lower} to {upper} of {size}");
        prop_assert!((upper - lower) as f64 <= (upper as f64 * 0.001).max(1.0));
        prop_assert_eq!(found.ended, Ended::Found);
        // An attempt confirms at most as many connections as the router counts.
        for attempt in &found.attempts {
            let counted = attempt.counted.unwrap();
            prop_assert!(counted <= size as u64 && attempt.confirmed.is_none_or(|n| n <= counted), "{attempt:?}");
            prop_assert_eq!(attempt.holds(), attempt.confirmed == Some(attempt.connections));
        }
    }
}

#[test]
fn tables_outside_the_search_range_are_reported() {
    let found = held(&mut Nat::new(1_000), 1_000, 1e5);
    assert_eq!((found.connections, found.upper, found.ended), (Some(1_000), None, Ended::AllForwarded));
    let found = held(&mut Nat::new(63), 1_000, 1e5);
    assert_eq!((found.connections, found.upper, found.ended), (Some(63), Some(64), Ended::Found));
    let found = held(&mut Nat::new(0), 1_000, 1e5);
    assert_eq!((found.connections, found.upper, found.ended), (None, Some(1), Ended::NothingForwarded));
}

#[test]
fn a_coarse_resolution_does_not_end_the_search_before_a_table_is_found() {
    let coarse = Capacity { first: 500, resolution: Resolution::Absolute(1_000.0), ..capacity(1_000, 1e5) };
    let found = coarse.search(&mut Nat::new(300), &mut |_| ()).expect("a good configuration");
    assert_eq!((found.connections, found.upper, found.ended), (Some(250), Some(500), Ended::Found));
}

/// A bound from invalid attempts is marked: the router or the tester may have lost the frames.
#[test]
fn invalid_attempts_give_a_marked_bound() {
    let mut nat = Nat::new(100).invalid(1.0, 3);
    let found = held(&mut nat, 1_000, 1e5);
    assert_eq!((found.connections, found.upper, found.upper_unproved), (Some(100), Some(101), true));
    let found = rate::search(asked(1e3, 1e6), 50, 1, &mut nat, &mut |_| ()).expect("a good configuration");
    assert!(found.search.upper_unproved, "{found:?}");
}

#[test]
fn a_failure_ends_the_search_and_invalid_input_is_named() {
    struct Gone;
    impl Establish for Gone {
        fn establish(&mut self, _: u64, _: f64) -> Result<Attempt, Failure> {
            Err(Failure("gone".into()))
        }
    }
    let found = capacity(1_000, 1e5).search(&mut Gone, &mut |_| ()).expect("a good configuration");
    assert_eq!(found.ended, Ended::Failed("gone".into()));
    let said =
        |c: Capacity| c.search(&mut Gone, &mut |_| ()).map_or_else(|e| e.to_string(), |_| String::new());
    assert!(said(capacity(10, 1e5)).contains("most must be at least 64, is 10"));
    assert!(said(capacity(100, 0.0)).contains("rate_fps"));
    let none = rate::search(asked(1e3, 1e6), 0, 1, &mut Gone, &mut |_| ());
    assert!(none.is_err_and(|e| e.field == "sessions"));
}

/// One side of a simulated router in real time: frames that the router forwards leave through a cable.
struct Side {
    nat: Arc<Mutex<Nat>>,
    cable: Box<dyn TxQueue>,
    clock: Clock,
    initiator: bool,
}

fn lock(nat: &Mutex<Nat>) -> MutexGuard<'_, Nat> {
    nat.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TxQueue for Side {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let (mut nat, mut out) = (lock(&self.nat), Frame::new());
        let now = self.clock.ticks_to_ns(tsc());
        frame.drain(|mut held| {
            let of = Tuple::of(held.packet().bytes());
            let to = of.and_then(|of| if self.initiator { nat.out(now, of) } else { nat.back(of) });
            match to {
                Some(to) if to.write(held.packet().bytes_mut()) => {
                    repair(held.packet().bytes_mut());
                    out.push(held).unwrap_or_else(|_| panic!("there is room for a burst"));
                }
                _ => held.discard(),
            }
        });
        self.cable.send(&mut out, cache)
    }

    fn caps(&self) -> TxCaps {
        self.cable.caps()
    }
}

/// The engine, connected to both sides of a simulated router.
struct Through {
    engine: Engine,
    nat: Arc<Mutex<Nat>>,
}

struct Bed {
    through: Through,
    table: Table,
}

impl Bed {
    fn new(nat: Nat, pool: &Pool, traffic: &str, size: usize) -> Result<Bed, Box<dyn std::error::Error>> {
        let nat = Arc::new(Mutex::new(nat));
        let ((a, b), (c, d)) = (cable(4096), cable(4096));
        let side =
            |cable, initiator| Box::new(Side { nat: nat.clone(), cable, clock: Clock::new(), initiator });
        let (left, right) = (side(a, true), side(c, false));
        let ports = vec![
            Port { tx: left, more: Vec::new(), rx: d, hosts: None },
            Port { tx: right, more: Vec::new(), rx: b, hosts: None },
        ];
        let traffic = builtin(traffic, size).ok_or("no traffic")?;
        let macs = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let flows = |reverse| traffic.flows(&Ends::rfc(macs.0, macs.1, reverse));
        let table = Table::new(&flows(false)?, &flows(true)?, 1_000, 7)?;
        let engine = Engine::new(ports, Vec::new(), pool, Limits::NONE, Duration::from_millis(5), 7);
        Ok(Bed { through: Through { engine, nat }, table })
    }

    fn attempt(&mut self, connections: u64) -> Result<Attempt, Failure> {
        attempt(&mut self.through, &mut self.table, connections, 50_000.0)
    }
}

impl Phases for Through {
    fn phase(
        &mut self,
        direction: Direction,
        request: Request,
        came: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Outcome, Failure> {
        self.engine.set_directions(vec![direction]);
        let mut steps =
            self.engine.run_watched(&[request], |stamp, frame| came(stamp.sequence, frame), || ())?;
        Ok(steps.pop().ok_or_else(|| Failure("no step".into()))?.0)
    }

    fn forget(&mut self) -> Result<(), Failure> {
        lock(&self.nat).forget();
        Ok(())
    }

    fn counted(&self) -> Option<u64> {
        Some(lock(&self.nat).connections() as u64)
    }
}

/// Real frames through a simulated router: the attempt's counts match the router's.
#[test]
fn an_attempt_counts_the_routers_connections() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(8192)?;
    for (full, arrived, confirmed) in [(Full::Refuse, 300, None), (Full::Evict, 301, Some(300))] {
        let mut bed = Bed::new(Nat::new(300).full(full), &pool, "rfc2544", 64)?;
        let all = bed.attempt(300)?;
        assert_eq!(
            (all.arrived, all.different, all.confirmed, all.counted),
            (300, 300, Some(300), Some(300))
        );
        assert!(all.holds() && all.outcome().lost() == 0, "{all:?}");
        // Later trials use the established connections in both directions.
        let both = vec![bed.table.forth(300)?, bed.table.back()?];
        bed.through.engine.set_directions(both);
        let (outcome, _) =
            bed.through.engine.run(Request { load_fps: 20_000.0, duration: Duration::from_millis(50) })?;
        assert_eq!((outcome.intended, outcome.received), (2_000, 2_000));
        let more = bed.attempt(301)?;
        assert_eq!((more.arrived, more.confirmed, more.counted), (arrived, confirmed, Some(300)), "{full:?}");
        assert!(!more.holds() && more.outcome().lost() == 1, "{more:?}");
    }
    Ok(())
}

/// Connections do not count if their frames do not arrive, if they have the same translated four-tuple, or if their answers are swapped.
#[test]
fn swapped_connections_do_not_count() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(8192)?;
    let mut bed = Bed::new(Nat::new(300), &pool, "rfc5180", 84)?;
    // The simulated router does not translate IPv6.
    let none = bed.attempt(10)?;
    assert_eq!((none.arrived, none.confirmed), (0, None));
    assert!(bed.table.back().is_err());
    let mut bed = Bed::new(Nat::new(300), &pool, "rfc2544", 64)?;
    assert!(bed.attempt(2)?.holds());
    let any = bed.table.forth(2)?.flows[0].templates[0].bytes.clone();
    let all = tuples(Tuple::of(&any).ok_or("no tuple")?, 1_000, 7);
    let [first, second] = [0, 1].map(|n: usize| {
        let mut frame = any.clone();
        assert!(all[n].answer().write(&mut frame));
        frame
    });
    assert!(bed.table.came_back(0, &first) && bed.table.came_back(1, &second));
    assert!(!bed.table.came_back(0, &second) && !bed.table.came_back(9, &first));
    bed.table.learn(1, &first);
    bed.table.learn(0, &first);
    assert_eq!(bed.table.learned(), 1);
    Ok(())
}

#[test]
fn traffic_without_sessions_is_refused() -> Result<(), Box<dyn std::error::Error>> {
    let ends = Ends::rfc(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), false);
    let flows = builtin("imix", 0).ok_or("no traffic")?.flows(&ends)?;
    let said = Table::new(&flows, &flows, 10, 1).map_or_else(|e| e.0, |_| String::new());
    assert!(said.contains("one flow of one kind of frame: UDP"), "{said}");
    Ok(())
}
