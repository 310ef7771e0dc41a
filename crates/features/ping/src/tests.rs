//! Tests of pings by the router itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use graph::stats::MAIN_THREAD;
use graph::{Builder, GraphError, Worker};
use net::Tables;
use net::ip::{Address, IpPrefix, Path};
use net::router::{Hooks, Router, RouterError};
use net::testing::{Lab, own_mac, turn};
use wire::Mac;
use wire::builder::PacketBuilder;
use wire::icmpv4::kind;

use crate::route::Target;
use crate::session::{Held, Pings, READERS_AT_ONCE, Reply, SESSIONS, WAITING, send, start};

/// The Ethernet address of a host.
const HOST: Mac = Mac([2, 0, 0, 0, 0xa, 2]);

fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    net::testing::install(b, t, hooks)?;
    crate::install(b, t, hooks)
}

fn router() -> (Router, Worker) {
    net::testing::router_with(install)
}

fn begin(
    router: &mut Router,
    table: u32,
    to: IpAddr,
    source: Option<IpAddr>,
    size: usize,
) -> Result<Held, RouterError> {
    start(router, table, Target { address: to, interface: None, source, size }, false)
}

fn pings(router: &mut Router) -> &mut Pings {
    Pings::of(router).unwrap()
}

fn replies(router: &mut Router, ping: &Held) -> Vec<Reply> {
    pings(router).take_replies(ping.id)
}

fn v4(s: &str) -> Ipv4Addr {
    s.parse().unwrap()
}

fn ip(s: &str) -> IpAddr {
    s.parse().unwrap()
}

fn address(router: &mut Router, interface: u32, address: &str, len: u8) {
    router.add_address(interface, Address::new(ip(address), len)).unwrap();
}

fn loopback(router: &mut Router, name: &str) -> u32 {
    let index = router.add_loopback(name, Mac([2, 0, 0, 0, 0, 1])).unwrap();
    router.set_admin(index, true).unwrap();
    index
}

/// Returns the source address of a ping's requests; `None` if the ping is not active.
fn source(router: &mut Router, ping: &Held) -> Option<IpAddr> {
    pings(router).sessions.get(&ping.id).map(|s| s.source)
}

#[test]
fn the_router_answers_its_own_pings() {
    let (mut router, mut worker) = router();
    let loop0 = loopback(&mut router, "loop0");
    address(&mut router, loop0, "10.0.0.1", 32);
    let own = ip("10.0.0.1");
    let ping = begin(&mut router, 0, own, None, 2000).unwrap();
    assert_eq!(source(&mut router, &ping), Some(own));
    for seq in 1..=3 {
        send(&mut router, ping.id, seq, 1_000_000 * u64::from(seq)).unwrap();
        turn(&router, &mut worker);
        router.poll(1_000_000 * u64::from(seq) + 250);
    }
    let reply = |seq| Reply { seq, from: own, bytes: 2008, ttl: 64, rtt: Duration::from_nanos(250) };
    assert_eq!(replies(&mut router, &ping), [reply(1), reply(2), reply(3)]);
    assert_eq!(replies(&mut router, &ping), []);
    router.poll(0);
    assert_eq!(router.pool().stats().used, 0);
}

#[test]
fn requests_of_any_size_are_sent_whole_or_in_fragments() {
    let (mut router, mut worker) = router();
    let loop0 = loopback(&mut router, "loop0");
    address(&mut router, loop0, "10.0.0.1", 32);
    let own6: Ipv6Addr = "2001:db8::1".parse().unwrap();
    router.add_address(loop0, Address::new(own6, 128)).unwrap();
    for (to, size) in [(ip("10.0.0.1"), 65_507), (own6.into(), 65_527)] {
        let ping = begin(&mut router, 0, to, None, size).unwrap();
        send(&mut router, ping.id, 1, 0).unwrap();
        turn(&router, &mut worker);
        router.poll(250);
        let replies = replies(&mut router, &ping);
        assert_eq!(replies.iter().map(|r| (r.from, r.bytes)).collect::<Vec<_>>(), [(to, size + 8)]);
        let said = begin(&mut router, 0, to, None, size + 1).unwrap_err().why;
        assert!(said.contains(&format!("the maximum is {size}")), "{said}");
    }
    router.poll(0);
    assert_eq!(router.pool().stats().used, 0);
}

