//! Times in a campaign's file.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::search::profile::Waits;

/// A time in seconds: 0 to a year.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(pub Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_f64(self.0.as_secs_f64())
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Seconds, D::Error> {
        let seconds = f64::deserialize(d)?;
        let sensible = (0.0..=31_536_000.0).contains(&seconds);
        let fault = || de::Error::invalid_value(de::Unexpected::Float(seconds), &"seconds, 0 to 31536000");
        sensible.then(|| Seconds(Duration::from_secs_f64(seconds))).ok_or_else(fault)
    }
}

/// Waits around a trial, in seconds (RFC 2544 section 23). A wait that is set here overrides the profile's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct WaitsSpec {
    /// Wait for frames that are still in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residual: Option<Seconds>,
    /// Wait for the router to become stable before the next trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restabilise: Option<Seconds>,
    /// Wait after the warm-up, which runs once for each traffic and size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_learning: Option<Seconds>,
}

impl WaitsSpec {
    /// Returns the profile's waits with these overrides.
    pub fn over(&self, waits: Waits) -> Waits {
        let or = |ours: Option<Seconds>, theirs| ours.map_or(theirs, |s| s.0);
        Waits {
            residual: or(self.residual, waits.residual),
            restabilise: or(self.restabilise, waits.restabilise),
            after_learning: or(self.after_learning, waits.after_learning),
            ..waits
        }
    }
}
