//! `ip4-fragment`: cuts packets that are larger than the MTU into fragments (RFC 791 section 3.2, RFC 1812 section
//! 4.2.2.7).
//!
//! The packets come from `ip4-rewrite`, begin with their IPv4 header, and have their TTL counted down; the fragments go
//! back there as packets of the router's own. Each has a buffer to itself, so a fragment is at most as long as the data
//! of one buffer, whatever the MTU. Smaller packets of the same frame do not wait for the fragments of a larger one.
//!
//! A packet that is still to be cut into segments is cut into them first, and each of them into fragments.

use buf::layout::DATA_ROOM;
use buf::{Cache, FRAME_SIZE, Flags, Frame, Held, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use wire::ipv4::{self, Ipv4Header};
use wire::options::{COPIED, Options};

use crate::adjacency::Adjacency;
use crate::gso;
use crate::pieces::{Payload, inherit};
use crate::{Tables, checksum};

/// Bytes that a fragment offset counts by.
const UNIT: usize = 8;
/// Bytes of the longest header.
const MAX_HEADER: usize = 60;
/// The flag "more fragments" beside the fragment offset.
const MORE: u16 = 0x2000;

edges! { pub enum Next { Rewrite = "ip4-rewrite" } }
reasons! {
    pub enum Reason {
        Stale = "stale-adjacency", Info, "the neighbour went away while the packet was on its way";
        Gso = "bad-segmentation", Error, "the packet is to be cut into segments first, but its headers do not allow it or a segment has no room in a buffer";
        Header = "bad-header", Error, "the header is cut off, or its total length is not that of the packet";
        Offset = "bad-offset", Error, "the packet is itself a fragment, and ends where no packet can (65,535 bytes)";
        Checksum = "bad-checksum-place", Error, "the partial checksum is not in the packet's first segment";
        Mtu = "mtu-too-small", Error, "the MTU has no room for the header and 8 bytes; IPv4 needs one of 68";
        TooMany = "too-many-fragments", Warn, "the packet would be cut into more fragments or segments than fit in a frame";
        NoBuffer = "no-buffer", Warn, "not enough buffers were free for the fragments";
    }
}

/// The node. `segments` and `fragments` are empty between two packets.
pub struct Ip4Fragment {
    adjacencies: SlotReader<Adjacency>,
    segments: Box<Frame>,
    fragments: Box<Frame>,
}

impl Ip4Fragment {
    pub fn new(t: &Tables) -> Ip4Fragment {
        Ip4Fragment {
            adjacencies: t.adjacencies.clone(),
            segments: Box::default(),
            fragments: Box::default(),
        }
    }
}

impl FrameNode for Ip4Fragment {
    const NAME: &'static str = "ip4-fragment";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, _: &mut Cx<'_>, _: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        out.all(Verdict::Hold);
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut held: Held, out: &mut Out<'_, Next, Reason>) {
        let p = held.packet();
        let Some(adjacency) = self.adjacencies.get(cx.guard, p.fwd()) else {
            return out.drop(Reason::Stale, held);
        };
        let mtu = usize::from(adjacency.mtu);
        let Ip4Fragment { segments, fragments, .. } = self;
        if !p.flags().any(Flags::GSO) {
            return fragment(held, mtu, fragments, cx.bufs, out);
        }
        match gso::cut(&p, 0, segments, cx.bufs) {
            Ok(()) => {
                held.free(cx.bufs);
                segments.drain(|segment| fragment(segment, mtu, fragments, cx.bufs, out));
            }
            Err(e) => {
                segments.free(cx.bufs);
                let reason = match e {
                    gso::Reason::TooMany => Reason::TooMany,
                    gso::Reason::NoBuffer => Reason::NoBuffer,
                    _ => Reason::Gso,
                };
                out.drop(reason, held);
            }
        }
    }
}

/// Sends a packet on in fragments.
fn fragment(
    mut held: Held,
    mtu: usize,
    fragments: &mut Frame,
    bufs: &mut Cache,
    out: &mut Out<'_, Next, Reason>,
) {
    match cut(&mut held.packet(), mtu, fragments, bufs) {
        Ok(()) => {
            fragments.drain(|fragment| out.emit(Next::Rewrite, fragment));
            held.free(bufs);
        }
        Err(reason) => {
            fragments.free(bufs);
            out.drop(reason, held);
        }
    }
}

