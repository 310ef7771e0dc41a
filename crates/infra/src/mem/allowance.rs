//! Growth by small pieces, for which there must be memory.

use std::time::{Duration, Instant};

use super::Room;

/// So much is taken without asking again, in bytes. Several may have an allowance at once: together less than what is left to others.
const STEP: u64 = 4 << 20;
/// How long it is believed that there is no more memory. To ask takes some 50 µs.
const BELIEVED: Duration = Duration::from_millis(10);

/// Memory that somebody may take piece by piece. What there is is looked at every 4 MiB: the kernel would promise more, and kill the
/// process when the promise is due.
#[derive(Debug)]
pub struct Allowance {
    left: u64,
    tight: Option<Instant>,
    room: fn() -> Room,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance::of(Room::now)
    }
}

impl Allowance {
    /// An allowance where `room` says what memory there is.
    pub fn of(room: fn() -> Room) -> Allowance {
        Allowance { left: 0, tight: None, room }
    }

    /// Takes so many bytes, less than 4 MiB; `false` when they are not there.
    pub fn take(&mut self, bytes: u64) -> bool {
        if self.left < bytes {
            if self.tight.is_some_and(|since| since.elapsed() < BELIEVED) {
                return false;
            }
            self.left = (self.room)().spare().unwrap_or(u64::MAX).min(STEP);
            self.tight = (self.left < bytes).then(Instant::now);
        }
        let there = self.tight.is_none();
        self.left -= if there { bytes } else { 0 };
        there
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
    fn what_is_there_is_given_and_looked_at_only_now_and_then() {
        const SPARE: u64 = 32 << 20;
        let mut allowance = Allowance::of(room);
        FREE.store(SPARE + (10 << 20), Ordering::Relaxed);
        let mut taken = 0;
        while allowance.take(1000) {
            taken += 1000;
            FREE.fetch_sub(1000, Ordering::Relaxed);
        }
        assert!((10 << 20) - taken < 1000, "{taken}");
        let asked = ASKED.load(Ordering::Relaxed);
        // Of those that come at once only the first one asks.
        assert!((0..100).all(|_| !allowance.take(1000)));
        assert!((4..20).contains(&asked) && ASKED.load(Ordering::Relaxed) <= asked + 1, "{asked}");
        FREE.store(SPARE + 5000, Ordering::Relaxed);
        std::thread::sleep(BELIEVED);
        let taken = |_: &i32| allowance.take(1000) && FREE.fetch_sub(1000, Ordering::Relaxed) > 0;
        assert_eq!((0..10).take_while(taken).count(), 5);
    }
}
