//! Answers to ARP requests and neighbor solicitations in a bridge domain, for hosts whose Ethernet addresses are configured. So these
//! questions are not flooded.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use buf::{Flags, Packet};
use net::ethernet::{HEADER, TAG};
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::{EthernetHeader, VlanTag, ethertype};
use wire::nd::{self, Message};
use wire::{Ipv6Header, Mac, protocol};

/// The Ethernet addresses of hosts.
pub(crate) type Hosts = HashMap<IpAddr, Mac>;

/// Returns the EtherType of a frame behind at most two VLAN tags, and the length of the headers before the packet.
fn ethertype(p: &mut Packet<'_>) -> (u16, usize) {
    let (mut kind, mut at) = (p.peek::<EthernetHeader>().ethertype(), HEADER);
    while ethertype::is_vlan(kind) && at < HEADER + 2 * TAG && p.len() >= at + TAG {
        kind = p.peek_at::<VlanTag>(at).ethertype();
        at += TAG;
    }
    (kind, at)
}

/// True if the frame is an ARP message.
pub(super) fn is_arp(p: &mut Packet<'_>) -> bool {
    ethertype(p).0 == ethertype::ARP
}

/// Makes the frame of a question the answer to it, if `hosts` has the address that it asks for. Otherwise returns false and leaves the frame
/// unchanged. Questions of a host about its own address are not answered, so that it can find out whether others use the address.
#[cold]
#[inline(never)]
pub(super) fn answer(p: &mut Packet<'_>, hosts: &Hosts) -> bool {
    if p.flags().any(Flags::CHAINED | Flags::GSO | Flags::CSUM_PARTIAL) {
        return false;
    }
    let answered = match ethertype(p) {
        (ethertype::ARP, at) => arp(p, at, hosts),
        (ethertype::IPV6, at) => solicitation(p, at, hosts),
        _ => None,
    };
    let Some(mac) = answered else { return false };
    let header: &mut EthernetHeader = p.peek();
    let asker = header.src();
    header.set_dst(asker);
    header.set_src(mac);
    true
}

/// Answers an ARP request (RFC 826), also a probe (RFC 5227).
fn arp(p: &mut Packet<'_>, at: usize, hosts: &Hosts) -> Option<Mac> {
    let from = p.peek::<EthernetHeader>().src();
    if p.len() < at + ArpPacket::LEN {
        return None;
    }
    let request: &mut ArpPacket = p.peek_at(at);
    let asks = request.check() == Ok(Operation::Request) && request.sender_mac() == from;
    let mac = *hosts.get(&request.target_ip().into()).filter(|mac| asks && **mac != from)?;
    *request = request.reply(mac);
    Some(mac)
}

/// Answers a neighbor solicitation (RFC 4861). Those of duplicate address detection have no sender to answer to.
fn solicitation(p: &mut Packet<'_>, at: usize, hosts: &Hosts) -> Option<Mac> {
    let from = p.peek::<EthernetHeader>().src();
    let packet = p.bytes().get(at..)?;
    let (ip, rest) = Ipv6Header::split(packet)?;
    let icmp = rest.get(..ip.payload_len().into()).filter(|_| ip.next_header() == protocol::ICMPV6)?;
    let (Ok((Message::NeighborSolicitation { target }, _)), asker) = (nd::parse(ip, icmp), ip.src()) else {
        return None;
    };
    let mac = *hosts.get(&target.into()).filter(|mac| **mac != from && asker != Ipv6Addr::UNSPECIFIED)?;
    let room = p.room_mut().get_mut(at..at + nd::ANSWER_LEN)?;
    room.copy_from_slice(&nd::answer(asker, target, mac));
    p.set_len(at + nd::ANSWER_LEN);
    Some(mac)
}
