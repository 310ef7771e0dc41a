//! The tester with routers of each kind, on each testbed: seconds, and whether the numbers can be, not how large they are.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use testkit::netns::{Lab, skipped};
use testkit::process::until;
use testkit::router::binary;

/// A campaign takes as long as its routers, some seconds each.
const LONG: Duration = Duration::from_secs(120);
/// Two loads that any machine carries.
const HEAD: &str = "name = 'ci'\ntrial-seconds = 0.3\nrepetitions = 1\nprocedures = ['loads']\nloads = ['2000 fps', '5000 fps']\n\
                    [[test]]\ntraffic = 'rfc2544'\nsizes = [128]\n";

/// Where programs are found: the directory's `bin` first.
fn path(dir: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}:/usr/local/sbin:/usr/sbin:/sbin", dir.join("bin").display())
}

/// Writes a campaign of these routers; gives its file and that of its results.
fn campaign(dir: &Path, head: &str, duts: &str, testbed: &str) -> (PathBuf, PathBuf) {
    let (file, json) = (dir.join("campaign.toml"), dir.join("results.json"));
    let (keys, tests) = head.split_once("[[test]]").expect("a test");
    let text = format!("{keys}duts = [\n{duts}\n]\n[[test]]{tests}[testbed]\n{testbed}\n");
    std::fs::write(&file, text).expect("a file");
    (file, json)
}

/// Runs a campaign; its results.
fn run(lab: &Arc<Lab>, head: &str, duts: &str, testbed: &str) -> Value {
    let (file, json) = campaign(lab.dir(), head, duts, testbed);
    let mut command = Command::new(binary());
    command.args(["bench", "run"]).arg(&file).arg("--json").arg(&json).current_dir(lab.dir());
    let out = command.env("PATH", path(lab.dir())).output().expect("the binary runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&std::fs::read(&json).expect("results")).expect("JSON")
}

/// A program for the tester to find.
fn program(dir: &Path, name: &str, script: &str) {
    let file = dir.join("bin").join(name);
    std::fs::create_dir_all(dir.join("bin")).expect("a directory");
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// What the procedure that offers given loads found with a router.
fn loads<'a>(results: &'a Value, dut: &str) -> &'a Vec<Value> {
    let cell = results["cells"].as_array().and_then(|all| all.iter().find(|c| c["dut"] == dut));
    let measured =
        cell.and_then(|c| c["measurements"].as_array()?.iter().find(|m| m["found"]["procedure"] == "loads"));
    let found = measured.and_then(|m| m["found"]["result"].as_array());
    found.unwrap_or_else(|| panic!("nothing of {dut}: {:#}", results["failures"]))
}

fn count(run: &Value, what: &str) -> u64 {
    run["outcome"][what].as_u64().unwrap_or_else(|| panic!("no {what}: {run}"))
}

/// That each of these routers forwarded nearly all, and nothing that was not sent.
fn forwarded(results: &Value, duts: &[&str]) {
    assert_eq!(results["failures"], Value::Array(Vec::new()), "{:#}", results["failures"]);
    let known: Vec<_> =
        results["duts"].as_array().expect("routers").iter().map(|d| d["name"].as_str()).collect();
    assert_eq!(known, duts.iter().map(|d| Some(*d)).collect::<Vec<_>>());
    for dut in duts {
        let all = loads(results, dut);
        assert_eq!(all.len(), 2, "{dut}");
        for run in all.iter().flat_map(|l| l["runs"].as_array().expect("runs")) {
            let (sent, received) = (count(run, "sent"), count(run, "received"));
            assert!(received <= sent && received * 10 >= sent * 8 && received > 100, "{dut}: {run}");
            let busy = run["usage"]["dut_busy"].as_f64();
            assert!(busy.is_none_or(|b| (0.0..=256.0).contains(&b)), "{dut}: {run}");
        }
    }
}

fn facts<'a>(results: &'a Value, dut: &str) -> &'a Value {
    let all = results["duts"].as_array().expect("routers");
    all.iter().find(|d| d["name"] == dut).expect("the router")
}

