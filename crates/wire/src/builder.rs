//! Whole packets, for tests and for the templates of the packet generator.

use std::net::Ipv4Addr;

use crate::arp::ArpPacket;
use crate::ethernet::{EthernetHeader, VlanTag, ethertype};
use crate::icmpv4::IcmpHeader;
use crate::ipv4::{self, Ipv4Header, protocol};
use crate::mac::Mac;
use crate::tcp::{Flags, TcpHeader};
use crate::udp::UdpHeader;

#[derive(Clone, Copy)]
enum Transport {
    None,
    Udp(UdpHeader),
    Tcp(TcpHeader),
    Icmp(IcmpHeader),
}

/// Builds an IPv4 packet, with or without a link header, and computes its lengths and checksums.
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
    ip: Ipv4Header,
    options: Vec<u8>,
    transport: Transport,
    payload: Vec<u8>,
    partial: bool,
}

impl PacketBuilder {
    /// A packet from `src` to `dst` with TTL 64 and nothing behind its header.
    pub fn ipv4(src: Ipv4Addr, dst: Ipv4Addr) -> Self {
        PacketBuilder {
            link: None,
            tags: Vec::new(),
            ip: Ipv4Header::new(src, dst, protocol::EXPERIMENT, 0),
            options: Vec::new(),
            transport: Transport::None,
            payload: Vec::new(),
            partial: false,
        }
    }

    /// Puts an Ethernet header in front.
    pub fn ethernet(mut self, src: Mac, dst: Mac) -> Self {
        self.link = Some((src, dst));
        self
    }

    /// Puts an 802.1Q tag behind the tags there are.
    pub fn vlan(self, vid: u16) -> Self {
        self.tag(ethertype::VLAN, vid & 0x0fff)
    }

    /// Puts a tag behind the tags there are.
    pub fn tag(mut self, tpid: u16, tci: u16) -> Self {
        self.tags.push((tpid, tci));
        self
    }

