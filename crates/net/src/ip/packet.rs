//! Differences between IPv4 and IPv6 packets, for nodes that process both families.

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::{Flags, GsoKind, Packet};
use graph::trace::TraceFn;
use wire::flow::{FiveTuple6, five_tuple6, flow_hash};
use wire::{Ipv4Header, Ipv6Header, PseudoHeader, ipv4, ipv6};

use super::cause::Cause;
use super::family::Ip;
use super::forwarding::Forwarding;

/// Names of a family's nodes and arcs.
pub struct Nodes {
    /// The arc of unicast packets.
    pub unicast: &'static str,
    /// The arc of multicast packets.
    pub multicast: &'static str,
    /// The node that looks up destinations.
    pub lookup: &'static str,
    /// The node that forwards packets to a [tracked](super::Track) destination, without looking up the destination again.
    pub follow: &'static str,
    /// The node that writes link headers.
    pub rewrite: &'static str,
    /// The arc after the node `rewrite`.
    pub output: &'static str,
    /// The node that dispatches packets for this router by protocol, and the arc that ends at this node.
    pub local: &'static str,
    /// The node that dispatches datagrams for this router by port.
    pub udp: &'static str,
    /// The node that dispatches messages of ICMP or ICMPv6 for this router by type.
    pub icmp: &'static str,
    /// The node that sends ICMP errors to the sources of packets.
    pub report: &'static str,
    /// The node that holds packets whose next hop is not resolved.
    pub resolve: &'static str,
    /// The punt reason with which the node `resolve` asks the main thread to resolve a next hop.
    pub ask: &'static str,
    /// The node that releases the held packets.
    pub release: &'static str,
    /// The node that processes the IPv4 options, or the IPv6 hop-by-hop options, which every router on the path must process.
    pub options: &'static str,
}

/// True if a packet is sent to many stations. A station that cannot process such a packet must not report an error to the source.
pub(crate) fn is_to_many<A: Packets>(p: &mut Packet<'_>) -> bool {
    p.flags().any(Flags::L2_BROADCAST | Flags::L2_MULTICAST) || A::is_group(A::dst(p.peek()))
}

/// The packets of an address family: their header fields, and the nodes and tables that process them.
pub trait Packets: Ip {
    /// The header without options or extension headers.
    type Header: buf::Header + PseudoHeader;

    /// Names of the family's nodes and arcs.
    const NODES: Nodes;
    /// Describes a packet, which begins with its IP header, in a trace.
    const TRACE: TraceFn;

    /// Returns this family's tables: `ip4` or `ip6`.
    fn tables<'t>(ip4: &'t Forwarding<Ipv4Addr>, ip6: &'t Forwarding<Ipv6Addr>) -> &'t Forwarding<Self>;
    /// The source address.
    fn src(h: &Self::Header) -> Self::Bits;
    /// The destination address.
    fn dst(h: &Self::Header) -> Self::Bits;
    /// True for a multicast address. Lookup tables contain no multicast addresses.
    fn is_group(address: Self::Bits) -> bool;
    /// Length of the packet as stated in its header, in bytes.
    fn said(h: &Self::Header) -> usize;
    /// Returns the hash of the flow of the packet `l3`; `None` if the IP header is not complete.
    fn flow_hash(l3: &[u8]) -> Option<u32>;
    /// Returns an address as the tables contain it. If the address is valid only on one link, the result includes the number of
    /// `interface`, so that it is unique across links.
    fn scoped(address: Self::Bits, interface: u32) -> Self::Bits;
    /// The inverse of [`scoped`](Self::scoped). Returns the address, and its interface if the address is valid on one link only.
    fn unscoped(address: Self::Bits) -> (Self::Bits, Option<u32>);
    /// True if the packet never leaves its link because its source address is not routable. With IPv4, this is true only for packets from
    /// the unspecified address to the limited broadcast address.
    fn stays_on_link(h: &Self::Header) -> bool;
    /// Decrements the TTL or hop limit.
    ///
    /// # Errors
    /// The cause for which the packet must not be forwarded. The packet is unchanged then.
    fn count_down(p: &mut Packet<'_>) -> Result<(), Cause>;
    /// True if a router may fragment the packet.
    fn may_fragment(p: &mut Packet<'_>) -> bool;
    /// The kind of GSO packets of this family whose segments may be made smaller, to fit the MTU: TCP.
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
        icmp: "icmp4-input",
        report: "ip4-icmp-error",
        resolve: "ip4-arp",
        ask: "ip4-resolve",
        release: "arp-release",
        options: "ip4-options",
    };
    const TRACE: TraceFn = crate::trace::ip4;
    const TCP: GsoKind = GsoKind::Tcp4;

    fn tables<'t>(ip4: &'t Forwarding<Ipv4Addr>, _: &'t Forwarding<Ipv6Addr>) -> &'t Forwarding<Ipv4Addr> {
        ip4
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

    #[inline(always)]
    fn flow_hash(l3: &[u8]) -> Option<u32> {
        flow_hash(l3)
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
    fn count_down(p: &mut Packet<'_>) -> Result<(), Cause> {
        let h = p.peek::<Ipv4Header>();
        if h.ttl() <= 1 {
            return Err(Cause::TtlExpired);
        }
        h.decrement_ttl();
        Ok(())
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
        icmp: "icmp6-input",
        report: "ip6-icmp-error",
        resolve: "ip6-discover-neighbor",
        ask: "ip6-resolve",
        release: "nd-release",
        options: "ip6-hop-by-hop",
    };
    const TRACE: TraceFn = crate::trace::ip6;
    const TCP: GsoKind = GsoKind::Tcp6;

    fn tables<'t>(_: &'t Forwarding<Ipv4Addr>, ip6: &'t Forwarding<Ipv6Addr>) -> &'t Forwarding<Ipv6Addr> {
        ip6
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

    /// The 54 bits after fe80::/10 are 0 on every link (RFC 4291 section 2.5.6). In a scoped address, the last 32 of these bits are the
    /// interface number plus one. This value is never 0, so the tables never contain a link-local address as it is on the wire.
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
    fn count_down(p: &mut Packet<'_>) -> Result<(), Cause> {
        let h = p.peek::<Ipv6Header>();
        // RFC 4291 section 2.5.6: a link-local source is not valid on another link.
        let beyond = ipv6::is_link_local(h.src_u128());
        if h.hop_limit() <= 1 || beyond {
            return Err(if beyond { Cause::BeyondScope } else { Cause::TtlExpired });
        }
        h.decrement_hop_limit();
        Ok(())
    }

    /// Only the source of a packet may fragment it (RFC 8200 section 5).
    fn may_fragment(p: &mut Packet<'_>) -> bool {
        p.flags().any(Flags::LOCAL_ORIGIN)
    }
}
