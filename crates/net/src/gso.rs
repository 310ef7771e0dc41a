//! Segmentation in software. It cuts large TCP and UDP packets into segments, and completes partial checksums. It is used for devices
//! without these offloads, and for links with a smaller MTU.
//!
//! Each segment gets its own buffer, with a copy of its payload.

use buf::{Cache, Flags, Frame, GsoKind, Packet};
use wire::checksum::finish_partial;
use wire::gso::{Kind, Segmentation};
use wire::{EthernetHeader, Ipv4Header, Ipv6Header, VlanTag, ethertype};

use crate::checksum;
use crate::pieces::{Payload, inherit};

/// The reason why a packet cannot be segmented, or why its checksum cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The headers are truncated or invalid, or are not those of the protocol for which segmentation was requested.
    Headers,
    /// The segments would not fit in one frame (256 packets).
    TooMany,
    /// A segment would not fit in a buffer.
    TooLarge,
    /// Too few free buffers.
    NoBuffer,
    /// The checksum field is not in the first of the packet's buffers.
    Checksum,
}

/// Returns the length in bytes of the link header, VLAN tags included; `None` if the frame ends within the link header.
pub fn link_len(frame: &[u8]) -> Option<usize> {
    let (ethernet, mut rest) = EthernetHeader::split(frame)?;
    let (mut kind, mut len) = (ethernet.ethertype(), EthernetHeader::LEN);
    while ethertype::is_vlan(kind) {
        let (tag, behind) = VlanTag::split(rest)?;
        (kind, rest, len) = (tag.ethertype(), behind, len + VlanTag::LEN);
    }
    Some(len)
}

/// Completes the partial checksum of a packet that begins with its link header.
pub fn complete(p: &mut Packet<'_>) -> Result<(), Fault> {
    if checksum::complete_frame(p) { Ok(()) } else { Err(Fault::Checksum) }
}

/// Returns the packet length according to its IPv4 or IPv6 header, in bytes.
fn said_len(l3: &[u8]) -> Option<usize> {
    match l3.first()? >> 4 {
        6 => Ipv6Header::split(l3).map(|(ip, _)| ip.total_len()),
        _ => Ipv4Header::split(l3).map(|(ip, _)| usize::from(ip.total_len())),
    }
}

/// Returns how to segment a packet whose network header begins at `l3`.
fn plan(p: &Packet<'_>, l3: usize) -> Result<Segmentation, Fault> {
    let gso = p.cold().gso().ok_or(Fault::Headers)?;
    let frame = p.bytes();
    let version = frame.get(l3).map(|first| first >> 4);
    let kind = match (gso.kind, version) {
        (GsoKind::Tcp4, Some(4)) | (GsoKind::Tcp6, Some(6)) => Kind::Tcp,
        (GsoKind::UdpL4, Some(4 | 6)) => Kind::Udp,
        _ => return Err(Fault::Headers),
    };
    let said = frame.get(l3..).and_then(said_len).ok_or(Fault::Headers)?;
    let end = p.total_len().min(l3 + said);
    let plan = |payload| Segmentation::new(kind, frame, l3, payload, gso.size).map_err(|_| Fault::Headers);
    let headers = plan(0)?.header_len();
    plan(end.checked_sub(headers).ok_or(Fault::Headers)?)
}

/// Cuts a packet whose network header begins at `l3` into segments, each in one buffer and with complete checksums. After an error, the
/// caller frees the packets left in `segments`.
pub fn cut(p: &Packet<'_>, l3: usize, segments: &mut Frame, bufs: &mut Cache) -> Result<(), Fault> {
    let plan = plan(p, l3)?;
    if plan.count() > segments.room() {
        return Err(Fault::TooMany);
    }
    if segments.alloc(bufs, plan.count()) < plan.count() {
        return Err(Fault::NoBuffer);
    }
    let headers = plan.header_len();
    let mut payload = Payload::behind(p.segments(), headers);
    let kept = p.flags() & !(Flags::GSO | Flags::CSUM_PARTIAL | Flags::CHAINED);
    for (mut to, segment) in segments.packets().zip(plan.segments()) {
        let len = headers + segment.len;
        let room = to.room_mut().get_mut(..len).ok_or(Fault::TooLarge)?;
        let (_, body) = room.split_at_mut_checked(headers).ok_or(Fault::Headers)?;
        let whole = payload.copy(body)
            && plan.write_headers(p.bytes(), &segment, room)
            && finish_partial(room, [], plan.csum_start(), plan.csum_offset());
        if !whole {
            return Err(Fault::Headers);
        }
        inherit(&mut to, p, kept, len);
    }
    segments.note(kept);
    Ok(())
}
