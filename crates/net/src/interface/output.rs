//! `interface-output`: where every packet for an interface comes together, whoever sends it.
//!
//! Checks that the interface is up, counts, and sends what the device cannot cut or sum by itself to `gso`.

use std::io;

use buf::{Flags, Frame};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::quiesce::Guard;

use super::table::{Interface, Kind, Lanes, TxPort};
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
    tx: Lanes,
    device_tx: Lanes,
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
            tx: Lanes::new(&t.counters.tx, worker)?,
            device_tx: Lanes::new(&t.counters.tx, worker)?,
        })
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
        out.each(frame, |_, p| {
            if p.tx_if() != to.interface {
                to = self.to(cx.guard, p.tx_if());
            }
            if to.plain == Verdict::Next(Next::Tx) {
                let bytes = p.total_len();
                self.tx.packet(to.interface, bytes);
                if to.device != to.interface {
                    self.device_tx.packet(to.device, bytes);
                }
                if p.flags().any(to.cannot) {
                    return Verdict::Next(Next::Gso);
                }
            }
            to.plain
        });
        self.tx.flush();
        self.device_tx.flush();
    }
}
