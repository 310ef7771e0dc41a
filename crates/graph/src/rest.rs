//! Decides when a worker rests between two turns.
//!
//! A worker that polls all the time sees each packet immediately, but uses a whole core even without traffic. A worker that sleeps until a
//! device wakes it costs nothing, but one wake-up takes as much time as hundreds of packets. Between these, a worker can *nap*: it sleeps
//! for a few tens of microseconds without asking devices to wake it, and then finds a vector of packets.
//!
//! | the queue's [`RxMode`] | many packets | some packets | no packets |
//! |---|---|---|---|
//! | polling | polls | polls | polls |
//! | adaptive | polls | naps, as long as the rings allow | sleeps, after a few more polls |
//! | interrupt | polls | sleeps after each turn without packets | sleeps |
//!
//! A worker with several queues follows the mode of its most eager queue: polling before adaptive before interrupt.

use std::time::Duration;

/// How a worker serves a receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RxMode {
    /// The worker sleeps as soon as there are no packets.
    Interrupt,
    /// The worker polls, naps or sleeps, depending on the packet rate.
    #[default]
    Adaptive,
    /// The worker never sleeps.
    Polling,
}

/// How promptly a worker must serve its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eager {
    /// The mode of the most eager queue.
    pub mode: RxMode,
    /// Capacity in packets of the smallest adaptive queue: this many packets can arrive while the worker does not poll.
    pub depth: usize,
}

impl Eager {
    /// The value of a worker without queues: the worker may sleep.
    pub const NONE: Eager = Eager { mode: RxMode::Interrupt, depth: usize::MAX };

    /// Returns the value that satisfies both requirements.
    pub fn and(self, other: Eager) -> Eager {
        Eager { mode: self.mode.max(other.mode), depth: self.depth.min(other.depth) }
    }
}

/// What a worker does between two turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The worker continues immediately.
    Not,
    /// The worker sleeps for this long.
    Nap(Duration),
    /// The worker sleeps until an event wakes it.
    Sleep,
}

/// A turn with at least this many packets is efficient. The worker then polls again, because more packets will have arrived in the
/// meantime.
const VECTOR: usize = 64;
/// Number of consecutive turns without packets after which an adaptive worker sleeps instead of polling.
const IDLE_TURNS: u32 = 64;
/// Maximum length of a nap in nanoseconds, not including the delay of the kernel's timer. On average, a packet waits for half of a nap.
const NAP: u64 = 60_000;
/// Minimum length of a nap in nanoseconds: the timer is not precise enough for shorter ones.
const SHORTEST_NAP: u64 = 20_000;
/// Minimum number of packets expected during a nap. With fewer packets, a nap does not pay off.
const WORTH: u64 = 4;
/// During a nap, packets may fill at most 1/`SHARE` of a ring. The rest is a reserve, because the timer may wake the worker late by
/// more than the length of the nap.
const SHARE: u64 = 4;
/// Minimum time over which the packet rate is measured, in nanoseconds.
const WINDOW: u64 = 250_000;

/// Decides when a worker rests, from its packet rate.
#[derive(Default)]
pub(crate) struct Pacer {
    /// Number of consecutive turns without packets.
    idle: u32,
    /// Start of the rate measurement, in nanoseconds.
    since: u64,
    /// Number of packets since then.
    packets: u64,
    /// Packets per second in the previous window.
    rate: u64,
}

impl Pacer {
    /// Decides how the worker rests after a turn (one round of polling its input nodes). The turn started at `now` nanoseconds, and
    /// brought in `came` packets.
    pub(crate) fn after(&mut self, came: usize, now: u64, eager: impl FnOnce() -> Eager) -> Rest {
        self.packets += came as u64;
        self.idle = if came > 0 { 0 } else { self.idle.saturating_add(1) };
        let passed = now.saturating_sub(self.since);
        if passed >= WINDOW {
            self.rate = (u128::from(self.packets) * 1_000_000_000 / u128::from(passed)) as u64;
            (self.since, self.packets) = (now, 0);
        }
        if came >= VECTOR {
            return Rest::Not;
        }
        let Eager { mode, depth } = eager();
        match mode {
            RxMode::Polling => Rest::Not,
            RxMode::Interrupt => {
                if came == 0 {
                    Rest::Sleep
                } else {
                    Rest::Not
                }
            }
            RxMode::Adaptive => match self.nap(depth) {
                Some(0) => Rest::Not,
                Some(time) => Rest::Nap(Duration::from_nanos(time)),
                None if self.idle >= IDLE_TURNS => Rest::Sleep,
                None => Rest::Not,
            },
        }
    }

