//! Definitions of the module's messages.

use vapi::define;
use vapi::types::{
    address_family, address_with_prefix, fib_path, interface_index, ip_route, ip6_address, prefix,
};
use vapi::wire::{Count, Text};

define! {
    /// A VRF of a family.
    struct ip_table {
        /// Its number.
        table_id: u32,
        /// True for IPv6.
        is_ip6: bool,
        /// Its name; empty for none.
        name: Text<64>,
    }
    /// Adds or removes a VRF.
    request ip_table_add_del { is_add: bool = true, table: ip_table }
    /// Adds or removes a VRF.
    request ip_table_add_del_v2 { table: ip_table, create_mfib: bool = true, is_add: bool = true }
    /// Adds a VRF, with a free number if none is given (~0).
    request ip_table_allocate { table: ip_table } -> ip_table_allocate_reply { table: ip_table }
    /// Asks for all VRFs.
    dump ip_table_dump { } -> ip_table_details { table: ip_table }
    /// Begins to replace the routes of a VRF.
    request ip_table_replace_begin { table: ip_table }
    /// Ends the replacement: removes the routes that the client has not added again since it began.
    request ip_table_replace_end { table: ip_table }
    /// Removes the routes that clients added to a VRF.
    request ip_table_flush { table: ip_table }
    /// Adds or removes a route, or some of its paths.
    request ip_route_add_del { is_add: bool = true, is_multipath: bool, route: ip_route } -> ip_route_add_del_reply {
        stats_index: u32,
    }
    /// A route with its source.
    struct ip_route_v2 {
        /// Its table.
        table_id: u32,
        /// Index of its counters in the statistics.
        stats_index: u32,
        /// Its destination.
        prefix: prefix,
        /// Number of paths.
        n_paths: Count<u8>,
        /// The route's source; 0 for the usual source of API routes.
        src: u8,
        /// Its paths.
        paths: Vec<fib_path>,
    }
    /// Adds or removes a route, or some of its paths.
    request ip_route_add_del_v2 { is_add: bool = true, is_multipath: bool, route: ip_route_v2 }
        -> ip_route_add_del_v2_reply { stats_index: u32 }
    /// Asks for the routes of a VRF.
    dump ip_route_v2_dump { src: u8, table: ip_table } -> ip_route_v2_details { route: ip_route_v2 }
    /// Asks for the route of a prefix or, unless `exact`, for the most specific route that covers the prefix.
    request ip_route_lookup_v2 { table_id: u32, exact: u8, prefix: prefix } -> ip_route_lookup_v2_reply {
        route: ip_route_v2,
    }
    /// The fields that the flow hash includes.
    flags ip_flow_hash_config: u32 {
        /// The source address.
        IP_API_FLOW_HASH_SRC_IP = 1,
        /// The destination address.
        IP_API_FLOW_HASH_DST_IP = 2,
        /// The source port.
        IP_API_FLOW_HASH_SRC_PORT = 4,
        /// The destination port.
        IP_API_FLOW_HASH_DST_PORT = 8,
        /// The protocol.
        IP_API_FLOW_HASH_PROTO = 16,
        /// Source and destination are exchanged in the hash.
        IP_API_FLOW_HASH_REVERSE = 32,
        /// Both directions of a flow have the same hash.
        IP_API_FLOW_HASH_SYMETRIC = 64,
        /// The flow label.
        IP_API_FLOW_HASH_FLOW_LABEL = 128,
    }
    /// The fields that the flow hash includes.
    flags ip_flow_hash_config_v2: u32 {
        /// The source address.
        IP_API_V2_FLOW_HASH_SRC_IP = 1,
        /// The destination address.
        IP_API_V2_FLOW_HASH_DST_IP = 2,
        /// The source port.
        IP_API_V2_FLOW_HASH_SRC_PORT = 4,
        /// The destination port.
        IP_API_V2_FLOW_HASH_DST_PORT = 8,
        /// The protocol.
        IP_API_V2_FLOW_HASH_PROTO = 16,
        /// Source and destination are exchanged in the hash.
        IP_API_V2_FLOW_HASH_REVERSE = 32,
        /// Both directions of a flow have the same hash.
        IP_API_V2_FLOW_HASH_SYMETRIC = 64,
        /// The flow label.
        IP_API_V2_FLOW_HASH_FLOW_LABEL = 128,
        /// The TEID of GTP.
        IP_API_V2_FLOW_HASH_GTPV1_TEID = 256,
    }
    /// Sets the fields that the flow hash of a VRF includes.
    request set_ip_flow_hash {
        vrf_id: u32,
        is_ipv6: bool,
        src: bool,
        dst: bool,
        sport: bool,
        dport: bool,
        proto: bool,
        reverse: bool,
        symmetric: bool,
    }
    /// Sets the fields that the flow hash of a VRF includes.
    request set_ip_flow_hash_v2 { table_id: u32, af: address_family, flow_hash_config: ip_flow_hash_config }
    /// Sets the fields that the flow hash of a VRF includes.
    request set_ip_flow_hash_v3 { table_id: u32, af: address_family, flow_hash_config: ip_flow_hash_config_v2 }
    /// Asks for the routes of a VRF.
    dump ip_route_dump { table: ip_table } -> ip_route_details { route: ip_route }
    /// Asks for the route of a prefix or, unless `exact`, for the most specific route that covers the prefix.
    request ip_route_lookup { table_id: u32, exact: u8, prefix: prefix } -> ip_route_lookup_reply { route: ip_route }
    /// Asks for the addresses of an interface.
    dump ip_address_dump { sw_if_index: interface_index, is_ipv6: bool } -> ip_address_details {
        sw_if_index: interface_index,
        prefix: address_with_prefix,
    }
    /// Asks for interfaces that use the addresses of other interfaces.
    dump ip_unnumbered_dump { sw_if_index: interface_index = 4294967295 } -> ip_unnumbered_details {
        sw_if_index: interface_index,
        ip_sw_if_index: interface_index,
    }
    /// Asks for interfaces that have addresses of a family.
    dump ip_dump { is_ipv6: bool } -> ip_details { sw_if_index: interface_index, is_ipv6: bool }
    /// Enables or disables IPv6 on an interface.
    request sw_interface_ip6_enable_disable { sw_if_index: interface_index, enable: bool }
    /// Sets the link-local address of an interface.
    request sw_interface_ip6_set_link_local_address { sw_if_index: interface_index, ip: ip6_address }
    /// Asks for the link-local address of an interface.
    request sw_interface_ip6_get_link_local_address { sw_if_index: interface_index }
        -> sw_interface_ip6_get_link_local_address_reply { ip: ip6_address }
}

impl From<ip_route> for ip_route_v2 {
    fn from(route: ip_route) -> Self {
        let ip_route { table_id, stats_index, prefix, n_paths, paths } = route;
        ip_route_v2 { table_id, stats_index, prefix, n_paths, src: 0, paths }
    }
}

impl From<ip_route_v2> for ip_route {
    fn from(route: ip_route_v2) -> Self {
        let ip_route_v2 { table_id, stats_index, prefix, n_paths, src: _, paths } = route;
        ip_route { table_id, stats_index, prefix, n_paths, paths }
    }
}
