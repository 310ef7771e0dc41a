//! VPP's commands that Volley does not have: each is refused with Volley's form, or as not supported yet.

mod table;

use std::fmt::{self, Write};

use super::Context;
use crate::cli::Registry;

pub use table::TABLE;

/// VPP's commands of one area.
#[derive(Debug)]
pub struct Area {
    /// The heading of the area.
    pub title: &'static str,
    /// The commands.
    pub commands: &'static [Foreign],
}

/// A command that VPP has and Volley does not have.
#[derive(Debug)]
pub struct Foreign {
    /// How it begins, in the grammar of commands. Whatever may follow.
    pub beginning: &'static str,
    /// What an operator who types it is told.
    pub instead: Instead,
}

/// What there is in the place of a command of VPP's.
#[derive(Clone, Copy, Debug)]
pub enum Instead {
    /// A command, with words in capitals for its arguments.
    Command(&'static str),
    /// Something that is no command, as a clause.
    Hint(&'static str),
    /// Nothing yet.
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

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Foreign> {
    TABLE.iter().flat_map(|area| area.commands)
}

impl Foreign {
    /// The error for a line that begins like this.
    pub fn refusal(&self) -> String {
        match self.instead {
            Instead::Command(form) => format!("unknown command; Volley's form: {form}"),
            Instead::Hint(clause) => format!("unknown command; {clause}"),
            Instead::NotYet => format!("'{}' is not supported yet", self.shown()),
        }
    }

    /// The beginning as people read it: an argument is its name in capitals.
    pub fn shown(&self) -> String {
        let word = |word: &str| match word.strip_prefix('<').and_then(|word| word.split_once(':')) {
            Some((name, _)) => name.to_uppercase(),
            // Of synonyms, the first is enough.
            None => word.split('/').next().unwrap_or_default().to_owned(),
        };
        self.beginning.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Instead {
    /// As a cell of the table in the documentation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instead::Command(form) => write!(f, "`{form}`"),
            Instead::Hint(clause) => f.write_str(clause),
            Instead::NotYet => f.write_str("not supported yet"),
        }
    }
}

/// The table as Markdown, for `docs/reference/vpp-commands.md`.
pub fn reference() -> String {
    let mut text = String::from(
        "## Not there yet\n\nA command that begins like one of these is refused, with what the second column says. Keywords may be \
         abbreviated.\n",
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
    fn what_vpp_has_is_refused_with_what_there_is() {
        let mut cli = Cli::new();
        let mut refused = |line: &str| cli.run(line).unwrap_err().render();
        assert_eq!(refused("show bridge-domain 1 detail"), "'show bridge-domain' is not supported yet");
        assert_eq!(refused("sh bri"), "'show bridge-domain' is not supported yet");
        assert_eq!(refused("show fib entry 3"), "unknown command; Volley's form: show ip fib");
        assert!(refused("history").contains("unknown command; the client keeps the history"));
        let said = refused("ip route add 10.28.0.0/16 via 10.0.2.2 udp-encap 3");
        assert_eq!(said, "'ip route add PREFIX via NEXT-HOP udp-encap' is not supported yet");
        // A slip in a command that there is stays one.
        assert!(refused("show interfaec").contains("did you mean 'interface'?"));
    }
}
