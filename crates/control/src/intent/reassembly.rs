//! Bounds of reassembly.

use net::ip::reassembly::{Kind, Limits};

use super::{Abilities, Key, Object, Refused, View};
use crate::system::System;

const SECOND: u64 = 1_000_000_000;

/// What the operator says about one kind of reassembly; the rest is as it is without a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reassembly {
    /// Seconds until a datagram is given up.
    pub timeout: Option<u32>,
    /// Datagrams that may wait.
    pub datagrams: Option<u32>,
    /// Fragments of one datagram.
    pub fragments: Option<u32>,
    /// Buffers that fragments may wait in.
    pub buffers: Option<u32>,
}

impl Reassembly {
    /// The limits that follow.
    pub fn limits(self, kind: Kind, abilities: &Abilities) -> Limits {
        let d = abilities.reassembly_defaults(kind);
        Limits {
            datagrams: self.datagrams.unwrap_or(d.datagrams),
            fragments: self.fragments.unwrap_or(d.fragments),
            buffers: self.buffers.unwrap_or(d.buffers),
            timeout: self.timeout.map_or(d.timeout, |s| u64::from(s) * SECOND),
        }
    }

    /// The key of the bounds of a kind.
    pub fn key(kind: Kind) -> Key {
        Key::of::<Reassembly>(&kind)
    }
}

impl model::key::Kind for Reassembly {
    type Key = Kind;
    const NAME: &'static str = "reassembly";
    const PHASE: u16 = 20;

    fn title(kind: &Kind) -> String {
        kind.name().to_string()
    }
}

impl Object<System> for Reassembly {
    fn validate(&self, kind: &Kind, _: &View<'_>, abilities: &Abilities) -> Result<(), Refused> {
        Ok(abilities.check_reassembly(self.limits(*kind, abilities))?)
    }

    fn apply(&self, kind: &Kind, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        let limits = self.limits(*kind, &system.abilities);
        Ok(system.router.set_reassembly(*kind, limits)?)
    }

    fn withdraw(&self, kind: &Kind, system: &mut System) -> Result<(), Refused> {
        Object::apply(&Reassembly::default(), kind, None, system)
    }

    fn dump(&self, kind: &Kind, _: bool) -> Vec<String> {
        let words = [
            ("timeout", self.timeout),
            ("max-reassemblies", self.datagrams),
            ("max-reassembly-length", self.fragments),
            ("max-buffers", self.buffers),
        ];
        let given = words.iter().filter_map(|(word, value)| value.map(|v| format!(" {word} {v}")));
        vec![format!("set {}{}", kind.name(), given.collect::<String>())]
    }
}
