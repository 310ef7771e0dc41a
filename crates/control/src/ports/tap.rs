//! Taps: each has one end in the router, `tapN`, and the other end is an interface of the host.

mod api;
#[cfg(test)]
mod api_tests;

use std::io::ErrorKind;
use std::iter;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;

use drivers::tap::{self, Config};
use graph::{Builder, GraphError};
use model::object::Fact;
use model::schema::{Form, Row, Schema, number, optional, parsed, text, truth};
use model::tuple::Tuple;
use net::Tables;
use net::feature::{
    self, App, Backed, Backing, Begun, Interfaces, Opened, Prepared, Registrar, Unopened, Unready,
    free_number, is_numbered, numbered,
};
use net::ip::Address;
use net::nodes::interface::install_input;
use net::router::Hooks;
use net::router::check_mac;
use serde_json::json;
use wire::Mac;

use super::{can_be_written, check_linux_name};
use crate::app::{Context, Done};
use crate::cli::{Args, quote};
use crate::config::{Description, MTUS, address, mac};
use crate::files;
use crate::intent::{Refused, View, refuse};
use crate::system::{Abilities, System};

/// Prefix of the interface names, before the number.
const PREFIX: &str = "tap";

/// The ring sizes that are accepted, if they are powers of two.
const RING_SIZES: RangeInclusive<u16> = 8..=32_768;

/// True if a ring of a tap may have this size.
fn is_ring_size(size: u16) -> bool {
    RING_SIZES.contains(&size) && size.is_power_of_two()
}

/// Index of the taps whose host end is in the router's own namespace: from the name of the host end to the name of the tap.
const TAPS: &str = "tap";

/// Returns the taps whose host end has this name. A valid configuration has at most one.
pub(super) fn taps(view: &View<'_>, host_name: &str) -> impl Iterator<Item = String> {
    view.found(TAPS, Tuple::of(host_name))
}

/// The fields of a tap and of its end in the host: the device's configuration, and the MTU of both ends.
#[derive(Clone, Debug, PartialEq)]
struct Tap {
    config: Config,
    mtu: Option<u16>,
}

impl Tap {
    /// Returns a tap whose end in the host has this name, with defaults for everything else.
    fn new(name: &str) -> Tap {
        Tap { config: Config::new(name), mtu: None }
    }
}

/// Returns the fields of `host`, a part of the interface `tapN` in configuration files.
fn schema() -> &'static Schema<Tap> {
    static SCHEMA: LazyLock<Schema<Tap>> = LazyLock::new(|| {
        Schema::new(Tap::new(""))
            .field(
                "name",
                text("a name of at most 15 bytes", &["vpp0"]),
                |t| t.config.host_name.clone(),
                |t, name| t.config.host_name = name,
                "The Linux interface.",
            )
            .needed("the host's end needs a \"name\"")
            .field(
                "mac",
                optional(mac()),
                |t| t.config.host_mac.map(Mac),
                |t, mac| t.config.host_mac = mac.map(|mac| mac.0),
                "Its Ethernet address.",
            )
            .field(
                "namespace",
                optional(text("a name, or a path", &["blue"])),
                |t| t.config.host_namespace.as_ref().map(|path| path.display().to_string()),
                |t, name| t.config.host_namespace = name.map(PathBuf::from),
                "Its network namespace.",
            )
            .field(
                "address",
                optional(parsed(
                    "an IPv4 address with prefix length",
                    &["10.0.0.1/24"],
                    |text| {
                        let address = address(text)?;
                        let of = address.of().map(|a| (a.address, a.len));
                        of.ok_or_else(|| {
                            format!("{address} is not an IPv4 address: the host's end supports only IPv4")
                        })
                    },
                    |(ip, len): &(std::net::Ipv4Addr, u8)| format!("{ip}/{len}"),
                )),
                |t| t.config.host_ip4,
                |t, address| t.config.host_ip4 = address,
                "Its address.",
            )
            .field(
                "mtu",
                optional(number(MTUS).unit("bytes")),
                |t| t.mtu,
                |t, mtu| t.mtu = mtu,
                "The MTU of both ends.",
            )
            .later(&["bridge", "bridge-create", "namespace-create"])
    });
    &SCHEMA
}

