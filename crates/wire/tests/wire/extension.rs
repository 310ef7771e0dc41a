use etherparse::{SlicedPacket, TransportSlice};
use proptest::prelude::*;
use wire::extension::{
    Chain, Extension, ExtensionError, Extensions, Fragment, HeaderOption, HeaderOptions, MAX_HEADERS,
    MAX_LEN, MAX_OPTIONS, OptionFault, Routing, alert, check_options, option,
};
use wire::{Ipv6Header, protocol};

const KINDS: [u8; 8] = [0, 43, 44, 51, 60, 135, 139, 140];

/// A packet with these bytes after its header.
fn packet(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Ipv6Header::new([0xfd; 16].into(), [0xfe; 16].into(), next, payload.len()).0.to_vec();
    out.extend(payload);
    out
}

/// A packet with these headers, each without its first two bytes, before `upper`.
fn chain(headers: &[(u8, Vec<u8>)], protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (i, (kind, body)) in headers.iter().enumerate() {
        let next = headers.get(i + 1).map_or(protocol, |h| h.0);
        let units = match kind {
            44 => 0,
            51 => (body.len() + 2) / 4 - 2,
            _ => (body.len() + 2) / 8 - 1,
        };
        payload.extend([next, units as u8]);
        payload.extend(body);
    }
    payload.extend(upper);
    packet(headers.first().map_or(protocol, |h| h.0), &payload)
}

/// Destination options with only padding, `len` bytes in total. Returns the kind of the header, and its
/// contents after the first two bytes.
fn padding(len: usize) -> (u8, Vec<u8>) {
    let mut body = vec![option::PADN, (len - 4) as u8];
    body.resize(len - 2, 0);
    (60, body)
}

fn fragment(offset: u16, more: bool) -> (u8, Vec<u8>) {
    let word = (offset | u16::from(more)).to_be_bytes();
    (44, [&word[..], &[1, 2, 3, 4]].concat())
}

#[test]
fn a_packet_without_extension_headers() {
    let c = Chain::of(&packet(17, &[0; 8])).unwrap();
    assert_eq!((c.protocol, c.offset, c.named_at, c.whole), (17, 40, 6, true));
    assert_eq!((c.fragment, c.routing, c.is_fragment()), (None, None, false));
    assert!(!Chain::of(&packet(17, &[0; 7])).unwrap().whole);
    assert!(Chain::of(&packet(59, &[])).unwrap().whole);
    assert_eq!(Chain::of(&packet(17, &[])[..39]), Err(ExtensionError::Truncated));
    // Bytes after the packet's length do not belong to it.
    let mut padded = packet(17, &[0; 7]);
    padded.push(0);
    assert!(!Chain::of(&padded).unwrap().whole);
}

#[test]
fn extension_headers_are_skipped() {
    let routing = vec![4, 1, 0, 0, 0, 0];
    let ah = vec![0; 10];
    let bytes = chain(&[(0, vec![0; 6]), (43, routing), (51, ah), padding(24)], 6, &[0; 20]);
    let c = Chain::of(&bytes).unwrap();
    assert_eq!((c.protocol, c.offset, c.named_at, c.whole), (6, 40 + 8 + 8 + 12 + 24, 68, true));
    assert_eq!(c.routing, Some(Routing { at: 48, kind: 4, segments_left: 1 }));
    let kinds: Vec<_> = Extensions::of(&bytes).map(|h| h.map(|h| (h.kind, h.at, h.bytes.len()))).collect();
    assert_eq!(kinds, [Ok((0, 40, 8)), Ok((43, 48, 8)), Ok((51, 56, 12)), Ok((60, 68, 24))]);
    let mut headers = Extensions::of(&bytes);
    let mut stops = vec![(headers.protocol(), headers.at(), headers.named_at())];
    while headers.next().is_some() {
        stops.push((headers.protocol(), headers.at(), headers.named_at()));
    }
    assert_eq!(stops, [(0, 40, 6), (43, 48, 40), (51, 56, 48), (60, 68, 56), (6, 92, 68)]);
}

#[test]
fn rfc5095_3_a_source_route_with_segments_left_is_refused() {
    let header = |left| chain(&[(43, vec![Routing::SOURCE_ROUTE, left, 0, 0, 0, 0])], 59, &[]);
    assert_eq!(Chain::of(&header(1)).unwrap().routing.unwrap().refused_at(), Some(42));
    assert_eq!(Chain::of(&header(0)).unwrap().routing.unwrap().refused_at(), None);
    // A processed routing header does not hide one with segments left.
    let two = chain(&[(43, vec![0; 6]), (43, vec![0, 2, 0, 0, 0, 0])], 59, &[]);
    assert_eq!(Chain::of(&two).unwrap().routing, Some(Routing { at: 48, kind: 0, segments_left: 2 }));
}

