use std::net::Ipv6Addr;

use proptest::prelude::*;
use wire::icmpv6::Icmpv6Header;
use wire::nd::{self, Message, NdError, NdOption, Preference, PrefixInformation, RouterAdvertisement};
use wire::{Ipv6Header, Mac, ipv6, protocol};

use crate::bytes;

const MAC: Mac = Mac([2, 0xfe, 0, 0, 0, 1]);
const PEER_MAC: Mac = Mac([2, 0xfe, 0, 0, 0, 2]);
const LOCAL: &str = "fe80::fe:ff:fe00:1";
const PEER: &str = "2001:db8::2";

fn a(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Packets of another implementation, each with its source, destination, message and options.
#[allow(clippy::type_complexity)]
#[expect(clippy::too_many_lines, reason = "a list of messages")]
fn examples() -> Vec<(Vec<u8>, &'static str, &'static str, Message, Vec<NdOption<'static>>)> {
    const SERVERS: &[[u8; 16]] = &[
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53).octets(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x54).octets(),
    ];
    const QUOTE: Ipv6Header = {
        let mut h = Ipv6Header::zeroed();
        (h.0[0], h.0[6], h.0[7]) = (0x60, protocol::NONE, 64);
        (h.0[8], h.0[9], h.0[10], h.0[11], h.0[23]) = (0x20, 1, 0xd, 0xb8, 9);
        (h.0[24], h.0[25], h.0[26], h.0[27], h.0[29], h.0[39]) = (0x20, 1, 0xd, 0xb8, 5, 1);
        h
    };
    vec![
        (
            bytes(
                "6000000000203aff fe8000000000000000fe00fffe000001 ff0200000000000000000001ff000002
                 87004a6300000000 20010db8000000000000000000000002 010102fe00000001",
            ),
            LOCAL,
            "ff02::1:ff00:2",
            Message::NeighborSolicitation { target: a(PEER) },
            vec![NdOption::SourceMac(MAC)],
        ),
        (
            bytes(
                "6000000000183aff 00000000000000000000000000000000 ff0200000000000000000001ff000002
                 87004ceb00000000 20010db8000000000000000000000002",
            ),
            "::",
            "ff02::1:ff00:2",
            Message::NeighborSolicitation { target: a(PEER) },
            vec![],
        ),
        (
            bytes(
                "6000000000203aff 20010db8000000000000000000000002 fe8000000000000000fe00fffe000001
                 880038ade0000000 20010db8000000000000000000000002 020102fe00000002",
            ),
            PEER,
            LOCAL,
            Message::NeighborAdvertisement {
                target: a(PEER),
                router: true,
                solicited: true,
                overrides: true,
            },
            vec![NdOption::TargetMac(PEER_MAC)],
        ),
        (
            bytes(
                "6000000000103aff fe8000000000000000fe00fffe000001 ff020000000000000000000000000002
                 8500793000000000 010102fe00000001",
            ),
            LOCAL,
            "ff02::2",
            Message::RouterSolicitation,
            vec![NdOption::SourceMac(MAC)],
        ),
        (
            bytes(
                "6000000000683aff fe8000000000000000fe00fffe000001 ff020000000000000000000000000001
                 8600fbed40480708 00007530000003e8 010102fe00000001 05010000000005dc 030440c000278d00
                 00093a8000000000 20010db8000100000000000000000000 1905000000000258
                 20010db8000000000000000000000053 20010db8000000000000000000000054",
            ),
            LOCAL,
            "ff02::1",
            Message::RouterAdvertisement(RouterAdvertisement {
                hop_limit: 64,
                managed: false,
                other: true,
                preference: Preference::High,
                lifetime: 1800,
                reachable: 30_000,
                retransmit: 1000,
            }),
            vec![
                NdOption::SourceMac(MAC),
                NdOption::Mtu(1500),
                NdOption::Prefix(PrefixInformation {
                    prefix: a("2001:db8:1::"),
                    len: 64,
                    on_link: true,
                    autonomous: true,
                    valid: 2_592_000,
                    preferred: 604_800,
                }),
                NdOption::DnsServers { lifetime: 600, servers: SERVERS },
            ],
        ),
        (
            bytes(
                "6000000000603aff fe8000000000000000fe00fffe000001 20010db8000000000000000000000009
                 89001e1800000000 fe800000000000000000000000000002 20010db8000500000000000000000001
                 020102fe00000002 0406000000000000 6000000000003b40 20010db8000000000000000000000009
                 20010db8000500000000000000000001",
            ),
            LOCAL,
            "2001:db8::9",
            Message::Redirect { target: a("fe80::2"), destination: a("2001:db8:5::1") },
            vec![NdOption::TargetMac(PEER_MAC), NdOption::Redirected(QUOTE.as_bytes())],
        ),
    ]
}

