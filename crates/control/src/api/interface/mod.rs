//! The module `interface`: messages about all kinds of interfaces, including loopback interfaces and sub-interfaces.
#![allow(non_camel_case_types)]

mod backed;
mod details;
mod events;
pub(super) mod messages;

use net::ethernet::{Match, Tags};
use net::feature::free_number;
use net::interface::Kind;
use net::router::ReceiveQueue;
use vapi::table::Module;
use vapi::types::{interface_index, rx_mode, sub_if_flags};
use vapi::wire::Array;
use vapi::{Caller, Code, DONE, Done, Table};

use super::{change, ip, numbers, replace};
use crate::app::Context;
use crate::intent::{Addresses, Change, Interface, Unnumbered};
use crate::system::{Loopback, Spec};
use messages::*;

pub(crate) use backed::{backed, must_be_backed, remove_backed};
pub(crate) use details::flags;
pub(super) use events::look;

/// Registers the module.
pub(super) fn register(table: &mut Table<Context>) {
    let module = table.module("interface", [3, 2, 4]);
    made(queues(settings(module)));
    // Any loopback can be the BVI of a bridge domain, but VPP has messages of its own for it.
    table
        .module("l2", [3, 3, 0])
        .request::<bvi_create>(|c, _, q| {
            let instance = (q.user_instance != u32::MAX).then_some(q.user_instance);
            Ok(bvi_create_reply { sw_if_index: loopback(c, change::mac(q.mac), "bvi", instance)? })
        })
        .request::<bvi_delete>(|c, _, q| delete(c, q.sw_if_index, |kind| matches!(kind, Kind::Loopback(_))));
}

