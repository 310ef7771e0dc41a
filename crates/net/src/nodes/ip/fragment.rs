//! Fragments packets that are larger than the MTU (RFC 791 section 3.2, RFC 1812 section 4.2.2.7; RFC 8200
//! section 4.5).
//!
//! The packets begin with their IP header, and their TTL is already decremented. Each fragment uses one
//! buffer, so it is at most as long as a buffer's data area, even if the MTU is larger.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};

use buf::layout::DATA_ROOM;
use buf::{Cache, FRAME_SIZE, Flags, Frame, Packet};
use wire::extension::{Extensions, Fragment};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, Ipv6Header};
use wire::options::{COPIED, Options};
use wire::protocol;

use super::rewrite::Reason;
use crate::checksum;
use crate::ip::Packets;
use crate::pieces::{Payload, inherit};

/// Unit of a fragment offset in bytes.
const UNIT: usize = 8;
/// Maximum length of a fragment's headers in bytes. IPv4 needs 60; this router's own IPv6 packets never have
/// more than this.
const MAX_HEADER: usize = 128;
/// The "more fragments" flag in the same 16 bits as the IPv4 fragment offset.
const MORE: u16 = 0x2000;

/// The headers of a fragment, and the number of bytes that they use.
type Headers = ([u8; MAX_HEADER], usize);

/// The plan by which a packet is fragmented.
pub struct Fragments {
    /// Number of bytes at the packet's start that are not divided among the fragments.
    front: usize,
    /// The headers of the first fragment.
    first: Headers,
    /// The headers of all other fragments.
    later: Headers,
}

/// Identifications of IPv6 fragments: hashes of a counter with a secret key. Earlier values do not reveal the
/// next one (RFC 7739 section 3).
#[derive(Default)]
pub struct Ids {
    key: RandomState,
    last: u64,
}

impl Ids {
    fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.key.hash_one(self.last) as u32
    }
}

/// A family whose packets can be fragmented.
pub trait Cut: Packets {
    /// Maximum length of a fragment in bytes, even if the link can carry more.
    const LONGEST: usize;

    /// Returns the headers for the fragments of a packet. The packet begins with `headers`, and its length is
    /// `total` bytes. IPv6 fragments get an identification from `ids`.
    ///
    /// # Errors
    /// The reason why the packet cannot be fragmented.
    fn headers(headers: &[u8], total: usize, ids: &mut Ids) -> Result<Fragments, Reason>;
    /// Completes the headers of a fragment, which are `header` bytes long. The fragment's data begins at offset `at` of the
    /// packet's payload. `is_last` is true if the data ends the payload. Returns false if the headers are truncated.
    fn complete(fragment: &mut [u8], header: usize, at: usize, is_last: bool) -> bool;
}

/// Cuts a packet into fragments of at most `mtu` bytes, and adds them to `fragments`. After an error, the
/// caller frees the packets in `fragments`.
pub fn cut<A: Cut>(
    p: &mut Packet<'_>,
    mtu: usize,
    ids: &mut Ids,
    fragments: &mut Frame,
    bufs: &mut Cache,
) -> Result<(), Reason> {
    let total = A::said(p.head().ok_or(Reason::Header)?);
    if total > p.total_len() {
        return Err(Reason::Header);
    }
    // Remove padding, which belongs neither to the packet nor to a checksum.
    p.truncate(total, bufs);
    if p.flags().any(Flags::CSUM_PARTIAL) && !checksum::complete_network(p) {
        return Err(Reason::Checksum);
    }
    let Fragments { front, first, later } = A::headers(p.bytes(), total, ids)?;
    let first = first.0.get(..first.1).ok_or(Reason::Header)?;
    let later = later.0.get(..later.1).ok_or(Reason::Header)?;
    let payload = total.checked_sub(front).ok_or(Reason::Header)?;
    let most = mtu.min(DATA_ROOM).min(A::LONGEST);
    let room = |header: &[u8]| most.checked_sub(header.len()).filter(|&room| room >= UNIT);
    let rooms = [room(first).ok_or(Reason::Mtu)?, room(later).ok_or(Reason::Mtu)?];
    let count = pieces(payload, rooms).take(FRAME_SIZE + 1).count();
    if count > fragments.room() {
        return Err(Reason::TooMany);
    }
    if fragments.alloc(bufs, count) < count {
        return Err(Reason::NoBuffer);
    }
    let kept = p.flags() & !(Flags::CSUM_PARTIAL | Flags::CHAINED);
    let mut bytes = Payload::behind(p.segments(), front);
    for (mut to, piece) in fragments.packets().zip(pieces(payload, rooms)) {
        let header = if piece.at == 0 { first } else { later };
        let len = header.len() + piece.len;
        let fragment = to.room_mut().get_mut(..len).ok_or(Reason::Mtu)?;
        let (front, body) = fragment.split_at_mut_checked(header.len()).ok_or(Reason::Header)?;
        front.copy_from_slice(header);
        let is_last = piece.at + piece.len == payload;
        if !(bytes.copy(body) && A::complete(fragment, header.len(), piece.at, is_last)) {
            return Err(Reason::Header);
        }
        inherit(&mut to, p, kept, len);
    }
    fragments.note(kept);
    Ok(())
}

