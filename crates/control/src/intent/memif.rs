//! Sockets of memif, and interfaces on them.

use std::path::Path;

use drivers::memif::{Config, Role};

use super::{Key, Refused, View, refuse};
use crate::cli::quote_last;
use crate::system::System;

/// The socket that is always there.
pub const DEFAULT_SOCKET: u32 = 0;

pub(super) fn validate_socket(id: u32) -> Result<(), Refused> {
    match id {
        DEFAULT_SOCKET => refuse("memif socket 0 is always there"),
        _ => Ok(()),
    }
}

pub(super) fn apply_socket(id: u32, path: &Path, system: &mut System) -> Result<(), Refused> {
    let path = system.memif_path(path);
    system.memif.add_socket(id, &path).or_else(|e| refuse(e.to_string()))
}

pub(super) fn withdraw_socket(id: u32, system: &mut System) -> Result<(), Refused> {
    system.memif.remove_socket(id).or_else(|e| refuse(e.to_string()))
}

pub(super) fn dump_socket(id: u32, path: &Path) -> String {
    format!("create memif socket id {id} filename {}", quote_last(&path.display().to_string()))
}

pub(super) fn validate(config: &Config, name: &str, view: &View<'_>) -> Result<(), Refused> {
    if config.name() != name {
        return refuse(format!("{name} is named {}, by its socket and id", config.name()));
    }
    if config.socket != DEFAULT_SOCKET && view.get(&Key::MemifSocket(config.socket)).is_none() {
        return refuse(format!("there is no memif socket {}", config.socket));
    }
    config.check().or_else(refuse)
}

/// The command that makes it.
pub(super) fn dump(c: &Config) -> String {
    let usual = Config::new(c.socket, c.id, c.role);
    let mut s = format!("create interface memif id {} socket-id {}", c.id, c.socket);
    s += if c.role == Role::Server { " master" } else { " slave" };
    let numbers = [
        ("rx-queues", c.rx_queues, usual.rx_queues),
        ("tx-queues", c.tx_queues, usual.tx_queues),
        ("ring-size", c.ring_size.into(), usual.ring_size.into()),
        ("buffer-size", c.buffer_size as usize, usual.buffer_size as usize),
    ];
    for (word, is, usual) in numbers {
        if is != usual {
            s += &format!(" {word} {is}");
        }
    }
    s += if c.trusted { " trusted" } else { "" };
    if let Some(secret) = &c.secret {
        s += &format!(" secret {}", quote_last(secret.reveal()));
    }
    s
}
