//! The configuration as a file: applied under traffic, rolled back, saved, and restored after a restart.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use scenarios::{Iperf, Ping, Routed, TWO_PORTS, address, cabled, lost_on_the_way};
use testkit::netns::LIMIT;
use testkit::process::{Process, until};
use testkit::router::Router;

const SOON: Duration = Duration::from_secs(10);

/// The configuration of [`Routed`].
const PORTS: &str = "
interfaces:
  host-eth0: { addresses: [ 10.0.0.1/24 ] }
  host-eth1: { addresses: [ 10.0.1.1/24 ] }
";

/// [`PORTS`] with many more objects.
const MORE: &str = "
interfaces:
  host-eth0: { addresses: [ 10.0.0.1/24 ] }
  host-eth1:
    addresses: [ 10.0.1.1/24 ]
    sub-interfaces:
      100: { addresses: [ 10.1.0.1/24 ] }
      200: { encapsulation: { dot1ad: 200, inner-dot1q: 7 }, addresses: [ 10.2.0.1/24 ] }
  host-eth2: { addresses: [ 10.3.0.1/24, 10.3.0.2/24 ], neighbors: { 10.3.0.9: 02:00:00:00:00:09 } }
loopbacks:
  loop0: { addresses: [ 203.0.113.1/32 ], table: 5 }
tables: [ 5 ]
routes:
  - { prefix: 10.64.0.0/10, via: 10.0.1.2 }
  - { prefix: 0.0.0.0/0, via: 10.3.0.9 }
";

