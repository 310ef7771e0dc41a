//! Trace texts that several nodes use.

use std::fmt::Write;

use graph::trace::Entry;

/// Describes a packet that begins with its Ethernet header, as it was before the node. For an input node, this is the packet as received.
pub fn ethernet(e: &Entry, text: &mut String) {
    let _ = write!(text, "{}", wire::describe::line(e.bytes_before()));
}

/// Describes a packet that begins with its IPv4 header, as it was before the node.
pub fn ip4(e: &Entry, text: &mut String) {
    let _ = write!(text, "{}", wire::describe::detail_ipv4(e.bytes_before()));
}

/// Describes a packet that begins with its IPv6 header, as it was before the node.
pub fn ip6(e: &Entry, text: &mut String) {
    let _ = write!(text, "{}", wire::describe::detail_ipv6(e.bytes_before()));
}
