//! What was changed, so that it can be taken back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use super::{Change, Store, Tree};
use crate::key::Key;
use crate::object::{Value, World};

/// Transactions that are remembered at most.
const MOST: usize = 1000;
/// Changed objects that are remembered at most, in all transactions together. What changes more at once cannot be taken
/// back, nor what came before it.
const MOST_OBJECTS: usize = 250_000;

/// One transaction of the past.
#[derive(Debug)]
pub struct Entry<W> {
    /// The configuration that it made: transactions are counted from 1 since the router started.
    pub generation: u64,
    /// When.
    pub time: SystemTime,
    /// What these objects were before.
    before: Arc<Before<W>>,
}

/// What objects were before a transaction.
pub type Before<W> = Vec<(Key, Option<Value<W>>)>;

impl<W> Entry<W> {
    /// The first few objects that it changed, in words, and how many others there were.
    pub fn what(&self) -> String {
        let named: Vec<String> = self.before.iter().take(3).map(|(key, _)| key.to_string()).collect();
        let more = self.before.len() - named.len();
        named.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
    }
}

/// The last transactions, the newest last.
#[derive(Debug)]
pub struct Journal<W> {
    entries: VecDeque<Entry<W>>,
    /// Objects in all entries.
    objects: usize,
    generation: u64,
    /// Entries behind this generation are not forgotten.
    held: Option<u64>,
}

impl<W> Default for Journal<W> {
    fn default() -> Journal<W> {
        Journal { entries: VecDeque::new(), objects: 0, generation: 0, held: None }
    }
}

impl<W: World> Journal<W> {
    /// The number of the configuration that there is now; 0 when nothing was changed yet.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The transactions that can be taken back, the newest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry<W>> {
        self.entries.iter().rev()
    }

    /// What the changes would take away from the store: to be asked before they are made.
    pub fn before(store: &Store<W>, changes: &[Change<W>]) -> Before<W> {
        let old = |change: &Change<W>| (change.key.clone(), store.get(&change.key).cloned());
        changes.iter().filter(|c| store.get(&c.key) != c.value.as_ref()).map(old).collect()
    }

    /// Whether a transaction of so many objects would be remembered.
    pub fn has_room(&self, objects: usize) -> bool {
        objects <= MOST_OBJECTS || self.held.is_some()
    }

    /// Says that more was changed than is remembered.
    pub fn note_too_much(&mut self) {
        self.generation += 1;
        self.entries.clear();
        self.objects = 0;
        let generation = self.generation;
        tracing::debug!(
            event = "config",
            "generation {generation}: more than {MOST_OBJECTS} objects at once"
        );
    }

    /// Remembers a transaction that was made. Gives what is forgotten for it: to drop it takes as long as it is large.
    pub fn note(&mut self, before: Before<W>) -> Vec<Entry<W>> {
        let mut forgotten = Vec::new();
        if before.is_empty() {
            return forgotten;
        }
        self.generation += 1;
        self.objects += before.len();
        let entry = Entry { generation: self.generation, time: SystemTime::now(), before: before.into() };
        tracing::debug!(event = "config", "generation {}: {}", entry.generation, entry.what());
        self.entries.push_back(entry);
        while (self.entries.len() > MOST || self.objects > MOST_OBJECTS)
            && self.entries.front().is_some_and(|e| self.held.is_none_or(|held| e.generation <= held))
        {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.objects -= oldest.before.len();
            forgotten.push(oldest);
        }
        forgotten
    }

    /// Keeps what leads back to this generation until it is let go of by `None`.
    pub fn hold(&mut self, generation: Option<u64>) {
        self.held = generation;
    }

    /// The way back to a generation; `None` if not all is remembered that came after it.
    pub fn back_to(&self, generation: u64) -> Option<Way<W>> {
        let after: Vec<_> = self.entries().take_while(|e| e.generation > generation).collect();
        let all = after.len() as u64 == self.generation.checked_sub(generation)?;
        all.then(|| Way(after.into_iter().map(|e| Arc::clone(&e.before)).collect()))
    }
}

/// A way back: transactions, the newest first.
#[derive(Debug)]
pub struct Way<W>(Vec<Arc<Before<W>>>);

impl<W: World> Way<W> {
    /// The tree at its end, from the one at its beginning.
    pub fn follow(&self, mut tree: Tree<W>) -> Tree<W> {
        for (key, value) in self.0.iter().flat_map(|before| before.iter()) {
            match value {
                Some(value) => tree.insert(key.clone(), value.clone()),
                None => tree.remove(key),
            };
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, Need};
    use crate::object::{Object, Refused};
    use crate::store::{Snapshot, View};

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

    fn number(n: u16, there: bool) -> Before<Nothing> {
        vec![(Key::of::<Number>(&n), there.then(|| Number.into()))]
    }

    #[test]
    fn it_forgets_the_oldest_unless_they_are_held() {
        let mut j = Journal::default();
        j.note(Vec::new());
        assert_eq!(j.generation(), 0);
        for n in 0..MOST as u16 + 5 {
            j.note(number(n, false));
        }
        assert_eq!((j.entries().count(), j.entries().last().unwrap().generation), (MOST, 6));
        assert_eq!(j.entries().next().unwrap().what(), format!("number {}", MOST + 4));
        assert!(j.back_to(5).is_some_and(|way| way.0.len() == MOST) && j.back_to(4).is_none());
        j.hold(Some(100));
        for n in 0..MOST as u16 {
            j.note(number(n, true));
        }
        assert!(j.back_to(100).is_some());
        j.hold(None);
        j.note(number(1, false));
        assert!(j.entries().count() == MOST && j.back_to(100).is_none());
        assert!(!j.has_room(MOST_OBJECTS + 1));
        let now = j.generation();
        j.note_too_much();
        assert!(j.generation() == now + 1 && j.back_to(now).is_none() && j.back_to(now + 1).is_some());
        assert!(j.back_to(j.generation() + 1).is_none());
        assert!(j.back_to(j.generation()).is_some_and(|way| way.0.is_empty()));
    }
}
