//! A whole router between two links whose other ends are in the hands of the test.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use buf::{Cache, Frame, Gone, RxQueue, TxCaps, TxQueue, Unsent};
use drivers::{Device, DeviceControl, Link};
use graph::Worker;
use wire::arp::ArpPacket;
use wire::builder::PacketBuilder;
use wire::{EthernetHeader, Ipv4Header, VlanTag, ethertype, icmpv4};

use super::*;
use crate::ethernet::Tags;
use crate::ip::Prefix4;
use crate::router::{Parts, Sizes};
use crate::testing::install;

const MS: u64 = 1_000_000;
const WORKERS: usize = 2;
/// A host on the first link, and one on the second.
const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const A_MAC: Mac = Mac([2, 0, 0, 0, 0xa, 2]);
const B_MAC: Mac = Mac([2, 0, 0, 0, 0xb, 2]);
const C_MAC: Mac = Mac([2, 0, 0, 0, 0xc, 2]);

/// What is on a link: frames to the router by queue, and from it.
#[derive(Default)]
struct OnLink {
    to_router: VecDeque<(usize, Vec<u8>)>,
    from_router: Vec<Vec<u8>>,
}

/// The far end of a link.
#[derive(Clone, Default)]
struct Far(Arc<Mutex<OnLink>>);

struct Rx(Far, usize);
struct Tx(Far);
struct Control;

impl RxQueue for Rx {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let mut far = self.0.0.lock().unwrap();
        let mine = far.to_router.iter().position(|f| f.0 == self.1).and_then(|at| far.to_router.remove(at));
        if let Some((_, bytes)) = mine
            && frame.alloc(cache, 1) == 1
        {
            assert!(frame.get(0).unwrap().fill(&bytes));
        }
        Ok(())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl TxQueue for Tx {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        self.0.0.lock().unwrap().from_router.extend(frame.packets().map(|p| p.bytes().to_vec()));
        frame.free(cache);
        Ok(())
    }
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }
}

impl DeviceControl for Control {
    fn set_admin(&mut self, _: bool) -> std::io::Result<()> {
        Ok(())
    }
    fn set_mtu(&mut self, _: u16) -> std::io::Result<()> {
        Ok(())
    }
    fn set_mac(&mut self, _: [u8; 6]) -> std::io::Result<()> {
        Ok(())
    }
    fn link(&mut self) -> Link {
        Link { present: true, carrier: true, speed_mbps: None }
    }
    fn describe(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// A router with the interfaces 0 (10.0.1.1/24) and 1 (10.0.2.1/24), on virtual time.
struct Lab {
    router: Router,
    workers: Vec<Worker>,
    far: Vec<Far>,
    now: u64,
}

fn own(interface: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, interface as u8 + 1, 1)
}

fn own_mac(interface: u32) -> Mac {
    Mac([2, 0, 0, 0, 0, interface as u8])
}

impl Lab {
    fn new() -> Lab {
        let sizes = Sizes { buffers: 2048, workers: WORKERS };
        let Parts { router, workers } = Router::build(install, &sizes).unwrap();
        let mut lab = Lab { router, workers, far: Vec::new(), now: 1_000_000 * MS };
        lab.run();
        for name in ["left", "right"] {
            let far = Far::default();
            let device = Device {
                kind: "test",
                input_node: "pg-input",
                rx: (0..WORKERS).map(|q| Box::new(Rx(far.clone(), q)) as Box<dyn RxQueue>).collect(),
                tx: vec![Box::new(Tx(far.clone()))],
                mac: own_mac(lab.far.len() as u32).0,
                mtu: 1500,
                control: Box::new(Control),
            };
            let index = lab.router.add_device(name, device).unwrap();
            assert_eq!(index as usize, lab.far.len());
            lab.far.push(far);
            lab.router.set_admin(index, true).unwrap();
            lab.router.add_address(index, Address::new(own(index), 24)).unwrap();
        }
        lab.pass(5000);
        (0..2).for_each(|i| drop(lab.sent(i)));
        lab
    }

