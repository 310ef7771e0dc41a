//! Bounds of tables that many share.

use net::ip::reassembly::Kind;

use super::Reading;
use super::document::Node;
use crate::intent::{Key, NeighborBounds, Reassembly, Value, reassembly_name};

/// `settings`: bounds that are not the router's own.
pub(super) fn settings(reading: &mut Reading, node: &Node) {
    let mut fields = reading.r.fields(node);
    if let Some(node) = fields.take("ip4-neighbors") {
        neighbors(reading, node);
    }
    for kind in [Kind::Full, Kind::Shallow] {
        if let Some(node) = fields.take(reassembly_name(kind)) {
            reassembly(reading, node, kind);
        }
    }
    fields.end(&mut reading.r);
}

fn neighbors(reading: &mut Reading, node: &Node) {
    let r = &mut reading.r;
    let mut fields = r.fields(node);
    let limit = fields.take("limit").and_then(|n| r.number(n, 0..=u32::MAX));
    let age = fields.take("age-seconds").and_then(|n| r.number(n, 1..=u32::MAX));
    fields.end(r);
    let bounds = NeighborBounds { limit, age };
    if bounds != NeighborBounds::default() {
        reading.set(node.at, Key::NeighborBounds, Value::NeighborBounds(bounds));
    }
}

fn reassembly(reading: &mut Reading, node: &Node, kind: Kind) {
    let r = &mut reading.r;
    let mut fields = r.fields(node);
    let mut number = |name| fields.take(name).and_then(|n| r.number(n, 1..=u32::MAX));
    let bounds = Reassembly {
        timeout: number("timeout-seconds"),
        datagrams: number("max-reassemblies"),
        fragments: number("max-reassembly-length"),
        buffers: number("max-buffers"),
    };
    fields.end(r);
    if bounds != Reassembly::default() {
        reading.set(node.at, Key::Reassembly(kind), Value::Reassembly(bounds));
    }
}
