//! Tests of rings between two sides of this driver against a reference list, and against a peer that writes arbitrary
//! data.
// Miri skips tests that need the kernel, or a peer that writes at the same time.
#![cfg_attr(miri, allow(unused_imports))]

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use buf::{Cache, Frame, Pool, Unsent};
use infra::wait;
use proptest::prelude::*;

use super::Layout;
use super::bell::Bell;
use super::message::Direction;
use super::region::Region;
use super::ring::{DESCRIPTOR, DESCRIPTORS, Fault, HEAD, NEXT, Ring};
use super::rx::{Budget, RxRing};
use super::signal::{Signals, Watch};
use super::tx::{Stop, TxRing};
use crate::kernel::sys;

const DIRECTIONS: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

struct Link {
    tx: TxRing,
    rx: RxRing,
}

/// Polls once with a full budget; adds the number of unusable packets to `unusable`.
pub(super) fn poll(
    rx: &mut RxRing,
    frame: &mut Frame,
    cache: &mut Cache,
    unusable: &mut u64,
) -> Result<(), Fault> {
    let mut budget = Budget::default();
    let done = rx.poll(frame, cache, &mut budget);
    *unusable += budget.unusable;
    done
}

pub(super) fn bell() -> Arc<Bell> {
    Arc::new(Bell::alone(sys::eventfd().unwrap()))
}

fn memory(layout: Layout) -> (Arc<[Region]>, Arc<[Region]>) {
    let [own, peers] = Region::pair(layout.len());
    ([own].into(), [peers].into())
}

fn link(layout: Layout, direction: Direction) -> Link {
    let (own, peers) = memory(layout);
    let client = Ring::own(own, &layout, direction, 0, bell()).unwrap();
    client.publish();
    let place = (0, layout.ring_offset(direction, 0) as u32, layout.log2_ring);
    let server = Ring::of_peer(peers, place, direction, bell()).unwrap();
    let (from, to) = if direction == Direction::ToServer { (client, server) } else { (server, client) };
    Link {
        tx: TxRing::new(from, None, Arc::new(Signals::new().unwrap()), Arc::default()),
        rx: RxRing::new(to, None),
    }
}

fn layout(log2_ring: u8, buffer_size: u32) -> Layout {
    Layout { to_server: 1, to_client: 1, log2_ring, buffer_size }
}

fn packets(frame: &mut Frame) -> Vec<Vec<u8>> {
    frame.packets().map(|p| p.segments().collect::<Vec<_>>().concat()).collect()
}

