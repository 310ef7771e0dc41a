//! Writes the journal to disk on a thread of its own, so that a slow or full disk does not delay the main thread.
//!
//! Changes wait in a queue of limited size. If the disk is too slow, the oldest waiting changes are dropped: rollbacks need the newest
//! ones. The numbers of the changes then have a gap. A later run of the router cannot roll back past the gap.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::store::Detail;

use super::file::{Found, Kept, Sizes};
use super::record;
use crate::intent::Entry;
use crate::system::Catalog;

/// Maximum number of changes in the queue to the writing thread. Also the maximum number of lines that this thread holds until they are on
/// the disk. The number exceeds the number of changes that the journal keeps in memory.
const WAITING: usize = 1024;
/// Maximum number of objects that all waiting changes together may have in memory. Beyond this, the oldest waiting changes are written
/// without their objects.
const OBJECTS: usize = 250_000;
/// Maximum number of bytes of text to write and sync together. A single line may be longer.
const CHUNK: usize = 1 << 20;
/// Maximum number of bytes of text that wait for the disk. A single line may be longer.
const TEXT: usize = 8 << 20;
/// Interval between attempts to write after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// How long to wait for a user's name, which another thread looks up.
const NAMES: Duration = Duration::from_secs(1);
/// How long the router's start and end wait for a file system that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A change that waits for the disk.
struct Waiting {
    /// The position among all queued changes; the first one is 1.
    place: u64,
    entry: Entry,
    /// When it was queued.
    since: Instant,
}

impl Waiting {
    fn objects(&self) -> usize {
        objects(&self.entry)
    }
}

/// Returns the number of objects that the entry holds in memory.
fn objects(entry: &Entry) -> usize {
    if let Detail::Edits(edits) = &entry.detail { edits.all.len() } else { 0 }
}

/// The state that the main thread and the writing thread share.
#[derive(Default)]
struct State {
    /// The changes that the writing thread has not taken yet, oldest first.
    waiting: VecDeque<Waiting>,
    /// Number of objects of the changes in `waiting`.
    objects: usize,
    /// Number of changes queued so far.
    queued: u64,
    /// The position of the oldest change that the writing thread has taken and not written.
    taken: Option<u64>,
    /// Why changes are not written; `None` while they are.
    trouble: Option<String>,
    /// Number of changes that were lost: they will not be written.
    lost: u64,
    /// True if the file was read too late for the start. This run's change numbers then begin at 1 again, so nothing is written to
    /// a file with earlier changes.
    too_late: bool,
    /// True if no more changes follow.
    ending: bool,
    /// True if there is no writing thread: it could not be started, or has ended.
    over: bool,
}

impl State {
    /// Adds a change. If there are too many changes, drops the oldest one. If the changes have too many objects, drops the objects of the
    /// oldest changes.
    fn push(&mut self, entry: Entry) {
        if self.over {
            self.lost += 1;
            return;
        }
        self.queued += 1;
        self.objects += objects(&entry);
        self.waiting.push_back(Waiting { place: self.queued, entry, since: Instant::now() });
        if self.waiting.len() > WAITING && self.pop().is_some() {
            self.lost += 1;
        }
        for oldest in &mut self.waiting {
            if self.objects <= OBJECTS {
                break;
            }
            self.objects -= oldest.objects();
            oldest.entry.detail = Detail::Forgotten;
        }
    }

    /// Removes the oldest change.
    fn pop(&mut self) -> Option<Waiting> {
        let oldest = self.waiting.pop_front()?;
        self.objects -= oldest.objects();
        Some(oldest)
    }

    /// Returns the position of the oldest change that is neither written nor lost.
    fn oldest(&self) -> Option<u64> {
        self.taken.or_else(|| self.waiting.front().map(|waiting| waiting.place))
    }
}

/// The state that both threads share, and a condition variable that wakes the writing thread when the state has changed.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    /// Locks the state. No thread holds this lock while it writes or waits.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes changes to the journal file.
pub struct Keeper {
    path: PathBuf,
    shared: Arc<Shared>,
    found: Receiver<Found>,
    ended: Receiver<()>,
    /// The last logged message about changes that are not written.
    told: Option<String>,
}

