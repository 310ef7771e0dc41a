//! Compiles a stream's description into a packet builder. All checks and constant computations happen here, once.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use buf::layout::DATA_ROOM;
use infra::hash::mix64;
use wire::checksum::Sum;
use wire::ethernet::ethertype;
use wire::ipv4::protocol;

use super::stream::{Field, Mode, Sizes, Stream, StreamError, Template};

/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;

/// A random number generator (SplitMix64): fast, and random enough for destination addresses.
struct Random(u64);

impl Random {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    /// Returns a random number from 0 to `max`.
    #[inline(always)]
    fn up_to(&mut self, max: u64) -> u64 {
        // The product is less than 2^128, because both factors are at most 2^64.
        ((u128::from(self.next()) * (u128::from(max) + 1)) >> 64) as u64
    }
}

/// A compiled field. With `Value::Random`, `min + more` is the largest value.
struct Vary {
    at: usize,
    width: usize,
    value: Value,
    /// For checksums: true if the field's last byte is the upper byte of a 16-bit word.
    upper: bool,
    /// True if the field's value is added to the IPv4 header checksum of each packet.
    in_header: bool,
    /// For [`Follow::Parts`]: true if the field's value is added to the transport checksum of each packet.
    in_transport: bool,
}

enum Value {
    Increment { now: u64, min: u64, max: u64, step: u64 },
    Random { min: u64, more: u64 },
    Size { less: usize },
    List { values: Arc<[u64]>, next: usize },
}

/// A compiled template.
struct Mold {
    /// The bytes of the template, as many as the longest packet has.
    bytes: Box<[u8]>,
    least: usize,
    /// The next size, if sizes increase.
    increasing: Option<usize>,
    fields: Box<[Vary]>,
    /// The constant part of the IPv4 header's sum: all bytes except the checksum field and the fields whose `in_header` is true.
    /// `None` if no field has `in_header`.
    header: Option<Sum>,
    /// Byte range of the IPv4 header checksum.
    header_checksum: Range<usize>,
    transport: Option<Follow>,
}

/// How a packet's transport checksum is computed.
enum Follow {
    /// The sum is taken over the whole packet, because sizes differ or the checksum covers only a part of a field.
    Whole(Transport),
    /// The sum is the constant sum over the bytes that do not vary, plus the varying fields.
    Parts(Transport, Sum),
}

/// A transport header whose checksum is computed for each packet.
#[derive(Clone, Copy)]
struct Transport {
    /// Offset of the header from the start of the packet.
    at: usize,
    /// Offset of the checksum field from the start of the packet.
    checksum: usize,
    protocol: u8,
    /// Offset from the start of the packet, and length, of the IP addresses that the checksum's pseudo header has; `None` if there is no
    /// pseudo header.
    addresses: Option<(usize, usize)>,
}

impl Transport {
    /// Finds the transport header of a packet, if there is one.
    fn find(bytes: &[u8]) -> Option<Transport> {
        let (kind, ip) = network(bytes)?;
        let (at, protocol, addresses) = match kind {
            ethertype::IPV4 => (ip4_header(bytes)?.end, *bytes.get(ip + 9)?, (ip + 12, 8)),
            ethertype::IPV6 => (ip + 40, *bytes.get(ip + 6)?, (ip + 8, 32)),
            _ => return None,
        };
        let (len, checksum) = match protocol {
            protocol::UDP => (8, 6),
            protocol::TCP => (20, 16),
            protocol::ICMP | protocol::ICMPV6 => (8, 2),
            _ => return None,
        };
        let addresses = (protocol != protocol::ICMP).then_some(addresses);
        (at + len <= bytes.len()).then_some(Transport { at, checksum: at + checksum, protocol, addresses })
    }

    /// Returns the sum over the bytes that the checksum covers, with the pseudo header. The checksum field must be 0.
    fn sum(self, out: &[u8]) -> Sum {
        let Some(all) = out.get(self.at..) else { return Sum::ZERO };
        let sum = Sum::of(all);
        match self.addresses.and_then(|(at, len)| out.get(at..at + len)) {
            // The protocol and the length, one word each.
            Some(addresses) => sum
                .plus(Sum::of(addresses))
                .plus(Sum::of_u32(u32::from(self.protocol) << 16 | all.len() as u32)),
            None => sum,
        }
    }

