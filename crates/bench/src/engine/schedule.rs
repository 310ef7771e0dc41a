//! Schedule of the frames of a stream.
//!
//! Frame `i` is due `i / rate` after the start, regardless of when the frames before it were sent. So timing errors do not add up, and a
//! delay in the middle does not move the end of the trial. The schedule records how late frames are and how fast the sender catches up,
//! since a trial with unwanted bursts measures the tester, not the router.

/// Minimum time in seconds over which the rate is checked for bursts.
const WINDOW: f64 = 0.01;
/// Minimum number of frames over which the rate is checked for bursts, since one frame more is a large share of a few frames.
const WINDOW_FRAMES: f64 = 256.0;

/// The schedule of one stream.
pub struct Schedule {
    start: u64,
    /// Frames per tick.
    rate: f64,
    frames: u64,
    /// Number of frames that the sender has taken so far.
    taken: u64,
    /// Largest number of frames that were overdue at one time.
    lag: u64,
    /// Longest time in ticks that a frame was overdue when it was taken.
    behind: u64,
    window: Window,
}

/// Frames in the current window.
struct Window {
    ticks: u64,
    began: u64,
    frames: u64,
    /// Rate of the fastest window, as a multiple of the stream's rate.
    fastest: f64,
}

impl Schedule {
    /// Creates a schedule of `frames` frames from `start` (ticks) on, at `fps` frames per second and `hz` ticks per
    /// second.
    pub fn new(start: u64, frames: u64, fps: f64, hz: f64) -> Schedule {
        let rate = fps / hz;
        let ticks = (WINDOW * hz).max(WINDOW_FRAMES / rate) as u64;
        let window = Window { ticks, began: start, frames: 0, fastest: 0.0 };
        Schedule { start, rate, frames, taken: 0, lag: 0, behind: 0, window }
    }

    /// Returns the schedule delayed by `ticks`. Call this before taking the first frame.
    pub fn later(self, ticks: u64) -> Schedule {
        let start = self.start + ticks;
        Schedule { start, window: Window { began: start, ..self.window }, ..self }
    }

    /// Takes the frames that are due at `now` (in ticks), at most `most`. Returns the number of frames taken, and the number of
    /// all frames that were due.
    #[inline(always)]
    pub fn due(&mut self, now: u64, most: usize) -> (usize, u64) {
        let waiting = self.waiting(now);
        if waiting == 0 {
            return (0, 0);
        }
        let since = now - self.start;
        self.lag = self.lag.max(waiting - 1);
        // The first waiting frame has waited longest.
        self.behind = self.behind.max(since.saturating_sub((self.taken as f64 / self.rate) as u64));
        let n = waiting.min(most as u64);
        self.taken += n;
        self.window.note(now, n, self.rate);
        (n as usize, waiting)
    }

    /// Returns the number of frames that are due at `now` (in ticks) and were not taken.
    #[inline(always)]
    pub fn waiting(&self, now: u64) -> u64 {
        let Some(since) = now.checked_sub(self.start) else { return 0 };
        // The first frame is due at the start itself.
        let due = ((since as f64 * self.rate) as u64 + 1).min(self.frames);
        due - self.taken.min(due)
    }

    /// Returns the total number of frames.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the time of the first frame in ticks.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// True if all frames were taken.
    pub fn is_done(&self) -> bool {
        self.taken == self.frames
    }

    /// Returns the number of frames taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the time of the last frame in ticks.
    pub fn end(&self) -> u64 {
        self.start + (self.frames.saturating_sub(1) as f64 / self.rate) as u64
    }

    /// Returns the largest number of frames that were overdue at one time.
    pub fn lag(&self) -> u64 {
        self.lag
    }

    /// Returns the longest time, in ticks, that a frame was overdue when it was taken.
    pub fn behind(&self) -> u64 {
        self.behind
    }

    /// Returns the sender's peak rate over at least 10 ms and 256 frames, as a multiple of the intended rate.
    pub fn fastest(&self) -> f64 {
        self.window.fastest
    }
}

impl Window {
    #[inline(always)]
    fn note(&mut self, now: u64, n: u64, rate: f64) {
        let since = now - self.began;
        if since >= self.ticks {
            self.close(since, rate);
            self.began = now;
        }
        self.frames += n;
    }

    #[cold]
    fn close(&mut self, since: u64, rate: f64) {
        // The frame at the start of the window does not count: n frames span n − 1 intervals.
        let frames = self.frames.saturating_sub(1) as f64;
        self.fastest = self.fastest.max(frames / (since as f64 * rate));
        self.frames = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HZ: f64 = 2.6e9;

    proptest! {
        /// No frame is sent before it is due, and none is skipped.
        #[test]
        fn frames_are_due_by_the_clock(
            fps in 1.0f64..2e7,
            steps in prop::collection::vec(0u64..1_000_000, 1..300),
            most in 1usize..300,
        ) {
            let frames = 5_000;
            let mut schedule = Schedule::new(1_000, frames, fps, HZ);
            let (mut now, mut taken) = (0, 0u64);
            for step in steps {
                now += step;
                taken += schedule.due(now, most).0 as u64;
                prop_assert_eq!(schedule.taken(), taken);
                let due = if now < 1_000 { 0.0 } else { (now - 1_000) as f64 * fps / HZ + 1.0 };
                prop_assert!(taken as f64 <= due.min(frames as f64));
            }
            let mut n = 1u64;
            now += (frames as f64 / fps * HZ) as u64 + 2_000;
            while n > 0 {
                n = schedule.due(now, most).0 as u64;
                taken += n;
            }
            prop_assert!(schedule.is_done() && taken == frames);
        }
    }

    #[test]
    fn a_sender_that_keeps_up_has_no_lag_and_no_burst() {
        let mut s = Schedule::new(0, 100_000, 1e6, HZ);
        for now in (0..).step_by(1_000).take(261_000) {
            s.due(now, 32);
        }
        assert!(s.is_done());
        assert_eq!(s.lag(), 0);
        assert!(s.behind() < 1_000, "{}", s.behind());
        assert!((0.99..1.001).contains(&s.fastest()), "{}", s.fastest());
        assert_eq!(s.end(), (99_999.0 * 2_600.0) as u64);
    }

    #[test]
    fn a_pause_is_measured_as_lag_and_the_catching_up_as_burst() {
        let mut s = Schedule::new(0, 100_000, 1e6, HZ);
        let pause = 20_000_000..30_000_000; // 3.8 ms
        for now in (0..).step_by(1_000).take(261_000).filter(|now| !pause.contains(now)) {
            s.due(now, 32);
        }
        assert!(s.is_done());
        assert_eq!(s.lag(), 3_846);
        // The first frame of the pause is due up to 2,600 ticks after its start, and the clock ticks by 1,000.
        assert!((9_997_000..=10_001_000).contains(&s.behind()), "{}", s.behind());
        assert!(s.fastest() > 1.3, "{}", s.fastest());
    }
}
