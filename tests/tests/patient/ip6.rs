//! IPv6 with Linux as the neighbor: forwarding, ICMPv6 errors, Neighbor Discovery, router advertisements.

use std::time::Duration;

use scenarios::{Iperf, Ping, Routed6, TWO_PORTS6, address6, cabled6, echo, speaks6, traceroute};
use testkit::netns::{Host, LIMIT};
use testkit::process::until;
use testkit::router::Router;

#[test]
fn pings_of_all_sizes_pass_and_are_answered() {
    let Some(Routed6 { a, b, router, .. }) = Routed6::new() else { return };
    for size in [16, 56, 1000, 1452] {
        for target in ["2001:db8:1::2", "2001:db8::1", "2001:db8:1::1"] {
            let ping = Ping::run(&a, &format!("-c 2 -i 0.05 -W 2 -s {size} {target}"));
            assert!(ping.complete(), "{size} to {target}: {}\n{}", ping.text, router.ctl("show errors"));
        }
    }
    // These pings are sent in fragments, which routers forward unchanged.
    let ping = Ping::run(&b, "-c 2 -i 0.05 -W 2 -s 9000 2001:db8::2");
    assert!(ping.complete(), "{}", ping.text);
    assert!(router.ctl("show ip6 neighbors").contains("2001:db8:1::2"));
    assert!(router.ctl("show ip6 fib 2001:db8:1::2").contains("2001:db8:1::2/128"));
    for target in ["2001:db8:1::2", "2001:db8::1"] {
        for size in [56, 3000, 65_527] {
            let pinged = router.ctl(&format!("ping {target} size {size} repeat 3 interval 0.05"));
            assert!(pinged.contains("3 sent, 3 received"), "{size}: {pinged}");
        }
    }
}

#[test]
fn addresses_behind_a_local_route_are_the_routers_own() {
    let Some(Routed6 { a, router, .. }) = Routed6::new() else { return };
    router.ctl("ip route add 2001:db8:27::/48 via local");
    let ping = Ping::run(&a, "-c 2 -i 0.05 -W 2 2001:db8:27::9");
    assert!(ping.complete(), "{}", ping.text);
}

#[test]
fn the_router_answers_pings_that_come_in_fragments() {
    let Some(Routed6 { a, b, router, .. }) = Routed6::new() else { return };
    for size in [1453, 5000, 30_000, 65_527] {
        for (host, target) in [(&a, "2001:db8::1"), (&b, "2001:db8::1")] {
            let ping = Ping::run(host, &format!("-c 2 -i 0.05 -W 2 -s {size} {target}"));
            assert!(ping.complete(), "{size}: {}\n{}", ping.text, router.ctl("show errors"));
        }
    }
    let shown = router.json("show ip6-full-reassembly");
    assert_eq!((&shown["datagrams"], &shown["buffers"]), (&0.into(), &0.into()), "{shown}");
    assert_eq!(shown["completed"], 16, "{shown}");
}

#[test]
fn fragments_are_reassembled_in_any_order_unless_invalid() {
    let Some(Routed6 { a, router, .. }) = Routed6::new() else { return };
    let hosts = "2001:db8::2 2001:db8::1";
    assert_eq!(echo(&a, hosts), "reply 56 ok", "an atomic fragment");
    for order in ["forward", "backward", "shuffled", "twice"] {
        for (size, piece) in [(100, 16), (8000, 1448), (60_000, 1000)] {
            let answer = echo(&a, &format!("{hosts} --size {size} --piece {piece} --order {order}"));
            assert_eq!(answer, format!("reply {size} ok"), "in pieces of {piece}, {order}");
        }
    }
    let answer = echo(&a, &format!("{hosts} --size 4000 --piece 1000 --order overlap --wait 0.5"));
    assert_eq!(answer, "nothing");
    assert!(router.drops("ip6-full-reassembly", "overlap") >= 4);
    // A length that is no multiple of 8 bytes, with more fragments: a parameter problem at the payload length.
    assert_eq!(echo(&a, &format!("{hosts} --size 4000 --piece 1001")), "error 4 0 4");
    router.ctl("set ip6-full-reassembly timeout 1");
    let answer = echo(&a, &format!("{hosts} --size 4000 --piece 1000 --order lost --wait 5"));
    assert_eq!(answer, "error 3 1 0", "fragment reassembly time exceeded");
    until("all datagrams have expired", LIMIT, || router.json("show ip6-full-reassembly")["datagrams"] == 0);
}

