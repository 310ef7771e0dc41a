//! `<driver>-input`: polls the receive queues of one kind of device.
//!
//! One queue a call, each frame runs through the graph before the next queue is polled: no queue waits for another's
//! full vector, and all packets of a frame share their interface.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use buf::{Frame, Lost};
use graph::{Cx, InputNode, More, Out, Verdict, WaitSet, edges, reasons};
use infra::counters::Lane;

use super::table::{Placement, RxSlot};
use crate::Tables;

/// A queue is asked what it lost once in so many polls: as many as a worker makes in vain before it sleeps, so that it has
/// told all by then.
const POLLS: u32 = 64;

edges! { pub enum Next { Ethernet = "device-input" } }
reasons! {
    pub enum Reason {
        Unusable = "rx-unusable", Error, "what the device gave was cut off, contradictory, or larger than all free buffers";
    }
}

pub struct DeviceInput {
    placement: Placement,
    version: u64,
    node: &'static str,
    worker: usize,
    /// The queues, and how often each was polled.
    slots: Vec<(Arc<RxSlot>, u32)>,
    next: usize,
    rx: Lane<2>,
    lost: Lane<2>,
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
            lost: t.counters.rx_lost.lane(worker)?,
        })
    }

    #[cold]
    fn refresh(&mut self) {
        self.version = self.placement.version();
        let mut slots = self.placement.slots();
        slots.retain(|s| s.node == self.node && s.worker == self.worker && s.gone().is_none());
        self.slots = slots.into_iter().map(|s| (s, 0)).collect();
        self.next = 0;
    }
}

impl InputNode for DeviceInput {
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ethernet;

    fn poll(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) -> More {
        if self.version != self.placement.version() {
            self.refresh();
        }
        let count = self.slots.len();
        let Some((slot, polls)) = self.slots.get_mut(self.next) else { return More::No };
        self.next += 1;
        let more = if self.next < count { More::Yes } else { More::No };
        if more == More::No {
            self.next = 0;
        }
        let mut queue = slot.queue();
        if let Err(gone) = queue.poll(frame, cx.bufs) {
            slot.set_gone(gone);
            self.version = u64::MAX;
        }
        *polls += 1;
        if *polls == POLLS {
            *polls = 0;
            let Lost { missed, unusable } = queue.take_lost();
            self.lost.add(slot.interface, [missed, unusable]);
            out.count(Reason::Unusable, unusable);
        }
        drop(queue);
        if !frame.is_empty() {
            frame.set_rx(slot.interface);
            let bytes: usize = frame.packets().map(|p| p.total_len()).sum();
            self.rx.add(slot.interface, [frame.len() as u64, bytes as u64]);
        }
        out.all(Verdict::Next(Next::Ethernet));
        more
    }

    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        for (slot, _) in &self.slots {
            match &slot.fd {
                Some(fd) if slot.queue().before_sleep() => wait.fd(fd.as_fd()),
                Some(_) => wait.poll(),
                None if slot.queue().active() => wait.poll(),
                None => {}
            }
        }
    }
}
