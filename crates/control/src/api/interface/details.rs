//! Descriptions of interfaces for clients.

use graph::RxMode;
use net::ethernet::Match;
use net::interface::Kind;
use net::router::InterfaceInfo;
use vapi::types::{if_status_flags, if_type, interface_index, link_duplex, rx_mode, sub_if_flags};
use vapi::wire::{Array, Text};

use super::messages::*;
use crate::api::{change, numbers};
use crate::app::Context;
use crate::intent::Interface;
use crate::system::Spec;

/// True if `flags` includes `flag`.
pub(super) fn has(flags: if_status_flags, flag: if_status_flags) -> bool {
    flags.0 & flag.0 != 0
}

/// True if `flags` includes `flag`.
pub(super) fn has_sub(flags: sub_if_flags, flag: sub_if_flags) -> bool {
    flags.0 & flag.0 != 0
}

/// Converts a receive mode of the API to the router's; `None` if the API's mode is unknown.
pub(super) fn mode_of(mode: rx_mode) -> Option<RxMode> {
    match mode {
        rx_mode::RX_MODE_API_POLLING => Some(RxMode::Polling),
        rx_mode::RX_MODE_API_INTERRUPT => Some(RxMode::Interrupt),
        rx_mode::RX_MODE_API_ADAPTIVE | rx_mode::RX_MODE_API_DEFAULT => Some(RxMode::Adaptive),
        _ => None,
    }
}

fn of_mode(mode: RxMode) -> rx_mode {
    match mode {
        RxMode::Polling => rx_mode::RX_MODE_API_POLLING,
        RxMode::Interrupt => rx_mode::RX_MODE_API_INTERRUPT,
        RxMode::Adaptive => rx_mode::RX_MODE_API_ADAPTIVE,
    }
}

/// Returns a function that returns the interfaces of a dump, one at each call, in the order of their indices.
pub(super) fn dump(
    c: &Context,
    q: &sw_interface_dump,
) -> impl FnMut(&Context) -> Option<sw_interface_details> + use<> {
    let filter = q.name_filter_valid.then(|| q.name_filter.0.to_lowercase());
    let all = filter.is_some() || [numbers::LOCAL, interface_index::NONE].contains(&q.sw_if_index);
    // The range of indexes that is left.
    let mut left = match (all, numbers::interface(c, q.sw_if_index)) {
        (true, _) => Some(0..=u32::MAX),
        (false, Ok(i)) => Some(i.index..=i.index),
        (false, Err(_)) => None,
    };
    let wanted = move |name: &str| filter.as_ref().is_none_or(|f| name.to_lowercase().contains(f));
    let mut local = all && wanted("local0");
    move |c| {
        if std::mem::take(&mut local) {
            return Some(local0());
        }
        let range = left.take()?;
        let next = c.system.router.interfaces_from(*range.start()).find(|i| wanted(&i.name));
        let i = next.filter(|i| range.contains(&i.index))?;
        left = i.index.checked_add(1).filter(|next| range.contains(next)).map(|next| next..=*range.end());
        Some(of(c, i))
    }
}

/// VPP's interface that sends and receives nothing.
fn local0() -> sw_interface_details {
    sw_interface_details {
        sw_if_index: numbers::LOCAL,
        interface_name: "local0".into(),
        interface_dev_type: "local".into(),
        ..Default::default()
    }
}

/// Returns the state of an interface as flags.
pub(crate) fn flags(c: &Context, i: &InterfaceInfo) -> if_status_flags {
    let (admin, link) =
        (if_status_flags::IF_STATUS_API_FLAG_ADMIN_UP, if_status_flags::IF_STATUS_API_FLAG_LINK_UP);
    let link_up = c.system.router.link_up(i.index);
    if_status_flags(if i.admin_up { admin.0 } else { 0 } | if link_up { link.0 } else { 0 })
}

