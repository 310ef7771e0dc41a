//! Captures and replays, checked with tcpdump.

use scenarios::{Ping, Routed, cabled};
use testkit::netns::{Host, LIMIT};
use testkit::process::{Process, until};
use testkit::router::{Router, binary};

/// Returns the lines that tcpdump prints for a file.
fn tcpdump(host: &Host, path: &str) -> Vec<String> {
    host.run(&format!("tcpdump -nn -e -r {path}")).lines().map(str::to_string).collect()
}

#[test]
fn a_capture_has_received_sent_and_dropped_packets() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    let path = router.socket().with_file_name("x.pcap").display().to_string();
    router.ctl(&format!("pcap trace rx tx drop max 1000 intfc any file {path}"));
    let refused = router.attempt("pcap trace rx");
    assert!(refused.code() == Some(1) && refused.stderr.contains("already running"), "{refused}");
    assert!(Ping::run(&a, "-c 3 -i 0.2 -W 2 -s 1000 10.0.1.2").complete());
    // Packets without a route are dropped, and each gets an ICMP error.
    Ping::run(&a, "-c 2 -i 0.05 -W 0.3 192.0.2.1");
    let said = router.ctl("pcap trace off");
    assert!(said.contains(" packets written to ") && !said.contains("lost"), "{said}");
    let lines = tcpdump(&a, &path);
    let with = |part: &str| lines.iter().filter(|l| l.contains(part)).count();
    // Each packet was captured twice: when it was received, and when it was sent.
    assert_eq!(with("10.0.0.2 > 10.0.1.2: ICMP echo request"), 6, "{lines:#?}");
    assert_eq!(with("10.0.1.2 > 10.0.0.2: ICMP echo reply"), 6, "{lines:#?}");
    // Each packet was captured when it was received and when it was dropped, both times with its link header.
    let dropped = with("ethertype IPv4 (0x0800), length 98: 10.0.0.2 > 192.0.2.1: ICMP echo request");
    assert_eq!(dropped, 4, "{lines:#?}");
    assert!(router.ctl("pcap trace status").contains("no capture runs; the last one"));
    assert!(router.attempt("pcap trace off").code() == Some(1));
}

#[test]
fn a_capture_of_one_interface_ends_at_its_limit() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let path = router.socket().with_file_name("x.pcap").display().to_string();
    router.ctl(&format!("pcap trace max 5 rx intfc host-eth1 max-bytes-per-pkt 64 file {path}"));
    assert!(Ping::run(&a, "-c 8 -i 0.02 -W 2 -s 1000 10.0.1.2").complete());
    until("the capture is complete", LIMIT, || {
        router.ctl("pcap trace status").contains("no capture runs; the last one: 5 packets written")
    });
    let log = router.json("show logging");
    let said = |line: &serde_json::Value| {
        line["class"] == "capture" && line["text"].as_str().is_some_and(|text| text.starts_with("5 packets"))
    };
    assert!(log.as_array().is_some_and(|log| log.iter().any(said)), "{log}");
    let lines = tcpdump(&a, &path);
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert!(lines.iter().all(|l| !l.contains("10.0.0.2 > ")), "{lines:#?}");
    assert!(lines.iter().any(|l| l.contains("length 1042: 10.0.1.2 > 10.0.0.2")), "{lines:#?}");
    // The file is not readable by all users, and links are not followed.
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

#[test]
fn a_stopped_router_completes_the_capture_file() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let path = router.socket().with_file_name("x.pcap").display().to_string();
    router.ctl(&format!("pcap trace rx max 1000 intfc host-eth1 filter icmp file {path}"));
    assert!(Ping::run(&a, "-c 8 -i 0.02 -W 2 10.0.1.2").complete());
    // The router buffers some KiB before it writes to the file.
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    router.stop();
    assert_eq!(tcpdump(&a, &path).len(), 8);
}

