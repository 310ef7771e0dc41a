//! Two customers with the same addresses, separated by VRFs.

use scenarios::{Ping, Routed, address, address6};
use testkit::netns::{Host, LIMIT};

/// The values that differ between the address families.
struct Family {
    /// The router's address on the links of a and c.
    router: &'static str,
    /// The address of b and of d.
    peer: &'static str,
    /// A network behind b, and an address of b in it.
    behind_b: [&'static str; 2],
    /// A network behind d, and an address of d in it.
    behind_d: [&'static str; 2],
    /// A network behind a, with an address of a in it.
    behind_a: [&'static str; 2],
    a: &'static str,
    lookup: &'static str,
    no_route: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        router: "10.0.0.1",
        peer: "10.0.1.2",
        behind_b: ["10.8.0.0/16", "10.8.0.1"],
        behind_d: ["10.9.0.0/16", "10.9.0.1"],
        behind_a: ["10.7.0.0/16", "10.7.0.2"],
        a: "10.0.0.2",
        lookup: "ip4-lookup-in-table",
        no_route: "Destination Net Unreachable",
    },
    Family {
        router: "2001:db8::1",
        peer: "2001:db8:1::2",
        behind_b: ["2001:db8:8::/48", "2001:db8:8::1"],
        behind_d: ["2001:db8:9::/48", "2001:db8:9::1"],
        behind_a: ["2001:db8:7::/48", "2001:db8:7::2"],
        a: "2001:db8::2",
        lookup: "ip6-lookup-in-table",
        no_route: "Destination unreachable: No route",
    },
];

/// Sets an address on a host's loopback interface.
fn owns(host: &Host, address: &str) {
    host.run(&format!("ip addr add {address} dev lo"));
}

/// Sets up [`Routed`], and hosts c and d with the same addresses as a and b, for both families. The links of c and d are in the table with
/// the greatest number, which has a name. `None` if namespaces are not available (reported as skipped).
fn twice() -> Option<(Routed, Host, Host)> {
    let net = Routed::new()?;
    let lab = net.a.lab();
    let (c, d) = (lab.host("c"), lab.host("d"));
    lab.link((&c, "eth0"), (&net.r, "eth2"));
    lab.link((&d, "eth0"), (&net.r, "eth3"));
    address(&c, "10.0.0.2/24", "10.0.0.1");
    address(&d, "10.0.1.2/24", "10.0.1.1");
    for (near, far) in [(&net.a, &net.b), (&c, &d)] {
        address6(near, "2001:db8::2/64", "2001:db8::1");
        address6(far, "2001:db8:1::2/64", "2001:db8:1::1");
    }
    net.router.script(
        "ip table add 4294967295 name blue
        create host-interface name eth2
        create host-interface name eth3
        set interface ip table host-eth2 blue
        set interface ip table host-eth3 4294967295
        set interface state host-eth2 up
        set interface state host-eth3 up
        set interface ip address host-eth2 10.0.0.1/24
        set interface ip address host-eth3 10.0.1.1/24
        set interface ip address host-eth0 2001:db8::1/64
        set interface ip address host-eth1 2001:db8:1::1/64
        set interface ip address host-eth2 2001:db8::1/64
        set interface ip address host-eth3 2001:db8:1::1/64",
    );
    // The router uses its IPv6 addresses after Duplicate Address Detection.
    for host in [&net.a, &c] {
        Ping::until_answered(host, "2001:db8:1::2", LIMIT);
    }
    Some((net, c, d))
}

#[test]
fn vrfs_separate_equal_addresses() {
    let Some((net, c, d)) = twice() else { return };
    for Family { router, peer, behind_b, behind_d, no_route, .. } in FAMILIES {
        // Each VRF has its own far side: b has one address, d has another.
        owns(&net.b, behind_b[1]);
        owns(&d, behind_d[1]);
        net.router.ctl(&format!("ip route add {} via {peer}", behind_b[0]));
        net.router.ctl(&format!("ip route add {} table blue via {peer}", behind_d[0]));
        for (host, answers, does_not) in [(&net.a, behind_b[1], behind_d[1]), (&c, behind_d[1], behind_b[1])]
        {
            assert!(Ping::run(host, &format!("-c 2 -i 0.2 -W 2 {answers}")).complete());
            assert!(Ping::run(host, &format!("-c 2 -i 0.2 -W 2 {router}")).complete(), "the router answers");
            let ping = Ping::run(host, &format!("-c 1 -W 2 {does_not}"));
            let said = format!("From {router} icmp_seq=1 {no_route}");
            assert!(ping.text.contains(&said), "{}", ping.text);
        }
    }
    net.router.ctl("trace add af-packet-input 20");
    assert!(Ping::answered(&c, FAMILIES[0].behind_d[1]));
    let trace = net.router.ctl("show trace");
    assert!(trace.contains("fib 4294967295 "), "{trace}");
    for (show, family) in [("show ip table", "ipv4"), ("show ip6 table", "ipv6")] {
        let tables = net.router.ctl(show);
        assert!([0, u32::MAX].iter().all(|n| tables.contains(&format!("{family}-VRF:{n}"))), "{tables}");
    }
}

#[test]
fn a_route_can_look_up_in_another_vrf() {
    let Some((net, c, d)) = twice() else { return };
    for Family { peer, behind_d, behind_a, a, lookup, .. } in FAMILIES {
        owns(&d, behind_d[1]);
        // Only table 0 has a route to this address of a, so the way back needs a lookup in table 0.
        owns(&net.a, behind_a[1]);
        net.router.script(&format!(
            "ip route add {} via {a}
            ip route add {} via {lookup} blue
            ip route add {} table 4294967295 via {peer}",
            behind_a[1], behind_d[0], behind_d[0]
        ));
        let from_behind = format!("-c 2 -i 0.05 -W 0.5 -I {} {}", behind_a[1], behind_d[1]);
        assert!(Ping::run(&net.a, &from_behind).rtts.is_empty(), "there is no route back yet");
        net.router.ctl(&format!("ip route add {} table blue via {lookup} 0", behind_a[0]));
        assert!(Ping::run(&net.a, &from_behind).complete());
        assert!(Ping::answered(&c, behind_d[1]));
    }
    // Table 0 has this network already, so the interface cannot move there. It stays in table 5.
    let refused = net.router.attempt("set interface ip table host-eth3 0");
    assert!(refused.stderr.contains("host-eth1 has the address 10.0.1.1"), "{refused}");
    assert!(FAMILIES.iter().all(|f| Ping::answered(&c, f.behind_d[1])));
}
