//! Short campaigns with each kind of router on each testbed. The tests check that the results are plausible, not how high
//! they are.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use scenarios::tester::{Campaign, LONG, count, has_testpmd, loads, program, vpp};
use serde_json::Value;
use testkit::netns::Lab;
use testkit::process::until;
use testkit::router::binary;
use testkit::skip::skipped;

/// The beginning of a campaign with two loads that any machine forwards.
const HEAD: &str = "name = 'ci'\ntrial-seconds = 0.3\nrepetitions = 1\nwaits = { residual = 0.1, restabilise = 0.02 }\nprocedures = ['loads']\nloads = ['2000 fps', '5000 fps']\n\
                    [[test]]\ntraffic = 'rfc2544'\nsizes = [128]\n";

/// Runs a campaign and returns its results.
fn run(lab: &Lab, head: &str, duts: &str, testbed: &str) -> Value {
    Campaign::write(lab, head, duts, testbed).run()
}

/// Checks that each of these routers forwarded at least 80 % of the frames, and no frame that was not sent.
fn forwarded(results: &Value, duts: &[&str]) {
    assert_eq!(results["failures"], Value::Array(Vec::new()), "{:#}", results["failures"]);
    let known: Vec<_> =
        results["duts"].as_array().expect("routers").iter().map(|d| d["name"].as_str()).collect();
    assert_eq!(known, duts.iter().map(|d| Some(*d)).collect::<Vec<_>>());
    for dut in duts {
        let all = loads(results, dut);
        assert_eq!(all.len(), 2, "{dut}");
        for run in all.iter().flat_map(|l| l["runs"].as_array().expect("runs")) {
            let (sent, received) = (count(&run["outcome"], "sent"), count(&run["outcome"], "received"));
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
fn tester_measures_kernel_modes_and_a_cable() {
    let Some(lab) = Lab::new() else { return };
    let duts = "'none', {kind = 'linux', name = 'tuned', mode = 'tuned'}, {kind = 'linux', name = 'nat', nat = true}";
    let results = run(&lab, HEAD, duts, "");
    forwarded(&results, &["none", "tuned", "nat"]);
    let lines = |dut| facts(&results, dut)["configuration"].to_string();
    assert!(lines("tuned").contains("net.ipv4.ip_early_demux=0"), "{}", lines("tuned"));
    assert!(lines("nat").contains("masquerade"), "{}", lines("nat"));
    let time = facts(&results, "tuned")["processor_time"].as_str().expect("words");
    assert!(time.contains("/proc/stat"), "{time}");
}

#[test]
fn threaded_kernel_mode_is_undone_after_its_router() {
    let Some(lab) = Lab::new() else { return };
    if !rustix::process::geteuid().is_root() {
        skipped("needs root, to bind kernel threads to a core");
        return;
    }
    let duts = "{kind = 'linux', name = 'threaded', mode = 'threaded'}, {kind = 'linux', name = 'after'}";
    let results = run(&lab, HEAD, duts, "rps = true");
    forwarded(&results, &["threaded", "after"]);
    let lines = |dut| facts(&results, dut)["configuration"].to_string();
    assert!(lines("threaded").contains("/threaded"), "{}", lines("threaded"));
    assert!(!lines("after").contains("threaded"), "{}", lines("after"));
}

/// A user without root who may create user namespaces can run campaigns.
#[test]
fn an_ordinary_user_measures() {
    let Some(lab) = Lab::new() else { return };
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let allowed = [&nobody[..], &["unshare", "--user", "--map-root-user", "--net", "true"]].concat();
    if !Command::new(allowed[0]).args(&allowed[1..]).output().is_ok_and(|o| o.status.success()) {
        skipped("needs root to become an ordinary user, and user namespaces for that one");
        return;
    }
    std::fs::set_permissions(lab.dir(), std::fs::Permissions::from_mode(0o777))
        .expect("the test owns the directory");
    // Other users may not read the build directory. The router runs the tester that is beside it.
    let volley = lab.dir().join("volley");
    std::fs::copy(binary(), &volley).expect("a copy");
    let tester = binary().with_file_name("volley-bench");
    std::fs::copy(tester, lab.dir().join("volley-bench")).expect("a copy");
    let campaign = Campaign::write(&lab, HEAD, "'linux', 'volley'", "");
    let mut command = Command::new(nobody[0]);
    command.args(&nobody[1..]).arg(&volley).args(campaign.words()).current_dir(lab.dir());
    let out = command.output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let results = campaign.results();
    forwarded(&results, &["linux", "volley"]);
    assert!(results["conditions"].to_string().contains("(RPS) needs root"), "{}", results["conditions"]);
    let volley = results["duts"].to_string();
    assert!(volley.contains("create host-interface") && volley.contains("since AF_XDP failed"), "{volley}");
}

#[test]
fn tester_measures_volley_with_af_xdp() {
    let Some(lab) = Lab::new() else { return };
    if !lab.can_load_programs() {
        return;
    }
    let results = run(&lab, HEAD, "{kind = 'volley', name = 'xdp', driver = 'af-xdp'}", "");
    forwarded(&results, &["xdp"]);
}

#[test]
fn tester_measures_programs_with_shared_memory() {
    let Some(lab) = Lab::new() else { return };
    if !has_testpmd() {
        return;
    }
    let duts = "'none', 'testpmd', {kind = 'testpmd', name = 'swap', mode = 'macswap'}, 'volley'";
    let results = run(&lab, HEAD, duts, "kind = 'memif'");
    forwarded(&results, &["none", "testpmd", "swap", "volley"]);
    assert!(facts(&results, "testpmd")["version"].as_str().is_some_and(|v| v.contains("DPDK")));
}

/// Volley takes the place of VPP, whose files and commands it understands. The test checks these files and commands as far as Volley
/// supports them.
#[test]
fn tester_configures_vpp_with_files_that_volley_accepts() {
    let Some(lab) = Lab::new() else { return };
    let path = stand_in_for_vpp(&lab);
    let beds = [("", "hw-addr"), ("kind = 'memif'", "no-zero-copy")];
    let duts = ["'vpp'".to_owned(), format!("{{ kind = 'vpp', program = '{path}' }}")];
    for (dut, (bed, own)) in duts.iter().flat_map(|dut| beds.map(|bed| (dut, bed))) {
        let results = run(&lab, HEAD, dut, bed);
        forwarded(&results, &["vpp"]);
        let facts = facts(&results, "vpp");
        let lines = facts["configuration"].to_string();
        for line in ["dpdk_plugin.so { disable }", "set interface mtu packet 1500", own] {
            assert!(lines.contains(line), "{line}: {lines}");
        }
        let version = facts["version"].as_str().expect("a version");
        assert!(
            version.contains("variant skx (Intel Skylake)") && version.contains("huge pages"),
            "{version}"
        );
    }
}

#[test]
fn tester_measures_vpp_on_virtual_links() {
    measure_vpp("");
}

#[test]
fn tester_measures_vpp_with_shared_memory() {
    measure_vpp("kind = 'memif'");
}

/// Held while VPP runs: it changes the machine's huge pages, which the tester restores.
static ONE_VPP: Mutex<()> = Mutex::new(());

/// Measures the real VPP on a testbed, with one route and with 5,000.
fn measure_vpp(testbed: &str) {
    let Some(path) = vpp() else {
        return skipped("needs FD.io VPP: set VOLLEY_VPP to the path of its program");
    };
    let Some(lab) = Lab::new() else { return };
    let _alone = ONE_VPP.lock();
    // VPP reserves huge pages of the machine.
    let huge_pages = || std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
    let before = huge_pages();
    let dut = format!("{{ kind = 'vpp', program = '{}' }}", path.display());
    for head in [HEAD, &HEAD.replace("sizes = [128]", "sizes = [1518]\nroutes = 5000")] {
        let results = run(&lab, head, &dut, testbed);
        forwarded(&results, &["vpp"]);
        let facts = facts(&results, "vpp");
        let version = facts["version"].as_str().expect("a version");
        assert!(version.starts_with("vpp v") && version.contains("; variant "), "{version}");
        let counters = results["cells"][0]["measurements"][0]["counters"].to_string();
        assert!(counters.contains("lookup clocks"), "{counters}");
    }
    assert_eq!(huge_pages(), before);
}

/// Writes programs that answer as VPP's do, and returns the path of the first one.
fn stand_in_for_vpp(lab: &Lab) -> String {
    let volley = binary().display();
    // VPP's main thread forwards. Volley has a worker on that core instead, and its checksums are always right.
    let worker = "sed -i 's/main-core \\([0-9]*\\) }/corelist-workers \\1 }/' \"$2\"";
    let commands = "sed -i 's/ cksum-gso-disable//' \"$(dirname \"$2\")/vpp.cli\"";
    program(lab.dir(), "vpp", &format!("{worker}\n{commands}\nexec {volley} run \"$@\""));
    let variants = "printf '  node function variants:\\n    Name  Priority  Active  Description\\n    skx  100  yes  Intel Skylake\\n'";
    let node = format!("case \"$*\" in *'show node ip4-lookup'*) {variants}; exit ;; esac");
    program(lab.dir(), "vppctl", &format!("{node}\nexec {volley} ctl $*"));
    lab.dir().join("bin/vpp").display().to_string()
}

/// Volley is copied to another machine, and VPP found there: both are configured, started and stopped over `ssh`.
#[test]
fn tester_measures_programs_on_another_machine() {
    let Some(lab) = Lab::new() else { return };
    let _alone = ONE_VPP.lock();
    let (t, r) = (lab.host("t"), lab.host("r"));
    lab.link((&t, "e1"), (&r, "r1"));
    lab.link((&t, "e2"), (&r, "r2"));
    program(lab.dir(), "ssh", "for last; do :; done\nexec ip netns exec r sh -c \"$last\"");
    let testbed = "kind = 'physical'\nports = ['e1', 'e2']\nrouter-ports = ['r1', 'r2']\ngbit = 1";
    let path = vpp().map_or_else(|| stand_in_for_vpp(&lab), |path| path.display().to_string());
    let duts = format!(
        "{{ kind = 'volley', host = 'root@router' }}, {{ kind = 'vpp', host = 'root@router', program = '{path}', cores = [0] }}"
    );
    let routed = HEAD.replace("sizes = [128]", "sizes = [128]\nroutes = 300");
    let campaign = Campaign::write(&lab, &routed, &duts, testbed);
    let sockets = || r.run("cat /proc/net/packet").lines().count() - 1;
    let mut killed = campaign.spawn(&t, &[]);
    until("the router is started", LONG, || {
        assert!(killed.running(), "{}", killed.stdout());
        sockets() > 0
    });
    drop(killed);
    until("the router is stopped", LONG, || sockets() == 0);

    campaign.spawn(&t, &[]).finish(LONG).expect_ok();
    let results = campaign.results();
    forwarded(&results, &["volley", "vpp"]);
    for dut in ["volley", "vpp"] {
        let facts = facts(&results, dut);
        let lines = facts["configuration"].to_string();
        for line in ["taskset --cpu-list 0 ", "# NUMA node of r1: ", "create host-interface name r1"] {
            assert!(lines.contains(line), "{line}: {lines}");
        }
        assert!(lines.contains("$BENCH_DIR/startup.conf"), "{lines}");
    }
    assert!(facts(&results, "volley")["version"].to_string().contains("SHA-256"));
    assert_eq!((sockets(), r.run("ip -o link show up").matches(": r").count()), (0, 2));

    let missing = "{ kind = 'volley', host = 'root@router', program = '/none/volley' }";
    let campaign = Campaign::write(&lab, HEAD, missing, testbed);
    assert!(!campaign.spawn(&t, &[]).finish(LONG).ok());
    let failures = campaign.results()["failures"].to_string();
    assert!(failures.contains("program /none/volley not found on the router"), "{failures}");
}

/// Several threads send floods. At least 80 % of the frames arrive, and no more than were sent, over a cable and through the kernel.
#[test]
fn several_threads_send_a_flood() {
    let Some(lab) = Lab::new() else { return };
    let flood = "[[traffic]]\nname = 'flood'\n[[traffic.flows]]\nname = 'a'\nmark = 'flood'\nframes = [{ family = 'ipv4' }]\n";
    let head = HEAD.replace("'rfc2544'", "'flood'\nbidirectional = true") + flood;
    let results = run(&lab, &head, "'none', 'linux'", "senders = 2\nsender-cores = [0, 1]");
    forwarded(&results, &["none", "linux"]);
    let conditions = results["conditions"].to_string();
    assert!(conditions.contains("Floods are sent by 2 threads of each port on core 0, 1"), "{conditions}");
}

#[test]
fn a_missing_program_is_one_failure() {
    let Some(lab) = Lab::new() else { return };
    let results = run(&lab, HEAD, "{ kind = 'vpp', program = '/none/vpp' }, 'linux'", "");
    let why = "vpp: program /none/vpp not found: change the key \"program\"";
    assert_eq!(results["failures"], serde_json::json!([why]));
}

#[test]
fn a_router_that_fails_to_start_is_one_failure() {
    let Some(lab) = Lab::new() else { return };
    let duts = "{kind = 'command', name = 'bad', start = 'echo this is broken >&2; exit 3', stop = 'true'}, \
                {kind = 'command', name = 'gone', start = 'sleep 1', ready = 'never said', stop = 'touch FILE; exit 4'}, \
                {kind = 'command', name = 'stays', start = 'echo I am up', stop = 'echo I stay >&2; exit 5'}, \
                'linux'";
    // The stop command also runs after the router has died.
    let stopped = lab.dir().join("stopped");
    let duts = &duts.replace("FILE", &stopped.display().to_string());
    let head = HEAD.replace("['loads']", "['loads', 'maximum-receive-rate']");
    let results = run(&lab, &head, duts, "");
    let failures = results["failures"].to_string() + &results["caveats"].to_string();
    for why in [
        "bad: the router did not start: its program ended",
        "this is broken",
        "gone: the router",
        "; stop: touch ",
        "exit status: 4",
        "stays, rfc2544, 128 bytes: the router forwards nothing: port 0 sent ",
        "port 1 received none of them; no ARP or Neighbor Discovery request arrived at port 1",
        "its last output: I am up",
        "stays: stop: echo I stay >&2; exit 5: exit status: 5: I stay: it may still run",
    ] {
        assert!(failures.contains(why), "missing: {why}\nin {failures}");
    }
    // Reported once, not for each procedure.
    assert_eq!(failures.matches("forwards nothing").count(), 1, "{failures}");
    assert!(stopped.exists());
    assert_eq!(loads(&results, "linux").len(), 2);
}

/// Commands get the routes on their standard input.
#[test]
fn commands_change_the_routes_of_a_router() {
    let Some(lab) = Lab::new() else { return };
    let [log, stuck] = ["routes", "stuck"].map(|name| lab.dir().join(name));
    let set_up = "for side in LEFT RIGHT; do eval ip address add \\$BENCH_${side}_IP4 dev \\$BENCH_${side}_IF; done; sysctl -qw net.ipv4.ip_forward=1";
    let dut = format!(
        "{{ kind = 'command', name = 'routed', configure = '{set_up}', routes = 'tee -a {} | ip -batch -' }}, \
         {{ kind = 'command', name = 'fixed', configure = 'true' }}, \
         {{ kind = 'command', name = 'stuck', configure = 'true', routes = 'tee -a {} | grep -c del >/dev/null && exit 1; exit 0' }}",
        log.display(),
        stuck.display()
    );
    let head = HEAD.replace("sizes = [128]", "sizes = [128]\nroutes = 300");
    let test = |size, routes| format!("[[test]]\ntraffic = 'rfc2544'\nsizes = [{size}]\nroutes = {routes}\n");
    let head = head + &test(256, 2) + &test(512, 3);
    let results = run(&lab, &head, &dut, "");
    let why = "fixed, rfc2544, 300 routes, 128 bytes: the router needs routes: set the key \"routes\" to a command that adds them";
    let failures: Vec<&str> = results["failures"]
        .as_array()
        .expect("failures")
        .iter()
        .filter_map(|failure| failure.as_str())
        .collect();
    let failures = failures.join("\n");
    assert!(failures.contains(why) && !failures.contains("routed"), "{failures}");
    assert_eq!(loads(&results, "routed").len(), 2);
    for run in loads(&results, "routed").iter().flat_map(|l| l["runs"].as_array().expect("runs")) {
        let (sent, received) = (count(&run["outcome"], "sent"), count(&run["outcome"], "received"));
        assert!(received * 10 >= sent * 8 && received > 300, "{run}");
    }
    let lines = |log: &Path, verb: &str| {
        let text = std::fs::read_to_string(log).expect("the routes");
        text.lines().filter(|line| line.starts_with(&format!("route {verb} 20."))).count()
    };
    assert_eq!((lines(&log, "add"), lines(&log, "del")), (305, 302));
    // After a failed line, the same deletions are not requested again.
    assert_eq!((lines(&stuck, "add"), lines(&stuck, "del")), (305, 300));
}

/// Refused are workers = 0, more workers than there are cores for, and a load above the link's rate. A load that is too high only for some
/// frame sizes is skipped for those.
#[test]
fn impossible_loads_and_workers_are_refused() {
    let Some(lab) = Lab::new() else { return };
    let t = lab.host("t");
    lab.link((&t, "e1"), (&t, "e2"));
    let testbed = "kind = 'physical'\nports = ['e1', 'e2']\ngbit = 1";
    let said = |head: &str, duts: &str, testbed: &str| {
        let ended = Campaign::write(&lab, head, duts, testbed).spawn(&t, &[]).finish(LONG);
        assert!(!ended.ok(), "{}", ended.stdout);
        ended.stderr
    };
    let refused = said(HEAD, "'linux',\n{kind = 'volley', workers = 7000}", "");
    assert!(refused.contains("campaign.toml, line 9: router 2 (volley): workers = 7000 needs"), "{refused}");
    let refused = said(HEAD, "'linux',\n{kind = 'volley',\nworkers = 0}", "");
    assert!(
        refused.contains("campaign.toml, line 10: router 2 (volley): workers: must be at least 1"),
        "{refused}"
    );
    let refused = said(&HEAD.replace("5000 fps", "1.1 Gbit/s"), "'none'", testbed);
    assert!(
        refused.contains("campaign.toml, line 6: loads 2: 1.1 Gbit/s is more than the links"),
        "{refused}"
    );

    let head = HEAD.replace("5000 fps", "85 kfps").replace("[128]", "[64, 1518]");
    let campaign = Campaign::write(&lab, &head, "'none'", testbed);
    campaign.spawn(&t, &[]).finish(LONG).expect_ok();
    let results = campaign.results();
    let found =
        |cell: usize| results["cells"][cell]["measurements"][0]["found"]["result"].as_array().map(Vec::len);
    assert_eq!((found(0), found(1)), (Some(2), Some(1)), "{results}");
    let why = "none, rfc2544, 1518 bytes, loads: 85 kfps: skipped, because the links cannot carry them";
    assert_eq!(results["caveats"], serde_json::json!([why]));
}

/// Host t plays the tester's machine. Its two ports are cabled to host r, which plays the router; `ssh` runs commands there.
#[test]
#[expect(clippy::too_many_lines, reason = "one campaign, whose whole course is checked")]
fn tester_measures_a_router_on_another_machine() {
    let Some(lab) = Lab::new() else { return };
    let (t, r) = (lab.host("t"), lab.host("r"));
    lab.link((&t, "e1"), (&r, "r1"));
    lab.link((&t, "e2"), (&r, "r2"));
    let there = "for last; do :; done\nexec ip netns exec r sh -c \"$last\"";
    program(lab.dir(), "ssh", there);
    let testbed = "kind = 'physical'\nports = [\n'e1',\n'e2']\nrouter-ports = ['r1', 'r2']\ngbit = 1";
    let campaign = Campaign::write(&lab, HEAD, "{kind = 'linux', host = 'root@router'}", testbed);
    let addresses = || r.run("ip -o -4 address show scope global");
    // A port that the machine uses is refused, and nothing is changed.
    t.run("ip address add 192.0.2.1/24 dev e2");
    let refused = campaign.spawn(&t, &[]).finish(LONG);
    assert!(
        !refused.ok() && refused.stderr.contains("e2: it has the address 192.0.2.1"),
        "{}",
        refused.stderr
    );
    t.run("ip route add default via 192.0.2.2 dev e2");
    let refused = campaign.spawn(&t, &[]).finish(LONG);
    let why = "campaign.toml, line 17: testbed: ports 2: e2: a default route uses this port";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    t.run("ip route del default");
    t.run("ip address del 192.0.2.1/24 dev e2");
    // The earlier report and the store stay unchanged.
    let json = lab.dir().join("results.json");
    std::fs::write(&json, "before").expect("a file");
    let store = lab.dir().join("store.db");
    let _ = std::fs::remove_file(&store);
    let kinds = ["name e2.5 link e2 type vlan id 5", "name m0 link e2 type macvlan"];
    // Some kernels lack one of these.
    let can = |on: &&str| t.attempt(&format!("ip link add {on}"), LONG).ok();
    let mut refusals = 0;
    for on in kinds.into_iter().filter(can) {
        let name = on.split(' ').nth(1).expect("its name");
        let refused = campaign.spawn(&t, &[]).finish(LONG);
        let why = format!("e2: it cannot be used because of {name}");
        assert!(!refused.ok() && refused.stderr.contains(&why), "{}", refused.stderr);
        t.run(&format!("ip link del {name}"));
        refusals += 1;
    }
    if refusals == 0 {
        skipped("needs a kernel with VLANs or macvlan");
    }
    assert_eq!(std::fs::read_to_string(&json).expect("a file"), "before");
    assert!(!store.exists());

    // A router port that carries the login is refused too.
    r.run("ip address add 192.0.2.2/24 dev r2");
    program(
        lab.dir(),
        "ssh",
        "for last; do :; done\nexec ip netns exec r env SSH_CONNECTION='192.0.2.9 5 192.0.2.2 22' sh -c \"$last\"",
    );
    let refused = campaign.spawn(&t, &[]).finish(LONG);
    let why = "router-ports 2: r2: you are logged in through this port, from 192.0.2.9: name another port";
    let failures = campaign.results()["failures"].to_string();
    assert!(!refused.ok() && failures.contains(why), "{failures}");
    assert!(!addresses().contains("198.1"), "{}", addresses());
    r.run("ip address del 192.0.2.2/24 dev r2");
    program(lab.dir(), "ssh", there);

    // After the tester is killed, the router is restored.
    let mut killed = campaign.spawn(&t, &[]);
    until("the router is set up", LONG, || {
        assert!(killed.running(), "{}", killed.stdout());
        addresses().contains("198.19.0.1")
    });
    drop(killed);
    until("the router is restored", LONG, || addresses().is_empty());

    campaign.spawn(&t, &[]).finish(LONG).expect_ok();
    let results = campaign.results();
    forwarded(&results, &["linux"]);
    let lines = facts(&results, "linux")["configuration"].to_string();
    assert!(lines.contains("# cores online: ") && lines.contains("# kernel's command line: "), "{lines}");
    assert!(
        results["conditions"].to_string().contains("These ports are virtual"),
        "{}",
        results["conditions"]
    );
    assert!(addresses().is_empty(), "{}", addresses());
    let is_as_before =
        || assert_eq!((r.run("sysctl -n net.ipv4.ip_forward").trim(), addresses().as_str()), ("0", ""));
    is_as_before();

    // The router has routes during the campaign only.
    let routed = HEAD.replace("sizes = [128]", "sizes = [128]\nroutes = 300");
    let campaign = Campaign::write(&lab, &routed, "{kind = 'linux', host = 'root@router'}", testbed);
    campaign.spawn(&t, &[]).finish(LONG).expect_ok();
    forwarded(&campaign.results(), &["linux"]);
    let routes = r.run("ip route");
    assert!(!routes.contains("20.0.") && !routes.contains("198.1"), "{routes}");
    is_as_before();

    // Virtual ports have no interrupts to distribute over cores.
    let campaign =
        Campaign::write(&lab, HEAD, "{kind = 'linux', host = 'root@router', workers = 2}", testbed);
    let ended = campaign.spawn(&t, &[]).finish(LONG);
    assert!(!ended.ok() && ended.stderr.contains("nothing was measured"), "{}", ended.stderr);
    let failures = campaign.results()["failures"].to_string();
    assert!(failures.contains("linux: workers = 2: "), "{failures}");
    is_as_before();
}

/// A port is refused if a login uses its link-local address. The tester finds the login in the kernel's table of sockets.
#[test]
fn a_port_that_carries_a_login_is_refused() {
    let Some(lab) = Lab::new() else { return };
    let (t, r) = (lab.host("t"), lab.host("r"));
    lab.link((&t, "e1"), (&r, "r1"));
    lab.link((&t, "e2"), (&r, "r2"));
    for (host, port) in [(&t, "e2"), (&r, "r2")] {
        host.run(&format!(
            "sysctl -qw net.ipv6.conf.{port}.accept_dad=0 net.ipv6.conf.{port}.disable_ipv6=0"
        ));
    }
    let linked = |host: &testkit::netns::Host, port: &str| {
        host.run(&format!("ip -o -6 address show dev {port} scope link -tentative"))
    };
    until("the ports have link-local addresses", LONG, || {
        linked(&t, "e2").contains("fe80::") && linked(&r, "r2").contains("fe80::")
    });
    let text = linked(&t, "e2");
    let address = text.split_whitespace().find_map(|word| word.strip_suffix("/64")).expect("an address");
    let server = "import socket\ns = socket.create_server(('::', 22), family=socket.AF_INET6)\nprint('ready', flush=True)\nc, _ = s.accept()\nc.recv(1)";
    let server = t.spawn_args(["python3", "-c", server]);
    until("the server listens", LONG, || server.stdout().contains("ready"));
    let client = format!(
        "import socket\ns = socket.create_connection(('{address}%r2', 22))\nprint('ready', flush=True)\ns.recv(1)"
    );
    let mut client = r.spawn_args(["python3", "-c", &client]);
    until("the client is connected", LONG, || {
        assert!(client.running(), "{}", client.stderr());
        client.stdout().contains("ready")
    });
    let testbed = "kind = 'physical'\nports = ['e1', 'e2']\ngbit = 1";
    let refused = Campaign::write(&lab, HEAD, "'none'", testbed).spawn(&t, &[]).finish(LONG);
    let why = "testbed: ports 2: e2: you are logged in through this port, from fe80::";
    assert!(!refused.ok() && refused.stderr.contains(why), "{}", refused.stderr);
}

#[test]
fn tester_measures_routers_behind_taps() {
    let Some(lab) = Lab::new() else { return };
    if !lab.host("probe").can_tap() {
        return;
    }
    let bridge = "{kind = 'command', bridge = true, stop = 'ip link del br0', configure = '''
        ip link add br0 type bridge && ip link set br0 up
        ip link set $BENCH_LEFT_IF master br0 && ip link set $BENCH_RIGHT_IF master br0'''}";
    let duts = format!("'linux', {{kind = 'linux', name = 'tuned', mode = 'tuned'}}, 'volley', {bridge}");
    let head = HEAD.to_owned() + "bidirectional = true\n[[test]]\ntraffic = 'rfc5180'\nsizes = [84]\n";
    let results = run(&lab, &head, &duts, "kind = 'tap'");
    forwarded(&results, &["linux", "tuned", "volley", "command"]);
    assert!(
        results["conditions"].to_string().contains("The links are virtual (tap)"),
        "{}",
        results["conditions"]
    );
}

#[test]
fn the_tester_sends_and_receives_with_af_xdp() {
    let Some(lab) = Lab::new() else { return };
    if !lab.can_load_programs() {
        return;
    }
    forwarded(&run(&lab, HEAD, "'none', 'linux'", "driver = 'af-xdp'"), &["none", "linux"]);
    // Two ports connected by a cable.
    let t = lab.host("t");
    lab.link((&t, "e1"), (&t, "e2"));
    let testbed = "kind = 'physical'\nports = ['e1', 'e2']\ngbit = 1\ndriver = 'af-xdp'";
    let campaign = Campaign::write(&lab, HEAD, "'none'", testbed);
    campaign.spawn(&t, &[]).finish(LONG).expect_ok();
    forwarded(&campaign.results(), &["none"]);
}

/// A restart command takes a bridge down for 1 s. The test measures the outage. On a busy machine, the sender may send frames of the outage
/// after its end, so the measured time may be shorter than 1 s.
#[test]
fn reset_measures_the_outage_of_a_restart_command() {
    let Some(lab) = Lab::new() else { return };
    let bridge = "{kind = 'command', bridge = true, restart = 'ip link set br0 down; sleep 1; ip link set br0 up', stop = 'ip link del br0',
        configure = '''ip link add br0 type bridge && ip link set br0 up
        ip link set $BENCH_LEFT_IF master br0 && ip link set $BENCH_RIGHT_IF master br0'''}";
    let head = HEAD.replace("['loads']\nloads = ['2000 fps', '5000 fps']", "['throughput', 'reset']");
    let results = run(&lab, &head, bridge, "");
    assert_eq!(results["failures"], Value::Array(Vec::new()));
    let reset = &results["cells"][0]["measurements"][1]["found"]["result"][0];
    let seconds = reset["seconds"].as_f64().unwrap_or_else(|| panic!("the bridge did not recover: {reset}"));
    assert!((0.5..4.0).contains(&seconds), "{reset}");
    let lines = facts(&results, "command")["configuration"].to_string();
    assert!(lines.contains("restart: ip link set br0 down"), "{lines}");
}

/// The traffic `slavik-2025` (from a thesis) has its own source and destination addresses. The tester adds routes for both to the router.
#[test]
fn traffic_with_addresses_of_its_own_is_forwarded_both_ways() {
    let Some(lab) = Lab::new() else { return };
    let head = HEAD.replace("'rfc2544'", "'slavik-2025'\nbidirectional = true");
    let campaign = Campaign::write(&lab, &head, "'linux', 'volley'", "");
    let results = campaign.run();
    assert_eq!(results["failures"], Value::Array(Vec::new()));
    let trials = campaign.trials().of_procedures();
    for direction in [0, 1] {
        assert!(trials.sum(direction, "received") > 0, "{direction}: {results}");
    }
    let astray: u64 = trials.0.iter().map(|trial| count(trial, "astray")).sum();
    assert_eq!(astray, 0);
}