/// Creates a lab. Its first interface has the address `own`, and `to` is a known neighbor there; the second
/// interface has an address of the same family.
fn lab(own: IpAddr, to: IpAddr) -> Lab {
    let other = |address: IpAddr| match address {
        IpAddr::V4(_) => ip("10.9.9.1"),
        IpAddr::V6(_) => ip("2001:db8:99::1"),
    };
    let mut lab = Lab::with(install, |index| {
        let address = if index == 0 { own } else { other(own) };
        Address::new(address, if address.is_ipv4() { 24 } else { 64 })
    });
    lab.router.add_neighbor(0, to, HOST, true).unwrap();
    lab.run();
    lab.sent(0);
    lab
}

#[test]
fn requests_above_the_mtu_are_fragmented() {
    for (own, to) in
        [("10.0.1.1", "10.0.1.2"), ("2001:db8:1::1", "2001:db8:1::2")].map(|(a, b)| (ip(a), ip(b)))
    {
        let mut lab = lab(own, to);
        let ping = begin(&mut lab.router, 0, to, None, 4000).unwrap();
        let mut seen = Vec::new();
        for seq in 1..=2 {
            send(&mut lab.router, ping.id, seq, lab.now).unwrap();
            lab.run();
            let frames = lab.sent(0);
            let most = if own.is_ipv4() { 1500 } else { 1280 };
            assert_eq!(frames.len(), if own.is_ipv4() { 3 } else { 4 }, "{own}");
            assert!(frames.iter().all(|f| f.len() <= 14 + most), "{own}");
            seen.push(identification(&frames[0]));
            assert!(frames.iter().all(|f| identification(f) == identification(&frames[0])));
        }
        assert_ne!(seen[0], seen[1]);
        pings(&mut lab.router).stop(ping.id);
    }
}

/// Returns the identification of a fragment in a frame.
fn identification(frame: &[u8]) -> u32 {
    match frame[14] >> 4 {
        4 => u32::from(u16::from_be_bytes([frame[18], frame[19]])),
        _ => u32::from_be_bytes(*frame[58..].first_chunk().unwrap()),
    }
}

#[test]
fn a_ping_stays_in_its_table() {
    let (mut router, mut worker) = router();
    router.add_table(5).unwrap();
    let loop0 = loopback(&mut router, "loop0");
    router.set_table(loop0, 5).unwrap();
    address(&mut router, loop0, "10.0.0.1", 32);
    let ping = begin(&mut router, 5, ip("10.0.0.1"), None, 56).unwrap();
    send(&mut router, ping.id, 1, 0).unwrap();
    turn(&router, &mut worker);
    router.poll(1);
    assert_eq!(replies(&mut router, &ping).len(), 1);
    assert!(begin(&mut router, 0, ip("10.0.0.1"), None, 56).is_err());
}

