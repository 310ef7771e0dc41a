//! What an operator asks for: objects, each of a type that says how it is checked, made, changed, removed and written.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::key::{Key, Kind, Need};
use crate::store::{Get, Snapshot, View};
use crate::tuple::{Push, Tuple};

/// Why a change was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Refused {}

/// A refusal with these words.
///
/// # Errors
/// Always.
pub fn refuse<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(why.into()))
}

/// What objects are applied to.
pub trait World: Sized + 'static {
    /// What it can do, for checks on other threads.
    type Abilities: Send + Sync;

    /// What it can do.
    fn abilities(&self) -> Arc<Self::Abilities>;

    /// A transaction begins.
    fn begin(&mut self);

    /// A transaction has come to its end, be it the one it was to have or not.
    fn end(&mut self);

    /// Completes objects of which some [say too little](Object::is_complete): `wanted` are all that change, or a whole tree, in
    /// order; `now` is what there is.
    fn complete(now: &Snapshot<Self>, wanted: Vec<(&Key, &mut Value<Self>)>);
}

/// What a change of an object means to those that need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it stays where it is.
    Stays,
    /// It goes and comes again, and so do they.
    Anew,
    /// It stays, in another place; [some](Kind::MOVES) have to go and come again.
    Moved,
}

/// An object that an operator may ask for.
pub trait Object<W: World>: Kind + Any + Clone + Debug + PartialEq + Send + Sync {
    /// Whether it can be what `view`, the tree as it would be, says.
    ///
    /// # Errors
    /// Why not.
    fn validate(&self, key: &Self::Key, view: &View<'_, W>, abilities: &W::Abilities) -> Result<(), Refused>;

    /// Whether the tree can be without it, which nothing needs.
    ///
    /// # Errors
    /// Why not.
    fn validate_absence(_: &Self::Key, _: &View<'_, W>) -> Result<(), Refused> {
        Ok(())
    }

    /// Makes the world have it, where it was `old` before: wholly or not at all.
    ///
    /// # Errors
    /// Why that cannot be.
    fn apply(&self, key: &Self::Key, old: Option<&Self>, world: &mut W) -> Result<(), Refused>;

    /// Makes the world be without it.
    ///
    /// # Errors
    /// Why that cannot be.
    fn withdraw(&self, key: &Self::Key, world: &mut W) -> Result<(), Refused>;

    /// The commands that would make it. `indices`: with the index of an interface, which need not be said if all are in order.
    fn dump(&self, key: &Self::Key, indices: bool) -> Vec<String>;

    /// Reports values that are valid but probably a mistake: a sentence each, which says what to do about it.
    fn warnings(&self, _: &mut dyn FnMut(String)) {}

    /// What it needs; not asked if it is of a kind that [needs nothing](Kind::NEEDS).
    fn needs(&self, _: &Self::Key, _: &mut dyn FnMut(Need)) {}

    /// What a change from `old` to this means to those that need it.
    fn effect(&self, _old: &Self) -> Effect {
        Effect::Stays
    }

    /// What of it stays while others go, if it is to become `new`.
    fn staying(&self, _new: &Self) -> Option<Self> {
        Some(self.clone())
    }

    /// Places under which others find it; `get` gives any object.
    fn facts(&self, _: &Self::Key, _get: Get<'_, W>, _: &mut dyn FnMut(Fact)) {}

    /// Another object whose facts are others if this one changes.
    fn touches(_: &Self::Key) -> Option<Key> {
        None
    }

    /// Whether it says all that it has to say.
    fn is_complete(&self) -> bool {
        true
    }

    /// The same for those who may not know secrets; `None` if it has none.
    fn without_secrets(&self) -> Option<Self> {
        None
    }
}

/// A place under which an object can be found: where to look, and a tuple there, which many objects may share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    pub(crate) index: &'static str,
    pub(crate) place: Tuple,
}

impl Fact {
    /// A place in an index.
    pub fn new(index: &'static str, place: impl Push) -> Fact {
        Fact { index, place: Tuple::of(&place) }
    }
}

/// An object of any type.
pub struct Value<W>(Arc<dyn AnyObject<W>>);

impl<W> Clone for Value<W> {
    fn clone(&self) -> Value<W> {
        Value(Arc::clone(&self.0))
    }
}

impl<W: 'static> PartialEq for Value<W> {
    fn eq(&self, other: &Value<W>) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is(other.any())
    }
}

