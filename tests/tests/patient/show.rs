//! The operator's view of a running router: `show` commands, traces, drop reasons.

use scenarios::{Ping, Routed};
use testkit::netns::{Host, LIMIT};
use testkit::process::until;

#[test]
fn every_show_has_text_and_json() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    router.ctl("trace add af-packet-input 4");
    assert!(Ping::run(&a, "-c 2 -i 0.2 -W 2 10.0.1.2").complete());
    for show in [
        "show interface",
        "show interface addr",
        "show hardware-interfaces",
        "show ip fib",
        "show ip neighbors",
        "show runtime",
        "show errors all",
        "show trace",
        "show buffers",
        "show threads",
        "show cli-sessions",
        "show version",
        "show node",
        "show cpu",
        "show machine",
        "show startup-conf",
        "show event-logger",
        "show logging",
        "show interface rates",
        "show ip neighbors max 1",
    ] {
        assert!(!router.ctl(show).trim().is_empty(), "{show}");
        let json = router.json(show);
        let empty =
            json.as_array().is_some_and(Vec::is_empty) || json.as_object().is_some_and(|o| o.is_empty());
        assert!(!empty && !json.is_null(), "{show} --json: {json}");
    }
}

#[test]
fn a_trace_follows_a_packet_through_the_graph() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    router.ctl("clear trace");
    router.ctl("trace add af-packet-input 1");
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    let trace = router.ctl("show trace");
    let mut rest = trace.as_str();
    for node in
        ["af-packet-input", "ethernet-input", "ip4-input", "ip4-lookup", "ip4-rewrite", "interface-tx"]
    {
        let Some(at) = rest.find(&format!(": {node}")) else {
            panic!("{node} is missing, or out of order:\n{trace}")
        };
        rest = &rest[at..];
    }
    // Each interface is named once, at the step that sets it.
    assert_eq!(trace.matches("  receive interface host-eth0\n").count(), 1, "{trace}");
    assert!(trace.contains(": ip4-rewrite\n  transmit interface host-eth1\n"), "{trace}");
    let steps = &router.json("show trace")[0]["steps"];
    let last = steps.as_array().and_then(|steps| steps.last()).unwrap();
    assert_eq!((&last["rx_interface"], &last["tx_interface"]), (&"host-eth0".into(), &"host-eth1".into()));
    assert!(steps[0]["tx_interface"].is_null(), "{steps}");
    let time = last["time"].as_str().unwrap();
    // The worker's clock is compared with UTC at each command: the two outputs may differ by microseconds.
    let sent = trace.split('\n').find_map(|line| line.strip_suffix(": interface-tx")).unwrap();
    assert!(sent.len() == time.len() && sent[..19] == time[..19] && time.ends_with('Z'), "{time}: {trace}");
}

/// Sends a frame in hexadecimal digits from a host's eth0.
fn send(host: &Host, hex: &str) {
    let script = format!(
        "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0)); \
         s.send(bytes.fromhex('{hex}').ljust(60, bytes(1)))"
    );
    host.spawn_args(["python3", "-c", &script]).finish(LIMIT).expect_ok();
}

#[test]
fn malformed_packets_are_counted_by_reason_and_traced() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let mac =
        router.json("show interface host-eth0")[0]["mac"].as_str().map(|mac| mac.replace(':', "")).unwrap();
    router.ctl("trace add af-packet-input 10");
    let sender = "020000000009";
    for (ip, reason, count) in [
        // IPv4 headers with version 5, with a length of 16 bytes, with a total length of 2000, and with a wrong
        // checksum. All else is valid: 10.0.0.2 to 10.0.1.2, protocol UDP.
        ("5500001400000000401155d60a0000020a000102", "bad-version", 1),
        ("4400001400000000401166d60a0000020a000102", "bad-version", 2),
        ("450007d00000000040115e1a0a0000020a000102", "bad-length", 1),
        ("4500001400000000401100000a0000020a000102", "bad-checksum", 1),
    ] {
        send(&a, &format!("{mac}{sender}0800{ip}"));
        until(reason, LIMIT, || router.drops("ip4-input", reason) == count);
    }
    let trace = router.ctl("show trace");
    for reason in ["(bad-version)", "(bad-length)", "(bad-checksum)"] {
        assert!(trace.contains(reason), "{reason}: {trace}");
    }
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete(), "the router still forwards");
}

#[test]
fn show_tech_support_does_not_delay_other_clients() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 2 -i 0.2 -W 2 10.0.1.2").complete());
    router.ctl("ip route add 20.0.0.0/32 via 10.0.1.2 count 50000");
    let mut report = router.in_background("show tech-support");
    while report.running() {
        assert!(router.ctl("show version").starts_with("volley v"));
    }
    let text = report.finish(LIMIT).expect_ok();
    for part in [
        "=== show version\nvolley v",
        "=== show cpu\nModel name: ",
        "Kernel:                   Linux ",
        "  cli-listen ",
        "\nip route add 20.0.195.79/32 via 10.0.1.2\n",
        "\n=== show ip neighbors max 200\n",
        "router     forwarding; the CLI listens on ",
    ] {
        assert!(
            text.contains(part),
            "{part}:\n{}",
            text.lines().filter(|l| !l.contains("20.0.")).collect::<Vec<_>>().join("\n")
        );
    }
    let all = router.json("show tech-support");
    assert!(all["show config"].as_array().is_some_and(|lines| lines.len() > 50_000));
    assert_eq!(all["show interface"][0]["name"], "host-eth0");
}
