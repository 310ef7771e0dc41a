//! Simulated routers in virtual time, for tests of searches and of a trial's accounting.
//!
//! A [`Router`] computes the outcome of a whole trial, so that a search of hundreds of hours takes microseconds. A [`Path`] passes frames
//! one by one, and records their exact counts and delays. Both use seeds, so runs are repeatable. A [`link()`] passes real frames through a
//! path in real time. A [`Nat`] keeps a table of connections, frame by frame.

mod delay;
mod link;
mod nat;
mod path;
mod random;
mod router;
#[cfg(test)]
mod tests;

pub use delay::Delay;
pub use link::{Watched, link};
pub use nat::{Full, Nat};
pub use path::{Arrival, Frames, Path, Truth, reordered};
pub use random::Random;
pub use router::Router;
