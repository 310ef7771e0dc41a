//! Cross-connects and bridge domains between Linux hosts, also with other VLAN tags on each side.

use scenarios::{Iperf, Ping, cabled6, speaks6, vlan};
use testkit::netns::{Host, LIMIT};
use testkit::router::Router;

const CONNECTED: &str = "\
create host-interface name eth0
create host-interface name eth1
set interface state host-eth0 up
set interface state host-eth1 up
set interface l2 xconnect host-eth0 host-eth1
set interface l2 xconnect host-eth1 host-eth0
";

const BRIDGED: &str = "\
create host-interface name eth0
create host-interface name eth1
set interface state host-eth0 up
set interface state host-eth1 up
set interface l2 bridge host-eth0 10
set interface l2 bridge host-eth1 10
";

/// Two hosts in one network, with the router between them: their addresses end in 2 and 3.
fn hosts() -> Option<(Host, Host, Host)> {
    let (a, r, b) = cabled6()?;
    for (host, last) in [(&a, 2), (&b, 3)] {
        speaks6(host);
        host.run(&format!("ip addr add 10.0.0.{last}/24 dev eth0"));
        host.run(&format!("ip addr add 2001:db8::{last}/64 dev eth0 nodad"));
    }
    Some((a, r, b))
}

#[test]
fn cross_connected_hosts_share_a_link() {
    let Some((a, r, b)) = hosts() else { return };
    for host in [&a, &r] {
        host.run("ip link set eth0 mtu 3000");
    }
    let router = Router::start(&r, CONNECTED);
    // ARP and Neighbor Discovery pass, too.
    Ping::until_answered(&a, "10.0.0.3", LIMIT);
    Ping::until_answered(&a, "2001:db8::3", LIMIT);
    let ping = Ping::run(&b, "-c 3 -i 0.2 -W 2 -s 1472 10.0.0.2");
    assert!(ping.complete(), "{}", ping.text);
    let tcp = Iperf::run(&a, &b, "10.0.0.3", "-n 20M");
    assert!(tcp["sum_received"]["bytes"].as_u64() > Some(10_000_000), "TCP with segmentation passes: {tcp}");
    // A larger frame than the output's MTU is dropped, with its reason.
    assert!(!Ping::run(&a, "-c 1 -W 1 -s 2000 10.0.0.3").complete());
    assert!(router.drops("l2-xconnect", "above-mtu") > 0, "{}", router.ctl("show errors"));
    // One way only.
    router.ctl("set interface l3 host-eth1");
    assert!(!Ping::answered(&a, "10.0.0.3"));
    router.ctl("set interface l2 xconnect host-eth1 host-eth0");
    Ping::until_answered(&a, "10.0.0.3", LIMIT);
    assert_eq!(router.ctl("show mode host-eth0"), "l2 xconnect host-eth0 host-eth1\n");
}

#[test]
fn tagged_frames_keep_their_tags_or_go_to_their_sub_interface() {
    let Some((a, r, b)) = hosts() else { return };
    if !a.can_tap() {
        return;
    }
    let router = Router::start(&r, CONNECTED);
    let _devices = [vlan(&a, "vlan100", "100", "10.0.100.2/24"), vlan(&b, "vlan100", "100", "10.0.100.3/24")];
    Ping::until_answered(&a, "10.0.100.3", LIMIT);
    // A routed VLAN beside the cross-connect.
    router.ctl("create sub-interfaces host-eth0 100");
    router.ctl("set interface state host-eth0.100 up");
    router.ctl("set interface ip address host-eth0.100 10.0.100.1/24");
    Ping::until_answered(&a, "10.0.100.1", LIMIT);
    assert!(!Ping::answered(&a, "10.0.100.3"), "the VLAN is routed, not switched");
    Ping::until_answered(&a, "10.0.0.3", LIMIT);
    // A VLAN that is switched, beside a routed port.
    router.ctl("delete sub-interface host-eth0.100");
    for (port, other) in [("host-eth0", "host-eth1"), ("host-eth1", "host-eth0")] {
        router.ctl(&format!("set interface l3 {port}"));
        for name in [port, other] {
            let _ = router.attempt(&format!("create sub-interfaces {name} 100"));
            router.ctl(&format!("set interface state {name}.100 up"));
        }
        router.ctl(&format!("set interface l2 xconnect {port}.100 {other}.100"));
    }
    router.ctl("set interface ip address host-eth0 10.0.0.1/24");
    Ping::until_answered(&a, "10.0.100.3", LIMIT);
    Ping::until_answered(&a, "10.0.0.1", LIMIT);
    assert!(!Ping::answered(&a, "10.0.0.3"));
}

