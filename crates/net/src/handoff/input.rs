//! `handoff-input`: brings in what other workers gave to this one.

use buf::Frame;
use graph::handoff::{Inbox, RING};
use graph::{Cx, Eager, InputNode, More, NoReason, Out, RxMode, Verdict, WaitSet, edges};

/// The node's name.
pub const NODE: &str = "handoff-input";

edges! { pub enum Next { Device = "device-input" } }

pub struct HandoffInput {
    inbox: Inbox,
}

impl HandoffInput {
    pub fn new(inbox: Inbox) -> HandoffInput {
        HandoffInput { inbox }
    }
}

impl InputNode for HandoffInput {
    type Next = Next;
    type Drop = NoReason;
    const TRACE: graph::trace::TraceFn = crate::trace::ethernet;

    fn poll(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) -> More {
        let more = if self.inbox.take(frame) { More::Yes } else { More::No };
        cx.bufs.note_kept(-(frame.len() as isize));
        out.all(Verdict::Next(Next::Device));
        more
    }

    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        // The bell that others ring is waited for by the inject node.
        if !self.inbox.is_empty() {
            wait.poll();
        }
    }

    fn eager(&self) -> Eager {
        match self.inbox.is_alone() {
            true => Eager::NONE,
            false => Eager { mode: RxMode::Adaptive, depth: RING },
        }
    }
}
