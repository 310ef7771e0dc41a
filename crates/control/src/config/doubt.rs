//! Rules that hold for configuration files, but not for commands.
//!
//! The rules protect the author of a file from mistakes, as vppcfg does. Commands may break them: for example, an operator sets a device
//! with sub-interfaces down for maintenance. The router must then still accept its own configuration.

use crate::intent::{Interface, Key, Tree};

/// An interface that breaks a rule for files.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// The sub-interface is up while the interface that carries it is down.
    Up {
        /// The sub-interface.
        sub: Key,
        /// The interface that carries it.
        over: Key,
    },
    /// The MTU of the sub-interface exceeds that of the interface that carries it.
    Mtu {
        /// The sub-interface.
        sub: Key,
        /// The interface that carries it.
        over: Key,
    },
}

impl Doubt {
    /// True if the same interfaces break this rule in the configuration `tree`, too.
    pub fn is_in(&self, tree: &Tree) -> bool {
        let (Doubt::Up { sub, over } | Doubt::Mtu { sub, over }) = self;
        let interface = |key| tree.get(key).and_then(|value| value.get::<Interface>());
        let (Some(sub), Some(over)) = (interface(sub), interface(over)) else { return false };
        match self {
            Doubt::Up { .. } => sub.up && !over.up,
            Doubt::Mtu { .. } => sub.mtu.zip(over.mtu).is_some_and(|(sub, over)| sub > over),
        }
    }
}
