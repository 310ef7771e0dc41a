//! The tree of all objects, and transactions on it.
//!
//! There is one way to change it: a [`transaction`](Store::transact). It validates all changes against the tree as it would be,
//! applies them in the order of their dependencies, and when one fails takes back those before it.

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

/// Gives any object of a tree.
pub type Get<'t, W> = &'t (dyn Fn(&Key) -> Option<&'t Value<W>> + 't);

/// A change of one object: its new value, or `None` to remove it.
pub struct Change<W> {
    /// Which object.
    pub key: Key,
    /// What it is to be.
    pub value: Option<Value<W>>,
}

impl<W> Change<W> {
    /// The object is to be this.
    pub fn set(key: Key, value: impl Into<Value<W>>) -> Change<W> {
        Change { key, value: Some(value.into()) }
    }

    /// The object is to be gone.
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
    /// The object that it is about, if it is one.
    pub key: Option<Key>,
    /// What is wrong.
    pub why: Refused,
}

/// A tree and what finds its objects, as they are at some moment. To make one takes no time, however large it is; while there is
/// another one, a change of the store makes a copy of all.
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
    /// This tree.
    pub fn of(tree: Tree<W>) -> Snapshot<W> {
        Snapshot { index: Arc::new(Index::of(&tree)), tree: Arc::new(tree) }
    }

    /// Every object.
    pub fn tree(&self) -> &Tree<W> {
        &self.tree
    }

    /// The tree without changes.
    pub fn view(&self) -> View<'_, W> {
        View::of(&self.tree, &self.index)
    }

    /// The tree with these changes.
    pub fn view_with<'s>(&'s self, changes: &'s BTreeMap<Key, Option<Value<W>>>) -> View<'s, W> {
        self.view().with(changes.iter().map(|(key, value)| (key, value.as_ref())).collect())
    }

    /// Changes the tree without applying anything.
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

    /// True if objects are found where they would be if everything were looked at anew.
    pub fn is_consistent(&self) -> bool {
        Index::of(&self.tree) == *self.index
    }

    /// The object and all that cannot be without it, directly or not.
    pub fn with_dependents(&self, key: &Key) -> Vec<Key> {
        let (mut all, gone) = self.with_others(key);
        for range in self.places(&gone) {
            let range = self.tree.range(range);
            let needing = range.filter(|(key, value)| value.needs_any(key, |need| gone.contains(need)));
            all.extend(needing.map(|(key, _)| key.clone()));
        }
        all
    }

    /// The same without those of which there may be very many, and what they would be without.
    fn with_others(&self, key: &Key) -> (Vec<Key>, BTreeSet<Need>) {
        let mut all = vec![key.clone()];
        let mut gone: BTreeSet<Need> = key.role().into_iter().collect();
        // What needs an object stands behind it.
        for (key, value) in self.tree.range(view::others()) {
            if value.needs_any(key, |need| gone.contains(need)) {
                gone.extend(key.role());
                all.push(key.clone());
            }
        }
        (all, gone)
    }

    /// Where objects may be that need one of these, and of which there may be very many.
    fn places(&self, wanted: &BTreeSet<Need>) -> Vec<crate::key::Range> {
        view::places(wanted, self.index.many(), |need| self.index.has_need(need))
    }

    /// Whether more than so many objects may have to be looked at, or to go, with this one.
    pub fn has_many_dependents(&self, key: &Key, many: usize) -> bool {
        if self.tree.len() <= many {
            return false;
        }
        let (all, gone) = self.with_others(key);
        all.len() > many || !self.places(&gone).is_empty()
    }

    /// The tree without an object and all that cannot be without it.
    pub fn without(&self, key: &Key) -> Snapshot<W> {
        let mut tree = Tree::clone(&self.tree);
        for key in self.with_dependents(key) {
            tree.remove(&key);
        }
        Snapshot::of(tree)
    }

    /// The changes that would make this tree the `wanted` one.
    pub fn diff(&self, wanted: &Tree<W>) -> Vec<Change<W>> {
        let gone = self.tree.keys().filter(|k| !wanted.contains_key(k)).cloned().map(Change::remove);
        let new = wanted.iter().filter(|(k, v)| self.tree.get(k) != Some(v));
        gone.chain(new.map(|(k, v)| Change::set(k.clone(), v.clone()))).collect()
    }

    /// What is wrong with the tree as a whole: each object that cannot be as it says, and why.
    pub fn faults<'s>(&'s self, abilities: &'s W::Abilities) -> impl Iterator<Item = (&'s Key, Refused)> {
        let view = self.view();
        let fault =
            move |(key, value): (_, &Value<W>)| Some((key, value.validate(key, &view, abilities).err()?));
        self.tree.iter().filter_map(fault)
    }
}

/// What the operator asked for.
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
    /// A tree that nobody has applied.
    pub fn of(tree: Tree<W>) -> Store<W> {
        Store { now: Snapshot::of(tree), version: 0 }
    }

    /// The object, if there is one.
    pub fn get(&self, key: &Key) -> Option<&Value<W>> {
        self.now.tree.get(key)
    }

    /// Every object.
    pub fn tree(&self) -> &Tree<W> {
        &self.now.tree
    }

    /// Every object in order of dependency.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value<W>)> {
        self.now.tree.iter()
    }

    /// The objects behind one, which need not be there; `None`: all.
    pub fn behind(&self, key: Option<&Key>) -> impl Iterator<Item = (&Key, &Value<W>)> {
        let first = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.now.tree.range::<Key, _>((first, Bound::Unbounded))
    }

    /// How many transactions have changed something.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The tree as it is now, to be looked at elsewhere.
    pub fn snapshot(&self) -> Snapshot<W> {
        self.now.clone()
    }

    /// The changes that would make this tree the `wanted` one.
    pub fn diff(&self, wanted: &Tree<W>) -> Vec<Change<W>> {
        self.now.diff(wanted)
    }

    /// Makes all the changes, or none. Of two changes of one object the last one counts.
    ///
    /// # Errors
    /// The first fault found; the world is then as it was. Should taking back fail as well, the message says so.
    pub fn transact(&mut self, world: &mut W, changes: Vec<Change<W>>) -> Result<(), Refused> {
        self.transact_by(world, changes, |step, world| step.run(world))
    }

    /// As [`transact`](Store::transact); `run` is how a step is made. What was made is taken back as it should be.
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

    /// The steps of a plan were made: what it led to is what there is. Gives what there was; to drop it takes as long as it is
    /// large.
    pub fn arrive(&mut self, at: Snapshot<W>) -> Snapshot<W> {
        self.version += 1;
        std::mem::replace(&mut self.now, at)
    }
}
