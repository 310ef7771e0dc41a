//! What objects of the configuration are to each other in a router, and what features apply theirs to.

use std::net::IpAddr;

use model::key::{Need, Role};
use model::object::{Refused, World};
use model::tuple::{Part, Push, Rest, Tuple};

use crate::ip::IpPrefix;
use crate::router::{Router, RouterError};

/// A VRF, by its number.
pub static TABLE: Role = Role {
    name: "table",
    title: |id| id.get::<u16>().map_or_else(|| "a table".into(), |table| format!("table {table}")),
};

/// An interface or sub-interface, by its name.
pub static INTERFACE: Role = Role {
    name: "interface",
    title: |id| id.get::<String>().map_or_else(|| "an interface".into(), |name| format!("interface {name}")),
};

/// That there is this VRF; nothing for the one that is always there.
pub fn table(table: u16) -> Option<Need> {
    (table != 0).then(|| Need::new(&TABLE, table))
}

/// That there is this interface.
pub fn interface(name: &str) -> Need {
    Need::new(&INTERFACE, name)
}

/// What a router has from its start to its end, as far as features ask when they validate, on any thread.
pub trait Ability {
    /// Packet buffers that there were at the start. What holds with those that were added must hold at the next start, too.
    fn buffers(&self) -> usize;

    /// Why packets go to the main thread: the names of the reasons.
    fn punt_reasons(&self) -> &[&'static str];
}

/// What features apply their objects to: a program with a router.
pub trait Host: World<Abilities: Ability> {
    /// The router.
    fn router(&mut self) -> &mut Router;

    /// Index of the interface with this name.
    ///
    /// # Errors
    /// When there is none.
    fn index(&self, name: &str) -> Result<u32, Refused>;
}

impl From<RouterError> for Refused {
    fn from(e: RouterError) -> Self {
        Refused(e.0)
    }
}

/// In the order of prefixes: a network stands before what is in it.
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