    /// Writes the checksum for this sum.
    #[inline(always)]
    fn write(self, out: &mut [u8], sum: Sum) {
        // A UDP checksum of 0 means that there is no checksum (RFC 768).
        let checksum = if self.protocol == protocol::UDP { sum.checksum_nonzero() } else { sum.checksum() };
        if let Some(field) = out.get_mut(self.checksum..self.checksum + 2) {
            field.copy_from_slice(&checksum.to_be_bytes());
        }
    }

    /// Computes and writes the checksum of a complete packet.
    fn compute(self, out: &mut [u8]) {
        if let Some(field) = out.get_mut(self.checksum..self.checksum + 2) {
            field.fill(0);
        }
        self.write(out, self.sum(out));
    }

    /// Returns `Some(true)` if the checksum covers `place`, `Some(false)` if it does not, and `None` if it covers only a part.
    fn covers(self, place: &Range<usize>) -> Option<bool> {
        let addresses = self.addresses.map_or(0..0, |(at, len)| at..at + len);
        let within = |all: &Range<usize>| all.start <= place.start && place.end <= all.end;
        let apart = |all: &Range<usize>| place.end <= all.start || all.end <= place.start;
        let (own, all) = (self.at..usize::MAX, [within(&(self.at..usize::MAX)), within(&addresses)]);
        if all.contains(&true) { Some(true) } else { (apart(&own) && apart(&addresses)).then_some(false) }
    }
}

/// Builds the packets of a stream from its templates, one after the other.
pub struct Maker {
    molds: Box<[Mold]>,
    /// Cumulative weights of the templates; empty if there is only one template.
    cumulated: Box<[u64]>,
    random: Random,
}

impl Maker {
    /// Compiles a stream. The rate is only checked; the caller applies the rate and the limit.
    ///
    /// # Errors
    /// If the stream's description is invalid.
    pub fn new(stream: &Stream) -> Result<Maker, StreamError> {
        check_stream(stream)?;
        if stream.templates.is_empty() {
            return Err(StreamError(format!("stream {}: no template: add one", stream.name)));
        }
        let mut molds = Vec::new();
        for (i, template) in stream.templates.iter().enumerate() {
            let named = |e: String| StreamError(format!("stream {}, template {i}: {e}", stream.name));
            molds.push(Mold::new(template).map_err(named)?);
        }
        let mut total = 0;
        let weigh = |t: &Template| {
            total += u64::from(t.weight);
            total
        };
        let cumulated =
            if molds.len() > 1 { stream.templates.iter().map(weigh).collect() } else { Box::default() };
        Ok(Maker { molds: molds.into(), cumulated, random: Random(stream.seed) })
    }

    /// Builds the next packet at the front of `room`, which needs [`DATA_ROOM`] bytes. Returns the packet's length, or 0 if `room` is too
    /// small.
    #[inline]
    pub fn make(&mut self, room: &mut [u8]) -> usize {
        let chosen = match self.cumulated.last() {
            Some(&total) => {
                let at = self.random.up_to(total - 1);
                self.cumulated.partition_point(|&c| c <= at)
            }
            None => 0,
        };
        match self.molds.get_mut(chosen) {
            Some(mold) => mold.make(&mut self.random, room),
            None => 0,
        }
    }
}

/// Checks the properties that streams of templates and streams of recorded packets have in common.
///
/// # Errors
/// If the vector size or the rate is out of its range.
pub(super) fn check_stream(stream: &Stream) -> Result<(), StreamError> {
    let wrong = |what: &str| Err(StreamError(format!("stream {}: {what}", stream.name)));
    if !(1..=buf::FRAME_SIZE).contains(&stream.vector) {
        return wrong(&format!("the vector size must be 1 to {}, not {}", buf::FRAME_SIZE, stream.vector));
    }
    if stream.rate_pps.is_some_and(|r| !r.is_finite() || r <= 0.0) {
        return wrong("the rate must be more than 0 packets per second");
    }
    Ok(())
}

