//! Keeps the journal on disk, by a thread of its own: neither a slow disk nor a full one holds the main thread up.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::file::{Found, Kept, Sizes};
use super::record;
use crate::intent::{Catalog, Entry};

/// Changes that wait for the disk at most. What would have to wait longer is not written.
const WAITING: usize = 256;
/// How often it is tried again to write what could not be written.
const RETRY: Duration = Duration::from_secs(5);
/// How long the name of a user is waited for, which another thread looks for.
const NAMES: Duration = Duration::from_secs(1);
/// How long the start waits for a file system that does not answer, and the end of the router.
const PATIENCE: Duration = Duration::from_secs(5);

/// How it is.
#[derive(Clone, Debug, Default)]
struct Status {
    /// Why changes are not written.
    trouble: Option<String>,
    /// Changes that are lost to the file.
    lost: u64,
    /// What is in the file came too late for the start. Numbers begin anew without it, so it is not written, either.
    too_late: bool,
}

/// What writes changes to a file.
pub struct Keeper {
    path: PathBuf,
    status: Arc<Mutex<Status>>,
    entries: Option<SyncSender<Entry>>,
    found: Receiver<Found>,
    ended: Receiver<()>,
    /// What was last told of its trouble.
    told: Option<String>,
}

impl Keeper {
    /// Keeps the journal in a directory.
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
        // A thread without the files of this process, since it may hang: what it has to say is told by the status.
        let work = move || {
            writer.run(&to_start, &waiting);
            drop(to_end);
        };
        if let Err(e) = drivers::spawn_apart("volley_journal", work) {
            set(&status, |status| status.trouble = Some(format!("no thread can be started for it: {e}")));
        }
        let path = Kept::path_in(directory);
        Keeper { path, status, entries: Some(entries), found, ended, told: None }
    }

    /// What earlier runs of the router have left, or `None` if it is not read yet. A file system that does not answer is not waited for
    /// longer than until `begun` is five seconds ago; what comes then is not looked at.
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

    /// Has a change written, as soon as the disk can.
    pub fn keep(&self, entry: Entry) {
        let Some(entries) = &self.entries else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = entries.try_send(entry) {
            set(&self.status, |status| status.lost += 1);
        }
    }

    /// What is wrong, for the operator: the file, why it is not written, and what is lost to it.
    pub fn trouble(&self) -> Option<String> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let path = self.path.display();
        match (status.trouble, status.lost) {
            (None, 0) => None,
            (None, lost) => Some(format!("{lost} changes are not in {path}: the disk was too slow or full")),
            (Some(why), 0) => Some(format!("changes are not kept in {path}: {why}")),
            (Some(why), lost) => {
                Some(format!("changes are not kept in {path}: {why}; {lost} are lost to it"))
            }
        }
    }

    /// The trouble, if changes cannot be written now.
    pub fn fails(&self) -> Option<String> {
        let now = self.status.lock().unwrap_or_else(PoisonError::into_inner).trouble.is_some();
        self.trouble().filter(|_| now)
    }

    /// Logs what is wrong, when that is another trouble than before.
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

    /// Waits until all is written, but not for a disk that does not answer. Logs what is lost.
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

/// What the thread has.
struct Writer {
    directory: PathBuf,
    kept: Option<Kept>,
    /// Lines that are not written yet.
    pending: VecDeque<String>,
    status: Arc<Mutex<Status>>,
    catalog: Arc<Catalog>,
}

impl Writer {
    fn run(mut self, found: &SyncSender<Found>, entries: &Receiver<Entry>) {
        let first = self.open();
        // Nobody waits for it any more if that took too long.
        let _ = found.send(first.unwrap_or_default());
        loop {
            let next = match self.pending.is_empty() {
                true => entries.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => entries.recv_timeout(RETRY),
            };
            match next {
                Ok(entry) => self.add(&entry),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.write();
                    return set(&self.status, |status| status.lost += self.pending.len() as u64);
                }
            }
            self.write();
        }
    }

    /// Opens the file; what is wrong is told by the status.
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

    fn add(&mut self, entry: &Entry) {
        let until = Instant::now() + NAMES;
        while !entry.origin.peer.is_known() && Instant::now() < until {
            std::thread::sleep(NAMES / 100);
        }
        if self.pending.len() < WAITING {
            self.pending.push_back(record::line(entry, &self.catalog));
        } else {
            set(&self.status, |status| status.lost += 1);
        }
    }

    /// Writes what waits, as far as the disk takes it.
    fn write(&mut self) {
        if self.status.lock().unwrap_or_else(PoisonError::into_inner).too_late {
            self.kept = None;
        }
        // A file that could not be read at the start is not written either, lest numbers begin anew in it.
        let Some(kept) = &mut self.kept else {
            let lost = std::mem::take(&mut self.pending).len() as u64;
            return set(&self.status, |status| status.lost += lost);
        };
        while let Some(line) = self.pending.front() {
            if let Err(e) = kept.append(line) {
                return set(&self.status, |status| status.trouble = Some(e.to_string()));
            }
            self.pending.pop_front();
        }
        set(&self.status, |status| status.trouble = None);
    }
}
