//! Neighbor Discovery except the neighbors themselves: duplicate address detection (RFC 4862 section 5.4),
//! router advertisements (RFC 4861 section 6.2), and reports of multicast groups (RFC 3810). All are
//! protocols without I/O: events and the time in, actions out. [`Router`](crate::router::Router) executes the
//! actions.
//!
//! The neighbors are in [`crate::neighbor`], in a table type shared with ARP.

mod advertisement;
pub mod advertiser;
pub mod dad;
pub mod listener;

pub use advertisement::{Advertisement, BadAdvice, PrefixAdvice};
pub use dad::Standing;
pub use wire::nd::{Preference, PrefixInformation};
