//! Descriptions of streams, and the resulting packets.

use std::net::Ipv4Addr;

use buf::{Frame, Pool};
use drivers::pktgen::{self, Config};
use proptest::prelude::*;
use wire::checksum::Sum;
use wire::extension::Chain;
use wire::{EthernetHeader, IcmpHeader, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader};

use super::describe;

const MACS: &str = "02:00:00:00:00:01 -> 02:fe:00:00:00:00";

/// Returns the first packets of a stream.
fn packets(text: &str, count: usize) -> Vec<Vec<u8>> {
    let stream = describe::read(text).unwrap_or_else(|e| panic!("{text}: {e}")).stream;
    let (mut device, generator, _) = pktgen::open(&Config::default());
    generator.add(stream).unwrap_or_else(|e| panic!("{text}: {e}"));
    generator.set_enabled(None, true);
    let (mut frame, mut cache) = (Frame::new(), Pool::new(512).unwrap().cache());
    let mut all = Vec::new();
    while all.len() < count {
        device.rx[0].poll(&mut frame, &mut cache).unwrap();
        assert!(!frame.is_empty(), "{text}");
        all.extend(frame.packets().map(|p| p.bytes().to_vec()));
        frame.free(&mut cache);
    }
    all.truncate(count);
    all
}

fn refused(text: &str) -> String {
    describe::read(text).map(|_| ()).expect_err(text).to_string()
}

/// Checks the lengths and checksums of an IPv4 packet. Returns its header, and the bytes after it.
fn checked(p: &[u8]) -> (&Ipv4Header, &[u8]) {
    let (ethernet, rest) = EthernetHeader::split(p).unwrap();
    assert_eq!(ethernet.ethertype(), 0x0800);
    let (ip, l4) = Ipv4Header::split(rest).unwrap();
    assert_eq!(usize::from(ip.total_len()), rest.len());
    assert!(ip.checksum_ok());
    match ip.protocol() {
        1 => assert!(Sum::of(l4).is_valid()),
        protocol => {
            assert!(Sum::of(l4).plus(ip.pseudo_sum(l4.len() as u16)).is_valid());
            if protocol == 17 {
                assert_eq!(usize::from(UdpHeader::split(l4).unwrap().0.length()), l4.len());
            }
        }
    }
    (ip, l4)
}

#[test]
fn sizes_count_up_or_are_random() {
    let text = |size: &str| {
        format!("{{ name x size {size} data {{ IP4: {MACS} UDP: 10.0.0.2 -> 10.0.1.2 incrementing 8 }} }}")
    };
    let sizes =
        |size: &str, n| packets(&text(size), n).iter().map(|p| checked(p).0.total_len() + 14).collect();
    let up: Vec<u16> = sizes("64-67", 6);
    assert_eq!(up, [64, 65, 66, 67, 64, 65]);
    let up: Vec<u16> = sizes("64 - 65", 3);
    assert_eq!(up, [64, 65, 64]);
    let same: Vec<u16> = sizes("100", 2);
    assert_eq!(same, [100, 100]);
    let mut any: Vec<u16> = sizes("64+67", 100);
    assert_ne!(any[..8], [64, 65, 66, 67, 64, 65, 66, 67]);
    any.sort_unstable();
    any.dedup();
    assert_eq!(any, [64, 65, 66, 67]);
    assert!(refused(&text("41-64")).contains("at least 42 bytes"));
    assert!(refused(&text("65-64")).contains("the smaller size"));
    for bad in ["64-", "-64", "x-64", "64~70"] {
        assert!(refused(&text(bad)).contains("a size such as 64-1500"), "{bad}");
    }
}

/// A size is checked before memory is reserved for a packet of this size.
#[test]
fn sizes_larger_than_a_buffer_are_refused_at_once() {
    let ip = format!("IP4: {MACS} UDP: 10.0.0.2 -> 10.0.1.2 incrementing 8");
    for size in [2113, 1 << 40, 1 << 63, usize::MAX] {
        for data in ["hex 0x40", "UDP: 10.0.0.2 -> 10.0.1.2", &ip] {
            let node = if data.starts_with("UDP") { "node ip4-input" } else { "" };
            for size in
                [format!("{size}-{size}"), format!("64-{size}"), format!("64+{size}"), format!("{size}")]
            {
                let said = refused(&format!("{{ size {size} {node} data {{ {data} }} }}"));
                assert!(said.contains("sizes must be 14 to 2112 bytes"), "{said}");
            }
        }
    }
    let long = format!("{{ data {{ hex 0x{} }} }}", "ab".repeat(2113));
    assert!(refused(&long).contains("not 2113 to 2113"));
}

