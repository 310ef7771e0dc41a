//! Definitions of the module's messages.

use vapi::define;
use vapi::types::{address_with_prefix, interface_index, ip_route, ip6_address, prefix};
use vapi::wire::Text;

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
    /// Removes the routes that clients added to a VRF.
    request ip_table_flush { table: ip_table }
    /// Adds or removes a route, or paths of one.
    request ip_route_add_del { is_add: bool = true, is_multipath: bool, route: ip_route } -> ip_route_add_del_reply {
        stats_index: u32,
    }
    /// Asks for the routes of a VRF.
    dump ip_route_dump { table: ip_table } -> ip_route_details { route: ip_route }
    /// Asks for the route of a prefix, or the route that packets to it take.
    request ip_route_lookup { table_id: u32, exact: u8, prefix: prefix } -> ip_route_lookup_reply { route: ip_route }
    /// Asks for the addresses of an interface.
    dump ip_address_dump { sw_if_index: interface_index, is_ipv6: bool } -> ip_address_details {
        sw_if_index: interface_index,
        prefix: address_with_prefix,
    }
    /// Asks for interfaces that use the addresses of others.
    dump ip_unnumbered_dump { sw_if_index: interface_index = 4294967295 } -> ip_unnumbered_details {
        sw_if_index: interface_index,
        ip_sw_if_index: interface_index,
    }
    /// Asks for interfaces that have addresses of a family.
    dump ip_dump { is_ipv6: bool } -> ip_details { sw_if_index: interface_index, is_ipv6: bool }
    /// Enables or disables IPv6 on an interface.
    request sw_interface_ip6_enable_disable { sw_if_index: interface_index, enable: bool }
    /// Asks for the link-local address of an interface.
    request sw_interface_ip6_get_link_local_address { sw_if_index: interface_index }
        -> sw_interface_ip6_get_link_local_address_reply { ip: ip6_address }
}
