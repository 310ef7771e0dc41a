//! Links with a smaller MTU: a packet that is too large is reported with the MTU, or fragmented.

use scenarios::{Iperf, Ping, Routed};
use testkit::netns::LIMIT;
use testkit::process::until;

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
    // 1280 minus the IPv4 and ICMP headers.
    assert!(Ping::run(&a, "-c 1 -W 2 -M do -s 1252 10.0.1.2").complete());
}

#[test]
fn a_large_packet_without_df_arrives_in_fragments() {
    let Some(Routed { a, router: _router, .. }) = narrow() else { return };
    // With `-M dont`, Linux sends echo requests without DF. The host itself fragments its reply.
    let ping = Ping::run(&a, "-c 2 -i 0.1 -W 2 -M dont -s 1400 10.0.1.2");
    assert!(ping.complete(), "{}", ping.text);
}

#[test]
fn tcp_adapts_to_the_path_mtu() {
    let Some(Routed { a, b, router: _router, .. }) = narrow() else { return };
    let end = Iperf::run(&a, &b, "10.0.1.2", "-t 1");
    let rate = end["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0);
    assert!(rate > 20e6, "{rate} bit/s: {end}");
}

/// A host without path MTU discovery passes 64 KiB packets, whose segments are too large for the next link.
#[test]
fn tcp_without_path_mtu_discovery_passes_in_fragments() {
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    // The receiver keeps its MTU, so the sender's segments are larger than 1280 bytes.
    router.ctl("set interface mtu 1280 host-eth1");
    a.run("sysctl -w net.ipv4.ip_no_pmtu_disc=1");
    let end = Iperf::run(&a, &b, "10.0.1.2", "-t 1");
    let rate = end["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0);
    assert!(rate > 200e6, "{rate} bit/s: {end}\n{}", router.ctl("show errors"));
}

/// Large UDP datagrams from a host without path MTU discovery keep their length and arrive in fragments.
#[test]
fn large_datagrams_without_df_arrive_in_fragments() {
    let Some(Routed { a, b, router, .. }) = narrow() else { return };
    a.run("sysctl -w net.ipv4.ip_no_pmtu_disc=1");
    let receive = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
s.bind(('10.0.1.2', 7)); print('ready', flush=True)
for i in range(20): print(len(s.recv(9000)))";
    let mut receiver = b.spawn_args(["python3", "-c", receive]);
    until("the receiver listens", LIMIT, || receiver.stdout().contains("ready"));
    // The host passes 20 datagrams in one packet. UDP_SEGMENT is option 103 of protocol 17.
    let send = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(17, 103, 1400); s.sendto(bytes(20 * 1400), ('10.0.1.2', 7))";
    a.spawn_args(["python3", "-c", send]).finish(LIMIT).expect_ok();
    let lengths = receiver.finish(LIMIT);
    let errors = router.ctl("show errors");
    assert_eq!(lengths.stdout.lines().filter(|l| *l == "1400").count(), 20, "{lengths}\n{errors}");
}
