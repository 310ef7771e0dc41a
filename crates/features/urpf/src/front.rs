//! Checks of where packets come from.

use net::ip::{PerFamily, Urpf};
use net::router::{InterfaceInfo, Router};
#[cfg(test)]
use proptest::prelude::*;
use serde::Serialize;

use super::Configured;
use crate::cli::{Args, CliError, PAGE, Registry, Rows, Table};
use crate::commands::{Context, Output, change};
use crate::config::{Fields, Reader, Text, quoted};
use crate::intent::Family;
use model::metrics::{Lines, Metric};

impl Configured for PerFamily<Urpf> {
    const METRICS: &'static [&'static Metric] = &[];

    fn register(r: &mut Registry<Context>) {
        register(r);
    }

    fn read(r: &mut Reader, fields: &mut Fields<'_>) -> Self {
        let [ip4, ip6] = ["urpf", "urpf6"].map(|field| {
            let mode = fields.take(field).and_then(|n| r.word(n, &Urpf::ALL.map(Urpf::word)));
            mode.and_then(Urpf::parse).unwrap_or_default()
        });
        PerFamily { ip4, ip6 }
    }

    fn write(&self, to: &mut Text<'_>) {
        for (field, mode) in [("urpf", self.ip4), ("urpf6", self.ip6)] {
            to.field(field, (mode != Urpf::Off).then(|| quoted(mode.word())));
        }
    }

    fn dump(&self, interface: &str) -> Vec<String> {
        let on = Family::ALL.into_iter().zip(self.each()).filter(|(_, mode)| *mode != Urpf::Off);
        on.map(|(family, mode)| format!("set urpf {} rx {} {interface}", family.word(), mode.word()))
            .collect()
    }

    fn way(feature: &str, interface: &str) -> Option<String> {
        let way = || {
            format!(
                "{feature} is set by its mode: \"set urpf ip4 rx {{strict | loose}} {interface}\", in a YAML file \"urpf\""
            )
        };
        Urpf::has(feature).then(way)
    }

    fn collect(_: &Router, _: &InterfaceInfo, _: &mut Lines) {}

    #[cfg(test)]
    fn any() -> BoxedStrategy<Self> {
        let mode = prop_oneof![3 => Just(Urpf::Off), 1 => Just(Urpf::Strict), 1 => Just(Urpf::Loose)];
        (mode.clone(), mode).prop_map(|(ip4, ip6)| PerFamily { ip4, ip6 }).boxed()
    }
}

fn register(r: &mut Registry<Context>) {
    r.add(
        "set urpf {ip4 | ip6} {rx | tx} {off | strict | loose} <interface:interface>",
        "Check the sources of packets that come in by an interface (RFC 3704): strict, the route to the source leaves by this \
         interface; loose, there is one. The default route counts.",
        set,
    );
    r.add("show urpf", "Show the interfaces whose packets' sources are checked, and what failed.", |_, a| {
        let table = Table::new(&["Interface", "IPv4", "IPv6", "Dropped packets"]);
        Ok(Output::rows(Checks { next: 0, table }, a.json()))
    });
}

fn set(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    if a.has("tx") {
        return Err(a.fault("tx", "sources are checked where packets come in: rx, on each such interface"));
    }
    let mode = Urpf::ALL.into_iter().find(|mode| a.has(mode.word())).unwrap_or_default();
    let six = a.has("ip6");
    change(c, a, "interface", |i| {
        let mut modes = i.attached.get::<PerFamily<Urpf>>();
        *(if six { &mut modes.ip6 } else { &mut modes.ip4 }) = mode;
        i.attached.put(modes);
    })
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

impl Rows<Context> for Checks {
    type Row = Check;

    fn next(&mut self, c: &Context, page: &mut Vec<Check>) -> bool {
        let router = &c.system.router;
        let mut last = None;
        for i in router.interfaces_from(self.next).take(PAGE) {
            let modes = router.setting::<PerFamily<Urpf>>(i.index);
            if modes != PerFamily::default() {
                let failed = router.attached::<PerFamily<Urpf>>().map(|urpf| urpf.counts.read(i.index));
                let [dropped_packets] = failed.unwrap_or_default();
                let [mode, mode_ip6] = modes.each().map(Urpf::word);
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
