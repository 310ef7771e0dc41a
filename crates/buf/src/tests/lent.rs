//! Tests that a device's report is accepted only for a buffer that is lent to the device.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::packet_of;
use crate::layout::{DATA_ROOM, STRIDE};
use crate::pool::BATCH;
use crate::{Cache, Frame, Held, Lent, Pool};

/// Lends the buffer of one packet, and returns its offset in the window. An empty packet first gets one byte.
/// Returns the packet if it cannot be lent.
fn lend(lent: &mut Lent, mut held: Held) -> Result<usize, Held> {
    if held.snapshot().len == 0 {
        held.packet().set_len(1);
    }
    let (mut frame, mut place) = (Frame::new(), None);
    assert!(frame.push(held).is_ok());
    lent.lend_front(&mut frame, 1, |at, _, _| place = Some(at));
    place.ok_or_else(|| frame.pop().unwrap())
}

#[derive(Clone, Debug)]
enum Op {
    Lend,
    /// The device returns one of the buffers that are lent to it.
    Back(usize),
    /// The device reports an arbitrary offset.
    Babble(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Lend),
        2 => any::<usize>().prop_map(Op::Back),
        2 => prop_oneof![0..64 * STRIDE, any::<usize>()].prop_map(Op::Babble),
    ]
}

proptest! {
    #[test]
    fn each_lent_buffer_returns_once(ops in prop::collection::vec(op(), 1..super::steps(200))) {
        let pool = Pool::new(64).unwrap();
        let mut cache = pool.cache();
        let window = pool.window();
        let mut lent = Lent::new(&pool, window);
        let (mut has, mut packets) = (BTreeSet::new(), Vec::new());
        for op in ops {
            match op {
                Op::Lend => {
                    let Some(held) = Held::alloc(&mut cache).or_else(|| packets.pop()) else { continue };
                    let place = lend(&mut lent, held).ok().unwrap();
                    prop_assert!(has.insert(place) && place + STRIDE <= window.len());
                }
                Op::Back(_) if has.is_empty() => {}
                Op::Back(i) => {
                    let place = *has.iter().nth(i % has.len()).unwrap();
                    has.remove(&place);
                    let held = lent.back(place).unwrap();
                    prop_assert_eq!(window.place(held.snapshot().buffer), Some(place));
                    packets.push(held);
                }
                Op::Babble(place) => match lent.back(place) {
                    Some(held) => {
                        prop_assert!(has.remove(&place));
                        packets.push(held);
                    }
                    None => prop_assert!(!has.contains(&place)),
                },
            }
            cache.publish();
            let stats = pool.stats();
            prop_assert_eq!((stats.lent, stats.used, lent.len()), (has.len(), packets.len(), has.len()));
        }
        packets.into_iter().for_each(|p| p.free(&mut cache));
        drop(lent);
        cache.publish();
        prop_assert_eq!((pool.stats().lent, pool.stats().used), (0, 0));
    }
}

#[test]
fn chained_and_foreign_packets_are_not_lent() {
    let (pool, other) = (Pool::new(8).unwrap(), Pool::new(8).unwrap());
    let (mut cache, mut others) = (pool.cache(), other.cache());
    let mut lent = Lent::new(&pool, pool.window());
    let long = packet_of(&vec![1; 2 * DATA_ROOM], &mut cache).unwrap();
    lend(&mut lent, long).expect_err("it is returned").free(&mut cache);
    let foreign = packet_of(&[1; 60], &mut others).unwrap();
    lend(&mut lent, foreign).expect_err("it is returned").free(&mut others);
    assert!(lent.is_empty());
}

/// An operation of one of two threads, on a number of buffers.
#[derive(Clone, Copy, Debug)]
enum Many {
    Take,
    Free,
    Discard,
    LendNew,
    Lend,
    Back,
    TakeBack,
    Grow,
    /// The thread ends, and another one starts.
    Ends,
}

fn many() -> impl Strategy<Value = (Many, usize, usize)> {
    use Many::*;
    let what = prop::sample::select(vec![
        Take, Take, Free, Free, Discard, LendNew, LendNew, Lend, Back, TakeBack, Grow, Ends,
    ]);
    (what, 0..2usize, prop_oneof![1..20usize, 1..2 * BATCH])
}

/// Returns the number of allocated buffers of the window.
fn inside(packets: &[Held], lent: &Lent, pool: &Pool) -> usize {
    let window = pool.window();
    lent.len() + packets.iter().filter(|p| window.place(p.snapshot().buffer).is_some()).count()
}

