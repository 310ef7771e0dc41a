//! The tree, and transactions on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};

use super::index::{self, Changed, Index, Layers};
use super::{Key, Need, Refused, Value, address, apply, needs, refuse, role, validate, validate_absence};
use crate::system::System;

/// A change of one object: its new value, or `None` to remove it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which object.
    pub key: Key,
    /// What it is to be.
    pub value: Option<Value>,
}

impl Change {
    /// The object is to be this.
    pub fn set(key: Key, value: Value) -> Change {
        Change { key, value: Some(value) }
    }

    /// The object is to be gone.
    pub fn remove(key: Key) -> Change {
        Change { key, value: None }
    }
}

/// What the operator asked for.
#[derive(Default)]
pub struct Store {
    objects: BTreeMap<Key, Value>,
    version: u64,
    index: Index,
}

/// The tree as it would be after a transaction.
pub struct View<'s> {
    objects: &'s BTreeMap<Key, Value>,
    changes: BTreeMap<&'s Key, Option<&'s Value>>,
    /// Finds objects without a look at all of them.
    pub(super) index: Layers<'s>,
}

impl<'s> View<'s> {
    /// The tree without changes.
    pub(super) fn of(objects: &'s BTreeMap<Key, Value>, index: &'s Index) -> View<'s> {
        View { objects, changes: BTreeMap::new(), index: Layers { tree: index, changed: Changed::default() } }
    }

    /// The same tree with these changes.
    pub(super) fn with(self, changes: BTreeMap<&'s Key, Option<&'s Value>>) -> View<'s> {
        let mut view = View { changes, ..self };
        let keys = view.changes.keys().copied();
        view.index.changed = Changed::of(keys, |key| view.objects.get(key), |key| view.get(key));
        view
    }

    /// The object, if there is one.
    pub fn get(&self, key: &Key) -> Option<&'s Value> {
        match self.changes.get(key) {
            Some(change) => *change,
            None => self.objects.get(key),
        }
    }

    /// Every object.
    pub fn iter(&self) -> impl Iterator<Item = (&'s Key, &'s Value)> + '_ {
        let old = self.objects.iter().filter(|(k, _)| !self.changes.contains_key(k));
        let new = self.changes.iter().filter_map(|(k, v)| Some((*k, (*v)?)));
        old.chain(new)
    }

    /// The objects from this key on, up to and with the last one.
    pub fn range(&self, keys: RangeInclusive<Key>) -> impl Iterator<Item = (&'s Key, &'s Value)> + '_ {
        let old = self.objects.range(keys.clone()).filter(|(k, _)| !self.changes.contains_key(k));
        let new = self.changes.range::<Key, _>(keys);
        old.chain(new.filter_map(|(k, v)| Some((*k, (*v)?))))
    }

    /// The interface or sub-interface with this name.
    pub fn interface(&self, name: &str) -> Option<&'s super::Interface> {
        index::interface(name, |key| self.get(key))
    }

    /// Refuses a name that is no interface's.
    ///
    /// # Errors
    /// As it says.
    pub fn must_have_interface(&self, name: &str) -> Result<&'s super::Interface, Refused> {
        self.interface(name).ok_or_else(|| Refused(format!("there is no interface {name}")))
    }
}

