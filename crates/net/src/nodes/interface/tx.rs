//! `interface-tx`: passes packets to the device's transmit queue, or to the node of a feature's interface.

use buf::{Frame, Unsent};
use graph::{Cx, EdgeId, FrameNode, NoNext, Out, Verdict, reasons};
use infra::class_a::SlotReader;
use infra::counters::Lane;
use infra::quiesce::Guard;
use kernels::{Codes, Target};

use super::by_frame::ByFrame;
use crate::Tables;
use crate::interface::{Interface, Kind, TX, TxPort};
use crate::registry::Registry;

/// Maximum number of devices and nodes to which one call of [`InterfaceTx::round`] sends packets. Packets for further devices and
/// nodes are sent by the next call.
const PORTS: usize = 16;
/// Code of a packet that is left for the next call of [`InterfaceTx::round`]. Any other code is the index of the packet's frame in
/// [`InterfaceTx::split`].
const LATER: u8 = PORTS as u8;

reasons! {
    pub enum Reason {
        Full = "tx-queue-full", Warn, "the device's transmit queue is full";
        Down = "tx-link-down", Warn, "the device's link is down";
        Refused = "tx-refused", Error, "the device refused the packet: it is too large for the link, or malformed";
        NoQueue = "tx-no-queue", Warn, "the interface's device is absent, so the packet cannot be sent";
    }
}

pub struct InterfaceTx {
    interfaces: SlotReader<Interface>,
    ports: SlotReader<TxPort>,
    kinds: Registry,
    errors: Lane<1>,
    codes: Box<Codes>,
    /// The parts of the frame that is being sent: one for each of up to [`PORTS`] devices and nodes, and a last one for all other
    /// packets, which are sent later.
    split: Vec<Frame>,
    /// Code by interface.
    code: ByFrame<u8>,
}

impl InterfaceTx {
    pub fn new(t: &Tables, worker: usize) -> std::io::Result<InterfaceTx> {
        Ok(InterfaceTx {
            interfaces: t.interfaces.clone(),
            ports: t.ports.clone(),
            kinds: t.interface_kinds.clone(),
            errors: t.counters.tx_error.lane(worker)?,
            codes: Box::default(),
            split: (0..=PORTS).map(|_| Frame::new()).collect(),
            code: ByFrame::default(),
        })
    }

    /// Sends a frame to one device, and drops the packets that the device refuses. Packets that are still in the frame at the end could not
    /// be sent, for the returned reason.
    fn send(
        &mut self,
        cx: &mut Cx<'_>,
        device: u32,
        frame: &mut Frame,
        out: &mut Out<'_, NoNext, Reason>,
    ) -> Reason {
        let Some(port) = self.ports.get(cx.guard, device) else { return Reason::NoQueue };
        let mut queue = port.queue(cx.worker);
        let mut refused = 0;
        let reason = loop {
            // Nothing is reported here: the main thread itself detects that a link is down or a device has
            // vanished.
            match queue.send(frame, cx.bufs) {
                Ok(()) | Err(Unsent::Full) => break Reason::Full,
                Err(Unsent::Down) => break Reason::Down,
                Err(Unsent::Gone) => break Reason::NoQueue,
                Err(Unsent::Refused) => {
                    let Some(packet) = frame.take_front() else { break Reason::Refused };
                    out.drop(Reason::Refused, packet);
                    refused += 1;
                }
            }
        };
        self.errors.add(device, [refused + frame.len() as u64]);
        reason
    }

    /// Sends the packets for the first [`PORTS`] different devices and nodes that occur in a frame. Packets for other devices and
    /// nodes stay in the frame.
    fn round(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, Reason>) {
        let mut ways = [Way::Device(u32::MAX); PORTS];
        let mut used = 0;
        self.code.begin();
        for (p, code) in frame.packets().zip(&mut self.codes.0) {
            *code = *self.code.get(p.tx_if(), |_| {
                let way = way(&self.interfaces, &self.kinds, cx.guard, p.tx_if());
                match ways[..used].iter().position(|&k| k == way) {
                    Some(k) => k as u8,
                    None if used < PORTS => {
                        ways[used] = way;
                        used += 1;
                        used as u8 - 1
                    }
                    None => LATER,
                }
            });
        }
        self.codes.split(cx.kernels, frame, &mut ToSplit(&mut self.split));
        let mut split = std::mem::take(&mut self.split);
        for (to, way) in split.iter_mut().zip(&ways[..used]) {
            match way {
                Way::Device(device) => {
                    let reason = self.send(cx, *device, to, out);
                    to.drain(|packet| out.drop(reason, packet));
                }
                Way::Node(edge) => to.drain(|packet| out.emit_edge(*edge, packet)),
            }
        }
        if let Some(later) = split.get_mut(PORTS) {
            frame.append(later);
        }
        self.split = split;
    }
}

/// The device or node to which `interface-tx` sends the packets of an interface.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// The device with this interface index: the interface itself or, for a sub-interface, its parent.
    Device(u32),
    /// The node for the kind of the feature's interface.
    Node(EdgeId),
}

fn way(interfaces: &SlotReader<Interface>, kinds: &Registry, guard: &Guard, interface: u32) -> Way {
    let Some(i) = interfaces.get(guard, interface) else { return Way::Device(u32::MAX) };
    match i.kind {
        Kind::Feature(kind) | Kind::Loopback(Some(kind)) => {
            kinds.get(kind.number.into()).map_or(Way::Device(u32::MAX), Way::Node)
        }
        _ => Way::Device(i.device),
    }
}

struct ToSplit<'f>(&'f mut [Frame]);
impl Target for ToSplit<'_> {
    fn with(&mut self, code: u8, _: usize, fill: impl FnOnce(&mut Frame)) {
        // Codes are at most LATER, and each frame is empty before the split.
        if let Some(frame) = self.0.get_mut(usize::from(code)) {
            fill(frame);
        }
    }
}

impl FrameNode for InterfaceTx {
    const NAME: &'static str = TX;
    type Next = NoNext;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ethernet;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, Reason>) {
        let n = frame.len();
        if let Some(interface) = frame.uniform_tx() {
            let device = match way(&self.interfaces, &self.kinds, cx.guard, interface) {
                Way::Device(device) => device,
                Way::Node(edge) => return out.all(Verdict::Edge(edge)),
            };
            let reason = self.send(cx, device, frame, out);
            if frame.len() == n {
                out.all(Verdict::Drop(reason));
            } else {
                // A node must leave all packets in the frame, or none.
                frame.drain(|packet| out.drop(reason, packet));
            }
            return;
        }
        while !frame.is_empty() {
            self.round(cx, frame, out);
        }
    }
}
