//! Interfaces that share memory with other programs: `memifSOCKET/ID`.

mod api;
#[cfg(test)]
mod api_tests;
mod commands;
mod socket;
mod state;

use std::sync::LazyLock;

use drivers::memif::{Config, INPUT_NODE, Role, Secret};
use graph::{Builder, GraphError};
use model::key::Need;
use model::schema::{Form, Schema, number, optional, pairs, truth};
use model::yaml::{Node, Reader, Text, quoted};
use net::Tables;
use net::feature::{
    self, Backed, Backing, Begun, Interfaces, Opened, Prepared, Registrar, Unopened, number_of,
};
use net::nodes::interface::install_input;
use net::router::Hooks;
use net::router::InterfaceInfo;

use crate::app::Context;
use crate::cli::quote_last;
use crate::intent::{HIDDEN, Interface, Key, Refused, View, refuse};
use crate::ports::can_be_written;
use crate::system::{Abilities, System};
use state::DEFAULT_SOCKET;

pub use socket::MemifSocket;

/// The form of a secret, which is hidden from users who are not admins.
struct Hidden;

impl Form for Hidden {
    type Value = Secret;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<Secret> {
        let text = r.text(node)?;
        Secret::new(text).map_err(|why| r.fault(node.at, why)).ok()
    }

    fn line(&self, _: &Secret) -> String {
        HIDDEN.into()
    }

    fn write(&self, t: &mut Text<'_>, name: &str, secret: &Secret) {
        t.field(name, Some(quoted(if t.hides() { HIDDEN } else { secret.reveal() })));
    }

    fn values(&self) -> String {
        "up to 24 bytes".into()
    }

    fn examples(&self) -> Vec<Secret> {
        Secret::new("mum").into_iter().collect()
    }
}

/// Returns the fields of `memif`, the section of an interface `memifSOCKET/ID` in configuration files.
fn schema() -> &'static Schema<Config> {
    static SCHEMA: LazyLock<Schema<Config>> = LazyLock::new(|| {
        let queues = || number(1..=u16::MAX);
        Schema::new(Config::new(0, 0, Role::Client))
            .field(
                "role",
                pairs(&[(Role::Server, "master"), (Role::Client, "slave")]),
                |c| c.role,
                |c, role| c.role = role,
                "A `master` listens, a `slave` connects.",
            )
            .needed("its \"role\" is missing: master or slave")
            .field("rx-queues", queues(), |c| c.rx_queues as u16, |c, n| c.rx_queues = n.into(), "Receive queues.")
            .field("tx-queues", queues(), |c| c.tx_queues as u16, |c, n| c.tx_queues = n.into(), "Transmit queues.")
            .field(
                "ring-size",
                queues().unit("packets, a power of two"),
                |c| c.ring_size,
                |c, n| c.ring_size = n,
                "The size of a ring. A master uses the size of its slave.",
            )
            .field(
                "buffer-size",
                number(1..=u32::MAX).unit("bytes"),
                |c| c.buffer_size,
                |c, n| c.buffer_size = n,
                "The size of a buffer; larger packets take several. A master uses the size of its slave.",
            )
            .field(
                "trusted",
                truth(),
                |c| c.trusted,
                |c, on| c.trusted = on,
                "The router trusts the peer. As `master`, it accepts memory that the slave can truncate: the next access after that kills the router \
                 (SIGBUS). As `slave`, it shares all its buffers with the master, and never copies.",
            )
            .field(
                "secret",
                optional(Hidden),
                |c| c.secret.clone(),
                |c, secret| c.secret = secret,
                "The secret that both peers must have; VPP as a client sends only 23 bytes of it. Users who may change the configuration \
                 see it in this file, in `show config` and in the changes of an apply; others see `<hidden>`.",
            )
    });
    &SCHEMA
}

impl Backing<System> for Config {
    const DEVICE: bool = true;

    fn validate(
        &self,
        name: &str,
        _: Option<u16>,
        view: &View<'_>,
        abilities: &Abilities,
    ) -> Result<(), Refused> {
        if self.name() != name {
            return refuse(format!("{name} must be named {} (memifSOCKET/ID)", self.name()));
        }
        if self.socket != DEFAULT_SOCKET && view.get(&MemifSocket::key(self.socket)).is_none() {
            return refuse(format!("no such memif socket: {}", self.socket));
        }
        self.check().or_else(refuse)?;
        self.secret.as_ref().map_or(Ok(()), |secret| can_be_written(secret.reveal()))?;
        if self.lends() {
            let all = view.range(Key::all::<Interface>()).filter_map(|(_, value)| value.get::<Interface>());
            let others = all.filter_map(|interface| interface.spec.get::<Config>());
            let others = others.filter(|other| other.name() != name).map(slots);
            abilities.check_lent(others.sum::<usize>() + slots(self)).or_else(refuse)?;
        }
        Ok(())
    }