#[test]
fn varying_packets_have_valid_checksums() {
    let data = "UDP: 10.0.0.2 - 10.0.0.5 -> 10.0.1.2+10.0.1.9 UDP: 7 -> 80 - 81";
    let all = packets(&format!("{{ size 64+99 data {{ IP4: {MACS} {data} }} }}"), 64);
    let seen: Vec<_> = all
        .iter()
        .map(|p| {
            let (ip, l4) = checked(p);
            let udp = UdpHeader::split(l4).unwrap().0;
            assert_eq!(udp.src_port(), 7);
            assert!((2..=9).contains(&ip.dst().octets()[3]));
            (ip.src().octets()[3], udp.dst_port())
        })
        .collect();
    assert_eq!(seen[..5], [(2, 80), (3, 81), (4, 80), (5, 81), (2, 80)]);
    assert!(
        refused(&format!("{{ data {{ IP4: {MACS} UDP: 10.0.0.9 - 10.0.0.2 -> 10.0.1.2 }} }}"))
            .contains("more than")
    );
}

#[test]
fn tcp_icmp_and_other_protocols() {
    let one = |data: &str| packets(&format!("{{ size 64-90 data {{ IP4: {MACS} {data} }} }}"), 30);
    for p in one("TCP: 10.0.0.2 -> 10.0.1.2 - 10.0.1.4 ttl 9 tos 0 TCP: 5 -> 6 SYN ACK incrementing 5") {
        let (ip, l4) = checked(&p);
        let tcp = TcpHeader::split(l4).unwrap().0;
        assert_eq!((ip.ttl(), tcp.src_port(), tcp.dst_port(), tcp.flags().0), (9, 5, 6, 0x12));
        assert_eq!(l4[20..26], [0, 1, 2, 3, 4, 0]);
    }
    for (data, message) in [("", 8), ("ICMP echo_reply", 0), ("ICMP echo_request hex 0xabcdef", 8)] {
        for p in one(&format!("ICMP: 10.0.0.2 -> 10.0.1.2 {data}")) {
            let (ip, l4) = checked(&p);
            assert_eq!((ip.protocol(), IcmpHeader::split(l4).unwrap().0.kind()), (1, message));
        }
    }
    let all = one("47: 10.0.0.2 -> 10.0.1.2 hex 0x0102");
    let (ip, rest) = Ipv4Header::split(&all[0][14..]).unwrap();
    assert_eq!((ip.protocol(), ip.checksum_ok(), &rest[..3]), (47, true, &[1, 2, 0][..]));
}

#[test]
fn frames_byte_by_byte() {
    let all = packets("{ data { hex 0x02fe0000000002000000000108060001aBcD } }", 1);
    assert_eq!(all[0].len(), 18);
    assert_eq!(all[0][12..], [8, 6, 0, 1, 0xab, 0xcd]);
    let all = packets(&format!("{{ size 60 data {{ 0x88b5: {MACS} hex 0x0102 }} }}"), 1);
    assert_eq!((all[0].len(), &all[0][12..17]), (60, &[0x88, 0xb5, 1, 2, 0][..]));
    let all = packets(&format!("{{ data {{ IP4: {MACS} incrementing 3 }} }}"), 1);
    assert_eq!((all[0].len(), &all[0][12..18]), (64, &[8, 0, 0, 1, 2, 0][..]));
}

