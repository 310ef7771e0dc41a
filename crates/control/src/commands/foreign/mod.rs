//! VPP commands that Volley does not have. The error for each of them names Volley's command, gives a hint,
//! or says that the command is not supported yet.

mod table;

use std::fmt::Write;

use net::feature::Foreign;

use crate::app::Context;
use crate::cli::Registry;
use crate::system::Catalog;

pub use table::TABLE;

/// The VPP commands of one area.
#[derive(Debug)]
pub struct Area {
    /// The heading of the area.
    pub title: &'static str,
    /// The commands of the area.
    pub commands: &'static [Foreign],
}

/// Registers the refusals of the commands in the table.
pub fn register(r: &mut Registry<Context>) {
    for foreign in TABLE.iter().flat_map(|area| area.commands) {
        r.refuse(foreign.beginning, foreign.refusal());
    }
}

/// Returns all commands of the table, and those that features declare.
pub fn all(catalog: &Catalog) -> impl Iterator<Item = &Foreign> {
    TABLE.iter().flat_map(|area| area.commands).chain(catalog.foreign())
}

/// Returns the commands as Markdown, for `docs/reference/vpp-commands.md`.
pub fn reference(catalog: &Catalog) -> String {
    let mut text = String::from(
        "## Missing commands\n\nA command with one of these beginnings is refused, with the text of the second column. Keywords \
         may be abbreviated.\n",
    );
    let areas = TABLE.iter().map(|area| (area.title, area.commands));
    for (title, commands) in areas.chain([("Features", catalog.foreign())]) {
        let _ = write!(text, "\n### {title}\n\n| VPP | Volley |\n|---|---|\n");
        for foreign in commands {
            let _ = writeln!(text, "| `{}` | {} |", foreign.shown().replace('|', "\\|"), foreign.instead);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::testing::Cli;

    #[test]
    fn missing_vpp_commands_are_refused_with_the_replacement() {
        let mut cli = Cli::new();
        let mut refused = |line: &str| cli.run(line).unwrap_err().render();
        assert_eq!(refused("show lldp detail"), "'show lldp' is not supported yet");
        assert_eq!(refused("sh lld"), "'show lldp' is not supported yet");
        assert_eq!(refused("show fib entry 3"), "unknown command; Volley's form: show ip fib");
        assert!(refused("history").contains("unknown command; the client keeps the history"));
        let said = refused("ip route add 10.28.0.0/16 via 10.0.2.2 udp-encap 3");
        assert_eq!(said, "'ip route add PREFIX via NEXT-HOP udp-encap' is not supported yet");
        // A typo in an existing command is reported as such.
        assert!(refused("show interfaec").contains("did you mean 'interface'?"));
    }
}