fn parse(packet: &[u8]) -> Result<(Message, Vec<NdOption<'_>>), NdError> {
    let (ip, icmp) = Ipv6Header::split(packet).unwrap();
    nd::parse(ip, icmp).map(|(message, options)| (message, options.collect()))
}

/// The packet after a change of its header, its message or its options, with a correct length and checksum.
fn changed(packet: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = packet.to_vec();
    change(&mut out);
    let len = (out.len() - 40) as u16;
    out[4..6].copy_from_slice(&len.to_be_bytes());
    out[42..44].fill(0);
    let (ip, rest) = Ipv6Header::split(&out).unwrap();
    let (icmp, body) = Icmpv6Header::split(rest).unwrap();
    let sum = Icmpv6Header::new(ip, icmp.kind(), icmp.code(), icmp.rest(), body).checksum();
    out[42..44].copy_from_slice(&sum.to_be_bytes());
    out
}

#[test]
fn messages_equal_those_of_another_implementation() {
    for (packet, src, dst, message, options) in examples() {
        let (ip, icmp) = Ipv6Header::split(&packet).unwrap();
        assert_eq!((ip.src(), ip.dst()), (a(src), a(dst)));
        assert_eq!(parse(&packet), Ok((message, options.clone())));
        assert_eq!(nd::build(a(src), a(dst), &message, &options), packet);
        let (_, found) = nd::parse(ip, icmp).unwrap();
        let is_source = |o: &&NdOption<'_>| **o == NdOption::SourceMac(MAC);
        assert_eq!(found.source_mac(), options.iter().find(is_source).map(|_| MAC));
        let is_target = |o: &&NdOption<'_>| **o == NdOption::TargetMac(PEER_MAC);
        assert_eq!(found.target_mac(), options.iter().find(is_target).map(|_| PEER_MAC));
    }
}

