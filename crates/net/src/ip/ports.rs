//! The ports of fragments, which a feature tells those behind it.

use std::fmt::Write;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The feature that knows the [`Ports`] of every fragment of IPv4, and the name of the field of packets by which it tells them
/// ([`graph::Builder::field_of`]).
pub const PORTS: &str = "ip4-sv-reassembly";

/// The ports of a datagram: of TCP and its like the first two words of the header, of an ICMP echo its identifier twice, of
/// anything else 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ports {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
}

impl Ports {
    /// As a line of a trace.
    pub fn trace(&self, text: &mut String) {
        let _ = write!(text, "ports {} -> {}", self.src, self.dst);
    }
}
