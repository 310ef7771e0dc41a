//! Bounds of reassembly.

use net::ip::reassembly::{Kind, Limits};

use super::{Abilities, Key, Refused, Value, View, refuse};
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

    /// Whether these bounds, or those without a word, can be, and all kinds of reassembly beside each other.
    pub(super) fn validate(
        kind: Kind,
        wanted: Option<Reassembly>,
        view: &View<'_>,
        abilities: &Abilities,
    ) -> Result<(), Refused> {
        let limits = wanted.unwrap_or_default().limits(kind, abilities);
        abilities.check_reassembly(limits)?;
        let buffers = |kind: Kind| match view.get(&Key::Reassembly(kind)) {
            Some(Value::Reassembly(bounds)) => bounds.limits(kind, abilities).buffers,
            _ => abilities.reassembly_defaults(kind).buffers,
        };
        let others: Vec<(Kind, u32)> = Kind::ALL
            .into_iter()
            .filter(|other| *other != kind)
            .map(|other| (other, buffers(other)))
            .collect();
        let (share, of_others) = (abilities.reassembly_share(), others.iter().map(|o| o.1).sum());
        if limits.buffers > share.saturating_sub(of_others) {
            let have = others.iter().map(|(other, n)| format!("{} {n}", other.name()));
            return refuse(format!(
                "{} cannot have {} buffers for fragments: all kinds together have at most {share}, half of the router's, and of these \
                 {}",
                kind.name(),
                limits.buffers,
                have.collect::<Vec<_>>().join(", ")
            ));
        }
        Ok(())
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
