//! Nodes that are controlled by the bytes of their packets.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use buf::{Frame, Held, Packet};

use crate::{
    Builder, Cx, EdgeId, FrameNode, GraphError, InputNode, More, NoNext, NoReason, Out, Verdict, WaitSet,
};

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Records which packets passed which node, in order. A packet's flow hash is its number.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<(&'static str, u32)>>>);

impl Log {
    pub(super) fn note(&self, node: &'static str, frame: &mut Frame) {
        lock(&self.0).extend(frame.packets().map(|p| (node, p.hash())));
    }
    /// Returns the numbers of the packets that passed `node`, in order.
    pub(super) fn at(&self, node: &str) -> Vec<u32> {
        lock(&self.0).iter().filter(|(n, _)| *n == node).map(|(_, id)| *id).collect()
    }
    /// Returns the nodes that packet `id` passed, in order.
    pub(super) fn way(&self, id: u32) -> Vec<&'static str> {
        lock(&self.0).iter().filter(|(_, i)| *i == id).map(|(n, _)| *n).collect()
    }
    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// A packet to be made: its number, its bytes and its interfaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Spec {
    pub(super) id: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) rx: u32,
    pub(super) tx: u32,
}

/// Returns `n` packets with these bytes, numbered from 0.
pub(super) fn specs(n: u32, bytes: &[u8]) -> Vec<Spec> {
    (0..n).map(|id| Spec { id, bytes: bytes.to_vec(), ..Spec::default() }).collect()
}

/// The packets that an input node brings in: one batch in each call.
#[derive(Clone, Default)]
pub(super) struct Batches(Arc<Mutex<VecDeque<Vec<Spec>>>>);

impl Batches {
    pub(super) fn push(&self, batch: Vec<Spec>) {
        lock(&self.0).push_back(batch);
    }
    pub(super) fn install(&self, b: &mut Builder, name: &'static str) {
        let batches = self.clone();
        b.input(name, move |_| Ok(Source(batches.clone())));
    }
}

/// An input node that sends all packets by its first edge.
struct Source(Batches);

impl InputNode for Source {
    type Next = NoNext;
    type Drop = NoReason;

    fn poll(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, NoReason>) -> More {
        let mut batches = lock(&self.0.0);
        let Some(batch) = batches.pop_front() else { return More::No };
        assert_eq!(frame.alloc(cx.bufs, batch.len()), batch.len(), "enough buffers");
        for (spec, mut p) in batch.iter().zip(frame.packets()) {
            assert!(p.fill(&spec.bytes));
            p.set_hash(spec.id);
            p.set_rx_if(spec.rx);
            p.set_tx_if(spec.tx);
        }
        if batch.windows(2).all(|w| w[0].rx == w[1].rx) && !batch.is_empty() {
            frame.set_rx(batch[0].rx);
        }
        out.all(Verdict::Edge(EdgeId::from_raw(0)));
        if batches.is_empty() { More::No } else { More::Yes }
    }

    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        if !lock(&self.0.0).is_empty() {
            wait.poll();
        }
    }
}

/// Packets that `Toy` nodes keep until the test takes them.
pub(super) type Kept = Arc<Mutex<Vec<Held>>>;

/// The lowest command. A first byte below this is the number of the edge by which the packet leaves. First bytes from this one up to
/// `HOLD - 1` drop the packet.
pub(super) const DROP: u8 = 200;
pub(super) const REASONS: u8 = 3;
/// Hold the packet, then send it on by the edge in the next byte.
pub(super) const HOLD: u8 = 210;
/// Hold the packet and keep it.
pub(super) const KEEP: u8 = 211;
/// Copy the packet. The copy leaves by the edge in the next byte. The packet is then treated by the byte that
/// follows the edge.
pub(super) const COPY: u8 = 212;
pub(super) const CONSUME: u8 = 213;
/// Make a new packet. It leaves by the edge in the next byte, and has the bytes that follow the edge. The
/// packet with the command is consumed.
pub(super) const MAKE: u8 = 214;
/// Send the packet by an edge that the node does not have.
pub(super) const STRAY: u8 = 215;
/// Return no verdict for any packet of the frame.
pub(super) const SILENT: u8 = 216;

crate::reasons! {
    pub(super) enum ToyDrop {
        Empty = "empty", Info, "the packet had no byte left";
        One = "one", Warn, "the packet wanted it";
        Two = "two", Error, "the packet wanted it badly";
    }
}
pub(super) const TOY_REASONS: [ToyDrop; REASONS as usize] = [ToyDrop::Empty, ToyDrop::One, ToyDrop::Two];