#[test]
fn invalid_descriptions_are_refused() {
    let data = |data: &str| refused(&format!("{{ name x data {{ {data} }} }}"));
    for (text, expected) in [
        ("hex 0x123", "pairs of hex digits"),
        ("hex 12", "pairs of hex digits"),
        ("hex 0x", "pairs of hex digits"),
        ("hex 0x0102", "at least 14 bytes"),
        ("", "a packet such as"),
        ("IP9: 1 -> 2", "a type such as"),
        ("0x05ff: x", "a type such as"),
        ("IP4: 02:00:00:00:00:01 02:fe:00:00:00:00", "expected \"->\""),
        (&format!("IP4: {MACS} SCTP: 1.2.3.4 -> 1.2.3.5"), "a protocol's number"),
        (&format!("IP4: {MACS} UDP: 1.2.3 -> 1.2.3.5"), "an IPv4 address"),
        (&format!("IP4: {MACS} UDP: 1.2.3.4 -> 1.2.3.5 UDP: 1 -> 65536"), "a port"),
        (&format!("IP4: {MACS} UDP: 1.2.3.4 -> 1.2.3.5 ttl 256"), "0 to 255"),
        (&format!("IP4: {MACS} ICMP: 1.2.3.4 -> 1.2.3.5 ICMP nonsense"), "echo_request or echo_reply"),
        (&format!("IP4: {MACS} UDP: 1.2.3.4 -> 1.2.3.5 incrementing 0"), "at least 1"),
        (&format!("IP4: {MACS} UDP: 1.2.3.4 -> 1.2.3.5 nonsense"), "not \"nonsense\""),
    ] {
        let message = data(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
    assert!(refused("{ name x }").contains("no data"));
    assert!(refused("{ data { hex 0x0102030405060708090a0b0c0d0e } } more").contains("after its last"));
    assert!(refused("{ data { hex 0x0102030405060708090a0b0c0d0e }").contains("not the end"));
}

proptest! {
    /// Any text is either accepted or refused: the parser and the generator never panic.
    #[test]
    fn any_words_are_parsed_or_refused(words in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "name", "x", "size", "64-65", "64+99", "0", "7", "99999999999999999999", "-", "+", "data", "IP4:",
        "UDP:", "TCP:", "ICMP:", "ICMP", "->", "02:00:00:00:00:01", "10.0.0.1", "10.0.0.9", "10.0.0.1-10.0.0.3", "hex", "IP6:", "ICMP6:",
        "fd00::1", "fd00::1-fd00::9", "hop-limit",
        "0x0102", "incrementing", "ttl", "SYN", "rate", "limit", "echo_reply", "é-é", "0x88b5:", ":",
    ]), 0..40), whole: bool) {
        let mut text = words.join(" ");
        if whole {
            text = format!("{{ size 64-70 data {{ IP4: {MACS} UDP: 10.0.0.1 -> {} {text} }} }}", Ipv4Addr::LOCALHOST);
        }
        if let Ok(description) = describe::read(&text) {
            let (_, generator, _) = pktgen::open(&Config::default());
            let _ = generator.add(description.stream);
        }
    }
}

#[test]
fn packets_for_ip4_input_begin_with_their_ip_header() {
    let texts = ["UDP: 10.0.0.2 -> 10.0.1.2 incrementing 8", "ICMP: 10.0.0.2 -> 10.0.1.2 ICMP echo_request"];
    for data in texts {
        let all = packets(&format!("{{ size 64-65 data {{ {data} }} node ip4-input }}"), 2);
        assert_eq!(all.iter().map(|p| checked(p).0.total_len()).collect::<Vec<_>>(), [64, 65]);
        assert!(refused(&format!("{{ data {{ {data} }} }}")).contains("node ip4-input"));
    }
    let all = packets("{ node ip4-input data { 47: 10.0.0.2 -> 10.0.1.2 - 10.0.1.3 } }", 2);
    assert!(all.iter().all(|p| Ipv4Header::split(&p[14..]).unwrap().0.checksum_ok()));
    let all = packets("{ node ip4-input data { hex 0x45000014 } }", 1);
    assert_eq!((all[0].len(), &all[0][12..]), (18, &[8, 0, 0x45, 0, 0, 0x14][..]));
    let udp = "UDP: 10.0.0.2 -> 10.0.1.2";
    assert!(refused(&format!("{{ node ip4-input size 27 data {{ {udp} }} }}")).contains("at least 28 bytes"));
    assert!(refused(&format!("{{ node ip4-input data {{ IP4: {MACS} {udp} }} }}")).contains("leave out"));
    assert!(refused(&format!("{{ node ip5-input data {{ {udp} }} }}")).contains("or ip6-input"));
    assert!(refused(&format!("{{ node ip6-input data {{ {udp} }} }}")).contains("need \"node ip4-input\""));
    assert!(refused("{ data { 300: 10.0.0.2 -> 10.0.1.2 } }").contains("a type such as"));
}

#[test]
fn ethernet_addresses_may_be_three_groups() {
    let all = packets("{ data { IP4: 1.2.3 -> 4.5.6 UDP: 10.0.0.2 -> 10.0.1.2 UDP: 1234 -> 2345 } }", 1);
    checked(&all[0]);
    assert_eq!(all[0][..12], [0, 4, 0, 5, 0, 6, 0, 1, 0, 2, 0, 3]);
}

