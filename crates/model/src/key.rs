//! Names of objects, and what one object is to others.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

use crate::tuple::{Part, Push, Tuple};

/// Phases from here on have objects of which there may be very many, such as routes. They need others, and nothing needs
/// them.
pub const MANY: u16 = 200;

/// What objects of a kind have in common.
#[derive(Debug)]
pub struct KindInfo {
    /// Its name, which no other kind has.
    pub name: &'static str,
    /// Objects are made in the order of their phases, and removed in the reverse order.
    pub phase: u16,
    /// Whether objects are removed at the very end, after what came is made.
    pub last: bool,
    /// Whether objects are taken away and made again when what they need moves to another place.
    pub moves: bool,
    /// Of kinds of which there may be very many: the role of what each object needs because of how its key begins.
    pub container: Option<&'static Role>,
    title: fn(&Tuple) -> String,
    role: fn(&Tuple) -> Option<Need>,
}

impl KindInfo {
    /// Where all objects of this kind are in a tree.
    pub fn all(&'static self) -> Range {
        Key::new(self, Tuple::default()).and_longer()
    }

    /// The key of an object of this kind, if a name is what tells one from another.
    pub fn named(&'static self, name: &str) -> Key {
        Key::new(self, Tuple::of(name))
    }
}

/// A kind of objects.
pub trait Kind: 'static {
    /// What tells one object from another.
    type Key: Part;
    /// See [`KindInfo::name`].
    const NAME: &'static str;
    /// See [`KindInfo::phase`]. What an object needs is of an earlier phase, or of the same kind and before it.
    const PHASE: u16;
    /// See [`KindInfo::last`].
    const LAST: bool = false;
    /// See [`KindInfo::moves`].
    const MOVES: bool = false;
    /// Whether objects may need others. Of kinds that need nothing there may be thousands, and to ask each takes its time.
    const NEEDS: bool = true;
    /// See [`KindInfo::container`].
    const CONTAINER: Option<&'static Role> = None;

    /// The object in words.
    fn title(key: &Self::Key) -> String;

    /// What the object is to others, if any may need it.
    fn role(_: &Self::Key) -> Option<Need> {
        None
    }

    /// All of the above.
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

/// Names an object. The order is that of dependency: what comes later may need what comes before.
#[derive(Clone)]
pub struct Key {
    kind: &'static KindInfo,
    id: Tuple,
}

impl Key {
    /// The key of an object of this kind.
    pub fn of<K: Kind>(id: &K::Key) -> Key {
        Key::with::<K>(id)
    }

    /// The same from parts of the key, or from borrowed ones.
    pub fn with<K: Kind>(parts: impl Push) -> Key {
        Key { kind: K::INFO, id: Tuple::of(&parts) }
    }

    /// Before all objects of which there may be very many.
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

    /// Where all objects of a kind are in a tree.
    pub fn all<K: Kind>() -> Range {
        Key::beginning::<K>(())
    }

    /// Where the objects of a kind are in a tree whose keys begin with these parts.
    pub fn beginning<K: Kind>(parts: impl Push) -> Range {
        Key::with::<K>(parts).and_longer()
    }

    /// Where this object is in a tree, and those of its kind whose keys begin as its does.
    pub(crate) fn and_longer(self) -> Range {
        let end = self.id.after().map(|id| Key { kind: self.kind, id });
        // No key of this kind has a greater identity than this one.
        let end = end.unwrap_or_else(|| Key { kind: self.kind, id: Tuple::last() });
        (Bound::Included(self), Bound::Excluded(end))
    }

    /// What the object's kind is.
    pub fn kind(&self) -> &'static KindInfo {
        self.kind
    }

    /// The object's name, if a name is what tells it from others of its kind.
    pub fn name(&self) -> Option<String> {
        self.id.get()
    }

    /// Whether it is of this kind.
    pub fn is<K: Kind>(&self) -> bool {
        self.kind.name == K::NAME
    }

    /// What tells it from others of its kind, if it is of this one.
    pub fn get<K: Kind>(&self) -> Option<K::Key> {
        if self.is::<K>() { self.id.get() } else { None }
    }

    /// The same as bytes.
    pub fn id(&self) -> &Tuple {
        &self.id
    }

    /// The object of this kind with this identity.
    pub(crate) fn new(kind: &'static KindInfo, id: Tuple) -> Key {
        Key { kind, id }
    }

    /// What the object is to others, if any may need it.
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
        // The same kind may be at two addresses, one a crate.
        if std::ptr::eq(self.kind, other.kind) {
            return self.id.cmp(&other.id);
        }
        let place = |key: &Key| (key.kind.phase, key.kind.name);
        place(self).cmp(&place(other)).then_with(|| self.id.cmp(&other.id))
    }
}
impl fmt::Display for Key {
    /// In words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.kind.title)(&self.id))
    }
}
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self})", self.kind.name)
    }
}

/// What objects are to others that need them: several kinds may be an interface, for example.
#[derive(Debug)]
pub struct Role {
    /// Its name, which no other role has.
    pub name: &'static str,
    /// An object with this role in words.
    pub title: fn(&Tuple) -> String,
}

/// Something without which an object cannot be.
#[derive(Clone)]
pub struct Need {
    role: &'static Role,
    id: Tuple,
}

impl Need {
    /// An object with this role, and what tells it from others.
    pub fn new(role: &'static Role, id: impl Push) -> Need {
        Need { role, id: Tuple::of(&id) }
    }

    /// Whether it is an object with this role.
    pub fn is(&self, role: &Role) -> bool {
        self.role.name == role.name
    }

    /// What tells it from others with this role.
    pub fn id(&self) -> &Tuple {
        &self.id
    }

    /// The name of the role and the identity.
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
    /// In words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.role.title)(&self.id))
    }
}
impl fmt::Debug for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
