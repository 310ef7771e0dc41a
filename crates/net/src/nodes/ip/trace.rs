//! Trace texts of the nodes that both families have.

use std::fmt::Write;

use graph::trace::Entry;

use crate::ip::Packets;

/// Describes a lookup: the VRF's index and the resulting forwarding index.
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

/// Describes a rewrite: the adjacency's interface and the packet as it will be sent. If the packet was not rewritten, it is shown as
/// received.
pub fn rewrite<A: Packets>(e: &Entry, text: &mut String) {
    match (e.before, e.after) {
        (Some(before), Some(after)) if after.offset < before.offset => {
            let _ = writeln!(text, "tx-if-idx {} adj-idx {}", after.tx_if, before.fwd);
            let _ = write!(text, "{}", wire::describe::detail(e.bytes_after()));
        }
        _ => A::TRACE(e, text),
    }
}
