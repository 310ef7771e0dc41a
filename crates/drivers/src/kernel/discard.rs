//! Closes files and unmaps memory on a thread of its own.
//!
//! The last user of shared memory frees its pages, which takes the kernel a tenth of a second for a GiB. Neither the main
//! thread nor a worker has that time. What is given to this thread must end by itself: files whose close may never return
//! belong on a thread that may hang (see `memif::channel::porter`).

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::sys;

type Work = Box<dyn FnOnce() + Send>;

/// Starts the thread unless it runs. It shares the caller's table of file descriptors.
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

/// Runs `work` on the thread; here, if there can be no thread.
pub(crate) fn elsewhere(work: impl FnOnce() + Send + 'static) {
    let work: Work = Box::new(work);
    match begin() {
        // The thread ends with the process; should it have died, the work comes back.
        Some(to) => to.send(work).unwrap_or_else(|returned| (returned.0)()),
        None => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_by_another_thread() {
        let (done, who) = channel();
        elsewhere(move || {
            let _ = done.send(thread::current().id());
        });
        assert_ne!(who.recv().unwrap(), thread::current().id());
    }
}
