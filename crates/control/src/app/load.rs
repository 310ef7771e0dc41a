//! Loads: a client sends very many objects bit by bit, for example a routing daemon its routes. Each object becomes effective when it
//! arrives. At the end, the journal gets one change for all objects. A load that fails, or whose client leaves, is rolled back.

use std::rc::Rc;
use std::time::Instant;

use infra::mem::Room;
use model::origin::Origin;
use model::store::Counts;

use super::thread::{Thread, joined, let_go, on_a_thread};
use super::work::{Go, LOOK, Lasting, SLICE, Scope, Unattended};
use super::{Context, Failure};
use crate::intent::{Change, Edit, Key, Note, Refused, Value};

/// Number of changes in a piece of the list of changes. A single list would be copied whenever it grows.
const PIECE: usize = 4096;
/// Number of changes between two checks of the free memory.
const CHECK: usize = 16 * PIECE;
/// Memory in bytes that [`CHECK`] changes may need. Measured with routes.
const CHECKED: u64 = 512 * CHECK as u64;
/// Number of changes that are rolled back, or written into the journal, between two checks of the clock.
const BATCH: usize = 32;
/// Maximum number of objects that the title of the change names.
const NAMED: usize = 3;

/// An object, and its value before a change. The value is `None` if the object did not exist.
type Old = (Key, Option<Value>);

/// A running load: changes of many objects that become one change in the journal.
pub(crate) struct Loading {
    origin: Origin,
    /// The changed objects with their old values, in the order of the changes. An object may be changed several times.
    old: Vec<Vec<Old>>,
    /// Number of added, changed and removed objects.
    pub(crate) counts: Counts,
    stage: Stage,
    /// While this exists, changes of the whole configuration wait, and loads that would conflict with this one are refused.
    beside: Option<(Rc<()>, Rc<Scope>)>,
}

enum Stage {
    Filling,
    /// Another thread sorts the changes by object.
    Sorting(Thread<Vec<Old>>),
    /// The changes are converted to edits for the journal entry. Contains the changes still to convert, and the edits so far.
    Noting(std::vec::IntoIter<Old>, Vec<Edit>),
    Over,
}

impl Loading {
    /// Begins a load, on behalf of the running request.
    ///
    /// # Errors
    /// If another change has the exclusive right to change the configuration, or if another load conflicts with this one.
    pub(crate) fn begin(c: &Context, scope: Scope) -> Result<Loading, Failure> {
        c.changes.must_be_free()?;
        c.must_not_go_back()?;
        let load = c.changes.load(scope)?;
        Ok(Loading {
            origin: c.origin.clone(),
            old: Vec::new(),
            counts: Counts::default(),
            stage: Stage::Filling,
            beside: Some((c.changes.beside(), load)),
        })
    }

    /// Number of changes made.
    pub(crate) fn changes(&self) -> u64 {
        self.counts.all()
    }

    /// Sets objects to the same value one by one, or removes them (`None`), until one is refused. The removal of a missing object is not
    /// refused. Returns the number of objects before the refused one, and the reason for the refusal, if there is one.
    ///
    /// # Errors
    /// If there is no memory for so many changes.
    pub(crate) fn put(
        &mut self,
        c: &mut Context,
        keys: &[Key],
        value: Option<&Value>,
    ) -> Result<(usize, Option<Refused>), Failure> {
        let before = self.changes() as usize;
        let (old, counts) = (&mut self.old, &mut self.counts);
        let put = c.store.put(&mut c.system, keys, value, |key, was| {
            match (was, value) {
                (None, _) => counts.added += 1,
                (Some(_), Some(_)) => counts.changed += 1,
                (Some(_), None) => counts.removed += 1,
            }
            if old.last().is_none_or(|piece| piece.len() == PIECE) {
                old.push(Vec::with_capacity(PIECE));
            }
            if let Some(piece) = old.last_mut() {
                piece.push((key.clone(), was.cloned()));
            }
        });
        if before / CHECK != self.changes() as usize / CHECK {
            let why = |e| format!("not enough memory for a load of so many objects: {e}");
            Room::now().must_have(CHECKED).map_err(|e| Failure::from(why(e)))?;
        }
        Ok(put)
    }

