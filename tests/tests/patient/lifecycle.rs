//! Start, refused start, stop and kill of the router.

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use scenarios::{Ping, Routed, TWO_PORTS, cabled};
use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::until;
use testkit::router::Router;
use testkit::skip::skipped;

/// Returns the kernel's view of eth0, and settings that could prevent the kernel from using it.
fn port_state(host: &Host) -> [String; 4] {
    // Without counters and ages, which change by themselves.
    [
        "ip -o link show dev eth0",
        "ip -o -4 addr show dev eth0",
        "tc qdisc show dev eth0",
        "sysctl net.ipv4.conf.eth0",
    ]
    .map(|command| host.run(command))
}

#[test]
fn a_second_instance_on_the_same_socket_is_refused() {
    let Some(Routed { a, r, router, .. }) = Routed::new() else { return };
    let socket = router.socket().display();
    let second = Router::refused(&r, &format!("unix {{ nodaemon cli-listen {socket} }}\n"));
    assert!(second.code().is_some_and(|code| code != 0), "{second}");
    assert!(second.stderr.contains(&socket.to_string()), "the error must name the socket: {second}");
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete(), "the first instance still forwards");
    router.ctl("show version");
}

#[test]
fn the_socket_of_a_killed_instance_is_reused() {
    let Some(Routed { a, r, router, .. }) = Routed::new() else { return };
    router.kill();
    let _again = Router::start(&r, TWO_PORTS);
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(3));
}

#[test]
fn a_start_waits_for_an_instance_that_is_ending() {
    let Some((a, r, _b)) = cabled() else { return };
    // The kernel needs a while to free this memory. How long is not known, so another test checks the wait itself.
    let buffers = "buffers { buffers-per-numa 100000 }\n";
    let router = Router::start_with(&r, buffers, TWO_PORTS);
    r.run(&format!("kill -KILL {}", router.id()));
    let _again = Router::start(&r, TWO_PORTS);
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(3));
}

/// Checks that the kernel's address on a port works again after the router has ended.
fn the_kernel_gets_its_port_back(end: fn(Router)) {
    let Some((a, r, _b)) = cabled() else { return };
    r.run("ip addr add 10.0.0.9/24 dev eth0");
    let before = port_state(&r);
    let router = Router::start(&r, TWO_PORTS);
    assert!(Ping::run(&a, "-c 2 -i 0.2 -W 2 10.0.1.2").complete());
    end(router);
    assert_eq!(port_state(&r), before);
    Ping::until_answered(&a, "10.0.0.9", Duration::from_secs(3));
    Ping::until_answered(&r, "10.0.0.2", Duration::from_secs(3));
}

#[test]
fn sigkill_returns_the_port_to_the_kernel() {
    the_kernel_gets_its_port_back(Router::kill);
}

#[test]
fn sigterm_returns_the_port_to_the_kernel() {
    the_kernel_gets_its_port_back(Router::stop);
}

#[test]
fn sigterm_during_the_start_commands_ends_in_order() {
    let Some((_a, r, _b)) = cabled() else { return };
    r.run("ip link set eth0 down");
    let before = port_state(&r);
    let router = Router::spawn(
        &r,
        "create host-interface name eth0
        set interface state host-eth0 up
        ip route add 20.0.0.0/24 drop count 4000000",
    );
    until("the port is up", LIMIT, || r.run("ip -o link show dev eth0").contains(",UP"));
    assert!(!router.log().contains("ready"), "the routes were installed too fast for this test");
    router.stop();
    assert_eq!(port_state(&r), before);
}

/// Returns the machine's available memory in KiB.
fn available_kib() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn too_many_buffers_at_the_start_are_refused_with_the_place() {
    let Some((_a, r, _b)) = cabled() else { return };
    // A file may ask for at most 1 << 24 buffers.
    let buffers = (available_kib() * 1024 / 2624 + 100_000).min(1 << 24);
    if available_kib() * 1024 > buffers * 2624 {
        skipped("needs a machine with less memory than the most buffers that can be asked for");
        return;
    }
    let startup =
        format!("unix {{ nodaemon runtime-dir . }}\nbuffers {{\n  buffers-per-numa {buffers}\n}}\n");
    let refused = Router::refused(&r, &startup);
    assert!(refused.code().is_some_and(|code| code != 0), "{refused}");
    let why = format!("refused.conf:3:3: cannot allocate {buffers} buffers: ");
    assert!(refused.stderr.contains(&why) && refused.stderr.contains("GiB of memory needed, "), "{refused}");
}

