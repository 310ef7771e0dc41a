use proptest::prelude::*;
use wire::builder::PacketBuilder;

use super::*;

const VLANS: Keep = Keep { addresses: false, vlans: true };
const ADDRESSES: Keep = Keep { addresses: true, vlans: false };
const HERE: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// Writes a capture file in libpcap's format, with at most `most` bytes of each frame.
fn file(frames: &[Vec<u8>], most: usize) -> tempfile::NamedTempFile {
    let mut bytes = Vec::new();
    let mut put = |words: &[u32]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    // Magic number, version 2.4, time zone 0, accuracy 0, maximum length, link type Ethernet.
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
    // A TCP ACK of 64 bytes with check sequence, too short for the mark.
    all.push(ip4().tcp(443, 50_000, 1, 2, wire::tcp::Flags::ACK).frame_len(60).build());
    all.push(ip6().vlan(7).udp(1, 2).payload(&[2; 300]).build());
    all.push(ip6().echo_request(1, 1).payload(&[3; 64]).build());
    // Frames that cannot be sent.
    all.push(ip4().fragment(0, true).udp(1, 2).payload(&[4; 64]).build());
    all.push(ip4().protocol(wire::protocol::ESP).payload(&[5; 64]).build());
    all.push(ip4().ethernet(HERE, Mac::BROADCAST).udp(1, 2).payload(&[6; 64]).build());
    let link = PacketBuilder::ipv6("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
    all.push(link.ethernet(HERE, HERE).echo_request(1, 1).payload(&[6; 64]).build());
    all.push(ip4().udp(1, 2).payload(&[7; 2000]).build());
    let arp = wire::ArpPacket::request(HERE, [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    all.push(wire::builder::arp_frame(HERE, HERE, &arp));
    all
}

#[test]
fn similar_frames_are_one_kind() {
    // Also with truncated frames that contain all headers.
    for most in [65_535, 96] {
        let file = file(&mixed(), most);
        let found = captured(file.path(), "office", VLANS).unwrap();
        assert_eq!((found.frames, found.longer), (12, 1));
        let kinds = &found.traffic.flows[0].frames;
        let of =
            |family, protocol| kinds.iter().find(|k| (k.family, k.protocol) == (family, protocol)).unwrap();
        let dns = of(Family::Ipv4, Protocol::Udp);
        // 14 + 20 + 8 + 86 bytes, plus the check sequence.
        assert_eq!((dns.size, dns.weight, dns.source, dns.vary.len()), (132, 3, None, 2));
        assert_eq!(of(Family::Ipv4, Protocol::Tcp).size, 14 + 20 + 20 + 18 + 4);
        let tagged = of(Family::Ipv6, Protocol::Udp);
        assert_eq!((tagged.size, tagged.vlan, tagged.weight), (14 + 4 + 40 + 8 + 300 + 4, Some(7), 1));
        assert_eq!(of(Family::Ipv6, Protocol::Icmp).size, 14 + 40 + 8 + 64 + 4);
        assert_eq!(
            told(&found.left_out),
            "1 fragments, 1 longer than 1518 bytes (capture without GRO and TSO: ethtool -K), 1 neither IPv4 nor IPv6, 1 neither UDP, \
             TCP nor ICMP, 2 never forwarded by routers (multicast, broadcast, link-local, loopback)"
        );
        let untagged = captured(file.path(), "office", Keep::default()).unwrap();
        let kinds = &untagged.traffic.flows[0].frames;
        assert!(
            kinds.iter().any(|k| k.size == 14 + 40 + 8 + 300 + 4) && kinds.iter().all(|k| k.vlan.is_none())
        );
    }
}

#[test]
fn link_local_frames_are_left_out() {
    for ip in [
        "127.0.0.1",
        "0.0.0.0",
        "0.1.2.3",
        "255.255.255.255",
        "169.254.1.1",
        "239.1.1.1",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
    ] {
        assert!(stays(ip.parse().unwrap()), "{ip}");
    }
    for ip in ["10.0.0.1", "192.168.1.1", "223.255.255.254", "2001:db8::1", "fd00::1"] {
        assert!(!stays(ip.parse().unwrap()), "{ip}");
    }
}

#[test]
fn addresses_and_ports_are_kept_on_request() {
    let file = file(&mixed(), 65_535);
    let found = captured(file.path(), "office", ADDRESSES).unwrap();
    let dns = found.traffic.flows[0].frames.iter().find(|kind| kind.weight == 3).unwrap();
    assert_eq!(dns.destination, Some([198, 51, 100, 7].into()));
    assert_eq!((dns.source_port, dns.destination_port, dns.vary.len()), (5000, 53, 0));
    // The traffic has one network for IPv4, and one for IPv6.
    assert_eq!(found.traffic.own_networks(false).len(), 2);
}

#[test]
fn written_traffic_is_read_back_by_a_campaign() {
    let file = file(&mixed(), 65_535);
    for keep in [Keep::default(), VLANS, ADDRESSES] {
        let traffic = captured(file.path(), "office", keep).unwrap().traffic;
        let head = "name = 'a'\nduts = ['none']\n[[test]]\ntraffic = 'office'\n";
        let campaign =
            crate::campaign::Campaign::parse(&format!("{head}{}", traffic.toml().unwrap())).unwrap();
        assert_eq!(campaign.traffic("office", 0), Some(traffic));
    }
}

#[test]
fn invalid_captures_are_refused_by_name() {
    let empty = file(&[], 0);
    let said = |path: &Path| captured(path, "x", Keep::default()).map_or_else(|e| e.0, |_| "nothing".into());
    assert!(said(empty.path()).contains("none of its 0 frames can be sent"), "{}", said(empty.path()));
    let arp = file(&mixed()[11..], 65_535);
    assert!(said(arp.path()).contains("1 neither IPv4 nor IPv6"), "{}", said(arp.path()));
    std::fs::write(empty.path(), "no capture").unwrap();
    for path in [empty.path(), Path::new("/nowhere/x.pcap"), Path::new("/")] {
        assert!(said(path).starts_with(&format!("{}: ", path.display())), "{}", said(path));
    }
    let many: Vec<_> = (0..5000).map(|n| ip4().udp(n, 1).payload(&[0; 64]).build()).collect();
    let many = file(&many, 65_535);
    assert_eq!(captured(many.path(), "x", Keep::default()).unwrap().traffic.flows[0].frames.len(), 1);
    let found = captured(many.path(), "x", ADDRESSES).unwrap();
    assert_eq!(
        (found.traffic.flows[0].frames.len(), told(&found.left_out)),
        (4096, "904 too rare for a mix of 4096 frames".into())
    );
}

proptest! {
    /// The numbers of frames add up to the size of a mix, and each differs by less than one from its share of
    /// the capture.
    #[test]
    fn weights_of_a_mix_follow_the_capture(counts in prop::collection::vec(prop_oneof![1u64..10, 1u64..1 << 40], 1..500)) {
        let turns = turns(&counts);
        let (sum, all) = (turns.iter().map(|n| u64::from(*n)).sum::<u64>(), counts.iter().sum::<u64>());
        prop_assert_eq!(sum, all.min(TURNS));
        for (turns, count) in turns.iter().zip(&counts) {
            let share = *count as f64 / all as f64 * sum as f64;
            prop_assert!((f64::from(*turns) - share).abs() < 1.0, "{} of {}", turns, share);
        }
    }

    /// Any frames in a file either are rejected, or give valid traffic.
    #[test]
    fn any_bytes_are_read_or_refused(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..20), most in 0usize..120) {
        let file = file(&frames, most);
        if let Ok(found) = captured(file.path(), "x", Keep { addresses: true, vlans: true }) {
            let flows = found.traffic.flows(&Ends::rfc(HERE, HERE, false));
            prop_assert!(flows.is_ok(), "{:?}", flows.err());
        }
    }
}
