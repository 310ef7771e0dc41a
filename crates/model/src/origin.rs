//! The origin of a configuration change: who made it, through which front end, and with which command.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

/// Maximum length of a stored command in bytes. A longer command is truncated to this length, and a "…" is appended.
const LONGEST_LINE: usize = 256;

/// A way to change the configuration. New front ends are added here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrontEnd {
    /// A command of a CLI client.
    #[default]
    Cli,
    /// A file that a CLI client applies or executes.
    File,
    /// The configuration that the router starts with.
    Start,
    /// The router itself, when it rolls back unconfirmed changes.
    Router,
    /// A request of a client of the binary API.
    Api,
    /// A request of a client of the native API.
    Native,
    /// An unknown front end: of a later version of the router, or of changes that are missing in the journal.
    #[serde(other)]
    Other,
}

impl fmt::Display for FrontEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrontEnd::Cli => "cli",
            FrontEnd::File => "file",
            FrontEnd::Start => "start",
            FrontEnd::Router => "router",
            FrontEnd::Api => "api",
            FrontEnd::Native => "native",
            FrontEnd::Other => "other",
        })
    }
}

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub enum Peer {
    /// No client: the router itself makes the change, or a test.
    #[default]
    Own,
    /// A user of this machine, by user ID. Another thread looks up the name, because the lookup can block.
    /// Until then the name is unknown.
    User(u32, Arc<OnceLock<Option<String>>>),
    /// A TCP client at this address. Its user is unknown.
    Address(SocketAddr),
    /// A TCP client with a certificate: the name in it, and the address.
    Certified(Arc<str>, SocketAddr),
}

impl Peer {
    /// Returns the user with this ID and name.
    pub fn user(id: u32, name: Option<String>) -> Peer {
        Peer::User(id, Arc::new(OnceLock::from(name)))
    }

    /// Returns the user ID, if the peer is a user of this machine.
    pub fn uid(&self) -> Option<u32> {
        match self {
            Peer::User(id, _) => Some(*id),
            Peer::Own | Peer::Address(_) | Peer::Certified(..) => None,
        }
    }

    /// Returns the address, if the peer is a TCP client.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Peer::Address(address) | Peer::Certified(_, address) => Some(*address),
            Peer::Own | Peer::User(..) => None,
        }
    }

    /// Returns the name of the user, or the name in the peer's certificate; `None` if there is no name, or if it is not known yet.
    pub fn name(&self) -> Option<&str> {
        match self {
            Peer::User(_, name) => name.get().and_then(Option::as_deref),
            Peer::Certified(name, _) => Some(name),
            Peer::Own | Peer::Address(_) => None,
        }
    }

    /// True if the lookup of the name has ended.
    pub fn is_known(&self) -> bool {
        match self {
            Peer::User(_, name) => name.get().is_some(),
            Peer::Own | Peer::Address(_) | Peer::Certified(..) => true,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Own => f.write_str("-"),
            Peer::User(id, _) => match self.name() {
                Some(name) => f.write_str(name),
                None => write!(f, "uid {id}"),
            },
            Peer::Address(address) => write!(f, "{address}"),
            Peer::Certified(name, address) => write!(f, "{name} at {address}"),
        }
    }
}

/// The origin of a configuration change.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The front end.
    pub front_end: FrontEnd,
    /// The client.
    pub peer: Peer,
    /// The command, or the file.
    pub line: Arc<str>,
}

impl Origin {
    /// Returns an origin. `line` is truncated to the maximum stored length.
    pub fn new(front_end: FrontEnd, peer: Peer, line: &str) -> Origin {
        let line = line.trim();
        let kept = line.get(..line.floor_char_boundary(LONGEST_LINE)).unwrap_or_default();
        let line = if kept.len() < line.len() { format!("{kept}…").into() } else { kept.into() };
        Origin { front_end, peer, line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let origin = Origin::new(FrontEnd::Cli, Peer::Own, &format!(" {} ", "é".repeat(200)));
        assert_eq!(*origin.line, format!("{}…", "é".repeat(128)));
        assert_eq!(*Origin::new(FrontEnd::Cli, Peer::Own, " a b\n").line, *"a b");
    }

    #[test]
    fn unknown_front_ends_are_read_as_other() {
        let read = |text: &str| serde_json::from_str::<FrontEnd>(text).unwrap();
        assert_eq!(
            (read("\"cli\""), read("\"start\""), read("\"netconf\"")),
            (FrontEnd::Cli, FrontEnd::Start, FrontEnd::Other)
        );
    }

    #[test]
    fn a_user_without_a_name_is_a_number() {
        assert_eq!(Peer::user(1000, None).to_string(), "uid 1000");
        assert_eq!(Peer::user(0, Some("root".into())).to_string(), "root");
    }
}
