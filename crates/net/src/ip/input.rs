//! `ip4-input`: is this an IPv4 packet that may be forwarded? (RFC 1812 sections 4.2.2 and 5.2.2)

use buf::Packet;
use graph::{Cx, PacketNode, Verdict, edges, reasons};
use infra::class_a::Reader;
use wire::ipv4::{self, Ipv4Header};

use super::OwnAddresses;
use crate::Tables;

edges! { pub enum Next { Lookup = "ip4-unicast", Multicast = "ip4-multicast" } }
reasons! {
    pub enum Reason {
        Short = "too-short", Error, "the packet is shorter than an IPv4 header";
        Version = "bad-version", Error, "the version is not 4, or the header length is less than 20 bytes";
        Length = "bad-length", Error, "the total length is less than the header's or more than what came";
        Checksum = "bad-checksum", Error, "the header checksum is wrong";
        Martian = "martian-source", Warn, "no packet may come from this source address (127/8, multicast, broadcast)";
        OwnSource = "own-source", Warn, "the source address is one of this router's own";
    }
}

pub struct Ip4Input {
    own: Reader<OwnAddresses>,
}

impl Ip4Input {
    pub fn new(t: &Tables) -> Ip4Input {
        Ip4Input { own: t.own.clone() }
    }
}

impl PacketNode for Ip4Input {
    const NAME: &'static str = "ip4-input";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    #[inline(always)]
    fn one(&mut self, cx: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let (len, total, fib) = (p.len(), p.total_len(), p.fib());
        let Some(h) = p.head::<Ipv4Header>() else { return Verdict::Drop(Reason::Short) };
        let said = usize::from(h.total_len());
        if h.version_ihl() == 0x45 {
            if !h.checksum_ok() {
                return Verdict::Drop(Reason::Checksum);
            }
        } else if let Some(reason) = with_options(h.version_ihl(), len, p.bytes()) {
            return Verdict::Drop(reason);
        }
        let h = p.peek::<Ipv4Header>();
        if said > total || said < h.header_len() {
            return Verdict::Drop(Reason::Length);
        }
        let (src, dst) = (h.src_u32(), h.dst_u32());
        if ipv4::is_martian_source(src) {
            return Verdict::Drop(Reason::Martian);
        }
        if self.own.get(cx.guard).contains(fib, src) {
            return Verdict::Drop(Reason::OwnSource);
        }
        if said < len {
            // Ethernet padding goes no further.
            p.set_len(said);
        }
        if ipv4::is_multicast(dst) { Verdict::Next(Next::Multicast) } else { Verdict::Next(Next::Lookup) }
    }
}

/// The checks of a header that is not the plain 20 bytes.
#[cold]
fn with_options(version_ihl: u8, len: usize, bytes: &[u8]) -> Option<Reason> {
    let header = usize::from(version_ihl & 0xf) * 4;
    if version_ihl >> 4 != 4 || header < Ipv4Header::LEN {
        return Some(Reason::Version);
    }
    if header > len {
        return Some(Reason::Length);
    }
    (wire::checksum::checksum(&bytes[..header]) != 0).then_some(Reason::Checksum)
}
