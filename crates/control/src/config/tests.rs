//! Tests of valid and invalid files.

use super::*;
use crate::intent::can_be_name;
use crate::intent::tests::system;
use crate::system::Spec;
use crate::testing::catalog;
use model::yaml::Text;

/// Returns the faults of a file, each as `line:column: message`.
pub(super) fn faults(text: &str) -> Vec<String> {
    let all = read(text, "f", &catalog()).faults(&system().abilities);
    all.iter().map(|f| f.to_string().strip_prefix("f:").unwrap().to_string()).collect()
}

/// Asserts that a file has exactly these faults, each given by its place and a part of the message.
#[track_caller]
pub(super) fn wrong(text: &str, expected: &[(&str, &str)]) {
    let found = faults(text);
    let fits = |(f, (place, part)): (&String, &(&str, &str))| {
        f.starts_with(&format!("{place}: ")) && f.contains(part)
    };
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(fits),
        "{found:#?}\nexpected {expected:#?}"
    );
}

const EDGE: &str = r#"
taps:
  tap5:
    description: "to the host"
    host:
      name: host-side
      mac: "02:00:00:00:00:09"
      mtu: 9000
      address: 172.16.0.2/30
    rx-ring-size: 256
interfaces:
  host-eth0:
    device-type: af-packet
    af-packet: { mode: v3, shared: true }
    mtu: 9000
    urpf: strict
    tcp-mss-clamp: { ip4: 1400 }
    addresses: [ 192.0.2.1/24, 2001:db8::1/64, 192.0.2.2/24 ]
    neighbors:
      192.0.2.254: 02:00:00:00:00:01
      fe80::9: 02:00:00:00:00:09
      "2001:db8::9": 02:00:00:00:00:09
    features:
      ip4-unicast: [ ip4-count ]
    sub-interfaces:
      100:
        ip6: true
        addresses:
          - 198.51.100.1/24
      200:
        mtu: 1500
        urpf: loose
        tcp-mss-clamp: { ip4: 1360, direction: tx, ip6: 1340, ip6-direction: rx }
        encapsulation: { dot1ad: 200, inner-dot1q: 7, exact-match: True }
        state: down
      201: { encapsulation: { dot1ad: 201, inner-dot1q: any } }
      202: { encapsulation: { dot1q: any, exact-match: true } }
      203: { encapsulation: { default: true } }
      204: { encapsulation: { untagged: true } }
  tap5:
    mtu: 9000
    addresses: [ 172.16.0.1/30 ]
  pg3: {}
loopbacks:
  loop0: { addresses: [ 203.0.113.1/32 ], table: 5 }
tables: [ 5 ]
routes:
  - { prefix: 0.0.0.0/0, via: 192.0.2.254 }
  - { prefix: 10.0.0.0/8, table: 5, lookup-in-table: 0 }
  - prefix: 10.1.0.0/16
    via: 192.0.2.3
    interface: host-eth0
  - { prefix: 10.2.0.0/16, via: unreachable }
  - { prefix: 10.4.0.0/16, via: local }
  - { prefix: 10.3.0.0/16, interface: pg3 }
  - { prefix: ::/0, via: fe80::9, interface: host-eth0 }
  - prefix: 2001:db8:1::/48
    paths: [ { via: 2001:db8::7 }, { via: 2001:db8::8, weight: 2 } ]
  - { prefix: 2001:db8:2::/48, table: 5, lookup-in-table: 0 }
settings:
  ip4-neighbors: { limit: 1000 }
  ip6-neighbors: { age-seconds: 20 }
  ip4-full-reassembly: { timeout-seconds: 10 }
  ip6-full-reassembly: { max-reassemblies: 20 }
  punt-rates: { arp-request: 500 }
"#;

