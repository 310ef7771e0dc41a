//! The messages about reassembly in the module `ip` of VPP's binary API.
#![allow(non_camel_case_types)]

use std::net::{Ipv4Addr, Ipv6Addr};

use model::object::Change;
use net::feature::{App, message};
use net::ip::PORTS;
use vapi::types::interface_index;
use vapi::{Caller, Code, DONE, Done, Table, define};

use crate::bounds::Bounds;
use crate::family::Fragmented;
use crate::kind::{KindInfo, SECOND};
use crate::shallow;
use crate::state::Reassembly;

define! {
    /// The kind of reassembly.
    enum ip_reass_type: u32 {
        /// Whole datagrams.
        IP_REASS_TYPE_FULL = 0,
        /// Fragments are not joined, but features know the ports of each fragment.
        IP_REASS_TYPE_SHALLOW_VIRTUAL = 1,
    }
    /// Sets the limits of a reassembly.
    request ip_reassembly_set {
        timeout_ms: u32,
        max_reassemblies: u32,
        max_reassembly_length: u32,
        expire_walk_interval_ms: u32,
        is_ip6: bool,
        r#type: ip_reass_type,
    }
    /// Asks for the limits of a reassembly.
    request ip_reassembly_get { is_ip6: bool, r#type: ip_reass_type } -> ip_reassembly_get_reply {
        timeout_ms: u32,
        max_reassemblies: u32,
        max_reassembly_length: u32,
        expire_walk_interval_ms: u32,
        is_ip6: bool,
    }
    /// Turns reassembly on or off for packets received on an interface.
    request ip_reassembly_enable_disable {
        sw_if_index: interface_index,
        enable_ip4: bool,
        enable_ip6: bool,
        r#type: ip_reass_type,
    }
    /// Turns reassembly on or off for packets to the router.
    request ip_local_reass_enable_disable { enable_ip4: bool, enable_ip6: bool }
    /// Asks whether packets for the router are reassembled.
    request ip_local_reass_get { } -> ip_local_reass_get_reply { ip4_is_enabled: bool, ip6_is_enabled: bool }
}

/// Adds the messages.
pub(crate) fn register<C: App>(table: &mut Table<C>) {
    table
        .module("ip", [3, 2, 0])
        .request::<ip_reassembly_set>(set)
        .question::<ip_reassembly_get>(get)
        .request::<ip_reassembly_enable_disable>(enable)
        // Packets for the router are always reassembled (RFC 1812 section 4.2.2.8, RFC 8200 section 4.5).
        .request::<ip_local_reass_enable_disable>(|_, _, q| match q.enable_ip4 && q.enable_ip6 {
            true => DONE,
            false => Err(Code::UNSUPPORTED),
        })
        .question::<ip_local_reass_get>(|_, _| {
            Ok(ip_local_reass_get_reply { ip4_is_enabled: true, ip6_is_enabled: true })
        });
}

/// Returns the table of fragments for a type of reassembly. Shallow reassembly of IPv6 is not supported.
fn kind(is_ip6: bool, kind: ip_reass_type) -> Result<&'static KindInfo, Code> {
    match (kind, is_ip6) {
        (ip_reass_type::IP_REASS_TYPE_FULL, false) => Ok(Ipv4Addr::FULL),
        (ip_reass_type::IP_REASS_TYPE_FULL, true) => Ok(Ipv6Addr::FULL),
        (ip_reass_type::IP_REASS_TYPE_SHALLOW_VIRTUAL, false) => Ok(&shallow::INFO),
        _ => Err(Code::UNSUPPORTED),
    }
}

/// Sets the limits; the timeout is rounded up to seconds. `expire_walk_interval_ms` has no effect, because datagrams always expire on time.
fn set<C: App>(c: &mut C, _: &Caller, q: ip_reassembly_set) -> Result<Done, Code> {
    let info = kind(q.is_ip6, q.r#type)?;
    let key = Bounds::key(info.name);
    let there = c.store().get(&key).and_then(|value| value.get::<Bounds>()).copied().unwrap_or_default();
    let bounds = Bounds {
        timeout: Some(q.timeout_ms.div_ceil(1000)),
        datagrams: Some(q.max_reassemblies),
        fragments: Some(q.max_reassembly_length),
        ..there
    };
    message::make(c, vec![Change::set(key, bounds)])
}

fn get<C: App>(c: &C, q: ip_reassembly_get) -> Result<ip_reassembly_get_reply, Code> {
    let info = kind(q.is_ip6, q.r#type)?;
    let all = c.router().state::<Reassembly>();
    let limits = all.and_then(|all| all.limits(info.name)).map_err(message::refused)?;
    Ok(ip_reassembly_get_reply {
        timeout_ms: u32::try_from(limits.timeout / (SECOND / 1000)).unwrap_or(u32::MAX),
        max_reassemblies: limits.datagrams,
        max_reassembly_length: limits.fragments,
        expire_walk_interval_ms: 0,
        is_ip6: q.is_ip6,
    })
}

/// Enables or disables shallow virtual reassembly of IPv4 on an interface. Full reassembly on an interface is not supported: a router
/// forwards fragments as they arrive (RFC 1812 section 5.2.6).
fn enable<C: App>(c: &mut C, _: &Caller, q: ip_reassembly_enable_disable) -> Result<Done, Code> {
    let name = message::name(c.router(), q.sw_if_index)?;
    if q.enable_ip6 || q.enable_ip4 && q.r#type == ip_reass_type::IP_REASS_TYPE_FULL {
        return Err(Code::UNSUPPORTED);
    }
    if q.r#type == ip_reass_type::IP_REASS_TYPE_SHALLOW_VIRTUAL {
        c.switch_feature(&name, "ip4-unicast", PORTS, q.enable_ip4).map_err(message::refused)?;
    }
    DONE
}
