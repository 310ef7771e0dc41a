//! Definitions of the module's messages.

use vapi::define;
use vapi::types::{address, address_family, interface_index, mac_address};

define! {
    /// Properties of a neighbor.
    enum ip_neighbor_flags: u8 {
        /// No properties.
        IP_API_NEIGHBOR_FLAG_NONE = 0,
        /// The operator set it.
        IP_API_NEIGHBOR_FLAG_STATIC = 1,
        /// It has no route.
        IP_API_NEIGHBOR_FLAG_NO_FIB_ENTRY = 2,
    }
    /// A neighbor.
    struct ip_neighbor {
        /// Its interface.
        sw_if_index: interface_index,
        /// Its properties.
        flags: ip_neighbor_flags,
        /// Its Ethernet address.
        mac_address: mac_address,
        /// Its IP address.
        ip_address: address,
    }
    /// Adds or removes a neighbor.
    request ip_neighbor_add_del { is_add: bool, neighbor: ip_neighbor } -> ip_neighbor_add_del_reply { stats_index: u32 }
    /// Asks for the neighbors of one or all interfaces.
    dump ip_neighbor_dump { sw_if_index: interface_index = 4294967295, af: address_family } -> ip_neighbor_details {
        age: f64,
        neighbor: ip_neighbor,
    }
    /// Sets the limits of the neighbor table of a family.
    request ip_neighbor_config { af: address_family, max_number: u32, max_age: u32, recycle: bool }
    /// Asks for the limits of the neighbor table of a family.
    request ip_neighbor_config_get { af: address_family } -> ip_neighbor_config_get_reply {
        af: address_family,
        max_number: u32,
        max_age: u32,
        recycle: bool,
    }
    /// Begins to replace all neighbors.
    request ip_neighbor_replace_begin { }
    /// Removes the neighbors that were not added again.
    request ip_neighbor_replace_end { }
    /// Removes the neighbors of an address family, on one interface or on all.
    request ip_neighbor_flush { af: address_family, sw_if_index: interface_index = 4294967295 }
    /// Registers for events about new neighbors.
    request want_ip_neighbor_events {
        enable: bool,
        pid: u32,
        ip: address,
        sw_if_index: interface_index = 4294967295,
    } events ip_neighbor_event;
    /// A neighbor was learned or set.
    event ip_neighbor_event { pid: u32, neighbor: ip_neighbor }
    /// Registers for events about new and removed neighbors.
    request want_ip_neighbor_events_v2 {
        enable: bool,
        pid: u32,
        ip: address,
        sw_if_index: interface_index = 4294967295,
    } events ip_neighbor_event_v2;
    /// What happened to a neighbor.
    enum ip_neighbor_event_flags: u32 {
        /// It was learned or set.
        IP_NEIGHBOR_API_EVENT_FLAG_ADDED = 1,
        /// It was removed.
        IP_NEIGHBOR_API_EVENT_FLAG_REMOVED = 2,
    }
    /// A neighbor was learned, set or removed.
    event ip_neighbor_event_v2 { pid: u32, flags: ip_neighbor_event_flags, neighbor: ip_neighbor }
}
