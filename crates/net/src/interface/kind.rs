//! Interface kinds of features, such as tunnels.
//!
//! Frames sent out of such an interface have an Ethernet header, like all others. So captures and features on the arc
//! `interface-output` need no special case. After the arc they go to the feature's node, which removes the
//! header if it is not needed. Received packets enter at `ethernet-input`, or, without an Ethernet header, at
//! `ip4-input` and `ip6-input`, with interface and VRF set.

use graph::{Builder, GraphError};
use wire::Mac;

use super::table::Kind;
use crate::Tables;
use crate::router::{Hooks, Router, RouterError};

/// An interface kind that a feature registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceKind {
    pub(super) number: u8,
    pub(super) point_to_point: bool,
    pub(super) name: &'static str,
}

/// The declaration of an interface kind.
pub struct InterfaceKindInfo {
    /// Name of the kind for operators.
    pub name: &'static str,
    /// The node for frames sent out of such an interface.
    pub node: &'static str,
    /// True if the link has at most one other station, like a tunnel. Its Ethernet address is then all zeros, and is
    /// never resolved.
    pub point_to_point: bool,
}

/// Maximum number of kinds.
pub(crate) const MOST: usize = 64;

impl Hooks {
    /// Declares an interface kind.
    ///
    /// # Errors
    /// If the name is taken, there are too many kinds, or `interface-tx` has no room for another edge.
    pub fn interface_kind(
        &mut self,
        b: &mut Builder,
        t: &Tables,
        info: InterfaceKindInfo,
    ) -> Result<InterfaceKind, GraphError> {
        let InterfaceKindInfo { name, node, point_to_point } = info;
        if self.interface_kinds.contains(&name) {
            return Err(GraphError(format!("there is an interface kind {name} already")));
        }
        // No more than `MOST`.
        let number = self.interface_kinds.len() as u8;
        t.interface_kinds.register(b, number.into(), node)?;
        self.interface_kinds.push(name);
        Ok(InterfaceKind { number, point_to_point, name })
    }
}

impl Router {
    /// Adds an interface of a feature's kind, down and without addresses. After it is
    /// [removed](Router::remove_interface) and a grace period has passed, no worker sends to it.
    ///
    /// # Errors
    /// If the name is taken, or there is no room.
    pub fn add_feature_interface(
        &mut self,
        name: &str,
        kind: InterfaceKind,
        mac: Mac,
        mtu: u16,
    ) -> Result<u32, RouterError> {
        self.add_without_device(name, Kind::Feature(kind), mac, mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{Parts, Sizes};

    fn with(names: &'static [&'static str]) -> Result<Parts, RouterError> {
        let install = |b: &mut Builder, t: &Tables, hooks: &mut Hooks| {
            crate::install(b, t, hooks)?;
            let info = |name| InterfaceKindInfo { name, node: "error-drop", point_to_point: false };
            names.iter().try_for_each(|name| hooks.interface_kind(b, t, info(name)).map(drop))
        };
        Router::build(install, &Sizes { buffers: 64, workers: 1 })
    }

    #[test]
    fn two_kinds_cannot_have_one_name() {
        assert!(with(&["pipe", "tube"]).is_ok());
        let why = with(&["pipe", "pipe"]).err().map(|e| e.0).unwrap_or_default();
        assert!(why.contains("there is an interface kind pipe already"), "{why}");
    }
}
