//! Describing IPv6 packets: extension headers, ICMPv6 and Neighbor Discovery.

use std::fmt;
use std::net::Ipv6Addr;

use super::{protocol_name, transport_detail, transport_line, truncated};
use crate::extension::{Extension, ExtensionError, Extensions, Fragment, HeaderOptions, Routing, option};
use crate::icmpv6::{Icmpv6Header, exceeded, kind, parameter, unreachable};
use crate::ipv4::protocol;
use crate::ipv6::Ipv6Header;

/// The layer after the extension headers of a packet.
struct Upper<'a> {
    protocol: u8,
    bytes: &'a [u8],
    fragment: Option<Fragment>,
}

/// Passes the extension headers of a packet to `each`. Returns the layer after them, or the reason why it was not found.
fn walk<'a>(
    l3: &'a [u8],
    mut each: impl FnMut(&Extension<'_>) -> fmt::Result,
) -> Result<Result<Upper<'a>, ExtensionError>, fmt::Error> {
    let mut headers = Extensions::of(l3);
    let (mut at, mut fragment) = (Ipv6Header::LEN, None);
    for header in headers.by_ref() {
        let header = match header {
            Ok(header) => header,
            Err(e) => return Ok(Err(e)),
        };
        at = header.at + header.bytes.len();
        fragment = Fragment::of(&header).or(fragment);
        each(&header)?;
    }
    let bytes = l3.get(at..).unwrap_or(&[]);
    Ok(Ok(Upper { protocol: headers.protocol(), bytes, fragment }))
}

pub(super) fn line(f: &mut fmt::Formatter<'_>, l3: &[u8]) -> fmt::Result {
    let Some((ip, _)) = Ipv6Header::split(l3) else { return truncated(f, "IPv6 header", l3) };
    write!(f, "{} -> {}", ip.src(), ip.dst())?;
    let mut piece = None;
    match walk(l3, |_| Ok(()))? {
        Ok(upper) => {
            piece = upper.fragment;
            write!(f, " {}", protocol_name(upper.protocol))?;
            if piece.is_none_or(|f| f.offset == 0) {
                transport_line(f, upper.protocol, upper.bytes)?;
            }
        }
        Err(e) => write!(f, " {}, {e}", protocol_name(ip.next_header()))?,
    }
    write!(f, " len {} hop limit {}", ip.total_len(), ip.hop_limit())?;
    if let Some(p) = piece {
        let more = if p.more { "+" } else { "" };
        write!(f, " fragment id 0x{:08x} offset {}{more}", p.id, p.offset)?;
    }
    Ok(())
}

pub(super) fn detail(f: &mut fmt::Formatter<'_>, l3: &[u8], indent: &str) -> fmt::Result {
    let Some((ip, _)) = Ipv6Header::split(l3) else { return truncated(f, "IPv6 header", l3) };
    write!(f, "{}: {} -> {}", protocol_name(ip.next_header()), ip.src(), ip.dst())?;
    if ip.version() != 6 {
        write!(f, "\n{indent}  version {}", ip.version())?;
    }
    write!(
        f,
        "\n{indent}  tos 0x{:02x}, flow label 0x{:x}, hop limit {}, payload length {}",
        ip.traffic_class(),
        ip.flow_label(),
        ip.hop_limit(),
        ip.payload_len()
    )?;
    match walk(l3, |header| extension(f, header, indent))? {
        Ok(Upper { fragment: Some(fragment), .. }) if fragment.offset != 0 => Ok(()),
        Ok(upper) => transport_detail(f, upper.protocol, upper.bytes, indent),
        Err(e) => write!(f, "\n{indent}{e}"),
    }
}

/// Writes a line about an extension header.
fn extension(f: &mut fmt::Formatter<'_>, header: &Extension<'_>, indent: &str) -> fmt::Result {
    write!(f, "\n{indent}{}: length {}", protocol_name(header.kind), header.bytes.len())?;
    if let Some(fragment) = Fragment::of(header) {
        let more = if fragment.more { ", more follow" } else { "" };
        return write!(f, ", id 0x{:08x} offset {}{more}", fragment.id, fragment.offset);
    }
    if let Some(routing) = Routing::of(header) {
        return write!(f, ", type {}, segments left {}", routing.kind, routing.segments_left);
    }
    if matches!(header.kind, protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS) {
        for option in HeaderOptions::of(header.bytes) {
            match option {
                Ok(o) if o.kind == option::ROUTER_ALERT => write!(f, ", router alert {}", hex(o.data))?,
                Ok(o) => write!(f, ", option 0x{:02x}", o.kind)?,
                Err(e) => write!(f, ", {e}")?,
            }
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        f.write_str("0x")?;
        bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
    })
}

