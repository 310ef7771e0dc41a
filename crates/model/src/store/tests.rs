//! A small world for tests: shelves, boxes on shelves, labels on boxes, and very many things in boxes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::key::{Kind, MANY, Need, Role};
use crate::object::{Effect, Fact, Get, Object, View, refuse};
use crate::origin::Origin;
use crate::tuple::Tuple;

static SHELF: Role = Role { name: "shelf", title: |id| format!("shelf {}", id.get::<u8>().unwrap_or(0)) };
static BOX: Role = Role { name: "box", title: |id| format!("box {}", id.get::<u8>().unwrap_or(0)) };

/// The contents of a room. A box needs its shelf; labels and things need their boxes. A shelf or box that is needed cannot be removed.
#[derive(Clone, Debug, Default, PartialEq)]
struct Room {
    shelves: BTreeSet<u8>,
    /// Boxes, each with its shelf.
    boxes: BTreeMap<u8, u8>,
    /// Labels, each with the shelf of the box when the label was glued on.
    labels: BTreeMap<u8, (String, u8)>,
    things: BTreeMap<(u8, u8), Option<u8>>,
}

impl World for Room {
    type Abilities = ();

    fn abilities(&self) -> Arc<()> {
        Arc::new(())
    }
    fn begin(&mut self) {}
    fn end(&mut self) {}