/// Treats each packet by its first byte, and removes this byte. `install` adds the edges of the node.
pub(super) struct Toy {
    name: &'static str,
    log: Log,
    kept: Kept,
}

impl Toy {
    /// Adds a `Toy` node with these edges.
    pub(super) fn install(
        b: &mut Builder,
        log: &Log,
        kept: &Kept,
        name: &'static str,
        edges: &[&str],
    ) -> Result<(), GraphError> {
        let (log, kept) = (log.clone(), kept.clone());
        b.frame_as(name, move |_| Ok(Toy { name, log: log.clone(), kept: kept.clone() }));
        edges.iter().try_for_each(|to| b.edge(name, to).map(|_| ()))
    }
}

impl FrameNode for Toy {
    const NAME: &'static str = "toy";
    type Next = NoNext;
    type Drop = ToyDrop;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, ToyDrop>) {
        self.log.note(self.name, frame);
        for mut p in frame.packets() {
            let next = |p: &Packet<'_>| EdgeId::from_raw(p.bytes().get(1).map_or(0, |e| *e));
            while p.bytes().first() == Some(&COPY) {
                let edge = next(&p);
                assert!(p.advance(p.len().min(2)));
                out.emit_edge(edge, p.duplicate(cx.bufs).expect("a buffer"));
            }
            match p.bytes().first() {
                Some(&MAKE) => {
                    let mut made = Held::alloc(cx.bufs).expect("a buffer");
                    assert!(made.packet().fill(p.bytes().get(2..).unwrap_or_default()));
                    made.packet().set_hash(p.hash());
                    out.emit_edge(next(&p), made);
                }
                Some(&SILENT) => return,
                _ => {}
            }
        }
        out.each(frame, |_, p| {
            let Some(&first) = p.bytes().first() else { return Verdict::Drop(ToyDrop::Empty) };
            assert!(p.advance(1));
            match first {
                DROP..HOLD => Verdict::Drop(TOY_REASONS[usize::from((first - DROP) % REASONS)]),
                HOLD | KEEP => {
                    p.set_fwd(u32::from(first == KEEP));
                    Verdict::Hold
                }
                CONSUME | MAKE => Verdict::Consume,
                STRAY => Verdict::Edge(EdgeId::from_raw(127)),
                edge => Verdict::Edge(EdgeId::from_raw(edge)),
            }
        });
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut packet: Held, out: &mut Out<'_, NoNext, ToyDrop>) {
        let mut p = packet.packet();
        if p.fwd() == 1 {
            cx.bufs.note_kept(1);
            return lock(&self.kept).push(packet);
        }
        match p.bytes().first().copied() {
            Some(edge) if p.advance(1) => out.emit_edge(EdgeId::from_raw(edge), packet),
            _ => out.drop(ToyDrop::Empty, packet),
        }
    }
}

/// Frees the packets that nodes kept, and returns their number.
pub(super) fn free_kept(kept: &Kept) -> usize {
    let kept = std::mem::take(&mut *lock(kept));
    let n = kept.len();
    kept.into_iter().for_each(Held::discard);
    n
}

/// A node that frees packets: the end of their paths.
pub(super) struct End {
    name: &'static str,
    log: Log,
}

impl End {
    pub(super) fn install(b: &mut Builder, log: &Log, name: &'static str) {
        let log = log.clone();
        b.frame_as(name, move |_| Ok(End { name, log: log.clone() }));
    }
}

impl FrameNode for End {
    const NAME: &'static str = "end";
    type Next = NoNext;
    type Drop = NoReason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, _: &mut Out<'_, NoNext, NoReason>) {
        self.log.note(self.name, frame);
        frame.free(cx.bufs);
    }
}

/// A feature that records its packets and passes them on.
pub(super) struct Feature {
    name: &'static str,
    log: Log,
}

crate::edges! { pub(super) enum FeatureNext { Continue = "next-feature" } }

impl Feature {
    pub(super) fn install(
        b: &mut Builder,
        log: &Log,
        arc: &'static str,
        name: &'static str,
        after: &[&'static str],
        before: &[&'static str],
    ) {
        let log = log.clone();
        b.frame_as(name, move |_| Ok(Feature { name, log: log.clone() }));
        b.feature(arc, name, after, before);
    }
}

impl FrameNode for Feature {
    const NAME: &'static str = "feature";
    type Next = FeatureNext;
    type Drop = NoReason;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, FeatureNext, NoReason>) {
        self.log.note(self.name, frame);
        out.all(Verdict::Next(FeatureNext::Continue));
    }
}
