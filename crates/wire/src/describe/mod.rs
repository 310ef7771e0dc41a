//! Packet descriptions for traces: one line, or several in the style of VPP's trace.
//!
//! Any bytes can be described; truncated and invalid parts are reported as such.

mod ipv4;
mod ipv6;

use std::fmt;
use std::net::Ipv4Addr;

use crate::arp::{ArpPacket, Operation};
use crate::ethernet::{EthernetHeader, VlanTag, ethertype};
use crate::icmpv4::{IcmpHeader, kind, unreachable};
use crate::icmpv6::Icmpv6Header;
use crate::ipv4::protocol;
use crate::tcp::TcpHeader;
use crate::udp::UdpHeader;

/// Describes in one line a frame that begins with an Ethernet header.
pub fn line(frame: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        let Some(rest) = link(f, frame)? else { return Ok(()) };
        match rest {
            Network::Ipv4(l3) => {
                f.write_str(", ")?;
                ipv4::line(f, l3)
            }
            Network::Ipv6(l3) => {
                f.write_str(", ")?;
                ipv6::line(f, l3)
            }
            Network::Arp(bytes) => {
                f.write_str(", ")?;
                arp_line(f, bytes)
            }
            Network::Other(bytes) => write!(f, ", len {}", bytes.len()),
        }
    })
}

/// Describes in one line a packet that begins with an IPv4 header.
pub fn line_ipv4(l3: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| ipv4::line(f, l3))
}

/// Describes in one line a packet that begins with an IPv6 header.
pub fn line_ipv6(l3: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| ipv6::line(f, l3))
}

/// Describes in several lines a frame that begins with an Ethernet header. The layers after the Ethernet header are indented by two spaces.
pub fn detail(frame: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        let Some(rest) = link(f, frame)? else { return Ok(()) };
        match rest {
            Network::Ipv4(l3) => {
                f.write_str("\n  ")?;
                ipv4::detail(f, l3, "  ")
            }
            Network::Ipv6(l3) => {
                f.write_str("\n  ")?;
                ipv6::detail(f, l3, "  ")
            }
            Network::Arp(bytes) => {
                f.write_str("\n  ")?;
                arp_detail(f, bytes, "  ")
            }
            Network::Other(bytes) => write!(f, "\n  {} bytes", bytes.len()),
        }
    })
}

/// Describes in several lines a packet that begins with an IPv4 header.
pub fn detail_ipv4(l3: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| ipv4::detail(f, l3, ""))
}

/// Describes in several lines a packet that begins with an IPv6 header.
pub fn detail_ipv6(l3: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| ipv6::detail(f, l3, ""))
}

