//! The module `tapv2` of the binary API: taps.
#![allow(non_camel_case_types)]

use std::net::Ipv4Addr;

use drivers::tap::Config;
use net::feature::free_number;
use vapi::types::{interface_index, ip4_address, ip6_address, mac_address};
use vapi::wire::{Array, Line, Text};
use vapi::{Code, Table, define};
use wire::Mac;

use super::{PREFIX, is_ring_size};
use crate::api::{change, interface, numbers};
use crate::app::Context;
use crate::intent::Interface;
use crate::system::Spec;

define! {
    /// The offloads of a tap, and how it is created.
    enum tap_flags: u32 {
        /// Packets of up to 64 KiB pass in both directions.
        TAP_API_FLAG_GSO = 1,
        /// Checksums are left to the receiver of a packet.
        TAP_API_FLAG_CSUM_OFFLOAD = 2,
        /// The host's interface stays when the tap is deleted.
        TAP_API_FLAG_PERSIST = 4,
        /// The tap uses an existing interface of the host.
        TAP_API_FLAG_ATTACH = 8,
        /// The packets on the tap have no Ethernet header.
        TAP_API_FLAG_TUN = 16,
        /// Received TCP segments are joined to larger packets.
        TAP_API_FLAG_GRO_COALESCE = 32;
        later TAP_API_FLAG_PACKED = 64, TAP_API_FLAG_IN_ORDER = 128, TAP_API_FLAG_CONSISTENT_QP = 256
    }
    /// An IPv4 address, and the length of its network.
    #[derive(Copy)]
    struct ip4_prefix { address: ip4_address, len: u8 }
    /// An IPv6 address, and the length of its network.
    #[derive(Copy)]
    struct ip6_prefix { address: ip6_address, len: u8 }
    /// An IPv4 address with the length of its network.
    alias ip4_address_with_prefix: ip4_prefix;
    /// An IPv6 address with the length of its network.
    alias ip6_address_with_prefix: ip6_prefix;
    /// Makes a tap.
    request tap_create_v3 {
        id: u32 = 4294967295,
        use_random_mac: bool = true,
        mac_address: mac_address,
        num_rx_queues: u16 = 1,
        num_tx_queues: u16 = 1,
        tx_ring_sz: u16 = 256,
        rx_ring_sz: u16 = 256,
        host_mtu_set: bool,
        host_mtu_size: u32,
        host_mac_addr_set: bool,
        host_mac_addr: mac_address,
        host_ip4_prefix_set: bool,
        host_ip4_prefix: ip4_address_with_prefix,
        host_ip6_prefix_set: bool,
        host_ip6_prefix: ip6_address_with_prefix,
        host_ip4_gw_set: bool,
        host_ip4_gw: ip4_address,
        host_ip6_gw_set: bool,
        host_ip6_gw: ip6_address,
        tap_flags: tap_flags,
        host_namespace_set: bool,
        host_namespace: Text<64>,
        host_if_name_set: bool,
        host_if_name: Text<64>,
        host_bridge_set: bool,
        host_bridge: Text<64>,
        tag: Line,
    } -> tap_create_v3_reply { sw_if_index: interface_index }
    /// Makes a tap.
    request tap_create_v2 {
        id: u32 = 4294967295,
        use_random_mac: bool = true,
        mac_address: mac_address,
        num_rx_queues: u8 = 1,
        tx_ring_sz: u16 = 256,
        rx_ring_sz: u16 = 256,
        host_mtu_set: bool,
        host_mtu_size: u32,
        host_mac_addr_set: bool,
        host_mac_addr: mac_address,
        host_ip4_prefix_set: bool,
        host_ip4_prefix: ip4_address_with_prefix,
        host_ip6_prefix_set: bool,
        host_ip6_prefix: ip6_address_with_prefix,
        host_ip4_gw_set: bool,
        host_ip4_gw: ip4_address,
        host_ip6_gw_set: bool,
        host_ip6_gw: ip6_address,
        tap_flags: tap_flags,
        host_namespace_set: bool,
        host_namespace: Text<64>,
        host_if_name_set: bool,
        host_if_name: Text<64>,
        host_bridge_set: bool,
        host_bridge: Text<64>,
        tag: Line,
    } -> tap_create_v2_reply { sw_if_index: interface_index }
    /// Removes a tap.
    request tap_delete_v2 { sw_if_index: interface_index }
    /// Asks for one tap, or for all taps.
    dump sw_interface_tap_v2_dump { sw_if_index: interface_index = 4294967295 } -> sw_interface_tap_v2_details {
        sw_if_index: u32,
        id: u32,
        tx_ring_sz: u16,
        rx_ring_sz: u16,
        host_mtu_size: u32,
        host_mac_addr: mac_address,
        host_ip4_prefix: ip4_address_with_prefix,
        host_ip6_prefix: ip6_address_with_prefix,
        tap_flags: tap_flags,
        dev_name: Text<64>,
        host_if_name: Text<64>,
        host_namespace: Text<64>,
        host_bridge: Text<64>,
    }
}

/// The ring size that clients of the API see. A tap has no rings in this router, because packets are copied one by one.
const RING: u16 = 256;

/// Registers the module.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("tapv2", [4, 0, 0])
        .request::<tap_create_v3>(|c, _, q| Ok(tap_create_v3_reply { sw_if_index: create(c, q)? }))
        .request::<tap_create_v2>(|c, _, q| Ok(tap_create_v2_reply { sw_if_index: create(c, q.into())? }))
        .request::<tap_delete_v2>(|c, _, q| interface::remove_backed::<Config>(c, q.sw_if_index))
        .dump::<sw_interface_tap_v2_dump, _>(|c, q| vapi::all(dump(c, q.sw_if_index)));
}

