//! When frames are due.
//!
//! Frame `i` is due `i / rate` after the start, whatever became of the frames before it: errors do not add up, and the end of a trial
//! does not move because the sender was late in the middle. How late it was, and how fast it then caught up, is noted: a trial with
//! bursts that nobody asked for says something of the tester, not of the router.

/// Within so long the rate is looked at for bursts, in seconds.
const WINDOW: f64 = 0.01;
/// At least so many frames are looked at: of a few, one more is a large share.
const WINDOW_FRAMES: f64 = 256.0;

/// The schedule of one stream.
pub struct Schedule {
    start: u64,
    /// Frames a tick.
    rate: f64,
    frames: u64,
    /// Frames that were taken so far.
    taken: u64,
    /// Frames that were due and not taken yet, at most.
    lag: u64,
    window: Window,
}

/// Frames since a while ago.
struct Window {
    ticks: u64,
    began: u64,
    frames: u64,
    /// The fastest window, as a multiple of the rate.
    fastest: f64,
}

impl Schedule {
    /// So many frames from `start` on (ticks), at `fps` frames a second; `hz` ticks are a second.
    pub fn new(start: u64, frames: u64, fps: f64, hz: f64) -> Schedule {
        let rate = fps / hz;
        let ticks = (WINDOW * hz).max(WINDOW_FRAMES / rate) as u64;
        let window = Window { ticks, began: start, frames: 0, fastest: 0.0 };
        Schedule { start, rate, frames, taken: 0, lag: 0, window }
    }

    /// The same, so many ticks later. Nothing of it may have been taken.
    pub fn later(self, ticks: u64) -> Schedule {
        let start = self.start + ticks;
        Schedule { start, window: Window { began: start, ..self.window }, ..self }
    }

    /// How many frames are to be sent now, `most` at most.
    #[inline(always)]
    pub fn due(&mut self, now: u64, most: usize) -> usize {
        let Some(since) = now.checked_sub(self.start) else { return 0 };
        // The first frame is due at the start itself.
        let due = ((since as f64 * self.rate) as u64 + 1).min(self.frames);
        let waiting = due - self.taken.min(due);
        if waiting == 0 {
            return 0;
        }
        self.lag = self.lag.max(waiting - 1);
        let n = waiting.min(most as u64);
        self.taken += n;
        self.window.note(now, n, self.rate);
        n as usize
    }

    /// Frames in all.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// When the first frame is due, in ticks.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Whether all frames were taken.
    pub fn is_done(&self) -> bool {
        self.taken == self.frames
    }

    /// Frames that were taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// When the last frame is due, in ticks.
    pub fn end(&self) -> u64 {
        self.start + (self.frames.saturating_sub(1) as f64 / self.rate) as u64
    }

    /// Frames that were overdue at once, at most.
    pub fn lag(&self) -> u64 {
        self.lag
    }

    /// How fast the sender was at its fastest, over 10 ms or 256 frames, as a multiple of the rate.
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
        // The frame that is due at the window's very start is none of its time.
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
        /// Whenever it is asked, no frame comes before it is due, and none is forgotten.
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
                taken += schedule.due(now, most) as u64;
                prop_assert_eq!(schedule.taken(), taken);
                let due = if now < 1_000 { 0.0 } else { (now - 1_000) as f64 * fps / HZ + 1.0 };
                prop_assert!(taken as f64 <= due.min(frames as f64));
            }
            let mut n = 1;
            now += (frames as f64 / fps * HZ) as u64 + 2_000;
            while n > 0 {
                n = schedule.due(now, most);
                taken += n as u64;
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
        assert!((0.99..1.001).contains(&s.fastest()), "{}", s.fastest());
        assert_eq!(s.end(), (99_999.0 * 2_600.0) as u64);
    }

    #[test]
    fn a_pause_is_seen_as_lag_and_the_making_up_as_a_burst() {
        let mut s = Schedule::new(0, 100_000, 1e6, HZ);
        let pause = 20_000_000..30_000_000; // 3.8 ms
        for now in (0..).step_by(1_000).take(261_000).filter(|now| !pause.contains(now)) {
            s.due(now, 32);
        }
        assert!(s.is_done());
        assert_eq!(s.lag(), 3_846);
        assert!(s.fastest() > 1.3, "{}", s.fastest());
    }
}
