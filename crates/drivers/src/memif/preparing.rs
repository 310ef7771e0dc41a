//! Prepares shared memory on a separate thread before packets pass, because a malicious peer can make the preparation block.
//!
//! A thread that maps, seals or touches memory sleeps while another process removes pages from it (`FALLOC_FL_PUNCH_HOLE`). A peer can make
//! that sleep last forever, by removing pages with a thread of lowest priority on busy cores. So the separate thread seals the memory
//! against hole punching (`F_SEAL_FUTURE_WRITE`) before the router's other threads touch the memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use infra::doorbell::Doorbell;

use super::SECOND;
use crate::kernel::apart::{self, Crew};

/// Time limit of a preparation, in nanoseconds. If it takes longer, the peer is disconnected.
const PATIENCE: u64 = 5 * SECOND;

/// A result that a thread is preparing.
pub(super) struct Preparing<T> {
    result: Receiver<Result<T, String>>,
    /// Deadline in nanoseconds.
    pub(super) until: u64,
}

impl<T: Send + 'static> Preparing<T> {
    /// Runs `work` with copies of `files` on a thread of `crew`. The thread rings `bell` when `work` has ended.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub(super) fn begin(
        crew: &Crew,
        bell: &Doorbell,
        files: &[BorrowedFd<'_>],
        now: u64,
        work: impl FnOnce(&[BorrowedFd<'_>]) -> Result<T, String> + Send + 'static,
    ) -> io::Result<Preparing<T>> {
        let (done, result) = sync_channel(1);
        let all = [&[bell.as_fd()], files].concat();
        apart::run(crew, "volley_memory", 0, &all, move |files| {
            let Ok(files) = files else { return };
            let Some((bell, files)) = files.split_first() else { return };
            let files: Vec<BorrowedFd<'_>> = files.iter().map(|file| file.as_fd()).collect();
            let _ = done.send(work(&files));
            // Ring even if there is no result: the main thread then sees that the result is missing.
            if let Ok(bell) = bell.try_clone() {
                Doorbell::from(bell).ring();
            }
        })?;
        Ok(Preparing { result, until: now + PATIENCE })
    }

    /// Returns the result if the thread has finished; `None` while the thread still works. Returns an error if the thread could not be
    /// created, or if the deadline has passed.
    pub(super) fn poll(&self, now: u64) -> Option<Result<T, String>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Disconnected) => Some(Err("cannot create a thread for the memory".into())),
            Err(TryRecvError::Empty) if now >= self.until => Some(Err(
                "mapping and sealing the memory timed out: the peer may be removing pages from it (punching holes)".into(),
            )),
            Err(TryRecvError::Empty) => None,
        }
    }
}
