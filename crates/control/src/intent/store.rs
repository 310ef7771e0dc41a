//! The tree, and transactions on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use drivers::pcap::Replay;

use super::index::{self, Changed, Index, Layers};
use super::{
    Abilities, Key, Need, Refused, Spec, Tree, Value, address, apply, needs, refuse, role, route, validate,
    validate_absence,
};
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

/// A tree and what finds its objects, as they are at some moment. To make one takes no time, however large it is; while
/// there is another one, a change of the store makes a copy of all.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    tree: Arc<Tree>,
    index: Arc<Index>,
}

/// What the operator asked for.
#[derive(Default)]
pub struct Store {
    now: Snapshot,
    version: u64,
}

/// Why a transaction was refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The object that it is about, if it is one.
    pub key: Option<Key>,
    /// What is wrong.
    pub why: Refused,
}

/// The tree as it would be after a transaction.
pub struct View<'s> {
    objects: &'s Tree,
    changes: BTreeMap<&'s Key, Option<&'s Value>>,
    /// Finds objects without a look at all of them.
    pub(super) index: Layers<'s>,
}

impl<'s> View<'s> {
    /// The tree without changes.
    pub(super) fn of(objects: &'s Tree, index: &'s Index) -> View<'s> {
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

    /// The objects that need one of these. Routes that need none are not looked at: there may be very many.
    pub(super) fn needing<'n>(
        &self,
        wanted: &'n BTreeSet<Need<'n>>,
    ) -> impl Iterator<Item = (&'s Key, &'s Value)> {
        let tables = route_tables(wanted, |n| self.index.has_exit(n));
        let routes = tables.into_iter().flat_map(|tables| self.range(route::all(tables)));
        let all = self.range(others()).chain(routes);
        all.filter(|(key, value)| needs(key, value).any(|n| wanted.contains(&n)))
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
        self.now.tree.get(key)
    }

    /// The interface or sub-interface with this name.
    pub fn interface(&self, name: &str) -> Option<&super::Interface> {
        index::interface(name, |key| self.get(key))
    }

    /// A tree that nobody has applied.
    #[cfg(test)]
    pub(crate) fn of(tree: Tree) -> Store {
        Store { now: Snapshot::of(tree), version: 0 }
    }

    /// Every object.
    pub fn tree(&self) -> &Tree {
        &self.now.tree
    }

    /// Every object in order of dependency.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.now.tree.iter()
    }

    /// The objects behind one, which need not be there; `None`: all.
    pub fn behind(&self, key: Option<&Key>) -> impl Iterator<Item = (&Key, &Value)> {
        let first = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.now.tree.range::<Key, _>((first, Bound::Unbounded))
    }

    /// How many transactions have changed something.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The tree as it is now, to be looked at elsewhere.
    pub fn snapshot(&self) -> Snapshot {
        self.now.clone()
    }

    /// The changes that would make this tree the `wanted` one.
    pub fn diff(&self, wanted: &Tree) -> Vec<Change> {
        self.now.diff(wanted)
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
        let mut changes: BTreeMap<Key, Option<Value>> =
            changes.into_iter().map(|c| (c.key, c.value)).collect();
        self.now.number(changes.iter_mut().map(|(key, value)| (key, value.as_mut())));
        let view = self.now.view().with(changes.iter().map(|(k, v)| (k, v.as_ref())).collect());
        let changed = view.changes.iter().map(|(key, new)| (*key, *new));
        let steps = self.now.steps(changed, &view, &system.abilities).map_err(|refusal| refusal.why)?;
        let found = view.index.changed;
        let changed = !steps.is_empty();
        let mut making = Making::begin(steps, system);
        while making.go_on_by(system, &mut run) {}
        system.end();
        making.end().map_err(|refusal| refusal.why)?;
        self.version += u64::from(changed);
        Arc::make_mut(&mut self.now.index).replace(found);
        let tree = Arc::make_mut(&mut self.now.tree);
        for (key, value) in changes {
            match value {
                Some(value) => tree.insert(key, value),
                None => tree.remove(&key),
            };
        }
        Ok(())
    }

    /// The steps of a plan were made: what it led to is what there is. Gives what there was; to drop it takes as long as
    /// it is large.
    pub fn arrive(&mut self, at: Snapshot) -> Snapshot {
        self.version += 1;
        std::mem::replace(&mut self.now, at)
    }
}

