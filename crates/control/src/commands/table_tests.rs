//! VRFs: large numbers, and names.

use crate::testing::Cli;

#[test]
fn tables_that_are_equal_modulo_65536_are_different() {
    let mut cli = Cli::new();
    let tables = ["7", "65543", "4294967295"];
    for (n, table) in (1..).zip(tables) {
        cli.ok(&format!("ip table add {table}"));
        cli.ok(&format!("ip route add 10.9.0.0/16 table {table} via drop"));
        cli.ok(&format!("ip route add 10.{n}.0.0/16 table {table} via 10.9.9.9"));
    }
    cli.ok("ip route add 10.8.0.0/16 via ip4-lookup-in-table 4294967295");
    cli.ok("ip route add 10.8.0.0/16 table 65543 via ip4-lookup-in-table 7");
    for (n, table) in (1..).zip(tables) {
        let fib = cli.ok(&format!("show ip fib table {table}"));
        assert!(fib.starts_with(&format!("ipv4-VRF:{table}, fib_index:{table}\n")), "{fib}");
        for other in 1..=3 {
            assert_eq!(fib.contains(&format!("\n10.{other}.0.0/16\n")), n == other, "{fib}");
        }
        assert_eq!(cli.json(&format!("show ip6 fib table {table} summary"))["table"].to_string(), table);
    }
    assert!(cli.ok("show ip fib 10.8.0.1").contains("lookup in ip4 table 4294967295"));
    assert_eq!(cli.json("show ip fib table 65543 10.8.0.1")[0]["sources"][0]["paths"][0]["table"], 7);
    cli.ok("set interface ip table pg1 4294967295");
    assert_eq!(cli.json("show interface pg1")[0]["table"], u32::MAX);
    let why = cli.run("ip table del 4294967295").unwrap_err().to_string();
    assert!(why.contains("interface pg1 needs it"), "{why}");
    assert_eq!(
        cli.json("show ip table")
            .as_array()
            .unwrap()
            .iter()
            .map(|vrf| vrf["table"].to_string())
            .collect::<Vec<_>>(),
        ["0", "7", "65543", "4294967295"]
    );
    // The commands and the file make the same router.
    let config = cli.ok("show config");
    let mut again = Cli::new();
    config
        .lines()
        .filter(|line| !line.starts_with("create packet-generator"))
        .for_each(|line| _ = again.run(line));
    assert_eq!(again.ok("show config"), config);
    // Number 7 is removed with its index; number 65543 stays.
    cli.ok("ip route del 10.8.0.0/16 table 65543");
    cli.ok("ip route del 10.9.0.0/16 table 7");
    cli.ok("ip route del 10.1.0.0/16 table 7");
    cli.ok("ip table del 7");
    assert!(cli.refused("show ip fib table 7", "7").contains("there is no table 7"));
    assert!(cli.ok("show ip fib table 65543").contains("\n10.2.0.0/16\n"));
    cli.ok("ip table add 8");
    assert!(!cli.ok("show ip fib table 8").contains("10.9.0.0/16"));
}

#[test]
fn commands_take_a_name_in_place_of_the_number() {
    let mut cli = Cli::new();
    for line in [
        "ip table add 11 name blue",
        "ip6 table add 12",
        "set interface ip table pg1 blue",
        "ip route add 10.9.0.0/16 table blue via drop",
        "ip route add 10.8.0.0/16 via ip4-lookup-in-table blue",
    ] {
        cli.ok(line);
    }
    assert_eq!(
        cli.ok("show ip table"),
        "[0] table_id:0 ipv4-VRF:0\n[11] table_id:11 ipv4-VRF:11 name:blue\n[12] table_id:12 ipv4-VRF:12\n"
    );
    assert!(cli.ok("show ip fib table blue").starts_with("ipv4-VRF:11 name:blue, fib_index:11\n"));
    assert!(cli.ok("show ip6 table blue").contains("  interfaces: pg1\n"));
    let all = cli.json("show ip table");
    assert_eq!((&all[1]["name"], all[2].get("name")), (&"blue".into(), None));
    let config = cli.ok("show config");
    for line in ["ip table add 11 name blue\n", "ip table add 12\n", "set interface ip table pg1 11\n"] {
        assert!(config.contains(line), "{config}");
    }
    let completed =
        cli.registry.complete(&cli.context, "show ip table b", crate::cli::Role::Admin).candidates;
    assert_eq!(completed.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(), ["blue"]);
    let why = cli.run("show ip table blau").unwrap_err().render();
    assert!(why.contains("there is no table 'blau'") && why.contains("did you mean 'blue'?"), "{why}");
}

#[test]
fn a_table_gets_another_name_while_it_is_used() {
    let mut cli = Cli::new();
    cli.ok("ip table add 11 name blue");
    cli.ok("ip table add 12");
    cli.ok("set interface ip table pg1 11");
    let told = cli.refused("ip table add 12 name blue", "blue");
    assert!(told.contains("table 11 has the name blue already"), "{told}");
    let fib = cli.context.system.router.fib(11);
    cli.ok("ip table add 11 name red");
    cli.ok("ip table add 11");
    assert!(cli.ok("show ip table red").contains("  interfaces: pg1\n"), "it keeps its name");
    cli.ok("ip table add 12 name blue");
    assert_eq!(cli.context.system.router.fib(11), fib);
    assert_eq!(cli.context.system.interruptions().count(), 0);
    let history = cli.ok("show config history");
    assert!(history.contains("ip table add 11 name red"), "{history}");
    cli.ok("config rollback 2");
    assert!(cli.ok("show config").contains("ip table add 11 name blue\n"));
}
