//! A tree as it would be after a transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds};

use super::facts::{Changed, Index};
use super::{Get, Tree, Value, World};
use crate::key::{Key, KindInfo, Need, Range};
use crate::tuple::{Part, Tuple};

/// The tree as it would be after a transaction.
pub struct View<'s, W> {
    objects: &'s Tree<W>,
    pub(crate) changes: BTreeMap<&'s Key, Option<&'s Value<W>>>,
    index: &'s Index,
    pub(crate) changed: Changed,
}

impl<'s, W: World> View<'s, W> {
    /// Returns a view of the tree without changes.
    pub(super) fn of(objects: &'s Tree<W>, index: &'s Index) -> View<'s, W> {
        View { objects, changes: BTreeMap::new(), index, changed: Changed::default() }
    }

    /// Returns the same view, with these changes instead of its own.
    pub(super) fn with(self, changes: BTreeMap<&'s Key, Option<&'s Value<W>>>) -> View<'s, W> {
        let mut view = View { changes, ..self };
        let mut changed = Changed::default();
        let (was, now): (Get<'_, W>, Get<'_, W>) = (&|key| view.objects.get(key), &|key| view.get(key));
        let mut touched = BTreeSet::new();
        for (key, new) in &view.changes {
            let old = view.objects.get(key);
            if let Some(value) = old {
                changed.was.add(key, value, was);
            }
            if let Some(value) = new {
                changed.now.add(key, value, now);
            }
            touched.extend(old.or(*new).and_then(|value| value.touches(key)));
        }
        for key in touched.iter().filter(|key| !view.changes.contains_key(*key)) {
            if let Some(value) = view.objects.get(key) {
                changed.was.add(key, value, was);
                changed.now.add(key, value, now);
            }
        }
        view.changed = changed;
        view
    }

    /// Returns the object, if it exists.
    pub fn get(&self, key: &Key) -> Option<&'s Value<W>> {
        match self.changes.get(key) {
            Some(change) => *change,
            None => self.objects.get(key),
        }
    }

    /// Returns the objects in a range of keys. Changed objects follow the unchanged ones.
    pub fn range(
        &self,
        keys: impl RangeBounds<Key> + Clone,
    ) -> impl Iterator<Item = (&'s Key, &'s Value<W>)> + '_ {
        let old = self.objects.range(keys.clone()).filter(|(k, _)| !self.changes.contains_key(k));
        let new = self.changes.range::<Key, _>(keys);
        old.chain(new.filter_map(|(k, v)| Some((*k, (*v)?))))
    }

    /// Returns the objects that have a need in `wanted`. Of kinds with potentially many objects, searches only key ranges that may contain
    /// such objects.
    pub fn needing<'v>(
        &'v self,
        wanted: &'v BTreeSet<Need>,
    ) -> impl Iterator<Item = (&'s Key, &'s Value<W>)> + use<'s, 'v, W> {
        let kinds = self.index.many().chain(self.changed.now.many());
        let many = places(wanted, kinds, |need| self.has_need(need));
        let all = self.range(others()).chain(many.into_iter().flat_map(|range| self.range(range)));
        all.filter(|(key, value)| value.needs_any(key, |need| wanted.contains(need)))
    }

    /// True if any object has this need. Only objects of kinds that may have very many objects are searched, and an object's need for its
    /// container does not count.
    fn has_need(&self, need: &Need) -> bool {
        let (role, id) = need.place();
        let of = |index: &Index| index.needs.of(role, id);
        of(self.index) + of(&self.changed.now) > of(&self.changed.was)
    }

    /// Returns the tuples in `index` that are not less than `from`. A tuple may be repeated. The tuples of changed objects follow those of
    /// unchanged objects.
    pub fn places<'v>(
        &'v self,
        index: &'static str,
        from: Tuple,
    ) -> impl Iterator<Item = &'v Tuple> + use<'s, 'v, W> {
        self.places_while(index, from, |_| true)
    }

    /// Returns the tuples in `index` that are not less than `from`, and stops at the first tuple for which `fits` is false. The
    /// tuples of changed objects follow those of unchanged objects, and are selected in the same way.
    pub fn places_while<'v, F: Fn(&Tuple) -> bool + Clone>(
        &'v self,
        index: &'static str,
        from: Tuple,
        fits: F,
    ) -> impl Iterator<Item = &'v Tuple> + use<'s, 'v, W, F> {
        let Changed { was, now } = &self.changed;
        let (first, last) = (fits.clone(), fits);
        let old = self.index.facts.from(index, &from).take_while(move |(place, _)| first(place));
        // Usually `None`: most transactions remove nothing from most indexes.
        let was = was.facts.named(index);
        let left = move |place, n| was.is_none_or(|was| n > was.get(place).copied().unwrap_or(0));
        let old = old.filter(move |(place, n)| left(*place, *n));
        let new = now.facts.from(index, &from).take_while(move |(place, _)| last(place));
        old.chain(new).map(|(place, _)| place)
    }

    /// For each tuple in `index` that begins with `prefix`, returns the value after `prefix`.
    pub fn found<'v, P: Part>(
        &'v self,
        index: &'static str,
        prefix: Tuple,
    ) -> impl Iterator<Item = P> + use<'s, 'v, W, P> {
        let begin = prefix.clone();
        let places = self.places_while(index, prefix.clone(), move |place| place.begins_with(&begin));
        places.filter_map(move |place| place.behind(&prefix))
    }
}

/// Returns the key range of all objects except those of kinds with potentially many objects.
pub(crate) fn others() -> Range {
    (Bound::Unbounded, Bound::Excluded(Key::first_of_many()))
}

/// Returns the key range of all kinds with potentially many objects.
pub(super) fn many() -> Range {
    (Bound::Included(Key::first_of_many()), Bound::Unbounded)
}

/// Returns key ranges that contain every object with a need in `wanted`, among the kinds that may have very many objects. If these
/// objects need only their containers in `wanted`, such as routes their VRF, returns one range for each container and kind. If an object
/// has another need in `wanted`, returns a single range with all objects of these kinds.
pub(super) fn places(
    wanted: &BTreeSet<Need>,
    kinds: impl Iterator<Item = &'static KindInfo>,
    has_need: impl Fn(&Need) -> bool,
) -> Vec<Range> {
    if wanted.iter().any(has_need) {
        return vec![many()];
    }
    let mut ranges = BTreeMap::new();
    for kind in kinds {
        let Some(role) = kind.container else { continue };
        for need in wanted.iter().filter(|need| need.is(role)) {
            ranges.insert((kind.name, need), Key::new(kind, need.id().clone()).and_longer());
        }
    }
    ranges.into_values().collect()
}