/// Checks the lengths and checksums of an IPv6 packet. Returns its header, and the bytes after it.
fn checked6(p: &[u8]) -> (&Ipv6Header, &[u8]) {
    let (ethernet, rest) = EthernetHeader::split(p).unwrap();
    assert_eq!(ethernet.ethertype(), 0x86dd);
    let (ip, l4) = Ipv6Header::split(rest).unwrap();
    assert_eq!((ip.version(), ip.total_len()), (6, rest.len()));
    let chain = Chain::of(rest).unwrap();
    assert!(chain.whole && chain.offset == 40);
    if matches!(ip.next_header(), 6 | 17 | 58) {
        assert!(Sum::of(l4).plus(ip.pseudo_sum(ip.next_header(), l4.len() as u32)).is_valid());
    }
    if ip.next_header() == 17 {
        assert_eq!(usize::from(UdpHeader::split(l4).unwrap().0.length()), l4.len());
    }
    (ip, l4)
}

#[test]
fn ipv6_packets_vary_like_ipv4_packets() {
    let data = "UDP: fd00::fffe - fd00::1:1 -> 2001:db8::2+2001:db8::9 hop-limit 9 traffic-class 184 UDP: 7 -> 80 - 81";
    let all = packets(&format!("{{ size 70+99 data {{ IP6: {MACS} {data} }} }}"), 64);
    let seen: Vec<_> = all
        .iter()
        .map(|p| {
            let (ip, l4) = checked6(p);
            let udp = UdpHeader::split(l4).unwrap().0;
            assert_eq!((udp.src_port(), ip.hop_limit(), ip.traffic_class()), (7, 9, 184));
            assert!((2..=9).contains(&ip.dst().segments()[7]));
            (ip.src().to_string(), udp.dst_port())
        })
        .collect();
    let expected =
        [("fd00::fffe", 80), ("fd00::ffff", 81), ("fd00::1:0", 80), ("fd00::1:1", 81), ("fd00::fffe", 80)];
    assert!(seen.iter().map(|(a, p)| (a.as_str(), *p)).zip(expected).all(|(a, b)| a == b), "{seen:?}");

    let one = |data: &str| packets(&format!("{{ size 80-90 data {{ IP6: {MACS} {data} }} }}"), 20);
    for p in one("TCP: fd00::1 -> fd00::2 - fd00::4 TCP: 5 -> 6 SYN ACK incrementing 5") {
        let tcp = TcpHeader::split(checked6(&p).1).unwrap().0;
        assert_eq!((tcp.src_port(), tcp.dst_port(), tcp.flags().0), (5, 6, 0x12));
    }
    for (data, message) in [("", 128), ("ICMP echo_reply", 129), ("ICMP echo_request hex 0xabcdef", 128)] {
        for p in one(&format!("ICMP6: fd00::1 -> fd00::2 {data}")) {
            let (ip, l4) = checked6(&p);
            assert_eq!((ip.next_header(), l4[0]), (58, message));
        }
    }
    assert_eq!(checked6(&one("47: fd00::1 -> fd00::2 hex 0x0102")[0]).1[..3], [1, 2, 0]);
    for bare in ["UDP: fd00::1 -> fd00::2 incrementing 8", "ICMP6: fd00::1 -> fd00::2 ICMP echo_request"] {
        let all = packets(&format!("{{ size 64-65 data {{ {bare} }} node ip6-input }}"), 2);
        assert_eq!(all.iter().map(|p| checked6(p).0.total_len()).collect::<Vec<_>>(), [64, 65]);
        assert!(refused(&format!("{{ data {{ {bare} }} }}")).contains("node ip6-input"));
        assert!(
            refused(&format!("{{ node ip4-input data {{ {bare} }} }}")).contains("need \"node ip6-input\"")
        );
    }
}

#[test]
fn mismatched_addresses_are_refused() {
    for (data, expected) in [
        (format!("IP4: {MACS} UDP: fd00::1 -> fd00::2"), "an IPv4 address"),
        (format!("IP6: {MACS} UDP: 10.0.0.1 -> 10.0.0.2"), "an IPv6 address"),
        (format!("IP6: {MACS} UDP: fd00::1 -> 10.0.0.2"), "an IPv6 address"),
        (format!("IP6: {MACS} UDP: fd00::9 - fd00::1 -> fd00::2"), "more than"),
        (format!("IP6: {MACS} UDP: fd00::1 - fd00:0:0:1::1 -> fd00::2"), "first 64 bits"),
        (format!("IP6: {MACS} ICMP: fd00::1 -> fd00::2"), "\"ICMP6:\""),
        (format!("IP6: {MACS} UDP: fd00::1 -> fd00::2 ttl 9"), "not \"ttl\""),
        ("UDP: x -> fd00::2".to_string(), "an IP address"),
        ("UDP: 10.0.0.1 - fd00::1 -> fd00::2".to_string(), "not a range"),
    ] {
        let message = refused(&format!("{{ data {{ {data} }} }}"));
        assert!(message.contains(expected), "{data}: {message}");
    }
}
