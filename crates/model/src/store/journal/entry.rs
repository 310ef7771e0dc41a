//! An entry of the journal: the record of one change.

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::object::{Value, World};
use crate::origin::{FrontEnd, Origin, Peer};

/// Maximum number of objects named in the title of a change.
const NAMED: usize = 3;

/// One object of a change. At least one of its two values is present, and they differ.
#[derive(Debug)]
pub struct Edit<W> {
    /// The object's key.
    pub key: Key,
    /// The object's value before the change; `None` if the object did not exist.
    pub old: Option<Value<W>>,
    /// The object's value after the change; `None` if the object was removed.
    pub new: Option<Value<W>>,
}

impl<W> Clone for Edit<W> {
    fn clone(&self) -> Edit<W> {
        Edit { key: self.key.clone(), old: self.old.clone(), new: self.new.clone() }
    }
}

/// The numbers of objects that a change added, changed and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Objects that did not exist before.
    pub added: u64,
    /// Objects whose value differs.
    pub changed: u64,
    /// Objects that no longer exist.
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

    /// Returns their sum.
    pub fn all(&self) -> u64 {
        self.added + self.changed + self.removed
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// A change, which a rollback can undo.
    Change,
    /// A start of the router, which no rollback undoes. Changes with higher numbers than this value are no longer in effect, because they
    /// were not saved.
    Start(u64),
    /// A rollback. It undoes every change in effect whose number is higher than this value.
    Rollback(u64),
}

/// The recorded details of a change.
#[derive(Debug)]
pub enum Detail<W> {
    /// Each object.
    Edits(Arc<Edits<W>>),
    /// Each object as text in the form of a configuration file. The change was made before this start of the router.
    Written(Arc<Written>),
    /// No details: the change has too many objects, the journal file does not contain them, or the entry is a start.
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

/// The changed objects, and the unchanged objects needed to write the changed ones to a file.
#[derive(Debug)]
pub struct Edits<W> {
    /// The changed objects.
    pub all: Vec<Edit<W>>,
    /// Unchanged objects that contain changed ones in a configuration file, such as an interface with a new address.
    pub hosts: Vec<(Key, Value<W>)>,
}

/// The objects of a change as text in the form of a configuration file, with the unchanged objects that contain them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The objects before the change.
    pub before: String,
    /// The objects after the change.
    pub after: String,
    /// The difference between the objects before and after, for the operator: in lines, without secrets.
    pub difference: String,
}

/// A past change, start or rollback.
#[derive(Debug)]
pub struct Entry<W> {
    /// The number of the entry. Entries are numbered from 1, across restarts if there is a journal file.
    pub number: u64,
    /// When the change was made.
    pub time: SystemTime,
    /// The origin of the change.
    pub origin: Origin,
    /// The kind of the entry.
    pub deed: Deed,
    /// The number of the rollback or start that has undone the change; `None` if the change is not undone.
    pub undone: Option<u64>,
    /// A short title: the first objects of the change, or the changes that a rollback undid.
    pub title: String,
    /// Numbers of objects that the change added, changed and removed.
    pub counts: Counts,
    /// True if an object of the change, or its command, contains a secret.
    pub secret: bool,
    /// True if the change was made before this start of the router.
    pub earlier: bool,
    /// Its details.
    pub detail: Detail<W>,
}

impl<W> Clone for Entry<W> {
    fn clone(&self) -> Entry<W> {
        Entry { origin: self.origin.clone(), title: self.title.clone(), detail: self.detail.clone(), ..*self }
    }
}

impl<W> Entry<W> {
    /// Returns an entry that stands for unknown changes.
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

    /// True if the entry is a change that is not undone. A rollback can undo it.
    pub fn is_in_effect(&self) -> bool {
        self.deed == Deed::Change && self.undone.is_none()
    }

    /// Returns the reason why the change cannot be rolled back. Only for an entry without details.
    pub fn what_is_forgotten(&self) -> String {
        match self.counts.all() {
            0 => "the journal file does not contain its objects".into(),
            all => format!("the old values of its {all} objects are not kept"),
        }
    }

    /// Returns the number of objects that the entry holds in memory.
    pub(super) fn objects(&self) -> usize {
        match &self.detail {
            Detail::Edits(edits) => edits.all.len(),
            Detail::Written(_) | Detail::Forgotten => 0,
        }
    }
}

/// The data to record for a change.
#[derive(Debug)]
pub struct Note<W> {
    pub(super) origin: Origin,
    pub(super) title: String,
    pub(super) counts: Counts,
    pub(super) secret: bool,
    pub(super) detail: Detail<W>,
}

impl<W: World> Note<W> {
    /// Returns a note about a change. `all` are the changed objects. `hosts` are the unchanged objects that contain them in a
    /// configuration file.
    pub fn new(origin: Origin, all: Vec<Edit<W>>, hosts: Vec<(Key, Value<W>)>) -> Note<W> {
        let title = named(all.iter().map(|edit| &edit.key), all.len() as u64);
        let secret = all.iter().flat_map(|edit| [&edit.old, &edit.new]).flatten().any(Value::has_secrets);
        let counts = Counts::of(&all);
        Note { origin, title, counts, secret, detail: Detail::Edits(Edits { all, hosts }.into()) }
    }

    /// Returns a note about a change of so many objects that their values are not kept. `first` are the keys of the first objects.
    pub fn too_much<'k>(origin: Origin, first: impl Iterator<Item = &'k Key>, counts: Counts) -> Note<W> {
        Note { origin, title: named(first, counts.all()), counts, secret: false, detail: Detail::Forgotten }
    }

    /// Returns a note for a start of the router. `objects` is the number of objects in the configuration.
    pub fn start(origin: Origin, objects: u64) -> Note<W> {
        let counts = Counts { added: objects, ..Counts::default() };
        Note { origin, title: "the router started".into(), counts, secret: false, detail: Detail::Forgotten }
    }

    /// True if the note contains no changed object.
    pub fn is_empty(&self) -> bool {
        self.counts == Counts::default()
    }
}

/// Returns the titles of the first few objects, and the number of further objects. `of` is the total number.
fn named<'k>(keys: impl Iterator<Item = &'k Key>, of: u64) -> String {
    let named: Vec<String> = keys.take(NAMED).map(Key::to_string).collect();
    match of.saturating_sub(named.len() as u64) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
