//! `ip6-multicast`: handles multicast packets. Packets to groups with link scope that this router has joined are for this router. Packets
//! to other groups with link scope are ignored. All other packets are dropped, because there are no multicast routes.
//!
//! Packets to any solicited-node group are accepted, because the message says which address is solicited.

use buf::Packet;
use graph::{Cx, PacketNode, Verdict, edges, reasons};
use wire::Ipv6Header;
use wire::ipv6::{self, scope};

edges! { pub enum Next { Local = "ip6-local" } }
reasons! {
    pub enum Reason {
        NotJoined = "group-not-joined", Info, counted, "a link-scope group that this router has not joined";
        NoRoute = "no-multicast-route", Info, "there is no route for this multicast group";
    }
}

pub struct Ip6Multicast;

impl PacketNode for Ip6Multicast {
    const NAME: &'static str = "ip6-multicast";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip6;

    #[inline(always)]
    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let group = p.peek::<Ipv6Header>().dst_u128();
        match group {
            ipv6::ALL_NODES | ipv6::ALL_ROUTERS | ipv6::ALL_MLDV2_ROUTERS => Verdict::Next(Next::Local),
            _ if ipv6::is_solicited_node(group) => Verdict::Next(Next::Local),
            _ if ipv6::multicast_scope(group) <= scope::LINK => Verdict::Ignore(Reason::NotJoined),
            _ => Verdict::Drop(Reason::NoRoute),
        }
    }
}