/// Adds the messages about the settings of every interface.
fn settings(module: Module<'_, Context>) -> Module<'_, Context> {
    module
        .request::<sw_interface_set_flags>(set_flags)
        .request::<sw_interface_set_promisc>(|c, _, q| {
            numbers::interface(c, q.sw_if_index)?;
            // Devices are promiscuous as far as their drivers need it.
            Err(Code::UNSUPPORTED)
        })
        .request::<hw_interface_set_mtu>(|c, _, q| {
            change::interface(c, q.sw_if_index, |i| i.mtu = (q.mtu != 0).then_some(q.mtu))?;
            DONE
        })
        .request::<sw_interface_set_mtu>(set_mtu)
        .request::<sw_interface_set_ip_directed_broadcast>(|c, _, q| {
            numbers::interface(c, q.sw_if_index)?;
            // Directed broadcasts are never forwarded (RFC 2644).
            if q.enable { Err(Code::UNSUPPORTED) } else { DONE }
        })
        .event::<sw_interface_event>()
        .registration::<want_interface_events>(|c, caller, q| {
            let changed = events::want(c, caller.client, q.enable_disable != 0, q.pid);
            if changed { DONE } else { Err(Code::INVALID_REGISTRATION) }
        })
        .dump::<sw_interface_dump, _>(|c, q| details::dump(c, &q))
        .request::<sw_interface_add_del_address>(add_del_address)
        .request::<sw_interface_address_replace_begin>(|c, _, _| {
            c.replacing.begin_addresses();
            DONE
        })
        .request::<sw_interface_address_replace_end>(|c, _, _| replace::end_addresses(c))
        .request::<sw_interface_set_table>(|c, _, q| {
            let table = change::table(c, q.vrf_id)?;
            change::interface(c, q.sw_if_index, |i| i.table = table)?;
            ip::sweep(c);
            DONE
        })
        .question::<sw_interface_get_table>(|c, q| {
            let fib = numbers::interface(c, q.sw_if_index)?.fib;
            Ok(sw_interface_get_table_reply { vrf_id: c.system.router.vrfs().table(fib) })
        })
        .request::<sw_interface_set_unnumbered>(set_unnumbered)
        .operation::<sw_interface_clear_stats>(clear_stats)
        .request::<sw_interface_tag_add_del>(|c, _, q| {
            let tag = (q.is_add && !q.tag.0.is_empty()).then_some(q.tag.0);
            change::interface(c, q.sw_if_index, |i| i.description = tag)?;
            DONE
        })
        .request::<sw_interface_add_del_mac_address>(|c, _, q| {
            numbers::interface(c, interface_index(q.sw_if_index))?;
            Err(Code::UNSUPPORTED)
        })
        .request::<sw_interface_set_mac_address>(|c, _, q| {
            change::interface(c, q.sw_if_index, |i| i.mac = change::mac(q.mac_address))?;
            DONE
        })
        .question::<sw_interface_get_mac_address>(|c, q| {
            let mac_address = change::of_mac(numbers::interface(c, q.sw_if_index)?.mac);
            Ok(sw_interface_get_mac_address_reply { mac_address })
        })
        .request::<sw_interface_set_interface_name>(|_, _, _| Err(Code::UNSUPPORTED))
        .request::<interface_name_renumber>(|_, _, _| Err(Code::UNSUPPORTED))
        // Unicast, multicast and broadcast are always counted.
        .request::<collect_detailed_interface_stats>(|c, _, q| {
            numbers::interface(c, q.sw_if_index)?;
            DONE
        })
        .request::<pcap_set_filter_function>(|_, _, _| Err(Code::UNSUPPORTED))
        .request::<pcap_trace_on>(|_, _, _| Err(Code::UNSUPPORTED))
        .request::<pcap_trace_off>(|_, _, _| Err(Code::UNSUPPORTED))
}

/// Adds the messages about the queues of devices.
fn queues(module: Module<'_, Context>) -> Module<'_, Context> {
    module
        .request::<sw_interface_set_rx_mode>(set_rx_mode)
        .request::<sw_interface_set_rx_placement>(set_rx_placement)
        .request::<sw_interface_set_tx_placement>(|_, _, _| Err(Code::UNSUPPORTED))
        .dump::<sw_interface_rx_placement_dump, _>(|c, q| details::rx_placement(c, q.sw_if_index))
        // Every worker has a transmit queue of its own, or shares one as the driver decides.
        .get::<sw_interface_tx_placement_get>(|_, _| {
            (Vec::new(), Ok(sw_interface_tx_placement_get_reply { cursor: u32::MAX }))
        })
        .request::<sw_interface_set_default_rx_mode>(|_, _, _| Err(Code::UNSUPPORTED))
        .question::<sw_interface_get_default_rx_mode>(|_, _| {
            Ok(sw_interface_get_default_rx_mode_reply { mode: rx_mode::RX_MODE_API_ADAPTIVE })
        })
}

/// Adds the messages that make and remove interfaces.
fn made(module: Module<'_, Context>) {
    module
        .request::<create_subif>(sub_interface)
        .request::<create_vlan_subif>(|c, _, q| {
            let vlan = u16::try_from(q.vlan_id).map_err(|_| Code::INVALID_VLAN)?;
            let tags = Tags { outer_service: false, outer: vlan, inner: None };
            let sw_if_index = make_sub(c, q.sw_if_index, q.vlan_id, tags.into())?;
            Ok(create_vlan_subif_reply { sw_if_index })
        })
        .request::<delete_subif>(|c, _, q| delete(c, q.sw_if_index, |kind| kind == Kind::SubInterface))
        .request::<create_loopback>(|c, _, q| {
            let sw_if_index = loopback(c, change::mac(q.mac_address), "loop", None)?;
            Ok(create_loopback_reply { sw_if_index })
        })
        .request::<create_loopback_instance>(|c, _, q| {
            let instance = (q.is_specified && q.user_instance != u32::MAX).then_some(q.user_instance);
            let sw_if_index = loopback(c, change::mac(q.mac_address), "loop", instance)?;
            Ok(create_loopback_instance_reply { sw_if_index })
        })
        .request::<delete_loopback>(|c, _, q| {
            delete(c, q.sw_if_index, |kind| matches!(kind, Kind::Loopback(_)))
        });
}

fn set_flags(c: &mut Context, _: &Caller, q: sw_interface_set_flags) -> Result<Done, Code> {
    let up = details::has(q.flags, vapi::types::if_status_flags::IF_STATUS_API_FLAG_ADMIN_UP);
    change::interface(c, q.sw_if_index, |i| i.up = up)?;
    DONE
}

/// Sets the MTU of an interface. Clients give an MTU for layer 3, and one for each protocol. This router has only one MTU for all
/// protocols: the given layer 3 MTU or, if that is 0, the largest given MTU of a protocol.
fn set_mtu(c: &mut Context, _: &Caller, q: sw_interface_set_mtu) -> Result<Done, Code> {
    let Array([l3, others @ ..]) = q.mtu;
    let wanted = if l3 != 0 { l3 } else { others.into_iter().max().unwrap_or(0) };
    let mtu = u16::try_from(wanted).map_err(|_| Code::INVALID_VALUE)?;
    change::interface(c, q.sw_if_index, |i| i.mtu = (mtu != 0).then_some(mtu))?;
    DONE
}

fn add_del_address(c: &mut Context, _: &Caller, q: sw_interface_add_del_address) -> Result<Done, Code> {
    let interface = numbers::name(c, q.sw_if_index)?;
    let mut list = Addresses::on(&interface, c.store.tree());
    if q.del_all {
        list.clear();
    } else {
        let address = change::address(&q.prefix.0)?;
        if q.is_add {
            c.replacing.address(&interface, address);
        }
        match (q.is_add, list.contains(&address)) {
            (true, true) => return DONE,
            (true, false) => list.push(address),
            (false, true) => list.retain(|a| *a != address),
            (false, false) => return Err(Code::ADDRESS_NOT_FOUND_FOR_INTERFACE),
        }
    }
    change::make(c, vec![Addresses::change_to(&interface, list)])?;
    DONE
}

/// Lets the interface `unnumbered_sw_if_index` use the addresses of the interface `sw_if_index`, or ends this.
fn set_unnumbered(c: &mut Context, _: &Caller, q: sw_interface_set_unnumbered) -> Result<Done, Code> {
    let key = Unnumbered::key(&numbers::name(c, q.unnumbered_sw_if_index)?);
    let change = match q.is_add {
        true => Change::set(key, Unnumbered(numbers::name(c, q.sw_if_index)?)),
        false => Change::remove(key),
    };
    change::make(c, vec![change])?;
    DONE
}

fn clear_stats(c: &mut Context, _: &Caller, q: sw_interface_clear_stats) -> Result<Done, Code> {
    let all: Vec<u32> = match q.sw_if_index {
        interface_index::NONE => c.system.router.interfaces().map(|i| i.index).collect(),
        number => vec![numbers::interface(c, number)?.index],
    };
    all.into_iter().for_each(|index| c.system.router.clear_interface(index));
    DONE
}

fn set_rx_mode(c: &mut Context, _: &Caller, q: sw_interface_set_rx_mode) -> Result<Done, Code> {
    let mode = details::mode_of(q.mode).ok_or(Code::INVALID_VALUE)?;
    if q.queue_id_valid {
        queue(c, q.sw_if_index, q.queue_id)?;
    }
    change::interface(c, q.sw_if_index, |i| match q.queue_id_valid {
        true => i.receive.queues.entry(q.queue_id as usize).or_default().mode = Some(mode),
        false => {
            i.receive.mode = mode;
            i.receive.queues.values_mut().for_each(|queue| queue.mode = None);
            i.receive.queues.retain(|_, queue| *queue != ReceiveQueue::default());
        }
    })?;
    DONE
}

/// Checks that an interface has the receive queue `queue`.
fn queue(c: &Context, number: interface_index, queue: u32) -> Result<(), Code> {
    let index = numbers::interface(c, number)?.index;
    let slots = c.system.router.tables().placement.slots();
    let has = slots.iter().any(|slot| slot.interface == index && slot.number == queue as usize);
    if has { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

fn set_rx_placement(c: &mut Context, _: &Caller, q: sw_interface_set_rx_placement) -> Result<Done, Code> {
    if q.is_main || q.worker_id as usize >= c.system.router.workers() {
        return Err(Code::INVALID_WORKER);
    }
    queue(c, q.sw_if_index, q.queue_id)?;
    let worker = Some(q.worker_id as usize);
    change::interface(c, q.sw_if_index, |i| {
        i.receive.queues.entry(q.queue_id as usize).or_default().worker = worker;
    })?;
    DONE
}

/// Creates a loopback interface whose name consists of `prefix` and the number `instance`; if it is `None`, of a free number.
fn loopback(
    c: &mut Context,
    mac: Option<wire::Mac>,
    prefix: &str,
    instance: Option<u32>,
) -> Result<interface_index, Code> {
    let instance = instance.unwrap_or_else(|| free_number(c, prefix));
    let name = format!("{prefix}{instance}");
    let loopback = Loopback::named(&name).ok_or(Code::INVALID_VALUE)?;
    let interface = Interface { mac, ..Interface::new(Spec::Loopback(loopback)) };
    make(c, Interface::key(&name), &name, interface)
}

/// Creates an interface, and returns its number.
///
/// # Errors
/// If an interface with this name exists, or the change is refused.
pub(crate) fn make(
    c: &mut Context,
    key: crate::intent::Key,
    name: &str,
    interface: Interface,
) -> Result<interface_index, Code> {
    if c.store.get(&key).is_some() {
        return Err(Code::IF_ALREADY_EXISTS);
    }
    change::make(c, vec![Change::set(key, interface)])?;
    let made = c.system.router.interface_named(name).ok_or(Code::UNSPECIFIED)?;
    Ok(numbers::number(made.index))
}

fn sub_interface(c: &mut Context, _: &Caller, q: create_subif) -> Result<create_subif_reply, Code> {
    let has = |flag| details::has_sub(q.sub_if_flags, flag);
    let outer_service = has(sub_if_flags::SUB_IF_API_FLAG_DOT1AD);
    let any_outer = has(sub_if_flags::SUB_IF_API_FLAG_OUTER_VLAN_ID_ANY);
    let takes = if has(sub_if_flags::SUB_IF_API_FLAG_DEFAULT) {
        Match::Default
    } else if has(sub_if_flags::SUB_IF_API_FLAG_NO_TAGS) {
        Match::Untagged
    } else if has(sub_if_flags::SUB_IF_API_FLAG_TWO_TAGS) {
        match (any_outer, has(sub_if_flags::SUB_IF_API_FLAG_INNER_VLAN_ID_ANY)) {
            (true, _) => return Err(Code::UNSUPPORTED),
            (false, true) => Match::AnyInner { outer_service, outer: q.outer_vlan_id },
            (false, false) => {
                Tags { outer_service, outer: q.outer_vlan_id, inner: Some(q.inner_vlan_id) }.into()
            }
        }
    } else if any_outer {
        Match::AnyOuter { outer_service }
    } else {
        Tags { outer_service, outer: q.outer_vlan_id, inner: None }.into()
    };
    let sw_if_index = make_sub(c, q.sw_if_index, q.sub_id, takes)?;
    Ok(create_subif_reply { sw_if_index })
}

fn make_sub(
    c: &mut Context,
    parent: interface_index,
    id: u32,
    takes: Match,
) -> Result<interface_index, Code> {
    let parent = numbers::name(c, parent)?;
    let name = format!("{parent}.{id}");
    let key = Interface::sub_key(&name);
    if c.store.get(&key).is_some() {
        return Err(Code::SUBIF_ALREADY_EXISTS);
    }
    make(c, key, &name, Interface::new(Spec::Sub { parent, id, takes }))
}

/// Removes an interface with all its dependents. Refuses an interface for whose kind `is_kind` returns false.
fn delete(c: &mut Context, number: interface_index, is_kind: impl Fn(Kind) -> bool) -> Result<Done, Code> {
    let interface = numbers::interface(c, number)?;
    if is_kind(interface.kind) { remove(c, number) } else { Err(Code::INVALID_SW_IF_INDEX) }
}

/// Removes an interface with all its dependents.
///
/// # Errors
/// If there is no such interface, or the change is refused.
pub(crate) fn remove(c: &mut Context, number: interface_index) -> Result<Done, Code> {
    let name = numbers::name(c, number)?;
    let (key, _) = Interface::find(c.store.tree(), &name).ok_or(Code::INVALID_SW_IF_INDEX)?;
    let sweep = |c: &mut Context| {
        ip::sweep(c);
        Ok(())
    };
    change::remove(c, key, sweep)?;
    DONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cli, FEATURES};

    #[test]
    fn a_tag_that_changes_the_direction_of_text_is_refused() {
        let mut c = Cli::with(FEATURES);
        let sw_if_index = numbers::number(c.context.system.router.interface_named("pg0").unwrap().index);
        let tagged = |tag: &str| sw_interface_tag_add_del { is_add: true, sw_if_index, tag: tag.into() };
        c.ask(&tagged("uplink")).unwrap();
        assert!(c.ask(&tagged("up\u{202e}link")).is_err());
        assert!(c.ok("show config").contains("set interface description pg0 uplink"));
    }
}
