//! Capturing nodes, in place of nodes that are not under test.

use std::sync::{Arc, Mutex};

use buf::{Frame, Packet};
use graph::{Builder, Cx, FrameNode, NoNext, NoReason, Verdict};

use super::Out;

/// The packets that all sinks of a graph have captured, in order.
#[derive(Clone, Default)]
pub(super) struct Captured(Arc<Mutex<Vec<Out>>>);

impl Captured {
    /// Adds a node that captures all packets.
    pub(super) fn sink(&self, builder: &mut Builder, name: &'static str) {
        let captured = self.clone();
        builder.frame_as(name, move |_| Ok(Sink { name, captured: captured.clone() }));
    }

    /// Takes the packets captured since the last call.
    pub(super) fn take(&self) -> Vec<Out> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(|e| e.into_inner()))
    }
}

/// Returns a copy of a packet's current state.
pub(super) fn capture(node: &str, packet: &Packet<'_>) -> Out {
    Out {
        node: node.to_string(),
        reason: None,
        bytes: packet.segments().flatten().copied().collect(),
        record: packet.snapshot(),
        cold: *packet.cold(),
        from: None,
    }
}

/// A node that captures packets and frees them.
struct Sink {
    name: &'static str,
    captured: Captured,
}

impl FrameNode for Sink {
    const NAME: &'static str = "sink";
    type Next = NoNext;
    type Drop = NoReason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, _: &mut graph::Out<'_, NoNext, NoReason>) {
        let mut captured = self.captured.0.lock().unwrap_or_else(|e| e.into_inner());
        captured.extend(frame.packets().map(|p| capture(self.name, &p)));
        frame.free(cx.bufs);
    }
}

/// A feature that passes all packets on. It replaces a feature that is not under test.
pub(super) struct PassOn;

graph::edges! { pub(super) enum PassOnNext { Continue = "next-feature" } }

impl FrameNode for PassOn {
    const NAME: &'static str = "pass-on";
    type Next = PassOnNext;
    type Drop = NoReason;

    fn run(&mut self, _: &mut Cx<'_>, _: &mut Frame, out: &mut graph::Out<'_, PassOnNext, NoReason>) {
        out.all(Verdict::Next(PassOnNext::Continue));
    }
}
