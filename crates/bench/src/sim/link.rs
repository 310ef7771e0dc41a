//! A simulated router in real time, between two of the tester's ports. Its exact counts and delays are known, and can be compared with the
//! measured results.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use buf::{Cache, Frame, Gone, Held, RxQueue, TxCaps, TxQueue, Unsent};
use infra::clock::{Clock, tsc};

use super::path::reordered;
use super::{Arrival, Path, Truth};

/// Makes one direction of a link through a simulated router. `path` determines when each frame leaves, and which frames are dropped. The
/// number of frames in flight is not limited.
pub fn link(path: Path) -> (Box<dyn TxQueue>, Box<dyn RxQueue>, Watched) {
    let state = State {
        path,
        clock: Clock::new(),
        waiting: BinaryHeap::new(),
        frames: 0,
        order: 0,
        arrivals: Vec::new(),
    };
    let shared = Shared(Arc::new(Mutex::new(state)));
    (Box::new(Entrance(shared.clone())), Box::new(Exit(shared.clone())), Watched(shared))
}

/// Gives the exact counts and delays of a link's frames.
pub struct Watched(Shared);

impl Watched {
    /// Returns the exact counts and delays of the link's frames so far.
    pub fn truth(&self) -> Truth {
        self.0.lock().path.truth()
    }

    /// Returns the number of reordered frames (RFC 4737 section 3.3): those that left after a frame with a higher sequence number.
    /// Only the first copy of each frame counts.
    pub fn reordered(&self) -> u64 {
        let mut seen = HashSet::new();
        let arrivals = self.0.lock().arrivals.clone();
        reordered(&arrivals.into_iter().filter(|arrival| seen.insert(arrival.seq)).collect::<Vec<_>>())
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the heap half changed: a frame is either in it or not.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct State {
    path: Path,
    clock: Clock,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Frames sent.
    frames: u64,
    /// Number of frames and copies put into the heap so far. Determines the order of frames that are due at the same time: the frame that
    /// was put first leaves first.
    order: u64,
    arrivals: Vec<Arrival>,
}

/// A frame in flight.
struct Waiting {
    at_ns: u64,
    order: u64,
    seq: u64,
    held: Held,
}

impl Waiting {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.order)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl State {
    fn now_ns(&self) -> u64 {
        self.clock.ticks_to_ns(tsc())
    }

    fn put(&mut self, arrival: Arrival, held: Held) {
        self.order += 1;
        let Arrival { arrived_ns, seq } = arrival;
        self.waiting.push(Reverse(Waiting { at_ns: arrived_ns, order: self.order, seq, held }));
    }

    fn take(&mut self, mut held: Held, cache: &mut Cache) {
        let (now, seq) = (self.now_ns(), self.frames);
        self.frames += 1;
        let mut fate = self.path.pass(now, seq);
        match (fate.next(), fate.next()) {
            (Some(itself), copied) => {
                // Without a buffer the link makes no copy. The truth would then be wrong, and a test would detect it.
                let copy = copied.and_then(|at| Some((at, held.packet().duplicate(cache)?)));
                self.put(itself, held);
                if let Some((at, copy)) = copy {
                    self.put(at, copy);
                }
            }
            (None, _) => held.discard(),
        }
    }
}

struct Entrance(Shared);

impl TxQueue for Entrance {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let mut state = self.0.lock();
        frame.drain(|held| state.take(held, cache));
        Ok(())
    }

    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }
}

struct Exit(Shared);

impl RxQueue for Exit {
    fn poll(&mut self, frame: &mut Frame, _: &mut Cache) -> Result<(), Gone> {
        let mut state = self.0.lock();
        let now = state.now_ns();
        while frame.room() > 0 && state.waiting.peek().is_some_and(|Reverse(first)| first.at_ns <= now) {
            let Some(Reverse(Waiting { at_ns, seq, held, .. })) = state.waiting.pop() else { break };
            state.arrivals.push(Arrival { arrived_ns: at_ns, seq });
            if let Err(held) = frame.push(held) {
                held.discard();
            }
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        self.0.lock().waiting.drain().for_each(|Reverse(waiting)| waiting.held.discard());
    }
}
