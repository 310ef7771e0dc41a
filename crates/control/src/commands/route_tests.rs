//! Route commands.

use crate::cli::{Call, Step};
use crate::testing::Cli;

#[test]
fn routes_without_a_next_hop_and_missing_routes_are_marked() {
    let mut cli = Cli::new();
    cli.refused("ip route add 10.9.0.0/16", "10.9.0.0/16");
    cli.refused("show ip fib 10.9.0.0/16", "10.9.0.0/16");
}

#[test]
fn a_prefix_with_host_bits_is_refused() {
    let mut cli = Cli::new();
    for (said, meant) in [("10.12.0.1/16", "10.12.0.0/16"), ("2001:db8::1/64", "2001:db8::/64")] {
        let told = cli.refused(&format!("ip route add {said} via drop"), said);
        assert!(told.contains(&format!("did you mean {meant}?")), "{told}");
    }
    cli.ok("ip route add 10.12.0.1 via drop");
}

#[test]
fn a_route_can_lead_to_the_router_itself() {
    let mut cli = Cli::new();
    for (prefix, family) in [("10.27.0.0/16", "ip"), ("2001:db8:27::/48", "ip6")] {
        cli.ok(&format!("ip route add {prefix} via local"));
        assert!(cli.ok("show config").contains(&format!("ip route add {prefix} via local\n")));
        let fib = cli.ok(&format!("show {family} fib {prefix}"));
        assert!(fib.ends_with("[CLI] dpo-receive\n"), "{fib}");
        let json = cli.json(&format!("show {family} fib {prefix}"));
        assert_eq!(json[0]["sources"][0]["paths"][0]["kind"], "local", "{json:#}");
        let said = cli.refused(&format!("ip route add {prefix} via local via pg1"), "pg1");
        assert!(said.contains("must be the only path of its route"), "{said}");
    }
    // A next hop behind such a route is not a neighbor.
    cli.ok("ip route add 10.28.0.0/16 via 10.27.0.1");
    let fib = cli.ok("show ip fib 10.28.0.0/16");
    assert!(fib.contains("the route 10.27.0.0/16 does not lead to a neighbor"), "{fib}");
    let said = cli.run("ip route del 10.27.0.0/16 via drop").unwrap_err().to_string();
    assert!(said.contains("goes via local; nothing was removed"), "{said}");
    cli.ok("ip route del 10.27.0.0/16 via local");
    cli.ok("ip route del 2001:db8:27::/48");
    assert!(!cli.ok("show config").contains("via local"));
}

#[test]
fn a_count_of_routes_is_checked_before_the_first() {
    let mut cli = Cli::new();
    let message = cli.refused("ip route add 255.255.255.0/24 count 5 via 10.0.0.2", "5");
    assert!(
        message.contains("must be 1 to 1: from 255.255.255.0/24 on, there are no more prefixes of length 24"),
        "{message}"
    );
    cli.refused("ip route add 10.1.0.0/16 via 10.0.0.2 count 0", "0");
    cli.refused("ip route add 0.0.0.0/0 via 10.0.0.2 count 2", "2");
    cli.refused("ip route del 255.255.255.254 count 3", "3");
    cli.ok("ip route add 255.255.252.0/24 count 4 via 10.0.0.2");
    assert_eq!(cli.ok("show config").matches("ip route add 255.255.25").count(), 4);
    cli.ok("ip route del 255.255.252.0/24 count 4");
    assert!(!cli.ok("show config").contains("ip route"));
}

#[test]
fn a_next_hop_that_is_the_router_itself_is_refused() {
    let mut cli = Cli::new();
    let message = cli.refused("ip route add 0.0.0.0/0 via 10.0.0.1", "10.0.0.1");
    assert!(message.contains("own address on pg0"), "{message}");
    cli.ok("ip route add 0.0.0.0/0 via 10.0.0.2");
    cli.ok("ip route add 1.2.3.4 via 10.0.0.3");
    assert!(cli.ok("show config").contains("ip route add 1.2.3.4/32 via 10.0.0.3\n"));
    assert!(cli.ok("show ip fib 1.2.3.4").contains("1.2.3.4/32"));
    assert!(cli.ok("show ip fib 9.9.9.9").contains("0.0.0.0/0"));
    assert!(cli.ok("show interface address").contains("10.0.0.1/24"));
    cli.refused("set interface ip address pg1 10.1.0.1", "10.1.0.1");
}