    /// Ends the load: adds it to the journal, in slices. Call it until it returns [`Go::Done`].
    ///
    /// # Errors
    /// If the thread that sorts the changes has panicked.
    pub(crate) fn end(&mut self, c: &mut Context) -> Result<Go, Failure> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Filling => {
                let (old, all) = (std::mem::take(&mut self.old), self.changes());
                let first = old.iter().flatten().take(NAMED).map(|(key, _)| key);
                let note = Note::too_much(self.origin.clone(), first, self.counts);
                if !c.journal.has_room(all as usize) {
                    let_go(old);
                } else if let Ok(thread) = on_a_thread(move || Ok(sorted(old))) {
                    self.stage = Stage::Sorting(thread);
                    return Ok(Go::Again);
                }
                // Without the sorted changes, the journal gets an entry without details.
                c.remember(|journal| journal.note(note));
            }
            Stage::Sorting(thread) if !thread.is_finished() => {
                self.stage = Stage::Sorting(thread);
                return Ok(Go::After(LOOK));
            }
            Stage::Sorting(thread) => {
                self.stage = Stage::Noting(joined(thread)?.into_iter(), Vec::new());
                return Ok(Go::Again);
            }
            Stage::Noting(mut old, mut edits) => {
                let begun = Instant::now();
                while begun.elapsed() < SLICE && old.len() > 0 {
                    edits.extend(old.by_ref().take(BATCH).filter_map(|(key, old)| {
                        let new = c.store.get(&key).cloned();
                        (old != new).then_some(Edit { key, old, new })
                    }));
                }
                if old.len() > 0 {
                    self.stage = Stage::Noting(old, edits);
                    return Ok(Go::Again);
                }
                c.note(self.origin.clone(), edits);
            }
            Stage::Over => {}
        }
        self.beside = None;
        Ok(Go::Done)
    }

    /// Rolls back a slice of the changes, the last one first. Returns true if there is more to do.
    pub(crate) fn roll_back(&mut self, c: &mut Context) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < SLICE {
            let Some(piece) = self.old.last_mut() else {
                self.beside = None;
                return false;
            };
            for (key, value) in (0..BATCH).map_while(|_| piece.pop()) {
                if c.store.get(&key) == value.as_ref() {
                    continue;
                }
                let title = key.to_string();
                if let Err(e) = c.change(vec![Change { key, value }]) {
                    tracing::error!("{title}, which a client has loaded, cannot be rolled back: {e}");
                }
            }
            if piece.is_empty() {
                self.old.pop();
            }
        }
        true
    }
}

/// Returns the changed objects with their values before the load, each object once.
fn sorted(pieces: Vec<Vec<Old>>) -> Vec<Old> {
    let mut all: Vec<Old> = pieces.into_iter().flatten().collect();
    // The sort is stable: of several changes of an object, the first one has the value before the load.
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all.dedup_by(|(later, _), (earlier, _)| later == earlier);
    all
}

impl Lasting for Loading {
    /// True if the load has made changes that are not in the journal yet. If all items have arrived, these changes are then added to the
    /// journal, and otherwise rolled back.
    fn cut_off(&mut self) -> bool {
        !matches!(self.stage, Stage::Over) && self.changes() > 0
    }
}

impl Unattended for Loading {
    fn go_on(&mut self, c: &mut Context) -> Go {
        if matches!(self.stage, Stage::Filling) {
            return if self.roll_back(c) { Go::Again } else { Go::Done };
        }
        // The load is complete; only the journal lacks it.
        self.end(c).unwrap_or_else(|e| {
            tracing::error!("a load is not in the journal: {e}");
            Go::Done
        })
    }
}
