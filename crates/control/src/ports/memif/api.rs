//! The module `memif` of the binary API: interfaces that share memory with other programs.
#![allow(non_camel_case_types)]

use std::path::PathBuf;

use drivers::memif::{Config, Role, Secret};
use net::router::InterfaceInfo;
use vapi::types::{if_status_flags, interface_index, mac_address};
use vapi::wire::{Line, Text};
use vapi::{Code, DONE, Done, Table, define};

use super::MemifSocket;
use super::state::{DEFAULT_SOCKET, Memif};
use crate::api::{change, interface, numbers};
use crate::app::Context;
use crate::intent::{Change, Interface};
use crate::system::Spec;

define! {
    /// The side of a connection.
    enum memif_role: u32 { MEMIF_ROLE_API_MASTER = 0, MEMIF_ROLE_API_SLAVE = 1 }
    /// The first header of an interface's packets.
    enum memif_mode: u32 { MEMIF_MODE_API_ETHERNET = 0, MEMIF_MODE_API_IP = 1, MEMIF_MODE_API_PUNT_INJECT = 2 }
    /// Makes or removes a socket.
    request memif_socket_filename_add_del { is_add: bool, socket_id: u32, socket_filename: Text<108> }
    /// Makes or removes a socket. Number ~0 lets the router choose one.
    request memif_socket_filename_add_del_v2 { is_add: bool, socket_id: u32 = 4294967295, socket_filename: Line }
        -> memif_socket_filename_add_del_v2_reply { socket_id: u32 }
    /// Makes an interface.
    request memif_create {
        role: memif_role,
        mode: memif_mode,
        rx_queues: u8,
        tx_queues: u8,
        id: u32,
        socket_id: u32,
        ring_size: u32,
        buffer_size: u16,
        no_zero_copy: bool,
        hw_addr: mac_address,
        secret: Text<24>,
    } -> memif_create_reply { sw_if_index: interface_index }
    /// Makes an interface.
    request memif_create_v2 {
        role: memif_role,
        mode: memif_mode,
        rx_queues: u8,
        tx_queues: u8,
        id: u32,
        socket_id: u32,
        ring_size: u32,
        buffer_size: u16,
        no_zero_copy: bool,
        use_dma: bool,
        hw_addr: mac_address,
        secret: Text<24>,
    } -> memif_create_v2_reply { sw_if_index: interface_index }
    /// Removes an interface.
    request memif_delete { sw_if_index: interface_index }
    /// Asks for all sockets.
    dump memif_socket_filename_dump { }
        -> memif_socket_filename_details { socket_id: u32, socket_filename: Text<108> }
    /// Asks for all interfaces.
    dump memif_dump { } -> memif_details {
        sw_if_index: interface_index,
        hw_addr: mac_address,
        id: u32,
        role: memif_role,
        mode: memif_mode,
        zero_copy: bool,
        socket_id: u32,
        ring_size: u32,
        buffer_size: u16,
        flags: if_status_flags,
        if_name: Text<64>,
    }
}

/// Registers the module.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("memif", [3, 1, 0])
        .request::<memif_socket_filename_add_del>(|c, _, q| {
            if q.socket_id == u32::MAX {
                return Err(Code::INVALID_ARGUMENT);
            }
            socket(c, q.is_add, q.socket_id, q.socket_filename.0)
        })
        .request::<memif_socket_filename_add_del_v2>(|c, _, q| {
            let socket_id = match q.socket_id {
                u32::MAX if q.is_add => free_socket(c)?,
                socket_id => socket_id,
            };
            socket(c, q.is_add, socket_id, q.socket_filename.0)?;
            Ok(memif_socket_filename_add_del_v2_reply { socket_id })
        })
        .request::<memif_create>(|c, _, q| {
            let sw_if_index = create(c, q.into())?;
            Ok(memif_create_reply { sw_if_index })
        })
        .request::<memif_create_v2>(|c, _, q| Ok(memif_create_v2_reply { sw_if_index: create(c, q)? }))
        .request::<memif_delete>(|c, _, q| interface::remove_backed::<Config>(c, q.sw_if_index))
        .dump::<memif_socket_filename_dump, _>(|c, _| {
            let sockets = c.system.router.state::<Memif>().map(|memif| memif.sockets.sockets());
            let details = sockets.unwrap_or_default().into_iter().map(|s| memif_socket_filename_details {
                socket_id: s.id,
                socket_filename: Text(s.path.display().to_string()),
            });
            vapi::all(details.collect())
        })
        .dump::<memif_dump, _>(|c, _| {
            let all = interface_index::NONE;
            vapi::all(interface::backed::<Config, _>(c, all, |i, _, config| details(c, i, config)))
        });
}

