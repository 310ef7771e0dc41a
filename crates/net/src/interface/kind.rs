//! Kinds of interfaces that features have: tunnels, and the like.
//!
//! Whatever leaves by such an interface is an Ethernet frame, as everywhere, so that features on the arc `interface-output` and captures
//! need not know. Behind that arc it goes to the feature's node, which takes the header off where nobody needs it. What the feature
//! receives enters by `ethernet-input`, or without an Ethernet header by `ip4-input` and `ip6-input`, with the interface and its VRF.

use graph::{Builder, GraphError};
use wire::Mac;

use super::table::Kind;
use crate::Tables;
use crate::router::{Hooks, Router, RouterError};

/// A kind of interfaces that a feature has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceKind {
    pub(super) number: u8,
    pub(super) point_to_point: bool,
    pub(super) name: &'static str,
}

/// What a feature says of a kind of interfaces.
pub struct InterfaceKindInfo {
    /// Its name for people.
    pub name: &'static str,
    /// Where the frames go that leave by such an interface.
    pub node: &'static str,
    /// Whether there is one other station on the link at most, as behind a tunnel: its Ethernet address is zeros, and nobody is asked.
    pub point_to_point: bool,
}

/// Kinds at most.
pub(crate) const MOST: usize = 64;

impl Hooks {
    /// Declares a kind of interfaces.
    ///
    /// # Errors
    /// When there is one of this name, or too many, or the node that sends has no room for another edge.
    pub fn interface_kind(
        &mut self,
        b: &mut Builder,
        t: &Tables,
        info: InterfaceKindInfo,
    ) -> Result<InterfaceKind, GraphError> {
        let InterfaceKindInfo { name, node, point_to_point } = info;
        if self.interface_kinds.contains(&name) {
            return Err(GraphError(format!("there is a kind of interfaces {name} already")));
        }
        // No more than `MOST`.
        let number = self.interface_kinds.len() as u8;
        t.interface_kinds.register(b, number.into(), node)?;
        self.interface_kinds.push(name);
        Ok(InterfaceKind { number, point_to_point, name })
    }
}

impl Router {
    /// Adds an interface of a feature's kind, down and without addresses. Nobody sends by it when it was
    /// [removed](Router::remove_interface) and workers have passed.
    ///
    /// # Errors
    /// When the name is taken, or there is no room.
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
    fn a_name_is_one_kinds() {
        assert!(with(&["pipe", "tube"]).is_ok());
        let why = with(&["pipe", "pipe"]).err().map(|e| e.0).unwrap_or_default();
        assert!(why.contains("there is a kind of interfaces pipe already"), "{why}");
    }
}
