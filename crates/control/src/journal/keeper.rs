//! Writes the journal to disk on a thread of its own, so that a slow or full disk does not delay the main thread.

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::file::{Found, Kept, Sizes};
use super::record;
use crate::intent::Entry;
use crate::system::Catalog;

/// Maximum number of changes that wait for the disk. Further changes are not written to the file.
const WAITING: usize = 1024;
/// Bytes of text that are written and synced together, more only for one long line.
const CHUNK: usize = 1 << 20;
/// Interval between attempts to write after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// How long to wait for a user's name, which another thread looks up.
const NAMES: Duration = Duration::from_secs(1);
/// How long the router's start and end wait for a file system that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The state of the file.
#[derive(Clone, Debug, Default)]
struct Status {
    /// Why changes are not written.
    trouble: Option<String>,
    /// Number of changes that were not written.
    lost: u64,
    /// Number of queued changes that were written, or lost after they were queued.
    done: u64,
    /// True if the file was read too late for the start. Then change numbers restart, so nothing is written to the
    /// file.
    too_late: bool,
}

/// Writes changes to the journal file.
pub struct Keeper {
    path: PathBuf,
    status: Arc<Mutex<Status>>,
    entries: Option<SyncSender<Entry>>,
    /// Number of queued changes.
    queued: Cell<u64>,
    found: Receiver<Found>,
    ended: Receiver<()>,
    /// The last logged message about changes that are not written.
    told: Option<String>,
}

impl Keeper {
    /// Starts the thread that keeps the journal in a directory.
    pub fn begin(directory: &Path, catalog: Arc<Catalog>) -> Keeper {
        let (entries, waiting) = sync_channel(WAITING);
        let (to_start, found) = sync_channel(1);
        let (to_end, ended) = sync_channel(1);
        let status: Arc<Mutex<Status>> = Arc::default();
        let writer = Writer {
            directory: directory.to_owned(),
            kept: None,
            pending: VecDeque::new(),
            status: Arc::clone(&status),
            catalog,
        };
        // The thread may hang, so it does not share the process's files. It reports by the status.
        let work = move || {
            writer.run(&to_start, &waiting);
            drop(to_end);
        };
        if let Err(e) = drivers::spawn_apart("volley_journal", work) {
            set(&status, |status| status.trouble = Some(format!("cannot start a thread for it: {e}")));
        }
        let path = Kept::path_in(directory);
        Keeper { path, status, entries: Some(entries), queued: Cell::new(0), found, ended, told: None }
    }

    /// Returns the changes of earlier runs, or `None` if they have not been read yet. Waits for the file system until
    /// five seconds after `begun`. Changes read later are ignored.
    pub fn found(&self, begun: Instant) -> Option<Found> {
        match self.found.try_recv() {
            Ok(found) => Some(found),
            Err(TryRecvError::Empty) if begun.elapsed() < PATIENCE => None,
            Err(_) => {
                set(&self.status, |status| {
                    status.too_late = true;
                    status
                        .trouble
                        .get_or_insert_with(|| "the file system did not answer at the start".into());
                });
                Some(Found::default())
            }
        }
    }

    /// Queues a change to be written.
    pub fn keep(&self, entry: Entry) {
        let Some(entries) = &self.entries else { return };
        match entries.try_send(entry) {
            Ok(()) => self.queued.set(self.queued.get() + 1),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                set(&self.status, |status| status.lost += 1);
            }
        }
    }

    /// Returns the number of changes queued so far, for [`has_written`](Keeper::has_written).
    pub fn queued(&self) -> u64 {
        self.queued.get()
    }

    /// True if the first `queued` changes are on the disk, or cannot be written.
    pub fn has_written(&self, queued: u64) -> bool {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.done >= queued || status.trouble.is_some()
    }

    /// Returns a message if changes are not written or were lost: the file, the reason, and the number of lost changes.
    pub fn trouble(&self) -> Option<String> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let path = self.path.display();
        match (status.trouble, status.lost) {
            (None, 0) => None,
            (None, lost) => Some(format!("{lost} changes are not in {path}: the disk was too slow or full")),
            (Some(why), 0) => Some(format!("changes are not kept in {path}: {why}")),
            (Some(why), lost) => {
                Some(format!("changes are not kept in {path}: {why}; {lost} changes are lost"))
            }
        }
    }

    /// Returns the message of [`trouble`](Keeper::trouble), but only while changes cannot be written.
    pub fn fails(&self) -> Option<String> {
        let now = self.status.lock().unwrap_or_else(PoisonError::into_inner).trouble.is_some();
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
        self.entries = None;
        if self.ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "the last changes may not be in {}: the disk does not answer",
                self.path.display()
            );
        }
        self.look();
    }
}

