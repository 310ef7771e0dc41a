//! The record of a trial: everything that is known of it, as one document.

use serde::{Deserialize, Serialize};

use super::procedure::Procedure;
use super::results::{Delays, Key, Usage};
use crate::trial::Outcome;

/// A trial of a campaign. All of them are kept, also those that were repeated because they were invalid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What was measured.
    pub key: Key,
    /// For which procedure.
    pub procedure: Procedure,
    /// Its repetition, from 1 on.
    pub repetition: u32,
    /// When it began: RFC 3339, UTC.
    pub at: String,
    /// What came of it, all flows together.
    pub outcome: Outcome,
    /// What came of each flow, direction by direction.
    pub flows: Vec<Flow>,
    /// Frames that came by another port than they should.
    pub astray: u64,
    /// Frames that came, and were none of this trial's.
    pub foreign: u64,
    /// Of those, questions for hosts behind each port, which were answered (ARP, Neighbor Discovery).
    #[serde(default)]
    pub asked: Vec<u64>,
    /// Delays of all frames of all flows that carry their time.
    pub delays: Option<Delays>,
    /// What it took of processors and of energy.
    pub usage: Usage,
}

/// What came of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The number of its direction, from 0 on.
    pub direction: usize,
    /// Its name in the description of the traffic.
    pub name: String,
    /// Frames that should have been sent.
    pub intended: u64,
    /// Frames that the port took.
    pub sent: u64,
    /// Frames that the port refused, because its ring was full.
    pub refused: u64,
    /// Frames that the tester had no buffer for.
    pub unmade: u64,
    /// Different frames that came back.
    pub received: u64,
    /// Frames that had come before.
    pub duplicated: u64,
    /// Frames that came behind one that was sent later (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Frames that were overdue at once, at most.
    pub lag: u64,
    /// How fast the sender was for 10 ms or 256 frames at most, as a multiple of the rate.
    pub fastest: f64,
    /// How long sending took, as a multiple of what it should have.
    pub late: f64,
    /// When the last frame that was lost should have been sent, in seconds from the start.
    pub last_lost: Option<f64>,
    /// When the last frame that came should have been sent, in seconds from the start.
    pub last_received: Option<f64>,
}
