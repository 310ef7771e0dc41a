//! Bounds of tables that many share.

use net::ip::reassembly::Kind;

use super::Reading;
use crate::intent::{Family, NeighborBounds, PUNT_RATES, PuntRate, Reassembly};
use model::yaml::Node;

/// `settings`: bounds that are not the router's own.
pub(super) fn settings(reading: &mut Reading<'_>, node: &Node) {
    let mut fields = reading.r.fields(node);
    for family in Family::ALL {
        if let Some(node) = fields.take(neighbors_name(family)) {
            neighbors(reading, node, family);
        }
    }
    if let Some(node) = fields.take("punt-rates") {
        punt_rates(reading, node);
    }
    for kind in Kind::ALL {
        if let Some(node) = fields.take(kind.name()) {
            reassembly(reading, node, kind);
        }
    }
    fields.end(&mut reading.r);
}

/// The name of the bounds of a family's neighbours.
pub(super) fn neighbors_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip4-neighbors",
        Family::V6 => "ip6-neighbors",
    }
}

fn neighbors(reading: &mut Reading<'_>, node: &Node, family: Family) {
    let r = &mut reading.r;
    let mut fields = r.fields(node);
    let limit = fields.take("limit").and_then(|n| r.number(n, 0..=u32::MAX));
    let age = fields.take("age-seconds").and_then(|n| r.number(n, 1..=u32::MAX));
    fields.end(r);
    let bounds = NeighborBounds { limit, age };
    if bounds != NeighborBounds::default() {
        reading.set(node.at, NeighborBounds::key(family), bounds);
    }
}

/// Of each reason its packets a second.
fn punt_rates(reading: &mut Reading<'_>, node: &Node) {
    for (name, at, node) in reading.r.entries(node) {
        if let Some(rate) = reading.r.number(node, PUNT_RATES) {
            reading.set(at, PuntRate::key(name), PuntRate(rate));
        }
    }
}

fn reassembly(reading: &mut Reading<'_>, node: &Node, kind: Kind) {
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
        reading.set(node.at, Reassembly::key(kind), bounds);
    }
}
