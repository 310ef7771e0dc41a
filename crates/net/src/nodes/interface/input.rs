//! `<driver>-input`: polls the receive queues of one kind of device.
//!
//! Each call polls one queue, and the received frame runs through the graph before the next queue is polled. So no queue waits while
//! another queue's vector fills up, and all packets of a frame have the same receive interface.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use buf::{Frame, Lost};
use graph::{Cx, Eager, InputNode, More, Out, Verdict, WaitSet, edges, reasons};
use infra::counters::Lane;

use crate::Tables;
use crate::interface::{Placement, RxSlot};

/// Number of polls between two reads of a queue's loss counters. A worker sleeps only after this many polls without a packet, so the
/// counters are up to date while it sleeps. The exception is a worker whose queues all have the mode `interrupt`.
const POLLS: u32 = 64;

edges! { pub enum Next { Ethernet = "device-input", Handoff = "worker-handoff" } }
reasons! {
    pub enum Reason {
        Unusable = "rx-unusable", Error, counted, "the device delivered a truncated, inconsistent or oversized packet";
    }
}

/// A queue that this worker polls.
struct Queue {
    slot: Arc<RxSlot>,
    /// True if the queue's flows are spread over the workers.
    spread: bool,
    /// Number of polls since the queue's loss counters were last read.
    polls: u32,
}

pub struct DeviceInput {
    placement: Placement,
    version: u64,
    node: &'static str,
    worker: usize,
    queues: Vec<Queue>,
    /// How promptly the worker must serve these queues.
    eager: Eager,
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
            queues: Vec::new(),
            eager: Eager::NONE,
            next: 0,
            rx: t.counters.rx.lane(worker)?,
            lost: t.counters.rx_lost.lane(worker)?,
        })
    }

    #[cold]
    fn refresh(&mut self) {
        self.version = self.placement.version();
        let mut slots = self.placement.slots();
        slots.retain(|s| s.node == self.node && s.gone().is_none());
        let own = |slot: Arc<RxSlot>| {
            let how = slot.attention();
            let own = how.worker == self.worker && !how.paused;
            own.then_some(Queue { slot, spread: how.spread, polls: 0 })
        };
        self.queues = slots.into_iter().filter_map(own).collect();
        self.eager = self.queues.iter().fold(Eager::NONE, |all, q| all.and(q.slot.eager()));
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
        let count = self.queues.len();
        let Some(Queue { slot, spread, polls }) = self.queues.get_mut(self.next) else { return More::No };
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
        out.all(Verdict::Next(if *spread { Next::Handoff } else { Next::Ethernet }));
        more
    }

    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        if self.version != self.placement.version() {
            return wait.poll();
        }
        for Queue { slot, .. } in &self.queues {
            match &slot.fd {
                Some(fd) if slot.queue().before_sleep() => wait.fd(fd.as_fd()),
                Some(_) => wait.poll(),
                None => {
                    let queue = slot.queue();
                    match queue.next_due() {
                        _ if !queue.active() => {}
                        Some(time) => wait.until(time),
                        None => wait.poll(),
                    }
                }
            }
        }
    }

    fn eager(&self) -> Eager {
        self.eager
    }
}