#[test]
fn unreachable_targets_are_refused_with_the_reason() {
    let mut lab = lab(ip("10.0.0.1"), ip("10.0.0.9"));
    let router = &mut lab.router;
    router.set_mtu(0, 1500).unwrap();
    router.add_table(1).unwrap();
    for (prefix, path) in [
        ("192.0.2.0/25", Path::Drop),
        ("192.0.2.128/25", Path::Unreachable),
        ("198.51.100.0/24", Path::Prohibit),
        ("203.0.113.0/24", Path::Table(1)),
    ] {
        router.add_route(0, prefix.parse::<IpPrefix>().unwrap(), path).unwrap();
    }
    router.add_route(1, "203.0.113.0/24".parse::<IpPrefix>().unwrap(), Path::Table(0)).unwrap();
    router.add_route(1, "10.0.0.0/24".parse::<IpPrefix>().unwrap(), Path::Attached(0)).unwrap();
    for (text, fib, to, source, size) in [
        ("no route", 0, "172.16.0.1", None, 56),
        ("there is no table 9", 9, "10.0.0.2", None, 56),
        ("192.0.2.0/25 drops", 0, "192.0.2.1", None, 56),
        ("unreachable", 0, "192.0.2.129", None, 56),
        ("prohibit", 0, "198.51.100.1", None, 56),
        ("form a loop", 0, "203.0.113.1", None, 56),
        ("10.0.0.3 is not an address", 0, "10.0.0.2", Some("10.0.0.3"), 56),
        ("no address in table 1", 1, "10.0.0.2", None, 56),
        ("the maximum is 65507", 0, "10.0.0.2", None, 65_508),
    ] {
        let said = begin(router, fib, ip(to), source.map(ip), size).unwrap_err().why;
        assert!(said.contains(text), "\"{said}\" does not contain \"{text}\"");
    }
    assert!(begin(router, 0, ip("10.0.0.2"), None, 65_507).is_ok());
    // The maximum is 256 fragments with 48 bytes of data each, less the ICMP header.
    router.set_mtu(0, 68).unwrap();
    let said = begin(router, 0, ip("10.0.0.2"), None, 12_281).unwrap_err().why;
    assert!(said.contains("the MTU of left: the maximum is 12280"), "{said}");
    let ping = begin(router, 0, ip("10.0.0.2"), None, 12_280).unwrap();
    pings(router).stop(ping.id);
    let said = send(router, ping.id, 1, 0).unwrap_err().why;
    assert!(said.contains(&format!("no ping {}", ping.id)), "{said}");
}

#[test]
fn a_source_that_is_tested_for_duplicates_has_to_wait() {
    let mut lab = lab(ip("2001:db8:1::1"), ip("2001:db8:1::2"));
    let new: Ipv6Addr = "2001:db8:1::9".parse().unwrap();
    lab.router.add_address(0, Address::new(new, 64)).unwrap();
    let why = begin(&mut lab.router, 0, ip("2001:db8:1::2"), Some(new.into()), 56).unwrap_err().why;
    assert!(why.contains(&format!("{new} of left ")) && why.contains("tested for duplicates"), "{why}");
}

#[test]
fn only_the_reply_to_a_request_counts_and_only_once() {
    let mut lab = lab(ip("10.0.0.1"), ip("10.0.0.2"));
    let ping = begin(&mut lab.router, 0, ip("10.0.0.2"), None, 10).unwrap();
    lab.now += 100;
    send(&mut lab.router, ping.id, 7, lab.now).unwrap();
    lab.run();
    lab.now += 250;
    let unused = |lab: &Lab| lab.router.graph().stats().dropped_for(MAIN_THREAD, "no-ping");
    for (n, (src, dst, number, seq, counts)) in (0..).zip([
        ("10.0.0.2", "10.0.0.1", ping.id, 8, 0),
        ("10.0.0.2", "10.0.0.1", ping.id + 1, 7, 0),
        ("10.0.0.3", "10.0.0.1", ping.id, 7, 0),
        ("10.0.0.2", "10.9.9.1", ping.id, 7, 0),
        ("10.0.0.2", "10.0.0.1", ping.id, 7, 1),
        ("10.0.0.2", "10.0.0.1", ping.id, 7, 0),
    ]) {
        let builder = PacketBuilder::ipv4(v4(src), v4(dst)).ethernet(HOST, own_mac(0)).ttl(61);
        let reply = builder.payload(&[0; 10]).icmp(kind::ECHO_REPLY, 0, u32::from(number) << 16 | seq);
        lab.receive(0, 0, reply.build());
        let replies = replies(&mut lab.router, &ping);
        assert_eq!(replies.len(), counts, "{src} {dst} {number} {seq}");
        assert_eq!(unused(&lab), Some(if n < 4 { n + 1 } else { n }), "{src} {dst} {number} {seq}");
        if let [r] = replies[..] {
            let rtt = Duration::from_nanos(250);
            assert_eq!(r, Reply { seq: 7, from: ip("10.0.0.2"), bytes: 18, ttl: 61, rtt });
        }
    }
    pings(&mut lab.router).stop(ping.id);
    assert_eq!(source(&mut lab.router, &ping), None);
}

