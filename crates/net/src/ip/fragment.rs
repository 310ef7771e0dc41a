//! Cuts packets that are larger than the MTU into fragments (RFC 791 section 3.2, RFC 1812 section 4.2.2.7).
//!
//! The packets begin with their IPv4 header, and have their TTL counted down. Each fragment has a buffer to itself, so it is
//! at most as long as the data of one buffer, whatever the MTU.

use buf::layout::DATA_ROOM;
use buf::{Cache, FRAME_SIZE, Flags, Frame, Packet};
use wire::ipv4::{self, Ipv4Header};
use wire::options::{COPIED, Options};

use super::rewrite::Reason;
use crate::checksum;
use crate::pieces::{Payload, inherit};

/// Bytes that a fragment offset counts by.
const UNIT: usize = 8;
/// Bytes of the longest header.
const MAX_HEADER: usize = 60;
/// The flag "more fragments" beside the fragment offset.
const MORE: u16 = 0x2000;

/// Cuts a packet into fragments of at most `mtu` bytes. After an error `fragments` holds some that are to be freed.
pub fn cut(p: &mut Packet<'_>, mtu: usize, fragments: &mut Frame, bufs: &mut Cache) -> Result<(), Reason> {
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
    let kept = p.flags() & !(Flags::CSUM_PARTIAL | Flags::CHAINED);
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
