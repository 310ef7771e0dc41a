//! Static neighbours.

use std::net::Ipv4Addr;

use wire::Mac;

use super::{Refused, View};
use crate::system::System;

/// A neighbour that the operator named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Its Ethernet address.
    pub mac: Mac,
}

pub(super) fn validate(interface: &str, _: Ipv4Addr, view: &View<'_>) -> Result<(), Refused> {
    view.must_have_interface(interface)?;
    Ok(())
}

impl Neighbor {
    pub(super) fn apply(&self, interface: &str, ip: Ipv4Addr, system: &mut System) -> Result<(), Refused> {
        let index = system.index(interface)?;
        Ok(system.router.add_neighbor(index, ip, self.mac, true)?)
    }

    pub(super) fn withdraw(interface: &str, ip: Ipv4Addr, system: &mut System) -> Result<(), Refused> {
        let index = system.index(interface)?;
        Ok(system.router.remove_neighbor(index, ip)?)
    }

    pub(super) fn dump(&self, interface: &str, ip: Ipv4Addr) -> String {
        format!("set ip neighbor {interface} {ip} {}", self.mac)
    }
}