    fn turn_workers(&mut self) {
        for worker in &mut self.workers {
            let mut participant = self.router.participant();
            let section = participant.enter();
            worker.turn_at(section.guard(), self.now);
        }
    }

    /// Lets everybody work until all is done.
    fn run(&mut self) {
        for _ in 0..6 {
            self.turn_workers();
            self.router.poll(self.now);
        }
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.now += 100 * MS;
            self.run();
        }
    }

    /// A frame comes in by a queue of an interface, and what follows from it happens.
    fn receive(&mut self, interface: u32, queue: usize, frame: Vec<u8>) {
        self.far[interface as usize].0.lock().unwrap().to_router.push_back((queue, frame));
        self.run();
    }

    fn receive_arp(&mut self, interface: u32, to: Mac, arp: ArpPacket) {
        let header = EthernetHeader::new(to, arp.sender_mac(), ethertype::ARP);
        self.receive(interface, 0, [&header.0[..], &arp.0[..]].concat());
    }

    /// Frames sent out of an interface since the last look.
    fn sent(&mut self, interface: u32) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.far[interface as usize].0.lock().unwrap().from_router)
    }

    /// The neighbour with this address answers the request that it was sent, and the request.
    fn answer(&mut self, interface: u32, mac: Mac) -> ArpPacket {
        let sent = self.sent(interface);
        assert_eq!(sent.len(), 1, "{sent:02x?}");
        let (_, request) = arp(&sent[0]);
        self.receive_arp(interface, request.sender_mac(), request.reply(mac));
        request
    }

    fn host_route(&self, address: Ipv4Addr) -> bool {
        self.router.routes::<Ipv4Addr>().exact(0, Prefix4::host(address)).any(|r| r.0 == Source::Neighbor)
    }

    fn states(&self) -> Vec<(String, &'static str)> {
        self.router.neighbors::<Ipv4Addr>().map(|n| (n.ip, n.state)).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.run();
        self.workers.clear();
        self.router.bufs.publish();
        self.router.domain.collect();
        let stats = self.router.pool().stats();
        assert_eq!((stats.used, stats.lost), (0, 0), "buffers leaked or packets lost without a reason");
    }
}

fn arp(frame: &[u8]) -> (EthernetHeader, ArpPacket) {
    let (header, rest) = EthernetHeader::split(frame).unwrap();
    assert_eq!(header.ethertype(), ethertype::ARP, "{frame:02x?}");
    let (arp, _) = ArpPacket::split(rest).unwrap();
    assert!(arp.check().is_ok());
    (*header, *arp)
}

/// A packet from A to `dst`.
fn packet(dst: Ipv4Addr, id: u16) -> Vec<u8> {
    let builder = PacketBuilder::ipv4(A, dst).ethernet(A_MAC, own_mac(0)).id(id).udp(1, 2);
    builder.payload(b"data").build()
}

/// That the frame is the packet from A with this identification, sent on to `mac`.
fn assert_forwarded(frame: &[u8], id: u16, src: Mac, dst: Mac) {
    let (header, rest) = EthernetHeader::split(frame).unwrap();
    assert_eq!((header.dst(), header.src(), header.ethertype()), (dst, src, ethertype::IPV4));
    let (ip, _) = Ipv4Header::split(rest).unwrap();
    assert!(ip.checksum_ok());
    assert_eq!((ip.src(), ip.id(), ip.ttl()), (A, id, 63));
}

