//! The journal: configuration changes, their origins, and rollbacks.
//!
//! Changes are numbered. The changes in effect form a stack. A rollback undoes the newest of them, but is not itself on the stack. So
//! consecutive rollbacks go further and further back.

mod entry;

use std::collections::VecDeque;
use std::time::SystemTime;

use super::Store;
use crate::key::Key;
use crate::object::{Change, Refused, Tree, Value, World, refuse};

pub use entry::{Counts, Deed, Detail, Edit, Edits, Entry, Note, Written};

/// Maximum number of entries, except while the journal is [held](Journal::hold).
const MOST: usize = 1000;
/// Maximum number of changed objects in memory, in all entries together, except while the journal is [held](Journal::hold). A change of
/// more objects cannot be rolled back, nor can the changes before it.
const MOST_OBJECTS: usize = 250_000;
/// Maximum number of changes named in the title of a rollback.
const NAMED: usize = 3;

/// Objects with their values before a transaction.
pub type Before<W> = Vec<(Key, Option<Value<W>>)>;

/// The last changes, rollbacks and starts, the newest last.
#[derive(Debug)]
pub struct Journal<W> {
    entries: VecDeque<Entry<W>>,
    /// Number of changed objects that all entries together hold in memory.
    objects: usize,
    generation: u64,
    /// The number of the newest change that is in effect but no longer in the journal; 0 if there is none.
    lost: u64,
    /// If set, all entries with higher numbers than this are kept.
    held: Option<u64>,
}

impl<W> Default for Journal<W> {
    fn default() -> Journal<W> {
        Journal { entries: VecDeque::new(), objects: 0, generation: 0, lost: 0, held: None }
    }
}

/// The result of adding an entry.
#[derive(Debug)]
pub struct Noted<W> {
    /// The newest entry.
    pub entry: Entry<W>,
    /// The details that were dropped from the journal for the new entry. Freeing them takes time in proportion to their size.
    pub forgotten: Vec<Detail<W>>,
}

impl<W: World> Journal<W> {
    /// Returns a journal that continues after `entries`, the oldest first. A gap in the numbers means that a change was not written.
    /// Changes before the gap cannot be rolled back.
    pub fn after(entries: impl IntoIterator<Item = Entry<W>>) -> Journal<W> {
        let mut journal = Journal::default();
        for entry in entries.into_iter() {
            if entry.number <= journal.generation {
                continue;
            }
            let gap = journal.generation > 0 && entry.number > journal.generation + 1;
            if gap {
                let title = format!("changes up to {} are missing in the journal", entry.number - 1);
                let number = entry.number - 1;
                let missing = Entry { number, title, time: entry.time, ..Entry::missing() };
                journal.push(missing);
            }
            journal.push(entry);
        }
        journal
    }