/// A VLAN on one side is an untagged link, or another VLAN, on the other.
#[test]
fn tags_are_rewritten_between_hosts() {
    let Some((a, r, b)) = hosts() else { return };
    if !a.can_tap() {
        return;
    }
    // For Linux, 802.1ad tags count towards the MTU.
    b.run("ip link set eth0 mtu 1508");
    r.run("ip link set eth1 mtu 1508");
    let mut commands = String::from(
        "create host-interface name eth0
        create host-interface name eth1
        set interface state host-eth0 up
        set interface state host-eth1 up
        create sub-interfaces host-eth0 100
        create sub-interfaces host-eth1 7 dot1ad 200 inner-dot1q 300 exact-match\n",
    );
    for (one, other) in [("host-eth0.100", "host-eth1.7"), ("host-eth1.7", "host-eth0.100")] {
        commands += &format!("set interface state {one} up\nset interface l2 xconnect {one} {other}\n");
    }
    commands +=
        "set interface l2 tag-rewrite host-eth0.100 pop 1\nset interface l2 tag-rewrite host-eth1.7 pop 2\n";
    let router = Router::start(&r, &commands);
    let _left = vlan(&a, "vlan100", "100", "10.0.100.2/24");
    let right = vlan(&b, "qinq", "88a8:200 300", "10.0.100.3/24");
    Ping::until_answered(&a, "10.0.100.3", LIMIT);
    let ping = Ping::run(&b, "-c 2 -i 0.2 -W 2 -s 1400 10.0.100.2");
    assert!(ping.complete(), "{}", ping.text);
    let tcp = Iperf::run(&a, &b, "10.0.100.3", "-n 5M");
    assert!(tcp["sum_received"]["bytes"].as_u64() > Some(1_000_000), "{tcp}");
    // The same VLAN as an untagged port.
    drop(right);
    for command in [
        "set interface l3 host-eth1.7",
        "set interface l2 xconnect host-eth1 host-eth0.100",
        "set interface l2 xconnect host-eth0.100 host-eth1",
    ] {
        router.ctl(command);
    }
    b.run("ip addr add 10.0.100.4/24 dev eth0");
    Ping::until_answered(&a, "10.0.100.4", LIMIT);
    // Its frames keep the tag without a rewriting.
    router.ctl("set interface l2 tag-rewrite host-eth0.100 disable");
    assert!(!Ping::answered(&a, "10.0.100.4"));
}

