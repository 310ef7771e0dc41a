//! Tests that add and remove workers, and move work between them, while packets are forwarded. Every packet is counted.

use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use buf::{Cache, Frame, Gone, RxQueue, TxCaps, TxQueue, Unsent};
use drivers::pktgen;
use graph::RxMode;
use infra::cpu::Policy;
use proptest::prelude::*;
use testkit::skip::skipped;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::*;
use crate::interface::Handoff;
use crate::ip::Address;
use crate::testing::install;

const FLOWS: u64 = 48;
/// Maximum number of packets inside the router, so that it keeps up even on a slow machine.
const WINDOW: u64 = 400;
const SOURCE: Mac = Mac([2, 0, 0, 0, 0, 1]);
const TARGET: Mac = Mac([2, 0, 0, 0, 0, 2]);
const HOST: Mac = Mac([2, 0, 0, 0, 9, 9]);

/// A device that numbers the packets of each flow when the router receives them, and records them when the router sends them.
#[derive(Default)]
struct Counting {
    given: AtomicU64,
    wanted: AtomicU64,
    /// The sent packets, in order: flow and number of each.
    came: Mutex<Vec<(u64, u64)>>,
    /// The names of the worker threads that sent packets.
    senders: Mutex<std::collections::BTreeSet<String>>,
}

impl Counting {
    fn came(&self) -> u64 {
        self.came.lock().unwrap().len() as u64
    }
}

struct Source(Arc<Counting>);
impl RxQueue for Source {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        while frame.len() < 32 && self.active() {
            if frame.alloc(cache, 1) == 0 {
                break;
            }
            let n = self.0.given.fetch_add(1, Ordering::Relaxed);
            let (flow, number) = (n % FLOWS, n / FLOWS);
            let from = Ipv4Addr::new(10, 0, 0, 10 + flow as u8);
            let packet = PacketBuilder::ipv4(from, [10, 0, 1, 2].into())
                .ethernet(HOST, SOURCE)
                .udp(1000 + flow as u16, 7)
                .payload(&[flow.to_be_bytes(), number.to_be_bytes()].concat());
            let last = frame.len() - 1;
            assert!(frame.get(last).unwrap().fill(&packet.build()));
        }
        Ok(())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn active(&self) -> bool {
        let given = self.0.given.load(Ordering::Relaxed);
        given < self.0.wanted.load(Ordering::Relaxed) && given < self.0.came() + WINDOW
    }
}

struct Target(Arc<Counting>);
impl TxQueue for Target {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let mut came = self.0.came.lock().unwrap();
        for p in frame.packets() {
            // Packets of the router's own are not counted.
            if let Some(said) = p.bytes().get(42..58).filter(|_| p.bytes()[12..14] == [8, 0]) {
                let word = |at: usize| u64::from_be_bytes(said[at..at + 8].try_into().unwrap());
                came.push((word(0), word(8)));
            }
        }
        frame.free(cache);
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.senders.lock().unwrap().insert(name);
        Ok(())
    }
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }
}

/// Creates a router with this many workers on threads, and two devices: one with one receive queue, and one for output.
fn router(workers: usize) -> (Router, Arc<Counting>) {
    let Parts { router: mut r, workers: all } =
        Router::build(install, &Sizes { buffers: 8192, workers }).unwrap();
    r.start(all, &[]).unwrap();
    let counting = Arc::new(Counting::default());
    for n in 0..2u8 {
        let config = pktgen::Config { mac: [2, 0, 0, 0, 0, n + 1], ..Default::default() };
        let (mut device, ..) = pktgen::open(&config);
        match n {
            0 => device.rx = vec![Box::new(Source(counting.clone()))],
            _ => {
                device.rx.clear();
                device.tx = vec![Box::new(Target(counting.clone()))];
            }
        }
        let index = r.add_device(&format!("d{n}"), device).unwrap();
        r.set_admin(index, true).unwrap();
        r.add_address(index, Address::new([10, 0, n, 1], 24)).unwrap();
    }
    r.add_neighbor(1, [10, 0, 1, 2], TARGET, true).unwrap();
    (r, counting)
}

/// Lets the router receive `n` more packets, and calls `meanwhile` repeatedly until all have been sent.
fn pass(r: &mut Router, counting: &Counting, n: u64, mut meanwhile: impl FnMut(&mut Router)) {
    let wanted = counting.wanted.fetch_add(n, Ordering::Relaxed) + n;
    let limit = Instant::now() + Duration::from_secs(30);
    while counting.came() < wanted {
        r.wake_workers();
        meanwhile(r);
        r.poll(0);
        assert!(Instant::now() < limit, "{} of {wanted} packets came out; {:?}", counting.came(), dropped(r));
        std::thread::sleep(Duration::from_micros(200));
    }
    r.poll(0);
}