#[test]
fn reads_a_whole_configuration() {
    let wanted = read(EDGE, "f", &catalog());
    assert!(wanted.faults(&system().abilities).is_empty());
    let commands: Vec<String> =
        wanted.tree.tree().iter().flat_map(|(key, value)| value.dump(key, false)).collect();
    for line in [
        "create host-interface name eth0 shared v3",
        "set interface mtu 9000 host-eth0",
        "set interface state host-eth0 up",
        "set urpf ip4 rx strict host-eth0",
        "set interface tcp-mss-clamp host-eth0 ip4 enable ip4-mss 1400",
        "set urpf ip4 rx loose host-eth0.200",
        "set interface tcp-mss-clamp host-eth0.200 ip4 tx ip4-mss 1360",
        "set interface tcp-mss-clamp host-eth0.200 ip6 rx ip6-mss 1340",
        "set interface ip address host-eth0 192.0.2.1/24",
        "set ip neighbor host-eth0 192.0.2.254 02:00:00:00:00:01",
        "set interface feature host-eth0 ip4-count arc ip4-unicast",
        "create sub-interfaces host-eth0 100",
        "set interface state host-eth0.100 up",
        "create sub-interfaces host-eth0 200 dot1ad 200 inner-dot1q 7 exact-match",
        "create sub-interfaces host-eth0 201 dot1ad 201 inner-dot1q any exact-match",
        "create sub-interfaces host-eth0 202 dot1q any exact-match",
        "create sub-interfaces host-eth0 203 default",
        "create sub-interfaces host-eth0 204 untagged",
        "create tap id 5 host-if-name host-side host-mac-addr 02:00:00:00:00:09 host-ip4-addr 172.16.0.2/30",
        "set interface mtu 9000 tap5",
        "create packet-generator interface pg3",
        "create loopback interface instance 0",
        "set interface ip table loop0 5",
        "ip table add 5",
        "ip route add 0.0.0.0/0 via 192.0.2.254",
        "ip route add 10.0.0.0/8 table 5 via ip4-lookup-in-table 0",
        "ip route add 10.1.0.0/16 via 192.0.2.3 host-eth0",
        "ip route add 10.2.0.0/16 via unreachable",
        "ip route add 10.4.0.0/16 via local",
        "ip route add 10.3.0.0/16 via pg3",
        "ip route add ::/0 via fe80::9 host-eth0",
        "ip route add 2001:db8:1::/48 via 2001:db8::7 via 2001:db8::8 weight 2",
        "ip route add 2001:db8:2::/48 table 5 via ip6-lookup-in-table 0",
        "set interface ip address host-eth0 2001:db8::1/64",
        "set ip neighbor host-eth0 fe80::9 02:00:00:00:00:09",
        "set ip neighbor host-eth0 2001:db8::9 02:00:00:00:00:09",
        "enable ip6 interface host-eth0.100",
        "set ip neighbor-config ip6 age 20",
        "set ip neighbor-config ip4 limit 1000",
        "set ip4-full-reassembly timeout 10",
        "set ip6-full-reassembly max-reassemblies 20",
        "set punt rate arp-request 500",
    ] {
        assert!(commands.iter().any(|c| c == line), "{line} is not among\n{}", commands.join("\n"));
    }
    assert!(!commands.iter().any(|c| c == "set interface state host-eth0.200 up"));
}

#[test]
fn tables_have_a_short_form_and_one_with_names() {
    let short = "tables: [ 11, 4294967295 ]\n";
    let named = "tables:\n  11: { name: blue }\n  12: { name: \"no\" }\n  4294967295: {}\n";
    let loose = "tables: { 4294967295: , 11: { name: \"\" }, 12: {} }";
    for text in [short, named] {
        let wanted = read(text, "f", &catalog());
        assert_eq!(wanted.faults(&system().abilities), [], "{text}");
        assert_eq!(write(wanted.tree.tree(), &catalog()), text);
    }
    let loose = read(loose, "f", &catalog());
    assert_eq!(loose.faults.len(), 1, "an empty name is none");
    let dump = |text| -> Vec<String> {
        read(text, "f", &catalog())
            .tree
            .tree()
            .iter()
            .flat_map(|(key, value)| value.dump(key, false))
            .collect()
    };
    assert_eq!(
        dump(named),
        ["ip table add 11 name blue", "ip table add 12 name no", "ip table add 4294967295"]
    );
    wrong(
        "tables: { 7: { name: a }, 8: { name: a } }\n",
        &[("1:11", "table 8 has the name a already"), ("1:27", "table 7 has the name a already")],
    );
    // A table with an invalid name still counts as existing.
    wrong(
        "tables: { 7: { name: 7 } }\ninterfaces: { pg0: { table: 7 } }\n",
        &[("1:22", "cannot be the name of a table")],
    );
}

