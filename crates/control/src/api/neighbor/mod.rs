//! The module `ip_neighbor`: neighbors of both families.
#![allow(non_camel_case_types)]

mod events;
mod messages;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use net::neighbor::{Entry, Key, State};
use net::router::Routed;
use vapi::types::{address_family, interface_index};
use vapi::wire::Array;
use vapi::{Caller, Code, DONE, Done, Table};
use wire::Mac;

use super::{change, numbers};
use crate::app::{Again, Context, Failure};
use crate::intent::{self, Change, Family, Neighbor, Snapshot};
use crate::neighbors::NeighborBounds;
use messages::*;

pub(super) use events::look;

/// The `stats_index` of all neighbors: neighbors have no counters.
const NO_COUNTERS: u32 = u32::MAX;
const SECOND: u64 = 1_000_000_000;

/// Registers the module.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("ip_neighbor", [1, 0, 1])
        .request::<ip_neighbor_add_del>(|c, _, q| {
            add_del(c, q.is_add, &q.neighbor)?;
            Ok(ip_neighbor_add_del_reply { stats_index: NO_COUNTERS })
        })
        .dump::<ip_neighbor_dump, _>(|_, q| {
            let wanted = q.sw_if_index;
            let is_ip4 = q.af == address_family::ADDRESS_IP4;
            let mut v4 = is_ip4.then(|| Dump::<Ipv4Addr>::new(wanted));
            let mut v6 = (!is_ip4).then(|| Dump::<Ipv6Addr>::new(wanted));
            move |c: &Context| match &mut v4 {
                Some(dump) => dump.next(c),
                None => v6.as_mut()?.next(c),
            }
        })
        .request::<ip_neighbor_config>(configure)
        .question::<ip_neighbor_config_get>(|c, q| Ok(config(c, q.af)))
        .request::<ip_neighbor_replace_begin>(|c, _, _| {
            // The router's own time stands still between its turns.
            c.replacing.neighbors = Some((c.now(), Again::begin()));
            DONE
        })
        .request::<ip_neighbor_replace_end>(replace_end)
        .request::<ip_neighbor_flush>(flush)
        .registration::<want_ip_neighbor_events>(|c, caller, q| {
            events::want(c, caller, false, (q.enable, q.pid), (q.ip.ip(), q.sw_if_index))
        })
        .event::<ip_neighbor_event>()
        .registration::<want_ip_neighbor_events_v2>(|c, caller, q| {
            events::want(c, caller, true, (q.enable, q.pid), (q.ip.ip(), q.sw_if_index))
        })
        .event::<ip_neighbor_event_v2>();
}

fn family_of(af: address_family) -> Family {
    if af == address_family::ADDRESS_IP4 { Family::V4 } else { Family::V6 }
}

/// Converts a neighbor to the type of the API.
fn neighbor(interface: u32, address: IpAddr, mac: Mac, fixed: bool) -> ip_neighbor {
    ip_neighbor {
        sw_if_index: numbers::number(interface),
        flags: match fixed {
            true => ip_neighbor_flags::IP_API_NEIGHBOR_FLAG_STATIC,
            false => ip_neighbor_flags::IP_API_NEIGHBOR_FLAG_NONE,
        },
        mac_address: change::of_mac(mac),
        ip_address: address.into(),
    }
}

/// Returns a neighbor's entry.
fn entry(c: &Context, interface: u32, address: IpAddr) -> Option<Entry> {
    match address {
        IpAddr::V4(address) => c.system.router.neighbor((interface, address)),
        IpAddr::V6(address) => c.system.router.neighbor((interface, address)),
    }
}

