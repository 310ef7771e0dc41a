//! VPP's commands and names of drop reasons that differ from Volley's, for users and programs that know VPP.

use std::fmt;

/// A VPP command that Volley lacks, or has in another form.
#[derive(Clone, Copy, Debug)]
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

impl Foreign {
    /// Returns the VPP command that begins with these words, with Volley's command that replaces it.
    pub const fn use_command(beginning: &'static str, command: &'static str) -> Foreign {
        Foreign { beginning, instead: Instead::Command(command) }
    }

    /// Returns the VPP command that begins with these words, with a hint: a clause of the error text.
    pub const fn hint(beginning: &'static str, clause: &'static str) -> Foreign {
        Foreign { beginning, instead: Instead::Hint(clause) }
    }

    /// Returns the VPP command that begins with these words and has no replacement yet.
    pub const fn not_yet(beginning: &'static str) -> Foreign {
        Foreign { beginning, instead: Instead::NotYet }
    }

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

/// A node and one of its drop reasons.
pub type NodeReason = (&'static str, &'static str);

/// A drop reason of VPP that Volley counts under other names. Programs that read the statistics segment find the count under VPP's name.
#[derive(Clone, Copy, Debug)]
pub struct VppReason {
    /// VPP's node and its reason.
    pub name: NodeReason,
    /// The corresponding reasons of Volley, each with its node. The count for VPP's name is the sum of their counts: 0 if the list is
    /// empty.
    pub counted: &'static [NodeReason],
}
