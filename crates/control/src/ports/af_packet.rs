//! Linux interfaces by AF_PACKET: `host-NAME`.

mod api;
#[cfg(test)]
mod api_tests;

use std::sync::LazyLock;

use drivers::af_packet::{self, Config, Mode};
use graph::{Builder, GraphError};
use model::schema::{Schema, pairs, truth};
use net::Tables;
use net::feature::{self, App, Backed, Backing, Begun, Interfaces, Opened, Prepared, Registrar, Unopened};
use net::nodes::interface::install_input;
use net::router::Hooks;

use super::{FORCE, check_linux_name, ignores_default_route, is_linux, taken_once};
use crate::app::{Context, Done};
use crate::cli::{Args, quote};
use crate::intent::{Refused, View};
use crate::system::{Abilities, System};

/// Prefix of the interface names, before the name of the Linux interface.
pub(super) const PREFIX: &str = "host-";

fn schema() -> &'static Schema<Config> {
    static SCHEMA: LazyLock<Schema<Config>> = LazyLock::new(|| {
        Schema::new(Config::new(""))
            .field(
                "mode",
                pairs(&[(Mode::V2, "v2"), (Mode::V3, "v3")]),
                |c| c.mode,
                |c, mode| c.mode = mode,
                "The version of the kernel's receive ring: `v3` for throughput.",
            )
            .field(
                "shared",
                truth(),
                |c| c.shared,
                |c, on| c.shared = on,
                "The kernel continues to use the interface, too.",
            )
            .field("force", truth(), |c| c.force, |c, on| c.force = on, FORCE)
    });
    &SCHEMA
}

impl Backing<System> for Config {
    const DEVICE: bool = true;

    fn validate(&self, _: &str, _: Option<u16>, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        check_linux_name(&self.name)?;
        taken_once(&self.name, &format!("{}{}", super::af_xdp::PREFIX, self.name), view)
    }

    fn open(&self, name: &str, _: Prepared, system: &mut System) -> Result<Opened, Unopened> {
        let force = self.force || ignores_default_route(name, &self.name, system);
        Ok(Opened::Device(af_packet::open(&Config { force, ..self.clone() })?))
    }

    fn dump(&self, _: &str) -> String {
        let mut s = format!("create host-interface name {}", quote(&self.name));
        for (on, word) in [(self.shared, " shared"), (self.force, " force"), (self.mode == Mode::V3, " v3")] {
            s += if on { word } else { "" };
        }
        s
    }

    fn takes_over(&self, _: &Config) -> bool {
        true
    }
}

/// The feature `af-packet`: Linux interfaces by packet sockets.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "af-packet"
    }

    fn about(&self) -> &'static str {
        "Takes Linux interfaces by packet sockets."
    }

    fn plugin(&self) -> Option<&'static str> {
        Some("af_packet_plugin.so")
    }

    fn install(&self, b: &mut Builder, t: &Tables, _: &mut Hooks) -> Result<(), GraphError> {
        install_input(b, t, af_packet::INPUT_NODE);
        Ok(())
    }

    fn messages(&self, table: &mut vapi::Table<Context>) {
        api::register(table);
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        r.interfaces(Interfaces {
            what: "a Linux interface",
            named: format!("{PREFIX}NAME"),
            section: None,
            names: Box::new(is_linux(PREFIX)),
            field: Some("af-packet"),
            device_type: Some("af-packet"),
            read: Box::new(|r, name, _, fields| {
                let mut config = Config::new(name.strip_prefix(PREFIX)?);
                if let Some(node) = fields.take("af-packet") {
                    schema().read_over(r, node.at, node, &mut config);
                }
                Some(Begun::by(config))
            }),
            is: |backed| backed.get::<Config>().is_some(),
            write: Box::new(|t, backed| {
                if let Some(config) = backed.get() {
                    t.map("af-packet", |t| schema().write(t, config));
                }
            }),
            title: "`af-packet`".into(),
            rows: schema().rows(""),
            examples: Box::new(|| {
                let named = |config| Backed::by(Config { name: "eth0".into(), ..config });
                schema().examples().into_iter().map(|c| (format!("{PREFIX}eth0"), named(c))).collect()
            }),
        });
        r.command(
            "create host-interface name <name:word> [hw-addr <mac:mac>] [shared] [v3] [force] [index <index:u32>]",
            "Take a Linux interface, as host-NAME.",
            create,
        );
        r.command(
            "delete host-interface name <name:word>",
            "Return a Linux interface to the host.",
            |c, a| {
                let name = format!("{PREFIX}{}", a.need::<String>("name")?);
                c.delete_interface::<Config>(a, "name", &name)
            },
        );
    }
}

fn create(c: &mut Context, a: &Args) -> Done {
    let name = a.need::<String>("name")?;
    let config = Config {
        mode: if a.has("v3") { Mode::V3 } else { Mode::V2 },
        shared: a.has("shared"),
        force: a.has("force"),
        ..Config::new(name.clone())
    };
    c.create_interface(a, "name", &format!("{PREFIX}{name}"), config)
}
