//! The operator's limits of a table of fragments.

use std::sync::LazyLock;

use model::key::{Key, Kind};
use model::object::{Object, Refused, View, World};
use model::schema::{Described, Schema, number, optional};

use net::objects::{Ability, Host};

use crate::fragment::MOST_FRAGMENTS;
use crate::kind::SECOND;
use crate::state::{MOST_DATAGRAMS, MOST_SECONDS, Reassembly, check};
use crate::waiting::Limits;

/// The limits that the operator has set for a table of fragments; `None` means the default. The
/// configuration's key is the name of the table's node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Seconds until a datagram expires.
    pub timeout: Option<u32>,
    /// Maximum number of datagrams that wait.
    pub datagrams: Option<u32>,
    /// Maximum number of fragments of one datagram.
    pub fragments: Option<u32>,
    /// Maximum number of buffers of all waiting fragments.
    pub buffers: Option<u32>,
}

/// Limits that are valid on any router. Checks use them in place of limits that are not set.
const ALLOWED: Limits = Limits { datagrams: 1, fragments: 1, buffers: 1, timeout: SECOND };

impl Bounds {
    /// Returns these limits. Limits that are not set have the value from `usual`.
    pub fn over(self, usual: Limits) -> Limits {
        Limits {
            datagrams: self.datagrams.unwrap_or(usual.datagrams),
            fragments: self.fragments.unwrap_or(usual.fragments),
            buffers: self.buffers.unwrap_or(usual.buffers),
            timeout: self.timeout.map_or(usual.timeout, |s| u64::from(s) * SECOND),
        }
    }

    /// Returns the configuration's key of the limits of a table.
    pub fn key(name: &str) -> Key {
        Key::with::<Bounds>(name)
    }

    fn set<W: Host>(self, name: &str, world: &mut W) -> Result<(), Refused> {
        let all = world.router().state_mut::<Reassembly>()?;
        let limits = self.over(all.usual(name)?);
        Ok(all.set_limits(name, limits)?)
    }
}

impl Kind for Bounds {
    /// The name of the table's node.
    type Key = String;
    const NAME: &'static str = "reassembly";
    const PHASE: u16 = 20;
    const NEEDS: bool = false;

    fn title(name: &String) -> String {
        name.clone()
    }
}

impl<W: Host> Object<W> for Bounds {
    fn validate(
        &self,
        _: &String,
        _: &View<'_, W>,
        abilities: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        Ok(check(self.over(ALLOWED), abilities.buffers())?)
    }

    fn apply(&self, name: &String, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        self.set(name, world)
    }

    fn withdraw(&self, name: &String, world: &mut W) -> Result<(), Refused> {
        Bounds::default().set(name, world)
    }

    fn dump(&self, name: &String, _: bool) -> Vec<String> {
        let words = [
            ("timeout", self.timeout),
            ("max-reassemblies", self.datagrams),
            ("max-reassembly-length", self.fragments),
            ("max-buffers", self.buffers),
        ];
        let given = words.iter().filter_map(|(word, value)| value.map(|v| format!(" {word} {v}")));
        vec![format!("set {name}{}", given.collect::<String>())]
    }
}

impl Described for Bounds {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<Bounds>> = LazyLock::new(|| {
            Schema::new(Bounds::default())
                .field(
                    "timeout-seconds",
                    optional(number(1..=MOST_SECONDS).unit("seconds")),
                    |b| b.timeout,
                    |b, n| b.timeout = n,
                    "How long fragments wait for the others of their datagram.",
                )
                .field(
                    "max-reassemblies",
                    optional(number(1..=MOST_DATAGRAMS)),
                    |b| b.datagrams,
                    |b, n| b.datagrams = n,
                    "The maximum number of waiting datagrams.",
                )
                .field(
                    "max-reassembly-length",
                    optional(number(1..=MOST_FRAGMENTS as u32)),
                    |b| b.fragments,
                    |b, n| b.fragments = n,
                    "The maximum number of fragments of a datagram.",
                )
                .field(
                    "max-buffers",
                    optional(number(1..=u32::MAX)),
                    |b| b.buffers,
                    |b, n| b.buffers = n,
                    "The maximum number of buffers of waiting fragments: at most a sixth of all buffers.",
                )
        });
        &SCHEMA
    }
}
