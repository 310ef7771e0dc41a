//! Names of objects, and their roles for other objects.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

use crate::tuple::{Part, Push, Tuple};

/// The first phase with potentially many objects, such as routes. Such objects need other objects, but no object
/// needs them.
pub const MANY: u16 = 200;

/// The common properties of a kind's objects.
#[derive(Debug)]
pub struct KindInfo {
    /// Its name, unique among kinds.
    pub name: &'static str,
    /// Objects are made in the order of their phases, and removed in the reverse order.
    pub phase: u16,
    /// True if objects are removed at the very end, after new objects are made.
    pub last: bool,
    /// True if objects are removed and recreated when an object that they need moves to another place.
    pub moves: bool,
    /// For kinds with potentially many objects: the role of each object's container, which the object needs. The
    /// container's identity is the beginning of the object's key.
    pub container: Option<&'static Role>,
    title: fn(&Tuple) -> String,
    role: fn(&Tuple) -> Option<Need>,
}

impl KindInfo {
    /// Returns the range of all objects of this kind in a tree.
    pub fn all(&'static self) -> Range {
        Key::new(self, Tuple::default()).and_longer()
    }

    /// Returns the key of an object of this kind, if a name identifies its objects.
    pub fn named(&'static self, name: &str) -> Key {
        Key::new(self, Tuple::of(name))
    }
}

/// A kind of objects.
pub trait Kind: 'static {
    /// The identity of an object.
    type Key: Part;
    /// See [`KindInfo::name`].
    const NAME: &'static str;
    /// See [`KindInfo::phase`]. An object needs only objects of earlier phases, or of the same kind and
    /// before it.
    const PHASE: u16;
    /// See [`KindInfo::last`].
    const LAST: bool = false;
    /// See [`KindInfo::moves`].
    const MOVES: bool = false;
    /// True if objects may need others. A kind without needs may have thousands of objects, and asking each
    /// takes time.
    const NEEDS: bool = true;
    /// See [`KindInfo::container`].
    const CONTAINER: Option<&'static Role> = None;

    /// Returns the object's title.
    fn title(key: &Self::Key) -> String;

    /// Returns the object's role, if others may need it.
    fn role(_: &Self::Key) -> Option<Need> {
        None
    }

    /// All these properties as a value.
    const INFO: &'static KindInfo = &KindInfo {
        name: Self::NAME,
        phase: Self::PHASE,
        last: Self::LAST,
        moves: Self::MOVES,
        container: Self::CONTAINER,
        title: title::<Self>,
        role: role::<Self>,
    };
}

fn title<K: Kind + ?Sized>(id: &Tuple) -> String {
    id.get().map_or_else(|| K::NAME.to_string(), |key| K::title(&key))
}

fn role<K: Kind + ?Sized>(id: &Tuple) -> Option<Need> {
    K::role(&id.get()?)
}

/// A part of a tree.
pub type Range = (Bound<Key>, Bound<Key>);

/// Names an object. The order is that of dependency: later objects may need earlier ones.
#[derive(Clone)]
pub struct Key {
    kind: &'static KindInfo,
    id: Tuple,
}

impl Key {
    /// Returns the key of an object of this kind.
    pub fn of<K: Kind>(id: &K::Key) -> Key {
        Key::with::<K>(id)
    }

    /// As [`of`](Key::of), from the identity's parts or from borrowed values.
    pub fn with<K: Kind>(parts: impl Push) -> Key {
        Key { kind: K::INFO, id: Tuple::of(&parts) }
    }

    /// Returns the key before all kinds with potentially many objects.
    pub(crate) fn first_of_many() -> Key {
        static FIRST: KindInfo = KindInfo {
            name: "",
            phase: MANY,
            last: false,
            moves: false,
            container: None,
            title: |_| String::new(),
            role: |_| None,
        };
        Key { kind: &FIRST, id: Tuple::default() }
    }

    /// Returns the range of all objects of a kind in a tree.
    pub fn all<K: Kind>() -> Range {
        Key::beginning::<K>(())
    }

    /// Returns the range of the objects of a kind whose keys begin with these parts.
    pub fn beginning<K: Kind>(parts: impl Push) -> Range {
        Key::with::<K>(parts).and_longer()
    }

    /// Returns the range of this object, and of the objects of its kind whose keys begin with this key.
    pub(crate) fn and_longer(self) -> Range {
        let end = self.id.after().map(|id| Key { kind: self.kind, id });
        // No key of this kind has a greater identity than this one.
        let end = end.unwrap_or_else(|| Key { kind: self.kind, id: Tuple::last() });
        (Bound::Included(self), Bound::Excluded(end))
    }

    /// Returns the object's kind.
    pub fn kind(&self) -> &'static KindInfo {
        self.kind
    }

    /// Returns the object's name, if a name identifies it within its kind.
    pub fn name(&self) -> Option<String> {
        self.id.get()
    }

    /// True if it is of this kind.
    pub fn is<K: Kind>(&self) -> bool {
        self.kind.name == K::NAME
    }

    /// Returns its identity, if it is of this kind.
    pub fn get<K: Kind>(&self) -> Option<K::Key> {
        if self.is::<K>() { self.id.get() } else { None }
    }

    /// Returns its identity as bytes.
    pub fn id(&self) -> &Tuple {
        &self.id
    }

    /// Returns the key of this kind with this identity.
    pub(crate) fn new(kind: &'static KindInfo, id: Tuple) -> Key {
        Key { kind, id }
    }

    /// Returns the object's role, if others may need it.
    pub fn role(&self) -> Option<Need> {
        (self.kind.role)(&self.id)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.id == other.id && self.kind.name == other.kind.name
    }
}
impl Eq for Key {}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        // The same kind may have two addresses, one per crate.
        if std::ptr::eq(self.kind, other.kind) {
            return self.id.cmp(&other.id);
        }
        let place = |key: &Key| (key.kind.phase, key.kind.name);
        place(self).cmp(&place(other)).then_with(|| self.id.cmp(&other.id))
    }
}
impl fmt::Display for Key {
    /// Writes the title.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.kind.title)(&self.id))
    }
}
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self})", self.kind.name)
    }
}

/// A role for objects that need others: several kinds may be an interface, for example.
#[derive(Debug)]
pub struct Role {
    /// Its name, unique among roles.
    pub name: &'static str,
    /// Returns the title of an object with this role.
    pub title: fn(&Tuple) -> String,
}

/// An object that another one depends on.
#[derive(Clone)]
pub struct Need {
    role: &'static Role,
    id: Tuple,
}

impl Need {
    /// Returns the need for an object with this role and identity.
    pub fn new(role: &'static Role, id: impl Push) -> Need {
        Need { role, id: Tuple::of(&id) }
    }

    /// True if it is an object with this role.
    pub fn is(&self, role: &Role) -> bool {
        self.role.name == role.name
    }

    /// Returns its identity within the role.
    pub fn id(&self) -> &Tuple {
        &self.id
    }

    /// Returns the name of the role and the identity.
    pub(crate) fn place(&self) -> (&'static str, &Tuple) {
        (self.role.name, &self.id)
    }
}

impl PartialEq for Need {
    fn eq(&self, other: &Need) -> bool {
        self.place() == other.place()
    }
}
impl Eq for Need {}
impl PartialOrd for Need {
    fn partial_cmp(&self, other: &Need) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Need {
    fn cmp(&self, other: &Need) -> Ordering {
        self.place().cmp(&other.place())
    }
}
impl fmt::Display for Need {
    /// Writes the title.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.role.title)(&self.id))
    }
}
impl fmt::Debug for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