#[test]
fn rules_for_all_messages() {
    for (packet, .., message, options) in examples() {
        let bad = |change: &dyn Fn(&mut Vec<u8>)| parse(&changed(&packet, |p| change(p))).map(|_| ());
        assert_eq!(bad(&|_| ()), Ok(()));
        assert_eq!(bad(&|p| p[7] = 254), Err(NdError::HopLimit));
        assert_eq!(bad(&|p| p[41] = 1), Err(NdError::Code));
        assert_eq!(bad(&|p| p[40] = 128), Err(NdError::Kind));
        let mut flipped = packet.clone();
        flipped[43] ^= 1;
        assert_eq!(parse(&flipped), Err(NdError::Checksum));
        let fixed = packet.len() - nd::build(a("::"), a("::"), &Message::RouterSolicitation, &options).len();
        assert_eq!(bad(&|p| p.truncate(48 + fixed)), Ok(()), "options are not required");
        if fixed > 0 {
            assert_eq!(bad(&|p| p.truncate(47 + fixed)), Err(NdError::Short), "{message:?}");
        }
        assert_eq!(parse(&packet[..47]), Err(NdError::Short));
        for option in [&[99, 0, 0, 0, 0, 0, 0, 0][..], &[99], &[99, 2, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(bad(&|p| p.extend(option)), Err(NdError::OptionLength), "{option:?}");
        }
        // Unknown options are skipped, and so are malformed known ones.
        let others = [[99, 1, 1, 2, 3, 4, 5, 6], [3, 1, 64, 0, 0, 0, 0, 0], [25, 2, 0, 0, 0, 0, 0, 0]];
        let more = changed(&packet, |p| {
            p.extend(others[0]);
            p.extend(others[1]);
            p.extend(others[2]);
            p.extend([0; 8]);
        });
        assert_eq!(parse(&more), Ok((message, options)));
        for mac in [[1, 1, 1, 0, 0, 0, 0, 1], [2, 1, 0, 0, 0, 0, 0, 0], [1, 1, 255, 255, 255, 255, 255, 255]]
        {
            assert_eq!(bad(&|p| p.extend(mac)), Err(NdError::LinkLayerAddress), "{mac:?}");
        }
        let long = [&[2, 2][..], &[2; 14]].concat();
        assert_eq!(bad(&|p| p.extend(&long)), Err(NdError::LinkLayerAddress));
    }
}

#[test]
fn rules_for_each_message() {
    let [solicit, dad, advertise, rs, ra, redirect] = examples().try_into().unwrap();
    let with = |packet: &[u8], at: usize, address: &str| {
        parse(&changed(packet, |p| p[at..at + 16].copy_from_slice(&a(address).octets()))).map(|_| ())
    };
    let from = |packet: &[u8], src: &str| with(packet, 8, src);
    let to = |packet: &[u8], dst: &str| with(packet, 24, dst);
    // Section 7.1.1.
    assert_eq!(with(&solicit.0, 48, "ff02::1"), Err(NdError::Target));
    assert_eq!(to(&dad.0, "2001:db8::2"), Err(NdError::Destination));
    assert_eq!(to(&dad.0, "ff02::1"), Err(NdError::Destination));
    assert_eq!(from(&solicit.0, "::"), Err(NdError::SourceMac));
    assert!(to(&solicit.0, "2001:db8::2").is_ok(), "a probe");
    // Section 7.1.2.
    assert_eq!(with(&advertise.0, 48, "ff02::1"), Err(NdError::Target));
    assert_eq!(to(&advertise.0, "ff02::1"), Err(NdError::Solicited));
    let unasked = changed(&advertise.0, |p| p[44] = 0x20);
    assert!(to(&unasked, "ff02::1").is_ok());
    // Section 6.1.1.
    assert_eq!(from(&rs.0, "::"), Err(NdError::SourceMac));
    assert!(
        parse(&changed(&rs.0, |p| {
            p.truncate(48);
            p[8..24].fill(0);
        }))
        .is_ok()
    );
    // Sections 6.1.2 and 8.1.
    assert_eq!(from(&ra.0, "2001:db8::1"), Err(NdError::Source));
    assert_eq!(from(&redirect.0, "2001:db8::1"), Err(NdError::Source));
    assert_eq!(with(&redirect.0, 64, "ff0e::1"), Err(NdError::Target));
    assert_eq!(with(&redirect.0, 48, "2001:db8::2"), Err(NdError::Target));
    assert_eq!(with(&redirect.0, 48, "2001:db8:5::1"), Ok(()), "the destination is on the link");
    // RFC 4191 section 2.2: the reserved preference counts as medium.
    let reserved = changed(&ra.0, |p| p[45] = 0x10);
    let Ok((Message::RouterAdvertisement(said), _)) = parse(&reserved) else { panic!() };
    assert_eq!((said.preference, said.other), (Preference::Medium, false));
}

#[test]
fn rfc4861_4_6_3_the_quote_of_a_redirect_is_limited() {
    let message = Message::Redirect { target: a("fe80::2"), destination: a(PEER) };
    let quote: Vec<u8> = (0..1500).map(|n| n as u8).collect();
    let packet = nd::build(a(LOCAL), a(PEER), &message, &[NdOption::Redirected(&quote)]);
    assert_eq!(packet.len(), 1280);
    assert_eq!(parse(&packet), Ok((message, vec![NdOption::Redirected(&quote[..1280 - 88])])));
    let odd = nd::build(a(LOCAL), a(PEER), &message, &[NdOption::Redirected(&quote[..47])]);
    assert_eq!(parse(&odd).unwrap().1, [NdOption::Redirected(&quote[..40])], "only multiples of 8");
}

fn address() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(|bits| Ipv6Addr::from(bits & !(0xff << 120) | 0x20 << 120))
}

