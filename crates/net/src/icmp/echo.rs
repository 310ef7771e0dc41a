//! `icmp4-echo-request`: answers pings in place (RFC 1812 section 4.3.3.6).
//!
//! The reply is the request with its addresses exchanged. The data, the options (a recorded route stays complete) and the type of service
//! are unchanged. The reply is looked up in the VRF of the interface that received the request.

use buf::{Flags, Packet};
use graph::police::Police;
use graph::{Cx, PacketNode, Verdict, edges, reasons};
use wire::icmpv4::kind;
use wire::{IcmpHeader, Ipv4Header, checksum, ipv4};

/// Maximum number of replies per second that one worker sends in one address family. Each group of interfaces has a share of it (see
/// [`Police`]). It is enough for a flood ping by one host, and little compared with a worker's forwarding rate.
pub(super) const RATE: u32 = 20_000;
/// TTL of replies.
const TTL: u8 = 64;

edges! { pub enum Next { Lookup = "ip4-lookup" } }
reasons! {
    pub enum Reason {
        Group = "echo-to-group", Info, "an echo request to a broadcast or multicast address, which is not answered";
        Limit = "echo-limit", Warn, "too many echo requests: the reply limit is exceeded";
    }
}

#[derive(Default)]
pub struct Icmp4EchoRequest {
    replies: Police,
}

impl PacketNode for Icmp4EchoRequest {
    const NAME: &'static str = "icmp4-echo-request";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    #[inline(always)]
    fn one(&mut self, cx: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let l4 = usize::from(p.l4_offset());
        let dst = p.peek::<Ipv4Header>().dst_u32();
        let group = ipv4::is_multicast(dst) || ipv4::is_broadcast(dst);
        if group || p.flags().any(Flags::L2_BROADCAST | Flags::L2_MULTICAST) {
            return Verdict::Drop(Reason::Group);
        }
        if !self.replies.pass(cx.now, RATE, p.rx_if()) {
            return Verdict::Drop(Reason::Limit);
        }
        let ip = p.peek::<Ipv4Header>();
        let (src, dst) = (ip.src(), ip.dst());
        ip.set_src(dst);
        ip.set_dst(src);
        // Exchanging the addresses does not change the checksum. The TTL is the upper byte of its 16-bit word.
        let (old, new) = (u16::from(ip.ttl()) << 8, u16::from(TTL) << 8);
        ip.set_ttl(TTL);
        ip.set_checksum(checksum::update16(ip.checksum(), old, new));
        let partial = p.flags().any(Flags::CSUM_PARTIAL);
        let icmp = p.peek_at::<IcmpHeader>(l4);
        if partial {
            icmp.0[0] = kind::ECHO_REPLY;
        } else {
            icmp.make_echo_reply();
        }
        p.set_flags(p.flags() | Flags::LOCAL_ORIGIN);
        p.forget_features();
        Verdict::Next(Next::Lookup)
    }
}