/// Describes an interface. A master uses the sizes that its slave chooses, so its own sizes are unknown: like VPP, shows a ring size of 1
/// and a buffer size of 0.
fn details(c: &Context, i: &InterfaceInfo, config: &Config) -> memif_details {
    let is_slave = config.role == Role::Client;
    memif_details {
        sw_if_index: numbers::number(i.index),
        hw_addr: change::of_mac(i.mac),
        id: config.id,
        role: if is_slave { memif_role::MEMIF_ROLE_API_SLAVE } else { memif_role::MEMIF_ROLE_API_MASTER },
        mode: memif_mode::MEMIF_MODE_API_ETHERNET,
        zero_copy: config.lends(),
        socket_id: config.socket,
        ring_size: if is_slave { config.ring_size.into() } else { 1 },
        buffer_size: if is_slave { config.buffer_size.try_into().unwrap_or(u16::MAX) } else { 0 },
        flags: interface::flags(c, i),
        if_name: i.name.as_str().into(),
    }
}

impl From<memif_create> for memif_create_v2 {
    fn from(q: memif_create) -> memif_create_v2 {
        memif_create_v2 {
            role: q.role,
            mode: q.mode,
            rx_queues: q.rx_queues,
            tx_queues: q.tx_queues,
            id: q.id,
            socket_id: q.socket_id,
            ring_size: q.ring_size,
            buffer_size: q.buffer_size,
            no_zero_copy: q.no_zero_copy,
            use_dma: false,
            hw_addr: q.hw_addr,
            secret: q.secret,
        }
    }
}

/// Returns the file of a socket; `None` if there is no such socket.
fn file(c: &Context, id: u32) -> Option<PathBuf> {
    let memif = c.system.router.state::<Memif>().ok()?;
    memif.sockets.sockets().into_iter().find(|s| s.id == id).map(|s| s.path)
}

fn free_socket(c: &Context) -> Result<u32, Code> {
    let memif = c.system.router.state::<Memif>().map_err(|_| Code::UNSPECIFIED)?;
    let sockets = memif.sockets.sockets();
    (1..u32::MAX).find(|id| sockets.iter().all(|s| s.id != *id)).ok_or(Code::UNSPECIFIED)
}

/// Makes or removes a socket, with VPP's return values.
fn socket(c: &mut Context, is_add: bool, id: u32, name: String) -> Result<Done, Code> {
    if id == DEFAULT_SOCKET || id == u32::MAX {
        return Err(Code::INVALID_ARGUMENT);
    }
    let (key, there) = (MemifSocket::key(id), file(c, id));
    if !is_add {
        let is_used = |(_, value): (_, &crate::intent::Value)| {
            let interface = value.get::<Interface>();
            interface.and_then(|i| i.spec.get::<Config>()).is_some_and(|config| config.socket == id)
        };
        if there.is_none() {
            return Err(Code::INVALID_ARGUMENT);
        }
        if c.store.tree().range(crate::intent::Key::all::<Interface>()).any(is_used) {
            return Err(Code::UNEXPECTED_INTF_STATE);
        }
        change::make(c, vec![Change::remove(key)])?;
        return DONE;
    }
    if name.is_empty() {
        return Err(Code::INVALID_ARGUMENT);
    }
    let path = PathBuf::from(name);
    let whole = c.system.router.state::<Memif>().map_err(|_| Code::UNSPECIFIED)?.path(&path);
    match there {
        // Like VPP, accepts the same socket again.
        Some(there) if there == whole => return DONE,
        Some(_) => return Err(Code::ENTRY_ALREADY_EXISTS),
        None => change::make(c, vec![Change::set(key, MemifSocket(path))])?,
    }
    DONE
}

fn create(c: &mut Context, q: memif_create_v2) -> Result<interface_index, Code> {
    let role = match q.role {
        memif_role::MEMIF_ROLE_API_MASTER => Role::Server,
        memif_role::MEMIF_ROLE_API_SLAVE => Role::Client,
        _ => return Err(Code::INVALID_ARGUMENT),
    };
    if q.mode != memif_mode::MEMIF_MODE_API_ETHERNET || q.use_dma {
        return Err(Code::UNSUPPORTED);
    }
    if file(c, q.socket_id).is_none() {
        return Err(Code::INVALID_ARGUMENT);
    }
    let mut config = Config::new(q.socket_id, q.id, role);
    // 0 stands for the default everywhere.
    if q.rx_queues != 0 {
        config.rx_queues = q.rx_queues.into();
    }
    if q.tx_queues != 0 {
        config.tx_queues = q.tx_queues.into();
    }
    if q.ring_size != 0 {
        config.ring_size = q.ring_size.try_into().map_err(|_| Code::INVALID_ARGUMENT)?;
    }
    if q.buffer_size != 0 {
        config.buffer_size = q.buffer_size.into();
    }
    let Text(secret) = q.secret;
    if !secret.is_empty() {
        config.secret = Some(Secret::new(secret).map_err(|_| Code::INVALID_ARGUMENT)?);
    }
    config.check().map_err(|_| Code::INVALID_ARGUMENT)?;
    let name = config.name();
    if c.system.router.interface_named(&name).is_some() {
        return Err(Code::SUBIF_ALREADY_EXISTS);
    }
    let interface = Interface { mac: change::mac(q.hw_addr), ..Interface::new(Spec::by(config)) };
    interface::make(c, Interface::key(&name), &name, interface)
}
