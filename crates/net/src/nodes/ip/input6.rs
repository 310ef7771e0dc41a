//! `ip6-input`: checks the header and the addresses of IPv6 packets (RFC 8200 section 3, RFC 4291 section 2).

use std::net::Ipv6Addr;

use buf::{Cache, Flags, Frame, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::Reader;
use wire::icmpv6::kind;
use wire::ipv6::{self, scope};
use wire::{Ipv6Header, nd, protocol};

use crate::Tables;
use crate::ip::{Fibs, OwnAddresses, Packets};

edges! { pub enum Next { Lookup = "ip6-unicast", Multicast = "ip6-multicast", HopByHop = "ip6-hop-by-hop" } }
reasons! {
    pub enum Reason {
        Short = "too-short", Error, "the packet is shorter than an IPv6 header";
        Version = "bad-version", Error, "the version is not 6";
        Length = "bad-length", Error, "the payload length is more than was received, or the packet is a jumbogram";
        Source = "martian-source", Warn, "invalid source address: multicast, ::1, ::ffff:0:0/96, link-local outside fe80::/64, or :: to anything but a link-scope group";
        Destination = "martian-destination", Warn, "invalid destination address: ::, ::1, ::ffff:0:0/96, link-local outside fe80::/64, or interface-local multicast";
        OwnSource = "own-source", Warn, "the source address is this router's own";
    }
}

pub struct Ip6Input {
    own: Reader<OwnAddresses<Ipv6Addr>>,
    fibs: Reader<Fibs<Ipv6Addr>>,
}

impl Ip6Input {
    pub fn new(t: &Tables) -> Ip6Input {
        Ip6Input { own: t.ip6.own.clone(), fibs: t.ip6.fibs.clone() }
    }
}

impl FrameNode for Ip6Input {
    const NAME: &'static str = "ip6-input";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip6;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let own = self.own.get(cx.guard);
        let bufs = &mut *cx.bufs;
        let fetch = self.fibs.get(cx.guard).ahead(frame);
        let usual = Verdict::Next(Next::Lookup);
        out.mostly(usual, frame, |_, p| {
            if is_plain(own, p, p.len()) {
                fetch(p.peek::<Ipv6Header>().dst_u128());
                return None;
            }
            let verdict = check(own, bufs, &mut p.again());
            (verdict != usual).then_some(verdict)
        });
    }
}

/// True for nearly all packets: in one buffer, without hop-by-hop options, from one host to another, and
/// without link-local addresses. [`check`] handles all other packets. `len` is the packet's length in bytes without padding,
/// which must be the length in its header.
#[inline(always)]
pub(super) fn is_plain(own: &OwnAddresses<Ipv6Addr>, p: &mut Packet<'_>, len: usize) -> bool {
    let (fib, chained) = (p.fib(), p.flags().any(Flags::CHAINED));
    let h = p.peek::<Ipv6Header>();
    let src = h.src_u128();
    len >= Ipv6Header::LEN
        && h.version() == 6
        && h.total_len() == len
        && !chained
        && h.next_header() != protocol::HOP_BY_HOP
        && is_plain_host(src)
        && is_plain_host(h.dst_u128())
        && !own.forbids_source(fib, src)
}

/// True if the address is below all link-local and multicast addresses and does not begin with 64 zero bits.
/// Such an address is never a martian.
#[inline(always)]
fn is_plain_host(address: u128) -> bool {
    const END: u64 = (ipv6::LINK_LOCAL_NETWORK >> 64) as u64;
    ((address >> 64) as u64).wrapping_sub(1) < END - 1
}

/// Makes all checks of a packet. It is called for packets that are not [plain](is_plain).
#[inline(never)]
fn check(own: &OwnAddresses<Ipv6Addr>, bufs: &mut Cache, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
    let (len, total) = (p.len(), p.total_len());
    let Some(h) = p.head::<Ipv6Header>() else { return Verdict::Drop(Reason::Short) };
    let h = *h;
    let (said, dst) = (h.total_len(), h.dst_u128());
    let for_routers = h.next_header() == protocol::HOP_BY_HOP;
    if h.version() != 6 {
        return Verdict::Drop(Reason::Version);
    }
    // A jumbogram has the payload length 0; its real length is in an option (RFC 2675).
    if said > total || (for_routers && h.payload_len() == 0) {
        return Verdict::Drop(Reason::Length);
    }
    if is_martian_source(h.src_u128(), dst) {
        return Verdict::Drop(Reason::Source);
    }
    // The lookup tables use some bits of link-local addresses to distinguish links (scoped addresses).
    // Received packets must not set these bits.
    if ipv6::is_martian_destination(dst) || ipv6::is_bad_link_local(dst) {
        return Verdict::Drop(Reason::Destination);
    }
    if own.forbids_source(p.fib(), Ipv6Addr::scoped(h.src_u128(), p.rx_if())) && !is_claim(own, &h, p) {
        return Verdict::Drop(Reason::OwnSource);
    }
    if said < total {
        // Bytes after the packet (Ethernet padding) are removed.
        if total == len { p.set_len(said) } else { p.truncate(said, bufs) }
    }
    if for_routers {
        return Verdict::Next(Next::HopByHop);
    }
    if ipv6::is_multicast(dst) { Verdict::Next(Next::Multicast) } else { Verdict::Next(Next::Lookup) }
}

/// True if a packet from `src` to `dst` is invalid because of `src`. A host without an address (`::`) may
/// send only to multicast groups with link scope: for duplicate address detection, and to find routers.
fn is_martian_source(src: u128, dst: u128) -> bool {
    let to_link = ipv6::is_multicast(dst) && ipv6::multicast_scope(dst) == scope::LINK;
    ipv6::is_martian_source(src) || ipv6::is_bad_link_local(src) || (ipv6::is_unspecified(src) && !to_link)
}

/// True if a packet is a neighbor solicitation or advertisement by which another node on the link may claim one of the router's addresses.
/// Such a packet must reach the main thread, although its source is an address of the router. The packet is not forwarded: its destination
/// is multicast or this router.
#[cold]
fn is_claim(own: &OwnAddresses<Ipv6Addr>, h: &Ipv6Header, p: &Packet<'_>) -> bool {
    let dst = h.dst_u128();
    let kind = p.bytes().get(Ipv6Header::LEN..h.total_len()).and_then(|message| message.first());
    h.next_header() == protocol::ICMPV6
        && h.hop_limit() == nd::HOP_LIMIT
        && matches!(kind, Some(&(kind::NEIGHBOR_SOLICITATION | kind::NEIGHBOR_ADVERTISEMENT)))
        && (ipv6::is_multicast(dst) || own.contains(p.fib(), Ipv6Addr::scoped(dst, p.rx_if())))
}
