//! The messages of VPP's binary API about bridge domains, in the module `l2`.
#![allow(non_camel_case_types)]

use std::collections::VecDeque;
use std::ops::Bound;

use model::key::Key;
use model::object::Change;
use net::feature::{App, message};
use vapi::types::{address, interface_index, mac_address};
use vapi::wire::{Array, Count, Text};
use vapi::{Code, DONE, Done, Table, define};
use wire::Mac;

use super::bvi::BridgeBvi;
use super::commands::{Role, domain, joining, removal};
use super::host::BridgeHost;
use super::objects::{BridgeDomain, Bridged, FibEntry, IDS, Leads};
use super::table::Shown;
use super::{BridgePort, Bridges, Kind, bvi, flush_port};

define! {
    /// The role of a bridge port.
    enum l2_port_type: u32 {
        /// A port like others.
        L2_API_PORT_TYPE_NORMAL = 0,
        /// The port of a virtual interface of the router.
        L2_API_PORT_TYPE_BVI = 1,
        /// The port for frames to unknown stations.
        L2_API_PORT_TYPE_UU_FWD = 2,
    }
    /// What a bridge domain does.
    flags bd_flags: u32 {
        BRIDGE_API_FLAG_NONE = 0,
        BRIDGE_API_FLAG_LEARN = 1,
        BRIDGE_API_FLAG_FWD = 2,
        BRIDGE_API_FLAG_FLOOD = 4,
        BRIDGE_API_FLAG_UU_FLOOD = 8,
        BRIDGE_API_FLAG_ARP_TERM = 16,
        BRIDGE_API_FLAG_ARP_UFWD = 32,
    }
    /// Makes or removes a bridge domain.
    request bridge_domain_add_del {
        bd_id: u32,
        flood: bool,
        uu_flood: bool,
        forward: bool,
        learn: bool,
        arp_term: bool,
        arp_ufwd: bool,
        mac_age: u8,
        bd_tag: Text<64>,
        is_add: bool = true,
    }
    /// Makes or removes a bridge domain. The number ~0 is a free one.
    request bridge_domain_add_del_v2 {
        bd_id: u32,
        flood: bool,
        uu_flood: bool,
        forward: bool,
        learn: bool,
        arp_term: bool,
        arp_ufwd: bool,
        mac_age: u8,
        bd_tag: Text<64>,
        is_add: bool = true,
    } -> bridge_domain_add_del_v2_reply { bd_id: u32 }
    /// An interface in a bridge domain.
    struct bridge_domain_sw_if { context: u32, sw_if_index: interface_index, shg: u8 }
    /// Asks for bridge domains.
    dump bridge_domain_dump { bd_id: u32 = 4294967295, sw_if_index: interface_index = 4294967295 } -> bridge_domain_details {
        bd_id: u32,
        flood: bool,
        uu_flood: bool,
        forward: bool,
        learn: bool,
        arp_term: bool,
        arp_ufwd: bool,
        mac_age: u8,
        bd_tag: Text<64>,
        bvi_sw_if_index: interface_index,
        uu_fwd_sw_if_index: interface_index,
        n_sw_ifs: Count<u32>,
        sw_if_details: Vec<bridge_domain_sw_if>,
    }
}

define! {
    /// Switches on or off what a bridge domain does.
    request bridge_flags { bd_id: u32, is_set: bool, flags: bd_flags } -> bridge_flags_reply { resulting_feature_bitmap: u32 }
    /// Sets the time after which learned addresses are forgotten, in minutes.
    request bridge_domain_set_mac_age { bd_id: u32, mac_age: u8 }
    /// Sets the maximum number of learned addresses.
    request bridge_domain_set_learn_limit { bd_id: u32, learn_limit: u32 }
    /// Makes an interface a port of a bridge domain, or routes its packets again.
    request sw_interface_set_l2_bridge {
        rx_sw_if_index: interface_index,
        bd_id: u32,
        port_type: l2_port_type,
        shg: u8,
        enable: bool = true,
    }
    /// Adds or removes an entry of the MAC table.
    request l2fib_add_del {
        mac: mac_address,
        bd_id: u32,
        sw_if_index: interface_index,
        is_add: bool = true,
        static_mac: bool,
        filter_mac: bool,
        bvi_mac: bool,
    }
    /// The Ethernet address of a host of a bridge domain.
    struct bd_ip_mac { bd_id: u32, ip: address, mac: mac_address }
    /// Adds or removes a host, for which the domain answers ARP requests and neighbor solicitations.
    request bd_ip_mac_add_del { is_add: bool = true, entry: bd_ip_mac }
    /// Removes all hosts of a bridge domain.
    request bd_ip_mac_flush { bd_id: u32 }
    /// Asks for the hosts of a bridge domain; ~0: of all.
    dump bd_ip_mac_dump { bd_id: u32 } -> bd_ip_mac_details { entry: bd_ip_mac }
    /// Forgets all learned addresses.
    request l2fib_flush_all {}
    /// Forgets the learned addresses of a bridge domain.
    request l2fib_flush_bd { bd_id: u32 }
    /// Forgets the learned addresses of an interface.
    request l2fib_flush_int { sw_if_index: interface_index }
    /// Asks for the entries of a bridge domain in the MAC table; ~0: of all.
    dump l2_fib_table_dump { bd_id: u32 } -> l2_fib_table_details {
        bd_id: u32,
        mac: mac_address,
        sw_if_index: interface_index,
        static_mac: bool,
        filter_mac: bool,
        bvi_mac: bool,
    }
}