/// Displays the kind of a message as a name, or as type and code if the kind has no name.
pub(super) struct Kind<'a>(pub(super) &'a Icmpv6Header);

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.0.kind(), self.0.code()) {
            (kind::UNREACHABLE, unreachable::NO_ROUTE) => "no_route_to_destination",
            (kind::UNREACHABLE, unreachable::ADMIN_PROHIBITED) => "admin_prohibited",
            (kind::UNREACHABLE, unreachable::BEYOND_SCOPE) => "beyond_scope_of_source_address",
            (kind::UNREACHABLE, unreachable::ADDRESS) => "address_unreachable",
            (kind::UNREACHABLE, unreachable::PORT) => "port_unreachable",
            (kind::UNREACHABLE, unreachable::SOURCE_POLICY) => "source_address_failed_policy",
            (kind::UNREACHABLE, unreachable::REJECT_ROUTE) => "reject_route_to_destination",
            (kind::PACKET_TOO_BIG, _) => "packet_too_big",
            (kind::TIME_EXCEEDED, exceeded::HOP_LIMIT) => "ttl_exceeded",
            (kind::TIME_EXCEEDED, exceeded::REASSEMBLY) => "reassembly_time_exceeded",
            (kind::PARAMETER_PROBLEM, parameter::HEADER) => "erroneous_header_field",
            (kind::PARAMETER_PROBLEM, parameter::NEXT_HEADER) => "unrecognized_next_header",
            (kind::PARAMETER_PROBLEM, parameter::OPTION) => "unrecognized_option",
            (kind::PARAMETER_PROBLEM, parameter::FIRST_FRAGMENT) => "incomplete_header_chain",
            (kind::ECHO_REQUEST, _) => "echo_request",
            (kind::ECHO_REPLY, _) => "echo_reply",
            (kind::MLD_QUERY, _) => "multicast_listener_request",
            (kind::MLD_REPORT, _) => "multicast_listener_report",
            (kind::MLD_DONE, _) => "multicast_listener_done",
            (kind::ROUTER_SOLICITATION, _) => "router_solicitation",
            (kind::ROUTER_ADVERTISEMENT, _) => "router_advertisement",
            (kind::NEIGHBOR_SOLICITATION, _) => "neighbor_solicitation",
            (kind::NEIGHBOR_ADVERTISEMENT, _) => "neighbor_advertisement",
            (kind::REDIRECT, _) => "redirect",
            (kind::MLDV2_REPORT, _) => "multicast_listener_report_v2",
            (t, c) => return write!(f, "type {t} code {c}"),
        })
    }
}

/// Displays the details of a message after a space: for example its target address or its MTU. The text is empty for messages without
/// details.
pub(super) struct Subject<'a>(pub(super) &'a Icmpv6Header, pub(super) &'a [u8]);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject(icmp, body) = self;
        match icmp.kind() {
            kind::ECHO_REQUEST | kind::ECHO_REPLY => {
                write!(f, " id {} seq {}", icmp.echo_id(), icmp.echo_seq())
            }
            kind::PACKET_TOO_BIG => write!(f, " mtu {}", icmp.rest()),
            kind::PARAMETER_PROBLEM => write!(f, " at byte {}", icmp.rest()),
            kind::NEIGHBOR_SOLICITATION | kind::NEIGHBOR_ADVERTISEMENT | kind::REDIRECT => {
                let Some(target) = body.first_chunk::<16>() else { return Ok(()) };
                write!(f, " target {}", Ipv6Addr::from(*target))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn icmp_detail(f: &mut fmt::Formatter<'_>, l4: &[u8], indent: &str) -> fmt::Result {
    let Some((icmp, body)) = Icmpv6Header::split(l4) else { return truncated(f, "ICMP header", l4) };
    write!(f, "ICMP {} checksum 0x{:04x}", Kind(icmp), icmp.checksum())?;
    let discovery = kind::NEIGHBOR_SOLICITATION..=kind::REDIRECT;
    match body.first_chunk::<16>() {
        Some(target) if discovery.contains(&icmp.kind()) => {
            write!(f, "\n{indent}    target address {}", Ipv6Addr::from(*target))
        }
        _ => write!(f, "{}", Subject(icmp, body)),
    }
}
