//! Definitions of the module's messages.

use vapi::define;
use vapi::types::{
    address_with_prefix, if_status_flags, if_type, interface_index, link_duplex, mac_address, rx_mode,
    sub_if_flags,
};
use vapi::wire::{Array, Count, Line, Text};

define! {
    /// Brings an interface up or down.
    request sw_interface_set_flags { sw_if_index: interface_index, flags: if_status_flags }
    /// Sets promiscuous mode.
    request sw_interface_set_promisc { sw_if_index: interface_index, promisc_on: bool }
    /// Sets the MTU of a device.
    request hw_interface_set_mtu { sw_if_index: interface_index, mtu: u16 }
    /// Sets the MTU of an interface, by protocol.
    request sw_interface_set_mtu { sw_if_index: interface_index, mtu: Array<u32, 4> }
    /// Enables or disables sending of directed broadcasts on an interface. Enabling is not supported.
    request sw_interface_set_ip_directed_broadcast { sw_if_index: interface_index, enable: bool }
    /// An interface changed, or was removed.
    event sw_interface_event { pid: u32, sw_if_index: interface_index, flags: if_status_flags, deleted: bool }
    /// Registers for events of interfaces.
    request want_interface_events { enable_disable: u32, pid: u32 } events sw_interface_event;
    /// Asks for interfaces: all (index 0 or ~0), one, or those whose names contain a text.
    dump sw_interface_dump {
        sw_if_index: interface_index = 4294967295,
        name_filter_valid: bool,
        name_filter: Line,
    } -> sw_interface_details {
        sw_if_index: interface_index,
        sup_sw_if_index: u32,
        l2_address: mac_address,
        flags: if_status_flags,
        r#type: if_type,
        link_duplex: link_duplex,
        link_speed: u32,
        link_mtu: u16,
        mtu: Array<u32, 4>,
        sub_id: u32,
        sub_number_of_tags: u8,
        sub_outer_vlan_id: u16,
        sub_inner_vlan_id: u16,
        sub_if_flags: sub_if_flags,
        vtr_op: u32,
        vtr_push_dot1q: u32,
        vtr_tag1: u32,
        vtr_tag2: u32,
        outer_tag: u16,
        b_dmac: mac_address,
        b_smac: mac_address,
        b_vlanid: u16,
        i_sid: u32,
        interface_name: Text<64>,
        interface_dev_type: Text<64>,
        tag: Text<64>,
    }
    /// Adds or removes an address, or removes all.
    request sw_interface_add_del_address {
        sw_if_index: interface_index,
        is_add: bool,
        del_all: bool,
        prefix: address_with_prefix,
    }
    /// Begins to replace all addresses.
    request sw_interface_address_replace_begin { }
    /// Ends the replacement: removes the addresses that the client has not added again since it began.
    request sw_interface_address_replace_end { }
    /// Binds an interface to a VRF.
    request sw_interface_set_table { sw_if_index: interface_index, is_ipv6: bool, vrf_id: u32 }
    /// Asks for the VRF of an interface.
    request sw_interface_get_table { sw_if_index: interface_index, is_ipv6: bool } -> sw_interface_get_table_reply {
        vrf_id: u32,
    }
    /// Lets an interface use the addresses of another interface.
    request sw_interface_set_unnumbered {
        sw_if_index: interface_index,
        unnumbered_sw_if_index: interface_index,
        is_add: bool,
    }
    /// Sets the counters of one or all interfaces to zero.
    request sw_interface_clear_stats { sw_if_index: interface_index }
    /// Sets or removes the description of an interface.
    request sw_interface_tag_add_del { is_add: bool, sw_if_index: interface_index, tag: Text<64> }
    /// Adds or removes a further Ethernet address.
    request sw_interface_add_del_mac_address { sw_if_index: u32, addr: mac_address, is_add: u8 }
    /// Sets the Ethernet address.
    request sw_interface_set_mac_address { sw_if_index: interface_index, mac_address: mac_address }
    /// Asks for the Ethernet address.
    request sw_interface_get_mac_address { sw_if_index: interface_index } -> sw_interface_get_mac_address_reply {
        mac_address: mac_address,
    }
    /// Sets the mode of receive queues.
    request sw_interface_set_rx_mode {
        sw_if_index: interface_index,
        queue_id_valid: bool,
        queue_id: u32,
        mode: rx_mode,
    }
    /// Assigns a receive queue to a worker.
    request sw_interface_set_rx_placement {
        sw_if_index: interface_index,
        queue_id: u32,
        worker_id: u32,
        is_main: bool,
    }
    /// Assigns a transmit queue to threads.
    request sw_interface_set_tx_placement {
        sw_if_index: interface_index,
        queue_id: u32,
        array_size: Count<u32>,
        threads: Vec<u32>,
    }
    /// Renames an interface.
    request sw_interface_set_interface_name { sw_if_index: interface_index, name: Text<64> }
    /// Asks for the receive queues of one or all interfaces.
    dump sw_interface_rx_placement_dump { sw_if_index: interface_index }
        -> sw_interface_rx_placement_details as Request {
            sw_if_index: interface_index,
            queue_id: u32,
            worker_id: u32,
            mode: rx_mode,
        }
    /// Asks for the transmit queues of one or all interfaces.
    get sw_interface_tx_placement_get { sw_if_index: interface_index } -> sw_interface_tx_placement_details as Request {
        sw_if_index: interface_index,
        queue_id: u32,
        shared: u8,
        array_size: Count<u32>,
        threads: Vec<u32>,
    } -> sw_interface_tx_placement_get_reply;
    /// Changes the number in the name of an interface.
    request interface_name_renumber { sw_if_index: interface_index, new_show_dev_instance: u32 }
    /// Makes a sub-interface.
    request create_subif {
        sw_if_index: interface_index,
        sub_id: u32,
        sub_if_flags: sub_if_flags,
        outer_vlan_id: u16,
        inner_vlan_id: u16,
    } -> create_subif_reply { sw_if_index: interface_index }
    /// Makes a sub-interface for a VLAN.
    request create_vlan_subif { sw_if_index: interface_index, vlan_id: u32 } -> create_vlan_subif_reply {
        sw_if_index: interface_index,
    }
    /// Removes a sub-interface.
    request delete_subif { sw_if_index: interface_index }
    /// Makes a loopback interface.
    request create_loopback { mac_address: mac_address } -> create_loopback_reply { sw_if_index: interface_index }
    /// Makes a loopback interface with a number.
    request create_loopback_instance {
        mac_address: mac_address,
        is_specified: bool,
        user_instance: u32,
    } -> create_loopback_instance_reply { sw_if_index: interface_index }
    /// Removes a loopback interface.
    request delete_loopback { sw_if_index: interface_index }
    /// Makes a loopback interface for a bridge domain.
    request bvi_create { mac: mac_address, user_instance: u32 = 4294967295 } -> bvi_create_reply { sw_if_index: interface_index }
    /// Removes such an interface.
    request bvi_delete { sw_if_index: interface_index }
    /// Enables or disables the counters for unicast, multicast and broadcast packets. This has no effect, because the router always counts
    /// them.
    request collect_detailed_interface_stats { sw_if_index: interface_index, enable_disable: bool }
    /// Chooses the function that selects packets of a capture.
    request pcap_set_filter_function { filter_function_name: Line }
    /// Begins a capture.
    request pcap_trace_on {
        capture_rx: bool,
        capture_tx: bool,
        capture_drop: bool,
        filter: bool,
        preallocate_data: bool,
        free_data: bool,
        max_packets: u32 = 1000,
        max_bytes_per_packet: u32 = 512,
        sw_if_index: interface_index,
        error: Text<128>,
        filename: Text<64>,
    }
    /// Ends a capture.
    request pcap_trace_off { }
    /// Sets the mode of receive queues of new interfaces.
    request sw_interface_set_default_rx_mode { mode: rx_mode }
    /// Asks for the mode of receive queues of new interfaces.
    request sw_interface_get_default_rx_mode { } -> sw_interface_get_default_rx_mode_reply { mode: rx_mode }
}