/// Adds the messages.
pub(crate) fn register<C: App>(table: &mut Table<C>) {
    table
        .module("l2", [3, 3, 0])
        .request::<bridge_domain_add_del>(|c, _, q| {
            let flags = [q.learn, q.forward, q.flood, q.uu_flood];
            made(c, q.bd_id, q.is_add, flags, [q.arp_term, q.arp_ufwd], (q.mac_age, q.bd_tag.0))
        })
        .request::<bridge_domain_add_del_v2>(|c, _, q| {
            let free = || IDS.into_iter().find(|id| domain(c, *id).is_none());
            let bd_id = if q.bd_id == u32::MAX { free().ok_or(Code::INVALID_VALUE)? } else { q.bd_id };
            let flags = [q.learn, q.forward, q.flood, q.uu_flood];
            made(c, bd_id, q.is_add, flags, [q.arp_term, q.arp_ufwd], (q.mac_age, q.bd_tag.0))?;
            Ok(bridge_domain_add_del_v2_reply { bd_id })
        })
        .request::<bridge_flags>(|c, _, q| {
            let mut d = domain(c, q.bd_id).ok_or(Code::NO_SUCH_ENTRY)?;
            for (flag, is_on) in flags(&mut d) {
                *is_on = if q.flags.0 & flag == 0 { *is_on } else { q.is_set };
            }
            let bits = flags(&mut d).into_iter().filter(|(_, is_on)| **is_on).map(|(flag, _)| flag);
            let resulting_feature_bitmap = bits.sum();
            message::make(c, vec![Change::set(BridgeDomain::key(q.bd_id), d)])?;
            Ok(bridge_flags_reply { resulting_feature_bitmap })
        })
        .request::<bridge_domain_set_mac_age>(|c, _, q| {
            let d = domain(c, q.bd_id).ok_or(Code::NO_SUCH_ENTRY)?;
            let d = BridgeDomain { mac_age: q.mac_age, ..d };
            message::make(c, vec![Change::set(BridgeDomain::key(q.bd_id), d)])
        })
        .request::<bridge_domain_set_learn_limit>(|c, _, q| {
            let mut d = domain(c, q.bd_id).ok_or(Code::NO_SUCH_ENTRY)?;
            d.policy.limit = q.learn_limit;
            message::make(c, vec![Change::set(BridgeDomain::key(q.bd_id), d)])
        })
        .request::<sw_interface_set_l2_bridge>(|c, _, q| {
            let name = message::name(c.router(), q.rx_sw_if_index)?;
            if !q.enable {
                let keys = [Bridged::key(&name), BridgeBvi::key(&name)];
                let had = keys.into_iter().filter(|key| c.store().get(key).is_some());
                let changes = had.map(Change::remove).collect();
                return message::make(c, changes);
            }
            let role = match q.port_type {
                l2_port_type::L2_API_PORT_TYPE_NORMAL => Role::Port,
                l2_port_type::L2_API_PORT_TYPE_BVI => Role::Bvi,
                l2_port_type::L2_API_PORT_TYPE_UU_FWD => Role::UuFwd,
                _ => return Err(Code::INVALID_VALUE),
            };
            let changes = joining(c, &name, q.bd_id, role, q.shg);
            message::make(c, changes)
        })
        .dump::<bridge_domain_dump, _>(|_, q| {
            // VPP does not support the filter by interface, and answers nothing.
            let from = if q.bd_id == u32::MAX { 0 } else { q.bd_id };
            let mut next = (q.sw_if_index == interface_index::NONE).then_some(from);
            move |c: &C| {
                let details = details(c, next?)?;
                next = details.bd_id.checked_add(1).filter(|_| q.bd_id == u32::MAX);
                (q.bd_id == u32::MAX || q.bd_id == details.bd_id).then_some(details)
            }
        });
    stations(table);
    hosts(table);
}

