//! `worker-handoff`: finds the worker for a packet's flow, and passes the packet to that worker.

use std::fmt::Write;

use buf::Frame;
use graph::handoff::Outbox;
use graph::trace::{Entry, Fate};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::Reader;

use crate::Tables;
use crate::handoff::Shards;

edges! { pub enum Next { Own = "device-input" } }
reasons! {
    pub enum Reason {
        Full = "handoff-ring-full", Warn, "the ring to the flow's worker is full: that worker does not keep up";
    }
}

pub struct WorkerHandoff {
    shards: Reader<Shards>,
    outbox: Outbox,
}

impl WorkerHandoff {
    pub fn new(t: &Tables, outbox: Outbox) -> WorkerHandoff {
        WorkerHandoff { shards: t.shards.clone(), outbox }
    }
}

fn trace(e: &Entry, text: &mut String) {
    if let (Fate::Held, Some(after)) = (e.fate, e.after) {
        let _ = writeln!(text, "to worker {}", after.fwd);
    }
    crate::trace::ethernet(e, text);
}

impl FrameNode for WorkerHandoff {
    const NAME: &'static str = "worker-handoff";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = trace;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        self.outbox.refresh();
        let shards = self.shards.get(cx.guard);
        out.each(frame, |_, p| {
            let worker = shards.worker(wire::flow::frame_hash(p.bytes()));
            if usize::from(worker) == cx.worker {
                return Verdict::Next(Next::Own);
            }
            p.set_fwd(worker.into());
            Verdict::Hold
        });
    }

    fn hold(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let mut given = 0;
        frame.drain(|mut packet| {
            let worker = packet.packet().fwd();
            match self.outbox.give(worker as usize, packet) {
                Ok(()) => given += 1,
                Err(packet) => out.drop(Reason::Full, packet),
            }
        });
        self.outbox.flush();
        cx.bufs.note_kept(given);
    }
}
