//! Tests of rings whose packets stay in the router's own buffers, against a peer that writes arbitrary data into
//! them.
// Miri skips tests that need the kernel, or a peer that writes at the same time.
#![cfg_attr(miri, allow(unused_imports))]

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use buf::layout::{DATA, DATA_ROOM, STRIDE};
use buf::{Cache, Frame, Pool};
use proptest::prelude::*;

use super::Layout;
use super::lending::Lending;
use super::message::Direction;
use super::region::Region;
use super::ring::{DESCRIPTOR, DESCRIPTORS, HEAD, NEXT, Ring, TAIL};
use super::ring_tests::{bell, cases, fill, poll, steps};
use super::rx::{LONGEST, RxRing};
use super::signal::Signals;
use super::tx::{Stop, TxRing};

/// Rings in both directions on the router's side, and their memory on the peer's side.
struct Link {
    rx: RxRing,
    tx: TxRing,
    peer: Peer,
}

struct Peer {
    layout: Layout,
    rings: Region,
    buffers: Region,
}

impl Link {
    fn new(pool: &Pool, log2_ring: u8) -> Link {
        let layout = Layout { to_server: 1, to_client: 1, log2_ring, buffer_size: 2048 };
        let [own, rings] = Region::pair(layout.rings_len());
        let buffers = Region::of_pool(pool);
        let own: Arc<[Region]> = [own].into();
        let ring = |direction| {
            let ring = Ring::lending(own.clone(), &layout, direction, 0, bell()).unwrap();
            ring.publish();
            let lending = Lending::new(pool, ring.size());
            (ring, Some(lending))
        };
        let (inwards, outwards) = (ring(Direction::ToClient), ring(Direction::ToServer));
        Link {
            rx: RxRing::new(inwards.0, inwards.1),
            tx: TxRing::new(outwards.0, outwards.1, Arc::new(Signals::new().unwrap()), Arc::default()),
            peer: Peer { layout, rings, buffers },
        }
    }
}

impl Peer {
    /// Returns a word of a ring.
    fn word(&self, direction: Direction, at: usize) -> &AtomicU16 {
        let at = self.layout.ring_offset(direction, 0) + at;
        // SAFETY: two bytes of the mapping, at an even place.
        unsafe { AtomicU16::from_ptr(self.rings.at(at, 2).unwrap().as_ptr().cast()) }
    }

    /// Writes these words to the descriptor of a slot in the ring to the router.
    fn describe(&self, slot: u16, words: [u16; 3]) {
        let slot = usize::from(slot) & ((1 << self.layout.log2_ring) - 1);
        for (word, at) in words.into_iter().zip([0, 4, 6]) {
            let at = DESCRIPTORS + slot * DESCRIPTOR + at;
            self.word(Direction::ToClient, at).store(word, Ordering::Relaxed);
        }
    }

    /// Sets the peer's index in the ring to `behind` slots before the router's index.
    fn move_tail(&self, direction: Direction, behind: u16) {
        let head = self.word(direction, HEAD).load(Ordering::Acquire);
        self.word(direction, TAIL).store(head.wrapping_sub(behind), Ordering::Release);
    }

    /// Overwrites a byte of any buffer.
    fn write_data(&self, buffer: usize, at: usize, value: u8) {
        let at = buffer * STRIDE + DATA + at % DATA_ROOM;
        // SAFETY: a byte of the mapping; no reference to it exists.
        unsafe { self.buffers.at(at, 1).unwrap().write_volatile(value) };
    }
}

/// Returns the numbers of the packets' buffers.
fn buffers(pool: &Pool, frame: &mut Frame) -> Vec<usize> {
    let start = pool.window().start().as_ptr() as usize;
    let number = |bytes: &[u8]| (bytes.as_ptr() as usize - start) / STRIDE;
    frame.packets().flat_map(|p| p.segments().map(number).collect::<Vec<_>>()).collect()
}

/// Asserts that every buffer is free after the packets and the rings are dropped.
fn nothing_is_lost(link: Link, held: Vec<Frame>, mut cache: Cache, pool: &Pool) {
    held.into_iter().for_each(|mut frame| frame.free(&mut cache));
    drop((link, cache));
    let stats = pool.stats();
    assert_eq!((stats.free, stats.lent, stats.used, stats.lost), (pool.total(), 0, 0, 0));
}