#[test]
fn packets_wait_for_the_answer_and_then_flow() {
    let mut lab = Lab::new();
    // Each worker holds one.
    lab.receive(0, 0, packet(B, 1));
    lab.receive(0, 1, packet(B, 2));
    assert!(!lab.host_route(B));
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1, "one request: {sent:02x?}");
    let (header, request) = arp(&sent[0]);
    assert_eq!((header.dst(), header.src()), (Mac::BROADCAST, own_mac(1)));
    assert_eq!(request, ArpPacket::request(own_mac(1), own(1), B));

    lab.receive_arp(1, own_mac(1), request.reply(B_MAC));
    let mut sent = lab.sent(1);
    sent.sort_by_key(|f| f[14 + 5]);
    assert_eq!(sent.len(), 2);
    assert_forwarded(&sent[0], 1, own_mac(1), B_MAC);
    assert_forwarded(&sent[1], 2, own_mac(1), B_MAC);
    assert!(lab.host_route(B));

    lab.receive(0, 1, packet(B, 3));
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1);
    assert_forwarded(&sent[0], 3, own_mac(1), B_MAC);
    assert_eq!(lab.states(), [("10.0.2.2".into(), "reachable")]);
}

#[test]
fn the_sender_hears_that_a_next_hop_does_not_answer() {
    let mut lab = Lab::new();
    lab.receive_arp(0, Mac::BROADCAST, ArpPacket::request(A_MAC, A, own(0)));
    let (header, reply) = arp(&lab.sent(0)[0]);
    assert_eq!((header.dst(), reply.op(), reply.sender_mac()), (A_MAC, 2, own_mac(0)));
    assert_eq!((reply.sender_ip(), reply.target_mac(), reply.target_ip()), (own(0), A_MAC, A));

    lab.receive(0, 1, packet(B, 1));
    lab.pass(2900);
    assert_eq!(lab.sent(1).len(), 3, "one request a second");
    assert_eq!(lab.sent(0).len(), 0);
    lab.pass(200);
    let sent = lab.sent(0);
    assert_eq!(sent.len(), 1, "one report");
    let (ip, rest) = Ipv4Header::split(&sent[0][14..]).unwrap();
    assert_eq!((ip.src(), ip.dst()), (own(0), A));
    assert_eq!((rest[0], rest[1]), (icmpv4::kind::UNREACHABLE, icmpv4::unreachable::HOST));
    assert_eq!(&rest[8..][..28], &packet(B, 1)[14..][..28], "the packet as it came");

    // Further packets are reported at once, and nobody is asked.
    lab.receive(0, 1, packet(B, 2));
    assert_eq!((lab.sent(0).len(), lab.sent(1).len()), (1, 0));
}

#[test]
fn a_route_over_an_unknown_next_hop_completes_when_it_answers() {
    let mut lab = Lab::new();
    let far = Ipv4Addr::new(198, 51, 100, 7);
    let path = Path::Via { next_hop: B.into(), interface: None };
    lab.router.add_route(0, Prefix4::new(far, 24), path).unwrap();
    lab.receive(0, 0, packet(far, 1));
    assert_eq!(lab.answer(1, B_MAC).target_ip(), B);
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1);
    assert_forwarded(&sent[0], 1, own_mac(1), B_MAC);
    // The neighbour moves, says so, and packets follow.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::gratuitous(C_MAC, B));
    lab.receive(0, 0, packet(far, 2));
    assert_forwarded(&lab.sent(1)[0], 2, own_mac(1), C_MAC);
    // Forgotten, it is asked for again.
    lab.router.remove_neighbor(1, B).unwrap();
    assert!(!lab.host_route(B) && lab.router.remove_neighbor(1, B).is_err());
    lab.pass(1000);
    lab.receive(0, 0, packet(far, 3));
    lab.answer(1, B_MAC);
    assert_forwarded(&lab.sent(1)[0], 3, own_mac(1), B_MAC);
}

