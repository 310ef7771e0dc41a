//! A goal of MLRsearch, as a campaign's file has it.

use serde::{Deserialize, Serialize};

use super::seconds::Seconds;
use crate::search::BadInput;
use crate::search::mlr::Goal;

/// A search goal (RFC 9971): attributes that are not given are those of CSIT's non-drop rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GoalSpec {
    /// What reports call it.
    pub name: String,
    /// A trial that loses more is a high-loss trial: 0 to below 1.
    pub loss_ratio: f64,
    /// The share of the time that may be spent in high-loss trials.
    pub exceed_ratio: f64,
    /// How near the bounds come, as a share of the upper one.
    pub width: f64,
    /// The search begins with trials of so many seconds.
    pub initial_seconds: Seconds,
    /// A shorter trial counts for less.
    pub final_seconds: Seconds,
    /// So many seconds of trials decide about a load.
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
    /// The goal.
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

    /// Whether it makes sense.
    ///
    /// # Errors
    /// The first attribute that does not.
    pub fn check(&self) -> Result<(), BadInput> {
        self.goal().check()
    }
}
