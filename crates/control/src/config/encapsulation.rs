//! The VLAN tags of a sub-interface: `encapsulation`.

use std::sync::LazyLock;

use model::schema::{Bad, Form, Schema, number, optional, truth};
use model::yaml::{Node, Reader};
use net::ethernet::{Match, Tags};

use crate::intent::VLANS;

/// The VLAN of a tag in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Vlan {
    /// The VLAN with this number.
    One(u16),
    /// Any VLAN.
    Any,
}

/// The form of a VLAN: its number, or `any`.
struct VlanOrAny;

impl Form for VlanOrAny {
    type Value = Vlan;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<Vlan> {
        match r.text(node)? {
            "any" => Some(Vlan::Any),
            _ => number(VLANS).read(r, node).map(Vlan::One),
        }
    }

    fn line(&self, vlan: &Vlan) -> String {
        match vlan {
            Vlan::One(vlan) => vlan.to_string(),
            Vlan::Any => "any".into(),
        }
    }

    fn values(&self) -> String {
        format!("{}, `any`", number(VLANS).values())
    }

    fn examples(&self) -> Vec<Vlan> {
        number(VLANS).examples().into_iter().map(Vlan::One).chain([Vlan::Any]).collect()
    }
}

/// The VLAN tags of a sub-interface, as given in a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Encapsulation {
    dot1q: Option<Vlan>,
    dot1ad: Option<Vlan>,
    inner: Option<Vlan>,
    untagged: bool,
    default: bool,
    exact: Option<bool>,
}

impl From<Match> for Encapsulation {
    fn from(takes: Match) -> Encapsulation {
        let with = |service: bool, outer: Vlan, inner: Option<Vlan>| {
            let (dot1q, dot1ad) = if service { (None, Some(outer)) } else { (Some(outer), None) };
            Encapsulation { dot1q, dot1ad, inner, exact: Some(true), ..Encapsulation::default() }
        };
        match takes {
            Match::Untagged => Encapsulation { untagged: true, ..Encapsulation::default() },
            Match::Default => Encapsulation { default: true, ..Encapsulation::default() },
            Match::Tags(Tags { outer_service, outer, inner }) => {
                with(outer_service, Vlan::One(outer), inner.map(Vlan::One))
            }
            Match::AnyInner { outer_service, outer } => {
                with(outer_service, Vlan::One(outer), Some(Vlan::Any))
            }
            Match::AnyOuter { outer_service } => with(outer_service, Vlan::Any, None),
        }
    }
}

impl Encapsulation {
    /// Returns the match for these tags.
    ///
    /// # Errors
    /// If the fields contradict each other, or tags are missing.
    pub(super) fn takes(&self) -> Result<Match, Bad> {
        let tags = [self.dot1q, self.dot1ad, self.inner];
        if self.untagged || self.default {
            let word = if self.untagged { "untagged" } else { "default" };
            return match (tags == [None; 3], self.untagged && self.default) {
                (true, false) if self.untagged => Ok(Match::Untagged),
                (true, false) => Ok(Match::Default),
                _ => Err(Bad::new(word, "it cannot be combined with tags or another match")),
            };
        }
        let (outer_service, outer) = match (self.dot1q, self.dot1ad) {
            (Some(vlan), None) => (false, vlan),
            (None, Some(vlan)) => (true, vlan),
            _ => return Err(Bad::new("", "one outer tag is needed: dot1q or dot1ad")),
        };
        match (outer, self.inner) {
            (Vlan::One(outer), None) => Ok(Tags { outer_service, outer, inner: None }.into()),
            (Vlan::One(outer), Some(Vlan::One(inner))) => {
                Ok(Tags { outer_service, outer, inner: Some(inner) }.into())
            }
            (Vlan::One(outer), Some(Vlan::Any)) => Ok(Match::AnyInner { outer_service, outer }),
            (Vlan::Any, None) => Ok(Match::AnyOuter { outer_service }),
            (Vlan::Any, Some(_)) => {
                Err(Bad::new("inner-dot1q", "an inner tag needs a number as the outer VLAN, not \"any\""))
            }
        }
    }
}

/// Returns the fields of `encapsulation`.
pub(super) fn encapsulation() -> &'static Schema<Encapsulation> {
    static SCHEMA: LazyLock<Schema<Encapsulation>> = LazyLock::new(|| {
        Schema::new(Encapsulation::default())
            .field(
                "dot1q",
                optional(VlanOrAny),
                |e| e.dot1q,
                |e, vlan| e.dot1q = vlan,
                "The VLAN of an 802.1Q outer tag (Ethernet type 8100).",
            )
            .field(
                "dot1ad",
                optional(VlanOrAny),
                |e| e.dot1ad,
                |e, vlan| e.dot1ad = vlan,
                "The VLAN of an 802.1ad outer tag (Ethernet type 88a8), instead of `dot1q`.",
            )
            .field(
                "inner-dot1q",
                optional(VlanOrAny),
                |e| e.inner,
                |e, vlan| e.inner = vlan,
                "The VLAN of the inner tag. The outer VLAN must then be a number, not `any`.",
            )
            .field(
                "untagged",
                truth(),
                |e| e.untagged,
                |e, untagged| e.untagged = untagged,
                "Matches packets without a tag. The device's own interface then no longer receives them.",
            )
            .field(
                "default",
                truth(),
                |e| e.default,
                |e, default| e.default = default,
                "Matches tagged packets that no other sub-interface takes.",
            )
            .field(
                "exact-match",
                optional(truth()),
                |e| e.exact,
                |e, exact| e.exact = exact,
                "Always true: packets must have exactly the given number of tags.",
            )
            .check(|e| {
                if e.exact == Some(false) {
                    let why = "it must be true: inexact matches need bridging, which is not supported yet";
                    return Err(Bad::new("exact-match", why));
                }
                e.takes().map(|_| ())
            })
    });
    &SCHEMA
}
