//! The largest segments of TCP, lowered as they pass.

use net::ip::{Clamping, Mss};
use serde::Serialize;

use super::interface::change;
use super::{Context, Output};
use crate::cli::{Args, CliError, PAGE, Registry, Rows, Table};
use crate::config::MSS_SIZES;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "set interface tcp-mss-clamp <interface:interface> ip4 {enable | rx | tx | disable} [ip4-mss <mss:u16>]",
        "Lower the largest segment that TCP's ends tell each other, in packets that pass by an interface, or in one direction only.",
        set,
    );
    r.add(
        "show interface tcp-mss-clamp",
        "Show where TCP's largest segments are lowered, and in how many packets.",
        |_, a| {
            let table = Table::new(&["Interface", "IPv4", "Largest segment (bytes)", "Lowered packets"]);
            Ok(Output::rows(Clamped { next: 0, table }, a.json()))
        },
    );
}

fn set(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let clamping = Clamping::ALL.into_iter().find(|clamping| a.has(clamping.word())).unwrap_or_default();
    let mss = match (clamping, a.get::<u16>("mss")) {
        (Clamping::Off, _) => Mss::default(),
        (clamping, Some(ip4)) if MSS_SIZES.contains(&ip4) => Mss { clamping, ip4 },
        (_, Some(_)) => {
            let message =
                format!("the largest segment is {} to {} bytes", MSS_SIZES.start(), MSS_SIZES.end());
            return Err(a.fault("mss", message));
        }
        (_, None) => return Err(a.fault("interface", "it needs a size: ip4-mss 1400, say")),
    };
    change(c, a, "interface", |i| i.mss = mss)
}

#[derive(Serialize)]
struct Clamp {
    interface: String,
    direction: &'static str,
    ip4_mss_bytes: u16,
    lowered_packets: u64,
}

/// Interfaces with a largest segment, from an index on.
struct Clamped {
    next: u32,
    table: Table,
}

impl Rows<Context> for Clamped {
    type Row = Clamp;

    fn next(&mut self, c: &Context, page: &mut Vec<Clamp>) -> bool {
        let router = &c.system.router;
        let mut last = None;
        for i in router.interfaces_from(self.next).take(PAGE) {
            let direction = match i.mss.clamping {
                Clamping::Off => None,
                Clamping::Both => Some("both"),
                one => Some(one.word()),
            };
            page.extend(direction.map(|direction| Clamp {
                interface: i.name.clone(),
                direction,
                ip4_mss_bytes: i.mss.ip4,
                lowered_packets: router.tables().mss_clamped.read(i.index)[0],
            }));
            last = Some(i.index);
        }
        self.next = last.map_or(0, |last| last + 1);
        last.is_some()
    }

    fn text(&mut self, page: &[Clamp], out: &mut String) {
        for clamp in page {
            self.table.row(vec![
                clamp.interface.clone(),
                clamp.direction.into(),
                clamp.ip4_mss_bytes.to_string(),
                clamp.lowered_packets.to_string(),
            ]);
        }
        self.table.flush(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Cli;

    #[test]
    fn largest_segments_are_configured_and_shown() {
        let mut cli = Cli::new();
        assert_eq!(cli.json("show interface tcp-mss-clamp"), serde_json::json!([]));
        for (word, direction) in [("enable", "both"), ("rx", "rx"), ("tx", "tx")] {
            let line = format!("set interface tcp-mss-clamp pg0 ip4 {word} ip4-mss 1400");
            cli.ok(&line);
            assert!(cli.ok("show config").contains(&format!("{line}\n")));
            let shown = cli.json("show interface tcp-mss-clamp");
            assert_eq!(
                (&shown[0]["direction"], &shown[0]["ip4_mss_bytes"]),
                (&direction.into(), &1400.into())
            );
            let features = cli.ok("show interface features pg0");
            assert_eq!(features.contains("\n  tcp-mss-clamping-ip4-in\n"), word != "tx", "{features}");
            assert_eq!(features.contains("\n  tcp-mss-clamping-ip4-out\n"), word != "rx", "{features}");
        }
        assert!(cli.ok("show config yaml").contains("    tcp-mss-clamp: { ip4: 1400, direction: tx }\n"));
        cli.refused("set interface tcp-mss-clamp pg0 ip4 enable", "pg0");
        let told = cli.refused("set interface tcp-mss-clamp pg0 ip4 enable ip4-mss 40", "40");
        assert!(told.contains("48 to 65495 bytes"), "{told}");
        let feature = "tcp-mss-clamping-ip4-in";
        let told = cli.refused(&format!("set interface feature pg1 {feature} arc ip4-unicast"), feature);
        assert!(told.contains("set interface tcp-mss-clamp pg1"), "{told}");
        cli.ok("set interface tcp-mss-clamp pg0 ip4 disable");
        assert!(!cli.ok("show config").contains("tcp-mss-clamp"));
    }
}
