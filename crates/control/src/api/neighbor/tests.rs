//! Tests of the messages about neighbors.

use std::net::IpAddr;

use vapi::Code;
use vapi::types::{address, address_family, interface_index};

use super::*;
use crate::neighbors::Changes;
use crate::testing::{Cli, FEATURES};

fn ip(text: &str) -> address {
    text.parse::<IpAddr>().unwrap().into()
}

/// Returns a request for a neighbor on pg0.
fn neighbor_at(c: &Cli, text: &str, mac: u8, fixed: bool, is_add: bool) -> ip_neighbor_add_del {
    let pg0 = c.context.system.router.interface_named("pg0").unwrap().index;
    let mac = Mac([2, 0, 0, 0, 0, mac]);
    let neighbor = ip_neighbor { ip_address: ip(text), ..neighbor(pg0, ip(text).ip(), mac, fixed) };
    ip_neighbor_add_del { is_add, neighbor }
}

fn all(c: &Cli) -> Vec<(IpAddr, u8, u8)> {
    let request = ip_neighbor_dump { sw_if_index: interface_index::NONE, af: address_family::ADDRESS_IP4 };
    let objects = c.dump(&request).into_iter().map(|d| d.neighbor);
    objects.map(|n| (n.ip_address.ip(), n.mac_address.0.0[5], n.flags.0)).collect()
}

#[test]
fn static_neighbors_are_configuration_and_others_are_not() {
    let mut c = Cli::with(FEATURES);
    let add = |c: &mut Cli, text, mac, fixed| c.ask(&neighbor_at(c, text, mac, fixed, true)).map(drop);
    assert_eq!(add(&mut c, "10.0.0.2", 1, false), Ok(()));
    assert_eq!(add(&mut c, "10.0.0.3", 2, true), Ok(()));
    let [two, three] = ["10.0.0.2", "10.0.0.3"].map(|text| ip(text).ip());
    assert_eq!(all(&c), [(two, 1, 0), (three, 2, 1)]);
    assert_eq!(c.ok("show config").matches("neighbor").count(), 1);
    // A learned neighbor never replaces a static one.
    assert_eq!(add(&mut c, "10.0.0.3", 9, false), Err(Code::VALUE_EXIST));
    assert_eq!(add(&mut c, "10.0.0.3", 2, false), Ok(()));
    assert_eq!(all(&c), [(two, 1, 0), (three, 2, 1)]);
    for (text, code) in [("10.0.0.1", Code::ADDRESS_IN_USE), ("0.0.0.0", Code::INVALID_VALUE)] {
        assert_eq!(add(&mut c, text, 3, true), Err(code), "{text}");
        assert_eq!(add(&mut c, text, 3, false), Err(code), "{text}");
    }
    for text in ["10.0.0.2", "10.0.0.3"] {
        assert!(c.ask(&neighbor_at(&c, text, 0, false, false)).is_ok());
        let again = c.ask(&neighbor_at(&c, text, 0, false, false)).map(drop);
        assert_eq!(again, Err(Code::NO_SUCH_ENTRY));
    }
    assert_eq!(all(&c), []);
}

#[test]
fn a_replacement_removes_what_is_not_added_again() {
    let mut c = Cli::with(FEATURES);
    for (text, fixed) in [("10.0.0.2", false), ("10.0.0.3", true), ("10.0.0.4", false), ("10.0.0.5", true)] {
        c.ask(&neighbor_at(&c, text, 1, fixed, true)).unwrap();
    }
    c.ask(&ip_neighbor_replace_begin {}).unwrap();
    for (text, fixed) in [("10.0.0.2", false), ("10.0.0.3", true)] {
        c.ask(&neighbor_at(&c, text, 1, fixed, true)).unwrap();
    }
    c.ask(&ip_neighbor_replace_end {}).unwrap();
    let left: Vec<IpAddr> = all(&c).into_iter().map(|(ip, ..)| ip).collect();
    assert_eq!(left, ["10.0.0.2", "10.0.0.3"].map(|text| ip(text).ip()));
    let flush = ip_neighbor_flush { af: address_family::ADDRESS_IP6, sw_if_index: interface_index::NONE };
    c.ask(&flush).unwrap();
    assert_eq!(all(&c).len(), 2, "another family");
    c.ask(&ip_neighbor_flush { af: address_family::ADDRESS_IP4, ..flush }).unwrap();
    assert_eq!(all(&c), []);
}

#[test]
fn changes_are_collected_only_while_a_client_wants_them() {
    let mut c = Cli::with(FEATURES);
    let table = c.context.definitions.clone();
    let (client, queue) = c.context.events.enter();
    assert_eq!(client, 1, "the client of the test");
    let waiting = |c: &Cli| c.context.system.router.state::<Changes>().unwrap().waiting();
    c.ask(&neighbor_at(&c, "10.0.0.2", 1, false, true)).unwrap();
    assert_eq!(waiting(&c), 0);
    let want = want_ip_neighbor_events_v2 {
        enable: true,
        pid: 7,
        ip: ip("0.0.0.0"),
        sw_if_index: interface_index::NONE,
    };
    c.ask(&want).unwrap();
    c.ask(&want_ip_neighbor_events {
        enable: true,
        pid: 7,
        ip: ip("10.0.0.9"),
        sw_if_index: interface_index::NONE,
    })
    .unwrap();
    c.ask(&neighbor_at(&c, "10.0.0.3", 1, false, true)).unwrap();
    c.ask(&neighbor_at(&c, "10.0.0.9", 1, true, true)).unwrap();
    c.ask(&neighbor_at(&c, "10.0.0.9", 1, true, false)).unwrap();
    assert_eq!(waiting(&c), 3);
    look(&mut c.context, &table);
    // Two kinds of events for the new neighbor that both registrations match.
    assert_eq!((waiting(&c), queue.waiting()), (0, 4));
    c.context.events.leave(client);
    look(&mut c.context, &table);
    c.ask(&neighbor_at(&c, "10.0.0.4", 1, false, true)).unwrap();
    assert_eq!(waiting(&c), 0);
}
