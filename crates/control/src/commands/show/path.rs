//! Paths of routes as JSON.

use std::net::IpAddr;

use net::ip::{Path, Weighted};
use serde::Serialize;

use super::fib::interface_name;
use crate::app::Context;

/// A path: its kind and its target.
#[derive(Clone, Serialize)]
pub(super) struct PathFields {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_hop: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<u32>,
    /// For a path to a feature: the feature's entry for this path, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    /// The share of the flows, relative to the other paths.
    weight: u8,
}

impl PathFields {
    pub(super) fn new(c: &Context, Weighted { path, weight }: Weighted) -> PathFields {
        let kind = match path {
            Path::Via { .. } => "next-hop",
            Path::Attached(_) => "attached",
            Path::Local => "local",
            Path::Drop => "drop",
            Path::Unreachable => "unreachable",
            Path::Prohibit => "prohibit",
            Path::LinkLocal => "link-local",
            Path::Table(_) => "table",
            Path::Feature(..) => "feature",
        };
        PathFields {
            kind,
            next_hop: if let Path::Via { next_hop, .. } = path { Some(next_hop) } else { None },
            interface: match path {
                Path::Via { interface: Some(i), .. } | Path::Attached(i) => Some(interface_name(c, i)),
                _ => None,
            },
            table: if let Path::Table(fib) = path { Some(c.system.router.vrfs().table(fib)) } else { None },
            entry: match path {
                Path::Feature(kind, index) => Some(c.system.router.forwarding_text(kind, index)),
                _ => None,
            },
            weight,
        }
    }

    /// Returns the path of packets without a route.
    pub(super) fn drop() -> PathFields {
        PathFields { kind: "drop", next_hop: None, interface: None, table: None, entry: None, weight: 1 }
    }
}
