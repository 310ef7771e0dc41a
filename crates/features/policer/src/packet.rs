//! Functions with which the nodes read and change packets.

use buf::{Flags, Packet};
use wire::checksum::update16;
use wire::icmpv6::kind;
use wire::ipv4::protocol;
use wire::{EthernetHeader, Ipv4Header, Ipv6Header, VlanTag, ethertype, ipv6, nd};

use crate::bucket::Color;

/// Returns the offset of the network header in an Ethernet frame with up to two VLAN tags, and whether the packet is IPv6. `None` if it is
/// neither IPv4 nor IPv6.
pub(crate) fn behind_tags(p: &Packet<'_>) -> Option<(usize, bool)> {
    let (kind, rest) = untagged(p)?;
    let at = p.bytes().len() - rest.len();
    match kind {
        ethertype::IPV4 if rest.len() >= Ipv4Header::LEN => Some((at, false)),
        ethertype::IPV6 if rest.len() >= Ipv6Header::LEN => Some((at, true)),
        _ => None,
    }
}

/// Returns the EtherType of an Ethernet frame after up to two VLAN tags, and the bytes that follow it; `None` if the frame is too short.
#[inline(always)]
fn untagged<'p>(p: &'p Packet<'_>) -> Option<(u16, &'p [u8])> {
    let (header, mut rest) = EthernetHeader::split(p.bytes())?;
    let mut kind = header.ethertype();
    for _ in 0..2 {
        if ethertype::is_vlan(kind) {
            let (tag, behind) = VlanTag::split(rest)?;
            (kind, rest) = (tag.ethertype(), behind);
        }
    }
    Some((kind, rest))
}

/// True if neighbors on the link need the packet to reach each other: ARP, or Neighbor Discovery (RFC 4861). A sent packet (`outward`) must
/// be the router's own; a received one must be of a kind that no router forwards. So no other traffic can use this exception.
///
/// `network` is the offset of the network header, and whether the packet is IPv6; `None` if it is neither IPv4 nor IPv6.
#[cold]
pub(crate) fn keeps_neighbors(p: &Packet<'_>, network: Option<(usize, bool)>, outward: bool) -> bool {
    if outward && !p.flags().any(Flags::LOCAL_ORIGIN) {
        return false;
    }
    match network {
        Some((at, true)) => p.bytes().get(at..).is_some_and(|bytes| is_discovery(bytes, outward)),
        Some((_, false)) => false,
        None => untagged(p).is_some_and(|(kind, _)| kind == ethertype::ARP),
    }
}

/// True if an IPv6 packet is a Neighbor Discovery message. The destination address must have link scope, unless `anywhere` is set.
fn is_discovery(bytes: &[u8], anywhere: bool) -> bool {
    let Some((ip, rest)) = Ipv6Header::split(bytes) else { return false };
    let messages = kind::ROUTER_SOLICITATION..=kind::REDIRECT;
    ip.next_header() == protocol::ICMPV6
        && ip.hop_limit() == nd::HOP_LIMIT
        && (anywhere || ipv6::stays_on_link(ip.dst_u128()))
        && rest.first().is_some_and(|kind| messages.contains(kind))
}

/// Returns how many packets the device will make of a packet that it has to segment, and their bytes on the wire. `bytes` is the length of
/// the packet from its Ethernet header on.
#[cold]
pub(crate) fn segments(p: &Packet<'_>, bytes: u32) -> (u32, u32) {
    let Some(gso) = p.cold().gso() else { return (1, bytes) };
    let headers = u32::from(gso.header_len);
    let payload = bytes.saturating_sub(headers);
    let packets = payload.div_ceil(u32::from(gso.size).max(1)).max(1);
    (packets, bytes.saturating_add((packets - 1).saturating_mul(headers)))
}

/// Returns the DSCP of a packet whose network header is at offset `at`.
#[inline(always)]
pub(crate) fn dscp(p: &mut Packet<'_>, at: usize, ip6: bool) -> u8 {
    if ip6 { p.peek_at::<Ipv6Header>(at).dscp() } else { p.peek_at::<Ipv4Header>(at).dscp() }
}

/// Returns the color of a packet on arrival. The color is the drop precedence in the packet's DSCP (assured forwarding, RFC 2597
/// section 6).
#[inline(always)]
pub(crate) fn color_of(dscp: u8) -> Color {
    match dscp {
        12 | 20 | 28 | 36 => Color::Yellow,
        14 | 22 | 30 | 38 => Color::Red,
        _ => Color::Green,
    }
}

/// Sets the DSCP of a packet whose network header is at offset `at`. The ECN bits stay the same, and the IPv4 checksum is updated.
pub(crate) fn mark(p: &mut Packet<'_>, at: usize, ip6: bool, dscp: u8) {
    if ip6 {
        let h = p.peek_at::<Ipv6Header>(at);
        h.set_traffic_class(dscp << 2 | h.ecn());
    } else {
        let h = p.peek_at::<Ipv4Header>(at);
        let word = |h: &Ipv4Header| u16::from_be_bytes([h.version_ihl(), h.tos()]);
        let old = word(h);
        h.set_tos(dscp << 2 | h.ecn());
        h.set_checksum(update16(h.checksum(), old, word(h)));
    }
}
