//! Limits of a valid trial in a campaign's file.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::limits::Limits;

/// Limits beyond which a trial is invalid. A limit that is set here overrides the testbed's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ValiditySpec {
    /// Maximum delay in microseconds between a frame's due time and its departure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_us: Option<f64>,
    /// Maximum number of frames of a port that may be overdue at the same time. Overdue frames leave as one burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_frames: Option<u64>,
    /// Maximum time in microseconds that received frames may wait for the tester.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub away_us: Option<f64>,
    /// Maximum share of the time, in percent, in which the tester may wait for a processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_percent: Option<f64>,
    /// Maximum share of processor time, in percent, that the host of a virtual machine may take away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen_percent: Option<f64>,
}

impl ValiditySpec {
    /// Checks that each limit is in its range.
    ///
    /// # Errors
    /// Returns the first fault, with its key.
    pub fn check(&self) -> Result<(), String> {
        let times = [("late-us", self.late_us), ("away-us", self.away_us)];
        for (key, value) in times {
            if value.is_some_and(|us| !(1.0..=1e6).contains(&us)) {
                return Err(format!("{key}: must be from 1 to 1000000 microseconds"));
            }
        }
        let shares = [("waited-percent", self.waited_percent), ("stolen-percent", self.stolen_percent)];
        for (key, value) in shares {
            if value.is_some_and(|share| !(0.0..=100.0).contains(&share)) {
                return Err(format!("{key}: must be from 0 to 100"));
            }
        }
        if self.burst_frames.is_some_and(|n| !(1..=1_000_000).contains(&n)) {
            return Err("burst-frames: must be from 1 to 1000000".into());
        }
        Ok(())
    }

    /// Returns the limits with these overrides.
    pub fn over(&self, limits: Limits) -> Limits {
        let time = |us: Option<f64>, other| us.map_or(other, |us| Duration::from_secs_f64(us / 1e6));
        let share = |percent: Option<f64>, other| percent.map_or(other, |percent| percent / 100.0);
        Limits {
            behind: time(self.late_us, limits.behind),
            queue: self.burst_frames.unwrap_or(limits.queue),
            away: time(self.away_us, limits.away),
            waited: share(self.waited_percent, limits.waited),
            stolen: share(self.stolen_percent, limits.stolen),
            ..limits
        }
    }

    /// True if no limit is overridden. JSON then omits the key `validity`, so that a campaign stored before this key existed still
    /// equals the campaign in its file.
    pub fn is_empty(&self) -> bool {
        *self == ValiditySpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_override_single_limits() {
        let spec = ValiditySpec { late_us: Some(50.0), waited_percent: Some(2.0), ..ValiditySpec::default() };
        assert_eq!(spec.check(), Ok(()));
        let limits = spec.over(Limits::VIRTUAL);
        assert_eq!(limits.behind, Duration::from_micros(50));
        assert_eq!(Limits { behind: Limits::VIRTUAL.behind, waited: 0.001, ..limits }, Limits::VIRTUAL);
        assert_eq!(limits.waited, 0.02);
    }

    #[test]
    fn impossible_limits_are_refused() {
        let none = ValiditySpec::default;
        for (spec, key) in [
            (ValiditySpec { late_us: Some(0.0), ..none() }, "late-us"),
            (ValiditySpec { away_us: Some(f64::NAN), ..none() }, "away-us"),
            (ValiditySpec { burst_frames: Some(0), ..none() }, "burst-frames"),
            (ValiditySpec { waited_percent: Some(101.0), ..none() }, "waited-percent"),
            (ValiditySpec { stolen_percent: Some(-1.0), ..none() }, "stolen-percent"),
        ] {
            assert!(spec.check().is_err_and(|e| e.starts_with(key)), "{key}");
        }
    }
}
