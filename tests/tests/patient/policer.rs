//! Policers: flows of Linux hosts get the configured rate on input and on output, and the counters agree.

use std::time::{Duration, Instant};

use scenarios::{Ping, Routed, TWO_PORTS, VLAN_100, cabled, snmp, vlan};
use serde_json::Value;
use testkit::netns::{Host, LIMIT};
use testkit::process::{Process, until};
use testkit::router::Router;

/// Payload of a datagram in bytes.
const SIZE: u64 = 1000;
/// Bytes of the datagram's frame.
const FRAME: u64 = SIZE + 8 + 20 + 14;
/// Datagrams a second of each flow: at least four times the policed rate.
const OFFERED: u64 = 2400;
/// Tolerance of a rate, in percent.
const PERCENT: f64 = 2.0;

/// Starts a flow of datagrams to an address.
fn pour(from: &Host, to: &str) -> Process {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/pour.py");
    from.spawn(&format!("python3 {tool} {to} {SIZE} {OFFERED}"))
}

/// Returns a policer from `show policer`.
fn policer(router: &Router, name: &str) -> Value {
    router.json(&format!("show policer name {name}"))[0].clone()
}

/// Returns the packets and bytes of a color.
fn counted(policer: &Value, color: &str) -> [u64; 2] {
    ["packets", "bytes"].map(|what| policer[color][what].as_u64().unwrap_or_else(|| panic!("{policer}")))
}

/// Returns the frames and bytes received by a host's interface, as Linux counts them.
fn received(host: &Host, interface: &str) -> [u64; 2] {
    let of = |what: &str| {
        let text = host.run(&format!("cat /sys/class/net/{interface}/statistics/rx_{what}"));
        text.trim().parse().expect("a number")
    };
    [of("packets"), of("bytes")]
}

/// Checks that a count of bytes grows at this rate (kbit/s).
///
/// Another process may run between reading the clock and reading the count, so a measurement gives two bounds. One of six
/// measurements must have both bounds within the tolerance. If none has, the machine is busy, and all bounds must at least
/// overlap the tolerance.
fn has_rate(what: &str, kbps: f64, mut bytes: impl FnMut() -> u64) {
    let mut look = || {
        let before = Instant::now();
        let bytes = bytes();
        let after = Instant::now();
        (before, bytes, after)
    };
    let mut found = Vec::new();
    for _ in 0..6 {
        let (first, from, after) = look();
        std::thread::sleep(Duration::from_secs(2));
        let (before, to, last) = look();
        let rate = |time: Duration| (to - from) as f64 * 8.0 / 1000.0 / time.as_secs_f64() / kbps * 100.0;
        // The lower and the upper bound.
        let (least, most) = (rate(last - first), rate(before - after));
        found.push((least, most));
        if least > 100.0 - PERCENT && most < 100.0 + PERCENT {
            eprintln!("MEASURED {what}: {least:.2} to {most:.2} % of {kbps} kbit/s");
            return;
        }
    }
    let may_be = |(least, most): &(f64, f64)| *least < 100.0 + PERCENT && *most > 100.0 - PERCENT;
    assert!(found.iter().all(may_be), "{what}: {found:?} % of {kbps} kbit/s");
    eprintln!("MEASURED {what}, on a busy machine: {found:.1?} % of {kbps} kbit/s");
}

/// Ends a flow, waits until all of its packets have passed, and returns the policer.
fn end(flow: Process, router: &Router, name: &str) -> Value {
    drop(flow);
    let mut last = policer(router, name);
    until("the flow has passed", LIMIT, || {
        std::thread::sleep(Duration::from_millis(100));
        let now = policer(router, name);
        let same = ["conform", "exceed", "violate"].iter().all(|color| now[color] == last[color]);
        last = now;
        same
    });
    last
}

