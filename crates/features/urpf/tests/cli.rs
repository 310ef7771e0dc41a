//! The commands of reverse-path checks.

use control::testing::Cli;

#[test]
fn sources_are_checked_by_the_interfaces_mode() {
    let mut cli = Cli::with(&[&urpf::Feature]);
    assert_eq!(cli.json("show urpf"), serde_json::json!([]));
    let features = |cli: &mut Cli| cli.ok("show interface features pg0");
    for mode in ["strict", "loose"] {
        cli.ok(&format!("set urpf ip4 rx {mode} pg0"));
        assert!(cli.ok("show config").contains(&format!("set urpf ip4 rx {mode} pg0\n")));
        assert!(features(&mut cli).contains(&format!("ip4-unicast:\n  ip4-rx-urpf-{mode}\n  (available")));
        let shown = serde_json::json!([{ "interface": "pg0", "mode": mode, "mode_ip6": "off", "dropped_packets": 0 }]);
        assert_eq!(cli.json("show urpf"), shown);
        assert!(cli.ok("show urpf").contains(&format!("pg0        {mode}")), "{}", cli.ok("show urpf"));
    }
    let before = cli.ok("show config");
    let told = cli.refused("set urpf ip4 tx strict pg0", "tx");
    assert!(told.contains("on receipt only"), "{told}");
    let told =
        cli.refused("set interface feature pg1 ip4-rx-urpf-strict arc ip4-unicast", "ip4-rx-urpf-strict");
    assert!(told.contains("set urpf ip4 rx {strict | loose} pg1"), "{told}");
    assert_eq!(cli.ok("show config"), before);
    cli.ok("set urpf ip4 rx off pg0");
    assert!(!cli.ok("show config").contains("urpf") && features(&mut cli).contains("ip4-unicast:\n  none"));
}