/// What an object is, and what it is to be.
type FromTo<'v> = (Option<&'v Value>, Option<&'v Value>);

/// How one tree becomes another.
#[derive(Debug)]
pub struct Plan {
    /// What has to be done, in order.
    pub steps: Vec<Step>,
    /// The objects that change, as they are before.
    pub before: Vec<(Key, Option<Value>)>,
    /// What is there afterwards.
    pub after: Snapshot,
}

impl Snapshot {
    /// This tree.
    pub fn of(tree: Tree) -> Snapshot {
        Snapshot { index: Arc::new(Index::of(&tree)), tree: Arc::new(tree) }
    }

    /// Every object.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The interfaces that have an index.
    pub fn numbered(&self) -> impl Iterator<Item = &Key> {
        let numbered = |(_, v): &(&Key, &Value)| matches!(v, Value::Interface(i) if i.index.is_some());
        self.tree.range(interfaces()).filter(numbered).map(|(key, _)| key)
    }

    /// Whether every interface has an index.
    fn is_numbered(&self) -> bool {
        self.tree.range(interfaces()).all(|(_, v)| !matches!(v, Value::Interface(i) if i.index.is_none()))
    }

    /// The tree without changes.
    pub fn view(&self) -> View<'_> {
        View::of(&self.tree, &self.index)
    }

    /// The object and all that cannot be without it, directly or not.
    pub fn with_dependents(&self, key: &Key) -> Vec<Key> {
        let (mut all, gone) = self.with_others(key);
        for tables in route_tables(&gone, |n| self.index.has_exit(n)) {
            let routes = self.tree.range(route::all(tables));
            let needing = routes.filter(|(key, value)| needs(key, value).any(|n| gone.contains(&n)));
            all.extend(needing.map(|(key, _)| key.clone()));
        }
        all
    }

    /// The same without routes, and what they would be without.
    fn with_others<'s>(&'s self, key: &'s Key) -> (Vec<Key>, BTreeSet<Need<'s>>) {
        let mut all = vec![key.clone()];
        let mut gone: BTreeSet<Need<'_>> = role(key).into_iter().collect();
        // What needs an object stands behind it, and nothing needs a route.
        for (key, value) in self.tree.range(others()) {
            if needs(key, value).any(|n| gone.contains(&n)) {
                gone.extend(role(key));
                all.push(key.clone());
            }
        }
        (all, gone)
    }

    /// Whether more than so many objects may have to be looked at, or to go, with this one.
    pub fn has_many_dependents(&self, key: &Key, many: usize) -> bool {
        if self.tree.len() <= many {
            return false;
        }
        let (all, gone) = self.with_others(key);
        all.len() > many || !route_tables(&gone, |n| self.index.has_exit(n)).is_empty()
    }

    /// The tree without an object and all that cannot be without it.
    pub fn without(&self, key: &Key) -> Snapshot {
        let mut tree = Tree::clone(&self.tree);
        for key in self.with_dependents(key) {
            tree.remove(&key);
        }
        Snapshot::of(tree)
    }

    /// The changes that would make this tree the `wanted` one.
    pub fn diff(&self, wanted: &Tree) -> Vec<Change> {
        let gone = self.tree.keys().filter(|k| !wanted.contains_key(k)).cloned().map(Change::remove);
        let new = wanted.iter().filter(|(k, v)| self.tree.get(k) != Some(v));
        gone.chain(new.map(|(k, v)| Change::set(k.clone(), v.clone()))).collect()
    }

    /// What is wrong with the tree as a whole: each object that cannot be as it says, and why.
    pub fn faults(&self, abilities: &Abilities) -> Vec<(&Key, Refused)> {
        let view = self.view();
        let fault = |(key, value)| Some((key, validate(key, value, &view, abilities).err()?));
        self.tree.iter().filter_map(fault).collect()
    }

    /// Gives indices to those of the interfaces that say none: what they have here, or else the lowest that is free, in
    /// their order. Gives all of them.
    fn number<'c>(
        &self,
        changes: impl Iterator<Item = (&'c Key, Option<&'c mut Value>)>,
    ) -> Vec<(u32, String)> {
        let changed = |(key, value): (&'c Key, Option<&'c mut Value>)| match (key, value) {
            (Key::Interface(name) | Key::SubInterface(name), Some(Value::Interface(i))) => {
                Some((name.as_str(), &mut **i))
            }
            _ => None,
        };
        let has = |name: &str| index::interface(name, |key| self.tree.get(key)).and_then(|i| i.index);
        self.index.number(changes.filter_map(changed).collect(), has)
    }

    /// How this tree becomes the other one, whose interfaces get their indices.
    ///
    /// # Errors
    /// The first fault found.
    pub fn plan(&self, mut after: Snapshot, abilities: &Abilities) -> Result<Plan, Refusal> {
        if !after.is_numbered() {
            let interfaces =
                Arc::make_mut(&mut after.tree).range_mut(interfaces()).map(|(k, v)| (k, Some(v)));
            let numbers = Snapshot::number(self, interfaces);
            Arc::make_mut(&mut after.index).add_numbers(numbers);
        }
        let changes = self.diff(&after.tree);
        let changed = changes.iter().map(|c| (&c.key, c.value.as_ref()));
        let steps = self.steps(changed, &after.view(), abilities)?;
        let before = changes.into_iter().map(|c| (self.tree.get(&c.key).cloned(), c.key));
        Ok(Plan { steps, before: before.map(|(old, key)| (key, old)).collect(), after })
    }

    /// Checks the changes against the tree as it would be, which is `view`, and gives the steps that make them: first
    /// down, in reverse order of dependency, what goes or has to be made anew; then up what comes or changes; VRFs,
    /// which others may leave without being made anew, go last.
    fn steps<'c>(
        &'c self,
        changes: impl Iterator<Item = (&'c Key, Option<&'c Value>)>,
        view: &View<'c>,
        abilities: &Abilities,
    ) -> Result<Vec<Step>, Refusal> {
        let about = |key: &Key| {
            let key = key.clone();
            move |why| Refusal { key: Some(key), why }
        };
        // Each with what it is and what it is to be: there may be very many, and to look for one takes its time.
        let mut touched: Vec<(&Key, FromTo<'_>)> = Vec::new();
        let (mut removed, mut renewed, mut rebound) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (key, new) in changes {
            let old = self.tree.get(key);
            match (old, new) {
                (None, None) => {
                    return refuse(format!("there is nothing to remove: {}", name(key))).map_err(about(key));
                }
                (old, new) if old == new => continue,
                (Some(_), None) => removed.extend(role(key)),
                (Some(Value::Interface(old)), Some(Value::Interface(new))) => {
                    let stays = old.spec == new.spec || new.spec.takes_over(&old.spec);
                    if !stays || old.index != new.index {
                        renewed.extend(role(key));
                    } else if old.table != new.table {
                        rebound.extend(role(key));
                    }
                }
                // What is on it has to be made anew.
                (Some(Value::MemifSocket(_)), Some(Value::MemifSocket(_))) => renewed.extend(role(key)),
                _ => {}
            }
            touched.push((key, (old, new)));
        }
        for (key, (_, new)) in &touched {
            match new {
                Some(value) => validate(key, value, view, abilities),
                None => validate_absence(key, view),
            }
            .map_err(about(key))?;
        }
        if !removed.is_empty()
            && let Some((key, value)) = view.needing(&removed).next()
            && let Some(need) = needs(key, value).find(|n| removed.contains(n))
        {
            let (what, who) = (need_name(need), name(key));
            return refuse(format!("{what} cannot be removed: {who} needs it")).map_err(about(key));
        }
        let mut down: BTreeSet<&Key> =
            touched.iter().filter(|(_, (_, new))| new.is_none()).map(|(key, _)| *key).collect();
        let mut touched: BTreeMap<&Key, FromTo<'_>> = touched.into_iter().collect();
        if !(removed.is_empty() && renewed.is_empty() && rebound.is_empty()) {
            // Others follow what becomes of interfaces: what needs one stands behind it.
            let named = |all: &BTreeSet<Need<'_>>| all.iter().any(|n| self.index.has_exit(*n));
            for places in [others(), route::all(0..=u16::MAX)] {
                // Routes that name none of them are not looked at.
                if matches!(places.start(), Key::Route(..)) && !named(&removed) && !named(&renewed) {
                    break;
                }
                for (key, value) in self.tree.range(places) {
                    let anew = role(key).is_some_and(|r| renewed.contains(&r))
                        || needs(key, value)
                            .any(|n| renewed.contains(&n) || is_interface(n) && removed.contains(&n))
                        || matches!(key, Key::Addresses(_))
                            && needs(key, value).any(|n| rebound.contains(&n));
                    if anew {
                        renewed.extend(role(key));
                        touched.entry(key).or_insert_with(|| (Some(value), view.get(key)));
                        down.insert(key);
                    }
                }
            }
            let shaken = renewed.union(&rebound).copied().collect();
            for (key, value) in view.needing(&shaken) {
                validate(key, value, view, abilities).map_err(about(key))?;
            }
        }
        let (mut lowering, mut raising, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for (key, (old, new)) in touched {
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

impl Plan {
    /// The interfaces that go and come again.
    pub fn made_anew(&self) -> impl Iterator<Item = &str> {
        let interfaces =
            self.steps.iter().filter(|step| step.to.is_none()).filter_map(|step| match &step.key {
                Key::Interface(name) | Key::SubInterface(name) => Some((&step.key, name.as_str())),
                _ => None,
            });
        interfaces.filter(|(key, _)| self.after.tree.contains_key(key)).map(|(_, name)| name)
    }

    /// The interfaces that stay while their devices are opened anew.
    pub fn opened_anew(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match (&step.key, &step.from, &step.to) {
            (Key::Interface(name), Some(Value::Interface(old)), Some(Value::Interface(new)))
                if old.spec != new.spec =>
            {
                Some(name.as_str())
            }
            _ => None,
        })
    }

    /// The devices that are made of files which are replayed.
    pub fn replays(&self) -> impl Iterator<Item = (&Key, &Replay)> {
        self.steps.iter().filter(|step| step.from.is_none()).filter_map(|step| match &step.to {
            Some(Value::Interface(i)) => match &i.spec {
                Spec::Pcap(_, config) => Some((&step.key, config.replay.as_ref()?)),
                _ => None,
            },
            _ => None,
        })
    }
}

/// One object from what it is to what it is to be.
#[derive(Debug)]
pub struct Step {
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

/// Steps that are being made, one at a time; when one fails, those before it are taken back, the last one first.
#[derive(Debug)]
pub struct Making {
    steps: Vec<Step>,
    done: usize,
    /// Why those done are being taken back.
    failed: Option<Refusal>,
    /// What could not be taken back.
    stuck: Vec<String>,
}

impl Making {
    /// Begins with the first of these steps.
    pub fn begin(steps: Vec<Step>, system: &mut System) -> Making {
        system.begin();
        Making { steps, done: 0, failed: None, stuck: Vec::new() }
    }

    /// Makes one step, or takes one back. Returns whether there is more to do.
    pub fn go_on(&mut self, system: &mut System) -> bool {
        let more = self.go_on_by(system, &mut |step, system| step.run(system));
        if !more {
            system.end();
        }
        more
    }

    fn go_on_by(
        &mut self,
        system: &mut System,
        run: &mut impl FnMut(&Step, &mut System) -> Result<(), Refused>,
    ) -> bool {
        if self.failed.is_some() {
            let Some(last) = self.done.checked_sub(1) else { return false };
            self.done = last;
            if let Some(step) = self.steps.get(last)
                && let Err(e) = step.back(system)
            {
                self.stuck.push(format!("{}: {e}", name(&step.key)));
            }
            return last > 0;
        }
        let Some(step) = self.steps.get(self.done) else { return false };
        match run(step, system) {
            Ok(()) => self.done += 1,
            Err(why) => self.failed = Some(Refusal { key: Some(step.key.clone()), why }),
        }
        if self.failed.is_some() { self.done > 0 } else { self.done < self.steps.len() }
    }

    /// From here on it goes back, if it does not already.
    pub fn turn_back(&mut self, why: Refused) {
        self.failed.get_or_insert(Refusal { key: None, why });
    }

    /// Whether it goes back.
    pub fn goes_back(&self) -> bool {
        self.failed.is_some()
    }

    /// How many of how many steps are made.
    pub fn progress(&self) -> (usize, usize) {
        (self.done, self.steps.len())
    }

    /// What has become of it, when there is nothing more to do. To drop it then takes as long as there were steps.
    ///
    /// # Errors
    /// Why all was taken back, and what of it could not be.
    pub fn end(&mut self) -> Result<(), Refusal> {
        let Some(Refusal { key, why }) = self.failed.take() else { return Ok(()) };
        if self.stuck.is_empty() {
            return Err(Refusal { key, why });
        }
        let stuck = self.stuck.join("; ");
        let why = Refused(format!("{why}; and what was done before could not be taken back: {stuck}"));
        Err(Refusal { key, why })
    }
}

/// Where interfaces and sub-interfaces are in a tree.
fn interfaces() -> RangeInclusive<Key> {
    // No name has a character behind the last one that there is.
    Key::Interface(String::new())..=Key::SubInterface(char::MAX.to_string())
}

/// Where all but the routes are in a tree.
fn others() -> RangeInclusive<Key> {
    Key::Table(0)..=Key::Neighbor(char::MAX.to_string(), address::LAST)
}

/// The VRFs whose routes may need one of these: all of them, if some do otherwise than by being in one.
fn route_tables(
    wanted: &BTreeSet<Need<'_>>,
    has_exit: impl Fn(Need<'_>) -> bool,
) -> Vec<RangeInclusive<u16>> {
    let table = |need: &Need<'_>| if let Need::Table(t) = need { Some(*t..=*t) } else { None };
    match wanted.iter().any(|n| has_exit(*n)) {
        true => vec![0..=u16::MAX],
        false => wanted.iter().filter_map(table).collect(),
    }
}

/// Whether the indices of the interfaces are those that they would get anyway, were they made one by one in their order.
pub fn in_order(tree: &Tree) -> bool {
    (0..).zip(tree.range(interfaces())).all(|(n, (_, value))| match value {
        Value::Interface(i) => i.index.is_none_or(|index| index == n),
        _ => true,
    })
}

fn is_interface(need: Need<'_>) -> bool {
    matches!(need, Need::Interface(_))
}

/// A key in words.
pub fn name(key: &Key) -> String {
    match key {
        Key::Table(t) => format!("table {t}"),
        Key::PuntRate(reason) => format!("the rate of packets to the main thread for {reason}"),
        Key::MemifSocket(id) => format!("memif socket {id}"),
        Key::NeighborBounds(f) => format!("the bounds of the table of {} neighbours", f.name()),
        Key::Interface(n) | Key::SubInterface(n) => format!("interface {n}"),
        Key::Feature(i, arc, f) => format!("feature {f} of {arc} on {i}"),
        Key::Unnumbered(i) => format!("the addresses that {i} uses"),
        Key::Addresses(i) => format!("the addresses of {i}"),
        Key::Neighbor(i, ip) => format!("neighbor {ip} on {i}"),
        Key::Reassembly(kind) => kind.name().to_string(),
        Key::Route(t, p) => format!("route {p} in table {t}"),
    }
}

fn need_name(need: Need<'_>) -> String {
    match need {
        Need::Table(t) => format!("table {t}"),
        Need::MemifSocket(id) => format!("memif socket {id}"),
        Need::Interface(i) => format!("interface {i}"),
    }
}
