//! The ports of fragments, which a feature attaches to packets for later nodes.

use std::fmt::Write;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the feature that finds the [`Ports`] of every IPv4 fragment, and of the packet field that carries
/// them ([`graph::Builder::field_of`]).
pub const PORTS: &str = "ip4-sv-reassembly";

/// The ports of a datagram. For TCP and similar protocols, the first two 16-bit words of the header; for an
/// ICMP echo, its identifier as both ports; for anything else, 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ports {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
}

impl Ports {
    /// Writes a line of a trace.
    pub fn trace(&self, text: &mut String) {
        let _ = write!(text, "ports {} -> {}", self.src, self.dst);
    }
}