#[test]
fn rfc8200_4_5_first_and_later_fragments_are_distinguished() {
    let c = |offset, more, payload: &[u8]| Chain::of(&chain(&[fragment(offset, more)], 17, payload)).unwrap();
    let first = c(0, true, &[0; 8]);
    let expected = Fragment { at: 40, protocol: 17, offset: 0, more: true, id: 0x0102_0304 };
    assert_eq!((first.fragment, first.is_fragment(), first.whole), (Some(expected), true, true));
    let later = c(1448, false, &[0; 8]);
    let expected = Fragment { offset: 1448, more: false, ..expected };
    assert_eq!((later.fragment, later.is_fragment(), later.whole), (Some(expected), true, false));
    assert_eq!((later.protocol, later.offset), (17, 48));
    assert_eq!(expected.to_bytes(), [17, 0, 5, 0xa8, 1, 2, 3, 4]);
    // RFC 6946.
    let atomic = c(0, false, &[0; 8]);
    assert!(!atomic.is_fragment() && atomic.whole && atomic.fragment.is_some_and(|f| f.is_atomic()));
    // In a later fragment there are no headers after the fragment header, whatever the bytes are.
    let later = chain(&[fragment(8, true), padding(8)], 17, &[0; 8]);
    assert_eq!(Chain::of(&later).map(|c| (c.protocol, c.offset)), Ok((60, 48)));
    // A fragment header after an atomic fragment header still makes the packet a fragment.
    let nested = chain(&[fragment(0, false), fragment(8, true)], 17, &[0; 8]);
    assert!(Chain::of(&nested).unwrap().is_fragment());
    let nested = chain(&[fragment(0, true), fragment(0, false)], 17, &[0; 8]);
    assert!(Chain::of(&nested).unwrap().is_fragment());
}

#[test]
fn rfc7112_5_a_first_fragment_holds_the_whole_chain() {
    let bytes = chain(&[fragment(0, true), padding(16)], 17, &[0; 8]);
    let cut = |len: usize| packet(bytes[6], &bytes[40..len]);
    assert!(Chain::of(&bytes).unwrap().whole);
    assert!(!Chain::of(&cut(71)).unwrap().whole);
    for len in 48..64 {
        assert_eq!(Chain::of(&cut(len)), Err(ExtensionError::FirstFragment), "{len}");
    }
    for len in 40..48 {
        assert_eq!(Chain::of(&cut(len)), Err(ExtensionError::Truncated), "{len}");
    }
}

#[test]
fn headers_and_lengths_are_limited() {
    let headers = |n| chain(&vec![padding(8); n], 17, &[0; 8]);
    assert!(Chain::of(&headers(MAX_HEADERS)).is_ok());
    assert_eq!(Chain::of(&headers(MAX_HEADERS + 1)), Err(ExtensionError::Headers));
    let long = |len| chain(&[(60, vec![0; len - 2])], 17, &[0; 8]);
    assert!(Chain::of(&long(MAX_LEN)).is_ok());
    assert_eq!(Chain::of(&long(MAX_LEN + 8)), Err(ExtensionError::Length));
    let late = chain(&[padding(8), (0, vec![0; 6])], 17, &[]);
    assert_eq!(Chain::of(&late), Err(ExtensionError::HopByHop(40)));
}

#[test]
fn the_numbers_for_experiments_and_esp_end_the_chain() {
    for protocol in (0..=255).filter(|p| !KINDS.contains(p)) {
        assert_eq!(Chain::of(&packet(protocol, &[0; 64])).unwrap().offset, 40, "{protocol}");
    }
    for protocol in [protocol::ESP, protocol::EXPERIMENT, protocol::NONE] {
        assert!(!wire::extension::is_extension(protocol));
    }
}

