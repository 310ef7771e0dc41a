//! Tests workers that join, send, sleep and leave in all interleavings that loom explores (one test only those with up to two preemptions):
//! `make loom`, or `cargo test -p graph --features loom --lib loom_`

use std::time::Duration;

use infra::doorbell::Doorbell;
use infra::quiesce::Domain;
use infra::ring::Consumer;
use infra::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use infra::sync::{Arc, thread};

use crate::handoff::{Exchange, Inbox, Outbox};

/// A timeout that is longer than any one interleaving takes.
const LONG: Duration = Duration::from_secs(600);

fn bell() -> std::sync::Arc<Doorbell> {
    std::sync::Arc::new(Doorbell::new().unwrap())
}

/// Returns an exchange with this number of workers.
fn exchange<T: Send>(workers: usize) -> Exchange<T> {
    let exchange = Exchange::default();
    (0..workers).for_each(|worker| exchange.join(worker, bell()));
    exchange
}

/// Sends an item to a worker. Returns true if the worker exists and its ring has room.
fn give<T: Send>(outbox: &mut Outbox<T>, worker: usize, item: T) -> bool {
    outbox.refresh();
    let given = outbox.give(worker, item).is_ok();
    outbox.flush();
    given
}

/// Receives an item from the next sending worker.
fn take<T: Send>(inbox: &mut Inbox<T>) -> Option<T> {
    inbox.ring().and_then(Consumer::pop)
}

/// A worker falls asleep while another worker joins and sends an item. The sleeper sees the item, stays awake, or is woken.
#[test]
fn loom_a_sleeper_is_woken_by_a_joining_worker() {
    loom::model(|| {
        let (exchange, sleeper) = (Exchange::default(), bell());
        exchange.join(0, sleeper.clone());
        let mut inbox = exchange.inbox(0);
        let newcomer = thread::spawn(move || {
            exchange.join(1, bell());
            assert!(give(&mut exchange.outbox(1), 0, 7));
        });
        let seen = take(&mut inbox);
        sleeper.about_to_sleep();
        let sleeps = inbox.is_empty();
        newcomer.join().unwrap();
        let woken = sleeper.clear();
        assert!(seen.is_some() || !sleeps || woken);
        assert_eq!(seen.or_else(|| take(&mut inbox)), Some(7));
    });
}

/// A worker falls asleep while another worker, which already has a ring to it, sends two items. The sleeper sees both items, stays awake,
/// or is woken.
#[test]
fn loom_a_sleeper_is_woken_for_the_second_of_two() {
    loom::model(|| {
        let (exchange, sleeper) = (Exchange::default(), bell());
        exchange.join(0, sleeper.clone());
        exchange.join(1, bell());
        let (mut inbox, mut outbox) = (exchange.inbox(0), exchange.outbox(1));
        let giver = thread::spawn(move || assert!((0..2).all(|item| give(&mut outbox, 0, item))));
        let mut seen = 0;
        seen += usize::from(take(&mut inbox).is_some());
        sleeper.about_to_sleep();
        if !inbox.is_empty() {
            sleeper.awake();
            seen += usize::from(take(&mut inbox).is_some());
            sleeper.about_to_sleep();
        }
        let sleeps = inbox.is_empty();
        giver.join().unwrap();
        let woken = sleeper.clear();
        assert!(seen == 2 || !sleeps || woken);
    });
}

/// The main thread's orders to the workers, and the number of packets that the workers have finished.
#[derive(Default)]
struct Work {
    paused: AtomicBool,
    /// Number of the worker that must process the packets.
    owner: AtomicUsize,
    /// True if worker 1 must end.
    stop: AtomicBool,
    /// Number of finished packets.
    done: AtomicUsize,
}

impl Work {
    /// Finishes a packet, and checks that no packet overtook it: packets have numbers in order.
    fn finish(&self, packet: usize) {
        assert_eq!(self.done.load(Relaxed), packet, "a packet was overtaken");
        self.done.store(packet + 1, Relaxed);
    }
}

/// Worker 0 polls a queue whose flow belongs to worker 1. Then the main thread assigns the flow to worker 0, and stops worker 1. All
/// packets are finished in order, also those that were on the ring to worker 1 at the time of the change.
#[test]
fn loom_a_leaving_worker_finishes_its_packets_in_order() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_branches = 10_000;
    model.check(|| {
        let (domain, exchange) = (Domain::new(), exchange(2));
        let work = Arc::new(Work { owner: AtomicUsize::new(1), ..Work::default() });
        let polls = {
            let (mut outbox, work, mut participant) = (exchange.outbox(0), work.clone(), domain.register());
            thread::spawn(move || {
                let (mut packets, mut section) = (0, participant.enter());
                for _ in 0..2 {
                    if !work.paused.load(Acquire) {
                        match work.owner.load(Relaxed) {
                            0 => work.finish(packets),
                            owner => assert!(give(&mut outbox, owner, packets)),
                        }
                        packets += 1;
                    }
                    section.quiescent();
                }
                packets
            })
        };
        let goes = {
            let (mut inbox, work, mut participant) = (exchange.inbox(1), work.clone(), domain.register());
            thread::spawn(move || {
                let mut section = participant.enter();
                while !work.stop.load(Acquire) {
                    if let Some(packet) = take(&mut inbox) {
                        work.finish(packet);
                    }
                    section.quiescent();
                    thread::yield_now();
                }
            })
        };
        work.paused.store(true, Release);
        assert!(exchange.settle(&domain, LONG));
        work.owner.store(0, Relaxed);
        work.paused.store(false, Release);
        work.stop.store(true, Release);
        goes.join().unwrap();
        exchange.leave(1);
        let packets = polls.join().unwrap();
        assert_eq!(work.done.load(Relaxed), packets);
    });
}

/// A worker leaves and joins again while another worker sends. The contents of the old ring are dropped once,
/// with the last user of the ring. After the worker has joined again, it receives everything that is sent to
/// it.
#[test]
fn loom_the_ring_of_a_left_worker_outlives_its_users() {
    loom::model(|| {
        let item = Arc::new(());
        let exchange = exchange(2);
        let (mut inbox, mut outbox) = (exchange.inbox(1), exchange.outbox(0));
        let of_giver = item.clone();
        let gives = thread::spawn(move || {
            let given = (0..2).filter(|_| give(&mut outbox, 1, of_giver.clone())).count();
            (outbox, given)
        });
        let mut taken = usize::from(take(&mut inbox).is_some());
        exchange.leave(1);
        drop(inbox);
        exchange.join(1, bell());
        let mut inbox = exchange.inbox(1);
        let (mut outbox, given) = gives.join().unwrap();
        while take(&mut inbox).is_some() {
            taken += 1;
        }
        assert!(taken <= given);
        assert!(give(&mut outbox, 1, item.clone()) && take(&mut inbox).is_some());
        // All earlier rings are freed with their contents: only the test itself still holds the item.
        assert_eq!(Arc::strong_count(&item), 1);
    });
}
