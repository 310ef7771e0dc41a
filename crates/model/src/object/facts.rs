//! Indexes of a tree's objects, so that kinds with very many objects are not searched.

use std::collections::BTreeMap;

use super::{Fact, Get, Value, World};
use crate::key::{Key, KindInfo, MANY, Need};
use crate::tuple::Tuple;

/// How often each tuple occurs. The outer map has the names of indexes or roles, and the inner one the tuples. Tuples that do not
/// occur are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts(BTreeMap<&'static str, BTreeMap<Tuple, u32>>);

impl Counts {
    fn add(&mut self, name: &'static str, tuple: Tuple, n: u32) {
        *self.0.entry(name).or_default().entry(tuple).or_default() += n;
    }

    fn take(&mut self, name: &'static str, tuple: &Tuple, n: u32) {
        let Some(all) = self.0.get_mut(name) else { return };
        if let Some(left) = all.get_mut(tuple) {
            *left = left.saturating_sub(n);
            if *left == 0 {
                all.remove(tuple);
            }
        }
        if all.is_empty() {
            self.0.remove(name);
        }
    }

    pub fn of(&self, name: &str, tuple: &Tuple) -> u32 {
        self.0.get(name).and_then(|all| all.get(tuple)).copied().unwrap_or(0)
    }

    /// Returns the tuples under `name`, each with its number of occurrences; `None` if there are none.
    pub fn named(&self, name: &str) -> Option<&BTreeMap<Tuple, u32>> {
        self.0.get(name)
    }

    /// Returns the tuples under `name` that are not less than `tuple`, each with its number of occurrences.
    pub fn from<'c>(&'c self, name: &str, tuple: &Tuple) -> impl Iterator<Item = (&'c Tuple, u32)> + use<'c> {
        let all = self.0.get(name).map(|all| all.range::<Tuple, _>(tuple..));
        all.into_iter().flatten().map(|(tuple, n)| (tuple, *n))
    }

    fn replace(&mut self, was: &Counts, now: Counts) {
        for (name, all) in now.0 {
            all.into_iter().for_each(|(tuple, n)| self.add(name, tuple, n));
        }
        for (name, all) in &was.0 {
            all.iter().for_each(|(tuple, n)| self.take(name, tuple, *n));
        }
    }
}

/// The index of a tree: how many objects have each [`Fact`], and how many have each need.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Number of objects for each fact.
    pub facts: Counts,
    /// For each need, the number of objects that have it. Only objects of kinds that may have very many objects are counted, and an
    /// object's need for its container is not.
    pub needs: Counts,
    /// The kinds with potentially many objects, and the number of their objects.
    many: BTreeMap<&'static str, (&'static KindInfo, usize)>,
}

/// Two indexes are equal if all their counts are. Kinds are compared by name, which is unique.
impl PartialEq for Index {
    fn eq(&self, other: &Index) -> bool {
        let many =
            |index: &Index| -> Vec<_> { index.many.iter().map(|(name, (_, n))| (*name, *n)).collect() };
        self.facts == other.facts && self.needs == other.needs && many(self) == many(other)
    }
}

impl Index {
    /// Returns the index of a whole tree.
    pub fn of<W: World>(tree: &BTreeMap<Key, Value<W>>) -> Index {
        let mut index = Index::default();
        for (key, value) in tree {
            index.add(key, value, &|key| tree.get(key));
        }
        index
    }

    /// Adds an object. `get` returns any object of the tree.
    pub fn add<W: World>(&mut self, key: &Key, value: &Value<W>, get: Get<'_, W>) {
        self.add_times(key, value, get, 1);
    }

    /// Adds `n` objects with this value, whose keys are [alike](super::Object::alike).
    pub fn add_times<W: World>(&mut self, key: &Key, value: &Value<W>, get: Get<'_, W>, n: u32) {
        value.facts(key, get, &mut |Fact { index, place }| self.facts.add(index, place, n));
        let kind = key.kind();
        if kind.phase < MANY {
            return;
        }
        self.many.entry(kind.name).or_insert((kind, 0)).1 += n as usize;
        value.needs(key, &mut |need| {
            let contains =
                kind.container.is_some_and(|role| need.is(role)) && key.id().begins_with(need.id());
            if !contains {
                let (role, id) = need.place();
                self.needs.add(role, id.clone(), n);
            }
        });
    }

    /// Replaces the entries of changed objects: `was` by `now`.
    pub fn replace(&mut self, Changed { was, now }: Changed) {
        self.facts.replace(&was.facts, now.facts);
        self.needs.replace(&was.needs, now.needs);
        for (name, (kind, n)) in now.many {
            self.many.entry(name).or_insert((kind, 0)).1 += n;
        }
        for (name, (_, n)) in was.many {
            if let Some((_, left)) = self.many.get_mut(name) {
                *left = left.saturating_sub(n);
                if *left == 0 {
                    self.many.remove(name);
                }
            }
        }
    }

    /// Returns the kinds with potentially many objects.
    pub fn many(&self) -> impl Iterator<Item = &'static KindInfo> {
        self.many.values().map(|(kind, _)| *kind)
    }

    /// True if any object has this need. Only objects of kinds that may have very many objects are searched, and an object's need for its
    /// container does not count.
    pub fn has_need(&self, need: &Need) -> bool {
        let (role, id) = need.place();
        self.needs.of(role, id) > 0
    }
}

/// The index entries of a transaction's objects, before and after it.
#[derive(Default)]
pub(crate) struct Changed {
    pub(super) was: Index,
    pub(super) now: Index,
}
