//! Keys identify objects. A role is the function of an object for other objects that need it, such as "interface".

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

use crate::tuple::{Part, Push, Tuple};

/// The lowest [phase](KindInfo::phase) of the kinds that may have very many objects, such as routes. Objects of these kinds may
/// need others, but no object needs them.
pub const MANY: u16 = 200;

/// The properties that all objects of a kind have in common.
#[derive(Debug)]
pub struct KindInfo {
    /// The kind's name, unique among kinds.
    pub name: &'static str,
    /// The position of the kind in the order of dependencies. Objects of kinds with lower phases are created first, and removed last.
    pub phase: u16,
    /// True if a transaction removes objects of this kind at its very end, after it has created new objects.
    pub last: bool,
    /// True if objects of this kind are removed and recreated when an object that they need is moved. For example, the addresses of an
    /// interface are recreated when the interface moves to another VRF.
    pub moves: bool,
    /// For kinds with potentially many objects: the role of the object that contains them, such as the table
    /// of a route. Each object needs its container, and its key begins with the container's identity.
    pub container: Option<&'static Role>,
    title: fn(&Tuple) -> String,
    role: fn(&Tuple) -> Option<Need>,
}

impl KindInfo {
    /// Returns the range of the keys of this kind's objects.
    pub fn all(&'static self) -> Range {
        Key::new(self, Tuple::default()).and_longer()
    }

    /// Returns the key of the object called `name`. The objects of this kind must be identified by a name.
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
    /// See [`KindInfo::phase`]. An object may need only objects of earlier phases, and objects of its own
    /// kind with lesser keys.
    const PHASE: u16;
    /// See [`KindInfo::last`].
    const LAST: bool = false;
    /// See [`KindInfo::moves`].
    const MOVES: bool = false;
    /// True if objects of this kind may need others. If false, [`needs`](crate::object::Object::needs) is not called for
    /// the objects, of which there may be thousands. This saves time.
    const NEEDS: bool = true;
    /// See [`KindInfo::container`].
    const CONTAINER: Option<&'static Role> = None;

    /// Returns the object's title.
    fn title(key: &Self::Key) -> String;

    /// Returns the role and identity by which other objects refer to this one when they need it; `None` if no object may need it.
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

/// A range of the keys in a tree.
pub type Range = (Bound<Key>, Bound<Key>);

/// Identifies an object. Keys are in order of dependency: an object needs only objects with lesser keys.
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

    /// Returns the key with this identity. Unlike [`of`](Key::of), takes the parts of the identity as a tuple, or borrowed values.
    pub fn with<K: Kind>(parts: impl Push) -> Key {
        Key { kind: K::INFO, id: Tuple::of(&parts) }
    }

    /// Returns a key that is less than the keys of all kinds that may have very many objects.
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

    /// Returns the range of the keys of all objects of the kind `K`.
    pub fn all<K: Kind>() -> Range {
        Key::beginning::<K>(())
    }

    /// Returns the range of the objects of a kind whose identities begin with these parts.
    pub fn beginning<K: Kind>(parts: impl Push) -> Range {
        Key::with::<K>(parts).and_longer()
    }

    /// Returns the range of this object, and of the objects of its kind whose identities begin with this object's identity.
    pub(crate) fn and_longer(self) -> Range {
        let end = self.id.after().map(|id| Key { kind: self.kind, id });
        // `Tuple::last` is greater than every identity.
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

    /// True if the object is of the kind `K`.
    pub fn is<K: Kind>(&self) -> bool {
        self.kind.name == K::NAME
    }

    /// Returns the object's identity, if the object is of the kind `K`.
    pub fn get<K: Kind>(&self) -> Option<K::Key> {
        if self.is::<K>() { self.id.get() } else { None }
    }

    /// Returns the object's identity as bytes.
    pub fn id(&self) -> &Tuple {
        &self.id
    }

    /// Returns the key of this kind with this identity.
    pub(crate) fn new(kind: &'static KindInfo, id: Tuple) -> Key {
        Key { kind, id }
    }

    /// Returns the role and identity by which other objects refer to this one when they need it; `None` if no object may need it.
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
        // The static of a kind may have several addresses, one per crate. So different addresses do not prove different kinds.
        if std::ptr::eq(self.kind, other.kind) {
            return self.id.cmp(&other.id);
        }
        let place = |key: &Key| (key.kind.phase, key.kind.name);
        place(self).cmp(&place(other)).then_with(|| self.id.cmp(&other.id))
    }
}
impl fmt::Display for Key {
    /// Writes the title of the object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.kind.title)(&self.id))
    }
}
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self})", self.kind.name)
    }
}

/// The function of an object for the objects that need it, such as "interface" or "VRF". Several kinds may have the same role: for example,
/// both interfaces and sub-interfaces are interfaces to an address.
#[derive(Debug)]
pub struct Role {
    /// The role's name, unique among roles.
    pub name: &'static str,
    /// Returns the title of an object with this role.
    pub title: fn(&Tuple) -> String,
}

/// A reference to another object that an object needs. It consists of the needed object's role, and its identity within the role.
#[derive(Clone)]
pub struct Need {
    role: &'static Role,
    id: Tuple,
}

impl Need {
    /// Returns a reference to the object with this role and identity.
    pub fn new(role: &'static Role, id: impl Push) -> Need {
        Need { role, id: Tuple::of(&id) }
    }

    /// True if the needed object has this role.
    pub fn is(&self, role: &Role) -> bool {
        self.role.name == role.name
    }

    /// Returns the needed object's identity within the role.
    pub fn id(&self) -> &Tuple {
        &self.id
    }

    /// Returns the name of the role, and the identity within the role.
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
    /// Writes the title of the needed object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.role.title)(&self.id))
    }
}
impl fmt::Debug for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
