use proptest::prelude::*;
use serde_json::json;
use testkit::skip::skipped;

use super::*;

/// A machine with a management port (`eth0`), two free ports, and a PPP interface.
fn machine() -> Known {
    let port = |n: u64, name: &str, kind: &str, addresses: Value| {
        let mac = format!("02:00:00:00:00:0{n}");
        json!({"ifindex": n, "ifname": name, "link_type": kind, "address": mac, "addr_info": addresses})
    };
    let interfaces = vec![
        port(
            1,
            "eth0",
            "ether",
            json!([{"local": "192.0.2.7"}, {"local": "2001:db8::7"}, {"local": "fe80::1"}]),
        ),
        port(2, "eth1", "ether", json!([{"local": "fe80::1"}])),
        port(3, "eth2", "ether", json!([{"local": "fe80::2"}])),
        port(4, "ppp0", "ppp", json!([{"local": "198.51.100.9", "address": "198.51.100.1"}])),
    ];
    Known { interfaces, defaults: vec!["eth0".into()], ..Known::default() }
}

fn session(text: &str) -> Vec<Session> {
    of_environment(text).map(|(session, _)| session).into_iter().collect()
}

fn said(known: &Known, name: &str) -> String {
    known.judge(name, &[]).map_or_else(|why| why, |_| "nothing".into())
}

#[test]
fn an_unused_port_can_be_taken() {
    let known = machine();
    assert_eq!(known.judge("eth1", &[]), Ok(Mac([2, 0, 0, 0, 0, 2])));
    assert_eq!(known.judge("eth2", &[]), Ok(Mac([2, 0, 0, 0, 0, 3])));
    assert_eq!(said(&known, "eth3"), "no such interface");
    assert!(
        known
            .judge("eth1", &["eth1.5".into()])
            .is_err_and(|why| why.starts_with("it cannot be used because of eth1.5"))
    );
}

#[test]
fn a_port_that_the_machine_uses_is_refused() {
    assert!(said(&machine(), "eth0").contains("a default route uses this port"));
    let known = Known { defaults: Vec::new(), ..machine() };
    assert!(said(&known, "eth0").contains("it has the address 192.0.2.7"));
    let with = |key: &str, value: Value| {
        let mut known = machine();
        known.interfaces[1][key] = value;
        said(&known, "eth1")
    };
    assert!(with("master", json!("br0")).contains("it belongs to br0"));
    assert_eq!(with("address", json!("00:00")), "not an Ethernet port");
    // An IPv4 link-local address is not assigned automatically, so it counts as use.
    let linked = with(
        "addr_info",
        json!([{"local": "fe80::1", "scope": "link"}, {"local": "169.254.1.2", "scope": "link"}]),
    );
    assert!(linked.contains("it has the address 169.254.1.2"), "{linked}");
    let known = Known { pppoe: vec!["eth1".into()], ..machine() };
    assert!(said(&known, "eth1").contains("a PPPoE session runs on this port"));
}

#[test]
fn the_port_of_a_login_session_is_refused() {
    for (connection, by) in [
        ("203.0.113.5 50000 192.0.2.7 22", &["eth0"][..]),
        ("::ffff:203.0.113.5 50000 ::ffff:192.0.2.7 22", &["eth0"]),
        ("2001:db8::5 50000 2001:db8::7 22", &["eth0"]),
        ("fe80::9%eth1 50000 fe80::1%eth1 22", &["eth1"]),
        ("fe80::9%2 50000 fe80::1%2 22", &["eth1"]),
        ("fe80::9%eth2 50000 fe80::2%eth2 22", &["eth2"]),
        // Without a zone, the address may be on either interface.
        ("fe80::9 50000 fe80::1 22", &["eth0", "eth1"]),
        ("203.0.113.5 50000 192.0.2.8 22", &[]),
        ("nonsense", &[]),
        ("", &[]),
    ] {
        let known = Known { sessions: session(connection), defaults: Vec::new(), ..machine() };
        for port in ["eth0", "eth1", "eth2"] {
            let refused = said(&known, port).contains("you are logged in through this port, from ");
            assert_eq!(refused, by.contains(&port), "{connection}, {port}: {}", said(&known, port));
        }
    }
    // The address may be on another interface; replies leave through this one.
    let known = Known { answers: vec!["eth2".into()], ..machine() };
    assert!(said(&known, "eth2").contains("replies to your login"));
}

