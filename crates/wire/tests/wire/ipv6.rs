use std::net::Ipv6Addr;

use proptest::prelude::*;
use wire::checksum::Sum;
use wire::ipv6::{self, Ipv6Header, scope};
use wire::tcp::Flags;
use wire::{Mac, PseudoHeader, TcpHeader, UdpHeader};

use crate::plain_checksum;

fn bits(text: &str) -> u128 {
    text.parse::<Ipv6Addr>().unwrap().to_bits()
}

/// The classes of one address: a letter for each function that returns true for it, in order of declaration.
fn classes(text: &str) -> String {
    let a = bits(text);
    [
        ('u', ipv6::is_unspecified(a)),
        ('l', ipv6::is_loopback(a)),
        ('4', ipv6::is_v4_mapped(a)),
        ('m', ipv6::is_multicast(a)),
        ('L', ipv6::is_link_local(a)),
        ('b', ipv6::is_bad_link_local(a)),
        ('n', ipv6::is_node_group(a)),
        ('o', ipv6::stays_on_link(a)),
        ('s', ipv6::is_martian_source(a)),
        ('d', ipv6::is_martian_destination(a)),
        ('S', ipv6::is_solicited_node(a)),
    ]
    .into_iter()
    .filter_map(|(letter, is)| is.then_some(letter))
    .collect()
}

#[test]
fn address_types_are_distinguished() {
    for (address, expected) in [
        ("::", "uod"),
        ("::1", "losd"),
        ("::2", ""),
        ("::fffe:ffff:ffff", ""),
        ("::ffff:0.0.0.0", "4sd"),
        ("::ffff:255.255.255.255", "4sd"),
        ("::1:0:0:0", ""),
        ("0:0:0:1::1", ""),
        ("64:ff9b::10.0.0.1", ""),
        ("2001:db8::1", ""),
        ("fd00::1", ""),
        ("fe7f:ffff::", ""),
        ("fe80::", "Lo"),
        ("fe80::1", "Lo"),
        ("fe80::ffff:ffff:ffff:ffff", "Lo"),
        ("fe80:0:0:1::1", "Lbo"),
        ("fe80:8000::", "Lbo"),
        ("fea0::1", "Lbo"),
        ("febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "Lbo"),
        ("fec0::1", ""),
        ("feff::1", ""),
        ("ff00::1", "mnosd"),
        ("ff01::1", "mnosd"),
        ("ff02::1", "mos"),
        ("ff02::1:ff00:0", "mosS"),
        ("ff02::1:ffff:ffff", "mosS"),
        ("ff02::1:fe00:0", "mos"),
        ("ff12::1:ff00:1", "mos"),
        ("ff04::1", "ms"),
        ("ff05::1:3", "ms"),
        ("ff0e::1", "ms"),
        ("ff3e::8000:1", "ms"),
    ] {
        assert_eq!(classes(address), expected, "{address}");
    }
    for (group, expected) in [
        ("ff01::1", scope::INTERFACE),
        ("ff02::1", scope::LINK),
        ("ff14::1", scope::ADMIN),
        ("ff05::2", scope::SITE),
        ("ff38::1", scope::ORGANIZATION),
        ("ff0e::1", scope::GLOBAL),
    ] {
        assert_eq!(ipv6::multicast_scope(bits(group)), expected, "{group}");
    }
}

#[test]
fn group_and_link_local_addresses_are_derived() {
    assert_eq!(
        [ipv6::ALL_NODES, ipv6::ALL_ROUTERS, ipv6::ALL_MLDV2_ROUTERS].map(Ipv6Addr::from),
        ["ff02::1".parse::<Ipv6Addr>().unwrap(), "ff02::2".parse().unwrap(), "ff02::16".parse().unwrap(),]
    );
    // The example of RFC 4291 section 2.7.1.
    assert_eq!(ipv6::solicited_node(bits("4037::01:800:200e:8c6c")), bits("ff02::1:ff0e:8c6c"));
    assert_eq!(ipv6::solicited_node(bits("::1")), bits("ff02::1:ff00:1"));
    // The examples of RFC 2464 sections 4 and 7.
    let mac: Mac = "34:56:78:9a:bc:de".parse().unwrap();
    assert_eq!(ipv6::interface_id(mac), 0x3656_78ff_fe9a_bcde);
    assert_eq!(ipv6::link_local(mac), bits("fe80::3656:78ff:fe9a:bcde"));
    assert_eq!(ipv6::link_local(Mac([2, 0xfe, 0, 0, 0, 1])), bits("fe80::fe:ff:fe00:1"));
    assert_eq!(ipv6::multicast_mac(bits("ff02::1:ff0e:8c6c")).to_string(), "33:33:ff:0e:8c:6c");
    assert_eq!(ipv6::multicast_mac(bits("ff02::1")).to_string(), "33:33:00:00:00:01");
}

#[test]
fn a_new_header() {
    let (a, b) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let h = Ipv6Header::new(a, b, 17, 8);
    assert_eq!(h.0[..8], [0x60, 0, 0, 0, 0, 8, 17, 64]);
    assert_eq!((h.src(), h.dst(), h.total_len()), (a, b, 48));
    assert_eq!(Ipv6Header::new(a, b, 17, usize::MAX).payload_len(), u16::MAX);
}

/// A UDP checksum of 0 is allowed over IPv4 only.
#[test]
fn rfc8200_8_1_udp_has_a_checksum() {
    let ip = Ipv6Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 17, 8);
    let mut udp = UdpHeader::new(1, 2, 0);
    assert!(!udp.checksum_ok(&ip, &[]));
    assert!(udp.checksum_ok(&wire::Ipv4Header::new([1; 4].into(), [2; 4].into(), 17, 8), &[]));
    udp.set_checksum(udp.compute_checksum(&ip, &[]));
    assert!(udp.checksum_ok(&ip, &[]));
}

