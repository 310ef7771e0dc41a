//! `<driver>-input`: polls the receive queues of one kind of device.
//!
//! One queue a call, each frame runs through the graph before the next queue is polled: no queue waits for another's
//! full vector, and all packets of a frame share their interface.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use buf::Frame;
use graph::{Cx, InputNode, More, NoReason, Out, Verdict, WaitSet, edges};
use infra::counters::Lane;

use super::table::{Placement, RxSlot};
use crate::Tables;

edges! { pub enum Next { Ethernet = "device-input" } }

pub struct DeviceInput {
    placement: Placement,
    version: u64,
    node: &'static str,
    worker: usize,
    slots: Vec<Arc<RxSlot>>,
    next: usize,
    rx: Lane<2>,
}

impl DeviceInput {
    pub fn new(t: &Tables, node: &'static str, worker: usize) -> io::Result<DeviceInput> {
        Ok(DeviceInput {
            placement: t.placement.clone(),
            version: u64::MAX,
            node,
            worker,
            slots: Vec::new(),
            next: 0,
            rx: t.counters.rx.lane(worker)?,
        })
    }

    #[cold]
    fn refresh(&mut self) {
        self.version = self.placement.version();
        let mut slots = self.placement.slots();
        slots.retain(|s| s.node == self.node && s.worker == self.worker && s.gone().is_none());
        self.slots = slots;
        self.next = 0;
    }
}

impl InputNode for DeviceInput {
    type Next = Next;
    type Drop = NoReason;
    const TRACE: graph::trace::TraceFn = crate::trace::ethernet;

    fn poll(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) -> More {
        if self.version != self.placement.version() {
            self.refresh();
        }
        let Some(slot) = self.slots.get(self.next) else { return More::No };
        self.next += 1;
        let more = if self.next < self.slots.len() { More::Yes } else { More::No };
        if more == More::No {
            self.next = 0;
        }
        if let Err(gone) = slot.queue().poll(frame, cx.bufs) {
            slot.set_gone(gone);
            self.version = u64::MAX;
        }
        if !frame.is_empty() {
            frame.set_rx(slot.interface);
            let bytes: usize = frame.packets().map(|p| p.total_len()).sum();
            self.rx.add(slot.interface, [frame.len() as u64, bytes as u64]);
        }
        out.all(Verdict::Next(Next::Ethernet));
        more
    }

    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        for slot in &self.slots {
            match &slot.fd {
                Some(fd) => wait.fd(fd.as_fd()),
                None if slot.queue().active() => wait.poll(),
                None => {}
            }
        }
    }
}
