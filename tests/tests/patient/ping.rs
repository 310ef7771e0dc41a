//! Ping through the router, to it and from it: sizes, fragments, TTL, traceroute.

use scenarios::{Ping, Routed, traceroute};
use testkit::netns::LIMIT;

#[test]
fn pings_of_every_size_pass() {
    let Some(Routed { a, router: _router, .. }) = Routed::new() else { return };
    // 1472 bytes fill an Ethernet frame. Larger packets are fragmented. After a reply, ping waits for the others for one interval only, which
    // must be longer than the pauses of a busy machine.
    for size in [0, 1, 17, 56, 512, 1471, 1472, 1473, 8000, 65507] {
        let ping = Ping::run(&a, &format!("-c 3 -i 0.2 -W 2 -s {size} 10.0.1.2"));
        assert_eq!((ping.sent, ping.duplicates), (3, 0), "{}", ping.text);
        // Requests below 16 bytes have no time stamp, so `rtts` does not count them.
        assert!(ping.text.contains("3 received"), "size {size}: {}", ping.text);
    }
}

#[test]
fn the_router_answers_on_every_address() {
    let Some(Routed { a, b, router: _router, .. }) = Routed::new() else { return };
    for (host, target) in [(&a, "10.0.0.1"), (&a, "10.0.1.1"), (&b, "10.0.0.1"), (&b, "10.0.1.1")] {
        let ping = Ping::run(host, &format!("-c 3 -i 0.2 -W 2 {target}"));
        assert!(ping.complete(), "{}", ping.text);
    }
}

#[test]
fn the_router_pings_its_neighbors() {
    let Some(net) = Routed::new() else { return };
    let text = net.router.ctl("ping 10.0.1.2 repeat 3 interval 0.1");
    assert!(text.contains("3 sent, 3 received, 0% packet loss"), "{text}");
}

#[test]
fn an_expired_ttl_is_reported() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let ping = Ping::run(&a, "-c 1 -W 2 -t 1 10.0.1.2");
    assert!(ping.text.contains("From 10.0.0.1 icmp_seq=1 Time to live exceeded"), "{}", ping.text);
    assert!(Ping::run(&a, "-c 1 -W 2 -t 2 10.0.1.2").complete());
    assert!(router.drops("ip4-icmp-error", "ttl-expired") > 0, "the drop is counted with its reason");
}

#[test]
fn the_router_pings_with_requests_of_any_size() {
    let Some(Routed { router, .. }) = Routed::new() else { return };
    for size in [0, 1472, 1473, 3000, 65_507] {
        let said = router.ctl(&format!("ping 10.0.1.2 size {size} repeat 3 interval 0.05"));
        assert!(
            said.contains("3 sent, 3 received") && said.contains(&format!("{} bytes from", size + 8)),
            "{said}"
        );
    }
}

#[test]
fn traceroute_shows_the_router() {
    let Some(Routed { a, router: _router, .. }) = Routed::new() else { return };
    for method in ["", "-I"] {
        let hops = traceroute(&a, &format!("{method} 10.0.1.2"));
        assert_eq!(hops, ["10.0.0.1", "10.0.1.2"], "traceroute {method}");
    }
}

#[test]
fn a_packet_without_a_route_is_reported() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let ping = Ping::run(&a, "-c 1 -W 2 192.0.2.1");
    assert!(ping.text.contains("From 10.0.0.1 icmp_seq=1 Destination Net Unreachable"), "{}", ping.text);
    router.ctl("ip route add 192.0.2.0/24 drop");
    let silent = Ping::run(&a, "-c 1 -W 0.5 192.0.2.1");
    assert!(silent.rtts.is_empty() && !silent.text.contains("From"), "{}", silent.text);
}

#[test]
fn benchmarking_addresses_are_forwarded() {
    // 198.18/15 is for RFC 2544 tests and not a martian.
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    router.ctl("ip route add 198.19.0.0/16 via 10.0.1.2");
    router.ctl("ip route add 198.18.0.0/16 via 10.0.0.2");
    a.run("ip addr add 198.18.0.2/32 dev lo");
    b.run("ip addr add 198.19.0.2/32 dev lo");
    let done = a.attempt("ping -n -c 2 -i 0.01 -W 2 -I 198.18.0.2 198.19.0.2", LIMIT);
    assert!(done.ok(), "{done}");
}
