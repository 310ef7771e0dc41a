//! Tests the nodes against a model that polices packet by packet.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use buf::{Gso, GsoKind};
use infra::class_a::{SlotWriter, slots};
use infra::quiesce::Domain;
use proptest::prelude::*;
use testkit::harness::{Harness, Out as Left};
use wire::builder::PacketBuilder;

use super::*;
use crate::action::Action;
use crate::bucket::tests::{Oracle, params};
use crate::rate::{Kind, Params};
use crate::table::Counted;

/// Number of interfaces. Interfaces 0 to 3 have policers, and 1 and 2 share one; interface 4 has none.
const INTERFACES: u32 = 5;

struct Lab {
    h: Harness,
    policers: Policers,
    settings: SlotWriter<Policing>,
    dropped: CounterSet<2>,
}

fn lab() -> Lab {
    let domain = Domain::new();
    let policers = Policers::new(&domain).unwrap();
    let (settings, values) = slots(&domain, 64).unwrap();
    let attached = Attached { values, counts: CounterSet::new("/test", 64) };
    let h = Harness::in_domain(&domain, |b| {
        for (arc, end) in [
            ("ip4-unicast", "ip4-lookup"),
            ("ip6-unicast", "ip6-lookup"),
            ("ip4-multicast", "ip4-multicast-end"),
            ("ip6-multicast", "ip6-multicast-end"),
        ] {
            b.arc(arc, end, graph::ArcKey::Rx);
        }
        b.arc("interface-output", "interface-tx", graph::ArcKey::Tx);
        let seen = b.feature_field(FEATURE, Seen::trace).unwrap();
        let shared = policers.shared();
        add::<IP4>(b, &attached, &shared, seen);
        add::<IP6>(b, &attached, &shared, seen);
        add::<IP4_GROUP>(b, &attached, &shared, seen);
        add::<IP6_GROUP>(b, &attached, &shared, seen);
        add::<OUTPUT>(b, &attached, &shared, seen);
    });
    Lab { h, policers, settings, dropped: attached.counts }
}

#[derive(Clone, Debug)]
struct Sent {
    interface: u32,
    tags: usize,
    payload: usize,
    tos: u8,
}

fn packet(site: usize, sent: &Sent) -> Vec<u8> {
    let payload = vec![0; sent.payload];
    let ip6 = matches!(site, IP6 | IP6_GROUP) || site == OUTPUT && sent.payload % 2 == 1;
    let ip = if ip6 {
        PacketBuilder::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST)
    } else {
        PacketBuilder::ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
    };
    let ip = ip.tos(sent.tos).udp(1, 2).payload(&payload).build();
    if site != OUTPUT {
        return ip;
    }
    let mut bytes = vec![2; 12];
    (0..sent.tags).for_each(|_| bytes.extend([0x81, 0, 0, 5]));
    bytes.extend(if ip6 { [0x86, 0xdd] } else { [8, 0] });
    [bytes, ip].concat()
}

/// Returns the packet `sent` with another DSCP.
fn marked(site: usize, sent: &Sent, dscp: u8) -> Vec<u8> {
    packet(site, &Sent { tos: dscp << 2 | sent.tos & 3, ..sent.clone() })
}

fn send(h: &mut Harness, site: usize, sent: &[Sent]) -> Vec<Left> {
    let packets: Vec<_> = sent.iter().map(|s| packet(site, s)).collect();
    let mut out = h.send(SITES[site].feature, &packets, |i, p| {
        if site == OUTPUT {
            p.set_tx_if(sent[i].interface);
        } else {
            p.set_rx_if(sent[i].interface);
            p.mark_l3(14 + 4 * sent[i].tags as u8);
        }
    });
    out.sort_by_key(|o| o.from);
    out
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Drop),
        Just(Action::Transmit),
        Just(Action::Transmit),
        (0u8..64).prop_map(Action::Mark)
    ]
}

fn acting() -> impl Strategy<Value = Params> {
    (params(), action(), action(), action()).prop_map(|(p, conform, exceed, violate)| Params {
        conform,
        exceed,
        violate,
        ..p
    })
}

