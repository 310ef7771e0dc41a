//! Modes of ports: what becomes of frames that come in by an interface instead of being routed. Bridges and cross-connects have one.

use graph::{Builder, GraphError};

use crate::Tables;
use crate::router::{Hooks, Router, RouterError};

/// A mode that a feature has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMode {
    pub(super) number: u8,
    /// Its name for people.
    pub name: &'static str,
}

/// Modes at most.
pub(crate) const MOST: usize = 32;

impl Hooks {
    /// Declares a mode of ports by its name for people, and the node that takes all frames which come in by an interface in this mode:
    /// those of a sub-interface with its tags, those of a device that are of no sub-interface. They begin with their Ethernet header
    /// and are to any station; those to groups are marked.
    ///
    /// # Errors
    /// When there are too many, or `ethernet-input` has no room for another edge.
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
    /// When there is no such interface, or it has a mode of another feature's already.
    pub fn set_port_mode(&mut self, index: u32, mode: Option<PortMode>) -> Result<(), RouterError> {
        let info = self.info_mut(index)?;
        if let (Some(has), Some(wanted)) = (info.mode, mode)
            && has != wanted
        {
            let name = &info.name;
            return Err(RouterError(format!(
                "{name} is in the mode {} already: take it out first",
                has.name
            )));
        }
        info.mode = mode;
        self.near.publish(index)
    }
}
