//! Port modes: features that take an interface's received frames before routing, such as bridges and cross-connects.

use graph::{Builder, GraphError};

use crate::Tables;
use crate::router::{Hooks, Router, RouterError};

/// A port mode that a feature registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMode {
    pub(super) number: u8,
    /// Name of the mode for operators.
    pub name: &'static str,
}

/// Maximum number of modes.
pub(crate) const MOST: usize = 32;

impl Hooks {
    /// Declares a port mode, with its name for operators and the node for all frames received on an interface in this
    /// mode. On a device in this mode, the node gets the frames that match none of its sub-interfaces; on a
    /// sub-interface, those that match it. Frames begin with their Ethernet header and may be to any station. Frames
    /// to group addresses are marked.
    ///
    /// # Errors
    /// If there are too many modes, or `ethernet-input` has no room for another edge.
    pub fn port_mode(
        &mut self,
        b: &mut Builder,
        t: &Tables,
        name: &'static str,
        node: &str,
    ) -> Result<PortMode, GraphError> {
        let number = self.port_modes;
        t.port_modes.register(b, number.into(), node)?;
        self.port_modes += 1;
        Ok(PortMode { number, name })
    }
}

impl Router {
    /// Sets the mode of an interface; `None`: it is routed.
    ///
    /// # Errors
    /// If the interface does not exist, or is in another mode already.
    pub fn set_port_mode(&mut self, index: u32, mode: Option<PortMode>) -> Result<(), RouterError> {
        let info = self.info_mut(index)?;
        if let (Some(has), Some(wanted)) = (info.mode, mode)
            && has != wanted
        {
            let name = &info.name;
            return Err(RouterError(format!(
                "{name} is in the mode {} already: leave that mode first",
                has.name
            )));
        }
        info.mode = mode;
        self.near.publish(index)
    }
}
