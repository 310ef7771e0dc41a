//! Tests of the commands and the configuration of cross-connects.

use control::testing::Cli;
use serde_json::json;

fn cli() -> Cli {
    let mut cli = Cli::with(&[&l2::Feature]);
    // The interfaces of the tests have addresses.
    for interface in ["pg0", "pg1"] {
        cli.ok(&format!("set interface ip address del {interface} all"));
    }
    cli
}

#[test]
fn a_cross_connect_is_configured_and_shown() {
    let mut cli = cli();
    assert!(cli.ok("show mode").starts_with("l3 pg0\nl3 pg1\n"));
    cli.ok("set interface l2 xconnect pg0 pg1");
    assert!(cli.ok("show mode").starts_with("l2 xconnect pg0 pg1\nl3 pg1\n"));
    assert_eq!(
        cli.json("show mode pg0"),
        json!([{ "interface": "pg0", "mode": "l2-xconnect", "peer": "pg1" }])
    );
    assert_eq!(cli.json("show mode pg1"), json!([{ "interface": "pg1", "mode": "l3", "peer": null }]));
    assert!(cli.ok("show config").contains("set interface l2 xconnect pg0 pg1\n"));
    // Again, with another peer.
    cli.ok("create sub-interfaces pg1 7");
    cli.ok("set interface l2 xconnect pg0 pg1.7");
    assert_eq!(cli.ok("show mode pg0"), "l2 xconnect pg0 pg1.7\n");
    cli.ok("config rollback");
    assert_eq!(cli.ok("show mode pg0"), "l2 xconnect pg0 pg1\n");
    cli.ok("set interface l3 pg0");
    cli.ok("set interface l3 pg0");
    assert_eq!(cli.ok("show mode pg0"), "l3 pg0\n");
    assert!(!cli.ok("show config").contains("xconnect"));
}

#[test]
fn an_interface_routes_or_switches() {
    let mut cli = cli();
    cli.ok("set interface ip address pg0 10.0.0.1/24");
    let told = cli.refused("set interface l2 xconnect pg0 pg1", "pg0");
    assert!(told.contains("pg0 has addresses: use \"set interface ip address del pg0 all\" first"), "{told}");
    cli.ok("set interface ip address del pg0 all");
    cli.ok("set interface ip address pg1 10.0.1.1/24");
    cli.ok("set interface l2 xconnect pg0 pg1");
    let told = cli.refused("set interface ip address pg0 10.0.0.1/24", "10.0.0.1/24");
    let way =
        "pg0 is cross-connected with pg1, so it cannot route packets: use \"set interface l3 pg0\" first";
    assert!(told.contains(way), "{told}");
    for command in [
        "enable ip6 interface pg0",
        "set interface proxy-arp pg0 enable",
        "set interface unnumbered pg0 use pg1",
    ] {
        let told = cli.refused(command, "pg0");
        assert!(told.contains(way), "{command}: {told}");
    }
    cli.ok("set interface l3 pg0");
    for (on, off) in [
        ("enable ip6 interface pg0", "disable ip6 interface pg0"),
        ("set interface proxy-arp pg0 enable", "set interface proxy-arp pg0 disable"),
        ("set interface unnumbered pg0 use pg1", "set interface unnumbered del pg0"),
    ] {
        cli.ok(on);
        let told = cli.refused("set interface l2 xconnect pg0 pg1", "pg0");
        assert!(told.contains(&format!("use \"{off}\" first")), "{told}");
        cli.ok(off);
    }
    cli.ok("set interface l2 xconnect pg0 pg1");
}

