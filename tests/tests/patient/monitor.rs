//! Rates of interfaces under traffic.

use scenarios::{Ping, Routed};
use serde_json::Value;
use testkit::netns::LIMIT;
use testkit::process::until;

/// True if a rate is near 50 a second, with tolerance for a busy machine.
fn near_50(rate: &Value, field: &str) -> bool {
    (20.0..80.0).contains(&rate[field].as_f64().unwrap_or(0.0))
}

#[test]
fn rates_of_passing_packets_are_shown() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    // 50 packets a second each way, of 98 bytes with the link header. Long enough that a few ARP packets do not matter.
    let pings = a.spawn("ping -n -q -i 0.02 -w 30 10.0.1.2");
    until("the rate is shown", LIMIT, || {
        let shown = &router.json("show interface rates host-eth0")[0];
        near_50(shown, "rx_packets_per_second")
            && near_50(shown, "tx_packets_per_second")
            && shown["window_seconds"].as_f64().is_some_and(|window| window >= 3.0)
    });
    let shown = &router.json("show interface host-eth1")[0]["rates"];
    let size =
        shown["tx_bits_per_second"].as_f64().unwrap() / shown["tx_packets_per_second"].as_f64().unwrap();
    assert!((90.0 * 8.0..=98.0 * 8.0).contains(&size), "{shown}");
    let text = router.ctl("show interface rates");
    assert!(text.starts_with("Name ") && text.contains("host-eth1") && text.contains("rx bits/s"), "{text}");
    let lines = router.ctl("monitor interface host-eth0 interval 0.5 count 3 --json");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    for line in &lines {
        assert!(
            line["interface"] == "host-eth0" && near_50(&line["rates"], "rx_packets_per_second"),
            "{line}"
        );
    }
    drop(pings);
}

#[test]
fn a_monitor_blocks_no_client_and_ends_with_its_interface() {
    let Some(Routed { router, .. }) = Routed::new() else { return };
    router.ctl("create loopback interface");
    let monitors: Vec<_> =
        (0..8).map(|_| router.in_background("monitor interface loop0 interval 0.1")).collect();
    until("all monitors have printed a line", LIMIT, || {
        monitors.iter().all(|m| m.stdout().starts_with("rx: 0pps 0bps tx: 0pps 0bps\n"))
    });
    assert!(router.ctl("show version").starts_with("volley v"));
    // The end of one client does not affect the others.
    let mut monitors = monitors.into_iter();
    drop(monitors.next());
    router.ctl("delete loopback interface intfc loop0");
    for mut monitor in monitors {
        let ended = monitor.finish(LIMIT);
        assert!(!ended.ok() && ended.stderr.contains("loop0 was removed"), "{ended}");
    }
}
