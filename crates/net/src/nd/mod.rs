//! Neighbor Discovery except the neighbor table: duplicate address detection (RFC 4862 section 5.4), router
//! advertisements (RFC 4861 section 6.2), and reports of multicast groups (RFC 3810). All are state machines
//! without I/O: they take events and the time, and return actions. [`Router`](crate::router::Router) executes
//! the actions.
//!
//! The neighbor table is in [`crate::neighbor`]; its type is shared with ARP.

mod advertisement;
pub mod advertiser;
pub mod dad;
pub mod listener;

pub use advertisement::{Advertisement, BadAdvice, PrefixAdvice};
pub use dad::Standing;
pub use wire::nd::{Preference, PrefixInformation};
