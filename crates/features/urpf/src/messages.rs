//! The module `urpf` of VPP's binary API.
#![allow(non_camel_case_types)]

use net::feature::{App, message};
use vapi::types::{address_family, interface_index};
use vapi::{Code, Done, Table, define};

use crate::node::{Mode, Urpf};

define! {
    /// How sources are checked.
    enum urpf_mode: u8 {
        /// Sources are not checked.
        URPF_API_MODE_OFF = 0,
        /// There must be a route to the source.
        URPF_API_MODE_LOOSE = 1,
        /// There must be a route to the source through the receive interface.
        URPF_API_MODE_STRICT = 2,
    }
    /// Sets how sources are checked on an interface.
    request urpf_update {
        is_input: bool = true,
        mode: urpf_mode,
        af: address_family,
        sw_if_index: interface_index,
    }
    /// Sets how sources are checked on an interface, and in which table they are looked up.
    request urpf_update_v2 {
        is_input: bool = true,
        mode: urpf_mode,
        af: address_family,
        sw_if_index: interface_index,
        table_id: u32 = 4294967295,
    }
    /// Asks for the interfaces on which sources are checked.
    dump urpf_interface_dump { sw_if_index: interface_index = 4294967295 } -> urpf_interface_details {
        sw_if_index: interface_index,
        is_input: bool,
        mode: urpf_mode,
        af: address_family,
        table_id: u32,
    }
}

/// The modes with their numbers.
const MODES: [(Mode, urpf_mode); 3] = [
    (Mode::Off, urpf_mode::URPF_API_MODE_OFF),
    (Mode::Loose, urpf_mode::URPF_API_MODE_LOOSE),
    (Mode::Strict, urpf_mode::URPF_API_MODE_STRICT),
];

/// Adds the module.
pub(crate) fn register<C: App>(table: &mut Table<C>) {
    table
        .module("urpf", [1, 0, 0])
        .request::<urpf_update>(|c, _, q| update(c, q.is_input, (q.mode, q.af), q.sw_if_index))
        .request::<urpf_update_v2>(|c, _, q| {
            let i = message::interface(c.router(), q.sw_if_index)?;
            // Sources are always looked up in the interface's own table, so no other table is valid.
            let own = c.router().vrfs().table(i.fib);
            match [own, u32::MAX].contains(&q.table_id) {
                true => update(c, q.is_input, (q.mode, q.af), q.sw_if_index),
                false => Err(Code::UNSUPPORTED),
            }
        })
        .dump::<urpf_interface_dump, _>(|c, q| vapi::all(dump(c, q.sw_if_index)));
}

fn update<C: App>(
    c: &mut C,
    input: bool,
    (mode, family): (urpf_mode, address_family),
    interface: interface_index,
) -> Result<Done, Code> {
    let mode = MODES.into_iter().find(|(_, number)| *number == mode).ok_or(Code::INVALID_VALUE)?.0;
    // Sources are checked on receipt only.
    if !input && mode != Mode::Off {
        message::interface(c.router(), interface)?;
        return Err(Code::UNSUPPORTED);
    }
    message::set(c, interface, |Urpf(modes)| match family {
        _ if !input => {}
        address_family::ADDRESS_IP4 => modes.ip4 = mode,
        _ => modes.ip6 = mode,
    })
}

fn dump<C: App>(c: &C, wanted: interface_index) -> Vec<urpf_interface_details> {
    let router = c.router();
    let mut all = Vec::new();
    for i in message::wanted(router, wanted) {
        let Urpf(modes) = router.setting(i.index);
        for (af, mode) in [(address_family::ADDRESS_IP4, modes.ip4), (address_family::ADDRESS_IP6, modes.ip6)]
        {
            let Some((_, number)) = MODES.into_iter().find(|(m, _)| *m == mode && mode != Mode::Off) else {
                continue;
            };
            all.push(urpf_interface_details {
                sw_if_index: message::number(i.index),
                is_input: true,
                mode: number,
                af,
                table_id: router.vrfs().table(i.fib),
            });
        }
    }
    all
}
