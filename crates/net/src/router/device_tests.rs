//! Tests of a router's devices: links, counters, and the buffer pool that all devices share.

use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use buf::{Cache, Frame, Gone, RxQueue};
use drivers::{DeviceControl, Link};

use super::tests::*;
use super::*;
use crate::ethernet::Tags;
use crate::interface::InterfaceTotals;
use crate::ip::Packets;
use crate::neighbor::Release;
use crate::testing::{router as build, turn};

#[test]
fn the_last_buffers_are_reserved_for_messages_that_free_some() {
    let (mut r, worker) = build();
    let mut workers = r.pool.cache();
    let taken: Vec<_> = std::iter::from_fn(|| buf::Held::alloc(&mut workers)).collect();
    // The main thread has the buffers it took at the start, and stops at a reserve of one per worker.
    let own: Vec<_> = std::iter::from_fn(|| r.packet(b"ask")).collect();
    assert_eq!(own.len() + taken.len() + r.workers(), r.pool.stats().total);
    let last = r.last_packet(b"sweep").expect("the reserve");
    assert!(r.last_packet(b"sweep").is_none());
    taken.into_iter().chain(own).chain([last]).for_each(|held| held.free(&mut workers));
    drop(workers);
    assert!(r.packet(b"ask").map(|held| held.discard()).is_some());
    drop(worker);
}

/// The main thread's messages used all buffers, including the main thread's reserve. An idle worker freed the messages, and holds their
/// buffers in its cache.
#[test]
fn the_main_thread_gets_its_reserve_back_and_keeps_it() {
    let (mut r, mut worker) = build();
    let sweep = Release::Sweep.to_bytes();
    let mut all: Vec<_> = std::iter::from_fn(|| r.last_packet(&sweep)).collect();
    assert_eq!(all.len(), r.pool.stats().total);
    // The pool is empty now, so the worker tries to give up its surplus, but has none.
    turn(&r, &mut worker);
    all.drain(..200).for_each(|message| assert!(r.send(0, Ipv4Addr::NODES.release, message)));
    turn(&r, &mut worker);
    r.bufs.publish();
    let stats = r.pool.stats();
    assert_eq!((stats.free, stats.cached), (0, 200));
    assert!(r.last_packet(&sweep).is_none());
    turn(&r, &mut worker);
    all.push(r.last_packet(&sweep).expect("buffers from the worker"));
    // Other threads that are short of buffers get all buffers of the main thread except its reserve.
    let mut short = r.pool.cache();
    for now in 1..20 {
        assert!(!short.has(buf::FRAME_SIZE));
        r.poll(now);
    }
    let own: Vec<_> = std::iter::from_fn(|| r.last_packet(&sweep)).collect();
    assert_eq!(own.len(), r.workers());
    all.into_iter().chain(own).for_each(|held| held.free(&mut short));
}

/// If a router is dropped, the packets in its rings to the workers are freed too. This matters because tests
/// create thousands of routers.
#[test]
fn buffer_memory_of_a_dropped_router_is_reused() {
    // A size that no other test uses, so that no other test takes the memory.
    const BUFFERS: usize = 333;
    let addresses = || {
        let mut cache = buf::Pool::new(BUFFERS).unwrap().cache();
        let taken: Vec<_> = std::iter::from_fn(|| buf::Held::alloc(&mut cache)).collect();
        let mut found: Vec<_> = taken
            .into_iter()
            .map(|mut held| {
                let at = held.packet().room_mut().as_ptr();
                held.free(&mut cache);
                at
            })
            .collect();
        found.sort_unstable();
        found
    };
    let before = addresses();
    assert_eq!(before.len(), BUFFERS);
    let sizes = Sizes { buffers: BUFFERS, workers: 1 };
    let mut r = Router::build(crate::testing::install, &sizes).unwrap().router;
    let index = r.add_device("d0", device(0).0).unwrap();
    r.set_admin(index, true).unwrap();
    // The announcement to the neighbors stays in the ring, because the worker never runs.
    r.add_address(index, address("10.0.0.1/24")).unwrap();
    r.poll(1);
    drop(r);
    assert_eq!(addresses(), before);
}

/// A device whose carrier the test controls.
struct Plug(Arc<AtomicBool>);

