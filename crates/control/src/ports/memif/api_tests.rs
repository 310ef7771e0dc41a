//! Tests of the module `memif` of the binary API.

use drivers::memif::Config;
use vapi::Code;
use vapi::types::interface_index;
use vapi::wire::Line;

use super::api::*;
use crate::intent::Interface;
use crate::testing::{Cli, FEATURES};

const ANY: u32 = u32::MAX;

fn socket(c: &mut Cli, is_add: bool, socket_id: u32, file: &str) -> Result<u32, Code> {
    let socket_filename = Line(file.into());
    let reply = c.ask(&memif_socket_filename_add_del_v2 { is_add, socket_id, socket_filename });
    reply.map(|reply| reply.socket_id)
}

fn slave(socket_id: u32, id: u32) -> memif_create_v2 {
    memif_create_v2 { role: memif_role::MEMIF_ROLE_API_SLAVE, socket_id, id, ..Default::default() }
}

fn create(c: &mut Cli, q: &memif_create_v2) -> Result<interface_index, Code> {
    c.ask(q).map(|reply| reply.sw_if_index)
}

fn sockets(c: &Cli) -> Vec<(u32, String)> {
    c.dump(&memif_socket_filename_dump {}).into_iter().map(|d| (d.socket_id, d.socket_filename.0)).collect()
}

#[test]
fn sockets_come_and_go() {
    let mut c = Cli::with(FEATURES);
    assert_eq!(socket(&mut c, true, 5, "/nowhere/a.sock"), Ok(5));
    assert_eq!(socket(&mut c, true, 5, "/nowhere/a.sock"), Ok(5), "the same again");
    assert_eq!(socket(&mut c, true, 5, "/nowhere/b.sock"), Err(Code::ENTRY_ALREADY_EXISTS));
    assert_eq!(socket(&mut c, true, ANY, "@c"), Ok(1), "the first free number");
    assert_eq!(socket(&mut c, true, ANY, ""), Err(Code::INVALID_ARGUMENT));
    assert_eq!(socket(&mut c, true, 0, "/nowhere/d.sock"), Err(Code::INVALID_ARGUMENT));
    assert_eq!(socket(&mut c, false, ANY, ""), Err(Code::INVALID_ARGUMENT));
    let there = sockets(&c);
    assert_eq!((there.len(), there[0].0), (3, 0), "{there:?}");
    assert_eq!(there[1..], [(1, "@c".into()), (5, "/nowhere/a.sock".into())]);
    assert!(c.ok("show config").contains("create memif socket id 5 filename /nowhere/a.sock"));
    assert_eq!(socket(&mut c, false, 5, ""), Ok(5));
    assert_eq!(socket(&mut c, false, 5, ""), Err(Code::INVALID_ARGUMENT), "it is gone");
    let old = memif_socket_filename_add_del { is_add: false, socket_id: 1, ..Default::default() };
    assert_eq!(c.ask(&old).map(drop), Ok(()));
    assert_eq!(sockets(&c).len(), 1);
}

#[test]
fn an_interface_has_the_settings_of_its_request() {
    let mut c = Cli::with(FEATURES);
    let before = c.ok("show config");
    let q = memif_create_v2 {
        rx_queues: 2,
        ring_size: 256,
        buffer_size: 4096,
        hw_addr: crate::api::change::of_mac(wire::Mac([2, 0, 0, 0, 0, 9])),
        secret: "mum".into(),
        ..slave(0, 7)
    };
    let number = create(&mut c, &q).unwrap();
    let all = c.dump(&memif_dump {});
    let [d] = &all[..] else { panic!("{all:?}") };
    assert_eq!((d.sw_if_index, d.if_name.0.as_str(), d.id, d.socket_id), (number, "memif0/7", 7, 0));
    assert_eq!((d.role, d.ring_size, d.buffer_size, d.zero_copy), (q.role, 256, 4096, false));
    assert_eq!((d.hw_addr, d.flags.0), (q.hw_addr, 0));
    let config = c.ok("show config");
    assert!(config.contains("rx-queues 2") && config.contains("secret mum"), "{config}");
    c.ok("config rollback 1");
    assert_eq!((c.dump(&memif_dump {}), c.ok("show config")), (Vec::new(), before));
}

#[test]
fn requests_are_refused_with_the_values_of_vpp() {
    let mut c = Cli::with(FEATURES);
    let number = create(&mut c, &slave(0, 1)).unwrap();
    assert_eq!(create(&mut c, &slave(0, 1)), Err(Code::SUBIF_ALREADY_EXISTS));
    let wrong = |q| Err::<interface_index, Code>(q);
    let cases = [
        (slave(9, 1), Code::INVALID_ARGUMENT),
        (memif_create_v2 { ring_size: 100, ..slave(0, 2) }, Code::INVALID_ARGUMENT),
        (memif_create_v2 { ring_size: 1 << 20, ..slave(0, 2) }, Code::INVALID_ARGUMENT),
        (memif_create_v2 { mode: memif_mode::MEMIF_MODE_API_IP, ..slave(0, 2) }, Code::UNSUPPORTED),
        (memif_create_v2 { use_dma: true, ..slave(0, 2) }, Code::UNSUPPORTED),
    ];
    for (q, code) in cases {
        assert_eq!(create(&mut c, &q), wrong(code), "{q:?}");
    }
    let of_other = numbers_of(&c, "pg0");
    let delete = |c: &mut Cli, sw_if_index| c.ask(&memif_delete { sw_if_index }).map(drop);
    assert_eq!(delete(&mut c, of_other), Err(Code::INVALID_SW_IF_INDEX), "no memif");
    assert_eq!(delete(&mut c, number), Ok(()));
    assert_eq!(delete(&mut c, number), Err(Code::INVALID_SW_IF_INDEX));
    assert!(c.ok("show config").contains("pg0"));
}

#[test]
fn a_socket_in_use_stays() {
    let mut c = Cli::with(FEATURES);
    socket(&mut c, true, 3, "@three").unwrap();
    let q = memif_create { role: memif_role::MEMIF_ROLE_API_SLAVE, socket_id: 3, ..Default::default() };
    let number = c.ask(&q).unwrap().sw_if_index;
    assert_eq!(socket(&mut c, false, 3, ""), Err(Code::UNEXPECTED_INTF_STATE));
    let (_, interface) = Interface::find(c.context.store.tree(), "memif3/0").unwrap();
    let config = interface.spec.get::<Config>().unwrap();
    assert_eq!((config.rx_queues, config.ring_size, config.buffer_size), (1, 1024, 2048), "the defaults");
    c.ask(&memif_delete { sw_if_index: number }).unwrap();
    assert_eq!(socket(&mut c, false, 3, ""), Ok(3));
}

fn numbers_of(c: &Cli, name: &str) -> interface_index {
    crate::api::numbers::number(c.context.system.router.interface_named(name).unwrap().index)
}

/// A trace is written to a file that other users may read, so it must not have secrets.
#[test]
fn traces_have_no_secrets() {
    let c = Cli::with(FEATURES);
    let q = memif_create_v2 { secret: "mum".into(), ..slave(0, 7) };
    let table = &c.context.definitions;
    let id = table.id("memif_create_v2").unwrap();
    let mut trace = crate::app::MessageTrace::default();
    let message = [&[0; 8][..], &vapi::table::encoded(&q)].concat();
    trace.record((1, false), (id, table.get(id).unwrap()), &message);
    assert_eq!(trace.snapshot()[0].bytes, None);
    assert!(trace.usage().bytes < 100, "the secret is not kept at all");
}
