//! Types that messages of several modules use.
//!
//! The names are those of VPP 26.06 (`interface_types.api`, `ip_types.api`, `ethernet_types.api`, `fib_types.api`, `vpe_types.api`).
#![allow(non_camel_case_types)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::define;
use crate::wire::{Array, Count};

define! {
    /// An interface's number, `sw_if_index`; ~0 for none or all.
    alias interface_index: u32;
    /// Flags of an interface's state.
    enum if_status_flags: u32 {
        /// The operator has enabled the interface.
        IF_STATUS_API_FLAG_ADMIN_UP = 1,
        /// The interface's link is up.
        IF_STATUS_API_FLAG_LINK_UP = 2,
    }
    /// Index of a protocol in an array of MTUs.
    enum mtu_proto: u32 {
        /// All protocols without an MTU of their own.
        MTU_PROTO_API_L3 = 0,
        /// IPv4.
        MTU_PROTO_API_IP4 = 1,
        /// IPv6.
        MTU_PROTO_API_IP6 = 2,
        /// MPLS.
        MTU_PROTO_API_MPLS = 3,
    }
    /// Duplex mode of a link.
    enum link_duplex: u32 {
        /// Not known.
        LINK_DUPLEX_API_UNKNOWN = 0,
        /// Half duplex.
        LINK_DUPLEX_API_HALF = 1,
        /// Full duplex.
        LINK_DUPLEX_API_FULL = 2,
    }
    /// The packets that a sub-interface takes.
    enum sub_if_flags: u32 {
        /// Packets without a tag.
        SUB_IF_API_FLAG_NO_TAGS = 1,
        /// Packets with one tag.
        SUB_IF_API_FLAG_ONE_TAG = 2,
        /// Packets with two tags.
        SUB_IF_API_FLAG_TWO_TAGS = 4,
        /// The outer tag is a service tag (802.1ad).
        SUB_IF_API_FLAG_DOT1AD = 8,
        /// Only packets without further tags.
        SUB_IF_API_FLAG_EXACT_MATCH = 16,
        /// All packets that no other sub-interface takes.
        SUB_IF_API_FLAG_DEFAULT = 32,
        /// Packets with any outer VLAN.
        SUB_IF_API_FLAG_OUTER_VLAN_ID_ANY = 64,
        /// Packets with any inner VLAN.
        SUB_IF_API_FLAG_INNER_VLAN_ID_ANY = 128,
        /// All of the flags above, except that for packets without a tag.
        SUB_IF_API_FLAG_MASK_VNET = 254,
        /// Provider backbone bridging (802.1ah).
        SUB_IF_API_FLAG_DOT1AH = 256,
    }
    /// How a worker learns of packets in a receive queue.
    enum rx_mode: u32 {
        /// Not known.
        RX_MODE_API_UNKNOWN = 0,
        /// The worker polls the queue.
        RX_MODE_API_POLLING = 1,
        /// The device interrupts the worker.
        RX_MODE_API_INTERRUPT = 2,
        /// The worker polls the queue under load only.
        RX_MODE_API_ADAPTIVE = 3,
        /// As the device prefers.
        RX_MODE_API_DEFAULT = 4,
    }
    /// The type of an interface.
    enum if_type: u32 {
        /// A device, or a virtual interface without a parent.
        IF_API_TYPE_HARDWARE = 0,
        /// A sub-interface.
        IF_API_TYPE_SUB = 1,
        /// A point-to-point interface on another interface.
        IF_API_TYPE_P2P = 2,
        /// An end of a pipe.
        IF_API_TYPE_PIPE = 3,
    }
    /// Direction of packets.
    enum direction: u8 {
        /// Received.
        RX = 0,
        /// Sent.
        TX = 1,
    }

    /// An Ethernet address.
    alias mac_address: Array<u8, 6>;
    /// An IPv4 address.
    alias ip4_address: Array<u8, 4>;
    /// An IPv6 address.
    alias ip6_address: Array<u8, 16>;
    /// The family of an address.
    enum address_family: u8 {
        /// IPv4.
        ADDRESS_IP4 = 0,
        /// IPv6.
        ADDRESS_IP6 = 1,
    }
    /// An address of either family. An IPv4 address is in the first bytes.
    union address_union [16] { ip4: ip4_address, ip6: ip6_address }
    /// An address with its family.
    #[derive(Copy)]
    struct address {
        /// The family.
        af: address_family,
        /// The address.
        un: address_union,
    }
    /// A prefix.
    #[derive(Copy)]
    struct prefix {
        /// Its address, whose host bits may be set.
        address: address,
        /// Its length.
        len: u8,
    }
    /// An address with a prefix length.
    alias address_with_prefix: prefix;

    /// A time in seconds since 1970.
    alias timestamp: f64;
    /// A duration in seconds.
    alias timedelta: f64;
    /// The severity of a message in the log, as in syslog.
    enum log_level: u32 {
        /// The system is unusable.
        VPE_API_LOG_LEVEL_EMERG = 0,
        /// Action is needed at once.
        VPE_API_LOG_LEVEL_ALERT = 1,
        /// Critical.
        VPE_API_LOG_LEVEL_CRIT = 2,
        /// An error.
        VPE_API_LOG_LEVEL_ERR = 3,
        /// A warning.
        VPE_API_LOG_LEVEL_WARNING = 4,
        /// Normal, but notable.
        VPE_API_LOG_LEVEL_NOTICE = 5,
        /// For information.
        VPE_API_LOG_LEVEL_INFO = 6,
        /// For debugging.
        VPE_API_LOG_LEVEL_DEBUG = 7,
        /// Not logged.
        VPE_API_LOG_LEVEL_DISABLED = 8,
    }

    /// The type of a path of a route.
    enum fib_path_type: u32 {
        /// A next hop, an interface, or both.
        FIB_API_PATH_TYPE_NORMAL = 0,
        /// Packets are delivered to the router itself.
        FIB_API_PATH_TYPE_LOCAL = 1,
        /// Packets are dropped.
        FIB_API_PATH_TYPE_DROP = 2,
        /// UDP encapsulation.
        FIB_API_PATH_TYPE_UDP_ENCAP = 3,
        /// BIER.
        FIB_API_PATH_TYPE_BIER_IMP = 4,
        /// The sender gets an ICMP error: unreachable.
        FIB_API_PATH_TYPE_ICMP_UNREACH = 5,
        /// The sender gets an ICMP error: prohibited.
        FIB_API_PATH_TYPE_ICMP_PROHIBIT = 6,
        /// The packet's source address is looked up.
        FIB_API_PATH_TYPE_SOURCE_LOOKUP = 7,
        /// The packet keeps its Ethernet header.
        FIB_API_PATH_TYPE_DVR = 8,
        /// The packet's receive interface is changed.
        FIB_API_PATH_TYPE_INTERFACE_RX = 9,
        /// The packet is looked up in a classify table.
        FIB_API_PATH_TYPE_CLASSIFY = 10,
    }
    /// How a path is resolved.
    enum fib_path_flags: u32 {
        /// Any route may resolve the path.
        FIB_API_PATH_FLAG_NONE = 0,
        /// Only an attached route may resolve the path.
        FIB_API_PATH_FLAG_RESOLVE_VIA_ATTACHED = 1,
        /// Only a host route may resolve the path.
        FIB_API_PATH_FLAG_RESOLVE_VIA_HOST = 2,
        /// The pseudo-wire control word is removed, too.
        FIB_API_PATH_FLAG_POP_PW_CW = 4,
    }
    /// The protocol of a next hop.
    enum fib_path_nh_proto: u32 {
        /// IPv4.
        FIB_API_PATH_NH_PROTO_IP4 = 0,
        /// IPv6.
        FIB_API_PATH_NH_PROTO_IP6 = 1,
        /// MPLS.
        FIB_API_PATH_NH_PROTO_MPLS = 2,
        /// Ethernet.
        FIB_API_PATH_NH_PROTO_ETHERNET = 3,
        /// BIER.
        FIB_API_PATH_NH_PROTO_BIER = 4,
    }
    /// The next hop of a path.
    struct fib_path_nh {
        /// IP address of the next hop.
        address: address_union,
        /// An MPLS label.
        via_label: u32,
        /// Index of an object, whose kind depends on the path's type.
        obj_id: u32,
        /// Index of a classify table.
        classify_table_index: u32,
    }
    /// An MPLS label of a path.
    struct fib_mpls_label {
        /// 1 for the uniform model: the label's TTL is copied from the packet. 0 for the pipe model.
        is_uniform: u8,
        /// The label.
        label: u32,
        /// TTL of the label.
        ttl: u8,
        /// Traffic class of the label.
        exp: u8,
    }
    /// A path of a route.
    struct fib_path {
        /// The interface; ~0 for none.
        sw_if_index: u32,
        /// The table in which the next hop is looked up.
        table_id: u32,
        /// The interface for reverse-path checks of multicast packets.
        rpf_id: u32,
        /// Weight of the path: its share of the packets, relative to the other paths.
        weight: u8,
        /// Paths with the lowest preference are used.
        preference: u8,
        /// Type of the path.
        r#type: fib_path_type,
        /// How the path is resolved.
        flags: fib_path_flags,
        /// The protocol of the next hop.
        proto: fib_path_nh_proto,
        /// The next hop.
        nh: fib_path_nh,
        /// Number of labels.
        n_labels: u8,
        /// The labels.
        label_stack: Array<fib_mpls_label, 16>,
    }
    /// A route.
    struct ip_route {
        /// Number of the route's table.
        table_id: u32,
        /// Index of the route's counters in the statistics segment.
        stats_index: u32,
        /// Destination of the route.
        prefix: prefix,
        /// Number of paths.
        n_paths: Count<u8>,
        /// The paths of the route.
        paths: Vec<fib_path>,
    }
}

