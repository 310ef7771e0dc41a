//! Tests of pings by the router itself.

use buf::Held;
use drivers::pktgen;
use wire::Mac;
use wire::icmpv4::kind;

use super::super::lab::Lab;
use super::*;
use crate::ip::{Address, IpPrefix};
use crate::testing::{router, turn};

fn addr(s: &str) -> Ipv4Addr {
    s.parse().unwrap()
}

fn ip(s: &str) -> IpAddr {
    s.parse().unwrap()
}

fn address(router: &mut Router, interface: u32, address: &str, len: u8) {
    router.add_address(interface, Address::new(addr(address), len)).unwrap();
}

fn loopback(router: &mut Router, name: &str) -> u32 {
    let index = router.add_loopback(name, Mac([2, 0, 0, 0, 0, 1])).unwrap();
    router.set_admin(index, true).unwrap();
    index
}

fn device(router: &mut Router, name: &str) -> u32 {
    let (device, ..) = pktgen::open(&pktgen::Config::default());
    let index = router.add_device(name, device).unwrap();
    router.set_admin(index, true).unwrap();
    index
}

/// Returns an echo reply as a worker punts it.
fn punted(router: &mut Router, src: &str, dst: &str, id: u16, seq: u16) -> Held {
    let builder = PacketBuilder::ipv4(addr(src), addr(dst)).ttl(61).payload(&[0; 10]);
    router.packet(&builder.icmp(kind::ECHO_REPLY, 0, u32::from(id) << 16 | u32::from(seq)).build()).unwrap()
}

/// Returns the source address of a ping's requests; `None` if the ping is not active.
fn source(router: &Router, id: u16) -> Option<IpAddr> {
    router.pings.sessions.get(&id).map(|s| s.source)
}

#[test]
fn the_router_answers_its_own_pings() {
    let (mut router, mut worker) = router();
    let loop0 = loopback(&mut router, "loop0");
    address(&mut router, loop0, "10.0.0.1", 32);
    let own = ip("10.0.0.1");
    let id = router.ping_start(0, own, None, 2000).unwrap();
    assert_eq!(source(&router, id), Some(own));
    for seq in 1..=3 {
        router.ping_send(id, seq, 1_000_000 * u64::from(seq)).unwrap();
        turn(&router, &mut worker);
        router.poll(1_000_000 * u64::from(seq) + 250);
    }
    let reply = |seq| PingReply { seq, from: own, bytes: 2008, ttl: 64, rtt: Duration::from_nanos(250) };
    assert_eq!(router.ping_take_replies(id), [reply(1), reply(2), reply(3)]);
    assert_eq!(router.ping_take_replies(id), []);
    router.bufs.publish();
    assert_eq!(router.pool.stats().used, 0);
}

#[test]
fn requests_of_any_size_are_sent_whole_or_in_fragments() {
    let (mut router, mut worker) = router();
    let loop0 = loopback(&mut router, "loop0");
    address(&mut router, loop0, "10.0.0.1", 32);
    let own6: Ipv6Addr = "2001:db8::1".parse().unwrap();
    router.add_address(loop0, Address::new(own6, 128)).unwrap();
    for (to, size) in [(ip("10.0.0.1"), 65_507), (own6.into(), 65_527)] {
        let id = router.ping_start(0, to, None, size).unwrap();
        router.ping_send(id, 1, 0).unwrap();
        turn(&router, &mut worker);
        router.poll(250);
        let replies = router.ping_take_replies(id);
        assert_eq!(replies.iter().map(|r| (r.from, r.bytes)).collect::<Vec<_>>(), [(to, size + 8)]);
        let said = router.ping_start(0, to, None, size + 1).unwrap_err().0;
        assert!(said.contains(&format!("the maximum is {size}")), "{said}");
    }
    router.bufs.publish();
    assert_eq!(router.pool.stats().used, 0);
}