    fn open(&self, name: &str, _: Prepared, system: &mut System) -> Result<Opened, Unopened> {
        let waits = system.router.interface_named(name).is_some_and(InterfaceInfo::is_absent);
        state::open(&mut system.router, self, waits).map(Opened::Device)
    }

    fn dump(&self, _: &str) -> String {
        let usual = Config::new(self.socket, self.id, self.role);
        let mut s = format!("create interface memif id {} socket-id {}", self.id, self.socket);
        s += if self.role == Role::Server { " master" } else { " slave" };
        let numbers = [
            ("rx-queues", self.rx_queues, usual.rx_queues),
            ("tx-queues", self.tx_queues, usual.tx_queues),
            ("ring-size", self.ring_size.into(), usual.ring_size.into()),
            ("buffer-size", self.buffer_size as usize, usual.buffer_size as usize),
        ];
        for (word, is, usual) in numbers {
            if is != usual {
                s += &format!(" {word} {is}");
            }
        }
        s += if self.trusted { " trusted" } else { "" };
        if let Some(secret) = &self.secret {
            s += &format!(" secret {}", quote_last(secret.reveal()));
        }
        s
    }

    /// True if the device can be reopened in place: its role is the same as in `old`. With another role, the interface is recreated,
    /// because it may have to wait until another interface stops listening.
    fn takes_over(&self, old: &Config) -> bool {
        self.role == old.role
    }

    fn needs(&self, to: &mut dyn FnMut(Need)) {
        if self.socket != DEFAULT_SOCKET {
            to(Need::new(&socket::SOCKET, self.socket));
        }
    }

    fn without_secrets(&self) -> Option<Config> {
        self.secret.as_ref()?;
        Some(Config { secret: Secret::new(HIDDEN).ok(), ..self.clone() })
    }
}

/// Returns the maximum number of the router's buffers that the peer can hold.
fn slots(config: &Config) -> usize {
    if config.lends() { (config.rx_queues + config.tx_queues) * usize::from(config.ring_size) } else { 0 }
}

/// Returns the socket and the ID in the name memifSOCKET/ID.
fn numbers(name: &str) -> Option<(u32, u32)> {
    let (socket, id) = name.split_once('/')?;
    Some((number_of(socket, "memif")?, number_of(id, "")?))
}

/// The feature `memif`.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "memif"
    }

    fn about(&self) -> &'static str {
        "Interfaces to other programs over shared memory (memif)."
    }

    fn plugin(&self) -> Option<&'static str> {
        Some("memif_plugin.so")
    }

    fn install(&self, b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install_input(b, t, INPUT_NODE);
        state::install(hooks)
    }

    fn messages(&self, table: &mut vapi::Table<Context>) {
        api::register(table);
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        r.section(socket::section());
        r.interfaces(Interfaces {
            what: "shared memory",
            named: "memifSOCKET/ID".into(),
            section: None,
            names: Box::new(|name| numbers(name).map(|_| Ok(()))),
            field: Some("memif"),
            device_type: None,
            read: Box::new(|r, name, at, fields| {
                let (socket, id) = numbers(name)?;
                let Some(node) = fields.take("memif") else {
                    r.fault(at, format!("{name} needs a \"memif\" with its \"role\", master or slave"));
                    return None;
                };
                let mut config = Config::new(socket, id, Role::Client);
                schema().read_over(r, node.at, node, &mut config);
                Some(Begun::by(config))
            }),
            is: |backed| backed.get::<Config>().is_some(),
            write: Box::new(|t, backed| {
                if let Some(config) = backed.get() {
                    t.map("memif", |t| schema().write(t, config));
                }
            }),
            title: "`memif`".into(),
            rows: schema().rows(""),
            examples: Box::new(|| {
                schema().examples().into_iter().map(|c| (c.name(), Backed::by(c))).collect()
            }),
        });
        commands::register(r);
    }
}