#[test]
fn sigterm_during_buffer_allocation_ends_in_order() {
    let Some((_a, r, _b)) = cabled() else { return };
    // Enough buffers that the allocation can be interrupted.
    let buffers = (available_kib() * 1024 / 2624 / 3).min(1 << 20);
    let mut router = Router::launch(&r, &format!("buffers {{ buffers-per-numa {buffers} }}\n"), "");
    let shared = |id: u32| {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap_or("0 kB").trim();
        line.trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    until("some buffers are allocated", LIMIT, || shared(router.id()) > 8 << 10);
    assert!(router.running() && !router.log().contains("ready"), "{}", router.log());
    let socket = router.socket().to_owned();
    router.stop();
    assert!(!socket.exists());
}

#[test]
fn a_wrong_startup_file_is_refused_with_the_place() {
    let Some((_a, r, _b)) = cabled() else { return };
    let refused = Router::refused(&r, "unix {\n  nodaemon\n  cli-lisen /tmp/x.sock\n}\n");
    assert!(refused.code().is_some_and(|code| code != 0), "{refused}");
    assert!(refused.stderr.contains("refused.conf:3:3:"), "{refused}");
    assert!(refused.stderr.contains("cli-listen"), "the error must suggest the right word: {refused}");
}

#[test]
fn a_wrong_command_at_the_start_is_refused_with_the_place() {
    let Some((a, r, _b)) = cabled() else { return };
    let mut router = Router::spawn(&r, &format!("{TWO_PORTS}set interface stat host-eth0 sideways\n"));
    until("the router ends", Duration::from_secs(5), || !router.running());
    assert!(router.log().contains("r.cli:7"), "{}", router.log());
    assert!(!Ping::answered(&a, "10.0.0.1"), "no interface is left configured");
}

#[test]
fn the_port_of_the_default_route_needs_force() {
    let Some((a, r, _b)) = cabled() else { return };
    r.run("ip addr add 10.0.0.9/24 dev eth0");
    r.run("ip route add default via 10.0.0.2");
    let router = Router::start(&r, "");
    let refused = router.attempt("create host-interface name eth0");
    assert_eq!(refused.code(), Some(1), "{refused}");
    assert!(refused.stderr.contains("default route") && refused.stderr.contains("force"), "{refused}");
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.9").complete(), "the kernel still uses the port");
    router.script(
        "create host-interface name eth0 force
        set interface state host-eth0 up
        set interface ip address host-eth0 10.0.0.1/24",
    );
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete());
}

#[test]
fn a_disabled_driver_makes_no_interfaces() {
    let Some((a, r, _b)) = cabled() else { return };
    let names = ["af-xdp", "memif", "pcap", "tap", "packet-generator", "neighbor-bounds"];
    let disabled = names.map(|name| format!("plugin {name} {{ disable }}")).join(" ");
    let router = Router::launch(&r, &format!("plugins {{ {disabled} }}"), TWO_PORTS).wait_ready();
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete());
    let plugins = router.json("show plugins");
    for name in names {
        let found = plugins.as_array().and_then(|all| all.iter().find(|plugin| plugin["name"] == name));
        assert_eq!(found.map(|plugin| &plugin["enabled"]), Some(&false.into()), "{name}: {plugins}");
    }
    for (command, feature) in [
        ("create interface memif id 0 master", "memif"),
        ("create tap id 0", "tap"),
        ("set ip neighbor-config ip4 limit 9", "neighbor-bounds"),
    ] {
        let refused = router.attempt(command);
        assert!(refused.stderr.contains(&format!("plugin {feature} {{ enable }}")), "{refused}");
    }
}

/// If another program has taken the name of a memif socket, the router starts without the socket. Any user can take the name in a folder
/// that others may write to.
#[test]
fn a_taken_memif_socket_does_not_stop_a_start() {
    let Some((a, r, _b)) = cabled() else { return };
    let socket = r.lab().dir().join("m.sock");
    let taken = UnixListener::bind(&socket).expect("a socket");
    let memif = format!(
        "create memif socket id 1 filename {}\ncreate interface memif id 0 socket-id 1 master\n",
        socket.display()
    );
    let router = Router::start(&r, &format!("{memif}{TWO_PORTS}"));
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete());
    let absent = || router.json("show interface memif1/0")[0]["absent"].clone();
    assert_eq!(absent(), true);
    let refused = router.attempt("create interface memif id 1 socket-id 1 master");
    assert!(refused.stderr.contains("is taken"), "a command is refused: {refused}");
    drop(taken);
    std::fs::remove_file(&socket).expect("the socket's file");
    until("the interface has its socket", Duration::from_secs(15), || absent() == false);
}

