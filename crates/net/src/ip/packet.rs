//! What the packets of IPv4 and IPv6 differ in, for nodes that serve both.

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::{Flags, GsoKind, Packet};
use graph::trace::TraceFn;
use wire::flow::{FiveTuple, FiveTuple6, five_tuple, five_tuple6};
use wire::{Ipv4Header, Ipv6Header, PseudoHeader, ipv4, ipv6};

use super::family::Ip;
use super::forwarding::Forwarding;
use crate::Tables;
use crate::icmp::Cause;

/// The names of a family's nodes and arcs.
pub struct Nodes {
    /// The arc of packets to hosts.
    pub unicast: &'static str,
    /// The arc of packets to groups.
    pub multicast: &'static str,
    /// The node that looks destinations up.
    pub lookup: &'static str,
    /// The node where packets with a [track](super::Track)'s object go on.
    pub follow: &'static str,
    /// The node that writes link headers.
    pub rewrite: &'static str,
    /// The arc behind it.
    pub output: &'static str,
    /// The node that sorts packets for this router, and the arc that leads there.
    pub local: &'static str,
    /// The node that sorts datagrams for this router by port.
    pub udp: &'static str,
    /// The node that reports packets to their sources.
    pub report: &'static str,
    /// The node that holds packets for unresolved next hops.
    pub resolve: &'static str,
    /// Why it punts.
    pub ask: &'static str,
    /// The node that lets them go on.
    pub release: &'static str,
    /// The node that looks at options or extension headers which concern every router on the way.
    pub options: &'static str,
}

/// Whether a packet is to many stations: whoever of them has no use for it is not to blame its sender.
pub(crate) fn is_to_many<A: Packets>(p: &mut Packet<'_>) -> bool {
    p.flags().any(Flags::L2_BROADCAST | Flags::L2_MULTICAST) || A::is_group(A::dst(p.peek()))
}

/// A family as the nodes see it.
pub trait Packets: Ip {
    /// The fixed part of the header.
    type Header: buf::Header + PseudoHeader;

    /// The names of its nodes.
    const NODES: Nodes;
    /// Describes a packet that begins with its header.
    const TRACE: TraceFn;