/// Creates a lab. Its first interface has the address `own`, and `to` is a known neighbor there; the second
/// interface has an address of the same family.
fn lab(own: IpAddr, to: IpAddr) -> Lab {
    let other = |address: IpAddr| match address {
        IpAddr::V4(_) => ip("10.9.9.1"),
        IpAddr::V6(_) => ip("2001:db8:99::1"),
    };
    let mut lab = Lab::new(|index| {
        let address = if index == 0 { own } else { other(own) };
        Address::new(address, if address.is_ipv4() { 24 } else { 64 })
    });
    lab.router.add_neighbor(0, to, Mac([2, 0, 0, 0, 0xa, 2]), true).unwrap();
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
        let id = lab.router.ping_start(0, to, None, 4000).unwrap();
        let mut seen = Vec::new();
        for seq in 1..=2 {
            lab.router.ping_send(id, seq, lab.now).unwrap();
            lab.run();
            let frames = lab.sent(0);
            let most = if own.is_ipv4() { 1500 } else { 1280 };
            assert_eq!(frames.len(), if own.is_ipv4() { 3 } else { 4 }, "{own}");
            assert!(frames.iter().all(|f| f.len() <= 14 + most), "{own}");
            seen.push(identification(&frames[0]));
            assert!(frames.iter().all(|f| identification(f) == identification(&frames[0])));
        }
        assert_ne!(seen[0], seen[1]);
        lab.router.ping_stop(id);
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
    let id = router.ping_start(5, addr("10.0.0.1"), None, 56).unwrap();
    router.ping_send(id, 1, 0).unwrap();
    turn(&router, &mut worker);
    router.poll(1);
    assert_eq!(router.ping_take_replies(id).len(), 1);
    assert!(router.ping_start(0, addr("10.0.0.1"), None, 56).is_err());
}

#[test]
fn requests_have_a_source_of_the_outgoing_path() {
    let (mut router, _worker) = router();
    let loop0 = loopback(&mut router, "loop0");
    let pg0 = device(&mut router, "pg0");
    let pg1 = device(&mut router, "pg1");
    address(&mut router, loop0, "9.9.9.9", 32);
    address(&mut router, pg0, "10.0.0.1", 24);
    address(&mut router, pg0, "10.0.1.1", 24);
    let via = |hop: &str, interface| Path::Via { next_hop: addr(hop).into(), interface };
    let other = router.add_table(5).unwrap();
    router.add_route(other, "100.64.0.0/16".parse::<IpPrefix>().unwrap(), Path::Attached(pg0)).unwrap();
    for (prefix, path) in [
        ("203.0.113.0/24", via("10.0.1.7", None)),
        ("198.51.100.0/24", via("10.0.0.7", Some(pg0))),
        ("198.18.0.0/15", via("10.7.7.7", Some(pg0))),
        ("192.0.2.0/24", Path::Attached(pg1)),
        ("100.64.0.0/16", Path::Table(other)),
    ] {
        router.add_route(0, prefix.parse::<IpPrefix>().unwrap(), path).unwrap();
    }
    for (to, from) in [
        ("10.0.0.9", "10.0.0.1"),
        ("10.0.1.9", "10.0.1.1"),
        ("203.0.113.1", "10.0.1.1"),
        ("198.51.100.1", "10.0.0.1"),
        // A next hop outside the interface's networks: the interface's first address.
        ("198.18.0.1", "10.0.0.1"),
        // An interface without an address: any address of the VRF.
        ("192.0.2.1", "9.9.9.9"),
        ("100.64.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
    ] {
        let id = router.ping_start(0, addr(to), None, 56).unwrap();
        assert_eq!(source(&router, id), Some(ip(from)), "to {to}");
        router.ping_stop(id);
    }
    let id = router.ping_start(0, addr("10.0.0.9"), Some(ip("9.9.9.9")), 56).unwrap();
    assert_eq!(source(&router, id), Some(ip("9.9.9.9")));
}

#[test]
fn unreachable_targets_are_refused_with_the_reason() {
    let (mut router, _worker) = router();
    let pg0 = device(&mut router, "pg0");
    address(&mut router, pg0, "10.0.0.1", 24);
    router.set_mtu(pg0, 1500).unwrap();
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
    router.add_route(1, "10.0.0.0/24".parse::<IpPrefix>().unwrap(), Path::Attached(pg0)).unwrap();
    let mut refused = |fib, to: &str, source: Option<&str>, size| {
        router.ping_start(fib, addr(to), source.map(ip), size).unwrap_err().0
    };
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
        let said = refused(fib, to, source, size);
        assert!(said.contains(text), "\"{said}\" does not contain \"{text}\"");
    }
    assert!(router.ping_start(0, addr("10.0.0.2"), None, 65_507).is_ok());
    // 256 fragments with 48 bytes of data each.
    router.set_mtu(pg0, 68).unwrap();
    let said = router.ping_start(0, addr("10.0.0.2"), None, 12_281).unwrap_err().0;
    assert!(said.contains("the MTU of pg0: the maximum is 12280"), "{said}");
    assert!(router.ping_start(0, addr("10.0.0.2"), None, 12_280).is_ok());
    assert!(router.ping_send(999, 1, 0).unwrap_err().0.contains("no ping 999"));
}

