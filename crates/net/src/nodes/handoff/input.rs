//! `handoff-input`: receives the packets that other workers pass to this worker.

use buf::Frame;
use graph::handoff::{Inbox, RING};
use graph::{Cx, Eager, InputNode, More, NoReason, Out, RxMode, Verdict, WaitSet, edges};

edges! { pub enum Next { Device = "device-input" } }

/// Number of consecutive polls without a packet after which this node lets its worker sleep. It is the same as for a device's
/// queue.
const QUIET: u32 = 64;

pub struct HandoffInput {
    inbox: Inbox,
    /// Number of consecutive polls without a packet.
    quiet: u32,
}

impl HandoffInput {
    pub fn new(inbox: Inbox) -> HandoffInput {
        HandoffInput { inbox, quiet: QUIET }
    }
}

impl InputNode for HandoffInput {
    type Next = Next;
    type Drop = NoReason;
    const TRACE: graph::trace::TraceFn = crate::trace::ethernet;

    fn poll(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) -> More {
        let more = if self.inbox.take(frame) { More::Yes } else { More::No };
        cx.bufs.note_kept(-(frame.len() as isize));
        self.quiet = if frame.is_empty() { self.quiet.saturating_add(1) } else { 0 };
        out.all(Verdict::Next(Next::Device));
        more
    }

    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        // The inject node waits for the doorbell that other workers ring.
        if !self.inbox.is_empty() {
            wait.poll();
        }
    }

    fn eager(&self) -> Eager {
        // While packets arrive from other workers, a nap must be short enough that the rings from these workers do not fill up. While none
        // arrive, the receive modes that the operator configured for the devices' queues decide.
        match self.quiet >= QUIET {
            true => Eager::NONE,
            false => Eager { mode: RxMode::Adaptive, depth: RING },
        }
    }
}