#[test]
fn a_static_neighbour_survives_that_its_interface_goes_down() {
    let mut lab = Lab::new();
    lab.router.add_neighbor(1, B, B_MAC, true).unwrap();
    let learned = Ipv4Addr::new(10, 0, 2, 9);
    lab.router.add_neighbor(1, learned, C_MAC, false).unwrap();
    assert!(lab.host_route(B) && lab.host_route(learned));
    let view: Vec<_> =
        lab.router.neighbors::<Ipv4Addr>().map(|n| (n.ip, n.flags, n.mac, n.interface)).collect();
    let line =
        |ip: &str, flags, mac: Mac| (ip.to_string(), flags, Some(mac.to_string()), "right".to_string());
    assert_eq!(view, [line("10.0.2.2", "S", B_MAC), line("10.0.2.9", "D", C_MAC)]);

    lab.router.set_admin(1, false).unwrap();
    assert_eq!(lab.states(), [("10.0.2.2".into(), "static")]);
    assert!(!lab.host_route(learned));
    lab.router.set_admin(1, true).unwrap();
    lab.run();
    lab.sent(1);
    lab.receive(0, 0, packet(B, 1));
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1);
    assert_forwarded(&sent[0], 1, own_mac(1), B_MAC);
    lab.router.flush_neighbors::<Ipv4Addr>(1).unwrap();
    assert_eq!(lab.states(), [("10.0.2.2".into(), "static")]);

    lab.router.remove_interface(1).unwrap();
    assert!(lab.states().is_empty());
    assert!(!lab.host_route(B));
}

#[test]
fn impossible_neighbours_are_refused() {
    let mut lab = Lab::new();
    let loopback = lab.router.add_loopback("loop0", own_mac(9)).unwrap();
    for (interface, address, mac) in [
        (77, B, B_MAC),
        (loopback, B, B_MAC),
        (1, B, Mac::BROADCAST),
        (1, B, Mac::ZERO),
        (1, own(1), B_MAC),
        (1, Ipv4Addr::new(10, 0, 2, 0), B_MAC),
        (1, Ipv4Addr::new(10, 0, 2, 255), B_MAC),
        (1, Ipv4Addr::new(224, 0, 0, 1), B_MAC),
        (1, Ipv4Addr::UNSPECIFIED, B_MAC),
    ] {
        assert!(
            lab.router.add_neighbor(interface, address, mac, true).is_err(),
            "{interface} {address} {mac}"
        );
    }
    lab.router.set_neighbor_config::<Ipv4Addr>(neighbor::Config { max_entries: 1, ..Default::default() });
    lab.router.add_neighbor(1, B, B_MAC, true).unwrap();
    assert!(lab.router.add_neighbor(0, A, A_MAC, true).is_err());
    lab.router.add_neighbor(1, B, C_MAC, true).unwrap();
    assert_eq!(lab.states().len(), 1);
    // Nor does one that was learned before the limit was set become one static neighbour too many.
    lab.router.set_neighbor_config::<Ipv4Addr>(neighbor::Config::default());
    lab.router.add_neighbor(0, A, A_MAC, false).unwrap();
    lab.router.set_neighbor_config::<Ipv4Addr>(neighbor::Config { max_entries: 1, ..Default::default() });
    assert!(lab.router.add_neighbor(0, A, A_MAC, true).is_err());
}

#[test]
fn an_address_is_announced_when_it_can_be_used() {
    let mut lab = Lab::new();
    let announced = |lab: &mut Lab| -> Vec<Ipv4Addr> {
        let sent = lab.sent(1);
        sent.iter().map(|f| arp(f)).for_each(|(h, a)| {
            assert!(h.dst().is_broadcast() && a.is_gratuitous() && a.op() == 1);
            assert_eq!((h.src(), a.sender_mac()), (own_mac(1), own_mac(1)));
        });
        sent.iter().map(|f| arp(f).1.sender_ip()).collect()
    };
    let second = Address::new(Ipv4Addr::new(10, 0, 3, 1), 24);
    lab.router.set_admin(1, false).unwrap();
    lab.router.add_address(1, second).unwrap();
    lab.pass(3000);
    assert!(announced(&mut lab).is_empty(), "not while it is down");
    lab.router.set_admin(1, true).unwrap();
    lab.run();
    assert_eq!(announced(&mut lab), [own(1), Ipv4Addr::new(10, 0, 3, 1)]);
    lab.pass(1900);
    assert!(announced(&mut lab).is_empty());
    lab.pass(200);
    assert_eq!(announced(&mut lab), [own(1), Ipv4Addr::new(10, 0, 3, 1)]);
    lab.router.remove_address(1, second).unwrap();
    lab.pass(5000);
    assert!(announced(&mut lab).is_empty());
    lab.router.add_address(1, second).unwrap();
    lab.run();
    assert_eq!(announced(&mut lab), [second.address], "only what is new");
    assert_eq!(lab.router.next_timeout(), Some(lab.now + 2000 * MS));
}

