//! Additions of features to interfaces and routes: kinds of interfaces, port modes, and forwarding kinds.

use graph::{Builder, GraphError};
use model::reason::Reason;
use wire::Mac;

use super::{Hooks, Router, RouterError};
use crate::ethernet::{PortMode, PortModeInfo};
use crate::interface::{InterfaceKind, InterfaceKindInfo, Kind};
use crate::ip::{ForwardingKind, MOST_KINDS};
use crate::tables::Tables;

/// Description of a forwarding kind. If a route leads to an entry of this kind, its packets are passed to a node of the feature.
pub struct KindInfo {
    /// Name of the kind; no other kind may have it.
    pub name: &'static str,
    /// The node for IPv4 packets. They carry the index of the kind's entry as their forwarding index. `None`
    /// if IPv4 routes cannot lead to this kind.
    pub ip4: Option<&'static str>,
    /// The node for IPv6 packets. They carry the index of the kind's entry as their forwarding index. `None`
    /// if IPv6 routes cannot lead to this kind.
    pub ip6: Option<&'static str>,
    /// Returns the text of the entry with this index for `show ip fib`.
    pub show: fn(&Router, u32) -> String,
}

impl Hooks {
    /// Returns the description of a forwarding kind.
    pub(crate) fn kind(&self, kind: ForwardingKind) -> Option<&KindInfo> {
        self.kinds.get(usize::from(kind.to_raw()))
    }

    /// Declares a forwarding kind. Routes with [`Path::Feature`](crate::ip::Path::Feature) lead to an entry of this kind. The feature must
    /// keep an entry in its table until no route leads to the entry and a grace period has passed.
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
            return Err(refused("another forwarding kind has this name"));
        }
        let number = u8::try_from(self.kinds.len()).ok().filter(|n| usize::from(*n) < MOST_KINDS);
        let number = number.ok_or_else(|| refused("all 240 forwarding kinds are in use"))?;
        if let Some(node) = info.ip4 {
            t.ip4.kinds.register(b, number.into(), node)?;
        }
        if let Some(node) = info.ip6 {
            t.ip6.kinds.register(b, number.into(), node)?;
        }
        self.kinds.push(info);
        Ok(ForwardingKind::from_raw(number))
    }

    /// Declares a kind of interfaces.
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
        // There are at most `interface::MOST_KINDS` kinds, because the registry refuses higher numbers. So this does not overflow.
        let number = self.interface_kinds.len() as u8;
        t.interface_kinds.register(b, number.into(), node)?;
        self.interface_kinds.push(name);
        Ok(InterfaceKind { number, point_to_point, name })
    }

    /// Declares a port mode. Its node gets the frames received on an interface in the mode; of a sub-interface, the frames that match it.
    /// Frames begin with their Ethernet header and may have any destination.
    ///
    /// # Errors
    /// If there are too many modes, or `ethernet-input` has no room for another edge.
    pub fn port_mode(
        &mut self,
        b: &mut Builder,
        t: &Tables,
        PortModeInfo { name, node, whole }: PortModeInfo,
    ) -> Result<PortMode, GraphError> {
        let number = self.port_modes;
        t.port_modes.register(b, number.into(), node)?;
        self.port_modes += 1;
        Ok(PortMode { number, name, whole })
    }
}

impl Router {
    /// Adds an interface of a feature's kind, which is down and has no addresses. After the interface is
    /// [removed](Router::remove_interface), workers may send to it until a grace period has passed.
    ///
    /// # Errors
    /// If the name is taken, or there are too many interfaces.
    pub fn add_feature_interface(
        &mut self,
        name: &str,
        kind: InterfaceKind,
        mac: Mac,
        mtu: u16,
    ) -> Result<u32, RouterError> {
        self.add_without_device(name, Kind::Feature(kind), mac, mtu)
    }

    /// Gives a loopback a link with neighbors, which a feature serves: frames sent out of the loopback go to the node of `link`, and the feature
    /// passes received frames to `ethernet-input`. `None` takes the link away. A loopback that is up goes down for the change, so nothing
    /// that was learned about its link stays.
    ///
    /// # Errors
    /// If the interface does not exist or is no loopback, or if its routes cannot be changed. Nothing is changed then.
    pub fn set_link(&mut self, index: u32, link: Option<InterfaceKind>) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        let (Kind::Loopback(before), was_up) = (info.kind, info.admin_up) else {
            return Err(RouterError::new(format!("{} is not a loopback", info.name)).because(Reason::Unfit));
        };
        if before == link {
            return Ok(());
        }
        let down = self.set_admin(index, false);
        let changed = down.and_then(|()| self.relink(index, link, was_up));
        if changed.is_err()
            && let Err(e) = self.relink(index, before, was_up)
        {
            tracing::error!("interface {index}: rollback of a refused change failed: {e}");
        }
        changed
    }

    /// Changes the link of a loopback, and sets it up or down. Makes all steps, and returns the first error.
    fn relink(&mut self, index: u32, link: Option<InterfaceKind>, up: bool) -> Result<(), RouterError> {
        self.info_mut(index)?.kind = Kind::Loopback(link);
        let changed = self.changed(index);
        changed.and(self.set_admin(index, up))
    }

    /// Sets the port mode of an interface, in which a feature takes the received frames. With `None`, received frames are routed.
    ///
    /// # Errors
    /// If the interface does not exist, receives no Ethernet frames, or is in another mode already.
    pub fn set_port_mode(&mut self, index: u32, mode: Option<PortMode>) -> Result<(), RouterError> {
        let info = self.info_mut(index)?;
        if let (Some(has), Some(wanted)) = (info.mode, mode)
            && has != wanted
        {
            let name = &info.name;
            return Err(RouterError::new(format!(
                "{name} is in the mode {} already: make it a routed interface first",
                has.name
            )));
        }
        if mode.is_some() && (!info.kind.has_neighbors() || matches!(info.kind, Kind::Loopback(_))) {
            return Err(RouterError::new(format!("{} receives no Ethernet frames", info.name)));
        }
        info.mode = mode;
        self.near.publish(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{Parts, Sizes};

    fn with(names: &'static [&'static str]) -> Result<Parts, RouterError> {
        let install = |b: &mut Builder, t: &Tables, hooks: &mut Hooks| {
            crate::testing::install(b, t, hooks)?;
            let info = |name| InterfaceKindInfo { name, node: "error-drop", point_to_point: false };
            names.iter().try_for_each(|name| hooks.interface_kind(b, t, info(name)).map(drop))
        };
        Router::build(install, &Sizes { buffers: 64, workers: 1 })
    }

    #[test]
    fn two_kinds_cannot_have_one_name() {
        assert!(with(&["pipe", "tube"]).is_ok());
        let why = with(&["pipe", "pipe"]).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(why.contains("there is an interface kind pipe already"), "{why}");
    }
}
