//! Neighbor Discovery besides the neighbours themselves: duplicate address detection (RFC 4862 section 5.4), and the
//! advertisements of a router (RFC 4861 section 6.2). Both are protocols without I/O: events and the time in, actions out.
//!
//! The neighbours are in [`crate::neighbor`], in a table that is the same for ARP.

pub mod advertiser;
pub mod dad;
