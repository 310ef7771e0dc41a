//! IPv6 commands.

use crate::testing::Cli;

/// Returns a router with IPv6 on pg0, after duplicate address detection.
fn cli() -> Cli {
    let mut cli = Cli::new();
    cli.ok("set interface mac address pg0 02:00:00:00:00:01");
    cli.ok("set interface ip address pg0 2001:db8::1/64");
    settle(&mut cli, 0);
    cli
}

/// Runs duplicate address detection for 5 seconds, which begin `from` seconds from now.
fn settle(cli: &mut Cli, from: u64) {
    let now = cli.context.now();
    for second in from..from + 5 {
        cli.context.system.router.poll(now + second * 1_000_000_000);
    }
}

fn config(cli: &mut Cli, part: &str) -> Vec<String> {
    let config = cli.ok("show config");
    config.lines().filter(|line| line.contains(part)).map(str::to_string).collect()
}

#[test]
fn addresses_of_both_families_form_one_list() {
    let mut cli = cli();
    cli.ok("set interface ip address pg0 10.0.0.7/24");
    assert_eq!(
        config(&mut cli, "ip address"),
        ["10.0.0.1/24", "2001:db8::1/64", "10.0.0.7/24"].map(|a| format!("set interface ip address pg0 {a}"))
    );
    let shown = cli.ok("show interface address pg0");
    assert_eq!(shown, "pg0 (up):\n  L3 10.0.0.1/24\n  L3 2001:db8::1/64\n  L3 10.0.0.7/24\n");
    for (line, place, why) in [
        (
            "set interface ip address pg1 2001:db8::2/64",
            "2001:db8::2/64",
            "connected networks must not overlap",
        ),
        ("set interface ip address pg1 ff02::1/64", "ff02::1/64", "cannot be an interface's address"),
        ("set interface ip address pg1 2001:db8:5::/64", "2001:db8:5::/64", "first or last address"),
        ("set interface ip address pg1 fe80::1/48", "fe80::1/48", "must be 64 to 128"),
    ] {
        let told = cli.refused(line, place);
        assert!(told.contains(why), "{line}: {told}");
    }
    // Link-local networks exist on every link, so several interfaces may have the same address.
    for interface in ["pg0", "pg1"] {
        cli.ok(&format!("set interface ip address {interface} fe80::1/64"));
    }
    cli.ok("set interface ip address del pg0 2001:db8::1/64");
    assert_eq!(config(&mut cli, "2001:db8"), [""; 0]);
}

#[test]
fn routes_of_both_families_have_the_same_syntax() {
    let mut cli = cli();
    cli.ok("ip6 table add 7");
    let all = [
        "ip route add 2001:db8:1::/48 via 2001:db8::2",
        "ip route add 2001:db8:2::/48 via fe80::2 pg0",
        "ip route add 2001:db8:3::/48 via pg1",
        "ip route add 2001:db8:4::/48 via prohibit",
        "ip route add 2001:db8:5::/48 via 2001:db8::2 weight 2 via fe80::2 pg1",
        "ip route add ::/0 table 7 via ip6-lookup-in-table 0",
    ];
    all.iter().for_each(|line| drop(cli.ok(line)));
    let mut sorted: Vec<String> = all.map(str::to_string).to_vec();
    let mut shown = config(&mut cli, "ip route add");
    sorted.sort();
    shown.sort();
    assert_eq!(shown, sorted);
    for (line, place, why) in [
        ("ip route add 2001:db8:9::/48 via 10.0.0.2", "10.0.0.2", "it is not an IPv6 address"),
        ("ip route add 10.9.0.0/16 via 2001:db8::2", "2001:db8::2", "it is not an IPv4 address"),
        ("ip route add ::/0 via fe80::2", "fe80::2", "set the interface"),
        ("ip route add ::/0 via ff02::2", "ff02::2", "not a host address"),
        ("ip route add ::/0 via ::1", "::1", "not a host address"),
        ("ip route add ::/0 via 2001:db8::1", "2001:db8::1", "router's own address on pg0"),
        ("ip route add ::/0 via ip4-lookup-in-table 7", "7", "needs ip6-lookup-in-table"),
        ("ip route add ::/0 via ip6-lookup-in-table 0", "0", "cannot be looked up in its own table"),
        ("ip route add fe80::/64 via pg0", "fe80::/64", "is link-local"),
        ("ip route add fe80::5 via drop", "fe80::5", "is link-local"),
        ("ip route add 2001:db8::/129 via drop", "2001:db8::/129", "unexpected"),
    ] {
        let told = cli.refused(line, place);
        assert!(told.contains(why), "{line}: {told}");
    }
    // On another link, the router's own link-local address may be a neighbor's.
    cli.ok("set interface ip address pg1 fe80::9/64");
    cli.ok("ip route add 2001:db8:6::/48 via fe80::9 pg0");
    cli.refused("ip route add 2001:db8:6::/48 via fe80::9 pg1", "fe80::9");
    let told = cli.refused("set interface ip address pg0 fe80::9/64", "fe80::9/64");
    assert!(told.contains("next hop of the route for 2001:db8:6::/48"), "{told}");
}

