//! The module `ip`: VRFs, routes and addresses.
#![allow(non_camel_case_types)]

mod messages;
mod routes;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::router::InterfaceInfo;
use vapi::types::{address_with_prefix, interface_index};
use vapi::{Caller, Code, DONE, Done, Table};

use super::{change, numbers};
use crate::app::Context;
use crate::intent::{self, Change, Key, Route};
use messages::*;

/// Registers the module. VRFs have both families here: adding one for the second family changes nothing.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("ip", [3, 2, 0])
        .request::<ip_table_add_del>(|c, _, q| change_table(c, &q.table, q.is_add))
        .request::<ip_table_add_del_v2>(|c, _, q| change_table(c, &q.table, q.is_add))
        .request::<ip_table_allocate>(allocate)
        .dump::<ip_table_dump, _>(|c, _| vapi::all(tables(c)))
        .request::<ip_table_flush>(flush)
        .request::<ip_route_add_del>(routes::add_del)
        .dump::<ip_route_dump, _>(|c, q| {
            let (is_ip6, number) = (q.table.is_ip6, q.table.table_id);
            let fib = c.system.router.fib(number).ok();
            let mut v4 = fib.filter(|_| !is_ip6).map(routes::Dump::<Ipv4Addr>::new);
            let mut v6 = fib.filter(|_| is_ip6).map(routes::Dump::<Ipv6Addr>::new);
            move |c: &Context| {
                let next = v4.as_mut().and_then(|dump| dump.next(c));
                let route = next.or_else(|| v6.as_mut().and_then(|dump| dump.next(c)))?;
                Some(ip_route_details { route })
            }
        })
        .question::<ip_route_lookup>(routes::lookup)
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
        .question::<sw_interface_ip6_get_link_local_address>(|c, q| {
            let own = numbers::interface(c, q.sw_if_index)?.link_local().ok_or(Code::IP6_NOT_ENABLED)?;
            Ok(sw_interface_ip6_get_link_local_address_reply { ip: own.into() })
        });
}

fn change_table(c: &mut Context, table: &ip_table, add: bool) -> Result<Done, Code> {
    let key = intent::Table::key(table.table_id);
    let change = match (add, c.store.get(&key).is_some()) {
        _ if table.table_id == 0 => return DONE,
        (true, true) | (false, false) => return DONE,
        (true, false) => {
            let name = Some(&table.name.0).filter(|name| intent::Table::can_be_name(name));
            Change::set(key, intent::Table { name: name.cloned() })
        }
        (false, true) => Change::remove(key),
    };
    change::make(c, vec![change])?;
    DONE
}

fn allocate(c: &mut Context, _: &Caller, q: ip_table_allocate) -> Result<ip_table_allocate_reply, Code> {
    let mut table = q.table;
    if table.table_id == u32::MAX {
        let taken = |id: u32| c.store.get(&intent::Table::key(id)).is_some();
        table.table_id = (1..u32::MAX).find(|id| !taken(*id)).ok_or(Code::UNSPECIFIED)?;
    }
    change_table(c, &table, true)?;
    Ok(ip_table_allocate_reply { table })
}

/// Returns each VRF twice: for IPv4, and for IPv6.
fn tables(c: &Context) -> Vec<ip_table_details> {
    let mut all = Vec::new();
    for is_ip6 in [false, true] {
        for (table_id, _) in c.system.router.vrfs().from(0) {
            let usual = || format!("{}-VRF:{table_id}", if is_ip6 { "ipv6" } else { "ipv4" });
            let name = intent::Table::name_of(table_id, c.store.tree()).map_or_else(usual, str::to_owned);
            all.push(ip_table_details { table: ip_table { table_id, is_ip6, name: name.as_str().into() } });
        }
    }
    all
}

/// Removes all static routes of a family from a VRF.
fn flush(c: &mut Context, _: &Caller, q: ip_table_flush) -> Result<Done, Code> {
    let table = change::table(c, q.table.table_id)?;
    let routes = c.store.tree().range(Key::beginning::<Route>(&table));
    let of = |key: &&Key| {
        key.get::<Route>().is_some_and(|(_, prefix)| prefix.address().is_ipv6() == q.table.is_ip6)
    };
    let changes = routes.map(|(key, _)| key).filter(of).cloned().map(Change::remove).collect();
    change::make(c, changes)?;
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