#[test]
fn the_router_asks_from_the_address_on_the_neighbours_network() {
    let mut lab = Lab::new();
    let second = Ipv4Addr::new(10, 0, 3, 1);
    lab.router.add_address(1, Address::new(second, 24)).unwrap();
    lab.pass(3000);
    lab.sent(1);
    lab.receive(0, 0, packet(Ipv4Addr::new(10, 0, 3, 7), 1));
    assert_eq!(arp(&lab.sent(1)[0]).1.sender_ip(), second);
    // A next hop on no network of the interface is asked from its first address.
    let (far, hop) = (Ipv4Addr::new(198, 51, 100, 7), Ipv4Addr::new(172, 16, 0, 1));
    let path = Path::Via { next_hop: hop.into(), interface: Some(1) };
    lab.router.add_route(0, Prefix4::host(far), path).unwrap();
    lab.receive(0, 0, packet(far, 2));
    let request = lab.answer(1, C_MAC);
    assert_eq!((request.sender_ip(), request.target_ip()), (own(1), hop));
    assert_forwarded(&lab.sent(1)[0], 2, own_mac(1), C_MAC);
    assert!(!lab.host_route(hop), "it is on no connected network");
}

#[test]
fn rfc826_an_entry_follows_its_sender_whomever_it_asks_for() {
    let mut lab = Lab::new();
    lab.receive(0, 0, packet(B, 1));
    lab.answer(1, B_MAC);
    lab.sent(1);
    let other = Ipv4Addr::new(10, 0, 2, 77);
    // The same as is known is no news, and stays with the worker.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(B_MAC, B, other));
    lab.receive(0, 0, packet(B, 2));
    assert_forwarded(&lab.sent(1)[0], 2, own_mac(1), B_MAC);
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(C_MAC, B, other));
    lab.receive(0, 0, packet(B, 3));
    assert_forwarded(&lab.sent(1)[0], 3, own_mac(1), C_MAC);
    // A stranger is not learned by what it asks others.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(A_MAC, other, B));
    assert!(!lab.host_route(other));
}

#[test]
fn an_address_that_another_claims_is_defended() {
    let mut lab = Lab::new();
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::gratuitous(C_MAC, own(1)));
    let sent = lab.sent(1);
    assert_eq!(sent.len(), 1);
    assert_eq!(arp(&sent[0]).1, ArpPacket::gratuitous(own_mac(1), own(1)));
    assert_eq!((lab.states(), lab.router.neighbor_counters::<Ipv4Addr>().conflicts), (vec![], 1));
    // The router's other interface on the same link is no other.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::gratuitous(own_mac(0), own(1)));
    assert_eq!(lab.router.neighbor_counters::<Ipv4Addr>().conflicts, 1);
}

#[test]
fn only_who_can_be_on_the_link_is_learned() {
    let mut lab = Lab::new();
    for (address, learned) in [
        (Ipv4Addr::new(10, 0, 2, 77), true),
        (Ipv4Addr::new(10, 0, 1, 77), false),
        (Ipv4Addr::new(10, 0, 2, 0), false),
        (Ipv4Addr::new(10, 0, 2, 255), false),
        (Ipv4Addr::UNSPECIFIED, false),
    ] {
        lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(C_MAC, address, own(1)));
        assert_eq!(lab.sent(1).len(), 1, "{address} is answered");
        assert_eq!(lab.states().iter().any(|s| s.0 == address.to_string()), learned, "{address}");
    }
    // An address of the other interface is not this link's.
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(C_MAC, B, own(0)));
    assert_eq!(lab.sent(1).len(), 0);
}

