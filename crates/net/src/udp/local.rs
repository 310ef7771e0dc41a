//! `udp4-local`: checks a datagram for this router (RFC 768, RFC 1122 section 4.1.3), and finds who listens at its port.

use buf::{Flags, Packet};
use graph::{Cx, PacketNode, Verdict, edges, reasons};
use wire::{Ipv4Header, Sum, UdpHeader};

use crate::Tables;
use crate::checksum::sum;
use crate::icmp::Cause;
use crate::ip::Registry;

edges! { pub enum Next { Report = "ip4-icmp-error" } }
reasons! {
    pub enum Reason {
        Short = "too-short", Error, "the datagram is shorter than a UDP header";
        Length = "bad-length", Error, "the UDP length is less than a header's, or more than what came";
        Checksum = "bad-checksum", Error, "the UDP checksum is wrong";
    }
}

pub struct Udp4Local {
    ports: Registry,
}

impl Udp4Local {
    pub fn new(t: &Tables) -> Udp4Local {
        Udp4Local { ports: t.udp_ports.clone() }
    }
}

impl PacketNode for Udp4Local {
    const NAME: &'static str = super::NODE;
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    #[inline(always)]
    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
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
        // 0 says that the sender made none; a partial one has not been on a wire yet.
        if udp.checksum() != 0 && !p.flags().any(Flags::CSUM_PARTIAL) {
            let pseudo: Sum = p.peek::<Ipv4Header>().pseudo_sum(udp.length());
            if !pseudo.plus(sum(p, l4, length)).is_valid() {
                return Verdict::Drop(Reason::Checksum);
            }
        }
        match self.ports.get(udp.dst_port()) {
            Some(edge) => Verdict::Edge(edge),
            None => {
                p.set_fwd(Cause::PortUnreachable.to_raw());
                Verdict::Next(Next::Report)
            }
        }
    }
}