/// A capture stops at its maximum file size and at the reserve of free space.
#[test]
fn a_capture_does_not_fill_the_disk() {
    let Some((_a, r, _b)) = cabled() else { return };
    let socket = r.lab().dir().join("cli.sock");
    let (binary, listen) = (binary().display(), socket.display());
    // A small file system in the router's mount namespace.
    let script = format!(
        "mkdir /run/small && mount -t tmpfs -o size=1m small /run/small && exec \
         {binary} run 'unix {{ nodaemon cli-listen {listen} }}'"
    );
    let router = r.spawn_args(["sh", "-c", &script]);
    until("the router is ready", LIMIT, || router.stderr().contains("volley: ready"));
    let ctl = |line: &str| r.attempt(&format!("{binary} ctl -s {listen} {line}"), LIMIT);
    let disk = format!("/proc/{}/root/run/small", router.id());
    ctl("create packet-generator interface pg0").expect_ok();
    ctl("set interface state pg0 up").expect_ok();
    ctl("packet-generator new { name x rate 30000 size 1000-1000 interface pg0 node ethernet-input \
         data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.0.0.2 -> 192.0.2.1 UDP: 1 -> 2 } }")
    .expect_ok();
    ctl("packet-generator enable-stream x").expect_ok();
    let ended = |line: &str| {
        ctl(line).expect_ok();
        let last = || ctl("pcap trace status").expect_ok();
        until("the capture has ended", LIMIT, || last().contains("no capture runs"));
        last()
    };
    // The maximum size holds 86 records of 116 bytes.
    let said = ended("pcap trace rx max-file-bytes 10000 max-bytes-per-pkt 100 file /run/small/x");
    assert!(said.contains("the last one: 86 packets written") && !said.contains("ended"), "{said}");
    assert_eq!(r.run(&format!("stat -c %s {disk}/x")).trim(), (24 + 86 * 116).to_string());
    // The copies of two turns may exceed the reserve.
    let said = ended("pcap trace rx max 1000000 leave-free 40 file /run/small/x");
    assert!(
        said.ends_with("; it ended because less than 40 % of its file system is free (leave-free)\n"),
        "{said}"
    );
    let size: u64 = r.run(&format!("stat -c %s {disk}/x")).trim().parse().unwrap();
    assert!((600 << 10..880 << 10).contains(&size), "{size}");
    // A capture without enough free space does not start and leaves the file unchanged.
    let refused = ctl("pcap trace rx leave-free 60 file /run/small/x");
    assert!(refused.code() == Some(1) && refused.stderr.contains("less than 60 %"), "{refused}");
    assert_eq!(r.run(&format!("stat -c %s {disk}/x")).trim(), size.to_string());
}

