//! Tests of the output interface and the source address of the router's own packets.

use std::net::Ipv4Addr;

use drivers::pktgen;
use wire::Mac;

use super::*;
use crate::ip::IpPrefix;
use crate::testing::router;

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

/// Returns the source address for packets to `to`.
fn source(router: &mut Router, to: &str, wanted: Option<&str>) -> Result<Ipv4Addr, NoSource> {
    let egress = router.egress(0, addr(to), None).unwrap();
    router.egress_source(0, egress, wanted.map(ip))
}

#[test]
fn packets_have_a_source_of_the_outgoing_path() {
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
        assert_eq!(source(&mut router, to, None), Ok(addr(from)), "to {to}");
    }
    assert_eq!(source(&mut router, "10.0.0.9", Some("9.9.9.9")), Ok(addr("9.9.9.9")));
    assert_eq!(source(&mut router, "10.0.0.9", Some("9.9.9.8")), Err(NoSource::NotOwn));
}

/// The router follows the routes of its own packets through at most 9 VRFs, the limit that also applies to workers.
#[test]
fn routes_are_followed_through_as_many_tables_as_by_workers() {
    let end = |hops: u32| {
        let (mut router, _worker) = router();
        let pg0 = device(&mut router, "pg0");
        let prefix: IpPrefix = "100.64.0.0/16".parse().unwrap();
        for table in 0..hops {
            let next = router.add_table(table + 1).unwrap();
            router.add_route(router.fib(table).unwrap(), prefix, Path::Table(next)).unwrap();
        }
        router.add_route(router.fib(hops).unwrap(), prefix, Path::Attached(pg0)).unwrap();
        router.egress(0, addr("100.64.0.1"), None).map(|egress| egress.interface == Some(pg0))
    };
    assert!(end(8).unwrap());
    assert!(end(9).unwrap_err().to_string().contains("loop between tables"));
}
