//! The log and the event log of a running router.

use rustix::process::Signal;
use scenarios::{Ping, Routed, TWO_PORTS, cabled};
use serde_json::Value;
use testkit::netns::LIMIT;
use testkit::process::until;
use testkit::router::Router;

/// Returns the texts of messages or events with this field value.
fn texts(router: &Router, show: &str, of: (&str, &str)) -> Vec<String> {
    let all = router.json(show);
    let all = all.as_array().expect("a list").iter().filter(|entry| entry[of.0] == of.1);
    all.map(|entry| entry["text"].as_str().expect("a text").to_owned()).collect()
}

fn events(router: &Router, kind: &str) -> Vec<String> {
    texts(router, "show event-log all", ("kind", kind))
}

#[test]
fn events_of_links_and_changes_are_in_the_event_log() {
    let Some(Routed { b, router, .. }) = Routed::new() else { return };
    for (kind, text) in [
        ("interface", "host-eth0: created"),
        ("interface", "host-eth1: set up"),
        ("config", "generation 1: the router started"),
    ] {
        assert!(events(&router, kind).iter().any(|t| t == text), "{text}: {:?}", events(&router, kind));
    }
    assert!(events(&router, "router")[0].starts_with("forwarding"));
    router.ctl("ip route add 198.18.0.0/24 via 10.0.1.2 count 1000");
    let last = events(&router, "config").pop().unwrap();
    assert!(last.ends_with("and 997 more"), "one event for all routes: {last}");
    b.run("ip link set eth0 down");
    until("the link is down", LIMIT, || {
        events(&router, "link") == ["host-eth1: link down; its routes are withdrawn until it is up"]
    });
    b.run("ip link set eth0 up");
    until("the link is up", LIMIT, || events(&router, "link").pop().as_deref() == Some("host-eth1: link up"));
    let shown = router.ctl("show event-logger 1");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.len() == 3 && lines[1].ends_with("s  link      host-eth1: link up"), "{shown}");
    assert!(lines[2].contains(" of 4096 events in buffer, 0 older ones lost"), "{shown}");
    let event = &router.json("show event-log 1")[0];
    let recent = |age: &Value| age.as_f64().is_some_and(|age| (0.0..LIMIT.as_secs_f64()).contains(&age));
    assert!(recent(&event["age_seconds"]) && event["time"].as_str().unwrap().ends_with('Z'), "{event}");
    router.ctl("clear event-log");
    assert_eq!(router.json("show event-log"), Value::Array(Vec::new()));
    // A rollback by an operator is an event as well.
    router.ctl("set interface mtu 1400 host-eth0");
    router.ctl("config rollback");
    let config = events(&router, "config");
    assert!(config.iter().any(|t| t.starts_with("rolled back to generation ")), "{config:?}");
}

#[test]
fn log_levels_are_set_at_the_start_and_at_run_time() {
    let Some((_a, r, b)) = cabled() else { return };
    let logging = "logging { default-syslog-log-level warn class config { level debug } }\n";
    let router = Router::start_with(&r, logging, TWO_PORTS);
    assert!(!router.log().contains("forwarding"), "{}", router.log());
    let messages = |class| texts(&router, "show logging", ("class", class));
    assert!(messages("router").iter().any(|t| t.starts_with("forwarding")));
    assert!(messages("config").iter().any(|t| t.starts_with("generation 1:")));
    router.ctl("set logging class interface syslog-level disabled level warn");
    b.run("ip link set eth0 down");
    until("the message is in the buffer", LIMIT, || {
        messages("interface").iter().any(|t| t.contains("link down"))
    });
    router.ctl("set logging class interface syslog-level info");
    b.run("ip link set eth0 up");
    until("the message is in the log", LIMIT, || {
        router.log().contains(" info interface: host-eth1: link up")
    });
    assert!(
        !router.log().contains("link down") && !messages("interface").iter().any(|t| t.contains("link up"))
    );
    let configuration = router.json("show logging configuration");
    let class =
        configuration["classes"].as_array().unwrap().iter().find(|c| c["class"] == "interface").unwrap();
    assert_eq!((&class["level"], &class["syslog_level"]), (&"warn".into(), &"info".into()));
    router.ctl("clear logging");
    assert_eq!(router.json("show logging"), Value::Array(Vec::new()));
}

/// A host that announces ten thousand changes of its Ethernet address does not fill the log.
#[test]
fn log_messages_of_a_flood_are_limited_and_counted() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    router.ctl("set logging class neighbor level debug syslog-level debug rate-limit 20");
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete());
    let script = "import socket, struct\n\
         s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0))\n\
         for n in range(10000):\n\
         \x20   mac = bytes([2, 0, 0, 0, n >> 8, n & 255])\n\
         \x20   ip = socket.inet_aton('10.0.0.2')\n\
         \x20   arp = struct.pack('>HHBBH', 1, 0x800, 6, 4, 2) + mac + ip + mac + ip\n\
         \x20   s.send(b'\\xff' * 6 + mac + b'\\x08\\x06' + arp)\n";
    a.spawn_args(["python3", "-c", script]).finish(LIMIT).expect_ok();
    let said = |text: &String| text.contains("10.0.0.2 is at") && !text.contains("suppressed");
    let messages = || texts(&router, "show logging", ("class", "neighbor"));
    until("suppressed messages are counted", LIMIT, || {
        messages().iter().any(|t| t.contains("messages suppressed in"))
    });
    let changed = router.json("show ip neighbor-config")["counters"]["changed"].as_u64().unwrap_or(0);
    let (lines, suppressed) = (messages().iter().filter(|t| said(t)).count() as u64, counted(&messages()));
    assert!(changed > 100 && lines < changed / 2, "{lines} lines, {changed} changes");
    assert!(lines + suppressed <= changed, "{lines} lines, {suppressed} suppressed, {changed} changes");
    assert!(events(&router, "neighbor").iter().filter(|t| said(t)).count() as u64 == lines);
    assert_eq!(router.log().lines().filter(|line| said(&line.to_string())).count() as u64, lines);
}

/// Returns the total number of suppressed messages.
fn counted(messages: &[String]) -> u64 {
    let of = |t: &String| t.split_once(" messages suppressed in").and_then(|(n, _)| n.parse::<u64>().ok());
    messages.iter().filter_map(of).sum()
}

#[test]
fn a_stalled_reader_of_the_log_does_not_stop_the_router() {
    let Some((a, r, _b)) = cabled() else { return };
    let fifo = r.lab().dir().join("log.fifo");
    r.run(&format!("mkfifo {}", fifo.display()));
    // This reader opens the pipe, but never reads.
    let mut reader = r.spawn_args(["sh", "-c", &format!("exec sleep 1000 < {}", fifo.display())]);
    let sections = format!(
        "unix {{ log {} }}\nlogging {{ default-syslog-log-level debug unthrottle-time 1 }}\n",
        fifo.display()
    );
    let router = Router::start_with(&r, &sections, TWO_PORTS);
    router.ctl("set logging class interface rate-limit 100000 syslog-level debug");
    let commands = r.lab().dir().join("many.cli");
    let pair = "create loopback interface instance 9\ndelete loopback interface intfc loop9\n";
    std::fs::write(&commands, pair.repeat(4000)).expect("a file of commands");
    router.ctl(&format!("exec {}", commands.display()));
    let unwritten = || router.json("show logging configuration")["unwritten"].as_u64().expect("a number");
    assert!(unwritten() > 0, "all messages were written");
    assert!(Ping::run(&a, "-c 3 -i 0.2 -W 2 10.0.0.1").complete());
    reader.signal(Signal::TERM);
    reader.finish(LIMIT);
}