impl<W> Debug for Value<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

impl<W: World, T: Object<W>> From<T> for Value<W> {
    fn from(object: T) -> Value<W> {
        Value(Arc::new(object))
    }
}

impl<W: 'static> Value<W> {
    fn any(&self) -> &dyn Any {
        &*self.0
    }

    /// The object, if it is of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.any().downcast_ref()
    }

    /// The same, to be changed. An object that others look at meanwhile is copied before.
    pub fn get_mut<T: Object<W>>(&mut self) -> Option<&mut T>
    where
        W: World,
    {
        if Arc::get_mut(&mut self.0).is_none() {
            let copy = self.get::<T>()?.clone();
            self.0 = Arc::new(copy);
        }
        let object: &mut dyn Any = Arc::get_mut(&mut self.0)?;
        object.downcast_mut()
    }
}

/// [`Object`], whatever its type.
trait AnyObject<W>: Any + Debug + Send + Sync {
    fn is(&self, other: &dyn Any) -> bool;
    fn validate(&self, key: &Key, view: &View<'_, W>, abilities: &W::Abilities) -> Result<(), Refused>
    where
        W: World;
    fn validate_absence(&self, key: &Key, view: &View<'_, W>) -> Result<(), Refused>
    where
        W: World;
    fn apply(&self, key: &Key, old: Option<&Value<W>>, world: &mut W) -> Result<(), Refused>;
    fn withdraw(&self, key: &Key, world: &mut W) -> Result<(), Refused>;
    fn dump(&self, key: &Key, indices: bool) -> Vec<String>;
    fn warnings(&self, to: &mut dyn FnMut(String));
    fn needs(&self, key: &Key, to: &mut dyn FnMut(Need));
    fn effect(&self, old: &Value<W>) -> Effect;
    fn staying(&self, new: &Value<W>) -> Option<Value<W>>;
    fn facts(&self, key: &Key, get: Get<'_, W>, to: &mut dyn FnMut(Fact));
    fn touches(&self, key: &Key) -> Option<Key>;
    fn is_complete(&self) -> bool;
    fn without_secrets(&self) -> Option<Value<W>>;
}

/// What tells an object from others of its kind.
fn own<K: Kind>(key: &Key) -> Result<K::Key, Refused> {
    key.get::<K>().ok_or_else(|| Refused(format!("{key:?} cannot be an object of the kind {}", K::NAME)))
}

impl<W: World, T: Object<W>> AnyObject<W> for T {
    fn is(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn validate(&self, key: &Key, view: &View<'_, W>, abilities: &W::Abilities) -> Result<(), Refused> {
        Object::validate(self, &own::<T>(key)?, view, abilities)
    }

    fn validate_absence(&self, key: &Key, view: &View<'_, W>) -> Result<(), Refused> {
        <T as Object<W>>::validate_absence(&own::<T>(key)?, view)
    }

    fn apply(&self, key: &Key, old: Option<&Value<W>>, world: &mut W) -> Result<(), Refused> {
        Object::apply(self, &own::<T>(key)?, old.and_then(Value::get), world)
    }

    fn withdraw(&self, key: &Key, world: &mut W) -> Result<(), Refused> {
        Object::withdraw(self, &own::<T>(key)?, world)
    }

    fn dump(&self, key: &Key, indices: bool) -> Vec<String> {
        own::<T>(key).map(|key| Object::dump(self, &key, indices)).unwrap_or_default()
    }

    fn warnings(&self, to: &mut dyn FnMut(String)) {
        Object::warnings(self, to);
    }

    fn needs(&self, key: &Key, to: &mut dyn FnMut(Need)) {
        // A debug build asks all the same, so that no test passes with a kind that says so wrongly.
        if (T::NEEDS || cfg!(debug_assertions))
            && let Some(own) = key.get::<T>()
        {
            Object::needs(self, &own, &mut |need| {
                debug_assert!(T::NEEDS, "{key} needs {need}, but its kind says that it needs nothing");
                to(need);
            });
        }
    }

    fn effect(&self, old: &Value<W>) -> Effect {
        old.get().map_or(Effect::Anew, |old| Object::effect(self, old))
    }

    fn staying(&self, new: &Value<W>) -> Option<Value<W>> {
        Object::staying(self, new.get()?).map(Value::from)
    }

    fn facts(&self, key: &Key, get: Get<'_, W>, to: &mut dyn FnMut(Fact)) {
        if let Some(key) = key.get::<T>() {
            Object::facts(self, &key, get, to);
        }
    }

    fn touches(&self, key: &Key) -> Option<Key> {
        <T as Object<W>>::touches(&key.get::<T>()?)
    }

    fn is_complete(&self) -> bool {
        Object::is_complete(self)
    }

    fn without_secrets(&self) -> Option<Value<W>> {
        Object::without_secrets(self).map(Value::from)
    }
}

impl<W: World> Value<W> {
    /// Whether it can be what `view`, the tree as it would be, says.
    ///
    /// # Errors
    /// Why not.
    pub fn validate(&self, key: &Key, view: &View<'_, W>, abilities: &W::Abilities) -> Result<(), Refused> {
        self.0.validate(key, view, abilities)
    }

    pub(crate) fn validate_absence(&self, key: &Key, view: &View<'_, W>) -> Result<(), Refused> {
        self.0.validate_absence(key, view)
    }

    pub(crate) fn apply(&self, key: &Key, old: Option<&Value<W>>, world: &mut W) -> Result<(), Refused> {
        self.0.apply(key, old, world)
    }

    pub(crate) fn withdraw(&self, key: &Key, world: &mut W) -> Result<(), Refused> {
        self.0.withdraw(key, world)
    }

    /// The commands that would make the object. `indices`: with the index of an interface, which need not be said if all are in
    /// order.
    pub fn dump(&self, key: &Key, indices: bool) -> Vec<String> {
        self.0.dump(key, indices)
    }

    /// Reports values that are valid but probably a mistake.
    pub fn warnings(&self, to: &mut dyn FnMut(String)) {
        self.0.warnings(to);
    }

    /// Whether it needs something that `wanted` says.
    pub fn needs_any(&self, key: &Key, mut wanted: impl FnMut(&Need) -> bool) -> bool {
        let mut any = false;
        self.0.needs(key, &mut |need| any = any || wanted(&need));
        any
    }

    /// Gives everything that it needs to `to`.
    pub fn needs(&self, key: &Key, to: &mut dyn FnMut(Need)) {
        self.0.needs(key, to);
    }

    pub(crate) fn effect(&self, old: &Value<W>) -> Effect {
        self.0.effect(old)
    }

    pub(crate) fn staying(&self, new: &Value<W>) -> Option<Value<W>> {
        self.0.staying(new)
    }

    pub(crate) fn facts(&self, key: &Key, get: Get<'_, W>, to: &mut dyn FnMut(Fact)) {
        self.0.facts(key, get, to);
    }

    pub(crate) fn touches(&self, key: &Key) -> Option<Key> {
        self.0.touches(key)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// True if it has a secret.
    pub fn has_secrets(&self) -> bool {
        self.0.without_secrets().is_some()
    }

    /// The same for those who may not know secrets.
    pub fn without_secrets(&self) -> Value<W> {
        self.0.without_secrets().unwrap_or_else(|| self.clone())
    }
}