    /// Returns the number of the last entry, which led to the current configuration; 0 before the first change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns all entries, the newest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry<W>> {
        self.entries.iter().rev()
    }

    /// Returns the entry with this number; `None` if it is not in the journal.
    pub fn entry(&self, number: u64) -> Option<&Entry<W>> {
        let at = self.entries.binary_search_by_key(&number, |entry| entry.number).ok()?;
        self.entries.get(at)
    }

    /// Returns the changes in effect, the newest first. Rollbacks undo them in this order.
    pub fn changes(&self) -> impl Iterator<Item = &Entry<W>> {
        self.entries().filter(|entry| entry.is_in_effect())
    }

    /// Returns how many changes can be rolled back: the newest changes in effect, until one has no details any more. Changes of
    /// earlier runs are not checked: their rollback can still fail.
    pub fn can_be_taken_back(&self) -> usize {
        self.changes().take_while(|entry| !matches!(entry.detail, Detail::Forgotten)).count()
    }

    /// Returns the current values of the objects that `changes` would change in the store. Call it before the changes are made.
    pub fn before(store: &Store<W>, changes: &[Change<W>]) -> Before<W> {
        // Look up each object only once: the time matters when a client adds very many objects one by one.
        let old = |change: &Change<W>| {
            let old = store.get(&change.key);
            (old != change.value.as_ref()).then(|| (change.key.clone(), old.cloned()))
        };
        changes.iter().filter_map(old).collect()
    }

    /// Returns the changed objects with their old and new values. Call it after the changes are made.
    pub fn edits(mut before: Before<W>, store: &Store<W>) -> Vec<Edit<W>> {
        before.sort_by(|(one, _), (other, _)| one.cmp(other));
        before.dedup_by(|(one, _), (other, _)| one == other);
        let edits = before.into_iter().map(|(key, old)| Edit { new: store.get(&key).cloned(), key, old });
        edits.filter(|edit| edit.old != edit.new).collect()
    }

    /// True if the journal would keep the details of a change of `objects` objects.
    pub fn has_room(&self, objects: usize) -> bool {
        objects <= MOST_OBJECTS || self.is_held()
    }

    /// Adds a change. Returns `None` for an empty change, which is not added.
    pub fn note(&mut self, note: Note<W>) -> Option<Noted<W>> {
        (!note.is_empty()).then(|| self.noted(Deed::Change, note))
    }

    /// Adds a rollback of all changes with higher numbers than `to`.
    pub fn note_rollback(&mut self, to: u64, mut note: Note<W>) -> Noted<W> {
        let undone: Vec<u64> = self.changes().map(|entry| entry.number).take_while(|n| *n > to).collect();
        note.title = title(&undone);
        self.noted(Deed::Rollback(to), note)
    }

    /// Adds an entry for a start of the router. The router started with the changes up to number `to`; later changes had not been
    /// saved.
    pub fn note_start(&mut self, to: u64, note: Note<W>) -> Noted<W> {
        self.noted(Deed::Start(to), note)
    }

    fn noted(&mut self, deed: Deed, note: Note<W>) -> Noted<W> {
        let Note { origin, title, counts, secret, detail } = note;
        let (number, time) = (self.generation + 1, SystemTime::now());
        let entry =
            Entry { number, time, origin, deed, undone: None, title, counts, secret, earlier: false, detail };
        tracing::debug!(event = "config", "generation {number}: {}", entry.title);
        let forgotten = self.push(entry.clone());
        Noted { entry, forgotten }
    }

    /// Adds an entry. Returns the details that the journal has dropped to make room for it.
    fn push(&mut self, entry: Entry<W>) -> Vec<Detail<W>> {
        self.generation = entry.number;
        self.objects += entry.objects();
        if let Deed::Rollback(to) | Deed::Start(to) = entry.deed {
            for below in self.entries.iter_mut().rev().take_while(|below| below.number > to) {
                if below.is_in_effect() {
                    below.undone = Some(entry.number);
                }
            }
        }
        self.entries.push_back(entry);
        self.forget()
    }

    /// Drops the oldest entries if there are too many, and the oldest details if they use too much memory. Returns the dropped details.
    fn forget(&mut self) -> Vec<Detail<W>> {
        let mut forgotten = Vec::new();
        let held = self.held;
        let is_free = move |entry: &Entry<W>| held.is_none_or(|held| entry.number <= held);
        while self.entries.len() > MOST && self.entries.front().is_some_and(is_free) {
            let Some(oldest) = self.entries.pop_front() else { break };
            if oldest.is_in_effect() {
                self.lost = oldest.number;
            }
            self.objects -= oldest.objects();
            forgotten.push(oldest.detail);
        }
        for entry in self.entries.iter_mut().filter(|entry| is_free(entry)) {
            if self.objects <= MOST_OBJECTS {
                break;
            }
            let objects = entry.objects();
            if objects > 0 {
                self.objects -= objects;
                forgotten.push(std::mem::replace(&mut entry.detail, Detail::Forgotten));
            }
        }
        forgotten
    }

    /// Keeps all entries after this generation, so that a rollback to this generation stays possible. A call with `None` ends this.
    pub fn hold(&mut self, generation: Option<u64>) {
        self.held = generation;
    }

    /// True if [`hold`](Self::hold) is in effect: the journal keeps all entries after a generation, whatever their size.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Returns all changes in effect that the journal still contains, the newest first.
    pub fn stack(&self) -> Way<W> {
        Way(self.changes().map(|entry| (entry.number, entry.detail.clone())).collect())
    }

    /// Returns the changes to undo for a rollback to `generation`: every later change in effect.
    ///
    /// # Errors
    /// Fails if one of these changes is no longer in the journal, or if its details are forgotten. The error names one such change.
    pub fn back_to(&self, generation: u64) -> Result<Way<W>, Refused> {
        if generation < self.lost {
            return refuse(format!("change {} is no longer in the journal", self.lost));
        }
        let changes = self.changes().take_while(|entry| entry.number > generation);
        let part = |entry: &Entry<W>| match &entry.detail {
            Detail::Forgotten => refuse(format!(
                "change {} cannot be rolled back: {}",
                entry.number,
                entry.what_is_forgotten()
            )),
            detail => Ok((entry.number, detail.clone())),
        };
        changes.map(part).collect::<Result<_, _>>().map(Way)
    }
}