pub(super) fn fill(frame: &mut Frame, cache: &mut Cache, all: &[Vec<u8>]) {
    for bytes in all {
        assert_eq!(frame.alloc(cache, 1), 1);
        let last = frame.len() - 1;
        assert!(frame.get(last).unwrap().fill_chained(bytes, cache));
        frame.note(buf::Flags::CHAINED);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(Vec<usize>),
    Poll(usize),
}

/// Returns a configuration with `n` cases of a property; fewer under Miri.
pub(super) fn cases(n: u32) -> ProptestConfig {
    ProptestConfig::with_cases(if cfg!(miri) { 2 } else { n })
}

/// Returns the number of steps or packets of a case; fewer under Miri.
pub(super) const fn steps(n: usize) -> usize {
    if cfg!(miri) { n / 4 } else { n }
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![4 => 1usize..130, 2 => 200usize..300, 2 => 2000usize..2200, 1 => 2100usize..9000];
    prop_oneof![
        proptest::collection::vec(len, 1..steps(40)).prop_map(Op::Send),
        (1usize..60).prop_map(Op::Poll),
    ]
}

proptest! {
    #![proptest_config(cases(64))]
    #[test]
    fn a_ring_is_a_list_of_packets(
        ops in proptest::collection::vec(op(), 1..steps(40)),
        log2_ring in 1u8..7,
        buffer_size in prop_oneof![Just(64u32), Just(2048), Just(4096)],
        to_server in any::<bool>(),
    ) {
        let direction = DIRECTIONS[usize::from(!to_server)];
        let mut link = link(layout(log2_ring, buffer_size), direction);
        let pool = Pool::new(1024).unwrap();
        let mut cache = pool.cache();
        let slots = |len: usize| len.div_ceil(buffer_size as usize);
        let size = 1usize << log2_ring;
        let mut list: VecDeque<Vec<u8>> = VecDeque::new();
        let mut byte = 0u8;
        for op in ops {
            let mut frame = Frame::new();
            match op {
                Op::Send(lens) => {
                    let all: Vec<Vec<u8>> = lens
                        .iter()
                        .map(|len| {
                            byte = byte.wrapping_add(1);
                            (0..*len).map(|i| byte.wrapping_mul(31).wrapping_add(i as u8)).collect()
                        })
                        .collect();
                    fill(&mut frame, &mut cache, &all);
                    let mut free = size - list.iter().map(|p| slots(p.len())).sum::<usize>();
                    let fits = all.iter().take_while(|p| {
                        let fits = slots(p.len()) <= free;
                        free -= if fits { slots(p.len()) } else { 0 };
                        fits
                    });
                    let fits = fits.count();
                    let (sent, outcome) = link.tx.copy(&mut frame);
                    prop_assert_eq!(sent, fits);
                    match outcome {
                        Ok(()) => prop_assert_eq!(sent, all.len()),
                        Err(Stop::For(Unsent::Refused)) => prop_assert!(slots(all[sent].len()) > size),
                        Err(why) => prop_assert_eq!(why, Stop::For(Unsent::Full)),
                    }
                    list.extend(all.into_iter().take(sent));
                }
                Op::Poll(room) => {
                    // The frame already has packets of another queue.
                    let others = 256 - room;
                    prop_assert_eq!(frame.alloc(&mut cache, others), others);
                    let mut unusable = 0;
                    prop_assert_eq!(poll(&mut link.rx, &mut frame, &mut cache, &mut unusable), Ok(()));
                    prop_assert_eq!(unusable, 0);
                    let got = packets(&mut frame).split_off(others);
                    let expected: Vec<Vec<u8>> = list.drain(..got.len()).collect();
                    prop_assert!(got == expected, "the packets came as they were sent");
                    prop_assert!(got.len() == room || list.is_empty());
                }
            }
            frame.free(&mut cache);
        }
        drop(cache);
        prop_assert_eq!(pool.stats().used, 0);
    }

    /// The peer writes arbitrary data between the router's calls. The router finds no buffer outside of the shared memory, and loses none
    /// of its own.
    #[test]
    fn a_peer_that_writes_anything_cannot_leave_its_memory(
        words in proptest::collection::vec((0usize..200, any::<u16>(), 0usize..6), 0..steps(400)),
        client in any::<bool>(),
    ) {
        let layout = layout(4, 2048);
        let (own, peers) = memory(layout);
        let pool = Pool::new(1024).unwrap();
        let mut cache = pool.cache();
        let (near, far) = if client { (&own, &peers) } else { (&peers, &own) };
        let ring = |direction| {
            // The ring starts valid: the client's side writes the header.
            let own = Ring::own(own.clone(), &layout, direction, 0, bell()).unwrap();
            own.publish();
            let place = (0, layout.ring_offset(direction, 0) as u32, layout.log2_ring);
            let peers = Ring::of_peer(peers.clone(), place, direction, bell()).unwrap();
            if client { own } else { peers }
        };
        let (rx, tx) = if client {
            (Direction::ToClient, Direction::ToServer)
        } else {
            (Direction::ToServer, Direction::ToClient)
        };
        let mut rx = RxRing::new(ring(rx), None);
        let mut tx = TxRing::new(ring(tx), None, Arc::new(Signals::new().unwrap()), Arc::default());
        let base = near[0].at(0, 1).unwrap().as_ptr() as usize;
        let inside = |at: usize, len: usize| at >= base && at + len <= base + layout.len();
        let rings = layout.buffer_offset(Direction::ToServer, 0) / 2;
        let mut unusable = 0;
        for (at, value, what) in words {
            // Most writes hit the indices and the first descriptors, with almost valid values.
            let at = if what < 2 { [3, 32, 3 + 192, 32 + 192][at % 4] } else { 64 + at * rings / 200 % (rings - 64) };
            let value = if what % 2 == 0 { value % 40 } else { value };
            let word = far[0].at(2 * at, 2).unwrap().cast::<u16>();
            // SAFETY: within the region.
            unsafe { word.write_volatile(value) };
            for i in 0..rx.ring.available().unwrap_or(0) {
                if let (_, len, Some(place)) = rx.ring.received(i) {
                    prop_assert!(inside(place.as_ptr() as usize, len as usize));
                }
            }
            // Reading slots together and one by one gives the same result.
            let available = rx.ring.available().unwrap_or(0);
            let one_by_one: Vec<_> = (0..available).map(|i| rx.ring.received(i)).collect();
            let mut found = vec![(NonNull::dangling(), 0); available.into()];
            let plain = |(flags, len, place): &(u16, u32, Option<_>)| {
                flags & NEXT == 0 && (1..=2048).contains(len) && place.is_some()
            };
            let all_plain = rx.ring.gather(2048, &mut found);
            prop_assert_eq!(all_plain, one_by_one.iter().all(plain));
            if all_plain {
                let expected: Vec<_> = one_by_one.iter().map(|(_, len, at)| (at.unwrap(), *len)).collect();
                prop_assert!(found == expected);
            }
            for i in 0..tx.ring.available().unwrap_or(0) {
                let mut places = Vec::new();
                if tx.ring.empty(i..i + 1, &mut places).is_ok() {
                    prop_assert!(inside(places[0].at.as_ptr() as usize, places[0].len as usize));
                }
            }
            let mut frame = Frame::new();
            let _ = poll(&mut rx, &mut frame, &mut cache, &mut unusable);
            prop_assert!(frame.len() <= 256);
            frame.free(&mut cache);
            fill(&mut frame, &mut cache, &[vec![1; 60], vec![2; 3000]]);
            let _ = tx.copy(&mut frame);
            frame.free(&mut cache);
        }
        drop(cache);
        prop_assert_eq!(pool.stats().used, 0);
    }
}

/// Like `a_peer_that_writes_anything_cannot_leave_its_memory`, but the peer writes during the router's calls. Not under Miri, which reports
/// this as a race: by design, the router reads whatever the peer has written.
#[test]
#[cfg(not(miri))]
fn a_peer_that_writes_concurrently_cannot_leave_its_memory() {
    let layout = layout(6, 2048);
    for client in [false, true] {
        let (own, peers) = memory(layout);
        let far = if client { peers.clone() } else { own.clone() };
        let pool = Pool::new(1024).unwrap();
        let mut cache = pool.cache();
        let ring = |direction| {
            let mine = Ring::own(own.clone(), &layout, direction, 0, bell()).unwrap();
            mine.publish();
            let place = (0, layout.ring_offset(direction, 0) as u32, layout.log2_ring);
            let theirs = Ring::of_peer(peers.clone(), place, direction, bell()).unwrap();
            if client { mine } else { theirs }
        };
        let (inwards, outwards) = if client { (1, 0) } else { (0, 1) };
        let mut rx = RxRing::new(ring(DIRECTIONS[inwards]), None);
        let mut tx =
            TxRing::new(ring(DIRECTIONS[outwards]), None, Arc::new(Signals::new().unwrap()), Arc::default());
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut x = 88_172_645_463_325_252u64;
                let rings = layout.buffer_offset(Direction::ToServer, 0);
                // SAFETY: all places are within the region.
                let word =
                    |at: usize| unsafe { AtomicU16::from_ptr(far[0].at(at, 2).unwrap().as_ptr().cast()) };
                let indices = [0, layout.ring_offset(Direction::ToClient, 0)].map(|at| (at + 6, at + 64));
                while !stop.load(Ordering::Relaxed) {
                    x ^= x << 13;
                    x ^= x >> 7;
                    x ^= x << 17;
                    let (value, at) = (x as u16, (x >> 16) as usize);
                    if x >> 62 == 0 {
                        // An almost valid index: most values do not exceed the ring.
                        let (head, tail) = indices[at % 2];
                        let (from, to) = if client { (head, tail) } else { (tail, head) };
                        let ahead = if at % 2 == usize::from(client) { value % 66 } else { value % 80 };
                        word(to)
                            .store(word(from).load(Ordering::Relaxed).wrapping_add(ahead), Ordering::Relaxed);
                    } else {
                        // Flags, lengths and offsets, mostly small.
                        let value = if x >> 60 & 1 == 0 { value } else { value % 3 };
                        let at = 128 + at % (rings - 256);
                        if !indices.iter().any(|(head, tail)| (head - 6..tail + 64).contains(&at)) {
                            word(at & !1).store(value, Ordering::Relaxed);
                        }
                    }
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
            let (mut unusable, mut came, mut faults) = (0, 0, 0);
            // On a busy machine, only one of the two threads may run for a while.
            let end = Instant::now() + Duration::from_secs(20);
            let enough = |came, unusable, faults| came > 0 && unusable > 0 && faults > 0;
            while !(written.load(Ordering::Relaxed) > 200_000 && enough(came, unusable, faults))
                && Instant::now() < end
            {
                let mut frame = Frame::new();
                faults += u32::from(poll(&mut rx, &mut frame, &mut cache, &mut unusable).is_err());
                came += frame.len();
                frame.free(&mut cache);
                fill(&mut frame, &mut cache, &[vec![1; 60], vec![2; 300]]);
                faults += u32::from(matches!(tx.copy(&mut frame).1, Err(Stop::Fault(_))));
                frame.free(&mut cache);
            }
            stop.store(true, Ordering::Relaxed);
            assert!(enough(came, unusable, faults), "{came} packets, {unusable} unusable, {faults} faults");
        });
        drop(cache);
        assert_eq!(pool.stats().used, 0);
    }
}

