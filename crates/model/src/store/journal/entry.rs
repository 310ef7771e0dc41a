//! What is remembered of one change.

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::object::{Value, World};
use crate::origin::{FrontEnd, Origin, Peer};

/// Objects that are named in the title of a change.
const NAMED: usize = 3;

/// One object of a change. At least one of both values is there, and they differ.
#[derive(Debug)]
pub struct Edit<W> {
    /// Which object.
    pub key: Key,
    /// What it was.
    pub old: Option<Value<W>>,
    /// What it became.
    pub new: Option<Value<W>>,
}

impl<W> Clone for Edit<W> {
    fn clone(&self) -> Edit<W> {
        Edit { key: self.key.clone(), old: self.old.clone(), new: self.new.clone() }
    }
}

/// How many objects a change added, changed and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Objects that were not there before.
    pub added: u64,
    /// Objects that were there, and are others.
    pub changed: u64,
    /// Objects that are there no more.
    pub removed: u64,
}

impl Counts {
    fn of<W>(edits: &[Edit<W>]) -> Counts {
        let mut counts = Counts::default();
        for edit in edits {
            *match (&edit.old, &edit.new) {
                (None, _) => &mut counts.added,
                (_, None) => &mut counts.removed,
                _ => &mut counts.changed,
            } += 1;
        }
        counts
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.added + self.changed + self.removed
    }
}

/// What an entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// A change, which a rollback takes back.
    Change,
    /// A start of the router, which no rollback takes back. Changes behind this number are no longer in effect: nobody had saved them.
    Start(u64),
    /// A rollback: it takes back every change behind this number that is in effect.
    Rollback(u64),
}

/// What a change did, as far as it is remembered.
#[derive(Debug)]
pub enum Detail<W> {
    /// Each object.
    Edits(Arc<Edits<W>>),
    /// Each object as it is written in a file: of a change before this start.
    Written(Arc<Written>),
    /// Nothing: it was too much.
    Forgotten,
}

impl<W> Clone for Detail<W> {
    fn clone(&self) -> Detail<W> {
        match self {
            Detail::Edits(edits) => Detail::Edits(Arc::clone(edits)),
            Detail::Written(text) => Detail::Written(Arc::clone(text)),
            Detail::Forgotten => Detail::Forgotten,
        }
    }
}

/// The objects of a change, and what they cannot be written without.
#[derive(Debug)]
pub struct Edits<W> {
    /// The objects that changed.
    pub all: Vec<Edit<W>>,
    /// Objects that did not change, and under which others stand in a file: an interface with a new address.
    pub hosts: Vec<(Key, Value<W>)>,
}

/// The objects of a change in the form of a configuration file, with those under which they stand, which are the same in both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// What they were.
    pub before: String,
    /// What they became.
    pub after: String,
    /// The difference as an operator reads it, in lines, without secrets.
    pub difference: String,
}

/// A change of the past.
#[derive(Debug)]
pub struct Entry<W> {
    /// Changes are counted from 1 on, across restarts if there is a file for them.
    pub number: u64,
    /// When it was made.
    pub time: SystemTime,
    /// Who made it.
    pub origin: Origin,
    /// What it stands for.
    pub deed: Deed,
    /// The rollback that has taken it back.
    pub undone: Option<u64>,
    /// It in a few words: its first objects, or what it took back.
    pub title: String,
    /// How many objects it changed.
    pub counts: Counts,
    /// True if an object or the line has a secret.
    pub secret: bool,
    /// True if it was made before this start of the router.
    pub earlier: bool,
    /// What it did.
    pub detail: Detail<W>,
}

impl<W> Clone for Entry<W> {
    fn clone(&self) -> Entry<W> {
        Entry { origin: self.origin.clone(), title: self.title.clone(), detail: self.detail.clone(), ..*self }
    }
}

impl<W> Entry<W> {
    /// Changes of which nothing is known.
    pub(super) fn missing() -> Entry<W> {
        Entry {
            number: 0,
            time: SystemTime::UNIX_EPOCH,
            origin: Origin::new(FrontEnd::Other, Peer::Own, ""),
            deed: Deed::Change,
            undone: None,
            title: String::new(),
            counts: Counts::default(),
            secret: false,
            earlier: true,
            detail: Detail::Forgotten,
        }
    }

    /// True if a rollback can take it back: it is a change, and none has done so yet.
    pub fn is_in_effect(&self) -> bool {
        self.deed == Deed::Change && self.undone.is_none()
    }

    /// Says why it cannot be taken back, of one whose detail is forgotten.
    pub fn what_is_forgotten(&self) -> String {
        match self.counts.all() {
            0 => "the disk did not keep what it changed".into(),
            all => format!("of its {all} objects it is not remembered what they were"),
        }
    }

    /// How many objects it holds in memory.
    pub(super) fn objects(&self) -> usize {
        match &self.detail {
            Detail::Edits(edits) => edits.all.len(),
            Detail::Written(_) | Detail::Forgotten => 0,
        }
    }
}

/// What is to be remembered of a change.
#[derive(Debug)]
pub struct Note<W> {
    pub(super) origin: Origin,
    pub(super) title: String,
    pub(super) counts: Counts,
    pub(super) secret: bool,
    pub(super) detail: Detail<W>,
}

impl<W: World> Note<W> {
    /// A change of these objects; `hosts` are those under which they stand in a file.
    pub fn new(origin: Origin, all: Vec<Edit<W>>, hosts: Vec<(Key, Value<W>)>) -> Note<W> {
        let title = named(all.iter().map(|edit| &edit.key), all.len() as u64);
        let secret = all.iter().flat_map(|edit| [&edit.old, &edit.new]).flatten().any(Value::has_secrets);
        let counts = Counts::of(&all);
        Note { origin, title, counts, secret, detail: Detail::Edits(Edits { all, hosts }.into()) }
    }

    /// A change of more objects than are remembered, of which these are the first.
    pub fn too_much<'k>(origin: Origin, first: impl Iterator<Item = &'k Key>, counts: Counts) -> Note<W> {
        Note { origin, title: named(first, counts.all()), counts, secret: false, detail: Detail::Forgotten }
    }

    /// A start of the router with so many objects.
    pub fn start(origin: Origin, objects: u64) -> Note<W> {
        let counts = Counts { added: objects, ..Counts::default() };
        Note { origin, title: "the router started".into(), counts, secret: false, detail: Detail::Forgotten }
    }

    /// True if nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.counts == Counts::default()
    }
}

/// The first few objects in words, and how many others there are.
fn named<'k>(keys: impl Iterator<Item = &'k Key>, of: u64) -> String {
    let named: Vec<String> = keys.take(NAMED).map(Key::to_string).collect();
    match of.saturating_sub(named.len() as u64) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
