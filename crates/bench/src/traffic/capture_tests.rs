use proptest::prelude::*;
use wire::builder::PacketBuilder;

use super::*;

const HERE: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// A file of frames as libpcap writes it, of each of which it has so many bytes at most.
fn file(frames: &[Vec<u8>], most: usize) -> tempfile::NamedTempFile {
    let mut bytes = Vec::new();
    let mut put = |words: &[u32]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    // Magic number, version 2.4, no time zone, no accuracy, the longest, Ethernet.
    put(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for frame in frames {
        let kept = &frame[..frame.len().min(most)];
        for word in [0, 0, kept.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(kept);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn ip4() -> PacketBuilder {
    PacketBuilder::ipv4([192, 0, 2, 1].into(), [198, 51, 100, 7].into()).ethernet(HERE, HERE)
}

fn ip6() -> PacketBuilder {
    PacketBuilder::ipv6("2001:db8::1".parse().unwrap(), "2001:db8:1::2".parse().unwrap()).ethernet(HERE, HERE)
}

fn mixed() -> Vec<Vec<u8>> {
    let mut all = vec![ip4().udp(5000, 53).payload(&[1; 86]).build(); 3];
    // An acknowledgement of 64 bytes with its check sequence, in which the mark has no room.
    all.push(ip4().tcp(443, 50_000, 1, 2, wire::tcp::Flags::ACK).frame_len(60).build());
    all.push(ip6().vlan(7).udp(1, 2).payload(&[2; 300]).build());
    all.push(ip6().echo_request(1, 1).payload(&[3; 64]).build());
    // What cannot be sent.
    all.push(ip4().fragment(0, true).udp(1, 2).payload(&[4; 64]).build());
    all.push(ip4().protocol(wire::protocol::ESP).payload(&[5; 64]).build());
    all.push(ip4().ethernet(HERE, Mac::BROADCAST).udp(1, 2).payload(&[6; 64]).build());
    let arp = wire::ArpPacket::request(HERE, [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    all.push(wire::builder::arp_frame(HERE, HERE, &arp));
    all
}

#[test]
fn frames_that_are_alike_are_one_kind() {
    // Headers are enough.
    for most in [65_535, 96] {
        let file = file(&mixed(), most);
        let found = captured(file.path(), "office", false).unwrap();
        assert_eq!((found.frames, found.longer), (10, 1));
        let kinds = &found.traffic.flows[0].frames;
        let of =
            |family, protocol| kinds.iter().find(|k| (k.family, k.protocol) == (family, protocol)).unwrap();
        let dns = of(Family::Ipv4, Protocol::Udp);
        // 14 + 20 + 8 + 86 bytes, and the check sequence.
        assert_eq!((dns.size, dns.weight, dns.source, dns.vary.len()), (132, 3, None, 2));
        assert_eq!(of(Family::Ipv4, Protocol::Tcp).size, 14 + 20 + 20 + 18 + 4);
        let tagged = of(Family::Ipv6, Protocol::Udp);
        assert_eq!((tagged.size, tagged.vlan, tagged.weight), (14 + 4 + 40 + 8 + 300 + 4, Some(7), 1));
        assert_eq!(of(Family::Ipv6, Protocol::Icmp).size, 14 + 40 + 8 + 64 + 4);
        assert_eq!(
            told(&found.left_out),
            "1 fragments, 1 neither of IPv4 nor of IPv6, 1 neither of UDP, TCP nor ICMP, 1 to groups or to all, which routers do not forward"
        );
    }
}

#[test]
fn addresses_and_ports_are_kept_if_they_are_wanted() {
    let file = file(&mixed(), 65_535);
    let found = captured(file.path(), "office", true).unwrap();
    let dns = found.traffic.flows[0].frames.iter().find(|kind| kind.weight == 3).unwrap();
    assert_eq!(dns.destination, Some([198, 51, 100, 7].into()));
    assert_eq!((dns.source_port, dns.destination_port, dns.vary.len()), (5000, 53, 0));
    // Of IPv4 one, of IPv6 one.
    assert_eq!(found.traffic.own_networks(false).len(), 2);
}

#[test]
fn a_campaign_has_it_as_it_was_written() {
    let file = file(&mixed(), 65_535);
    for addresses in [false, true] {
        let traffic = captured(file.path(), "office", addresses).unwrap().traffic;
        let head = "name = 'a'\nduts = ['linux']\n[[test]]\ntraffic = 'office'\n";
        let campaign =
            crate::campaign::Campaign::parse(&format!("{head}{}", traffic.toml().unwrap())).unwrap();
        assert_eq!(campaign.traffic("office", 0), Some(traffic));
    }
}

#[test]
fn what_is_no_capture_is_refused_by_name() {
    let empty = file(&[], 0);
    let said = |path: &Path| captured(path, "x", false).map_or_else(|e| e.0, |_| "nothing".into());
    assert!(said(empty.path()).contains("none of its 0 frames can be sent"), "{}", said(empty.path()));
    let arp = file(&mixed()[9..], 65_535);
    assert!(said(arp.path()).contains("1 neither of IPv4 nor of IPv6"), "{}", said(arp.path()));
    std::fs::write(empty.path(), "no capture").unwrap();
    for path in [empty.path(), Path::new("/nowhere/x.pcap"), Path::new("/")] {
        assert!(said(path).starts_with(&format!("{}: ", path.display())), "{}", said(path));
    }
    let many: Vec<_> = (0..5000).map(|n| ip4().udp(n, 1).payload(&[0; 64]).build()).collect();
    let many = file(&many, 65_535);
    assert_eq!(captured(many.path(), "x", false).unwrap().traffic.flows[0].frames.len(), 1);
    let said = captured(many.path(), "x", true).unwrap_err().0;
    assert!(said.contains("5000 kinds of frames, and 4096 is the most: leave --addresses away"), "{said}");
}

proptest! {
    /// Weights are what a mix can have, and nearly in the proportions of the capture.
    #[test]
    fn weights_are_shares_of_a_mix(counts in prop::collection::vec(1u64..1 << 40, 1..500)) {
        let mut kinds: Vec<_> = counts.iter().map(|n| (Kind::udp(Family::Ipv4, 64), *n)).collect();
        weigh(&mut kinds);
        let weights: u64 = kinds.iter().map(|(kind, _)| u64::from(kind.weight)).sum();
        prop_assert!(weights <= TURNS && kinds.iter().all(|(kind, _)| kind.weight > 0));
        let all: u64 = counts.iter().sum();
        for (kind, count) in &kinds {
            let wanted = *count as f64 / all as f64;
            let is = f64::from(kind.weight) / weights as f64;
            prop_assert!((is - wanted).abs() <= 2.0 * counts.len() as f64 / TURNS as f64 + 1.0 / TURNS as f64, "{is} {wanted}");
        }
    }

    /// Whatever a file has, it is read or refused.
    #[test]
    fn any_bytes_are_read_or_refused(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..20), most in 0usize..120) {
        let file = file(&frames, most);
        if let Ok(found) = captured(file.path(), "x", true) {
            let flows = found.traffic.flows(&Ends::rfc(HERE, HERE, false));
            prop_assert!(flows.is_ok(), "{:?}", flows.err());
        }
    }
}