    /// Returns the length of a nap in nanoseconds at the present packet rate. Returns 0 if the rings would fill before the shortest nap
    /// ends, and `None` if too few packets arrive for a nap to pay off.
    fn nap(&self, depth: usize) -> Option<u64> {
        if self.rate.saturating_mul(NAP) < WORTH * 1_000_000_000 {
            return None;
        }
        let fills = (depth as u64 / SHARE).saturating_mul(1_000_000_000) / self.rate;
        Some(if fills < SHORTEST_NAP { 0 } else { NAP.min(fills) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a worker that receives evenly spaced packets for 10 ms. Returns the numbers of turns, naps and sleeps, and the largest
    /// number of packets that waited.
    fn live(per_second: u64, mode: RxMode, depth: usize) -> (u64, u64, u64, usize) {
        let mut pacer = Pacer::default();
        let (mut now, mut seen, mut most) = (0, 0, 0);
        let (mut naps, mut sleeps, mut turns) = (0, 0, 0);
        while now < 10_000_000 {
            let waiting = ((now * per_second / 1_000_000_000) - seen) as usize;
            most = most.max(waiting);
            let came = waiting.min(256);
            seen += came as u64;
            // A turn costs 100 ns, and 15 ns for each packet.
            now += 100 + came as u64 * 15;
            turns += 1;
            match pacer.after(came, now, || Eager { mode, depth }) {
                Rest::Not => {}
                Rest::Nap(time) => {
                    naps += 1;
                    now += time.as_nanos() as u64 + 10_000;
                }
                Rest::Sleep => {
                    sleeps += 1;
                    // Sleeps until the next packet, with 5 µs to wake up.
                    now = now.max((seen + 1) * 1_000_000_000 / per_second.max(1)) + 5_000;
                }
            }
        }
        (turns, naps, sleeps, most)
    }

    #[test]
    fn polling_workers_never_rest_and_interrupt_workers_never_nap() {
        for rate in [1, 1_000, 1_000_000, 30_000_000] {
            let (_, naps, sleeps, _) = live(rate, RxMode::Polling, 1024);
            assert_eq!((naps, sleeps), (0, 0), "{rate}");
            let (_, naps, ..) = live(rate, RxMode::Interrupt, 1024);
            assert_eq!(naps, 0, "{rate}");
        }
        let (turns, _, sleeps, _) = live(10_000, RxMode::Interrupt, 1024);
        assert!(sleeps >= 99 && turns < 3 * sleeps, "{turns} turns, {sleeps} sleeps");
    }

    #[test]
    fn an_adaptive_worker_sleeps_naps_or_polls_by_load() {
        let (_, naps, sleeps, _) = live(1_000, RxMode::Adaptive, 1024);
        assert!(naps == 0 && sleeps >= 9, "{naps} naps, {sleeps} sleeps");
        let (turns, naps, ..) = live(1_000_000, RxMode::Adaptive, 1024);
        assert!(naps > 100 && turns < 3 * naps + 3000, "{naps} naps, {turns} turns");
        let (turns, naps, sleeps, _) = live(40_000_000, RxMode::Adaptive, 1024);
        assert!(naps == 0 && sleeps == 0 && turns > 1000, "{turns} turns, {naps} naps");
    }

    #[test]
    fn a_nap_does_not_fill_the_ring() {
        for rate in (1..60).map(|n| n * 500_000) {
            for depth in [256, 1024, 4096] {
                let (.., most) = live(rate, RxMode::Adaptive, depth);
                assert!(most <= depth * 3 / 4, "{most} of {depth} at {rate}");
            }
        }
    }

    #[test]
    fn a_worker_sleeps_after_the_end_of_traffic() {
        let mut pacer = Pacer::default();
        let eager = || Eager { mode: RxMode::Adaptive, depth: 1024 };
        let mut now = 0;
        for _ in 0..100 {
            now += 50_000;
            pacer.after(50, now, eager);
        }
        let rests: Vec<Rest> = (0..200)
            .map(|_| {
                now += 50_000;
                pacer.after(0, now, eager)
            })
            .collect();
        assert!(matches!(rests[0], Rest::Nap(_)) && rests[199] == Rest::Sleep, "{rests:?}");
    }
}