#[test]
fn neighbours_go_with_the_network_that_they_are_on() {
    let mut lab = Lab::new();
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(B_MAC, B, own(1)));
    lab.router.add_neighbor(1, Ipv4Addr::new(10, 0, 2, 9), C_MAC, true).unwrap();
    assert!(lab.host_route(B));
    let address = Address::new(own(1), 24);
    lab.router.remove_address(1, address).unwrap();
    assert_eq!(lab.states(), [("10.0.2.9".into(), "static")]);
    assert!(!lab.host_route(B) && !lab.host_route(Ipv4Addr::new(10, 0, 2, 9)));
    lab.router.add_address(1, address).unwrap();
    assert!(lab.host_route(Ipv4Addr::new(10, 0, 2, 9)), "the static one has its route again");
}

#[test]
fn sub_interfaces_have_neighbours_of_their_own() {
    let mut lab = Lab::new();
    let tags = Tags { outer_service: false, outer: 100, inner: None };
    let sub = lab.router.add_subinterface("right.100", 1, tags).unwrap();
    lab.router.set_admin(sub, true).unwrap();
    let address = Ipv4Addr::new(10, 0, 100, 1);
    lab.router.add_address(sub, Address::new(address, 24)).unwrap();
    lab.pass(3000);
    let tagged = |frame: &[u8]| {
        let (header, rest) = EthernetHeader::split(frame).unwrap();
        let (tag, rest) = VlanTag::split(rest).unwrap();
        assert_eq!((header.ethertype(), tag.vid()), (ethertype::VLAN, 100));
        (tag.ethertype(), rest.to_vec())
    };
    for frame in lab.sent(1) {
        let (kind, arp) = tagged(&frame);
        assert_eq!((kind, &arp[..]), (ethertype::ARP, &ArpPacket::gratuitous(own_mac(1), address).0[..]));
    }
    let c = Ipv4Addr::new(10, 0, 100, 2);
    lab.receive(0, 0, packet(c, 1));
    let (_, request) = tagged(&lab.sent(1)[0]);
    let reply = ArpPacket::split(&request).unwrap().0.reply(C_MAC);
    let mut frame = EthernetHeader::new(own_mac(1), C_MAC, ethertype::VLAN).0.to_vec();
    frame.extend(VlanTag::new(100, ethertype::ARP).0);
    frame.extend(reply.0);
    lab.receive(1, 0, frame);
    let (kind, ip) = tagged(&lab.sent(1)[0]);
    assert_eq!((kind, Ipv4Header::split(&ip).unwrap().0.dst()), (ethertype::IPV4, c));
    // The device goes down, and with it what is on it.
    lab.router.set_admin(1, false).unwrap();
    assert!(lab.states().is_empty());
}

#[test]
fn packets_to_an_interface_that_cannot_ask_are_reported_at_once() {
    let mut lab = Lab::new();
    lab.receive_arp(0, Mac::BROADCAST, ArpPacket::request(A_MAC, A, own(0)));
    lab.sent(0);
    // The interface goes down while the question is on its way.
    lab.far[0].0.lock().unwrap().to_router.push_back((0, packet(B, 1)));
    lab.turn_workers();
    lab.router.set_admin(1, false).unwrap();
    lab.run();
    assert_eq!((lab.sent(0).len(), lab.router.neighbor_counters::<Ipv4Addr>().requests), (1, 0));
    assert_eq!(lab.states(), [("10.0.1.2".into(), "reachable")]);
}

