//! The module `af_packet` of the binary API: Linux interfaces, used through packet sockets.
#![allow(non_camel_case_types)]

use drivers::af_packet::{Config, Mode};
use vapi::types::{interface_index, mac_address};
use vapi::wire::Text;
use vapi::{Code, Table, define};

use super::PREFIX;
use crate::api::{change, interface, numbers};
use crate::app::Context;
use crate::intent::Interface;
use crate::system::Spec;

define! {
    /// The first header of an interface's packets.
    enum af_packet_mode: u32 { AF_PACKET_API_MODE_ETHERNET = 1, AF_PACKET_API_MODE_IP = 2 }
    /// How the router uses a Linux interface.
    enum af_packet_flags: u32 {
        /// Sent packets bypass the queueing disciplines.
        AF_PACKET_API_FLAG_QDISC_BYPASS = 1,
        /// Checksums and segmentation are left to the device.
        AF_PACKET_API_FLAG_CKSUM_GSO = 2;
        later AF_PACKET_API_FLAG_VERSION_2 = 8
    }
    /// Creates an interface of the router that uses a Linux interface.
    request af_packet_create { hw_addr: mac_address, use_random_hw_addr: bool, host_if_name: Text<64> }
        -> af_packet_create_reply { sw_if_index: interface_index }
    /// Creates an interface of the router that uses a Linux interface.
    request af_packet_create_v2 {
        hw_addr: mac_address,
        use_random_hw_addr: bool,
        host_if_name: Text<64>,
        rx_frame_size: u32,
        tx_frame_size: u32,
        rx_frames_per_block: u32,
        tx_frames_per_block: u32,
        flags: u32,
        num_rx_queues: u16 = 1,
    } -> af_packet_create_v2_reply { sw_if_index: interface_index }
    /// Creates an interface of the router that uses a Linux interface.
    request af_packet_create_v3 {
        mode: af_packet_mode,
        hw_addr: mac_address,
        use_random_hw_addr: bool,
        host_if_name: Text<64>,
        rx_frame_size: u32,
        tx_frame_size: u32,
        rx_frames_per_block: u32,
        tx_frames_per_block: u32,
        flags: af_packet_flags,
        num_rx_queues: u16 = 1,
        num_tx_queues: u16 = 1,
    } -> af_packet_create_v3_reply { sw_if_index: interface_index }
    /// Returns a Linux interface to the host.
    request af_packet_delete { host_if_name: Text<64> }
    /// Enables or disables the offload of checksums to the device.
    request af_packet_set_l4_cksum_offload { sw_if_index: interface_index, set: bool }
    /// Asks for all interfaces.
    dump af_packet_dump { } -> af_packet_details { sw_if_index: interface_index, host_if_name: Text<64> }
}

/// Registers the module.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("af_packet", [2, 0, 0])
        .request::<af_packet_create>(|c, _, q| {
            let sw_if_index =
                create(c, q.host_if_name, (!q.use_random_hw_addr).then_some(q.hw_addr), Mode::V3)?;
            Ok(af_packet_create_reply { sw_if_index })
        })
        .request::<af_packet_create_v2>(|c, _, q| {
            if q.num_rx_queues > 1 {
                return Err(Code::UNSUPPORTED);
            }
            let sw_if_index =
                create(c, q.host_if_name, (!q.use_random_hw_addr).then_some(q.hw_addr), Mode::V3)?;
            Ok(af_packet_create_v2_reply { sw_if_index })
        })
        .request::<af_packet_create_v3>(|c, _, q| {
            match q.mode {
                af_packet_mode::AF_PACKET_API_MODE_ETHERNET => {}
                af_packet_mode::AF_PACKET_API_MODE_IP => return Err(Code::UNSUPPORTED),
                _ => return Err(Code::INVALID_VALUE),
            }
            if q.num_rx_queues > 1 || q.num_tx_queues > 1 {
                return Err(Code::UNSUPPORTED);
            }
            let is_v2 = q.flags.0 & af_packet_flags::AF_PACKET_API_FLAG_VERSION_2.0 != 0;
            let mode = if is_v2 { Mode::V2 } else { Mode::V3 };
            let sw_if_index = create(c, q.host_if_name, (!q.use_random_hw_addr).then_some(q.hw_addr), mode)?;
            Ok(af_packet_create_v3_reply { sw_if_index })
        })
        .request::<af_packet_delete>(|c, _, q| {
            let there = c.system.router.interface_named(&format!("{PREFIX}{}", q.host_if_name.0));
            // For a name without an interface, VPP returns this value, too.
            let number = there.map(|i| numbers::number(i.index)).ok_or(Code::INVALID_INTERFACE)?;
            interface::remove_backed::<Config>(c, number)
        })
        .request::<af_packet_set_l4_cksum_offload>(|c, _, q| {
            interface::must_be_backed::<Config>(c, q.sw_if_index)?;
            // Checksums are left to the device, or not, as the kernel allows.
            Err(Code::UNSUPPORTED)
        })
        .dump::<af_packet_dump, _>(|c, _| {
            vapi::all(interface::backed::<Config, _>(c, interface_index::NONE, |i, _, config| {
                af_packet_details {
                    sw_if_index: numbers::number(i.index),
                    host_if_name: config.name.as_str().into(),
                }
            }))
        });
}

fn create(
    c: &mut Context,
    Text(host): Text<64>,
    mac: Option<mac_address>,
    mode: Mode,
) -> Result<interface_index, Code> {
    let name = format!("{PREFIX}{host}");
    let config = Config { mode, ..Config::new(host) };
    let interface = Interface { mac: mac.and_then(change::mac), ..Interface::new(Spec::by(config)) };
    interface::make(c, Interface::key(&name), &name, interface)
}
