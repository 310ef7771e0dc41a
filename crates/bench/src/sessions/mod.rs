//! Connections through a stateful router: RFC 9693, benchmarking of stateful NATxy gateways.
//!
//! ```text
//!                    198.18.0.2:p → 198.19.0.2:q             198.19.0.1:p' → 198.19.0.2:q
//!   initiator (port 0) ──────────────────────────▶  router  ──────────────────────────▶ (port 1) responder
//!                      ◀──────────────────────────          ◀──────────────────────────
//! ```
//!
//! In the first phase the initiator sends one frame of each connection, no two of the same, and the responder learns as what they come
//! out of the router. In the second one the responder sends a frame back on each: what comes to the initiator proves that the router has
//! the connection. Frames are made and accounted for by the [`engine`](crate::engine) as in any trial; four-tuples are lists in templates.

mod attempt;
pub mod capacity;
pub mod rate;
mod table;
mod tuple;

pub use attempt::{Attempt, Establish, Phases, attempt};
pub use table::Table;
pub use tuple::{MOST, Tuple, tuples, with};

#[cfg(test)]
mod tests;
