//! The commands of policers.

use control::testing::Cli;
use serde_json::json;

const GOLD: &str = "policer add name gold cir 1000 cb 15000";

fn cli() -> Cli {
    Cli::with(&[&policer::Feature])
}

/// Returns the line of `show config` that makes the policer `name`.
fn dumped(cli: &mut Cli, name: &str) -> String {
    let begin = format!("policer add name {name} ");
    let config = cli.ok("show config");
    config.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("{config}")).to_string()
}

/// Returns the policer `name` as `show policer` shows it.
fn shown(cli: &mut Cli, name: &str) -> serde_json::Value {
    cli.json(&format!("show policer name {name}"))[0].clone()
}

#[test]
fn pasted_vpp_commands_run() {
    let mut cli = cli();
    let pasted = [
        "policer add name policy1 cir 512 cb 20000 rate kbps round closest type 1r2c conform-action transmit exceed-action drop \
         violate-action drop",
        "policer add name p2 type 2r3c-2698 cir 1000 eir 2000 cb 10000 eb 20000 rate kbps round up conform-action \
         mark-and-transmit AF11 exceed-action mark-and-transmit 12 violate-action drop color-aware",
        "policer add name p3 rate kbps cir 8 eir 0 cb 2000 eb 4000 type 1r3c conform-action transmit exceed-action transmit \
         violate-action mark-and-transmit CS0",
        "policer add name p4 cir 9 eir 8 cb 2000 eb 4000 type 2r3c-4115",
    ];
    pasted.iter().for_each(|line| drop(cli.ok(line)));
    assert_eq!(
        dumped(&mut cli, "policy1"),
        "policer add name policy1 type 1r2c rate kbps cir 512 cb 20000 conform-action transmit exceed-action drop \
         violate-action drop"
    );
    assert_eq!(
        dumped(&mut cli, "p2"),
        "policer add name p2 type 2r3c-2698 color-aware rate kbps cir 1000 eir 2000 cb 10000 eb 20000 round up conform-action \
         mark-and-transmit AF11 exceed-action mark-and-transmit AF12 violate-action drop"
    );
    let p3 = shown(&mut cli, "p3");
    assert_eq!((&p3["type"], &p3["violate"]["action"]), (&json!("1r3c"), &json!("mark-and-transmit CS0")));
    let before = cli.ok("show config");
    let lines: Vec<String> = before.lines().filter(|l| l.starts_with("policer")).map(Into::into).collect();
    for n in 0..4 {
        cli.ok(&format!("policer del index {n}"));
    }
    lines.iter().for_each(|line| drop(cli.ok(line)));
    assert_eq!(cli.ok("show config"), before, "what is shown makes the same again");
}

#[test]
fn pps_bursts_are_in_milliseconds_by_default() {
    let mut cli = cli();
    let mut burst = |words: &str| {
        cli.ok(&format!("policer add name p type 1r3c rate pps cir 500 {words}"));
        let line = dumped(&mut cli, "p");
        cli.ok("policer del name p");
        line.split_once(" cir 500 ").unwrap().1.split_once(" conform").unwrap().0.to_string()
    };
    assert_eq!(burst("cb 100 eb 2000"), "cb 50 packets eb 1000 packets");
    assert_eq!(burst("cb 100 ms eb 2000 packets"), "cb 50 packets eb 2000 packets");
    assert_eq!(burst("cb 1 eb 1"), "cb 1 packets eb 1 packets", "part of a packet is one");
    cli.ok("policer add name q type 2r3c-4115 rate pps cir 500 eir 2000 cb 10 eb 10");
    assert!(
        dumped(&mut cli, "q").contains(" cb 5 packets eb 20 packets "),
        "the excess burst is of the excess rate"
    );
    let told = cli.refused("policer add name p rate pps cir 500 cb 7 bytes", "7");
    assert!(told.contains("cb is in ms or packets"), "{told}");
    let told = cli.refused("policer add name p cir 500 cb 7 packets", "7");
    assert!(told.contains("cb is in bytes"), "{told}");
    let told =
        cli.refused(&format!("policer add name p rate pps cir 500 cb {}", u64::MAX), &u64::MAX.to_string());
    assert!(told.contains("is out of range") || told.contains("too long"), "{told}");
}

