//! The configuration as a file: applied under traffic, taken back, saved, and there again after a restart.

use std::fs;
use std::time::Duration;

use scenarios::{Iperf, Ping, Routed, TWO_PORTS, address, cabled, lost_on_the_way};
use testkit::netns::LIMIT;
use testkit::process::until;
use testkit::router::Router;

const SOON: Duration = Duration::from_secs(10);

/// What [`Routed`] is configured to.
const PORTS: &str = "
interfaces:
  host-eth0: { addresses: [ 10.0.0.1/24 ] }
  host-eth1: { addresses: [ 10.0.1.1/24 ] }
";

/// The same, with much beside it.
const MORE: &str = "
interfaces:
  host-eth0: { addresses: [ 10.0.0.1/24 ] }
  host-eth1:
    addresses: [ 10.0.1.1/24 ]
    sub-interfaces:
      100: { addresses: [ 10.1.0.1/24 ] }
      200: { encapsulation: { dot1ad: 200, inner-dot1q: 7 }, addresses: [ 10.2.0.1/24 ] }
  host-eth2: { addresses: [ 10.3.0.1/24, 10.3.0.2/24 ], neighbors: { 10.3.0.9: 02:00:00:00:00:09 } }
loopbacks:
  loop0: { addresses: [ 203.0.113.1/32 ], table: 5 }
tables: [ 5 ]
routes:
  - { prefix: 10.64.0.0/10, via: 10.0.1.2 }
  - { prefix: 0.0.0.0/0, via: 10.3.0.9 }
";

/// Writes a file beside the router's socket, and gives its path.
fn file(router: &Router, name: &str, text: &str) -> String {
    let path = router.socket().with_file_name(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn what_does_not_change_is_not_disturbed() {
    let Some(net) = Routed::new() else { return };
    net.b.lab().link((&net.b, "eth1"), (&net.r, "eth2"));
    let (small, large) = (file(&net.router, "small.yaml", PORTS), file(&net.router, "large.yaml", MORE));
    // 2,500 packets a second: the port's ring holds what comes while a busy machine runs neither worker nor sender, and
    // what the sender then makes up for.
    let mut flow = Iperf::start(&net.a, &net.b, "10.0.1.2", "-u -b 4M -l 200 -t 3");
    let mut changes = 0;
    while flow.running() {
        net.router.ctl(&format!("config apply {large}"));
        net.router.ctl(&format!("config apply {small}"));
        changes += 2;
    }
    let end = flow.finish();
    assert!(changes >= 6, "only {changes} changes in three seconds");
    assert!(end["sum"]["packets"].as_u64().is_some_and(|packets| packets > 5_000), "{end}");
    assert_eq!(lost_on_the_way(&end, &net.b), 0, "{end}");
}

#[test]
fn what_nobody_confirms_goes_back() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    // The mistake of the night: the address that the operator came by is gone.
    let text = "interfaces:\n  host-eth0: {}\n  host-eth1: { addresses: [ 10.0.1.1/24 ] }\n";
    let path = file(&router, "wrong.yaml", text);
    let said = router.ctl(&format!("config apply {path} confirm 1"));
    assert!(said.contains("- set interface ip address host-eth0 10.0.0.1/24"), "{said}");
    assert!(!Ping::answered(&a, "10.0.0.1"));
    router.ctl("config rollback");
    Ping::until_answered(&a, "10.0.0.1", Duration::from_secs(3));
}

#[test]
fn what_was_saved_is_there_after_a_restart() {
    let Some((a, r, _b)) = cabled() else { return };
    let router = Router::start(&r, TWO_PORTS);
    router.script("create sub-interfaces host-eth0 7\nip route add 10.9.0.0/16 via 10.0.1.2");
    let config = router.ctl("show config");
    let path = router.socket().with_file_name("saved.yaml");
    router.ctl(&format!("config save {}", path.display()));
    router.stop();
    let again = Router::spawn_from(&r, &path);
    Ping::until_answered(&a, "10.0.1.2", Duration::from_secs(5));
    assert_eq!(again.ctl("show config"), config);
}

#[test]
fn a_wrong_file_is_refused_with_every_place() {
    let Some((_a, r, _b)) = cabled() else { return };
    let router = Router::start(&r, "");
    let path =
        file(&router, "wrong.yaml", "interfaces:\n  host-eth0: { mtu: many }\n  eth1: {}\nroute: []\n");
    let binary = testkit::router::binary().display();
    let check = r.attempt(&format!("{binary} check {path}"), LIMIT);
    let places: Vec<_> = check.stderr.lines().filter_map(|l| l.split(".yaml:").nth(1)).collect();
    assert!(
        check.code() == Some(1)
            && places.len() == 3
            && places[0].starts_with("2:21: ")
            && places[1].starts_with("3:3: ")
            && places[2].starts_with("4:1: "),
        "{check}"
    );
    let apply = router.attempt(&format!("config apply {path}"));
    assert!(apply.code() == Some(1) && apply.stderr.contains("nothing was changed"), "{apply}");
}

/// An option of a port changes when its device is gone: that is refused, and the interface stays, waiting for its device.
#[test]
fn what_cannot_be_changed_because_a_device_is_gone_is_as_it_was_when_that_returns() {
    let Some(Routed { a, b, r, router }) = Routed::new() else { return };
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.1.2").complete());
    let before = router.ctl("show config");
    r.run("ip link del eth1");
    until("the loss is logged", SOON, || router.log().contains("host-eth1: the device vanished"));
    let other = PORTS.replace("host-eth1: {", "host-eth1: { mtu: 1300, af-packet: { shared: true },");
    let path = file(&router, "other.yaml", &other);
    let said = router.attempt(&format!("config apply {path}"));
    assert!(said.code() == Some(1) && said.stderr.contains("eth1"), "{said}");
    assert!(!said.stderr.contains("taken back"), "{said}");
    assert_eq!(router.ctl("show config"), before);
    assert!(router.ctl("show interface").contains("host-eth1"));

    a.lab().link((&b, "eth0"), (&r, "eth1"));
    address(&b, "10.0.1.2/24", "10.0.1.1");
    Ping::until_answered(&a, "10.0.1.2", SOON);
    router.ctl(&format!("config apply {path}"));
    assert!(router.ctl("show config").contains("set interface mtu 1300 host-eth1"));
    r.run("ip link del eth1");
    until("it is gone again", SOON, || router.log().matches("host-eth1: the device vanished").count() == 2);
    router.ctl("delete host-interface name eth1");
    assert!(!router.ctl("show interface").contains("host-eth1"));
}
