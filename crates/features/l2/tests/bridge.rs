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
            "interface": name, "split_horizon_group": group, "learn": learn, "forward": true, "flood": true, "uu_fwd": false
        })
    };
    assert_eq!(
        cli.json("show bridge-domain 10"),
        json!([{
            "bridge_domain": 10, "tag": "office", "learn": true, "forward": true, "flood": true,
            "uu_flood": false, "arp_term": false, "arp_ufwd": false, "bvi": null, "mac_age": 5, "learned": 0, "learn_limit": 100,
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

/// A domain with a BVI, hosts, and a port for unknown unicast.
fn with_router() -> Cli {
    let mut cli = cli();
    cli.ok("create bridge-domain 10 arp-term 1");
    cli.ok("set interface l2 bridge pg0 10");
    cli.ok("set interface l2 bridge pg1 10 uu-fwd 2");
    assert_eq!(cli.ok("bvi create mac 02:00:00:00:00:99"), "bvi0\n");
    cli.ok("create loopback interface");
    assert!(
        cli.run("set ip neighbor bvi0 192.0.2.9 02:00:00:00:00:09")
            .unwrap_err()
            .to_string()
            .contains("without a bridge domain")
    );
    cli.ok("set interface l2 bridge bvi0 10 bvi 4");
    cli.ok("set interface ip address bvi0 192.0.2.1/24");
    cli.ok("set ip neighbor bvi0 192.0.2.9 02:00:00:00:00:09");
    cli.ok("set bridge-domain arp entry 10 192.0.2.5 02:00:00:00:00:05");
    cli.ok("set bridge-domain arp entry 10 2001:db8::5 02:00:00:00:00:05");
    cli.ok("set bridge-domain arp-ufwd 10");
    cli
}

#[test]
fn a_router_takes_part_in_a_domain_and_answers_for_hosts() {
    let mut cli = with_router();
    assert_eq!(cli.ok("show mode bvi0"), "l2 bridge bvi0 bd_id 10 bvi shg 4\n");
    assert!(
        cli.ok("show bridge-domain 10 detail")
            .contains("pg1 split-horizon-group 2 learn on forward on flood on uu-fwd")
    );
    let shown = cli.json("show bridge-domain 10");
    assert_eq!(
        (&shown[0]["bvi"], &shown[0]["arp_term"], &shown[0]["arp_ufwd"]),
        (&json!("bvi0"), &json!(true), &json!(true))
    );
    assert_eq!(
        cli.json("show bridge-domain arp"),
        json!([
            { "bridge_domain": 10, "ip": "192.0.2.5", "mac": "02:00:00:00:00:05" },
            { "bridge_domain": 10, "ip": "2001:db8::5", "mac": "02:00:00:00:00:05" }
        ])
    );
    assert_eq!(
        cli.json("show l2fib"),
        json!([{ "mac": "02:00:00:00:00:99", "bridge_domain": 10, "interface": "bvi0", "kind": "bvi", "age": null }])
    );
    // The file makes the same configuration, also with another port in the role.
    let (commands, file) = (cli.ok("show config"), cli.yaml());
    cli.apply("interfaces: { pg0: {}, pg1: {} }\n").unwrap();
    cli.apply(&file).unwrap();
    assert_eq!(cli.ok("show config"), commands);
    let other =
        file.replace("  pg0:\n", "  PG:\n").replace("  pg1:\n", "  pg0:\n").replace("  PG:\n", "  pg1:\n");
    assert_ne!(other, file);
    cli.apply(&other).unwrap();
    assert!(
        cli.ok("show bridge-domain detail")
            .contains("pg0 split-horizon-group 2 learn on forward on flood on uu-fwd")
    );
    cli.apply(&file).unwrap();
    // A domain goes with its hosts and entries, but not with its ports.
    cli.ok("set ip neighbor del bvi0 192.0.2.9");
    cli.ok("l2fib add 02:00:00:00:00:02 10 filter");
    for interface in ["bvi0", "pg0", "pg1"] {
        cli.ok(&format!("set interface l3 {interface}"));
    }
    cli.ok("create bridge-domain 10 del");
    assert!(!cli.ok("show config").contains("bridge-domain"));
    assert_eq!(cli.json("show bridge-domain arp"), json!([]));
    cli.ok("bvi delete bvi0");
}

#[test]
fn impossible_roles_are_refused() {
    let mut cli = with_router();
    for (command, why) in [
        (
            "set interface l2 bridge loop0 10 bvi",
            "bridge domain 10 has the BVI bvi0 already: use \"set interface l3 bvi0\" first",
        ),
        ("set interface l2 bridge loop0 10", "\"set interface l2 bridge loop0 10 bvi\" makes it the BVI"),
        ("set interface l2 bridge pg0 10 bvi", "pg0 is not a loopback"),
        (
            "set interface l2 bridge pg0 10 uu-fwd",
            "pg1 is the port for unknown unicast of bridge domain 10 already",
        ),
        ("set interface l3 bvi0", "the link of bvi0 cannot be removed: neighbor 192.0.2.9 on bvi0 needs it"),
        (
            "set bridge-domain arp entry 10 192.0.2.5 02:00:00:00:00:06 del",
            "has no host 192.0.2.5 with the address",
        ),
        ("set bridge-domain arp entry 10 224.0.0.1 02:00:00:00:00:06", "224.0.0.1 is no address of a host"),
        ("set bridge-domain arp entry 10 192.0.2.7 01:00:00:00:00:06", "is no address of a station"),
        ("set bridge-domain arp entry 11 192.0.2.5 02:00:00:00:00:06", "there is no bridge domain 11"),
        (
            "set interface l2 tag-rewrite bvi0 push dot1q 7",
            "bvi0 is a loopback: rewrite the tags of the ports",
        ),
        ("create bridge-domain 10 del", "bridge domain 10 cannot be removed"),
    ] {
        let said = cli.run(command).unwrap_err().to_string();
        assert!(said.contains(why), "{command}: {said}");
    }
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
