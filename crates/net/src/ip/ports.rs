//! The ports of fragments. A feature attaches them to packets, and later nodes read them.

use std::fmt::Write;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the feature that finds the [`Ports`] of every IPv4 fragment. It is also the name of the packet
/// field with the ports ([`graph::Builder::field_of`]).
pub const PORTS: &str = "ip4-sv-reassembly";

/// The ports of a datagram. For TCP and similar protocols, they are the first two 16-bit words of the header;
/// for an ICMP echo, both are its identifier; for anything else, both are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ports {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
}

impl Ports {
    /// Appends the ports to `text`, for a line of a trace.
    pub fn trace(&self, text: &mut String) {
        let _ = write!(text, "ports {} -> {}", self.src, self.dst);
    }
}