#[test]
fn paths_of_a_route_are_added_replaced_and_removed() {
    let mut cli = Cli::new();
    let routes = |cli: &mut Cli| -> Vec<String> {
        let config = cli.ok("show config");
        config
            .lines()
            .filter_map(|l| l.strip_prefix("ip route add 10.1.0.0/16 "))
            .map(str::to_string)
            .collect()
    };
    assert_eq!(cli.ok("ip route add 10.1.0.0/16 via 10.0.0.2"), "");
    assert_eq!(cli.ok("ip route add 10.1.0.0/16 via 10.0.0.2"), "");
    let told = cli.ok("ip route add 10.1.0.0/16 via 10.0.0.3 weight 3");
    assert_eq!(
        told,
        "10.1.0.0/16 has 2 paths now, which share its flows: via 10.0.0.2 and via 10.0.0.3 weight 3\n"
    );
    assert_eq!(routes(&mut cli), ["via 10.0.0.2 via 10.0.0.3 weight 3"]);
    let shown = cli.json("show ip fib 10.1.0.0/16");
    let ways = &shown[0]["sources"][0]["ways"];
    assert_eq!((&ways[0]["parts"], &ways[1]["parts"]), (&64.into(), &192.into()));
    let paths = serde_json::json!([
        { "kind": "next-hop", "next_hop": "10.0.0.2", "weight": 1 },
        { "kind": "next-hop", "next_hop": "10.0.0.3", "weight": 3 }
    ]);
    assert_eq!(shown[0]["sources"][0]["paths"], paths);
    let attached = serde_json::json!([{ "kind": "attached", "interface": "pg0", "weight": 1 }]);
    assert_eq!(cli.json("show ip fib 10.0.0.0/24")[0]["sources"][0]["paths"], attached);
    let text = cli.ok("show ip fib 10.1.0.0/16");
    assert!(text.contains("[CLI] via 10.0.0.2 and via 10.0.0.3 weight 3\n"), "{text}");
    assert!(text.contains("    192/256 of the flows: via 10.0.0.3 [adj"), "{text}");
    let yaml = "  - { prefix: 10.1.0.0/16, paths: [ { via: 10.0.0.2 }, { via: 10.0.0.3, weight: 3 } ] }\n";
    let whole = cli.ok("show config yaml");
    assert!(whole.contains(yaml), "{whole}");
    // Changes a weight, then removes a path. Removing the last path removes the route.
    cli.ok("ip route add 10.1.0.0/16 via 10.0.0.3");
    assert_eq!(routes(&mut cli), ["via 10.0.0.2 via 10.0.0.3"]);
    let refused = cli.refused("ip route del 10.1.0.0/16 via 10.0.0.4", "10.0.0.4");
    assert!(refused.contains("goes via 10.0.0.2 and via 10.0.0.3; nothing was removed"), "{refused}");
    cli.ok("ip route del 10.1.0.0/16 via 10.0.0.2");
    assert_eq!(routes(&mut cli), ["via 10.0.0.3"]);
    assert_eq!(cli.ok("ip route replace 10.1.0.0/16 via 10.0.0.4"), "");
    assert_eq!(routes(&mut cli), ["via 10.0.0.4"]);
    // A path that cannot share flows replaces paths that can, and the other way round.
    let told = cli.ok("ip route add 10.1.0.0/16 via drop");
    assert_eq!(told, "10.1.0.0/16 goes via drop now, instead of via 10.0.0.4\n");
    let told = cli.ok("ip route add 10.1.0.0/16 via 10.0.0.3 count 3");
    assert_eq!(told, "1 of the routes already had other paths\n");
    cli.ok("ip route del 10.1.0.0/16 via 10.0.0.3 count 3");
    assert_eq!(routes(&mut cli), [""; 0]);
    cli.refused("ip route add 10.1.0.0/16 via 10.0.0.3 weight 256", "256");
    cli.refused("ip route add 10.1.0.0/16 via 10.0.0.3 weight 0", "0");
}