#[test]
fn only_the_reply_to_a_request_counts_and_only_once() {
    let (mut router, mut worker) = router();
    let pg0 = device(&mut router, "pg0");
    address(&mut router, pg0, "10.0.0.1", 24);
    let id = router.ping_start(0, addr("10.0.0.2"), None, 10).unwrap();
    router.ping_send(id, 7, 100).unwrap();
    turn(&router, &mut worker);
    for (src, dst, id, seq, counts) in [
        ("10.0.0.2", "10.0.0.1", id, 8, 0),
        ("10.0.0.2", "10.0.0.1", id + 1, 7, 0),
        ("10.0.0.3", "10.0.0.1", id, 7, 0),
        ("10.0.0.2", "10.0.0.4", id, 7, 0),
        ("10.0.0.2", "10.0.0.1", id, 7, 1),
        ("10.0.0.2", "10.0.0.1", id, 7, 0),
    ] {
        let mut held = punted(&mut router, src, dst, id, seq);
        let used = reply(&mut router, 350, 0, &mut held.packet());
        assert_eq!(used, if counts == 1 { Ok(()) } else { Err(Unused::NoPing) });
        held.free(&mut router.bufs);
        let replies = router.ping_take_replies(1);
        assert_eq!(replies.len(), counts, "{src} {dst} {id} {seq}");
        if let [r] = replies[..] {
            let rtt = Duration::from_nanos(250);
            assert_eq!(r, PingReply { seq: 7, from: ip("10.0.0.2"), bytes: 18, ttl: 61, rtt });
        }
    }
    router.ping_stop(id);
    assert_eq!(source(&router, id), None);
}

#[test]
fn sessions_and_waiting_replies_are_limited() {
    let (mut router, mut worker) = router();
    let loop0 = loopback(&mut router, "loop0");
    address(&mut router, loop0, "10.0.0.1", 32);
    let own = ip("10.0.0.1");
    let ids: Vec<u16> = (0..SESSIONS).map(|_| router.ping_start(0, own, None, 0).unwrap()).collect();
    assert!(router.ping_start(0, own, None, 0).unwrap_err().0.contains("64 pings"));
    for seq in 0..WAITING as u16 + 10 {
        router.ping_send(ids[0], seq, 0).unwrap();
        turn(&router, &mut worker);
    }
    assert_eq!(router.pings.sessions[&ids[0]].sent.len(), WAITING);
    while router.poll(1) {}
    let seqs: Vec<u16> = router.ping_take_replies(ids[0]).iter().map(|r| r.seq).collect();
    assert!(seqs.len() <= WAITING && !seqs.contains(&9), "{seqs:?}");
    // Identifiers in use are not reused, even after the counter wrapped around.
    router.ping_stop(ids[3]);
    router.pings.last = ids[3] - 2;
    assert_eq!(router.ping_start(0, own, None, 0).unwrap(), ids[3]);
}
