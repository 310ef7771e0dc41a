//! Packets that a script describes: well-formed and damaged ones.

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::{Gso, GsoKind};
use wire::arp::{ArpPacket, Operation};
use wire::builder::{PacketBuilder, arp_frame};
use wire::nd::{self, Message, NdOption, Preference, RouterAdvertisement};
use wire::{EthernetHeader, Mac, VlanTag, ethertype, protocol};

use crate::script::{Script, own, own6};

/// The work on a packet that a driver leaves to the router.
#[derive(Clone, Copy, Default)]
pub struct Offload {
    pub csum: Option<(u16, u16)>,
    pub gso: Option<Gso>,
}

/// A packet on its way to the router.
#[derive(Clone, Default)]
pub struct Arriving {
    pub bytes: Vec<u8>,
    pub offload: Offload,
    /// True if the offload information is arbitrary and may not match the bytes of the packet. Drivers of this router never pass such
    /// information.
    pub lies: bool,
}

/// Returns a packet for the station `to`.
pub fn arriving(s: &mut Script<'_>, to: Mac) -> Arriving {
    if s.one_in(16) {
        let n = usize::from(s.u16()) % 3000;
        let mut bytes = s.bytes(64).to_vec();
        bytes.resize(n, 0xa5);
        return Arriving { bytes, ..Arriving::default() };
    }
    let mut arriving = match s.below(8) {
        0 => arp(s, to),
        1 | 2 => ip6(s, to),
        _ => ip4(s, to),
    };
    if s.one_in(4) {
        damage(s, &mut arriving.bytes);
        arriving.lies = arriving.offload.csum.is_some();
    }
    arriving
}

fn destination(s: &mut Script<'_>, to: Mac) -> Mac {
    if s.one_in(8) { s.mac() } else { to }
}

/// Returns VLAN tags. In most cases there are none, or they are those of a sub-interface.
fn tags(s: &mut Script<'_>) -> Vec<(u16, u16)> {
    match s.below(12) {
        0 | 1 => vec![(ethertype::VLAN, 100)],
        2 => vec![(ethertype::QINQ, 200), (ethertype::VLAN, 300)],
        3 => vec![(ethertype::VLAN, s.u16())],
        4 => vec![(s.pick(&[ethertype::VLAN, ethertype::QINQ]), 0)],
        5 => vec![(ethertype::QINQ, s.u16() & 0xfff), (ethertype::VLAN, s.u16() & 0xfff)],
        6 => vec![(ethertype::VLAN, 100); 3],
        7 => vec![(ethertype::QINQ, 200), (ethertype::VLAN, s.u16() & 0xfff)],
        _ => Vec::new(),
    }
}

fn ip4(s: &mut Script<'_>, to: Mac) -> Arriving {
    // Now and then, fragments that fit together, for the router and for others.
    let piece = s.one_in(6);
    let (src, dst) = match piece {
        true => (Ipv4Addr::new(10, 0, 0, 2), s.pick(&[own(0), own(0), own(1), Ipv4Addr::new(10, 0, 1, 2)])),
        false => (s.address(), s.address()),
    };
    let mut b = PacketBuilder::ipv4(src, dst).ethernet(s.mac(), destination(s, to));
    let tags = tags(s);
    let link = EthernetHeader::LEN + tags.len() * VlanTag::LEN;
    for (tpid, tci) in tags {
        b = b.tag(tpid, tci);
    }
    b = b.ttl(s.pick(&[64, 64, 64, 255, 2, 1, 0])).tos(s.u8()).id(s.u16());
    let len = s.pick(&[0, 1, 18, 18, 100, 1000, 1400, 1472, 1473, 2085, 2086, 4000, 9000, 30_000]);
    b = b.payload(&vec![s.u8(); len]);
    if s.one_in(8) {
        let options = s.below(41);
        b = b.options(s.bytes(options));
    }
    if s.one_in(4) {
        b = b.dont_fragment();
    }
    if piece {
        b = b
            .id(1)
            .fragment(s.pick(&[0, 0, 1, 2, 126]), s.one_in(2))
            .payload(&[s.u8(); 1000][..s.pick(&[0, 1, 8, 1000])]);
    } else if s.one_in(8) {
        b = b.fragment(s.u16(), s.one_in(2));
    }
    let gso_size = s.pick(&[0, 0, 0, 0, 0, 8, 536, 1448, 4000]);
    let partial = gso_size > 0 || s.one_in(8);
    if partial {
        b = b.partial_checksum();
    }
    let (kind, csum_offset) = match s.below(8) {
        0..3 => {
            b = b.udp(s.u16(), s.u16());
            (Some(GsoKind::UdpL4), 6)
        }
        3..5 => {
            b = b.tcp(s.u16(), s.u16(), s.u32(), s.u32(), wire::tcp::Flags(s.u8()));
            (Some(GsoKind::Tcp4), 16)
        }
        5 => {
            b = b.echo_request(s.u16() & 7, s.u16() & 7);
            (None, 2)
        }
        6 => {
            b = b.icmp(s.u8() & 31, s.u8() & 15, s.u32());
            (None, 2)
        }
        _ => {
            b = b.protocol(s.u8());
            (None, 0)
        }
    };
    let header_len = b.header_len() as u16;
    let mut bytes = b.build();
    let mut offload = Offload::default();
    if partial && let Some(kind) = kind {
        let start = link + usize::from(bytes[link] & 15) * 4;
        offload.csum = Some((start as u16, csum_offset));
        if gso_size > 0 {
            let kind = if s.one_in(16) { GsoKind::Tcp6 } else { kind };
            offload.gso = Some(Gso { kind, ecn: s.one_in(2), size: gso_size, header_len });
        }
    }
    if bytes.len() < 60 && s.one_in(2) {
        bytes.resize(60, 0xee);
    } else if s.one_in(16) {
        // These are more bytes than padding has, so that a packet in several buffers may end within any of them.
        bytes.resize(bytes.len() + usize::from(s.u16()) % 5000, 0xee);
    }
    Arriving { bytes, offload, lies: false }
}

