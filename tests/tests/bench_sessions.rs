//! The tester with stateful routers: connections through the kernel's NAT (RFC 9693). The tests compare the tester's counts
//! with the kernel's.

use std::collections::BTreeSet;
use std::process::Command;

use scenarios::tester::PATIENT;
use serde_json::Value;
use testkit::netns::Lab;
use testkit::router::binary;
use testkit::skip::skipped;

/// Runs a campaign of short trials and returns its report and its results. `None` if a required program is missing
/// (reported as skipped).
fn campaign(lab: &Lab, text: &str) -> Option<(String, Value)> {
    for (program, package) in [("nft", "nftables"), ("conntrack", "conntrack")] {
        if !Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success()) {
            skipped(&format!("needs {program} (package {package})"));
            return None;
        }
    }
    let (file, json) = (lab.dir().join("campaign.toml"), lab.dir().join("results.json"));
    let head =
        "name = 'ci'\ntrial-seconds = 0.1\nrepetitions = 1\nwaits = { residual = 0.03, restabilise = 0 }\n";
    std::fs::write(&file, format!("{head}{text}{PATIENT}")).expect("a file");
    let mut command = Command::new(binary());
    command.args(["bench", "run"]).arg(&file).arg("--json").arg(&json).current_dir(lab.dir());
    let out = command.output().expect("the binary runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let results = serde_json::from_slice(&std::fs::read(&json).expect("results")).expect("JSON");
    Some((String::from_utf8_lossy(&out.stdout).into_owned(), results))
}

/// Returns the results of a procedure with a router, one for each repetition.
fn found<'a>(results: &'a Value, dut: &str, procedure: &str) -> &'a Value {
    let cells = results["cells"].as_array().expect("cells");
    let cell = cells.iter().find(|c| c["dut"] == dut).unwrap_or_else(|| panic!("no {dut}: {results:#}"));
    let all = cell["measurements"].as_array().expect("measurements");
    let one = all.iter().map(|m| &m["found"]).find(|f| f["procedure"] == procedure);
    &one.unwrap_or_else(|| panic!("no {procedure}: {:#}", results["failures"]))["result"]
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no {name}: {value}"))
}

/// Checks the numbers of connections in an attempt. At most as many connections arrived and were confirmed as were tried. The kernel's
/// count, if present, is between the confirmed and the tried connections. Returns true if all tried connections were confirmed.
fn conserved(attempt: &Value) -> bool {
    let [tried, arrived, different] =
        ["connections", "arrived", "different"].map(|name| number(attempt, name));
    assert!(different <= arrived && arrived <= tried, "{attempt}");
    let Some(confirmed) = attempt["confirmed"].as_u64() else {
        assert!(arrived < tried, "{attempt}");
        return false;
    };
    assert!(arrived == tried && confirmed <= tried, "{attempt}");
    if let Some(counted) = attempt["counted"].as_u64() {
        // No other host in the namespace opens connections.
        assert!(counted >= confirmed && counted <= tried, "{attempt}");
    }
    confirmed == tried
}

fn attempts(one: &Value) -> impl Iterator<Item = &Value> {
    one["attempts"].as_array().expect("attempts").iter()
}