impl Store {
    /// The object, if there is one.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key)
    }

    /// A tree that nobody has applied.
    #[cfg(test)]
    pub(crate) fn of(objects: BTreeMap<Key, Value>) -> Store {
        Store { index: Index::of(&objects), objects, version: 0 }
    }

    /// Every object.
    pub fn tree(&self) -> &BTreeMap<Key, Value> {
        &self.objects
    }

    /// Every object in order of dependency.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.objects.iter()
    }

    /// The objects behind one, which need not be there; `None`: all.
    pub fn behind(&self, key: Option<&Key>) -> impl Iterator<Item = (&Key, &Value)> {
        let first = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.objects.range::<Key, _>((first, Bound::Unbounded))
    }

    /// How many transactions have changed something.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The tree without changes.
    pub fn view(&self) -> View<'_> {
        View::of(&self.objects, &self.index)
    }

    /// The changes that would make this tree the `wanted` one.
    pub fn diff(&self, wanted: &BTreeMap<Key, Value>) -> Vec<Change> {
        let gone = self.objects.keys().filter(|k| !wanted.contains_key(k)).cloned().map(Change::remove);
        let new = wanted.iter().filter(|(k, v)| self.objects.get(k) != Some(v));
        gone.chain(new.map(|(k, v)| Change::set(k.clone(), v.clone()))).collect()
    }

    /// What is wrong with a tree as a whole: each object that cannot be as it says, and why. `system` is only asked.
    pub fn faults<'t>(tree: &'t BTreeMap<Key, Value>, system: &System) -> Vec<(&'t Key, Refused)> {
        let index = Index::of(tree);
        let view = View::of(tree, &index);
        tree.iter()
            .filter_map(|(key, value)| Some((key, validate(key, value, &view, system).err()?)))
            .collect()
    }

    /// The object and all that cannot be without it, directly or not.
    pub fn with_dependents(&self, key: &Key) -> Vec<Key> {
        let mut all = vec![key.clone()];
        let mut gone: BTreeSet<Need<'_>> = role(key).into_iter().collect();
        // What needs an object stands behind it.
        for (key, value) in &self.objects {
            if needs(key, value).any(|n| gone.contains(&n)) {
                gone.extend(role(key));
                all.push(key.clone());
            }
        }
        all
    }

    /// Makes all the changes, or none. Of two changes of one object the last one counts.
    ///
    /// # Errors
    /// The first fault found; the system is then as it was. Should taking back fail as well, the message says so.
    pub fn transact(&mut self, system: &mut System, changes: Vec<Change>) -> Result<(), Refused> {
        self.transact_by(system, changes, |step, system| step.run(system))
    }

    /// As [`transact`](Store::transact); `run` is how a step is made. What was made is taken back as it should be.
    pub(super) fn transact_by(
        &mut self,
        system: &mut System,
        changes: Vec<Change>,
        mut run: impl FnMut(&Step, &mut System) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let changes: BTreeMap<Key, Option<Value>> = changes.into_iter().map(|c| (c.key, c.value)).collect();
        let view = self.view().with(changes.iter().map(|(k, v)| (k, v.as_ref())).collect());
        let steps = self.plan(&view, system)?;
        let found = view.index.changed;
        system.begin();
        for (done, step) in steps.iter().enumerate() {
            if let Err(e) = run(step, system) {
                return Err(take_back(system, &steps[..done], e));
            }
        }
        self.version += u64::from(!steps.is_empty());
        self.index.replace(found);
        for (key, value) in changes {
            match value {
                Some(value) => self.objects.insert(key, value),
                None => self.objects.remove(&key),
            };
        }
        Ok(())
    }

    /// Checks the changes against the tree as it would be, and gives the steps that make them: first down, in reverse
    /// order of dependency, what goes or has to be made anew; then up what comes or changes; VRFs, which others may
    /// leave without being made anew, go last.
    fn plan(&self, view: &View<'_>, system: &System) -> Result<Vec<Step>, Refused> {
        let mut touched: BTreeSet<&Key> = BTreeSet::new();
        let (mut removed, mut renewed, mut rebound) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (&key, &new) in &view.changes {
            match (self.objects.get(key), new) {
                (None, None) => return refuse(format!("there is nothing to remove: {}", name(key))),
                (old, new) if old == new => continue,
                (Some(_), None) => removed.extend(role(key)),
                (Some(Value::Interface(old)), Some(Value::Interface(new))) => {
                    if old.spec != new.spec {
                        renewed.extend(role(key));
                    } else if old.table != new.table {
                        rebound.extend(role(key));
                    }
                }
                _ => {}
            }
            touched.insert(key);
        }
        for key in &touched {
            match view.get(key) {
                Some(value) => validate(key, value, view, system)?,
                None => validate_absence(key, view)?,
            }
        }
        if !removed.is_empty() {
            for (key, value) in view.iter() {
                if let Some(need) = needs(key, value).find(|n| removed.contains(n)) {
                    let (what, who) = (need_name(need), name(key));
                    return refuse(format!("{what} cannot be removed: {who} needs it"));
                }
            }
        }
        let mut down: BTreeSet<&Key> = touched.iter().copied().filter(|k| view.get(k).is_none()).collect();
        if !(removed.is_empty() && renewed.is_empty() && rebound.is_empty()) {
            // Others follow what becomes of interfaces: what needs one stands behind it.
            for (key, value) in &self.objects {
                let anew = role(key).is_some_and(|r| renewed.contains(&r))
                    || needs(key, value)
                        .any(|n| renewed.contains(&n) || is_interface(n) && removed.contains(&n))
                    || matches!(key, Key::Addresses(_)) && needs(key, value).any(|n| rebound.contains(&n));
                if anew {
                    renewed.extend(role(key));
                    touched.insert(key);
                    down.insert(key);
                }
            }
            let shaken = |n| renewed.contains(&n) || rebound.contains(&n);
            for (key, value) in view.iter().filter(|(k, v)| needs(k, v).any(shaken)) {
                validate(key, value, view, system)?;
            }
        }
        let (mut lowering, mut raising, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for key in touched {
            let (old, new) = (self.objects.get(key), view.get(key));
            let between = if down.contains(key) { None } else { staying(old, new) };
            let lower = Step { key: key.clone(), from: old.cloned(), to: between.clone() };
            let raise = Step { key: key.clone(), from: between, to: new.cloned() };
            if matches!(key, Key::Table(_)) {
                last.push(lower)
            } else {
                lowering.push(lower)
            }
            raising.push(raise);
        }
        lowering.reverse();
        let all = lowering.into_iter().chain(raising).chain(last);
        Ok(all.filter(|step| step.from != step.to).collect())
    }
}

