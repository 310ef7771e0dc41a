//! Sockets of memif: `memif-sockets`.

use std::path::PathBuf;

use model::key::{Kind, Need, Role};
use model::object::Effect;
use model::schema::{Parsed, Valued, parsed};
use model::yaml::quoted;
use net::feature::{Section, number_of};

use crate::cli::quote_last;
use crate::intent::{Key, Object, Refused, View, refuse};
use crate::ports::can_be_written;
use crate::system::{Abilities, System};

use super::state::{DEFAULT_SOCKET, Memif};

/// The role of a memif socket for interfaces, which need one.
pub(super) static SOCKET: Role = Role {
    name: "memif socket",
    title: |id| id.get::<u32>().map_or_else(|| "a memif socket".into(), |id| format!("memif socket {id}")),
};

/// A memif socket, with the path of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct MemifSocket(pub PathBuf);

impl Kind for MemifSocket {
    /// The socket's ID.
    type Key = u32;
    const NAME: &'static str = "memif-socket";
    const PHASE: u16 = 30;

    fn title(id: &u32) -> String {
        format!("memif socket {id}")
    }

    fn role(id: &u32) -> Option<Need> {
        Some(Need::new(&SOCKET, id))
    }
}

impl MemifSocket {
    /// Returns the key of a socket.
    pub fn key(id: u32) -> Key {
        Key::of::<MemifSocket>(&id)
    }
}

impl Object<System> for MemifSocket {
    fn validate(&self, id: &u32, _: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        match *id {
            DEFAULT_SOCKET => refuse("memif socket 0 always exists"),
            _ => can_be_written(&self.0.to_string_lossy()),
        }
    }

    fn apply(&self, id: &u32, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        let memif = system.router.state_mut::<Memif>()?;
        let path = memif.path(&self.0);
        memif.sockets.add_socket(*id, &path).or_else(|e| refuse(e.to_string()))
    }

    fn withdraw(&self, id: &u32, system: &mut System) -> Result<(), Refused> {
        system.router.state_mut::<Memif>()?.sockets.remove_socket(*id).or_else(|e| refuse(e.to_string()))
    }

    fn dump(&self, id: &u32, _: bool) -> Vec<String> {
        vec![format!("create memif socket id {id} filename {}", quote_last(&self.0.display().to_string()))]
    }

    /// If the file changes, the interfaces of the socket must be recreated.
    fn effect(&self, _: &Self) -> Effect {
        Effect::Anew
    }
}

impl Valued for MemifSocket {
    type Form = Parsed<PathBuf>;

    fn names() -> Parsed<u32> {
        let number = |text: &str| {
            number_of(text, "").ok_or_else(|| "the ID of a memif socket must be a number from 1 up".into())
        };
        parsed("a number from 1 up", &["1", "2"], number, u32::to_string)
    }

    fn form() -> Parsed<PathBuf> {
        let path = |text: &str| Ok(PathBuf::from(text));
        parsed("a file", &["m1.sock", "m2.sock"], path, |path| quoted(&path.display().to_string()))
    }

    fn value(&self) -> PathBuf {
        self.0.clone()
    }

    fn with(path: PathBuf) -> MemifSocket {
        MemifSocket(path)
    }
}

/// Returns the section `memif-sockets`: files by socket ID.
pub(super) fn section() -> Section<System> {
    Section { first: true, ..Section::values::<MemifSocket>("memif-sockets") }
}