/// DPDK before version 26.03 sets the flag of a packet that continues, and never clears it.
#[test]
fn a_client_that_never_clears_the_next_flag_works() {
    let layout = layout(4, 64);
    let (own, peers) = memory(layout);
    let _client = Ring::own(own.clone(), &layout, Direction::ToServer, 0, bell()).unwrap();
    let server = Ring::of_peer(peers, (0, 0, 4), Direction::ToServer, bell()).unwrap();
    let mut rx = RxRing::new(server, None);
    let pool = Pool::new(64).unwrap();
    let mut cache = pool.cache();
    let word = |at: usize| own[0].at(at, 2).unwrap().cast::<u16>();
    let mut head = 0u16;
    for parts in (0..40u16).map(|round| 1 + round % 3) {
        for i in 0..parts {
            let at = DESCRIPTORS + DESCRIPTOR * usize::from(head % 16);
            // SAFETY: the words of a descriptor, and the index, which lie within the region.
            unsafe {
                let flags = word(at).read_volatile();
                word(at).write_volatile(if i + 1 < parts { flags | NEXT } else { flags });
                word(at + 4).write_volatile(60);
                head = head.wrapping_add(1);
                word(HEAD).write_volatile(head);
            }
        }
        let (mut frame, mut unusable) = (Frame::new(), 0);
        poll(&mut rx, &mut frame, &mut cache, &mut unusable).unwrap();
        let lens: Vec<usize> = frame.packets().map(|p| p.total_len()).collect();
        assert_eq!((lens, unusable), (vec![60 * usize::from(parts)], 0), "at {head}");
        frame.free(&mut cache);
    }
}

