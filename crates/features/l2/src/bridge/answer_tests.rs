//! Tests the answers for configured hosts, and the port for unknown unicast, in a whole router.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::nd::{self, Message, NdOption};
use wire::{Ipv6Header, Mac};

use super::bvi_tests::{BVI, FAR, FAR_MAC, HOST, ROUTER, arp, packet};
use super::tests::{ALL, Bridged, POLICY, station};
use super::{BridgePort, Bridges, Policy};

const NOBODY: Mac = Mac([0; 6]);
const ASKER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 6);
const HOST6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5);
const ASKER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 6);
const GROUP: Mac = Mac([0x33, 0x33, 0xff, 0, 0, 5]);

/// A solicitation for a host, in a frame.
fn solicitation(from: (Mac, Ipv6Addr), target: Ipv6Addr, options: &[NdOption<'_>]) -> Vec<u8> {
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 5);
    let packet = nd::build(from.1, group, &Message::NeighborSolicitation { target }, options);
    [&GROUP.0[..], &from.0.0, &[0x86, 0xdd], &packet].concat()
}

/// The answer for a host.
fn advertisement(to: (Mac, Ipv6Addr), (mac, target): (Mac, Ipv6Addr)) -> Vec<u8> {
    let message = Message::NeighborAdvertisement { target, router: false, solicited: true, overrides: true };
    let packet = nd::build(target, to.1, &message, &[NdOption::TargetMac(mac)]);
    [&to.0.0[..], &mac.0, &[0x86, 0xdd], &packet].concat()
}

impl Bridged {
    /// Sets the address of a host in the domain 7.
    fn host(&mut self, ip: impl Into<IpAddr>, mac: Option<Mac>) {
        let bridges: &mut Bridges = self.lab.router.state_mut().unwrap();
        bridges.set_host(7, ip.into(), mac).unwrap();
        self.lab.pass(200);
        self.told();
    }

    /// A router whose domain 7 answers, with these ports.
    fn that_answers(ports: usize) -> Bridged {
        let mut router = Bridged::new();
        super::set_domain(&mut router.lab.router, 7, Policy { arp_term: true, ..POLICY }).unwrap();
        (0..ports).for_each(|port| router.join(port, 7, BridgePort::PLAIN));
        router.host(HOST, Some(station(5)));
        router.host(HOST6, Some(station(5)));
        router
    }

    /// Hears a frame on a port, and returns the ports out of which something was sent.
    fn ports_of(&mut self, port: usize, frame: &[u8]) -> BTreeSet<usize> {
        self.hear(port, frame);
        self.told().into_iter().filter_map(|(port, _)| port).collect()
    }
}

#[test]
fn questions_for_known_hosts_are_answered() {
    let mut router = Bridged::that_answers(3);
    let ask = |target| arp(1, (station(6), ASKER), ALL, (NOBODY, target));
    router.hear(0, &ask(HOST));
    let answer = arp(2, (station(5), HOST), station(6), (station(6), ASKER));
    assert_eq!(router.told(), [(Some(0), answer)].into());
    let own = NdOption::SourceMac(station(6));
    for options in [&[own][..], &[]] {
        router.hear(1, &solicitation((station(6), ASKER6), HOST6, options));
        let answer = advertisement((station(6), ASKER6), (station(5), HOST6));
        assert_eq!(router.told(), [(Some(1), answer)].into());
    }
    assert_eq!(router.lab.router.graph().stats().dropped_for("l2-bridge", "arp-answered"), Some(3));

    // What is not answered goes to all ports, unchanged.
    let passes = [
        ask(ROUTER),
        // A probe of the host itself, and its announcement.
        arp(1, (station(5), Ipv4Addr::UNSPECIFIED), ALL, (NOBODY, HOST)),
        arp(1, (station(5), HOST), ALL, (NOBODY, HOST)),
        // A sender that another station speaks for, and an answer.
        [&ALL.0[..], &station(9).0, &ask(HOST)[12..]].concat(),
        arp(2, (station(6), ASKER), ALL, (NOBODY, HOST)),
        ask(HOST)[..40].to_vec(),
        solicitation((station(6), Ipv6Addr::UNSPECIFIED), HOST6, &[]),
        solicitation((station(6), ASKER6), ASKER6, &[own]),
        solicitation((station(5), ASKER6), HOST6, &[]),
    ];
    for frame in passes {
        router.hear(0, &frame);
        assert_eq!(router.told(), [1, 2].map(|port| (Some(port), frame.clone())).into(), "{frame:02x?}");
    }
    // Another host's probe is answered: the address is in use.
    router.hear(0, &arp(1, (station(6), Ipv4Addr::UNSPECIFIED), ALL, (NOBODY, HOST)));
    let answer = arp(2, (station(5), HOST), station(6), (station(6), Ipv4Addr::UNSPECIFIED));
    assert_eq!(router.told(), [(Some(0), answer)].into());

    // Not for split-horizon groups, for hosts that were removed, or if it is switched off.
    router.join(0, 7, BridgePort { group: 1, ..BridgePort::PLAIN });
    assert_eq!(router.ports_of(0, &ask(HOST)), [1, 2].into());
    router.join(0, 7, BridgePort::PLAIN);
    assert_eq!(router.ports_of(0, &ask(HOST)), [0].into());
    router.host(HOST, None);
    assert_eq!(router.ports_of(0, &ask(HOST)), [1, 2].into());
    router.host(HOST, Some(station(7)));
    super::set_domain(&mut router.lab.router, 7, POLICY).unwrap();
    assert_eq!(router.ports_of(0, &ask(HOST)), [1, 2].into());
}