fn any_message() -> impl Strategy<Value = Message> {
    let preference = prop::sample::select(vec![Preference::Low, Preference::Medium, Preference::High]);
    let ra = (any::<(u8, bool, bool, u16, u32, u32)>(), preference);
    prop_oneof![
        Just(Message::RouterSolicitation),
        ra.prop_map(|((hop_limit, managed, other, lifetime, reachable, retransmit), preference)| {
            Message::RouterAdvertisement(RouterAdvertisement {
                hop_limit,
                managed,
                other,
                preference,
                lifetime,
                reachable,
                retransmit,
            })
        }),
        address().prop_map(|target| Message::NeighborSolicitation { target }),
        (address(), any::<[bool; 3]>()).prop_map(|(target, [router, solicited, overrides])| {
            Message::NeighborAdvertisement { target, router, solicited, overrides }
        }),
        address().prop_map(|a| Message::Redirect { target: a, destination: a }),
    ]
}

#[derive(Clone, Debug)]
enum Owned {
    Source([u8; 6]),
    Target([u8; 6]),
    Prefix(Ipv6Addr, u8, bool, bool, u32, u32),
    Quote(Vec<u8>),
    Mtu(u32),
    Dns(u32, Vec<[u8; 16]>),
}

impl Owned {
    fn option(&self) -> NdOption<'_> {
        let unicast = |mac: &[u8; 6]| Mac([mac[0] & 0xfe | 2, mac[1], mac[2], mac[3], mac[4], mac[5]]);
        match self {
            Owned::Source(mac) => NdOption::SourceMac(unicast(mac)),
            Owned::Target(mac) => NdOption::TargetMac(unicast(mac)),
            &Owned::Prefix(prefix, len, on_link, autonomous, valid, preferred) => {
                NdOption::Prefix(PrefixInformation {
                    prefix,
                    len: len % 129,
                    on_link,
                    autonomous,
                    valid,
                    preferred,
                })
            }
            Owned::Quote(bytes) => NdOption::Redirected(&bytes[..bytes.len() / 8 * 8]),
            Owned::Mtu(mtu) => NdOption::Mtu(*mtu),
            Owned::Dns(lifetime, servers) => NdOption::DnsServers { lifetime: *lifetime, servers },
        }
    }
}

fn any_option() -> impl Strategy<Value = Owned> {
    prop_oneof![
        any::<[u8; 6]>().prop_map(Owned::Source),
        any::<[u8; 6]>().prop_map(Owned::Target),
        (address(), any::<(u8, bool, bool, u32, u32)>())
            .prop_map(|(a, (l, b, c, d, e))| Owned::Prefix(a, l, b, c, d, e)),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Owned::Quote),
        any::<u32>().prop_map(Owned::Mtu),
        (any::<u32>(), prop::collection::vec(any::<[u8; 16]>(), 0..4)).prop_map(|(l, s)| Owned::Dns(l, s)),
    ]
}

proptest! {
    #[test]
    fn messages_are_parsed_as_they_were_built(message in any_message(), options in prop::collection::vec(any_option(), 0..5)) {
        let options: Vec<_> = options.iter().map(Owned::option).collect();
        let packet = nd::build(a("fe80::1"), a(PEER), &message, &options);
        let (ip, _) = Ipv6Header::split(&packet).unwrap();
        prop_assert_eq!((ip.total_len(), ip.hop_limit()), (packet.len(), 255));
        prop_assert_eq!(parse(&packet), Ok((message, options)));
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(
        which in 0usize..6,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        noise in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut packet = examples().remove(which).0;
        for (at, value) in damage {
            let at = at.index(packet.len());
            packet[at] = value;
        }
        packet.truncate(48 + cut.index(packet.len() - 47));
        packet.extend(noise);
        // With a correct checksum the rest is checked too.
        let packet = changed(&packet, |p| p[7] = 255);
        if let Ok((message, options)) = parse(&packet) {
            let (ip, _) = Ipv6Header::split(&packet).unwrap();
            prop_assert!(options.len() * 8 <= packet.len());
            let again = nd::build(ip.src(), ip.dst(), &message, &options);
            let same_message = parse(&again).is_ok_and(|(m, _)| m == message);
            prop_assert!(same_message);
        }
    }
}

#[test]
fn a_solicitation_goes_to_the_solicited_node_group() {
    let group = ipv6::solicited_node(a(PEER).to_bits());
    let message = Message::NeighborSolicitation { target: a(PEER) };
    assert!(parse(&nd::build(a("::"), group.into(), &message, &[])).is_ok());
}