/// Three ports: the two hosts, and a VLAN of the first one.
#[test]
fn bridged_hosts_share_a_network() {
    let Some((a, r, b)) = hosts() else { return };
    let commands = format!(
        "\
        {BRIDGED}create sub-interfaces host-eth0 100
        set interface state host-eth0.100 up
        set interface l2 tag-rewrite host-eth0.100 pop 1
        set interface l2 bridge host-eth0.100 10
        set bridge-domain mac-age 10 1
    "
    );
    let router = Router::start(&r, &commands);
    Ping::until_answered(&a, "10.0.0.3", LIMIT);
    Ping::until_answered(&a, "2001:db8::3", LIMIT);
    let tcp = Iperf::run(&a, &b, "10.0.0.3", "-n 20M");
    assert!(tcp["sum_received"]["bytes"].as_u64() > Some(10_000_000), "TCP with segmentation passes: {tcp}");
    let ports = |mac: &str| {
        let all = router.json("show l2fib bd_id 10 learn");
        let rows = all.as_array().unwrap().clone();
        let of = rows.into_iter().filter(|row| row["mac"] == mac);
        of.map(|row| row["interface"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mac = |host: &Host, of: &str| host.run(&format!("cat /sys/class/net/{of}/address")).trim().to_owned();
    assert_eq!(ports(&mac(&a, "eth0")), ["host-eth0"]);
    assert_eq!(ports(&mac(&b, "eth0")), ["host-eth1"]);
    if !a.can_tap() {
        return;
    }
    let tagged = vlan(&a, "vlan100", "100", "10.0.0.4/24");
    a.run("ip addr del 10.0.0.2/24 dev eth0");
    Ping::until_answered(&a, "10.0.0.3", LIMIT);
    let station = mac(&a, "vlan100");
    assert_eq!(ports(&station), ["host-eth0.100"]);
    // Ports of a split-horizon group do not reach each other.
    router.ctl("set interface l2 bridge host-eth0.100 10 1");
    router.ctl("set interface l2 bridge host-eth1 10 1");
    assert!(!Ping::answered(&a, "10.0.0.3"));
    router.ctl("set interface l2 bridge host-eth1 10");
    Ping::until_answered(&a, "10.0.0.3", LIMIT);
    // The station moves to another port. Its next frame tells.
    drop(tagged);
    a.run(&format!("ip link set eth0 address {station}"));
    a.run("ip addr add 10.0.0.4/24 dev eth0");
    Ping::until_answered(&a, "10.0.0.3", LIMIT);
    assert_eq!(ports(&station), ["host-eth0"]);
}

#[test]
fn a_bvi_routes_for_its_domain() {
    let Some((a, r, b)) = hosts() else { return };
    let commands = format!(
        "\
        {BRIDGED}create loopback interface instance 0
        set interface state loop0 up
        set interface ip address loop0 10.0.0.1/24
        set interface ip address loop0 2001:db8::1/64
    "
    );
    let router = Router::start(&r, &commands);
    let refused = router.attempt("set ip neighbor loop0 10.0.0.9 02:00:00:00:00:09");
    assert!(refused.stderr.contains("without a bridge domain: it has no neighbors"), "{}", refused.stderr);
    router.ctl("set interface l2 bridge loop0 10 bvi");
    assert_eq!(router.ctl("show mode loop0"), "l2 bridge loop0 bd_id 10 bvi shg 0\n");
    for host in [&a, &b] {
        Ping::until_answered(host, "10.0.0.1", LIMIT);
        Ping::until_answered(host, "2001:db8::1", LIMIT);
    }
    Ping::until_answered(&a, "10.0.0.3", LIMIT);
    // The router asks for its neighbors, too, and knows them on the BVI.
    router.ctl("ping 10.0.0.3 repeat 1");
    assert!(router.ctl("show ip neighbors").contains("loop0"), "{}", router.ctl("show ip neighbors"));
    router.ctl("create loopback interface instance 1");
    let refused = router.attempt("set interface l2 bridge loop1 10 bvi");
    assert!(refused.stderr.contains("bridge domain 10 has the BVI loop0 already"), "{}", refused.stderr);
    let refused = router.attempt("set interface l2 bridge loop1 10");
    assert!(refused.stderr.contains("\"set interface l2 bridge loop1 10 bvi\""), "{}", refused.stderr);

    // The other host is on a routed port now: the router forwards between the domain and the port.
    router.ctl("set interface l3 host-eth1");
    router.ctl("set interface ip address host-eth1 10.0.1.1/24");
    b.run("ip addr add 10.0.1.3/24 dev eth0");
    b.run("ip route add 10.0.0.2/32 via 10.0.1.1");
    a.run("ip route add 10.0.1.0/24 via 10.0.0.1");
    Ping::until_answered(&a, "10.0.1.3", LIMIT);
    for (from, to, server) in [(&a, &b, "10.0.1.3"), (&b, &a, "10.0.0.2")] {
        let tcp = Iperf::run(from, to, server, "-n 20M");
        assert!(
            tcp["sum_received"]["bytes"].as_u64() > Some(10_000_000),
            "TCP with segmentation passes: {tcp}"
        );
    }
    assert!(router.counter("loop0", "rx packets") > 100 && router.counter("loop0", "tx packets") > 100);

    // Its address changes. Hosts are told by a gratuitous ARP.
    router.ctl("set interface mac address loop0 02:00:00:00:00:77");
    Ping::until_answered(&a, "10.0.1.3", LIMIT);
    let own = router.ctl("show l2fib bd_id 10");
    assert!(own.contains("02:00:00:00:00:77") && own.contains("bvi"), "{own}");

    // A static neighbor needs the link.
    router.ctl("set ip neighbor loop0 10.0.0.9 02:00:00:00:00:09");
    let refused = router.attempt("set interface l3 loop0");
    assert!(
        refused.stderr.contains("the link of loop0 cannot be removed: neighbor 10.0.0.9"),
        "{}",
        refused.stderr
    );
    router.ctl("set ip neighbor del loop0 10.0.0.9");
    router.ctl("set interface l3 loop0");
    assert!(!Ping::answered(&a, "10.0.0.1"));
    router.ctl("set interface l2 bridge loop0 10 bvi");
    Ping::until_answered(&a, "10.0.1.3", LIMIT);
}

/// One configuration after another: the port for unknown unicast moves to another port, and back.
#[test]
fn roles_of_ports_change_places() {
    let Some((a, r, b)) = hosts() else { return };
    let router = Router::start(&r, "");
    for (name, unknown) in [("eth0", "host-eth1"), ("eth1", "host-eth0"), ("eth2", "host-eth1")] {
        let mut ports = String::new();
        for port in ["host-eth0", "host-eth1"] {
            ports += &format!("  {port}: {{ bridge-domain: 10, uu-fwd: {} }}\n", port == unknown);
        }
        let file = r.lab().dir().join(format!("{name}.yaml"));
        let document = format!(
            "interfaces:\n  host-eth0: {{}}\n  host-eth1: {{}}\nloopbacks:\n  bvi3: {{ addresses: [10.0.0.1/24] }}\n\
             bridge-domains:\n  10: {{ arp-term: true }}\nbridge-ports:\n{ports}bvis:\n  bvi3: {{ bridge-domain: 10 }}\n\
             bridge-hosts:\n  \"10 10.0.0.9\": \"02:00:00:00:00:09\"\n"
        );
        std::fs::write(&file, document).unwrap();
        router.ctl(&format!("config apply {}", file.display()));
        let shown = router.json("show bridge-domain 10 detail");
        let ports = shown[0]["ports"].as_array().unwrap().clone();
        let role: Vec<_> = ports
            .iter()
            .filter(|port| port["uu_fwd"] == true)
            .map(|port| port["interface"].clone())
            .collect();
        assert_eq!(role, [unknown], "{shown}");
        Ping::until_answered(&a, "10.0.0.1", LIMIT);
        Ping::until_answered(&b, "10.0.0.1", LIMIT);
    }
    // The commands of this configuration, with indexes, make it again.
    let commands = router.ctl("show config");
    assert!(commands.contains("bvi create instance 3"), "{commands}");
    router.ctl("bvi create");
    let file = r.lab().dir().join("saved.cli");
    router.ctl(&format!("config save {}", file.display()));
    drop(router);
    let again = Router::start(&r, &std::fs::read_to_string(&file).unwrap());
    assert!(again.ctl("show config").contains("set interface l2 bridge bvi3 10 bvi"));
    Ping::until_answered(&a, "10.0.0.1", LIMIT);
}