#[test]
fn undeliverable_packets_are_reported_to_the_sender() {
    let Some(Routed6 { a, b, r, router }) = Routed6::new() else { return };
    let says = |arguments: &str, expected: &str| {
        let ping = Ping::run(&a, &format!("-c 1 -W 5 {arguments}"));
        assert!(ping.text.contains(expected), "{arguments}: {}\n{}", ping.text, router.ctl("show errors"));
    };
    says("-t 1 2001:db8:1::2", "From 2001:db8::1 icmp_seq=1 Time exceeded: Hop limit");
    says("2001:db8:9::1", "From 2001:db8::1 icmp_seq=1 Destination unreachable: No route");
    router.ctl("ip route add 2001:db8:8::/48 via prohibit");
    says("2001:db8:8::1", "From 2001:db8::1 icmp_seq=1 Destination unreachable: Administratively prohibited");
    says("2001:db8:1::77", "From 2001:db8::1 icmp_seq=1 Destination unreachable: Address unreachable");
    // The sender gets an ICMPv6 error for a closed port.
    let send = "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(5); \
                s.connect(('2001:db8::1', 9999)); s.send(b'is anybody there?'); s.recv(1)";
    let sent = a.spawn_args(["python3", "-c", send]).finish(LIMIT);
    assert!(sent.stderr.contains("ConnectionRefusedError"), "{sent}");
    assert_eq!(router.drops("ip6-icmp-error", "port-unreachable"), 1);
    // A link with a small MTU.
    b.run("ip link set eth0 mtu 1280");
    r.run("ip link set eth1 mtu 1280");
    router.ctl("set interface mtu 1280 host-eth1");
    says("-M do -s 1400 2001:db8:1::2", "From 2001:db8::1 icmp_seq=1 Packet too big: mtu=1280");
    let route = a.run("ip -6 route get 2001:db8:1::2");
    assert!(route.contains(" mtu 1280"), "{route}");
    // 1280 minus the headers.
    assert!(Ping::run(&a, "-c 1 -W 2 -M do -s 1232 2001:db8:1::2").complete());
    let end = Iperf::run(&a, &b, "2001:db8:1::2", "-6 -t 1");
    let rate = end["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0);
    assert!(rate > 20e6, "{rate} bit/s: {end}");
}

#[test]
fn tcp_passes_in_large_packets() {
    let Some(Routed6 { a, b, router, .. }) = Routed6::new() else { return };
    let end = Iperf::run(&a, &b, "2001:db8:1::2", "-6 -t 1");
    let rate = end["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0);
    assert!(rate > 200e6, "{rate} bit/s: {end}\n{}", router.ctl("show errors"));
}

/// Opens a TCP connection from `client` to `server` and returns the segment sizes of both ends, in bytes without headers
/// and options.
fn segments(client: &Host, server: &Host, address: &str) -> [u64; 2] {
    let said = "print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG), flush=True)";
    let listen = format!(
        "import socket; l = socket.create_server(('{address}', 7777), family=socket.AF_INET6); print('listens', flush=True); \
         s = l.accept()[0]; {said}; s.recv(1)"
    );
    let mut listener = server.spawn_args(["python3", "-c", &listen]);
    until("the server listens", LIMIT, || listener.stdout().contains("listens"));
    let connect = format!("import socket; s = socket.create_connection(('{address}', 7777)); {said}");
    let connected = client.spawn_args(["python3", "-c", &connect]).finish(LIMIT).expect_ok();
    let accepted = listener.finish(LIMIT).expect_ok();
    [connected, accepted].map(|text| text.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0))
}

#[test]
fn mss_clamping_lowers_the_segment_size() {
    let Some(Routed6 { a, b, router, .. }) = Routed6::new() else { return };
    // 12 bytes are for time stamps.
    assert_eq!(segments(&a, &b, "2001:db8:1::2"), [1428, 1428]);
    router.ctl("set interface tcp-mss-clamp host-eth0 ip6 enable ip6-mss 1300");
    assert_eq!(segments(&a, &b, "2001:db8:1::2"), [1288, 1288]);
    // The client's MSS option limits the segments that the server sends.
    router.ctl("set interface tcp-mss-clamp host-eth0 ip6 rx ip6-mss 1240");
    assert_eq!(segments(&a, &b, "2001:db8:1::2"), [1428, 1228]);
    assert_eq!(router.json("show interface tcp-mss-clamp")[0]["lowered_packets"], 3);
    router.ctl("set interface tcp-mss-clamp host-eth0 ip6 disable");
    assert_eq!(segments(&a, &b, "2001:db8:1::2"), [1428, 1428]);
}

#[test]
fn link_local_addresses_are_reached_on_their_link_only() {
    let Some(Routed6 { a, b, router, .. }) = Routed6::new() else { return };
    let own = |interface: &str| {
        let shown = router.json(&format!("show ip6 interface {interface}"));
        shown[0]["link_local"].as_str().unwrap_or_else(|| panic!("{shown}")).to_string()
    };
    for size in [56, 5000] {
        let ping = Ping::run(&a, &format!("-c 2 -i 0.05 -W 2 -s {size} {}%eth0", own("host-eth0")));
        assert!(ping.complete(), "{}\n{}", ping.text, router.ctl("show errors"));
    }
    // The other interface's link-local address is not reachable on this link.
    assert!(!Ping::answered(&a, &format!("{}%eth0", own("host-eth1"))));
    for (host, interface) in [(&a, "host-eth0"), (&b, "host-eth1")] {
        let text = host.run("ip -6 -o addr show dev eth0 scope link");
        let address =
            text.split_whitespace().nth(3).and_then(|a| a.split('/').next()).unwrap_or("").to_string();
        let pinged = router.ctl(&format!("ping {address} {interface} repeat 2 interval 0.05"));
        assert!(pinged.contains("2 sent, 2 received"), "{pinged}");
    }
    // A route with a link-local next hop.
    b.run("ip -6 addr add 2001:db8:5::1/128 dev lo");
    let text = b.run("ip -6 -o addr show dev eth0 scope link");
    let hop = text.split_whitespace().nth(3).and_then(|a| a.split('/').next()).unwrap_or("").to_string();
    router.ctl(&format!("ip route add 2001:db8:5::/48 via {hop} host-eth1"));
    Ping::until_answered(&a, "2001:db8:5::1", LIMIT);
}

#[test]
fn a_neighbor_that_announces_a_new_mac_is_updated() {
    let Some(Routed6 { a, b, router, .. }) = Routed6::new() else { return };
    let moved = "02:00:00:00:99:06";
    // With this, Linux advertises itself when its address changes.
    b.run("sysctl -qw net.ipv6.conf.eth0.ndisc_notify=1");
    b.run("ip link set eth0 down");
    b.run(&format!("ip link set eth0 address {moved}"));
    b.run("ip link set eth0 up");
    address_again(&b);
    Ping::until_answered(&a, "2001:db8:1::2", LIMIT);
    assert!(router.ctl("show ip6 neighbors").contains(moved));
}

/// Sets up [`Routed6`] and waits until the router's entry of host b is stale. `None` if namespaces are not available (reported as skipped).
fn in_doubt() -> Option<Routed6> {
    let net = Routed6::new()?;
    net.router.ctl("set ip neighbor-config ip6 age 1");
    net.router.ctl("clear ip6 neighbors");
    assert!(Ping::run(&net.a, "-c 1 -W 2 2001:db8:1::2").complete());
    until("the entry is stale", LIMIT, || state_of_b(&net.router).as_deref() == Some("stale"));
    Some(net)
}

fn state_of_b(router: &Router) -> Option<String> {
    let all = router.json("show ip6 neighbors");
    let b = all.as_array()?.iter().find(|n| n["ip"] == "2001:db8:1::2")?;
    Some(b["state"].as_str().unwrap_or_else(|| panic!("no state: {b}")).to_string())
}

/// A stale entry is probed only when packets use it (RFC 4861 section 7.3).
#[test]
fn a_vanished_neighbor_is_detected_when_it_is_used() {
    let Some(Routed6 { a, b, router, .. }) = in_doubt() else { return };
    let is = |state: Option<&str>| state_of_b(&router).as_deref() == state;
    until("host b has answered a probe", LIMIT, || {
        Ping::answered(&a, "2001:db8:1::2") && is(Some("reachable"))
    });
    until("the entry is stale again", LIMIT, || is(Some("stale")));
    b.run("ip -6 addr del 2001:db8:1::2/64 dev eth0");
    until("the entry is removed after probes", LIMIT, || !Ping::answered(&a, "2001:db8:1::2") && is(None));
    let ping = Ping::run(&a, "-c 1 -W 5 2001:db8:1::2");
    assert!(
        ping.text.contains("From 2001:db8::1 icmp_seq=1 Destination unreachable: Address"),
        "{}",
        ping.text
    );
}

#[test]
fn a_neighbor_with_a_new_mac_is_found_without_announcement() {
    let Some(Routed6 { a, b, router, .. }) = in_doubt() else { return };
    let moved = "02:00:00:00:99:07";
    b.run(&format!("ip link set eth0 address {moved}"));
    assert!(!router.ctl("show ip6 neighbors").contains(moved), "host b announced nothing");
    Ping::until_answered(&a, "2001:db8:1::2", LIMIT);
    assert!(router.ctl("show ip6 neighbors").contains(moved));
}

#[test]
fn traceroute_shows_the_router() {
    let Some(Routed6 { a, router: _router, .. }) = Routed6::new() else { return };
    for method in ["", "-I"] {
        let hops = traceroute(&a, &format!("-6 {method} 2001:db8:1::2"));
        assert_eq!(hops, ["2001:db8::1", "2001:db8:1::2"], "traceroute {method}");
    }
}

/// Restores host b's address and route, which Linux removes when the link goes down.
fn address_again(b: &Host) {
    b.attempt("ip -6 addr add 2001:db8:1::2/64 dev eth0 nodad", LIMIT);
    b.attempt("ip -6 route add default via 2001:db8:1::1", LIMIT);
}

#[test]
fn a_duplicate_address_is_not_used() {
    let Some(Routed6 { a, b, router, .. }) = Routed6::new() else { return };
    a.run("ip -6 addr add 2001:db8::9/64 dev eth0 nodad");
    router.ctl("set interface ip address host-eth0 2001:db8::9/64");
    until("the router notices", LIMIT, || {
        router.log().contains("another station has the address 2001:db8::9")
    });
    assert!(router.ctl("show ip6 interface host-eth0").contains("duplicate"));
    // Other hosts reach the address's owner.
    assert!(Ping::run(&b, "-c 2 -i 0.1 -W 2 2001:db8::9").complete());
    // Linux detects that the router has an address as well.
    a.run("ip -6 addr add 2001:db8::1/64 dev eth0");
    until("the host notices", LIMIT, || a.run("ip -6 addr show dev eth0").contains("dadfailed"));
}

#[test]
fn hosts_use_advertised_prefixes_with_their_settings() {
    let Some((a, r, _b)) = cabled6() else { return };
    let nd = "ip6 nd host-eth0 prefix";
    let router = Router::start(
        &r,
        &format!(
            "{TWO_PORTS6}{nd} 2001:db8::/64 3600 600\n{nd} 2001:db8:7::/64 7200 7200 no-autoconfig\n\
             {nd} 2001:db8:8::/64 infinite off-link\n{nd} 2001:db8:9::/64 no-advertise\n"
        ),
    );
    speaks6(&a);
    let addresses = || a.run("ip -6 -o addr show dev eth0 scope global");
    let line = |prefix: &str| addresses().lines().find(|l| l.contains(prefix)).unwrap_or("").to_string();
    until("the host has addresses", LIMIT, || {
        !line("2001:db8::").is_empty() && !line("2001:db8:8:").is_empty()
    });
    let lifetime = |line: &str, name: &str| -> u32 {
        let mut words = line.split_whitespace().skip_while(|word| *word != name).skip(1);
        words.next().and_then(|word| word.trim_end_matches("sec").parse().ok()).unwrap_or(0)
    };
    let first = line("2001:db8::");
    assert!((3000..=3600).contains(&lifetime(&first, "valid_lft")), "{first}");
    assert!((300..=600).contains(&lifetime(&first, "preferred_lft")), "{first}");
    assert!(line("2001:db8:8:").contains("valid_lft forever preferred_lft forever"), "{}", addresses());
    for none in ["2001:db8:7:", "2001:db8:9:"] {
        assert!(line(none).is_empty(), "{}", addresses());
    }
    let routes = a.run("ip -6 route show dev eth0");
    for (prefix, on_link) in [("2001:db8::/64", true), ("2001:db8:7::/64", true), ("2001:db8:8::/64", false)]
    {
        assert_eq!(routes.lines().any(|l| l.starts_with(prefix)), on_link, "{prefix}:\n{routes}");
    }
    // Without settings, the prefix is advertised with defaults.
    router.ctl("ip6 nd host-eth0 no prefix 2001:db8::/64");
    until("the host has the default lifetime", LIMIT, || lifetime(&line("2001:db8::"), "valid_lft") > 3600);
}

#[test]
fn hosts_configure_themselves_from_advertisements() {
    let Some((a, r, b)) = cabled6() else { return };
    address6(&b, "2001:db8:1::2/64", "2001:db8:1::1");
    let router = Router::start(&r, &format!("{TWO_PORTS6}ip6 nd host-eth0 no ra-suppress\n"));
    speaks6(&a);
    let addresses = || a.run("ip -6 addr show dev eth0 scope global");
    until("the host has an address", LIMIT, || {
        addresses().contains("2001:db8::") && !addresses().contains("tentative")
    });
    until("the host has a default route", LIMIT, || a.run("ip -6 route").contains("default via fe80::"));
    Ping::until_answered(&a, "2001:db8:1::2", LIMIT);
    // When the router stops advertising, it tells the hosts.
    router.ctl("ip6 nd host-eth0 ra-suppress");
    until("the host has no default route", LIMIT, || !a.run("ip -6 route").contains("default via fe80::"));
}

#[test]
fn hosts_remove_the_default_route_of_a_leaving_router() {
    let Some((a, r, _b)) = cabled6() else { return };
    speaks6(&a);
    let has_default = || a.run("ip -6 route").contains("default via fe80::");
    for command in [Some("set interface state host-eth0 down"), Some("delete host-interface name eth0"), None]
    {
        let router = Router::start(&r, &format!("{TWO_PORTS6}ip6 nd host-eth0 no ra-suppress\n"));
        until("the host has a default route", LIMIT, has_default);
        let router = match command {
            Some(command) => {
                router.ctl(command);
                Some(router)
            }
            None => {
                router.stop();
                None
            }
        };
        // The loss of the carrier alone would not remove the route.
        until("the host has no default route", Duration::from_secs(1), || !has_default());
        router.into_iter().for_each(Router::stop);
    }
}