/// Writes a file beside the router's socket and returns its path.
fn file(router: &Router, name: &str, text: &str) -> String {
    let path = router.socket().with_file_name(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn an_apply_does_not_disturb_unchanged_objects() {
    let Some(net) = Routed::new() else { return };
    net.b.lab().link((&net.b, "eth1"), (&net.r, "eth2"));
    let (small, large) = (file(&net.router, "small.yaml", PORTS), file(&net.router, "large.yaml", MORE));
    // 2,500 packets a second: the port's ring holds them while a busy machine does not run the worker, and also the burst
    // that the sender then sends to catch up.
    let mut flow = Iperf::start(&net.a, &net.b, "10.0.1.2", "-u -b 4M -l 200 -t 3");
    let mut changes = 0;
    while flow.running() {
        net.router.ctl(&format!("config apply {large}"));
        net.router.ctl(&format!("config apply {small}"));
        changes += 2;
    }
    let end = flow.finish();
    assert!(changes >= 6, "only {changes} changes in three seconds");
    assert!(end["sum"]["packets"].as_u64().is_some_and(|packets| packets > 5_000), "{end}");
    assert_eq!(lost_on_the_way(&end, &net.b), 0, "{end}");
}

/// Returns [`PORTS`] with 200 VLANs and 30,000 routes.
fn very_much() -> String {
    let mut text = PORTS.to_owned() + "  host-eth2:\n    addresses: [ 10.3.0.1/24 ]\n    sub-interfaces:\n";
    for vlan in 1..=200 {
        text += &format!("      {vlan}: {{ addresses: [ 10.4.{vlan}.1/24 ] }}\n");
    }
    text += "routes:\n";
    for n in 0..30_000 {
        text += &format!("  - {{ prefix: 20.{}.{}.0/24, via: 10.3.0.2 }}\n", n / 256, n % 256);
    }
    text
}

/// No packet is lost while a large configuration is applied, rolled back, and interrupted. While it is applied, other clients wait less
/// than a second.
#[test]
fn a_large_apply_disturbs_neither_traffic_nor_clients() {
    let Some(net) = Routed::new() else { return };
    net.b.lab().link((&net.b, "eth1"), (&net.r, "eth2"));
    let path = file(&net.router, "much.yaml", &very_much());
    let before = net.router.ctl("show config");
    let binary = testkit::router::binary().display();
    let apply = format!("{binary} ctl -s {} config apply {path}", net.router.socket().display());
    // A rate at which the ring holds all packets while the clients use the processor: only the router's losses count.
    let mut flow = Iperf::start(&net.a, &net.b, "10.0.1.2", "-u -b 2M -l 200 -t 6");
    let mut pings = net.a.spawn("ping -n -i 0.02 -c 200 10.0.0.1");
    let (mut rounds, mut longest) = (0, Duration::ZERO);
    while flow.running() {
        let mut client = net.r.spawn(&apply);
        while client.running() {
            let start = Instant::now();
            net.router.ctl("show version");
            longest = longest.max(start.elapsed());
            std::thread::sleep(Duration::from_millis(20));
        }
        client.finish(LIMIT).expect_ok();
        assert!(net.router.ctl("show config").lines().count() > 30_000);
        net.router.ctl("config rollback");
        assert!(net.router.ctl("show config") == before);
        // The change of a killed client is kept whole or rolled back whole.
        let mut client = net.r.spawn(&apply);
        // This command changes nothing, but is refused while an apply runs.
        let free = || net.router.attempt("ip table add 0").ok();
        until("the apply runs", SOON, || !client.running() || !free());
        drop(client);
        until("the apply has ended", LIMIT, free);
        let now = net.router.ctl("show config");
        if now != before {
            assert!(now.lines().count() > 30_000, "{} lines", now.lines().count());
            net.router.ctl("config rollback");
        }
        rounds += 1;
    }
    let end = flow.finish();
    assert!(
        rounds > 0 && longest < Duration::from_secs(1),
        "{rounds} rounds; other clients waited {longest:?}"
    );
    assert!(end["sum"]["packets"].as_u64().is_some_and(|packets| packets > 5000), "{end}");
    assert_eq!(lost_on_the_way(&end, &net.b), 0, "{end}");
    let answers = pings.finish(LIMIT).expect_ok();
    assert!(answers.contains("200 packets transmitted, 200 received"), "{answers}");
}

/// Of two clients that apply changes of the same generation, one is refused.
#[test]
fn the_second_apply_of_one_generation_is_refused() {
    let Some(net) = Routed::new() else { return };
    let yaml = net.router.ctl("show config yaml");
    let generation = yaml.split_whitespace().nth(2).unwrap();
    let binary = testkit::router::binary().display();
    let socket = net.router.socket().display();
    let clients: Vec<_> = [1300, 1400]
        .map(|mtu| {
            let text = PORTS.replace("host-eth1: {", &format!("host-eth1: {{ mtu: {mtu}, "));
            let path = file(&net.router, &format!("{mtu}.yaml"), &text);
            net.r.spawn(&format!("{binary} apply -s {socket} --generation {generation} {path}"))
        })
        .into_iter()
        .map(|mut client| client.finish(LIMIT))
        .collect();
    let refused: Vec<_> = clients.iter().filter(|c| !c.ok()).collect();
    assert!(
        refused.len() == 1 && refused[0].stderr.contains("it was changed"),
        "{}\n{}",
        clients[0],
        clients[1]
    );
    let mtu = if clients[0].ok() { 1300 } else { 1400 };
    assert!(net.router.ctl("show config").contains(&format!("set interface mtu {mtu} host-eth1")));
}

#[test]
fn a_full_disk_leaves_the_saved_file_intact() {
    let Some((_a, r, _b)) = cabled() else { return };
    let socket = r.lab().dir().join("cli.sock");
    let (binary, listen) = (testkit::router::binary().display(), socket.display());
    // A small file system in the router's mount namespace.
    let script = format!(
        "mkdir /run/small && mount -t tmpfs -o size=64k small /run/small && echo '{{}}' > /run/small/saved.yaml && exec \
         {binary} run 'unix {{ nodaemon cli-listen {listen} startup-config /run/small/saved.yaml }}'"
    );
    let router = r.spawn_args(["sh", "-c", &script]);
    until("the router is ready", SOON, || router.stderr().contains("volley: ready"));
    let ctl = |line: &str| r.attempt(&format!("{binary} ctl -s {listen} {line}"), LIMIT);
    let disk = format!("/proc/{}/root/run/small", router.id());
    ctl("ip route add 20.0.0.0/24 via drop").expect_ok();
    ctl("config save").expect_ok();
    let saved = r.run(&format!("cat {disk}/saved.yaml"));
    assert!(saved.contains("prefix: 20.0.0.0/24"), "{saved}");
    ctl("ip route add 30.0.0.0/24 via drop count 5000").expect_ok();
    let refused = ctl("config save");
    assert!(
        refused.code() == Some(1)
            && refused
                .stderr
                .contains("/run/small/saved.yaml was not written, and no file was changed: No space left"),
        "{refused}"
    );
    assert_eq!(r.run(&format!("cat {disk}/saved.yaml")), saved);
    assert_eq!(r.run(&format!("ls -A {disk}")), "saved.yaml\n", "no temporary file is left");
    ctl("config save /run/saved.yaml").expect_ok();
}

/// While some clients do not read and others flood, another client is served and no packet is lost.
#[test]
fn hanging_and_flooding_clients_do_not_delay_others() {
    let Some(net) = Routed::new() else { return };
    net.router.ctl("ip route add 20.0.0.0/24 via drop count 20000");
    let connect = || UnixStream::connect(net.router.socket()).unwrap();
    let mut deaf: Vec<UnixStream> = (0..10).map(|_| connect()).collect();
    for client in &mut deaf {
        client.write_all(&b"{\"run\":{\"line\":\"show config\"}}\n".repeat(100)).unwrap();
    }
    let mut floods: Vec<Process> = (0..2)
        .map(|_| {
            let ctl = format!(
                "while :; do echo show config; done | {} ctl -s {} --keep-going - > /dev/null",
                testkit::router::binary().display(),
                net.router.socket().display()
            );
            net.r.spawn_args(["sh", "-c", &ctl])
        })
        .collect();
    let path = file(&net.router, "large.yaml", MORE);
    net.b.lab().link((&net.b, "eth1"), (&net.r, "eth2"));
    let mut flow = Iperf::start(&net.a, &net.b, "10.0.1.2", "-u -b 2M -l 200 -t 3");
    let mut served = 0;
    while flow.running() {
        net.router.ctl(&format!("config apply {path}"));
        net.router.ctl("config rollback");
        served += 1;
    }
    let end = flow.finish();
    assert!(served > 0 && floods.iter_mut().all(Process::running));
    assert_eq!(lost_on_the_way(&end, &net.b), 0, "{end}");
}

#[test]
fn an_unconfirmed_apply_is_rolled_back() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    // The operator's mistake: the file removes the address of the operator's own connection.
    let text = "interfaces:\n  host-eth0: {}\n  host-eth1: { addresses: [ 10.0.1.1/24 ] }\n";
    let path = file(&router, "wrong.yaml", text);
    let before = router.ctl("show config");
    let said = router.ctl(&format!("config apply {path} confirm 3s"));
    assert!(said.contains("- set interface ip address host-eth0 10.0.0.1/24"), "{said}");
    assert!(said.ends_with("rolls back in 3 seconds unless confirmed: config confirm\n"), "{said}");
    assert!(!Ping::answered(&a, "10.0.0.1"));
    assert!(router.ctl("show config history").contains("unless confirmed"));
    Ping::until_answered(&a, "10.0.0.1", SOON);
    assert_eq!(router.ctl("show config"), before);
    assert!(!router.ctl("show config history").contains("unless confirmed"));
}

/// A change removes the address of the operator's own connection, so it is not confirmed. It is rolled back although a network card has
/// failed meanwhile.
#[test]
fn a_missing_device_does_not_stop_a_rollback() {
    let Some(Routed { a, b, r, router }) = Routed::new() else { return };
    let before = router.ctl("show config");
    let path = file(&router, "wrong.yaml", "interfaces:\n  host-eth0: {}\n");
    router.ctl(&format!("config apply {path} confirm 2s"));
    assert!(!Ping::answered(&a, "10.0.0.1"));
    r.run("ip link del eth1");
    Ping::until_answered(&a, "10.0.0.1", SOON);
    assert_eq!(router.ctl("show config"), before);
    assert!(router.ctl("show interface host-eth1").contains("up, link down, no device"));
    assert!(router.log().contains("host-eth1 waits for its device"), "{}", router.log());
    a.lab().link((&b, "eth0"), (&r, "eth1"));
    address(&b, "10.0.1.2/24", "10.0.1.1");
    Ping::until_answered(&a, "10.0.1.2", SOON);
}

/// If a port vanished while the router was stopped, the router starts with the other port. The missing one joins when its device is back.
#[test]
fn a_router_starts_without_a_missing_port() {
    for name in ["saved.yaml", "saved.cli"] {
        let Some((a, r, b)) = cabled() else { return };
        let router = Router::start(&r, &format!("{TWO_PORTS}create sub-interfaces host-eth1 7\n"));
        let config = router.ctl("show config");
        let saved = router.socket().with_file_name(name);
        router.ctl(&format!("config save {}", saved.display()));
        router.stop();
        r.run("ip link del eth1");
        let router = Router::spawn_from(&r, &saved).wait_ready();
        Ping::until_answered(&a, "10.0.0.1", SOON);
        assert!(router.log().contains("host-eth1 waits for its device"), "{}", router.log());
        assert_eq!(router.json("show interface host-eth1")[0]["absent"], true);
        assert!(router.ctl("show interface host-eth1").contains("up, link down, no device"));
        assert_eq!(router.ctl("show config"), config);
        let said = router.ctl(&format!("config save {}", saved.display()));
        assert!(said.contains("! host-eth1 has no device"), "{said}");
        // A typed command for a missing Linux interface is refused.
        let refused = router.attempt("create host-interface name eth9");
        assert!(!refused.ok() && refused.stderr.contains("eth9"), "{refused}");

        a.lab().link((&b, "eth0"), (&r, "eth1"));
        address(&b, "10.0.1.2/24", "10.0.1.1");
        Ping::until_answered(&a, "10.0.1.2", SOON);
        assert_eq!(router.ctl("show config"), config);
        assert_eq!(router.json("show interface host-eth1")[0]["absent"], false);
    }
}

#[test]
fn a_saved_configuration_is_restored_after_a_restart() {
    let Some((a, r, _b)) = cabled() else { return };
    let router = Router::start(&r, TWO_PORTS);
    router.script("create sub-interfaces host-eth0 7\nip route add 10.9.0.0/16 via 10.0.1.2");
    let config = router.ctl("show config");
    let path = router.socket().with_file_name("saved.yaml");
    router.ctl(&format!("config save {}", path.display()));
    router.stop();
    let again = Router::spawn_from(&r, &path);
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(5));
    assert_eq!(again.ctl("show config"), config);
}

