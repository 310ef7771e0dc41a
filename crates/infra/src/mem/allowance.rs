//! Grants memory in small steps, within the free memory.

use std::time::{Duration, Instant};

use super::Room;
use super::room::LEFT;

/// Number of bytes that an [`Allowance`] grants between two checks of the free memory. It is so small that even several allowances
/// together take less between two checks than [`Room`] keeps in reserve.
const STEP: u64 = 4 << 20;
/// Time for which a [`Watch`] remembers a lack of memory instead of checking again. A check takes about 50 µs.
const REMEMBERED: Duration = Duration::from_millis(10);

/// Checks the free memory. It remembers a lack of memory for 10 ms, so that many refusals in a row need only one check.
#[derive(Debug, Default)]
pub struct Watch {
    tight: Option<(Instant, Room)>,
}

impl Watch {
    /// Returns the number of free bytes that `room` reports; `u64::MAX` if there is no limit. If they are fewer than `least`, further
    /// calls in the next 10 ms return 0 without a new check.
    pub fn free(&mut self, least: u64, room: impl FnOnce() -> Room) -> u64 {
        if self.tight.as_ref().is_some_and(|(since, _)| since.elapsed() < REMEMBERED) {
            return 0;
        }
        let room = room();
        let free = room.spare().unwrap_or(u64::MAX);
        self.tight = (free < least).then(|| (Instant::now(), room));
        free
    }

    /// Returns the result of the last check, if it found too little memory.
    pub fn tight(&self) -> Option<&Room> {
        self.tight.as_ref().map(|(_, room)| room)
    }

    /// Forgets a lack of memory, so that the next call checks again.
    pub fn forget(&mut self) {
        self.tight = None;
    }
}

/// Memory that is taken in small steps on behalf of untrusted parties, such as neighbors in the network. It
/// leaves 64 MiB free, in addition to the reserve of [`Room`]. The free memory is checked every 4 MiB.
/// Without the checks, the kernel would grant more memory than there is, and kill the process when it touches
/// the memory.
#[derive(Debug)]
pub struct Allowance {
    left: u64,
    watch: Watch,
    room: fn() -> Room,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance::of(Room::now)
    }
}

impl Allowance {
    /// Returns an allowance that asks `room` for the free memory.
    pub fn of(room: fn() -> Room) -> Allowance {
        Allowance { left: 0, watch: Watch::default(), room }
    }

    /// Takes `bytes` bytes. Returns false if too little memory is free, or if `bytes` is more than 4 MiB.
    pub fn take(&mut self, bytes: u64) -> bool {
        if self.left < bytes {
            self.left = self.watch.free(bytes + LEFT, self.room).saturating_sub(LEFT).min(STEP);
        }
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    static FREE: AtomicU64 = AtomicU64::new(0);
    static ASKED: AtomicU64 = AtomicU64::new(0);

    fn room() -> Room {
        ASKED.fetch_add(1, Ordering::Relaxed);
        Room { bytes: FREE.load(Ordering::Relaxed), promised: 0, bound: String::new(), huge: None }
    }

    #[test]
    fn memory_is_granted_with_few_checks() {
        const SPARE: u64 = (32 << 20) + LEFT;
        let mut allowance = Allowance::of(room);
        FREE.store(SPARE + (10 << 20), Ordering::Relaxed);
        let mut taken = 0;
        while allowance.take(1000) {
            taken += 1000;
            FREE.fetch_sub(1000, Ordering::Relaxed);
        }
        assert!((10 << 20) - taken < 1000, "{taken}");
        let asked = ASKED.load(Ordering::Relaxed);
        // Of simultaneous requests only the first one checks.
        assert!((0..100).all(|_| !allowance.take(1000)));
        assert!((4..20).contains(&asked) && ASKED.load(Ordering::Relaxed) <= asked + 1, "{asked}");
        FREE.store(SPARE + 5000, Ordering::Relaxed);
        std::thread::sleep(REMEMBERED);
        let taken = |_: &i32| allowance.take(1000) && FREE.fetch_sub(1000, Ordering::Relaxed) > 0;
        assert_eq!((0..10).take_while(taken).count(), 5);
    }
}