/// Cuts a packet into fragments of at most `mtu` bytes. After an error `fragments` holds some that are to be freed.
fn cut(p: &mut Packet<'_>, mtu: usize, fragments: &mut Frame, bufs: &mut Cache) -> Result<(), Reason> {
    let h = *p.head::<Ipv4Header>().ok_or(Reason::Header)?;
    let total = usize::from(h.total_len());
    if total > p.total_len() {
        return Err(Reason::Header);
    }
    // Padding is no part of the packet, and in no checksum.
    p.truncate(total, bufs);
    if p.flags().any(Flags::CSUM_PARTIAL) && !checksum::complete(p, 0) {
        return Err(Reason::Checksum);
    }
    let first = p.bytes().get(..h.header_len()).ok_or(Reason::Header)?;
    let (later, later_len) = later_header(first).ok_or(Reason::Header)?;
    let later = later.get(..later_len).ok_or(Reason::Header)?;
    let payload = total.checked_sub(first.len()).ok_or(Reason::Header)?;
    if usize::from(h.fragment_offset()) + payload > usize::from(u16::MAX) {
        return Err(Reason::Offset);
    }
    let room = |header: &[u8]| mtu.min(DATA_ROOM).checked_sub(header.len()).filter(|&room| room >= UNIT);
    let rooms = [room(first).ok_or(Reason::Mtu)?, room(later).ok_or(Reason::Mtu)?];
    let count = pieces(payload, rooms).take(FRAME_SIZE + 1).count();
    if count > fragments.room() {
        return Err(Reason::TooMany);
    }
    if fragments.alloc(bufs, count) < count {
        return Err(Reason::NoBuffer);
    }
    let kept = p.flags() & !(Flags::CSUM_PARTIAL | Flags::CHAINED) | Flags::LOCAL_ORIGIN;
    let mut bytes = Payload::behind(p.segments(), first.len());
    for (mut to, piece) in fragments.packets().zip(pieces(payload, rooms)) {
        let header = if piece.at == 0 { first } else { later };
        let len = header.len() + piece.len;
        let fragment = to.room_mut().get_mut(..len).ok_or(Reason::Mtu)?;
        let (front, body) = fragment.split_at_mut_checked(header.len()).ok_or(Reason::Header)?;
        front.copy_from_slice(header);
        let (front, _) = Ipv4Header::split_mut(front).ok_or(Reason::Header)?;
        front.set_total_len(len as u16);
        // Within the 13 bits: where the packet ends was checked.
        let place = h.flags_fragment() + (piece.at / UNIT) as u16;
        let is_last = piece.at + piece.len == payload;
        front.set_flags_fragment(if is_last { place } else { place | MORE });
        if !(bytes.copy(body) && ipv4::write_checksum(fragment)) {
            return Err(Reason::Header);
        }
        inherit(&mut to, p, kept, len);
    }
    fragments.note(kept);
    Ok(())
}

/// A part of the payload.
struct Piece {
    /// Where it begins, in bytes.
    at: usize,
    /// Its length in bytes.
    len: usize,
}

/// How a payload is shared out among fragments with room for so many bytes (at least 8) behind the header: the first
/// one, and each later one. There is at least one. Each but the last is a multiple of 8 bytes long.
fn pieces(payload: usize, [first, later]: [usize; 2]) -> impl Iterator<Item = Piece> {
    let piece = move |at: usize| {
        let (left, room) = (payload - at, if at == 0 { first } else { later });
        Piece { at, len: if left <= room { left } else { room - room % UNIT } }
    };
    std::iter::successors(Some(piece(0)), move |p| {
        let at = p.at + p.len;
        (at < payload).then(|| piece(at))
    })
}

/// The header of all fragments but the first, and its length: of the options those that every fragment has, filled up
/// with zeros. The list ends at an option whose length is impossible. `None` when the header is cut off.
fn later_header(first: &[u8]) -> Option<([u8; MAX_HEADER], usize)> {
    let mut header = [0; MAX_HEADER];
    let (fixed, options) = first.split_at_checked(Ipv4Header::LEN)?;
    header.get_mut(..fixed.len())?.copy_from_slice(fixed);
    let mut len = fixed.len();
    for option in Options::of(options).map_while(Result::ok).filter(|o| o.kind & COPIED != 0) {
        let end = len + option.bytes.len();
        header.get_mut(len..end)?.copy_from_slice(option.bytes);
        len = end;
    }
    len = len.next_multiple_of(4);
    Ipv4Header::split_mut(&mut header)?.0.set_ihl((len / 4) as u8);
    Some((header, len))
}