/// Adds the messages about the MAC table.
fn stations<C: App>(table: &mut Table<C>) {
    table
        .module("l2", [3, 3, 0])
        .request::<l2fib_add_del>(entry)
        .operation::<l2fib_flush_all>(|c, _, _| {
            bridges(c)?.flush_all();
            DONE
        })
        .operation::<l2fib_flush_bd>(|c, _, q| {
            domain(c, q.bd_id).ok_or(Code::NO_SUCH_ENTRY)?;
            bridges(c)?.flush(q.bd_id);
            DONE
        })
        .operation::<l2fib_flush_int>(|c, _, q| {
            let index = message::interface(c.router(), q.sw_if_index)?.index;
            flush_port(c.router_mut(), index).map_err(message::refused)?;
            DONE
        })
        .dump::<l2_fib_table_dump, _>(|_, q| {
            let (mut line, mut found) = (0, VecDeque::new());
            move |c: &C| loop {
                if let Some(details) = found.pop_front() {
                    return Some(details);
                }
                let bridges = c.router().state::<Bridges>().ok()?;
                if line >= bridges.lines() {
                    return None;
                }
                let entries = bridges.entries(line..line + 64, c.now());
                found.extend(
                    entries.filter(|shown| [u32::MAX, shown.bd].contains(&q.bd_id)).map(entry_details),
                );
                line += 64;
            }
        });
}

/// Adds the messages about hosts.
fn hosts<C: App>(table: &mut Table<C>) {
    table
        .module("l2", [3, 3, 0])
        .request::<bd_ip_mac_add_del>(|c, _, q| {
            let bd_ip_mac { bd_id, ip, mac } = q.entry;
            domain(c, bd_id).ok_or(Code::NO_SUCH_ENTRY)?;
            let key = BridgeHost::key(bd_id, ip.ip());
            let (host, there) = (BridgeHost(Mac(mac.0.0)), c.store().get(&key));
            let is_same = there.and_then(|there| there.get::<BridgeHost>()) == Some(&host);
            match q.is_add {
                true => message::make(c, vec![Change::set(key, host)]),
                false if is_same => message::make(c, vec![Change::remove(key)]),
                false => Err(Code::NO_SUCH_ENTRY),
            }
        })
        .request::<bd_ip_mac_flush>(|c, _, q| {
            domain(c, q.bd_id).ok_or(Code::NO_SUCH_ENTRY)?;
            let all = c.store().tree().range(Key::beginning::<BridgeHost>(q.bd_id));
            let changes = all.map(|(key, _)| Change::remove(key.clone())).collect();
            message::make(c, changes)
        })
        .dump::<bd_ip_mac_dump, _>(|_, q| {
            let only = (q.bd_id != u32::MAX).then_some(q.bd_id);
            let mut next = (only.unwrap_or(0), Bound::Unbounded);
            move |c: &C| loop {
                let bridges = c.router().state::<Bridges>().ok()?;
                let (bd_id, ..) = bridges.domains(next.0).next()?;
                if only.is_some_and(|only| only != bd_id) {
                    return None;
                }
                let after = if bd_id == next.0 { next.1 } else { Bound::Unbounded };
                let Some((ip, mac)) = bridges.hosts(bd_id, after).next() else {
                    next = (bd_id + 1, Bound::Unbounded);
                    continue;
                };
                next = (bd_id, Bound::Excluded(ip));
                let entry = bd_ip_mac { bd_id, ip: ip.into(), mac: mac_address(Array(mac.0)) };
                return Some(bd_ip_mac_details { entry });
            }
        });
}

fn bridges<C: App>(c: &mut C) -> Result<&mut Bridges, Code> {
    c.router_mut().state_mut().map_err(message::refused)
}

/// Returns the flags of a domain with their bits.
fn flags(d: &mut BridgeDomain) -> [(u32, &mut bool); 6] {
    let policy = &mut d.policy;
    [
        (bd_flags::BRIDGE_API_FLAG_LEARN.0, &mut policy.learn),
        (bd_flags::BRIDGE_API_FLAG_FWD.0, &mut policy.forward),
        (bd_flags::BRIDGE_API_FLAG_FLOOD.0, &mut policy.flood),
        (bd_flags::BRIDGE_API_FLAG_UU_FLOOD.0, &mut policy.unknown),
        (bd_flags::BRIDGE_API_FLAG_ARP_TERM.0, &mut policy.arp_term),
        (bd_flags::BRIDGE_API_FLAG_ARP_UFWD.0, &mut policy.arp_ufwd),
    ]
}

