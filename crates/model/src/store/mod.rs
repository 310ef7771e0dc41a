//! The tree of all objects, and transactions on it.
//!
//! The only way to change it is a [`transaction`](Store::transact). It validates all changes against the tree
//! as it would be, and applies them in the order of their dependencies. When one fails, it rolls back the
//! earlier ones.

mod facts;
mod journal;
mod making;
mod plan;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use crate::key::{Key, Need};
use crate::object::{Refused, Value, World};
use facts::Index;

pub use journal::{Before, Counts, Deed, Detail, Edit, Edits, Entry, Journal, Note, Noted, Way, Written};
pub use making::{Making, Step};
pub use plan::Plan;
pub use view::View;

/// Every object by its key.
pub type Tree<W> = BTreeMap<Key, Value<W>>;

/// Returns any object of a tree.
pub type Get<'t, W> = &'t (dyn Fn(&Key) -> Option<&'t Value<W>> + 't);

/// A change of one object: its new value, or `None` to remove it.
pub struct Change<W> {
    /// The object's key.
    pub key: Key,
    /// Its new value.
    pub value: Option<Value<W>>,
}

impl<W> Change<W> {
    /// Returns a change that sets the object.
    pub fn set(key: Key, value: impl Into<Value<W>>) -> Change<W> {
        Change { key, value: Some(value.into()) }
    }

    /// Returns a change that removes the object.
    pub fn remove(key: Key) -> Change<W> {
        Change { key, value: None }
    }
}

impl<W> Clone for Change<W> {
    fn clone(&self) -> Change<W> {
        Change { key: self.key.clone(), value: self.value.clone() }
    }
}

impl<W> fmt::Debug for Change<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?}", self.key, self.value)
    }
}

/// Why a transaction was refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The object at fault, if there is one.
    pub key: Option<Key>,
    /// The reason.
    pub why: Refused,
}

/// A tree and its indexes at some moment. Taking a snapshot takes no time, whatever its size. While a snapshot
/// exists, a change of the store copies everything.
pub struct Snapshot<W> {
    tree: Arc<Tree<W>>,
    index: Arc<Index>,
}

impl<W> Clone for Snapshot<W> {
    fn clone(&self) -> Snapshot<W> {
        Snapshot { tree: Arc::clone(&self.tree), index: Arc::clone(&self.index) }
    }
}

impl<W> Default for Snapshot<W> {
    fn default() -> Snapshot<W> {
        Snapshot { tree: Arc::default(), index: Arc::default() }
    }
}

impl<W> fmt::Debug for Snapshot<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.tree.iter()).finish()
    }
}

impl<W: World> Snapshot<W> {
    /// Returns a snapshot of this tree.
    pub fn of(tree: Tree<W>) -> Snapshot<W> {
        Snapshot { index: Arc::new(Index::of(&tree)), tree: Arc::new(tree) }
    }

    /// Returns every object.
    pub fn tree(&self) -> &Tree<W> {
        &self.tree
    }

