//! The module `ip`: VRFs, routes and addresses.
#![allow(non_camel_case_types)]

mod messages;
mod routes;
mod tables;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr};

use net::ip::Address;
use net::router::InterfaceInfo;
use vapi::types::{address_with_prefix, interface_index};
use vapi::wire::Array;
use vapi::{Caller, Code, DONE, Done, Table};

use super::{change, numbers, replace};
use crate::app::Context;
use crate::intent::Addresses;
use messages::*;

pub(super) use tables::sweep;

/// Registers the module.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("ip", [3, 2, 0])
        .request::<ip_table_add_del>(|c, _, q| tables::change(c, &q.table, q.is_add))
        .request::<ip_table_add_del_v2>(|c, _, q| tables::change(c, &q.table, q.is_add))
        .request::<ip_table_allocate>(tables::allocate)
        .dump::<ip_table_dump, _>(|c, _| vapi::all(tables::all(c)))
        .request::<ip_table_replace_begin>(|c, _, q| {
            let table = change::table(c, q.table.table_id)?;
            c.replacing.begin_table(table, q.table.is_ip6);
            DONE
        })
        .request::<ip_table_replace_end>(|c, _, q| {
            let table = change::table(c, q.table.table_id)?;
            replace::end_table(c, table, q.table.is_ip6)
        })
        .request::<ip_table_flush>(flush)
        .request_in_batch::<ip_route_add_del>(|c, _, q| {
            routes::add_del(c, q.is_add, q.is_multipath, &q.route)?;
            Ok(ip_route_add_del_reply { stats_index: routes::NO_COUNTERS })
        })
        .request_in_batch::<ip_route_add_del_v2>(|c, _, q| {
            // All routes of clients have one source.
            if q.route.src != 0 {
                return Err(Code::UNSUPPORTED);
            }
            routes::add_del(c, q.is_add, q.is_multipath, &q.route.into())?;
            Ok(ip_route_add_del_v2_reply { stats_index: routes::NO_COUNTERS })
        })
        .dump::<ip_route_dump, _>(|c, q| {
            let mut all = routes::all(c, &q.table);
            move |c: &Context| Some(ip_route_details { route: all(c)? })
        })
        .dump::<ip_route_v2_dump, _>(|c, q| {
            let mut all = routes::all(c, &q.table);
            let any = q.src == 0;
            move |c: &Context| Some(ip_route_v2_details { route: all(c).filter(|_| any)?.into() })
        })
        .question::<ip_route_lookup>(|c, q| {
            let route = routes::lookup(c, q.table_id, q.exact != 0, &q.prefix)?;
            Ok(ip_route_lookup_reply { route })
        })
        .question::<ip_route_lookup_v2>(|c, q| {
            let route = routes::lookup(c, q.table_id, q.exact != 0, &q.prefix)?.into();
            Ok(ip_route_lookup_v2_reply { route })
        })
        .request::<set_ip_flow_hash>(|c, _, q| {
            let usual = q.src && q.dst && q.sport && q.dport && q.proto && !q.reverse && !q.symmetric;
            flow_hash(c, q.vrf_id, usual)
        })
        .request::<set_ip_flow_hash_v2>(|c, _, q| flow_hash(c, q.table_id, is_usual(q.flow_hash_config.0)))
        .request::<set_ip_flow_hash_v3>(|c, _, q| flow_hash(c, q.table_id, is_usual(q.flow_hash_config.0)))
        .dump::<ip_address_dump, _>(|c, q| vapi::all(addresses(c, &q)))
        .dump::<ip_unnumbered_dump, _>(|c, q| vapi::all(unnumbered(c, q.sw_if_index)))
        .dump::<ip_dump, _>(|c, q| {
            let has = |i: &&InterfaceInfo| of_family(i, q.is_ipv6).next().is_some();
            let details =
                |i: &InterfaceInfo| ip_details { sw_if_index: numbers::number(i.index), is_ipv6: q.is_ipv6 };
            vapi::all(c.system.router.interfaces().filter(has).map(details).collect())
        })
        .request::<sw_interface_ip6_enable_disable>(|c, _, q| {
            change::interface(c, q.sw_if_index, |i| i.ip6 = q.enable)?;
            DONE
        })
        .request::<sw_interface_ip6_set_link_local_address>(set_link_local)
        .question::<sw_interface_ip6_get_link_local_address>(|c, q| {
            let own = numbers::interface(c, q.sw_if_index)?.link_local().ok_or(Code::IP6_NOT_ENABLED)?;
            Ok(sw_interface_ip6_get_link_local_address_reply { ip: own.into() })
        });
}

/// True if `config` is the router's own flow hash: over addresses, ports and protocol. The flag for the flow label is ignored.
fn is_usual(config: u32) -> bool {
    let all = ip_flow_hash_config::IP_API_FLOW_HASH_FLOW_LABEL.0;
    config & !all == 0b1_1111
}

/// Checks the flow hash that a client sets for a VRF. The router's flow hash is fixed, so any other hash is refused.
fn flow_hash(c: &Context, table: u32, usual: bool) -> Result<Done, Code> {
    change::table(c, table)?;
    if usual { DONE } else { Err(Code::UNSUPPORTED) }
}

/// Replaces the link-local address of an interface.
fn set_link_local(
    c: &mut Context,
    _: &Caller,
    q: sw_interface_ip6_set_link_local_address,
) -> Result<Done, Code> {
    let interface = numbers::name(c, q.sw_if_index)?;
    let Array(octets) = q.ip.0;
    let wanted = Address::new(Ipv6Addr::from(octets), 64);
    if !wanted.is_link_local() {
        return Err(Code::INVALID_VALUE);
    }
    let mut list = Addresses::on(&interface, c.store.tree());
    list.retain(|a| !a.is_link_local());
    list.push(wanted);
    change::make(c, vec![Addresses::change_to(&interface, list)])?;
    DONE
}

/// Removes all static routes of a family from a VRF.
fn flush(c: &mut Context, _: &Caller, q: ip_table_flush) -> Result<Done, Code> {
    let table = change::table(c, q.table.table_id)?;
    replace::remove_routes(c, (table, q.table.is_ip6), |_| true, |_| Ok(()))?;
    DONE
}

/// Returns an interface's addresses of a family.
fn of_family(i: &InterfaceInfo, ip6: bool) -> impl Iterator<Item = (IpAddr, u8)> {
    i.addresses.iter().filter(move |a| a.address.is_ipv6() == ip6).map(|a| (a.address, a.len))
}

fn addresses(c: &Context, q: &ip_address_dump) -> Vec<ip_address_details> {
    let Ok(i) = numbers::interface(c, q.sw_if_index) else { return Vec::new() };
    let details = |(ip, len)| ip_address_details {
        sw_if_index: q.sw_if_index,
        prefix: address_with_prefix(vapi::types::prefix::new(ip, len)),
    };
    of_family(i, q.is_ipv6).map(details).collect()
}

fn unnumbered(c: &Context, wanted: interface_index) -> Vec<ip_unnumbered_details> {
    let all = c.system.router.interfaces();
    let all = all.filter_map(|i| Some((numbers::number(i.index), numbers::number(i.unnumbered?))));
    let all = all.filter(|(number, _)| wanted == interface_index::NONE || *number == wanted);
    all.map(|(sw_if_index, ip_sw_if_index)| ip_unnumbered_details { sw_if_index, ip_sw_if_index }).collect()
}