    /// The tables of this family.
    fn tables(t: &Tables) -> &Forwarding<Self>;
    /// The source address.
    fn src(h: &Self::Header) -> Self::Bits;
    /// The destination address.
    fn dst(h: &Self::Header) -> Self::Bits;
    /// Whether this is a group, which is in no lookup table.
    fn is_group(address: Self::Bits) -> bool;
    /// What a packet says its length is, in bytes.
    fn said(h: &Self::Header) -> usize;
    /// The hash of the flow that a packet is of.
    fn flow_hash(l3: &[u8]) -> Option<u32>;
    /// The address that stands for one which means something on the link of `interface` only, in tables that have all links.
    fn scoped(address: Self::Bits, interface: u32) -> Self::Bits;
    /// The inverse of [`scoped`](Self::scoped): the address, and the interface if it is of one link only.
    fn unscoped(address: Self::Bits) -> (Self::Bits, Option<u32>);
    /// Whether a packet is for its link only, whatever its destination: from a host that has no address to be routed to.
    fn stays_on_link(h: &Self::Header) -> bool;
    /// One hop less; `false`, and the cause noted, when the packet is not to be forwarded.
    fn count_down(p: &mut Packet<'_>) -> bool;
    /// Whether a router may cut the packet into fragments.
    fn may_fragment(p: &mut Packet<'_>) -> bool;
    /// The kind of segmentation whose segments may be made smaller than their sender had them.
    const TCP: GsoKind;
}

impl Packets for Ipv4Addr {
    type Header = Ipv4Header;

    const NODES: Nodes = Nodes {
        unicast: "ip4-unicast",
        multicast: "ip4-multicast",
        lookup: "ip4-lookup",
        follow: "ip4-follow",
        rewrite: "ip4-rewrite",
        output: "ip4-output",
        local: "ip4-local",
        udp: "udp4-local",
        report: "ip4-icmp-error",
        resolve: "ip4-arp",
        ask: "ip4-resolve",
        release: "arp-release",
        options: "ip4-options",
    };
    const TRACE: TraceFn = crate::trace::ip4;
    const TCP: GsoKind = GsoKind::Tcp4;

    fn tables(t: &Tables) -> &Forwarding<Ipv4Addr> {
        &t.ip4
    }

    #[inline(always)]
    fn src(h: &Ipv4Header) -> u32 {
        h.src_u32()
    }

    #[inline(always)]
    fn dst(h: &Ipv4Header) -> u32 {
        h.dst_u32()
    }

    fn is_group(address: u32) -> bool {
        ipv4::is_multicast(address)
    }

    fn said(h: &Ipv4Header) -> usize {
        h.total_len().into()
    }

    fn flow_hash(l3: &[u8]) -> Option<u32> {
        five_tuple(l3).map(FiveTuple::hash)
    }

    #[inline(always)]
    fn scoped(address: u32, _: u32) -> u32 {
        address
    }

    fn unscoped(address: u32) -> (u32, Option<u32>) {
        (address, None)
    }

    fn stays_on_link(h: &Ipv4Header) -> bool {
        ipv4::is_unspecified(h.src_u32()) && ipv4::is_broadcast(h.dst_u32())
    }

    #[inline(always)]
    fn count_down(p: &mut Packet<'_>) -> bool {
        let h = p.peek::<Ipv4Header>();
        if h.ttl() <= 1 {
            p.set_fwd(Cause::TtlExpired.to_raw());
            return false;
        }
        h.decrement_ttl();
        true
    }

    fn may_fragment(p: &mut Packet<'_>) -> bool {
        !p.peek::<Ipv4Header>().dont_fragment()
    }
}

impl Packets for Ipv6Addr {
    type Header = Ipv6Header;

    const NODES: Nodes = Nodes {
        unicast: "ip6-unicast",
        multicast: "ip6-multicast",
        lookup: "ip6-lookup",
        follow: "ip6-follow",
        rewrite: "ip6-rewrite",
        output: "ip6-output",
        local: "ip6-local",
        udp: "udp6-local",
        report: "ip6-icmp-error",
        resolve: "ip6-discover-neighbor",
        ask: "ip6-resolve",
        release: "nd-release",
        options: "ip6-hop-by-hop",
    };
    const TRACE: TraceFn = crate::trace::ip6;
    const TCP: GsoKind = GsoKind::Tcp6;

    fn tables(t: &Tables) -> &Forwarding<Ipv6Addr> {
        &t.ip6
    }

    #[inline(always)]
    fn src(h: &Ipv6Header) -> u128 {
        h.src_u128()
    }

    #[inline(always)]
    fn dst(h: &Ipv6Header) -> u128 {
        h.dst_u128()
    }

    fn is_group(address: u128) -> bool {
        ipv6::is_multicast(address)
    }

    fn said(h: &Ipv6Header) -> usize {
        h.total_len()
    }

    fn flow_hash(l3: &[u8]) -> Option<u32> {
        five_tuple6(l3).map(FiveTuple6::hash)
    }

    /// Of fe80::/64, whose 54 bits in the middle are 0 on every link (RFC 4291 section 2.5.6), the last 32 of these say which link:
    /// never 0, so that the address on the wire is none of any link's.
    #[inline(always)]
    fn scoped(address: u128, interface: u32) -> u128 {
        if ipv6::is_link_local(address) { address | (u128::from(interface) + 1) << 64 } else { address }
    }

    fn unscoped(address: u128) -> (u128, Option<u32>) {
        let link = (address >> 64) as u32;
        match link.checked_sub(1) {
            Some(interface) if ipv6::is_link_local(address) => {
                (address ^ u128::from(link) << 64, Some(interface))
            }
            _ => (address, None),
        }
    }

    fn stays_on_link(h: &Ipv6Header) -> bool {
        ipv6::stays_on_link(h.src_u128())
    }

    #[inline(always)]
    fn count_down(p: &mut Packet<'_>) -> bool {
        let h = p.peek::<Ipv6Header>();
        // RFC 4291 section 2.5.6: such a source means nothing on another link.
        let beyond = ipv6::is_link_local(h.src_u128());
        if h.hop_limit() <= 1 || beyond {
            p.set_fwd(if beyond { Cause::BeyondScope } else { Cause::TtlExpired }.to_raw());
            return false;
        }
        h.decrement_hop_limit();
        true
    }

    /// Only whoever sends a packet may (RFC 8200 section 5).
    fn may_fragment(p: &mut Packet<'_>) -> bool {
        p.flags().any(Flags::LOCAL_ORIGIN)
    }
}