/// A router starts even if a capture file or a tap's name is taken, or a capture's folder is missing. Any user can put something in place
/// of the file in a folder that others may write to.
#[test]
fn a_taken_capture_file_or_tap_does_not_stop_a_start() {
    let Some((a, r, _b)) = cabled() else { return };
    let (text, folder) = (r.lab().dir().join("text.pcap"), r.lab().dir().join("gone"));
    std::fs::write(&text, "precious").expect("a file");
    r.run("ip link add vtap type veth peer name vpeer");
    let (sent, replayed) = (text.display(), folder.join("a.pcap"));
    let ports = format!(
        "create pcap interface pcap0 tx {sent}\ncreate pcap interface pcap1 tx {}\ncreate tap id 0 host-if-name vtap\n",
        replayed.display()
    );
    let router = Router::start(&r, &format!("{ports}{TWO_PORTS}"));
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete());
    let absent = |name: &str| router.json(&format!("show interface {name}"))[0]["absent"].clone();
    assert!(["pcap0", "pcap1", "tap0"].iter().all(|name| absent(name) == true));
    assert!(router.ctl("show interface pcap0").contains("is not a capture"));
    let refused =
        router.attempt(&format!("create pcap interface pcap2 tx {}", folder.join("b.pcap").display()));
    assert!(refused.stderr.contains("cannot write"), "a command is refused: {refused}");
    assert_eq!(std::fs::read(&text).expect("the file"), b"precious");
    std::fs::remove_file(&text).expect("the file");
    std::fs::create_dir(&folder).expect("a folder");
    r.run("ip link del vtap");
    for name in ["pcap0", "pcap1", "tap0"] {
        until("the interface has its device", Duration::from_secs(30), || absent(name) == false);
    }
}

/// A rotated log is opened again after SIGHUP, and other signals do not end the router.
#[test]
fn signals_without_a_meaning_do_not_end_the_router() {
    let Some((_a, r, _b)) = cabled() else { return };
    let log = r.lab().dir().join("volley.log");
    let mut router = Router::start_with(&r, &format!("unix {{ log {} }}", log.display()), TWO_PORTS);
    for signal in ["USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "PIPE", "STKFLT", "PWR", "XFSZ"] {
        r.run(&format!("kill -{signal} {}", router.id()));
    }
    std::fs::rename(&log, log.with_extension("1")).expect("the log");
    r.run(&format!("kill -HUP {}", router.id()));
    let reopened = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("opened again"));
    until("the log is opened again", Duration::from_secs(10), reopened);
    assert!(router.running());
    router.ctl("show version");
}

/// A default route that the kernel has learned from router advertisements does not stop the start: any host on a link can send
/// advertisements while the router is stopped. A default route that was set by a command does stop it.
#[test]
fn a_learned_default_route_does_not_stop_a_start() {
    let Some((a, r, _b)) = cabled() else { return };
    let learned = "ip -6 route add default via fe80::1 dev eth0 proto ra expires 1000";
    r.run("sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0");
    r.run(learned);
    let router = Router::start(&r, "");
    let refused = router.attempt("create host-interface name eth0");
    assert!(refused.stderr.contains("default route"), "a new interface needs force: {refused}");
    router.stop();
    for start in [
        "create host-interface name eth0\nset interface state host-eth0 up\nset interface ip address host-eth0 10.0.0.1/24\n",
        "create interface af_xdp host-if eth0\nset interface state xdp-eth0 up\nset interface ip address xdp-eth0 10.0.0.1/24\n",
    ] {
        r.run("ip -6 route flush default");
        r.run(learned);
        let router = Router::start(&r, start);
        assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete());
        assert!(
            router.log().contains("the kernel learned it from a router advertisement"),
            "{}",
            router.log()
        );
        router.stop();
        // A default route that was set by a command is respected: the router does not take the port, and ends.
        r.run("ip -6 route flush default");
        r.run("ip -6 route add default via fe80::1 dev eth0");
        let mut router = Router::spawn(&r, start);
        until("the router ends", Duration::from_secs(5), || !router.running());
        assert!(router.log().contains("default route"), "{}", router.log());
    }
}