/// Returns a server's receive ring of the largest size, and two closures for the peer: the first writes the flags and length of a slot, the
/// second moves the head.
#[cfg(not(miri))]
fn largest() -> (RxRing, impl Fn(u16, u16, u32), impl Fn(u16)) {
    let layout = layout(14, 64);
    let (own, peers) = memory(layout);
    let _client = Ring::own(own.clone(), &layout, Direction::ToServer, 0, bell()).unwrap();
    let server = Ring::of_peer(peers, (0, 0, 14), Direction::ToServer, bell()).unwrap();
    let head = own.clone();
    let write = move |slot: u16, flags: u16, len: u32| {
        let at = DESCRIPTORS + DESCRIPTOR * usize::from(slot % (1 << 14));
        let low = own[0].at(at, DESCRIPTOR).unwrap().cast::<u64>();
        // SAFETY: a descriptor, which lies within the region.
        unsafe {
            low.write_volatile(u64::from(flags) | u64::from(len) << 32);
            low.add(1).write_volatile(0);
        }
    };
    let show = move |to: u16| {
        // SAFETY: the index, which lies within the region.
        unsafe { head[0].at(HEAD, 2).unwrap().cast::<u16>().write_volatile(to) };
    };
    (RxRing::new(server, None), write, show)
}

#[test]
#[cfg(not(miri))]
fn invalid_packets_cost_little_time_and_end_the_connection() {
    let pool = Pool::new(64).unwrap();
    let mut cache = pool.cache();
    // Packets of a long part and an empty one, and a packet that never ends.
    let kinds: [fn(u16) -> (u16, u32); 2] =
        [|slot| if slot % 2 == 0 { (NEXT, 65_535) } else { (0, 0) }, |_| (NEXT, 64)];
    for kind in kinds {
        let (mut rx, write, show) = largest();
        let (mut shown, mut left, mut polls) = (0u16, 0, 0);
        let fault = loop {
            for _ in left..1 << 14 {
                let (flags, len) = kind(shown);
                write(shown, flags, len);
                shown = shown.wrapping_add(1);
            }
            show(shown);
            let (mut frame, mut unusable) = (Frame::new(), 0);
            let done = poll(&mut rx, &mut frame, &mut cache, &mut unusable);
            left = rx.ring.available().unwrap();
            let read = (1 << 14) - left;
            assert!((1..=3_200).contains(&read) && unusable > 0, "{read} descriptors in one poll");
            assert_eq!(frame.len(), 0);
            polls += 1;
            if let Err(fault) = done {
                break fault;
            }
        };
        assert_eq!(fault, Fault::Rubbish);
        assert!((20..100).contains(&polls), "after {polls} polls");
    }
}

