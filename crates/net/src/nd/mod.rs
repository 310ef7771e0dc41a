//! Neighbor Discovery except the neighbor table: duplicate address detection (RFC 4862 section 5.4), and reports
//! of multicast groups (RFC 3810). Both are state machines without I/O: they take events and the time, and return
//! actions. [`Router`](crate::router::Router) executes the actions.
//!
//! The neighbor table is in [`crate::neighbor`]; its type is shared with ARP.

pub mod dad;
pub mod listener;

pub use dad::Standing;
