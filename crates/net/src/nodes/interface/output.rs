//! `interface-output`: the node for all packets that leave through an interface.
//!
//! Checks that the interface is up, and counts packets. Segments packets and completes checksums if the device cannot. The segments of a
//! packet are sent in the packet's place, so the order is kept.

use std::io;

use buf::{Flags, Frame, Held, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::Lane;
use infra::quiesce::Guard;

use super::by_frame::ByFrame;
use crate::Tables;
use crate::gso::{self, Fault};
use crate::interface::{Interface, Kind, TX, TxPort};

edges! { pub enum Next { Tx = "interface-output" } }
reasons! {
    pub enum Reason {
        Down = "interface-down", Warn, "the packet's output interface is down";
        Deleted = "interface-deleted", Info, "the packet's output interface was removed";
        Loopback = "loopback-output", Warn, "the packet's output interface is a loopback";
        Headers = "bad-headers", Error, "the packet's headers do not match its segmentation type";
        TooMany = "too-many-segments", Warn, "the packet needs more segments than fit in one vector (256 packets)";
        TooLarge = "segment-too-large", Warn, "a segment of the packet does not fit in a buffer";
        NoBuffer = "no-buffer", Warn, "too few free buffers for the packet's segments";
        Checksum = "bad-checksum-place", Error, "the checksum field is not in the first buffer of the packet's chain";
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
    /// The segments of the current packet; empty between packets.
    segments: Box<Frame>,
}

/// The properties of an output interface, and the counts of this frame's packets that need no segmentation.
#[derive(Clone, Copy)]
struct To {
    device: u32,
    /// True if the device has a transmit queue.
    is_port: bool,
    plain: Verdict<Next, Reason>,
    /// Packets with any of these flags need segmentation or a checksum in software.
    cannot: Flags,
    packets: u64,
    bytes: u64,
}

impl Default for To {
    fn default() -> To {
        let plain = Verdict::Drop(Reason::Deleted);
        To { device: u32::MAX, is_port: false, plain, cannot: Flags::NONE, packets: 0, bytes: 0 }
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

/// Adds the counts of one frame to the counters of an interface and its device.
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
        _ if i.kind == Kind::Loopback(None) => Verdict::Drop(Reason::Loopback),
        // The feature passes the frame to another interface, whose device may be able to do more than this node.
        _ if i.up && matches!(i.kind, Kind::Loopback(_)) => Verdict::Next(Next::Tx),
        // The feature's node encapsulates the packet, so segmentation and checksums must be done before.
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
            to.is_port = true;
            Verdict::Next(Next::Tx)
        }
        _ => Verdict::Drop(Reason::Down),
    };
    to
}

/// Completes a packet's checksum in software.
///
/// # Errors
/// Returns the verdict for a packet that needs segmentation, or whose checksum cannot be completed.
#[cold]
#[inline(never)]
fn finish(p: &mut Packet<'_>) -> Result<(), Verdict<Next, Reason>> {
    // Each segment needs its own checksum, so a GSO packet must be segmented. A device without checksum offload never gets a GSO packet.
    if p.flags().any(Flags::GSO) {
        return Err(Verdict::Hold);
    }
    gso::complete(p).map_err(|fault| Verdict::Drop(fault.into()))
}

/// Passes the packets of a frame for one interface to the device's transmit queue. It does not if packets are traced or meet a feature, or if
/// other frames wait, which may be for the same device. The node `interface-tx` gets the packets that the queue does not take: it tries again,
/// and drops them for its reasons.
#[inline(always)]
fn send(
    ports: &SlotReader<TxPort>,
    device: u32,
    interface: u32,
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    out: &mut Out<'_, Next, Reason>,
) {
    if !out.is_alone() || frame.any().any(Flags::TRACED) || out.meets_feature(Next::Tx, Some(interface)) {
        return;
    }
    let Some(port) = ports.get(cx.guard, device) else { return };
    let packets = frame.len();
    let sent = port.queue(cx.worker).send(frame, cx.bufs);
    out.ended_in(0, (packets - frame.len()) as u64);
    // A node must leave all packets in the frame, or none.
    if sent.is_err() && frame.len() < packets {
        frame.drain(|packet| out.emit(Next::Tx, packet));
    }
}

impl FrameNode for InterfaceOutput {
    const NAME: &'static str = "interface-output";
    const THROUGH: &'static [&'static str] = &[TX];
    type Next = Next;
    type Drop = Reason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let InterfaceOutput { interfaces, ports, tx, to, .. } = self;
        // The common case: all packets go to one interface, unchanged. No verdict per packet is needed.
        if let Some(interface) = frame.uniform_tx() {
            let mut all = find(interfaces, ports, cx.guard, interface);
            if !frame.any().any(all.cannot) {
                out.all(all.plain);
                all.packets = frame.len() as u64;
                all.bytes = frame.total_len() as u64;
                count(tx, interface, &all);
                if all.is_port {
                    send(ports, all.device, interface, cx, frame, out);
                }
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

    /// Cuts a packet into segments and sends them.
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
