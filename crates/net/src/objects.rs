//! References from configuration objects to the VRFs and interfaces that they need. A reference consists of a role and an identity. Also
//! defines the traits of a program that contains a router.

use std::net::IpAddr;

use model::key::{Need, Role};
use model::object::{Refused, World};
use model::tuple::{Part, Push, Rest, Tuple};

use crate::ip::IpPrefix;
use crate::router::{Router, RouterError};

/// The role of a VRF, identified by its table number.
pub static TABLE: Role = Role {
    name: "table",
    title: |id| id.get::<u32>().map_or_else(|| "a table".into(), |table| format!("table {table}")),
};

/// The role by which objects of the configuration refer to an interface or sub-interface. The name identifies the interface.
pub static INTERFACE: Role = Role {
    name: "interface",
    title: |id| id.get::<String>().map_or_else(|| "an interface".into(), |name| format!("interface {name}")),
};

/// Returns the reference by which an object of the configuration states that it needs a VRF; `None` for VRF 0, which always exists.
pub fn table(table: u32) -> Option<Need> {
    (table != 0).then(|| Need::new(&TABLE, table))
}

/// Returns the reference by which an object of the configuration states that it needs an interface.
pub fn interface(name: &str) -> Need {
    Need::new(&INTERFACE, name)
}

/// Properties of a router that never change while it runs. Features read them during validation, on any thread.
pub trait Ability {
    /// Number of packet buffers at the start. Buffers that were added later do not count, because a configuration must also be valid at the
    /// next start.
    fn buffers(&self) -> usize;

    /// The names of the punt reasons.
    fn punt_reasons(&self) -> &[&'static str];
}

/// A program with a router; features apply their configuration objects to it.
pub trait Host: World<Abilities: Ability> {
    /// The router.
    fn router(&mut self) -> &mut Router;

    /// Returns the index of the interface with this name.
    ///
    /// # Errors
    /// If no interface has this name.
    fn index(&self, name: &str) -> Result<u32, Refused>;
}

impl From<RouterError> for Refused {
    fn from(e: RouterError) -> Self {
        Refused::new(e.to_string()).because(e.reason())
    }
}

/// Orders prefixes so that a network comes before the networks inside it.
impl Push for IpPrefix {
    fn push(&self, to: &mut Tuple) {
        (self.address(), self.len()).push(to);
    }
}
impl Part for IpPrefix {
    fn pull(from: &mut Rest<'_>) -> Option<IpPrefix> {
        let (address, len) = <(IpAddr, u8)>::pull(from)?;
        Some(IpPrefix::new(address, len))
    }
}
