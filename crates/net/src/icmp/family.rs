//! The differences between error reports of ICMP (RFC 792, RFC 1812 section 4.3) and of ICMPv6 (RFC 4443).

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::{Flags, Packet};
use wire::{IcmpHeader, Icmpv6Header, Ipv4Header, Ipv6Header, icmpv4, icmpv6, ipv6, protocol};

use super::error::Reason;
use super::report::Message;
use crate::interface::Interface;
use crate::ip::Cause;
use crate::ip::Packets;
use crate::nodes::ip::local6::unknown_at;

/// TTL or hop limit of reports: the maximum, so that a report reaches the packet's source even over a long return path.
const HOPS: u8 = 255;
/// Type of service of reports: precedence "internetwork control" (RFC 1812 section 4.3.2.5), and the default
/// type of service (RFC 1349 section 5.1).
const TOS: u8 = 0xc0;

/// An address family with ICMP error reports.
pub trait Icmp: Packets {
    /// Offset of the quoted packet in a report, in bytes.
    const QUOTE_AT: usize;

    /// Returns the drop reason of a packet to which `cause` applies, and the ICMP message to report. `l3` is the packet from its IP
    /// header on.
    fn message(cause: Cause, l3: &[u8]) -> (Reason, Message);
    /// True for a message "destination unreachable" that is not needed for path MTU discovery.
    fn is_unreachable(message: Message) -> bool;
    /// True if this message may be sent about a packet. The packet begins with its IP header.
    fn may_report(p: &Packet<'_>, message: Message) -> bool;
    /// Returns how many bytes of a packet an ICMP error quotes, if the packet has `original` bytes.
    fn quote_len(original: usize) -> usize;
    /// Returns the source address for reports that are sent to `to`, about packets that `interface` received; `None` if the interface has
    /// no suitable address.
    fn sender(interface: &Interface, to: Self::Bits) -> Option<Self>;
    /// Writes the headers of a report that already contains its quote. `id` is the identification in the IPv4
    /// header; IPv6 ignores it.
    fn write_headers(report: &mut [u8], from: Self, to: Self, id: u16, message: Message);
}

impl Icmp for Ipv4Addr {
    const QUOTE_AT: usize = Ipv4Header::LEN + IcmpHeader::LEN;

    fn message(cause: Cause, _: &[u8]) -> (Reason, Message) {
        use icmpv4::kind::{PARAMETER_PROBLEM, TIME_EXCEEDED, UNREACHABLE};
        use icmpv4::{exceeded, unreachable};
        let (reason, kind, code, rest) = match cause {
            Cause::TtlExpired => (Reason::TtlExpired, TIME_EXCEEDED, exceeded::TTL, 0),
            // A feature's cause comes here only if it was never registered.
            Cause::NoRoute | Cause::Feature(_) => (Reason::NoRoute, UNREACHABLE, unreachable::NET, 0),
            Cause::HostUnreachable => (Reason::Unreachable, UNREACHABLE, unreachable::HOST, 0),
            Cause::Prohibited => (Reason::Prohibited, UNREACHABLE, unreachable::ADMIN_PROHIBITED, 0),
            Cause::ProtocolUnreachable => (Reason::Protocol, UNREACHABLE, unreachable::PROTOCOL, 0),
            Cause::PortUnreachable => (Reason::Port, UNREACHABLE, unreachable::PORT, 0),
            Cause::FragmentationNeeded(mtu) => {
                (Reason::TooBig, UNREACHABLE, unreachable::FRAGMENTATION_NEEDED, u32::from(mtu))
            }
            Cause::SourceRouteFailed => {
                (Reason::SourceRoute, UNREACHABLE, unreachable::SOURCE_ROUTE_FAILED, 0)
            }
            Cause::ParameterProblem(at) => (Reason::Parameter, PARAMETER_PROBLEM, 0, u32::from(at) << 24),
            // These causes do not occur with IPv4.
            Cause::BeyondScope => (Reason::Scope, UNREACHABLE, unreachable::HOST, 0),
            Cause::UnknownOption(at) => (Reason::Option, PARAMETER_PROBLEM, 0, u32::from(at) << 24),
            Cause::IncompleteHeaders => (Reason::Incomplete, PARAMETER_PROBLEM, 0, 0),
        };
        (reason, Message { kind, code, rest })
    }

    fn is_unreachable(message: Message) -> bool {
        message.kind == icmpv4::kind::UNREACHABLE && message.code != icmpv4::unreachable::FRAGMENTATION_NEEDED
    }

    fn may_report(p: &Packet<'_>, _: Message) -> bool {
        let never = Flags::L2_BROADCAST | Flags::L2_MULTICAST | Flags::LOCAL_ORIGIN;
        !p.flags().any(never) && icmpv4::may_report(p.bytes())
    }

