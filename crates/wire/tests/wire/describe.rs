use proptest::prelude::*;
use wire::builder::{PacketBuilder, arp_frame};
use wire::describe::{detail, detail_ipv4, detail_ipv6, line, line_ipv4, line_ipv6};
use wire::icmpv4::{kind, unreachable};
use wire::tcp::Flags;
use wire::{ArpPacket, Mac, ethertype};

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn packet() -> PacketBuilder {
    PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 1, 2].into()).ethernet(A, B)
}

#[test]
fn lines() {
    let udp = packet().udp(1234, 80).payload(&[0; 36]);
    let macs = "02:00:00:00:00:01 -> 02:00:00:00:00:02";
    for (frame, expected) in [
        (udp.build(), "IP4: MACS, 10.0.0.1 -> 10.0.1.2 UDP 1234 -> 80 len 64 ttl 64"),
        (
            udp.clone().tag(ethertype::QINQ, 0x600a).vlan(20).build(),
            "IP4: MACS 802.1ad vlan 10 priority 3 802.1q vlan 20, 10.0.0.1 -> 10.0.1.2 UDP 1234 -> 80 len 64 ttl 64",
        ),
        (
            udp.clone().id(7).fragment(185, true).build(),
            "IP4: MACS, 10.0.0.1 -> 10.0.1.2 UDP len 64 ttl 64 fragment id 0x0007 offset 1480+",
        ),
        (
            packet().ttl(1).tcp(1, 2, 3, 4, Flags::SYN.with(Flags::ACK)).build(),
            "IP4: MACS, 10.0.0.1 -> 10.0.1.2 TCP 1 -> 2 [SYN ACK] len 40 ttl 1",
        ),
        (
            packet().echo_request(9, 3).build(),
            "IP4: MACS, 10.0.0.1 -> 10.0.1.2 ICMP echo_request id 9 seq 3 len 28 ttl 64",
        ),
        (packet().protocol(200).build(), "IP4: MACS, 10.0.0.1 -> 10.0.1.2 protocol 200 len 20 ttl 64"),
        (
            arp_frame(A, B, &ArpPacket::request(A, [10, 0, 0, 1].into(), [10, 0, 0, 2].into())),
            "ARP: MACS, who has 10.0.0.2? tell 10.0.0.1",
        ),
        (udp.build()[..20].to_vec(), "IP4: MACS, truncated IPv4 header (6 bytes)"),
        (udp.build()[..5].to_vec(), "truncated Ethernet (5 bytes)"),
        (udp.vlan(1).build()[..16].to_vec(), "0x8100: MACS truncated VLAN tag (2 bytes)"),
    ] {
        assert_eq!(line(&frame).to_string(), expected.replace("MACS", macs));
    }
}