#[test]
fn interfaces_above_a_port_count_as_its_use() {
    let mut known = machine();
    known.sessions = session("203.0.113.5 50000 192.0.2.8 22");
    known.defaults.clear();
    let above = |name: &str, link: Value, master: Value| json!({"ifname": name, "link": link, "master": master, "addr_info": []});
    known.interfaces[1]["altnames"] = json!(["enp9s0"]);
    // A VLAN of eth1 is in a bridge; another VLAN on the bridge has the address.
    known.interfaces.push(above("eth1.5", json!("eth1"), json!("br0")));
    known.interfaces.push(above("br0", Value::Null, Value::Null));
    known.interfaces.push(above("br0.7", json!("br0"), Value::Null));
    known.interfaces[6]["addr_info"] = json!([{"local": "192.0.2.8"}]);
    for name in ["eth1", "enp9s0"] {
        let why = known.spare(name).err().unwrap_or_default();
        assert!(
            why.starts_with("it cannot be used because of br0.7: you are logged in through this port"),
            "{name}: {why}"
        );
    }
    assert_eq!((known.spare("eth2"), known.spare("eth0")), (Ok(()), Ok(())));
    assert_eq!(known.spare("eth9"), Err("no such interface".into()));
    // The search ends even if the interfaces form a cycle: here, two ends of a virtual link name each other.
    known.interfaces[2]["link"] = json!("eth0");
    known.interfaces[0]["link"] = json!("eth2");
    assert_eq!(known.spare("eth2"), Ok(()));
}

#[test]
fn an_unknown_port_of_a_login_refuses_all_ports() {
    let by_ppp = session("203.0.113.5 50000 198.51.100.9 22");
    let ways = [
        Known { sessions: by_ppp, ..machine() },
        Known { defaults: vec!["ppp0".into()], ..machine() },
        Known { answers: vec!["ppp0".into()], ..machine() },
    ];
    for known in ways {
        assert!(said(&known, "eth1").contains("reached over ppp0, perhaps through this port"), "{known:?}");
        // For the kernel's own PPPoE the port is known.
        let known = Known { pppoe: vec!["eth2".into()], ..known };
        assert_eq!(
            (said(&known, "eth1").as_str(), said(&known, "eth2").contains("PPPoE")),
            ("nothing", true)
        );
    }
    // A PPP interface without logins and default routes does not matter.
    assert_eq!(said(&machine(), "eth1"), "nothing");
}

#[test]
fn established_sockets_are_sessions() {
    if cfg!(target_endian = "big") {
        skipped("needs a little-endian machine: the file's addresses are in its order");
        return;
    }
    let text = "  sl  local_address rem_address   st tx_queue\n\
                \x20  0: 00000000:0016 00000000:0000 0A 00000000:00000000\n\
                \x20  1: 070200C0:0016 057100CB:C350 01 00000000:00000000\n\
                \x20  2: 070200C0:01BB 057100CB:C350 01 00000000:00000000\n\
                \x20  3: 070200C0:08AE 057100CB:C351 01 00000000:00000000\n\
                \x20  4: 070200C0:0016 057100CB:C352 06 00000000:00000000\nodd\n";
    let at = |local: &str, remote: &str| {
        let (local, remote) = (local.parse().ok()?, remote.parse().ok()?);
        Some(Session { local, zone: None, remote })
    };
    let v4 = at("192.0.2.7", "203.0.113.5");
    assert_eq!(of_sockets(text, &[Some(SSH), None]), v4.clone().into_iter().collect::<Vec<_>>());
    assert_eq!(of_sockets(text, &[Some(SSH), Some(2222)]).len(), 2);
    let text = "  sl  local_address                         remote_address                        st\n\
                \x20  0: 000080FE00000000FF005450AA0000FE:0016 000080FE000000000000000002000000:C350 01 0\n\
                \x20  1: 0000000000000000FFFF0000070200C0:0016 0000000000000000FFFF0000057100CB:C350 01 0\n";
    let v6 = at("fe80::5054:ff:fe00:aa", "fe80::2");
    assert_eq!(of_sockets(text, &[Some(SSH)]), [v6, v4].into_iter().flatten().collect::<Vec<_>>());
}

#[test]
fn ports_of_pppoe_are_listed() {
    let text = "Id       Address              Device\n00000001 02:00:00:00:00:09     eth1\n";
    assert_eq!((of_pppoe(text), of_pppoe("")), (vec!["eth1".to_owned()], vec![]));
}

#[test]
fn all_next_hops_of_a_route_count() {
    let route = json!({"dst": "default", "nexthops": [{"dev": "eth0"}, {"dev": "eth1"}]});
    assert_eq!(devices(&route), ["eth0", "eth1"]);
    assert_eq!(devices(&json!({"dst": "default", "dev": "eth2"})), ["eth2"]);
}

proptest! {
    #[test]
    fn any_text_is_parsed_without_a_panic(text in any::<String>(), hex in "( *[0-9A-F:%é.]{0,40}){0,6}") {
        for text in [&text, &hex] {
            let _ = (of_environment(text), of_sockets(text, &[Some(SSH)]), of_pppoe(text), socket(text));
        }
    }
}
