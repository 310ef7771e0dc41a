//! Plans: the steps from one tree to another.

use std::collections::{BTreeMap, BTreeSet};

use super::making::Step;
use super::{Edit, Refusal};
use crate::key::{Key, Need};
use crate::object::{Change, Effect, Refused, Snapshot, Value, View, World, others, refuse_as};
use crate::reason::Reason;

/// The steps from one tree to another.
#[derive(Debug)]
pub struct Plan<W> {
    /// The steps, in order.
    pub steps: Vec<Step<W>>,
    /// The changed objects, with their old and new values.
    pub edits: Vec<Edit<W>>,
    /// The tree after the steps.
    pub after: Snapshot<W>,
}

/// The old and the new value of an object, if it has them.
type FromTo<'v, W> = (Option<&'v Value<W>>, Option<&'v Value<W>>);

/// Completes the objects in `wanted`, if some are incomplete. `now` is the current tree.
pub(super) fn complete<W: World>(now: &Snapshot<W>, wanted: Vec<(&Key, &mut Value<W>)>) {
    if wanted.iter().any(|(_, value)| !value.is_complete()) {
        W::complete(now, wanted);
    }
}

impl<W: World> Snapshot<W> {
    /// Returns the plan that turns this tree into `after`. First completes the incomplete objects of `after`. Then calls `admit`
    /// with the number of changes; `admit` may refuse the plan.
    ///
    /// # Errors
    /// Returns the first fault.
    pub fn plan(
        &self,
        mut after: Snapshot<W>,
        abilities: &W::Abilities,
        admit: impl FnOnce(usize) -> Result<(), Refused>,
    ) -> Result<Plan<W>, Refusal> {
        after.complete(self);
        debug_assert_eq!(after.out_of_order(), None, "an object comes before one that it needs");
        let changes = self.diff(after.tree());
        admit(changes.len()).map_err(|why| Refusal { key: None, why })?;
        let changed = changes.iter().map(|c| (&c.key, c.value.as_ref()));
        let steps = self.steps(changed, &after.view(), abilities)?;
        let edit = |c: Change<W>| Edit { old: self.tree().get(&c.key).cloned(), key: c.key, new: c.value };
        Ok(Plan { steps, edits: changes.into_iter().map(edit).collect(), after })
    }

    /// Checks the changes, and returns the steps that make them. `view` is the tree after the changes. The first steps remove objects, also
    /// those to recreate, in reverse order of dependency. The next steps create and change objects. The last steps remove objects of kinds
    /// that are removed at the very end: until then, other objects can be changed so that they no longer need such an object.
    pub(super) fn steps<'c>(
        &'c self,
        changes: impl Iterator<Item = (&'c Key, Option<&'c Value<W>>)>,
        view: &View<'c, W>,
        abilities: &W::Abilities,
    ) -> Result<Vec<Step<W>>, Refusal> {
        let about = |key: &Key| {
            let key = key.clone();
            move |why| Refusal { key: Some(key), why }
        };
        // Keeps the old and new values, because looking them up again takes time, and there may be very many.
        let mut touched: Vec<(&Key, FromTo<'_, W>)> = Vec::new();
        let mut found = Shaken::default();
        for (key, new) in changes {
            let old = self.tree().get(key);
            match (old, new) {
                (None, None) => {
                    return refuse_as(Reason::NotThere, format!("{key} does not exist")).map_err(about(key));
                }
                (old, new) if old == new => continue,
                (old, new) => found.note(key, old, new),
            }
            touched.push((key, (old, new)));
        }
        for (key, (old, new)) in &touched {
            match (old, new) {
                (_, Some(value)) => value.validate(key, view, abilities),
                (Some(value), None) => value.validate_absence(key, view),
                (None, None) => Ok(()),
            }
            .map_err(about(key))?;
        }
        found.check_removed(view)?;
        let mut down: BTreeSet<&Key> =
            touched.iter().filter(|(_, (_, new))| new.is_none()).map(|(key, _)| *key).collect();
        let mut touched: BTreeMap<&Key, FromTo<'_, W>> = touched.into_iter().collect();
        if !found.is_empty() {
            self.follow(&mut found, view, &mut touched, &mut down);
            let shaken = found.renewed.union(&found.moved).cloned().collect();
            for (key, value) in view.needing(&shaken) {
                value.validate(key, view, abilities).map_err(about(key))?;
            }
        }
        Ok(ordered(touched, &down))
    }

    /// Adds the objects that must be recreated because an object that they need is removed, recreated or moved. One pass in key order finds
    /// all of them, because each object comes after the objects that it needs.
    fn follow<'c>(
        &'c self,
        found: &mut Shaken,
        view: &View<'c, W>,
        touched: &mut BTreeMap<&'c Key, FromTo<'c, W>>,
        down: &mut BTreeSet<&'c Key>,
    ) {
        let mut look = |found: &mut Shaken, key: &'c Key, value: &'c Value<W>| {
            let moves = key.kind().moves;
            let anew = key.role().is_some_and(|role| found.renewed.contains(&role))
                || value.needs_any(key, |need| {
                    found.renewed.contains(need)
                        || found.gone.contains(need)
                        || moves && found.moved.contains(need)
                });
            if anew {
                found.renewed.extend(key.role());
                touched.entry(key).or_insert_with(|| (Some(value), view.get(key)));
                down.insert(key);
            }
        };
        for (key, value) in self.tree().range(others()) {
            look(found, key, value);
        }
        // Of kinds with potentially many objects, check only objects that may need a removed one.
        let goes = found.gone.union(&found.renewed).cloned().collect();
        for (key, value) in self.places(&goes).into_iter().flat_map(|places| self.tree().range(places)) {
            look(found, key, value);
        }
    }
}

