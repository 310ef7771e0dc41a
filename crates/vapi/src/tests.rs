//! Tests of definitions, against checksums and bytes of VPP 26.06.
#![allow(non_camel_case_types, missing_docs)]

use proptest::prelude::*;
use serde_json::json;

use crate::shape::{Head, Info};
use crate::types::*;
use crate::wire::{Array, Count, Field, Line, Malformed, Reader, Text, Writer};
use crate::{DONE, Message, Request, Table, crc, define, given, json, value};

define! {
    request create_loopback { mac_address: mac_address } -> create_loopback_reply { sw_if_index: interface_index }
    dump sw_interface_dump { sw_if_index: interface_index, name_filter_valid: bool, name_filter: Line } -> some_details { }
    request ip_route_add_del { is_add: bool = true, is_multipath: bool, route: ip_route } -> ip_route_add_del_reply { stats_index: u32 }
    request control_ping { } -> control_ping_reply { client_index: u32, vpe_pid: u32 }
    bare sockclnt_create { context: u32, name: Text<64> }
    struct message_table_entry { index: u16, name: Text<64> }
    bare sockclnt_create_reply {
        client_index: u32, context: u32, response: i32, index: u32, count: Count<u16>, message_table: Vec<message_table_entry>,
    }
    request cli_inband { cmd: Line } -> cli_inband_reply { reply: Line }
    request sw_interface_set_flags { sw_if_index: interface_index, flags: if_status_flags }
}

fn bytes(message: &impl Message) -> Vec<u8> {
    let mut w = Writer::default();
    message.put(&mut w);
    w.into_bytes()
}

#[test]
fn checksums_are_those_of_vpp() {
    let cases: [(Info, u32); 9] = [
        (create_loopback::info(), 0x42bb_5d22),
        (sw_interface_dump::info(), 0xaa61_0c27),
        (ip_route_add_del::info(), 0xb8ec_fe0d),
        (control_ping::info(), 0x5107_7d14),
        (sockclnt_create::info(), 0x455f_b9c4),
        (sockclnt_create_reply::info(), 0x3516_6268),
        (cli_inband::info(), 0xf837_7302),
        (sw_interface_set_flags::info(), 0xf5ae_c1b8),
        (sw_interface_set_flags::reply(), 0xe8d4_e804),
    ];
    for (info, crc) in cases {
        assert_eq!(crc::of(&info), crc, "{}", info.name);
    }
    assert_eq!(sw_interface_set_flags::reply().name, "sw_interface_set_flags_reply");
}

/// The bytes were sent by VPP's client for Python.
#[test]
fn a_route_has_the_bytes_of_vpps_client() {
    let mut next_hop = address_union::default();
    next_hop.0[..4].copy_from_slice(&[192, 0, 2, 1]);
    let mut to = address_union::default();
    to.0[0] = 10;
    let path = fib_path {
        sw_if_index: 2,
        rpf_id: u32::MAX,
        weight: 1,
        nh: fib_path_nh { address: next_hop, ..Default::default() },
        ..Default::default()
    };
    let prefix = prefix { address: address { af: address_family::ADDRESS_IP4, un: to }, len: 8 };
    let route = ip_route { prefix, paths: vec![path], ..Default::default() };
    let request = ip_route_add_del { is_add: true, is_multipath: false, route };
    let sent = bytes(&request);
    assert_eq!(sent.len(), 206 - 10, "without the head");
    let mut wanted = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10];
    wanted.resize(12 + 15, 0);
    wanted.extend([
        8, 1, 0, 0, 0, 2, 0, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0,
        2, 1,
    ]);
    assert_eq!(sent[..wanted.len()], wanted);
    assert_eq!(ip_route_add_del::take(&mut Reader::new(&sent)), Ok(request));
}

