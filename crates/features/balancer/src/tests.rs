//! Tests how the feature reacts to given loads, without causing these loads.

use drivers::pktgen;
use graph::{Builder, GraphError, RxMode};
use net::Tables;
use net::handoff::Shards;
use net::interface::{Attention, Handoff};
use net::router::{Hooks, Parts, Receive, Router, Sizes};
use proptest::prelude::*;

use super::plan::{Change, Checks, Queue, Situation};
use super::{Balance, react};

fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    net::testing::install(b, t, hooks)?;
    super::install(hooks)
}

/// A router with this many workers on threads, and with devices of one receive queue each.
fn router(workers: usize, devices: usize) -> Router {
    let Parts { router: mut r, workers: all } =
        Router::build(install, &Sizes { buffers: 8192, workers }).unwrap();
    r.start(all, &[]).unwrap();
    for n in 0..devices {
        let (device, ..) = pktgen::open(&pktgen::Config::default());
        r.add_device(&format!("d{n}"), device).unwrap();
    }
    r
}

/// Reacts to the same loads in several checks.
fn check(r: &mut Router, loads: &[f64], times: usize) {
    (0..times).for_each(|_| react(r, loads));
}

fn workers_of_queues(r: &Router) -> Vec<usize> {
    r.tables().placement.slots().iter().map(|s| s.attention().worker).collect()
}

fn is_spread(r: &Router) -> bool {
    r.tables().placement.slots()[0].attention().spread
}

#[test]
fn an_overloaded_worker_is_relieved() {
    let mut r = router(2, 1);
    let has = |r: &Router| r.shards().workers().filter(|w| *w == 0).count();
    check(&mut r, &[0.95, 0.7], 9);
    check(&mut r, &[0.95, 0.1], 1);
    assert!(!is_spread(&r), "not at the first check, and not without a worker that has capacity");
    check(&mut r, &[0.95, 0.1], 1);
    assert_eq!((is_spread(&r), has(&r)), (true, 512));
    check(&mut r, &[0.95, 0.1], 2);
    assert_eq!(has(&r), 512 - 64, "an eighth moves at once");
    check(&mut r, &[0.95, 0.1], 90);
    assert!(has(&r) < 8, "its load is not from flows: {}", has(&r));
    // Shards assigned by the operator stay until workers are added or removed.
    r.give_shards(&Vec::from_iter(0..1024), 0).unwrap();
    check(&mut r, &[0.95, 0.1], 9);
    assert_eq!(has(&r), 1024);
    r.set_workers(&[None; 2]).unwrap();
    check(&mut r, &[0.95, 0.1], 2);
    assert_eq!(has(&r), 512 - 64);
    check(&mut r, &[0.1, 0.1], 30);
    assert!(!is_spread(&r));
}

/// Queues are moved by load: to one worker if the load is little, and to several if it is high.
#[test]
fn queues_follow_the_load_to_fewer_or_more_workers() {
    let mut r = router(3, 3);
    assert_eq!(workers_of_queues(&r), [0, 1, 2], "at first all workers have queues");
    check(&mut r, &[0.1, 0.1, 0.1], 29);
    assert_eq!(workers_of_queues(&r), [0, 1, 2]);
    check(&mut r, &[0.1, 0.1, 0.1], 1);
    let home = workers_of_queues(&r)[0];
    assert_eq!(workers_of_queues(&r), [home; 3]);
    let mut loads = [0.1; 3];
    loads[home] = 0.95;
    check(&mut r, &loads, 1);
    let mut spread = workers_of_queues(&r);
    spread.sort_unstable();
    assert_eq!(spread, [0, 1, 2], "all move at once if other workers have none");
    check(&mut r, &[0.95, 0.1, 0.2], 1);
    assert!(!r.tables().placement.slots().iter().any(|s| s.attention().spread));
    check(&mut r, &[0.95, 0.1, 0.2], 1);
    assert!(
        r.tables().placement.slots().iter().any(|s| s.attention().spread),
        "a single queue can only be spread"
    );
    // Queues placed by the operator, and polling ones, stay.
    let before = workers_of_queues(&r);
    let mut placed = Receive::default();
    placed.queues.entry(0).or_default().worker = Some(before[1]);
    r.set_receive(1, placed).unwrap();
    r.set_receive(2, Receive { mode: RxMode::Polling, ..Receive::default() }).unwrap();
    check(&mut r, &[0.1, 0.1, 0.1], 30);
    assert_eq!(workers_of_queues(&r)[1..], before[1..]);
}

/// The feature handles the router's measurements, each once.
#[test]
fn each_measurement_is_handled_once() {
    let mut r = router(2, 2);
    for (now, measured) in [(60, 0), (120, 120), (180, 120), (240, 240)] {
        r.poll(now * 1_000_000);
        let handled = r.state::<Balance>().unwrap().handled;
        assert_eq!([handled, r.loads().0], [measured * 1_000_000; 2]);
    }
}

fn queue() -> impl Strategy<Value = Queue> {
    let modes = prop::sample::select(vec![RxMode::Adaptive, RxMode::Polling, RxMode::Interrupt]);
    let handoffs = prop::sample::select(vec![Handoff::Auto, Handoff::On, Handoff::Off]);
    (0usize..4, any::<bool>(), modes, handoffs, 1usize..6).prop_map(|(worker, chosen, mode, handoff, of)| {
        let at = Attention { worker, chosen, mode, handoff, spread: handoff == Handoff::On, paused: false };
        Queue { at, of }
    })
}

proptest! {
    /// Checks the plans for arbitrary loads. Only movable queues move. Flows are spread only if the operator left this decision to the
    /// router. All assignments name existing workers. With constant loads, the changes come to an end.
    #[test]
    fn plans_respect_the_operator_and_end(
        queues in prop::collection::vec(queue(), 0..8),
        loads in prop::collection::vec(0.0..1.0f64, 4),
        fixed in any::<bool>(),
    ) {
        let (mut checks, mut queues) = (Checks::default(), queues);
        let mut shards = Shards::default().shared_out(4);
        let mut last = 0;
        for n in 0..2000 {
            let situation = Situation { queues: &queues, workers: 4, shards: &shards, fixed };
            let Some(Change { queues: wished, shards: next, .. }) = checks.plan(&loads, &situation) else { continue };
            for (queue, wished) in queues.iter_mut().zip(&wished) {
                let moved = queue.at.worker != wished.worker;
                prop_assert!(wished.worker < 4);
                prop_assert!(!moved || !queue.at.chosen && queue.at.mode != RxMode::Polling);
                let decides = queue.at.handoff == Handoff::Auto && queue.of < 4;
                prop_assert!(queue.at.spread == wished.spread || decides);
                queue.at = *wished;
            }
            prop_assert!(!fixed || next == shards);
            prop_assert!(next.workers().all(|worker| worker < 4));
            shards = next;
            last = n;
        }
        // Spreading ends when the busiest worker has given away what it may.
        prop_assert!(last < 1500, "still changing at check {last}");
    }
}
