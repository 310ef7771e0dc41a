use std::net::Ipv6Addr;

use proptest::prelude::*;
use wire::icmpv6::{self, Icmpv6Header, exceeded, kind, parameter, unreachable};
use wire::{Ipv6Header, protocol};

use crate::{bytes, plain_checksum};

const HOST: &str = "2001:db8::9";
const FAR: &str = "2001:db8:5::1";

fn ip(src: &str, dst: &str, next: u8, len: usize) -> Ipv6Header {
    Ipv6Header::new(src.parse().unwrap(), dst.parse().unwrap(), next, len)
}

fn packet(src: &str, dst: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    [&ip(src, dst, next, payload.len()).0[..], payload].concat()
}

/// Returns the checksum over message and pseudo header: 0 if the checksum field is right.
fn plain(ip: &Ipv6Header, message: &[u8]) -> u16 {
    let len = message.len() as u32;
    plain_checksum(&[&ip.0[8..40], &len.to_be_bytes(), &[0, 0, 0, 58], message].concat())
}

#[test]
fn messages_equal_those_of_another_implementation() {
    let too_big = bytes(
        "6000000000303a40 20010db8000000000000000000000001 20010db8000000000000000000000009 0200a5df00000578
         6000000000003b40 20010db8000000000000000000000009 20010db8000500000000000000000001",
    );
    let (header, rest) = Ipv6Header::split(&too_big).unwrap();
    let quote = packet(HOST, FAR, protocol::NONE, &[]);
    let icmp = Icmpv6Header::new(header, kind::PACKET_TOO_BIG, 0, 1400, &quote);
    assert_eq!([&icmp.0[..], &quote].concat(), rest);
    let echo = bytes(
        "60000000000b3a40 20010db8000000000000000000000001 20010db8000000000000000000000009 80005fcc00070008
         616263",
    );
    let (header, rest) = Ipv6Header::split(&echo).unwrap();
    let (icmp, body) = Icmpv6Header::split(rest).unwrap();
    assert_eq!(Icmpv6Header::echo_request(header, 7, 8, b"abc"), *icmp);
    assert!(icmp.checksum_ok(header, body));
    assert_eq!((icmp.kind(), icmp.code(), icmp.echo_id(), icmp.echo_seq()), (128, 0, 7, 8));
}

#[test]
fn rfc4443_2_4_e_which_packets_may_be_reported() {
    let may = |packet: &[u8]| icmpv6::may_report(packet, false, kind::TIME_EXCEEDED, exceeded::HOP_LIMIT);
    let icmp = |kind: u8| packet(HOST, FAR, protocol::ICMPV6, &[kind, 0, 0, 0, 0, 0, 0, 0]);
    assert!(may(&packet(HOST, FAR, protocol::UDP, &[0; 8])));
    for kind in 0..=255 {
        let is_error = kind < 128 || kind == kind::REDIRECT;
        assert_eq!(may(&icmp(kind)), !is_error, "type {kind}");
        let behind = packet(HOST, FAR, 60, &[58, 0, 1, 4, 0, 0, 0, 0, kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(may(&behind), !is_error, "type {kind} after options");
        let fragment = |at| packet(HOST, FAR, 44, &[58, 0, 0, at, 0, 0, 0, 0, kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(may(&fragment(1)), !is_error, "type {kind}, first fragment");
        assert!(!may(&fragment(9)), "it may be a fragment of an error");
    }
    assert!(!may(&icmp(128)[..40]), "truncated before the type");
    assert!(may(&packet(HOST, FAR, 44, &[17, 0, 0, 9, 0, 0, 0, 0])), "a later fragment of UDP");
    assert!(may(&packet(HOST, FAR, 60, &[0, 0, 1, 4, 0, 0, 0, 0])), "misplaced hop-by-hop options");
    assert!(!may(&packet(HOST, FAR, 60, &[58, 0, 1])), "the message type is unknown");
    for src in ["::", "::1", "ff02::1", "::ffff:10.0.0.1"] {
        assert!(!may(&packet(src, FAR, protocol::UDP, &[0; 8])), "from {src}");
    }
    let cases = [
        (kind::TIME_EXCEEDED, exceeded::HOP_LIMIT, false),
        (kind::UNREACHABLE, unreachable::PORT, false),
        (kind::PARAMETER_PROBLEM, parameter::HEADER, false),
        (kind::PARAMETER_PROBLEM, parameter::NEXT_HEADER, false),
        (kind::PARAMETER_PROBLEM, parameter::OPTION, true),
        (kind::PACKET_TOO_BIG, 0, true),
    ];
    for (kind, code, expected) in cases {
        let to = |dst, group| icmpv6::may_report(&packet(HOST, dst, 17, &[0; 8]), group, kind, code);
        assert_eq!((to("ff0e::1", false), to(FAR, true)), (expected, expected), "{kind}/{code}");
        assert!(to(FAR, false));
    }
}

#[test]
fn quotes_fit() {
    assert_eq!(icmpv6::quote_len(40), 40);
    assert_eq!(icmpv6::quote_len(1232), 1232);
    assert_eq!(40 + Icmpv6Header::LEN + icmpv6::quote_len(65_575), icmpv6::MAX_ERROR_LEN);
}

proptest! {
    #[test]
    fn headers_have_a_valid_checksum(
        (src, dst) in any::<(u128, u128)>(),
        fields in any::<(u8, u8, u32)>(),
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let ip = Ipv6Header::new(Ipv6Addr::from(src), Ipv6Addr::from(dst), 0, 0);
        let h = Icmpv6Header::new(&ip, fields.0, fields.1, fields.2, &body);
        prop_assert_eq!((h.kind(), h.code(), h.rest()), fields);
        prop_assert_eq!(plain(&ip, &[&h.0[..], &body].concat()), 0);
        prop_assert!(h.checksum_ok(&ip, &body));
        let mut wrong = h;
        wrong.set_rest(h.rest() ^ 1);
        prop_assert!(!wrong.checksum_ok(&ip, &body));
    }

    #[test]
    fn request_becomes_reply(
        (src, dst, id, seq) in any::<(u128, u128, u16, u16)>(),
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let ip = Ipv6Header::new(Ipv6Addr::from(src), Ipv6Addr::from(dst), 58, 8 + body.len());
        let mut h = Icmpv6Header::echo_request(&ip, id, seq, &body);
        prop_assert_eq!((h.kind(), h.echo_id(), h.echo_seq()), (kind::ECHO_REQUEST, id, seq));
        h.make_echo_reply();
        let back = Ipv6Header::new(ip.dst(), ip.src(), 58, 8 + body.len());
        prop_assert_eq!((h.kind(), h.echo_id(), h.echo_seq()), (kind::ECHO_REPLY, id, seq));
        prop_assert_eq!(plain(&back, &[&h.0[..], &body].concat()), 0);
    }

    #[test]
    fn any_bytes_are_checked_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), kind in 1u8..5) {
        let ok = icmpv6::may_report(&bytes, false, kind, 0);
        prop_assert!(!ok || bytes.len() >= 40);
    }
}
