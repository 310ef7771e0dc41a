//! Long lists, shown in slices, with changes in between.

use net::ip::Prefix4;

use crate::cli::{Call, Step};
use crate::testing::Cli;

/// Runs a command with a long output, and calls `between` after each slice. Returns the output.
fn in_slices(cli: &mut Cli, line: &str, mut between: impl FnMut(&mut Cli, &str)) -> String {
    let answer = cli.registry.run(&mut cli.context, line, Call::default()).unwrap();
    let (mut text, mut job) = (answer.text, answer.job.expect("it is shown in slices"));
    loop {
        let mut slice = String::new();
        let step = job.step(&mut cli.context, &mut slice);
        assert!(slice.len() < 128 << 10, "a slice has {} bytes", slice.len());
        text += &slice;
        match step {
            Step::Done => return text,
            step => assert!(matches!(step, Step::Again), "{step:?}"),
        }
        between(cli, &text);
    }
}

#[test]
fn long_lists_are_shown_in_slices() {
    let mut cli = Cli::new();
    cli.ok("ip route add 20.0.0.0/24 via 10.0.0.2 count 20000");
    for (line, lines) in [("show ip fib", 40_000), ("show config", 20_000), ("show ip fib --json", 200_000)] {
        let mut slices = 0;
        let text = in_slices(&mut cli, line, |_, _| slices += 1);
        assert!(text.lines().count() > lines && slices > 10, "{line}: {slices} slices");
        assert_eq!(text, cli.ok(line));
    }
    let json: serde_json::Value = serde_json::from_str(&cli.ok("show ip fib --json")).unwrap();
    let prefixes: Vec<Prefix4> =
        json.as_array().unwrap().iter().map(|r| r["prefix"].as_str().unwrap().parse().unwrap()).collect();
    assert!(prefixes.is_sorted() && prefixes.len() > 20_000, "{} routes", prefixes.len());
}

#[test]
fn routes_may_be_added_and_removed_while_they_are_shown() {
    let mut cli = Cli::new();
    // Routes in 20.0.0.0/8 stay. When the first of them are shown, those in 21.0.0.0/8 are removed, and routes in
    // 22.0.0.0/8 are added.
    cli.ok("ip route add 20.0.0.0/24 via drop count 20000");
    cli.ok("ip route add 21.0.0.0/24 via drop count 1000");
    let mut changed = false;
    let text = in_slices(&mut cli, "show ip fib", |cli, text| {
        if !changed && text.contains("\n20.") {
            changed = true;
            cli.ok("ip route del 21.0.0.0/24 count 1000");
            cli.ok("ip route add 22.0.0.0/24 via drop count 1000");
        }
    });
    assert!(changed);
    let shown: Vec<Prefix4> = text.lines().filter_map(|l| l.parse().ok()).collect();
    assert!(shown.is_sorted_by(|a, b| a < b), "each at most once, in order");
    let of = |net: &str| shown.iter().filter(|p| p.to_string().starts_with(net)).count();
    assert_eq!((of("20."), of("21.")), (20_000, 0));
    assert!(of("22.") <= 1000);
}

#[test]
fn show_config_reports_a_change_meanwhile() {
    let mut cli = Cli::new();
    cli.ok("ip route add 20.0.0.0/24 via drop count 20000");
    let mut left = 1;
    let text = in_slices(&mut cli, "show config", |cli, _| {
        if std::mem::take(&mut left) > 0 {
            cli.ok("ip route del 20.0.0.0/24");
        }
    });
    assert!(text.ends_with(
        "\n# the configuration changed while it was shown: this is a mixture of old and new parts\n"
    ));
    assert!(!cli.ok("show config").contains('#'));
}

#[test]
fn a_vrf_removed_while_it_is_shown_ends_the_list() {
    let mut cli = Cli::new();
    cli.ok("ip table add 7");
    cli.ok("ip route add 20.0.0.0/24 table 7 via drop count 20000");
    let mut shown = 0;
    in_slices(&mut cli, "show ip fib table 7", |cli, text| {
        if shown == 0 && text.contains("\n20.") {
            shown = text.lines().count();
            cli.ok("ip route del 20.0.0.0/24 table 7 count 20000");
            cli.ok("ip table del 7");
        }
    });
    assert!((1..40_000).contains(&shown));
}

#[test]
fn one_interface_or_adjacency_is_shown_alone() {
    let mut cli = Cli::new();
    cli.ok("ip route add 20.0.0.0/24 via 10.0.0.2");
    cli.ok("ip route add 20.0.1.0/24 via 10.0.0.3");
    cli.ok("ip neighbor pg0 10.0.0.4 02:00:00:00:00:04");
    cli.ok("set interface ip address pg1 10.1.0.1/24");
    cli.ok("ip neighbor pg1 10.1.0.5 02:00:00:00:00:05");
    let names = |cli: &mut Cli, line: &str, field: &str| -> Vec<String> {
        let json: serde_json::Value = serde_json::from_str(&cli.ok(&format!("{line} --json"))).unwrap();
        json.as_array().unwrap().iter().map(|row| row[field].to_string().replace('"', "")).collect()
    };
    for show in ["show interface", "show interface address"] {
        assert_eq!(names(&mut cli, show, "name"), ["pg0", "pg1"]);
        assert_eq!(names(&mut cli, &format!("{show} pg1"), "name"), ["pg1"]);
    }
    assert_eq!(names(&mut cli, "show ip neighbors", "interface"), ["pg0", "pg1"]);
    assert_eq!(names(&mut cli, "show ip neighbors pg1", "interface"), ["pg1"]);
    assert_eq!(names(&mut cli, "show ip neighbors pg0", "ip"), ["10.0.0.4"]);
    let all = names(&mut cli, "show adjacency", "index");
    assert_eq!(names(&mut cli, &format!("show adjacency {}", all[1]), "index"), [all[1].clone()]);
    assert_eq!(names(&mut cli, "show ip table", "table"), ["0"]);
}

#[test]
fn devices_and_history_are_shown_in_slices() {
    let mut cli = Cli::new();
    for _ in 0..500 {
        cli.ok("create loopback interface");
    }
    cli.ok("create sub-interfaces pg0 7");
    for (line, count) in [("show hardware-interfaces", 502), ("show config history", 506)] {
        let json = cli.json(line);
        assert_eq!(json.as_array().map(Vec::len), Some(count), "{line}: each once, and no sub-interface");
        let text = in_slices(&mut cli, line, |_, _| {});
        assert_eq!(text.matches("loop499").count(), 1, "{line}");
    }
    // The newest first.
    let back: Vec<u64> = cli
        .json("show config history")
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["back"].as_u64().unwrap())
        .collect();
    assert!(back.is_sorted() && back[0] == 1, "{back:?}");
    assert_eq!(cli.ok("show hardware-interfaces brief").lines().count(), 503);
}