/// Returns the rows of the reference for all fields of a tap.
fn rows() -> Vec<Row> {
    fn row(name: &str, form: &impl Form, help: &'static str) -> Row {
        Row::new(name, form.values(), help, form.json())
    }
    let host = Row::new("host", "a map", "The end in the host.", json!({ "type": "object" }));
    let gso = "Packets of TCP that are larger than the MTU pass between the host and the router whole (GSO).";
    let ring_size = number(RING_SIZES).unit("packets, a power of two");
    let size = |name| row(name, &ring_size, "Accepted, but without effect: a tap has no rings.");
    let others = [
        Row { usual: "true".into(), ..row("gso", &truth(), gso) },
        size("rx-ring-size"),
        size("tx-ring-size"),
        row("description", &Description, "A description; `interfaces` may have it, too."),
    ];
    iter::once(host).chain(schema().rows("host.")).chain(others).collect()
}

impl Backing<System> for Config {
    const DEVICE: bool = true;

    fn validate(&self, name: &str, _: Option<u16>, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        check_linux_name(&self.host_name)?;
        let namespace = self.host_namespace.as_ref();
        namespace.map_or(Ok(()), |path| can_be_written(&path.to_string_lossy()))?;
        self.host_mac.map_or(Ok(()), |mac| check_mac(Mac(mac)))?;
        let same_end = || taps(view, &self.host_name).find(|other| other != name);
        // Other namespaces have other interfaces: the kernel checks the name there.
        match same_end().filter(|_| self.host_namespace.is_none()) {
            Some(other) => refuse(format!("{} is already the host's end of {other}", self.host_name)),
            None => Ok(()),
        }
    }

    fn is_slow(&self) -> bool {
        self.host_namespace.is_some()
    }

    fn find(&self) -> Result<(), Unready> {
        let Some(namespace) = &self.host_namespace else { return Ok(()) };
        let why = match files::open_by(&tap::namespace_file(namespace), tap::open_namespace) {
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                format!("no such network namespace: {}", namespace.display())
            }
            Err(e) => format!("cannot open the network namespace {}: {e}", namespace.display()),
        };
        Err(Unready { about: "ns", why: Refused::new(why) })
    }

    fn open(&self, _: &str, _: Prepared, _: &mut System) -> Result<Opened, Unopened> {
        let opened = tap::open(self).map(Opened::Device);
        opened.map_err(|e| Unopened { missing: e.may_pass(), ..Unopened::new(e) })
    }

    fn dump(&self, name: &str) -> String {
        let id = name.strip_prefix(PREFIX).unwrap_or_default();
        let mut s = format!("create tap id {id} host-if-name {}", quote(&self.host_name));
        if let Some(ns) = &self.host_namespace {
            s += &format!(" host-ns {}", quote(&ns.display().to_string()));
        }
        if let Some(mac) = self.host_mac {
            s += &format!(" host-mac-addr {}", Mac(mac));
        }
        if let Some((ip, len)) = self.host_ip4 {
            s += &format!(" host-ip4-addr {ip}/{len}");
        }
        s + if self.gso { "" } else { " no-gso" }
    }

    /// True if the device can be reopened in place: the host's end keeps its name and namespace. Otherwise the tap is recreated, because
    /// the new name may be in use until another interface is changed.
    fn takes_over(&self, old: &Config) -> bool {
        self.host_name == old.host_name && self.host_namespace == old.host_namespace
    }

    fn facts(&self, name: &str, to: &mut dyn FnMut(Fact)) {
        if self.host_namespace.is_none() {
            to(Fact::new(TAPS, (&self.host_name, name)));
        }
    }
}