fn of(c: &Context, i: &InterfaceInfo) -> sw_interface_details {
    let intent = Interface::find(c.store.tree(), &i.name).map(|(_, interface)| interface);
    let link = i.device.as_ref().map(|device| device.link);
    let mut details = sw_interface_details {
        sw_if_index: numbers::number(i.index),
        sup_sw_if_index: numbers::number(i.parent).0,
        l2_address: change::of_mac(i.mac),
        flags: flags(c, i),
        r#type: if i.kind == Kind::SubInterface {
            if_type::IF_API_TYPE_SUB
        } else {
            if_type::IF_API_TYPE_HARDWARE
        },
        link_duplex: if i.device.is_some() {
            link_duplex::LINK_DUPLEX_API_FULL
        } else {
            link_duplex::default()
        },
        link_speed: link.and_then(|link| link.speed_mbps).map_or(0, |mbps| mbps.saturating_mul(1000)),
        link_mtu: i.mtu,
        mtu: Array([i.mtu.into(), 0, 0, 0]),
        interface_name: i.name.as_str().into(),
        interface_dev_type: device_type(c, i).into(),
        tag: Text(intent.as_ref().and_then(|i| i.description.clone()).unwrap_or_default()),
        ..Default::default()
    };
    if let (Some(takes), Some(Interface { spec: Spec::Sub { id, .. }, .. })) = (i.takes, &intent) {
        details.sub_id = *id;
        sub(&mut details, takes);
    }
    details
}

/// Fills in the fields of `details` for the VLAN tags of the packets that a sub-interface receives.
fn sub(details: &mut sw_interface_details, takes: Match) {
    use sub_if_flags as f;
    let service = |is: bool| if is { f::SUB_IF_API_FLAG_DOT1AD.0 } else { 0 };
    let exact = f::SUB_IF_API_FLAG_EXACT_MATCH.0;
    let (tags, outer, inner, flags) = match takes {
        Match::Untagged => (0, 0, 0, f::SUB_IF_API_FLAG_NO_TAGS.0 | exact),
        Match::Default => (0, 0, 0, f::SUB_IF_API_FLAG_DEFAULT.0),
        Match::Tags(tags) => match tags.inner {
            None => (1, tags.outer, 0, f::SUB_IF_API_FLAG_ONE_TAG.0 | exact | service(tags.outer_service)),
            Some(inner) => {
                (2, tags.outer, inner, f::SUB_IF_API_FLAG_TWO_TAGS.0 | exact | service(tags.outer_service))
            }
        },
        Match::AnyInner { outer_service, outer } => {
            let any = f::SUB_IF_API_FLAG_INNER_VLAN_ID_ANY.0;
            (2, outer, 0, f::SUB_IF_API_FLAG_TWO_TAGS.0 | any | service(outer_service))
        }
        Match::AnyOuter { outer_service } => {
            let any = f::SUB_IF_API_FLAG_OUTER_VLAN_ID_ANY.0;
            (1, 0, 0, f::SUB_IF_API_FLAG_ONE_TAG.0 | any | service(outer_service))
        }
    };
    details.sub_number_of_tags = tags;
    (details.sub_outer_vlan_id, details.sub_inner_vlan_id) = (outer, inner);
    details.sub_if_flags = sub_if_flags(flags);
}

/// Returns VPP's name for the type of an interface's device; for a sub-interface, of its parent's device. vppcfg distinguishes
/// interfaces by this name.
fn device_type(c: &Context, i: &InterfaceInfo) -> &'static str {
    let i = c.system.router.interface(i.parent).unwrap_or(i);
    match i.kind {
        Kind::Loopback(_) => "Loopback",
        _ => match i.device.as_ref().map(|device| device.driver) {
            Some("tap") => "virtio",
            Some("packet-generator") => "pg",
            Some(driver) => driver,
            None => "",
        },
    }
}

/// Returns the receive queues of one or all interfaces.
pub(super) fn rx_placement(
    c: &Context,
    wanted: interface_index,
) -> impl FnMut(&Context) -> Option<sw_interface_rx_placement_details> + use<> {
    let slots = c.system.router.tables().placement.slots();
    let all = wanted == interface_index::NONE;
    let slots = slots.into_iter().filter(|s| all || numbers::number(s.interface) == wanted);
    let details = slots.map(|slot| {
        let at = slot.attention();
        sw_interface_rx_placement_details {
            sw_if_index: numbers::number(slot.interface),
            queue_id: slot.number as u32,
            // Thread 0 is the main thread.
            worker_id: at.worker as u32 + 1,
            mode: of_mode(at.mode),
        }
    });
    vapi::all(details.collect())
}
