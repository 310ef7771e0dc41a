//! Trials: requests and outcomes.
//!
//! A trial can be *invalid*, for example because the sender fell behind its schedule, or the tester dropped frames. It then does not
//! describe the router. That is different from a trial with loss.

pub mod link;
mod outcome;

pub use outcome::{Failure, Invalid, Measure, Outcome, Request};