#[test]
fn every_fault_of_a_file_is_reported_with_its_place() {
    let Some((_a, r, _b)) = cabled() else { return };
    let router = Router::start(&r, "");
    let path =
        file(&router, "wrong.yaml", "interfaces:\n  host-eth0: { mtu: many }\n  eth1: {}\nroute: []\n");
    let binary = testkit::router::binary().display();
    let check = r.attempt(&format!("{binary} check {path}"), LIMIT);
    let places: Vec<_> = check.stderr.lines().filter_map(|l| l.split(".yaml:").nth(1)).collect();
    assert!(
        check.code() == Some(1)
            && places.len() == 3
            && places[0].starts_with("2:21: ")
            && places[1].starts_with("3:3: ")
            && places[2].starts_with("4:1: "),
        "{check}"
    );
    let apply = router.attempt(&format!("config apply {path}"));
    assert!(apply.code() == Some(1) && apply.stderr.contains("no changes made"), "{apply}");
}

/// Names and indices, which monitoring uses, are the same after "config save" and a restart, even if interfaces were
/// removed before.
#[test]
fn names_and_indices_survive_a_restart() {
    let Some((_a, r, _b)) = cabled() else { return };
    let router = Router::start(&r, TWO_PORTS);
    router.script(
        "create loopback interface instance 9\ncreate loopback interface instance 4\ncreate sub-interfaces host-eth0 7\n\
         delete loopback interface intfc loop9\ncreate sub-interfaces host-eth1 5\ncreate loopback interface instance 1\n\
         set interface description host-eth1 \"to b\"",
    );
    let shown = router.ctl("show interface description");
    // Without a name, "config save" writes the start configuration.
    let said = router.ctl("config save");
    router.stop();
    let config = r.lab().dir().join("r.conf");
    let again = r.spawn(&format!("{} run -c {}", testkit::router::binary().display(), config.display()));
    until("the router is ready", SOON, || again.stderr().contains("volley: ready"));
    let socket = r.lab().dir().join("r.sock");
    let ctl = format!(
        "{} ctl -s {} show interface description",
        testkit::router::binary().display(),
        socket.display()
    );
    assert_eq!(r.run(&ctl), shown, "{said}");
    assert!(shown.contains("to b") && shown.lines().count() == 7, "{shown}");
}

