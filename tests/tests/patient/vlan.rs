//! VLAN and QinQ: Linux hosts whose frames `tools/vlan.py` tags and untags.

use scenarios::{Ping, TWO_PORTS, VLAN_100, cabled, vlan};
use testkit::router::Router;

#[test]
fn tagged_hosts_reach_untagged_ones() {
    let Some((a, r, b)) = cabled() else { return };
    if !a.can_tap() {
        return;
    }
    let router = Router::start(&r, &format!("{TWO_PORTS}{VLAN_100}"));
    let _vlan = vlan(&a, "vlan100", "100", "10.0.100.2/24");
    a.run("ip route replace default via 10.0.100.1");
    let ping = Ping::run(&a, "-c 3 -i 0.2 -W 2 10.0.1.2");
    assert!(ping.complete(), "{}", ping.text);
    assert!(
        Ping::run(&b, "-c 1 -W 2 -s 1472 10.0.100.2").complete(),
        "a frame of the full MTU passes with its tag"
    );
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete(), "untagged traffic on the same port still passes");
    drop(router);
}

#[test]
fn hosts_with_one_tag_reach_hosts_with_two_tags() {
    let Some((a, r, b)) = cabled() else { return };
    if !a.can_tap() {
        return;
    }
    let _router = Router::start(
        &r,
        &format!(
            "{TWO_PORTS}{VLAN_100}
            create sub-interfaces host-eth1 7 dot1q 200 inner-dot1q 300 exact-match
            create sub-interfaces host-eth1 8 dot1ad 400 inner-dot1q 300 exact-match
            set interface state host-eth1.7 up
            set interface state host-eth1.8 up
            set interface ip address host-eth1.7 10.0.7.1/24
            set interface ip address host-eth1.8 10.0.8.1/24"
        ),
    );
    let _devices = [
        vlan(&a, "vlan100", "100", "10.0.100.2/24"),
        vlan(&b, "qinq7", "200 300", "10.0.7.2/24"),
        vlan(&b, "qinq8", "88a8:400 300", "10.0.8.2/24"),
    ];
    a.run("ip route add 10.0.7.0/24 via 10.0.100.1");
    a.run("ip route add 10.0.8.0/24 via 10.0.100.1");
    b.run("ip route add 10.0.100.0/24 via 10.0.7.1");
    // Once a reply has come, ping waits for the last one as long as an interval, and the tools that add tags may be slow.
    let ping = Ping::run(&a, "-c 3 -i 0.3 -W 2 10.0.7.2");
    assert!(ping.complete(), "{}", ping.text);
    b.run("ip route replace 10.0.100.0/24 via 10.0.8.1");
    let ping = Ping::run(&a, "-c 3 -i 0.3 -W 2 10.0.8.2");
    assert!(ping.complete(), "{}", ping.text);
}

#[test]
fn an_unknown_tag_is_dropped_with_its_reason() {
    let Some((a, r, _b)) = cabled() else { return };
    if !a.can_tap() {
        return;
    }
    let router = Router::start(&r, TWO_PORTS);
    let _vlan = vlan(&a, "vlan100", "100", "10.0.0.3/24");
    a.run("ip route add 10.0.0.1/32 dev vlan100");
    assert!(!Ping::answered(&a, "10.0.0.1"), "an untagged address does not answer on a VLAN");
    assert!(router.drops("ethernet-input", "unknown-vlan") > 0);
}

#[test]
fn untagged_frames_go_to_their_sub_interface_and_the_rest_to_the_default_one() {
    let Some((a, r, _b)) = cabled() else { return };
    if !a.can_tap() {
        return;
    }
    let router = Router::start(
        &r,
        "create host-interface name eth0
        set interface state host-eth0 up
        create sub-interfaces host-eth0 1 untagged
        create sub-interfaces host-eth0 2 default
        create sub-interfaces host-eth0 3 dot1q any
        create sub-interfaces host-eth0 100
        set interface state host-eth0.1 up
        set interface state host-eth0.2 up
        set interface state host-eth0.3 up
        set interface state host-eth0.100 up
        set interface ip address host-eth0.1 10.0.0.1/24
        set interface ip address host-eth0.100 10.0.100.1/24",
    );
    assert!(Ping::run(&a, "-c 3 -i 0.2 -W 2 10.0.0.1").complete(), "untagged frames are answered untagged");
    let _devices = [
        vlan(&a, "vlan100", "100", "10.0.100.2/24"),
        vlan(&a, "vlan101", "101", "10.0.101.2/24"),
        vlan(&a, "qinq", "100 7", "10.0.7.2/24"),
    ];
    assert!(
        Ping::run(&a, "-c 3 -i 0.2 -W 2 10.0.100.1").complete(),
        "an exact tag is the more specific match"
    );
    assert!(!Ping::answered(&a, "10.0.101.1") && !Ping::answered(&a, "10.0.7.1"));
    for (name, takes) in [("host-eth0.3", "dot1q any"), ("host-eth0.2", "default")] {
        let shown = router.json(&format!("show interface {name}"));
        assert_eq!(shown[0]["takes"], takes);
        assert!(shown[0]["counts"]["rx_packets"].as_u64().is_some_and(|packets| packets > 0), "{shown:#}");
        assert!(shown[0]["counts"]["tx_packets"].is_null(), "{shown:#}");
    }
    let shown = router.json("show interface host-eth0.1");
    assert!(shown[0]["counts"]["tx_packets"].as_u64().is_some_and(|packets| packets >= 3), "{shown:#}");
}