impl Keeper {
    /// Starts the thread that keeps the journal in a directory.
    pub fn begin(directory: &Path, catalog: Arc<Catalog>) -> Keeper {
        let (to_start, found) = sync_channel(1);
        let (to_end, ended) = sync_channel(1);
        let shared: Arc<Shared> = Arc::default();
        let writer = Writer {
            directory: directory.to_owned(),
            kept: None,
            has_earlier: false,
            pending: VecDeque::new(),
            bytes: 0,
            shared: Arc::clone(&shared),
            catalog,
        };
        // The thread may hang on the disk, so it does not share the process's open files. It reports through the shared state.
        let work = move || {
            writer.run(&to_start);
            drop(to_end);
        };
        if let Err(e) = drivers::spawn_apart("volley_journal", work) {
            let mut state = shared.lock();
            state.trouble = Some(format!("cannot start the thread that writes the file: {e}"));
            state.over = true;
        }
        let path = Kept::path_in(directory);
        Keeper { path, shared, found, ended, told: None }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the changes of earlier runs; `None` if they have not been read yet. If they have not been read five seconds after `begun`,
    /// returns no changes, and ignores those that are read later.
    pub fn found(&self, begun: Instant) -> Option<Found> {
        match self.found.try_recv() {
            Ok(found) => Some(found),
            Err(TryRecvError::Empty) if begun.elapsed() < PATIENCE => None,
            Err(_) => {
                let mut state = self.shared.lock();
                state.too_late = true;
                state.trouble.get_or_insert_with(|| "the file system did not answer at the start".into());
                Some(Found::default())
            }
        }
    }

    /// Queues a change to be written. Never waits for the disk.
    pub fn keep(&self, mut entry: Entry) {
        // The objects of such a large change would not be written, so they need not wait in memory.
        if objects(&entry) > record::MOST_OBJECTS {
            entry.detail = Detail::Forgotten;
        }
        self.shared.lock().push(entry);
        self.shared.changed.notify_one();
    }

    /// Returns the number of changes queued so far, for [`has_written`](Keeper::has_written).
    pub fn queued(&self) -> u64 {
        self.shared.lock().queued
    }

    /// True if each of the first `queued` changes is on the disk or lost, or if changes cannot be written now.
    pub fn has_written(&self, queued: u64) -> bool {
        let state = self.shared.lock();
        state.trouble.is_some() || state.oldest().is_none_or(|oldest| oldest > queued)
    }

    /// Returns a message if changes are not written or were lost: the file, the reason, and the number of lost changes.
    pub fn trouble(&self) -> Option<String> {
        let (trouble, lost) = {
            let state = self.shared.lock();
            (state.trouble.clone(), state.lost)
        };
        let path = self.path.display();
        match (trouble, lost) {
            (None, 0) => None,
            (None, lost) => Some(format!(
                "{lost} changes are missing in {path}: the disk was too slow or full. After a restart, no rollback can go back past them"
            )),
            (Some(why), 0) => Some(format!("changes are not kept in {path}: {why}")),
            (Some(why), lost) => {
                Some(format!("changes are not kept in {path}: {why}; {lost} changes are lost"))
            }
        }
    }

    /// Returns the message of [`trouble`](Keeper::trouble), but only while changes cannot be written.
    pub fn fails(&self) -> Option<String> {
        let now = self.shared.lock().trouble.is_some();
        self.trouble().filter(|_| now)
    }

    /// Logs the message of [`trouble`](Keeper::trouble) if it differs from the last logged one.
    pub fn look(&mut self) {
        let trouble = self.trouble();
        if trouble != self.told {
            match &trouble {
                Some(trouble) => tracing::warn!(event = "config", "{trouble}"),
                None => tracing::info!(event = "config", "changes are kept in {} again", self.path.display()),
            }
            self.told = trouble;
        }
    }

    /// Waits until all changes are written, for a limited time. Logs lost changes.
    pub fn end(&mut self) {
        self.shared.lock().ending = true;
        self.shared.changed.notify_one();
        if self.ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "the last changes may not be in {}: the disk does not answer",
                self.path.display()
            );
        }
        self.look();
    }
}

/// The state of the writing thread.
struct Writer {
    directory: PathBuf,
    kept: Option<Kept>,
    /// True if the file has changes of earlier runs.
    has_earlier: bool,
    /// Lines to be written, each with the position of its change among all queued changes.
    pending: VecDeque<(u64, String)>,
    /// Number of bytes of all lines in `pending`.
    bytes: usize,
    shared: Arc<Shared>,
    catalog: Arc<Catalog>,
}

impl Writer {
    fn run(mut self, found: &SyncSender<Found>) {
        let first = self.open().unwrap_or_default();
        // The receiver may have stopped waiting.
        let _ = found.send(first);
        loop {
            self.wait();
            self.take();
            if self.is_open() {
                self.write();
            }
            let mut state = self.shared.lock();
            if state.ending && state.waiting.is_empty() {
                state.lost += self.pending.len() as u64;
                state.over = true;
                return;
            }
        }
    }