#[test]
fn one_command_sets_several_paths() {
    let mut cli = Cli::new();
    let routes = |cli: &mut Cli, prefix: &str| -> Vec<String> {
        let (config, begin) = (cli.ok("show config"), format!("ip route add {prefix} "));
        config.lines().filter_map(|l| l.strip_prefix(&begin)).map(str::to_string).collect()
    };
    let all = "via 10.0.0.2 weight 3 via 10.0.0.3 pg0 via pg1 weight 7";
    let told = cli.ok(&format!("ip route add 10.1.0.0/16 {all}"));
    assert_eq!((told.as_str(), routes(&mut cli, "10.1.0.0/16")), ("", vec![all.to_string()]));
    // The order of the paths does not matter.
    assert_eq!(
        cli.ok("ip route add 10.1.0.0/16 via pg1 weight 7 via 10.0.0.3 pg0 via 10.0.0.2 weight 3"),
        ""
    );
    let told = cli.ok("ip route add 10.1.0.0/16 via 10.0.0.4 via 10.0.0.2");
    assert!(told.starts_with("10.1.0.0/16 has 4 paths now"), "{told}");
    cli.ok("ip route del 10.1.0.0/16 via 10.0.0.4 via pg1");
    assert_eq!(routes(&mut cli, "10.1.0.0/16"), ["via 10.0.0.2 via 10.0.0.3 pg0"]);
    // All or nothing: the route has only one of these paths.
    let told = cli.refused("ip route del 10.1.0.0/16 via 10.0.0.2 via 10.0.0.9", "10.0.0.9");
    assert!(told.contains("nothing was removed"), "{told}");
    cli.ok("ip route replace 10.1.0.0/16 via 10.0.0.5 via 10.0.0.6");
    assert_eq!(routes(&mut cli, "10.1.0.0/16"), ["via 10.0.0.5 via 10.0.0.6"]);
    cli.ok("ip route del 10.1.0.0/16 via 10.0.0.5 via 10.0.0.6");
    assert_eq!(routes(&mut cli, "10.1.0.0/16"), [""; 0]);
    cli.ok("ip route add 10.1.0.0/16 via drop");
    cli.ok("ip route add 10.1.0.0/16 via 10.0.0.5 via 10.0.0.6");
    assert_eq!(routes(&mut cli, "10.1.0.0/16"), ["via 10.0.0.5 via 10.0.0.6"]);
    cli.ok("ip route add 2001:db8:1::/48 via fe80::2 pg0 via fe80::2 pg1 weight 2");
    assert_eq!(routes(&mut cli, "2001:db8:1::/48"), ["via fe80::2 pg0 via fe80::2 pg1 weight 2"]);
    // The count may stand before the prefix, as in VPP, or at the end.
    cli.ok("ip route add count 2 20.0.0.0/24 via 10.0.0.2 via 10.0.0.3");
    cli.ok("ip route add 20.0.2.0/24 via 10.0.0.2 via 10.0.0.3 count 2");
    for n in 0..4 {
        assert_eq!(routes(&mut cli, &format!("20.0.{n}.0/24")), ["via 10.0.0.2 via 10.0.0.3"]);
    }
    cli.ok("ip route del count 4 20.0.0.0/24 via 10.0.0.2");
    assert_eq!(routes(&mut cli, "20.0.3.0/24"), ["via 10.0.0.3"]);
}

