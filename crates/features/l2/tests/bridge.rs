//! Tests of the commands, the configuration and the messages of bridge domains.

use control::testing::Cli;
use serde_json::json;

fn cli() -> Cli {
    let mut cli = Cli::with(&[&l2::Feature]);
    for interface in ["pg0", "pg1"] {
        cli.ok(&format!("set interface ip address del {interface} all"));
    }
    cli
}

#[test]
fn a_bridge_domain_is_configured_and_shown() {
    let mut cli = cli();
    assert_eq!(cli.ok("show bridge-domain"), "no bridge-domains in use\n");
    assert!(cli.ok("show l2fib").starts_with("no l2fib entries\n"));
    assert_eq!(cli.ok("create bridge-domain 10 learn 0 mac-age 5 bd-tag office"), "bridge-domain 10\n");
    cli.ok("set bridge-domain learn 10");
    cli.ok("set bridge-domain uu-flood 10 disable");
    cli.ok("set bridge-domain learn-limit 10 100");
    cli.ok("set interface l2 bridge pg0 10");
    cli.ok("set interface l2 bridge pg1 10 3");
    cli.ok("set interface l2 learn pg1 disable");
    assert_eq!(cli.ok("show mode"), "l2 bridge pg0 bd_id 10 shg 0\nl2 bridge pg1 bd_id 10 shg 3\n");
    let port = |name: &str, group: u8, learn: bool| {
        json!({
            "interface": name, "split_horizon_group": group, "learn": learn, "forward": true, "flood": true
        })
    };
    assert_eq!(
        cli.json("show bridge-domain 10"),
        json!([{
            "bridge_domain": 10, "tag": "office", "learn": true, "forward": true, "flood": true,
            "uu_flood": false, "mac_age": 5, "learned": 0, "learn_limit": 100,
            "ports": [port("pg0", 0, true), port("pg1", 3, false)]
        }])
    );
    assert!(cli.ok("show bridge-domain detail").contains("pg1 split-horizon-group 3 learn off"));
    cli.ok("l2fib add 02:00:00:00:00:01 10 pg0 static");
    cli.ok("l2fib add 02:00:00:00:00:02 10 filter");
    let entry = |mac: &str, interface: Option<&str>, kind: &str| json!({ "mac": mac, "bridge_domain": 10, "interface": interface, "kind": kind, "age": null });
    let mut entries = cli.json("show l2fib bd_id 10 add").as_array().unwrap().clone();
    entries.sort_by_key(|entry| entry["mac"].to_string());
    assert_eq!(
        entries,
        [entry("02:00:00:00:00:01", Some("pg0"), "static"), entry("02:00:00:00:00:02", None, "filter")]
    );
    assert_eq!(cli.json("show l2fib learn"), json!([]));
    assert_eq!(cli.json("show l2fib bd_id 9"), json!([]));
    for flush in ["all", "interface pg0", "bridge-domain 10"] {
        cli.ok(&format!("l2fib flush-mac {flush}"));
    }
    cli.ok("clear l2fib");
    assert_eq!(cli.json("show l2fib").as_array().map(Vec::len), Some(2));
    // The commands and the file make the same configuration.
    let (commands, file) = (cli.ok("show config"), cli.yaml());
    cli.ok("l2fib del 02:00:00:00:00:01 10");
    cli.ok("l2fib del 02:00:00:00:00:02 10");
    cli.ok("set interface l3 pg0");
    cli.ok("set interface l3 pg1");
    cli.ok("create bridge-domain 10 del");
    assert!(!cli.ok("show config").contains("bridge"));
    assert_eq!(cli.ok("show mode pg1"), "l3 pg1\n");
    let lines = commands.lines().filter(|line| line.contains("bridge") || line.contains("l2"));
    lines.for_each(|line| drop(cli.ok(line)));
    assert_eq!(cli.yaml(), file);
    cli.apply("interfaces: { pg0: {}, pg1: {} }\n").unwrap();
    cli.apply(&file).unwrap();
    assert_eq!(cli.ok("show config"), commands);
}

