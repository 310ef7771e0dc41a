//! `icmp6-input` checks ICMPv6 messages for this router (RFC 4443), and dispatches them by type. A feature may register for a type:
//! messages of this type are then punted to the feature.
//!
//! Neighbor Discovery messages (RFC 4861) are punted to the main thread, which checks them further. Only messages that come from the link
//! and may be useful are punted: solicitations for an address of this router (for any address if the interface answers for other hosts),
//! advertisements of possible neighbors, router solicitations and advertisements, and messages in which another station uses an address of
//! this router.

use std::net::Ipv6Addr;

use buf::{Flags, Packet};
use graph::{Cx, PacketNode, PuntReason, Verdict, edges, reasons};
use infra::class_a::{Reader, SlotReader};
use wire::icmpv6::kind;
use wire::{EthernetHeader, Icmpv6Header, Ipv6Header, ipv6, nd, protocol};

use crate::Tables;
use crate::checksum::sum;
use crate::interface::Interface;
use crate::ip::{OwnAddresses, Packets};
use crate::registry::IcmpTypes;

edges! { pub enum Next { EchoRequest = "icmp6-echo-request", Punt = "error-punt" } }
reasons! {
    pub enum Reason {
        Short = "too-short", Error, "the message is shorter than an ICMPv6 header, or than its type requires";
        Checksum = "bad-checksum", Error, "the ICMPv6 checksum is wrong";
        HopLimit = "bad-hop-limit", Warn, "a Neighbor Discovery message with a hop limit below 255: a router has forwarded it";
        Target = "bad-target", Error, "a neighbor solicitation or advertisement with an invalid target: a multicast, unspecified, loopback, IPv4-mapped or malformed link-local address";
        NotForUs = "not-for-us", Info, counted, "a solicitation for an address that is not this router's";
        Echo = "own-packet", Warn, "the packet is this router's own and came back: the link has a loop";
        Reply = "echo-reply-received", Info, counted, "an echo reply, which no service of this router uses";
        Unreachable = "unreachable-received", Info, counted, "a destination unreachable message, which no service of this router uses";
        TooBig = "packet-too-big-received", Info, counted, "a packet too big message, which no service of this router uses";
        Exceeded = "time-exceeded-received", Info, counted, "a time exceeded message, which no service of this router uses";
        Parameter = "parameter-problem-received", Info, counted, "a parameter problem message, which no service of this router uses";
        Mld = "mld-received", Info, counted, "an MLD report: multicast routing is not supported";
        Redirect = "redirect-received", Info, "redirect ignored: this is a router";
        Unknown = "unknown-type", Info, "an ICMPv6 message of a type that this router does not answer";
    }
}

/// Punt reasons of Neighbor Discovery messages and MLD queries. They are separate so that a flood of messages of one kind does not block
/// messages of other kinds.
#[derive(Clone, Copy)]
pub struct Punts {
    /// Solicitations for an address of this router. On an interface with proxy Neighbor Discovery, solicitations for any address.
    pub solicitation: PuntReason,
    /// Advertisements of neighbors.
    pub advertisement: PuntReason,
    /// Router solicitations and router advertisements.
    pub router: PuntReason,
    /// Messages in which another station uses an address of this router.
    pub conflict: PuntReason,
    /// Queries of Multicast Listener Discovery (MLD).
    pub query: PuntReason,
}

pub struct Icmp6Input {
    interfaces: SlotReader<Interface>,
    own: Reader<OwnAddresses<Ipv6Addr>>,
    types: IcmpTypes,
    punts: Punts,
}

impl Icmp6Input {
    pub fn new(t: &Tables, punts: Punts) -> Icmp6Input {
        let (own, types) = (t.ip6.own.clone(), t.ip6.icmp_types.clone());
        Icmp6Input { interfaces: t.interfaces.clone(), own, types, punts }
    }

    /// Dispatches a message that is neither an echo request nor of Neighbor Discovery.
    fn other(&self, p: &mut Packet<'_>, kind: u8) -> Verdict<Next, Reason> {
        let core = (kind == kind::MLD_QUERY).then_some(self.punts.query);
        if let Some(reason) = core.or_else(|| self.types.get(kind)) {
            p.set_fwd(reason.0);
            return Verdict::Next(Next::Punt);
        }
        match kind {
            kind::ECHO_REPLY => Verdict::Ignore(Reason::Reply),
            kind::UNREACHABLE => Verdict::Ignore(Reason::Unreachable),
            kind::PACKET_TOO_BIG => Verdict::Ignore(Reason::TooBig),
            kind::TIME_EXCEEDED => Verdict::Ignore(Reason::Exceeded),
            kind::PARAMETER_PROBLEM => Verdict::Ignore(Reason::Parameter),
            kind::MLD_REPORT | kind::MLD_DONE | kind::MLDV2_REPORT => Verdict::Ignore(Reason::Mld),
            kind::REDIRECT => Verdict::Drop(Reason::Redirect),
            _ => Verdict::Drop(Reason::Unknown),
        }
    }