#[test]
fn modes_of_the_kernel_and_a_cable() {
    let Some(lab) = Lab::new() else { return };
    let duts = "'none', {kind = 'linux', name = 'tuned', mode = 'tuned'}, {kind = 'linux', name = 'nat', nat = true},";
    let threaded = "{kind = 'linux', name = 'threaded', mode = 'threaded'}, {kind = 'linux', name = 'after'}";
    let results = run(&lab, HEAD, &format!("{duts}\n{threaded}"), "rps = true");
    forwarded(&results, &["none", "tuned", "nat", "threaded", "after"]);
    let lines = |dut| facts(&results, dut)["configuration"].to_string();
    assert!(lines("tuned").contains("net.ipv4.ip_early_demux=0"), "{}", lines("tuned"));
    assert!(lines("nat").contains("masquerade"), "{}", lines("nat"));
    assert!(lines("threaded").contains("/threaded"), "{}", lines("threaded"));
    assert!(!lines("after").contains("threaded"), "{}", lines("after"));
    let time = facts(&results, "after")["processor_time"].as_str().expect("words");
    assert!(time.contains("/proc/stat"), "{time}");
}

#[test]
fn volley_by_af_xdp() {
    let Some(lab) = Lab::new() else { return };
    if !lab.can_load_programs() {
        return;
    }
    let results = run(&lab, HEAD, "{kind = 'volley', name = 'xdp', driver = 'af-xdp'}", "");
    forwarded(&results, &["xdp"]);
}

#[test]
fn programs_by_shared_memory() {
    let Some(lab) = Lab::new() else { return };
    if !Command::new("dpdk-testpmd").arg("-v").output().is_ok_and(|o| !o.stderr.is_empty()) {
        skipped("needs dpdk-testpmd");
        return;
    }
    let duts = "'none', 'testpmd', {kind = 'testpmd', name = 'swap', mode = 'macswap'}, 'volley'";
    let results = run(&lab, HEAD, duts, "kind = 'memif'");
    forwarded(&results, &["none", "testpmd", "swap", "volley"]);
    assert!(facts(&results, "testpmd")["version"].as_str().is_some_and(|v| v.contains("DPDK")));
}

/// Volley understands VPP's files and commands: here it plays its part, which says whether those are right as far as it knows.
#[test]
fn a_stand_in_for_vpp() {
    let Some(lab) = Lab::new() else { return };
    let volley = binary().display();
    // Volley has a worker on the core that VPP's main thread would forward on.
    let worker = "sed -i 's/main-core \\([0-9]*\\) }/corelist-workers \\1 }/' \"$2\"";
    program(lab.dir(), "vpp", &format!("{worker}\nexec {volley} run \"$@\""));
    program(lab.dir(), "vppctl", &format!("exec {volley} ctl $*"));
    let results = run(&lab, HEAD, "'vpp'", "");
    forwarded(&results, &["vpp"]);
    let lines = facts(&results, "vpp")["configuration"].to_string();
    assert!(
        lines.contains("dpdk_plugin.so { disable }") && lines.contains("create host-interface"),
        "{lines}"
    );
}

#[test]
fn a_router_that_does_not_start_is_one_failure_and_the_next_one_runs() {
    let Some(lab) = Lab::new() else { return };
    let duts = "{kind = 'command', name = 'bad', start = 'echo this is broken >&2; exit 3', stop = 'true'}, \
                {kind = 'command', name = 'gone', start = 'sleep 1', ready = 'never said'}, {kind = 'volley', workers = 200}, 'linux'";
    let results = run(&lab, HEAD, duts, "");
    let failures = results["failures"].to_string();
    for why in [
        "bad: the router did not start: it ended",
        "this is broken",
        "gone: the router",
        "workers = 200 needs",
    ] {
        assert!(failures.contains(why), "{failures}\nand not: {why}");
    }
    assert_eq!(loads(&results, "linux").len(), 2);
}

