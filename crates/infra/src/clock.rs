//! Time: the processor's time-stamp counter, and the conversion of its ticks to nanoseconds.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads the processor's time-stamp counter. The counter runs at a constant rate, [`Clock::tsc_hz`], whatever
/// the core's frequency. On processors without such a counter, returns nanoseconds of the monotonic clock.
#[inline(always)]
pub fn tsc() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return monotonic_ns();
}

/// `CLOCK_MONOTONIC` in nanoseconds.
fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: t is a valid place for the result. The clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Returns by how many seconds the machine's time zone is ahead of UTC at `time`; 0 if this is unknown.
pub fn utc_offset(time: SystemTime) -> i32 {
    let Some(seconds) =
        time.duration_since(UNIX_EPOCH).ok().and_then(|t| libc::time_t::try_from(t.as_secs()).ok())
    else {
        return 0;
    };
    // SAFETY: an all-zero tm is valid: numbers, and a null pointer to the name of the zone.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for the call. It reads the environment, which no thread changes.
    let found = unsafe { libc::localtime_r(&seconds, &mut local) };
    if found.is_null() { 0 } else { i32::try_from(local.tm_gmtoff).unwrap_or(0) }
}

/// Reads the time-stamp counter and the monotonic clock at almost the same time. The thread may be interrupted between the two reads. So
/// the function reads both several times, and returns the values with the shortest time between the reads.
fn both() -> (u64, u64) {
    let try_once = || {
        let before = tsc();
        let ns = monotonic_ns();
        let after = tsc();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), ns)
    };
    let (_, ticks, ns) = (0..16).map(|_| try_once()).min().unwrap_or_else(try_once);
    (ticks, ns)
}

/// Number of nanoseconds by which [`advance`] has moved all [`Clock`]s forward.
static ADVANCED: AtomicU64 = AtomicU64::new(0);

/// Moves the time of all clocks of the process forward, for tests of timers. The time never moves back.
pub fn advance(by: Duration) {
    let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
    let _ = ADVANCED.try_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_add(by)));
}

/// Returns the total time by which [`advance`] has moved the clocks forward.
pub fn advanced() -> Duration {
    Duration::from_nanos(ADVANCED.load(Ordering::Relaxed))
}

/// Converts ticks of the time-stamp counter to the time of `CLOCK_MONOTONIC`, at the rate measured during
/// calibration.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    tsc0: u64,
    ns0: u64,
    hz: f64,
    /// Nanoseconds per tick, times 2^32.
    ns_per_tick: u64,
}

impl Clock {
    /// Time that [`new`](Self::new) takes for the measurement.
    const CALIBRATION: Duration = Duration::from_millis(20);

    /// Measures the time-stamp counter against the system's clock for 20 ms, with an error of about 5 parts
    /// per million.
    pub fn new() -> Self {
        let (tsc0, ns0) = both();
        std::thread::sleep(Self::CALIBRATION);
        let (tsc1, ns1) = both();
        let ticks = tsc1.wrapping_sub(tsc0).max(1);
        let ns = ns1.saturating_sub(ns0).max(1);
        Self {
            tsc0,
            ns0,
            hz: ticks as f64 * 1e9 / ns as f64,
            ns_per_tick: ((u128::from(ns) << 32) / u128::from(ticks)) as u64,
        }
    }

    /// Returns the present time of `CLOCK_MONOTONIC` in nanoseconds, computed from the time-stamp counter, and moved forward by
    /// [`advance`].
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.at_ns(tsc()).saturating_add(ADVANCED.load(Ordering::Relaxed))
    }

    /// Returns the time of `CLOCK_MONOTONIC` in nanoseconds at which the time-stamp counter had the value `tsc`. For a value before the
    /// calibration, returns the start of the calibration.
    #[inline]
    pub fn at_ns(&self, tsc: u64) -> u64 {
        self.ns0 + self.ticks_to_ns(tsc.saturating_sub(self.tsc0))
    }

    /// Converts `ticks` to nanoseconds.
    #[inline]
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32) as u64
    }

    /// Returns the number of time-stamp counter ticks per second.
    pub fn tsc_hz(&self) -> f64 {
        self.hz
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns how many core cycles a tick of the time-stamp counter takes on this core now. To measure this, the function runs a chain of
/// additions, each of which takes one cycle. Returns 1.0 on processors where this is not possible, or if the result is not between 0.05 and
/// 20. Takes less than a millisecond on a quiet core.
pub fn core_per_tsc() -> f64 {
    const PLAUSIBLE: RangeInclusive<f64> = 0.05..=20.0;
    // The fastest of many short runs: an interruption only makes a run longer.
    let best = (0..50).map(|_| chain()).fold(0.0f64, f64::max);
    if PLAUSIBLE.contains(&best) { best } else { 1.0 }
}

/// Returns the number of core cycles per tick of the time-stamp counter, measured in one run of a few microseconds.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn chain() -> f64 {
    const TURNS: u64 = 1000;
    const ADDS: u64 = 16;
    let start = tsc();
    // SAFETY: registers only. The addend is a register because some cores fold additions of constants.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 16",
            "add {sum}, {addend}",
            ".endr",
            "sub {turns}, 1",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            addend = in(reg) start,
            turns = inout(reg) TURNS => _,
            options(nomem, nostack),
        );
    }
    (TURNS * ADDS) as f64 / tsc().wrapping_sub(start).max(1) as f64
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn chain() -> f64 {
    1.0
}

#[cfg(all(test, not(any(feature = "loom", miri))))]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_system_clock() {
        let clock = Clock::new();
        std::thread::sleep(Duration::from_millis(50));
        let off = (0..10).map(|_| clock.now_ns().abs_diff(monotonic_ns())).min().unwrap();
        assert!(off < 100_000, "{off} ns apart after 50 ms");
        let second = clock.ticks_to_ns(clock.tsc_hz() as u64);
        assert!(second.abs_diff(1_000_000_000) < 10_000, "{second}");
    }

    #[test]
    fn long_times_do_not_overflow() {
        let clock = Clock { tsc0: 1 << 63, ns0: 7, hz: 4e9, ns_per_tick: 1 << 30 };
        assert_eq!(clock.at_ns(0), 7);
        assert_eq!(clock.ticks_to_ns(u64::MAX), u64::MAX >> 2);
        assert_eq!(clock.at_ns(u64::MAX), ((1u64 << 63) - 1) / 4 + 7);
    }

    #[test]
    fn a_utc_offset_is_less_than_a_day() {
        for time in [SystemTime::now(), UNIX_EPOCH, UNIX_EPOCH - Duration::from_secs(1)] {
            let offset = utc_offset(time);
            assert!(offset.abs() < 24 * 3600, "{offset} s");
        }
    }

    #[test]
    fn core_frequency_is_plausible_against_the_tsc() {
        let ratio = core_per_tsc();
        assert!((0.2..5.0).contains(&ratio), "{ratio}");
    }
}
