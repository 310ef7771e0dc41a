//! Checks that frames arrive as a router should leave them (RFC 2544 section 10: the length is checked, too).
//!
//! A router may change the Ethernet header, VLAN tags, addresses and ports (NAT), the traffic class and the flow label. It must lower the
//! time to live, keep length and payload, and leave valid checksums.

use std::ops::RangeInclusive;

use drivers::pktgen::{StreamError, Template};
use wire::checksum::Sum;
use wire::ipv4::protocol;

use super::stamp::{LEN, Place};

/// Maximum length in bytes of a frame with padding: 60 bytes without frame check sequence, plus two VLAN tags (IEEE 802.3 clause
/// 4.4.2).
const PADDED: usize = 68;

/// Damage of a frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The IP packet has a length that its template cannot have, or the frame is not as long as its headers state. Padding up to 68 bytes
    /// is no damage.
    Length,
    /// The checksum of the IPv4 header, or of UDP, TCP or ICMP, is wrong, or the IP version is wrong.
    Checksum,
    /// The time to live, or hop limit, was not lowered by one for each router on the way.
    Ttl,
    /// The payload is not the one sent, although the frame's checksums are right.
    Payload,
}

/// The frames of a stream as they should arrive.
pub struct Expected {
    kinds: Box<[Kind]>,
    /// For each position of the pattern, the index in `kinds`. The pattern is the order in which templates are used, and repeats.
    order: Box<[u16]>,
}

/// The frames of a template as they should arrive.
struct Kind {
    is_ipv4: bool,
    /// Minimum and maximum length of the IP packet, in bytes.
    lengths: RangeInclusive<usize>,
    /// Time to live or hop limit on arrival; `None` if it varies.
    ttl: Option<u8>,
    /// The bytes that follow the tester's stamp in the longest frame; `None` if some of them vary.
    payload: Option<Box<[u8]>>,
    /// Sum of `payload` as in checksums; 0 if `payload` is `None`.
    sum: Sum,
}

impl Expected {
    /// Returns the frames of these templates as they should arrive after `hops` routers. `order` has the template's index for each position
    /// of the pattern.
    ///
    /// # Errors
    /// Returns an error if a template has no room for the tester's stamp.
    pub fn new(templates: &[Template], order: &[u16], hops: u8) -> Result<Expected, StreamError> {
        let kinds = templates.iter().map(|template| Kind::new(template, hops));
        Ok(Expected { kinds: kinds.collect::<Result<_, _>>()?, order: order.into() })
    }

    /// Returns the position in the pattern of the frame with this sequence number.
    #[cold]
    pub fn turn(&self, sequence: u64) -> usize {
        sequence.checked_rem(self.order.len() as u64).unwrap_or_default() as usize
    }

    /// Returns the position in the pattern after position `turn`. After the last position, this is 0.
    #[inline(always)]
    pub fn after(&self, turn: usize) -> usize {
        if turn + 1 < self.order.len() { turn + 1 } else { 0 }
    }

    /// Checks a frame against the template at position `turn` of the pattern.
    ///
    /// # Errors
    /// Returns the first damage found.
    #[inline(always)]
    pub fn check(&self, turn: usize, frame: &[u8], place: Place) -> Result<(), Damage> {
        let kind = self.order.get(turn).and_then(|kind| self.kinds.get(usize::from(*kind)));
        match kind.map(|kind| kind.check(frame, place)) {
            // The place was found in an earlier frame, which may have had other headers.
            Some(Err(damage)) => self.check_again(turn, frame, damage),
            _ => Ok(()),
        }
    }

    #[cold]
    fn check_again(&self, turn: usize, frame: &[u8], damage: Damage) -> Result<(), Damage> {
        let kind = self.order.get(turn).and_then(|kind| self.kinds.get(usize::from(*kind)));
        match (kind, Place::find(frame)) {
            (Some(kind), Some(place)) => kind.check(frame, place),
            _ => Err(damage),
        }
    }
}

impl Kind {
    fn new(template: &Template, hops: u8) -> Result<Kind, StreamError> {
        let mut longest = template.bytes.clone();
        longest.resize(*template.size.end(), 0);
        let none = || StreamError("the frame has no room for the tester's stamp".into());
        let place = Place::find(&longest).ok_or_else(none)?;
        let is_ipv4 = longest.get(place.ip).is_some_and(|first| first >> 4 == 4);
        let varies = |from: usize, to: usize| {
            template.fields.iter().any(|f| f.offset < to && from < f.offset + f.width)
        };
        let at = place.ip + if is_ipv4 { 8 } else { 7 };
        let ttl = longest.get(at).filter(|_| !varies(at, at + 1)).map(|ttl| ttl.saturating_sub(hops));
        let from = place.at + LEN;
        let payload = longest.get(from..).filter(|_| !varies(from, longest.len()));
        Ok(Kind {
            is_ipv4,
            lengths: template.size.start() - place.ip..=template.size.end() - place.ip,
            ttl,
            sum: payload.map_or(Sum::ZERO, Sum::of),
            payload: payload.map(Into::into),
        })
    }