/// The kernel translates the source of the connections to an address of the pool. (It chooses one for each source.)
#[test]
fn sources_are_translated_to_an_address_of_a_pool() {
    let Some(lab) = Lab::new() else { return };
    let frames = lab.dir().join("frames");
    let text = format!(
        "procedures = ['session-rate']\nmost-sessions = 1000\n\
         duts = [{{ kind = 'linux', nat = true, nat-pool = '203.0.113.0/30' }}]\n\
         [testbed]\nrecord = '{}'\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\nsessions = 1000\n",
        frames.display()
    );
    let Some((report, results)) = campaign(&lab, &text) else { return };
    assert_eq!(results["failures"], Value::Array(Vec::new()), "{report}");
    let file = frames.join("port1-received.pcap");
    let out =
        Command::new("tcpdump").args(["-n", "-r"]).arg(&file).arg("udp").output().expect("tcpdump runs");
    let text = String::from_utf8_lossy(&out.stdout);
    let source = |line: &str| {
        let (_, rest) = line.split_once(" IP ")?;
        let (address, _port) = rest.split_once(" > ")?.0.rsplit_once('.')?;
        Some(address.to_owned())
    };
    let sources: BTreeSet<String> = text.lines().filter_map(source).collect();
    let pool: BTreeSet<String> = (0..4).map(|n| format!("203.0.113.{n}")).collect();
    assert!(
        sources.len() == 1 && sources.is_subset(&pool),
        "{sources:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// When all connections of an attempt are established, the kernel's NAT counts the same number. It counts none after a teardown. Trials
/// send through the connections in both directions.
#[test]
fn the_kernel_counts_the_connections_of_the_tester() {
    let Some(lab) = Lab::new() else { return };
    let text = "procedures = ['session-rate', 'session-capacity', 'session-teardown', 'loads']\n\
                loads = ['4000 fps']\nmost-sessions = 4000\nduts = [{ kind = 'linux', nat = true }]\n\
                [[test]]\ntraffic = 'rfc2544'\nsizes = [64]\nsessions = 1000\nbidirectional = true\n";
    let Some((report, results)) = campaign(&lab, text) else { return };
    assert_eq!(results["failures"], Value::Array(Vec::new()), "{report}");
    let rate = &found(&results, "linux", "session-rate")[0];
    // Any machine establishes a thousand connections a second.
    let cps = rate["search"]["throughput_fps"].as_f64().unwrap_or_else(|| panic!("no rate: {rate}"));
    assert!((1_000.0..1e7).contains(&cps), "{cps}");
    let held = attempts(rate).filter(|a| conserved(a)).inspect(|a| assert_eq!(number(a, "counted"), 1_000));
    assert!(held.count() > 0, "{rate}");
    let capacity = &found(&results, "linux", "session-capacity")[0];
    assert_eq!((number(capacity, "connections"), capacity["ended"].as_str()), (4_000, Some("all-forwarded")));
    let counts: Vec<_> = attempts(capacity).filter(|a| conserved(a)).map(|a| number(a, "counted")).collect();
    assert_eq!(counts, [1_000, 2_000, 4_000], "{capacity}");
    let teardown = &found(&results, "linux", "session-teardown")[0];
    assert_eq!((number(&teardown["filled"], "counted"), number(teardown, "left")), (1_000, 0), "{teardown}");
    assert!(teardown["seconds"].as_f64().is_some_and(|s| s > 0.0), "{teardown}");
    let run = &found(&results, "linux", "loads")[0]["runs"][0]["outcome"];
    let [sent, received] = ["sent", "received"].map(|name| number(run, name));
    // In both directions. The responder's frames arrive only through existing connections.
    assert!(received <= sent && received * 10 >= sent * 9 && sent > 700, "{run}");
    assert!(
        report.contains("Maximum connection establishment rate (RFC 9693 sections 4.5 and 4.6)"),
        "{report}"
    );
    assert!(report.contains("rfc2544, 1000 sessions, both directions"), "{report}");
}

/// The size of a table of 300 connections is measured to 1 %. A router without a command that empties its table has no
/// result, and the failure gives the reason.
#[test]
fn the_size_of_a_full_table_is_measured() {
    let Some(lab) = Lab::new() else { return };
    let nat = r#"
    { kind = 'command', name = 'small', configure = '''
        sysctl -qw net.ipv4.ip_forward=1
        for side in LEFT RIGHT; do
            eval "dev=\$BENCH_${side}_IF own=\$BENCH_${side}_IP4 net=\$BENCH_${side}_NET4 hop=\$BENCH_${side}_HOP4"
            ip link set $dev up; ip address add $own dev $dev; ip route add $net via $hop dev $dev
        done
        nft add table inet small
        nft 'add chain inet small nat { type nat hook postrouting priority 100; }'
        nft add rule inet small nat oifname $BENCH_RIGHT_IF masquerade
        nft 'add set inet small known { typeof udp sport . udp dport; size 300; flags dynamic,timeout; timeout 10m; }'
        nft 'add chain inet small forward { type filter hook forward priority 0; }'
        nft 'add rule inet small forward ct state new add @known { udp sport . udp dport } accept'
        nft 'add rule inet small forward ct state new drop'
        ''', forget = 'nft flush set inet small known; conntrack -F',
        counters = 'echo known: $(nft list set inet small known | grep -o expires | wc -l)',
        stop = 'nft delete table inet small; ip address flush dev $BENCH_LEFT_IF; ip address flush dev $BENCH_RIGHT_IF' },
    { kind = 'linux', name = 'plain' },
"#;
    let text = format!(
        "procedures = ['session-capacity']\nmost-sessions = 2000\nduts = [{nat}]\n\
         [[test]]\ntraffic = 'rfc2544'\nsizes = [64]\nsessions = 100\n"
    );
    let Some((report, results)) = campaign(&lab, &text) else { return };
    let capacity = &found(&results, "small", "session-capacity")[0];
    assert!(
        attempts(capacity).filter(|a| conserved(a)).all(|a| number(a, "connections") <= 300),
        "{capacity}"
    );
    let (held, too_many) = (number(capacity, "connections"), number(capacity, "upper"));
    // The search stops within 1 % of the size.
    assert!(held >= 297 && (held..too_many).contains(&300) && too_many <= 304, "{capacity}\n{report}");
    let failures = results["failures"].to_string();
    assert!(
        failures
            .contains("plain, rfc2544, 100 sessions, 64 bytes, session-capacity: the tester cannot delete"),
        "{failures}"
    );
}