fn frames() -> impl Strategy<Value = Vec<(u64, Vec<Sent>)>> {
    let interface = prop_oneof![(0..INTERFACES).prop_map(Some), Just(None)];
    let tos = prop_oneof![
        Just(0u8),
        any::<u8>(),
        (1u8..5, 1u8..4).prop_map(|(class, drop)| class << 5 | drop << 3)
    ];
    let sent = (0..INTERFACES, 0usize..3, 0usize..1400, tos)
        .prop_map(|(interface, tags, payload, tos)| Sent { interface, tags, payload, tos });
    let frame = (interface, prop::collection::vec(sent, 1..60)).prop_map(|(all, mut frame)| {
        // In half of the frames all packets have one interface.
        if let Some(interface) = all {
            frame.iter_mut().for_each(|sent| sent.interface = interface);
        }
        frame
    });
    prop::collection::vec((0u64..2_000_000_000, frame), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The packets of a vector pass, are marked, dropped and counted as if each were policed alone.
    #[test]
    fn a_vector_is_policed_like_single_packets(
        site in 0usize..5, all in prop::collection::vec(acting(), 3), frames in frames(),
    ) {
        let Lab { mut h, mut policers, mut settings, dropped } = lab();
        let policer_of = [Some(0usize), Some(1), Some(1), Some(2), None];
        let indexes: Vec<u32> = all.iter().map(|p| policers.add(*p, 0).unwrap()).collect();
        for (interface, policer) in policer_of.iter().enumerate() {
            let index = policer.map(|p| indexes[p]);
            let of = if site == OUTPUT {
                Policing { input: None, output: index }
            } else {
                Policing { input: index, output: None }
            };
            settings.set(interface as u32, of).unwrap();
        }
        let mut oracles: Vec<Oracle> = all.iter().map(|p| Oracle::new(*p, 0)).collect();
        let mut counted = [[Counted::default(); 3]; 3];
        let mut lost = [0; INTERFACES as usize];
        for (gap, frame) in frames {
            h.advance(Duration::from_nanos(gap));
            let got = send(&mut h, site, &frame);
            prop_assert_eq!(got.len(), frame.len());
            for (sent, got) in frame.iter().zip(got) {
                let before = packet(site, sent);
                let Some(k) = policer_of[sent.interface as usize] else {
                    prop_assert_eq!((got.reason, got.bytes), (None, before));
                    continue;
                };
                let link = if site == OUTPUT { 0 } else { 14 + 4 * sent.tags };
                let bytes = (before.len() + link) as u32;
                let tokens = if all[k].unit == Unit::Pps { 1 } else { bytes };
                // AFx2 is yellow, AFx3 red.
                let came = match (sent.tos >> 5, sent.tos >> 2 & 7) {
                    (1..=4, 4) => Color::Yellow,
                    (1..=4, 6) => Color::Red,
                    _ => Color::Green,
                };
                let color = oracles[k].police(h.now(), tokens, came);
                counted[k][color as usize].packets += 1;
                counted[k][color as usize].bytes += u64::from(bytes);
                let action = [all[k].conform, all[k].exceed, all[k].violate][color as usize];
                let why = match action {
                    Action::Drop => Some(["policer-conform", "policer-exceed", "policer-violate"][color as usize]),
                    _ => None,
                };
                lost[sent.interface as usize] += u64::from(why.is_some());
                let after = if let Action::Mark(dscp) = action { marked(site, sent, dscp) } else { before };
                prop_assert_eq!((got.reason, got.bytes), (why, after), "{:?} {:?}", color, sent);
            }
        }
        for (k, counted) in counted.iter().enumerate() {
            prop_assert_eq!(policers.counted(indexes[k]), *counted);
        }
        for (interface, lost) in lost.iter().enumerate() {
            let [input, output] = dropped.read(interface as u32);
            prop_assert_eq!([input, output], if site == OUTPUT { [0, *lost] } else { [*lost, 0] });
        }
    }
}

const PPS: Params = Params {
    kind: Kind::OneRateTwoColors,
    unit: Unit::Pps,
    cir: 1,
    eir: 0,
    cb: 10,
    eb: 0,
    aware: false,
    round: crate::rate::Round::Closest,
    conform: Action::Transmit,
    exceed: Action::Drop,
    violate: Action::Drop,
};

#[test]
fn a_gso_packet_counts_as_its_segments() {
    let Lab { mut h, mut policers, mut settings, .. } = lab();
    let index = policers.add(PPS, 0).unwrap();
    settings.set(0, Policing { input: Some(index), output: Some(index) }).unwrap();
    // 2,946 bytes behind the Ethernet header: 2,906 of payload in segments of 1,000.
    let bytes = vec![0x45; 2946];
    let ends = |h: &mut Harness, site: usize| -> Option<&'static str> {
        let mut bytes = bytes.clone();
        if site == OUTPUT {
            bytes.splice(..0, [0; 14]);
        }
        let out = h.send(SITES[site].feature, &[bytes], |_, p| {
            p.set_rx_if(0);
            p.set_tx_if(0);
            if site != OUTPUT {
                p.mark_l3(14);
            }
            p.set_flags(p.flags() | Flags::GSO);
            p.cold_mut().set_gso(Gso { kind: GsoKind::Tcp4, ecn: false, size: 1000, header_len: 54 });
        });
        out[0].reason
    };
    assert_eq!([ends(&mut h, IP4), ends(&mut h, OUTPUT), ends(&mut h, IP4)], [None; 3]);
    let each = 2906 + 3 * 54;
    assert_eq!(policers.counted(index)[0], Counted { packets: 9, bytes: 3 * each });
    assert_eq!(ends(&mut h, OUTPUT), Some("policer-violate"), "a packet's worth is left, and it has three");
}

