use std::net::Ipv6Addr;

use proptest::prelude::*;
use wire::Ipv6Header;
use wire::icmpv6::Icmpv6Header;
use wire::mld::{self, MAX_RECORDS, MldError, Query, Record};

use crate::bytes;

fn a(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Queries of another implementation: version 2 for all groups, and version 1 for one group.
fn queries() -> [Vec<u8>; 2] {
    [
        bytes(
            "6000000000240001 fe800000000000000000000000000009 ff020000000000000000000000000001
             3a00050200000100 8200568e27100000 00000000000000000000000000000000 027d0000",
        ),
        bytes(
            "6000000000200001 fe800000000000000000000000000009 ff0200000000000000000001ff000001
             3a00050200000100 82007f2f03e80000 ff0200000000000000000001ff000001",
        ),
    ]
}

/// The packet after a change, with a correct length and checksum.
fn changed(packet: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = packet.to_vec();
    change(&mut out);
    let len = (out.len() - 40) as u16;
    out[4..6].copy_from_slice(&len.to_be_bytes());
    let (ip, rest) = Ipv6Header::split(&out).unwrap();
    if let Some((icmp, body)) = Icmpv6Header::split(&rest[8..]) {
        let sum = Icmpv6Header::new(ip, icmp.kind(), icmp.code(), icmp.rest(), body).checksum();
        out[50..52].copy_from_slice(&sum.to_be_bytes());
    }
    out
}

#[test]
fn a_report_equals_that_of_another_implementation() {
    let expected = bytes(
        "6000000000380001 fe8000000000000000fe00fffe000001 ff020000000000000000000000000016
         3a00050200000100 8f006eef00000002 04000000 ff0200000000000000000001ff000001 03000000
         ff020000000000000000000000000002",
    );
    let records = [(Record::Join, a("ff02::1:ff00:1")), (Record::Leave, a("ff02::2"))];
    let reports: Vec<_> = mld::reports(a("fe80::fe:ff:fe00:1"), &records).collect();
    assert_eq!(reports, [expected]);
}

#[test]
fn many_records_are_split_over_several_reports() {
    let records: Vec<_> =
        (0..150u128).map(|n| (Record::IsJoined, Ipv6Addr::from(0xff05 << 112 | n))).collect();
    let reports: Vec<_> = mld::reports(a("fe80::1"), &records).collect();
    assert_eq!(reports.iter().map(Vec::len).collect::<Vec<_>>(), [56 + 20 * 61, 56 + 20 * 61, 56 + 20 * 28]);
    assert!(MAX_RECORDS == 61 && reports[0].len() <= 1280 && reports[0].len() + 20 > 1280);
    for packet in &reports {
        let (ip, rest) = Ipv6Header::split(packet).unwrap();
        let (icmp, body) = Icmpv6Header::split(&rest[8..]).unwrap();
        assert!(icmp.checksum_ok(ip, body) && ip.total_len() == packet.len());
        assert_eq!(body.len(), 20 * icmp.rest() as usize);
        assert!(body.chunks(20).all(|r| r[..4] == [2, 0, 0, 0]));
    }
    assert_eq!(mld::reports(a("fe80::1"), &[]).count(), 0);
}

#[test]
fn queries_are_read() {
    let [general, of_version_1] = queries();
    assert_eq!(mld::parse_query(&general), Ok(Query { version: 2, group: None, max_response: 10_000 }));
    let group = Some(a("ff02::1:ff00:1"));
    assert_eq!(mld::parse_query(&of_version_1), Ok(Query { version: 1, group, max_response: 1000 }));
    // RFC 3810 section 5.1.3.
    for (code, expected) in [(0x7fff, 32_767), (0x8000, 32_768), (0x8fff, 65_528), (0xffff, 8_387_584)] {
        let query = |packet| {
            let packet = changed(packet, |p| p[52..54].copy_from_slice(&u16::to_be_bytes(code)));
            mld::parse_query(&packet).unwrap().max_response
        };
        assert_eq!(query(&general), expected, "0x{code:x}");
        assert_eq!(query(&of_version_1), code.into());
    }
    // Sources are present and ignored.
    let with_sources = changed(&general, |p| p.extend([0x20; 16]));
    assert!(mld::parse_query(&with_sources).is_ok());
}

#[test]
fn rfc3810_6_2_invalid_queries_are_refused() {
    for packet in queries() {
        let bad =
            |change: &dyn Fn(&mut Vec<u8>)| mld::parse_query(&changed(&packet, |p| change(p))).map(|_| ());
        assert_eq!(bad(&|_| ()), Ok(()));
        assert_eq!(bad(&|p| p[8] = 0x20), Err(MldError::Source));
        assert_eq!(bad(&|p| p[7] = 2), Err(MldError::HopLimit));
        assert_eq!(bad(&|p| p[48] = 131), Err(MldError::Kind));
        assert_eq!(bad(&|p| p[40] = 17), Err(MldError::Kind));
        assert_eq!(bad(&|p| p[42] = 1), Err(MldError::RouterAlert));
        assert_eq!(bad(&|p| p[45] = 1), Err(MldError::RouterAlert), "an alert with another subject");
        assert_eq!(bad(&|p| p[6] = 60), Err(MldError::RouterAlert), "in destination options");
        assert_eq!(bad(&|p| p.truncate(71)), Err(MldError::Short));
        assert_eq!(bad(&|p| p.truncate(50)), Err(MldError::Short));
        assert_eq!(bad(&|p| p[56] = 0x20), Err(MldError::Group));
        let mut flipped = packet.clone();
        flipped[50] ^= 1;
        assert_eq!(mld::parse_query(&flipped), Err(MldError::Checksum));
        assert_eq!(mld::parse_query(&packet[..packet.len() - 1]), Err(MldError::Short));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(
        which in 0usize..2,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut packet = queries()[which].clone();
        for (at, value) in damage {
            let at = at.index(packet.len());
            packet[at] = value;
        }
        packet.truncate(cut.index(packet.len() + 1));
        let _ = mld::parse_query(&packet);
    }
}
