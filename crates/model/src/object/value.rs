//! Objects of any type.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

use super::{Effect, Fact, Get, Object, Refused, View, World};
use crate::key::{Key, Kind, Need};

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

    /// Returns the object, if its type is `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.any().downcast_ref()
    }

    /// Returns a mutable reference to the object, if its type is `T`. A shared object is copied first.
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

/// The methods of [`Object`] with [`Key`] and [`Value`] in place of its types, so that objects of all types can be called alike.
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
    fn alike(&self, key: &Key, other: &Key) -> bool;
    fn touches(&self, key: &Key) -> Option<Key>;
    fn is_complete(&self) -> bool;
    fn without_secrets(&self) -> Option<Value<W>>;
}

/// Returns the identity of an object within its kind. Fails if the object is of another kind.
fn own<K: Kind>(key: &Key) -> Result<K::Key, Refused> {
    key.get::<K>().ok_or_else(|| Refused::new(format!("{key:?} cannot be an object of the kind {}", K::NAME)))
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
        // A debug build asks in any case, so that no test passes with a wrongly declared kind.
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

    fn alike(&self, key: &Key, other: &Key) -> bool {
        let (Some(key), Some(other)) = (key.get::<T>(), other.get::<T>()) else { return false };
        <T as Object<W>>::alike(&key, &other)
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
    /// Checks that the object is valid in `view`, the tree after the transaction.
    ///
    /// # Errors
    /// Returns the reason if not.
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

    /// Returns the commands that would make the object. With `indices`, the command of an interface contains
    /// the interface's index. Without `indices`, interfaces get their indices in the order of the commands.
    pub fn dump(&self, key: &Key, indices: bool) -> Vec<String> {
        self.0.dump(key, indices)
    }

    /// Reports values that are valid but probably a mistake.
    pub fn warnings(&self, to: &mut dyn FnMut(String)) {
        self.0.warnings(to);
    }

    /// True if the object has a need for which `wanted` returns true.
    pub fn needs_any(&self, key: &Key, mut wanted: impl FnMut(&Need) -> bool) -> bool {
        let mut any = false;
        self.0.needs(key, &mut |need| any = any || wanted(&need));
        any
    }

    /// Passes all of the object's needs to `to`.
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

    /// See [`Object::alike`].
    pub(crate) fn alike(&self, key: &Key, other: &Key) -> bool {
        self.0.alike(key, other)
    }

    pub(crate) fn touches(&self, key: &Key) -> Option<Key> {
        self.0.touches(key)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// True if the object has a secret.
    pub fn has_secrets(&self) -> bool {
        self.0.without_secrets().is_some()
    }

    /// Returns the same object without its secrets, for clients that may not see them.
    pub fn without_secrets(&self) -> Value<W> {
        self.0.without_secrets().unwrap_or_else(|| self.clone())
    }
}
