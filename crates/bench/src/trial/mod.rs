//! Trials: requests and outcomes.
//!
//! A trial can be *invalid*, for example because the sender fell behind its schedule, or the tester dropped frames.
//! Its result may then be the tester's fault, not the router's. A trial with loss may be valid.

pub mod link;
mod outcome;

pub use outcome::{Failure, Invalid, Measure, Outcome, Request};