#[test]
#[cfg(not(miri))]
fn a_peer_with_few_errors_stays_connected() {
    let (mut rx, write, show) = largest();
    let pool = Pool::new(1024).unwrap();
    let mut cache = pool.cache();
    let (mut good, mut bad) = (0, 0);
    for round in 0..2_000u16 {
        for i in 0..128 {
            let slot = round.wrapping_mul(128).wrapping_add(i);
            write(slot, 0, if i % 2 == 0 { 60 } else { 0 });
        }
        show(round.wrapping_add(1).wrapping_mul(128));
        let mut frame = Frame::new();
        assert_eq!(poll(&mut rx, &mut frame, &mut cache, &mut bad), Ok(()));
        good += frame.len();
        frame.free(&mut cache);
    }
    assert_eq!((good, bad), (128_000, 128_000));
}

/// Slots whose packet has no free buffer yet stay unchanged.
#[test]
fn a_chained_packet_waits_whole_for_free_buffers() {
    let mut link = link(layout(4, 64), Direction::ToServer);
    let pool = Pool::new(64).unwrap();
    let mut cache = pool.cache();
    let bytes: Vec<u8> = (0..180).collect();
    let mut frame = Frame::new();
    fill(&mut frame, &mut cache, std::slice::from_ref(&bytes));
    assert_eq!(link.tx.copy(&mut frame).0, 1);
    frame.free(&mut cache);
    assert_eq!(link.rx.ring.available(), Ok(3));
    let mut taken = Vec::new();
    while let Some(held) = buf::Held::alloc(&mut cache) {
        taken.push(held);
    }
    let mut unusable = 0;
    for _ in 0..2 {
        poll(&mut link.rx, &mut frame, &mut cache, &mut unusable).unwrap();
        assert_eq!((frame.len(), link.rx.ring.available()), (0, Ok(3)), "there is no buffer");
    }
    taken.into_iter().for_each(|held| held.free(&mut cache));
    poll(&mut link.rx, &mut frame, &mut cache, &mut unusable).unwrap();
    assert_eq!((packets(&mut frame), unusable), (vec![bytes], 0));
    frame.free(&mut cache);
}

#[test]
fn an_index_beyond_the_ring_is_a_fault() {
    let layout = layout(4, 2048);
    let (own, peers) = memory(layout);
    let place = (0, 0, 4);
    let _client = Ring::own(own.clone(), &layout, Direction::ToServer, 0, bell()).unwrap();
    let ring = Ring::of_peer(peers, place, Direction::ToServer, bell()).unwrap();
    let head = own[0].at(6, 2).unwrap().cast::<u16>();
    for (value, available) in [(0, Ok(0)), (16, Ok(16)), (17, Err(Fault::Index)), (0xffff, Err(Fault::Index))]
    {
        // SAFETY: within the region.
        unsafe { head.write_volatile(value) };
        assert_eq!(ring.available(), available, "{value}");
    }
}

#[test]
#[cfg(not(miri))]
fn a_peer_is_woken_without_waiting_for_it() {
    let signals = Signals::new().unwrap();
    let bell = sys::eventfd().unwrap();
    // A malicious peer: the counter is at its limit, and writes block.
    // SAFETY: plain system calls.
    unsafe {
        let most = u64::MAX - 1;
        assert_eq!(libc::write(bell.as_raw_fd(), (&raw const most).cast(), 8), 8);
        assert_eq!(libc::fcntl(bell.as_raw_fd(), libc::F_SETFL, 0), 0);
    }
    let watch = Watch::new().unwrap();
    watch.add(bell.as_fd()).unwrap();
    let readable = || wait::any(&[watch.as_fd()], Duration::ZERO).unwrap();
    assert!(readable(), "earlier signals still count");
    for _ in 0..200 {
        watch.clear();
        assert!(!readable());
        signals.ring(bell.as_fd()).unwrap();
        assert!(readable());
    }
    watch.clear();
    watch.remove(bell.as_fd());
    signals.ring(bell.as_fd()).unwrap();
    assert!(!readable());
    let null = File::open("/dev/null").unwrap();
    assert_eq!(signals.ring(null.as_fd()).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}
