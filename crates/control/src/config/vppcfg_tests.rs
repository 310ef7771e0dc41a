//! Tests with vppcfg files: their meaning, and vppcfg's rules.

use super::read;
use super::tests::wrong;
use crate::intent::tests::system;
use crate::testing::catalog;

/// Returns a file's configuration as commands.
fn commands(text: &str) -> Vec<String> {
    let wanted = read(text, "f", &catalog());
    assert_eq!(wanted.faults(&system().abilities), [], "{text}");
    wanted.tree.tree().iter().flat_map(|(key, value)| value.dump(key, false)).collect()
}

/// A file for a router with a trunk, a loopback and a tap. It uses all supported fields of vppcfg except `device-type`.
#[test]
fn vppcfg_file_has_the_same_meaning() {
    let text = r#"
interfaces:
  host-eth0:
    description: Infra, to the other site
    mac: 02:00:00:00:01:01
    mtu: 9000
    state: up
    addresses: [ 192.0.2.1/30 ]
    sub-interfaces:
      100: { description: Customers, mtu: 2500, addresses: [ 198.51.100.1/25, 198.51.100.2/25 ] }
      101:
        state: down
        encapsulation: { dot1ad: 101, inner-dot1q: 7, exact-match: True }
        mtu: 1500
        addresses:
          - 198.51.100.129/26
      4294967295:
        encapsulation: { dot1q: 4094, exact-match: yes }
  host-eth1: { state: down }
  tap1: { mtu: 1400 }
loopbacks:
  loop0:
    description: Core loopback
    mac: "02:00:00:00:02:01"
    mtu: 9216
    addresses: [ 10.13.37.1/32 ]
taps:
  tap1:
    description: To the host
    host: { name: vpp-tap1, mac: 02:00:00:00:03:01, mtu: 1400, namespace: services }
    rx-ring-size: 256
    tx-ring-size: 8
"#;
    let expected = [
        "create host-interface name eth0",
        "set interface description host-eth0 \"Infra, to the other site\"",
        "set interface mac address host-eth0 02:00:00:00:01:01",
        "set interface mtu 9000 host-eth0",
        "set interface state host-eth0 up",
        "create host-interface name eth1",
        "create loopback interface instance 0",
        "set interface description loop0 \"Core loopback\"",
        "set interface mac address loop0 02:00:00:00:02:01",
        "set interface mtu 9216 loop0",
        "set interface state loop0 up",
        "create tap id 1 host-if-name vpp-tap1 host-ns services host-mac-addr 02:00:00:00:03:01",
        "set interface description tap1 \"To the host\"",
        "set interface mtu 1400 tap1",
        "set interface state tap1 up",
        "create sub-interfaces host-eth0 100",
        "set interface description host-eth0.100 Customers",
        "set interface mtu 2500 host-eth0.100",
        "set interface state host-eth0.100 up",
        "create sub-interfaces host-eth0 101 dot1ad 101 inner-dot1q 7 exact-match",
        "set interface mtu 1500 host-eth0.101",
        "create sub-interfaces host-eth0 4294967295 dot1q 4094 exact-match",
        "set interface state host-eth0.4294967295 up",
        "set interface ip address host-eth0 192.0.2.1/30",
        "set interface ip address host-eth0.100 198.51.100.1/25",
        "set interface ip address host-eth0.100 198.51.100.2/25",
        "set interface ip address host-eth0.101 198.51.100.129/26",
        "set interface ip address loop0 10.13.37.1/32",
    ];
    let mut expected = expected.map(String::from).to_vec();
    let mut made = commands(text);
    expected.sort();
    made.sort();
    assert_eq!(made, expected);
    // The longest description that Linux allows.
    commands(&format!("interfaces: {{ pg0: {{ description: \"{}\" }} }}\n", "x".repeat(255)));
}

/// The first file of each pair keeps a rule of vppcfg or of Volley, mostly at its limit, and is accepted. The second one breaks the rule,
/// and is refused.
#[test]
fn vppcfg_rules_are_enforced() {
    for (good, bad, place, part) in [
        (
            "loopbacks: { loop0: { mac: 02:00:00:00:00:01 } }",
            "loopbacks: { loop0: { mac: 03:00:00:00:00:01 } }",
            "1:14",
            "group address",
        ),
        (
            "taps: { tap0: { host: { name: abcdefghijklmno } } }",
            "taps: { tap0: { host: { name: abcdefghijklmnop } } }",
            "1:9",
            "more than 15 bytes",
        ),
        (
            "taps: { tap0: { host: { name: a.b-c_d } } }",
            "taps: { tap0: { host: { name: a/b } } }",
            "1:9",
            "\"a/b\"",
        ),
        (
            "taps: { tap0: { host: { name: a } } }",
            "taps: { tap0: { host: { name: \"a b\" } } }",
            "1:9",
            "\"a b\"",
        ),
        ("taps: { tap0: { host: { name: a } } }", "taps: { tap0: { host: { name: .. } } }", "1:9", "\"..\""),
        (
            "taps: { tap0: { host: { name: a }, rx-ring-size: 32768 } }",
            "taps: { tap0: { host: { name: a }, rx-ring-size: 4 } }",
            "1:50",
            "from 8 to 32768",
        ),
        (
            "taps: { tap0: { host: { name: a }, tx-ring-size: 512 } }",
            "taps: { tap0: { host: { name: a }, tx-ring-size: 500 } }",
            "1:50",
            "not a power of two",
        ),
        ("taps: { tap0: { host: { name: a } } }", "taps: { tap0: {} }", "1:9", "needs a \"host\""),
        (
            "interfaces: { pg0: { sub-interfaces: { 1: {} } } }",
            "interfaces: { pg0: { sub-interfaces: { 0: {} } } }",
            "1:40",
            "not a sub-interface number",
        ),
        (
            "interfaces: { pg0: { sub-interfaces: { 9: { encapsulation: { dot1q: 8, inner-dot1q: 4094 } } } } }",
            "interfaces: { pg0: { sub-interfaces: { 9: { encapsulation: { dot1q: 8, inner-dot1q: 4095 } } } } }",
            "1:85",
            "from 1 to 4094",
        ),
        (
            "interfaces: { pg0: { sub-interfaces: { 9: { encapsulation: { dot1ad: 8, inner-dot1q: 9 } } } } }",
            "interfaces: { pg0: { sub-interfaces: { 9: { encapsulation: { inner-dot1q: 9 } } } } }",
            "1:60",
            "one outer tag",
        ),
        (
            "interfaces: { host-a: { device-type: af-packet } }",
            "interfaces: { host-a: { device-type: dpdk } }",
            "1:38",
            "needs the device-type af-packet",
        ),
        // Readers of YAML 1.1, such as vppcfg, take this for an octal number.
        (
            "interfaces: { pg0: { mtu: 1500 } }",
            "interfaces: { pg0: { mtu: 01500 } }",
            "1:27",
            "remove the leading zeros",
        ),
    ] {
        commands(good);
        wrong(&format!("{bad}\n"), &[(place, part)]);
    }
}