    #[inline(always)]
    fn check(&self, frame: &[u8], place: Place) -> Result<(), Damage> {
        let packet = frame.get(place.ip..).ok_or(Damage::Length)?;
        let (&header, _) = packet.split_first_chunk::<20>().ok_or(Damage::Length)?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let (len, ttl, next, pseudo) = if self.is_ipv4 {
            if header[0] >> 4 != 4 {
                return Err(Damage::Checksum);
            }
            let options = packet.get(20..place.transport - place.ip).ok_or(Damage::Length)?;
            let sum = Sum::of(&header);
            let sum = if options.is_empty() { sum } else { sum.plus(Sum::of(options)) };
            if !sum.is_valid() {
                return Err(Damage::Checksum);
            }
            (usize::from(word(2)), header[8], header[9], Sum::of(&header[12..20]))
        } else {
            let (addresses, _) =
                packet.get(8..).and_then(|p| p.split_first_chunk::<32>()).ok_or(Damage::Length)?;
            if header[0] >> 4 != 6 {
                return Err(Damage::Checksum);
            }
            (40 + usize::from(word(4)), header[7], header[6], Sum::of(addresses))
        };
        // Short frames are padded, and a router that removes a tag adds padding.
        let is_padding = packet.len() > len && frame.len() <= PADDED;
        if !self.lengths.contains(&len) || (packet.len() != len && !is_padding) {
            return Err(Damage::Length);
        }
        if self.ttl.is_some_and(|expected| ttl != expected) {
            return Err(Damage::Ttl);
        }
        let start = place.transport - place.ip;
        let from = place.at + LEN - place.ip;
        let (head, payload) =
            (packet.get(start..from).ok_or(Damage::Length)?, packet.get(from..len).ok_or(Damage::Length)?);
        // An empty slice is not compared: the masked load of a fast comparison would touch its dangling pointer, which takes 150 clocks.
        let is_same = self
            .payload
            .as_deref()
            .and_then(|p| p.get(..payload.len()))
            .map(|p| payload.is_empty() || p == payload);
        let sum = match is_same {
            Some(true) if self.payload.as_deref().is_some_and(|p| p.len() == payload.len()) => self.sum,
            _ => Sum::of(payload),
        };
        // Headers of UDP and ICMP have 8 bytes: a fixed length makes the sum cheap.
        let head = match <&[u8; 8 + LEN]>::try_from(head) {
            Ok(head) => Sum::of(head),
            Err(_) => Sum::of(head),
        };
        let pseudo = match next {
            protocol::ICMP => Sum::ZERO,
            _ => pseudo.plus(Sum::of_u16(next.into())).plus(Sum::of_u16((len - start) as u16)),
        };
        if !pseudo.plus(head).plus(sum).is_valid() {
            return Err(Damage::Checksum);
        }
        if is_same == Some(false) { Err(Damage::Payload) } else { Ok(()) }
    }
}

/// Recomputes the checksums of a frame with a stamp, as a router does after it has changed addresses.
#[cfg(test)]
pub(crate) fn repair(frame: &mut [u8]) {
    let place = Place::find(frame).expect("a frame with a stamp");
    let (ip, transport) = (place.ip, place.transport);
    let length = frame.len() - transport;
    let (next, addresses) = if frame[ip] >> 4 == 4 {
        frame[ip + 10..ip + 12].fill(0);
        let sum = wire::checksum::checksum(&frame[ip..transport]);
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        (frame[ip + 9], ip + 12..ip + 20)
    } else {
        (frame[ip + 6], ip + 8..ip + 40)
    };
    frame[place.checksum..place.checksum + 2].fill(0);
    let pseudo = Sum::of(&frame[addresses]).plus(Sum::of_u16(next.into())).plus(Sum::of_u16(length as u16));
    let pseudo = if next == protocol::ICMP { Sum::ZERO } else { pseudo };
    let sum = pseudo.plus(Sum::of(&frame[transport..])).checksum_nonzero();
    frame[place.checksum..place.checksum + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
