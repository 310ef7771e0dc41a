//! Changes of routes while packets use them.

use scenarios::{Iperf, Ping, Routed, lost_on_the_way};
use testkit::netns::LIMIT;

/// Sets up [`Routed`] with a second link from the router's eth2 (10.0.2.1) to host b's eth1 (10.0.2.2). Host b has the address 10.9.0.1,
/// which is reachable by both links. `None` if namespaces are not available (reported as skipped).
fn two_ways() -> Option<Routed> {
    let net = Routed::new()?;
    net.b.lab().link((&net.b, "eth1"), (&net.r, "eth2"));
    net.b.run("ip addr add 10.0.2.2/24 dev eth1");
    net.b.run("ip addr add 10.9.0.1/32 dev lo");
    net.router.script(
        "create host-interface name eth2
        set interface state host-eth2 up
        set interface ip address host-eth2 10.0.2.1/24
        ip route add 10.9.0.0/16 via 10.0.1.2",
    );
    // Both neighbors are known: only few packets may wait for one that is not.
    for (host, to) in [(&net.a, "10.0.1.2"), (&net.b, "10.0.2.1")] {
        Ping::until_answered(host, to, LIMIT);
    }
    Some(net)
}

/// Moves 10.9/16 to the other link and back, by a new next hop and by a more specific route. There is a route at every
/// moment. Other routes come and go meanwhile.
const CHURN: &str = "\
ip route add 10.9.0.0/16 via 10.0.2.2
ip route add 10.10.0.0/24 via 10.0.1.2 count 500
ip route add 10.9.0.0/16 via 10.0.1.2
ip route add 10.9.0.1/32 via 10.0.2.2
ip route del 10.10.0.0/24 via 10.0.1.2 count 500
ip route del 10.9.0.1/32 via 10.0.2.2
";

#[test]
fn route_changes_lose_no_packet() {
    let Some(net) = two_ways() else { return };
    let mut flow = Iperf::start(&net.a, &net.b, "10.9.0.1", "-u -b 16M -l 200 -t 2");
    let mut changes = 0;
    while flow.running() {
        net.router.script(&CHURN.repeat(4));
        changes += 4;
    }
    let end = flow.finish();
    let sum = &end["sum"];
    // A busy machine makes few, and those must lose nothing either.
    assert!(changes >= 8, "only {changes} changes in two seconds");
    assert!(sum["packets"].as_u64().is_some_and(|packets| packets > 10_000), "{sum}");
    assert_eq!(lost_on_the_way(&end, &net.b), 0, "{sum}");
    let fib = net.router.ctl("show ip fib");
    assert!(fib.contains("10.9.0.0/16") && !fib.contains("10.10.0.0/24"), "{fib}");
}

#[test]
fn a_failed_batch_names_its_line_and_keeps_earlier_commands() {
    let Some(Routed { router, .. }) = Routed::new() else { return };
    let done = router
        .script_in_background(
            "ip route add 10.20.0.0/16 via 10.0.1.2\nip route add 10.21.0.0/99 via 10.0.1.2\n",
        )
        .finish(LIMIT);
    assert_eq!(done.code(), Some(1), "{done}");
    assert!(done.stderr.contains("10.21.0.0/99"), "{done}");
    assert!(router.ctl("show ip fib").contains("10.20.0.0/16"));
}

#[test]
fn addresses_behind_a_local_route_are_the_routers_own() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    router.script("ip route add 10.27.0.0/16 via local\n");
    for address in ["10.27.0.1", "10.27.255.254"] {
        assert!(Ping::run(&a, &format!("-c 2 -i 0.2 -W 2 {address}")).complete(), "{address}");
    }
    router.ctl("ip route del 10.27.0.0/16 via local");
    assert!(!Ping::answered(&a, "10.27.0.1"));
}