#[derive(Clone, Debug)]
enum Op {
    /// The peer writes the descriptors from this slot on.
    Describe(u16, Vec<[u16; 3]>),
    /// The peer sets its index in the ring to the router (true), or in the ring from the router (false), to
    /// this many slots before the router's index.
    Move(bool, u16),
    /// The peer writes anywhere into a ring.
    Write(bool, usize, u16),
    /// The peer writes into a buffer.
    Data(usize, usize, u8),
    Poll,
    /// The router sends the packets that it received first.
    Forward,
    /// The router sends packets of these lengths.
    Send(Vec<usize>),
    /// The router frees the packets that it received first.
    Free,
}

fn op() -> impl Strategy<Value = Op> {
    let flags = prop_oneof![4 => Just(0), 3 => Just(NEXT), 1 => any::<u16>()];
    let len = prop_oneof![6 => 1..=DATA_ROOM as u16, 2 => 0..3u16, 1 => any::<u16>()];
    let high = prop_oneof![20 => Just(0u16), 1 => any::<u16>()];
    let words = (flags, len, high).prop_map(|(flags, len, high)| [flags, len, high]);
    // Most indices are valid.
    let behind = prop_oneof![8 => 0..=16u16, 1 => 16..40u16, 1 => any::<u16>()];
    let len = prop_oneof![4 => 1..200usize, 1 => Just(0), 1 => 2000..9000usize, 1 => 9000..60_000usize];
    prop_oneof![
        4 => (any::<u16>(), prop::collection::vec(words, 1..20)).prop_map(|(at, all)| Op::Describe(at, all)),
        4 => (any::<bool>(), behind).prop_map(|(inwards, behind)| Op::Move(inwards, behind)),
        2 => (any::<bool>(), 2..192usize, any::<u16>()).prop_map(|(inwards, at, value)| Op::Write(inwards, 2 * at, value)),
        1 => (0..BUFFERS, any::<usize>(), any::<u8>()).prop_map(|(buffer, at, value)| Op::Data(buffer, at, value)),
        6 => Just(Op::Poll),
        2 => Just(Op::Forward),
        2 => prop::collection::vec(len, 1..20).prop_map(Op::Send),
        1 => Just(Op::Free),
    ]
}

const LOG2: u8 = 4;
const BUFFERS: usize = 256;

proptest! {
    #![proptest_config(cases(96))]
    /// The peer writes arbitrary data between the router's calls: no buffer gets two owners, and none is lost.
    #[test]
    fn a_peer_that_writes_anything_cannot_duplicate_a_buffer(ops in prop::collection::vec(op(), 1..steps(80))) {
        let pool = Pool::new(BUFFERS).unwrap();
        let mut cache = pool.cache();
        let mut link = Link::new(&pool, LOG2);
        let mut held: VecDeque<Frame> = VecDeque::new();
        let direction = |inwards| if inwards { Direction::ToClient } else { Direction::ToServer };
        for op in ops {
            match op {
                Op::Describe(at, all) => {
                    (0..).zip(all).for_each(|(i, words)| link.peer.describe(at.wrapping_add(i), words));
                }
                Op::Move(inwards, behind) => link.peer.move_tail(direction(inwards), behind),
                Op::Write(inwards, at, value) => {
                    link.peer.word(direction(inwards), at).store(value, Ordering::Relaxed);
                }
                Op::Data(buffer, at, value) => link.peer.write_data(buffer, at, value),
                Op::Poll => {
                    let (mut frame, mut unusable) = (Frame::new(), 0);
                    let _ = poll(&mut link.rx, &mut frame, &mut cache, &mut unusable);
                    prop_assert!(frame.len() + unusable as usize <= 1 << LOG2, "a slot is one packet at most");
                    held.push_back(frame);
                }
                Op::Forward | Op::Send(_) => {
                    let mut frame = match op {
                        Op::Send(lens) => {
                            let mut frame = Frame::new();
                            for len in lens {
                                if cache.has(len.div_ceil(DATA_ROOM) + 1) {
                                    fill(&mut frame, &mut cache, &[vec![7; len]]);
                                }
                            }
                            frame
                        }
                        _ => held.pop_front().unwrap_or_default(),
                    };
                    let _ = link.tx.send(&mut frame, &mut cache);
                    held.push_back(frame);
                }
                Op::Free => held.pop_front().unwrap_or_default().free(&mut cache),
            }
            let mut owned = BTreeSet::new();
            for frame in &mut held {
                for buffer in buffers(&pool, frame) {
                    prop_assert!(buffer < BUFFERS && owned.insert(buffer), "{buffer} is in two packets");
                }
            }
            cache.publish();
            let stats = pool.stats();
            prop_assert_eq!(stats.used, owned.len(), "all others are free or the peer's");
            prop_assert!(stats.lent <= 2 << LOG2);
        }
        nothing_is_lost(link, held.into(), cache, &pool);
    }
}

