//! Sockets of memif, and interfaces on them.

use std::path::PathBuf;

use drivers::memif::{self, Config};
use model::key::{Kind, Need, Role};
use model::object::Effect;

use super::{Abilities, Interface, Key, Object, Refused, Spec, View, refuse};
use crate::cli::quote_last;
use crate::system::System;

/// The socket that is always there.
pub const DEFAULT_SOCKET: u32 = 0;

/// What an interface on a socket needs.
pub(super) static SOCKET: Role = Role {
    name: "memif socket",
    title: |id| id.get::<u32>().map_or_else(|| "a memif socket".into(), |id| format!("memif socket {id}")),
};

/// A memif socket: its file.
#[derive(Clone, Debug, PartialEq)]
pub struct MemifSocket(pub PathBuf);

impl Kind for MemifSocket {
    /// Its number.
    type Key = u32;
    const NAME: &'static str = "memif-socket";
    const PHASE: u16 = 30;

    fn title(id: &u32) -> String {
        format!("memif socket {id}")
    }

    fn role(id: &u32) -> Option<Need> {
        Some(Need::new(&SOCKET, id))
    }
}

impl MemifSocket {
    /// The key of a socket.
    pub fn key(id: u32) -> Key {
        Key::of::<MemifSocket>(&id)
    }
}

impl Object<System> for MemifSocket {
    fn validate(&self, id: &u32, _: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        match *id {
            DEFAULT_SOCKET => refuse("memif socket 0 is always there"),
            _ => Ok(()),
        }
    }

    fn apply(&self, id: &u32, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        let path = system.memif_path(&self.0);
        system.memif.add_socket(*id, &path).or_else(|e| refuse(e.to_string()))
    }

    fn withdraw(&self, id: &u32, system: &mut System) -> Result<(), Refused> {
        system.memif.remove_socket(*id).or_else(|e| refuse(e.to_string()))
    }

    fn dump(&self, id: &u32, _: bool) -> Vec<String> {
        vec![format!("create memif socket id {id} filename {}", quote_last(&self.0.display().to_string()))]
    }

    /// What is on it has to be made anew.
    fn effect(&self, _: &Self) -> Effect {
        Effect::Anew
    }
}

pub(super) fn validate(
    config: &Config,
    name: &str,
    view: &View<'_>,
    abilities: &Abilities,
) -> Result<(), Refused> {
    if config.name() != name {
        return refuse(format!("{name} is named {}, by its socket and id", config.name()));
    }
    if config.socket != DEFAULT_SOCKET && view.get(&MemifSocket::key(config.socket)).is_none() {
        return refuse(format!("there is no memif socket {}", config.socket));
    }
    config.check().or_else(refuse)?;
    if config.lends() {
        let all = view.range(Key::all::<Interface>()).filter_map(|(_, value)| value.get::<Interface>());
        let others = all.filter_map(|interface| match &interface.spec {
            Spec::Memif(other) if other.name() != name => Some(slots(other)),
            _ => None,
        });
        abilities.check_lent(others.sum::<usize>() + slots(config)).or_else(refuse)?;
    }
    Ok(())
}

/// How many of the router's buffers a peer can have.
fn slots(config: &Config) -> usize {
    if config.lends() { (config.rx_queues + config.tx_queues) * usize::from(config.ring_size) } else { 0 }
}

/// The command that makes it.
pub(super) fn dump(c: &Config) -> String {
    let usual = Config::new(c.socket, c.id, c.role);
    let mut s = format!("create interface memif id {} socket-id {}", c.id, c.socket);
    s += if c.role == memif::Role::Server { " master" } else { " slave" };
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