#[test]
fn sessions_and_waiting_replies_are_limited() {
    let (mut router, mut worker) = router();
    let loop0 = loopback(&mut router, "loop0");
    address(&mut router, loop0, "10.0.0.1", 32);
    let own = ip("10.0.0.1");
    let ids: Vec<Held> = (0..SESSIONS).map(|_| begin(&mut router, 0, own, None, 0).unwrap()).collect();
    assert!(begin(&mut router, 0, own, None, 0).unwrap_err().why.contains("64 pings"));
    for seq in 0..WAITING as u16 + 10 {
        send(&mut router, ids[0].id, seq, 0).unwrap();
        turn(&router, &mut worker);
    }
    assert_eq!(pings(&mut router).sessions[&ids[0].id].sent.len(), WAITING);
    while router.poll(1) {}
    let seqs: Vec<u16> = replies(&mut router, &ids[0]).iter().map(|r| r.seq).collect();
    assert!(seqs.len() <= WAITING && !seqs.contains(&9), "{seqs:?}");
    // Identifiers in use are not reused, even after the counter wrapped around.
    pings(&mut router).stop(ids[3].id);
    pings(&mut router).last = ids[3].id - 2;
    assert_eq!(begin(&mut router, 0, own, None, 0).unwrap().id, ids[3].id);
}

/// 16 read-only clients send as much as they can for 10 seconds, in bursts of 32 requests of 2 packets. Together they send at most 500
/// packets a second plus one burst of `READERS_AT_ONCE` packets, and at least 490 packets a second.
#[test]
fn read_only_clients_share_a_rate() {
    let (mut router, _worker) = router();
    let index = loopback(&mut router, "loop0");
    let to = Target { address: ip("10.0.0.1"), interface: None, source: None, size: 1500 };
    address(&mut router, index, "10.0.0.1", 24);
    let held: Vec<Held> = (0..16).map(|_| start(&mut router, 0, to, true).unwrap()).collect();
    let mut packets = [0; 16];
    for now in (0..10_000_000_000).step_by(2_000_000) {
        for (n, ping) in held.iter().enumerate() {
            // One of them sends single requests of 2 packets.
            let requests = if n == 15 { 1 } else { 32 };
            packets[n] += if pings(&mut router).may_send(ping.id, requests, now) { 2 * requests } else { 0 };
        }
    }
    let all: u32 = packets.iter().sum();
    assert!((4900..=5000 + READERS_AT_ONCE).contains(&all), "{packets:?}");
    assert!(packets.iter().all(|n| *n > 0), "{packets:?}");
}

/// A client asks once whether it may send, and then stops asking, because nobody reads its output. Another client behind it in the queue
/// sends after a second.
#[test]
fn a_client_that_stops_asking_loses_its_place() {
    let (mut router, _worker) = router();
    let index = loopback(&mut router, "loop0");
    address(&mut router, index, "10.0.0.1", 24);
    let to = Target { address: ip("10.0.0.1"), interface: None, source: None, size: 56 };
    let [stopped, other] = [(); 2].map(|()| start(&mut router, 0, to, true).unwrap());
    let mut ask = |ping: &Held, requests, now| pings(&mut router).may_send(ping.id, requests, now);
    assert!(ask(&other, READERS_AT_ONCE, 0));
    assert!(!ask(&stopped, READERS_AT_ONCE, 1));
    let sent = (0..2_000_000_000).step_by(2_000_000).find(|now| ask(&other, 1, *now));
    assert!(sent.is_some_and(|now| (1_000_000_000..1_100_000_000).contains(&now)), "{sent:?}");
}
