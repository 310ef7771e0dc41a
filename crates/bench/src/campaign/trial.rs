//! The record of a trial: one document with all its data.

use serde::{Deserialize, Serialize};

use super::procedure::Procedure;
use super::results::{Delays, Key, Usage};
use crate::engine::limits::Absence;
use crate::engine::receiver::Damaged;
use crate::trial::Outcome;

/// A trial of a campaign. All trials are stored, including invalid ones that were repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Key of the measured cell: router, traffic, frame size and options of the test.
    pub key: Key,
    /// Procedure that ran the trial.
    pub procedure: Procedure,
    /// Repetition of the procedure, from 1 on.
    pub repetition: u32,
    /// Start time: RFC 3339, UTC.
    pub at: String,
    /// Outcome of all flows together.
    pub outcome: Outcome,
    /// Outcome of each flow. The flows of the first direction come first.
    pub flows: Vec<Flow>,
    /// Frames that arrived on the wrong port.
    pub astray: u64,
    /// Received frames that do not belong to this trial.
    pub foreign: u64,
    /// For each port, the number of ARP and Neighbor Discovery requests for hosts behind the port. The tester
    /// answered them; they are part of `foreign`.
    #[serde(default)]
    pub asked: Vec<u64>,
    /// Delays that the tester itself caused; `None` in trials of older versions, which did not measure them.
    #[serde(default)]
    pub absence: Option<Absence>,
    /// Delays of the time-stamped frames of all flows; `None` if none of these frames arrived.
    pub delays: Option<Delays>,
    /// Processor time and energy.
    pub usage: Usage,
}

/// Outcome of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Number of the flow's direction, from 0 on.
    pub direction: usize,
    /// Name in the traffic's description.
    pub name: String,
    /// Frames that should have been sent.
    pub intended: u64,
    /// Frames that the port accepted.
    pub sent: u64,
    /// Frames that the port refused because its send ring was full.
    pub refused: u64,
    /// Frames that were not made because the tester had no free buffer.
    pub unmade: u64,
    /// Distinct frames received.
    pub received: u64,
    /// Frames received more than once.
    pub duplicated: u64,
    /// Frames that arrived after one that was sent later (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Frames that arrived damaged. They do not count as received.
    #[serde(default)]
    pub damaged: Damaged,
    /// Largest number of frames of the flow that were overdue at the same time.
    pub lag: u64,
    /// Upper limit, in seconds, for the longest delay between a frame's due time and its departure; `None` in trials of older versions,
    /// which did not measure it.
    #[serde(default)]
    pub behind: Option<f64>,
    /// Peak sending rate over at least 10 ms and 256 frames, as a multiple of the intended rate.
    pub fastest: f64,
    /// Actual duration of sending, as a multiple of the intended duration.
    pub late: f64,
    /// Scheduled sending time of the last lost frame, in seconds from the start; `None` if no frame was lost.
    pub last_lost: Option<f64>,
    /// Scheduled sending time of the last received frame, in seconds from the start; `None` if no frame was received.
    pub last_received: Option<f64>,
}
