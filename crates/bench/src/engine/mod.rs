//! Runs trials: senders send frames by a schedule, and receivers count every frame.

pub mod check;
pub mod host;
mod lanes;
pub mod limits;
pub mod receiver;
pub mod run;
pub mod schedule;
pub mod sender;
mod sending;
pub mod stamp;
