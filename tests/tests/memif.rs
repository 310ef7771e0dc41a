//! Shared memory with another implementation: DPDK's `net_memif`, in both roles, by `dpdk-testpmd`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::netns::{Host, LIMIT, Lab, skipped};
use testkit::process::{Process, until};
use testkit::router::Router;

/// A busy machine with two cores starts and connects slowly.
const SOON: Duration = Duration::from_secs(30);

/// testpmd with one port, a memif interface, and its commands by a pipe.
struct Testpmd {
    process: Process,
    input: File,
}

impl Testpmd {
    /// `role` is `client` or `server`; `mode` how it forwards. It is quiet until it hears "start".
    fn start(host: &Host, role: &str, socket: &Path, id: u32, mode: &str, more: &str) -> Testpmd {
        let pipe = host.lab().dir().join(format!("{role}-{id}.in"));
        if !pipe.exists() {
            host.run(&format!("mkfifo {}", pipe.display()));
        }
        // Both ways, so that neither opening nor a pause in writing ends anything.
        let input = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let socket = socket.display();
        let command = format!(
            "exec stdbuf -o0 dpdk-testpmd -l 0-1 --no-pci --no-huge --no-shconf --no-telemetry -m 256 \
             --vdev=net_memif0,role={role},socket={socket},socket-abstract=no,id={id}{more} \
             -- -i --total-num-mbufs=32768 --forward-mode={mode} < {}",
            pipe.display()
        );
        let process = host.spawn_args(["sh", "-c", &command]);
        let testpmd = Testpmd { process, input };
        until("testpmd is there", SOON, || testpmd.process.stdout().contains("testpmd> "));
        testpmd
    }

    fn say(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    /// Packets that its port has received and sent.
    fn packets(&mut self) -> (u64, u64) {
        let count = |text: &str| text.matches("NIC statistics").count();
        let before = count(&self.process.stdout());
        self.say("show port stats 0");
        let whole = || {
            let text = self.process.stdout();
            let last = text.rfind("NIC statistics").map(|at| text[at..].to_string()).unwrap_or_default();
            (count(&text) > before && last.contains("Tx-pps")).then_some(last)
        };
        let mut text = String::new();
        until("statistics are shown", SOON, || {
            text = whole().unwrap_or_default();
            !text.is_empty()
        });
        let number = |name: &str| {
            let at = text.find(name).unwrap() + name.len();
            text[at..].split_whitespace().next().unwrap().parse().unwrap()
        };
        (number("RX-packets:"), number("TX-packets:"))
    }
}

/// A router in a namespace, and a place for sockets; `None` where that cannot be.
fn lab() -> Option<(Host, PathBuf)> {
    if !Command::new("dpdk-testpmd").arg("-v").output().is_ok_and(|o| !o.stderr.is_empty()) {
        skipped("needs dpdk-testpmd");
        return None;
    }
    let lab = Lab::new()?;
    let dir = lab.dir().to_owned();
    Some((lab.host("r"), dir))
}

/// The router's address on its interface to testpmd, and that of a packet that testpmd sends.
fn mac(router: &Router, interface: &str) -> String {
    router.json(&format!("show interface {interface}"))[0]["mac"].as_str().unwrap().to_string()
}

fn connected(router: &Router, interface: &str) -> bool {
    router.json(&format!("show memif {interface}"))["interfaces"][0]["connected"] == true
}

/// A router between two interfaces, of which the first is a master, or not, and the second the contrary. What comes in by
/// the first goes out by the second.
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

/// What testpmd sends comes out at the other testpmd, or is counted.
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
    until("all that was sent was received", SOON, || {
        let (sent, received) = (source.packets().1, router.counter("memif1/5", "rx packets"));
        let calm = sent == seen;
        seen = sent;
        calm && sent == received
    });
    let out = || router.counter("memif2/6", "tx packets") - router.counter("memif2/6", "tx-error");
    until("all that went out came in", SOON, || sink.packets().0 == out());
    assert!(out() > 0);
    assert_eq!(router.counter("memif1/5", "rx-error"), 0);
    let shown = router.ctl("show memif");
    assert!(shown.contains("remote-name \"DPDK") && shown.contains("secret"), "{shown}");
    assert!(!shown.contains("sesame"), "a secret is not shown:\n{shown}");
    assert!(router.ctl("show config").contains("secret sesame"));
}

#[test]
fn a_client_of_dpdks_sends_and_a_server_of_dpdks_receives() {
    all_packets_are_accounted_for(true, "slave");
}

#[test]
fn a_server_of_dpdks_sends_and_a_client_of_dpdks_receives() {
    all_packets_are_accounted_for(false, "slave");
}

#[test]
fn a_server_of_dpdks_reads_packets_where_they_lie() {
    all_packets_are_accounted_for(true, "slave trusted");
}

#[test]
fn a_server_of_dpdks_writes_packets_to_where_they_stay() {
    all_packets_are_accounted_for(false, "slave trusted");
}

#[test]
fn whoever_is_killed_is_connected_again_when_it_is_back() {
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
    until("the other side answers", SOON, || answered(&router));
    drop(first);
    until("the link is down", SOON, || router.ctl("show interface").contains("up, link down"));
    assert!(!router.ctl("show ip fib").contains("10.0.0.0/24"), "its routes went with it");
    let _ = std::fs::remove_file(&file);
    let mut second = Testpmd::start(&r, "server", &file, 0, "icmpecho --auto-start", "");
    until("the other side answers again", SOON, || answered(&router));
    router.kill();
    router = Router::start(&r, &commands);
    until("it answers the new router", SOON, || answered(&router));
    // What is agreed on with the peer is changed by another connection, and how long that took is said.
    let saved = dir.join("saved.yaml");
    router.ctl(&format!("config save {}", saved.display()));
    let text = std::fs::read_to_string(&saved).unwrap();
    assert!(text.contains("role: slave\n"), "{text}");
    std::fs::write(&saved, text.replace("role: slave\n", "role: slave\n      ring-size: 256\n")).unwrap();
    let said = router.ctl(&format!("config apply {}", saved.display()));
    assert!(said.contains("memif1/0 was opened anew: its traffic stood still for "), "{said}");
    assert!(router.ctl("show memif").contains("256"), "{}", router.ctl("show memif"));
    until("it is answered by rings of another size", SOON, || answered(&router));
    assert!(second.process.running() && second.packets().0 > 0);
    second.say("quit");
    assert!(second.process.finish(LIMIT).ok());
}
