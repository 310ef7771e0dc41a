//! Tests of the commands of router advertisements, and of their part of the configuration.

use advertise::{Advertised, Advertisement};
use control::testing::Cli;

fn cli() -> Cli {
    Cli::with(&[&advertise::Feature])
}

#[test]
fn advertised_prefixes_are_configured_and_kept() {
    let mut cli = cli();
    cli.ok("set interface ip address pg0 2001:db8::1/64");
    // As typed, and as shown.
    let mut lines = [
        ("prefix 2001:db8::/64 3600 600 no-autoconfig", "prefix 2001:db8::/64 3600 600 no-autoconfig"),
        ("prefix 2001:db8:1::/64 default", "prefix 2001:db8:1::/64"),
        (
            "prefix 2001:db8:2::/64 infinite no-onlink no-advertise",
            "prefix 2001:db8:2::/64 infinite off-link no-advertise",
        ),
        ("prefix 2001:db8:3::/48 4294967295 0 off-link", "prefix 2001:db8:3::/48 4294967295 0 off-link"),
        ("prefix 2001:db8:4::/64 2592000 604800", "prefix 2001:db8:4::/64"),
    ];
    lines.iter().for_each(|(line, _)| drop(cli.ok(&format!("ip6 nd pg0 {line}"))));
    let config = cli.ok("show config");
    let shown: Vec<&str> = config.lines().filter_map(|l| l.strip_prefix("ip6 nd pg0 prefix ")).collect();
    lines.sort_by_key(|(_, shown)| shown.contains("/64"));
    assert_eq!(shown.len(), lines.len(), "{config}");
    for (_, line) in lines {
        assert!(config.contains(&format!("ip6 nd pg0 {line}\n")), "{line} is not in\n{config}");
    }
    let yaml = cli.ok("show config yaml");
    for line in [
        "\"2001:db8::/64\": { valid: 3600, preferred: 600, autoconfig: false }",
        "\"2001:db8:1::/64\": {}",
        "\"2001:db8:2::/64\": { valid: infinite, preferred: infinite, on-link: false, advertise: false }",
        "\"2001:db8:3::/48\": { valid: infinite, preferred: 0, on-link: false }",
    ] {
        assert!(yaml.contains(&format!("        {line}\n")), "{line} is not in\n{yaml}");
    }
    let told = cli.ok("show ip6 interface pg0");
    for line in [
        "  advertises itself every 200 to 600 s, as a default router for 1800 s\n",
        "    2001:db8::/64: valid 3600 s, preferred 600 s, on-link\n",
        "    2001:db8:1::/64: valid 2592000 s, preferred 604800 s, on-link, autoconfig\n",
        "    2001:db8:3::/48: valid infinite, preferred 0 s\n",
    ] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
    assert!(!told.contains("2001:db8:2::/64"), "{told}");
    let prefixes = &cli.json("show ip6 interface pg0")[0]["advertises"]["prefixes"];
    assert_eq!(
        (&prefixes[0]["valid_seconds"], &prefixes[0]["autonomous"]),
        (&3600.into(), &false.into()),
        "{prefixes}"
    );
    cli.ok("ip6 nd pg0 no prefix 2001:db8::/64 3600 600 no-autoconfig");
    assert!(cli.ok("show ip6 interface pg0").contains("    2001:db8::/64: valid 2592000 s"));
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config"), config);
    for (line, place, why) in [
        ("prefix 2001:db8::/64 600 3600", "3600", "longer than the valid lifetime"),
        ("prefix fe80::/64", "fe80::/64", "link-local"),
        ("prefix fe00::/8", "fe00::/8", "link-local"),
        ("prefix ff05::/16", "ff05::/16", "multicast"),
        ("prefix 2001:db8:1::77/64", "2001:db8:1::77/64", "did you mean 2001:db8:1::/64?"),
        ("prefix ::/0", "::/0", "must be 1 to 128"),
        ("prefix 2001:db8::/129", "2001:db8::/129", "unexpected '"),
        ("prefix 10.0.0.0/8", "10.0.0.0/8", "unexpected '"),
        ("prefix 2001:db8::/64 4294967296 1", "4294967296", "is not a number from 0 to 4294967295"),
        ("no prefix 2001:db8:9::/64", "2001:db8:9::/64", "pg0 has no settings for"),
    ] {
        let told = cli.refused(&format!("ip6 nd pg0 {line}"), place);
        assert!(told.contains(why), "{line}: {told}");
    }
    cli.refused("ip6 nd pg1 no prefix 2001:db8::/64", "2001:db8::/64");
    assert!(!cli.ok("show config").contains("ip6 nd pg1"), "a refused command enables nothing");
}

