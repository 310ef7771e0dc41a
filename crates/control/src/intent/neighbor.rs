//! Static neighbours, and the bounds of the table that they are in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::ip::Address;
use net::neighbor::{self, Config};
use net::router::check_neighbor;
use wire::Mac;

use super::{Family, Key, Refused, Spec, View, list, refuse};
use crate::system::System;

/// A second in the nanoseconds of the bounds.
const SECOND: u64 = 1_000_000_000;

/// A neighbour that the operator named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Its Ethernet address.
    pub mac: Mac,
}

impl Neighbor {
    pub(super) fn validate(&self, interface: &str, ip: IpAddr, view: &View<'_>) -> Result<(), Refused> {
        if matches!(view.must_have_interface(interface)?.spec, Spec::Loopback(_)) {
            return refuse(format!("{interface} is a loopback interface: it has no neighbours"));
        }
        check_neighbor(ip, self.mac)?;
        let own = list(view.get(&Key::Addresses(interface.into())));
        own.iter().try_for_each(|a| apart(*a, ip, interface))
    }

    pub(super) fn apply(&self, interface: &str, ip: IpAddr, system: &mut System) -> Result<(), Refused> {
        let index = system.index(interface)?;
        Ok(system.router.add_neighbor(index, ip, self.mac, true)?)
    }

    pub(super) fn withdraw(interface: &str, ip: IpAddr, system: &mut System) -> Result<(), Refused> {
        let index = system.index(interface)?;
        Ok(system.router.remove_neighbor(index, ip)?)
    }

    pub(super) fn dump(&self, interface: &str, ip: IpAddr) -> String {
        format!("set ip neighbor {interface} {ip} {}", self.mac)
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

impl NeighborBounds {
    /// Whether the bounds, or those without them, are enough for the static neighbours.
    pub(super) fn validate(
        family: Family,
        wanted: Option<NeighborBounds>,
        view: &View<'_>,
    ) -> Result<(), Refused> {
        if wanted == Some(NeighborBounds::default()) {
            return refuse("the bounds of the table of neighbours bound nothing: leave them out");
        }
        let config = wanted.unwrap_or_default().config(family);
        if config.max_age == 0 {
            return refuse("the age is at least one second");
        }
        let of_family = |key: &Key| matches!(key, Key::Neighbor(_, ip) if Family::of(*ip) == family);
        let named = view.iter().filter(|(key, _)| of_family(key)).count();
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

    pub(super) fn apply(self, family: Family, system: &mut System) {
        let config = self.config(family);
        match family {
            Family::V4 => system.router.set_neighbor_config::<Ipv4Addr>(config),
            Family::V6 => system.router.set_neighbor_config::<Ipv6Addr>(config),
        }
    }

    pub(super) fn dump(self, family: Family) -> String {
        let word = |name: &str, n: Option<u32>| n.map(|n| format!(" {name} {n}")).unwrap_or_default();
        let (limit, age) = (word("limit", self.limit), word("age", self.age));
        format!("set ip neighbor-config {}{limit}{age}", family.word())
    }
}
