//! Texts that nodes add to a trace.

use std::fmt::Write;

use graph::trace::Entry;

use crate::ip::Packets;

/// Describes a packet that begins with its Ethernet header: as the node received it, or as it left if the node wrote
/// the header.
pub fn ethernet(e: &Entry, text: &mut String) {
    let _ = write!(text, "{}", wire::describe::line(e.bytes_before()));
}

/// Describes a packet that begins with its IPv4 header.
pub fn ip4(e: &Entry, text: &mut String) {
    let _ = write!(text, "{}", wire::describe::detail_ipv4(e.bytes_before()));
}

/// Describes a packet that begins with its IPv6 header.
pub fn ip6(e: &Entry, text: &mut String) {
    let _ = write!(text, "{}", wire::describe::detail_ipv6(e.bytes_before()));
}

/// Describes a lookup: the VRF's ID and the result.
pub fn lookup<A: Packets>(e: &Entry, text: &mut String) {
    if let Some(s) = e.after {
        let _ = write!(text, "fib {} fwd-idx {}", e.vrf, s.fwd);
        if s.hash != 0 {
            let _ = write!(text, " flow hash: 0x{:08x}", s.hash);
        }
        text.push('\n');
    }
    A::TRACE(e, text);
}

/// Describes a rewrite: the adjacency's interface and the packet as it will be sent. A packet that takes another path
/// is shown as received.
pub fn rewrite<A: Packets>(e: &Entry, text: &mut String) {
    match (e.before, e.after) {
        (Some(before), Some(after)) if after.offset < before.offset => {
            let _ = writeln!(text, "tx-if-idx {} adj-idx {}", after.tx_if, before.fwd);
            let _ = write!(text, "{}", wire::describe::detail(e.bytes_after()));
        }
        _ => A::TRACE(e, text),
    }
}