#[test]
fn advertisements_are_configured_and_kept() {
    let mut cli = cli();
    let lines = [
        "ip6 nd pg0 no ra-suppress",
        "ip6 nd pg0 ra-interval 30 10",
        "ip6 nd pg0 ra-lifetime 90",
        "ip6 nd pg0 ra-managed-config-flag",
        "ip6 nd pg0 ra-preference high",
        "ip6 nd pg0 ra-dns 2001:db8::53",
    ];
    for line in lines {
        cli.ok(line);
    }
    let config = cli.ok("show config");
    assert!(lines.iter().all(|line| config.contains(&format!("{line}\n"))), "{config}");
    let yaml = cli.ok("show config yaml");
    assert!(yaml.contains("    router-advertisement:\n      interval: [ 10, 30 ]\n"), "{yaml}");
    cli.ok("ip6 nd pg0 no ra-managed-config-flag");
    assert!(!cli.ok("show config").contains("managed"));
    cli.refused("ip6 nd pg0 ra-interval 2", "2");
    cli.refused("ip6 nd pg0 ra-dns 192.0.2.53", "192.0.2.53");
}

#[test]
fn suppressed_advertisements_keep_their_settings() {
    let mut cli = cli();
    cli.ok("set interface ip address pg0 2001:db8::1/64");
    for line in
        ["no ra-suppress", "ra-interval 30 10", "ra-dns 2001:db8::53", "prefix 2001:db8:1::/64 infinite"]
    {
        cli.ok(&format!("ip6 nd pg0 {line}"));
    }
    let told = |cli: &Cli| cli.context.system.router.setting::<Advertised>(1).0;
    let (config, before) = (cli.ok("show config"), told(&cli));
    assert!(before.is_some());
    cli.ok("ip6 nd pg0 ra-suppress");
    assert_eq!(told(&cli), None);
    assert_eq!(cli.ok("show config"), config.replace("no ra-suppress", "ra-suppress"));
    assert!(cli.ok("show config yaml").contains("router-advertisement:\n      suppress: true\n"));
    let shown = cli.ok("show ip6 interface pg0");
    assert!(shown.contains("  advertises nothing: router advertisements are suppressed\n"), "{shown}");
    // Settings made while advertisements are suppressed are kept, too.
    cli.ok("ip6 nd pg0 ra-lifetime 90");
    assert_eq!(told(&cli), None);
    cli.ok("ip6 nd pg0 no ra-suppress");
    let mut after = Advertisement::clone(&before.unwrap());
    after.lifetime = 90;
    assert_eq!(told(&cli), Some(after.into()));
}

#[test]
fn show_gives_the_reason_for_missing_advertisements() {
    let mut cli = cli();
    cli.ok("ip6 nd pg0 prefix 2001:db8::/64");
    let why = |cli: &mut Cli| {
        let shown = cli.ok("show ip6 interface pg0");
        let json = cli.json("show ip6 interface pg0")[0]["not_advertised"].clone();
        let line = shown.lines().find_map(|l| l.strip_prefix("  advertises nothing: ").map(str::to_owned));
        assert_eq!(line.as_deref(), json.as_str(), "{shown}");
        line
    };
    let said = why(&mut cli).unwrap_or_default();
    assert!(
        said.contains("IPv6 is not enabled: add an IPv6 address, or run enable ip6 interface pg0"),
        "{said}"
    );
    assert!(
        cli.ok("show ip6 interface").contains("advertises nothing"),
        "also in the list of all interfaces"
    );
    cli.ok("enable ip6 interface pg0");
    cli.ok("set interface state pg0 down");
    assert_eq!(why(&mut cli).as_deref(), Some("the interface is down"));
    cli.ok("set interface state pg0 up");
    assert_eq!(why(&mut cli).as_deref(), Some("the interface's link-local address is not in use yet"));
    cli.refused("show ip6 interface pg1", "pg1");
}