/// Like `a_peer_that_writes_anything_cannot_duplicate_a_buffer`, but the peer writes during the router's calls. Not under Miri, which
/// reports this as a race.
#[test]
#[cfg(not(miri))]
fn a_peer_that_writes_concurrently_cannot_duplicate_a_buffer() {
    let pool = Pool::new(1024).unwrap();
    let mut cache = pool.cache();
    let Link { mut rx, mut tx, peer } = Link::new(&pool, 6);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut x = 88_172_645_463_325_252u64;
            while !stop.load(Ordering::Relaxed) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let (value, at) = (x as u16, (x >> 16) as u16);
                match x >> 61 {
                    0 => peer.move_tail(Direction::ToClient, value % 66),
                    1 => peer.move_tail(Direction::ToServer, value % 66),
                    2 => peer.describe(at, [value, value.rotate_left(7), value.rotate_left(3)]),
                    // Most slots get a packet.
                    _ => peer.describe(at, [u16::from(value.is_multiple_of(4)), value % 2200, 0]),
                }
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (mut unusable, mut came, mut long, mut went, mut faults) = (0, 0, 0, 0, 0);
        let end = Instant::now() + Duration::from_secs(20);
        // On a busy machine, only one of the two threads may run for a while.
        let enough = |all: [u64; 5]| all.iter().all(|n| *n > 0);
        while !(written.load(Ordering::Relaxed) > 200_000 && enough([unusable, came, long, went, faults]))
            && Instant::now() < end
        {
            let mut frame = Frame::new();
            faults += u64::from(poll(&mut rx, &mut frame, &mut cache, &mut unusable).is_err());
            came += frame.len() as u64;
            let owned = buffers(&pool, &mut frame);
            long += (owned.len() - frame.len()) as u64;
            assert_eq!(
                owned.iter().collect::<BTreeSet<_>>().len(),
                owned.len(),
                "a buffer is in two packets"
            );
            fill(&mut frame, &mut cache, &[vec![1; 60], vec![2; 3000]]);
            let before = frame.len();
            faults += u64::from(matches!(tx.send(&mut frame, &mut cache), Err(Stop::Fault(_))));
            went += (before - frame.len()) as u64;
            frame.free(&mut cache);
        }
        stop.store(true, Ordering::Relaxed);
        let seen = [unusable, came, long, went, faults];
        assert!(enough(seen), "unusable, came, parts, went, faults: {seen:?}");
    });
    nothing_is_lost(Link { rx, tx, peer }, Vec::new(), cache, &pool);
}

/// A packet of more than [`LONGEST`] parts is unusable. This limit bounds the time that one packet takes in a poll.
#[test]
#[cfg(not(miri))]
fn the_number_of_parts_of_a_packet_is_limited() {
    let pool = Pool::new(20_000).unwrap();
    let receive = |parts: u16| {
        let (mut link, mut cache) = (Link::new(&pool, 14), pool.cache());
        let (mut frame, mut unusable) = (Frame::new(), 0);
        poll(&mut link.rx, &mut frame, &mut cache, &mut unusable).unwrap();
        assert!(frame.is_empty());
        (0..parts).for_each(|slot| link.peer.describe(slot, [u16::from(slot + 1 < parts), 1, 0]));
        link.peer.move_tail(Direction::ToClient, (1 << 14) - parts);
        let mut lens = Vec::new();
        // More than one poll, in case the first one uses up its budget.
        for _ in 0..3 {
            poll(&mut link.rx, &mut frame, &mut cache, &mut unusable).unwrap();
            lens.extend(frame.packets().map(|p| p.total_len()));
            frame.free(&mut cache);
        }
        nothing_is_lost(link, Vec::new(), cache, &pool);
        (lens, unusable)
    };
    assert_eq!(receive(LONGEST as u16), (vec![LONGEST], 0));
    // The remaining parts count as a packet of their own.
    assert_eq!(receive(LONGEST as u16 + 7), (vec![7], 1));
}
