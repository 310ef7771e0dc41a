//! The tables for IPv4 and IPv6 forwarding: addresses, routes, and the results of lookups. The nodes are in
//! [`nodes::ip`](crate::nodes::ip).
//!
//! A lookup returns the index of a **forwarding object** ([`Object`]), whose word contains the action. Prefixes of a VRF with the same
//! paths usually share one object.

mod address;
mod asking;
mod balance;
mod cause;
pub mod extensions;
mod family;
mod fibs;
mod forwarding;
mod kind;
mod object;
mod own;
pub(crate) mod packet;
mod path;
mod path_list;
mod ports;
mod prefix;
mod query;
mod recursion;
mod rib;
mod slab;
mod source;
mod table;
mod track;
mod undelivered;
mod utc;

pub use address::{Address, BadAddress};
pub use balance::{Buckets, Layout, MAX_WAYS};
pub use cause::{Cause, CauseInfo, Causes, Limit};
pub use family::{Ip, PerFamily};
pub use fibs::{Fibs, Leaves};
pub use forwarding::{Forwarding, ForwardingWriters};
pub use kind::ForwardingKind;
pub(crate) use kind::MOST as MOST_KINDS;
pub use object::Object;
pub use own::OwnAddresses;
pub use packet::{Nodes, Packets};
pub use path::{Affected, Network, Path, PathState};
pub use path_list::{BadPaths, PathList, Weighted};
pub use ports::{PORTS, Ports};
pub use prefix::{IpPrefix, Prefix, Prefix4, Prefix6};
pub use query::Sources;
pub use recursion::{Lost, Trail};
pub use source::{Source, SourceNames};
pub use table::{Resolver, RouteError, Routes};
pub use track::Track;
pub use undelivered::Unreachables;
pub use utc::UtcClock;

/// Maximum number of VRFs in which one address is looked up: the first one, and those to which routes lead.
pub(crate) const MAX_TABLES: usize = 9;