    /// Gives a label without a text the name of its box.
    fn complete(_: &Snapshot<Room>, wanted: Vec<(&Key, &mut Value<Room>)>) {
        for (key, value) in wanted {
            if let (Some(number), Some(label)) = (key.get::<Label>(), value.get_mut::<Label>())
                && label.0.is_empty()
            {
                label.0 = format!("box {number}");
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Shelf;
/// A box: the number of its shelf, and its material. A change of the material recreates the box.
#[derive(Clone, Debug, PartialEq)]
struct Crate(u8, u8);
#[derive(Clone, Debug, PartialEq)]
struct Label(String);
/// A thing in a box, and the number of another box on which it leans, if any.
#[derive(Clone, Debug, PartialEq)]
struct Thing(Option<u8>);

impl Kind for Shelf {
    type Key = u8;
    const NAME: &'static str = "shelf";
    const PHASE: u16 = 1;
    const LAST: bool = true;
    fn title(n: &u8) -> String {
        format!("shelf {n}")
    }
    fn role(n: &u8) -> Option<Need> {
        Some(Need::new(&SHELF, n))
    }
}

impl Object<Room> for Shelf {
    fn validate(&self, n: &u8, _: &View<'_, Room>, _: &()) -> Result<(), Refused> {
        if *n == 0 { refuse("shelf 0 is the floor") } else { Ok(()) }
    }
    fn apply(&self, n: &u8, _: Option<&Self>, room: &mut Room) -> Result<(), Refused> {
        room.shelves.insert(*n);
        Ok(())
    }
    fn withdraw(&self, n: &u8, room: &mut Room) -> Result<(), Refused> {
        assert!(room.boxes.values().all(|shelf| shelf != n), "a box falls");
        assert!(room.shelves.remove(n));
        Ok(())
    }
    fn dump(&self, n: &u8, _: bool) -> Vec<String> {
        vec![format!("shelf {n}")]
    }
}

impl Kind for Crate {
    type Key = u8;
    const NAME: &'static str = "box";
    const PHASE: u16 = 2;
    fn title(n: &u8) -> String {
        format!("box {n}")
    }
    fn role(n: &u8) -> Option<Need> {
        Some(Need::new(&BOX, n))
    }
}

impl Object<Room> for Crate {
    fn validate(&self, _: &u8, view: &View<'_, Room>, _: &()) -> Result<(), Refused> {
        match view.get(&Key::of::<Shelf>(&self.0)) {
            Some(_) => Ok(()),
            None => refuse(format!("there is no shelf {}", self.0)),
        }
    }
    fn apply(&self, n: &u8, old: Option<&Self>, room: &mut Room) -> Result<(), Refused> {
        assert!(room.shelves.contains(&self.0), "no shelf");
        assert!(old.is_none_or(|old| old.1 == self.1), "wood does not become paper");
        room.boxes.insert(*n, self.0);
        Ok(())
    }
    fn withdraw(&self, n: &u8, room: &mut Room) -> Result<(), Refused> {
        assert!(!room.labels.contains_key(n) && room.boxes.remove(n).is_some());
        let leans = |((within, _), on): (&(u8, u8), &Option<u8>)| within == n || *on == Some(*n);
        assert!(!room.things.iter().any(leans), "things fall");
        Ok(())
    }
    fn dump(&self, n: &u8, _: bool) -> Vec<String> {
        vec![format!("box {n}")]
    }
    fn needs(&self, _: &u8, to: &mut dyn FnMut(Need)) {
        to(Need::new(&SHELF, self.0));
    }
    fn effect(&self, old: &Self) -> Effect {
        match (self.1 == old.1, self.0 == old.0) {
            (false, _) => Effect::Anew,
            (true, false) => Effect::Moved,
            _ => Effect::Stays,
        }
    }
    fn touches(n: &u8) -> Option<Key> {
        Some(Key::of::<Label>(n))
    }
}

impl Kind for Label {
    type Key = u8;
    const NAME: &'static str = "label";
    const PHASE: u16 = 3;
    const MOVES: bool = true;
    fn title(n: &u8) -> String {
        format!("the label of box {n}")
    }
}

/// Index of the labels, by the shelf of their box and by their text.
const LABELS: &str = "label";

impl Object<Room> for Label {
    /// Two boxes on the same shelf must have different labels.
    fn validate(&self, n: &u8, view: &View<'_, Room>, _: &()) -> Result<(), Refused> {
        let stands = view.get(&Key::of::<Crate>(n)).and_then(|value| value.get::<Crate>());
        let Some(Crate(shelf, _)) = stands else { return refuse(format!("there is no box {n}")) };
        match view.found::<u8>(LABELS, Tuple::of(&(shelf, &self.0))).find(|other| other != n) {
            Some(other) => refuse(format!("box {other} on shelf {shelf} is \"{}\" already", self.0)),
            None => Ok(()),
        }
    }
    fn apply(&self, n: &u8, _: Option<&Self>, room: &mut Room) -> Result<(), Refused> {
        let shelf = room.boxes[n];
        room.labels.insert(*n, (self.0.clone(), shelf));
        Ok(())
    }
    fn withdraw(&self, n: &u8, room: &mut Room) -> Result<(), Refused> {
        assert!(room.labels.remove(n).is_some());
        Ok(())
    }
    fn dump(&self, n: &u8, _: bool) -> Vec<String> {
        vec![format!("label {n} {}", self.0)]
    }
    fn needs(&self, n: &u8, to: &mut dyn FnMut(Need)) {
        to(Need::new(&BOX, n));
    }
    fn facts(&self, n: &u8, get: Get<'_, Room>, to: &mut dyn FnMut(Fact)) {
        if let Some(Crate(shelf, _)) = get(&Key::of::<Crate>(n)).and_then(|value| value.get()) {
            to(Fact::new(LABELS, (shelf, &self.0, n)));
        }
    }
    fn is_complete(&self) -> bool {
        !self.0.is_empty()
    }
}

impl Kind for Thing {
    type Key = (u8, u8);
    const NAME: &'static str = "thing";
    const PHASE: u16 = MANY;
    const CONTAINER: Option<&'static Role> = Some(&BOX);
    fn title((n, thing): &(u8, u8)) -> String {
        format!("thing {thing} in box {n}")
    }
}

impl Object<Room> for Thing {
    fn validate(&self, (n, _): &(u8, u8), view: &View<'_, Room>, _: &()) -> Result<(), Refused> {
        for n in [Some(*n), self.0].into_iter().flatten() {
            if view.get(&Key::of::<Crate>(&n)).is_none() {
                return refuse(format!("there is no box {n}"));
            }
        }
        Ok(())
    }
    fn apply(&self, key: &(u8, u8), _: Option<&Self>, room: &mut Room) -> Result<(), Refused> {
        assert!(room.boxes.contains_key(&key.0) && self.0.is_none_or(|on| room.boxes.contains_key(&on)));
        room.things.insert(*key, self.0);
        Ok(())
    }
    fn withdraw(&self, key: &(u8, u8), room: &mut Room) -> Result<(), Refused> {
        assert!(room.things.remove(key).is_some());
        Ok(())
    }
    fn dump(&self, (n, thing): &(u8, u8), _: bool) -> Vec<String> {
        vec![format!("thing {thing} {n}")]
    }
    fn needs(&self, (n, _): &(u8, u8), to: &mut dyn FnMut(Need)) {
        to(Need::new(&BOX, n));
        self.0.map(|on| Need::new(&BOX, on)).into_iter().for_each(to);
    }
    fn alike((n, _): &(u8, u8), (other, _): &(u8, u8)) -> bool {
        n == other
    }
}

/// The cover of a box. Its phase is wrong: lower than that of the box, which the cover needs.
#[derive(Clone, Debug, PartialEq)]
struct Cover;

impl Kind for Cover {
    type Key = u8;
    const NAME: &'static str = "cover";
    const PHASE: u16 = 0;
    fn title(n: &u8) -> String {
        format!("the cover of box {n}")
    }
}

impl Object<Room> for Cover {
    fn validate(&self, _: &u8, _: &View<'_, Room>, _: &()) -> Result<(), Refused> {
        Ok(())
    }
    fn apply(&self, _: &u8, _: Option<&Self>, _: &mut Room) -> Result<(), Refused> {
        Ok(())
    }
    fn withdraw(&self, _: &u8, _: &mut Room) -> Result<(), Refused> {
        Ok(())
    }
    fn dump(&self, n: &u8, _: bool) -> Vec<String> {
        vec![format!("cover {n}")]
    }
    fn needs(&self, n: &u8, to: &mut dyn FnMut(Need)) {
        to(Need::new(&BOX, n));
    }
}

#[test]
fn a_kind_before_one_that_it_needs_is_found() {
    let mut tree = Tree::new();
    tree.insert(Key::of::<Shelf>(&1), Shelf.into());
    tree.insert(Key::of::<Crate>(&2), Crate(1, 0).into());
    assert_eq!(Snapshot::of(tree.clone()).out_of_order(), None);
    let (cover, on) = (Key::of::<Cover>(&2), Key::of::<Crate>(&2));
    tree.insert(cover.clone(), Cover.into());
    assert_eq!(Snapshot::of(tree).out_of_order(), Some((&cover, &on)));
}

fn object() -> impl Strategy<Value = (Key, Value<Room>)> {
    let (shelf, box_number) = (0u8..3, 0u8..4);
    prop_oneof![
        2 => shelf.clone().prop_map(|n| (Key::of::<Shelf>(&n), Value::from(Shelf))),
        3 => (box_number.clone(), shelf, 0u8..2)
            .prop_map(|(n, shelf, made_of)| (Key::of::<Crate>(&n), Value::from(Crate(shelf, made_of)))),
        2 => (box_number.clone(), prop::sample::select(vec!["", "a", "b"]))
            .prop_map(|(n, words)| (Key::of::<Label>(&n), Value::from(Label(words.into())))),
        3 => (box_number.clone(), 0u8..3, prop::option::of(box_number))
            .prop_map(|(n, thing, on)| (Key::of::<Thing>(&(n, thing)), Value::from(Thing(on)))),
    ]
}

type Step = Vec<((Key, Value<Room>), bool)>;

fn step() -> impl Strategy<Value = Step> {
    prop::collection::vec((object(), prop::bool::weighted(0.9)), 1..4)
}

fn changes(step: &Step) -> Vec<Change<Room>> {
    step.iter()
        .map(|((key, value), set)| Change { key: key.clone(), value: set.then(|| value.clone()) })
        .collect()
}

/// Returns the room and its store after the steps. Steps that are refused must change nothing.
fn walked(steps: &[Step]) -> Result<(Room, Store<Room>), TestCaseError> {
    let (mut room, mut store) = (Room::default(), Store::default());
    for step in steps {
        let (before, had) = (room.clone(), store.tree().clone());
        if store.transact(&mut room, changes(step)).is_err() {
            prop_assert_eq!(&room, &before);
            prop_assert!(*store.tree() == had);
        }
        prop_assert!(store.snapshot().is_consistent());
    }
    Ok((room, store))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Setting many objects to one value, or removing them, has the same result as one transaction for each object.
    #[test]
    fn many_objects_are_put_as_by_transactions(
        steps in prop::collection::vec(step(), 0..30),
        (first, value) in object(),
        keys in prop::collection::vec((0u8..5, 0u8..6).prop_map(|key| Key::of::<Thing>(&key)), 0..20),
        sets in prop::bool::weighted(0.8),
    ) {
        let (mut room, mut store) = walked(&steps)?;
        let (mut slow_room, mut slow) = walked(&steps)?;
        let keys = if first.is::<Thing>() { keys } else { vec![first.clone(), first] };
        let value = sets.then_some(&value);
        let (mut put, mut made) = (Vec::new(), Vec::new());
        let (n, why) = store.put(&mut room, &keys, value, |key, old| put.push((key.clone(), old.cloned())));
        let mut expected = (keys.len(), None);
        for (n, key) in keys.iter().enumerate() {
            let old = slow.get(key).cloned();
            if old.as_ref() == value {
                continue;
            }
            let change = Change { key: key.clone(), value: value.cloned() };
            if let Err(refused) = slow.transact(&mut slow_room, vec![change]) {
                expected = (n, Some(refused));
                break;
            }
            made.push((key.clone(), old));
        }
        prop_assert_eq!((n, why), expected);
        prop_assert!(put == made);
        prop_assert_eq!(&room, &slow_room);
        prop_assert!(store.tree() == slow.tree() && store.snapshot().is_consistent());
    }

    /// `Room` is the state of the router in these tests. It depends only on the configuration, not on the changes that led to it: it is the
    /// same after the steps of a plan, after one transaction, and after the way back.
    #[test]
    fn every_sequence_of_changes_gives_the_same_result(a in prop::collection::vec(step(), 0..30), b in prop::collection::vec(step(), 0..30)) {
        let (mut room, mut store) = walked(&a)?;
        let (other, wanted) = walked(&b)?;
        let (mut fresh, mut at_once) = (Room::default(), Store::default());
        at_once.transact(&mut fresh, Snapshot::default().diff(wanted.tree())).unwrap();
        prop_assert_eq!(&fresh, &other);
        // One step at a time, as the router makes long changes.
        let before = (room.clone(), store.snapshot());
        let plan = before.1.plan(wanted.snapshot(), &(), |_| Ok(())).map_err(|e| TestCaseError::fail(e.why.why))?;
        let mut making = Making::begin(plan.steps, &mut room);
        while making.go_on(&mut room) {}
        prop_assert!(making.end().is_ok());
        store.arrive(plan.after);
        prop_assert_eq!(&room, &other);
        prop_assert!(store.tree() == wanted.tree() && store.snapshot().is_consistent());
        // Go back to the earlier tree by a transaction.
        let back = store.diff(before.1.tree());
        store.transact(&mut room, back).map_err(|e| TestCaseError::fail(e.why))?;
        prop_assert_eq!(&room, &before.0);
    }

    #[test]
    fn a_failure_at_any_step_leaves_no_trace(a in prop::collection::vec(step(), 0..30), b in prop::collection::vec(step(), 0..30)) {
        let (mut room, mut store) = walked(&a)?;
        let (_, wanted) = walked(&b)?;
        let (had, before) = (store.tree().clone(), room.clone());
        for failing in 0.. {
            let mut made = 0;
            let done = store.transact_by(&mut room, store.diff(wanted.tree()), |step, room| {
                made += 1;
                if made > failing { refuse("out of luck") } else { step.run(room) }
            });
            if done.is_ok() {
                break;
            }
            prop_assert_eq!(&room, &before);
            prop_assert!(*store.tree() == had && store.snapshot().is_consistent());
        }
        prop_assert!(store.tree() == wanted.tree());
    }

    /// All dependents of an object are found, whether they are of a kind with very many objects or not.
    #[test]
    fn dependents_are_all_found(steps in prop::collection::vec(step(), 0..30)) {
        let (room, store) = walked(&steps)?;
        let at = store.snapshot();
        for key in store.tree().keys() {
            let mut gone: BTreeSet<Need> = key.role().into_iter().collect();
            let mut plain = BTreeSet::from([key.clone()]);
            for (key, value) in store.iter() {
                if value.needs_any(key, |need| gone.contains(need)) {
                    gone.extend(key.role());
                    plain.insert(key.clone());
                }
            }
            let found: Vec<Key> = at.with_dependents(key);
            prop_assert_eq!(found.len(), plain.len());
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), plain.clone());
            prop_assert_eq!(at.without(key).tree().len(), store.tree().len() - plain.len());
            prop_assert!(at.has_many_dependents(key, 0) || plain.len() == 1 || store.tree().is_empty());
            // The object cannot be removed alone, unless no other object needs it.
            let (mut again, mut alone) = (room.clone(), Store::of(store.tree().clone()));
            let removed = alone.transact(&mut again, vec![Change::remove(key.clone())]);
            prop_assert_eq!(removed.is_ok(), plain.len() == 1, "{:?}: {:?}", key, removed);
        }
    }

    /// For any sequence of changes, rollbacks and restarts: a rollback of n restores the state before the last n
    /// changes in effect. After a restart with the same state, rollbacks still work; if the state differs, they are
    /// refused.
    #[test]
    fn a_rollback_restores_the_earlier_state(deeds in prop::collection::vec(deed(), 0..30)) {
        let mut journal = Journal::default();
        let mut store = Store::<Room>::default();
        // The plain model: the state before each change in effect.
        let mut below: Vec<Tree<Room>> = Vec::new();
        let mut written: Vec<Vec<Edit<Room>>> = Vec::new();
        for deed in deeds {
            match deed {
                Happens::Change(objects) => {
                    let tree: Tree<Room> = objects.into_iter().collect();
                    let before = Journal::before(&store, &store.diff(&tree));
                    let was = std::mem::replace(&mut store, Store::of(tree));
                    let edits = Journal::edits(before, &store);
                    if journal.note(Note::new(Origin::default(), edits, Vec::new())).is_some() {
                        below.push(was.tree().clone());
                    }
                }
                Happens::Back(n) => {
                    let Some(last) = journal.changes().nth(n).map(|entry| entry.number) else { continue };
                    let way = journal.back_to(last - 1).map_err(|e| TestCaseError::fail(e.why))?;
                    let read = |text: &Written| Ok(written[text.before.parse::<usize>().unwrap()].clone());
                    let tree = way.follow(store.tree().clone(), read).map_err(|e| TestCaseError::fail(e.why))?;
                    let expected = below.drain(below.len() - n - 1..).next().unwrap();
                    prop_assert!(tree == expected);
                    store = Store::of(tree);
                    journal.note_rollback(last - 1, Note::new(Origin::default(), Vec::new(), Vec::new()));
                }
                Happens::Restart => {
                    let all: Vec<_> = journal.entries().cloned().collect();
                    let mut write = |mut entry: Entry<Room>| {
                        if let Detail::Edits(edits) = &entry.detail {
                            let before = written.len().to_string();
                            written.push(edits.all.clone());
                            entry.detail = Detail::Written(Written { before, ..Written::default() }.into());
                        }
                        entry.undone = None;
                        entry
                    };
                    journal = Journal::after(all.into_iter().rev().map(&mut write).collect::<Vec<_>>());
                    let read = |text: &Written| Ok(written[text.before.parse::<usize>().unwrap()].clone());
                    let to = journal.stack().in_effect(store.tree(), read);
                    prop_assert_eq!(to, journal.changes().next().map_or(0, |entry| entry.number));
                    journal.note_start(to, Note::start(Origin::default(), store.tree().len() as u64));
                }
            }
            prop_assert_eq!(journal.changes().count(), below.len());
        }
        // If the state differs from that of the earlier run, a rollback of that run's changes is refused.
        let Some(last) = journal.changes().next() else { return Ok(()) };
        let way = journal.back_to(last.number - 1).map_err(|e| TestCaseError::fail(e.why))?;
        if let Detail::Written(text) = &last.detail {
            let read = |_: &Written| Ok(written[text.before.parse::<usize>().unwrap()].clone());
            let edit = written[text.before.parse::<usize>().unwrap()][0].clone();
            let mut other = store.tree().clone();
            match edit.new {
                Some(_) => drop(other.remove(&edit.key)),
                None => drop(edit.old.and_then(|old| other.insert(edit.key, old))),
            }
            prop_assert!(way.follow(other, read).is_err_and(|e| e.why.contains("has changed since: the router was restarted")));
        }
    }
}

#[derive(Clone, Debug)]
enum Happens {
    Change(Vec<(Key, Value<Room>)>),
    /// Rolls back the number of changes that is one more than this number.
    Back(usize),
    Restart,
}

fn deed() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => prop::collection::vec(object(), 0..12).prop_map(Happens::Change),
        3 => (0usize..3).prop_map(Happens::Back),
        1 => Just(Happens::Restart),
    ]
}