impl Mold {
    fn new(t: &Template) -> Result<Mold, String> {
        check_sizes(&t.size)?;
        let (least, most) = (*t.size.start(), *t.size.end());
        if t.weight == 0 {
            return Err("the weight is 0: set at least 1, or remove the template".into());
        }
        let mut bytes = t.bytes.clone();
        bytes.resize(most, 0);

        let mut fields = Vec::new();
        let mut taken: Vec<Range<usize>> = Vec::new();
        for (i, f) in t.fields.iter().enumerate() {
            let field = check(f, least, most, &bytes).map_err(|e| format!("field {i}: {e}"))?;
            let place = f.offset..f.offset + f.width;
            if let Some(k) = taken.iter().position(|p| p.start < place.end && place.start < p.end) {
                return Err(format!("field {i}: it overlaps field {k}"));
            }
            taken.push(place);
            fields.push(field);
        }
        let mut blank = bytes.clone();
        for f in &fields {
            blank[f.at..f.at + f.width].fill(0);
        }
        let ip4 = ip4_header(&bytes).unwrap_or(0..0);
        let header_checksum = if ip4.is_empty() { 0..0 } else { ip4_checksum(&ip4) };
        let header = fields.iter().any(|f| f.in_header).then(|| {
            let mut blank = blank.clone();
            // Fields that do not update the checksum count with their template's bytes.
            for f in fields.iter().filter(|f| !f.in_header) {
                blank[f.at..f.at + f.width].copy_from_slice(&bytes[f.at..f.at + f.width]);
            }
            blank[header_checksum.clone()].fill(0);
            Sum::of(&blank[ip4.clone()])
        });
        let transport = match t.l4_checksum {
            true => Some(Transport::find(&bytes[..least]).ok_or(
                "cannot compute the checksum: the shortest packet has no UDP, TCP or ICMP header after an IP header",
            )?),
            false => None,
        };
        if let Some(sum) = transport
            && let Some(i) = taken.iter().position(|p| p.start < sum.checksum + 2 && sum.checksum < p.end)
        {
            return Err(format!("field {i}: it overlaps the computed checksum"));
        }
        let transport = transport.map(|sum| {
            let covered: Option<Vec<bool>> = taken.iter().map(|place| sum.covers(place)).collect();
            match covered {
                Some(covered) if least == most => {
                    fields.iter_mut().zip(covered).for_each(|(f, covered)| f.in_transport = covered);
                    blank[sum.checksum..sum.checksum + 2].fill(0);
                    Follow::Parts(sum, sum.sum(&blank))
                }
                _ => Follow::Whole(sum),
            }
        });
        let increasing = (t.sizes == Sizes::Increasing).then_some(least);
        Ok(Mold {
            bytes: bytes.into(),
            least,
            increasing,
            fields: fields.into(),
            header,
            header_checksum,
            transport,
        })
    }

    #[inline(always)]
    fn make(&mut self, random: &mut Random, room: &mut [u8]) -> usize {
        let most = self.bytes.len();
        let len = match &mut self.increasing {
            Some(next) => {
                let len = *next;
                *next = if len < most { len + 1 } else { self.least };
                len
            }
            None if most == self.least => most,
            None => self.least + random.up_to((most - self.least) as u64) as usize,
        };
        let (Some(from), Some(out)) = (self.bytes.get(..len), room.get_mut(..len)) else { return 0 };
        out.copy_from_slice(from);
        let (mut header, mut covered) = (self.header, Sum::ZERO);
        for f in &mut self.fields {
            let value = match &mut f.value {
                Value::Increment { now, min, max, step } => {
                    let value = *now;
                    *now = value.checked_add(*step).filter(|next| next <= max).unwrap_or(*min);
                    value
                }
                Value::Random { min, more } => *min + random.up_to(*more),
                Value::Size { less } => (len - *less) as u64,
                Value::List { values, next } => {
                    let value = values.get(*next).copied().unwrap_or_default();
                    *next = if *next + 1 < values.len() { *next + 1 } else { 0 };
                    value
                }
            };
            put(out, f.at, f.width, value);
            if f.in_header || f.in_transport {
                let part = Sum::of_u64(value);
                let part = if f.upper { part.at_odd_offset() } else { part };
                if let (true, Some(header)) = (f.in_header, &mut header) {
                    *header = header.plus(part);
                }
                if f.in_transport {
                    covered = covered.plus(part);
                }
            }
        }
        if let (Some(sum), Some(field)) = (header, out.get_mut(self.header_checksum.clone())) {
            field.copy_from_slice(&sum.checksum().to_be_bytes());
        }
        match self.transport {
            Some(Follow::Parts(transport, rest)) => transport.write(out, rest.plus(covered)),
            Some(Follow::Whole(transport)) => transport.compute(out),
            None => {}
        }
        len
    }
}

