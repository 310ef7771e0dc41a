//! `ip4-full-reassembly`: makes datagrams for this router whole again (RFC 791 section 3.2, RFC 1812 section 4.2.2.8).
//!
//! In comes from `ip4-local`: a fragment with its whole IPv4 header in the first segment, as long as the header says. A whole
//! datagram is the chain of the buffers that its fragments came in, with the header of the first.

use buf::{Cache, Flags, Frame, Held, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use wire::ipv4::{self, Ipv4Header};

use super::table::Whole;
use super::{Fragment, Key, MOST_FRAGMENTS, Reassembly};

/// ECN code points, one bit each: not capable, and "congestion experienced".
const NOT_ECT: u8 = 1 << 0;
const CE: u8 = 1 << 3;

edges! { pub enum Next { Lookup = "ip4-lookup", Local = "ip4-local" } }
reasons! {
    pub enum Reason {
        Malformed = "bad-fragment", Error, "a fragment without data, or not the last and of no multiple of 8 bytes";
        TooLong = "too-long", Error, "the fragments make a packet that is longer than a packet can be";
        Overlap = "overlap", Warn, "fragments of one datagram overlap, or do not agree where it ends: it is dropped as a whole";
        Duplicate = "duplicate", Info, "the same fragment came twice";
        TooMany = "too-many-fragments", Warn, "the datagram has more fragments than one may have";
        Displaced = "displaced-datagrams", Warn, "the oldest of too many datagrams that wait for more fragments";
        Crowded = "displaced-buffers", Warn, "too many buffers are in fragments that wait; the oldest datagrams go";
        Ecn = "bad-ecn", Warn, "congestion was marked in one fragment, and another says that it cannot be (RFC 3168 section 5.3)";
        Unfinished = "unfinished", Error, "a fragment whose checksum or segmentation is still to be done";
        Shared = "shared-buffers", Warn, "a fragment of several buffers, which another packet has a share of";
    }
}

/// The node. `parts` is empty between two packets.
pub struct Ip4FullReassembly {
    tables: Reassembly,
    parts: Vec<Held>,
}

impl Ip4FullReassembly {
    pub fn new(tables: &Reassembly) -> Ip4FullReassembly {
        Ip4FullReassembly { tables: tables.clone(), parts: Vec::with_capacity(MOST_FRAGMENTS) }
    }

    /// Puts the parts together, from the last to the first. After an error what is left of them lies in `parts` again.
    fn join(&mut self, whole: Whole, bufs: &mut Cache) -> Result<Held, Reason> {
        let first = self.parts.first_mut().ok_or(Reason::Malformed)?;
        make_whole(&mut first.packet(), whole)?;
        let mut link = Flags::NONE;
        loop {
            let mut last = self.parts.pop().ok_or(Reason::Malformed)?;
            let mut p = last.packet();
            link |= p.flags() & (Flags::L2_BROADCAST | Flags::L2_MULTICAST);
            let Some(mut before) = self.parts.pop() else {
                p.set_flags(p.flags() | link);
                return Ok(last);
            };
            let header = p.peek::<Ipv4Header>().header_len();
            let appended = if p.advance(header) { before.packet().append(last, bufs) } else { Err(last) };
            self.parts.push(before);
            if let Err(last) = appended {
                self.parts.push(last);
                return Err(Reason::Shared);
            }
        }
    }
}

/// Makes the header of the first fragment that of the whole datagram.
fn make_whole(p: &mut Packet<'_>, whole: Whole) -> Result<(), Reason> {
    let h = p.peek::<Ipv4Header>();
    let total = u16::try_from(h.header_len() + whole.len as usize).map_err(|_| Reason::TooLong)?;
    if whole.ecn & CE != 0 {
        if whole.ecn & NOT_ECT != 0 {
            return Err(Reason::Ecn);
        }
        h.set_tos(h.tos() | 3);
    }
    h.set_total_len(total);
    // No "don't fragment" either: what is made of the datagram, an echo reply, may be cut as the datagram was.
    h.set_flags_fragment(0);
    if ipv4::write_checksum(p.bytes_mut()) { Ok(()) } else { Err(Reason::Malformed) }
}

impl FrameNode for Ip4FullReassembly {
    const NAME: &'static str = super::FULL;
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        out.each(frame, |_, p| {
            let unfinished = p.flags().any(Flags::GSO | Flags::CSUM_PARTIAL);
            if unfinished { Verdict::Drop(Reason::Unfinished) } else { Verdict::Hold }
        });
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut held: Held, out: &mut Out<'_, Next, Reason>) {
        let mut p = held.packet();
        // It looks up again when it goes on: what was found is not valid beyond this turn.
        p.set_fwd(0);
        let (fragment, key) = (Fragment::of(&mut p), Key::new(p.fib(), p.peek()));
        let mut table = self.tables.full().lock(&key);
        let mut went = 0;
        let whole = table.add(cx.now, key, fragment, held, |reason, held| {
            went += 1;
            out.drop(reason, held);
        });
        if let Some(whole) = whole {
            table.take(whole, |part| self.parts.push(part));
        }
        drop(table);
        cx.bufs.note_kept(1 - went - self.parts.len() as isize);
        let Some(whole) = whole else { return };
        match self.join(whole, cx.bufs) {
            Ok(mut held) => {
                let dst = held.packet().peek::<Ipv4Header>().dst_u32();
                // Groups are in no lookup table.
                let local = ipv4::is_multicast(dst);
                out.emit(if local { Next::Local } else { Next::Lookup }, held);
            }
            Err(reason) => self.parts.drain(..).for_each(|part| out.drop(reason, part)),
        }
    }
}