#[test]
fn a_count_adds_and_removes_ipv6_routes() {
    let mut cli = cli();
    cli.ok("ip route add 2001:db8:8000::/48 via 2001:db8::2 count 300");
    let all = config(&mut cli, "ip route add");
    assert_eq!(all.len(), 300);
    assert_eq!(all[299], "ip route add 2001:db8:812b::/48 via 2001:db8::2");
    cli.ok("ip route del 2001:db8:8000::/48 count 300");
    assert_eq!(config(&mut cli, "ip route add"), [""; 0]);
    let told = cli.refused("ip route add ffff:ffff::/32 via drop count 2", "2");
    assert!(told.contains("the count must be 1 to 1: from ffff:ffff::/32 on"), "{told}");
}

#[test]
fn ipv6_routes_are_shown() {
    let mut cli = cli();
    cli.ok("set ip neighbor pg0 fe80::2 02:00:00:00:00:02");
    cli.ok("ip route add 2001:db8:1::/48 via fe80::2 pg0");
    cli.ok("ip route add 2001:db8:2::/48 via 2001:db8::9");
    let text = cli.ok("show ip6 fib");
    assert!(text.starts_with("ipv6-VRF:0, fib_index:0\n::/128\n"), "{text}");
    for part in [
        "\n2001:db8::1/128\n  [interface] dpo-receive\n",
        "\n2001:db8::/64\n  [interface] ip6-glean: pg0\n",
        "\nfe80::/10\n  [special] ip6-link-local",
        // Link-local prefixes have their interface.
        "\nfe80::ff:fe00:1/128 on pg0\n  [interface] dpo-receive\n",
        "\nfe80::/64 on pg0\n  [interface] ip6-glean: pg0\n",
        "\nfe80::2/128 on pg0\n",
        "\n2001:db8:1::/48\n  [CLI] via fe80::2 pg0 [adj ",
        "arp-ipv6 (incomplete)]\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let all = cli.json("show ip6 fib");
    let of = |prefix: &str| all.as_array().unwrap().iter().find(|r| r["prefix"] == prefix).unwrap();
    assert_eq!((&of("fe80::2/128")["link"], of("2001:db8::1/128").get("link")), (&"pg0".into(), None));
    // The same number as in the summary.
    assert_eq!(all.as_array().unwrap().len(), cli.json("show ip6 fib summary")["routes"]);
    assert!(cli.ok("show ip6 fib 2001:db8:1::7").contains("\n2001:db8:1::/48\n"));
    assert!(cli.ok("show ip6 fib table 0 2001:db8:1::/48").contains("\n2001:db8:1::/48\n"));
    let memory = cli.json("show ip route-memory");
    assert!(memory["used_bytes"].as_u64() < memory["limit_bytes"].as_u64(), "{memory}");
    assert!(cli.ok("show ip route-memory").contains("MiB; 0 routes were refused"));
    let within = cli.json("show ip6 fib 2001:db8:1::/48 longer-prefixes");
    let prefixes: Vec<_> = within.as_array().unwrap().iter().map(|r| r["prefix"].as_str().unwrap()).collect();
    assert_eq!(prefixes, ["2001:db8:1::/48"]);
    assert_eq!(cli.json("show ip6 fib ::/0 longer-prefixes"), all);
    assert_eq!(cli.json("show ip6 fib 2001:db8:7::/48 longer-prefixes"), serde_json::json!([]));
    cli.refused("show ip6 fib 2001:db8:7::/48", "2001:db8:7::/48");
    cli.refused("show ip6 fib 10.0.0.1", "10.0.0.1");
    cli.refused("show ip fib 2001:db8::1", "2001:db8::1");
    assert!(cli.ok("show ip6 table 0").starts_with("[0] table_id:0 ipv6-VRF:0\n"));
    assert!(cli.ok("show adjacency").contains("fe80::2"));
    // For a link-local address, the route of each link is shown.
    cli.ok("enable ip6 interface pg1");
    settle(&mut cli, 10);
    let mut of_links = |address: &str| -> Vec<(String, String)> {
        let all = cli.json(&format!("show ip6 fib {address}"));
        let text = |route: &serde_json::Value, name| route[name].as_str().unwrap_or("").to_string();
        all.as_array().unwrap().iter().map(|r| (text(r, "prefix"), text(r, "link"))).collect()
    };
    let routes = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(prefix, link)| (prefix.to_string(), link.to_string())).collect()
    };
    let whole = ("fe80::/10", "");
    assert_eq!(of_links("fe80::2"), routes(&[whole, ("fe80::2/128", "pg0"), ("fe80::/64", "pg1")]));
    assert_eq!(
        of_links("fe80::ff:fe00:1"),
        routes(&[whole, ("fe80::ff:fe00:1/128", "pg0"), ("fe80::/64", "pg1")])
    );
    assert_eq!(of_links("2001:db8::7"), routes(&[("2001:db8::/64", "")]));
    let text = cli.ok("show ip6 fib fe80::2");
    assert!(
        text.starts_with("ipv6-VRF:0, fib_index:0\nfe80::/10\n") && text.contains("\nfe80::/64 on pg1\n"),
        "{text}"
    );
}

