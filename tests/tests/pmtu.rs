//! Path MTU discovery: a packet that must not be fragmented and does not fit is reported with the MTU that would.

use scenarios::{Iperf, Ping, Routed};

fn narrow() -> Option<Routed> {
    let net = Routed::new()?;
    net.b.run("ip link set eth0 mtu 1280");
    net.r.run("ip link set eth1 mtu 1280");
    net.router.ctl("set interface mtu 1280 host-eth1");
    Some(net)
}

#[test]
fn the_sender_learns_the_mtu() {
    let Some(Routed { a, router: _router, .. }) = narrow() else { return };
    let ping = Ping::run(&a, "-c 1 -W 2 -M do -s 1400 10.0.1.2");
    assert!(
        ping.text.contains("From 10.0.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1280)"),
        "{}",
        ping.text
    );
    let route = a.run("ip route get 10.0.1.2");
    assert!(route.contains(" mtu 1280"), "{route}");
    // 1280 less the IPv4 and ICMP headers.
    assert!(Ping::run(&a, "-c 1 -W 2 -M do -s 1252 10.0.1.2").complete());
}

#[test]
fn a_packet_that_may_be_fragmented_arrives() {
    let Some(Routed { a, router: _router, .. }) = narrow() else { return };
    // Linux sends echo requests with DF clear under `-M dont`; the answer's fragments come back by themselves.
    let ping = Ping::run(&a, "-c 2 -i 0.1 -W 2 -M dont -s 1400 10.0.1.2");
    assert!(ping.complete(), "{}", ping.text);
}

#[test]
fn tcp_adapts_and_flows() {
    let Some(Routed { a, b, router: _router, .. }) = narrow() else { return };
    let end = Iperf::run(&a, &b, "10.0.1.2", "-t 1");
    let rate = end["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0);
    assert!(rate > 20e6, "{rate} bit/s: {end}");
}
