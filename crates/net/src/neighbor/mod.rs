//! Neighbors: resolves next hops to Ethernet addresses (ARP, RFC 826; RFC 1812 section 3.3.2; RFC 5227).
//!
//! Workers check received messages, hold packets that wait for a next hop, and ask the main thread to resolve the next hop. The protocol
//! itself runs on the main thread.
//!
//! The neighbor table ([`Neighbors`]) and the queues of waiting packets (`waiting`) use the same code for
//! both families. For IPv6, the table also implements neighbor unreachability detection (RFC 4861 section
//! 7.3).
//!
//! An IPv4 address is used as soon as the operator adds it to an interface: it is announced, and defended as
//! long as the router has it. It is not probed first as in RFC 5227 section 2.1, since a router must not wait
//! for its addresses.

mod config;
mod entries;
mod family;
mod message;
mod nud;
mod show;
mod table;

pub use config::Config;
pub use entries::{Entries, Entry, Key, State};
pub use family::Family;
pub(crate) use message::{Outcome, Release, read_ask, write_ask};
pub use show::NeighborView;
pub use table::{Action, Counters, Event, Neighbors};

#[cfg(test)]
mod nud_tests;
#[cfg(test)]
mod table_tests;