/// Adds or removes a neighbor. A static neighbor is added to the configuration. Any other neighbor is added to the neighbor table, as if
/// the router had learned it. Removal works for both kinds.
fn add_del(c: &mut Context, add: bool, neighbor: &ip_neighbor) -> Result<(), Code> {
    let (index, name) = {
        let interface = numbers::interface(c, neighbor.sw_if_index)?;
        (interface.index, interface.name.clone())
    };
    let (address, Array(mac)) = (neighbor.ip_address.ip(), neighbor.mac_address.0);
    let (key, mac) = (Neighbor::key(&name, address), Mac(mac));
    let configured = c.store.get(&key).and_then(|value| value.get::<Neighbor>()).copied();
    if !add {
        return match (configured, entry(c, index, address)) {
            (Some(_), _) => change::make(c, vec![Change::remove(key)]),
            (None, None) => Err(Code::NO_SUCH_ENTRY),
            (None, Some(_)) => c.system.router.remove_neighbor(index, address).map_err(change::of_router),
        };
    }
    if neighbor.flags.0 & ip_neighbor_flags::IP_API_NEIGHBOR_FLAG_NO_FIB_ENTRY.0 != 0 {
        return Err(Code::UNSUPPORTED);
    }
    let fixed = neighbor.flags.0 & ip_neighbor_flags::IP_API_NEIGHBOR_FLAG_STATIC.0 != 0;
    match (fixed, configured) {
        (true, _) => change::make(c, vec![Change::set(key, Neighbor { mac })])?,
        // Like VPP, a learned neighbor never replaces a static one.
        (false, Some(there)) if there.mac == mac => {}
        (false, Some(_)) => return Err(Code::VALUE_EXIST),
        (false, None) => {
            c.system.router.add_neighbor(index, address, mac, false).map_err(change::of_router)?;
        }
    }
    if let Some((_, again)) = &c.replacing.neighbors {
        again.insert((index, address));
    }
    Ok(())
}

/// A dump of the neighbors of one address family. It reads one neighbor at a time, because there may be very many.
struct Dump<A> {
    wanted: interface_index,
    last: Option<Key<A>>,
}

impl<A: Routed> Dump<A> {
    fn new(wanted: interface_index) -> Dump<A> {
        Dump { wanted, last: None }
    }

    /// Returns the next neighbor whose Ethernet address is known.
    fn next(&mut self, c: &Context) -> Option<ip_neighbor_details> {
        let only = match self.wanted {
            interface_index::NONE => None,
            number => Some(numbers::interface(c, number).ok()?.index),
        };
        // Before the first address of an interface comes the last one of the previous interface.
        let first = self.last.or(only.and_then(|i| Some((i.checked_sub(1)?, A::LAST))));
        let mut all = c.system.router.neighbor_entries::<A>(first);
        let ((interface, address), entry, mac) = all.find_map(|(key, e)| Some((key, e, e.state.mac()?)))?;
        if only.is_some_and(|only| only != interface) {
            return None;
        }
        self.last = Some((interface, address));
        let fixed = matches!(entry.state, State::Static(_));
        let age = c.system.router.now().saturating_sub(entry.since) as f64 / SECOND as f64;
        Some(ip_neighbor_details { age, neighbor: neighbor(interface, address.into(), mac, fixed) })
    }
}

/// Sets the limits of a neighbor table. Entries always age, and a full table always replaces its oldest entry.
fn configure(c: &mut Context, _: &Caller, q: ip_neighbor_config) -> Result<Done, Code> {
    if !q.recycle {
        return Err(Code::UNSUPPORTED);
    }
    let family = family_of(q.af);
    let age = (q.max_age != 0).then_some(q.max_age);
    let key = NeighborBounds::key(family);
    let there = c.store.get(&key).and_then(|value| value.get::<NeighborBounds>()).copied();
    let bounds = NeighborBounds { limit: Some(q.max_number), age, ..there.unwrap_or_default() };
    change::make(c, vec![Change::set(key, bounds)])?;
    DONE
}

fn config(c: &Context, af: address_family) -> ip_neighbor_config_get_reply {
    let config = match family_of(af) {
        Family::V4 => c.system.router.neighbor_config::<Ipv4Addr>(),
        Family::V6 => c.system.router.neighbor_config::<Ipv6Addr>(),
    };
    ip_neighbor_config_get_reply {
        af,
        max_number: u32::try_from(config.max_entries).unwrap_or(u32::MAX),
        max_age: u32::try_from(config.max_age / SECOND).unwrap_or(u32::MAX),
        recycle: true,
    }
}