#[test]
fn invalid_parameters_are_marked_at_their_place() {
    let mut cli = cli();
    for (line, place, why) in [
        ("policer add name p cir 7 cb 1000", "7", "cir 7 is out of range: use 8 to 400000000 kbps"),
        ("policer add name p cb 1000", "p", "cir is missing or 0: use 8 to"),
        ("policer add name p cir 8", "p", "cb is missing or 0: use 1 to"),
        ("policer add name p cir 8 cb 9 eir 10", "10", "eir 10 is not used by type 1r2c: remove it"),
        ("policer add name p type 1r3c cir 8 cb 9 eb 9 eir 10", "10", "is not used by type 1r3c"),
        ("policer add name p type 2r3c-2698 cir 9 cb 9 eb 9 eir 8", "8", "less than cir 9"),
        (
            "policer add name p type 2r3c-mef5cf1 cir 8 cb 9",
            "2r3c-mef5cf1",
            "is not supported: use 2r3c-4115",
        ),
        ("policer add name p exceed-action mark-and-transmit AF44", "AF44", "unknown DSCP"),
        ("policer add name p conform-action mark-and-transmit 64", "64", "unknown DSCP"),
    ] {
        let told = cli.refused(line, place);
        assert!(told.contains(why), "{line}: {told}");
    }
    let long = "n".repeat(policer::MAX_NAME + 1);
    let told = cli.run(&format!("policer add name {long} cir 8 cb 9")).unwrap_err().to_string();
    assert!(told.contains("1 to 63 bytes, not 64"), "{told}");
    cli.ok(&format!("policer add name {} cir 8 cb 9", &long[1..]));
    cli.ok(GOLD);
    let told = cli.refused(GOLD, "gold");
    assert!(told.contains("already: \"configure policer\" changes it"), "{told}");
    let told = cli.refused("policer del name silver", "silver");
    assert!(told.contains("there is no policer 'silver'"), "{told}");
    let told = cli.refused("policer del index 7", "7");
    assert!(told.contains("no policer has the index 7"), "{told}");
    let small = cli.ok("policer add name small cir 8 cb 1000");
    assert!(small.contains("cb 1000 is less than a frame of 1514 bytes"), "{small}");
}

#[test]
fn interfaces_can_share_policers() {
    let mut cli = cli();
    cli.ok("create sub-interfaces pg1 100");
    cli.ok(GOLD);
    cli.ok("policer add name \"a silver one\" rate pps cir 100 cb 100");
    cli.ok("policer input name gold pg0");
    cli.ok("policer output index 1 pg0");
    cli.ok("policer input name gold pg1.100");
    // Bursts are compared with the largest frame of the interface, with its tag.
    cli.ok("policer add name small cir 8 cb 1514");
    cli.ok("set interface mtu packet 1500 pg1");
    assert_eq!(cli.ok("policer output name small pg1"), "");
    let told = cli.ok("policer output name small pg1.100");
    assert!(told.contains("warning: cb 1514 is less than a frame of 1518 bytes"), "{told}");
    cli.ok("policer output unapply name small pg1");
    cli.ok("policer output unapply name small pg1.100");
    cli.ok("policer del name small");
    let config = cli.ok("show config");
    let at = |line: &str| config.find(line).unwrap_or_else(|| panic!("{line} is not in\n{config}"));
    assert!(at("policer add name gold ") < at("policer input name gold pg0\n"));
    at("policer output name \"a silver one\" pg0\n");
    at("policer input name gold pg1.100\n");
    let users = json!([
        { "interface": "pg0", "direction": "input" },
        { "interface": "pg1.100", "direction": "input" }
    ]);
    assert_eq!(shown(&mut cli, "gold")["used_by"], users);
    let features = cli.ok("show interface features pg0");
    for feature in ["ip4", "ip6", "ip4-multicast", "ip6-multicast"] {
        assert!(features.contains(&format!("\n  policer-input-{feature}\n")), "{features}");
    }
    assert!(features.contains("\n  policer-output\n"), "{features}");
    let told = cli.refused("policer del name gold", "gold");
    let why =
        "policer gold is in use, by pg0 input and 1 more: run \"policer input unapply name gold pg0\" first";
    assert!(told.contains(why), "{told}");
    let told = cli.refused("policer del index 1", "1");
    let why = "policer a silver one is in use, by pg0 output: run \"policer output unapply name \"a silver one\" pg0\" first";
    assert!(told.contains(why), "{told}");
    let told = cli.refused("policer output unapply name gold pg0", "pg0");
    assert!(told.contains("policer gold does not police the output of pg0"), "{told}");
    // Features of a setting cannot be switched by hand: neither on, nor off, nor to their current state.
    for command in [
        "set interface feature pg1 policer-output arc interface-output",
        "set interface feature pg1 policer-output arc interface-output disable",
        "set interface feature pg0 policer-output arc interface-output disable",
    ] {
        let told = cli.refused(command, "policer-output");
        assert!(told.contains("\"policer output [unapply] name NAME pg"), "{told}");
    }
    cli.ok("policer input unapply name gold pg0");
    cli.ok("policer input name \"a silver one\" pg1.100");
    cli.ok("policer del name gold");
    assert!(!cli.ok("show config").contains("gold"));
    // The policer setting is removed with the interface.
    cli.ok("delete sub-interface pg1.100");
    cli.ok("policer output unapply index 1 pg0");
    cli.ok("policer del index 1");
    assert_eq!(cli.json("show policer"), json!([]));
}

