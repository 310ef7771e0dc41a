//! Tests of the queue of waiting packets, which is compared with a simple model.

use std::cell::RefCell;
use std::collections::HashMap;

use buf::layout::DATA_ROOM;
use buf::{Cache, Held, Pool};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{HoldQueue, LIFE, Limits, NextHop, Refused, Share};

const SECOND: u64 = 1_000_000_000;
/// Number of buffers in the pool.
const POOL: usize = 40;
/// Number of the pool's buffers that waiting packets may use.
const SHARE: usize = POOL / 4;

#[derive(Clone, Debug)]
enum Op {
    /// Hold a packet. The fields are its next hop and its number of buffers.
    Hold(u32, usize),
    Release(u32),
    Fail(u32),
    /// Let some milliseconds pass, then sweep the queue.
    Pass(u64),
}

fn ops(hops: u32) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0..hops, prop_oneof![3 => Just(1), 1 => 2..5usize]).prop_map(|(hop, buffers)| Op::Hold(hop, buffers)),
        1 => (0..hops).prop_map(Op::Release),
        1 => (0..hops).prop_map(Op::Fail),
        // Longer than the time between two sweeps, so that each one has an effect.
        2 => (100u64..3000).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 1..200)
}

fn numbered(cache: &mut Cache, n: u32, buffers: usize) -> Held {
    let mut held = Held::alloc(cache).expect("a free buffer");
    let mut bytes = vec![0; 1 + (buffers - 1) * DATA_ROOM];
    bytes.splice(..1, n.to_be_bytes());
    assert!(held.packet().fill_chained(&bytes, cache));
    assert_eq!(held.packet().buffers(), buffers);
    held
}

fn number(mut held: Held, cache: &mut Cache) -> u32 {
    let n = u32::from_be_bytes(held.packet().bytes()[..4].try_into().unwrap());
    held.free(cache);
    n
}

/// The model: lists and a clock.
#[derive(Default)]
struct Model {
    /// Waiting packets in order of arrival: next hop, number of the packet, and number of buffers.
    waiting: Vec<(u32, u32, usize)>,
    since: HashMap<u32, u64>,
    asked_until: HashMap<u32, u64>,
    failed_until: HashMap<u32, u64>,
}

impl Model {
    fn of(&self, hop: u32) -> Vec<u32> {
        self.waiting.iter().filter(|w| w.0 == hop).map(|w| w.1).collect()
    }

    fn buffers(&self) -> usize {
        self.waiting.iter().map(|w| w.2).sum()
    }

    fn take(&mut self, hop: u32) -> Vec<u32> {
        let all = self.of(hop);
        self.waiting.retain(|w| w.0 != hop);
        all
    }

    /// Returns the refused packets, and whether to ask the main thread.
    fn hold(
        &mut self,
        now: u64,
        limits: Limits,
        (hop, n, buffers): (u32, u32, usize),
    ) -> (Vec<(Refused, u32)>, bool) {
        let mut refused = Vec::new();
        let of_hop = self.of(hop);
        if of_hop.len() as u32 >= limits.per_hop {
            refused.push((Refused::Displaced, of_hop[0]));
            self.waiting.retain(|w| w.1 != of_hop[0]);
        }
        if self.waiting.len() as u32 >= limits.packets {
            refused.push((Refused::Full, n));
        } else if self.buffers() + buffers > SHARE {
            refused.push((Refused::Buffers, n));
        } else {
            if self.of(hop).is_empty() {
                self.since.insert(hop, now);
            }
            self.waiting.push((hop, n, buffers));
        }
        let ask = self.asked_until.get(&hop).is_none_or(|until| *until <= now);
        if ask {
            self.asked_until.insert(hop, now + SECOND);
        }
        (refused, ask)
    }

    fn sweep(&mut self, now: u64) -> Vec<u32> {
        let old = |hop: &u32| self.since.get(hop).is_some_and(|since| now >= since + LIFE);
        let gone = self.waiting.iter().filter(|w| old(&w.0)).map(|w| w.1).collect();
        let since = self.since.clone();
        self.waiting.retain(|w| now < since[&w.0] + LIFE);
        gone
    }
}

fn key(hop: u32) -> NextHop<Ipv4Addr> {
    (hop % 3, Ipv4Addr::from_bits(0x0a00_0000 + hop))
}

fn key6(hop: u32) -> NextHop<Ipv6Addr> {
    (hop % 3, Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(hop)))
}

fn check_against_model(cache: &mut Cache, limits: Limits, ops: &[Op]) {
    let share = Share::of(cache.pool());
    let (mut queue, mut model) = (HoldQueue::new(limits, share), Model::default());
    let mut now = 1000 * SECOND;
    for (n, op) in ops.iter().enumerate() {
        match *op {
            Op::Hold(hop, buffers) => {
                let failed = model.failed_until.get(&hop).is_some_and(|until| *until > now);
                assert_eq!(queue.failed(now, key(hop)), failed);
                let packet = numbered(cache, n as u32, buffers);
                let mut refused = Vec::new();
                let ask =
                    queue.hold(now, key(hop), packet, |reason, p| refused.push((reason, number(p, cache))));
                if ask {
                    queue.asked(now, key(hop));
                }
                assert_eq!((refused, ask), model.hold(now, limits, (hop, n as u32, buffers)));
            }
            Op::Release(hop) => {
                let mut out = Vec::new();
                queue.release(key(hop), |p| out.push(number(p, cache)));
                assert_eq!(out, model.take(hop));
                model.failed_until.remove(&hop);
                model.asked_until.remove(&hop);
            }
            Op::Fail(hop) => {
                let mut out = Vec::new();
                // An unsolicited next hop is ignored.
                let known = queue.knows(key(hop));
                queue.fail(now, key(hop), |p| out.push(number(p, cache)));
                assert_eq!(out, model.take(hop));
                if known {
                    model.failed_until.insert(hop, now + SECOND);
                    model.asked_until.insert(hop, now + SECOND);
                }
            }
            Op::Pass(ms) => {
                now += ms * 1_000_000;
                let mut out = Vec::new();
                queue.sweep(now, |p| out.push(number(p, cache)));
                let mut expected = model.sweep(now);
                out.sort_unstable();
                expected.sort_unstable();
                assert_eq!(out, expected);
            }
        }
        assert_eq!(queue.len(), model.waiting.len());
    }
}