/// Filter expressions for the packets of `mixed.py`.
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
fn a_capture_filter_matches_the_same_packets_as_tcpdump() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let path = |n: usize| router.socket().with_file_name(format!("{n}.pcap")).display().to_string();
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/mixed.py");
    let capture = |file: &str, filter: &str| {
        router.ctl(&format!("pcap trace rx max 10000 intfc host-eth0 filter \"{filter}\" file {file}"));
        let before = router.counter("host-eth0", "rx packets");
        a.run(&format!("python3 {tool} eth0 02:00:00:00:00:77 7 400"));
        until("all packets have arrived", LIMIT, || {
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
fn a_trace_can_be_limited_to_matching_packets() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    router.ctl("trace add af-packet-input 2 filter \"icmp and dst host 192.0.2.9\"");
    assert!(Ping::run(&a, "-c 3 -i 0.2 -W 2 10.0.1.2").complete());
    assert_eq!(router.json("show trace").as_array().map(Vec::len), Some(0));
    Ping::run(&a, "-c 3 -i 0.05 -W 0.3 192.0.2.9");
    let trace = router.ctl("show trace");
    assert_eq!(trace.matches("Packet ").count(), 2, "{trace}");
    assert!(trace.contains("10.0.0.2 -> 192.0.2.9") && !trace.contains("10.0.1.2"), "{trace}");
    // Show only traced packets that passed a node, or that did not.
    router.ctl("clear trace");
    router.ctl("trace add af-packet-input 100 filter icmp");
    assert!(Ping::run(&a, "-c 3 -i 0.2 -W 2 10.0.1.2").complete());
    Ping::run(&a, "-c 2 -i 0.05 -W 0.3 192.0.2.9");
    let shown = |filter: &str, max: &str| {
        router.ctl(&format!("trace filter {filter}"));
        router.json(&format!("show trace {max}")).as_array().map_or(0, Vec::len)
    };
    assert_eq!(shown("none", ""), 8);
    assert_eq!(shown("include error-drop 50", ""), 2);
    assert_eq!(shown("exclude error-drop 50", ""), 6);
    assert_eq!(shown("exclude error-drop 4", ""), 4);
    assert_eq!(shown("exclude error-drop 4", "max 3"), 3);
    assert_eq!(shown("include arp-input 5", ""), 0);
    let text = router.ctl("show trace");
    assert_eq!(text, "No packets in trace buffer matching the filter\nFilter: include arp-input 5\n");
    assert_eq!(shown("none", ""), 8);
    assert_eq!(router.attempt("trace filter include nonsense 5").code(), Some(1));
    let wrong = router.attempt("trace add af-packet-input 2 filter \"host\"");
    assert!(wrong.code() == Some(1) && wrong.stderr.contains("syntax error"), "{wrong}");
}

/// Starts `volley capture` with these arguments in a shell. `onward` says where its output goes.
fn capture(host: &Host, router: &Router, words: &str, onward: &str) -> Process {
    let capture = format!("{} capture -s {} {words}", binary().display(), router.socket().display());
    host.spawn_args(["sh", "-c", &format!("{capture} {onward}")])
}

fn captures(router: &Router) -> bool {
    router.ctl("pcap trace status").starts_with("running")
}

#[test]
fn tcpdump_reads_a_capture_stream_while_it_runs() {
    let Some(Routed { a, r, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    let mut stream = capture(
        &r,
        &router,
        "interface host-eth1 filter 'icmp and host 10.0.1.2' max 6",
        "| tcpdump -nn -l -r -",
    );
    until("the capture runs", LIMIT, || captures(&router));
    assert!(router.attempt("pcap trace rx").stderr.contains("already running"));
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    // tcpdump prints these packets before the stream has ended.
    until("tcpdump has printed them", LIMIT, || stream.stdout().lines().count() == 2);
    assert!(Ping::run(&a, "-c 5 -i 0.2 -W 2 10.0.1.2").complete());
    let ended = stream.finish(LIMIT);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(ended.ok() && ended.stderr.contains("6 packets captured\n"), "{ended}");
    assert_eq!(lines.len(), 6, "{ended}");
    assert!(lines[0].contains("10.0.0.2 > 10.0.1.2: ICMP echo request"), "{ended}");
    assert!(lines[1].contains("10.0.1.2 > 10.0.0.2: ICMP echo reply"), "{ended}");
    assert!(router.ctl("pcap trace status").contains("no capture runs; the last one: 6 packets captured"));
}

#[test]
fn a_capture_stream_ends_with_its_client_or_its_reader() {
    let Some(Routed { a, r, router, .. }) = Routed::new() else { return };
    let mut stream = r.spawn_args([
        binary().as_os_str(),
        "capture".as_ref(),
        "-s".as_ref(),
        router.socket().as_os_str(),
        "rx".as_ref(),
    ]);
    until("the capture runs", LIMIT, || captures(&router));
    assert!(Ping::run(&a, "-c 2 -i 0.2 -W 2 10.0.1.2").complete());
    until("the client has written the packets", LIMIT, || {
        std::fs::metadata(stream.stdout_path()).is_ok_and(|m| m.len() > 24 + 4 * 98)
    });
    stream.signal(rustix::process::Signal::INT);
    let ended = stream.finish(LIMIT);
    assert!(ended.ok() && ended.stderr.contains(" packets captured"), "{ended}");
    until("the router knows", LIMIT, || !captures(&router));
    // No packet arrives, so nothing is written into the closed pipe.
    let mut stream = capture(&r, &router, "drop", "| head -c 24 | wc -c");
    let ended = stream.finish(LIMIT);
    assert!(
        ended.ok() && ended.stdout.trim() == "24" && ended.stderr.contains("0 packets captured"),
        "{ended}"
    );
    until("the router knows", LIMIT, || !captures(&router));
    // This capture is ended by another client.
    let mut stream = capture(&r, &router, "", "> /dev/null");
    until("the capture runs", LIMIT, || captures(&router));
    router.ctl("pcap trace off");
    let ended = stream.finish(LIMIT);
    assert!(ended.ok() && ended.stderr.contains("ended by another command"), "{ended}");
    // Errors have the usual messages. `volley ctl` refuses a stream, which is not text.
    for (words, code, why) in
        [("interface nowhere", 1, "there is no interface"), ("filter 'icmp['", 1, "syntax error")]
    {
        let ended = capture(&r, &router, words, "> /dev/null").finish(LIMIT);
        assert!(ended.code() == Some(code) && ended.stderr.contains(why), "{ended}");
    }
    assert!(router.attempt("capture rx").stderr.contains("volley capture"));
}

#[test]
fn a_slow_reader_of_a_capture_loses_only_copies() {
    let Some(Routed { a, r, router, .. }) = Routed::new() else { return };
    router.ctl("create packet-generator interface pg0");
    router.ctl("set interface state pg0 up");
    router.ctl(
        "packet-generator new { name x rate 30000 size 200-200 interface pg0 node ethernet-input \
         data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.0.0.2 -> 192.0.2.1 UDP: 1 -> 2 } }",
    );
    router.ctl("packet-generator enable-stream");
    let mut stream =
        capture(&r, &router, "rx interface pg0 max 20000", "| (sleep 3; cat) | tcpdump -nn -r - | wc -l");
    until("the capture runs", LIMIT, || captures(&router));
    let ping = Ping::run(&a, "-c 20 -i 0.1 -W 2 10.0.1.2");
    assert!(ping.complete(), "{}", ping.text);
    let ended = stream.finish(LIMIT);
    assert_eq!(ended.stdout.trim(), "20000", "{ended}");
    assert!(ended.stderr.contains("20000 packets captured, "), "{ended}");
    assert!(ended.stderr.contains(" lost because they arrived faster than they were read"), "{ended}");
}

#[test]
fn captured_packets_are_replayed_routed_and_recorded() {
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    let path = |name: &str| router.socket().with_file_name(name).display().to_string();
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    // Packets from b to a, as received.
    router.ctl(&format!(
        "pcap trace rx max 1000 intfc host-eth1 filter \"ip and src 10.0.1.2\" file {}",
        path("x")
    ));
    assert!(Ping::run(&a, "-c 5 -i 0.1 -W 2 -s 300 10.0.1.2").complete());
    router.ctl("pcap trace off");
    // They are replayed through pcap0, which has the router's Ethernet address of that link.
    let mac =
        b.run("ip neigh show 10.0.1.1 dev eth0").split_whitespace().nth(2).unwrap_or_default().to_string();
    router.script(&format!(
        "set interface state host-eth0 down\nset interface state host-eth1 down\n\
         create pcap interface pcap0 rx {} loop 3\nset interface mac address pcap0 {mac}\n\
         create pcap interface pcap1 tx {} max 12\nset interface ip address pcap1 192.0.2.1/24\n\
         set ip neighbor pcap1 192.0.2.2 02:00:00:00:00:99\nip route add 10.0.0.2/32 via 192.0.2.2 pcap1\n\
         set interface state pcap1 up\nset interface ip address pcap0 192.0.3.1/24\n",
        path("x"),
        path("y"),
    ));
    let begun = std::time::Instant::now();
    router.ctl("set interface state pcap0 up");
    until("all packets are received", LIMIT, || router.counter("pcap0", "rx packets") == 15);
    assert!(
        begun.elapsed().as_millis() > 1000,
        "five packets 0.1 s apart, three times, took {:?}",
        begun.elapsed()
    );
    until("all packets are sent", LIMIT, || router.counter("pcap1", "tx packets") >= 15);
    let shown = router.ctl("show hardware-interfaces pcap1");
    assert!(shown.contains("12 of 12 packets"), "{shown}");
    router.ctl("delete pcap interface pcap1");
    let lines = tcpdump(&a, &path("y"));
    assert_eq!(lines.len(), 12, "{lines:#?}");
    // The ARP packets are the router's announcements of its own address.
    let (announced, routed): (Vec<_>, Vec<_>) = lines.iter().partition(|l| l.contains("ethertype ARP"));
    assert!(announced.len() < 3 && announced.iter().all(|l| l.contains("192.0.2.1")), "{lines:#?}");
    let way = "02:fd:00:00:00:01 > 02:00:00:00:00:99, ethertype IPv4";
    let whole = |l: &String| l.contains(way) && l.contains("10.0.1.2 > 10.0.0.2: ICMP echo reply");
    assert!(routed.into_iter().all(whole), "{lines:#?}");
}

/// Packets that generators send without Ethernet headers are routed to other generators' interfaces, and recorded there without such
/// headers.
#[test]
fn packets_without_ethernet_headers_are_routed() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let path = |name: &str| router.socket().with_file_name(name).display().to_string();
    let words = |all: [u32; 4]| all.map(u32::to_le_bytes).concat();
    // UDP packets without payload: IPv4 with its checksum, and IPv6.
    let v4: &[u8] =
        &[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcb, 10, 1, 0, 2, 10, 2, 0, 2, 0, 7, 0, 9, 0, 8, 0, 0];
    let mut v6 = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
    v6.extend("fd01::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
    v6.extend("fd02::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
    v6.extend([0, 7, 0, 9, 0, 8, 5, 0xc6]);
    for (name, packet) in [("v4", v4), ("v6", &v6)] {
        let head = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65535, 101].map(u32::to_le_bytes).concat();
        let len = packet.len() as u32;
        let file = [head, words([0, 0, len, len]), packet.to_vec()].concat();
        std::fs::write(path(name), file).unwrap();
    }
    for (n, mode, network) in [
        (1, "ip4", "10.1.0.1/24"),
        (2, "ip4", "10.2.0.1/24"),
        (3, "ip6", "fd01::1/64"),
        (4, "ip6", "fd02::1/64"),
    ] {
        router.script(&format!(
            "create packet-generator interface pg{n} mode {mode}\nset interface state pg{n} up\nset interface ip address pg{n} {network}\n"
        ));
    }
    router.script(&format!(
        "packet-generator new pcap {} source pg1 name a limit 20\npacket-generator new pcap {} source pg3 name b limit 20\n\
         packet-generator capture pg2 pcap {}\npacket-generator capture pg4 pcap {}\n",
        path("v4"),
        path("v6"),
        path("v4.out"),
        path("v6.out"),
    ));
    router.ctl("packet-generator enable-stream");
    until("the streams have ended", LIMIT, || !router.ctl("show packet-generator").contains("Yes"));
    for (out, from, to) in [("v4.out", "10.1.0.2.7", "10.2.0.2.9"), ("v6.out", "fd01::2.7", "fd02::2.9")] {
        let lines = a.run(&format!("tcpdump -nn -v -r {}", path(out)));
        let ours = lines.matches(&format!("{from} > {to}: ")).count();
        assert_eq!(ours, 20, "{lines}");
        // The TTL is one less, and there is no ARP.
        assert!(lines.contains("ttl 63") || lines.contains("hlim 63"), "{lines}");
        assert!(!lines.contains("ARP"), "{lines}");
    }
    // A file of the other kind is refused, and so is a sub-interface.
    let refused = router.attempt(&format!("packet-generator new pcap {} source pg3 name c", path("v4")));
    assert!(refused.stderr.contains("packet 1 is no IPv6 packet"), "{refused}");
    assert_eq!(router.attempt("create sub-interfaces pg1 5").code(), Some(1));
    assert!(router.ctl("show config").contains("create packet-generator interface pg3 mode ip6"));
    assert!(router.ctl("show ip neighbors").lines().all(|line| !line.contains("pg1")));
}

#[test]
fn a_worker_sleeps_until_the_next_packet_of_a_replay() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    let path = router.socket().with_file_name("x.pcap").display().to_string();
    router.ctl(&format!("pcap trace rx max 4 file {path}"));
    Ping::run(&a, "-c 2 -i 0.05 -W 2 10.0.1.2");
    until("the capture has ended", LIMIT, || !captures(&router));
    router.ctl(&format!("create pcap interface pcap0 rx {path} rate 4 loop forever"));
    router.ctl("set interface state pcap0 up");
    router.ctl("clear runtime");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let runtime = router.json("show runtime");
    let nodes = runtime[0]["nodes"].as_array().unwrap();
    let of = |what: &str| nodes.iter().find(|n| n["name"] == "pcap-input").unwrap()[what].as_u64().unwrap();
    assert!((6..=12).contains(&of("packets")), "{runtime}");
    // A worker that never sleeps polls some millions of times a second.
    assert!(of("calls") < 100_000, "{runtime}");
}
