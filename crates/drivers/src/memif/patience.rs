//! How long a worker waits for a peer's memory.
//!
//! A peer can punch holes into its memory (`fallocate(2)`). The kernel fills them when they are read or written; while it
//! punches one, whoever comes to it sleeps, a tenth of a second for a GiB. So the time of turns that waited for pages counts
//! against the peer. A turn that was long because the worker had no processor does not: it waited for no page.

use std::cell::Cell;
use std::sync::Mutex;

use infra::clock::tsc;

use super::ring::Fault;
use super::shared::lock;

/// Ticks of the processor's counter, of which there are one to five in a nanosecond.
pub(super) type Ticks = u64;

/// A turn that takes longer is looked at.
const SLOW: Ticks = 1_000_000;
/// Turns may have waited so long together...
const MOST: Ticks = 1 << 29;
/// ... and are forgotten while so many times as much passes.
const FORGOTTEN: u64 = 100;

/// What this thread has waited for since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    /// Pages that were not there.
    pages: i64,
    /// Times that it slept.
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
    /// What the thread had waited for when it was last asked.
    static WAITS: Cell<Waits> = const { Cell::new(Waits { pages: 0, sleeps: 0 }) };
}

/// Counts the time that the queues of an interface have waited for its peers' memory. It outlives a connection: who comes
/// again is not given as much time again.
#[derive(Default)]
pub(super) struct Patience(Mutex<Debt>);

/// Time that peers have cost, in a unit of the caller's.
#[derive(Default)]
pub(super) struct Debt {
    together: u64,
    /// When that was written.
    at: u64,
}

impl Patience {
    /// Looks at a turn that used the peer's memory and began at `since`, when the next begins. `true` if it was long.
    ///
    /// # Errors
    /// When the turns have waited too long.
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
    /// Adds what was spent up to now, and takes off a part (one in `forgotten`) of the time since the last one; `false` if it
    /// is more than `most` then.
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

    /// How many turns of so many ticks, with so many in between, are too many.
    fn judged(debt: &mut Debt, turns: u64, ticks: Ticks, between: Ticks) -> usize {
        let turn = |debt: &mut Debt| debt.add(debt.at + between + ticks, ticks, MOST, FORGOTTEN);
        (0..turns).filter(|_| !turn(debt)).count()
    }

    #[test]
    fn turns_that_wait_for_pages_are_borne_for_a_while() {
        let mut debt = Debt::default();
        assert_eq!(judged(&mut debt, 16, MOST / 16, 0), 0);
        assert_eq!(judged(&mut debt, 1, MOST / 16, 0), 1);
        // Who comes again is known.
        assert_eq!(judged(&mut debt, 1, MOST / 16, 0), 1);
        // After some time, as much as that is borne again.
        assert_eq!(judged(&mut debt, 100, MOST / 64, 2 * MOST), 0);
    }

    #[test]
    fn turns_that_wait_for_a_processor_are_borne_always() {
        let patience = Patience::default();
        for _ in 0..100 {
            let end = tsc() + SLOW;
            while tsc() < end {}
            let _ = patience.judge(end - MOST, end);
        }
        // As the first one did, which counted what the thread had done before.
        assert!(lock(&patience.0).together <= MOST / 4);
    }

    #[test]
    fn a_thread_knows_what_it_waited_for() {
        let before = Waits::now();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let room = vec![1u8; 64 << 20];
        let after = Waits::now();
        assert!(after.sleeps > before.sleeps && after.pages > before.pages, "{after:?}, {}", room.len());
    }
}