impl Cut for Ipv4Addr {
    const LONGEST: usize = usize::MAX;

    fn headers(headers: &[u8], total: usize, _: &mut Ids) -> Result<Fragments, Reason> {
        let (h, _) = Ipv4Header::split(headers).ok_or(Reason::Header)?;
        let front = h.header_len();
        if usize::from(h.fragment_offset()) + total.saturating_sub(front) > usize::from(u16::MAX) {
            return Err(Reason::Offset);
        }
        let all = headers.get(..front).ok_or(Reason::Header)?;
        let mut first = [0; MAX_HEADER];
        first.get_mut(..front).ok_or(Reason::Header)?.copy_from_slice(all);
        let later = later_header(all).ok_or(Reason::Header)?;
        Ok(Fragments { front, first: (first, front), later })
    }

    fn complete(fragment: &mut [u8], _: usize, at: usize, is_last: bool) -> bool {
        let len = fragment.len() as u16;
        let Some((h, _)) = Ipv4Header::split_mut(fragment) else { return false };
        h.set_total_len(len);
        // This fits into 13 bits: the end of the packet was checked. The packet may be a fragment itself.
        let place = h.flags_fragment() + (at / UNIT) as u16;
        h.set_flags_fragment(if is_last { place } else { place | MORE });
        ipv4::write_checksum(fragment)
    }
}

impl Cut for Ipv6Addr {
    /// The router has no path MTU discovery, so every link must be able to carry the fragments (RFC 8200
    /// section 5).
    const LONGEST: usize = ipv6::MIN_MTU as usize;

    /// The fragment header follows the headers that routers on the path process (RFC 8200 section 4.5).
    fn headers(headers: &[u8], _: usize, ids: &mut Ids) -> Result<Fragments, Reason> {
        let mut chain = Extensions::of(headers);
        let (mut front, mut named_at, mut protocol) = (chain.at(), chain.named_at(), chain.protocol());
        while let Some(Ok(header)) = chain.next() {
            if matches!(header.kind, protocol::HOP_BY_HOP | protocol::ROUTING) {
                (front, named_at, protocol) = (chain.at(), chain.named_at(), chain.protocol());
            }
        }
        let len = front + Fragment::LEN;
        let mut all = [0; MAX_HEADER];
        let (before, fragment) =
            all.get_mut(..len).and_then(|all| all.split_at_mut_checked(front)).ok_or(Reason::Header)?;
        before.copy_from_slice(headers.get(..front).ok_or(Reason::Header)?);
        *before.get_mut(named_at).ok_or(Reason::Header)? = protocol::FRAGMENT;
        let header = Fragment { at: front, protocol, offset: 0, more: false, id: ids.next() };
        fragment.copy_from_slice(&header.to_bytes());
        Ok(Fragments { front, first: (all, len), later: (all, len) })
    }

    fn complete(fragment: &mut [u8], header: usize, at: usize, is_last: bool) -> bool {
        let payload = fragment.len().saturating_sub(Ipv6Header::LEN) as u16;
        let Some((h, _)) = Ipv6Header::split_mut(fragment) else { return false };
        h.set_payload_len(payload);
        let place = header.saturating_sub(Fragment::LEN) + 2;
        let Some(field) = fragment.get_mut(place..place + 2) else { return false };
        field.copy_from_slice(&(at as u16 | u16::from(!is_last)).to_be_bytes());
        true
    }
}

/// The part of the payload that one fragment carries.
struct Piece {
    /// Offset of the piece in the payload, in bytes.
    at: usize,
    /// Length of the piece in bytes.
    len: usize,
}

/// Divides a payload of `payload` bytes among fragments. The first fragment has room for `first` bytes after
/// its header, and every later one for `later` bytes; both are at least 8. There is at least one piece. The
/// length of every piece except the last is a multiple of 8 bytes.
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

/// Returns the header of all IPv4 fragments except the first; `None` if the header `first` is truncated. The returned header has only those
/// options that are copied into every fragment, padded with zeros. The first option with an invalid length and all options after it are
/// left out.
fn later_header(first: &[u8]) -> Option<Headers> {
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
