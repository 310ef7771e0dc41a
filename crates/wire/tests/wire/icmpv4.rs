use proptest::prelude::*;
use wire::builder::PacketBuilder;
use wire::icmpv4::{self, IcmpHeader, kind};

use crate::plain_checksum;

fn packet() -> PacketBuilder {
    PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 1, 1].into()).udp(1, 2)
}

#[test]
fn errors_are_distinguished_from_queries() {
    let errors: Vec<u8> = (0..=255).filter(|&k| icmpv4::is_error(k)).collect();
    assert_eq!(errors, [3, 4, 5, 11, 12]);
}

#[test]
fn which_packets_may_be_reported() {
    let about = |p: PacketBuilder| icmpv4::may_report(&p.build());
    assert!(about(packet()));
    assert!(about(packet().echo_request(1, 1)));
    assert!(about(packet().icmp(kind::ECHO_REPLY, 0, 0)));
    assert!(about(packet().fragment(0, true)));
    assert!(about(packet().options(&[7, 7, 4, 0]).echo_request(1, 1)));
    assert!(!about(packet().fragment(1, true)));
    assert!(!about(packet().fragment(1, false)));
    for k in [3, 4, 5, 11, 12] {
        assert!(!about(packet().icmp(k, 0, 0)), "type {k}");
        assert!(!about(packet().options(&[7, 7, 4, 0]).icmp(k, 0, 0)), "type {k} after options");
    }
    // Truncated before the type: it might be an error.
    assert!(!icmpv4::may_report(&packet().echo_request(1, 1).build()[..20]));
    for dst in [[224, 0, 0, 5], [255, 255, 255, 255]] {
        assert!(!about(PacketBuilder::ipv4([10, 0, 0, 1].into(), dst.into()).udp(1, 2)), "to {dst:?}");
    }
    for src in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255], [240, 0, 0, 1]] {
        assert!(!about(PacketBuilder::ipv4(src.into(), [10, 0, 1, 1].into()).udp(1, 2)), "from {src:?}");
    }
}

#[test]
fn quotes_fit() {
    assert_eq!(icmpv4::quote_len(40), 40);
    assert_eq!(icmpv4::quote_len(548), 548);
    assert_eq!(icmpv4::quote_len(1500), 548);
    assert_eq!(20 + IcmpHeader::LEN + icmpv4::quote_len(65_535), icmpv4::MAX_ERROR_LEN);
}

#[test]
fn fragmentation_needed_carries_the_mtu() {
    let quote = packet().payload(&[1, 2, 3]).build();
    let h = IcmpHeader::fragmentation_needed(1400, &quote);
    assert_eq!(h.0[..2], [3, 4]);
    assert_eq!(h.0[4..], [0, 0, 0x05, 0x78]);
    assert_eq!((h.kind(), h.code(), h.next_hop_mtu()), (3, 4, 1400));
    assert!(h.checksum_ok(&quote));
}

/// A ping with identifier 0, sequence number 0, and 20 zeros as data.
#[test]
fn a_reply_of_zeros_has_a_valid_checksum() {
    let mut h = IcmpHeader::echo_request(0, 0, &[0; 20]);
    h.make_echo_reply();
    assert_eq!(h.0, [0, 0, 0xff, 0xff, 0, 0, 0, 0]);
    assert!(h.checksum_ok(&[0; 20]));
}

proptest! {
    #[test]
    fn headers_have_a_valid_checksum(fields in any::<(u8, u8, u32)>(), body in prop::collection::vec(any::<u8>(), 0..100)) {
        let h = IcmpHeader::new(fields.0, fields.1, fields.2, &body);
        prop_assert_eq!((h.kind(), h.code(), h.rest()), fields);
        prop_assert_eq!(plain_checksum(&[&h.0[..], &body].concat()), 0);
        prop_assert!(h.checksum_ok(&body));
    }

    #[test]
    fn request_becomes_reply(id in any::<u16>(), seq in any::<u16>(), body in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut h = IcmpHeader::echo_request(id, seq, &body);
        prop_assert_eq!((h.kind(), h.echo_id(), h.echo_seq()), (kind::ECHO_REQUEST, id, seq));
        h.make_echo_reply();
        prop_assert_eq!((h.kind(), h.echo_id(), h.echo_seq()), (kind::ECHO_REPLY, id, seq));
        prop_assert_eq!(plain_checksum(&[&h.0[..], &body].concat()), 0);
    }

    #[test]
    fn any_bytes_are_checked_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let ok = icmpv4::may_report(&bytes);
        prop_assert!(!ok || bytes.len() >= 20);
    }
}
