//! The VLAN tags of a sub-interface: `encapsulation`.

use std::sync::LazyLock;

use model::schema::{Bad, Schema, number, optional, truth};
use net::ethernet::Tags;

use crate::intent::VLANS;

/// The tags in a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Encapsulation {
    dot1q: Option<u16>,
    dot1ad: Option<u16>,
    inner: Option<u16>,
    exact: bool,
}

impl From<Tags> for Encapsulation {
    fn from(Tags { outer_service, outer, inner }: Tags) -> Encapsulation {
        let (dot1q, dot1ad) = if outer_service { (None, Some(outer)) } else { (Some(outer), None) };
        Encapsulation { dot1q, dot1ad, inner, exact: true }
    }
}

impl Encapsulation {
    /// Returns the tags; `None` unless there is exactly one outer tag, as [`encapsulation`] requires.
    pub(super) fn tags(&self) -> Option<Tags> {
        let (outer_service, outer) = match (self.dot1q, self.dot1ad) {
            (Some(vlan), None) => (false, vlan),
            (None, Some(vlan)) => (true, vlan),
            _ => return None,
        };
        Some(Tags { outer_service, outer, inner: self.inner })
    }
}

/// Returns the fields of `encapsulation`.
pub(super) fn encapsulation() -> &'static Schema<Encapsulation> {
    static SCHEMA: LazyLock<Schema<Encapsulation>> = LazyLock::new(|| {
        Schema::new(Encapsulation { dot1q: None, dot1ad: None, inner: None, exact: true })
            .field(
                "dot1q",
                optional(number(VLANS)),
                |e| e.dot1q,
                |e, vlan| e.dot1q = vlan,
                "The VLAN of an 802.1Q outer tag (Ethernet type 8100).",
            )
            .field(
                "dot1ad",
                optional(number(VLANS)),
                |e| e.dot1ad,
                |e, vlan| e.dot1ad = vlan,
                "The VLAN of an 802.1ad outer tag (Ethernet type 88a8), instead of `dot1q`.",
            )
            .field(
                "inner-dot1q",
                optional(number(VLANS)),
                |e| e.inner,
                |e, vlan| e.inner = vlan,
                "The VLAN of the inner tag.",
            )
            .field(
                "exact-match",
                truth(),
                |e| e.exact,
                |e, exact| e.exact = exact,
                "Matches only packets with exactly these tags.",
            )
            .always()
            .check(|e| {
                if !e.exact {
                    let why = "it must be true: other matches are for bridging, which is not supported yet";
                    return Err(Bad::new("exact-match", why));
                }
                match e.tags() {
                    None => Err(Bad::new("", "one outer tag is needed: dot1q or dot1ad")),
                    Some(_) => Ok(()),
                }
            })
    });
    &SCHEMA
}