#[test]
fn impossible_bridges_are_refused() {
    let mut cli = cli();
    let told = cli.refused("set bridge-domain learn 10", "10");
    assert!(told.contains("there is no bridge domain 10: use \"create bridge-domain 10\" first"), "{told}");
    let told = cli.refused("set interface l2 learn pg0", "pg0");
    assert!(told.contains("pg0 is no port of a bridge domain"), "{told}");
    cli.ok("set interface ip address pg0 10.0.0.1/24");
    let told = cli.refused("set interface l2 bridge pg0 10", "pg0");
    assert!(told.contains("use \"set interface ip address del pg0 all\" first"), "{told}");
    cli.ok("set interface ip address del pg0 all");
    cli.ok("set interface l2 bridge pg0 10");
    let told = cli.refused("set interface l2 xconnect pg0 pg1", "pg0");
    assert!(told.contains("pg0 is a port of bridge domain 10 already"), "{told}");
    let told = cli.refused("set interface ip address pg0 10.0.0.1/24", "10.0.0.1/24");
    assert!(told.contains("pg0 is a port of bridge domain 10, so it cannot route packets"), "{told}");
    for (entry, why) in [
        ("03:00:00:00:00:01 10 pg0 static", "is no address of a station"),
        ("00:00:00:00:00:00 10 filter", "is no address of a station"),
        ("02:00:00:00:00:01 10 pg1 static", "pg1 is not a port of bridge domain 10"),
    ] {
        let mac = entry.split(' ').next().unwrap();
        let told = cli.refused(&format!("l2fib add {entry}"), mac);
        assert!(told.contains(why), "{entry}: {told}");
    }
    cli.ok("l2fib add 02:00:00:00:00:01 10 pg0 static");
    for (command, place) in [("set interface l3 pg0", "pg0"), ("create bridge-domain 10 del", "10")] {
        let told = cli.run(command).unwrap_err().to_string();
        assert!(told.contains("02:00:00:00:00:01") || told.contains("pg0"), "{command} ({place}): {told}");
    }
    let told = cli.refused("l2fib del 02:00:00:00:00:07 10", "02:00:00:00:00:07");
    assert!(told.contains("bridge domain 10 has no entry of 02:00:00:00:00:07"), "{told}");
    let told = cli.run("set interface l2 bridge pg0 11").unwrap_err().to_string();
    assert!(told.contains("pg0 is not a port of bridge domain 10"), "its entry stays in domain 10: {told}");
    for (command, place, why) in [
        ("create bridge-domain 10", "10", "there is a bridge domain 10 already"),
        ("show bridge-domain 99", "99", "there is no bridge domain 99"),
        ("l2fib flush-mac interface pg1", "pg1", "pg1 is no port of a bridge domain"),
        ("l2fib add 02:00:00:00:00:07 10 pg0", "pg0", "add \"static\""),
    ] {
        let told = cli.refused(command, place);
        assert!(told.contains(why), "{command}: {told}");
    }
    // The same interface in another domain.
    cli.ok("l2fib del 02:00:00:00:00:01 10");
    cli.ok("set interface l2 bridge pg0 11");
    assert_eq!(cli.ok("show mode pg0"), "l2 bridge pg0 bd_id 11 shg 0\n");
    cli.ok("config rollback");
    assert_eq!(cli.ok("show mode pg0"), "l2 bridge pg0 bd_id 10 shg 0\n");
}

/// The MAC table grows within a change.
#[test]
fn a_file_may_have_many_entries() {
    let mut cli = cli();
    let entries: String = (0..5_000u32)
        .map(|n| format!("  \"10 02:00:00:00:{:02x}:{:02x}\": pg0\n", n >> 8, n & 0xff))
        .collect();
    let file = format!(
        "interfaces: {{ pg0: {{}}, pg1: {{}} }}\nbridge-domains: {{ 10: {{}} }}\nbridge-ports: {{ pg0: {{ bridge-domain: 10 }} }}\n\
         l2fib:\n{entries}"
    );
    cli.apply(&file).unwrap();
    assert_eq!(cli.json("show l2fib").as_array().map(Vec::len), Some(5_000));
}