#[test]
fn every_fault_has_its_place() {
    wrong(
        "interfaces:\n  pg0:\n    mtu: 12\n    adresses: [ 10.0.0.1/24 ]\n    state: upp\nroute: []\n",
        &[
            ("3:10", "a number from 68 to 65535"),
            ("4:5", "did you mean 'addresses'?"),
            ("5:12", "did you mean 'up'?"),
            ("6:1", "did you mean 'routes'?"),
        ],
    );
    wrong(
        "interfaces:\n  pg0: { addresses: [ 10.0.0.300/24, 10.0.0.1, 2001:DB8::1/64 ], mac: 02:00 }\n",
        &[
            ("2:23", "not an address with prefix length"),
            ("2:38", "not an address with prefix length"),
            ("2:48", "as 2001:db8::1/64"),
            ("2:71", "not an Ethernet address"),
        ],
    );
    let clamp = |what: &str| format!("interfaces:\n  pg0: {{ tcp-mss-clamp: {{ {what} }} }}\n");
    wrong(&clamp("ip4: 99999"), &[("2:32", "a number from")]);
    wrong(&clamp("direction: rx"), &[("2:38", "is missing: set \"ip4\"")]);
    wrong(&clamp(""), &[("2:25", "\"ip4\" or \"ip6\"")]);
}

#[test]
fn all_wrong_addresses_of_a_list_are_reported() {
    let found = faults(
        "interfaces:\n  pg0: { addresses: [ 127.0.0.1/8, 10.0.0.1/24, 224.0.0.1/24, 10.0.0.1/25 ] }\n",
    );
    let [fault] = found.as_slice() else { panic!("{found:#?}") };
    assert!(fault.starts_with("2:21: 127.0.0.1 "), "{fault}");
    assert!(
        fault.contains("; 224.0.0.1 ") && fault.contains("; pg0 has the address 10.0.0.1 already"),
        "{fault}"
    );
    wrong(
        "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24, 10.1.0.1/24 ] }\n  pg1: { addresses: [ 10.0.0.2/16, 10.1.0.1/24 ] }\n",
        &[
            (
                "2:21",
                "10.0.0.1/24 on pg0 overlaps 10.0.0.2/16 on pg1: connected networks must not overlap; pg1 has the address 10.1.0.1",
            ),
            (
                "3:21",
                "overlaps 10.0.0.1/24 on pg0: connected networks must not overlap; pg0 has the address 10.1.0.1",
            ),
        ],
    );
}