/// Returns the title of a rollback that undoes these changes.
fn title(undone: &[u64]) -> String {
    let named: Vec<String> = undone.iter().take(NAMED).map(u64::to_string).collect();
    let more = undone.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let changes = if undone.len() == 1 { "change" } else { "changes" };
    format!("rollback of {changes} {}{more}", named.join(", "))
}

/// The changes to undo for a rollback: their numbers and details, the newest first.
#[derive(Debug)]
pub struct Way<W>(Vec<(u64, Detail<W>)>);

impl<W: World> Way<W> {
    /// Returns the number of the newest change that is in effect in `tree`; 0 if there is none. A change of an earlier run of the router is
    /// in effect if all its objects still have the values after the change; `read` parses such a change. Any other change counts as in
    /// effect without a check.
    pub fn in_effect(&self, tree: &Tree<W>, read: impl Fn(&Written) -> Result<Vec<Edit<W>>, Refused>) -> u64 {
        let is_there =
            |edits: Vec<Edit<W>>| edits.iter().all(|edit| tree.get(&edit.key) == edit.new.as_ref());
        let newest = self.0.iter().find(|(_, detail)| match detail {
            Detail::Written(written) => read(written).is_ok_and(is_there),
            Detail::Edits(_) | Detail::Forgotten => true,
        });
        newest.map_or(0, |(number, _)| *number)
    }