#[test]
fn rfc8200_4_2_unknown_options_are_handled_by_their_type() {
    let header = |kind: u8| [59, 1, 1, 2, 0, 0, kind, 1, 7, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(check_options(&header(0x1e), |_| false), Ok(None));
    assert_eq!(check_options(&header(0x5e), |_| false), Err(OptionFault::Discard(6)));
    assert_eq!(check_options(&header(0x9e), |_| false), Err(OptionFault::Report(6)));
    assert_eq!(check_options(&header(0xde), |_| false), Err(OptionFault::ReportUnlessGroup(6)));
    assert_eq!(check_options(&header(0xde), |kind| kind == 0xde), Ok(None));
    let header = header(0x1e);
    let options: Vec<_> = HeaderOptions::of(&header).collect();
    assert_eq!(options, [Ok(HeaderOption { at: 6, kind: 0x1e, data: &[7] })]);
}

#[test]
fn rfc2711_a_router_alert_is_found() {
    assert_eq!(check_options(&[58, 0, 5, 2, 0, 0, 1, 0], |_| false), Ok(Some(alert::MLD)));
    assert_eq!(check_options(&[58, 0, 5, 2, 0, 7, 1, 0], |_| false), Ok(Some(7)));
    assert_eq!(check_options(&[58, 0, 1, 0, 5, 1, 0, 0], |_| false), Err(OptionFault::Malformed(4)));
}

#[test]
fn malformed_and_too_many_options_are_refused() {
    assert_eq!(check_options(&[58, 0, 1, 5, 0, 0, 0, 0], |_| true), Err(OptionFault::Malformed(2)));
    assert_eq!(check_options(&[58, 0, 0, 0, 0, 0, 0, 9], |_| true), Err(OptionFault::Malformed(7)));
    let many = vec![0; 2 + MAX_OPTIONS];
    assert_eq!(check_options(&many, |_| true), Ok(None));
    assert_eq!(check_options(&[&many[..], &[0]].concat(), |_| true), Err(OptionFault::TooMany));
    assert_eq!(check_options(&[], |_| true), Ok(None));
}

/// A plain parser with the rules of RFC 8200 and the limits of [`Chain`], as the reference for the tests.
fn oracle(bytes: &[u8]) -> Result<Chain, ExtensionError> {
    if bytes.len() < 40 {
        return Err(ExtensionError::Truncated);
    }
    let len = 40 + usize::from(bytes[4]) * 256 + usize::from(bytes[5]);
    let bytes = &bytes[..len.min(bytes.len())];
    let mut c =
        Chain { protocol: bytes[6], offset: 40, named_at: 6, whole: true, fragment: None, routing: None };
    let (mut later, mut first, mut count) = (false, false, 0);
    while !later && KINDS.contains(&c.protocol) {
        if c.protocol == 0 && c.offset != 40 {
            return Err(ExtensionError::HopByHop(c.named_at));
        }
        count += 1;
        if count > MAX_HEADERS {
            return Err(ExtensionError::Headers);
        }
        let cut = if first { ExtensionError::FirstFragment } else { ExtensionError::Truncated };
        let at = c.offset;
        if bytes.len() < at + 2 {
            return Err(cut);
        }
        let len = match c.protocol {
            44 => 8,
            51 => 4 * (usize::from(bytes[at + 1]) + 2),
            _ => 8 * (usize::from(bytes[at + 1]) + 1),
        };
        if at + len > 40 + MAX_LEN {
            return Err(ExtensionError::Length);
        }
        if bytes.len() < at + len {
            return Err(cut);
        }
        let b = &bytes[at..at + len];
        if c.protocol == 43 && c.routing.is_none_or(|r| r.segments_left == 0) {
            c.routing = Some(Routing { at, kind: b[2], segments_left: b[3] });
        }
        if c.protocol == 44 {
            let word = u16::from(b[2]) << 8 | u16::from(b[3]);
            let id = b[4..8].iter().fold(0, |id, b| id << 8 | u32::from(*b));
            let f = Fragment { at, protocol: b[0], offset: word / 8 * 8, more: word % 2 == 1, id };
            if !c.is_fragment() {
                c.fragment = Some(f);
            }
            later = f.offset > 0;
            first = first || f.more;
        }
        (c.named_at, c.offset, c.protocol) = (at, at + len, b[0]);
    }
    let upper = match c.protocol {
        4 | 6 => 20,
        17 | 50 | 58 | 136 => 8,
        33 | 132 => 12,
        47 => 4,
        41 => 40,
        _ => 0,
    };
    c.whole = c.fragment.is_none_or(|f| f.offset == 0) && bytes.len() - c.offset >= upper;
    Ok(c)
}

fn any_header() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let body = |kind: u8, units: usize| match kind {
        44 => 6,
        51 => 6 + 4 * units,
        _ => 6 + 8 * units,
    };
    (prop::sample::select(KINDS.to_vec()), 0usize..4).prop_flat_map(move |(kind, units)| {
        let bytes = prop::collection::vec(any::<u8>(), body(kind, units));
        (Just(kind), bytes)
    })
}

