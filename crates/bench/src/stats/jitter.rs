//! Interarrival jitter (RFC 3550, section 6.4.1 and appendix A.8).

use serde::{Deserialize, Serialize};

/// Jitter of a stream, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterFigures {
    /// Smoothed interarrival jitter at the end of the stream: each new difference between the delays of successive frames has
    /// a weight of 1/16.
    pub smoothed_ns: f64,
    /// Mean absolute difference between the delays of successive frames, over the whole stream.
    pub mean_ns: f64,
}

/// Computes the jitter of a stream from the delays of its received frames, in the order of arrival. A lost frame is skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    /// Delay of the last frame; `None` before the first.
    last_ns: Option<u64>,
    smoothed_ns: f64,
    sum_ns: u128,
    pairs: u64,
}

impl Jitter {
    /// Counts the next frame that arrived.
    #[inline(always)]
    pub fn record(&mut self, delay_ns: u64) {
        if let Some(last) = self.last_ns {
            let difference = delay_ns.abs_diff(last);
            self.smoothed_ns += (difference as f64 - self.smoothed_ns) / 16.0;
            self.sum_ns += u128::from(difference);
            self.pairs += 1;
        }
        self.last_ns = Some(delay_ns);
    }

    /// Returns the figures of several streams together, weighted by the number of delay differences in each stream. `None` if no stream has
    /// a difference.
    pub fn figures<'a>(streams: impl IntoIterator<Item = &'a Jitter>) -> Option<JitterFigures> {
        let (mut smoothed, mut sum, mut pairs) = (0.0, 0u128, 0u64);
        for one in streams {
            smoothed += one.smoothed_ns * one.pairs as f64;
            sum += one.sum_ns;
            pairs += one.pairs;
        }
        let all = pairs as f64;
        (pairs > 0).then(|| JitterFigures { smoothed_ns: smoothed / all, mean_ns: sum as f64 / all })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(delays_ns: &[u64]) -> Jitter {
        let mut jitter = Jitter::default();
        delays_ns.iter().for_each(|ns| jitter.record(*ns));
        jitter
    }

    #[test]
    fn a_sixteenth_of_each_difference_counts() {
        // J = 0 + (160 - 0) / 16 = 10; then 10 + (80 - 10) / 16 = 14.375.
        let found = Jitter::figures([&of(&[1_000, 1_160, 1_080])]);
        assert_eq!(found, Some(JitterFigures { smoothed_ns: 14.375, mean_ns: 120.0 }));
    }

    #[test]
    fn without_two_frames_there_is_no_jitter() {
        assert_eq!(Jitter::figures([&of(&[]), &of(&[7])]), None);
    }

    #[test]
    fn streams_count_by_their_frames() {
        let (long, short) = (of(&[0, 100, 0, 100, 0]), of(&[0, 600]));
        let found = Jitter::figures([&long, &short]).expect("a jitter");
        assert_eq!(found.mean_ns, (4.0 * 100.0 + 600.0) / 5.0);
        assert!((found.smoothed_ns - (long.smoothed_ns * 4.0 + short.smoothed_ns) / 5.0).abs() < 1e-9);
    }

    proptest! {
        /// If all delay differences have the same magnitude, the smoothed jitter approaches this magnitude.
        #[test]
        fn the_smoothed_jitter_approaches_a_constant_difference(step in 1u64..1_000_000, n in 400usize..1000) {
            let delays: Vec<u64> = (0..n).map(|at| 5_000_000 + step * (at % 2) as u64).collect();
            let found = Jitter::figures([&of(&delays)]).expect("a jitter");
            prop_assert_eq!(found.mean_ns, step as f64);
            prop_assert!((found.smoothed_ns / step as f64 - 1.0).abs() < 1e-6, "{:?}", found);
        }
    }
}