#[test]
fn a_removed_policer_passes_all_packets() {
    let Lab { mut h, mut policers, mut settings, .. } = lab();
    let index = policers.add(Params { cb: 1, ..PPS }, 0).unwrap();
    settings.set(0, Policing { input: Some(index), output: None }).unwrap();
    let sent = vec![Sent { interface: 0, tags: 0, payload: 10, tos: 0 }; 3];
    let passed = |h: &mut Harness| send(h, IP4, &sent).iter().filter(|o| o.reason.is_none()).count();
    assert_eq!(passed(&mut h), 1);
    policers.remove(index).unwrap();
    assert_eq!(passed(&mut h), 3);
    settings.remove(0);
    assert_eq!(passed(&mut h), 3);
}

#[test]
fn a_trace_shows_policer_and_color() {
    let Lab { mut h, mut policers, mut settings, .. } = lab();
    policers.add_at(41, Params { cb: 2, ..PPS }, 0).unwrap();
    settings.set(0, Policing { input: Some(41), output: None }).unwrap();
    let sent = vec![Sent { interface: 0, tags: 0, payload: 10, tos: 0 }; 2];
    send(&mut h, IP4, &sent);
    assert!(h.trace().contains("policer: policer-idx 41 conform"), "{}", h.trace());
    send(&mut h, IP4, &sent);
    let trace = h.trace();
    assert!(
        trace.contains("policer: policer-idx 41 violate") && trace.contains("(policer-violate)"),
        "{trace}"
    );
}

#[test]
fn non_ip_packets_are_policed_but_never_marked() {
    let Lab { mut h, mut policers, mut settings, .. } = lab();
    let index = policers.add(Params { conform: Action::Mark(46), ..PPS }, 0).unwrap();
    settings.set(0, Policing { input: None, output: Some(index) }).unwrap();
    let arp = [vec![0xff; 12], vec![8, 6], vec![0x45; 28]].concat();
    let short = [vec![0xff; 12], vec![8, 0], vec![0x45; 10]].concat();
    let packets = [arp, short, vec![8; 13], vec![]];
    let mut out = h.send("policer-output", &packets, |_, p| p.set_tx_if(0));
    out.sort_by_key(|o| o.from);
    assert_eq!(out.into_iter().map(|o| o.bytes).collect::<Vec<_>>(), packets);
    assert_eq!(policers.counted(index)[0].packets, 4);
}

/// Returns an ICMPv6 packet of the type `kind` to `to` with the hop limit `hops`, without a checksum.
fn icmp6(kind: u8, hops: u8, to: Ipv6Addr) -> Vec<u8> {
    let mut bytes =
        PacketBuilder::ipv6(Ipv6Addr::LOCALHOST, to).ttl(hops).udp(1, 2).payload(&[0; 20]).build();
    bytes[6] = 58;
    bytes[40] = kind;
    bytes
}

