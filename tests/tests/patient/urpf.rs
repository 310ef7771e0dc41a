//! Reverse-path checks: packets with a foreign source address are dropped.

use scenarios::{Ping, Routed, snmp};
use testkit::netns::Lab;
use testkit::router::Router;

/// Returns the packets that failed the check on this port, from `show urpf`.
fn failed(net: &Routed, port: &str) -> u64 {
    let text = net.router.ctl("show urpf --json");
    let shown: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let row = shown.as_array().and_then(|rows| rows.iter().find(|row| row["interface"] == port).cloned());
    row.and_then(|row| row["dropped_packets"].as_u64()).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn a_disabled_feature_has_no_nodes_and_no_commands() {
    let Some(lab) = Lab::new() else { return };
    let host = lab.host("r");
    let router = Router::launch(&host, "plugins { plugin urpf_plugin.so { disable } }", "").wait_ready();
    let plugins = router.json("show plugins");
    let urpf = plugins.as_array().and_then(|all| all.iter().find(|plugin| plugin["name"] == "urpf"));
    assert_eq!(urpf.map(|plugin| &plugin["enabled"]), Some(&false.into()), "{plugins}");
    let refused = router.attempt("set urpf ip4 rx strict loop0");
    assert!(!refused.ok() && refused.stderr.contains("plugin urpf { enable }"), "{refused}");
    let nodes = router.ctl("show node");
    assert!(nodes.contains("ip4-lookup") && !nodes.contains("urpf"), "{nodes}");
}

#[test]
fn packets_with_a_foreign_source_are_dropped() {
    let Some(net) = Routed::new() else { return };
    // Host a has two more addresses: one has no route, the route of the other leads to b.
    for address in ["172.31.0.9/32", "10.8.0.9/32"] {
        net.a.run(&format!("ip addr add {address} dev lo"));
    }
    net.router.ctl("ip route add 10.8.0.0/16 via 10.0.1.2");
    let ping = |from: &str| Ping::run(&net.a, &format!("-c 3 -i 0.05 -W 0.5 -I {from} 10.0.1.2"));
    let both_ways = || Ping::answered(&net.a, "10.0.1.2") && Ping::answered(&net.b, "10.0.0.2");
    assert!(both_ways());
    let before = snmp(&net.b, "Icmp", "InEchos");
    ping("172.31.0.9");
    assert_eq!(snmp(&net.b, "Icmp", "InEchos"), before + 3, "packets pass without a check");
    for (mode, unrouted, elsewhere) in [("strict", 3, 3), ("loose", 3, 0)] {
        net.router.ctl(&format!("set urpf ip4 rx {mode} host-eth0"));
        net.router.ctl("clear interfaces");
        let before = snmp(&net.b, "Icmp", "InEchos");
        ping("172.31.0.9");
        assert_eq!(failed(&net, "host-eth0"), unrouted, "{mode}");
        ping("10.8.0.9");
        assert_eq!(failed(&net, "host-eth0"), unrouted + elsewhere, "{mode}");
        assert_eq!(
            snmp(&net.b, "Icmp", "InEchos"),
            before + 6 - unrouted - elsewhere,
            "{mode}: the other packets reach b"
        );
        assert!(both_ways(), "{mode}: packets with valid sources pass");
        assert!(Ping::answered(&net.a, "10.0.0.1"), "{mode}: the router itself");
        assert_eq!(failed(&net, "host-eth0"), unrouted + elsewhere, "{mode}");
    }
    let errors = net.router.ctl("show errors");
    for line in ["ip4-rx-urpf-strict  source-elsewhere", "ip4-rx-urpf-loose   no-route-to-source"] {
        assert!(errors.contains(line), "{errors}");
    }
    // A default route covers every source.
    net.router.ctl("ip route add 0.0.0.0/0 via 10.0.1.2");
    let before = failed(&net, "host-eth0");
    ping("172.31.0.9");
    assert_eq!(failed(&net, "host-eth0"), before);
}