#[test]
fn details() {
    let frame = packet().tos(0xb8).id(0x1234).dont_fragment().udp(1234, 80).payload(&[0; 36]).build();
    assert_eq!(
        detail(&frame).to_string(),
        "IP4: 02:00:00:00:00:01 -> 02:00:00:00:00:02
  UDP: 10.0.0.1 -> 10.0.1.2
    tos 0xb8, ttl 64, length 64, checksum 0x12bf dscp EF ecn NON_ECT
    fragment id 0x1234, flags DONT_FRAGMENT
  UDP: 1234 -> 80
    length 44, checksum 0xe571"
    );
    let l3 = packet().tcp(1, 2, 3, 4, Flags::SYN).build()[14..].to_vec();
    assert_eq!(
        detail_ipv4(&l3).to_string(),
        "TCP: 10.0.0.1 -> 10.0.1.2
  tos 0x00, ttl 64, length 40, checksum 0x65ce dscp CS0 ecn NON_ECT
  fragment id 0x0000
TCP: 1 -> 2
  seq. 0x00000003 ack 0x00000004
  flags SYN, tcp header: 20 bytes
  window 65535, checksum 0x9ad6"
    );
    let arp = arp_frame(A, B, &ArpPacket::request(A, [10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
    assert_eq!(
        detail(&arp).to_string(),
        "ARP: 02:00:00:00:00:01 -> 02:00:00:00:00:02
  request, type ethernet/IP4, address size 6/4
  02:00:00:00:00:01/10.0.0.1 -> 00:00:00:00:00:00/10.0.0.2"
    );
    let later = packet().id(7).fragment(185, false).udp(1234, 80).build();
    let text = detail(&later).to_string();
    assert!(text.ends_with("\n    fragment id 0x0007 offset 1480"), "{text}");
    let needed = packet().icmp(kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED, 1400).build();
    assert!(detail(&needed).to_string().contains("\n  ICMP fragmentation_needed checksum 0x"));
    assert!(detail(&needed).to_string().ends_with(" mtu 1400"));
}

fn packet6() -> PacketBuilder {
    let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8:1::2".parse().unwrap());
    PacketBuilder::ipv6(src, dst).ethernet(A, B)
}

#[test]
fn lines_of_ipv6() {
    let udp = packet6().udp(1234, 80).payload(&[0; 16]);
    let target: std::net::Ipv6Addr = "fe80::2".parse().unwrap();
    let ask = |kind| packet6().ttl(255).icmp(kind, 0, 0).payload(&target.octets()).build();
    for (frame, expected) in [
        (udp.build(), "UDP 1234 -> 80 len 64 hop limit 64"),
        (udp.clone().extension(60, &[]).build(), "UDP 1234 -> 80 len 72 hop limit 64"),
        (packet6().tcp(1, 2, 3, 4, Flags::SYN).build(), "TCP 1 -> 2 [SYN] len 60 hop limit 64"),
        (packet6().echo_request(9, 3).build(), "ICMP6 echo_request id 9 seq 3 len 48 hop limit 64"),
        (packet6().icmp(2, 0, 1400).build(), "ICMP6 packet_too_big mtu 1400 len 48 hop limit 64"),
        (packet6().icmp(4, 1, 6).build(), "ICMP6 unrecognized_next_header at byte 6 len 48 hop limit 64"),
        (ask(135), "ICMP6 neighbor_solicitation target fe80::2 len 64 hop limit 255"),
        (ask(136), "ICMP6 neighbor_advertisement target fe80::2 len 64 hop limit 255"),
        (packet6().icmp(200, 7, 0).build(), "ICMP6 type 200 code 7 len 48 hop limit 64"),
        (packet6().protocol(59).build(), "IPV6_NONXT len 40 hop limit 64"),
        (
            udp.clone().id(7).fragment(0, true).build(),
            "UDP 1234 -> 80 len 72 hop limit 64 fragment id 0x00000007 offset 0+",
        ),
        (
            udp.clone().id(7).fragment(181, false).build(),
            "UDP len 72 hop limit 64 fragment id 0x00000007 offset 1448",
        ),
        (
            udp.clone().extension(0, &[]).build()[..60].to_vec(),
            "IP6_HOP_BY_HOP_OPTIONS, extension header is truncated len 72 hop limit 64",
        ),
    ] {
        let expected =
            format!("IP6: 02:00:00:00:00:01 -> 02:00:00:00:00:02, 2001:db8::1 -> 2001:db8:1::2 {expected}");
        assert_eq!(line(&frame).to_string(), expected);
        assert!(expected.ends_with(&line_ipv6(&frame[14..]).to_string()));
    }
    let cut = &udp.build()[..20];
    assert!(line(cut).to_string().ends_with(", truncated IPv6 header (6 bytes)"));
}

#[test]
fn details_of_ipv6() {
    // In the style of VPP's traces.
    let solicitation = wire::nd::build(
        "fe80::1".parse().unwrap(),
        "ff02::1:ff00:2".parse().unwrap(),
        &wire::nd::Message::NeighborSolicitation { target: "2001:db8::2".parse().unwrap() },
        &[wire::nd::NdOption::SourceMac(A)],
    );
    let sum = u16::from_be_bytes([solicitation[42], solicitation[43]]);
    assert_eq!(
        detail_ipv6(&solicitation).to_string(),
        format!(
            "ICMP6: fe80::1 -> ff02::1:ff00:2
  tos 0x00, flow label 0x0, hop limit 255, payload length 32
ICMP neighbor_solicitation checksum 0x{sum:04x}
    target address 2001:db8::2"
        )
    );
    let alert = [5, 2, 0, 0, 0x1e, 0];
    let b = packet6().tos(0xb9).flow_label(0xabcde).extension(0, &alert).extension(43, &[4, 1]);
    let frame = b.id(0x1234).fragment(0, true).udp(1234, 80).build();
    let sum = u16::from_be_bytes(*frame.last_chunk().unwrap());
    assert_eq!(
        detail(&frame).to_string(),
        format!(
            "IP6: 02:00:00:00:00:01 -> 02:00:00:00:00:02
  IP6_HOP_BY_HOP_OPTIONS: 2001:db8::1 -> 2001:db8:1::2
    tos 0xb9, flow label 0xabcde, hop limit 64, payload length 32
  IP6_HOP_BY_HOP_OPTIONS: length 8, router alert 0x0000, option 0x1e
  IPV6_ROUTE: length 8, type 4, segments left 1
  IPV6_FRAGMENTATION: length 8, id 0x00001234 offset 0, more follow
  UDP: 1234 -> 80
    length 8, checksum 0x{sum:04x}"
        )
    );
    let later = packet6().fragment(1, false).udp(1234, 80).build();
    assert!(detail(&later).to_string().ends_with(" offset 8"), "{}", detail(&later));
    let echo = packet6().echo_request(1, 2).build();
    assert!(detail(&echo).to_string().ends_with(" id 1 seq 2"));
}

#[test]
fn code_points() {
    for (dscp, name) in [
        (0, "CS0"),
        (8, "CS1"),
        (10, "AF11"),
        (38, "AF43"),
        (46, "EF"),
        (44, "VA"),
        (56, "CS7"),
        (1, "1"),
        (42, "42"),
    ] {
        let l3 = &packet().tos(dscp << 2).build()[14..];
        let text = detail_ipv4(l3).to_string();
        assert!(text.contains(&format!(" dscp {name} ecn ")), "{dscp}: {text}");
    }
}

proptest! {
    #[test]
    fn any_bytes_can_be_described(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        for text in [line(&bytes).to_string(), line_ipv4(&bytes).to_string(), line_ipv6(&bytes).to_string()] {
            prop_assert!(!text.is_empty() && !text.contains('\n'), "{}", text);
        }
        prop_assert!(!detail(&bytes).to_string().is_empty() && !detail_ipv4(&bytes).to_string().is_empty());
        prop_assert!(!detail_ipv6(&bytes).to_string().is_empty());
    }

    /// Tests that damaged packets can be described. They reach more code than random bytes.
    #[test]
    fn damaged_packets_can_be_described(
        which in 0..8,
        tags in 0usize..3,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        len in any::<prop::sample::Index>(),
    ) {
        let b = (0..tags).fold(packet().options(&[1; 4]), |b, v| b.vlan(v as u16));
        let mut frame = match which {
            0 => b.udp(1, 2).build(),
            1 => b.tcp(1, 2, 3, 4, Flags::ACK).build(),
            2 => b.echo_request(1, 2).build(),
            3 => b.icmp(3, 4, 1400).build(),
            4 => packet6().extension(0, &[5, 2, 0, 0, 1, 0]).udp(1, 2).build(),
            5 => packet6().fragment(0, true).icmp(135, 0, 0).payload(&[2; 24]).build(),
            6 => packet6().extension(43, &[0, 1]).extension(60, &[0x1e; 20]).tcp(1, 2, 3, 4, Flags::ACK).build(),
            _ => arp_frame(A, B, &ArpPacket::gratuitous(A, [1; 4].into())),
        };
        for (at, value) in damage {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        frame.truncate(len.index(frame.len() + 1));
        prop_assert!(!line(&frame).to_string().contains('\n'));
        prop_assert!(!detail(&frame).to_string().is_empty());
    }
}