/// A change of a port option is refused while the device is gone. The interface stays and waits for its device.
#[test]
fn a_port_option_cannot_change_while_its_device_is_gone() {
    let Some(Routed { a, b, r, router }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    let before = router.ctl("show config");
    r.run("ip link del eth1");
    until("the loss is logged", SOON, || router.log().contains("host-eth1: the device vanished"));
    let other = PORTS.replace("host-eth1: {", "host-eth1: { mtu: 1300, af-packet: { shared: true },");
    let path = file(&router, "other.yaml", &other);
    let said = router.attempt(&format!("config apply {path}"));
    assert!(said.code() == Some(1) && said.stderr.contains("eth1"), "{said}");
    assert!(!said.stderr.contains("could not be rolled back"), "{said}");
    assert_eq!(router.ctl("show config"), before);
    assert!(router.ctl("show interface").contains("host-eth1"));

    a.lab().link((&b, "eth0"), (&r, "eth1"));
    address(&b, "10.0.1.2/24", "10.0.1.1");
    Ping::until_answered(&a, "10.0.1.2", SOON);
    router.ctl(&format!("config apply {path}"));
    assert!(router.ctl("show config").contains("set interface mtu 1300 host-eth1"));
    r.run("ip link del eth1");
    until("the device is gone again", SOON, || {
        router.log().matches("host-eth1: the device vanished").count() == 2
    });
    router.ctl("delete host-interface name eth1");
    assert!(!router.ctl("show interface").contains("host-eth1"));
}

/// A program that takes a lease on a file: other processes wait at the open until the program ends.
const LEASE: &str = "
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('leased', flush=True)
time.sleep(1000)
";

#[test]
fn a_blocked_open_of_a_file_does_not_stop_the_router() {
    let Some(Routed { r, router, .. }) = Routed::new() else { return };
    let dir = r.lab().dir();
    for (n, command) in
        ["exec", "config apply", "ip route load", "create pcap interface pcap0 rx"].iter().enumerate()
    {
        let file = dir.join(format!("leased{n}"));
        fs::write(&file, "nothing\n").unwrap();
        let mut lease = r.spawn_args(["python3", "-c", LEASE, file.to_str().unwrap()]);
        until("the file has a lease", SOON, || lease.stdout().contains("leased"));
        let mut waits = router.in_background(&format!("{command} {}", file.display()));
        let breaks = || fs::read_to_string("/proc/locks").unwrap().contains("LEASE  BREAKING");
        until("the router waits at the open", SOON, breaks);
        let begun = Instant::now();
        router.ctl("show version");
        // The kernel breaks a lease after 45 seconds.
        assert!(begun.elapsed() < SOON && waits.running(), "{command}: {:?}", begun.elapsed());
        lease.signal(rustix::process::Signal::KILL);
        let said = waits.finish(LIMIT);
        assert!((said.stdout.clone() + &said.stderr).contains(file.to_str().unwrap()), "{said}");
    }
}

#[test]
fn a_pipe_in_place_of_a_file_does_not_stop_the_router() {
    let Some(Routed { r, router, .. }) = Routed::new() else { return };
    let pipe = r.lab().dir().join("pipe");
    r.run(&format!("mkfifo {}", pipe.display()));
    for command in [
        "exec PIPE",
        "config apply PIPE",
        "ip route load PIPE",
        "create pcap interface pcap0 rx PIPE",
        "create pcap interface pcap0 tx PIPE",
        "pcap trace rx file PIPE",
        "create tap id 0 host-ns PIPE",
    ] {
        let said = router.attempt(&command.replace("PIPE", &pipe.display().to_string()));
        assert!(!said.ok(), "{said}");
        router.ctl("show version");
    }
}

#[test]
fn errors_show_no_content_of_a_file() {
    let Some(Routed { r, router, .. }) = Routed::new() else { return };
    let file = r.lab().dir().join("shadow");
    fs::write(&file, "root:$6$secret:19000:0:99999:7:::\nset password secret\n").unwrap();
    for command in ["exec", "config apply", "ip route load", "create pcap interface pcap0 rx"] {
        let said = router.attempt(&format!("{command} {}", file.display()));
        assert!(said.stderr.contains("shadow") || said.stdout.contains("shadow"), "{said}");
        assert!(!said.stderr.contains("secret") && !said.stdout.contains("secret"), "{said}");
    }
}
