//! `interface-output`: where every packet for an interface comes together, whoever sends it.
//!
//! Checks that the interface is up, counts, and sends what the device cannot cut or sum by itself to `gso`.

use std::io;

use buf::{Flags, Frame};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::Lane;
use infra::quiesce::Guard;

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
}

/// What is the same for all packets to one interface.
#[derive(Clone, Copy)]
struct To {
    interface: u32,
    device: u32,
    plain: Verdict<Next, Reason>,
    /// Flags of packets that the device cannot take.
    cannot: Flags,
}

impl InterfaceOutput {
    pub fn new(t: &Tables, worker: usize) -> io::Result<InterfaceOutput> {
        Ok(InterfaceOutput {
            interfaces: t.interfaces.clone(),
            ports: t.ports.clone(),
            tx: t.counters.tx.lane(worker)?,
        })
    }

    #[inline(always)]
    fn count(&mut self, to: To, packets: usize, bytes: usize) {
        self.tx.add(to.interface, [packets as u64, bytes as u64]);
        if to.device != to.interface {
            self.tx.add(to.device, [packets as u64, bytes as u64]);
        }
    }

    fn to(&self, guard: &Guard, interface: u32) -> To {
        let mut to =
            To { interface, device: interface, plain: Verdict::Drop(Reason::Deleted), cannot: Flags::NONE };
        let Some(i) = self.interfaces.get(guard, interface) else { return to };
        to.device = i.device;
        to.plain = match self.ports.get(guard, i.device) {
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
}

impl FrameNode for InterfaceOutput {
    const NAME: &'static str = "interface-output";
    type Next = Next;
    type Drop = Reason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let Some(first) = frame.get(0) else { return };
        let mut to = self.to(cx.guard, first.tx_if());
        // The common case, all to one interface that takes them as they are, needs no verdict a packet.
        let (mut same, mut bytes) = (true, 0);
        for p in frame.packets() {
            same &= p.tx_if() == to.interface;
            bytes += p.total_len();
        }
        if same && !frame.any().any(to.cannot) {
            out.all(to.plain);
            if to.plain == Verdict::Next(Next::Tx) {
                self.count(to, frame.len(), bytes);
            }
            return;
        }
        out.each(frame, |_, p| {
            if p.tx_if() != to.interface {
                to = self.to(cx.guard, p.tx_if());
            }
            if to.plain == Verdict::Next(Next::Tx) {
                // What is cut comes by again, and is counted then.
                if p.flags().any(to.cannot) {
                    return Verdict::Next(Next::Gso);
                }
                self.count(to, 1, p.total_len());
            }
            to.plain
        });
    }
}
