//! What is done with shared memory before packets pass, on a thread apart: it may take as long as a peer likes.
//!
//! Whoever maps, seals or touches memory from which pages are being taken (`FALLOC_FL_PUNCH_HOLE`) sleeps until that is done,
//! and a peer can see to it that it never is: a thread of the lowest priority beside busy ones does not get on, wherever in
//! the kernel it is. So memory is sealed against that (`F_SEAL_FUTURE_WRITE`) before anybody else touches it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use infra::doorbell::Doorbell;

use super::SECOND;
use crate::kernel::apart::{self, Crew};

/// How long it may take before the peer is given up.
const PATIENCE: u64 = 5 * SECOND;

/// Something that a thread prepares.
pub(super) struct Preparing<T> {
    result: Receiver<Result<T, String>>,
    /// When it should be done, in nanoseconds.
    pub(super) until: u64,
}

impl<T: Send + 'static> Preparing<T> {
    /// Has a thread of `crew` do `work` with copies of `files`; it rings `bell` behind that.
    ///
    /// # Errors
    /// When there can be no thread.
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
            // Also where there is no result: it is looked for then.
            if let Ok(bell) = bell.try_clone() {
                Doorbell::from(bell).ring();
            }
        })?;
        Ok(Preparing { result, until: now + PATIENCE })
    }

    /// What came of it, if it is done.
    pub(super) fn poll(&self, now: u64) -> Option<Result<T, String>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Disconnected) => Some(Err("there can be no thread for the memory".into())),
            Err(TryRecvError::Empty) if now >= self.until => Some(Err(
                "the memory could not be mapped and sealed in time: does the peer punch holes into it?"
                    .into(),
            )),
            Err(TryRecvError::Empty) => None,
        }
    }
}
