//! ICMP redirects: a host learns a better first hop.

use std::time::Duration;

use scenarios::{Ping, address};
use testkit::netns::Lab;
use testkit::process::until;
use testkit::router::Router;

#[test]
fn a_host_is_redirected_to_a_router_on_its_link() {
    let Some(lab) = Lab::new() else { return };
    let (a, other, switch, r) = (lab.host("a"), lab.host("other"), lab.host("switch"), lab.host("r"));
    for (n, host) in [&a, &other, &r].into_iter().enumerate() {
        lab.link((host, "eth0"), (&switch, &format!("p{n}")));
    }
    switch.run("ip link add br0 type bridge");
    switch.run("ip link set br0 up");
    (0..3).for_each(|n| drop(switch.run(&format!("ip link set p{n} master br0"))));
    address(&a, "10.0.0.2/24", "10.0.0.1");
    other.run("ip addr add 10.0.0.3/24 dev eth0");
    other.run("ip addr add 192.0.2.1/32 dev lo");
    other.run("ip addr add 192.0.2.2/32 dev lo");
    other.run("ip route add default via 10.0.0.1");
    let router = Router::start(
        &r,
        "create host-interface name eth0
        set interface state host-eth0 up
        set interface ip address host-eth0 10.0.0.1/24
        ip route add 192.0.2.0/24 via 10.0.0.3",
    );
    a.run("sysctl -qw net.ipv4.conf.all.accept_redirects=1 net.ipv4.conf.eth0.accept_redirects=1");
    let ping = Ping::run(&a, "-c 1 -W 2 192.0.2.1");
    assert!(
        ping.complete() && !ping.text.contains("Redirect"),
        "redirects are off by default: {}",
        ping.text
    );

    router.ctl("set interface ip redirects host-eth0 enable");
    // The reply to the last request may overtake the redirect.
    let ping = Ping::run(&a, "-c 2 -i 0.2 -W 2 192.0.2.1");
    assert!(ping.text.contains("From 10.0.0.1") && ping.text.contains("Redirect Host"), "{}", ping.text);
    assert!(ping.text.contains("10.0.0.3"), "{}", ping.text);
    assert!(ping.complete(), "the packet is forwarded as well: {}", ping.text);
    // Linux follows a redirect once it has resolved the new next hop; the first redirect may come before that.
    until("Linux follows a redirect", Duration::from_secs(10), || {
        let follows = a.run("ip route get 192.0.2.1").contains("via 10.0.0.3");
        if !follows {
            Ping::run(&a, "-c 1 -W 1 192.0.2.1");
        }
        follows
    });
    let shown = router.json("show interface ip redirects");
    assert_eq!(shown[0]["interface"], "host-eth0");
    assert!(shown[0]["sent_redirects"].as_u64() >= Some(1), "{shown}");

    // The host has not learned a first hop for this address yet.
    router.ctl("set interface ip redirects host-eth0 disable");
    let ping = Ping::run(&a, "-c 2 -i 0.2 -W 2 192.0.2.2");
    assert!(ping.complete() && !ping.text.contains("Redirect"), "redirects are off again: {}", ping.text);
    router.ctl("set interface ip redirects host-eth0 enable");
    let ping = Ping::run(&a, "-c 2 -i 0.2 -W 2 192.0.2.2");
    assert!(ping.text.contains("Redirect Host"), "{}", ping.text);

    drop(router);
    assert!(Ping::run(&a, "-c 1 -W 2 192.0.2.1").complete(), "the host does not need this router any more");
}
