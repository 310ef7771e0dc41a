//! Limits the time that a worker waits for a peer's memory.
//!
//! A peer can punch holes into its memory (`fallocate(2)`). The kernel fills a hole when it is read or written. While the kernel punches a
//! hole, threads that touch the hole sleep: 0.1 s per GiB. So the router measures each turn, that is, each time that a worker uses the
//! memory. The time of a slow turn with a page fault and a sleep counts against the peer. A turn that is slow only because the worker was
//! not scheduled does not count.

use std::cell::Cell;
use std::sync::Mutex;

use infra::clock::tsc;

use super::ring::Fault;
use super::shared::lock;

/// Ticks of the time stamp counter, one to five per nanosecond.
pub(super) type Ticks = u64;

/// A turn with more ticks than this is examined.
const SLOW: Ticks = 1_000_000;
/// Limit of the accumulated ticks of slow turns.
const MOST: Ticks = 1 << 29;
/// The accumulated ticks decrease by one each time this many ticks pass.
const FORGOTTEN: u64 = 100;

/// Waits of this thread since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    /// Number of page faults.
    pages: i64,
    /// Number of voluntary context switches.
    sleeps: i64,
}

impl Waits {
    #[cold]
    fn now() -> Waits {
        // SAFETY: zeros are a valid record, and the kernel fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        Waits { pages: usage.ru_minflt + usage.ru_majflt, sleeps: usage.ru_nvcsw }
    }
}

thread_local! {
    /// This thread's waits so far, as of the last examination.
    static WAITS: Cell<Waits> = const { Cell::new(Waits { pages: 0, sleeps: 0 }) };
}

/// Accumulates the time that an interface's queues have waited for its peers' memory. The total is kept when a connection ends, so a peer
/// that reconnects does not get a new allowance.
#[derive(Default)]
pub(super) struct Patience(Mutex<Debt>);

/// Accumulated time that peers have cost, in a unit of the caller's choice.
#[derive(Default)]
pub(super) struct Debt {
    together: u64,
    /// Time of the last update, in the caller's unit.
    at: u64,
}

impl Patience {
    /// Measures a turn: the time from `since` to now, during which a worker used the peer's memory. Sets `since` to the current
    /// time, when the next turn begins. Returns true if the turn was slow.
    ///
    /// # Errors
    /// If slow turns have waited too long for the peer's memory in total.
    #[inline]
    pub(super) fn look(&self, since: &mut Ticks) -> Result<bool, Fault> {
        let (begun, now) = (*since, tsc());
        *since = now;
        if now.wrapping_sub(begun) < SLOW { Ok(false) } else { self.judge(begun, now).map(|()| true) }
    }

    #[cold]
    fn judge(&self, begun: Ticks, now: Ticks) -> Result<(), Fault> {
        let waits = Waits::now();
        let before = WAITS.replace(waits);
        if waits.pages == before.pages || waits.sleeps == before.sleeps {
            return Ok(());
        }
        let fits = lock(&self.0).add(now, now.saturating_sub(begun), MOST, FORGOTTEN);
        if fits { Ok(()) } else { Err(Fault::Holes) }
    }
}

impl Debt {
    /// Decreases the total by one unit per `forgotten` units of time since the last call, and adds `spent`, but at most `most / 4`. Returns
    /// `false` if the total is then more than `most`.
    pub(super) fn add(&mut self, now: u64, spent: u64, most: u64, forgotten: u64) -> bool {
        let forgiven = now.saturating_sub(self.at) / forgotten;
        self.together = self.together.saturating_sub(forgiven) + spent.min(most / 4);
        self.at = now;
        let fits = self.together <= most;
        self.together = self.together.min(most);
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `turns` turns exceed the limit. Each turn takes `ticks` ticks and begins `between` ticks after the end of the
    /// previous turn.
    fn judged(debt: &mut Debt, turns: u64, ticks: Ticks, between: Ticks) -> usize {
        let turn = |debt: &mut Debt| debt.add(debt.at + between + ticks, ticks, MOST, FORGOTTEN);
        (0..turns).filter(|_| !turn(debt)).count()
    }

    #[test]
    fn waits_for_pages_are_tolerated_for_a_while() {
        let mut debt = Debt::default();
        assert_eq!(judged(&mut debt, 16, MOST / 16, 0), 0);
        assert_eq!(judged(&mut debt, 1, MOST / 16, 0), 1);
        // A peer that reconnects keeps its debt.
        assert_eq!(judged(&mut debt, 1, MOST / 16, 0), 1);
        // After some time, the same amount is allowed again.
        assert_eq!(judged(&mut debt, 100, MOST / 64, 2 * MOST), 0);
    }

    #[test]
    fn waits_for_a_processor_are_always_tolerated() {
        let patience = Patience::default();
        for _ in 0..100 {
            let end = tsc() + SLOW;
            while tsc() < end {}
            let _ = patience.judge(end - MOST, end);
        }
        // Only the first turn counted, because of the thread's earlier waits.
        assert!(lock(&patience.0).together <= MOST / 4);
    }

    #[test]
    fn a_thread_counts_its_sleeps_and_page_faults() {
        let before = Waits::now();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let room = vec![1u8; 64 << 20];
        let after = Waits::now();
        assert!(after.sleeps > before.sleeps && after.pages > before.pages, "{after:?}, {}", room.len());
    }
}
