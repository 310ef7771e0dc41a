//! `interface-output`: where every packet for an interface comes together, whoever sends it.
//!
//! Checks that the interface is up, and counts. What the device cannot cut into segments or sum by itself is cut and
//! summed here. Segments leave before the packets that came behind theirs.

use std::io;

use buf::{Flags, Frame, Held, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::Lane;
use infra::quiesce::Guard;

use super::by_frame::ByFrame;
use super::table::{Interface, Kind, TxPort};
use crate::Tables;
use crate::gso::{self, Fault};

edges! { pub enum Next { Tx = "interface-output" } }
reasons! {
    pub enum Reason {
        Down = "interface-down", Warn, "the interface that the packet should leave by is down";
        Deleted = "interface-deleted", Info, "the interface that the packet should leave by is gone";
        Loopback = "loopback-output", Warn, "the packet was sent out of a loopback interface, which leads nowhere";
        Headers = "bad-headers", Error, "the headers of the packet are not what its segmentation needs";
        TooMany = "too-many-segments", Warn, "the packet would be cut into more segments than fit in a frame";
        TooLarge = "segment-too-large", Warn, "a segment would be larger than a buffer";
        NoBuffer = "no-buffer", Warn, "not enough buffers were free for the segments";
        Checksum = "bad-checksum-place", Error, "the partial checksum is not in the packet's first segment";
    }
}

impl From<Fault> for Reason {
    fn from(fault: Fault) -> Reason {
        match fault {
            Fault::Headers => Reason::Headers,
            Fault::TooMany => Reason::TooMany,
            Fault::TooLarge => Reason::TooLarge,
            Fault::NoBuffer => Reason::NoBuffer,
            Fault::Checksum => Reason::Checksum,
        }
    }
}

pub struct InterfaceOutput {
    interfaces: SlotReader<Interface>,
    ports: SlotReader<TxPort>,
    tx: Lane<2>,
    to: ByFrame<To>,
    /// Empty between two packets.
    segments: Box<Frame>,
}

/// What is the same for all packets to one interface, and how many of them this frame has that it takes as they are.
#[derive(Clone, Copy)]
struct To {
    device: u32,
    plain: Verdict<Next, Reason>,
    /// Flags of packets that the device cannot take.
    cannot: Flags,
    packets: u64,
    bytes: u64,
}

impl Default for To {
    fn default() -> To {
        let plain = Verdict::Drop(Reason::Deleted);
        To { device: u32::MAX, plain, cannot: Flags::NONE, packets: 0, bytes: 0 }
    }
}

impl InterfaceOutput {
    pub fn new(t: &Tables, worker: usize) -> io::Result<InterfaceOutput> {
        Ok(InterfaceOutput {
            interfaces: t.interfaces.clone(),
            ports: t.ports.clone(),
            tx: t.counters.tx.lane(worker)?,
            to: ByFrame::default(),
            segments: Box::default(),
        })
    }
}

/// Adds what a frame had for an interface.
fn count(tx: &mut Lane<2>, interface: u32, to: &To) {
    if to.packets == 0 || to.plain != Verdict::Next(Next::Tx) {
        return;
    }
    tx.add(interface, [to.packets, to.bytes]);
    if to.device != interface {
        tx.add(to.device, [to.packets, to.bytes]);
    }
}

#[inline(never)]
fn find(interfaces: &SlotReader<Interface>, ports: &SlotReader<TxPort>, guard: &Guard, interface: u32) -> To {
    let mut to = To::default();
    let Some(i) = interfaces.get(guard, interface) else { return to };
    to.device = i.device;
    to.plain = match ports.get(guard, i.device) {
        _ if i.kind == Kind::Loopback => Verdict::Drop(Reason::Loopback),
        // What its node makes of a packet is no longer what is to be cut or summed.
        _ if i.up && matches!(i.kind, Kind::Feature(_)) => {
            to.cannot = Flags::GSO.or(Flags::CSUM_PARTIAL);
            Verdict::Next(Next::Tx)
        }
        Some(port) if i.up => {
            if !port.caps.gso {
                to.cannot |= Flags::GSO;
            }
            if !port.caps.csum {
                to.cannot |= Flags::CSUM_PARTIAL;
            }
            Verdict::Next(Next::Tx)
        }
        _ => Verdict::Drop(Reason::Down),
    };
    to
}

/// Does for a device what it cannot: completes the checksum.
///
/// # Errors
/// What becomes of a packet that cannot go out like this.
#[cold]
#[inline(never)]
fn finish(p: &mut Packet<'_>) -> Result<(), Verdict<Next, Reason>> {
    // The checksums of segments are not the packet's: who cannot sum is not given a packet to cut.
    if p.flags().any(Flags::GSO) {
        return Err(Verdict::Hold);
    }
    gso::complete(p).map_err(|fault| Verdict::Drop(fault.into()))
}

impl FrameNode for InterfaceOutput {
    const NAME: &'static str = "interface-output";
    type Next = Next;
    type Drop = Reason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let InterfaceOutput { interfaces, ports, tx, to, .. } = self;
        // The common case, all to one interface that takes them as they are, needs no verdict a packet.
        if let Some(interface) = frame.uniform_tx() {
            let mut all = find(interfaces, ports, cx.guard, interface);
            if !frame.any().any(all.cannot) {
                out.all(all.plain);
                all.packets = frame.len() as u64;
                all.bytes = frame.total_len() as u64;
                count(tx, interface, &all);
                return;
            }
        }
        to.begin();
        let mut cuts = false;
        out.each(frame, |_, p| {
            let to = to.get(p.tx_if(), |evicted| {
                evicted.iter().for_each(|(interface, to)| count(tx, *interface, to));
                find(interfaces, ports, cx.guard, p.tx_if())
            });
            if p.flags().any(to.cannot)
                && let Err(verdict) = finish(p)
            {
                cuts |= verdict == Verdict::Hold;
                return verdict;
            }
            to.packets += 1;
            to.bytes += p.total_len() as u64;
            to.plain
        });
        to.each(|interface, to| count(tx, interface, &to));
        if cuts {
            out.in_order();
        }
    }

    /// Cuts a packet into segments.
    fn held(&mut self, cx: &mut Cx<'_>, mut held: Held, out: &mut Out<'_, Next, Reason>) {
        let InterfaceOutput { interfaces, ports, tx, segments, .. } = self;
        let p = held.packet();
        let mut to = find(interfaces, ports, cx.guard, p.tx_if());
        let l3 = gso::link_len(p.bytes()).ok_or(Fault::Headers);
        if let Err(fault) = l3.and_then(|l3| gso::cut(&p, l3, segments, cx.bufs)) {
            segments.free(cx.bufs);
            return out.drop(fault.into(), held);
        }
        to.packets = segments.len() as u64;
        to.bytes = segments.packets().map(|p| p.len() as u64).sum();
        count(tx, p.tx_if(), &to);
        segments.drain(|segment| out.emit(Next::Tx, segment));
        held.free(cx.bufs);
    }
}
