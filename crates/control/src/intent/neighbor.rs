//! Static neighbours, and the bounds of the table that they are in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::key::{Kind, Need};
use net::ip::Address;
use net::neighbor::{self, Config};
use net::objects;
use net::router::check_neighbor;
use wire::Mac;

use super::index::Find;
use super::{Abilities, Addresses, Family, Key, Object, Refused, Spec, View, list, refuse};
use crate::cli::quote;
use crate::system::System;

/// A second in the nanoseconds of the bounds.
const SECOND: u64 = 1_000_000_000;

/// A neighbour that the operator named.
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
    /// The key of a neighbour on an interface.
    pub fn key(interface: &str, ip: IpAddr) -> Key {
        Key::with::<Neighbor>((interface, ip))
    }
}

impl Object<System> for Neighbor {
    fn validate(&self, (interface, ip): &Self::Key, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        if matches!(view.must_have_interface(interface)?.spec, Spec::Loopback(_)) {
            return refuse(format!("{interface} is a loopback interface: it has no neighbours"));
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
    }
}

/// No neighbour has an address of the router's, or one that is no host's on its network.
pub(super) fn apart(own: Address, ip: IpAddr, interface: &str) -> Result<(), Refused> {
    let network = own.network();
    if own.address == ip {
        return refuse(format!("{ip} is the router's own address on {interface}, no neighbour's"));
    }
    if own.is_end(ip) {
        return refuse(format!(
            "{ip} is the first or last address of {network} on {interface}, no neighbour's"
        ));
    }
    Ok(())
}

/// The bounds of the table of neighbours of a family, where they are not the router's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeighborBounds {
    /// Entries in all, at most.
    pub limit: Option<u32>,
    /// Seconds after which a learned entry is asked again.
    pub age: Option<u32>,
}

impl Kind for NeighborBounds {
    type Key = Family;
    const NAME: &'static str = "neighbor-bounds";
    const PHASE: u16 = 22;

    fn title(family: &Family) -> String {
        format!("the bounds of the table of {} neighbours", family.name())
    }
}

impl Object<System> for NeighborBounds {
    fn validate(&self, family: &Family, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        if *self == NeighborBounds::default() {
            return refuse("the bounds of the table of neighbours bound nothing: leave them out");
        }
        self.are_enough(*family, view)
    }

    fn validate_absence(family: &Family, view: &View<'_>) -> Result<(), Refused> {
        NeighborBounds::default().are_enough(*family, view)
    }

    fn apply(&self, family: &Family, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        self.set(*family, system);
        Ok(())
    }

    fn withdraw(&self, family: &Family, system: &mut System) -> Result<(), Refused> {
        NeighborBounds::default().set(*family, system);
        Ok(())
    }

    fn dump(&self, family: &Family, _: bool) -> Vec<String> {
        let word = |name: &str, n: Option<u32>| n.map(|n| format!(" {name} {n}")).unwrap_or_default();
        let (limit, age) = (word("limit", self.limit), word("age", self.age));
        vec![format!("set ip neighbor-config {}{limit}{age}", family.word())]
    }
}

impl NeighborBounds {
    /// The key of the bounds of a family.
    pub fn key(family: Family) -> Key {
        Key::of::<NeighborBounds>(&family)
    }

    /// Whether the bounds are enough for the static neighbours.
    fn are_enough(self, family: Family, view: &View<'_>) -> Result<(), Refused> {
        let config = self.config(family);
        if config.max_age == 0 {
            return refuse("the age is at least one second");
        }
        let of_family = |key: &Key| key.get::<Neighbor>().is_some_and(|(_, ip)| Family::of(ip) == family);
        let named = view.range(Key::all::<Neighbor>()).filter(|(key, _)| of_family(key)).count();
        if named > config.max_entries {
            return refuse(format!(
                "there are {named} static {} neighbours, more than the limit of {}: forget some first",
                family.name(),
                config.max_entries
            ));
        }
        Ok(())
    }

    fn config(self, family: Family) -> Config {
        let own = match family {
            Family::V4 => <Ipv4Addr as neighbor::Family>::CONFIG,
            Family::V6 => <Ipv6Addr as neighbor::Family>::CONFIG,
        };
        Config {
            max_entries: self.limit.map_or(own.max_entries, |limit| limit as usize),
            max_age: self.age.map_or(own.max_age, |age| u64::from(age) * SECOND),
            ..own
        }
    }

    fn set(self, family: Family, system: &mut System) {
        let config = self.config(family);
        match family {
            Family::V4 => system.router.set_neighbor_config::<Ipv4Addr>(config),
            Family::V6 => system.router.set_neighbor_config::<Ipv6Addr>(config),
        }
    }
}
