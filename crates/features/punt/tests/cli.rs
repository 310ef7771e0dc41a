//! Tests the rates of punted packets as commands, and in saved and loaded files.

use control::config::read;
use control::testing::Cli;

#[test]
fn rates_of_punts_are_set_and_saved() {
    let mut cli = Cli::with(&[&punt::Feature]);
    let rate = |cli: &mut Cli| {
        let shown = cli.json("show punt");
        let all = shown.as_array().unwrap();
        let of = all.iter().find(|r| r["reason"] == "nd-solicitation").unwrap();
        (of["rate_per_second"].as_u64().unwrap(), of["default_rate_per_second"].as_u64().unwrap())
    };
    let (before, default) = rate(&mut cli);
    assert_eq!(before, default);
    cli.ok("set punt rate nd-solicitation 77");
    assert_eq!(rate(&mut cli), (77, default));
    assert!(cli.ok("show config").contains("set punt rate nd-solicitation 77\n"));
    let entry = "settings:\n  punt-rates:\n    nd-solicitation: 77\n";
    assert!(cli.ok("show config yaml").contains(entry), "{}", cli.ok("show config yaml"));
    assert!(cli.ok("show tech-support").contains("=== show punt\nReason"));
    cli.refused("set punt rate nd-solicitation 0", "0");
    cli.refused("set punt rate nd-nonsense 5", "nd-nonsense");
    cli.ok("set punt rate nd-solicitation default");
    assert_eq!(rate(&mut cli), (default, default));
    assert!(!cli.ok("show config").contains("punt"));
}

#[test]
fn faults_of_a_file_are_reported_with_their_place() {
    let cli = Cli::with(&[&punt::Feature]);
    let abilities = &cli.context.system.abilities;
    let faults = |rates: &str| -> Vec<String> {
        let wanted = read(&format!("settings:\n  punt-rates: {{ {rates} }}\n"), "f", &abilities.catalog);
        wanted.faults(abilities).iter().map(ToString::to_string).collect()
    };
    assert!(faults("arp-request: 500, nd-router: 1").is_empty());
    for (rates, place, why) in [
        ("arp-request: 0", "f:2:30", "a number from 1 to 10000000"),
        ("nonsense: 5", "f:2:17", "unknown punt reason nonsense: expected one of "),
    ] {
        let found = faults(rates);
        assert!(found.len() == 1 && found[0].contains(place) && found[0].contains(why), "{found:?}");
    }
}