/// A bridge of the kernel's between the links; `impair` spoils what leaves by the second, and `dropped` prints how many frames that took.
fn bridge(impair: &str, dropped: &str) -> String {
    format!(
        "{{kind = 'command', bridge = true, configure = '''
         sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
         ip link add br0 type bridge && ip link set br0 up
         ip link set $BENCH_LEFT_IF master br0 && ip link set $BENCH_RIGHT_IF master br0
         {impair}
         ''', stop = 'ip link del br0', version = 'uname -r', counters = '''
         for c in $BENCH_LEFT_IF/statistics/rx_packets $BENCH_RIGHT_IF/statistics/tx_packets; do
             echo $c: $(cat /sys/class/net/$c)
         done
         echo dropped: $({dropped})
         '''}}"
    )
}

/// A bridge that does this by `tc netem`; `None` where the kernel has none.
fn netem(lab: &Arc<Lab>, what: &str) -> Option<String> {
    let host = lab.host("probe");
    if !host.attempt("tc qdisc add dev lo root netem delay 1ms", Duration::from_secs(20)).ok() {
        skipped("needs a kernel with netem (CONFIG_NET_SCH_NETEM)");
        return None;
    }
    let dropped = r"tc -s qdisc show dev $BENCH_RIGHT_IF | sed -n 's/.*dropped \([0-9]*\).*/\1/p'";
    Some(bridge(&format!("tc qdisc add dev $BENCH_RIGHT_IF root netem limit 100000 {what}"), dropped))
}

/// A bridge that loses one frame of a hundred, by nftables, which counts them.
fn lossy() -> String {
    let set_up = "nft add table netdev loss
         nft \"add chain netdev loss out { type filter hook egress device $BENCH_RIGHT_IF priority 0; }\"
         nft 'add rule netdev loss out numgen random mod 100 < 1 counter drop'";
    bridge(set_up, "nft list chain netdev loss out | sed -n 's/.*packets //; s/ bytes.*drop//p'")
        .replace("stop = 'ip link del br0'", "stop = 'nft delete table netdev loss; ip link del br0'")
}

/// Trials at a load, with all that came of the frames before it in counters of the kernel's: one number for what came in by the bridge,
/// what left it, and what it lost on purpose.
fn impaired(lab: &Arc<Lab>, dut: &str) -> (Value, [u64; 3]) {
    let head = HEAD
        .replace("['2000 fps', '5000 fps']", "['4000 fps']")
        .replace("trial-seconds = 0.3", "trial-seconds = 1");
    let results = run(lab, &head, dut, "");
    assert_eq!(results["failures"], Value::Array(Vec::new()));
    let all = results["cells"][0]["measurements"][0]["counters"].as_array().expect("counters");
    let counted = [0, 1, 2].map(|at| all[at][1].as_str().expect("a text").parse::<u64>().expect("a number"));
    (loads(&results, "command")[0]["runs"][0].clone(), counted)
}

/// The histogram of delays: their upper bounds in nanoseconds, and how many.
fn bins(run: &Value) -> Vec<(u64, u64)> {
    serde_json::from_value(run["delays"]["bins"].clone()).expect("bins")
}

/// A trial that was invalid is run again, and is not among the results: counters have its frames, too.
fn is_only_trial(run: &Value, came_in: u64) -> bool {
    let only = came_in == count(run, "sent");
    assert!(only || came_in > count(run, "sent"), "{came_in} came in: {run}");
    only
}

/// That the trial lost about one frame of a hundred, and exactly those that the kernel has dropped.
fn one_of_a_hundred_is_lost((run, [came_in, left, dropped]): &(Value, [u64; 3])) {
    assert_eq!(*came_in, left + dropped);
    let (sent, received) = (count(run, "sent"), count(run, "received"));
    if is_only_trial(run, *came_in) {
        assert_eq!((received, sent - received), (*left, *dropped));
    }
    // 40 of 4,000, with a deviation of 6.3: six of those on either side.
    let lost = (sent - received) as f64 / sent as f64;
    assert!((0.0005..0.0195).contains(&lost), "{lost} of {sent}");
    assert_eq!(bins(run).iter().map(|b| b.1).sum::<u64>(), received);
}

#[test]
fn loss_is_found_as_the_kernel_counts_it() {
    let Some(lab) = Lab::new() else { return };
    one_of_a_hundred_is_lost(&impaired(&lab, &lossy()));
}

#[test]
fn delay_and_loss_of_netem_are_found_as_the_kernel_counts_them() {
    let Some(lab) = Lab::new() else { return };
    let Some(dut) = netem(&lab, "delay 2ms loss 1%") else { return };
    let found = impaired(&lab, &dut);
    one_of_a_hundred_is_lost(&found);
    let (all, received) = (bins(&found.0), count(&found.0, "received"));
    // Nothing is faster than it can be; a busy machine makes some slower.
    assert!(all[0].0 >= 1_990_000, "{:?}", all[0]);
    let soon: u64 = all.iter().filter(|b| b.0 < 20_000_000).map(|b| b.1).sum();
    assert!(soon * 4 >= received, "{soon} of {received} within 20 ms");
}

#[test]
fn frames_that_netem_lets_overtake_are_all_found() {
    let Some(lab) = Lab::new() else { return };
    let Some(dut) = netem(&lab, "delay 20ms reorder 25%") else { return };
    let (run, [came_in, left, dropped]) = impaired(&lab, &dut);
    assert_eq!((came_in, dropped), (left, 0));
    let (sent, received) = (count(&run, "sent"), count(&run, "received"));
    if is_only_trial(&run, came_in) {
        assert_eq!(received, sent);
    }
    // A quarter does not wait, give or take: the others wait for 20 ms at least.
    let early: u64 = bins(&run).iter().filter(|b| b.0 < 19_900_000).map(|b| b.1).sum();
    let share = early as f64 / received as f64;
    assert!((0.15..0.35).contains(&share), "{share}");
}

/// Two ports of a host that plays the tester's machine, cabled to a host that plays the router; `ssh` runs commands there.
#[test]
fn ports_cabled_to_another_machine() {
    let Some(lab) = Lab::new() else { return };
    let (t, r) = (lab.host("t"), lab.host("r"));
    lab.link((&t, "e1"), (&r, "r1"));
    lab.link((&t, "e2"), (&r, "r2"));
    program(lab.dir(), "ssh", "for last; do :; done\nexec ip netns exec r sh -c \"$last\"");
    let testbed = "kind = 'physical'\nports = ['e1', 'e2']\nrouter-ports = ['r1', 'r2']\ngbit = 1";
    let (file, json) = campaign(lab.dir(), HEAD, "{kind = 'linux', host = 'root@router'}", testbed);
    let path = path(lab.dir());
    let bench = || {
        let words = [
            "env",
            &format!("PATH={path}"),
            &format!("TMPDIR={}", lab.dir().display()),
            &binary().display().to_string(),
            "bench",
            "run",
        ]
        .map(str::to_owned);
        let files = [file.display().to_string(), "--json".to_owned(), json.display().to_string()];
        t.spawn_args(words.into_iter().chain(files))
    };
    let addresses = || r.run("ip -o -4 address show scope global");
    // What the machine needs is refused, and nothing is touched.
    t.run("ip address add 192.0.2.1/24 dev e2");
    let refused = bench().finish(LONG);
    assert!(
        !refused.ok() && refused.stderr.contains("e2: it has the address 192.0.2.1"),
        "{}",
        refused.stderr
    );
    t.run("ip route add default via 192.0.2.2 dev e2");
    let refused = bench().finish(LONG);
    assert!(refused.stderr.contains("e2: a default route leaves by this port"), "{}", refused.stderr);
    t.run("ip route del default");
    t.run("ip address del 192.0.2.1/24 dev e2");

    // A tester that is killed leaves the router as it was.
    let mut killed = bench();
    until("the router is set up", LONG, || {
        assert!(killed.running(), "{}", killed.stdout());
        addresses().contains("198.19.0.1")
    });
    drop(killed);
    until("the router is as it was", LONG, || addresses().is_empty());

    bench().finish(LONG).expect_ok();
    let results: Value = serde_json::from_slice(&std::fs::read(&json).expect("results")).expect("JSON");
    forwarded(&results, &["linux"]);
    assert!(
        results["conditions"].to_string().contains("These ports are virtual"),
        "{}",
        results["conditions"]
    );
    assert!(addresses().is_empty(), "{}", addresses());
    assert_eq!(r.run("sysctl -n net.ipv4.ip_forward").trim(), "0");
}