/// Extension headers that packets may contain, in any order.
const EXTENSIONS: [u8; 8] = [
    protocol::HOP_BY_HOP,
    protocol::HOP_BY_HOP,
    protocol::DESTINATION_OPTIONS,
    protocol::DESTINATION_OPTIONS,
    protocol::ROUTING,
    protocol::FRAGMENT,
    protocol::AH,
    protocol::MOBILITY,
];

/// Returns a valid message of Neighbor Discovery. In most messages, a host resolves the router's address on one of the links, checks if it
/// may use that address itself, or claims the address. In the others, another router advertises itself.
fn discovery(s: &mut Script<'_>, to: Mac) -> Arriving {
    let (n, mac) = (s.below(4), s.mac());
    let target = own6(n);
    let host = Ipv6Addr::from_bits(target.to_bits() + 1);
    let local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let asked = Ipv6Addr::from_bits(wire::ipv6::solicited_node(target.to_bits()));
    let (source, own) = ([NdOption::SourceMac(mac)], [NdOption::TargetMac(mac)]);
    let (src, dst, message, options) = match s.below(8) {
        0..3 => (host, s.pick(&[asked, target]), Message::NeighborSolicitation { target }, &source[..]),
        3 | 4 => (Ipv6Addr::UNSPECIFIED, asked, Message::NeighborSolicitation { target }, &[][..]),
        5 | 6 => {
            let flags =
                Message::NeighborAdvertisement { target, router: false, solicited: false, overrides: true };
            (target, all, flags, &own[..])
        }
        _ => {
            let says = RouterAdvertisement {
                hop_limit: s.u8(),
                managed: false,
                other: s.one_in(2),
                preference: Preference::default(),
                lifetime: s.u16(),
                reachable: 0,
                retransmit: 0,
            };
            (local, all, Message::RouterAdvertisement(says), &source[..])
        }
    };
    let packet = nd::build(src, dst, &message, options);
    let to = if dst.is_multicast() { wire::ipv6::multicast_mac(dst.to_bits()) } else { to };
    let bytes = [&to.0[..], &mac.0, &ethertype::IPV6.to_be_bytes(), &packet].concat();
    Arriving { bytes, ..Arriving::default() }
}

