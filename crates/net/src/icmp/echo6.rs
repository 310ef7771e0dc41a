//! `icmp6-echo-request`: answers pings in place (RFC 4443 section 4.2).
//!
//! The reply is the request with its addresses exchanged and without its extension headers, which do not apply to the return path. An
//! anycast address belongs to many routers, so the reply to a ping of such an address has another address of this router as its source (RFC
//! 4443 section 2.2). The reply to a link-local address is sent on the link of the request.

use std::net::Ipv6Addr;

use buf::{Flags, Packet};
use graph::police::Police;
use graph::{Cx, PacketNode, Verdict, edges, reasons};
use infra::class_a::{Reader, SlotReader};
use wire::icmpv6::kind;
use wire::{Icmpv6Header, Ipv6Header, checksum, ipv6, protocol};

use super::echo::RATE;
use super::error::source;
use crate::Tables;
use crate::interface::Interface;
use crate::ip::{OwnAddresses, Packets, extensions};

/// Hop limit of replies.
const HOPS: u8 = 64;

edges! { pub enum Next { Lookup = "ip6-lookup" } }
reasons! {
    pub enum Reason {
        Group = "echo-to-group", Info, "an echo request to a multicast address, which is not answered";
        Limit = "echo-limit", Warn, "too many echo requests: the reply limit is exceeded";
        NoAddress = "no-address", Warn, "an echo request to an anycast address, and the router has no address to reply from";
        Length = "bad-length", Error, "the packet ends before the message begins, or its extension headers cannot be removed";
    }
}

pub struct Icmp6EchoRequest {
    own: Reader<OwnAddresses<Ipv6Addr>>,
    interfaces: SlotReader<Interface>,
    replies: Police,
}

impl Icmp6EchoRequest {
    pub fn new(t: &Tables) -> Icmp6EchoRequest {
        Icmp6EchoRequest {
            own: t.ip6.own.clone(),
            interfaces: t.interfaces.clone(),
            replies: Police::default(),
        }
    }
}

impl PacketNode for Icmp6EchoRequest {
    const NAME: &'static str = "icmp6-echo-request";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip6;

    #[inline(always)]
    fn one(&mut self, cx: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let to_group = ipv6::is_multicast(p.peek::<Ipv6Header>().dst_u128());
        if to_group || p.flags().any(Flags::L2_BROADCAST | Flags::L2_MULTICAST) {
            return Verdict::Drop(Reason::Group);
        }
        if !self.replies.pass(cx.now, RATE, p.rx_if()) {
            return Verdict::Drop(Reason::Limit);
        }
        let extensions = usize::from(p.l4_offset()).saturating_sub(Ipv6Header::LEN);
        if extensions > 0 && !take_out(p, extensions) {
            return Verdict::Drop(Reason::Length);
        }
        let (fib, rx_if, partial) = (p.fib(), p.rx_if(), p.flags().any(Flags::CSUM_PARTIAL));
        let ip = p.peek::<Ipv6Header>();
        let (src, dst) = (ip.src(), ip.dst());
        let own = self.own.get(cx.guard);
        let mut from = dst;
        if own.is_anycast(fib, Ipv6Addr::scoped(dst.to_bits(), rx_if)) {
            let Some(unicast) = source(own, &self.interfaces, cx.guard, p) else {
                return Verdict::Drop(Reason::NoAddress);
            };
            from = unicast;
            readdress(p, partial, dst.to_bits(), from.to_bits());
        }
        let ip = p.peek::<Ipv6Header>();
        ip.set_src(from);
        ip.set_dst(src);
        ip.set_hop_limit(HOPS);
        // Exchanging the addresses does not change the checksum.
        let icmp = p.peek_at::<Icmpv6Header>(Ipv6Header::LEN);
        if partial {
            icmp.0[0] = kind::ECHO_REPLY;
        } else {
            icmp.make_echo_reply();
        }
        p.set_flags(p.flags() | Flags::LOCAL_ORIGIN);
        p.set_tx_if(p.rx_if());
        p.forget_features();
        Verdict::Next(Next::Lookup)
    }
}

/// Adjusts the checksum for the replacement of address `old` by `new`.
#[cold]
fn readdress(p: &mut Packet<'_>, partial: bool, old: u128, new: u128) {
    let icmp = p.peek_at::<Icmpv6Header>(Ipv6Header::LEN);
    let update = if partial { checksum::update_partial32 } else { checksum::update32 };
    let words = |address: u128| [96, 64, 32, 0].map(|at| (address >> at) as u32);
    let pairs = words(old).into_iter().zip(words(new));
    icmp.set_checksum(pairs.fold(icmp.checksum(), |sum, (old, new)| update(sum, old, new)));
}

/// Removes the first `extensions` bytes after the IPv6 header, which are all extension headers. Returns `false` if that is not possible.
#[cold]
fn take_out(p: &mut Packet<'_>, extensions: usize) -> bool {
    if !extensions::take_out(p, Ipv6Header::LEN, extensions) {
        return false;
    }
    p.set_l4_offset(Ipv6Header::LEN as u8);
    let payload = p.total_len() - Ipv6Header::LEN;
    let ip = p.peek::<Ipv6Header>();
    ip.set_next_header(protocol::ICMPV6);
    ip.set_payload_len(payload as u16);
    true
}
