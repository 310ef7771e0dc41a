//! Objects that an operator configures, and trees of them. The type of an object defines how it is checked, made,
//! changed, removed and written.

mod facts;
mod tree;
mod value;
mod view;

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::key::{Key, Kind, Need};
use crate::tuple::{Push, Tuple};

pub use tree::{Change, Get, Snapshot, Tree};
pub use value::Value;
pub use view::View;
pub(crate) use view::others;

/// Why a change was refused. No change was made then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Refused {}

/// Returns a refusal with this text.
///
/// # Errors
/// Always.
pub fn refuse<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(why.into()))
}

/// The world to which objects are applied.
pub trait World: Sized + 'static {
    /// Its abilities, for checks on other threads.
    type Abilities: Send + Sync;

    /// Returns its abilities.
    fn abilities(&self) -> Arc<Self::Abilities>;

    /// Called when a transaction begins.
    fn begin(&mut self);

    /// Called when a transaction has ended, successfully or not.
    fn end(&mut self);

    /// Completes [incomplete](Object::is_complete) objects. `wanted` are all changed objects, or a whole
    /// tree, in order; `now` is the current tree.
    fn complete(now: &Snapshot<Self>, wanted: Vec<(&Key, &mut Value<Self>)>);
}

/// The effect of an object's change on the objects that need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No effect: the object stays in place.
    Stays,
    /// The object is removed and recreated, and so are the objects that need it.
    Anew,
    /// The object moves to another place; [some](Kind::MOVES) of the objects that need it are removed and recreated.
    Moved,
}

/// An object that an operator may configure.
pub trait Object<W: World>: Kind + Any + Clone + Debug + PartialEq + Send + Sync {
    /// Checks that the object is possible in `view`, the tree as it would be.
    ///
    /// # Errors
    /// Returns the reason if not.
    fn validate(&self, key: &Self::Key, view: &View<'_, W>, abilities: &W::Abilities) -> Result<(), Refused>;

    /// Checks that the tree is possible without the object, which no other object needs.
    ///
    /// # Errors
    /// Returns the reason if not.
    fn validate_absence(_: &Self::Key, _: &View<'_, W>) -> Result<(), Refused> {
        Ok(())
    }

    /// Applies the object to the world, in place of `old`: completely or not at all.
    ///
    /// # Errors
    /// Returns the reason if that fails.
    fn apply(&self, key: &Self::Key, old: Option<&Self>, world: &mut W) -> Result<(), Refused>;

    /// Removes the object from the world.
    ///
    /// # Errors
    /// Returns the reason if that fails.
    fn withdraw(&self, key: &Self::Key, world: &mut W) -> Result<(), Refused>;

    /// Returns the commands that would make it. `indices`: with the index of an interface, which is not
    /// needed if all are in order.
    fn dump(&self, key: &Self::Key, indices: bool) -> Vec<String>;

    /// Reports values that are valid but probably a mistake: a sentence each, with the solution.
    fn warnings(&self, _: &mut dyn FnMut(String)) {}

    /// Reports its needs; not called for a kind that [needs nothing](Kind::NEEDS).
    fn needs(&self, _: &Self::Key, _: &mut dyn FnMut(Need)) {}

    /// Returns the effect of a change from `old` to this on the objects that need it.
    fn effect(&self, _old: &Self) -> Effect {
        Effect::Stays
    }

    /// Returns the part of the object that stays while other objects are removed, before it is changed to `new`.
    fn staying(&self, _new: &Self) -> Option<Self> {
        Some(self.clone())
    }

    /// Reports the places under which others find it; `get` returns any object.
    fn facts(&self, _: &Self::Key, _get: Get<'_, W>, _: &mut dyn FnMut(Fact)) {}

    /// Returns another object whose facts change with this one.
    fn touches(_: &Self::Key) -> Option<Key> {
        None
    }

    /// True if the object is complete.
    fn is_complete(&self) -> bool {
        true
    }

    /// Returns the same object for clients that may not see secrets; `None` if it has none.
    fn without_secrets(&self) -> Option<Self> {
        None
    }
}

/// A place under which an object can be found: an index, and a tuple in it, which many objects may share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    pub(crate) index: &'static str,
    pub(crate) place: Tuple,
}

impl Fact {
    /// Returns a place in an index.
    pub fn new(index: &'static str, place: impl Push) -> Fact {
        Fact { index, place: Tuple::of(&place) }
    }
}