/// The changed objects that other objects may need, by the kind of change.
#[derive(Default)]
struct Shaken {
    removed: BTreeSet<Need>,
    /// Removed objects, except those that are removed at the very end.
    gone: BTreeSet<Need>,
    renewed: BTreeSet<Need>,
    moved: BTreeSet<Need>,
}

impl Shaken {
    /// True if the changes affect no other object. Assumes that no object needs a removed object.
    fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.renewed.is_empty() && self.moved.is_empty()
    }

    /// Notes the change of an object from `old` to `new`.
    fn note<W: World>(&mut self, key: &Key, old: Option<&Value<W>>, new: Option<&Value<W>>) {
        match (old, new) {
            (Some(old), Some(new)) => match new.effect(old) {
                Effect::Stays => {}
                Effect::Anew => self.renewed.extend(key.role()),
                Effect::Moved => self.moved.extend(key.role()),
            },
            (Some(_), None) => {
                if !key.kind().last {
                    self.gone.extend(key.role());
                }
                self.removed.extend(key.role());
            }
            _ => {}
        }
    }

    /// Refuses the removal of an object that another one still needs.
    fn check_removed<W: World>(&self, view: &View<'_, W>) -> Result<(), Refusal> {
        if self.removed.is_empty() {
            return Ok(());
        }
        let Some((key, value)) = view.needing(&self.removed).next() else { return Ok(()) };
        let mut what = None;
        value.needs(key, &mut |need| {
            if self.removed.contains(&need) {
                what.get_or_insert(need);
            }
        });
        let what = what.map_or_else(String::new, |need| need.to_string());
        let why = Refused::new(format!("{what} cannot be removed: {key} needs it")).because(Reason::InUse);
        Err(Refusal { key: Some(key.clone()), why })
    }
}

/// Returns the steps that make the changes. The first steps, in reverse order of the keys, remove objects, and reduce changed objects to
/// their [staying](crate::object::Object::staying) values. The next steps set the new values. The last steps remove the objects of kinds
/// that are removed at the very end. An object in `down` is removed, and created again if it has a new value.
fn ordered<W: World>(touched: BTreeMap<&Key, FromTo<'_, W>>, down: &BTreeSet<&Key>) -> Vec<Step<W>> {
    let (mut lowering, mut raising, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (key, (old, new)) in touched {
        let between = match (old, new) {
            _ if down.contains(key) => None,
            (Some(old), Some(new)) => old.staying(new),
            (old, _) => old.cloned(),
        };
        let lower = Step { key: key.clone(), from: old.cloned(), to: between.clone() };
        let raise = Step { key: key.clone(), from: between, to: new.cloned() };
        if key.kind().last {
            last.push(lower)
        } else {
            lowering.push(lower)
        }
        raising.push(raise);
    }
    lowering.reverse();
    let all = lowering.into_iter().chain(raising).chain(last);
    all.filter(|step| step.from != step.to).collect()
}
