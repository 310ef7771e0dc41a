//! No buffer ever has two owners, none is lost, and the statistics add up.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::mpsc;

use proptest::prelude::*;

use super::{bytes_of, packet_of, pattern};
use crate::layout::{DATA_ROOM, STRIDE};
use crate::pool::BATCH;
use crate::record::Flags;
use crate::{Cache, Frame, Held, Pool};

#[derive(Clone, Debug)]
enum Op {
    /// Makes a packet of this many bytes.
    Make(usize),
    /// Copies one of the packets.
    Duplicate(usize),
    /// Cuts one of the packets to this many bytes.
    Truncate(usize, usize),
    /// Frees one of the packets: into the second cache if the flag is true, otherwise into the first.
    Free(usize, bool),
    /// Frees one of the packets without a cache.
    Discard(usize),
    /// Drops one of the packets as a value.
    Lose(usize),
    /// Gives one of the packets to another thread, which frees it.
    Send(usize),
    Grow,
}

fn op() -> impl Strategy<Value = Op> {
    let any = any::<usize>;
    prop_oneof![
        4 => prop_oneof![0..200usize, 0..3 * STRIDE].prop_map(Op::Make),
        2 => any().prop_map(Op::Duplicate),
        1 => (any(), 0..3 * STRIDE).prop_map(|(i, n)| Op::Truncate(i, n)),
        3 => (any(), proptest::bool::ANY).prop_map(|(i, c)| Op::Free(i, c)),
        1 => any().prop_map(Op::Discard),
        1 => any().prop_map(Op::Lose),
        1 => any().prop_map(Op::Send),
        1 => Just(Op::Grow),
    ]
}

/// A packet and its expected contents.
struct Known {
    held: Held,
    bytes: Vec<u8>,
    /// Number of buffers after the first. Copies of the packet share this value.
    tail: Rc<usize>,
}

/// Number of the packets' buffers: their heads, and each different tail once.
fn used(packets: &[Known]) -> usize {
    let tails: BTreeSet<(*const usize, usize)> =
        packets.iter().map(|k| (Rc::as_ptr(&k.tail), *k.tail)).collect();
    packets.len() + tails.iter().map(|t| t.1).sum::<usize>()
}

fn segments(len: usize) -> usize {
    len.saturating_sub(1) / DATA_ROOM
}

/// Number of buffers of a pool that two caches can nearly exhaust. It is the same in all cases, because pools of each size take address
/// space of their own, which is scarce under miri.
const SHARED: usize = 1024;

