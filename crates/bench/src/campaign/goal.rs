//! An MLRsearch goal in a campaign's file.

use serde::{Deserialize, Serialize};

use super::seconds::Seconds;
use crate::search::BadInput;
use crate::search::mlr::Goal;

/// A search goal (RFC 9971). Attributes default to those of CSIT's non-drop rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GoalSpec {
    /// Name in reports.
    pub name: String,
    /// Loss ratio above which a trial is a high-loss trial: from 0 to below 1.
    pub loss_ratio: f64,
    /// Share of the total trial time that high-loss trials may take.
    pub exceed_ratio: f64,
    /// Target distance between the two bounds, as a share of the upper bound.
    pub width: f64,
    /// Duration of the search's first trials.
    pub initial_seconds: Seconds,
    /// Full trial duration. Shorter trials can count against a load, but not for it.
    pub final_seconds: Seconds,
    /// Total time of the trials that are needed to decide about a load.
    pub sum_seconds: Seconds,
}

impl Default for GoalSpec {
    fn default() -> GoalSpec {
        let ndr = Goal::csit_ndr();
        GoalSpec {
            name: ndr.name,
            loss_ratio: ndr.loss_ratio,
            exceed_ratio: ndr.exceed_ratio,
            width: ndr.width,
            initial_seconds: Seconds(ndr.initial_duration),
            final_seconds: Seconds(ndr.final_duration),
            sum_seconds: Seconds(ndr.duration_sum),
        }
    }
}

impl GoalSpec {
    /// Returns the goal as the search uses it.
    pub fn goal(&self) -> Goal {
        Goal {
            name: self.name.clone(),
            loss_ratio: self.loss_ratio,
            exceed_ratio: self.exceed_ratio,
            width: self.width,
            initial_duration: self.initial_seconds.0,
            final_duration: self.final_seconds.0,
            duration_sum: self.sum_seconds.0,
        }
    }

    /// Checks the attributes.
    ///
    /// # Errors
    /// Returns the first invalid attribute.
    pub fn check(&self) -> Result<(), BadInput> {
        self.goal().check()
    }
}