proptest! {
    /// The getters agree with the etherparse crate.
    #[test]
    fn agrees_with_etherparse(mut bytes in any::<[u8; 40]>()) {
        bytes[0] = 0x60 | bytes[0] & 15;
        let ours = Ipv6Header(bytes);
        let theirs = etherparse::Ipv6HeaderSlice::from_slice(&bytes).unwrap();
        prop_assert_eq!(ours.version(), 6);
        prop_assert_eq!(ours.traffic_class(), theirs.traffic_class());
        prop_assert_eq!((ours.dscp(), ours.ecn()), (theirs.dscp().value(), theirs.ecn().value()));
        prop_assert_eq!(ours.flow_label(), theirs.flow_label().value());
        prop_assert_eq!(ours.payload_len(), theirs.payload_length());
        prop_assert_eq!(ours.total_len(), 40 + usize::from(theirs.payload_length()));
        prop_assert_eq!((ours.next_header(), ours.hop_limit()), (theirs.next_header().0, theirs.hop_limit()));
        prop_assert_eq!((ours.src(), ours.dst()), (theirs.source_addr(), theirs.destination_addr()));
        prop_assert_eq!((ours.src_u128(), ours.dst_u128()), (ours.src().to_bits(), ours.dst().to_bits()));
    }

    /// Setting a field changes that field only.
    #[test]
    fn setters(bytes in any::<[u8; 40]>(), v in any::<u32>(), addr in any::<u128>()) {
        let all = |h: &Ipv6Header| {
            [
                h.version().into(), h.traffic_class().into(), h.flow_label().into(), h.payload_len().into(),
                h.next_header().into(), h.hop_limit().into(), h.src_u128(), h.dst_u128(),
            ]
        };
        let before = Ipv6Header(bytes);
        let setters: [fn(&mut Ipv6Header, u32, u128); 8] = [
            |h, _, _| h.decrement_hop_limit(),
            |h, v, _| h.set_traffic_class(v as u8),
            |h, v, _| h.set_flow_label(v),
            |h, v, _| h.set_payload_len(v as u16),
            |h, v, _| h.set_next_header(v as u8),
            |h, v, _| h.set_hop_limit(v as u8),
            |h, _, a| h.set_src(a.into()),
            |h, _, a| h.set_dst(a.into()),
        ];
        for (i, set) in setters.iter().enumerate() {
            let (mut after, mut expected) = (before, all(&before));
            set(&mut after, v, addr);
            match i {
                0 => expected[5] = before.hop_limit().wrapping_sub(1).into(),
                2 => expected[i] = (v & 0xf_ffff).into(),
                3 => expected[i] = (v as u16).into(),
                1 | 4 | 5 => expected[i] = (v as u8).into(),
                _ => expected[i] = addr,
            }
            prop_assert_eq!(all(&after), expected);
        }
    }

    /// Pseudo header and transport checksums equal the plain sums over the packet's bytes.
    #[test]
    fn checksums_agree(
        (src, dst, ports) in any::<(u128, u128, (u16, u16))>(),
        payload in prop::collection::vec(any::<u8>(), 0..64),
        (protocol, length) in any::<(u8, u32)>(),
    ) {
        let ip = Ipv6Header::new(src.into(), dst.into(), 17, 8 + payload.len());
        let pseudo = |protocol: u8, length: u32| {
            [&src.to_be_bytes()[..], &dst.to_be_bytes(), &length.to_be_bytes(), &[0, 0, 0, protocol]].concat()
        };
        prop_assert_eq!(Sum::of_u128(src).checksum(), plain_checksum(&src.to_be_bytes()));
        prop_assert_eq!(ip.pseudo_sum(protocol, length).checksum(), plain_checksum(&pseudo(protocol, length)));
        prop_assert_eq!(ip.pseudo_header(protocol, length).fold(), ip.pseudo_sum(protocol, length).fold());

        let mut udp = UdpHeader::new(ports.0, ports.1, payload.len());
        udp.set_checksum(udp.compute_checksum(&ip, &payload));
        let bytes = [&pseudo(17, udp.length().into())[..], &udp.0, &payload].concat();
        prop_assert_eq!(plain_checksum(&bytes), 0);
        prop_assert!(udp.checksum_ok(&ip, &payload));
        udp.set_checksum(udp.checksum() ^ 0x0100);
        prop_assert!(!udp.checksum_ok(&ip, &payload));

        let mut tcp = TcpHeader::new(ports.0, ports.1, length, 1, Flags::ACK);
        tcp.set_checksum(tcp.compute_checksum(&ip, &payload));
        let bytes = [&pseudo(6, 20 + payload.len() as u32)[..], &tcp.0, &payload].concat();
        prop_assert_eq!(plain_checksum(&bytes), 0);
        prop_assert!(tcp.checksum_ok(&ip, &payload));
    }
}
