//! Tests of the commands of MSS clamping.

use control::testing::Cli;

#[test]
fn mss_clamping_is_configured_and_shown() {
    let mut cli = Cli::with(&[&mss::Feature]);
    assert_eq!(cli.json("show interface tcp-mss-clamp"), serde_json::json!([]));
    for (word, direction) in [("enable", "both"), ("rx", "rx"), ("tx", "tx")] {
        let line = format!("set interface tcp-mss-clamp pg0 ip4 {word} ip4-mss 1400");
        cli.ok(&line);
        assert!(cli.ok("show config").contains(&format!("{line}\n")));
        let shown = cli.json("show interface tcp-mss-clamp");
        assert_eq!((&shown[0]["direction"], &shown[0]["mss_bytes"]), (&direction.into(), &1400.into()));
        let features = cli.ok("show interface features pg0");
        assert_eq!(features.contains("\n  tcp-mss-clamping-ip4-in\n"), word != "tx", "{features}");
        assert_eq!(features.contains("\n  tcp-mss-clamping-ip4-out\n"), word != "rx", "{features}");
    }
    assert!(cli.ok("show config yaml").contains("    tcp-mss-clamp: { ip4: 1400, direction: tx }\n"));
    cli.refused("set interface tcp-mss-clamp pg0 ip4 enable", "pg0");
    let told = cli.refused("set interface tcp-mss-clamp pg0 ip4 enable ip4-mss 40", "40");
    assert!(told.contains("48 to 65495"), "{told}");
    let feature = "tcp-mss-clamping-ip4-in";
    let told = cli.refused(&format!("set interface feature pg1 {feature} arc ip4-unicast"), feature);
    assert!(told.contains("set interface tcp-mss-clamp pg1"), "{told}");
    cli.ok("set interface tcp-mss-clamp pg0 ip4 disable");
    assert!(!cli.ok("show config").contains("tcp-mss-clamp"));
}

#[test]
fn families_are_clamped_separately() {
    let mut cli = Cli::with(&[&mss::Feature]);
    cli.ok("set interface tcp-mss-clamp pg0 ip4 tx ip4-mss 1400 ip6 enable ip6-mss 1380");
    let shown = cli.json("show interface tcp-mss-clamp");
    assert_eq!((&shown[0]["family"], &shown[0]["direction"]), (&"ip4".into(), &"tx".into()));
    assert_eq!((&shown[1]["family"], &shown[1]["direction"]), (&"ip6".into(), &"both".into()));
    assert_eq!(shown[1]["mss_bytes"], 1380);
    let features = cli.ok("show interface features pg0");
    for (feature, on) in [("ip4-in", false), ("ip4-out", true), ("ip6-in", true), ("ip6-out", true)] {
        assert_eq!(features.contains(&format!("\n  tcp-mss-clamping-{feature}\n")), on, "{features}");
    }
    let yaml = cli.ok("show config yaml");
    assert!(yaml.contains("    tcp-mss-clamp: { ip4: 1400, direction: tx, ip6: 1380 }\n"), "{yaml}");
    // A command that names only one family leaves the other one unchanged.
    cli.ok("set interface tcp-mss-clamp pg0 ip6 rx ip6-mss 1300");
    cli.ok("set interface tcp-mss-clamp pg0 ip4 disable");
    assert!(cli.ok("show config").contains("set interface tcp-mss-clamp pg0 ip6 rx ip6-mss 1300\n"));
    assert!(!cli.ok("show config").contains("ip4-mss"));
    cli.refused("set interface tcp-mss-clamp pg0 ip4 enable ip4-mss 1400 ip6 tx", "pg0");
    cli.refused("set interface tcp-mss-clamp pg0 ip4 disable ip6-mss 1300", "1300");
    let feature = "tcp-mss-clamping-ip6-out";
    let told = cli.refused(&format!("set interface feature pg1 {feature} arc ip6-output"), feature);
    assert!(told.contains("pg1 ip6 enable ip6-mss"), "{told}");
}

#[test]
fn a_file_configures_mss_clamping_and_rolls_back() {
    let mut cli = Cli::with(&[&mss::Feature]);
    let before = cli.yaml();
    cli.apply("interfaces: { pg0: { tcp-mss-clamp: { ip4: 1400, direction: tx } }, pg1: {} }\n").unwrap();
    let with = cli.yaml();
    assert!(with.contains("    tcp-mss-clamp: { ip4: 1400, direction: tx }\n"), "{with}");
    let told = cli.apply("interfaces:\n  pg0: { tcp-mss-clamp: { ip4: 40 } }\n").unwrap_err();
    assert!(told.contains("2:") && told.contains("40 is not a number from 48 to 65495"), "{told}");
    assert_eq!(cli.yaml(), with, "a file with a fault changes nothing");
    cli.ok("config rollback");
    assert_eq!(cli.yaml(), before);
}