proptest! {
    #![proptest_config(super::cases(60))]

    /// A cache that keeps asking gets the free buffers of the other caches, except those that the other caches keep in reserve.
    #[test]
    fn caches_share_when_another_is_short(
        // For each cache: the number of buffers that it keeps, and its share of the freed packets.
        others in prop::collection::vec((0..4usize, 1..4usize), 1..4),
        used in 0..=SHARED,
        wanted in 1..=BATCH,
    ) {
        let pool = Pool::new(SHARED)?;
        let mut asking = pool.cache();
        let mut caches: Vec<Cache> = others.iter().map(|_| pool.cache()).collect();
        let mut all: Vec<Held> = std::iter::from_fn(|| Held::alloc(&mut asking)).collect();
        caches.iter_mut().for_each(|cache| cache.share(0));
        prop_assert_eq!(all.len(), SHARED);
        let free = all.split_off(used);
        let turns: Vec<usize> = others.iter().zip(0..).flat_map(|((_, part), i)| vec![i; *part]).collect();
        free.into_iter().zip(turns.iter().cycle()).for_each(|(held, i)| held.free(&mut caches[*i]));
        // Maximum number kept by the others.
        let kept: usize = others.iter().map(|(keep, _)| keep).sum();
        let wanted = wanted.min((SHARED - used).saturating_sub(kept));
        let mut turns = 0;
        while !asking.has(wanted) {
            prop_assert!(turns < 9, "{wanted} wanted: {:?}", pool.stats());
            turns += 1;
            asking.share(0);
            caches.iter_mut().zip(&others).for_each(|(cache, (keep, _))| cache.share(*keep));
        }
        all.into_iter().for_each(|held| held.free(&mut asking));
        drop((asking, caches));
        prop_assert_eq!(pool.stats().free, SHARED);
    }

    #[test]
    fn every_buffer_has_one_owner(ops in prop::collection::vec(op(), 1..super::steps(200))) {
        const FIRST: usize = 40;
        let pool = Pool::new(FIRST)?;
        let (sender, receiver) = mpsc::channel::<Held>();
        let (done, dones) = mpsc::channel::<()>();
        let far = pool.clone();
        let far = std::thread::spawn(move || {
            let mut cache = far.cache();
            for held in receiver {
                held.free(&mut cache);
                cache.publish();
                let _ = done.send(());
            }
        });
        let mut caches = [pool.cache(), pool.cache()];
        let mut packets: Vec<Known> = Vec::new();
        let (mut total, mut refused, mut lost, mut next) = (FIRST, 0, 0, 0);
        for op in ops {
            let n = packets.len();
            match op {
                Op::Make(len) => {
                    next += 1;
                    let bytes = pattern(next, len);
                    let needed = 1 + segments(len);
                    match packet_of(&bytes, &mut caches[0]) {
                        Some(held) => packets.push(Known { held, bytes, tail: Rc::new(needed - 1) }),
                        None => {
                            refused += 1;
                            // The buffers in the other threads' caches are not available to this one.
                            caches[0].publish();
                            let s = pool.stats();
                            prop_assert!(s.free < needed, "refused with {} free", s.free);
                        }
                    }
                }
                Op::Duplicate(i) if n > 0 => {
                    let known = &mut packets[i % n];
                    match known.held.packet().duplicate(&mut caches[0]) {
                        Some(held) => {
                            let (bytes, tail) = (known.bytes.clone(), known.tail.clone());
                            packets.push(Known { held, bytes, tail });
                        }
                        None => refused += 1,
                    }
                }
                Op::Truncate(i, len) if n > 0 => {
                    let known = &mut packets[i % n];
                    let first = known.held.packet().len();
                    known.held.packet().truncate(len, &mut caches[0]);
                    known.bytes.truncate(len);
                    if len <= first {
                        known.tail = Rc::new(0);
                    }
                }
                Op::Free(i, which) if n > 0 => {
                    packets.swap_remove(i % n).held.free(&mut caches[usize::from(which)]);
                }
                Op::Discard(i) if n > 0 => packets.swap_remove(i % n).held.discard(),
                Op::Lose(i) if n > 0 => {
                    drop(packets.swap_remove(i % n));
                    lost += 1;
                }
                Op::Send(i) if n > 0 => {
                    sender.send(packets.swap_remove(i % n).held)?;
                    dones.recv()?;
                }
                Op::Grow if total < 200 => {
                    pool.grow(FIRST)?;
                    total += FIRST;
                }
                _ => {}
            }
            let heads: BTreeSet<u32> = packets.iter_mut().map(|k| k.held.packet().snapshot().buffer).collect();
            prop_assert_eq!(heads.len(), packets.len(), "two packets with one head");
            caches.iter().for_each(Cache::publish);
            let s = pool.stats();
            prop_assert_eq!((s.total, s.used), (total, used(&packets)));
            prop_assert_eq!((s.free + s.cached + s.used, s.refused, s.lost), (s.total, refused, lost));
        }
        // A write into another packet's buffer is detected here.
        for k in &mut packets {
            prop_assert_eq!(k.held.packet().total_len(), k.bytes.len());
            prop_assert!(bytes_of(&mut k.held) == k.bytes, "a packet's bytes have changed");
        }
        packets.drain(..).for_each(|k| k.held.free(&mut caches[1]));
        drop(sender);
        prop_assert!(far.join().is_ok());
        drop(caches);
        let s = pool.stats();
        prop_assert_eq!((s.free, s.cached, s.used), (total, 0, 0));
    }
}