/// Checks that every packet of every flow was sent, in order.
fn check(counting: &Counting) {
    let came = counting.came.lock().unwrap();
    let mut next = [0; FLOWS as usize];
    for (flow, number) in came.iter() {
        assert_eq!(*number, next[*flow as usize], "flow {flow}");
        next[*flow as usize] += 1;
    }
    assert_eq!(came.len() as u64, counting.wanted.load(Ordering::Relaxed));
}

fn dropped(r: &Router) -> Vec<graph::stats::Dropped> {
    r.graph().stats().dropped().into_iter().filter(|d| d.packets > 0).collect()
}

fn stop(mut r: Router) {
    r.set_admin(0, false).unwrap();
    while r.interfaces().count() > 0 {
        let index = r.interfaces().next().unwrap().index;
        r.remove_interface(index).unwrap();
    }
    assert_eq!(dropped(&r), []);
    r.runners.clear();
    r.poll(0);
    let stats = r.pool.stats();
    assert_eq!((stats.lost, stats.used), (0, 0));
}

#[test]
fn workers_share_flows_of_one_queue_in_order() {
    for workers in [1, 2, 4] {
        let (mut r, counting) = router(workers);
        let spread = r.set_receive(0, Receive { handoff: Handoff::On, ..Default::default() });
        assert_eq!(spread, Ok(()));
        assert_eq!(r.stood_still() > Duration::ZERO, workers > 1);
        pass(&mut r, &counting, 20_000, |_| {});
        check(&counting);
        assert_eq!(counting.senders.lock().unwrap().len(), workers);
        stop(r);
    }
}

#[test]
fn a_queue_without_overload_stays_with_its_worker() {
    let (mut r, counting) = router(3);
    pass(&mut r, &counting, 2000, |_| {});
    check(&counting);
    assert_eq!(counting.senders.lock().unwrap().len(), 1);
    stop(r);
}

/// A worker sleeps briefly between polls only for queues in adaptive mode, not for queues in interrupt mode. A second worker that passes no
/// packets to it does not change this.
#[test]
fn workers_do_not_nap_for_interrupt_queues() {
    let naps = |r: &Router| (0..2).map(|w| r.graph().stats().worker_totals(w).naps).collect::<Vec<_>>();
    for (mode, napped) in [(RxMode::Adaptive, true), (RxMode::Interrupt, false)] {
        let (mut r, counting) = router(2);
        r.set_receive(0, Receive { mode, ..Default::default() }).unwrap();
        // 100,000 packets a second: low enough to nap.
        let (start, mut sent) = (Instant::now(), 0);
        while sent < 20_000 {
            let due = start.elapsed().as_micros() as u64 / 10;
            counting.wanted.fetch_add(due - sent, Ordering::Relaxed);
            sent = due;
            r.wake_workers();
            r.poll(0);
            std::thread::yield_now();
        }
        pass(&mut r, &counting, 40, |_| {});
        assert_eq!(naps(&r).iter().any(|n| *n > 0), napped, "{mode:?}: {:?}", naps(&r));
        stop(r);
    }
}

/// A worker that is added later has the scheduling that was set before.
#[test]
fn every_worker_has_the_configured_scheduling() {
    let (mut r, _counting) = router(1);
    r.schedule_workers(Schedule::new(Policy::Batch, 1));
    r.set_workers(&[None; 2]).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", r.runners[1].thread_id())).unwrap();
    // proc(5): the policy is field 41; the field after the name is the third.
    let policy = stat.rsplit(')').next().unwrap().split_whitespace().nth(41 - 3);
    assert_eq!(policy, Some("3"), "SCHED_BATCH: {stat}");
    stop(r);
}

/// A change that is made while packets are forwarded.
#[derive(Clone, Copy, Debug)]
enum Change {
    Workers(usize),
    Worker(usize),
    Handoff(Handoff),
    Mode(RxMode),
    Shards(usize, usize, usize),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (1usize..5).prop_map(Change::Workers),
        (0usize..4).prop_map(Change::Worker),
        prop::sample::select(vec![Handoff::On, Handoff::Off, Handoff::On]).prop_map(Change::Handoff),
        prop::sample::select(vec![RxMode::Interrupt, RxMode::Adaptive, RxMode::Polling])
            .prop_map(Change::Mode),
        (0..1023usize, 1..512usize, 0..4usize).prop_map(|(at, n, worker)| Change::Shards(at, n, worker)),
    ]
}