    /// Returns the tree after the rollback. `tree` is the tree before it. `read` parses changes written by an earlier run of the router.
    ///
    /// # Errors
    /// Fails if a change cannot be parsed, or if a change of an earlier run is not in effect because an object has another value than after
    /// the change.
    pub fn follow(
        &self,
        mut tree: Tree<W>,
        read: impl Fn(&Written) -> Result<Vec<Edit<W>>, Refused>,
    ) -> Result<Tree<W>, Refused> {
        let mut set = |key: &Key, value: &Option<Value<W>>| match value {
            Some(value) => tree.insert(key.clone(), value.clone()),
            None => tree.remove(key),
        };
        for (number, detail) in &self.0 {
            match detail {
                Detail::Edits(edits) => edits.all.iter().for_each(|edit| drop(set(&edit.key, &edit.old))),
                Detail::Written(written) => {
                    let edits = read(written)
                        .map_err(|e| Refused::new(format!("change {number} cannot be rolled back: {e}")))?;
                    for edit in edits {
                        if set(&edit.key, &edit.old) != edit.new {
                            return refuse(format!(
                                "change {number} cannot be rolled back: {} has changed since: the router was restarted with another \
                                 configuration",
                                edit.key
                            ));
                        }
                    }
                }
                Detail::Forgotten => {}
            }
        }
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::key::{Kind, Need};
    use crate::object::{Object, Snapshot, View};
    use crate::origin::Origin;

    #[derive(Debug)]
    struct Nothing;
    impl World for Nothing {
        type Abilities = ();
        fn abilities(&self) -> Arc<()> {
            Arc::new(())
        }
        fn begin(&mut self) {}
        fn end(&mut self) {}
        fn complete(_: &Snapshot<Nothing>, _: Vec<(&Key, &mut Value<Nothing>)>) {}
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Number;
    impl Kind for Number {
        type Key = u16;
        const NAME: &'static str = "number";
        const PHASE: u16 = 1;
        fn title(n: &u16) -> String {
            format!("number {n}")
        }
        fn role(_: &u16) -> Option<Need> {
            None
        }
    }
    impl Object<Nothing> for Number {
        fn validate(&self, _: &u16, _: &View<'_, Nothing>, _: &()) -> Result<(), Refused> {
            Ok(())
        }
        fn apply(&self, _: &u16, _: Option<&Self>, _: &mut Nothing) -> Result<(), Refused> {
            Ok(())
        }
        fn withdraw(&self, _: &u16, _: &mut Nothing) -> Result<(), Refused> {
            Ok(())
        }
        fn dump(&self, _: &u16, _: bool) -> Vec<String> {
            Vec::new()
        }
    }

    /// Returns a change that adds the object `n` if `there` is true, and otherwise removes it.
    fn number(n: u16, there: bool) -> Note<Nothing> {
        let value = Some(Value::from(Number));
        let (old, new) = if there { (None, value) } else { (value, None) };
        let edit = Edit { key: Key::of::<Number>(&n), old, new };
        Note::new(Origin::default(), vec![edit], Vec::new())
    }

    fn counts(n: u64) -> Counts {
        Counts { added: n, ..Counts::default() }
    }

    #[test]
    fn the_oldest_changes_are_dropped_unless_held() {
        let mut j = Journal::default();
        assert!(j.note(Note::new(Origin::default(), Vec::new(), Vec::new())).is_none());
        assert_eq!(j.generation(), 0);
        for n in 0..MOST as u16 + 5 {
            j.note(number(n, true));
        }
        assert_eq!((j.entries().count(), j.entries().last().unwrap().number), (MOST, 6));
        assert_eq!(j.entries().next().unwrap().title, format!("number {}", MOST + 4));
        assert!(j.back_to(5).is_ok_and(|way| way.0.len() == MOST));
        assert_eq!(j.back_to(4).unwrap_err().why, "change 5 is no longer in the journal");
        j.hold(Some(100));
        for n in 0..MOST as u16 {
            j.note(number(n, true));
        }
        assert!(j.back_to(100).is_ok());
        j.hold(None);
        j.note(number(1, false));
        assert!(j.entries().count() == MOST && j.back_to(100).is_err());
    }

    #[test]
    fn too_large_changes_are_listed_but_cannot_be_rolled_back() {
        let mut j = Journal::default();
        j.note(number(1, true));
        assert!(!j.has_room(MOST_OBJECTS + 1));
        let keys = [1u16, 2].map(|n| Key::of::<Number>(&n));
        j.note(Note::too_much(Origin::default(), keys.iter(), counts(MOST_OBJECTS as u64 + 1)));
        let newest = j.entries().next().unwrap();
        assert_eq!(newest.title, "number 1, number 2 and 249999 more");
        j.note(number(3, true));
        assert!(j.back_to(2).is_ok_and(|way| way.0.len() == 1));
        let told = j.back_to(1).unwrap_err().why;
        assert!(
            told.starts_with("change 2 cannot be rolled back: the old values of its 250001 objects"),
            "{told}"
        );
        assert!(j.back_to(j.generation() + 1).is_ok_and(|way| way.0.is_empty()));
        // With many objects in several changes, the oldest details are forgotten; the entries stay.
        let most = |from: u16| {
            let edit = |n| Edit { key: Key::of::<Number>(&n), old: None, new: Some(Number.into()) };
            let edits = (0..MOST_OBJECTS / 8).map(|n| edit(from.wrapping_add(n as u16)));
            Note::new(Origin::default(), edits.collect(), Vec::new())
        };
        let forgotten: usize = (0..9).map(|n| j.note(most(n)).unwrap().forgotten.len()).sum();
        assert_eq!(forgotten, 3, "of 1, 3 and 4");
        assert!(j.back_to(4).is_ok() && j.back_to(3).is_err() && j.entries().count() == 12);
    }

    #[test]
    fn a_rollback_continues_behind_the_last_one() {
        let mut j = Journal::default();
        for n in 1..=5 {
            j.note(number(n, true));
        }
        let nothing = || Note::new(Origin::default(), Vec::new(), Vec::new());
        assert_eq!(j.note_rollback(3, nothing()).entry.title, "rollback of changes 5, 4");
        j.note(number(6, true));
        assert_eq!(j.changes().map(|e| e.number).collect::<Vec<_>>(), [7, 3, 2, 1]);
        assert_eq!(j.note_rollback(6, nothing()).entry.title, "rollback of change 7");
        assert_eq!(j.note_rollback(0, nothing()).entry.title, "rollback of changes 3, 2, 1");
        assert_eq!((j.changes().count(), j.generation()), (0, 9));
        assert_eq!(j.entry(7).unwrap().undone, Some(8));
        assert_eq!(j.entry(4).unwrap().undone, Some(6));
        assert!(j.entry(0).is_none() && j.entry(10).is_none());
    }

    #[test]
    fn a_rollback_cannot_pass_missing_changes() {
        let mut j = Journal::default();
        for n in 1..=6 {
            j.note(number(n, true));
        }
        let some = |but: &[u64]| {
            let all: Vec<Entry<Nothing>> = j.entries().cloned().collect();
            Journal::after(all.into_iter().rev().filter(|entry| !but.contains(&entry.number)))
        };
        let all = some(&[]);
        assert!(all.generation() == 6 && all.back_to(0).is_ok());
        let last = some(&[6]);
        assert!(last.generation() == 5 && last.back_to(0).is_ok());
        let first = some(&[1]);
        assert!(first.back_to(0).is_ok_and(|way| way.0.len() == 5), "they are no longer written down");
        let middle = some(&[3, 4]);
        assert!(middle.back_to(4).is_ok() && middle.generation() == 6);
        let told = middle.back_to(3).err().map(|refused| refused.why);
        assert_eq!(
            told.as_deref(),
            Some("change 4 cannot be rolled back: the journal file does not contain its objects")
        );
        assert_eq!([&all, &middle].map(Journal::can_be_taken_back), [6, 2]);
    }
}