/// Returns for each packet whether a policer with too few tokens drops it, and checks that the policer counts all packets as red. `packets`
/// has the bytes of each packet, and true if the router itself made it.
fn dropped_when_empty(site: usize, packets: &[(Vec<u8>, bool)]) -> Vec<bool> {
    let Lab { mut h, mut policers, mut settings, .. } = lab();
    // A policer that counts bytes, with a single token: too few for any packet.
    let params = Params { unit: Unit::Kbps, cir: 8, cb: 1, violate: Action::Drop, ..PPS };
    let index = policers.add(params, 0).unwrap();
    settings.set(0, Policing { input: Some(index), output: Some(index) }).unwrap();
    let bytes: Vec<_> = packets.iter().map(|(bytes, _)| bytes.clone()).collect();
    let mut out = h.send(SITES[site].feature, &bytes, |i, p| {
        p.set_rx_if(0);
        p.set_tx_if(0);
        if site != OUTPUT {
            p.mark_l3(14);
        }
        if packets[i].1 {
            p.set_flags(p.flags() | Flags::LOCAL_ORIGIN);
        }
    });
    out.sort_by_key(|o| o.from);
    let red = policers.counted(index)[2].packets;
    assert_eq!(red, packets.len() as u64, "all are counted");
    out.into_iter().map(|o| o.reason.is_some()).collect()
}

#[test]
fn neighbor_messages_pass_in_an_overload() {
    let arp = [vec![0xff; 12], vec![8, 6], vec![0x45; 28]].concat();
    let tagged = [vec![0xff; 12], vec![0x81, 0, 0, 5, 8, 6], vec![0x45; 28]].concat();
    let framed = |bytes: Vec<u8>| [vec![2; 12], vec![0x86, 0xdd], bytes].concat();
    let (near, far) =
        (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    // The router's own ARP and Neighbor Discovery pass; echo requests and forwarded packets do not.
    let mut sent = vec![(arp.clone(), true), (tagged, true), (arp, false), (vec![8; 13], true)];
    let mut dropped = vec![false, false, true, true];
    for kind in 130..140 {
        for (hops, to, own) in [(255, near, true), (255, far, true), (254, near, true), (255, far, false)] {
            sent.push((framed(icmp6(kind, hops, to)), own));
            dropped.push(!((133..=137).contains(&kind) && hops == 255 && own));
        }
    }
    assert_eq!(dropped_when_empty(OUTPUT, &sent), dropped);
    // Received Neighbor Discovery packets to be forwarded are treated like any other packet.
    for site in [IP6, IP6_GROUP] {
        let all = [(135, 255, near), (136, 255, near), (136, 255, far), (136, 254, near), (128, 255, near)];
        let sent: Vec<_> = all.map(|(kind, hops, to)| (icmp6(kind, hops, to), false)).into();
        assert_eq!(dropped_when_empty(site, &sent), [false, false, true, true, true]);
    }
}

#[test]
fn a_setting_enables_the_features_of_its_direction() {
    let on = |input, output| -> Vec<&str> {
        let all = Policing { input, output }.switches();
        assert_eq!(all.len(), 5);
        all.into_iter().filter(|s| s.on).map(|s| s.arc).collect()
    };
    assert_eq!(on(None, Some(0)), ["interface-output"]);
    assert_eq!(on(Some(0), None), ["ip4-unicast", "ip6-unicast", "ip4-multicast", "ip6-multicast"]);
    assert!(on(None, None).is_empty());
}

/// Installs the features of a router, in `volley`'s order.
fn features(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    net::nodes::interface::install(b, t);
    net::nodes::handoff::install(b, t);
    net::nodes::ethernet::install(b, t);
    net::nodes::neighbor::install(b, t, hooks)?;
    net::nodes::ip::install(b, t, hooks)?;
    net::icmp::install(b, t, hooks)?;
    net::udp::install(b, t, hooks)?;
    install(b, t, hooks)
}

#[test]
fn a_router_polices_by_interface() {
    let sizes = net::router::Sizes { buffers: 256, workers: 2 };
    let net::router::Parts { mut router, .. } = net::router::Router::build(features, &sizes).unwrap();
    let index = router.add_loopback("loop0", wire::Mac([2, 0, 0, 0, 0, 1])).unwrap();
    let policer = router.state_mut::<Policers>().unwrap().add(PPS, 0).unwrap();
    router.set(index, Policing { input: Some(policer), output: None }).unwrap();
    let all = router.features(index);
    let of = |arc: &str| all.iter().find(|(name, _)| *name == arc).unwrap().1.clone();
    assert!(of("ip4-unicast").contains(&("policer-input-ip4", true)));
    assert!(of("interface-output").contains(&("policer-output", false)));
    router.remove_interface(index).unwrap();
    router.collect();
    assert_eq!(router.setting::<Policing>(index), Policing::default());
}