proptest! {
    #![proptest_config(super::cases(60))]

    /// Whatever buffers are added to the pool, a device gets buffers of the window as long as the depot or its own thread's cache has any.
    #[test]
    fn a_device_never_starves_while_buffers_of_the_window_are_free(ops in prop::collection::vec(many(), 1..super::steps(80))) {
        const FIRST: usize = 3 * BATCH;
        let pool = Pool::new(FIRST)?;
        let window = pool.window();
        let mut caches = [pool.cache(), pool.cache()];
        let mut lent = Lent::new(&pool, window);
        let (mut packets, mut has, mut total) = (Vec::<Held>::new(), BTreeSet::new(), FIRST);
        for (what, thread, n) in ops {
            let few = n.min(packets.len());
            match what {
                Many::Take => packets.extend((0..n).map_while(|_| Held::alloc(&mut caches[thread]))),
                Many::Free => packets.drain(..few).for_each(|p| p.free(&mut caches[thread])),
                Many::Discard => packets.drain(..few).for_each(Held::discard),
                Many::LendNew => for _ in 0..n {
                    let Some(place) = lent.lend_new(&mut caches[thread]) else {
                        prop_assert_eq!(pool.stats().window.free, 0);
                        // The free buffers are in the other thread's cache.
                        caches[1 - thread] = pool.cache();
                        let free = FIRST - inside(&packets, &lent, &pool);
                        prop_assert_eq!(pool.stats().window.free, free, "free buffers of the window were not found");
                        break;
                    };
                    prop_assert!(has.insert(place) && place + STRIDE <= window.len());
                },
                Many::Lend => for held in packets.drain(..few).collect::<Vec<_>>() {
                    match (window.place(held.snapshot().buffer), lend(&mut lent, held)) {
                        (Some(place), Ok(lent)) => prop_assert!(lent == place && has.insert(place)),
                        (None, Err(held)) => packets.push(held),
                        _ => prop_assert!(false, "only buffers of the window are lent"),
                    }
                },
                Many::Back => for place in has.iter().copied().take(n).collect::<Vec<_>>() {
                    prop_assert!(has.remove(&place) && lent.free(place, &mut caches[thread]));
                },
                Many::TakeBack => for place in has.iter().rev().copied().take(n).collect::<Vec<_>>() {
                    prop_assert!(has.remove(&place));
                    packets.extend(lent.back(place));
                },
                Many::Grow => if total < 4 * FIRST {
                    pool.grow(n)?;
                    total += n;
                },
                Many::Ends => caches[thread] = pool.cache(),
            }
            let heads: BTreeSet<u32> = packets.iter().map(|p| p.snapshot().buffer).collect();
            prop_assert_eq!(heads.len(), packets.len(), "a buffer has two owners");
            prop_assert!(!heads.iter().any(|b| window.place(*b).is_some_and(|place| has.contains(&place))));
            caches.iter().for_each(Cache::publish);
            let s = pool.stats();
            prop_assert_eq!((s.total, s.lent, s.used), (total, has.len(), packets.len()));
            prop_assert_eq!(s.free + s.cached + s.lent + s.used, total);
            prop_assert!(s.cached < 4 * BATCH, "{s:?}");
        }
        packets.drain(..).for_each(|p| p.free(&mut caches[0]));
        drop((lent, caches));
        let s = pool.stats();
        let added = s.added.map_or((0, 0), |a| (a.total, a.free));
        prop_assert_eq!((s.window.total, s.window.free, added), (FIRST, FIRST, (total - FIRST, total - FIRST)));
    }
}

/// Packets that are not lent get added buffers first, so that window buffers are left for devices.
#[test]
fn packets_use_added_buffers_first_and_return_lendable_ones() {
    let pool = Pool::new(2 * BATCH).unwrap();
    pool.grow(2 * BATCH).unwrap();
    let (mut cache, window) = (pool.cache(), pool.window());
    let mut packets: Vec<Held> = (0..2 * BATCH).map_while(|_| Held::alloc(&mut cache)).collect();
    assert!(packets.iter().all(|p| window.place(p.snapshot().buffer).is_none()));
    assert_eq!(pool.stats().window.free, 2 * BATCH);
    packets.drain(..BATCH).for_each(|p| p.free(&mut cache));
    // All buffers in this cache are outside of the window.
    let mut lent = Lent::new(&pool, window);
    let held = lent.alloc(&mut cache).unwrap();
    assert!(lent.takes(&held.snapshot()));
    held.free(&mut cache);
    assert_eq!((0..3 * BATCH).map_while(|_| lent.lend_new(&mut cache)).count(), 2 * BATCH);
    // A failing request of a device moves no buffers, and asks the other caches only once.
    cache.publish();
    let before = pool.stats();
    assert!(lent.lend_new(&mut cache).is_none() && lent.alloc(&mut cache).is_none());
    cache.publish();
    let after = pool.stats();
    assert_eq!((after.free, after.cached, after.refused), (before.free, before.cached, before.refused + 2));
    assert_eq!(before.free + before.cached, BATCH);
    packets.into_iter().for_each(|p| p.free(&mut cache));
}

/// A device that finds only buffers outside of the window gets window buffers from another thread's cache.
#[test]
fn caches_share_when_a_device_is_short() {
    let pool = Pool::new(40).unwrap();
    pool.grow(40).unwrap();
    let (mut idle, mut cache) = (pool.cache(), pool.cache());
    let lent = Lent::new(&pool, pool.window());
    let all: Vec<Held> = (0..80).map_while(|_| Held::alloc(&mut idle)).collect();
    let (inside, outside): (Vec<_>, Vec<_>) = all.into_iter().partition(|held| lent.takes(&held.snapshot()));
    assert_eq!((inside.len(), outside.len()), (40, 40));
    inside.into_iter().for_each(|held| held.free(&mut idle));
    outside.into_iter().for_each(Held::discard);
    assert!(lent.alloc(&mut cache).is_none());
    idle.share(0);
    assert!(lent.alloc(&mut cache).map(|held| held.free(&mut cache)).is_some());
}
