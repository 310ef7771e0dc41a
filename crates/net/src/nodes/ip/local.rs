//! `ip4-local`: delivers packets for this router to the node of their protocol (RFC 1812 section 5.2.3).
//!
//! The next node gets the packet from its IPv4 header on, with exactly the length that the header says. The packet's first buffer holds the
//! whole IPv4 header. The transport header begins at offset `l4_offset`.

use std::net::Ipv4Addr;

use buf::{Cache, Frame, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use wire::ipv4::Ipv4Header;

use crate::Tables;
use crate::ip::Cause;
use crate::ip::packet::is_to_many;
use crate::registry::Registry;

edges! { pub enum Next { Report = "ip4-icmp-error" } }
reasons! {
    pub enum Reason {
        Length = "bad-length", Error, "the lengths in the IPv4 header do not match the packet";
        Fragment = "fragment", Warn, "the packet is a fragment, and no enabled feature reassembles it (see plugins in startup.conf)";
        Group = "group-protocol", Info, counted, "a multicast or broadcast packet of a protocol that this router does not support (IGMP)";
    }
}

pub struct Ip4Local {
    protocols: Registry,
    fragments: Registry,
}

impl Ip4Local {
    pub fn new(t: &Tables) -> Ip4Local {
        Ip4Local { protocols: t.ip4.protocols.clone(), fragments: t.ip4.fragments.clone() }
    }

    #[inline(always)]
    fn one(&self, bufs: &mut Cache, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let (len, total) = (p.len(), p.total_len());
        let Some(h) = p.head::<Ipv4Header>() else { return Verdict::Drop(Reason::Length) };
        let (header, said) = (h.header_len(), usize::from(h.total_len()));
        let (fragment, protocol) = (h.is_fragment(), h.protocol());
        if header < Ipv4Header::LEN || header > len || said < header || said > total {
            return Verdict::Drop(Reason::Length);
        }
        if said < total {
            p.truncate(said, bufs);
        }
        if fragment {
            return self.fragments.get(0).map_or(Verdict::Drop(Reason::Fragment), Verdict::Edge);
        }
        p.set_l4_offset(header as u8);
        match self.protocols.get(u16::from(protocol)) {
            Some(edge) => Verdict::Edge(edge),
            None if is_to_many::<Ipv4Addr>(p) => Verdict::Ignore(Reason::Group),
            None => {
                p.set_fwd(Cause::ProtocolUnreachable.to_raw());
                Verdict::Next(Next::Report)
            }
        }
    }
}

impl FrameNode for Ip4Local {
    const NAME: &'static str = "ip4-local";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        out.each(frame, |_, p| self.one(cx.bufs, p));
    }
}
