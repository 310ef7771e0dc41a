//! memif with another implementation: DPDK's `net_memif` in both roles, run by `dpdk-testpmd`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scenarios::Ping;
use scenarios::tester::has_testpmd;
use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::{Process, until};
use testkit::router::Router;

/// Time limit for starts and connections on a busy machine with two cores.
const SOON: Duration = Duration::from_secs(30);

/// testpmd with memif interfaces as its ports. It reads its commands from a pipe.
struct Testpmd {
    process: Process,
    input: File,
}

/// Returns the option for an interface of testpmd. `role` is `client` or `server`, and `more` has further options.
fn port(n: usize, role: &str, socket: &Path, id: u32, more: &str) -> String {
    let socket = socket.display();
    format!("--vdev=net_memif{n},role={role},socket={socket},socket-abstract=no,id={id}{more}")
}

/// Returns the number that follows `name` in `text`.
fn number(text: &str, name: &str) -> u64 {
    let at = text.find(name).unwrap_or_else(|| panic!("no {name} in\n{text}")) + name.len();
    text[at..].split_whitespace().next().unwrap().parse().unwrap()
}

impl Testpmd {
    /// Starts testpmd with one port and this forwarding mode. It forwards after the command "start", or at once if `mode` contains
    /// `--auto-start`.
    fn start(host: &Host, role: &str, socket: &Path, id: u32, mode: &str, more: &str) -> Testpmd {
        let options = format!("{mode} --total-num-mbufs=32768");
        Testpmd::with(host, &format!("{role}-{id}"), &port(0, role, socket, id, more), &options)
    }

    fn with(host: &Host, name: &str, ports: &str, options: &str) -> Testpmd {
        let pipe = host.lab().dir().join(format!("{name}.in"));
        if !pipe.exists() {
            host.run(&format!("mkfifo {}", pipe.display()));
        }
        // Opened for both directions, so that the open does not block and testpmd sees no end of file.
        let input = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let command = format!(
            "exec stdbuf -o0 dpdk-testpmd -l 0-1 --no-pci --no-huge --no-shconf --no-telemetry -m 256 {ports} \
             -- -i --forward-mode={options} < {}",
            pipe.display()
        );
        let process = host.spawn_args(["sh", "-c", &command]);
        let testpmd = Testpmd { process, input };
        until("testpmd runs", SOON, || testpmd.process.stdout().contains("testpmd> "));
        testpmd
    }

