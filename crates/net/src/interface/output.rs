//! `interface-output`: where every packet for an interface comes together, whoever sends it.
//!
//! Checks that the interface is up, counts, and sends what the device cannot cut or sum by itself to `gso`.

use std::io;

use buf::{Flags, Frame};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::Lane;
use infra::quiesce::Guard;

use super::by_frame::ByFrame;
use super::table::{Interface, Kind, TxPort};
use crate::Tables;

edges! { pub enum Next { Tx = "interface-output", Gso = "gso" } }
reasons! {
    pub enum Reason {
        Down = "interface-down", Warn, "the interface that the packet should leave by is down";
        Deleted = "interface-deleted", Info, "the interface that the packet should leave by is gone";
        Loopback = "loopback-output", Warn, "the packet was sent out of a loopback interface, which leads nowhere";
    }
}

pub struct InterfaceOutput {
    interfaces: SlotReader<Interface>,
    ports: SlotReader<TxPort>,
    tx: Lane<2>,
    to: ByFrame<To>,
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

impl FrameNode for InterfaceOutput {
    const NAME: &'static str = "interface-output";
    type Next = Next;
    type Drop = Reason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let InterfaceOutput { interfaces, ports, tx, to } = self;
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
        out.each(frame, |_, p| {
            let to = to.get(p.tx_if(), |evicted| {
                evicted.iter().for_each(|(interface, to)| count(tx, *interface, to));
                find(interfaces, ports, cx.guard, p.tx_if())
            });
            // What is cut comes by again, and is counted then.
            if p.flags().any(to.cannot) {
                return Verdict::Next(Next::Gso);
            }
            to.packets += 1;
            to.bytes += p.total_len() as u64;
            to.plain
        });
        to.each(|interface, to| count(tx, interface, &to));
    }
}