fn set(status: &Mutex<Status>, change: impl FnOnce(&mut Status)) {
    change(&mut status.lock().unwrap_or_else(PoisonError::into_inner));
}

/// The state of the thread.
struct Writer {
    directory: PathBuf,
    kept: Option<Kept>,
    /// Lines to be written.
    pending: VecDeque<String>,
    status: Arc<Mutex<Status>>,
    catalog: Arc<Catalog>,
}

impl Writer {
    fn run(mut self, found: &SyncSender<Found>, entries: &Receiver<Entry>) {
        let first = self.open();
        // The receiver may have stopped waiting.
        let _ = found.send(first.unwrap_or_default());
        loop {
            let next = match self.pending.is_empty() {
                true => entries.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => entries.recv_timeout(RETRY),
            };
            match next {
                // Those that wait are written together: syncing each one would take longer than a script needs for its next change.
                Ok(entry) => {
                    self.add(&entry);
                    while self.pending_bytes() < CHUNK
                        && self.pending.len() < WAITING
                        && let Ok(entry) = entries.try_recv()
                    {
                        self.add(&entry);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.write();
                    return set(&self.status, |status| status.lost += self.pending.len() as u64);
                }
            }
            self.write();
        }
    }

    /// Opens the file, and returns its contents. Stores an error in the status, and returns `None`.
    fn open(&mut self) -> Option<Found> {
        match Kept::open(&self.directory, Sizes::default()) {
            Ok((kept, found)) => {
                self.kept = Some(kept);
                Some(found)
            }
            Err(e) => {
                set(&self.status, |status| status.trouble = Some(e.to_string()));
                None
            }
        }
    }

    fn pending_bytes(&self) -> usize {
        self.pending.iter().map(String::len).sum()
    }

    fn add(&mut self, entry: &Entry) {
        let until = Instant::now() + NAMES;
        while !entry.origin.peer.is_known() && Instant::now() < until {
            std::thread::sleep(NAMES / 100);
        }
        if self.pending.len() < WAITING {
            self.pending.push_back(record::line(entry, &self.catalog));
        } else {
            set(&self.status, |status| (status.lost, status.done) = (status.lost + 1, status.done + 1));
        }
    }

    /// Writes the waiting lines, some at a time, until that fails.
    fn write(&mut self) {
        if self.status.lock().unwrap_or_else(PoisonError::into_inner).too_late {
            self.kept = None;
        }
        let waiting = self.pending.len() as u64;
        // A file that was not read at the start is not written: its change numbers would restart.
        let Some(kept) = &mut self.kept else {
            self.pending.clear();
            return set(&self.status, |status| {
                (status.lost, status.done) = (status.lost + waiting, status.done + waiting);
            });
        };
        while !self.pending.is_empty() {
            let (mut lines, mut n) = (String::new(), 0);
            for line in self.pending.iter() {
                if n > 0 && lines.len() + line.len() > CHUNK {
                    break;
                }
                lines += line;
                n += 1;
            }
            if let Err(e) = kept.append(&lines) {
                return set(&self.status, |status| status.trouble = Some(e.to_string()));
            }
            self.pending.drain(..n);
            set(&self.status, |status| status.done += n as u64);
        }
        set(&self.status, |status| status.trouble = None);
    }
}
