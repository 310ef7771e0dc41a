//! Checks of where packets come from.

use std::sync::LazyLock;

use model::cli::{Args, CliError, Output, PAGE, Rows, Table};
use model::family::Family;
use model::schema::{Described, Schema, words};
use net::feature::{self, App, Configured, Registrar};
use net::router::{Router, RouterError};
use serde::Serialize;

use crate::node::{Mode, Urpf};

impl Described for Urpf {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<Urpf>> = LazyLock::new(|| {
            Schema::new(Urpf::default())
                .field(
                    "urpf",
                    words(&Mode::ALL, Mode::word),
                    |u| u.0.ip4,
                    |u, mode| u.0.ip4 = mode,
                    "Checks the source of IPv4 packets that arrive (RFC 3704). `strict`: a packet to the source would leave by this \
                     interface; `loose`: by some interface. Routes of the interface's VRF count, the default route too, but none that \
                     drops or reports.",
                )
                .field(
                    "urpf6",
                    words(&Mode::ALL, Mode::word),
                    |u| u.0.ip6,
                    |u, mode| u.0.ip6 = mode,
                    "Checks the source of IPv6 packets that arrive, as `urpf` does for IPv4.",
                )
        });
        &SCHEMA
    }
}

impl Configured for Urpf {
    type Setting = Self;

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
                "{feature} is set by its mode: \"set urpf ip4 rx {{strict | loose}} {interface}\", in a YAML file \"urpf\""
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
        "Check the sources of packets that come in by an interface (RFC 3704): strict, the route to the source leaves by this \
         interface; loose, there is one. The default route counts.",
        set,
    );
    r.command(
        "show urpf",
        "Show the interfaces whose packets' sources are checked, and what failed.",
        |_, a| {
            let table = Table::new(&["Interface", "IPv4", "IPv6", "Dropped packets"]);
            Ok(Output::rows(Checks { next: 0, table }, a.json()))
        },
    );
}

fn set<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    if a.has("tx") {
        return Err(a.fault("tx", "sources are checked where packets come in: rx, on each such interface"));
    }
    let mode = Mode::ALL.into_iter().find(|mode| a.has(mode.word())).unwrap_or_default();
    let six = a.has("ip6");
    feature::set(c, a, |Urpf(modes)| *(if six { &mut modes.ip6 } else { &mut modes.ip4 }) = mode)
}

#[derive(Serialize)]
struct Check {
    interface: String,
    /// Of IPv4.
    mode: &'static str,
    mode_ip6: &'static str,
    /// Of both families.
    dropped_packets: u64,
}

/// Interfaces where sources are checked, from an index on.
struct Checks {
    next: u32,
    table: Table,
}

impl<C: App> Rows<C> for Checks {
    type Row = Check;

    fn next(&mut self, c: &C, page: &mut Vec<Check>) -> bool {
        let router = c.router();
        let mut last = None;
        for i in router.interfaces_from(self.next).take(PAGE) {
            let modes = router.setting::<Urpf>(i.index);
            if modes != Urpf::default() {
                let failed = router.attached::<Urpf>().map(|urpf| urpf.counts.read(i.index));
                let [dropped_packets] = failed.unwrap_or_default();
                let [mode, mode_ip6] = modes.0.each().map(Mode::word);
                page.push(Check { interface: i.name.clone(), mode, mode_ip6, dropped_packets });
            }
            last = Some(i.index);
        }
        self.next = last.map_or(0, |last| last + 1);
        last.is_some()
    }

    fn text(&mut self, page: &[Check], out: &mut String) {
        for check in page {
            self.table.row(vec![
                check.interface.clone(),
                check.mode.into(),
                check.mode_ip6.into(),
                check.dropped_packets.to_string(),
            ]);
        }
        self.table.flush(out);
    }
}