    /// Waits until there are changes to write, or until the thread must end. If an earlier write or open has failed, waits at most
    /// [`RETRY`], so that it is tried again.
    fn wait(&self) {
        let state = self.shared.lock();
        let idle = |state: &mut State| state.waiting.is_empty() && !state.ending;
        let changed = &self.shared.changed;
        if self.pending.is_empty() && (self.kept.is_some() || self.has_earlier) {
            drop(changed.wait_while(state, idle));
        } else {
            drop(changed.wait_timeout_while(state, RETRY, idle));
        }
    }

    /// Opens the file, and returns its contents. If that fails, stores the error in the state, and returns `None`.
    fn open(&mut self) -> Option<Found> {
        match Kept::open(&self.directory, Sizes::default()) {
            Ok((kept, found)) => {
                self.kept = Some(kept);
                self.has_earlier = !found.entries.is_empty() || found.unread > 0;
                Some(found)
            }
            Err(e) => {
                self.shared.lock().trouble = Some(e.to_string());
                None
            }
        }
    }

    /// True if lines can be written to the file. If the file could not be opened before, tries again. If the file opened then has changes
    /// of earlier runs, closes it: this run has numbered its changes from 1, so the file would have the same numbers twice.
    fn is_open(&mut self) -> bool {
        let was_open = self.kept.is_some();
        let late = self.shared.lock().too_late || !was_open;
        if !was_open && !self.has_earlier && self.open().is_none() {
            return false;
        }
        if self.has_earlier && late {
            self.kept = None;
            self.drop_lines(self.pending.len(), true);
            self.shared.lock().trouble.replace(
                "its earlier changes could not be read at the start: restart the router to load them".into(),
            );
        }
        self.kept.is_some()
    }

    /// Takes a batch of waiting changes, so that they are written and synced together: a script can make changes faster than a disk
    /// can sync each of them. After failures, the oldest lines are dropped to make room for newer ones.
    fn take(&mut self) {
        let (mut taken, mut bytes) = (0, 0);
        while taken < WAITING && bytes < CHUNK {
            let next = {
                let mut state = self.shared.lock();
                let next = state.pop();
                state.taken = state.taken.or(next.as_ref().map(|next| next.place));
                next
            };
            let Some(Waiting { place, entry, since }) = next else { break };
            while !entry.origin.peer.is_known() && since.elapsed() < NAMES {
                std::thread::sleep(NAMES / 100);
            }
            let line = record::line(&entry, &self.catalog);
            (taken, bytes) = (taken + 1, bytes + line.len());
            self.bytes += line.len();
            self.pending.push_back((place, line));
            while self.pending.len() > WAITING || (self.bytes > TEXT && self.pending.len() > 1) {
                self.drop_lines(1, true);
            }
        }
    }

    /// Removes the first `n` waiting lines: they have been written or, if `lost`, are given up.
    fn drop_lines(&mut self, n: usize, lost: bool) {
        self.bytes -= self.pending.drain(..n).map(|(_, line)| line.len()).sum::<usize>();
        let mut state = self.shared.lock();
        state.taken = self.pending.front().map(|(place, _)| *place);
        if lost {
            state.lost += n as u64;
        }
    }

