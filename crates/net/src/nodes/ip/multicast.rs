//! `ip4-multicast`: handles multicast packets. Packets to the link's control groups (224.0.0/24) are for this
//! router. All other packets are dropped, because there are no multicast routes.

use buf::Packet;
use graph::{Cx, PacketNode, Verdict, edges, reasons};
use wire::ipv4::Ipv4Header;

edges! { pub enum Next { Local = "ip4-local" } }
reasons! {
    pub enum Reason {
        NoRoute = "no-multicast-route", Info, "there is no route for this multicast group";
    }
}

pub struct Ip4Multicast;

impl PacketNode for Ip4Multicast {
    const NAME: &'static str = "ip4-multicast";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    #[inline(always)]
    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        if p.peek::<Ipv4Header>().dst_u32() >> 8 == 0xe0_0000 {
            Verdict::Next(Next::Local)
        } else {
            Verdict::Drop(Reason::NoRoute)
        }
    }
}
