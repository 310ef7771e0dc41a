//! Neighbor Discovery besides the neighbours themselves: duplicate address detection (RFC 4862 section 5.4), the advertisements of
//! a router (RFC 4861 section 6.2), and what is said of groups (RFC 3810). All are protocols without I/O: events and the time
//! in, actions out; [`Router`](crate::router::Router) carries them out.
//!
//! The neighbours are in [`crate::neighbor`], in a table that is the same for ARP.

mod advertisement;
pub mod advertiser;
pub mod dad;
pub mod listener;

pub use advertisement::{Advertisement, BadAdvice, PrefixAdvice};
pub use dad::Standing;
pub use wire::nd::{Preference, PrefixInformation};