    /// Writes the waiting lines in batches, until all are written or a write fails.
    fn write(&mut self) {
        while !self.pending.is_empty() {
            let (mut lines, mut n) = (String::new(), 0);
            for (_, line) in &self.pending {
                if n > 0 && lines.len() + line.len() > CHUNK {
                    break;
                }
                lines += line;
                n += 1;
            }
            let Some(kept) = &mut self.kept else { return };
            if let Err(e) = kept.append(&lines) {
                self.shared.lock().trouble = Some(e.to_string());
                return;
            }
            self.drop_lines(n, false);
        }
        self.shared.lock().trouble = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::{Edit, Journal, Note, Table};
    use crate::journal::record::tests::entries;
    use crate::testing::catalog;
    use model::origin::{FrontEnd, Origin, Peer};

    fn begun(directory: &Path) -> Keeper {
        let (keeper, begun) = (Keeper::begin(directory, catalog()), Instant::now());
        while keeper.found(begun).is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        keeper
    }

    /// Returns `n` changes. The first one delays the writing thread, which waits for the name of the change's user.
    fn delayed(n: u32) -> Vec<Entry> {
        let mut all = entries(0..n);
        let nameless = Peer::User(12345, Arc::default());
        assert!(!nameless.is_known());
        all[0].origin = Origin::new(FrontEnd::Cli, nameless, "");
        all
    }

    fn until(what: &str, is: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the changes in the file, and their numbers.
    fn written(directory: &Path) -> (Vec<Entry>, Vec<u64>) {
        let text = std::fs::read_to_string(Kept::path_in(directory)).unwrap();
        let all: Vec<Entry> = text.lines().skip(1).filter_map(record::entry).collect();
        let numbers = all.iter().map(|entry| entry.number).collect();
        (all, numbers)
    }

    /// If changes are queued faster than they can be written, the newest ones are written. The lost ones leave a gap.
    #[test]
    fn the_newest_changes_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = begun(folder.path());
        delayed(3000).into_iter().for_each(|entry| keeper.keep(entry));
        let queued = keeper.queued();
        assert!(queued == 3000 && !keeper.has_written(queued));
        until("a save does not end", || keeper.has_written(queued));
        let (all, numbers) = written(folder.path());
        assert!(numbers.ends_with(&(2001..=3000).collect::<Vec<_>>()), "{numbers:?}");
        let lost = 3000 - numbers.len();
        assert!(keeper.trouble().unwrap().starts_with(&format!("{lost} changes are missing in ")));
        assert!(keeper.fails().is_none());
        let journal = Journal::after(all);
        assert!(journal.back_to(2000).is_ok() && journal.back_to(1).is_err(), "the gap can be crossed");
        keeper.end();
        assert_eq!(written(folder.path()).1, numbers);
    }

    /// The router tries again to open a directory that it could not use at the start. It then writes the changes of this run to the file
    /// there, unless the file has changes of earlier runs.
    #[test]
    fn a_directory_is_tried_again() {
        for earlier in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (directory, away) = (folder.path().join("state"), folder.path().join("away"));
            std::fs::create_dir(&away).unwrap();
            let (mut kept, _) = Kept::open(&away, Sizes::default()).unwrap();
            if earlier {
                kept.append(&record::line(&entries(0..1)[0], &catalog())).unwrap();
            }
            drop(kept);
            let before = written(&away).1;
            // A file in place of the directory.
            std::fs::write(&directory, "").unwrap();
            let mut keeper = begun(&directory);
            assert!(keeper.fails().is_some());
            entries(0..2).into_iter().for_each(|entry| keeper.keep(entry));
            until("the changes are taken", || keeper.shared.lock().waiting.is_empty());
            std::fs::remove_file(&directory).unwrap();
            std::fs::rename(&away, &directory).unwrap();
            until("there is no other attempt", || keeper.fails().is_none_or(|why| why.contains("restart")));
            assert_eq!(keeper.fails().is_some(), earlier);
            keeper.end();
            assert_eq!(written(&directory).1, if earlier { before } else { vec![1, 2] });
        }
    }

    /// The router's end waits for the newest changes, too.
    #[test]
    fn the_end_waits_for_the_newest_changes() {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = begun(folder.path());
        delayed(3000).into_iter().for_each(|entry| keeper.keep(entry));
        keeper.end();
        let (_, numbers) = written(folder.path());
        assert!(numbers.ends_with(&(2001..=3000).collect::<Vec<_>>()), "{numbers:?}");
    }

    /// While the disk refuses writes, the newest changes wait to be written.
    #[test]
    fn the_newest_changes_wait_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = begun(folder.path());
        let (path, away) = (Kept::path_in(folder.path()), folder.path().join("away"));
        std::fs::rename(&path, &away).unwrap();
        let mut all = entries(0..3000);
        let rest = all.split_off(1500);
        let keep = |all: Vec<Entry>| {
            all.into_iter().for_each(|entry| keeper.keep(entry));
            until("the changes are taken", || keeper.shared.lock().waiting.is_empty());
        };
        keep(all);
        keep(rest);
        until("no failure is noticed", || keeper.fails().is_some());
        assert!(keeper.has_written(keeper.queued()), "a save would wait for a disk that refuses");
        std::fs::rename(&away, &path).unwrap();
        keeper.end();
        let (_, numbers) = written(folder.path());
        assert_eq!(numbers, (3000 - WAITING as u64 + 1..=3000).collect::<Vec<_>>());
    }

    /// The oldest waiting changes lose their objects if there are too many.
    #[test]
    fn waiting_objects_are_limited() {
        let edit = |n| Edit { key: Table::key(n), old: None, new: Some(Table::default().into()) };
        let note = Note::new(Origin::default(), (0..4000).map(edit).collect(), Vec::new());
        let large = Journal::default().note(note).unwrap().entry;
        let mut state = State::default();
        (0..100).for_each(|_| state.push(large.clone()));
        let with: Vec<bool> = state.waiting.iter().map(|waiting| waiting.objects() > 0).collect();
        let kept = OBJECTS / 4000;
        assert_eq!(with, [vec![false; 100 - kept], vec![true; kept]].concat());
        assert_eq!(state.objects, kept * 4000);
        while state.pop().is_some() {}
        assert_eq!(state.objects, 0);
    }
}