/// Checks for any bytes that [`Chain`] equals the oracle, and that each extension header starts where the previous one ends.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let found = Chain::of(bytes);
    prop_assert_eq!(found, oracle(bytes));
    let all: Vec<_> = Extensions::of(bytes).collect();
    prop_assert!(all.len() <= MAX_HEADERS + 1);
    let mut at = 40;
    for header in all.iter().filter_map(|h| h.ok()) {
        prop_assert_eq!((header.at, header.bytes), (at, &bytes[at..at + header.bytes.len()]));
        prop_assert!(header.bytes.len() >= 8);
        at += header.bytes.len();
    }
    prop_assert_eq!(all.last().and_then(|h| h.err()), found.err().filter(|_| bytes.len() >= 40));
    if let Ok(chain) = found {
        prop_assert!(chain.offset == at && at <= bytes.len());
        prop_assert_eq!(bytes[chain.named_at], chain.protocol);
    }
    Ok(())
}

proptest! {
    #[test]
    fn chains_agree_with_the_oracle(
        headers in prop::collection::vec(any_header(), 0..11),
        (protocol, upper) in (any::<u8>(), prop::collection::vec(any::<u8>(), 0..44)),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = chain(&headers, protocol, &upper);
        check(&bytes)?;
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        check(&bytes)?;
        bytes.truncate(cut.map_or(usize::MAX, |c| c.index(bytes.len() + 1)));
        check(&bytes)?;
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), first in any::<u8>()) {
        check(&bytes)?;
        check(&packet(first, &bytes))?;
    }

    /// The etherparse crate finds the same UDP datagram after the same headers.
    #[test]
    fn agrees_with_etherparse(
        headers in prop::collection::vec((prop::sample::select(vec![43u8, 51, 60]), 0usize..3), 0..5),
        hop_by_hop in any::<bool>(),
        ports in any::<[u8; 4]>(),
    ) {
        let header = |(kind, units): (u8, usize)| (kind, vec![0; if kind == 51 { 10 + 4 * units } else { 6 + 8 * units }]);
        let headers: Vec<_> = hop_by_hop.then_some((0, 1)).into_iter().chain(headers).map(header).collect();
        let upper = [&ports[..], &[0, 8, 0, 0]].concat();
        let bytes = chain(&headers, 17, &upper);
        let found = Chain::of(&bytes).unwrap();
        let parsed = SlicedPacket::from_ip(&bytes).unwrap();
        let Some(TransportSlice::Udp(udp)) = parsed.transport else { panic!("no UDP: {parsed:?}") };
        prop_assert_eq!((found.protocol, udp.slice()), (17, &bytes[found.offset..]));
    }

    /// Valid options are returned completely, without padding. In any bytes, options do not overlap, and an error is the last item.
    #[test]
    fn options_are_parsed_in_order(
        options in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..6)), 0..MAX_OPTIONS),
        noise in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut header = vec![59, 0];
        let mut expected = Vec::new();
        for (kind, data) in &options {
            if *kind > option::PADN {
                expected.push((header.len(), *kind, data.clone()));
            }
            header.push(*kind);
            if *kind != option::PAD1 {
                header.push(data.len() as u8);
                header.extend(data);
            }
        }
        let found: Vec<_> =
            HeaderOptions::of(&header).map(|o| o.map(|o| (o.at, o.kind, o.data.to_vec())).unwrap()).collect();
        prop_assert_eq!(found, expected);

        let mut at = 2;
        let all: Vec<_> = HeaderOptions::of(&noise).collect();
        prop_assert!(all.len() <= MAX_OPTIONS + 1);
        for (i, option) in all.iter().enumerate() {
            match option {
                Ok(o) => {
                    prop_assert!(o.at >= at && o.kind > option::PADN);
                    prop_assert_eq!(o.data, &noise[o.at + 2..][..o.data.len()]);
                    at = o.at + 2 + o.data.len();
                }
                Err(_) => prop_assert_eq!(i, all.len() - 1),
            }
        }
        let _ = check_options(&noise, |kind| kind % 2 == 0);
    }

    #[test]
    fn a_fragment_header_is_parsed_as_it_was_built(protocol in any::<u8>(), offset in 0u16..8192, more in any::<bool>(), id in any::<u32>()) {
        let fragment = Fragment { at: 40, protocol, offset: offset * 8, more, id };
        let bytes = fragment.to_bytes();
        prop_assert_eq!(Fragment::of(&Extension { kind: 44, at: 40, bytes: &bytes }), Some(fragment));
        prop_assert_eq!(Fragment::of(&Extension { kind: 60, at: 40, bytes: &bytes }), None);
    }
}
