//! Checks of where packets come from.

use model::cli::{Args, CliError, Output, PAGE, Rows, Table};
use model::family::Family;
use model::metrics::{Lines, Metric};
use model::yaml::{Fields, Reader, Text, quoted};
use net::feature::{self, App, Configured, Registrar};
use net::ip::PerFamily;
use net::router::{InterfaceInfo, Router, RouterError};
use serde::Serialize;

use crate::node::{Mode, Urpf};

impl Configured for Urpf {
    type Setting = Self;
    const METRICS: &'static [&'static Metric] = &[];

    fn resolve(&self, _: &Router) -> Result<Self, RouterError> {
        Ok(*self)
    }

    fn read(r: &mut Reader, fields: &mut Fields<'_>) -> Self {
        let [ip4, ip6] = ["urpf", "urpf6"].map(|field| {
            let mode = fields.take(field).and_then(|n| r.word(n, &Mode::ALL.map(Mode::word)));
            mode.and_then(Mode::parse).unwrap_or_default()
        });
        Urpf(PerFamily { ip4, ip6 })
    }

    fn write(&self, to: &mut Text<'_>) {
        for (field, mode) in [("urpf", self.0.ip4), ("urpf6", self.0.ip6)] {
            to.field(field, (mode != Mode::Off).then(|| quoted(mode.word())));
        }
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

    fn collect(_: &Router, _: &InterfaceInfo, _: &mut Lines) {}

    fn examples() -> Vec<Self> {
        let pairs = Mode::ALL.into_iter().flat_map(|ip4| Mode::ALL.map(|ip6| PerFamily { ip4, ip6 }));
        pairs.map(Urpf).collect()
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