/// The random trees of the tests above contain enough objects of all kinds to be meaningful.
#[test]
fn the_test_world_has_all_kinds_of_objects() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = BTreeMap::new();
    for _ in 0..60 {
        let steps = prop::collection::vec(step(), 30).new_tree(&mut runner).unwrap().current();
        let (room, store) = walked(&steps).unwrap();
        for (key, _) in store.iter() {
            *seen.entry(key.kind().name).or_insert(0) += 1;
        }
        *seen.entry("leaning thing").or_insert(0) += room.things.values().flatten().count();
    }
    assert!(seen.len() == 5 && seen.values().all(|n| *n > 15), "{seen:?}");
}

#[test]
fn refused_changes_give_the_reason() {
    let (mut room, mut store) = (Room::default(), Store::default());
    let shelf = |n: u8| Change::set(Key::of::<Shelf>(&n), Shelf);
    let stand = |n: u8, shelf: u8| Change::set(Key::of::<Crate>(&n), Crate(shelf, 0));
    let label = |n: u8, words: &str| Change::set(Key::of::<Label>(&n), Label(words.into()));
    store.transact(&mut room, vec![label(1, "a"), stand(1, 1), shelf(1), shelf(2)]).unwrap();
    for (changes, why) in [
        (vec![shelf(0)], "shelf 0 is the floor"),
        (vec![Change::remove(Key::of::<Shelf>(&1))], "shelf 1 cannot be removed: box 1 needs it"),
        (vec![Change::remove(Key::of::<Crate>(&7))], "box 7 does not exist"),
        (vec![stand(2, 1), label(2, "a")], "box 1 on shelf 1 is \"a\" already"),
        (vec![Change::set(Key::of::<Crate>(&3), Shelf)], "cannot be an object of the kind shelf"),
    ] {
        let said = store.transact(&mut room, changes).unwrap_err().why;
        assert!(said.contains(why), "{said}");
    }
    // A box that moves takes its label along, and can use a place that becomes free at once.
    store.transact(&mut room, vec![stand(2, 2), label(2, "a")]).unwrap();
    store.transact(&mut room, vec![stand(1, 2), stand(2, 1), label(1, "")]).unwrap();
    assert_eq!(room.labels, BTreeMap::from([(1, ("box 1".into(), 2)), (2, ("a".into(), 1))]));
}
