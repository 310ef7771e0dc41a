//! Linux interfaces by AF_XDP: `xdp-NAME`.

use std::sync::LazyLock;

use drivers::af_xdp::{self, Attach, Config, Copying};
use graph::{Builder, GraphError};
use model::schema::{Bad, Schema, number, optional, pairs, truth};
use net::Tables;
use net::feature::{self, App, Backed, Backing, Begun, Interfaces, Opened, Prepared, Registrar, Unopened};
use net::nodes::interface::install_input;
use net::router::Hooks;

use super::{FORCE, check_linux_name, ignores_default_route, is_linux, taken_once};
use crate::app::{Context, Done};
use crate::cli::{Args, quote};
use crate::intent::{MOST_QUEUES, Refused, View, refuse};
use crate::system::{Abilities, System};

/// Prefix of the interface names, before the name of the Linux interface.
pub(super) const PREFIX: &str = "xdp-";

fn schema() -> &'static Schema<Config> {
    static SCHEMA: LazyLock<Schema<Config>> = LazyLock::new(|| {
        let ring = || number(64..=32_768).unit("packets, a power of two");
        Schema::new(Config::new(""))
            .field(
                "queues",
                optional(number(1..=MOST_QUEUES)),
                |c| c.queues,
                |c, n| c.queues = n,
                "The number of queues in each direction; all queues of the interface by default.",
            )
            .field("rx-ring-size", ring(), |c| c.rx_ring, |c, n| c.rx_ring = n, "The size of a receive ring.")
            .field("tx-ring-size", ring(), |c| c.tx_ring, |c, n| c.tx_ring = n, "The size of a transmit ring.")
            .field(
                "mode",
                optional(pairs(&[(Attach::Native, "native"), (Attach::Generic, "generic")])),
                |c| c.attach,
                |c, attach| c.attach = attach,
                "Where the XDP program runs: in the driver (`native`), or after it in the kernel (`generic`), which works with every \
                 driver. By default, native where the driver supports it.",
            )
            .field(
                "zero-copy",
                optional(truth()),
                |c| match c.copying {
                    Copying::IfNeeded => None,
                    copying => Some(copying == Copying::Never),
                },
                |c, never| {
                    c.copying = match never {
                        Some(true) => Copying::Never,
                        Some(false) => Copying::Always,
                        None => Copying::IfNeeded,
                    }
                },
                "`true`: fail if the driver does not support zero copy; `false`: always copy. By default, copy only if needed. Zero \
                 copy is implemented but untested, for lack of such a driver.",
            )
            .field("force", truth(), |c| c.force, |c, on| c.force = on, FORCE)
            .check(|c| {
                for (field, size) in [("rx-ring-size", c.rx_ring), ("tx-ring-size", c.tx_ring)] {
                    if !size.is_power_of_two() {
                        return Err(Bad::new(field, format!("{size} is not a power of two")));
                    }
                }
                Ok(())
            })
    });
    &SCHEMA
}

impl Backing<System> for Config {
    const DEVICE: bool = true;

    fn validate(&self, _: &str, mtu: Option<u16>, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        check_linux_name(&self.name)?;
        if let Some(mtu) = mtu.filter(|mtu| *mtu > af_xdp::MAX_MTU) {
            return refuse(format!(
                "the MTU {mtu} is more than {}, the maximum of AF_XDP: use host-{} for a larger one",
                af_xdp::MAX_MTU,
                self.name
            ));
        }
        taken_once(&self.name, &format!("{}{}", super::af_packet::PREFIX, self.name), view)
    }

    fn open(&self, name: &str, _: Prepared, system: &mut System) -> Result<Opened, Unopened> {
        let force = self.force || ignores_default_route(name, &self.name, system);
        Ok(Opened::Device(af_xdp::open(&Config { force, ..self.clone() }, system.router.pool())?))
    }