/// With too few slots for next hops, the queue may choose which next hops to replace. But no packet may be
/// lost or duplicated, and packets of one next hop must stay in order. The next hops here are IPv6 addresses.
fn check_nothing_is_lost(cache: &mut Cache, limits: Limits, ops: &[Op]) {
    let mut queue = HoldQueue::new(limits, Share::of(cache.pool()));
    let (mut now, mut inside) = (1000 * SECOND, HashMap::<u32, u32>::new());
    for (n, op) in ops.iter().enumerate() {
        let n = n as u32;
        let mut out = Vec::new();
        match *op {
            Op::Hold(hop, buffers) => {
                inside.insert(n, hop);
                let packet = numbered(cache, n, buffers);
                queue.hold(now, key6(hop), packet, |_, p| out.push(number(p, cache)));
            }
            Op::Release(hop) | Op::Fail(hop) => {
                queue.release(key6(hop), |p| out.push(number(p, cache)));
                assert!(out.iter().all(|n| inside[n] == hop));
                assert!(inside.iter().all(|(n, of)| *of != hop || out.contains(n)));
            }
            Op::Pass(ms) => {
                now += ms * 1_000_000;
                queue.sweep(now, |p| out.push(number(p, cache)));
            }
        }
        for pair in out.windows(2) {
            assert!(inside[&pair[0]] != inside[&pair[1]] || pair[0] < pair[1], "out of order");
        }
        for n in out {
            assert!(inside.remove(&n).is_some(), "packet {n} came out twice");
        }
        assert_eq!(queue.len(), inside.len());
        assert!(queue.len() <= limits.packets as usize);
        assert!(inside.values().collect::<std::collections::HashSet<_>>().len() <= limits.hops as usize);
    }
}

#[test]
fn the_queue_agrees_with_the_model() {
    let pool = Pool::new(POOL).unwrap();
    let cache = RefCell::new(pool.cache());
    let limits = (1u32..5, 1u32..12).prop_map(|(per_hop, packets)| Limits { per_hop, hops: 6, packets });
    let run = |(limits, ops): (Limits, Vec<Op>)| {
        check_against_model(&mut cache.borrow_mut(), limits, &ops);
        Ok(())
    };
    TestRunner::new(Config::default()).run(&(limits, ops(6)), run).unwrap();
    drop(cache);
    assert_eq!((pool.stats().used, pool.stats().lost), (0, 0), "waiting packets are freed with the queue");
}

#[test]
fn no_packet_is_lost_when_next_hops_are_recycled() {
    let pool = Pool::new(POOL).unwrap();
    let cache = RefCell::new(pool.cache());
    let limits = (1u32..5, 1u32..4, 1u32..12);
    let limits = limits.prop_map(|(per_hop, hops, packets)| Limits { per_hop, hops, packets });
    let run = |(limits, ops): (Limits, Vec<Op>)| {
        check_nothing_is_lost(&mut cache.borrow_mut(), limits, &ops);
        Ok(())
    };
    TestRunner::new(Config::default()).run(&(limits, ops(9)), run).unwrap();
    drop(cache);
    assert_eq!((pool.stats().used, pool.stats().lost), (0, 0), "waiting packets are freed with the queue");
}

/// The queues of two workers use one share of the pool, and give all of it back.
#[test]
fn queues_of_all_workers_share_their_limit_of_the_pool() {
    let pool = Pool::new(POOL).unwrap();
    let cache = &mut pool.cache();
    let share = Share::of(&pool);
    let mut queues = [0, 1].map(|_| HoldQueue::new(Limits::default(), share.clone()));
    let hold = |queue: &mut HoldQueue<Ipv4Addr>, cache: &mut Cache, n, buffers| {
        let (packet, mut refused) = (numbered(cache, n, buffers), Vec::new());
        queue.hold(0, key(0), packet, |reason, p| refused.push((reason, number(p, cache))));
        refused
    };
    assert_eq!(hold(&mut queues[0], cache, 1, 4), []);
    assert_eq!(hold(&mut queues[1], cache, 2, 4), []);
    assert_eq!(hold(&mut queues[1], cache, 3, 3), [(Refused::Buffers, 3)]);
    assert_eq!(hold(&mut queues[1], cache, 4, 2), []);
    assert_eq!(hold(&mut queues[0], cache, 5, 1), [(Refused::Buffers, 5)]);
    queues[0].release(key(0), |p| assert_eq!(number(p, cache), 1));
    assert_eq!(hold(&mut queues[1], cache, 6, 4), []);
    let [mut first, second] = queues;
    drop(second);
    assert_eq!(hold(&mut first, cache, 7, SHARE), []);
}
