//! Closes files and unmaps memory on a separate thread.
//!
//! The last user of shared memory frees its pages, which takes the kernel 0.1 s per GiB: too long for the main thread
//! and for a worker. Work for this thread must always finish. Files whose close may block forever belong on a thread
//! that may hang (see `memif::channel::porter`).

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::sys;

type Work = Box<dyn FnOnce() + Send>;

/// Starts the thread if it is not running, and returns its queue; `None` if the thread could not be started. The thread shares the
/// caller's file descriptor table.
pub(super) fn begin() -> Option<&'static Sender<Work>> {
    static THREAD: OnceLock<Option<Sender<Work>>> = OnceLock::new();
    let start = || {
        let (to, from) = channel::<Work>();
        let run = move || {
            sys::give_way_to_workers();
            from.into_iter().for_each(|work| work());
        };
        thread::Builder::new().name("volley_discard".into()).spawn(run).ok().map(|_| to)
    };
    THREAD.get_or_init(start).as_ref()
}

/// Runs `work` on the separate thread, or on the caller's thread if the separate one cannot be started.
pub(crate) fn elsewhere(work: impl FnOnce() + Send + 'static) {
    let work: Work = Box::new(work);
    match begin() {
        // The thread normally ends with the process. If it has panicked, the caller does the work.
        Some(to) => to.send(work).unwrap_or_else(|returned| (returned.0)()),
        None => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_runs_on_another_thread() {
        let (done, who) = channel();
        elsewhere(move || {
            let _ = done.send(thread::current().id());
        });
        assert_ne!(who.recv().unwrap(), thread::current().id());
    }
}