#[test]
fn workers_sweep_after_the_last_question() {
    let mut lab = Lab::new();
    lab.receive(0, 0, packet(B, 1));
    // The main thread forgets what was asked: as if the question had been lost.
    lab.router.near.neighbors4 = Default::default();
    lab.pass(5900);
    let expired = |lab: &Lab| lab.router.graph().stats().dropped_for("arp-release", "hold-expired").unwrap();
    assert_eq!(expired(&lab), 0);
    lab.pass(200);
    assert_eq!(expired(&lab), 1);
    assert_eq!(lab.router.next_timeout(), None);
}

#[test]
fn rfc1027_an_interface_answers_for_hosts_behind_others_when_it_is_told_to() {
    let mut lab = Lab::new();
    // A takes B, on the other link, for a host on its own.
    let asks = |target| ArpPacket::request(A_MAC, A, target);
    lab.receive_arp(0, Mac::BROADCAST, asks(B));
    assert_eq!(lab.sent(0).len(), 0, "not unless it is told to");
    lab.router.set_proxy(0, true).unwrap();
    lab.receive_arp(0, Mac::BROADCAST, asks(B));
    let (header, reply) = arp(&lab.sent(0)[0]);
    assert_eq!((header.dst(), reply.sender_mac(), reply.sender_ip()), (A_MAC, own_mac(0), B));
    // Not for who is on the same link, nor for what leads nowhere, nor for who asks whether he himself is there.
    lab.receive_arp(0, Mac::BROADCAST, asks(Ipv4Addr::new(10, 0, 1, 77)));
    lab.receive_arp(0, Mac::BROADCAST, asks(Ipv4Addr::new(198, 51, 100, 1)));
    lab.receive_arp(0, Mac::BROADCAST, ArpPacket::request(A_MAC, B, B));
    assert_eq!(lab.sent(0).len(), 0);
    lab.router.set_proxy(0, false).unwrap();
    lab.receive_arp(0, Mac::BROADCAST, asks(B));
    assert_eq!(lab.sent(0).len(), 0);
}

#[test]
fn an_unnumbered_interface_speaks_from_the_addresses_that_it_uses() {
    let mut lab = Lab::new();
    lab.router.remove_address(1, Address::new(own(1), 24)).unwrap();
    let loop0 = lab.router.add_loopback("loop0", Mac([2, 0, 0, 0, 9, 9])).unwrap();
    let lent = Ipv4Addr::new(192, 0, 2, 1);
    lab.router.set_admin(loop0, true).unwrap();
    lab.router.add_address(loop0, Address::new(lent, 32)).unwrap();
    lab.router.set_unnumbered(1, Some(loop0)).unwrap();
    lab.router.add_route(0, Prefix4::host(B), Path::Attached(1)).unwrap();
    lab.pass(5000);
    lab.sent(1);
    // Who is behind it is asked for from the address that it uses, and asks for that one.
    lab.receive(0, 0, packet(B, 1));
    assert_eq!(lab.answer(1, B_MAC), ArpPacket::request(own_mac(1), lent, B));
    assert_forwarded(&lab.sent(1)[0], 1, own_mac(1), B_MAC);
    lab.receive_arp(1, Mac::BROADCAST, ArpPacket::request(B_MAC, B, lent));
    assert_eq!(arp(&lab.sent(1)[0]).1.sender_mac(), own_mac(1));

    let why = |done: Result<(), RouterError>| done.unwrap_err().0;
    let address = Address::new(own(1), 24);
    assert!(why(lab.router.add_address(1, address)).contains("right uses the addresses of loop0"));
    assert!(why(lab.router.set_unnumbered(0, Some(loop0))).contains("left has addresses of its own"));
    assert!(why(lab.router.set_unnumbered(loop0, Some(loop0))).contains("its own"));
    // It is over when the interface goes that lent them.
    lab.router.remove_interface(loop0).unwrap();
    lab.router.add_address(1, address).unwrap();
    lab.pass(5000);
    lab.sent(1);
}
