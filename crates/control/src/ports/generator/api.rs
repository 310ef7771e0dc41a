//! The module `pg` of the binary API: packet generators.
#![allow(non_camel_case_types)]

use std::path::Path;

use net::feature::free_number;
use vapi::types::interface_index;
use vapi::wire::Line;
use vapi::{Caller, Code, DONE, Done, Table, define};

use super::{Generator, Mode, PREFIX, enable, recorded};
use crate::api::{change, interface, numbers};
use crate::app::Context;
use crate::intent::Interface;
use crate::system::Spec;

define! {
    /// The first header of a generator's packets.
    enum pg_interface_mode: u8 { PG_API_MODE_ETHERNET = 0, PG_API_MODE_IP4 = 1, PG_API_MODE_IP6 = 2 }
    /// The kinds of packets that a generator's sink accepts.
    flags pg_interface_flags: u32 {
        PG_API_FLAG_NONE = 0,
        PG_API_FLAG_CSUM_OFFLOAD = 1,
        PG_API_FLAG_GSO = 2,
        PG_API_FLAG_GRO_COALESCE = 4,
    }
    /// Makes a packet generator.
    request pg_create_interface { interface_id: interface_index, gso_enabled: bool, gso_size: u32 }
        -> pg_create_interface_reply { sw_if_index: interface_index }
    /// Makes a packet generator.
    request pg_create_interface_v2 {
        interface_id: interface_index, gso_enabled: bool, gso_size: u32, mode: pg_interface_mode,
    } -> pg_create_interface_v2_reply { sw_if_index: interface_index }
    /// Makes a packet generator.
    request pg_create_interface_v3 {
        interface_id: interface_index, pg_flags: pg_interface_flags, gso_size: u32, mode: pg_interface_mode,
    } -> pg_create_interface_v3_reply { sw_if_index: interface_index }
    /// Removes a packet generator.
    request pg_delete_interface { sw_if_index: interface_index }
    /// Lets the sink of a packet generator join TCP segments.
    request pg_interface_enable_disable_coalesce { sw_if_index: interface_index, coalesce_enabled: bool }
    /// Begins or ends a recording of what a packet generator's interface sends.
    request pg_capture { interface_id: interface_index, is_enabled: bool = true, count: u32, pcap_file_name: Line }
    /// Enables or disables the stream with this name; all streams if the name is empty.
    request pg_enable_disable { is_enabled: bool = true, stream_name: Line }
}

/// Registers the module.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("pg", [2, 1, 0])
        .request::<pg_create_interface>(|c, _, q| {
            let sw_if_index = create(c, q.interface_id, pg_interface_mode::PG_API_MODE_ETHERNET)?;
            Ok(pg_create_interface_reply { sw_if_index })
        })
        .request::<pg_create_interface_v2>(|c, _, q| {
            let sw_if_index = create(c, q.interface_id, q.mode)?;
            Ok(pg_create_interface_v2_reply { sw_if_index })
        })
        // The sink takes packets as they would be on a link: segmented, and with checksums.
        .request::<pg_create_interface_v3>(|c, _, q| {
            let sw_if_index = create(c, q.interface_id, q.mode)?;
            Ok(pg_create_interface_v3_reply { sw_if_index })
        })
        .request::<pg_delete_interface>(|c, _, q| {
            must_be_generator(c, q.sw_if_index)?;
            interface::remove(c, q.sw_if_index)
        })
        .request::<pg_interface_enable_disable_coalesce>(|c, _, q| {
            must_be_generator(c, q.sw_if_index)?;
            if q.coalesce_enabled { Err(Code::UNSUPPORTED) } else { DONE }
        })
        .request::<pg_capture>(capture)
        .request::<pg_enable_disable>(|c, _, q| {
            let name = (!q.stream_name.0.is_empty()).then_some(q.stream_name.0.as_str());
            match enable(c, name, q.is_enabled) {
                Ok(false) if name.is_some() => Err(Code::NO_SUCH_ENTRY),
                Ok(_) => DONE,
                Err(_) => Err(Code::UNSPECIFIED),
            }
        });
}

fn create(
    c: &mut Context,
    number: interface_index,
    mode: pg_interface_mode,
) -> Result<interface_index, Code> {
    let mode = match mode {
        pg_interface_mode::PG_API_MODE_ETHERNET => Mode::Ethernet,
        pg_interface_mode::PG_API_MODE_IP4 => Mode::Ip4,
        pg_interface_mode::PG_API_MODE_IP6 => Mode::Ip6,
        _ => return Err(Code::INVALID_VALUE),
    };
    let number = if number == interface_index::NONE { free_number(c, PREFIX) } else { number.0 };
    if number > u16::MAX.into() {
        return Err(Code::INVALID_VALUE);
    }
    let name = format!("{PREFIX}{number}");
    if let Some(there) = c.system.router.interface_named(&name) {
        // Like VPP, returns a generator that exists.
        return Ok(numbers::number(there.index));
    }
    interface::make(c, Interface::key(&name), &name, Interface::new(Spec::by(Generator { mode })))
}

fn must_be_generator(c: &Context, number: interface_index) -> Result<String, Code> {
    let name = numbers::name(c, number)?;
    let is = Interface::find(c.store.tree(), &name).is_some_and(|(_, i)| i.spec.get::<Generator>().is_some());
    if is { Ok(name) } else { Err(Code::INVALID_INTERFACE) }
}

/// Begins or ends a recording. The command of the CLI waits until the packets of an ended recording are in the file; this function does
/// not wait.
fn capture(c: &mut Context, _: &Caller, q: pg_capture) -> Result<Done, Code> {
    // The number in the interface's name, as in VPP.
    let name = format!("{PREFIX}{}", q.interface_id.0);
    let sinks = c.system.router.state::<super::Generators>().map_err(|_| Code::UNSPECIFIED)?;
    let (_, sink) = sinks.of(&name).map_err(|_| Code::INVALID_SW_IF_INDEX)?;
    if !q.is_enabled {
        drop(sink.stop_recording());
        return DONE;
    }
    if sink.records() {
        return Err(Code::INVALID_VALUE);
    }
    let file = Path::new(&q.pcap_file_name.0);
    if !file.is_absolute() {
        return Err(Code::INVALID_VALUE);
    }
    let count = (q.count != 0 && q.count != u32::MAX).then_some(q.count.into());
    recorded::record(c, &name, file, count).map_err(|e| change::refused(e.to_string().into()))?;
    DONE
}