impl From<tap_create_v2> for tap_create_v3 {
    fn from(q: tap_create_v2) -> tap_create_v3 {
        tap_create_v3 {
            id: q.id,
            use_random_mac: q.use_random_mac,
            mac_address: q.mac_address,
            num_rx_queues: q.num_rx_queues.into(),
            num_tx_queues: 1,
            tx_ring_sz: q.tx_ring_sz,
            rx_ring_sz: q.rx_ring_sz,
            host_mtu_set: q.host_mtu_set,
            host_mtu_size: q.host_mtu_size,
            host_mac_addr_set: q.host_mac_addr_set,
            host_mac_addr: q.host_mac_addr,
            host_ip4_prefix_set: q.host_ip4_prefix_set,
            host_ip4_prefix: q.host_ip4_prefix,
            host_ip6_prefix_set: q.host_ip6_prefix_set,
            host_ip6_prefix: q.host_ip6_prefix,
            host_ip4_gw_set: q.host_ip4_gw_set,
            host_ip4_gw: q.host_ip4_gw,
            host_ip6_gw_set: q.host_ip6_gw_set,
            host_ip6_gw: q.host_ip6_gw,
            tap_flags: q.tap_flags,
            host_namespace_set: q.host_namespace_set,
            host_namespace: q.host_namespace,
            host_if_name_set: q.host_if_name_set,
            host_if_name: q.host_if_name,
            host_bridge_set: q.host_bridge_set,
            host_bridge: q.host_bridge,
            tag: q.tag,
        }
    }
}

/// Refuses options that taps of this router do not support, and invalid values.
fn check(q: &tap_create_v3) -> Result<(), Code> {
    let offered = tap_flags::TAP_API_FLAG_GSO.0 | tap_flags::TAP_API_FLAG_CSUM_OFFLOAD.0;
    let lacks = q.tap_flags.0 & !offered != 0
        || q.num_rx_queues > 1
        || q.num_tx_queues > 1
        || q.host_ip6_prefix_set
        || q.host_ip4_gw_set
        || q.host_ip6_gw_set
        || q.host_bridge_set
        // A path may be on a file system that never answers, and this request cannot wait apart from other clients.
        || (q.host_namespace_set && q.host_namespace.0.contains('/'));
    if lacks {
        return Err(Code::UNSUPPORTED);
    }
    let is_odd = |size: u16| size != 0 && !is_ring_size(size);
    if is_odd(q.rx_ring_sz) || is_odd(q.tx_ring_sz) { Err(Code::INVALID_VALUE) } else { Ok(()) }
}

fn create(c: &mut Context, q: tap_create_v3) -> Result<interface_index, Code> {
    check(&q)?;
    let id = if q.id == u32::MAX { free_number(c, PREFIX) } else { q.id };
    let name = format!("{PREFIX}{id}");
    if c.system.router.interface_named(&name).is_some() {
        return Err(Code::INVALID_INTERFACE);
    }
    let ip4 = |ip4_address_with_prefix(prefix): ip4_address_with_prefix| {
        let Array(octets) = prefix.address.0;
        if prefix.len > 32 { Err(Code::INVALID_VALUE) } else { Ok((Ipv4Addr::from(octets), prefix.len)) }
    };
    let config = Config {
        host_namespace: q.host_namespace_set.then(|| q.host_namespace.0.into()),
        host_mac: if q.host_mac_addr_set { change::mac(q.host_mac_addr).map(|Mac(mac)| mac) } else { None },
        host_ip4: q.host_ip4_prefix_set.then(|| ip4(q.host_ip4_prefix)).transpose()?,
        gso: q.tap_flags.0 & tap_flags::TAP_API_FLAG_GSO.0 != 0,
        ..Config::new(if q.host_if_name_set { q.host_if_name.0 } else { name.clone() })
    };
    let mtu = q.host_mtu_set.then_some(q.host_mtu_size);
    let mtu = mtu.map(u16::try_from).transpose().map_err(|_| Code::INVALID_VALUE)?;
    let interface = Interface {
        mtu,
        mac: if q.use_random_mac { None } else { change::mac(q.mac_address) },
        description: (!q.tag.0.is_empty()).then_some(q.tag.0),
        ..Interface::new(Spec::by(config))
    };
    interface::make(c, Interface::key(&name), &name, interface)
}

/// Returns the taps that a dump asks for.
fn dump(c: &Context, wanted: interface_index) -> Vec<sw_interface_tap_v2_details> {
    let details = |i: &net::router::InterfaceInfo, interface: &Interface, config: &Config| {
        let (ip, len) = config.host_ip4.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
        let mac = config.host_mac.or_else(|| i.device.as_ref()?.peer_mac());
        sw_interface_tap_v2_details {
            sw_if_index: numbers::number(i.index).0,
            id: i.name.strip_prefix(PREFIX).and_then(|id| id.parse().ok()).unwrap_or_default(),
            tx_ring_sz: RING,
            rx_ring_sz: RING,
            host_mtu_size: interface.mtu.unwrap_or_default().into(),
            host_mac_addr: change::of_mac(Mac(mac.unwrap_or_default())),
            host_ip4_prefix: ip4_address_with_prefix(ip4_prefix { address: ip.into(), len }),
            tap_flags: if config.gso { tap_flags::TAP_API_FLAG_GSO } else { tap_flags::default() },
            dev_name: i.name.as_str().into(),
            host_if_name: config.host_name.as_str().into(),
            host_namespace: Text(
                config.host_namespace.as_ref().map(|n| n.display().to_string()).unwrap_or_default(),
            ),
            ..Default::default()
        }
    };
    interface::backed::<Config, _>(c, wanted, details)
}
