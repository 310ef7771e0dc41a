//! `gso`: cuts large TCP and UDP packets into segments, and completes partial checksums.
//!
//! The packets begin with their link header. Each segment gets a buffer of its own, with a copy of its payload.

use buf::{Cache, Flags, Frame, GsoKind, Held, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use wire::checksum::finish_partial;
use wire::gso::{Kind, Segmentation};
use wire::{EthernetHeader, Ipv4Header, VlanTag, ethertype};

use crate::checksum;
use crate::pieces::{Payload, inherit};

edges! { pub enum Next { Tx = "interface-output" } }
reasons! {
    pub enum Reason {
        Kind = "unknown-kind", Warn, "this router does not cut packets of this kind into segments";
        Headers = "bad-headers", Error, "the headers of the packet are not what its segmentation needs";
        TooMany = "too-many-segments", Warn, "the packet would be cut into more segments than fit in a frame";
        TooLarge = "segment-too-large", Warn, "a segment would be larger than a buffer";
        NoBuffer = "no-buffer", Warn, "not enough buffers were free for the segments";
        Checksum = "bad-checksum-place", Error, "the partial checksum is not in the packet's first segment";
    }
}

/// The node. `segments` is empty between two packets.
#[derive(Default)]
pub struct GsoNode {
    segments: Box<Frame>,
}

impl FrameNode for GsoNode {
    const NAME: &'static str = "gso";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ethernet;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        if frame.any().any(Flags::GSO) {
            // All are held, not only those that are cut: `held` sees them in order, and flows stay in order.
            out.all(Verdict::Hold);
        } else {
            out.each(frame, |_, p| match complete(p) {
                Ok(()) => Verdict::Next(Next::Tx),
                Err(reason) => Verdict::Drop(reason),
            });
        }
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut held: Held, out: &mut Out<'_, Next, Reason>) {
        let mut p = held.packet();
        if !p.flags().any(Flags::GSO) {
            return match complete(&mut p) {
                Ok(()) => out.emit(Next::Tx, held),
                Err(reason) => out.drop(reason, held),
            };
        }
        let link = link_len(p.bytes()).ok_or(Reason::Headers);
        match link.and_then(|l3| cut(&p, l3, &mut self.segments, cx.bufs)) {
            Ok(()) => {
                self.segments.drain(|segment| out.emit(Next::Tx, segment));
                held.free(cx.bufs);
            }
            Err(reason) => {
                self.segments.free(cx.bufs);
                out.drop(reason, held);
            }
        }
    }
}

/// Bytes of the link header that a frame begins with; `None` when it is cut off.
fn link_len(frame: &[u8]) -> Option<usize> {
    let (ethernet, mut rest) = EthernetHeader::split(frame)?;
    let (mut kind, mut len) = (ethernet.ethertype(), EthernetHeader::LEN);
    while ethertype::is_vlan(kind) {
        let (tag, behind) = VlanTag::split(rest)?;
        (kind, rest, len) = (tag.ethertype(), behind, len + VlanTag::LEN);
    }
    Some(len)
}

/// Completes the checksum of a packet that has a partial one.
fn complete(p: &mut Packet<'_>) -> Result<(), Reason> {
    if !p.flags().any(Flags::CSUM_PARTIAL) {
        return Ok(());
    }
    let l3 = link_len(p.bytes()).ok_or(Reason::Headers)?;
    if checksum::complete(p, l3) { Ok(()) } else { Err(Reason::Checksum) }
}

/// How the packet, whose IPv4 header is at `l3`, is to be cut.
fn plan(p: &Packet<'_>, l3: usize) -> Result<Segmentation, Reason> {
    let gso = p.cold().gso().ok_or(Reason::Headers)?;
    let kind = match gso.kind {
        GsoKind::Tcp4 => Kind::TcpV4,
        GsoKind::UdpL4 => Kind::UdpV4,
        GsoKind::Tcp6 => return Err(Reason::Kind),
    };
    let frame = p.bytes();
    let (ip, _) = frame.get(l3..).and_then(Ipv4Header::split).ok_or(Reason::Headers)?;
    let end = p.total_len().min(l3 + usize::from(ip.total_len()));
    let plan = |payload| Segmentation::new(kind, frame, l3, payload, gso.size).map_err(|_| Reason::Headers);
    let headers = plan(0)?.header_len();
    plan(end.checked_sub(headers).ok_or(Reason::Headers)?)
}

/// Cuts a packet, whose IPv4 header is at `l3`, into segments, each whole in one buffer, checksums complete. After an
/// error `segments` holds some that are to be freed.
pub fn cut(p: &Packet<'_>, l3: usize, segments: &mut Frame, bufs: &mut Cache) -> Result<(), Reason> {
    let plan = plan(p, l3)?;
    if plan.count() > segments.room() {
        return Err(Reason::TooMany);
    }
    if segments.alloc(bufs, plan.count()) < plan.count() {
        return Err(Reason::NoBuffer);
    }
    let headers = plan.header_len();
    let mut payload = Payload::behind(p.segments(), headers);
    let kept = p.flags() & !(Flags::GSO | Flags::CSUM_PARTIAL | Flags::CHAINED);
    for (mut to, segment) in segments.packets().zip(plan.segments()) {
        let len = headers + segment.len;
        let room = to.room_mut().get_mut(..len).ok_or(Reason::TooLarge)?;
        let (_, body) = room.split_at_mut_checked(headers).ok_or(Reason::Headers)?;
        let whole = payload.copy(body)
            && plan.write_headers(p.bytes(), &segment, room)
            && finish_partial(room, [], plan.csum_start(), plan.csum_offset());
        if !whole {
            return Err(Reason::Headers);
        }
        inherit(&mut to, p, kept, len);
    }
    segments.note(kept);
    Ok(())
}