enum Network<'a> {
    Ipv4(&'a [u8]),
    Ipv6(&'a [u8]),
    Arp(&'a [u8]),
    Other(&'a [u8]),
}

/// Writes type, addresses and tags. Returns the next layer, or `None` if the frame ends before it.
fn link<'a>(f: &mut fmt::Formatter<'_>, frame: &'a [u8]) -> Result<Option<Network<'a>>, fmt::Error> {
    let Some((eth, mut rest)) = EthernetHeader::split(frame) else {
        truncated(f, "Ethernet", frame)?;
        return Ok(None);
    };
    // The text begins with the type after the tags.
    let (tags, mut inner) = (rest, eth.ethertype());
    while ethertype::is_vlan(inner)
        && let Some((tag, behind)) = VlanTag::split(rest)
    {
        (inner, rest) = (tag.ethertype(), behind);
    }
    match inner {
        ethertype::IPV4 => f.write_str("IP4")?,
        ethertype::ARP => f.write_str("ARP")?,
        ethertype::IPV6 => f.write_str("IP6")?,
        t if t < ethertype::MIN => write!(f, "802.3 length {t}")?,
        t => write!(f, "0x{t:04x}")?,
    }
    write!(f, ": {} -> {}", eth.src(), eth.dst())?;
    let (mut bytes, mut outer) = (tags, eth.ethertype());
    while ethertype::is_vlan(outer) {
        let Some((tag, behind)) = VlanTag::split(bytes) else {
            f.write_str(" ")?;
            truncated(f, "VLAN tag", bytes)?;
            return Ok(None);
        };
        let name = match outer {
            ethertype::VLAN => "802.1q",
            ethertype::QINQ => "802.1ad",
            _ => "0x9100",
        };
        write!(f, " {name} vlan {}", tag.vid())?;
        if tag.pcp() != 0 {
            write!(f, " priority {}", tag.pcp())?;
        }
        if tag.dei() {
            f.write_str(" dei")?;
        }
        (outer, bytes) = (tag.ethertype(), behind);
    }
    Ok(Some(match inner {
        ethertype::IPV4 => Network::Ipv4(rest),
        ethertype::IPV6 => Network::Ipv6(rest),
        ethertype::ARP => Network::Arp(rest),
        _ => Network::Other(rest),
    }))
}

/// Writes the description of a transport header: ports and TCP flags, or the kind and details of an ICMP message.
fn transport_line(f: &mut fmt::Formatter<'_>, proto: u8, l4: &[u8]) -> fmt::Result {
    match proto {
        protocol::TCP if let Some((tcp, _)) = TcpHeader::split(l4) => {
            write!(f, " {} -> {} [{}]", tcp.src_port(), tcp.dst_port(), tcp.flags())
        }
        protocol::UDP if let Some((udp, _)) = UdpHeader::split(l4) => {
            write!(f, " {} -> {}", udp.src_port(), udp.dst_port())
        }
        protocol::ICMP if let Some((icmp, _)) = IcmpHeader::split(l4) => {
            write!(f, " ")?;
            icmp_kind(f, icmp)?;
            if matches!(icmp.kind(), kind::ECHO_REQUEST | kind::ECHO_REPLY) {
                write!(f, " id {} seq {}", icmp.echo_id(), icmp.echo_seq())?
            }
            Ok(())
        }
        protocol::ICMPV6 if let Some((icmp, body)) = Icmpv6Header::split(l4) => {
            write!(f, " {}{}", ipv6::Kind(icmp), ipv6::Subject(icmp, body))
        }
        _ => Ok(()),
    }
}

fn transport_detail(f: &mut fmt::Formatter<'_>, proto: u8, l4: &[u8], indent: &str) -> fmt::Result {
    match proto {
        protocol::UDP | protocol::TCP | protocol::ICMP | protocol::ICMPV6 => write!(f, "\n{indent}")?,
        _ => return Ok(()),
    }
    match proto {
        protocol::UDP => {
            let Some((udp, _)) = UdpHeader::split(l4) else { return truncated(f, "UDP header", l4) };
            write!(f, "UDP: {} -> {}", udp.src_port(), udp.dst_port())?;
            write!(f, "\n{indent}  length {}, checksum 0x{:04x}", udp.length(), udp.checksum())
        }
        protocol::TCP => {
            let Some((tcp, _)) = TcpHeader::split(l4) else { return truncated(f, "TCP header", l4) };
            write!(f, "TCP: {} -> {}", tcp.src_port(), tcp.dst_port())?;
            write!(f, "\n{indent}  seq. 0x{:08x} ack 0x{:08x}", tcp.seq(), tcp.ack())?;
            write!(f, "\n{indent}  flags {}, tcp header: {} bytes", tcp.flags(), tcp.header_len())?;
            write!(f, "\n{indent}  window {}, checksum 0x{:04x}", tcp.window(), tcp.checksum())
        }
        protocol::ICMPV6 => ipv6::icmp_detail(f, l4, indent),
        _ => {
            let Some((icmp, _)) = IcmpHeader::split(l4) else { return truncated(f, "ICMP header", l4) };
            f.write_str("ICMP ")?;
            icmp_kind(f, icmp)?;
            write!(f, " checksum 0x{:04x}", icmp.checksum())?;
            match icmp.kind() {
                kind::ECHO_REQUEST | kind::ECHO_REPLY => {
                    write!(f, " id {} seq {}", icmp.echo_id(), icmp.echo_seq())
                }
                kind::UNREACHABLE if icmp.code() == unreachable::FRAGMENTATION_NEEDED => {
                    write!(f, " mtu {}", icmp.next_hop_mtu())
                }
                _ => Ok(()),
            }
        }
    }
}

fn arp_line(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let Some((arp, _)) = ArpPacket::split(bytes) else { return truncated(f, "ARP packet", bytes) };
    match arp.check() {
        Ok(Operation::Request) => write!(f, "who has {}? tell {}", arp.target_ip(), arp.sender_ip()),
        Ok(Operation::Reply) => write!(f, "{} is at {}", arp.sender_ip(), arp.sender_mac()),
        Err(e) => write!(f, "{e}"),
    }
}

fn arp_detail(f: &mut fmt::Formatter<'_>, bytes: &[u8], indent: &str) -> fmt::Result {
    let Some((arp, _)) = ArpPacket::split(bytes) else { return truncated(f, "ARP packet", bytes) };
    let name = match arp.check() {
        Ok(Operation::Request) => "request",
        Ok(Operation::Reply) => "reply",
        Err(e) => return write!(f, "{e}"),
    };
    write!(f, "{name}, type ethernet/IP4, address size 6/4")?;
    let end = |mac, ip: Ipv4Addr| fmt::from_fn(move |f| write!(f, "{mac}/{ip}"));
    let (sender, target) = (end(arp.sender_mac(), arp.sender_ip()), end(arp.target_mac(), arp.target_ip()));
    write!(f, "\n{indent}{sender} -> {target}")
}

fn truncated(f: &mut fmt::Formatter<'_>, what: &str, bytes: &[u8]) -> fmt::Result {
    write!(f, "truncated {what} ({} bytes)", bytes.len())
}

fn protocol_name(number: u8) -> impl fmt::Display {
    let name = match number {
        protocol::HOP_BY_HOP => "IP6_HOP_BY_HOP_OPTIONS",
        protocol::ICMP => "ICMP",
        protocol::IGMP => "IGMP",
        protocol::IPIP => "IP_IN_IP",
        protocol::TCP => "TCP",
        protocol::UDP => "UDP",
        protocol::DCCP => "DCCP",
        protocol::IPV6 => "IPV6",
        protocol::ROUTING => "IPV6_ROUTE",
        protocol::FRAGMENT => "IPV6_FRAGMENTATION",
        protocol::GRE => "GRE",
        protocol::ESP => "IPSEC_ESP",
        protocol::AH => "IPSEC_AH",
        protocol::ICMPV6 => "ICMP6",
        protocol::NONE => "IPV6_NONXT",
        protocol::DESTINATION_OPTIONS => "IPV6_OPTS",
        protocol::OSPF => "OSPF",
        protocol::VRRP => "VRRP",
        protocol::SCTP => "SCTP",
        protocol::MOBILITY => "MOBILITY",
        protocol::UDP_LITE => "UDP_LITE",
        protocol::HIP => "HIP",
        protocol::SHIM6 => "SHIM6",
        _ => "",
    };
    fmt::from_fn(move |f| if name.is_empty() { write!(f, "protocol {number}") } else { f.write_str(name) })
}

fn icmp_kind(f: &mut fmt::Formatter<'_>, icmp: &IcmpHeader) -> fmt::Result {
    let name = match (icmp.kind(), icmp.code()) {
        (kind::ECHO_REPLY, _) => "echo_reply",
        (kind::ECHO_REQUEST, _) => "echo_request",
        (kind::UNREACHABLE, unreachable::NET) => "net_unreachable",
        (kind::UNREACHABLE, unreachable::HOST) => "host_unreachable",
        (kind::UNREACHABLE, unreachable::PROTOCOL) => "protocol_unreachable",
        (kind::UNREACHABLE, unreachable::PORT) => "port_unreachable",
        (kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED) => "fragmentation_needed",
        (kind::UNREACHABLE, unreachable::ADMIN_PROHIBITED) => "admin_prohibited",
        (kind::TIME_EXCEEDED, 0) => "ttl_exceeded",
        (kind::TIME_EXCEEDED, _) => "reassembly_time_exceeded",
        (kind::SOURCE_QUENCH, _) => "source_quench",
        (kind::REDIRECT, _) => "redirect",
        (kind::PARAMETER_PROBLEM, _) => "parameter_problem",
        (kind::TIMESTAMP_REQUEST, _) => "timestamp_request",
        (kind::TIMESTAMP_REPLY, _) => "timestamp_reply",
        (t, c) => return write!(f, "type {t} code {c}"),
    };
    f.write_str(name)
}

/// Writes the name of a code point (RFC 2474, 2597, 3246, 5865), or its number.
fn dscp(f: &mut fmt::Formatter<'_>, value: u8) -> fmt::Result {
    let (class, low) = (value >> 3, value & 7);
    match (class, low) {
        (_, 0) => write!(f, "CS{class}"),
        (1..=4, 2 | 4 | 6) => write!(f, "AF{class}{}", low / 2),
        (5, 6) => f.write_str("EF"),
        (5, 4) => f.write_str("VA"),
        _ => write!(f, "{value}"),
    }
}
