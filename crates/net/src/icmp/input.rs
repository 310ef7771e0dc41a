//! `icmp4-input` checks ICMP messages for this router (RFC 1812 section 4.3), and dispatches them by type. A feature may register for a
//! type: messages of this type are then punted to the feature.

use buf::{Flags, Packet};
use graph::{Cx, PacketNode, Verdict, edges, reasons};
use wire::IcmpHeader;
use wire::icmpv4::kind;

use crate::Tables;
use crate::checksum::sum;
use crate::registry::IcmpTypes;

edges! { pub enum Next { EchoRequest = "icmp4-echo-request", Punt = "error-punt" } }
reasons! {
    pub enum Reason {
        Short = "too-short", Error, "the message is shorter than an ICMP header";
        Checksum = "bad-checksum", Error, "the ICMP checksum is wrong";
        Reply = "echo-reply-received", Info, counted, "an echo reply, which no service of this router uses";
        Unreachable = "unreachable-received", Info, counted, "a destination unreachable message, which no service of this router uses";
        Exceeded = "time-exceeded-received", Info, counted, "a time exceeded message, which no service of this router uses";
        Parameter = "parameter-problem-received", Info, counted, "a parameter problem message, which no service of this router uses";
        Quench = "source-quench-received", Info, "a source quench, which must be ignored (RFC 6633)";
        Redirect = "redirect-received", Info, "redirect ignored: this is a router";
        Unknown = "unknown-type", Info, "an ICMP message of a type that this router does not answer";
    }
}

pub struct Icmp4Input {
    types: IcmpTypes,
}

impl Icmp4Input {
    /// Returns the node.
    pub fn new(t: &Tables) -> Icmp4Input {
        Icmp4Input { types: t.ip4.icmp_types.clone() }
    }

    /// Dispatches a message that is no echo request.
    fn other(&self, p: &mut Packet<'_>, kind: u8) -> Verdict<Next, Reason> {
        if let Some(reason) = self.types.get(kind) {
            p.set_fwd(reason.0);
            return Verdict::Next(Next::Punt);
        }
        match kind {
            kind::ECHO_REPLY => Verdict::Ignore(Reason::Reply),
            kind::UNREACHABLE => Verdict::Ignore(Reason::Unreachable),
            kind::TIME_EXCEEDED => Verdict::Ignore(Reason::Exceeded),
            kind::PARAMETER_PROBLEM => Verdict::Ignore(Reason::Parameter),
            kind::SOURCE_QUENCH => Verdict::Drop(Reason::Quench),
            kind::REDIRECT => Verdict::Drop(Reason::Redirect),
            _ => Verdict::Drop(Reason::Unknown),
        }
    }
}

impl PacketNode for Icmp4Input {
    const NAME: &'static str = "icmp4-input";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    #[inline(always)]
    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let l4 = usize::from(p.l4_offset());
        if p.len() < l4 + IcmpHeader::LEN {
            return Verdict::Drop(Reason::Short);
        }
        // A packet with a partial checksum has not been on a wire yet, so it needs no check.
        if !p.flags().any(Flags::CSUM_PARTIAL) && !sum(p, l4, usize::MAX).is_valid() {
            return Verdict::Drop(Reason::Checksum);
        }
        match p.peek_at::<IcmpHeader>(l4).kind() {
            kind::ECHO_REQUEST => Verdict::Next(Next::EchoRequest),
            other => self.other(p, other),
        }
    }
}