#[test]
fn ipv6_neighbors_are_set_and_shown() {
    let mut cli = cli();
    cli.ok("set ip neighbor pg0 2001:db8::2 02:00:00:00:00:02");
    cli.ok("set ip neighbor pg0 10.0.0.2 02:00:00:00:00:03");
    let (ip4, ip6) = (cli.ok("show ip neighbors"), cli.ok("show ip6 neighbors pg0"));
    assert!(ip6.contains("2001:db8::2") && !ip6.contains("10.0.0.2"), "{ip6}");
    assert!(ip4.contains("10.0.0.2") && !ip4.contains("2001:db8::2"), "{ip4}");
    let told = cli.refused("set ip neighbor pg0 2001:db8::1 02:00:00:00:00:02", "2001:db8::1");
    assert!(told.contains("the router's own address"), "{told}");
    cli.ok("set ip neighbor-config ip6 limit 77 age 33");
    assert_eq!(config(&mut cli, "neighbor-config"), ["set ip neighbor-config ip6 limit 77 age 33"]);
    assert!(cli.ok("show ip6 neighbor-config").starts_with("ip6:\n  limit 77,"));
    assert!(cli.ok("show ip neighbor-config").starts_with("ip4:\n  limit 50000,"));
    cli.ok("set ip neighbor-config ip6 default");
    assert!(cli.ok("show ip6 neighbor-config").contains("  age 30 s\n"));
    cli.ok("clear ip6 neighbors");
    assert!(cli.ok("show ip6 neighbors").contains("2001:db8::2"), "a static one stays");
    cli.ok("set ip neighbor del pg0 2001:db8::2");
    assert!(!cli.ok("show ip6 neighbors").contains("2001:db8::2"));
}

#[test]
fn ipv6_is_enabled_without_an_address() {
    assert_eq!(Cli::new().ok("show ip6 interface"), "IPv6 is not enabled on any interface\n");
    let mut cli = cli();
    let told = cli.refused("show ip6 interface pg1", "pg1");
    assert!(told.contains("IPv6 is not enabled"), "{told}");
    cli.ok("enable ip6 interface pg1");
    cli.ok("set interface mac address pg1 02:00:00:00:00:02");
    assert_eq!(config(&mut cli, "ip6"), ["enable ip6 interface pg1"]);
    assert!(cli.ok("show config yaml").contains("    ip6: true\n"));
    let tentative = cli.ok("show ip6 interface pg1");
    assert!(tentative.contains("  fe80::ff:fe00:2/64 (tentative)\n"), "{tentative}");
    settle(&mut cli, 5);
    let text = cli.ok("show ip6 interface");
    assert!(text.contains("pg1 is admin up\n  fe80::ff:fe00:2/64 (unique)\n"), "{text}");
    assert!(text.contains("pg0 is admin up\n  2001:db8::1/64 (unique)\n"), "{text}");
    assert_eq!(cli.json("show ip6 interface pg1")[0]["link_local"], "fe80::ff:fe00:2");
    cli.ok("disable ip6 interface pg1");
    assert!(cli.ok("show ip6 interface").lines().all(|line| !line.contains("pg1")));
    let told = cli.ok("disable ip6 interface pg0");
    assert_eq!(told, "IPv6 stays enabled on pg0 while it has an IPv6 address\n");
}

#[test]
fn unnumbered_proxy_arp_and_urpf_are_configured() {
    let mut cli = Cli::new();
    cli.ok("create loopback interface");
    cli.ok("set interface ip address loop0 192.0.2.1/32");
    cli.ok("set interface unnumbered pg1 use loop0");
    cli.ok("set interface proxy-arp pg1 enable");
    cli.ok("set urpf ip6 rx strict pg1");
    let config = cli.ok("show config");
    for line in [
        "set interface unnumbered pg1 use loop0",
        "set interface proxy-arp pg1 enable",
        "set urpf ip6 rx strict pg1",
    ] {
        assert!(config.contains(&format!("{line}\n")), "{config}");
    }
    let yaml = cli.ok("show config yaml");
    assert!(
        ["unnumbered: loop0", "proxy-arp: true", "urpf6: strict"].iter().all(|l| yaml.contains(l)),
        "{yaml}"
    );
    let told = cli.refused("set interface ip address pg1 10.7.0.1/24", "10.7.0.1/24");
    assert!(told.contains("pg1 uses the addresses of loop0"), "{told}");
    cli.refused("set interface unnumbered loop0 use pg1", "loop0");
    cli.ok("create loopback interface");
    let told = cli.refused("set interface unnumbered loop1 use pg1", "loop1");
    assert!(told.contains("pg1 uses the addresses of loop0 itself"), "{told}");
    cli.ok("ip table add 7");
    assert!(cli.run("set interface ip table pg1 7").is_err(), "both must be in one table");
    cli.ok("set interface unnumbered del pg1");
    cli.ok("set interface ip address pg1 10.7.0.1/24");
}
