//! Kinds of forwarding that features have: their packets go to a node of the feature.

use graph::{Builder, GraphError};

use super::packet::Packets;
use crate::Tables;
use crate::router::{Hooks, Router};

/// A kind of forwarding that a feature has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForwardingKind(u8);

/// Kinds at most: what the low byte of an [`Object`](super::Object)'s word has room for besides the router's own kinds.
pub(crate) const MOST: usize = 240;

impl ForwardingKind {
    pub(super) fn to_raw(self) -> u8 {
        self.0
    }

    /// Whether it forwards packets of a family.
    pub(crate) fn takes<A: Packets>(self, t: &Tables) -> bool {
        A::tables(t).kinds.get(self.0.into()).is_some()
    }

    pub(super) fn from_raw(raw: u8) -> ForwardingKind {
        ForwardingKind(raw)
    }
}

/// What a feature says of a kind of forwarding.
pub struct KindInfo {
    /// Its name, which no other kind has.
    pub name: &'static str,
    /// Where its IPv4 packets go, with the index of the entry as forwarding index; `None` if it has none.
    pub ip4: Option<&'static str>,
    /// Where its IPv6 packets go; `None` if it has none.
    pub ip6: Option<&'static str>,
    /// What `show ip fib` says of an entry.
    pub show: fn(&Router, u32) -> String,
}

impl Hooks {
    /// What its feature says of a kind.
    pub(crate) fn kind(&self, kind: ForwardingKind) -> Option<&KindInfo> {
        self.kinds.get(usize::from(kind.0))
    }

    /// Declares a kind of forwarding. Routes lead to an entry of it by [`Path::Feature`](super::Path::Feature); what has an index in
    /// the feature's table stays there until no route leads to it and workers have passed.
    ///
    /// # Errors
    /// When the name is taken, there are too many, or the lookup has no room for another edge.
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
