//! `ip4-sv-reassembly` holds each fragment until the first fragment of its datagram, which has the ports, has arrived (shallow virtual
//! reassembly). Features that need ports are placed after this node.
//!
//! Nothing is reassembled: fragments continue one by one, in order with the unfragmented packets. Each carries the ports in a field of the
//! packet, and the flow hash of the connection. Fragments that arrive before the first one wait, limited in number and time.

use std::net::Ipv4Addr;
use std::sync::Arc;

use buf::{FeatureField, Frame, Held, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges};
use wire::flow::FiveTuple;
use wire::icmpv4::kind;
use wire::{Ipv4Header, protocol};

use net::ip::{PORTS, Ports};

use crate::family::Fragmented;
use crate::fragment::Key;
use crate::kind::{KindInfo, SECOND};
use crate::ports::{PortsOf, Reason};
use crate::shards::Shards;
use crate::waiting::Limits;

/// The default limits. The timeout is short, because the fragments of a datagram arrive close together or not at all. The number of
/// datagrams is large, because many more datagrams are forwarded than are addressed to this router.
const USUAL: Limits = Limits { datagrams: 8192, fragments: 128, buffers: 2048, timeout: 3 * SECOND };

/// The table of the fragments in shallow virtual reassembly.
pub static INFO: KindInfo = KindInfo {
    name: PORTS,
    about: "shallow virtual reassembly (fragments wait for the first one)",
    completed: "first fragments received",
    usual: USUAL,
    expire: "ip4-sv-reassembly-expire",
};

edges! { pub enum Next { Continue = "next-feature" } }

/// The table that the nodes share: the ports of datagrams that arrive in fragments, and the waiting fragments.
pub type Known = Arc<Shards<PortsOf<Key<Ipv4Addr>, Held>>>;

pub struct Ip4SvReassembly {
    known: Known,
    field: FeatureField<Ports>,
}

impl Ip4SvReassembly {
    pub fn new(known: &Known, field: FeatureField<Ports>) -> Ip4SvReassembly {
        Ip4SvReassembly { known: known.clone(), field }
    }
}

/// Returns the ports of a packet that is unfragmented or a first fragment; for an ICMP echo, its identifier as both ports. Both are 0 if
/// there are none.
fn ports(p: &mut Packet<'_>) -> Ports {
    let h = p.peek::<Ipv4Header>();
    let (l4, protocol) = (h.header_len(), h.protocol());
    let Some(&[a, b, c, d, e, f, ..]) = p.bytes().get(l4..) else { return Ports::default() };
    match protocol {
        protocol::ICMP if matches!(a, kind::ECHO_REQUEST | kind::ECHO_REPLY) => {
            let id = u16::from_be_bytes([e, f]);
            Ports { src: id, dst: id }
        }
        _ if protocol::has_ports(protocol) => {
            Ports { src: u16::from_be_bytes([a, b]), dst: u16::from_be_bytes([c, d]) }
        }
        _ => Ports::default(),
    }
}

impl FrameNode for Ip4SvReassembly {
    const NAME: &'static str = PORTS;
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = net::trace::ip4;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        out.each(frame, |_, p| {
            if p.peek::<Ipv4Header>().is_fragment() { Verdict::Hold } else { Verdict::Next(Next::Continue) }
        });
        out.in_order();
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut held: Held, out: &mut Out<'_, Next, Reason>) {
        let mut p = held.packet();
        let Some((key, fragment)) = Ipv4Addr::fragment(&mut p).filter(|(_, f)| f.check().is_ok()) else {
            return out.drop(Reason::Malformed, held);
        };
        let is_tcp = p.peek::<Ipv4Header>().protocol() == protocol::TCP;
        if is_tcp && fragment.span.start == 8 {
            return out.drop(Reason::Tiny, held);
        }
        let first = (fragment.span.start == 0).then(|| ports(&mut p));
        let mut table = self.known.lock(&key);
        let (mut went, field) = (0, self.field);
        let each = |outcome: Result<Ports, Reason>, mut held: Held| {
            went += 1;
            match outcome {
                Ok(ports) => {
                    tell(&mut held.packet(), field, ports);
                    out.emit(Next::Continue, held);
                }
                Err(reason) => out.drop(reason, held),
            }
        };
        match first {
            Some(ports) => table.first(cx.now, key, ports, held, each),
            None => table.later(cx.now, key, fragment.span, held, each),
        }
        drop(table);
        cx.bufs.note_kept(1 - went);
    }
}

/// Writes the ports of a fragment into the field that later features read, and gives the fragment the flow hash of the connection's
/// unfragmented packets.
fn tell(p: &mut Packet<'_>, field: FeatureField<Ports>, ports: Ports) {
    let h = p.peek::<Ipv4Header>();
    let (src_port, dst_port) = (ports.src, ports.dst);
    let flow = FiveTuple { src: h.src_u32(), dst: h.dst_u32(), src_port, dst_port, protocol: h.protocol() };
    p.set_hash(flow.hash());
    *p.feature_mut(field) = ports;
}
