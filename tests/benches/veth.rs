//! Measures the CPU time of the whole machine for forwarding between two veth pairs: by AF_XDP, by af_packet, and by the
//! Linux kernel. Sender, receiver and cores are the same for all. Also measures the CPU time of an idle router.
//! `cargo bench -p scenarios --bench veth` prints a table and adds to `target/bench/io.json`, one object a line.
//!
//! The sender is a packet generator with an AF_XDP port in a namespace of its own. The cost of the sender and of the
//! pairs is the same for all. The receiver is the far end of the second pair: it counts the packets, which are addressed
//! to another station.
//!
//! The first load is low enough that AF_XDP, af_packet and the kernel forward all packets: it gives the CPU time for a packet. The second
//! load is as much as the sender can send: it gives the forwarding rate and the CPU time for a forwarded packet, including the time spent
//! on lost packets. The kernel forwards within the sender's system call, so the sender never sends more than is forwarded, and one core
//! does all the work.

use std::fs;
use std::time::{Duration, Instant};

use scenarios::{Figure, TWO_PORTS, cabled};
use testkit::netns::Host;
use testkit::process::{cpu_time, until};
use testkit::router::Router;

/// Measurements of each kind.
const REPETITIONS: usize = 7;
/// Time of each measurement.
const TIME: Duration = Duration::from_secs(2);
/// The first load, in packets a second.
const EASY: u64 = 200_000;
/// An Ethernet address that no station has.
const NOBODY: &str = "02:00:00:00:99:99";

/// Returns the busy time of all cores, in hundredths of a second, as the kernel counts it.
fn worked() -> f64 {
    let stat = fs::read_to_string("/proc/stat").expect("Linux shows the time of its cores");
    let all: Vec<f64> =
        stat.lines().next().unwrap_or("").split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq. Stolen time is not counted.
    [0, 1, 2, 5, 6].iter().filter_map(|at| all.get(*at)).sum()
}

fn received(host: &Host) -> f64 {
    host.run("cat /sys/class/net/eth0/statistics/rx_packets").trim().parse().expect("a number")
}

/// Calls `forward`, which starts forwarding, and returns the router unless the kernel forwards. Then measures two loads. First load: CPU
/// microseconds per packet. Full load: forwarded millions of packets per second, and CPU microseconds per packet.
fn measure(names: [&'static str; 3], forward: impl FnOnce(&Host) -> Option<Router>) -> Option<Vec<Figure>> {
    let (a, r, b) = cabled()?;
    let router = forward(&r);
    let mac = r.run("cat /sys/class/net/eth0/address");
    let generator = Router::start(
        &a,
        &format!(
            "create interface af_xdp host-if eth0 force\n\
             set interface state xdp-eth0 up\n\
             set interface ip address xdp-eth0 10.0.0.3/24\n\
             set ip neighbor xdp-eth0 10.0.0.1 {}\n\
             ip route add 10.0.1.0/24 via 10.0.0.1\n\
             create packet-generator interface pg0\n\
             set interface state pg0 up\n\
",
            mac.trim()
        ),
    );
    let sample = |name: &str, pace: String| {
        generator.ctl(&format!(
            "packet-generator new {{ name {name} interface pg0 node ethernet-input {pace} size 64-64 \
             data {{ IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.9.0.1 -> 10.0.1.7 UDP: 1 -> 2 }} }}"
        ));
        generator.ctl(&format!("packet-generator enable-stream {name}"));
        let first = received(&b);
        until("packets arrive", Duration::from_secs(10), || received(&b) > first + 1000.0);
        let (mut rate, mut cost) = (Vec::new(), Vec::new());
        for _ in 0..REPETITIONS {
            let (start, packets, before) = (Instant::now(), received(&b), worked());
            std::thread::sleep(TIME);
            let (packets, time) = (received(&b) - packets, start.elapsed().as_secs_f64());
            rate.push(packets / time / 1e6);
            cost.push((worked() - before) * 1e4 / packets);
        }
        generator.ctl(&format!("packet-generator disable-stream {name}"));
        (rate, cost)
    };
    let (easy_rate, easy) = sample("easy", format!("rate {EASY}"));
    let least = easy_rate.iter().copied().fold(f64::INFINITY, f64::min);
    if least < 0.95 * EASY as f64 / 1e6 {
        eprintln!("{}: only {:.0} of {EASY} packets a second arrived at times", names[0], least * 1e6);
    }
    let (rate, cost) = sample("flood", String::new());
    generator.stop();
    if let Some(router) = router {
        router.stop();
    }
    let figure = |bench, unit, samples| Figure { bench, unit, samples, target: f64::INFINITY };
    let [easy_name, rate_name, cost_name] = names;
    Some(vec![figure(easy_name, "us", easy), figure(rate_name, "Mpps", rate), figure(cost_name, "us", cost)])
}

fn kernel() -> Option<Vec<Figure>> {
    let forward = |r: &Host| {
        for command in [
            "sysctl -qw net.ipv4.ip_forward=1",
            "ip addr add 10.0.0.1/24 dev eth0",
            "ip addr add 10.0.1.1/24 dev eth1",
            &format!("ip neigh replace 10.0.1.7 lladdr {NOBODY} dev eth1"),
        ] {
            r.run(command);
        }
        None
    };
    measure(["veth-kernel-cpu", "veth-kernel-flood-rate", "veth-kernel-flood-cpu"], forward)
}

fn ports(kind: &str) -> String {
    let commands = match kind {
        "xdp" => TWO_PORTS
            .replace("create host-interface name ", "create interface af_xdp host-if ")
            .replace("host-eth", "xdp-eth"),
        _ => TWO_PORTS.to_string(),
    };
    format!("{commands}set ip neighbor {kind}-eth1 10.0.1.7 {NOBODY}\n")
}

fn af_xdp() -> Option<Vec<Figure>> {
    let forward = |r: &Host| Some(Router::start(r, &ports("xdp")));
    measure(["veth-af-xdp-cpu", "veth-af-xdp-flood-rate", "veth-af-xdp-flood-cpu"], forward)
}

fn af_packet() -> Option<Vec<Figure>> {
    let forward = |r: &Host| Some(Router::start(r, &ports("host")));
    measure(["veth-af-packet-cpu", "veth-af-packet-flood-rate", "veth-af-packet-flood-cpu"], forward)
}

/// Measures the CPU time of all threads of an idle router with interfaces, in percent of a core.
fn idle() -> Option<Vec<Figure>> {
    let (_a, r, _b) = cabled()?;
    let router = Router::start(&r, TWO_PORTS);
    // The work of the start, such as ARP, is done by then.
    std::thread::sleep(Duration::from_secs(3));
    let mut samples = Vec::new();
    for _ in 0..REPETITIONS {
        let (start, before) = (Instant::now(), cpu_time(router.id()));
        std::thread::sleep(TIME);
        let spent = cpu_time(router.id()) - before;
        samples.push(100.0 * spent.as_secs_f64() / start.elapsed().as_secs_f64());
    }
    router.stop();
    Some(vec![Figure { bench: "idle-cpu", unit: "percent", samples, target: 1.0 }])
}

fn main() {
    Figure::add("io.json", [idle, kernel, af_packet, af_xdp]);
}
