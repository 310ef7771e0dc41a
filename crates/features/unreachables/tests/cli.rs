//! Tests the switch as commands, and in files.

use control::config::read;
use control::testing::Cli;

#[test]
fn unreachables_are_switched_by_family() {
    let mut cli = Cli::with(&[&unreachables::Feature]);
    let sent = |cli: &mut Cli| {
        ["ip", "ip6"]
            .map(|word| cli.json(&format!("show {word} unreachables"))["are_sent"].as_bool().unwrap())
    };
    assert_eq!(sent(&mut cli), [true, true]);
    cli.ok("set ip6 unreachables disable");
    assert_eq!(sent(&mut cli), [true, false]);
    assert_eq!(cli.ok("show ip6 unreachables"), "not sent\n");
    assert!(cli.ok("show config").contains("set ip6 unreachables disable\n"));
    let yaml = cli.ok("show config yaml");
    assert!(yaml.contains("settings:\n  unreachables:\n    ip6: false\n"), "{yaml}");
    cli.ok("config rollback");
    assert_eq!(sent(&mut cli), [true, true]);
    cli.ok("set ip unreachables disable");
    cli.ok("set ip unreachables enable");
    assert_eq!(sent(&mut cli), [true, true]);
    cli.ok("set ip unreachables default");
    assert!(!cli.ok("show config").contains("unreachables"));
}

#[test]
fn an_unknown_family_in_a_file_is_reported_with_its_place() {
    let cli = Cli::with(&[&unreachables::Feature]);
    let abilities = &cli.context.system.abilities;
    let wanted = read("settings:\n  unreachables: { ip4: false, ip5: true }\n", "f", &abilities.catalog);
    let faults: Vec<String> = wanted.faults(abilities).iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("f:2:31") && faults[0].contains("expected ip4 or ip6"), "{faults:?}");
}