#[test]
fn the_path_at_fault_is_marked() {
    let mut cli = Cli::new();
    for (paths, place, why) in [
        ("via 10.0.0.2 drop", "drop", "must be the only path of its route"),
        ("prohibit via 10.0.0.2", "10.0.0.2", "must be the only path of its route"),
        ("via pg0 via ip4-lookup-in-table 7", "7", "must be the only path of its route"),
        ("via 10.0.0.2 weight 2 via 10.0.0.2", "10.0.0.2", "the same path is given twice"),
        ("via pg0 weight 2 via pg1 weight 0", "0", "1 to 255"),
        ("via 10.0.0.2 via 10.0.0.1 via 10.0.0.3", "10.0.0.1", "the router's own address"),
        ("via 10.0.0.2 via 2001:db8::1", "2001:db8::1", "it is not an IPv4 address"),
        ("via 10.0.0.2 via pg9", "pg9", "unexpected 'pg9'"),
        ("table 9 via 10.0.0.2 via 10.0.0.3", "9", "no table 9"),
    ] {
        let told = cli.refused(&format!("ip route add 20.1.0.0/16 {paths}"), place);
        assert!(told.contains(why), "{paths}: {told}");
    }
    let told = cli.refused("ip route add count 2 20.1.0.0/24 via 10.0.0.2 count 3", "3");
    assert!(told.contains("given twice"), "{told}");
    let paths = |n: u32| (0..n).map(|n| format!(" via 10.0.0.{}", n + 2)).collect::<String>();
    // The error shows the end of a long line.
    let told = cli.run(&format!("ip route add 20.1.0.0/16{}", paths(65))).unwrap_err().render();
    assert!(
        told.contains("via 10.0.0.66\n") && told.ends_with("^^^^^^^^^\na route can have at most 64 paths"),
        "{told}"
    );
    cli.ok(&format!("ip route add 20.1.0.0/16{}", paths(64)));
    let told = cli.refused("ip route add 20.1.0.0/16 via 10.0.0.99", "20.1.0.0/16");
    assert!(told.contains("at most 64 paths"), "{told}");
}

#[test]
fn an_interrupted_count_of_routes_is_rolled_back() {
    let mut cli = Cli::new();
    cli.ok("ip route add 20.0.9.0/24 via 10.0.0.3");
    cli.ok("ip route add 20.0.10.0/24 count 20 via 10.0.0.2");
    let before = cli.ok("show config");
    for line in [
        "ip route add 20.0.0.0/24 count 200000 via 10.0.0.2",
        "ip route del 20.0.9.0/24 count 200000",
        "ip route del 20.0.10.0/24 count 20 via 10.0.0.2",
    ] {
        // Cut off after the first route, and after one slice, which may be the last.
        for slices in 0..2 {
            let answer = cli.registry.run(&mut cli.context, line, Call::default()).unwrap();
            let mut job = answer.job.unwrap();
            assert_ne!(cli.ok("show config"), before);
            let last = (0..slices).map(|_| job.step(&mut cli.context, &mut String::new())).last();
            drop(job);
            if matches!(last, Some(Step::Done)) {
                cli.ok("ip route add 20.0.10.0/24 count 20 via 10.0.0.2");
            }
            while cli.context.tidy().is_some() {}
            assert_eq!(cli.ok("show config"), before, "{line}");
        }
    }
    // The rollback ends before the next change.
    let long = "ip route add 20.0.0.0/24 count 200000 via 10.0.0.2";
    for (next, gone) in
        [("ip route del 20.0.9.0/24", "20.0.9.0"), ("ip route del 20.0.10.0/24 count 20", "20.0.10.0")]
    {
        let answer = cli.registry.run(&mut cli.context, long, Call::default()).unwrap();
        let mut job = answer.job.unwrap();
        for _ in 0..5 {
            job.step(&mut cli.context, &mut String::new());
        }
        drop(job);
        cli.ok(next);
        assert!(cli.context.tidy().is_none());
        let now = cli.ok("show config");
        assert!(now.len() < before.len() && !now.contains(gone) && !now.contains("20.0.8.0"), "{now}");
    }
}

#[test]
fn route_changes_are_rolled_back_one_by_one() {
    let mut cli = Cli::new();
    let mut states = vec![cli.ok("show config")];
    for line in [
        "ip route add 20.0.0.0/24 via 10.0.0.2",
        "ip route add 20.0.0.0/24 count 3000 via 10.0.0.3",
        "ip route del 20.0.9.0/24 count 2000",
        "ip route add 20.0.0.0/24 via drop",
    ] {
        cli.ok(line);
        // An interrupted or failed command is no change.
        let cut = "ip route add 30.0.0.0/24 count 9 via drop";
        drop(cli.registry.run(&mut cli.context, cut, Call::default()));
        cli.run("ip route del 20.0.8.0/24 count 9999").unwrap_err();
        states.push(cli.ok("show config"));
    }
    // Each rollback continues where the last one stopped.
    for state in states.iter().rev().skip(1) {
        cli.ok("config rollback");
        assert_eq!(cli.ok("show config"), *state);
    }
}

