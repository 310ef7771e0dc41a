//! Forwarding kinds of features: their packets go to a node of the feature.

use graph::{Builder, GraphError};

use super::packet::Packets;
use crate::Tables;
use crate::router::{Hooks, Router};

/// A forwarding kind registered by a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForwardingKind(u8);

/// Maximum number of kinds: the values of the low byte of an [`Object`](super::Object)'s word besides the
/// router's own kinds.
pub(crate) const MOST: usize = 240;

impl ForwardingKind {
    pub(super) fn to_raw(self) -> u8 {
        self.0
    }

    /// True if the kind forwards packets of family `A`.
    pub(crate) fn takes<A: Packets>(self, t: &Tables) -> bool {
        A::tables(t).kinds.get(self.0.into()).is_some()
    }

    pub(super) fn from_raw(raw: u8) -> ForwardingKind {
        ForwardingKind(raw)
    }
}

/// Description of a forwarding kind.
pub struct KindInfo {
    /// Name of the kind, unique among kinds.
    pub name: &'static str,
    /// The node for its IPv4 packets, with the entry's index as forwarding index; `None` without IPv4.
    pub ip4: Option<&'static str>,
    /// The node for its IPv6 packets; `None` without IPv6.
    pub ip6: Option<&'static str>,
    /// Returns the text for an entry in `show ip fib`.
    pub show: fn(&Router, u32) -> String,
}

impl Hooks {
    /// Returns the description of a kind.
    pub(crate) fn kind(&self, kind: ForwardingKind) -> Option<&KindInfo> {
        self.kinds.get(usize::from(kind.0))
    }

    /// Declares a forwarding kind. Routes lead to one of its entries by [`Path::Feature`](super::Path::Feature). An
    /// entry must stay in the feature's table until no route leads to it and a grace period has passed.
    ///
    /// # Errors
    /// If the name is taken, there are too many kinds, or the lookup node has no room for another edge.
    pub fn forwarding_kind(
        &mut self,
        b: &mut Builder,
        t: &Tables,
        info: KindInfo,
    ) -> Result<ForwardingKind, GraphError> {
        let refused = |why: &str| GraphError(format!("routes cannot lead to \"{}\": {why}", info.name));
        if self.kinds.iter().any(|other| other.name == info.name) {
            return Err(refused("another kind of forwarding has this name"));
        }
        let number = u8::try_from(self.kinds.len()).ok().filter(|n| usize::from(*n) < MOST);
        let number = number.ok_or_else(|| refused("there are 240 kinds already"))?;
        if let Some(node) = info.ip4 {
            t.ip4.kinds.register(b, number.into(), node)?;
        }
        if let Some(node) = info.ip6 {
            t.ip6.kinds.register(b, number.into(), node)?;
        }
        self.kinds.push(info);
        Ok(ForwardingKind(number))
    }
}