/// The feature `tap`.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "tap"
    }

    fn about(&self) -> &'static str {
        "Creates taps: Linux interfaces that connect the host to the router."
    }

    fn install(&self, b: &mut Builder, t: &Tables, _: &mut Hooks) -> Result<(), GraphError> {
        install_input(b, t, tap::INPUT_NODE);
        Ok(())
    }

    fn messages(&self, table: &mut vapi::Table<Context>) {
        api::register(table);
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        r.interfaces(Interfaces {
            what: "a tap",
            named: numbered(PREFIX),
            section: Some("taps"),
            names: Box::new(is_numbered::<u32>(PREFIX)),
            field: None,
            device_type: None,
            read: Box::new(|r, name, at, fields| {
                let description =
                    fields.take("description").and_then(|node| Description.read(r, node)).flatten();
                for name in ["rx-ring-size", "tx-ring-size"] {
                    // Checked, but without effect: a tap has no rings here, because packets are copied one by one.
                    let size = fields.take(name).and_then(|n| Some((n.at, r.number(n, RING_SIZES)?)));
                    if let Some((at, size)) = size.filter(|(_, size)| !size.is_power_of_two()) {
                        r.fault(at, format!("{size} is not a power of two"));
                    }
                }
                let mut tap = Tap::new(name);
                tap.config.gso = fields.take("gso").and_then(|n| r.truth(n)).unwrap_or(true);
                match fields.take("host") {
                    None => {
                        r.fault(at, format!("{name} needs a \"host\" with the \"name\" of its other end"))
                    }
                    Some(node) => schema().read_over(r, node.at, node, &mut tap),
                }
                Some(Begun { backed: Backed::by(tap.config), mtu: tap.mtu, description })
            }),
            is: |backed| backed.get::<Config>().is_some(),
            write: Box::new(|t, backed| {
                if let Some(config) = backed.get::<Config>() {
                    // The MTU has its own field of the interface.
                    t.map("host", |t| schema().write(t, &Tap { config: config.clone(), mtu: None }));
                    t.field("gso", (!config.gso).then_some(false));
                }
            }),
            title: "`taps`, by name".into(),
            rows: rows(),
            examples: Box::new(|| {
                let example = |tap: Tap| (format!("{PREFIX}0"), Backed::by(tap.config));
                schema().examples().into_iter().map(example).collect()
            }),
        });
        r.command(
            "create tap [id <id:u32>] [host-if-name <host:word>] [host-ns <ns:word>] [host-mac-addr <host-mac:mac>] \
             [host-ip4-addr <host-ip:address4>] [host-mtu-size <mtu:u16>] [rx-ring-size <rx-ring:u16>] \
             [tx-ring-size <tx-ring:u16>] [hw-addr <mac:mac>] [{gso | no-gso}] [index <index:u32>]",
            "Make a tap: a Linux interface that connects the host to the router. The MTU is that of both ends. Ring sizes have no effect, \
             because a tap has no rings.",
            create,
        );
        r.command("delete tap <interface:interface>", "Remove a tap.", |c, a| {
            c.delete_interface::<Config>(a, "interface", &a.need::<String>("interface")?)
        });
    }
}

fn create(c: &mut Context, a: &Args) -> Done {
    let id = a.get::<u32>("id").unwrap_or_else(|| free_number(c, PREFIX));
    let name = format!("{PREFIX}{id}");
    for ring in ["rx-ring", "tx-ring"] {
        let size = a.get::<u16>(ring).filter(|size| !is_ring_size(*size));
        if let Some(size) = size {
            return Err(
                a.fault(ring, format!("invalid ring size {size}: expected a power of two from 8 to 32768"))
            );
        }
    }
    let config = Config {
        host_namespace: a.get::<String>("ns").map(PathBuf::from),
        host_mac: a.get::<Mac>("host-mac").map(|m| m.0),
        host_ip4: a.get::<Address>("host-ip").and_then(Address::of::<Ipv4Addr>).map(|a| (a.address, a.len)),
        gso: !a.has("no-gso"),
        ..Config::new(a.get::<String>("host").unwrap_or_else(|| name.clone()))
    };
    // The usual reason to refuse is a name in use, here or at the host's end.
    let about = ["host", "id"].into_iter().find(|name| a.has(name)).unwrap_or("tap");
    c.create_interface(a, about, &name, config)
}
