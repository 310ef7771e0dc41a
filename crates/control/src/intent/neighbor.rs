//! Static neighbors.

use std::net::IpAddr;

use model::key::{Kind, Need};
use net::ip::Address;
use net::objects;
use net::router::check_neighbor;
use wire::Mac;

use super::index::Find;
use super::{Addresses, Key, Object, Reason, Refused, View, list, refuse_as};
use crate::cli::quote;
use crate::system::{Abilities, Loopback, Spec, System};

/// A static neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Its Ethernet address.
    pub mac: Mac,
}

impl Kind for Neighbor {
    /// Interface and address.
    type Key = (String, IpAddr);
    const NAME: &'static str = "neighbor";
    const PHASE: u16 = 140;

    fn title((interface, ip): &Self::Key) -> String {
        format!("neighbor {ip} on {interface}")
    }
}

impl Neighbor {
    /// Returns the key of a neighbor on an interface.
    pub fn key(interface: &str, ip: IpAddr) -> Key {
        Key::with::<Neighbor>((interface, ip))
    }
}

impl Object<System> for Neighbor {
    fn validate(&self, (interface, ip): &Self::Key, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        let on = view.must_have_interface(interface)?;
        on.can_send(interface)?;
        if matches!(on.spec, Spec::Loopback(_)) && !objects::is_linked(interface, view) {
            let why =
                format!("{interface} is a loopback interface without a bridge domain: it has no neighbors");
            return refuse_as(Reason::Unfit, why);
        }
        check_neighbor(*ip, self.mac)?;
        let own = list(view.get(&Addresses::key(interface)));
        own.iter().try_for_each(|a| apart(*a, *ip, interface))
    }

    fn apply(
        &self,
        (interface, ip): &Self::Key,
        _: Option<&Self>,
        system: &mut System,
    ) -> Result<(), Refused> {
        let index = system.index(interface)?;
        Ok(system.router.add_neighbor(index, *ip, self.mac, true)?)
    }

    fn withdraw(&self, (interface, ip): &Self::Key, system: &mut System) -> Result<(), Refused> {
        let index = system.index(interface)?;
        Ok(system.router.remove_neighbor(index, *ip)?)
    }

    fn dump(&self, (interface, ip): &Self::Key, _: bool) -> Vec<String> {
        vec![format!("set ip neighbor {} {ip} {}", quote(interface), self.mac)]
    }

    fn needs(&self, (interface, _): &Self::Key, to: &mut dyn FnMut(Need)) {
        to(objects::interface(interface));
        // Only a loopback can have this name.
        if Loopback::named(interface).is_some() {
            to(objects::link(interface));
        }
    }
}

/// Checks that a neighbor's address `ip` is neither `own`, an address of the router, nor the first or last
/// address of the network of `own`.
pub(super) fn apart(own: Address, ip: IpAddr, interface: &str) -> Result<(), Refused> {
    let network = own.network();
    if own.address == ip {
        let why = format!("{ip} is the router's own address on {interface}, so it cannot be a neighbor");
        return refuse_as(Reason::AddressTaken, why);
    }
    if own.is_end(ip) {
        let why = format!(
            "{ip} is the first or last address of {network} on {interface}, so it cannot be a neighbor"
        );
        return refuse_as(Reason::Value, why);
    }
    Ok(())
}
