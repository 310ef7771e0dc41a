//! The setting and the commands of reverse-path checks.

use std::sync::LazyLock;

use model::cli::{Args, CliError, Output};
use model::family::Family;
use model::metrics::{Kind, Metric};
use model::schema::{Described, Schema, words};
use net::feature::{self, App, Configured, Counter, Registrar, Shown};
use net::router::{Router, RouterError};
use serde::Serialize;

use crate::node::{Mode, Urpf};

static FAILED: Metric = Metric {
    name: "volley_interface_urpf_failed_packets_total",
    kind: Kind::Counter,
    labels: &["interface"],
    help: "Received packets that were dropped because their source failed the reverse-path check, on interfaces with a check.",
};

impl Described for Urpf {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<Urpf>> = LazyLock::new(|| {
            Schema::new(Urpf::default())
                .field(
                    "urpf",
                    words(&Mode::ALL, Mode::word),
                    |u| u.0.ip4,
                    |u, mode| u.0.ip4 = mode,
                    "Checks the source of received IPv4 packets (RFC 3704). `strict`: the route to the source leaves by \
                     this interface; `loose`: by any interface. Routes of the interface's VRF count, also the default route. \
                     Routes that drop packets, or report them as unreachable or prohibited, do not count.",
                )
                .field(
                    "urpf6",
                    words(&Mode::ALL, Mode::word),
                    |u| u.0.ip6,
                    |u, mode| u.0.ip6 = mode,
                    "Checks the source of received IPv6 packets, as `urpf` does for IPv4.",
                )
        });
        &SCHEMA
    }
}

impl Configured for Urpf {
    type Setting = Self;
    const COUNTERS: &'static [Counter<Self>] =
        &[Counter { metric: &FAILED, labels: &[], is_used: |urpf| *urpf != Urpf::default() }];

    fn resolve(&self, _: &Router) -> Result<Self, RouterError> {
        Ok(*self)
    }

    fn dump(&self, interface: &str) -> Vec<String> {
        let on = Family::ALL.into_iter().zip(self.0.each()).filter(|(_, mode)| *mode != Mode::Off);
        on.map(|(family, mode)| format!("set urpf {} rx {} {interface}", family.word(), mode.word()))
            .collect()
    }

    fn way(feature: &str, interface: &str) -> Option<String> {
        let way = || {
            format!(
                "{feature} needs a mode: use \"set urpf ip4 rx {{strict | loose}} {interface}\", or \"urpf\" in a YAML file"
            )
        };
        Mode::has(feature).then(way)
    }
}

/// Declares the setting and its commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.setting::<Urpf>();
    r.command(
        "set urpf {ip4 | ip6} {rx | tx} {off | strict | loose} <interface:interface>",
        "Check the sources of packets received on an interface (RFC 3704). strict: the route to the source leaves by \
         this interface; loose: there is a route. The default route counts.",
        set,
    );
    r.command("show urpf", "Show the interfaces with source checks, and the packets that failed.", |_, a| {
        Ok(feature::show(a, &["Interface", "IPv4", "IPv6", "Dropped packets"], checks, cells))
    });
}

fn set<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    if a.has("tx") {
        return Err(a.fault("tx", "sources are checked on receipt only: use rx"));
    }
    let mode = Mode::ALL.into_iter().find(|mode| a.has(mode.word())).unwrap_or_default();
    let six = a.has("ip6");
    feature::set(c, a, |Urpf(modes)| *(if six { &mut modes.ip6 } else { &mut modes.ip4 }) = mode)
}

#[derive(Serialize)]
struct Check {
    interface: String,
    /// The mode for IPv4.
    mode: &'static str,
    mode_ip6: &'static str,
    /// IPv4 and IPv6 packets dropped by the check.
    dropped_packets: u64,
}

fn checks(shown: &Shown<'_, Urpf>) -> Vec<Check> {
    let [mode, mode_ip6] = shown.value.0.each().map(Mode::word);
    let dropped_packets = shown.counted.iter().sum();
    vec![Check { interface: shown.interface.name.clone(), mode, mode_ip6, dropped_packets }]
}

fn cells(check: &Check) -> Vec<String> {
    let Check { interface, mode, mode_ip6, dropped_packets } = check;
    vec![interface.clone(), mode.to_string(), mode_ip6.to_string(), dropped_packets.to_string()]
}
