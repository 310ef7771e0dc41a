//! Building whole packets, for tests and for the templates of the packet generator.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::arp::ArpPacket;
use crate::checksum::PseudoHeader;
use crate::ethernet::{EthernetHeader, VlanTag, ethertype};
use crate::extension::Fragment;
use crate::icmpv4::IcmpHeader;
use crate::icmpv6::Icmpv6Header;
use crate::ipv4::{self, Ipv4Header, protocol};
use crate::ipv6::Ipv6Header;
use crate::mac::Mac;
use crate::tcp::{Flags, TcpHeader};
use crate::udp::UdpHeader;

#[derive(Clone, Copy)]
enum Transport {
    None,
    Udp(UdpHeader),
    Tcp(TcpHeader),
    /// ICMP: type, code, and the second 32-bit word of the header.
    Icmp(u8, u8, u32),
}

#[derive(Clone, Copy)]
enum Network {
    V4(Ipv4Header),
    V6(Ipv6Header),
}

/// Builds an IPv4 or IPv6 packet, with or without a link header, and computes its lengths and checksums.
///
/// ```
/// use wire::{Mac, builder::PacketBuilder};
/// let frame = PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 1, 1].into())
///     .ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
///     .vlan(100)
///     .udp(1234, 80)
///     .payload(b"hello")
///     .build();
/// assert_eq!(frame.len(), 14 + 4 + 20 + 8 + 5);
/// ```
#[derive(Clone)]
pub struct PacketBuilder {
    link: Option<(Mac, Mac)>,
    /// Type and tag control information, the outer tag first.
    tags: Vec<(u16, u16)>,
    ip: Network,
    /// The protocol after the IPv4 header, or after the IPv6 header and all extension headers.
    protocol: u8,
    id: u16,
    /// Offset in units of 8 bytes, and the "more fragments" flag.
    fragment: Option<(u16, bool)>,
    /// Options of the IPv4 header.
    options: Vec<u8>,
    /// Extension headers: the kind, and the contents after the first two bytes.
    extensions: Vec<(u8, Vec<u8>)>,
    transport: Transport,
    payload: Vec<u8>,
    partial: bool,
}

impl PacketBuilder {
    /// Returns a packet from `src` to `dst` with TTL 64 and nothing after its header.
    pub fn ipv4(src: Ipv4Addr, dst: Ipv4Addr) -> Self {
        PacketBuilder::new(Network::V4(Ipv4Header::new(src, dst, 0, 0)))
    }

    /// Returns a packet from `src` to `dst` with hop limit 64 and nothing after its header.
    pub fn ipv6(src: Ipv6Addr, dst: Ipv6Addr) -> Self {
        PacketBuilder::new(Network::V6(Ipv6Header::new(src, dst, 0, 0)))
    }

    fn new(ip: Network) -> Self {
        PacketBuilder {
            link: None,
            tags: Vec::new(),
            ip,
            protocol: protocol::EXPERIMENT,
            id: 0,
            fragment: None,
            options: Vec::new(),
            extensions: Vec::new(),
            transport: Transport::None,
            payload: Vec::new(),
            partial: false,
        }
    }

    /// Adds an Ethernet header.
    pub fn ethernet(mut self, src: Mac, dst: Mac) -> Self {
        self.link = Some((src, dst));
        self
    }

    /// Adds an 802.1Q tag after the existing tags.
    pub fn vlan(self, vid: u16) -> Self {
        self.tag(ethertype::VLAN, vid & 0x0fff)
    }

    /// Adds a VLAN tag with this TPID and tag control information after the existing tags. Tags are used only with an Ethernet header.
    pub fn tag(mut self, tpid: u16, tci: u16) -> Self {
        self.tags.push((tpid, tci));
        self
    }

    /// Sets the TTL or the hop limit.
    pub fn ttl(mut self, ttl: u8) -> Self {
        match &mut self.ip {
            Network::V4(ip) => ip.set_ttl(ttl),
            Network::V6(ip) => ip.set_hop_limit(ttl),
        }
        self
    }

    /// Sets the type of service, or the traffic class.
    pub fn tos(mut self, tos: u8) -> Self {
        match &mut self.ip {
            Network::V4(ip) => ip.set_tos(tos),
            Network::V6(ip) => ip.set_traffic_class(tos),
        }
        self
    }

    /// Sets the flow label of an IPv6 packet.
    pub fn flow_label(mut self, label: u32) -> Self {
        if let Network::V6(ip) = &mut self.ip {
            ip.set_flow_label(label);
        }
        self
    }

