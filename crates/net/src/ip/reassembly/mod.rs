//! Fragments: reassembly of what is for this router itself (RFC 1812 section 4.2.2.8, RFC 8200 section 4.5), and shallow virtual
//! reassembly for features that must know the ports of every fragment (IPv4).
//!
//! ```text
//! ip4-local → ip4-full-reassembly → ip4-lookup (whole datagrams), ip4-local (those to groups)
//! (arc ip4-unicast) ip4-sv-reassembly → next feature
//! main thread: a datagram's time is over → ip4-reassembly-expire → ip4-icmp-error
//! ```
//!
//! Datagrams of IPv6 become whole by nodes with a 6 in their names, which are the same types; `family.rs` says what differs.
//!
//! Both kinds keep what they know by VRF, addresses, protocol and identification ([`Key`]) in tables that all workers share: the
//! fragments of a datagram may come to any of them. A table is cut into shards by a hash of the key, each with a lock that is
//! taken once a fragment. [`waiting`] is the bounded part of both, [`table`] and [`ports`] say what fragments mean.
//!
//! Fragments that wait outlive quiescent points. They carry no index into tables of class A: whole datagrams look up again,
//! and those that go on along an arc do so by the interface that they came in by.

mod expire;
mod family;
mod full;
mod ports;
mod shallow;
mod shared;
mod table;
mod waiting;

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, GraphError};

pub(crate) use family::Fragmented;
pub use ports::Ports;
pub use shared::{DatagramView, Kind, Reassembly, Totals};
pub use waiting::{Fill, Limits};

use super::family::Ip;
use crate::Tables;
use crate::router::Hooks;
use full::Reason;
use waiting::Span;

/// Fragments that a datagram can have, at most.
pub const MOST_FRAGMENTS: usize = 256;
/// The feature that tells those behind it the ports of fragments: [`Ports`], in the field that `Builder::field_of` gives by this
/// name.
pub const SHALLOW: &str = "ip4-sv-reassembly";

/// What all fragments of a datagram have in common (RFC 791 section 3.2, RFC 8200 section 4.5), and its VRF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<A: Ip> {
    src: A::Bits,
    dst: A::Bits,
    /// VRF, protocol and identification.
    rest: u64,
}

impl<A: Ip> Key<A> {
    fn new(fib: u16, src: A::Bits, dst: A::Bits, protocol: u8, id: u32) -> Key<A> {
        Key { src, dst, rest: u64::from(fib) << 40 | u64::from(protocol) << 32 | u64::from(id) }
    }

    fn fib(&self) -> u16 {
        (self.rest >> 40) as u16
    }

    fn protocol(&self) -> u8 {
        (self.rest >> 32) as u8
    }

    fn id(&self) -> u32 {
        self.rest as u32
    }
}

/// A fragment, as far as its headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    span: Span,
    /// Whether others follow.
    more: bool,
    /// Bytes in front of its data.
    header: u32,
    /// How many of them count in the length of the datagram.
    counted: u32,
    /// Its ECN code point.
    ecn: u8,
}

impl Fragment {
    /// Whether others follow, though it ends where none can begin.
    fn is_uneven(&self) -> bool {
        self.more && !(self.span.end - self.span.start).is_multiple_of(8)
    }

    /// Whether there can be such a fragment.
    fn check(&self) -> Result<(), Reason> {
        if self.span.end == self.span.start || self.is_uneven() {
            return Err(Reason::Malformed);
        }
        if self.span.end + self.counted > u32::from(u16::MAX) {
            return Err(Reason::TooLong);
        }
        Ok(())
    }
}

/// Adds the nodes; behind those of `ip`.
///
/// # Errors
/// When the main thread can reach no more nodes, or packets have no room for another field.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let tables = t.reassembly.clone();
    let ports = b.feature_field(SHALLOW, Ports::trace)?;
    b.frame(move |_| Ok(shallow::Ip4SvReassembly::new(&tables, ports)));
    b.feature("ip4-unicast", SHALLOW, &[], &["ip4-count"]);
    install_family::<Ipv4Addr>(b, t, hooks)?;
    install_family::<Ipv6Addr>(b, t, hooks)
}

/// Adds the nodes that both families have.
fn install_family<A: Fragmented>(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let tables = t.reassembly.clone();
    b.frame(move |_| Ok(full::FullReassembly::<A>::new(&tables)));
    let tables = t.reassembly.clone();
    b.frame(move |_| Ok(expire::ReassemblyExpire::<A>::new(&tables)));
    hooks.inject(b, A::EXPIRE)
}

#[cfg(test)]
mod lab;
#[cfg(test)]
mod ports_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests6;