/// Writes the low `width` bytes of `value` at `at`.
#[inline(always)]
fn put(out: &mut [u8], at: usize, width: usize, value: u64) {
    #[inline(always)]
    fn fixed<const N: usize>(out: &mut [u8], at: usize, value: u64) {
        if let (Some(to), Some(from)) = (out.get_mut(at..at + N), value.to_be_bytes().last_chunk::<N>()) {
            to.copy_from_slice(from);
        }
    }
    // A constant width compiles to one store, a variable width to a call.
    match width {
        1 => fixed::<1>(out, at, value),
        2 => fixed::<2>(out, at, value),
        3 => fixed::<3>(out, at, value),
        4 => fixed::<4>(out, at, value),
        5 => fixed::<5>(out, at, value),
        6 => fixed::<6>(out, at, value),
        7 => fixed::<7>(out, at, value),
        _ => fixed::<8>(out, at, value),
    }
}

/// Returns the EtherType and the offset of the network header, after Ethernet and any VLAN tags; `None` if the packet is too short.
fn network(bytes: &[u8]) -> Option<(u16, usize)> {
    let word = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let (mut kind, mut at) = (word(12)?, ETHERNET);
    while ethertype::is_vlan(kind) {
        (kind, at) = (word(at + 2)?, at + 4);
    }
    Some((kind, at))
}

/// Returns the byte range of a packet's IPv4 header, if it has one.
fn ip4_header(bytes: &[u8]) -> Option<Range<usize>> {
    let (kind, at) = network(bytes)?;
    let first = *bytes.get(at)?;
    let end = at + usize::from(first & 15) * 4;
    (kind == ethertype::IPV4 && first >> 4 == 4 && end >= at + 20 && end <= bytes.len()).then_some(at..end)
}

/// Returns the byte range of the IPv4 header's checksum.
fn ip4_checksum(header: &Range<usize>) -> Range<usize> {
    header.start + 10..header.start + 12
}

/// Checks the sizes of a template's packets in bytes. Call this before padding the bytes of a [`Template`] to the largest size.
///
/// # Errors
/// If the range is empty, or a packet would be shorter than its Ethernet header or longer than a buffer.
pub fn check_sizes(size: &RangeInclusive<usize>) -> Result<(), String> {
    let (least, most) = (*size.start(), *size.end());
    if least > most || least < ETHERNET || most > DATA_ROOM {
        return Err(format!(
            "sizes must be {ETHERNET} to {DATA_ROOM} bytes, smallest first, not {least} to {most}"
        ));
    }
    Ok(())
}

fn check(f: &Field, least: usize, most: usize, bytes: &[u8]) -> Result<Vary, String> {
    if !(1..=8).contains(&f.width) {
        return Err(format!("the width must be 1 to 8 bytes, not {}", f.width));
    }
    let end = f.offset.saturating_add(f.width);
    if end > least {
        return Err(format!("it ends at byte {end}, beyond the shortest packet ({least} bytes)"));
    }
    let top = u64::MAX >> (64 - 8 * f.width);
    let value = match f.mode.clone() {
        Mode::Increment { step: 0, .. } => return Err("the step must be at least 1".into()),
        Mode::Increment { min, max, .. } | Mode::Random { min, max } if min > max || max > top => {
            return Err(format!("{min} to {max} is not a range of {}-byte values", f.width));
        }
        Mode::Size { less } if less > least || (most - less) as u64 > top => {
            return Err(format!(
                "the packet size ({least} to {most}) minus {less} is negative or does not fit into {} bytes",
                f.width
            ));
        }
        Mode::Increment { min, max, step } => Value::Increment { now: min, min, max, step },
        Mode::Random { min, max } => Value::Random { min, more: max - min },
        Mode::Size { less } => Value::Size { less },
        Mode::List(values) => match values.iter().position(|v| *v > top) {
            Some(n) => return Err(format!("value {n} of the list does not fit into {} bytes", f.width)),
            None if values.is_empty() => return Err("the list has no value".into()),
            None => Value::List { values, next: 0 },
        },
    };
    if f.ip4_checksum {
        let header = ip4_header(&bytes[..least])
            .ok_or("cannot update the IPv4 checksum: the packet has no IPv4 header")?;
        // The header's first byte holds its length.
        if f.offset <= header.start || end > header.end {
            return Err(format!(
                "cannot update the IPv4 checksum: the field is not in bytes {} to {}",
                header.start + 1,
                header.end - 1
            ));
        }
        let checksum = ip4_checksum(&header);
        if f.offset < checksum.end && checksum.start < end {
            return Err("it overlaps the IPv4 checksum".into());
        }
    }
    let (upper, in_header) = (end % 2 == 1, f.ip4_checksum);
    Ok(Vary { at: f.offset, width: f.width, value, upper, in_header, in_transport: false })
}