fn make(r: &mut Router, change: Change) {
    let mut receive = r.interface(0).unwrap().receive.clone();
    let done = match change {
        Change::Workers(n) => r.set_workers(&vec![None; n]),
        Change::Worker(worker) => {
            receive.queues.entry(0).or_default().worker = Some(worker);
            r.set_receive(0, receive)
        }
        Change::Handoff(handoff) => r.set_receive(0, Receive { handoff, ..receive }),
        Change::Mode(mode) => r.set_receive(0, Receive { mode, ..receive }),
        Change::Shards(at, n, worker) => match worker < r.workers() {
            true => r.give_shards(&Vec::from_iter(at..(at + n).min(1024)), worker),
            false => Ok(()),
        },
    };
    done.unwrap_or_else(|e| panic!("{change:?}: {e}"));
    if let Change::Workers(n) = change {
        assert_eq!((r.workers(), r.cores().len(), r.runners.len()), (n, n, n));
    }
    let workers = r.workers();
    assert!(r.shards().workers().all(|w| w < workers), "{change:?}");
    for slot in r.tables().placement.slots() {
        let how = slot.attention();
        assert!(how.worker < workers && !how.paused && (workers > 1 || !how.spread), "{change:?}: {how:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]
    /// Whatever changes are made meanwhile, every packet is sent, and packets of a flow are sent in order.
    #[test]
    fn changes_lose_and_reorder_no_packet(changes in prop::collection::vec(any_change(), 10..60)) {
        let (mut r, counting) = router(2);
        let mut changes = changes.into_iter();
        pass(&mut r, &counting, 20_000, |r| changes.next().into_iter().for_each(|change| make(r, change)));
        for change in changes {
            make(&mut r, change);
            pass(&mut r, &counting, 100, |_| {});
        }
        check(&counting);
        stop(r);
    }
}

/// Packets wait on a worker for their next hop. When the worker is removed, they wait on another worker, which sends them later.
#[test]
fn waiting_packets_of_a_removed_worker_are_still_sent() {
    let (mut r, counting) = router(3);
    let mut receive = Receive::default();
    receive.queues.entry(0).or_default().worker = Some(2);
    r.set_receive(0, receive).unwrap();
    // By then, all messages about the neighbor have been handled.
    pass(&mut r, &counting, 40, |_| {});
    r.remove_neighbor(1, [10, 0, 1, 2]).unwrap();
    counting.wanted.store(80, Ordering::Relaxed);
    let start = Instant::now();
    let waiting = |r: &Router| {
        let runtime = r.graph().stats().runtime(None);
        runtime.iter().filter(|n| n.name == "ip4-arp").map(|n| n.packets).sum::<u64>()
    };
    while waiting(&r) < 40 {
        r.wake_workers();
        r.poll(0);
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(r.set_workers(&[None]).map(|_| r.workers()), Ok(1));
    assert_eq!(counting.came(), 40);
    r.add_neighbor(1, [10, 0, 1, 2], TARGET, true).unwrap();
    pass(&mut r, &counting, 0, |_| {});
    check(&counting);
    // Counters of a running worker are not a consistent snapshot.
    let start = Instant::now();
    let closed = |r: &Router| (r.accounts().waiting, r.accounts().unaccounted()) == (0, 0);
    while !closed(&r) {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", r.accounts());
        r.poll(0);
        std::thread::sleep(Duration::from_millis(1));
    }
    stop(r);
}

/// A device whose `poll` does not return.
struct Hanging(Arc<AtomicBool>);
impl RxQueue for Hanging {
    fn poll(&mut self, _: &mut Frame, _: &mut Cache) -> Result<(), Gone> {
        while self.0.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// When dropped, lets the `poll` of a [`Hanging`] device return. This is needed if a test fails, because dropping a router waits for its
/// workers.
struct LetGo(Arc<AtomicBool>);
impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_hanging_worker_is_reported_and_refuses_changes() {
    let (mut r, _) = router(2);
    r.set_receive(0, Receive { handoff: Handoff::On, ..Default::default() }).unwrap();
    let hangs = LetGo(Arc::new(AtomicBool::new(true)));
    let (mut device, ..) = pktgen::open(&pktgen::Config::default());
    device.rx = vec![Box::new(Hanging(hangs.0.clone()))];
    r.add_device("d2", device).unwrap();
    let slot = || r.tables().placement.slots().into_iter().find(|s| s.interface == 2).unwrap();
    let (before, slot) = (slot().attention(), slot());
    let limit = Instant::now() + Duration::from_secs(10);
    while r.graph().stats().running(before.worker) != Some("pg-input") && Instant::now() < limit {
        std::thread::yield_now();
    }
    let mut receive = Receive::default();
    receive.queues.entry(0).or_default().worker = Some(1 - before.worker);
    let refused = r.set_receive(2, receive).unwrap_err();
    let wanted = format!(
        "no changes made: worker {}, in node pg-input, has not finished its packets after 200 ms",
        before.worker
    );
    assert_eq!(refused.to_string(), wanted);
    assert_eq!(slot.attention(), before);
    // A worker added for work that cannot be shared out is removed again, and a repinned worker gets its core back.
    assert_eq!(r.set_workers(&[None; 4]).unwrap_err().to_string(), wanted);
    assert_eq!(r.set_workers(&[Some(0), None]).map(|()| r.cores.clone()), Ok(vec![Some(0), None]));
    assert_eq!(r.set_workers(&[None; 1]).unwrap_err().to_string(), wanted);
    assert_eq!((r.cores(), r.ports.len(), r.runners.len()), (&[Some(0), None][..], 2, 2));
    drop(hangs);
    stop(r);
}

/// A device that records which thread closes its queue.
struct Closing {
    by: Arc<Mutex<Vec<std::thread::ThreadId>>>,
    active: bool,
}
impl RxQueue for Closing {
    fn poll(&mut self, _: &mut Frame, _: &mut Cache) -> Result<(), Gone> {
        Ok(())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn active(&self) -> bool {
        self.active
    }
}
impl Drop for Closing {
    fn drop(&mut self) {
        self.by.lock().unwrap().push(std::thread::current().id());
    }
}

/// The main thread closes queues, because the kernel may take long to do so. If a worker closed them, it could not poll its other queues
/// meanwhile.
#[test]
fn workers_do_not_close_queues_of_a_removed_device() {
    let (mut r, _) = router(2);
    let by = Arc::new(Mutex::new(Vec::new()));
    // One queue that its worker polls all the time, and one on which its worker sleeps.
    for round in 0..40 {
        let (mut device, ..) = pktgen::open(&pktgen::Config::default());
        device.rx = vec![Box::new(Closing { by: by.clone(), active: round % 2 == 0 })];
        let index = r.add_device("d2", device).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        r.remove_interface(index).unwrap();
        assert_eq!(std::mem::take(&mut *by.lock().unwrap()), [std::thread::current().id()], "{round}");
    }
    stop(r);
}

/// A device that reports this NUMA node.
struct At(u32);
impl drivers::DeviceControl for At {
    fn set_admin(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
    fn set_mtu(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }
    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        Ok(())
    }
    fn link(&mut self) -> drivers::Link {
        drivers::Link { present: true, carrier: true, speed_mbps: None }
    }
    fn numa_node(&self) -> Option<u32> {
        Some(self.0)
    }
    fn describe(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

#[test]
fn a_worker_on_a_remote_numa_node_is_reported() {
    let Some(node) = infra::cpu::numa_node_of(0) else {
        skipped("needs a kernel that reports the NUMA node of core 0");
        return;
    };
    let (mut r, _) = router(1);
    for (name, at) in [("near", node), ("far", node + 1)] {
        let (mut device, ..) = pktgen::open(&pktgen::Config::default());
        device.control = Box::new(At(at));
        let index = r.add_device(name, device).unwrap();
        assert_eq!(r.far_workers(index), [], "a worker without a core has no known NUMA node");
        r.pin_worker(0, Some(0)).unwrap();
        let far = if at == node { vec![] } else { vec![(0, 0, node)] };
        assert_eq!(r.far_workers(index), far);
        r.pin_worker(0, None).unwrap();
    }
    stop(r);
}

#[test]
fn invalid_workers_and_cores_are_refused() {
    let (mut r, _) = router(1);
    assert!(r.set_workers(&[]).unwrap_err().to_string().contains("1 to 256"));
    assert!(r.pin_worker(1, None).unwrap_err().to_string().contains("no worker 1"));
    let refused = r.set_workers(&[Some(0), None, Some(1023)]).unwrap_err().to_string();
    assert!(refused.contains("cannot pin worker 2 to core 1023"), "{refused}");
    assert_eq!((r.cores(), r.workers(), r.runners.len()), (&[None][..], 1, 1));
    assert!(
        r.pin_worker(0, Some(1023)).unwrap_err().to_string().contains("cannot pin worker 0 to core 1023")
    );
    assert!(r.give_shards(&[3], 1).unwrap_err().to_string().contains("no worker 1"));
    assert!(r.give_shards(&[1024], 0).unwrap_err().to_string().contains("0 to 1023"));
    assert!(r.set_receive(9, Receive::default()).is_err());
    stop(r);
}
