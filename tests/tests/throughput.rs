//! iperf3 through the router with the default offloads of Linux hosts: 64 KiB packets without checksums.

use scenarios::{Iperf, Routed, TWO_PORTS, cabled, lost_on_the_way};
use serde_json::Value;
use testkit::netns::Host;
use testkit::router::Router;

fn received_mbits(end: &Value) -> f64 {
    end["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6
}

/// Checks that TCP between `a` and an address of `b` reaches more than `least` Mbit/s in both directions.
fn tcp_both_ways(a: &Host, b: &Host, address: &str, least: f64) {
    for direction in ["", "-R"] {
        let end = Iperf::run(a, b, address, &format!("-t 1 {direction}"));
        assert!(received_mbits(&end) > least, "{direction} {} Mbit/s: {end}", received_mbits(&end));
    }
}

#[test]
fn tcp_flows_both_ways_with_offloads() {
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    tcp_both_ways(&a, &b, "10.0.1.2", 500.0);
    // The packets are larger than any frame: they were not segmented on the way.
    for (interface, way) in [("host-eth0", "rx"), ("host-eth1", "tx")] {
        let [packets, bytes] =
            ["packets", "bytes"].map(|what| router.counter(interface, &format!("{way} {what}")));
        assert!(bytes > 3000 * packets, "{interface} {way}: {bytes} bytes in {packets} packets");
    }
}

#[test]
fn tcp_flows_both_ways_at_once() {
    let Some(Routed { a, b, router: _router, .. }) = Routed::new() else { return };
    let end = Iperf::run(&a, &b, "10.0.1.2", "-t 1 --bidir");
    for way in ["sum_received", "sum_received_bidir_reverse"] {
        let rate = end[way]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6;
        assert!(rate > 100.0, "{way}: {rate} Mbit/s: {end}");
    }
}

#[test]
fn tcp_flows_when_one_host_has_no_offloads() {
    let Some(Routed { a, b, router: _router, .. }) = Routed::new() else { return };
    b.run("ethtool -K eth0 tx off rx off tso off gso off gro off");
    tcp_both_ways(&a, &b, "10.0.1.2", 50.0);
}

#[test]
fn udp_below_capacity_loses_nothing() {
    let Some(Routed { a, b, router: _router, .. }) = Routed::new() else { return };
    for (direction, receiver) in [("", &b), ("-R", &a)] {
        let end = Iperf::run(&a, &b, "10.0.1.2", &format!("-u -b 50M -l 1400 -t 1 {direction}"));
        assert_eq!(lost_on_the_way(&end, receiver), 0, "{direction}: {end}");
        assert!(end["sum"]["packets"].as_u64().is_some_and(|n| n > 4000), "{direction}: {end}");
    }
}

/// Checks TCP between host a, behind a port, and the router's own namespace, behind a tap with these options.
fn over_a_tap(options: &str) {
    let Some((a, r, _b)) = cabled() else { return };
    if !r.can_tap() {
        return;
    }
    let _router = Router::start(
        &r,
        &format!(
            "{TWO_PORTS}
            create tap id 0 host-if-name vtap0 {options}
            set interface state tap0 up
            set interface ip address tap0 10.0.5.1/24"
        ),
    );
    r.run("ip addr replace 10.0.5.2/24 dev vtap0");
    r.run("ip link set vtap0 up");
    r.run("ip route add 10.0.0.0/24 via 10.0.5.1");
    tcp_both_ways(&a, &r, "10.0.5.2", 50.0);
}

#[test]
fn tcp_flows_between_a_port_and_a_tap() {
    over_a_tap("");
}

#[test]
fn tcp_flows_between_a_port_and_a_tap_with_gso() {
    over_a_tap("gso");
}