    fn say(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    /// Runs a command and returns its output from the last `begin` on, once it contains `end`.
    fn shown(&mut self, command: &str, begin: &str, end: &str) -> String {
        let count = |text: &str| text.matches(begin).count();
        let before = count(&self.process.stdout());
        self.say(command);
        let whole = || {
            let text = self.process.stdout();
            let last = text.rfind(begin).map(|at| text[at..].to_string()).unwrap_or_default();
            (count(&text) > before && last.contains(end)).then_some(last)
        };
        let text = testkit::process::poll(SOON, whole);
        text.unwrap_or_else(|| panic!("testpmd shows nothing:\n{}", self.process.stdout()))
    }

    /// Returns the packets received and sent by the first two queues of a port.
    fn queues(&mut self, port: usize) -> [u64; 4] {
        let text = self.shown(&format!("show port xstats {port}"), "NIC extended statistics", "testpmd> ");
        ["rx_q0_packets:", "rx_q1_packets:", "tx_q0_packets:", "tx_q1_packets:"]
            .map(|name| number(&text, name))
    }

    /// Returns the packets received and sent by the first port.
    fn packets(&mut self) -> (u64, u64) {
        self.packets_of(0)
    }

    /// Returns the packets received and sent by a port.
    fn packets_of(&mut self, port: usize) -> (u64, u64) {
        let text = self.shown(&format!("show port stats {port}"), "NIC statistics", "Tx-pps");
        (number(&text, "RX-packets:"), number(&text, "TX-packets:"))
    }
}

/// Returns a namespace for the router and a directory for sockets. `None` without testpmd or namespaces (reported as
/// skipped).
fn lab() -> Option<(Host, PathBuf)> {
    if !has_testpmd() {
        return None;
    }
    let lab = Lab::new()?;
    let dir = lab.dir().to_owned();
    Some((lab.host("r"), dir))
}

/// Returns the router's Ethernet address on an interface, which is the destination of testpmd's packets.
fn mac(router: &Router, interface: &str) -> String {
    router.json(&format!("show interface {interface}"))[0]["mac"].as_str().unwrap().to_string()
}

fn connected(router: &Router, interface: &str) -> bool {
    router.json(&format!("show memif {interface}"))["interfaces"][0]["connected"] == true
}

/// Starts a router with two memif interfaces in opposite roles; `slave` has the words for the role of the slave, such as `slave trusted`.
/// Packets that arrive at the first leave by the second.
fn between(host: &Host, dir: &Path, first_is_master: bool, slave: &str) -> Router {
    let (a, b) = if first_is_master { ("master", slave) } else { (slave, "master") };
    let file = |n: u32| dir.join(format!("memif{n}.sock")).display().to_string();
    Router::start(
        host,
        &format!(
            "create memif socket id 1 filename {}\n\
             create memif socket id 2 filename {}\n\
             create interface memif id 5 socket-id 1 {a} secret sesame\n\
             create interface memif id 6 socket-id 2 {b} ring-size 4096\n\
             set interface state memif1/5 up\n\
             set interface state memif2/6 up\n\
             set interface ip address memif1/5 10.0.0.1/24\n\
             set interface ip address memif2/6 10.0.1.1/24\n\
             set ip neighbor memif2/6 10.0.1.2 02:00:00:00:00:02\n\
             ip route add 198.18.0.0/15 via 10.0.1.2\n",
            file(1),
            file(2)
        ),
    )
}

/// Checks that the router receives all packets of one testpmd, and that the other testpmd receives all packets that the router sends and
/// does not count as errors.
fn all_packets_are_accounted_for(first_is_master: bool, slave: &str) {
    let Some((r, dir)) = lab() else { return };
    let file = |n: u32| dir.join(format!("memif{n}.sock"));
    let router = between(&r, &dir, first_is_master, slave);
    let (a, b) = if first_is_master { ("client", "server") } else { ("server", "client") };
    let mut sink = Testpmd::start(&r, b, &file(2), 6, "rxonly", "");
    let peer = format!(",secret=sesame -- --eth-peer=0,{}", mac(&router, "memif1/5"));
    let peer = peer.split(" -- ").collect::<Vec<_>>();
    let mut source = Testpmd::start(&r, a, &file(1), 5, &format!("txonly {}", peer[1]), peer[0]);
    until("both are connected", SOON, || connected(&router, "memif1/5") && connected(&router, "memif2/6"));
    sink.say("start");
    source.say("start");
    until("packets pass", SOON, || router.counter("memif2/6", "tx packets") > 100_000);
    source.say("stop");
    let mut seen = 0;
    until("the router has received all packets", SOON, || {
        let (sent, received) = (source.packets().1, router.counter("memif1/5", "rx packets"));
        let calm = sent == seen;
        seen = sent;
        calm && sent == received
    });
    let out = || router.counter("memif2/6", "tx packets") - router.counter("memif2/6", "tx-error");
    until("the sink has received all packets", SOON, || sink.packets().0 == out());
    assert!(out() > 0);
    assert_eq!(router.counter("memif1/5", "rx-error"), 0);
    let shown = router.ctl("show memif");
    assert!(shown.contains("remote-name \"DPDK") && shown.contains("secret"), "{shown}");
    assert!(!shown.contains("sesame"), "the secret must be hidden:\n{shown}");
    assert!(router.ctl("show config").contains("secret sesame"));
}

#[test]
fn a_dpdk_client_sends_to_a_dpdk_server() {
    all_packets_are_accounted_for(true, "slave");
}

#[test]
fn a_dpdk_server_sends_to_a_dpdk_client() {
    all_packets_are_accounted_for(false, "slave");
}

#[test]
fn a_dpdk_server_reads_packets_without_a_copy() {
    all_packets_are_accounted_for(true, "slave trusted");
}

#[test]
fn a_dpdk_server_writes_packets_without_a_copy() {
    all_packets_are_accounted_for(false, "slave trusted");
}

/// Two interfaces share one socket, each with two queues in each direction, on two workers. Packets pass both ways at
/// once, and both sides count the same.
fn queues_of_two_interfaces_share_a_socket(role: &str) {
    let Some((r, dir)) = lab() else { return };
    let file = dir.join("memif.sock");
    let router = Router::start(
        &r,
        &format!(
            "set workers 2\n\
             ip table add 1\n\
             create memif socket id 1 filename {}\n\
             create interface memif id 5 socket-id 1 {role} rx-queues 2 tx-queues 2\n\
             create interface memif id 6 socket-id 1 {role} rx-queues 2 tx-queues 2\n\
             set interface ip table memif1/6 1\n\
             set interface mac address memif1/5 00:01:02:03:04:01\n\
             set interface mac address memif1/6 00:01:02:03:04:01\n\
             set interface state memif1/5 up\n\
             set interface state memif1/6 up\n\
             set interface ip address memif1/5 10.0.0.1/24\n\
             set interface ip address memif1/6 10.0.1.1/24\n\
             set ip neighbor memif1/5 10.0.0.2 02:00:00:00:00:15\n\
             set ip neighbor memif1/6 10.0.1.2 02:00:00:00:00:16\n\
             ip route add 10.252.0.0/14 via 10.0.1.2 memif1/6\n\
             ip route add 10.252.0.0/14 table 1 via 10.0.0.2 memif1/5\n",
            file.display()
        ),
    );
    let theirs = if role == "master" { "client" } else { "server" };
    let ports = [port(0, theirs, &file, 5, ""), port(1, theirs, &file, 6, "")].join(" ");
    // testpmd generates flows from and to 10.252.0.0/14 for the Ethernet address 00:01:02:03:04:01.
    let options = "flowgen --rxq=2 --txq=2 --total-num-mbufs=32768";
    let mut testpmd = Testpmd::with(&r, "both", &ports, options);
    until("both are connected", SOON, || connected(&router, "memif1/5") && connected(&router, "memif1/6"));
    testpmd.say("start");
    until("packets pass both ways by all queues", SOON, || {
        let used = |port| testpmd.queues(port).iter().all(|packets| *packets > 1000);
        [0, 1].map(used) == [true, true]
    });
    // Packets in flight when testpmd stops sending stay in its rings until it reads again.
    testpmd.say("stop");
    testpmd.say("set fwd rxonly");
    testpmd.say("start");
    until("both sides count the same", SOON, || {
        let theirs = [testpmd.packets_of(0), testpmd.packets_of(1)];
        let ours = ["memif1/5", "memif1/6"].map(|interface| {
            let count = |what| router.counter(interface, what);
            (count("tx packets") - count("tx-error"), count("rx packets"))
        });
        theirs == ours
    });
    for interface in ["memif1/5", "memif1/6"] {
        assert_eq!(router.counter(interface, "rx-error"), 0);
    }
}

#[test]
fn queues_of_dpdk_clients_share_a_socket() {
    queues_of_two_interfaces_share_a_socket("master");
}

#[test]
fn queues_of_dpdk_servers_share_a_socket() {
    queues_of_two_interfaces_share_a_socket("slave");
}

/// Sends frames of 9,014 bytes and then small ones between two hosts, both ways: through the router, testpmd, and the
/// router again. The router is `role` on both sides of testpmd. A large frame needs several buffers in the router. In
/// testpmd, with buffers of `size` bytes, it needs one or several.
///
/// DPDK's client before version 26.03 does not clear the flag for "packet continues" when it reuses a slot. The router's
/// server therefore clears the flag after it has read the slot. Otherwise small frames would be joined with the next one.
fn large_frames_pass(role: &str, size: usize) {
    const FRAMES: u64 = 1000;
    let Some((r, dir)) = lab() else { return };
    let (a, b) = (r.lab().host("a"), r.lab().host("b"));
    r.lab().link((&a, "eth0"), (&r, "eth0"));
    r.lab().link((&b, "eth0"), (&r, "eth1"));
    for (host, ports) in [(&a, &["eth0"][..]), (&b, &["eth0"]), (&r, &["eth0", "eth1"])] {
        ports.iter().for_each(|port| drop(host.run(&format!("ip link set {port} mtu 9000"))));
    }
    scenarios::address(&a, "10.0.0.2/24", "10.0.0.1");
    scenarios::address(&b, "10.0.1.2/24", "10.0.1.1");
    let file = |n: usize| dir.join(format!("memif{n}.sock"));
    let shown = |n| file(n).display().to_string();
    // testpmd changes no header: frames pass from one of the router's interfaces to the other.
    let router = Router::start(
        &r,
        &format!(
            "ip table add 1\n\
             create host-interface name eth0\n\
             create host-interface name eth1\n\
             create memif socket id 1 filename {}\n\
             create memif socket id 2 filename {}\n\
             create interface memif id 5 socket-id 1 {role}\n\
             create interface memif id 6 socket-id 2 {role}\n\
             set interface ip table memif2/6 1\n\
             set interface ip table host-eth1 1\n\
             set interface mtu 9000 host-eth0\n\
             set interface mtu 9000 host-eth1\n\
             set interface mac address memif1/5 02:00:00:00:00:05\n\
             set interface mac address memif2/6 02:00:00:00:00:06\n\
             set interface ip address host-eth0 10.0.0.1/24\n\
             set interface ip address memif1/5 10.9.0.1/24\n\
             set interface ip address memif2/6 10.9.1.1/24\n\
             set interface ip address host-eth1 10.0.1.1/24\n\
             set interface state host-eth0 up\n\
             set interface state host-eth1 up\n\
             set interface state memif1/5 up\n\
             set interface state memif2/6 up\n\
             set ip neighbor memif1/5 10.9.0.2 02:00:00:00:00:06\n\
             set ip neighbor memif2/6 10.9.1.2 02:00:00:00:00:05\n\
             ip route add 10.0.1.0/24 via 10.9.0.2\n\
             ip route add 10.0.0.0/24 table 1 via 10.9.1.2\n",
            shown(1),
            shown(2)
        ),
    );
    let theirs = if role == "master" { "client" } else { "server" };
    let more = format!(",bsize={size}");
    let ports = [port(0, theirs, &file(1), 5, &more), port(1, theirs, &file(2), 6, &more)].join(" ");
    // An mbuf of testpmd has the size of a memif buffer plus 128 bytes of headroom.
    let mut testpmd = Testpmd::with(
        &r,
        "between",
        &ports,
        &format!("io --total-num-mbufs=8192 --mbuf-size={}", size + 128),
    );
    testpmd.say("start");
    until("both are connected", SOON, || connected(&router, "memif1/5") && connected(&router, "memif2/6"));
    Ping::until_answered(&a, "10.0.1.2", SOON);
    let of_router = |what: &str| ["memif1/5", "memif2/6"].map(|i| router.counter(i, what));
    let packets = || [of_router("rx packets"), of_router("tx packets")];
    let errors = || [of_router("rx-error"), of_router("tx-error")];
    // The router's own packets may have been dropped before testpmd had lent buffers.
    let before = (packets(), errors());
    // Small frames reuse slots of large ones.
    for size in [8972, 56] {
        let ping = a.attempt(&format!("ping -n -q -M do -s {size} -i 0.002 -c {FRAMES} 10.0.1.2"), SOON);
        assert!(ping.stdout.contains(&format!(" {FRAMES} received")), "{ping}");
    }
    for (before, after) in before.0.iter().flatten().zip(packets().iter().flatten()) {
        assert!(after - before >= 2 * FRAMES, "{before}, then {after} packets on a memif interface");
    }
    assert_eq!(errors(), before.1);
    until("testpmd and the router count the same", SOON, || {
        let theirs = [testpmd.packets_of(0), testpmd.packets_of(1)];
        let ([received, counted], errors) = (packets(), before.1[1]);
        let sent = [counted[0] - errors[0], counted[1] - errors[1]];
        theirs == [(sent[0], received[0]), (sent[1], received[1])]
    });
}

#[test]
fn a_dpdk_client_sends_large_frames_in_several_buffers() {
    large_frames_pass("master", 2048);
}

#[test]
fn a_dpdk_client_sends_large_frames_in_one_buffer() {
    large_frames_pass("master", 9600);
}

#[test]
fn a_dpdk_server_sends_large_frames_in_several_buffers() {
    large_frames_pass("slave", 2048);
}

#[test]
fn a_dpdk_server_writes_large_frames_without_a_copy() {
    large_frames_pass("slave trusted", 2048);
}

/// Peers that hold the router's own buffers are killed while packets pass. Every buffer must return to the router, and
/// packets must pass again with a new peer.
#[test]
fn buffers_return_from_killed_peers() {
    let Some((r, dir)) = lab() else { return };
    let file = |n: u32| dir.join(format!("memif{n}.sock"));
    let router = Router::start(
        &r,
        &format!(
            "create memif socket id 1 filename {}\n\
             create memif socket id 2 filename {}\n\
             create interface memif id 5 socket-id 1 slave trusted\n\
             create interface memif id 6 socket-id 2 slave trusted ring-size 4096\n\
             set interface state memif1/5 up\n\
             set interface state memif2/6 up\n\
             set interface ip address memif1/5 10.0.0.1/24\n\
             set interface ip address memif2/6 10.0.1.1/24\n\
             set ip neighbor memif2/6 10.0.1.2 02:00:00:00:00:02\n\
             ip route add 198.18.0.0/15 via 10.0.1.2\n",
            file(1).display(),
            file(2).display()
        ),
    );
    // Free buffers may be in the caches of threads.
    let buffers = || {
        let shown = router.json("show buffers");
        let [available, cached, lent, used, lost] =
            ["available", "cached", "lent", "used", "lost"].map(|what| shown[what].as_u64().unwrap());
        (available + cached, lent, used, lost)
    };
    let at_home = buffers();
    assert_eq!((at_home.1, at_home.2, at_home.3), (0, 0, 0), "no buffer is in use before a peer connects");
    let to = format!("txonly --auto-start --eth-peer=0,{}", mac(&router, "memif1/5"));
    let start = |n: u32| {
        let _ = std::fs::remove_file(file(n));
        let mode = if n == 1 { to.as_str() } else { "rxonly --auto-start" };
        Testpmd::start(&r, "server", &file(n), n + 4, mode, "")
    };
    let kill = |testpmd: Testpmd, n: u32| {
        assert!(buffers().1 > 0, "the peer holds buffers of the router");
        drop(testpmd);
        let interface = format!("memif{n}/{}", n + 4);
        until("the link is down", SOON, || {
            router.json(&format!("show interface {interface}"))[0]["link_up"] == false
        });
        assert!(!connected(&router, &interface));
    };
    let flows = |sink: &mut Testpmd| {
        let before = sink.packets().0;
        until("packets pass", SOON, || sink.packets().0 > before + 50_000);
    };
    for _ in 0..3 {
        let (source, mut sink) = (start(1), start(2));
        flows(&mut sink);
        kill(sink, 2);
        let mut sink = start(2);
        flows(&mut sink);
        kill(source, 1);
        let source = start(1);
        flows(&mut sink);
        kill(source, 1);
        kill(sink, 2);
        let mut now = buffers();
        let all = testkit::process::poll(SOON, || {
            now = buffers();
            (now == at_home).then_some(())
        });
        assert!(all.is_some(), "free, lent, used, lost: {now:?} of {at_home:?}");
    }
    assert_eq!(router.counter("memif1/5", "rx-error"), 0);
}

#[test]
fn a_killed_router_or_peer_connects_again() {
    let Some((r, dir)) = lab() else { return };
    let file = dir.join("memif1.sock");
    let commands = format!(
        "create memif socket id 1 filename {}\n\
         create interface memif socket-id 1 slave\n\
         set interface state memif1/0 up\n\
         set interface ip address memif1/0 10.0.0.1/24\n",
        file.display()
    );
    let mut router = Router::start(&r, &commands);
    assert!(router.ctl("show interface").contains("up, link down"));
    // testpmd answers ARP and pings.
    let answered = |router: &Router| router.attempt("ping 10.0.0.9 repeat 1").stdout.contains("1 received");
    let first = Testpmd::start(&r, "server", &file, 0, "icmpecho --auto-start", "");
    until("testpmd answers", SOON, || answered(&router));
    drop(first);
    until("the link is down", SOON, || router.ctl("show interface").contains("up, link down"));
    assert!(!router.ctl("show ip fib").contains("10.0.0.0/24"), "routes are withdrawn with the link");
    let again = || {
        let _ = std::fs::remove_file(&file);
        Testpmd::start(&r, "server", &file, 0, "icmpecho --auto-start", "")
    };
    let mut second = again();
    // This DPDK polls rings on one thread and unmaps them on another when the peer goes, which sometimes crashes testpmd.
    let lives = |second: &mut Testpmd| {
        if !second.process.running() {
            *second = again();
        }
    };
    until("the new testpmd answers", SOON, || answered(&router));
    router.kill();
    router = Router::start(&r, &commands);
    until("testpmd answers the new router", SOON, || {
        lives(&mut second);
        answered(&router)
    });
    // A change of the ring size needs a new connection, and the router reports how long traffic was interrupted.
    let saved = dir.join("saved.yaml");
    router.ctl(&format!("config save {}", saved.display()));
    let text = std::fs::read_to_string(&saved).unwrap();
    assert!(text.contains("role: slave\n"), "{text}");
    std::fs::write(&saved, text.replace("role: slave\n", "role: slave\n      ring-size: 256\n")).unwrap();
    let said = router.ctl(&format!("config apply {}", saved.display()));
    // On a busy machine the connection may take longer than the apply waits for the peer. Then the log reports it.
    assert!(said.contains("memif1/0 was reopened"), "{said}");
    let interrupted = "memif1/0: reopened, traffic was interrupted for ";
    until("the time is logged", SOON, || {
        lives(&mut second);
        router.log().contains(interrupted)
    });
    assert!(router.ctl("show memif").contains("256"), "{}", router.ctl("show memif"));
    until("testpmd answers through the new rings", LIMIT, || {
        lives(&mut second);
        answered(&router)
    });
    assert!(second.process.running() && second.packets().0 > 0);
    second.say("quit");
    assert!(second.process.finish(LIMIT).ok());
}