    /// Sets the time to live.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ip.set_ttl(ttl);
        self
    }

    /// Sets the type of service.
    pub fn tos(mut self, tos: u8) -> Self {
        self.ip.set_tos(tos);
        self
    }

    /// Sets the identification.
    pub fn id(mut self, id: u16) -> Self {
        self.ip.set_id(id);
        self
    }

    /// Sets DF.
    pub fn dont_fragment(mut self) -> Self {
        self.ip.set_dont_fragment(true);
        self
    }

    /// Makes the packet a fragment: `offset` in units of 8 bytes, and whether more follow. The transport header and its
    /// checksum are made as for a whole packet.
    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        self.ip.set_flags_fragment(offset & 0x1fff | (more as u16) << 13);
        self
    }

    /// Puts options behind the IPv4 header, filled up with zeros to a multiple of 4 bytes; 40 at most count.
    pub fn options(mut self, options: &[u8]) -> Self {
        self.options = options.iter().copied().take(40).collect();
        self.options.resize(self.options.len().next_multiple_of(4), 0);
        self
    }

    /// Nothing but the payload behind the IPv4 header, as this protocol.
    pub fn protocol(mut self, protocol: u8) -> Self {
        self.transport = Transport::None;
        self.ip.set_protocol(protocol);
        self
    }

    /// A UDP header behind the IPv4 header.
    pub fn udp(mut self, src_port: u16, dst_port: u16) -> Self {
        self.transport = Transport::Udp(UdpHeader::new(src_port, dst_port, 0));
        self.ip.set_protocol(protocol::UDP);
        self
    }

    /// A TCP header behind the IPv4 header.
    pub fn tcp(mut self, src_port: u16, dst_port: u16, seq: u32, ack: u32, flags: Flags) -> Self {
        self.transport = Transport::Tcp(TcpHeader::new(src_port, dst_port, seq, ack, flags));
        self.ip.set_protocol(protocol::TCP);
        self
    }

    /// An ICMP header behind the IPv4 header.
    pub fn icmp(mut self, kind: u8, code: u8, rest: u32) -> Self {
        self.transport = Transport::Icmp(IcmpHeader::new(kind, code, rest, &[]));
        self.ip.set_protocol(protocol::ICMP);
        self
    }

    /// An ICMP echo request behind the IPv4 header.
    pub fn echo_request(self, id: u16, seq: u16) -> Self {
        self.icmp(crate::icmpv4::kind::ECHO_REQUEST, 0, (id as u32) << 16 | seq as u32)
    }

    /// What the packet carries.
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// Makes the payload as long as it takes for a frame of `len` bytes (without frame check sequence), with zeros; a
    /// frame that is longer without any payload stays so.
    pub fn frame_len(mut self, len: usize) -> Self {
        self.payload.resize(len.saturating_sub(self.header_len()), 0);
        self
    }

    /// Leaves the checksum of UDP or TCP partial, as a host does whose interface completes it.
    pub fn partial_checksum(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Bytes in front of the IPv4 header.
    pub fn link_len(&self) -> usize {
        if self.link.is_some() { EthernetHeader::LEN + self.tags.len() * VlanTag::LEN } else { 0 }
    }

    /// Bytes in front of the payload.
    pub fn header_len(&self) -> usize {
        let transport = match self.transport {
            Transport::None => 0,
            Transport::Udp(_) => UdpHeader::LEN,
            Transport::Tcp(_) => TcpHeader::LEN,
            Transport::Icmp(_) => IcmpHeader::LEN,
        };
        self.link_len() + Ipv4Header::LEN + self.options.len() + transport
    }

    /// The packet. A payload longer than a packet can carry is cut off.
    pub fn build(&self) -> Vec<u8> {
        let link_len = self.link_len();
        let l3_room = usize::from(u16::MAX).saturating_sub(self.header_len() - link_len);
        let payload = self.payload.get(..l3_room).unwrap_or(&self.payload);
        let total_len = self.header_len() - link_len + payload.len();

        let mut ip = self.ip;
        ip.set_ihl(((Ipv4Header::LEN + self.options.len()) / 4) as u8);
        ip.set_total_len(total_len as u16);

        let mut out = Vec::with_capacity(link_len + total_len);
        if let Some((src, dst)) = self.link {
            // Each type stands in front of what it announces: the first in the Ethernet header, the next in the first tag.
            let mut types = self.tags.iter().map(|t| t.0).chain([ethertype::IPV4]);
            out.extend(EthernetHeader::new(dst, src, types.next().unwrap_or(ethertype::IPV4)).0);
            for (&(_, tci), inner) in self.tags.iter().zip(types) {
                out.extend(VlanTag::with_tci(tci, inner).0);
            }
        }
        out.extend(ip.0);
        out.extend(&self.options);
        // The header is whole by construction.
        let _ = ipv4::write_checksum(&mut out[link_len..]);
        match self.transport {
            Transport::None => {}
            Transport::Udp(mut udp) => {
                udp.set_length((UdpHeader::LEN + payload.len()) as u16);
                let partial = ip.pseudo_sum(udp.length()).fold();
                udp.set_checksum(if self.partial { partial } else { udp.compute_checksum(&ip, payload) });
                out.extend(udp.0);
            }
            Transport::Tcp(mut tcp) => {
                let partial = ip.pseudo_sum((TcpHeader::LEN + payload.len()) as u16).fold();
                tcp.set_checksum(if self.partial { partial } else { tcp.compute_checksum(&ip, payload) });
                out.extend(tcp.0);
            }
            Transport::Icmp(icmp) => {
                out.extend(IcmpHeader::new(icmp.kind(), icmp.code(), icmp.rest(), payload).0)
            }
        }
        out.extend(payload);
        out
    }
}

/// A frame that carries an ARP packet.
pub fn arp_frame(src: Mac, dst: Mac, arp: &ArpPacket) -> Vec<u8> {
    let mut out = EthernetHeader::new(dst, src, ethertype::ARP).0.to_vec();
    out.extend(arp.0);
    out
}
