//! `ip4-input`: checks the header and the source address of IPv4 packets (RFC 1812 sections 4.2.2 and 5.2.2).

use std::net::Ipv4Addr;

use buf::{Cache, Flags, Frame, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::{Reader, WordReader};
use wire::ipv4::{self, Ipv4Header};

use super::lookup::through_tables;
use crate::Tables;
use crate::ip::{Fibs, Object, OwnAddresses};

/// First byte of a header with version 4 and without options.
const PLAIN: u8 = 0x45;

edges! { pub enum Next { Lookup = "ip4-unicast", Multicast = "ip4-multicast", Options = "ip4-options" } }
reasons! {
    pub enum Reason {
        Short = "too-short", Error, "the packet is shorter than an IPv4 header";
        Version = "bad-version", Error, "the version is not 4, or the header length is less than 20 bytes";
        Length = "bad-length", Error, "the total length is less than the header length, or more than was received";
        Checksum = "bad-checksum", Error, "the header checksum is wrong";
        Martian = "martian-source", Warn, "invalid source address: 127/8, multicast, broadcast, or 0/8 in a packet that is not for this router";
        LinkLocal = "link-local-source", Info, "the source address is link-local (169.254/16), and no configured route leads to it";
        OwnSource = "own-source", Warn, "the source address is this router's own, or the broadcast address of one of its networks";
    }
}

pub struct Ip4Input {
    own: Reader<OwnAddresses<Ipv4Addr>>,
    fibs: Reader<Fibs<Ipv4Addr>>,
    objects: WordReader,
}

impl Ip4Input {
    pub fn new(t: &Tables) -> Ip4Input {
        Ip4Input { own: t.ip4.own.clone(), fibs: t.ip4.fibs.clone(), objects: t.ip4.objects.clone() }
    }
}

impl FrameNode for Ip4Input {
    const NAME: &'static str = "ip4-input";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let own = self.own.get(cx.guard);
        let bufs = &mut *cx.bufs;
        let fibs = self.fibs.get(cx.guard);
        let fetch = fibs.ahead(frame);
        let leads = |fib, address| {
            let end = through_tables(fibs, &self.objects, address, &mut 0, fib);
            !matches!(end, Err(_) | Ok(Object::Drop | Object::Report(_)))
        };
        let usual = Verdict::Next(Next::Lookup);
        out.mostly(usual, frame, |_, p| {
            if is_plain(own, p, p.len()) {
                fetch(p.peek::<Ipv4Header>().dst_u32());
                return None;
            }
            let verdict = check(own, leads, bufs, &mut p.again());
            (verdict != usual).then_some(verdict)
        });
    }
}

/// True for nearly all packets: in one buffer, with a valid header without options, from one host to another.
/// [`check`] handles all other packets. `len` is the packet's length in bytes without padding, which must be the length in its header.
#[inline(always)]
pub(super) fn is_plain(own: &OwnAddresses<Ipv4Addr>, p: &mut Packet<'_>, len: usize) -> bool {
    let (fib, chained) = (p.fib(), p.flags().any(Flags::CHAINED));
    let h = p.peek::<Ipv4Header>().words();
    let src = h.src_u32();
    len >= Ipv4Header::LEN
        && h.version_ihl() == PLAIN
        && usize::from(h.total_len()) == len
        && !chained
        && h.checksum_ok()
        && !SUSPECT[usize::from(h.src_first())]
        && h.dst_u32() < GROUPS
        && !own.forbids_source(fib, src)
}

/// Addresses below this are in 0.0.0.0/8. Hosts that have no address yet use them as source.
const HOSTS: u32 = 0x0100_0000;
/// For each first byte of a source address: true if the address may be invalid. These are 0/8, 127/8, 169/8
/// (because of the link-local 169.254/16), and from [`GROUPS`] on.
static SUSPECT: [bool; 256] = {
    let mut suspect = [false; 256];
    let mut first = 0;
    while first < 256 {
        suspect[first] = matches!(first, 0 | 127 | 169) || first >= (GROUPS >> 24) as usize;
        first += 1;
    }
    suspect
};
/// Addresses from this one on are multicast, reserved or broadcast.
const GROUPS: u32 = 0xe000_0000;

/// Makes all checks of a packet. It is called for packets that are not [plain](is_plain). `leads` returns true if a VRF has a route
/// to an address, and the route neither drops packets nor reports them.
#[inline(never)]
fn check(
    own: &OwnAddresses<Ipv4Addr>,
    leads: impl Fn(u16, u32) -> bool,
    bufs: &mut Cache,
    p: &mut Packet<'_>,
) -> Verdict<Next, Reason> {
    let (len, total, fib) = (p.len(), p.total_len(), p.fib());
    let Some(h) = p.head::<Ipv4Header>() else { return Verdict::Drop(Reason::Short) };
    let (plain, said) = (h.version_ihl() == PLAIN, usize::from(h.total_len()));
    let (sum_ok, src, dst) = (h.checksum_ok(), h.src_u32(), h.dst_u32());
    if !(plain && sum_ok && said >= Ipv4Header::LEN)
        && let Some(reason) = unusual(p.bytes(), said)
    {
        return Verdict::Drop(reason);
    }
    if said > total {
        return Verdict::Drop(Reason::Length);
    }
    if ipv4::is_martian_source(src) || (src < HOSTS && !stays_here(own, fib, dst)) {
        return Verdict::Drop(Reason::Martian);
    }
    if ipv4::is_link_local(src) && !stays_here(own, fib, dst) && !leads(fib, src) {
        return Verdict::Drop(Reason::LinkLocal);
    }
    if own.forbids_source(fib, src) {
        return Verdict::Drop(Reason::OwnSource);
    }
    if said < total {
        // Bytes after the packet (Ethernet padding) are removed.
        if total == len { p.set_len(said) } else { p.truncate(said, bufs) }
    }
    if !plain {
        return Verdict::Next(Next::Options);
    }
    if ipv4::is_multicast(dst) { Verdict::Next(Next::Multicast) } else { Verdict::Next(Next::Lookup) }
}

/// True if a packet to `dst` certainly stays on this router or its link. A host without an address (RFC 1812 section 5.3.7) or with a
/// link-local one (RFC 3927 section 7) may send only to these destinations, unless a route leads to the link-local address. Multicast
/// packets are included because they are never forwarded.
#[cold]
fn stays_here(own: &OwnAddresses<Ipv4Addr>, fib: u16, dst: u32) -> bool {
    ipv4::is_broadcast(dst) || ipv4::is_multicast(dst) || own.contains(fib, dst)
}

/// Checks a header that has options, a wrong checksum, or another fault.
#[cold]
#[inline(never)]
fn unusual(bytes: &[u8], said: usize) -> Option<Reason> {
    let first = bytes.first().copied().unwrap_or(0);
    let header = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || header < Ipv4Header::LEN {
        return Some(Reason::Version);
    }
    match bytes.get(..header) {
        Some(h) if said >= header => (wire::checksum::checksum(h) != 0).then_some(Reason::Checksum),
        _ => Some(Reason::Length),
    }
}
