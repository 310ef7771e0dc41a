//! Two customers with the same addresses, kept apart by VRFs.

use scenarios::{Ping, Routed, address};
use testkit::netns::Host;

/// [`Routed`], and beside it in table 5 hosts c and d with the addresses of a and b.
fn twice() -> Option<(Routed, Host, Host)> {
    let net = Routed::new()?;
    let lab = net.a.lab();
    let (c, d) = (lab.host("c"), lab.host("d"));
    lab.link((&c, "eth0"), (&net.r, "eth2"));
    lab.link((&d, "eth0"), (&net.r, "eth3"));
    address(&c, "10.0.0.2/24", "10.0.0.1");
    address(&d, "10.0.1.2/24", "10.0.1.1");
    net.router.script(
        "ip table add 5
        create host-interface name eth2
        create host-interface name eth3
        set interface ip table host-eth2 5
        set interface ip table host-eth3 5
        set interface state host-eth2 up
        set interface state host-eth3 up
        set interface ip address host-eth2 10.0.0.1/24
        set interface ip address host-eth3 10.0.1.1/24",
    );
    Some((net, c, d))
}

#[test]
fn equal_addresses_in_two_vrfs_do_not_meet() {
    let Some((net, c, d)) = twice() else { return };
    // Each pair has its own far side: b answers for 10.8.0.1, d for 10.9.0.1.
    net.b.run("ip addr add 10.8.0.1/32 dev lo");
    d.run("ip addr add 10.9.0.1/32 dev lo");
    net.router.script("ip route add 10.8.0.0/16 via 10.0.1.2\nip route add 10.9.0.0/16 table 5 via 10.0.1.2");
    for (host, answers, does_not) in [(&net.a, "10.8.0.1", "10.9.0.1"), (&c, "10.9.0.1", "10.8.0.1")] {
        assert!(Ping::run(host, &format!("-c 2 -i 0.05 -W 2 {answers}")).complete());
        assert!(Ping::run(host, "-c 2 -i 0.05 -W 2 10.0.0.1").complete(), "the router itself");
        let ping = Ping::run(host, &format!("-c 1 -W 2 {does_not}"));
        assert!(ping.text.contains("From 10.0.0.1 icmp_seq=1 Destination Net Unreachable"), "{}", ping.text);
    }
    let tables = net.router.ctl("show ip table");
    assert!(tables.contains("ipv4-VRF:0") && tables.contains("ipv4-VRF:5"), "{tables}");
}

#[test]
fn a_route_may_lead_into_another_vrf() {
    let Some((net, c, d)) = twice() else { return };
    d.run("ip addr add 10.9.0.1/32 dev lo");
    // a has an address that only table 0 knows; the way back leads there, too.
    net.a.run("ip addr add 10.7.0.2/32 dev lo");
    net.router.script(
        "ip route add 10.7.0.2/32 via 10.0.0.2
        ip route add 10.9.0.0/16 via ip4-lookup-in-table 5
        ip route add 10.9.0.0/16 table 5 via 10.0.1.2",
    );
    let from_7 = "-c 2 -i 0.05 -W 0.5 -I 10.7.0.2 10.9.0.1";
    assert!(Ping::run(&net.a, from_7).rtts.is_empty(), "there is no way back yet");
    net.router.ctl("ip route add 10.7.0.0/16 table 5 via ip4-lookup-in-table 0");
    assert!(Ping::run(&net.a, from_7).complete());
    assert!(Ping::answered(&c, "10.9.0.1"));
    // Table 0 has this network already, so the interface cannot move there; it stays what it was.
    let refused = net.router.attempt("set interface ip table host-eth3 0");
    assert!(refused.stderr.contains("host-eth1 has the address 10.0.1.1"), "{refused}");
    assert!(Ping::answered(&c, "10.9.0.1"));
}
