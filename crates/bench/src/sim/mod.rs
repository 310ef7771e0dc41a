//! Simulated routers in virtual time: what searches and the accounting of a trial are tested against.
//!
//! A [`Router`] answers whole trials by arithmetic, so that a search of hundreds of hours takes microseconds; a
//! [`Path`] passes frame after frame, and keeps the truth about what it did to them. Both are seeded: a run can be
//! repeated. A [`link()`] passes real frames through a path, in real time. A [`Nat`] keeps a table of connections, frame by frame.

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
