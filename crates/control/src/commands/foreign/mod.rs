//! VPP commands that Volley does not have. The error for each of them names Volley's command, gives a hint,
//! or says that the command is not supported yet.

mod table;

use std::fmt::{self, Write};

use crate::app::Context;
use crate::cli::Registry;

pub use table::TABLE;

/// The VPP commands of one area.
#[derive(Debug)]
pub struct Area {
    /// The heading of the area.
    pub title: &'static str,
    /// The commands.
    pub commands: &'static [Foreign],
}

/// A VPP command missing in Volley.
#[derive(Debug)]
pub struct Foreign {
    /// The first words of the command, in the grammar of Volley's commands. Any words may follow.
    pub beginning: &'static str,
    /// Volley's replacement.
    pub instead: Instead,
}

/// The replacement of a VPP command.
#[derive(Clone, Copy, Debug)]
pub enum Instead {
    /// A command. Words in capitals are arguments.
    Command(&'static str),
    /// A hint, as a clause of the error text.
    Hint(&'static str),
    /// No replacement yet.
    NotYet,
}

const fn use_command(beginning: &'static str, command: &'static str) -> Foreign {
    Foreign { beginning, instead: Instead::Command(command) }
}

const fn hint(beginning: &'static str, clause: &'static str) -> Foreign {
    Foreign { beginning, instead: Instead::Hint(clause) }
}

const fn not_yet(beginning: &'static str) -> Foreign {
    Foreign { beginning, instead: Instead::NotYet }
}

/// Declares the refusals.
pub fn register(r: &mut Registry<Context>) {
    for foreign in all() {
        r.refuse(foreign.beginning, foreign.refusal());
    }
}

/// Returns all commands of the table.
pub fn all() -> impl Iterator<Item = &'static Foreign> {
    TABLE.iter().flat_map(|area| area.commands)
}

impl Foreign {
    /// Returns the error for a line with this beginning.
    pub fn refusal(&self) -> String {
        match self.instead {
            Instead::Command(form) => format!("unknown command; Volley's form: {form}"),
            Instead::Hint(clause) => format!("unknown command; {clause}"),
            Instead::NotYet => format!("'{}' is not supported yet", self.shown()),
        }
    }

    /// Returns the first words of the command in readable form, with arguments as names in capitals.
    pub fn shown(&self) -> String {
        let word = |word: &str| match word.strip_prefix('<').and_then(|word| word.split_once(':')) {
            Some((name, _)) => name.to_uppercase(),
            // The first of several synonyms.
            None => word.split('/').next().unwrap_or_default().to_owned(),
        };
        self.beginning.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Instead {
    /// Formats a cell of the table in the documentation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instead::Command(form) => write!(f, "`{form}`"),
            Instead::Hint(clause) => f.write_str(clause),
            Instead::NotYet => f.write_str("not supported yet"),
        }
    }
}

/// Returns the table as Markdown, for `docs/reference/vpp-commands.md`.
pub fn reference() -> String {
    let mut text = String::from(
        "## Missing commands\n\nA command with one of these beginnings is refused, with the text of the second column. Keywords \
         may be abbreviated.\n",
    );
    for area in TABLE {
        let _ = write!(text, "\n### {}\n\n| VPP | Volley |\n|---|---|\n", area.title);
        for foreign in area.commands {
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
        assert_eq!(refused("show bridge-domain 1 detail"), "'show bridge-domain' is not supported yet");
        assert_eq!(refused("sh bri"), "'show bridge-domain' is not supported yet");
        assert_eq!(refused("show fib entry 3"), "unknown command; Volley's form: show ip fib");
        assert!(refused("history").contains("unknown command; the client keeps the history"));
        let said = refused("ip route add 10.28.0.0/16 via 10.0.2.2 udp-encap 3");
        assert_eq!(said, "'ip route add PREFIX via NEXT-HOP udp-encap' is not supported yet");
        // A typo in an existing command is reported as such.
        assert!(refused("show interfaec").contains("did you mean 'interface'?"));
    }
}
