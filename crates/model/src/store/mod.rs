//! The tree of all objects, and transactions on it.
//!
//! A [`transaction`](Store::transact) validates all changes against the tree that results from them, and applies them in the order of their
//! dependencies. When one fails, it rolls back the earlier ones. [`put`](Store::put) sets very many objects. [`arrive`](Store::arrive)
//! takes over a tree whose changes were made step by step.

mod journal;
mod making;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::key::Key;
use crate::object::{Change, Refused, Snapshot, Stop, Tree, Value, World};

pub use journal::{Before, Counts, Deed, Detail, Edit, Edits, Entry, Journal, Note, Noted, Way, Written};
pub use making::{Making, Step};
pub use plan::Plan;

/// Why a transaction was refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The object with the fault, if there is one.
    pub key: Option<Key>,
    /// The reason.
    pub why: Refused,
}

/// The requested configuration: the tree of all objects, with the number of its version.
pub struct Store<W> {
    now: Snapshot<W>,
    version: u64,
}

impl<W> Default for Store<W> {
    fn default() -> Store<W> {
        Store { now: Snapshot::default(), version: 0 }
    }
}

impl<W: World> Store<W> {
    /// Returns a store with this tree, which is not applied to the router.
    pub fn of(tree: Tree<W>) -> Store<W> {
        Store { now: Snapshot::of(tree), version: 0 }
    }

    /// Returns the object, if it exists.
    pub fn get(&self, key: &Key) -> Option<&Value<W>> {
        self.now.tree().get(key)
    }

    /// Returns every object.
    pub fn tree(&self) -> &Tree<W> {
        self.now.tree()
    }

    /// Returns every object in order of dependency.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value<W>)> {
        self.now.tree().iter()
    }

    /// Returns the objects whose keys are greater than `key`; all objects for `None`. There need not be an
    /// object with this key.
    pub fn behind(&self, key: Option<&Key>) -> impl Iterator<Item = (&Key, &Value<W>)> {
        let first = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.now.tree().range::<Key, _>((first, Bound::Unbounded))
    }

    /// Returns a number that increases with every change of the tree.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns a snapshot of the current tree. Other threads can read it.
    pub fn snapshot(&self) -> Snapshot<W> {
        self.now.clone()
    }

    /// Returns the changes that turn this tree into `wanted`.
    pub fn diff(&self, wanted: &Tree<W>) -> Vec<Change<W>> {
        self.now.diff(wanted)
    }

    /// Makes all the changes or none. If an object is changed twice, the last change counts.
    ///
    /// # Errors
    /// Returns the first fault. `world` is then as before, unless the rollback fails as well; the message reports that.
    pub fn transact(&mut self, world: &mut W, changes: Vec<Change<W>>) -> Result<(), Refused> {
        self.transact_by(world, changes, |step, world| step.run(world))
    }

    /// As [`transact`](Store::transact), but calls `run` to make a step. The rollback of steps does not use
    /// `run`.
    ///
    /// # Errors
    /// As [`transact`](Store::transact).
    pub fn transact_by(
        &mut self,
        world: &mut W,
        changes: Vec<Change<W>>,
        mut run: impl FnMut(&Step<W>, &mut W) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let mut changes: BTreeMap<Key, Option<Value<W>>> =
            changes.into_iter().map(|c| (c.key, c.value)).collect();
        let wanted = changes.iter_mut().filter_map(|(key, value)| Some((key, value.as_mut()?)));
        plan::complete(&self.now, wanted.collect());
        let view = self.now.view_with(&changes);
        let changed = view.changes.iter().map(|(key, new)| (*key, *new));
        let steps = self.now.steps(changed, &view, &world.abilities()).map_err(|refusal| refusal.why)?;
        let found = view.changed;
        let changed = !steps.is_empty();
        let mut making = Making::begin(steps, world);
        while making.go_on_by(world, &mut run) {}
        world.end();
        making.end().map_err(|refusal| refusal.why)?;
        self.version += u64::from(changed);
        self.now.change(changes, found);
        Ok(())
    }

    /// Sets objects to `value`, or removes them if it is `None`: each by itself, one after the other, until one is refused. Skips objects
    /// that have this value already, and objects to remove that do not exist. Setting very many [alike](crate::object::Object::alike)
    /// objects is faster than as many transactions. Calls `each` with the key and the old value of each object that it changes. Returns
    /// how many of `keys` were handled (changed or skipped) before an object was refused, and the reason; `None` if none was refused.
    pub fn put(
        &mut self,
        world: &mut W,
        keys: &[Key],
        value: Option<&Value<W>>,
        mut each: impl FnMut(&Key, Option<&Value<W>>),
    ) -> (usize, Option<Refused>) {
        let mut done = 0;
        while let Some(rest) = keys.get(done..).filter(|rest| !rest.is_empty()) {
            let mut alone = rest.first();
            if let Some(value) = value {
                let mut changed = false;
                world.begin();
                let (n, stop) = self.now.put(world, rest, value, |key, old| {
                    changed = true;
                    each(key, old);
                });
                world.end();
                self.version += u64::from(changed);
                done += n;
                alone = match stop {
                    Some(Stop::Refused(refused)) => return (done, Some(refused)),
                    Some(Stop::Alone) => keys.get(done),
                    None => None,
                };
            }
            let Some(key) = alone else { continue };
            let old = self.get(key).cloned();
            if old.as_ref() != value {
                let change = Change { key: key.clone(), value: value.cloned() };
                if let Err(refused) = self.transact(world, vec![change]) {
                    return (done, Some(refused));
                }
                each(key, old.as_ref());
            }
            done += 1;
        }
        (done, None)
    }

    /// Replaces the current tree by `at`, the result of a plan whose steps were made. Returns the old tree. Dropping it
    /// takes time in proportion to its size.
    pub fn arrive(&mut self, at: Snapshot<W>) -> Snapshot<W> {
        self.version += 1;
        std::mem::replace(&mut self.now, at)
    }
}
