//! `udp4-local` and `udp6-local`: check UDP datagrams for this router (RFC 768, RFC 1122 section 4.1.3; RFC
//! 8200 section 8.1), and deliver them to the node of their port.

use std::marker::PhantomData;

use buf::{Flags, Frame, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use wire::{PseudoHeader, UdpHeader, protocol};

use crate::Tables;
use crate::checksum::sum;
use crate::ip::Cause;
use crate::ip::Packets;
use crate::ip::packet::is_to_many;
use crate::registry::Registry;

edges! {
    /// The edges, named after the IPv4 nodes. The IPv6 nodes are in [`FrameNode::EDGES`].
    pub enum Next { Report = "ip4-icmp-error" }
}
reasons! {
    pub enum Reason {
        Short = "too-short", Error, "the datagram is shorter than a UDP header";
        Length = "bad-length", Error, "the UDP length is less than 8 bytes, or more than was received";
        Checksum = "bad-checksum", Error, "the UDP checksum is wrong";
        Group = "group-port", Info, counted, "a multicast or broadcast datagram for a port without a listener here (DHCP, mDNS)";
        NoChecksum = "no-checksum", Error, "the datagram has no UDP checksum, which IPv6 requires";
    }
}

pub struct UdpLocal<A> {
    ports: Registry,
    family: PhantomData<A>,
}

impl<A: Packets> UdpLocal<A> {
    pub fn new(t: &Tables) -> UdpLocal<A> {
        UdpLocal { ports: t.of::<A>().udp_ports.clone(), family: PhantomData }
    }

    #[inline(always)]
    fn one(&self, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let l4 = usize::from(p.l4_offset());
        if p.len() < l4 + UdpHeader::LEN {
            return Verdict::Drop(Reason::Short);
        }
        let room = p.total_len() - l4;
        let udp = *p.peek_at::<UdpHeader>(l4);
        let length = usize::from(udp.length());
        if length < UdpHeader::LEN || length > room {
            return Verdict::Drop(Reason::Length);
        }
        // A packet with a partial checksum has not been on a wire yet, so it needs no check.
        if !p.flags().any(Flags::CSUM_PARTIAL)
            && let Err(reason) = checked::<A>(p, l4, &udp)
        {
            return Verdict::Drop(reason);
        }
        match self.ports.get(udp.dst_port()) {
            Some(edge) => Verdict::Edge(edge),
            None if is_to_many::<A>(p) => Verdict::Ignore(Reason::Group),
            None => {
                p.set_fwd(Cause::PortUnreachable.to_raw());
                Verdict::Next(Next::Report)
            }
        }
    }
}

/// Checks the UDP checksum of the datagram whose UDP header is at offset `l4`.
#[inline(always)]
fn checked<A: Packets>(p: &mut Packet<'_>, l4: usize, udp: &UdpHeader) -> Result<(), Reason> {
    // 0: the sender computed no checksum.
    if udp.checksum() == 0 {
        return if A::Header::UDP_CHECKSUM_OPTIONAL { Ok(()) } else { Err(Reason::NoChecksum) };
    }
    let pseudo = p.peek::<A::Header>().pseudo_header(protocol::UDP, udp.length().into());
    let valid = pseudo.plus(sum(p, l4, udp.length().into())).is_valid();
    if valid { Ok(()) } else { Err(Reason::Checksum) }
}

impl<A: Packets> FrameNode for UdpLocal<A> {
    const NAME: &'static str = A::NODES.udp;
    type Next = Next;
    type Drop = Reason;
    const EDGES: &'static [&'static str] = &[A::NODES.report];
    const TRACE: graph::trace::TraceFn = A::TRACE;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        out.each(frame, |_, p| self.one(p));
    }
}