/// One object from what it is to what it is to be.
pub(super) struct Step {
    key: Key,
    from: Option<Value>,
    to: Option<Value>,
}

impl Step {
    pub(super) fn run(&self, system: &mut System) -> Result<(), Refused> {
        apply(&self.key, self.from.as_ref(), self.to.as_ref(), system)
    }

    fn back(&self, system: &mut System) -> Result<(), Refused> {
        apply(&self.key, self.to.as_ref(), self.from.as_ref(), system)
    }
}

/// What of an object stays while others go.
fn staying(old: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    match (old, new) {
        (Some(Value::Addresses(old)), Some(Value::Addresses(new))) => {
            let stay = address::staying(old, new);
            (!stay.is_empty()).then_some(Value::Addresses(stay))
        }
        (old, _) => old.cloned(),
    }
}

/// Takes back what was done, the last step first.
fn take_back(system: &mut System, done: &[Step], why: Refused) -> Refused {
    let back = |step: &Step| Some(format!("{}: {}", name(&step.key), step.back(system).err()?));
    let failed: Vec<String> = done.iter().rev().filter_map(back).collect();
    if failed.is_empty() {
        return why;
    }
    Refused(format!("{why}; and what was done before could not be taken back: {}", failed.join("; ")))
}

fn is_interface(need: Need<'_>) -> bool {
    matches!(need, Need::Interface(_))
}

/// A key in words.
pub fn name(key: &Key) -> String {
    match key {
        Key::Table(t) => format!("table {t}"),
        Key::NeighborBounds => "the bounds of the table of neighbours".into(),
        Key::Interface(n) | Key::SubInterface(n) => format!("interface {n}"),
        Key::Feature(i, arc, f) => format!("feature {f} of {arc} on {i}"),
        Key::Addresses(i) => format!("the addresses of {i}"),
        Key::Neighbor(i, ip) => format!("neighbor {ip} on {i}"),
        Key::Reassembly(kind) => super::reassembly_name(*kind).to_string(),
        Key::Route(t, p) => format!("route {p} in table {t}"),
    }
}

fn need_name(need: Need<'_>) -> String {
    match need {
        Need::Table(t) => format!("table {t}"),
        Need::Interface(i) => format!("interface {i}"),
    }
}