    /// Dispatches a Neighbor Discovery message.
    #[cold]
    fn neighbor(&self, cx: &Cx<'_>, p: &mut Packet<'_>, kind: u8) -> Verdict<Next, Reason> {
        let ip = *p.peek::<Ipv6Header>();
        if ip.hop_limit() != nd::HOP_LIMIT {
            return Verdict::Drop(Reason::HopLimit);
        }
        let reason = match kind {
            kind::ROUTER_SOLICITATION | kind::ROUTER_ADVERTISEMENT => self.punts.router,
            _ => match self.of_target(cx, p, ip.src_u128(), kind) {
                Ok(reason) => reason,
                Err(verdict) => return verdict,
            },
        };
        p.set_fwd(reason.0);
        Verdict::Next(Next::Punt)
    }

    /// Returns the punt reason for a neighbor solicitation or advertisement, or why the message is dropped or
    /// ignored.
    fn of_target(
        &self,
        cx: &Cx<'_>,
        p: &mut Packet<'_>,
        src: u128,
        kind: u8,
    ) -> Result<PuntReason, Verdict<Next, Reason>> {
        let at = usize::from(p.l4_offset()) + Icmpv6Header::LEN;
        let target = p.bytes().get(at..).and_then(|rest| rest.first_chunk::<16>());
        let target = u128::from_be_bytes(*target.ok_or(Verdict::Drop(Reason::Short))?);
        let own = self.own.get(cx.guard);
        let (fib, rx_if) = (p.fib(), p.rx_if());
        let is_own = |address| own.contains(fib, Ipv6Addr::scoped(address, rx_if));
        let is_anycast = own.is_anycast(fib, Ipv6Addr::scoped(target, rx_if));
        let solicits = kind == kind::NEIGHBOR_SOLICITATION;
        // Scoped addresses use bits that a target must not have.
        if ipv6::is_multicast(target)
            || ipv6::is_martian_destination(target)
            || ipv6::is_bad_link_local(target)
        {
            return Err(Verdict::Drop(Reason::Target));
        }
        if is_own(src) || (!solicits && is_own(target)) {
            return if self.is_echo(cx, p) {
                Err(Verdict::Drop(Reason::Echo))
            } else {
                Ok(self.punts.conflict)
            };
        }
        match solicits {
            true if is_own(target) || is_anycast || self.is_proxy(cx, rx_if) => Ok(self.punts.solicitation),
            true => Err(Verdict::Ignore(Reason::NotForUs)),
            false => Ok(self.punts.advertisement),
        }
    }

    /// True if interface `rx_if` answers for hosts behind other interfaces (proxy ND).
    fn is_proxy(&self, cx: &Cx<'_>, rx_if: u32) -> bool {
        self.interfaces.get(cx.guard, rx_if).is_some_and(|i| i.proxy)
    }

    /// True if the frame's source is the Ethernet address of the receive interface: the router itself sent the frame.
    fn is_echo(&self, cx: &Cx<'_>, p: &mut Packet<'_>) -> bool {
        p.rewind_to_l2();
        let from = p.head::<EthernetHeader>().map(|h| h.src());
        p.rewind_to_l3();
        self.interfaces.get(cx.guard, p.rx_if()).is_some_and(|i| Some(i.mac) == from)
    }
}

impl PacketNode for Icmp6Input {
    const NAME: &'static str = "icmp6-input";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip6;

    #[inline(always)]
    fn one(&mut self, cx: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let l4 = usize::from(p.l4_offset());
        let Some((icmp, _)) = p.bytes().get(l4..).and_then(Icmpv6Header::split) else {
            return Verdict::Drop(Reason::Short);
        };
        let kind = icmp.kind();
        let length = (p.total_len() - l4) as u32;
        // A packet with a partial checksum has not been on a wire yet, so it needs no check.
        if !p.flags().any(Flags::CSUM_PARTIAL) {
            let pseudo = p.peek::<Ipv6Header>().pseudo_sum(protocol::ICMPV6, length);
            if !pseudo.plus(sum(p, l4, usize::MAX)).is_valid() {
                return Verdict::Drop(Reason::Checksum);
            }
        }
        match kind {
            kind::ECHO_REQUEST => Verdict::Next(Next::EchoRequest),
            kind::ROUTER_SOLICITATION..=kind::NEIGHBOR_ADVERTISEMENT => self.neighbor(cx, p, kind),
            _ => self.other(p, kind),
        }
    }
}
