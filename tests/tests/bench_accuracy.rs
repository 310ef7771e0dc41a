//! Compares the tester's results with independent programs: the kernel's counters, nftables, netem, a relay, testpmd and
//! iperf3.

use std::process::Command;

use scenarios::tester::{Campaign, LONG, Trials, count, counter, has_testpmd, loads};
use scenarios::{Iperf, lost_on_the_way};
use serde_json::Value;
use testkit::netns::{Host, LIMIT, Lab};
use testkit::router::binary;
use testkit::skip::skipped;

/// The beginning of a campaign with a load that any machine forwards. Trials wait long enough for late frames.
const HEAD: &str = "name = 'ci'\ntrial-seconds = 1\nwaits = { residual = 1, restabilise = 0.02 }\nrepetitions = 1\n\
                    procedures = ['loads']\nloads = ['1000 fps']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [128]\n";

/// Returns a router that is a kernel bridge between the links. The command `impair` sets up the impairment of the second link's output, and
/// the command `dropped` prints how many frames the impairment dropped.
fn bridge(impair: &str, dropped: &str) -> String {
    format!(
        "{{kind = 'command', bridge = true, configure = '''
         sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
         ip link add br0 type bridge mcast_snooping 0 && ip link set br0 up
         ip link set $BENCH_LEFT_IF master br0 && ip link set $BENCH_RIGHT_IF master br0
         {impair}
         ''', stop = 'ip link del br0', version = 'uname -r', counters = '''
         echo came: $(cat /sys/class/net/$BENCH_LEFT_IF/statistics/rx_packets)
         echo left: $(cat /sys/class/net/$BENCH_RIGHT_IF/statistics/tx_packets)
         echo dropped: $({dropped})
         '''}}"
    )
}

/// Returns a bridge with this impairment by `tc netem`. `None` if the kernel has no netem (reported as skipped).
fn netem(host: &Host, what: &str) -> Option<String> {
    if !host.attempt("tc qdisc add dev lo root netem delay 1ms", LIMIT).ok() {
        skipped("needs a kernel with netem (CONFIG_NET_SCH_NETEM)");
        return None;
    }
    let dropped = r"tc -s qdisc show dev $BENCH_RIGHT_IF | sed -n 's/.*dropped \([0-9]*\).*/\1/p'";
    Some(bridge(&format!("tc qdisc add dev $BENCH_RIGHT_IF root netem limit 100000 {what}"), dropped))
}

/// Returns a bridge that drops one frame of a hundred by nftables, which counts them.
fn lossy() -> String {
    let set_up = "nft add table netdev loss
         nft \"add chain netdev loss out { type filter hook egress device $BENCH_RIGHT_IF priority 0; }\"
         nft 'add rule netdev loss out numgen random mod 100 < 1 counter drop'";
    bridge(set_up, "nft list chain netdev loss out | sed -n 's/.*packets //; s/ bytes.*drop//p'")
        .replace("stop = 'ip link del br0'", "stop = 'nft delete table netdev loss; ip link del br0'")
}

/// Returns a relay that delays by 5 ms, drops every tenth frame, and swaps every seventh with the frame before it.
fn relay() -> String {
    let tool = concat!("python3 ", env!("CARGO_MANIFEST_DIR"), "/tools/relay.py");
    format!(
        "{{kind = 'command', bridge = true, ready = 'it relays', counters = '{tool} $BENCH_DIR/relay',
          start = 'exec {tool} $BENCH_LEFT_IF $BENCH_RIGHT_IF $BENCH_DIR/relay 5 10 7'}}"
    )
}

/// Runs a campaign with a router of shell commands, and checks that the tester and the router count the same frames.
/// Returns the results, the trial at the load, and all trials.
fn impaired(lab: &Lab, dut: &str) -> (Value, Value, Trials) {
    let campaign = Campaign::write(lab, HEAD, dut, "");
    let results = campaign.run();
    assert_eq!(results["failures"], Value::Array(Vec::new()));
    let run = loads(&results, "command")[0]["runs"][0].clone();
    let trials = campaign.trials().of_procedures();
    let [came, left, dropped] = ["came", "left", "dropped"].map(|name| counter(&results, name));
    assert_eq!(came, left + dropped);
    assert_eq!([trials.sum(0, "sent"), trials.sum(0, "received") + trials.foreign()], [came, left]);
    assert_eq!(trials.sum(0, "duplicated"), 0);
    assert_eq!(bins(&run).iter().map(|b| b.1).sum::<u64>(), count(&run["outcome"], "received"));
    (results, run, trials)
}

/// Returns the histogram of delays: upper bounds in nanoseconds, and counts.
fn bins(run: &Value) -> Vec<(u64, u64)> {
    serde_json::from_value(run["delays"]["bins"].clone()).expect("bins")
}

/// Checks that about one frame in a hundred was lost.
fn one_of_a_hundred_is_lost(trials: &Trials) {
    let [sent, received] = ["sent", "received"].map(|what| trials.sum(0, what) as f64);
    // Within six standard deviations of a binomial distribution.
    let (expected, deviation) = (sent * 0.01, (sent * 0.01 * 0.99).sqrt());
    assert!((sent - received - expected).abs() <= 6.0 * deviation, "{received} of {sent}");
}

#[test]
fn measured_loss_equals_the_kernels_count() {
    let Some(lab) = Lab::new() else { return };
    one_of_a_hundred_is_lost(&impaired(&lab, &lossy()).2);
}

#[test]
fn netem_delay_and_loss_are_measured_as_the_kernel_counts() {
    let Some(lab) = Lab::new() else { return };
    let Some(dut) = netem(&lab.host("probe"), "delay 2ms loss 1%") else { return };
    let (_, run, trials) = impaired(&lab, &dut);
    one_of_a_hundred_is_lost(&trials);
    let (all, received) = (bins(&run), count(&run["outcome"], "received"));
    // No frame is faster than netem's delay. A busy machine delays some frames further.
    assert!(all[0].0 >= 1_990_000, "{:?}", all[0]);
    let soon: u64 = all.iter().filter(|b| b.0 < 20_000_000).map(|b| b.1).sum();
    assert!(soon * 4 >= received, "{soon} of {received} within 20 ms");
}

#[test]
fn all_frames_reordered_by_netem_are_measured() {
    let Some(lab) = Lab::new() else { return };
    let Some(dut) = netem(&lab.host("probe"), "delay 20ms reorder 25%") else { return };
    let (results, run, _) = impaired(&lab, &dut);
    assert_eq!(counter(&results, "dropped"), 0);
    // About a quarter of the frames is not delayed. The others are delayed by at least 20 ms.
    let early: u64 = bins(&run).iter().filter(|b| b.0 < 19_900_000).map(|b| b.1).sum();
    let share = early as f64 / count(&run["outcome"], "received") as f64;
    assert!((0.15..0.35).contains(&share), "{share}");
}

#[test]
fn tcpdump_reads_what_the_tester_counts() {
    let Some(lab) = Lab::new() else { return };
    let testbed = format!("record = '{}'", lab.dir().join("frames").display());
    let campaign = Campaign::write(&lab, HEAD, "'linux'", &testbed);
    let results = campaign.run();
    assert_eq!(results["failures"], Value::Array(Vec::new()));
    let trials = campaign.trials();
    for (file, what) in [("port0-sent", "sent"), ("port1-received", "received")] {
        let file = lab.dir().join(format!("frames/{file}.pcap"));
        let out = Command::new("tcpdump").args(["-n", "udp and src 198.18.0.2", "-r"]).arg(&file).output();
        let out = out.expect("tcpdump runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let read = out.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
        let late = if what == "sent" { 0 } else { trials.foreign() };
        let counted = trials.sum(0, what);
        assert!((counted..=counted + late).contains(&read), "{what}: {counted}, {late} late, {read} read");
    }
    // The recorded frames become the traffic of another campaign.
    let words = ["bench", "traffic", "frames/port1-received.pcap", "--name", "again", "--addresses"];
    let out = Command::new(binary()).args(words).current_dir(lab.dir()).output().expect("the binary runs");
    let traffic = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let head = HEAD.replace("'rfc2544'", "'again'").replace("sizes = [128]\n", &format!("\n{traffic}"));
    let results = Campaign::write(&lab, &head, "'linux'", "").run();
    assert_eq!(results["failures"], Value::Array(Vec::new()), "{traffic}");
    let outcome = &loads(&results, "linux")[0]["runs"][0]["outcome"];
    assert!(count(outcome, "received") > 500, "{outcome}");
}

#[test]
fn delay_loss_and_order_of_a_relay_are_measured() {
    let Some(lab) = Lab::new() else { return };
    let (results, run, trials) = impaired(&lab, &relay());
    let (sent, swapped) = (trials.sum(0, "sent"), counter(&results, "swapped"));
    // The warm-up may shift which frames are dropped by one.
    assert!(counter(&results, "dropped").abs_diff(sent / 10) <= 1, "{results}");
    // The order of frames that arrive after the end of their trial is unknown.
    let reordered = trials.sum(0, "reordered");
    assert!(reordered == swapped || reordered < swapped && trials.foreign() > 0, "{reordered} of {swapped}");
    // On a busy machine the frame before may have left already, and there is no swap.
    let most = (sent / 7 - sent / 70) + 1;
    assert!((most / 2..=most).contains(&swapped), "{swapped} of {most}");
    let figure =
        |name: &str| run["delays"]["figures"][name].as_f64().unwrap_or_else(|| panic!("{name}: {run}"));
    // The relay and the tester use different clocks, which differ by less than 1 %.
    assert!(figure("minimum_ns") >= 4_950_000.0, "{run}");
    assert!((5_000_000.0..25_000_000.0).contains(&figure("typical_ns")), "{run}");
}

#[test]
fn testpmd_counts_what_the_tester_counts() {
    let Some(lab) = Lab::new() else { return };
    if !has_testpmd() {
        return;
    }
    let head = HEAD
        .replace("['loads']", "['maximum-receive-rate', 'loads']")
        .replace("seconds = 1\n", "seconds = 0.2\n")
        + "bidirectional = true\n";
    let campaign = Campaign::write(&lab, &head, "'testpmd'", "kind = 'memif'");
    let results = campaign.run();
    assert_eq!(results["failures"], Value::Array(Vec::new()));
    let trials = campaign.trials().of_procedures();
    let mut late = 0;
    for (port, other) in [(0, 1), (1, 0)] {
        let (sent, received) = (trials.sum(port, "sent"), trials.sum(port, "received"));
        assert!(sent > 1_000, "{sent}");
        assert_eq!(sent, counter(&results, &format!("port {port} RX-packets")), "sent to port {port}");
        let left = counter(&results, &format!("port {other} TX-packets"));
        assert!(received <= left, "{received} of {left} by port {other}");
        late += left - received;
    }
    assert_eq!(late, trials.foreign());
}

/// A Linux router r between two ports of host t. The second port can move to host s.
struct Routed {
    t: Host,
    r: Host,
    s: Host,
}

impl Routed {
    fn new(lab: &std::sync::Arc<Lab>) -> Routed {
        let [t, r, s] = ["t", "r", "s"].map(|name| lab.host(name));
        r.run("sysctl -qw net.ipv4.ip_forward=1");
        r.spawn_args(["nft", "add table inet count"]).finish(LIMIT).expect_ok();
        let chain = "add chain inet count forward { type filter hook forward priority 0; }";
        r.spawn_args(["nft", chain]).finish(LIMIT).expect_ok();
        for (own, port, net) in [("e1", "r1", "198.18.0"), ("e2", "r2", "198.19.0")] {
            lab.link((&t, own), (&r, port));
            r.run(&format!("ip address add {net}.1/24 dev {port}"));
        }
        r.run("nft add rule inet count forward iifname r1 oifname r2 meta l4proto udp counter");
        Routed { t, r, s }
    }

    /// Returns the UDP frames forwarded from r1 to r2, as nftables counts them, all frames received by r1, and all frames sent
    /// by r2.
    fn counted(&self) -> [u64; 3] {
        let rules = self.r.run("nft list chain inet count forward");
        let udp = rules.split_once("packets ").and_then(|(_, rest)| rest.split(' ').next());
        let udp = udp.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no counter: {rules}"));
        let [came, left] = ["r1/statistics/rx_packets", "r2/statistics/tx_packets"]
            .map(|file| self.r.run(&format!("cat /sys/class/net/{file}")).trim().parse().expect("a number"));
        [udp, came, left]
    }
}

/// The tester and iperf3 send the same load of frames of the same size through the same router. The kernel's counts agree with those of
/// both.
#[test]
fn iperf3_and_the_tester_measure_the_same_router_alike() {
    let Some(lab) = Lab::new() else { return };
    let routed = Routed::new(&lab);
    let of = |before: [u64; 3], after: [u64; 3]| [0, 1, 2].map(|n| after[n] - before[n]);
    let begin = routed.counted();

    let testbed = "kind = 'physical'\nports = ['e1', 'e2']\ngbit = 1";
    let campaign = Campaign::write(&lab, HEAD, "{kind = 'command', configure = 'true'}", testbed);
    campaign.spawn(&routed.t, &[]).finish(LONG).expect_ok();
    let tested = routed.counted();
    let [udp, came, left] = of(begin, tested);
    let trials = campaign.trials();
    let received = trials.sum(0, "received");
    assert_eq!(trials.sum(0, "sent"), udp);
    assert!((received..=received + trials.foreign()).contains(&udp), "{received} of {udp}");
    // The counters of the ports include ARP.
    assert!((udp..udp + 50).contains(&came) && (udp..udp + 50).contains(&left), "{udp} of {came}, {left}");
    let results = campaign.results();
    let outcome = &loads(&results, "command")[0]["runs"][0]["outcome"];
    assert_eq!((count(outcome, "intended"), count(outcome, "received")), (1000, 1000));

    // iperf3 needs its two ends on two hosts.
    routed.t.run("ip link set e2 netns s");
    for (host, port, own, other) in
        [(&routed.t, "e1", "198.18.0", "198.19.0"), (&routed.s, "e2", "198.19.0", "198.18.0")]
    {
        host.run(&format!("ip link set {port} up"));
        host.run(&format!("ip address add {own}.2/24 dev {port}"));
        host.run(&format!("ip route add {other}.0/24 via {own}.1"));
    }
    // Frames of 128 bytes with headers and frame check sequence, 1,000 a second, for one second.
    let end = Iperf::run(&routed.t, &routed.s, "198.19.0.2", "-u -l 82 -b 656k -k 1000");
    let [udp, came, left] = of(tested, routed.counted());
    let sent = count(&end["sum"], "packets");
    assert!(sent >= 1000 && lost_on_the_way(&end, &routed.s) == 0, "{end}");
    // iperf3 sends one datagram before the test.
    assert!((sent..=sent + 1).contains(&udp), "{sent} sent, {udp} forwarded");
    // iperf3 also has a TCP control connection.
    assert!((udp..udp + 100).contains(&came) && (udp..udp + 100).contains(&left), "{udp} of {came}, {left}");
    let fps = sent as f64 / end["sum"]["seconds"].as_f64().expect("a time");
    assert!((800.0..1200.0).contains(&fps), "{fps} frames a second: {end}");
}
