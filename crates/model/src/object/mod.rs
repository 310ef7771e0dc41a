//! Objects that an operator configures, and trees of them. The type of an object defines how the object is checked, made, changed, removed
//! and written.

mod facts;
mod put;
mod tree;
mod value;
mod view;

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::key::{Key, Kind, Need};
use crate::reason::Reason;
use crate::tuple::{Push, Tuple};

pub(crate) use put::Stop;
pub use tree::{Change, Get, Snapshot, Tree};
pub use value::Value;
pub use view::View;
pub(crate) use view::others;

/// Why a change was refused. A refused change has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason, in words.
    pub why: String,
    reason: Reason,
}

impl Refused {
    /// Returns a refusal with this text.
    pub fn new(why: impl Into<String>) -> Refused {
        Refused { why: why.into(), reason: Reason::Other }
    }

    /// Returns the same refusal with this [`Reason`], which front ends may report as a number.
    pub fn because(self, reason: Reason) -> Refused {
        Refused { reason, ..self }
    }

    /// Returns the reason of the refusal, for front ends that report it as a number.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
impl std::error::Error for Refused {}

/// Returns a refusal with this text.
///
/// # Errors
/// Always.
pub fn refuse<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::new(why))
}

/// Returns a refusal with this reason and text.
///
/// # Errors
/// Always.
pub fn refuse_as<T>(reason: Reason, why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::new(why).because(reason))
}

/// What the objects configure: the running router, or a substitute in tests.
pub trait World: Sized + 'static {
    /// What the router supports, for checks of objects on other threads.
    type Abilities: Send + Sync;

    /// Returns what the router supports.
    fn abilities(&self) -> Arc<Self::Abilities>;

    /// Called when a transaction begins.
    fn begin(&mut self);

    /// Called when a transaction has ended, successfully or not.
    fn end(&mut self);

    /// Sets the missing values of [incomplete](Object::is_complete) objects. `wanted` contains all changed objects of a transaction, or all
    /// objects of a tree, in key order. `now` is the current tree.
    fn complete(now: &Snapshot<Self>, wanted: Vec<(&Key, &mut Value<Self>)>);
}

/// The effect of an object's change on the objects that need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No effect: the object stays in place, and so do the objects that need it.
    Stays,
    /// The object is removed and recreated, and so are the objects that need it.
    Anew,
    /// The object is moved, for example an interface to another VRF. The objects that need it are removed and recreated if [their
    /// kind](Kind::MOVES) requires that.
    Moved,
}

/// An object that an operator may configure.
pub trait Object<W: World>: Kind + Any + Clone + Debug + PartialEq + Send + Sync {
    /// Checks that the object is valid in `view`, the tree after the transaction.
    ///
    /// # Errors
    /// Returns the reason if not.
    fn validate(&self, key: &Self::Key, view: &View<'_, W>, abilities: &W::Abilities) -> Result<(), Refused>;

    /// Checks that the tree is valid without this object. The transaction itself checks that no other object needs this one.
    ///
    /// # Errors
    /// Returns the reason if not.
    fn validate_absence(_: &Self::Key, _: &View<'_, W>) -> Result<(), Refused> {
        Ok(())
    }

    /// Creates the object in `world`, or changes it from `old` to this value: completely or not at all.
    ///
    /// # Errors
    /// Returns the reason if that fails.
    fn apply(&self, key: &Self::Key, old: Option<&Self>, world: &mut W) -> Result<(), Refused>;

    /// Removes the object from `world`.
    ///
    /// # Errors
    /// Returns the reason if that fails.
    fn withdraw(&self, key: &Self::Key, world: &mut W) -> Result<(), Refused>;

    /// Returns the commands that would make the object. With `indices`, the command of an interface contains the interface's index. Without
    /// `indices`, interfaces get their indices in the order of the commands.
    fn dump(&self, key: &Self::Key, indices: bool) -> Vec<String>;

    /// Reports valid values that are probably a mistake: for each, one sentence that includes the solution.
    fn warnings(&self, _: &mut dyn FnMut(String)) {}

    /// Reports the object's needs. Not called for a kind that [needs nothing](Kind::NEEDS).
    fn needs(&self, _: &Self::Key, _: &mut dyn FnMut(Need)) {}

    /// Returns how a change from `old` to this value affects the objects that need this object.
    fn effect(&self, _old: &Self) -> Effect {
        Effect::Stays
    }

    /// Returns the value that the object keeps during a change to `new`: after other objects are removed, and before new objects are
    /// created. Returns `None` if the object itself must be removed and created again.
    fn staying(&self, _new: &Self) -> Option<Self> {
        Some(self.clone())
    }

    /// Reports the object's index entries ([`Fact`]), by which other objects find it. `get` looks up any object by its key.
    fn facts(&self, _: &Self::Key, _get: Get<'_, W>, _: &mut dyn FnMut(Fact)) {}

    /// True if objects with these two keys and the same value are equally valid, and have the same index entries and needs. Of very many
    /// such objects, only one is then checked.
    fn alike(_: &Self::Key, _: &Self::Key) -> bool {
        false
    }

    /// Returns the key of another object whose index entries ([`facts`](Self::facts)) change when this object changes; `None` if there is
    /// none.
    fn touches(_: &Self::Key) -> Option<Key> {
        None
    }

    /// True if the object has all its values. [`World::complete`] adds missing ones.
    fn is_complete(&self) -> bool {
        true
    }

    /// Returns the same object without its secrets, for clients that may not see them; `None` if it has no secrets.
    fn without_secrets(&self) -> Option<Self> {
        None
    }
}

/// An entry of an object in an index, by which the object can be found: the index's name, and a tuple, which many objects may share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    pub(crate) index: &'static str,
    pub(crate) place: Tuple,
}

impl Fact {
    /// Returns an entry for the index `index`.
    pub fn new(index: &'static str, place: impl Push) -> Fact {
        Fact { index, place: Tuple::of(&place) }
    }
}