impl DeviceControl for Plug {
    fn set_admin(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
    fn set_mtu(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }
    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        Ok(())
    }
    fn link(&mut self) -> Link {
        Link { present: true, carrier: self.0.load(Ordering::Relaxed), speed_mbps: None }
    }
    fn describe(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// A device whose packets arrive as soon as it goes up. It records whether workers already saw the interface as up at that time. If `wakes`
/// is false, it refuses to go up.
struct Eager {
    tables: Tables,
    participant: Participant,
    wakes: bool,
    up: Arc<AtomicBool>,
}

impl DeviceControl for Eager {
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        let section = self.participant.enter();
        let own = self.tables.interfaces.get(section.guard(), 0);
        self.up.store(own.is_some_and(|own| own.up), Ordering::Relaxed);
        if up && !self.wakes { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }
    fn set_mtu(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }
    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        Ok(())
    }
    fn link(&mut self) -> Link {
        Link { present: true, carrier: true, speed_mbps: None }
    }
    fn describe(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

#[test]
fn packets_are_received_as_soon_as_a_device_is_up() {
    for wakes in [true, false] {
        let mut r = router(0);
        let up = Arc::new(AtomicBool::new(false));
        let mut d = device(0).0;
        let (tables, participant) = (r.tables.clone(), r.participant());
        d.control = Box::new(Eager { tables, participant, wakes, up: up.clone() });
        let index = r.add_device("d0", d).unwrap();
        assert_eq!(r.set_admin(index, true).is_ok(), wakes);
        assert!(up.load(Ordering::Relaxed));
        // A device that refuses stays down.
        let mut participant = r.participant();
        let section = participant.enter();
        assert_eq!(r.tables.interfaces.get(section.guard(), index).unwrap().up, wakes);
    }
}

#[test]
fn a_lost_carrier_withdraws_routes_until_it_returns() {
    let mut r = router(1);
    let plugged = Arc::new(AtomicBool::new(false));
    let mut d = device(1).0;
    d.control = Box::new(Plug(plugged.clone()));
    let index = r.add_device("d1", d).unwrap();
    let sub =
        r.add_subinterface("d1.9", index, Tags { outer: 9, outer_service: false, inner: None }).unwrap();
    for (i, a) in [(index, "10.0.1.1/24"), (sub, "10.0.2.1/24")] {
        r.set_admin(i, true).unwrap();
        r.add_address(i, address(a)).unwrap();
    }
    r.add_route(0, prefix("10.9.0.0/16"), via("10.0.1.2", None)).unwrap();
    let up = |r: &Router, index| {
        let mut participant = r.participant();
        let section = participant.enter();
        r.tables.interfaces.get(section.guard(), index).unwrap().up
    };
    let check = |r: &Router, carrier: bool| {
        for (index, to) in [(index, "10.0.1.7"), (index, "10.0.1.1"), (index, "10.9.0.1"), (sub, "10.0.2.7")]
        {
            assert_eq!(
                (route(r, to).is_some(), r.link_up(index), up(r, index)),
                (carrier, carrier, carrier),
                "{to}"
            );
        }
        assert_eq!(length(r, "10.0.0.7"), Some(24), "the other device goes on");
    };
    check(&r, false);
    for carrier in [true, false, true] {
        plugged.store(carrier, Ordering::Relaxed);
        let changed = r.poll_links();
        assert_eq!(changed.iter().map(|c| (c.0, c.2.carrier)).collect::<Vec<_>>(), [(index, carrier)]);
        assert!(r.poll_links().is_empty());
        check(&r, carrier);
    }
}

/// A queue whose depth the test sets, as a peer would.
struct Deep(Arc<AtomicUsize>);

impl RxQueue for Deep {
    fn poll(&mut self, _: &mut Frame, _: &mut Cache) -> Result<(), Gone> {
        Ok(())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn depth(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn workers_learn_link_changes_and_new_queue_depths() {
    let mut r = router(1);
    let (plugged, depth) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(1024)));
    let mut d = device(1).0;
    d.control = Box::new(Plug(plugged.clone()));
    d.rx = vec![Box::new(Deep(depth.clone()))];
    let index = r.add_device("d1", d).unwrap();
    let placement = r.tables.placement.clone();
    let asked = || {
        let slot = placement.slots().into_iter().find(|s| s.interface == index).unwrap();
        (placement.version(), slot.eager().depth)
    };
    let (before, first) = asked();
    assert_eq!(first, 1024);
    depth.store(64, Ordering::Relaxed);
    plugged.store(true, Ordering::Relaxed);
    assert_eq!(r.poll_links().len(), 1);
    let (after, then) = asked();
    assert!(after != before, "workers read the queues again");
    assert_eq!(then, 64);
    assert!(r.poll_links().is_empty());
    assert_eq!(asked(), (after, 64), "nothing changed");
}

#[test]
fn totals_of_an_interface_are_neither_cleared_nor_inherited() {
    let mut r = router(1);
    let mut rx = r.tables.counters.rx.lane(0).unwrap();
    // The counts of a worker that leaves later must remain.
    let mut tx = r.tables.counters.tx.lane(2).unwrap();
    tx.add(0, [5, 300]);
    rx.add(0, [3, 180]);
    r.clear_interface(0);
    rx.add(0, [1, 60]);
    let of_thread = |r: &Router, index| {
        let threads = r.interface_totals_by_thread(r.interface(index).unwrap());
        threads.iter().map(|t| (t.rx_packets, t.tx_packets)).collect::<Vec<_>>()
    };
    assert_eq!(of_thread(&r, 0), [(0, 0), (4, 0), (0, 0), (0, 5)]);
    let totals = |r: &Router, index| r.interface_totals(r.interface(index).unwrap());
    assert_eq!((r.tables.counters.rx.read(0), totals(&r, 0).rx_packets), ([1, 60], 4));
    r.remove_interface(0).unwrap();
    // The next interface with this index counts from zero.
    r.collect();
    let index = r.add_loopback("loop0", HOST).unwrap();
    assert_eq!(index, 0, "the index is used again");
    assert_eq!(totals(&r, 0), InterfaceTotals::default());
    rx.add(0, [2, 120]);
    assert_eq!((totals(&r, 0).rx_packets, totals(&r, 0).rx_bytes), (2, 120));
    assert_eq!(of_thread(&r, 0), [(0, 0), (2, 0), (0, 0), (0, 0)]);
}