#[test]
fn the_router_itself_is_answered() {
    let (mut router, _) = Bridged::with_bvi(3);
    super::set_domain(&mut router.lab.router, 7, Policy { arp_term: true, ..POLICY }).unwrap();
    router.host(HOST, Some(station(5)));
    router.hear(2, &packet((station(5), HOST), (station(9), FAR), 64));
    router.told();
    router.lab.receive(1, 0, packet((FAR_MAC, FAR), (net::testing::own_mac(1), HOST), 9));
    // No question was sent, and the packet arrives.
    assert_eq!(router.told(), [(Some(2), packet((BVI, FAR), (station(5), HOST), 8))].into());
}

proptest! {
    /// Damaged questions do no harm: they are answered as the undamaged one, or go to all other ports as they are.
    #[test]
    fn damaged_questions_pass(at in 12..86usize, bit in 0..8u8, cut in 14..87usize, is_arp: bool) {
        let mut router = Bridged::that_answers(3);
        let own = NdOption::SourceMac(station(6));
        let mut frame = match is_arp {
            true => arp(1, (station(6), ASKER), ALL, (NOBODY, HOST)),
            false => solicitation((station(6), ASKER6), HOST6, &[own]),
        };
        frame.truncate(cut);
        if let Some(byte) = frame.get_mut(at) {
            *byte ^= 1u8 << bit;
        }
        let tagged = frame[12] == 0x81 || frame[12] == 0x88;
        router.hear(0, &frame);
        let told = router.told();
        let is_answer = told.len() == 1 && told.iter().all(|(port, _)| *port == Some(0));
        let passes = told.iter().map(|(_, frame)| frame).all(|sent| *sent == frame);
        prop_assert!(is_answer || passes || tagged, "{told:02x?}");
        if let Some((_, sent)) = told.iter().next().filter(|_| is_answer && sent_is_ip6(&told)) {
            let (ip, icmp) = Ipv6Header::split(&sent[14..]).unwrap();
            prop_assert!(nd::parse(ip, icmp).is_ok());
        }
    }
}

fn sent_is_ip6(told: &BTreeSet<(Option<usize>, Vec<u8>)>) -> bool {
    told.iter().all(|(_, frame)| frame[12..14] == [0x86, 0xdd])
}

/// With a BVI, questions go to all: the router hears those to it, and finds hosts behind any port.
#[test]
fn a_router_finds_hosts_behind_the_port_for_unknown_unicast() {
    let (mut router, _) = Bridged::with_bvi(2);
    router.join(2, 7, BridgePort { uu_fwd: true, ..BridgePort::PLAIN });
    super::set_domain(&mut router.lab.router, 7, Policy { arp_ufwd: true, ..POLICY }).unwrap();
    let question = arp(1, (station(6), ASKER), ALL, (NOBODY, ROUTER));
    router.hear(0, &question);
    let answer = arp(2, (BVI, ROUTER), station(6), (station(6), ASKER));
    assert_eq!(router.told(), [(Some(0), answer), (Some(1), question.clone()), (Some(2), question)].into());
    router.lab.receive(1, 0, packet((FAR_MAC, FAR), (net::testing::own_mac(1), HOST), 9));
    let question = arp(1, (BVI, ROUTER), ALL, (NOBODY, HOST));
    assert_eq!(router.told(), (0..3).map(|port| (Some(port), question.clone())).collect());
}

#[test]
fn unknown_unicast_goes_to_its_port() {
    let mut router = Bridged::new();
    (0..3).for_each(|port| router.join(port, 7, BridgePort::PLAIN));
    router.join(3, 7, BridgePort { uu_fwd: true, ..BridgePort::PLAIN });
    let (index, second) = (router.ports[3], router.ports[4]);
    let r = &mut router.lab.router;
    let other = BridgePort { uu_fwd: true, ..BridgePort::PLAIN };
    let why = super::join(r, second, 7, other).unwrap_err().to_string();
    assert!(why.contains("has a port for unknown unicast already"), "{why}");
    let unknown = |router: &mut Bridged| router.frame(0, 0, station(1), station(99));
    assert_eq!(unknown(&mut router), [3].into());
    assert_eq!(router.frame(0, 0, station(1), ALL), [1, 2].into(), "no flooded frames");
    // Its own frames go to their stations, or to all.
    assert_eq!(router.frame(3, 0, station(3), station(1)), [0].into());
    assert_eq!(router.frame(3, 0, station(3), station(99)), [0, 1, 2].into());
    assert_eq!(router.frame(1, 0, station(2), station(3)), [3].into());
    // Also if unknown unicast is not flooded.
    super::set_domain(&mut router.lab.router, 7, Policy { unknown: false, ..POLICY }).unwrap();
    assert_eq!(unknown(&mut router), [3].into());
    // ARP to all goes there on demand.
    let question = arp(1, (station(1), ASKER), ALL, (NOBODY, HOST));
    assert_eq!(router.ports_of(0, &question), [1, 2].into());
    super::set_domain(&mut router.lab.router, 7, Policy { arp_ufwd: true, ..POLICY }).unwrap();
    assert_eq!(router.ports_of(0, &question), [3].into());
    assert_eq!(router.frame(0, 0, station(1), ALL), [1, 2].into());
    super::set_domain(&mut router.lab.router, 7, Policy { forward: false, arp_ufwd: true, ..POLICY })
        .unwrap();
    assert_eq!(unknown(&mut router), [3].into(), "also without forwarding");
    super::leave(&mut router.lab.router, index).unwrap();
    assert_eq!(unknown(&mut router), [1, 2].into());
    assert_eq!(router.ports_of(0, &question), [1, 2].into());
}