#[test]
fn yaml_errors_have_advice() {
    let mut wrong = Vec::new();
    for (text, place, part) in [
        ("interfaces:\n\tpg0: {}\n", "2:2", "indent with blanks"),
        ("interfaces:\n  pg0: { mtu: 1500\n", "3:1", "or \"}\""),
        ("tables: [ 1, 2\nroutes: []\n", "2:7", "close the bracket"),
        ("tables: [ 1, 2\n", "2:1", "or \"]\""),
        ("a: \"b\nc: d\n", "", "not closed"),
        ("a: \"b\\qc\"\n", "1:4", "backslash"),
        ("a: \"b\" c\n", "1:8", "after a quoted value"),
        ("a: b: c\n", "1:5", "in the middle of a value"),
        ("interfaces:\n  pg0:\n    mtu: 1500\n   state: up\n", "4:", "Indent it as"),
        ("a: @b\n", "1:4", "invalid beginning of a value"),
        ("a: *b\n", "1:4", "into quotes"),
        ("a: - b\n", "1:4", "below its name"),
        ("a: }\n", "1:4", "bracket"),
    ] {
        let found = faults(text);
        let fits = |f: &String| f.starts_with(place) && f.contains(part);
        if found.len() != 1 || !found.iter().all(fits) {
            wrong.push((text, found));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsupported_sections_and_fields_are_reported() {
    wrong(
        "bondethernets:\n  BondEthernet0: {}\ninterfaces:\n  BondEthernet0: { mtu: 9000 }\n  \
         GigabitEthernet3/0/0: { device-type: dpdk, lcp: e0 }\n",
        &[
            ("1:1", "\"bondethernets\" is not supported yet"),
            ("4:3", "bonding is not supported yet"),
            ("5:3", "is none of host-NAME (a Linux interface), xdp-NAME"),
            ("5:46", "\"lcp\" is not supported yet"),
        ],
    );
    // Every unsupported section and field of vppcfg.
    for section in ["bridgedomains", "vxlan_tunnels", "prefixlists", "acls", "sflow"] {
        wrong(&format!("{section}: {{ x: {{ y: 1 }} }}\n"), &[("1:1", "is not supported yet")]);
    }
    for field in ["lcp", "l2xc", "mpls", "sflow", "acls"] {
        wrong(&format!("loopbacks: {{ loop0: {{ {field}: x }} }}\n"), &[("1:23", "is not supported yet")]);
    }
    for field in ["bridge", "bridge-create", "namespace-create"] {
        wrong(
            &format!("taps: {{ tap0: {{ host: {{ name: a, {field}: x }} }} }}\n"),
            &[("1:34", "is not supported yet")],
        );
    }
}

#[test]
fn invalid_combinations_are_refused() {
    let sub = |body: &str| format!("interfaces:\n  pg0:\n    mtu: 1500\n    sub-interfaces:\n{body}");
    wrong(&sub("      7: { mtu: 1600 }\n"), &[("5:7", "carries it, has only 1500")]);
    wrong(
        &sub("      7: { mtu: 1400 }\n      8: { mtu: 1450, encapsulation: { dot1q: 7, inner-dot1q: 8 } }\n"),
        &[("6:7", "the sub-interface of VLAN 7, which carries it, has only 1400")],
    );
    wrong(&sub("      5000: {}\n"), &[("5:7", "needs an \"encapsulation\"")]);
    wrong(
        &sub("      5: { encapsulation: { dot1q: 5, dot1ad: 5 } }\n"),
        &[("5:27", "one outer tag is needed")],
    );
    for (fields, place, why) in [
        ("default: true, dot1q: 5", "5:38", "cannot be combined"),
        ("untagged: true, default: true", "5:39", "cannot be combined"),
        ("dot1q: any, inner-dot1q: 5", "5:54", "needs a number as the outer VLAN"),
        ("dot1q: all", "5:36", "1 to 4094"),
    ] {
        wrong(&sub(&format!("      5: {{ encapsulation: {{ {fields} }} }}\n")), &[(place, why)]);
    }
    wrong(
        &sub("      5: { encapsulation: { default: true }, addresses: [ 10.0.0.1/24 ] }\n"),
        &[("5:57", "pg0.5 only receives")],
    );
    wrong(
        &sub("      5: {}\n      6: { encapsulation: { dot1q: 5 } }\n"),
        &[
            ("5:7", "already receives packets with these tags"),
            ("6:7", "already receives packets with these tags"),
        ],
    );
    wrong(
        "interfaces:\n  pg0:\n    state: down\n    sub-interfaces: { 5: { state: up } }\n",
        &[("4:23", "cannot be up while pg0 is down")],
    );
    wrong(
        "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n  pg1: { addresses: [ 10.0.0.2/16 ] }\n",
        &[("2:21", "overlaps"), ("3:21", "overlaps")],
    );
    wrong(
        "taps: { tap0: { host: { name: a, mtu: 1400 } } }\ninterfaces: { tap0: { mtu: 1500 }, tap1: {} }\n",
        &[("2:15", "they must be equal"), ("2:36", "no such tap")],
    );
    wrong(
        "taps: { tap0: { host: { name: a, mac: 01:00:00:00:00:01 } }, tap1: { host: { name: a } } }\n",
        &[("1:9", "group address"), ("1:62", "already the host's end of tap0")],
    );
    wrong(
        "interfaces:\n  host-a: { sub-interfaces: { 7: {} } }\n  host-a.7: {}\n  host-abcdefghijklmnop: {}\n",
        &[("3:3", "interface host-a.7 is already on line 2"), ("4:3", "more than 15 bytes")],
    );
    wrong("routes:\n  - { prefix: 10.0.0.1/8, via: drop }\n", &[("2:15", "did you mean 10.0.0.0/8?")]);
    wrong("routes:\n  - { prefix: 10.0.0.0/8 }\n", &[("2:5", "has exactly one target")]);
    wrong(
        "routes:\n  - { prefix: 10.0.0.0/8, via: drop }\n  - { prefix: 10.0.0.0/8, via: 10.0.0.1 }\n",
        &[("3:5", "is already on line 2")],
    );
    wrong("routes:\n  - { prefix: 10.0.0.0/8, table: 3, via: drop }\n", &[("2:5", "no table 3")]);
}

#[test]
fn indices_and_descriptions_are_checked() {
    wrong(
        "interfaces: { pg0: { index: 3 }, pg1: { index: 3 }, pg2: { index: 65536 } }\n",
        &[
            ("1:15", "pg1 has the index 3"),
            ("1:34", "pg0 has the index 3"),
            ("1:67", "a number from 0 to 65535"),
        ],
    );
    let long = "x".repeat(256);
    wrong(
        &format!("interfaces:\n  pg0: {{ description: \"{long}\" }}\n  pg1: {{ description: \"a\\nb\" }}\n"),
        &[("2:3", "at most 255 characters"), ("3:3", "one line"), ("3:23", "U+000A cannot be part")],
    );
    let text =
        "taps: { tap0: { description: \"to the host\", host: { name: a } } }\ninterfaces: { tap0: {} }\n";
    assert!(
        write(read(text, "f", &catalog()).tree.tree(), &catalog())
            .contains("  tap0:\n    description: \"to the host\"\n")
    );
}

/// A fault found while reading does not hide faults found by validating the rest. Faults that merely follow from it are not reported.
#[test]
fn faults_of_form_and_meaning_are_reported_together() {
    wrong(
        "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ], mtu: many }\n  pg1: { addresses: [ 10.0.0.2/16 ] }\n\
         routes:\n  - { prefix: 10.9.0.0/16, via: 10.0.0.1 }\n  - { prefix: 10.8.0.0/16, table: 7, via: drop }\n\
         rout: []\n",
        &[
            ("2:21", "overlaps"),
            ("2:43", "a number from"),
            ("3:21", "overlaps"),
            ("5:5", "own address on pg0"),
            ("7:1", "did you mean 'routes'?"),
        ],
    );
    // A missing table is reported unless there is an unknown section, which may contain the table.
    wrong(
        "interfaces: { pg0: { mtu: many, table: 7 } }\nroutes:\n  - { prefix: 10.8.0.0/16, table: 8, via: drop }\n",
        &[("1:15", "no table 7"), ("1:27", "a number from"), ("3:5", "no table 8")],
    );
    // A table could not be read. It may be the missing one.
    wrong("tables: [ seven ]\ninterfaces: { pg0: { table: 7 } }\n", &[("1:11", "a number from")]);
    wrong(
        "loopbacks: { lo0: {}, loop1: { table: x, addresses: [ 10.0.0.1/32 ] } }\ninterfaces: { pg0: { addresses: \
         [ 10.0.0.1/24 ] } }\nroutes:\n  - { prefix: 10.8.0.0/16, interface: lo0 }\n  - { prefix: 10.0.0.0/9, via: \
         10.0.0.1 }\n",
        &[("1:14", "named loop0"), ("1:39", "a number from"), ("2:33", "next hop"), ("5:5", "own address")],
    );
}

#[test]
fn other_documents_are_refused() {
    for (text, place, part) in [
        ("interfaces: [\n", "2:1", "while parsing"),
        ("a: &x 1\nb: *x\n", "2:4", "aliases"),
        ("{}\n---\n{}\n", "2:1", "second document"),
        ("- 1\n", "1:1", "expected a map"),
        ("interfaces: 7\n", "1:13", "expected a map"),
        ("tables: 7\n", "1:9", "expected a list"),
        ("tables: { 7: blue }\n", "1:14", "expected a map"),
        ("tables: { 0: {} }\n", "1:11", "\"0\" is not a number from 1 to 4294967295"),
        ("tables: { 07: {} }\n", "1:11", "is not a number"),
        ("tables: { 4294967296: {} }\n", "1:11", "is not a number"),
        ("tables: { 7: { name: 8 } }\n", "1:22", "cannot be the name of a table"),
        ("tables: { 7: { nmae: a } }\n", "1:16", "did you mean 'name'?"),
        ("tables: [ [ 1 ] ]\n", "1:11", "expected a single value"),
        ("interfaces:\n  pg0: {}\n  pg0: {}\n", "3:3", "is already on line 2"),
    ] {
        let found = faults(text);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("{place}: ")) && found[0].contains(part),
            "{text}: {found:?}"
        );
    }
    assert!(!read(&"[".repeat(100), "f", &catalog()).faults.is_empty());
    // A file that is empty by mistake does not remove everything.
    assert_eq!(faults("# interfaces:\n").len(), 1);
    assert!(faults("")[0].contains("1:1: the file configures nothing"));
    let read = read("{}", "f", &catalog());
    assert!(read.tree.tree().is_empty() && read.faults.is_empty());
}

/// Returns the first value that does not fit a JSON Schema, with its place. A member that the schema does not name does not fit.
fn misfit(schema: &serde_json::Value, value: &serde_json::Value, place: &str) -> Option<String> {
    use serde_json::Value;
    if let Some(any) = schema["anyOf"].as_array() {
        let misfits: Option<Vec<String>> = any.iter().map(|one| misfit(one, value, place)).collect();
        return misfits.map(|all| all.join(", or "));
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let is = |name: &Value| match name.as_str() {
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    };
    let words = schema["enum"].as_array();
    let below = schema["minimum"].as_f64().zip(value.as_f64()).is_some_and(|(least, is)| is < least);
    let above = schema["maximum"].as_f64().zip(value.as_f64()).is_some_and(|(most, is)| is > most);
    if types.is_empty() && words.is_none()
        || !types.is_empty() && !types.iter().any(is)
        || words.is_some_and(|words| !words.contains(value))
        || below
        || above
    {
        return Some(format!("{place}: {value} does not fit {schema}"));
    }
    let of_member = |(name, member): (&String, &Value)| {
        let inner = schema["properties"].get(name).or(schema.get("additionalProperties"));
        let place = format!("{place}/{name}");
        inner.map_or(Some(format!("{place} is unknown")), |inner| misfit(inner, member, &place))
    };
    match value {
        Value::Object(members) => members.iter().find_map(of_member),
        Value::Array(items) => items.iter().find_map(|item| misfit(&schema["items"], item, place)),
        _ => None,
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

    #[test]
    fn written_tree_is_read_again(tree in crate::intent::random::tree_of_any_objects()) {
        let text = write(&tree, &catalog());
        let read = read(&text, "f", &catalog());
        proptest::prop_assert!(read.faults.is_empty(), "{:#?}\n{text}", read.faults);
        proptest::prop_assert_eq!(read.tree.tree(), &tree, "{}", text);
    }

    /// The JSON of a tree is valid JSON, fits the JSON Schema, and reads as the same tree.
    #[test]
    fn tree_written_as_json_is_read_again(tree in crate::intent::random::tree_of_any_objects()) {
        let (mut writer, mut text) = (Writer::new(&tree, &catalog()).in_json(), String::new());
        while writer.page(&tree, &mut text) {}
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&text);
        proptest::prop_assert!(parsed.as_ref().is_ok_and(serde_json::Value::is_object), "{parsed:?}\n{text}");
        let misfit = misfit(&super::schema(&catalog()), &parsed.unwrap_or_default(), "");
        proptest::prop_assert_eq!(misfit, None, "{}", text);
        let read = read(&text, "f", &catalog());
        proptest::prop_assert!(read.faults.is_empty(), "{:#?}\n{text}", read.faults);
        proptest::prop_assert_eq!(read.tree.tree(), &tree, "{}", text);
    }

    #[test]
    fn reading_never_panics(cut in 0..EDGE.len(), insert in ".{0,6}", to in 0..EDGE.len()) {
        let (cut, to) = (cut.min(to), cut.max(to));
        let (a, b) = (EDGE.get(..cut).unwrap_or(""), EDGE.get(to..).unwrap_or(""));
        let _ = read(&format!("{a}{insert}{b}"), "f", &catalog());
    }
}

/// Asserts that every example of a record is read as it was written.
fn examples_are_read_as_they_are_written<T: Clone + PartialEq + std::fmt::Debug + 'static>(
    schema: &model::schema::Schema<T>,
) {
    let examples = schema.examples();
    assert!(examples.len() > 1, "{examples:?}");
    for example in examples {
        let mut text = String::new();
        schema.write(&mut Text::new(&mut text, true, false), &example);
        let mut r = Reader::new("f");
        // A map without fields is not written.
        let node = r.document(if text.is_empty() { "{}" } else { &text }, "", |_, _| ()).unwrap();
        let read = schema.read(&mut r, node.at, &node);
        assert_eq!((read.as_ref(), &r.faults), (Some(&example), &Vec::new()), "{text}");
    }
}

#[test]
fn examples_of_fields_are_read_as_written() {
    examples_are_read_as_they_are_written(super::body::body());
    examples_are_read_as_they_are_written(super::receive::receive());
    examples_are_read_as_they_are_written(super::encapsulation::encapsulation());
}

#[test]
fn examples_of_interface_types_are_read_as_written() {
    let catalog = catalog();
    assert!(catalog.interfaces().len() > 5);
    for (name, backed) in catalog.interfaces().iter().flat_map(|kind| (kind.examples)()) {
        assert!(can_be_name(&name, &catalog), "{name}");
        let key = Interface::key(&name);
        let interface = Interface { up: true, ..Interface::new(Spec::Backed(backed)) };
        let text = write(&Tree::from([(key.clone(), interface.clone().into())]), &catalog);
        let read = read(&text, "f", &catalog);
        assert_eq!(read.faults, [], "{text}");
        assert_eq!(read.tree.tree().get(&key), Some(&interface.into()), "{text}");
    }
}

#[test]
fn file_without_configuration_is_refused() {
    let cut_off = ["interfaces:", "interfaces: {}", "routes: []", "routes:\ntables:\n"];
    for text in ["", "\n# nothing\n", "~", "null", "\"\"", "---", "|", ">"].into_iter().chain(cut_off) {
        let found = faults(text);
        assert!(found.len() == 1 && found[0].contains("the file configures nothing"), "{text:?}: {found:?}");
    }
    wrong("{}", &[]);
}

/// Messages truncate long names: a random file may have names of any length.
#[test]
fn long_names_are_cut_in_messages() {
    let name = "ä".repeat(32 << 10);
    let found = faults(&format!(
        "? {name}\n: 1\ninterfaces: {{ pg0: {{ mtu: {name} }} }}\nroutes:\n  - {{ prefix: {name}, via: drop }}\n"
    ));
    assert_eq!(found.len(), 3);
    for fault in found {
        assert!(fault.len() < 3000 && fault.contains("ä") && fault.ends_with(" ..."), "{fault}");
    }
}

/// The limit on the number of faults holds for faults found while reading and for those found by validation.
#[test]
fn number_of_faults_is_limited() {
    let faulty: String = (0..3000).map(|n| format!("  - {{ prefix: {n}, via: drop }}\n")).collect();
    let unusable: String = (0..3000)
        .map(|n| format!("  - {{ prefix: 10.{}.{}.0/24, table: 7, via: drop }}\n", n / 256, n % 256))
        .collect();
    for text in
        [format!("routes:\n{faulty}"), format!("routes:\n{unusable}"), format!("routes:\n{faulty}{unusable}")]
    {
        let found = read(&text, "f", &catalog()).faults(&system().abilities);
        assert_eq!(found.len(), 1001);
        assert_eq!(found[0].to_string(), "f: more than 1000 faults; 1000 of them follow");
        assert!(found[1].to_string().starts_with("f:2:"), "{}", found[1]);
    }
}

#[test]
fn reading_ends_when_memory_runs_out() {
    let text = "[ ".to_string() + &"1, ".repeat(1 << 17) + "]";
    let read = |check| {
        let mut r = Reader::new("f").guarded_by(check);
        (r.document(&text, "", |_, _| ()).is_some(), r.faults.first().map(ToString::to_string))
    };
    assert_eq!(read(|| Ok(())), (true, None));
    assert_eq!(read(|| Err("no more".into())), (false, Some("f:1:1: no more".into())));
}