#[test]
fn policers_are_changed_in_place_and_rolled_back() {
    let mut cli = cli();
    cli.ok(GOLD);
    cli.ok("policer input name gold pg0");
    let before = cli.ok("show config");
    cli.ok("configure policer name gold type 2r3c-4115 cir 2000 eir 100 cb 20000 eb 5000");
    let gold = shown(&mut cli, "gold");
    assert_eq!((&gold["index"], &gold["cir"], &gold["eb"]), (&json!(0), &json!(2000), &json!(5000)));
    assert_eq!(gold["used_by"][0]["interface"], "pg0");
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config"), before);
    let gold = shown(&mut cli, "gold");
    assert_eq!((&gold["type"], &gold["cir"]), (&json!("1r2c"), &json!(1000)));
    cli.ok("policer input unapply name gold pg0");
    cli.ok("policer del name gold");
    for _ in 0..2 {
        cli.ok("config rollback");
    }
    // Guides of older versions of VPP make policers this way.
    cli.ok("configure policer name silver cir 8 cb 1514");
    assert_eq!(shown(&mut cli, "silver")["cb"], 1514);
    let told = cli.refused("configure policer index 7 cir 8 cb 1514", "7");
    assert!(told.contains("no policer has the index 7"), "{told}");
}

#[test]
fn policers_show_configured_and_effective_rates() {
    let mut cli = cli();
    assert_eq!(cli.json("show policer"), json!([]));
    cli.ok(GOLD);
    cli.ok("policer add name pps rate pps round down cir 7 cb 100 packets");
    let gold = shown(&mut cli, "gold");
    assert_eq!(
        (&gold["cir"], &gold["rate"], &gold["cir_tokens_per_second"]),
        (&1000.into(), &"kbps".into(), &125_000.into())
    );
    assert_eq!((&gold["tokens"], &gold["committed_tokens"]), (&"bytes".into(), &15_000.into()));
    assert_eq!(gold["conform"], json!({ "action": "transmit", "packets": 0, "bytes": 0 }));
    let table = cli.ok("show policer");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["gold", "0", "1r2c", "kbps", "1000", "0", "0", "0", "0", "0", "0"], "{table}");
    assert_eq!(lines[2][..5], ["pps", "1", "1r2c", "pps", "7"], "{table}");
    for command in ["show policer verbose", "show policer name pps", "show policer index 1"] {
        let block = cli.ok(command);
        for part in
            ["policer pps index 1\n", "round down\n", "cir 7 pps (7 packets/s)", "used by no interface\n"]
        {
            assert!(block.contains(part), "{part} is not in\n{block}");
        }
        assert_eq!(block.contains("policer gold"), command.ends_with("verbose"));
    }
    // Help and completion.
    let names = cli.ok("show policer name ?");
    assert!(names.contains("gold") && names.contains("pps"), "{names}");
    assert!(cli.ok("policer add name x type ?").contains("2r3c-4115"));
    for line in
        ["policer reset name gold", "policer reset index 1", "clear policer", "clear policer name gold"]
    {
        assert_eq!(cli.ok(line), "", "{line}");
    }
    assert!(cli.ok("policer bind name gold 1").contains("all workers share"));
}

#[test]
fn metrics_are_labeled_by_policer_and_color() {
    let mut cli = cli();
    cli.ok(GOLD);
    cli.ok("policer input name gold pg0");
    let text = cli.metrics();
    for color in ["green", "yellow", "red"] {
        for what in ["packets", "bytes"] {
            let line = format!("volley_policer_{what}_total{{policer=\"gold\",color=\"{color}\"}} 0\n");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
    assert!(text.contains("volley_interface_policer_drops_total{interface=\"pg0\",direction=\"input\"} 0\n"));
    assert!(!text.contains("direction=\"output\"} 0\n"), "{text}");
}

#[test]
fn arguments_can_have_the_orders_of_vpp() {
    let mut cli = cli();
    cli.ok("policer add cir 1000 cb 15000 name p1 type 1r2c");
    assert_eq!(shown(&mut cli, "p1")["cir"], 1000);
    for line in ["policer input pg0 name p1", "policer output name p1 pg0", "policer input pg1 index 0"] {
        cli.ok(line);
    }
    assert_eq!(shown(&mut cli, "p1")["used_by"].as_array().map(Vec::len), Some(3));
    for line in [
        "policer input name p1 pg0 unapply",
        "policer output pg0 unapply name p1",
        "policer input unapply pg1 name p1",
    ] {
        cli.ok(line);
    }
    assert_eq!(shown(&mut cli, "p1")["used_by"], json!([]));
    let refused = [
        ("policer add cir 1000 cb 15000", "add", "policer add name NAME"),
        ("policer input pg0", "input", "name the policer"),
        ("policer output name p1", "output", "name the interface"),
        ("policer output name p1 index 0 pg1", "0", "not both"),
    ];
    for (line, about, why) in refused {
        let told = cli.refused(line, about);
        assert!(told.contains(why), "{line}: {told}");
    }
    cli.ok("policer input pg0 name p1");
    let told = cli.refused("configure policer name p1 del", "p1");
    assert!(told.contains("policer input unapply name p1 pg0"), "{told}");
    cli.ok("policer input name p1 pg0 unapply");
    cli.ok("configure policer name p1 del");
    assert_eq!(cli.json("show policer"), json!([]));
}