    /// Returns a view without changes.
    pub fn view(&self) -> View<'_, W> {
        View::of(&self.tree, &self.index)
    }

    /// Returns a view with these changes.
    pub fn view_with<'s>(&'s self, changes: &'s BTreeMap<Key, Option<Value<W>>>) -> View<'s, W> {
        self.view().with(changes.iter().map(|(key, value)| (key, value.as_ref())).collect())
    }

    /// Records the changes in the tree only; no step is run.
    pub fn take(&mut self, changes: BTreeMap<Key, Option<Value<W>>>) {
        let found = self.view_with(&changes).changed;
        self.change(changes, found);
    }

    fn change(&mut self, changes: BTreeMap<Key, Option<Value<W>>>, found: facts::Changed) {
        Arc::make_mut(&mut self.index).replace(found);
        let tree = Arc::make_mut(&mut self.tree);
        for (key, value) in changes {
            match value {
                Some(value) => tree.insert(key, value),
                None => tree.remove(&key),
            };
        }
    }

    /// True if the indexes equal those built again from the whole tree.
    pub fn is_consistent(&self) -> bool {
        Index::of(&self.tree) == *self.index
    }

    /// Returns the object and all objects that depend on it, directly or not.
    pub fn with_dependents(&self, key: &Key) -> Vec<Key> {
        let (mut all, gone) = self.with_others(key);
        for range in self.places(&gone) {
            let range = self.tree.range(range);
            let needing = range.filter(|(key, value)| value.needs_any(key, |need| gone.contains(need)));
            all.extend(needing.map(|(key, _)| key.clone()));
        }
        all
    }

    /// Returns the object and its dependents, except those of kinds with potentially many objects. Also returns the
    /// needs that would be unmet.
    fn with_others(&self, key: &Key) -> (Vec<Key>, BTreeSet<Need>) {
        let mut all = vec![key.clone()];
        let mut gone: BTreeSet<Need> = key.role().into_iter().collect();
        // An object stands behind those that it needs.
        for (key, value) in self.tree.range(view::others()) {
            if value.needs_any(key, |need| gone.contains(need)) {
                gone.extend(key.role());
                all.push(key.clone());
            }
        }
        (all, gone)
    }

    /// Returns the ranges, of kinds with potentially many objects, in which objects may need one of these.
    fn places(&self, wanted: &BTreeSet<Need>) -> Vec<crate::key::Range> {
        view::places(wanted, self.index.many(), |need| self.index.has_need(need))
    }

    /// True if more than this number of objects may have to be checked, or removed, with this one.
    pub fn has_many_dependents(&self, key: &Key, many: usize) -> bool {
        if self.tree.len() <= many {
            return false;
        }
        let (all, gone) = self.with_others(key);
        all.len() > many || !self.places(&gone).is_empty()
    }

    /// Returns the tree without an object and all objects that depend on it.
    pub fn without(&self, key: &Key) -> Snapshot<W> {
        let mut tree = Tree::clone(&self.tree);
        for key in self.with_dependents(key) {
            tree.remove(&key);
        }
        Snapshot::of(tree)
    }

    /// Returns the changes that would make this tree the `wanted` one.
    pub fn diff(&self, wanted: &Tree<W>) -> Vec<Change<W>> {
        let gone = self.tree.keys().filter(|k| !wanted.contains_key(k)).cloned().map(Change::remove);
        let new = wanted.iter().filter(|(k, v)| self.tree.get(k) != Some(v));
        gone.chain(new.map(|(k, v)| Change::set(k.clone(), v.clone()))).collect()
    }

    /// Returns the faults of the whole tree: each impossible object, and the reason.
    pub fn faults<'s>(&'s self, abilities: &'s W::Abilities) -> impl Iterator<Item = (&'s Key, Refused)> {
        let view = self.view();
        let fault =
            move |(key, value): (_, &Value<W>)| Some((key, value.validate(key, &view, abilities).err()?));
        self.tree.iter().filter_map(fault)
    }
}

/// The operator's intent.
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
    /// Returns a tree that was not applied.
    pub fn of(tree: Tree<W>) -> Store<W> {
        Store { now: Snapshot::of(tree), version: 0 }
    }

    /// Returns the object, if it exists.
    pub fn get(&self, key: &Key) -> Option<&Value<W>> {
        self.now.tree.get(key)
    }

    /// Returns every object.
    pub fn tree(&self) -> &Tree<W> {
        &self.now.tree
    }

    /// Returns every object in order of dependency.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value<W>)> {
        self.now.tree.iter()
    }

    /// Returns the objects after a key, whose object need not exist; all objects for `None`.
    pub fn behind(&self, key: Option<&Key>) -> impl Iterator<Item = (&Key, &Value<W>)> {
        let first = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.now.tree.range::<Key, _>((first, Bound::Unbounded))
    }

    /// Returns how many transactions have changed something.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the current tree, to be read elsewhere.
    pub fn snapshot(&self) -> Snapshot<W> {
        self.now.clone()
    }

    /// Returns the changes that would make this tree the `wanted` one.
    pub fn diff(&self, wanted: &Tree<W>) -> Vec<Change<W>> {
        self.now.diff(wanted)
    }

    /// Makes all the changes or none. Of two changes of one object the last one counts.
    ///
    /// # Errors
    /// Returns the first fault; the world is then as before. If the rollback fails as well, the message
    /// reports that.
    pub fn transact(&mut self, world: &mut W, changes: Vec<Change<W>>) -> Result<(), Refused> {
        self.transact_by(world, changes, |step, world| step.run(world))
    }

    /// As [`transact`](Store::transact); `run` makes a step. Steps already made are rolled back the usual
    /// way.
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

    /// Installs the result of a plan whose steps were made. Returns the old tree; dropping it takes time by
    /// its size.
    pub fn arrive(&mut self, at: Snapshot<W>) -> Snapshot<W> {
        self.version += 1;
        std::mem::replace(&mut self.now, at)
    }
}