    /// Sets the identification. An IPv6 packet has one only if it is a fragment.
    pub fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    /// Sets DF of an IPv4 packet.
    pub fn dont_fragment(mut self) -> Self {
        if let Network::V4(ip) = &mut self.ip {
            ip.set_dont_fragment(true);
        }
        self
    }

    /// Makes the packet a fragment: `offset` in units of 8 bytes, and the "more fragments" flag. The transport header and its checksum are
    /// the same as in an unfragmented packet. The IPv6 fragment header follows the other extension headers. An IPv4 fragment has no DF.
    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        self.fragment = Some((offset & 0x1fff, more));
        self
    }

    /// Sets the options of the IPv4 header, padded with zeros to a multiple of 4 bytes; at most 40 bytes.
    pub fn options(mut self, options: &[u8]) -> Self {
        self.options = options.iter().copied().take(40).collect();
        self.options.resize(self.options.len().next_multiple_of(4), 0);
        self
    }

    /// Adds an extension header after the IPv6 header and the existing ones. `body` is the contents after the
    /// first two bytes, padded with zeros to a multiple of 8 bytes in total; at most 2,046 bytes.
    pub fn extension(mut self, kind: u8, body: &[u8]) -> Self {
        let mut body: Vec<u8> = body.iter().copied().take(256 * 8 - 2).collect();
        body.resize((2 + body.len()).next_multiple_of(8) - 2, 0);
        self.extensions.push((kind, body));
        self
    }

    /// Sets the protocol in the IP header. The payload follows that header directly, without a transport
    /// header.
    pub fn protocol(mut self, protocol: u8) -> Self {
        self.transport = Transport::None;
        self.protocol = protocol;
        self
    }

    /// Adds a UDP header after the IP header.
    pub fn udp(mut self, src_port: u16, dst_port: u16) -> Self {
        self.transport = Transport::Udp(UdpHeader::new(src_port, dst_port, 0));
        self.protocol = protocol::UDP;
        self
    }

    /// Adds a TCP header after the IP header.
    pub fn tcp(mut self, src_port: u16, dst_port: u16, seq: u32, ack: u32, flags: Flags) -> Self {
        self.transport = Transport::Tcp(TcpHeader::new(src_port, dst_port, seq, ack, flags));
        self.protocol = protocol::TCP;
        self
    }

    /// Adds an ICMP or ICMPv6 header after the IP header, depending on the IP version. `rest` is the second
    /// 32-bit word of the header.
    pub fn icmp(mut self, kind: u8, code: u8, rest: u32) -> Self {
        self.transport = Transport::Icmp(kind, code, rest);
        self.protocol = match self.ip {
            Network::V4(_) => protocol::ICMP,
            Network::V6(_) => protocol::ICMPV6,
        };
        self
    }

    /// Adds an ICMP echo request after the IP header.
    pub fn echo_request(self, id: u16, seq: u16) -> Self {
        let kind = match self.ip {
            Network::V4(_) => crate::icmpv4::kind::ECHO_REQUEST,
            Network::V6(_) => crate::icmpv6::kind::ECHO_REQUEST,
        };
        self.icmp(kind, 0, (id as u32) << 16 | seq as u32)
    }

    /// Sets the payload.
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// Extends the payload with zeros, or truncates it, so that the frame is `len` bytes long (without frame check sequence). If the
    /// headers alone are longer than `len`, the payload becomes empty. Add all headers before this call, because it uses their length.
    pub fn frame_len(mut self, len: usize) -> Self {
        self.payload.resize(len.saturating_sub(self.header_len()), 0);
        self
    }

    /// Leaves the checksum of UDP or TCP partial, like a host with checksum offload.
    pub fn partial_checksum(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Length of the Ethernet header and its VLAN tags in bytes; 0 without an Ethernet header.
    pub fn link_len(&self) -> usize {
        if self.link.is_some() { EthernetHeader::LEN + self.tags.len() * VlanTag::LEN } else { 0 }
    }

    /// Length of the IP header in bytes, with its options or extension headers.
    fn network_len(&self) -> usize {
        match self.ip {
            Network::V4(_) => Ipv4Header::LEN + self.options.len(),
            Network::V6(_) => {
                let extensions: usize = self.extensions.iter().map(|(_, body)| 2 + body.len()).sum();
                Ipv6Header::LEN + extensions + self.fragment.map_or(0, |_| Fragment::LEN)
            }
        }
    }

    fn transport_len(&self) -> usize {
        match self.transport {
            Transport::None => 0,
            Transport::Udp(_) => UdpHeader::LEN,
            Transport::Tcp(_) => TcpHeader::LEN,
            Transport::Icmp(..) => IcmpHeader::LEN,
        }
    }

    /// Length of all headers before the payload in bytes.
    pub fn header_len(&self) -> usize {
        self.link_len() + self.network_len() + self.transport_len()
    }

    /// Builds the packet. A payload that does not fit is truncated.
    pub fn build(&self) -> Vec<u8> {
        let headers = self.network_len() + self.transport_len();
        // The contents after an IPv6 header may be as long as an IPv4 packet with its header.
        let most = match self.ip {
            Network::V4(_) => usize::from(u16::MAX),
            Network::V6(_) => usize::from(u16::MAX) + Ipv6Header::LEN,
        };
        let payload = self.payload.get(..most.saturating_sub(headers)).unwrap_or(&self.payload);
        let total_len = headers + payload.len();

        let mut out = Vec::with_capacity(self.link_len() + total_len);
        self.write_link(&mut out);
        match self.ip {
            Network::V4(mut ip) => {
                ip.set_ihl((self.network_len() / 4) as u8);
                ip.set_total_len(total_len as u16);
                ip.set_id(self.id);
                ip.set_protocol(self.protocol);
                if let Some((offset, more)) = self.fragment {
                    ip.set_flags_fragment(offset | (more as u16) << 13);
                }
                let at = out.len();
                out.extend(ip.0);
                out.extend(&self.options);
                // The header is whole by construction.
                let _ = ipv4::write_checksum(&mut out[at..]);
                self.write_transport(&mut out, &ip, payload);
            }
            Network::V6(mut ip) => {
                ip.set_payload_len((total_len - Ipv6Header::LEN) as u16);
                let fragment = self.fragment.map(|_| protocol::FRAGMENT);
                let kinds = self.extensions.iter().map(|e| e.0).chain(fragment);
                let mut kinds = kinds.chain([self.protocol]);
                let mut next = || kinds.next().unwrap_or(protocol::NONE);
                ip.set_next_header(next());
                out.extend(ip.0);
                for (_, body) in &self.extensions {
                    out.extend([next(), ((2 + body.len()) / 8 - 1) as u8]);
                    out.extend(body);
                }
                if let Some((offset, more)) = self.fragment {
                    let id = self.id.into();
                    let header = Fragment { at: 0, protocol: self.protocol, offset: offset * 8, more, id };
                    out.extend(header.to_bytes());
                }
                self.write_transport(&mut out, &ip, payload);
            }
        }
        out.extend(payload);
        out
    }

    fn write_link(&self, out: &mut Vec<u8>) {
        let Some((src, dst)) = self.link else { return };
        let network = match self.ip {
            Network::V4(_) => ethertype::IPV4,
            Network::V6(_) => ethertype::IPV6,
        };
        // Each type precedes its header: the first is in the Ethernet header, the next in the first tag.
        let mut types = self.tags.iter().map(|t| t.0).chain([network]);
        out.extend(EthernetHeader::new(dst, src, types.next().unwrap_or(network)).0);
        for (&(_, tci), inner) in self.tags.iter().zip(types) {
            out.extend(VlanTag::with_tci(tci, inner).0);
        }
    }

    fn write_transport(&self, out: &mut Vec<u8>, ip: &impl PseudoHeader, payload: &[u8]) {
        let partial = |length: usize| ip.pseudo_header(self.protocol, length as u32).fold();
        match self.transport {
            Transport::None => {}
            Transport::Udp(mut udp) => {
                let length = UdpHeader::LEN + payload.len();
                udp.set_length(length as u16);
                udp.set_checksum(if self.partial {
                    partial(length)
                } else {
                    udp.compute_checksum(ip, payload)
                });
                out.extend(udp.0);
            }
            Transport::Tcp(mut tcp) => {
                let length = TcpHeader::LEN + payload.len();
                tcp.set_checksum(if self.partial {
                    partial(length)
                } else {
                    tcp.compute_checksum(ip, payload)
                });
                out.extend(tcp.0);
            }
            Transport::Icmp(kind, code, rest) => match &self.ip {
                Network::V4(_) => out.extend(IcmpHeader::new(kind, code, rest, payload).0),
                Network::V6(ip) => out.extend(Icmpv6Header::new(ip, kind, code, rest, payload).0),
            },
        }
    }
}

/// Returns a frame with an ARP packet.
pub fn arp_frame(src: Mac, dst: Mac, arp: &ArpPacket) -> Vec<u8> {
    let mut out = EthernetHeader::new(dst, src, ethertype::ARP).0.to_vec();
    out.extend(arp.0);
    out
}