#[test]
fn the_commands_of_the_papers_run_as_printed() {
    // Section V.C of the comparison of VPP with the Linux kernel, with other interface names. Its tester does not answer
    // ARP, so the neighbors are static.
    let Some((a, r, b)) = cabled() else { return };
    a.run("ip addr replace 198.18.0.2/24 dev eth0");
    b.run("ip addr replace 198.19.0.2/24 dev eth0");
    a.run("ip link set eth0 address 24:6e:96:3b:fb:00");
    b.run("ip link set eth0 address 24:6e:96:3b:fb:02");
    let router = Router::start(&r, "create host-interface name eth0\ncreate host-interface name eth1\n");
    router.script(
        "set interface ip address \\
host-eth0 198.18.0.1/24
set interface ip address \\
host-eth1 198.19.0.1/24
set interface state host-eth0 up
set interface state host-eth1 up
set ip neighbor host-eth0 \\
198.18.0.2 24:6e:96:3b:fb:00
set ip neighbor host-eth1 \\
198.19.0.2 24:6e:96:3b:fb:02
",
    );
    a.run("ip route replace 198.19.0.0/24 via 198.18.0.1");
    b.run("ip route replace 198.18.0.0/24 via 198.19.0.1");
    assert!(Ping::run(&a, "-c 2 -i 0.2 -W 2 -I 198.18.0.2 198.19.0.2").complete());
}

#[test]
fn the_shown_configuration_reproduces_the_router() {
    let Some(Routed { router, a, b: _b, r }) = Routed::new() else { return };
    router.script(
        "ip table add 5
        create sub-interfaces host-eth1 7 dot1ad 30 inner-dot1q 40 exact-match
        set interface ip table host-eth1.7 5
        set interface ip address host-eth1.7 10.7.0.9/24
        set interface ip address host-eth1.7 10.7.1.1/24
        set interface mac address host-eth1.7 02:00:00:00:00:77
        set interface state host-eth1.7 up
        create loopback interface instance 3
        set interface feature host-eth0 ip4-count arc ip4-unicast
        set ip neighbor-config ip4 limit 100 age 30
        ip neighbor host-eth1.7 10.7.0.1 02:00:00:00:00:78
        ip route add 10.8.0.0/16 table 5 via 10.7.0.1
        ip route add 10.9.0.0/16 via ip4-lookup-in-table 5
        ip route add 10.10.0.0/24 via drop count 3",
    );
    let config = router.ctl("show config");
    let seen = |r: &Router| {
        ["show interface address", "show ip table", "show interface features host-eth0"]
            .map(|show| r.ctl(show).lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>())
    };
    let before = seen(&router);
    router.stop();
    let router = Router::start(&r, &config);
    assert_eq!(router.ctl("show config"), config);
    assert_eq!(seen(&router), before);
    assert!(router.ctl("show ip neighbor-config").contains("limit 100,"));
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
}

#[test]
fn a_wrong_command_marks_the_place_and_changes_nothing() {
    let Some(Routed { router, .. }) = Routed::new() else { return };
    let before = router.ctl("show ip fib");
    let wrong = router.attempt("ip route add 10.20.0.0/16 vai 10.0.1.2");
    assert_eq!(wrong.code(), Some(1), "{wrong}");
    assert!(wrong.stderr.contains('^') && wrong.stderr.contains("via"), "{wrong}");
    assert_eq!(router.ctl("show ip fib"), before);
}

#[test]
fn an_idle_router_takes_little_memory() {
    let Some(Routed { router, .. }) = Routed::new() else { return };
    let status = fs::read_to_string(format!("/proc/{}/status", router.id())).unwrap();
    let anonymous = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .unwrap();
    // Without pools and port rings, which are shared memory. The rest is the program's data and tables.
    assert!(anonymous < 150 * 1024, "{anonymous} kB");
}

#[test]
fn too_few_descriptors_are_reported_at_the_start() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let router = Router::launch_by(&r, "prlimit --nofile=200", "", "").wait_ready();
    let log = router.log();
    assert!(log.contains("the limit of open files is 200, less than 1024"), "{log}");
}
