//! A trial: what is asked of it, and what came of it.
//!
//! A trial can be *invalid*, because the sender fell behind its schedule, say, or the tester dropped frames: it says nothing of the
//! router then. That is something else than a trial with loss.

pub mod link;
mod outcome;

pub use outcome::{Failure, Invalid, Measure, Outcome, Request};
