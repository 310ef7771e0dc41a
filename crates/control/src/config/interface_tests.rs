//! Interfaces in configuration files.

use super::tests::{faults, wrong};
use super::*;
use crate::testing::catalog;

#[test]
fn mtus_and_names_that_linux_refuses_are_faults() {
    wrong("interfaces:\n  xdp-eth0: { mtu: 2091 }\n", &[("2:3", "more than 2090, the maximum of AF_XDP")]);
    assert_eq!(faults("interfaces:\n  xdp-eth0: { mtu: 2090 }\n  host-eth1: { mtu: 9000 }\n"), [""; 0]);
    for name in ["a/b", "a b", "a:b", "..", "a-name-of-16-byte"] {
        for kind in ["host", "xdp"] {
            let part = "invalid Linux interface name";
            wrong(&format!("interfaces:\n  \"{kind}-{name}\": {{}}\n"), &[("2:3", part)]);
        }
        wrong(
            &format!("taps: {{ tap0: {{ host: {{ name: \"{name}\" }} }} }}\n"),
            &[("1:9", "invalid Linux interface name")],
        );
    }
    wrong("taps: { tap0: { host: {} } }\n", &[("1:23", "needs a \"name\"")]);
}

#[test]
fn pcap_interfaces_are_written_as_read() {
    let text = "\
interfaces:
  pcap0:
    pcap:
      rx: \"/tmp/a.pcap\"
  pcap1:
    pcap:
      rx: \"/tmp/with a space\"
      rate: 1000
      loop: forever
      tx: \"/tmp/y.pcap\"
      max: 5
    mtu: 1500
  pcap2:
    pcap:
      rx: \"/tmp/a.pcap\"
      full-speed: true
      loop: 3
  pcap3:
    pcap:
      tx: \"/tmp/z.pcap\"
      max: 100000
";
    assert_eq!(write(read(text, "f", &catalog()).tree.tree(), &catalog()), text);
    for (body, part) in [
        ("{}", "needs a \"pcap\""),
        ("{ pcap: {} }", "no file is given"),
        ("{ pcap: { rx: a.pcap } }", "absolute path"),
        ("{ pcap: { rx: /a, rate: 0 } }", "4294967295"),
        ("{ pcap: { rx: /a, loop: 0 } }", "4294967295"),
        ("{ pcap: { rx: /a, loop: never } }", "never"),
        ("{ pcap: { rx: /a, rate: 5, full-speed: true } }", "leave out rate or full-speed"),
        ("{ pcap: { tx: /a, loop: 5 } }", "need a file to replay"),
        ("{ pcap: { rx: /a, max: 5 } }", "max needs a file to record"),
        ("{ pcap: { rx: /a, speed: 5 } }", "speed"),
    ] {
        let all = faults(&format!("interfaces:\n  pcap0: {body}\n"));
        assert!(all.len() == 1 && all[0].contains(part), "{body}: {all:?}");
    }
}

#[test]
fn af_xdp_interfaces_are_written_as_read() {
    let text = "\
interfaces:
  xdp-eth0:
    state: down
  xdp-eth1:
    af-xdp:
      queues: 2
      rx-ring-size: 256
      tx-ring-size: 512
      mode: generic
      zero-copy: false
      force: true
    mtu: 1500
";
    assert_eq!(write(read(text, "f", &catalog()).tree.tree(), &catalog()), text);
    wrong(
        "interfaces:\n  xdp-eth0: { device-type: af-packet }\n",
        &[("2:28", "xdp-eth0 needs the device-type af-xdp, not af-packet; host-NAME is a Linux interface")],
    );
    wrong("interfaces:\n  xdp-eth0: { af-xdp: { rx-ring-size: 100 } }\n", &[("2:39", "not a power of two")]);
    wrong(
        "interfaces:\n  xdp-eth0: { af-xdp: { queues: 0, mode: fast } }\n",
        &[("2:33", "from 1"), ("2:42", "native")],
    );
    wrong("interfaces:\n  xdp-a-name-that-is-long: {}\n", &[("2:3", "more than 15 bytes")]);
    wrong(
        "interfaces:\n  host-eth0: {}\n  xdp-eth0: {}\n",
        &[
            ("2:3", "xdp-eth0 already uses the Linux interface"),
            ("3:3", "host-eth0 already uses the Linux interface"),
        ],
    );
}

#[test]
fn linux_interface_may_have_the_name_of_a_vlan() {
    for (one, other) in [("xdp", "host"), ("host", "xdp")] {
        wrong(
            &format!(
                "interfaces:\n  {one}-eth0: {{ sub-interfaces: {{ 5: {{}} }} }}\n  {other}-eth0.5: {{}}\n"
            ),
            &[],
        );
    }
}

#[test]
fn unknown_interface_name_is_one_fault() {
    wrong(
        "interfaces:\n  eth0: { device-type: af-packet, af-packet: { mode: v3 } }\n",
        &[("2:3", "unknown interface type: \"eth0\" is none of host-NAME (a Linux interface)")],
    );
    wrong(
        "interfaces:\n  pcap70000: { pcap: { rx: /a } }\n",
        &[("2:3", "invalid name \"pcap70000\": expected one of pcap0, pcap1, …")],
    );
    for name in ["tap", "tap007", "tap3"] {
        wrong(&format!("interfaces:\n  {name}: {{}}\n"), &[("2:3", "no such tap in \"taps\"")]);
    }
    wrong("interfaces:\n  host-a/b: { af-packet: {} }\n", &[("2:3", "invalid Linux interface name \"a/b\"")]);
    let twice = &faults("interfaces:\n  xdp-eth0: { af-packet: {} }\n")[0];
    assert_eq!(twice.matches("device-type").count(), 1, "{twice}");
}

#[test]
fn memif_faults_are_reported() {
    wrong(
        "memif-sockets: { 0: a.sock, x: b.sock }\n",
        &[("1:18", "always exists"), ("1:29", "a number from 1 up")],
    );
    wrong("interfaces:\n  memif1/0: { memif: { role: slave } }\n", &[("2:3", "no such memif socket: 1")]);
    wrong("interfaces:\n  memif0/0: {}\n", &[("2:3", "needs a \"memif\"")]);
    wrong(
        "interfaces:\n  memif0/0: { memif: { ring-size: 1000, secret: \"1234567890123456789012345\" } }\n",
        &[("2:3", "power of two"), ("2:22", "its \"role\" is missing"), ("2:49", "more than 24")],
    );
}
