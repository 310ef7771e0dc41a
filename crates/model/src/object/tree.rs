//! Trees of objects, and their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::facts::{Changed, Index};
use super::{Refused, Value, View, World, view};
use crate::key::{Key, Need, Range};

/// Every object by its key.
pub type Tree<W> = BTreeMap<Key, Value<W>>;

/// A function that looks up an object of a tree by its key.
pub type Get<'t, W> = &'t (dyn Fn(&Key) -> Option<&'t Value<W>> + 't);

/// A change of one object: its new value, or `None` to remove it.
pub struct Change<W> {
    /// The object's key.
    pub key: Key,
    /// Its new value; `None` to remove it.
    pub value: Option<Value<W>>,
}

impl<W> Change<W> {
    /// Returns a change that sets the object to `value`.
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

/// A tree and its indexes at some moment. A snapshot is taken fast, however large the tree is. But if the store changes while a snapshot
/// exists, the store's first change copies the whole tree.
pub struct Snapshot<W> {
    pub(super) tree: Arc<Tree<W>>,
    pub(super) index: Arc<Index>,
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

    /// Returns a view of the tree without changes.
    pub fn view(&self) -> View<'_, W> {
        View::of(&self.tree, &self.index)
    }

    /// Returns a view of the tree with these changes.
    pub fn view_with<'s>(&'s self, changes: &'s BTreeMap<Key, Option<Value<W>>>) -> View<'s, W> {
        self.view().with(changes.iter().map(|(key, value)| (key, value.as_ref())).collect())
    }

    /// Makes the changes in this tree only. The router is not changed.
    pub fn take(&mut self, changes: BTreeMap<Key, Option<Value<W>>>) {
        let found = self.view_with(&changes).changed;
        self.change(changes, found);
    }

    /// Makes the changes. `found` contains the index entries of the changed objects.
    pub(crate) fn change(&mut self, changes: BTreeMap<Key, Option<Value<W>>>, found: Changed) {
        Arc::make_mut(&mut self.index).replace(found);
        let tree = Arc::make_mut(&mut self.tree);
        for (key, value) in changes {
            match value {
                Some(value) => tree.insert(key, value),
                None => tree.remove(&key),
            };
        }
    }

    /// Completes incomplete objects of this tree. `now` is the current tree.
    pub(crate) fn complete(&mut self, now: &Snapshot<W>) {
        // Kinds with potentially many objects are always complete.
        if self.tree.range(view::others()).all(|(_, value)| value.is_complete()) {
            return;
        }
        let mut wanted = Arc::unwrap_or_clone(std::mem::take(&mut self.tree));
        let before: BTreeMap<Key, Value<W>> =
            wanted.range(view::others()).map(|(key, value)| (key.clone(), value.clone())).collect();
        W::complete(now, wanted.range_mut(view::others()).collect());
        let mut changed = Changed::default();
        for (key, new) in wanted.range(view::others()) {
            let Some(old) = before.get(key).filter(|old| *old != new) else { continue };
            changed.was.add(key, old, &|key| before.get(key));
            changed.now.add(key, new, &|key| wanted.get(key));
        }
        Arc::make_mut(&mut self.index).replace(changed);
        self.tree = Arc::new(wanted);
    }

    /// True if the indexes are the same as if they were built from the whole tree.
    pub fn is_consistent(&self) -> bool {
        Index::of(&self.tree) == *self.index
    }

    /// Looks for an object that needs another one although their kinds do not allow it. Returns both. Either the needed object has the
    /// higher key, so that one of the two kinds has a wrong phase, or it is of a kind with potentially many objects, which none may need.
    pub fn out_of_order(&self) -> Option<(&Key, &Key)> {
        let roles: BTreeMap<Need, &Key> =
            self.tree.keys().filter_map(|key| Some((key.role()?, key))).collect();
        self.tree.range(view::others()).find_map(|(key, value)| {
            let mut behind = None;
            value.needs(key, &mut |need| {
                behind = behind.or(roles.get(&need).filter(|needed| **needed >= key).copied());
            });
            behind.map(|needed| (key, needed))
        })
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

    /// Returns the object and its dependents, except those of kinds with potentially many objects. Also returns the needs that would be
    /// unmet without the returned objects.
    fn with_others(&self, key: &Key) -> (Vec<Key>, BTreeSet<Need>) {
        let mut all = vec![key.clone()];
        let mut gone: BTreeSet<Need> = key.role().into_iter().collect();
        // In the order of keys, an object follows those that it needs.
        for (key, value) in self.tree.range(view::others()) {
            if value.needs_any(key, |need| gone.contains(need)) {
                gone.extend(key.role());
                all.push(key.clone());
            }
        }
        (all, gone)
    }

    /// Returns key ranges that contain every object with a need in `wanted`, among the kinds that may have very many objects.
    pub(crate) fn places(&self, wanted: &BTreeSet<Need>) -> Vec<Range> {
        view::places(wanted, self.index.many(), |need| self.index.has_need(need))
    }

    /// True if more than `many` objects may have to be checked or removed when this object is removed.
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

    /// Returns the tree after these changes.
    pub fn with(&self, changes: Vec<Change<W>>) -> Snapshot<W> {
        let mut tree = Tree::clone(&self.tree);
        for Change { key, value } in changes {
            match value {
                Some(value) => drop(tree.insert(key, value)),
                None => drop(tree.remove(&key)),
            }
        }
        Snapshot::of(tree)
    }

    /// Returns the changes that turn this tree into `wanted`.
    pub fn diff(&self, wanted: &Tree<W>) -> Vec<Change<W>> {
        let gone = self.tree.keys().filter(|k| !wanted.contains_key(k)).cloned().map(Change::remove);
        let new = wanted.iter().filter(|(k, v)| self.tree.get(k) != Some(v));
        gone.chain(new.map(|(k, v)| Change::set(k.clone(), v.clone()))).collect()
    }

    /// Returns the faults of the whole tree: each invalid object, and the reason.
    pub fn faults<'s>(&'s self, abilities: &'s W::Abilities) -> impl Iterator<Item = (&'s Key, Refused)> {
        let view = self.view();
        let fault =
            move |(key, value): (_, &Value<W>)| Some((key, value.validate(key, &view, abilities).err()?));
        self.tree.iter().filter_map(fault)
    }
}
