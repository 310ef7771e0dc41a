//! The commands of redirects.

use control::testing::Cli;
use redirect::Redirects;

fn is_on(cli: &mut Cli, interface: &str) -> bool {
    cli.ok(&format!("show interface features {interface}")).contains("ip4-output:\n  ip4-redirect\n")
}

#[test]
fn redirects_are_enabled_and_disabled_by_interface() {
    let mut cli = Cli::with(&[&redirect::Feature]);
    assert_eq!(cli.json("show interface ip redirects"), serde_json::json!([]));
    assert!(!is_on(&mut cli, "pg0"), "off by default");
    let before = cli.ok("show config");
    for line in ["set interface ip redirects pg0 enable", "set interface ip redirects pg0"] {
        cli.ok(line);
        assert!(cli.ok("show config").contains("set interface ip redirects pg0 enable\n"), "{line}");
        assert!(is_on(&mut cli, "pg0") && !is_on(&mut cli, "pg1"), "{line}");
        cli.ok("set interface ip redirects pg0 disable");
        assert_eq!((cli.ok("show config"), is_on(&mut cli, "pg0")), (before.clone(), false), "{line}");
    }
    cli.ok("set interface ip redirects pg1 disable");
    assert_eq!(cli.ok("show config"), before, "no change");
}

#[test]
fn sent_redirects_are_shown() {
    let mut cli = Cli::with(&[&redirect::Feature]);
    cli.ok("set interface ip redirects pg0 enable");
    cli.context.system.router.attached::<Redirects>().unwrap().counts.lane(0).unwrap().add(1, [3]);
    let shown = serde_json::json!([{ "interface": "pg0", "sent_redirects": 3 }]);
    assert_eq!(cli.json("show interface ip redirects"), shown);
    let text = cli.ok("show interface ip redirects");
    assert!(text.contains("Sent redirects") && text.contains("pg0"), "{text}");
}

#[test]
fn the_feature_can_be_switched_by_its_name_as_in_older_versions() {
    let mut cli = Cli::with(&[&redirect::Feature]);
    let before = cli.yaml();
    cli.ok("set interface feature pg1 ip4-redirect arc ip4-output");
    assert!(cli.ok("show config").contains("set interface ip redirects pg1 enable\n"));
    let with = cli.yaml();
    assert!(is_on(&mut cli, "pg1") && !with.contains("features"), "{with}");
    cli.ok("set interface feature pg1 ip4-redirect arc ip4-output disable");
    assert_eq!((cli.yaml(), is_on(&mut cli, "pg1")), (before, false));
    cli.apply(&with.replace("ip-redirects: true", "features: { ip4-output: [ ip4-redirect ] }")).unwrap();
    assert_eq!((cli.yaml(), is_on(&mut cli, "pg1")), (with, true));
    let told =
        cli.apply("interfaces: { pg1: { features: { ip4-unicast: [ ip4-redirect ] } } }\n").unwrap_err();
    assert!(told.contains("ip4-redirect"), "{told}");
    cli.refused("set interface ip redirects pg7 enable", "pg7");
}

#[test]
fn a_file_configures_redirects_and_rolls_back() {
    let mut cli = Cli::with(&[&redirect::Feature]);
    let before = cli.yaml();
    cli.apply("interfaces: { pg0: { ip-redirects: true }, pg1: { ip-redirects: false } }\n").unwrap();
    let with = cli.yaml();
    assert!(with.contains("    ip-redirects: true\n") && !with.contains("ip-redirects: false"), "{with}");
    assert!(is_on(&mut cli, "pg0") && !is_on(&mut cli, "pg1"));
    let told = cli.apply("interfaces:\n  pg0: { ip-redirects: 7 }\n").unwrap_err();
    assert!(told.contains("2:"), "{told}");
    assert_eq!(cli.yaml(), with, "a file with a fault changes nothing");
    cli.ok("config rollback");
    assert_eq!(cli.yaml(), before);
    assert!(!is_on(&mut cli, "pg0"));
}