    fn dump(&self, _: &str) -> String {
        let usual = Config::new(self.name.clone());
        let mut s = format!("create interface af_xdp host-if {}", quote(&self.name));
        if let Some(n) = self.queues {
            s += &format!(" num-rx-queues {n}");
        }
        for (size, usual, word) in
            [(self.rx_ring, usual.rx_ring, "rx-queue-size"), (self.tx_ring, usual.tx_ring, "tx-queue-size")]
        {
            if size != usual {
                s += &format!(" {word} {size}");
            }
        }
        s += match self.attach {
            None => "",
            Some(Attach::Native) => " native",
            Some(Attach::Generic) => " generic",
        };
        s += match self.copying {
            Copying::IfNeeded => "",
            Copying::Always => " no-zero-copy",
            Copying::Never => " zero-copy",
        };
        s + if self.force { " force" } else { "" }
    }

    fn takes_over(&self, _: &Config) -> bool {
        true
    }

    fn warning(&self) -> Option<String> {
        af_xdp::warning(&self.name)
    }
}

/// The feature `af-xdp`: Linux interfaces by AF_XDP.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "af-xdp"
    }

    fn about(&self) -> &'static str {
        "Takes Linux interfaces by AF_XDP."
    }

    fn plugin(&self) -> Option<&'static str> {
        Some("af_xdp_plugin.so")
    }

    fn install(&self, b: &mut Builder, t: &Tables, _: &mut Hooks) -> Result<(), GraphError> {
        install_input(b, t, af_xdp::INPUT_NODE);
        Ok(())
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        r.interfaces(Interfaces {
            what: "a Linux interface by AF_XDP",
            named: format!("{PREFIX}NAME"),
            section: None,
            names: Box::new(is_linux(PREFIX)),
            field: Some("af-xdp"),
            device_type: Some("af-xdp"),
            read: Box::new(|r, name, _, fields| {
                let mut config = Config::new(name.strip_prefix(PREFIX)?);
                if let Some(node) = fields.take("af-xdp") {
                    schema().read_over(r, node.at, node, &mut config);
                }
                Some(Begun::by(config))
            }),
            is: |backed| backed.get::<Config>().is_some(),
            write: Box::new(|t, backed| {
                if let Some(config) = backed.get() {
                    t.map("af-xdp", |t| schema().write(t, config));
                }
            }),
            title: "`af-xdp`".into(),
            rows: schema().rows(""),
            examples: Box::new(|| {
                let named = |config| Backed::by(Config { name: "eth0".into(), ..config });
                schema().examples().into_iter().map(|c| (format!("{PREFIX}eth0"), named(c))).collect()
            }),
        });
        r.command(
            "create interface af_xdp host-if <name:word> [num-rx-queues {all | <queues:u32>}] [rx-queue-size <rx:u32>] \
             [tx-queue-size <tx:u32>] [{native | generic}] [{zero-copy | no-zero-copy}] [hw-addr <mac:mac>] [force] \
             [index <index:u32>]",
            "Take a Linux interface by AF_XDP, as xdp-NAME; with all its queues by default.",
            create,
        );
        r.command(
            "delete interface af_xdp <interface:interface>",
            "Return a Linux interface to the host.",
            |c, a| c.delete_interface::<Config>(a, "interface", &a.need::<String>("interface")?),
        );
    }
}

fn create(c: &mut Context, a: &Args) -> Done {
    let usual = Config::new(a.need::<String>("name")?);
    let config = Config {
        queues: a.get("queues"),
        rx_ring: a.get("rx").unwrap_or(usual.rx_ring),
        tx_ring: a.get("tx").unwrap_or(usual.tx_ring),
        attach: match (a.has("native"), a.has("generic")) {
            (true, _) => Some(Attach::Native),
            (_, true) => Some(Attach::Generic),
            _ => None,
        },
        copying: match (a.has("zero-copy"), a.has("no-zero-copy")) {
            (true, _) => Copying::Never,
            (_, true) => Copying::Always,
            _ => Copying::IfNeeded,
        },
        force: a.has("force"),
        ..usual
    };
    c.create_interface(a, "name", &format!("{PREFIX}{}", config.name), config)
}
