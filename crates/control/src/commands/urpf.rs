//! Checks of where packets come from.

use net::ip::{PerFamily, Urpf};
use serde::Serialize;

use super::interface::change;
use super::{Context, Output};
use crate::cli::{Args, CliError, PAGE, Registry, Rows, Table};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
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
    change(c, a, "interface", |i| *(if six { &mut i.urpf.ip6 } else { &mut i.urpf.ip4 }) = mode)
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