/// Makes or removes a domain.
fn made<C: App>(
    c: &mut C,
    id: u32,
    is_add: bool,
    [learn, forward, flood, unknown]: [bool; 4],
    [arp_term, arp_ufwd]: [bool; 2],
    (mac_age, tag): (u8, String),
) -> Result<Done, Code> {
    let key = BridgeDomain::key(id);
    if !is_add {
        domain(c, id).ok_or(Code::NO_SUCH_ENTRY)?;
        let bridges = bridges(c)?;
        let has_ports =
            bridges.domains(id).next().is_some_and(|(at, _, ports)| at == id && !ports.is_empty());
        if has_ports || bridges.bvi(id).is_some() {
            return Err(Code::BD_IN_USE);
        }
        let changes = removal(c, id);
        return message::make(c, changes);
    }
    if id > *IDS.end() {
        return Err(Code::BD_ID_EXCEED_MAX);
    }
    if domain(c, id).is_some() {
        return Err(Code::BD_ALREADY_EXISTS);
    }
    let mut wanted = BridgeDomain { mac_age, tag, ..BridgeDomain::default() };
    let policy = &mut wanted.policy;
    (policy.learn, policy.forward, policy.flood, policy.unknown) = (learn, forward, flood, unknown);
    (policy.arp_term, policy.arp_ufwd) = (arp_term, arp_ufwd);
    message::make(c, vec![Change::set(key, wanted)])
}

fn entry<C: App>(c: &mut C, _: &vapi::Caller, q: l2fib_add_del) -> Result<Done, Code> {
    domain(c, q.bd_id).ok_or(Code::NO_SUCH_ENTRY)?;
    let mac = Mac(q.mac.0.0);
    let key = FibEntry::key(q.bd_id, mac);
    if !q.is_add {
        if c.store().get(&key).is_some() {
            return message::make(c, vec![Change::remove(key)]);
        }
        return if bridges(c)?.remove_entry(q.bd_id, mac) { DONE } else { Err(Code::NO_SUCH_ENTRY) };
    }
    let leads = match q.filter_mac {
        true => Leads::Nowhere,
        false if q.bvi_mac || !q.static_mac => return Err(Code::UNIMPLEMENTED),
        false => Leads::To(message::name(c.router(), q.sw_if_index)?),
    };
    message::make(c, vec![Change::set(key, FibEntry(leads))])
}

fn details<C: App>(c: &C, from: u32) -> Option<bridge_domain_details> {
    let router = c.router();
    let bridges = router.state::<Bridges>().ok()?;
    let (id, policy, members) = bridges.domains(from).next()?;
    let bvi = bridges.bvi(id).map(|(index, _)| (index, bvi::of(router, index).map_or(0, |(_, group)| group)));
    let uu_fwd = members.keys().copied().find(|index| router.setting::<BridgePort>(*index).uu_fwd);
    let all = members.iter().map(|(index, group)| (*index, *group)).chain(bvi);
    let ports =
        all.map(|(index, shg)| bridge_domain_sw_if { context: 0, sw_if_index: message::number(index), shg });
    let d = domain(c, id).unwrap_or_default();
    Some(bridge_domain_details {
        bd_id: id,
        flood: policy.flood,
        uu_flood: policy.unknown,
        forward: policy.forward,
        learn: policy.learn,
        arp_term: policy.arp_term,
        arp_ufwd: policy.arp_ufwd,
        mac_age: d.mac_age,
        bd_tag: Text(d.tag),
        bvi_sw_if_index: bvi.map_or(interface_index::NONE, |(index, _)| message::number(index)),
        uu_fwd_sw_if_index: uu_fwd.map_or(interface_index::NONE, message::number),
        n_sw_ifs: Count::default(),
        sw_if_details: ports.collect(),
    })
}

fn entry_details(Shown { bd, mac, place, is_bvi }: Shown) -> l2_fib_table_details {
    let is_filter = place.kind == Kind::Filter;
    l2_fib_table_details {
        bd_id: bd,
        mac: mac_address(Array(mac.0)),
        sw_if_index: if is_filter { interface_index::NONE } else { message::number(place.port) },
        static_mac: place.kind == Kind::Static,
        filter_mac: is_filter,
        bvi_mac: is_bvi,
    }
}
