//! `ip4-full-reassembly` and `ip6-full-reassembly` reassemble datagrams for this router (RFC 791 section 3.2,
//! RFC 1812 section 4.2.2.8; RFC 8200 section 4.5).
//!
//! Fragments arrive from `ip4-local` or `ip6-local`. They are as long as their IP header states, and have all
//! their headers in the first buffer. A whole datagram is the chain of its fragments' buffers, with the
//! headers of the first fragment.

use std::sync::Arc;

use buf::{Cache, Flags, Frame, Held};
use graph::{Cx, FrameNode, Out, Verdict, edges};

use crate::datagrams::{Datagrams, Whole};
use crate::family::Fragmented;
use crate::fragment::{Key, MOST_FRAGMENTS, Reason};
use crate::shards::Shards;

/// The ECN code point "not ECN-capable", as a bit.
const NOT_ECT: u8 = 1 << 0;
/// The ECN code point "congestion experienced", as a bit.
const CE: u8 = 1 << 3;

edges! {
    /// The edges. The names are those of the IPv4 nodes; see [`FrameNode::EDGES`].
    pub enum Next { Lookup = "ip4-lookup", Local = "ip4-local", Report = "ip4-icmp-error" }
}
/// The node. `parts` has the fragments of a whole datagram while they are joined.
pub struct FullReassembly<A: Fragmented> {
    datagrams: Arc<Shards<Datagrams<Key<A>, Held>>>,
    parts: Vec<Held>,
}

impl<A: Fragmented> FullReassembly<A> {
    pub fn new(datagrams: &Arc<Shards<Datagrams<Key<A>, Held>>>) -> FullReassembly<A> {
        FullReassembly { datagrams: datagrams.clone(), parts: Vec::with_capacity(MOST_FRAGMENTS) }
    }

    /// Joins the fragments in `parts`, from the last to the first. After an error, `parts` has the fragments
    /// that are still to be dropped.
    fn join(&mut self, whole: Whole, bufs: &mut Cache) -> Result<Held, Reason> {
        let congested = whole.ecn & CE != 0;
        if congested && whole.ecn & NOT_ECT != 0 {
            return Err(Reason::Ecn);
        }
        let first = self.parts.first_mut().ok_or(Reason::Malformed)?;
        A::make_whole(&mut first.packet(), whole.len, congested)?;
        let mut link = Flags::NONE;
        loop {
            let mut last = self.parts.pop().ok_or(Reason::Malformed)?;
            let mut p = last.packet();
            link |= p.flags() & (Flags::L2_BROADCAST | Flags::L2_MULTICAST);
            let Some(mut before) = self.parts.pop() else {
                p.set_flags(p.flags() | link);
                return Ok(last);
            };
            let header = A::fragment(&mut p).map_or(0, |(_, fragment)| fragment.header as usize);
            let appended = if p.advance(header) { before.packet().append(last, bufs) } else { Err(last) };
            self.parts.push(before);
            if let Err(last) = appended {
                self.parts.push(last);
                return Err(Reason::Shared);
            }
        }
    }
}

impl<A: Fragmented> FrameNode for FullReassembly<A> {
    const NAME: &'static str = A::FULL.name;
    type Next = Next;
    type Drop = Reason;
    const EDGES: &'static [&'static str] = &[A::NODES.lookup, A::NODES.local, A::NODES.report];
    const TRACE: graph::trace::TraceFn = A::TRACE;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        out.each(frame, |_, p| {
            let unfinished = p.flags().any(Flags::GSO | Flags::CSUM_PARTIAL);
            if unfinished { Verdict::Drop(Reason::Unfinished) } else { Verdict::Hold }
        });
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut held: Held, out: &mut Out<'_, Next, Reason>) {
        let mut p = held.packet();
        // The whole datagram is looked up again, because the result of this turn's lookup is not valid later.
        p.set_fwd(0);
        let Some((key, fragment)) = A::fragment(&mut p) else { return out.drop(Reason::Malformed, held) };
        let mut table = self.datagrams.lock(&key);
        let mut went = 0;
        let whole = table.add(cx.now, key, fragment, held, |reason, mut held| {
            went += 1;
            match A::fault(&fragment, reason) {
                Some(cause) => {
                    held.packet().set_fwd(cause.to_raw());
                    out.emit(Next::Report, held);
                }
                None => out.drop(reason, held),
            }
        });
        if let Some(whole) = whole {
            table.take(whole, |part| self.parts.push(part));
        }
        drop(table);
        cx.bufs.note_kept(1 - went - self.parts.len() as isize);
        let Some(whole) = whole else { return };
        match self.join(whole, cx.bufs) {
            Ok(mut held) => {
                let local = A::is_group(A::dst(held.packet().peek()));
                out.emit(if local { Next::Local } else { Next::Lookup }, held);
            }
            Err(reason) => self.parts.drain(..).for_each(|part| out.drop(reason, part)),
        }
    }
}