#[test]
fn a_policer_limits_a_flow_on_input_and_on_output() {
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    // Both neighbors are known, so that no packet that conforms is dropped while it waits for an ARP reply.
    until("b answers", LIMIT, || Ping::run(&a, "-c 1 -W 1 10.0.1.2").complete());
    router.ctl("policer add name p type 1r2c cir 5000 cb 125000 rate kbps conform-action transmit violate-action drop");
    for (way, port, node) in
        [("input", "host-eth0", "policer-input-ip4"), ("output", "host-eth1", "policer-output")]
    {
        router.ctl(&format!("policer {way} name p {port}"));
        router.ctl("policer reset name p");
        router.ctl("clear policer name p");
        let (before, drops) = (received(&b, "eth0"), router.drops(node, "policer-violate"));
        let begun = snmp(&a, "Udp", "OutDatagrams");
        let flow = pour(&a, "10.0.1.2");
        until("the burst is used up", LIMIT, || counted(&policer(&router, "p"), "violate")[0] > 500);
        has_rate(&format!("{way}, by the policer"), 5000.0, || counted(&policer(&router, "p"), "conform")[1]);
        has_rate(&format!("{way}, by Linux"), 5000.0, || received(&b, "eth0")[1]);
        let last = end(flow, &router, "p");
        let [[conform, bytes], [violate, lost]] = ["conform", "violate"].map(|color| counted(&last, color));
        let sent = snmp(&a, "Udp", "OutDatagrams") - begun;
        // The output policer may also count ARP requests.
        let others = (conform + violate).checked_sub(sent);
        assert!(others.is_some_and(|n| n == 0 || way == "output" && n < 10), "{sent} sent: {last}");
        assert_eq!((lost, counted(&last, "exceed")), (violate * FRAME, [0, 0]), "{last}");
        assert_eq!(router.drops(node, "policer-violate") - drops, violate);
        let [frames, all] = received(&b, "eth0");
        // Frames that b receives besides the flow.
        let heard = (frames - before[0]).checked_sub(conform);
        assert!(heard.is_some_and(|n| n < 10) && all - before[1] >= bytes, "{heard:?}: {last}");
        router.ctl(&format!("policer {way} unapply name p {port}"));
    }
    let before = received(&b, "eth0")[0];
    let flow = pour(&a, "10.0.1.2");
    until("unpoliced packets pass", LIMIT, || received(&b, "eth0")[0] > before + 5000);
    drop(flow);
    router.ctl("policer del name p");
}

#[test]
fn a_sub_interface_has_its_own_policers_and_marks() {
    let Some((a, r, b)) = cabled() else { return };
    if !a.can_tap() {
        return;
    }
    let router = Router::start(
        &r,
        &format!(
            "{TWO_PORTS}{VLAN_100}
            policer add name up type 2r3c-4115 cir 1000 eir 2000 cb 25000 eb 50000 exceed-action mark-and-transmit AF12
            policer add name down rate pps cir 400 cb 80 packets
            policer input name up host-eth0.100
            policer output name down host-eth0.100"
        ),
    );
    let _vlan = vlan(&a, "vlan100", "100", "10.0.100.2/24");
    a.run("ip route replace default via 10.0.100.1");
    let flows = [pour(&a, "10.0.1.2"), pour(&b, "10.0.100.2"), pour(&b, "10.0.0.2")];
    for name in ["up", "down"] {
        until("the bursts are used up", LIMIT, || counted(&policer(&router, name), "violate")[0] > 500);
    }
    has_rate("committed", 1000.0, || counted(&policer(&router, "up"), "conform")[1]);
    has_rate("excess", 2000.0, || counted(&policer(&router, "up"), "exceed")[1]);
    // The policer counts frames with their tag. b's link has them without it.
    let untagged = 3000.0 * FRAME as f64 / (FRAME + 4) as f64;
    has_rate("both, by Linux", untagged, || received(&b, "eth0")[1]);
    has_rate("packets", 400.0, || counted(&policer(&router, "down"), "conform")[0] * 125);
    has_rate("packets, by Linux", 400.0, || received(&a, "vlan100")[0] * 125);
    // The policers do not apply to the port itself.
    let features = router.ctl("show interface features host-eth0");
    assert!(!features.contains("\n  policer-"), "{features}");
    assert!(received(&a, "eth0")[0] > 2 * received(&a, "vlan100")[0]);
    let listen = "timeout 20 tcpdump -c 200 -nvi eth0 udp and dst host 10.0.1.2";
    let marks = b.run(listen);
    let of = |tos: &str| marks.matches(tos).count();
    let (plain, marked) = (of("tos 0x0,"), of("tos 0x30,"));
    assert!(plain + marked >= 200 && marked > plain, "{plain} and {marked}:\n{marks}");
    drop(flows);
    let shown = router.ctl("show policer verbose");
    assert!(shown.contains("used by host-eth0.100 input\n"), "{shown}");
}

#[test]
fn two_workers_share_the_rate_of_a_policer() {
    let Some((a, r, b)) = cabled() else { return };
    let router = Router::start(
        &r,
        &format!(
            "{TWO_PORTS}
            set workers 2
            set interface rx-placement host-eth0 queue 0 worker 0
            set interface rx-placement host-eth1 queue 0 worker 1
            policer add name p cir 4000 cb 100000
            policer input name p host-eth0
            policer input name p host-eth1"
        ),
    );
    let flows = [pour(&a, "10.0.1.2"), pour(&b, "10.0.0.2")];
    until("the burst is used up", LIMIT, || counted(&policer(&router, "p"), "violate")[0] > 500);
    has_rate("shared, by the policer", 4000.0, || counted(&policer(&router, "p"), "conform")[1]);
    has_rate("shared, by Linux", 4000.0, || received(&a, "eth0")[1] + received(&b, "eth0")[1]);
    drop(flows);
    let placed = router.ctl("show interface rx-placement");
    assert!(received(&a, "eth0")[0] > 100 && received(&b, "eth0")[0] > 100, "{placed}");
}