#[test]
fn a_pool_without_buffers_refuses_and_counts() -> std::io::Result<()> {
    let pool = Pool::new(10)?;
    let mut cache = pool.cache();
    let mut frame = Frame::new();
    assert_eq!(frame.alloc(&mut cache, 16), 10);
    assert_eq!((frame.len(), pool.stats().refused), (10, 6));
    assert!(Held::alloc(&mut cache).is_none());
    assert_eq!(pool.stats().refused, 7);
    frame.free_front(1, &mut cache);
    let again = Held::alloc(&mut cache);
    assert!(again.is_some(), "forwarding continues as buffers are freed");
    again.into_iter().for_each(|h| h.free(&mut cache));
    frame.free(&mut cache);
    drop(cache);
    assert_eq!(pool.stats().used, 0);
    Ok(())
}

#[test]
fn caches_stay_bounded() -> std::io::Result<()> {
    let pool = Pool::new(2000)?;
    let (mut taker, mut giver) = (pool.cache(), pool.cache());
    let mut all = Vec::new();
    while let Some(held) = Held::alloc(&mut taker) {
        all.push(held);
    }
    assert_eq!(all.len(), 2000);
    all.into_iter().for_each(|h| h.free(&mut giver));
    giver.publish();
    let s = pool.stats();
    assert!(s.cached < 512 && s.free > 2000 - 512, "one thread keeps the buffers of the others: {s:?}");
    Ok(())
}

#[test]
fn impossible_sizes_are_refused() -> std::io::Result<()> {
    for n in [usize::MAX, usize::MAX / STRIDE + 2, 1 << 40, 0] {
        assert!(Pool::new(n).is_err(), "{n}");
    }
    let pool = Pool::new(8)?;
    assert!(pool.grow(usize::MAX).is_err());
    assert_eq!(pool.stats().total, 8);
    Ok(())
}

