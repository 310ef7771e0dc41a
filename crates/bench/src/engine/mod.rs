//! Runs trials: senders keep a schedule, receivers account for every frame.

pub mod host;
pub mod receiver;
pub mod run;
pub mod schedule;
pub mod sender;
pub mod stamp;
