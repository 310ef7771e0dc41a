//! Very many objects with the same value, such as the routes that a routing daemon loads.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::facts::Changed;
use super::{Refused, Snapshot, Value, World};
use crate::key::Key;

/// Objects that were set, and whose index entries are not made yet. Their keys are [alike](super::Object::alike).
#[derive(Default)]
struct Run {
    /// The key of the first object of the run, which was found to be valid. Objects with [alike](super::Object::alike) keys need no check.
    first: Option<Key>,
    /// Number of objects of the run that were created, or whose value was replaced.
    new: u32,
    /// Index entries of the old values that were replaced.
    changed: Changed,
}

/// The reason why not all objects were set.
pub(crate) enum Stop {
    /// The next object is refused.
    Refused(Refused),
    /// The next object needs a transaction of its own, because other objects may have to change with it.
    Alone,
}

impl<W: World> Snapshot<W> {
    /// Sets objects to the same value, one after the other. Calls `each` with the key and the old value of each object that it changes.
    /// Returns how many of `keys` were handled: set, or skipped because they had the value already. Also returns the reason if not all were
    /// handled.
    pub(crate) fn put(
        &mut self,
        world: &mut W,
        keys: &[Key],
        value: &Value<W>,
        mut each: impl FnMut(&Key, Option<&Value<W>>),
    ) -> (usize, Option<Stop>) {
        let mut run = Run::default();
        for (n, key) in keys.iter().enumerate() {
            if run.first.as_ref().is_none_or(|first| !value.alike(first, key)) {
                self.end(&mut run, value);
                if key.role().is_some() || value.touches(key).is_some() || !value.is_complete() {
                    return (n, Some(Stop::Alone));
                }
                let change = BTreeMap::from([(key.clone(), Some(value.clone()))]);
                if let Err(refused) = value.validate(key, &self.view_with(&change), &world.abilities()) {
                    return (n, Some(Stop::Refused(refused)));
                }
                run.first = Some(key.clone());
            }
            let set = match Arc::make_mut(&mut self.tree).entry(key.clone()) {
                Entry::Occupied(there) if there.get() == value => continue,
                Entry::Occupied(there) if there.get().staying(value).as_ref() != Some(there.get()) => {
                    Err(Stop::Alone)
                }
                Entry::Occupied(mut there) => match value.apply(key, Some(there.get()), world) {
                    Ok(()) => Ok(Some(there.insert(value.clone()))),
                    Err(refused) => Err(Stop::Refused(refused)),
                },
                Entry::Vacant(room) => match value.apply(key, None, world) {
                    Ok(()) => {
                        room.insert(value.clone());
                        Ok(None)
                    }
                    Err(refused) => Err(Stop::Refused(refused)),
                },
            };
            match set {
                Ok(old) => {
                    if let Some(old) = &old {
                        run.changed.was.add(key, old, &|key| self.tree.get(key));
                    }
                    run.new += 1;
                    each(key, old.as_ref());
                }
                Err(stop) => {
                    self.end(&mut run, value);
                    return (n, Some(stop));
                }
            }
        }
        self.end(&mut run, value);
        (keys.len(), None)
    }

    /// Makes the index entries of a run, and removes those of the replaced values. Begins a new run.
    fn end(&mut self, run: &mut Run, value: &Value<W>) {
        let Run { first, new, mut changed } = std::mem::take(run);
        if let Some(first) = first.filter(|_| new > 0) {
            changed.now.add_times(&first, value, &|key| self.tree.get(key), new);
            Arc::make_mut(&mut self.index).replace(changed);
        }
    }
}