#[test]
fn a_packet_may_outlive_its_pool() -> std::io::Result<()> {
    // A number of buffers that no other test uses, so that the memory is not reused from another pool.
    let pool = Pool::new(77)?;
    let mut cache = pool.cache();
    let mut held = packet_of(b"still here", &mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
    drop((pool, cache));
    let other = Pool::new(77)?;
    let mut cache = other.cache();
    let mut others = Vec::new();
    while let Some(mut h) = Held::alloc(&mut cache) {
        assert!(h.packet().fill(b"overwritten"));
        others.push(h);
    }
    assert_eq!(others.len(), 77);
    assert_eq!(bytes_of(&mut held), b"still here");
    held.discard();
    others.into_iter().for_each(|h| h.free(&mut cache));
    drop(cache);
    assert_eq!((other.stats().used, other.stats().total), (0, 77));
    Ok(())
}

#[test]
fn memory_is_reused_after_all_buffers_have_returned() -> std::io::Result<()> {
    let first_of = |pool: &Pool| {
        let mut cache = pool.cache();
        let mut held = Held::alloc(&mut cache)?;
        let buffer = held.packet().snapshot().buffer;
        held.free(&mut cache);
        Some(buffer)
    };
    let pool = Pool::new(79)?;
    let before = first_of(&pool);
    drop(pool);
    assert_eq!(first_of(&Pool::new(79)?), before);
    assert!(before.is_some());
    Ok(())
}

#[test]
fn added_memory_is_reused_too() -> std::io::Result<()> {
    // Numbers of buffers that no other test uses.
    let buffers = |pool: &Pool| {
        let mut cache = pool.cache();
        let all: Vec<Held> = std::iter::from_fn(|| Held::alloc(&mut cache)).collect();
        let indexes: BTreeSet<u32> = all.iter().map(|held| held.snapshot().buffer).collect();
        all.into_iter().for_each(|held| held.free(&mut cache));
        indexes
    };
    let pool = Pool::new(83)?;
    pool.grow(87)?;
    let before = buffers(&pool);
    assert_eq!(before.len(), 83 + 87);
    drop(pool);
    let (first, added) = (Pool::new(83)?, Pool::new(87)?);
    assert_eq!(&buffers(&first) | &buffers(&added), before);
    Ok(())
}

/// All buffers exist in the end, even if several threads grow the pool at the same time.
#[test]
fn threads_can_add_buffers_while_others_allocate() -> std::io::Result<()> {
    let pool = Pool::new(91)?;
    std::thread::scope(|s| {
        for n in [93, 95, 97] {
            let pool = &pool;
            s.spawn(move || pool.grow(n));
        }
        let mut cache = pool.cache();
        let mut all = Vec::new();
        while all.len() < 91 + 93 + 95 + 97 {
            match Held::alloc(&mut cache) {
                Some(held) => all.push(held),
                None => std::thread::yield_now(),
            }
        }
        all.into_iter().for_each(|held| held.free(&mut cache));
    });
    let s = pool.stats();
    assert_eq!((s.total, s.window.free, s.added.map(|a| a.free)), (376, 91, Some(285)));
    Ok(())
}

#[test]
fn a_shared_tail_is_freed_once_by_many_threads() -> std::io::Result<()> {
    let pool = Pool::new(512)?;
    let mut cache = pool.cache();
    for round in 0..if cfg!(miri) { 2 } else { 50 } {
        let bytes = pattern(round, 2 * DATA_ROOM + 5);
        let mut held = packet_of(&bytes, &mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let copies: Vec<Held> = (0..8).filter_map(|_| held.packet().duplicate(&mut cache)).collect();
        assert_eq!(copies.len(), 8);
        held.free(&mut cache);
        std::thread::scope(|s| {
            for mut copy in copies {
                let (pool, bytes) = (&pool, &bytes);
                s.spawn(move || {
                    assert!(copy.packet().flags().any(Flags::CHAINED));
                    assert!(bytes_of(&mut copy) == *bytes);
                    copy.free(&mut pool.cache());
                });
            }
        });
        cache.publish();
        assert_eq!(pool.stats().used, 0);
    }
    Ok(())
}

#[test]
fn dropped_packets_are_counted_as_lost() -> std::io::Result<()> {
    let pool = Pool::new(16)?;
    let mut cache = pool.cache();
    let before = crate::pool::lost();
    let mut frame = Frame::new();
    assert_eq!(frame.alloc(&mut cache, 5), 5);
    drop(frame);
    drop(packet_of(&pattern(1, 3 * DATA_ROOM), &mut cache));
    cache.publish();
    assert_eq!((pool.stats().lost, pool.stats().used), (6, 0));
    // Other tests in this process lose packets too.
    assert!(crate::pool::lost() >= before + 6);
    Ok(())
}

#[test]
fn a_cache_fetches_a_reserve_if_there_is_one() -> std::io::Result<()> {
    let pool = Pool::new(20)?;
    let (mut keeps, mut takes) = (pool.cache(), pool.cache());
    assert!(!keeps.has(21) && keeps.has(20));
    assert!(Held::alloc(&mut takes).is_none(), "all lie in the other cache");
    let all: Vec<Held> = (0..18).filter_map(|_| Held::alloc(&mut keeps)).collect();
    assert!(keeps.has(2) && !keeps.has(3));
    all.into_iter().for_each(|held| held.free(&mut takes));
    drop(takes);
    assert!(keeps.has(20));
    Ok(())
}

#[test]
fn a_cache_shares_once_for_each_shortage_and_keeps_its_reserve() -> std::io::Result<()> {
    let pool = Pool::new(64)?;
    let (mut rich, mut poor) = (pool.cache(), pool.cache());
    let free = |pool: &Pool| pool.stats().free;
    assert!(rich.has(64));
    rich.share(0);
    assert_eq!(free(&pool), 0, "no cache was short");
    // The poor cache is short of buffers twice before the rich cache's next turn. The rich cache shares only once.
    assert!(!poor.has(1) && Held::alloc(&mut poor).is_none());
    rich.share(20);
    rich.share(20);
    assert_eq!(free(&pool), 22);
    assert!(!poor.has(23) && free(&pool) == 0);
    poor.share(0);
    assert_eq!(free(&pool), 0, "it would share for itself");
    rich.share(41);
    rich.share(0);
    assert_eq!(free(&pool), 1);
    // The poor cache also asks when it has some buffers, and shares its buffers when others ask.
    assert!(!poor.has(24) && !rich.has(64));
    poor.share(0);
    assert_eq!(free(&pool), 12);
    Ok(())
}