impl interface_index {
    /// No interface, or all.
    pub const NONE: interface_index = interface_index(u32::MAX);
}

impl From<Ipv4Addr> for ip4_address {
    fn from(address: Ipv4Addr) -> Self {
        ip4_address(Array(address.octets()))
    }
}

impl From<Ipv6Addr> for ip6_address {
    fn from(address: Ipv6Addr) -> Self {
        ip6_address(Array(address.octets()))
    }
}

impl address_union {
    /// Returns the address in this family. Any family other than IPv4 counts as IPv6.
    pub fn ip(self, family: address_family) -> IpAddr {
        match family {
            address_family::ADDRESS_IP4 => {
                let [a, b, c, d, ..] = self.0;
                Ipv4Addr::new(a, b, c, d).into()
            }
            _ => Ipv6Addr::from(self.0).into(),
        }
    }
}

impl From<IpAddr> for address_union {
    fn from(address: IpAddr) -> Self {
        let mut bytes = [0; 16];
        match address {
            IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes = address.octets(),
        }
        address_union(bytes)
    }
}

impl From<IpAddr> for address {
    fn from(ip: IpAddr) -> Self {
        let af = if ip.is_ipv4() { address_family::ADDRESS_IP4 } else { address_family::ADDRESS_IP6 };
        address { af, un: ip.into() }
    }
}

impl address {
    /// Returns the address.
    pub fn ip(&self) -> IpAddr {
        self.un.ip(self.af)
    }
}

impl prefix {
    /// Returns the prefix of an address.
    pub fn new(ip: IpAddr, len: u8) -> prefix {
        prefix { address: ip.into(), len }
    }
}
