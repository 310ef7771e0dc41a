//! Bounds of reassembly.

use net::ip::reassembly::{Kind, Limits};

use super::{Abilities, Refused};
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

    pub(super) fn validate(self, kind: Kind, abilities: &Abilities) -> Result<(), Refused> {
        Ok(abilities.check_reassembly(self.limits(kind, abilities))?)
    }

    pub(super) fn apply(self, kind: Kind, system: &mut System) -> Result<(), Refused> {
        let limits = self.limits(kind, &system.abilities);
        Ok(system.router.set_reassembly(kind, limits)?)
    }

    pub(super) fn dump(self, kind: Kind) -> String {
        let words = [
            ("timeout", self.timeout),
            ("max-reassemblies", self.datagrams),
            ("max-reassembly-length", self.fragments),
            ("max-buffers", self.buffers),
        ];
        let given = words.iter().filter_map(|(word, value)| value.map(|v| format!(" {word} {v}")));
        format!("set {}{}", kind.name(), given.collect::<String>())
    }
}