    fn quote_len(original: usize) -> usize {
        icmpv4::quote_len(original)
    }

    fn sender(interface: &Interface, _: u32) -> Option<Ipv4Addr> {
        interface.primary()
    }

    fn write_headers(report: &mut [u8], from: Ipv4Addr, to: Ipv4Addr, id: u16, message: Message) {
        let Some((ip_to, rest)) = report.split_first_chunk_mut() else { return };
        let Some((icmp_to, quote)) = rest.split_first_chunk_mut() else { return };
        let icmp = IcmpHeader::new(message.kind, message.code, message.rest, quote);
        let mut ip = Ipv4Header::new(from, to, protocol::ICMP, IcmpHeader::LEN + quote.len());
        ip.set_tos(TOS);
        ip.set_ttl(HOPS);
        ip.set_id(id);
        ip.set_checksum(ip.compute_checksum());
        (*ip_to, *icmp_to) = (ip.0, icmp.0);
    }
}

impl Icmp for Ipv6Addr {
    const QUOTE_AT: usize = Ipv6Header::LEN + Icmpv6Header::LEN;

    fn message(cause: Cause, l3: &[u8]) -> (Reason, Message) {
        use icmpv6::kind::{PACKET_TOO_BIG, PARAMETER_PROBLEM, TIME_EXCEEDED, UNREACHABLE};
        use icmpv6::{exceeded, parameter, unreachable};
        let (reason, kind, code, rest) = match cause {
            Cause::TtlExpired => (Reason::TtlExpired, TIME_EXCEEDED, exceeded::HOP_LIMIT, 0),
            // A feature's cause comes here only if it was never registered.
            Cause::NoRoute | Cause::Feature(_) => (Reason::NoRoute, UNREACHABLE, unreachable::NO_ROUTE, 0),
            Cause::HostUnreachable => (Reason::Unreachable, UNREACHABLE, unreachable::ADDRESS, 0),
            Cause::Prohibited => (Reason::Prohibited, UNREACHABLE, unreachable::ADMIN_PROHIBITED, 0),
            Cause::ProtocolUnreachable => {
                (Reason::Protocol, PARAMETER_PROBLEM, parameter::NEXT_HEADER, unknown_at(l3) as u32)
            }
            Cause::PortUnreachable => (Reason::Port, UNREACHABLE, unreachable::PORT, 0),
            Cause::FragmentationNeeded(mtu) => (Reason::TooBig, PACKET_TOO_BIG, 0, u32::from(mtu)),
            Cause::ParameterProblem(at) => {
                (Reason::Parameter, PARAMETER_PROBLEM, parameter::HEADER, u32::from(at))
            }
            Cause::UnknownOption(at) => (Reason::Option, PARAMETER_PROBLEM, parameter::OPTION, u32::from(at)),
            Cause::IncompleteHeaders => (Reason::Incomplete, PARAMETER_PROBLEM, parameter::FIRST_FRAGMENT, 0),
            Cause::BeyondScope => (Reason::Scope, UNREACHABLE, unreachable::BEYOND_SCOPE, 0),
            // This cause does not occur with IPv6, where an unsupported routing header is a parameter
            // problem.
            Cause::SourceRouteFailed => (Reason::SourceRoute, UNREACHABLE, unreachable::ADMIN_PROHIBITED, 0),
        };
        (reason, Message { kind, code, rest })
    }

    fn is_unreachable(message: Message) -> bool {
        message.kind == icmpv6::kind::UNREACHABLE
    }

    fn may_report(p: &Packet<'_>, message: Message) -> bool {
        let to_group = p.flags().any(Flags::L2_BROADCAST | Flags::L2_MULTICAST);
        !p.flags().any(Flags::LOCAL_ORIGIN)
            && icmpv6::may_report(p.bytes(), to_group, message.kind, message.code)
    }

    fn quote_len(original: usize) -> usize {
        icmpv6::quote_len(original)
    }

    fn sender(interface: &Interface, to: u128) -> Option<Ipv6Addr> {
        // A link-local address is valid on this link only (RFC 4007 section 5).
        if ipv6::is_link_local(to) { interface.link_local() } else { interface.primary() }
    }

    fn write_headers(report: &mut [u8], from: Ipv6Addr, to: Ipv6Addr, _: u16, message: Message) {
        let Some((ip_to, rest)) = report.split_first_chunk_mut() else { return };
        let Some((icmp_to, quote)) = rest.split_first_chunk_mut() else { return };
        let mut ip = Ipv6Header::new(from, to, protocol::ICMPV6, Icmpv6Header::LEN + quote.len());
        ip.set_hop_limit(HOPS);
        let icmp = Icmpv6Header::new(&ip, message.kind, message.code, message.rest, quote);
        (*ip_to, *icmp_to) = (ip.0, icmp.0);
    }
}