/// Selects the neighbors to remove, by interface, address and entry.
type Goes = Arc<dyn Fn((u32, IpAddr), &Entry) -> bool>;

/// Returns the static neighbors of a family that `goes` selects: their keys in the configuration, with interface and address.
fn fixed<A: Routed>(c: &Context, goes: &Goes) -> Vec<(intent::Key, (u32, IpAddr))> {
    let router = &c.system.router;
    let all = router.neighbor_entries::<A>(None).filter(|(_, e)| matches!(e.state, State::Static(_)));
    let all = all.map(|((index, ip), e)| ((index, ip.into()), e)).filter(|(at, e)| goes(*at, e));
    let name = |index| router.interface(index).map(|i| i.name.clone()).unwrap_or_default();
    all.map(|(at, _)| (Neighbor::key(&name(at.0), at.1), at)).collect()
}

/// Removes the neighbors of a family that `goes` selects and that are not static.
fn forget<A: Routed>(c: &mut Context, goes: &Goes) -> Result<(), Failure> {
    let all = c.system.router.neighbor_entries::<A>(None);
    let learned = all.filter(|(_, e)| !matches!(e.state, State::Static(_)));
    let gone = learned.filter(|((index, ip), e)| goes((*index, (*ip).into()), e)).map(|(key, _)| key);
    for (index, address) in gone.collect::<Vec<Key<A>>>() {
        c.system.router.remove_neighbor(index, address).map_err(|e| Failure::Refused(e.into()))?;
    }
    Ok(())
}

/// Removes the neighbors of these families that `goes` selects, and then calls `end`. First removes the static ones in one change, except
/// those for which `stays` returns true when the change is made. Then removes the learned ones.
fn remove(
    c: &mut Context,
    families: &'static [Family],
    goes: Goes,
    stays: impl Fn(&(u32, IpAddr)) -> bool + Send + 'static,
    end: impl FnOnce(&mut Context) + 'static,
) -> Result<(), Code> {
    let mut all = Vec::new();
    for family in families {
        all.extend(match family {
            Family::V4 => fixed::<Ipv4Addr>(c, &goes),
            Family::V6 => fixed::<Ipv6Addr>(c, &goes),
        });
    }
    let few = change::are_few(all.iter());
    let removal = move |now: &Snapshot| {
        let gone = all.into_iter().filter(|(key, at)| now.tree().contains_key(key) && !stays(at));
        gone.map(|(key, _)| Change::remove(key)).collect()
    };
    change::make_all(c, few, removal, move |c| {
        for family in families {
            match family {
                Family::V4 => forget::<Ipv4Addr>(c, &goes)?,
                Family::V6 => forget::<Ipv6Addr>(c, &goes)?,
            }
        }
        end(c);
        Ok(())
    })
}

fn flush(c: &mut Context, _: &Caller, q: ip_neighbor_flush) -> Result<Done, Code> {
    let only = match q.sw_if_index {
        interface_index::NONE => None,
        number => Some(numbers::interface(c, number)?.index),
    };
    let goes = move |(index, _): (u32, IpAddr), _: &Entry| only.is_none_or(|only| only == index);
    let families: &[Family] = match family_of(q.af) {
        Family::V4 => &[Family::V4],
        Family::V6 => &[Family::V6],
    };
    remove(c, families, Arc::new(goes), |_| false, |_| {})?;
    DONE
}

/// Ends the replacement of neighbors. Removes the neighbors that existed when it began, unless the client has added them again or their
/// entry was updated since.
fn replace_end(c: &mut Context, _: &Caller, _: ip_neighbor_replace_end) -> Result<Done, Code> {
    let Some((since, again)) = c.replacing.neighbors.clone() else { return DONE };
    let (marked, wanted) = (again.clone(), again.clone());
    let goes = move |at, entry: &Entry| entry.since < since && !marked.contains(&at);
    let end = move |c: &mut Context| drop(c.replacing.neighbors.take_if(|(_, of)| of.is(&again)));
    remove(c, &Family::ALL, Arc::new(goes), move |at| wanted.contains(at), end)?;
    DONE
}
