//! Adding packet buffers while the router forwards.
//!
//! The kernel takes some time to allocate hundreds of megabytes, so a thread adds the buffers. Only the request that started the thread
//! waits for it. The thread completes its work even if the client disconnects.

use std::io;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Weak};
use std::thread;

use super::{Context, Failure};
use crate::startup::MOST_BUFFERS;

/// The permission to add buffers. At most one thread holds it.
#[derive(Default)]
pub(super) struct Growing(Weak<()>);

impl Growing {
    /// Returns the permission, or `None` while another thread holds it. The permission ends when the returned value is dropped.
    fn begin(&mut self) -> Option<Arc<()>> {
        let alone = Arc::new(());
        (self.0.strong_count() == 0).then(|| self.0 = Arc::downgrade(&alone)).map(|()| alone)
    }
}

/// A thread that adds buffers: the channel for its result, and the wanted total.
pub struct Adding(Receiver<io::Result<()>>, usize);

impl Adding {
    /// Returns the thread's result; `None` while it works.
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome.map_err(|e| refused(self.1, &e).into())),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                let why = "internal error: the thread that adds buffers died";
                Some(Err(Failure::from(why.to_string())))
            }
        }
    }
}

impl Context {
    /// Begins to add buffers, up to `total` in all. Returns `None` if there are `total` buffers already.
    ///
    /// # Errors
    /// If there are more than `total`, if `total` is above the maximum, if buffers are already being added, or if no thread can be started.
    pub fn add_buffers(&mut self, total: usize) -> Result<Option<Adding>, Failure> {
        if total > MOST_BUFFERS {
            return Err(format!("the maximum is {MOST_BUFFERS} buffers").into());
        }
        let alone = self.growing.begin().ok_or(Failure::AddingBuffers)?;
        let pool = self.system.router.pool().clone();
        let there = pool.total();
        let more = total.checked_sub(there).ok_or_else(|| {
            format!(
                "there are {there} buffers, and none can be removed: for fewer, set buffers {{ buffers-per-numa N }} in \
                 startup.conf and restart the router"
            )
        })?;
        if more == 0 {
            return Ok(None);
        }
        let (done, added) = mpsc::channel();
        let work = move || {
            let outcome = pool.grow(more);
            match &outcome {
                Ok(()) => {
                    tracing::info!(
                        event = "buffers",
                        "there are {total} buffers now, {more} more than before"
                    )
                }
                Err(e) => tracing::warn!("{}", refused(total, e)),
            }
            // Before the result is sent: its receiver may add more buffers at once.
            drop(alone);
            let _ = done.send(outcome);
        };
        let begun = thread::Builder::new().name("volley_buffers".into()).spawn(work);
        begun.map_err(|e| format!("buffers cannot be added: no thread can be started: {e}"))?;
        Ok(Some(Adding(added, total)))
    }
}

fn refused(total: usize, e: &io::Error) -> String {
    format!("cannot allocate {total} buffers: {e}")
}
