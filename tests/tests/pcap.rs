//! Captures, read by tcpdump.

use scenarios::{Ping, Routed};
use testkit::netns::Host;

/// The lines that tcpdump prints of a file.
fn tcpdump(host: &Host, path: &str) -> Vec<String> {
    host.run(&format!("tcpdump -nn -e -r {path}")).lines().map(str::to_string).collect()
}

#[test]
fn what_comes_in_goes_out_and_is_dropped_is_in_the_file() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    let path = router.socket().with_file_name("x.pcap").display().to_string();
    router.ctl(&format!("pcap trace rx tx drop max 1000 intfc any file {path}"));
    let refused = router.attempt("pcap trace rx");
    assert!(refused.code() == Some(1) && refused.stderr.contains("runs already"), "{refused}");
    assert!(Ping::run(&a, "-c 3 -i 0.05 -W 2 -s 1000 10.0.1.2").complete());
    // Without a route, and with a hop too few: dropped, each with a report in its place.
    Ping::run(&a, "-c 2 -i 0.05 -W 0.3 192.0.2.1");
    let said = router.ctl("pcap trace off");
    assert!(said.contains(" packets written to ") && !said.contains("lost"), "{said}");
    let lines = tcpdump(&a, &path);
    let with = |part: &str| lines.iter().filter(|l| l.contains(part)).count();
    // Each came in once and went out once.
    assert_eq!(with("10.0.0.2 > 10.0.1.2: ICMP echo request"), 6, "{lines:#?}");
    assert_eq!(with("10.0.1.2 > 10.0.0.2: ICMP echo reply"), 6, "{lines:#?}");
    // Came in, and was dropped, with its link header.
    let dropped = with("ethertype IPv4 (0x0800), length 98: 10.0.0.2 > 192.0.2.1: ICMP echo request");
    assert_eq!(dropped, 4, "{lines:#?}");
    assert!(router.ctl("pcap trace status").contains("no capture runs; the last one"));
    assert!(router.attempt("pcap trace off").code() == Some(1));
}

#[test]
fn a_capture_ends_by_itself_and_is_of_one_device() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let path = router.socket().with_file_name("x.pcap").display().to_string();
    router.ctl(&format!("pcap trace max 5 rx intfc host-eth1 max-bytes-per-pkt 64 file {path}"));
    assert!(Ping::run(&a, "-c 8 -i 0.02 -W 2 -s 1000 10.0.1.2").complete());
    testkit::process::until("it is complete", testkit::netns::LIMIT, || {
        router.ctl("pcap trace status").contains("no capture runs; the last one: 5 packets written")
    });
    let lines = tcpdump(&a, &path);
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert!(lines.iter().all(|l| !l.contains("10.0.0.2 > ")), "{lines:#?}");
    assert!(lines.iter().any(|l| l.contains("length 1042: 10.0.1.2 > 10.0.0.2")), "{lines:#?}");
    // Nothing is written through a link, and what is written is not for everybody.
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o640);
    let (link, elsewhere) = (format!("{path}.link"), format!("{path}.elsewhere"));
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    let through = router.attempt(&format!("pcap trace rx file {link}"));
    assert!(through.code() == Some(1) && !std::path::Path::new(&elsewhere).exists(), "{through}");
    for wrong in [
        "pcap trace max 5",
        "pcap trace rx intfc nowhere",
        "pcap trace rx max 0",
        "pcap trace rx file /dev/null",
    ] {
        assert_eq!(router.attempt(wrong).code(), Some(1), "{wrong}");
    }
}

/// Expressions over what `mixed.py` sends.
const EXPRESSIONS: [&str; 10] = [
    "icmp",
    "udp port 53 or tcp port 80",
    "src net 10.0.1.0/24 and not dst host 10.0.0.1",
    "ip[6:2] & 0x1fff != 0",
    "vlan 100 and ip",
    "vlan and udp",
    "ip6 and dst port 53",
    "arp or ether broadcast",
    "greater 1000",
    "ip[0] & 0xf > 5 and tcp[2:2] > 1000",
];

#[test]
fn a_filter_takes_what_tcpdump_takes_of_the_same_packets() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let path = |n: usize| router.socket().with_file_name(format!("{n}.pcap")).display().to_string();
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/mixed.py");
    let capture = |file: &str, filter: &str| {
        router.ctl(&format!("pcap trace rx max 10000 intfc host-eth0 filter \"{filter}\" file {file}"));
        let before = router.counter("host-eth0", "rx packets");
        a.run(&format!("python3 {tool} eth0 02:00:00:00:00:77 7 400"));
        testkit::process::until("all has come", testkit::netns::LIMIT, || {
            router.counter("host-eth0", "rx packets") >= before + 400
        });
        assert!(!router.ctl("pcap trace off").contains("lost"));
    };
    let read = |file: &str, filter: &str| {
        a.run(&format!("tcpdump -nn -t -e -xx -r {file} ether src 02:00:00:00:00:77 {filter}"))
    };
    capture(&path(0), "");
    assert_eq!(read(&path(0), "").lines().filter(|l| l.contains("ethertype")).count(), 400);
    for (n, expression) in EXPRESSIONS.iter().enumerate() {
        capture(&path(n + 1), expression);
        let wanted = read(&path(0), &format!("and ({expression})"));
        assert!(!wanted.is_empty(), "{expression}: nothing to compare");
        assert_eq!(read(&path(n + 1), ""), wanted, "{expression}");
    }
    let wrong = router.attempt("pcap trace rx filter \"tcp prot 80\" max 5");
    assert!(wrong.code() == Some(1) && wrong.stderr.contains("syntax error"), "{wrong}");
    assert!(wrong.stderr.contains("                     ^^^^^^^^^^^^^\n"), "{wrong}");
    assert!(router.ctl("pcap trace status").contains("no capture runs"));
}

#[test]
fn a_trace_may_be_of_packets_that_match_only() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    router.ctl("trace add af-packet-input 2 filter \"icmp and dst host 192.0.2.9\"");
    assert!(Ping::run(&a, "-c 3 -i 0.05 -W 2 10.0.1.2").complete());
    assert_eq!(router.json("show trace").as_array().map(Vec::len), Some(0));
    Ping::run(&a, "-c 3 -i 0.05 -W 0.3 192.0.2.9");
    let trace = router.ctl("show trace");
    assert_eq!(trace.matches("Packet ").count(), 2, "{trace}");
    assert!(trace.contains("10.0.0.2 -> 192.0.2.9") && !trace.contains("10.0.1.2"), "{trace}");
    let wrong = router.attempt("trace add af-packet-input 2 filter \"host\"");
    assert!(wrong.code() == Some(1) && wrong.stderr.contains("syntax error"), "{wrong}");
}