#[test]
fn a_failed_count_of_routes_is_rolled_back() {
    let mut cli = Cli::new();
    cli.ok("ip route add 20.0.0.0/24 count 300 via 10.0.0.2");
    cli.ok("ip route add 20.1.4.0/24 via drop");
    let before = cli.ok("show config");
    for (line, why) in [
        ("ip route del 20.0.0.0/24 count 400", "does not exist"),
        ("ip route del 20.0.250.0/24 count 20 via 10.0.0.2", "goes via drop"),
    ] {
        let error = cli.run(line).unwrap_err().to_string();
        assert!(
            error.contains(why) && error.contains("routes had been changed; all of these are rolled back)"),
            "{error}"
        );
        assert_eq!(cli.ok("show config"), before, "{line}");
    }
    // A route that another command has changed since stays.
    let line = "ip route add 20.0.0.0/24 count 200000 via 10.0.0.3";
    let answer = cli.registry.run(&mut cli.context, line, Call::default()).unwrap();
    cli.ok("ip route add 20.0.0.0/24 via prohibit");
    drop(answer.job);
    while cli.context.tidy().is_some() {}
    let after =
        before.replace("ip route add 20.0.0.0/24 via 10.0.0.2", "ip route add 20.0.0.0/24 via prohibit");
    assert_eq!(cli.ok("show config"), after);
}

#[test]
fn the_recursive_lookup_of_a_next_hop_is_shown() {
    let mut cli = Cli::new();
    cli.ok("set ip neighbor pg0 10.0.0.2 02:00:00:00:00:02 static");
    for route in [
        "20.0.0.0/24 via 10.9.9.9",
        "21.0.0.0/24 via 20.0.0.1",
        "22.0.0.0/24 via 22.0.0.1",
        "23.0.0.0/24 via 30.0.0.1",
        "10.9.9.0/24 via 10.0.0.2",
        "30.0.0.0/24 via pg1",
    ] {
        cli.ok(&format!("ip route add {route}"));
    }
    let mut shown = |prefix: &str| cli.ok(&format!("show ip fib {prefix}"));
    assert!(shown("20.0.0.0/24").contains("[CLI] via 10.9.9.9 → 10.0.0.2 pg0 [adj "));
    assert!(shown("21.0.0.0/24").contains("[CLI] via 20.0.0.1 → 10.9.9.9 → 10.0.0.2 pg0 [adj "));
    let circle = " (unresolved: recursive routing loop through 22.0.0.1)\n";
    assert!(shown("22.0.0.0/24").ends_with(&format!("[CLI] via 22.0.0.1{circle}")));
    assert!(shown("23.0.0.0/24").contains("[CLI] via 30.0.0.1 → pg1 [adj "));
    let json = cli.ok("show ip fib 21.0.0.0/24 --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["sources"][0]["through"], serde_json::json!(["10.9.9.9", "10.0.0.2"]));
    cli.ok("ip route add 10.9.9.0/24 via drop");
    assert!(cli.ok("show ip fib 21.0.0.0/24").ends_with("[CLI] via 20.0.0.1 → 10.9.9.9 → dpo-drop ip4\n"));
    cli.ok("ip route del 10.9.9.0/24");
    let text = cli.ok("show ip fib 21.0.0.0/24");
    assert!(
        text.ends_with("[CLI] via 20.0.0.1 → 10.9.9.9 (unresolved: no route leads to 10.9.9.9)\n"),
        "{text}"
    );
}

/// A change is refused, instead of keeping all clients waiting, while many routes of a client that has left are rolled back.
#[test]
fn a_long_rollback_of_a_client_that_left_delays_nobody() {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    let line = "ip route add 20.0.0.0/24 count 400000 via 10.0.0.2";
    let mut job = cli.registry.run(&mut cli.context, line, Call::default()).unwrap().job.unwrap();
    while !matches!(job.step(&mut cli.context, &mut String::new()), Step::Done) {
        if cli.context.store.tree().len() > 300_000 {
            break;
        }
    }
    drop(job);
    for line in ["set interface mtu 1200 pg0", "ip route add 30.0.0.0/24 via 10.0.0.2"] {
        let told = cli.run(line).unwrap_err().to_string();
        assert!(told.contains("the rollback of a change whose client has left is running"), "{told}");
    }
    while cli.context.tidy().is_some() {}
    assert_eq!(cli.ok("show config"), before);
    cli.ok("set interface mtu 1200 pg0");
}
