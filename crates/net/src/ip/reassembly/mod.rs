//! Fragments: reassembly of what is for this router itself (RFC 1812 section 4.2.2.8), and shallow virtual reassembly for
//! features that must know the ports of every fragment.
//!
//! ```text
//! ip4-local → ip4-full-reassembly → ip4-lookup (whole datagrams), ip4-local (those to groups)
//! (arc ip4-unicast) ip4-sv-reassembly → next feature
//! main thread: a datagram's time is over → ip4-reassembly-expire → ip4-icmp-error
//! ```
//!
//! Both keep what they know by VRF, addresses, protocol and identification ([`Key`]) in tables that all workers share: the
//! fragments of a datagram may come to any of them. A table is cut into shards by a hash of the key, each with a lock that is
//! taken once a fragment. [`waiting`] is the bounded part of both, [`table`] and [`ports`] say what fragments mean.
//!
//! Fragments that wait outlive quiescent points. They carry no index into tables of class A: whole datagrams look up again,
//! and those that go on along an arc do so by the interface that they came in by.

mod expire;
mod full;
mod ports;
mod shallow;
mod shared;
mod table;
mod waiting;

use buf::Packet;
use graph::{Builder, GraphError};
use wire::Ipv4Header;

pub use ports::Ports;
pub use shared::{DatagramView, Kind, Reassembly, Totals};
pub use waiting::{Fill, Limits};

use crate::Tables;
use crate::router::Hooks;
use full::Reason;
use waiting::Span;

/// Fragments that a datagram can have, at most.
pub const MOST_FRAGMENTS: usize = 256;
/// The feature that tells those behind it the ports of fragments: [`Ports`], in the field that `Builder::field_of` gives by this
/// name.
pub const SHALLOW: &str = "ip4-sv-reassembly";
/// The node that takes fragments for this router.
pub(crate) const FULL: &str = "ip4-full-reassembly";
/// The node that the main thread tells that a datagram's time is over.
pub(crate) const EXPIRE: &str = "ip4-reassembly-expire";

/// What all fragments of a datagram have in common (RFC 791 section 3.2), and its VRF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Source and destination, host order.
    addresses: u64,
    /// VRF, protocol and identification.
    rest: u64,
}

impl Key {
    /// The key of the datagram that the IPv4 packet `h` in VRF `fib` is a fragment of.
    pub fn new(fib: u16, h: &Ipv4Header) -> Key {
        let rest = u64::from(fib) << 32 | u64::from(h.protocol()) << 16 | u64::from(h.id());
        Key { addresses: u64::from(h.src_u32()) << 32 | u64::from(h.dst_u32()), rest }
    }
}

/// A fragment, as far as its header tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fragment {
    span: Span,
    /// Whether others follow.
    more: bool,
    /// Bytes of its own header.
    header: u32,
    /// Its ECN code point.
    ecn: u8,
}

impl Fragment {
    /// The fragment that begins with its IPv4 header, which is whole and as long as it says.
    fn of(p: &mut Packet<'_>) -> Fragment {
        let buffers = p.segments().count() as u32;
        let h = p.peek::<Ipv4Header>();
        let (start, header) = (u32::from(h.fragment_offset()), h.header_len() as u32);
        let end = start + u32::from(h.total_len()).saturating_sub(header);
        Fragment { span: Span { start, end, buffers }, more: h.more_fragments(), header, ecn: h.ecn() }
    }

    /// Whether there can be such a fragment.
    fn check(&self) -> Result<(), Reason> {
        let len = self.span.end - self.span.start;
        if len == 0 || (self.more && !len.is_multiple_of(8)) {
            return Err(Reason::Malformed);
        }
        if self.span.end + self.header > u32::from(u16::MAX) {
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
    b.frame(move |_| Ok(full::Ip4FullReassembly::new(&tables)));
    let tables = t.reassembly.clone();
    let ports = b.feature_field(SHALLOW, Ports::trace)?;
    b.frame(move |_| Ok(shallow::Ip4SvReassembly::new(&tables, ports)));
    b.feature("ip4-unicast", SHALLOW, &[], &["ip4-count"]);
    let tables = t.reassembly.clone();
    b.frame(move |_| Ok(expire::Ip4ReassemblyExpire::new(&tables)));
    hooks.inject(b, EXPIRE)
}

#[cfg(test)]
mod ports_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
