//! Outage times of system recovery (RFC 2544 section 26.5) and reset (RFC 2544 section 26.6, RFC 6201), computed from the times and losses
//! that a trial reports. All times are on the same clock of the tester; their origin does not matter.

use std::time::Duration;

/// Returns the load that overloads the router, in frames per second: 110 % of its throughput, but at most the link's maximum. It must be
/// sent for at least 60 s (RFC 2544 section 26.5).
pub fn overload_fps(throughput_fps: f64, max_fps: f64) -> f64 {
    (throughput_fps * 1.1).min(max_fps)
}

/// Returns the load during recovery, in frames per second: half of the overload, not of the throughput (RFC 2544 section 26.5).
pub fn relief_fps(overload_fps: f64) -> f64 {
    overload_fps / 2.0
}

/// Returns the system recovery time, B − A (RFC 2544 section 26.5). A is `reduced_at`, when the load was halved. B is when the last lost
/// frame was sent, because a lost frame has no time of arrival. Returns zero if no frame was lost after A.
pub fn recovery_time(reduced_at: Duration, last_lost_at: Option<Duration>) -> Duration {
    last_lost_at.map_or(Duration::ZERO, |last| last.saturating_sub(reduced_at))
}

/// Returns the reset time by RFC 6201's frame-loss method: lost frames / offered frames per second. Both numbers must cover the same
/// directions. CSIT calls the same figure the effective blocked time of a configuration change.
///
/// The reset must be the only cause of loss: the load must be at most the throughput, and the trial must outlast the outage. `None` if the
/// rate is not above 0, or the time is out of range.
pub fn reset_time_by_loss(lost: u64, offered_fps: f64) -> Option<Duration> {
    (offered_fps > 0.0).then(|| Duration::try_from_secs_f64(lost as f64 / offered_fps).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Path;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn overload_is_110_percent_and_relief_half_of_it() {
        assert!((overload_fps(1e6, 14.88e6) - 1.1e6).abs() < 1e-6);
        assert_eq!(overload_fps(1e6, 1.05e6), 1.05e6);
        assert_eq!(relief_fps(1.1e6), 5.5e5);
    }

    #[test]
    fn recovery_is_from_the_change_to_the_last_loss() {
        assert_eq!(recovery_time(MS(60_000), Some(MS(60_250))), MS(250));
        assert_eq!(recovery_time(MS(60_000), Some(MS(59_000))), MS(0));
        assert_eq!(recovery_time(MS(60_000), None), MS(0));
    }

    #[test]
    fn the_reset_time_follows_from_the_lost_frames() {
        assert_eq!(reset_time_by_loss(12_500, 1e4), Some(MS(1_250)));
        assert_eq!((reset_time_by_loss(1, 0.0), reset_time_by_loss(1, f64::NAN)), (None, None));
        assert_eq!(reset_time_by_loss(u64::MAX, 1e-9), None);
    }

    #[test]
    fn an_overloaded_queue_recovers_with_the_lower_load() {
        // The capacity is 1 million frames per second, with a queue of 1000. Overload for 50 ms, then half of it. Losses end with the
        // overload: a full queue has room again as soon as frames arrive more slowly than they leave.
        let mut path = Path::new(1).capacity(1e6, 1000);
        let (mut sent_ns, mut last_lost) = (0.0, None);
        for seq in 0..100_000 {
            let load = if sent_ns < 50e6 { 1.1e6 } else { 5.5e5 };
            if path.pass(sent_ns as u64, seq).next().is_none() {
                last_lost = Some(Duration::from_nanos(sent_ns as u64));
            }
            sent_ns += 1e9 / load;
        }
        assert!(path.truth().lost > 1000);
        assert!(recovery_time(MS(50), last_lost) < Duration::from_micros(10));
    }
}
