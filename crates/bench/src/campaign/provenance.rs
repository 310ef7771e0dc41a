//! Where and when a campaign was run.

use serde::{Deserialize, Serialize};

/// What must be known to judge a number, or to measure it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// When it began: RFC 3339, UTC.
    pub begun: String,
    /// Facts about machine and programs, as names and values, in the order in which reports show them.
    pub facts: Vec<(String, String)>,
}