fn ip6(s: &mut Script<'_>, to: Mac) -> Arriving {
    if s.one_in(16) {
        return discovery(s, to);
    }
    // Now and then, fragments that fit together, for the router.
    let piece = s.one_in(6);
    let (src, dst) = match piece {
        true => (Ipv6Addr::from_bits(own6(0).to_bits() + 1), s.pick(&[own6(0), own6(0), own6(1)])),
        false => (s.address6(), s.address6()),
    };
    let group = wire::ipv6::multicast_mac(dst.to_bits());
    let station = if dst.is_multicast() { group } else { destination(s, to) };
    let mut b = PacketBuilder::ipv6(src, dst).ethernet(s.mac(), station);
    for (tpid, tci) in tags(s) {
        b = b.tag(tpid, tci);
    }
    b = b.ttl(s.pick(&[64, 64, 64, 255, 255, 2, 1, 0])).tos(s.u8()).flow_label(s.u32());
    let len = s.pick(&[0, 1, 18, 18, 100, 1000, 1232, 1233, 1452, 1453, 2085, 4000, 9000, 30_000]);
    b = b.payload(&vec![s.u8(); len]);
    if s.one_in(4) {
        for _ in 0..1 + s.below(9) {
            let (kind, len) = (s.pick(&EXTENSIONS), s.pick(&[0, 6, 6, 14, 30, 254]));
            b = b.extension(kind, s.bytes(len));
        }
    }
    if piece {
        b = b
            .fragment(s.pick(&[0, 0, 1, 2, 126]), s.one_in(2))
            .payload(&[s.u8(); 1000][..s.pick(&[0, 1, 8, 992, 1000])]);
    } else if s.one_in(8) {
        b = b.fragment(s.pick(&[0, 0, 1, 0x1fff]), s.one_in(2));
    }
    b = match s.below(8) {
        0 | 1 => b.udp(s.u16(), s.u16()),
        2 => b.tcp(s.u16(), s.u16(), s.u32(), s.u32(), wire::tcp::Flags(s.u8())),
        3 => b.echo_request(s.u16() & 7, s.u16() & 7),
        4 => b.icmp(s.u8(), s.u8() & 7, s.u32()),
        5 => {
            // Neighbor Discovery from the link.
            let other = s.address6();
            let target = s.pick(&[other, dst, dst, own6(0), own6(1)]);
            let option = [&[1 + s.u8() % 2, 1][..], &s.mac().0].concat();
            let message = [&target.octets()[..], &option].concat();
            b.ttl(255).icmp(133 + s.u8() % 5, 0, u32::from(s.u8()) << 24).payload(&message)
        }
        6 => {
            // An MLD query.
            let alert = [5, 2, 0, 0, 1, 0];
            b.ttl(1).extension(protocol::HOP_BY_HOP, &alert).icmp(130, 0, s.u32()).payload(&[0; 20])
        }
        _ => b.protocol(s.u8()),
    };
    let mut bytes = b.build();
    if s.one_in(16) {
        bytes.resize(bytes.len() + usize::from(s.u16()) % 5000, 0xee);
    }
    Arriving { bytes, ..Arriving::default() }
}

fn arp(s: &mut Script<'_>, to: Mac) -> Arriving {
    let op = s.pick(&[Operation::Request, Operation::Reply]);
    let packet = match s.below(4) {
        0 => ArpPacket::gratuitous(s.mac(), s.address()),
        _ => ArpPacket::new(op, (s.mac(), s.address()), (s.mac(), s.address())),
    };
    let mut bytes = arp_frame(s.mac(), s.pick(&[to, Mac::BROADCAST]), &packet);
    if s.one_in(4) {
        // After the addresses: type and tag control information.
        bytes.splice(12..12, [0x81, 0, 0, 100]);
    }
    Arriving { bytes, ..Arriving::default() }
}

/// Returns the network packet in a frame, with or without tags; `None` if the frame is too short.
fn network(bytes: &mut [u8]) -> Option<&mut [u8]> {
    let mut at = EthernetHeader::LEN;
    while wire::ethernet::ethertype::is_vlan(u16::from_be_bytes([*bytes.get(at - 2)?, *bytes.get(at - 1)?])) {
        at += 4;
    }
    bytes.get_mut(at..)
}

/// Returns the network packet in a frame, and the offset in it of the last four bytes of the destination; `None` unless it is IPv4 or IPv6.
pub fn destination_of(bytes: &mut [u8]) -> Option<(&mut [u8], usize)> {
    let l3 = network(bytes)?;
    match l3.first()? >> 4 {
        4 => Some((l3, 16)),
        6 => Some((l3, 36)),
        _ => None,
    }
}

/// Corrects the header checksum if this is an IPv4 packet.
pub fn correct_checksum(l3: &mut [u8]) {
    if l3.first().is_some_and(|first| first >> 4 == 4) {
        let _ = wire::ipv4::write_checksum(l3);
    }
}

/// Truncates one packet in four, and changes up to three bytes near the front of any packet. Often corrects the IPv4
/// checksum, so that the change passes the first check.
fn damage(s: &mut Script<'_>, bytes: &mut Vec<u8>) {
    if s.one_in(4) {
        let keep = usize::from(s.u16()) % (bytes.len() + 1);
        bytes.truncate(keep);
    }
    for _ in 0..s.below(4) {
        let at = s.below(80);
        let value = s.u8();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    if s.one_in(2)
        && let Some(l3) = network(bytes)
    {
        correct_checksum(l3);
    }
}
