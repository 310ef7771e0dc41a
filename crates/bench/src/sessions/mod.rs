//! Connections through a stateful router: RFC 9693, benchmarking of stateful NATxy gateways.
//!
//! ```text
//!                    198.18.0.2:p → 198.19.0.2:q             198.19.0.1:p' → 198.19.0.2:q
//!   initiator (port 0) ──────────────────────────▶  router  ──────────────────────────▶ (port 1) responder
//!                      ◀──────────────────────────          ◀──────────────────────────
//! ```
//!
//! In the first phase the initiator sends one frame on each connection; each connection has a different four-tuple. The responder learns
//! the four-tuples with which the frames leave the router. In the second phase the responder sends a frame back on each connection. A frame
//! that reaches the initiator proves that the router has the connection. The [`engine`](crate::engine) makes and counts the frames as in
//! any trial; the four-tuples are lists in templates.

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