#[test]
fn texts_and_numbers_are_encoded_as_clients_expect() {
    assert_eq!(bytes(&cli_inband_reply::default()), [0; 4], "an empty text is its length");
    let line = cli_inband { cmd: Line("show".into()) };
    assert_eq!(bytes(&line), *b"\0\0\0\x04show");
    let name = sockclnt_create { context: 7, name: "abc".into() };
    assert_eq!(bytes(&name).len(), 68);
    assert_eq!(bytes(&name)[..8], *b"\0\0\0\x07abc\0");
    let long = sockclnt_create { context: 7, name: Text("é".repeat(40)) };
    let sent = bytes(&long);
    assert_eq!((sent.len(), sent[4 + 61], sent[4 + 62]), (68, 0xa9, 0), "cut at a character");
    let mut w = Writer::default();
    1.5f64.put(&mut w);
    assert_eq!(w.into_bytes(), 1.5f64.to_le_bytes());
    let empty = sockclnt_create_reply { context: 1, ..Default::default() };
    assert_eq!(bytes(&empty).len(), 18);
    assert_eq!(sockclnt_create::take(&mut Reader::new(&[0; 67])), Err(Malformed::Short));
    // A message with a text that is not UTF-8 is still accepted.
    assert_eq!(cli_inband::take(&mut Reader::new(&[0, 0, 0, 2, 0xc3, 0x28])).unwrap().cmd.0, "\u{fffd}(");
    assert_eq!(create_loopback_reply::info().head, Head::Reply);
}

/// A value that was added later changes no checksum, and flags are listed apart from enumerations.
#[test]
fn later_values_and_flags_are_defined_as_in_vpp() {
    #[expect(dead_code, reason = "only the definitions are tested")]
    mod before {
        use crate::define;
        define! {
            enum kind: u8 { ONE = 1 }
            flags set: u32 { A = 1 }
            request ask { kind: kind, set: set }
        }
    }
    #[expect(dead_code, reason = "only the definitions are tested")]
    mod after {
        use crate::define;
        define! {
            enum kind: u8 { ONE = 1; later TWO = 2 }
            flags set: u32 { A = 1; later B = 2 }
            request ask { kind: kind, set: set }
        }
    }
    assert_eq!(crc::of(&before::ask::info()), crc::of(&after::ask::info()));
    let mut table = Table::<()>::default();
    table.module("m", [1, 2, 3]).request::<after::ask>(|_, _, _| DONE);
    let module = json::module(&table, &table.modules()[0]);
    assert_eq!(module["enums"], json!([["kind", ["ONE", 1], ["TWO", 2], { "enumtype": "u8" }]]));
    assert_eq!(module["enumflags"], json!([["set", ["A", 1], ["B", 2], { "enumtype": "u32" }]]));
    assert_eq!(module["services"], json!({ "ask": { "reply": "ask_reply" } }));
    assert_eq!(module["options"], json!({ "version": "1.2.3" }));
}

#[test]
fn messages_are_shown_by_their_descriptions() {
    let shown =
        |info: Info, message: Vec<u8>| value::of_message(info.fields, &message).map(serde_json::Value::from);
    let loopback = create_loopback { mac_address: mac_address(Array([2, 0, 0, 0, 0, 0xab])) };
    assert_eq!(
        shown(create_loopback::info(), bytes(&loopback)),
        Ok(json!({ "mac_address": "02:00:00:00:00:ab" }))
    );
    let route = ip_route {
        prefix: prefix::new([10, 0, 0, 0].into(), 8),
        paths: vec![fib_path::default()],
        ..Default::default()
    };
    let request = ip_route_add_del { is_add: true, is_multipath: false, route };
    let said = shown(ip_route_add_del::info(), bytes(&request)).unwrap();
    assert_eq!(said["route"]["prefix"], "10.0.0.0/8");
    assert_eq!(said["route"]["paths"][0]["nh"]["address"], json!({ "ip4": "0.0.0.0", "ip6": "::" }));
    assert_eq!((&said["route"]["n_paths"], said["route"]["paths"].as_array().unwrap().len()), (&json!(1), 1));
    assert_eq!(said["route"]["paths"][0]["type"], "FIB_API_PATH_TYPE_NORMAL");
    let line = cli_inband { cmd: Line("show".into()) };
    assert_eq!(shown(cli_inband::info(), bytes(&line)), Ok(json!({ "cmd": "show" })));
    assert_eq!(shown(cli_inband::info(), vec![0, 0, 1, 0]), Err(Malformed::Short));
    let mut short = vec![0; 16];
    short.extend([255, 255]);
    assert_eq!(shown(sockclnt_create_reply::info(), short), Err(Malformed::Short));
}

/// Encodes a message from JSON.
fn encoded(info: &Info, message: serde_json::Value) -> Result<Vec<u8>, String> {
    given::fields(info.fields, message.as_object().unwrap()).map_err(|e| e.to_string())
}