#[test]
fn an_impossible_cross_connect_is_refused() {
    let mut cli = cli();
    cli.ok("create loopback interface instance 0");
    cli.ok("create sub-interfaces pg1 9 default");
    for (command, why) in [
        ("pg0 loop0", "loop0 is a loopback: it sends no packets"),
        ("pg0 pg1.9", "pg1.9 only receives"),
        ("loop0 pg0", "loop0 is a loopback: it receives no frames"),
    ] {
        let from = command.split(' ').next().unwrap();
        let told = cli.refused(&format!("set interface l2 xconnect {command}"), from);
        assert!(told.contains(why), "{command}: {told}");
    }
    let told = cli.apply("interfaces: { pg0: {} }\ncross-connects: { pg0: pg0 }\n").unwrap_err();
    assert!(told.contains("pg0 cannot be connected with itself"), "{told}");
    let path = std::env::temp_dir().join(format!("volley-l2-{}.yaml", std::process::id()));
    // The packets on the link of pg2 have no Ethernet headers. A dry run says so, too.
    for (connection, why) in
        [("pg1: pg2", "pg2 sends no Ethernet frames"), ("pg2: pg1", "pg2 receives no Ethernet frames")]
    {
        let file = format!(
            "interfaces: {{ pg1: {{}}, pg2: {{ packet-generator: {{ mode: ip4 }} }} }}\ncross-connects: {{ {connection} }}\n"
        );
        std::fs::write(&path, file).unwrap();
        let told = cli.run(&format!("config apply {} dry-run", path.display())).unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(!cli.ok("show config").contains("xconnect"));
    // A sub-interface that only receives can be the source.
    cli.ok("set interface l2 xconnect pg1.9 pg0");
}

#[test]
fn a_file_configures_cross_connects_in_one_step() {
    let mut cli = cli();
    cli.ok("set interface ip address pg0 10.0.0.1/24");
    let routed = cli.yaml();
    let file = "interfaces:\n  pg0: {}\n  pg1: {}\ncross-connects:\n  pg0: pg1\n  pg1: pg0\n";
    cli.apply(file).unwrap();
    assert!(cli.yaml().ends_with("cross-connects:\n  pg0: pg1\n  pg1: pg0\n"), "{}", cli.yaml());
    assert_eq!(cli.ok("show mode pg0"), "l2 xconnect pg0 pg1\n");
    cli.ok("config rollback");
    assert_eq!((cli.yaml(), cli.ok("show mode pg0")), (routed, "l3 pg0\n".to_string()));
    for (file, why) in [
        (
            "interfaces: { pg0: {} }\ncross-connects: { pg0: pg1 }\n",
            "f:2:19: there is no interface pg1: create it first",
        ),
        ("cross-connects: { pg0: pg1 }\n", "there is no interface pg0"),
        ("interfaces: { pg0: {}, pg1: {} }\ncross-connects: { pg0: [pg1] }\n", "f:2:24: "),
    ] {
        let told = cli.apply(file).unwrap_err();
        assert!(told.contains(why), "{file}: {told}");
    }
    assert_eq!(cli.ok("show mode pg0"), "l3 pg0\n");
}

#[test]
fn a_removed_interface_takes_its_cross_connects_with_it() {
    let mut cli = cli();
    cli.ok("create sub-interfaces pg1 7");
    cli.ok("set interface l2 xconnect pg0 pg1.7");
    cli.ok("set interface l2 xconnect pg1.7 pg0");
    cli.ok("delete sub-interface pg1.7");
    assert_eq!(cli.ok("show mode pg0"), "l3 pg0\n");
    cli.ok("create sub-interfaces pg1 7");
    assert_eq!(cli.ok("show mode pg1.7"), "l3 pg1.7\n");
    cli.ok("config rollback 2");
    assert_eq!(cli.ok("show mode pg1.7"), "l2 xconnect pg1.7 pg0\n");
}

#[test]
fn a_patch_takes_all_frames_of_a_device() {
    let mut cli = cli();
    assert_eq!(cli.ok("show l2patch"), "no l2patch entries\n");
    cli.ok("create sub-interfaces pg1 7");
    cli.ok("test l2patch rx pg1 tx pg0");
    assert_eq!(cli.ok("show l2patch").trim(), "pg1 -> pg0");
    assert_eq!(cli.json("show l2patch"), json!([{ "rx": "pg1", "tx": "pg0" }]));
    assert_eq!(cli.ok("show mode pg1"), "l2 patch pg1 pg0\n");
    assert!(cli.ok("show config").contains("test l2patch rx pg1 tx pg0\n"));
    assert!(cli.yaml().ends_with("l2-patches:\n  pg1: pg0\n"), "{}", cli.yaml());
    let told = cli.refused("set interface l2 xconnect pg1 pg0", "pg1");
    assert!(told.contains("pg1 is patched to pg0 already: use \"set interface l3 pg1\" first"), "{told}");
    let told = cli.refused("test l2patch rx pg1.7 tx pg0", "pg1.7");
    assert!(told.contains("pg1.7 is not a device: a patch is between devices"), "{told}");
    cli.refused("test l2patch rx pg0 tx pg1 del", "pg1");
    cli.ok("test l2patch rx pg1 tx pg0 del");
    assert_eq!(cli.ok("show mode pg1"), "l3 pg1\n");
    cli.ok("config rollback");
    cli.ok("set interface l3 pg1");
    assert_eq!(cli.ok("show l2patch"), "no l2patch entries\n");
}

#[test]
fn tags_are_rewritten_as_configured() {
    let mut cli = cli();
    cli.ok("create sub-interfaces pg0 100");
    cli.ok("create sub-interfaces pg1 7 dot1ad 8 inner-dot1q 9 exact-match");
    for (interface, rewrite) in [
        ("pg0.100", "pop 1"),
        ("pg0.100", "translate 1-2 dot1ad 5 6"),
        ("pg1.7", "pop 2"),
        ("pg1.7", "translate 2-1 dot1q 4094"),
        ("pg1.7", "translate 2-2 dot1q 1 2"),
        ("pg0", "push dot1q 5"),
        ("pg0", "push dot1ad 5 6"),
    ] {
        let command = format!("set interface l2 tag-rewrite {interface} {rewrite}");
        cli.ok(&command);
        assert!(cli.ok("show config").contains(&format!("{command}\n")), "{command}");
        assert!(cli.yaml().contains(&format!("  {interface}: \"{rewrite}\"\n")), "{}", cli.yaml());
    }
    let shown = json!([
        { "interface": "pg0", "received": "dot1ad 5, dot1q 6", "sent": "without 2 tags" },
        { "interface": "pg0.100", "received": "without 1 tag, dot1ad 5, dot1q 6", "sent": "without 2 tags, dot1q 100" },
        { "interface": "pg1.7", "received": "without 2 tags, dot1q 1, dot1q 2", "sent": "without 2 tags, dot1ad 8, dot1q 9" },
    ]);
    let mut found = cli.json("show tag-rewrite");
    found.as_array_mut().unwrap().sort_by_key(|row| row["interface"].to_string());
    assert_eq!(found, shown);
    for (command, about, why) in [
        ("pg0 pop 1", "pg0", "this interface is for frames without fixed tags"),
        ("pg0.100 translate 2-1 dot1q 5", "pg0.100", "this interface is for frames with one tag"),
        ("pg0 push dot1q 4095", "4095", "1 to 4094"),
        ("pg0.100 translate 1-2 dot1q 5", "translate", "expected \"pop 1\""),
        ("pg0.100 translate 1-1 dot1q 5 6", "translate", "expected \"pop 1\""),
    ] {
        let told = cli.refused(&format!("set interface l2 tag-rewrite {command}"), about);
        assert!(told.contains(why), "{command}: {told}");
    }
    let told = cli.apply("interfaces: { pg0: {} }\ntag-rewrites: { pg0: pop 1 }\n").unwrap_err();
    assert!(told.starts_with("f:2:17: pg0: pop 1 needs a sub-interface"), "{told}");
    let told = cli.apply("interfaces: { pg0: {} }\ntag-rewrites: { pg0: pop 9 }\n").unwrap_err();
    assert!(told.contains("f:2:22: unexpected \"pop 9\""), "{told}");
    for interface in ["pg0", "pg0.100", "pg1.7"] {
        cli.ok(&format!("set interface l2 tag-rewrite {interface} disable"));
        cli.ok(&format!("set interface l2 tag-rewrite {interface} disable"));
    }
    assert_eq!((cli.json("show tag-rewrite"), cli.yaml().contains("tag-rewrites")), (json!([]), false));
    cli.ok("config rollback");
    assert!(cli.yaml().ends_with("tag-rewrites:\n  pg1.7: \"translate 2-2 dot1q 1 2\"\n"), "{}", cli.yaml());
    // The sub-interface gets other tags: the tags of sent frames follow.
    let other = cli.yaml().replace("dot1ad: 8", "dot1ad: 11");
    cli.apply(&other).unwrap();
    assert_eq!(cli.json("show tag-rewrite")[0]["sent"], "without 2 tags, dot1ad 11, dot1q 9");
    let one = other.replace("          inner-dot1q: 9\n", "");
    let told = cli.apply(&one).unwrap_err();
    assert!(told.contains("pg1.7: translate 2-2 dot1q 1 2 needs a sub-interface"), "{told}");
    assert_eq!(cli.json("show tag-rewrite")[0]["sent"], "without 2 tags, dot1ad 11, dot1q 9");
    cli.ok("delete sub-interface pg1.7");
    assert!(!cli.yaml().contains("tag-rewrites"));
}
