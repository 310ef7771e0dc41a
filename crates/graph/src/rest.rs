//! When a worker rests.
//!
//! A worker that polls all the time sees each packet at once, and burns a core to do nothing. One that sleeps until a
//! device wakes it costs nothing, but a wake-up is as dear as hundreds of packets. In between it *naps*: it sleeps for
//! a few tens of microseconds without asking to be woken, and finds a vector of packets when it comes back.
//!
//! | the queue's [`RxMode`] | many packets come | some come | none come |
//! |---|---|---|---|
//! | polling | polls | polls | polls |
//! | adaptive | polls | naps, as long as the rings allow | sleeps, after a few more polls |
//! | interrupt | polls | sleeps | sleeps |
//!
//! The most eager queue of a worker rules.

use std::time::Duration;

/// How a receive queue is attended to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RxMode {
    /// The worker sleeps as soon as nothing has come.
    Interrupt,
    /// The worker polls, naps or sleeps, by how much comes.
    #[default]
    Adaptive,
    /// The worker never sleeps.
    Polling,
}

/// What a worker's queues ask of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eager {
    /// The mode of the most eager queue.
    pub mode: RxMode,
    /// Packets that the shallowest adaptive queue has room for while nobody polls it.
    pub depth: usize,
}

impl Eager {
    /// No queue at all.
    pub const NONE: Eager = Eager { mode: RxMode::Interrupt, depth: usize::MAX };

    /// Both together.
    pub fn and(self, other: Eager) -> Eager {
        Eager { mode: self.mode.max(other.mode), depth: self.depth.min(other.depth) }
    }
}

/// What a worker does between two turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It goes on at once.
    Not,
    /// It sleeps for so long.
    Nap(Duration),
    /// It sleeps until something wakes it.
    Sleep,
}

/// A turn that brought so many packets paid for itself: more will have come meanwhile.
const VECTOR: usize = 64;
/// Turns without a packet after which a worker sleeps.
const IDLE_TURNS: u32 = 64;
/// The longest nap. The kernel's timer adds to it. Half of it is what a packet waits on average.
const NAP: u64 = 60_000;
/// A nap that would have to be shorter is none: the timer is not that exact.
const SHORTEST_NAP: u64 = 20_000;
/// A nap is worth it when so many packets come meanwhile.
const WORTH: u64 = 4;
/// The share of a ring that a nap may fill: 1 / `SHARE`. The timer may be late by as much again, and then some.
const SHARE: u64 = 4;
/// How long packets are counted for the rate, at least, in nanoseconds.
const WINDOW: u64 = 250_000;

/// Decides when its worker rests.
#[derive(Default)]
pub(crate) struct Pacer {
    /// Turns without a packet in a row.
    idle: u32,
    /// When the count began, and what was counted.
    since: u64,
    packets: u64,
    /// Packets a second in the window before.
    rate: u64,
}

impl Pacer {
    /// What follows a turn at `now` (nanoseconds) that brought `came` packets.
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

    /// How long a nap may be at the present rate: 0 where it would be too short, `None` where it would be in vain.
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

    /// Turns of a worker at packets that come evenly, for 10 ms: how often it napped and slept, of how many turns.
    fn live(per_second: u64, mode: RxMode, depth: usize) -> (u64, u64, u64, usize) {
        let mut pacer = Pacer::default();
        let (mut now, mut seen, mut most) = (0, 0, 0);
        let (mut naps, mut sleeps, mut turns) = (0, 0, 0);
        while now < 10_000_000 {
            let waiting = ((now * per_second / 1_000_000_000) - seen) as usize;
            most = most.max(waiting);
            let came = waiting.min(256);
            seen += came as u64;
            // A turn costs 100 ns, and 15 for each packet.
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
                    // Until the next packet comes, and 5 µs to wake up.
                    now = now.max((seen + 1) * 1_000_000_000 / per_second.max(1)) + 5_000;
                }
            }
        }
        (turns, naps, sleeps, most)
    }

    #[test]
    fn a_polling_worker_never_rests_and_one_by_interrupts_never_naps() {
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
    fn an_adaptive_worker_sleeps_naps_or_polls_by_what_comes() {
        let (_, naps, sleeps, _) = live(1_000, RxMode::Adaptive, 1024);
        assert!(naps == 0 && sleeps >= 9, "{naps} naps, {sleeps} sleeps");
        let (turns, naps, ..) = live(1_000_000, RxMode::Adaptive, 1024);
        assert!(naps > 100 && turns < 3 * naps + 3000, "{naps} naps, {turns} turns");
        let (turns, naps, sleeps, _) = live(40_000_000, RxMode::Adaptive, 1024);
        assert!(naps == 0 && sleeps == 0 && turns > 1000, "{turns} turns, {naps} naps");
    }

    #[test]
    fn a_nap_leaves_room_in_the_ring() {
        for rate in (1..60).map(|n| n * 500_000) {
            for depth in [256, 1024, 4096] {
                let (.., most) = live(rate, RxMode::Adaptive, depth);
                assert!(most <= depth * 3 / 4, "{most} of {depth} at {rate}");
            }
        }
    }

    #[test]
    fn traffic_that_ends_lets_the_worker_sleep() {
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