/// The JSON has the format of VPP's API traces.
#[test]
fn messages_are_made_from_json() {
    #[expect(dead_code, reason = "only the definitions are tested")]
    mod painter {
        use crate::define;
        use crate::wire::{Array, Count};
        define! {
            flags colors: u8 { RED = 1, GREEN = 2, YELLOW = 3, BLUE = 4 }
            request paint { colors: colors, key: Array<u8, 3>, n: Count<u8>, rest: Vec<u8> }
        }
    }
    use painter::paint;
    let loopback = create_loopback { mac_address: mac_address(Array([2, 0, 0, 0, 0, 0xab])) };
    let info = create_loopback::info();
    let said = json!({ "_msgname": "create_loopback", "mac_address": "02:00:00:00:00:ab" });
    assert_eq!(encoded(&info, said), Ok(bytes(&loopback)));
    assert_eq!(encoded(&info, json!({})), Err("mac_address: missing".into()));
    assert_eq!(
        encoded(&info, json!({ "mac_address": "02:00" })),
        Err("mac_address: no mac_address: '02:00'".into())
    );
    let paint = |all| encoded(&paint::info(), json!({ "colors": all, "key": "0x010203", "rest": "0xff00" }));
    assert_eq!(paint(json!(["RED", "BLUE", 64])), Ok(vec![69, 1, 2, 3, 2, 255, 0]));
    assert_eq!(
        value::of_message(paint::info().fields, &[71, 1, 2, 3, 0]).unwrap()["colors"],
        json!(["RED", "GREEN", "YELLOW", "BLUE", 64])
    );
    assert_eq!(paint(json!(["PINK"])), Err("colors: no value of colors: 'PINK'".into()));
    let paint = |key, rest| encoded(&paint::info(), json!({ "colors": 0, "key": key, "rest": rest }));
    assert_eq!(paint(json!("0x01"), json!("0x")), Err("key: expected 3 elements, not 1".into()));
    assert_eq!(paint(json!([1, 2, 256]), json!([])), Err("key.2: expected a number from 0 to 255".into()));
    for wrong in ["", "ff", "0xf", "0xgg", "0x\u{e9}"] {
        let expected = "rest: expected 0x and hexadecimal digits";
        assert_eq!(paint(json!("0x000000"), json!(wrong)), Err(expected.into()), "{wrong}");
    }
    assert_eq!(paint(json!("0x000000"), json!(vec![0; 256])), Err("rest: too many elements".into()));
    let name = |n| encoded(&sockclnt_create::info(), json!({ "context": 1, "name": "x".repeat(n) }));
    assert_eq!(name(63).unwrap().len(), 68);
    assert_eq!(name(64), Err("name: longer than 63 bytes".into()));
}

#[test]
fn a_promised_array_takes_no_memory() {
    let mut short = vec![0; 16];
    short.extend([255, 255]);
    assert_eq!(sockclnt_create_reply::take(&mut Reader::new(&short)), Err(Malformed::Short));
}

proptest! {
    /// The JSON of a route message is encoded to the same bytes again. This includes bytes of an address that VPP's text form does not
    /// show.
    #[test]
    fn json_is_the_inverse_of_the_encoding(
        family in 0u8..3,
        length in any::<u8>(),
        addresses in any::<[[u8; 16]; 2]>(),
        number in any::<i32>(),
    ) {
        let mut route = ip_route { paths: vec![fib_path::default(); 2], ..Default::default() };
        route.paths[1].nh.address = address_union(addresses[0]);
        route.paths[1].r#type = fib_path_type(number as u32);
        let mut sent = bytes(&ip_route_add_del { is_add: true, is_multipath: false, route });
        // The prefix: family, address, length.
        sent[10] = family;
        sent[11..27].copy_from_slice(&addresses[1]);
        sent[27] = length;
        let fields = ip_route_add_del::info().fields;
        let said = value::of_message(fields, &sent).unwrap();
        prop_assert_eq!(given::fields(fields, &said), Ok(sent));
    }

    /// Any bytes are decoded or refused. If they are decoded as a route, encoding gives the same bytes again, except that a boolean becomes
    /// 0 or 1.
    #[test]
    fn decoding_is_the_inverse_of_encoding(raw in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = cli_inband::take(&mut Reader::new(&raw));
        let _ = sockclnt_create_reply::take(&mut Reader::new(&raw));
        if let Ok(mut request) = ip_route_add_del::take(&mut Reader::new(&raw)) {
            let sent = bytes(&request);
            prop_assert_eq!(sent[2..].to_vec(), raw[2..sent.len()].to_vec());
            request.is_add = true;
            prop_assert_eq!(ip_route_add_del::take(&mut Reader::new(&bytes(&request))), Ok(request));
        }
    }
}
