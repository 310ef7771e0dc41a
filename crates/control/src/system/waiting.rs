//! Interfaces that wait for their devices.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use drivers::{Patience, Waiter};
use net::feature::{Prepared, Unready};

use super::{Backed, System};

/// Longest time of an attempt. Other devices may have to wait for its end.
const MOST: Duration = Duration::from_secs(600);
/// Time for preparing all devices at the start, or in a rollback. Other devices are prepared afterwards: they wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of devices that are prepared at the same time.
const AT_ONCE: usize = 4;
/// The pause after the first failed attempt to open a device that takes time to open. Each further pause is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between attempts.
const LONGEST: Duration = Duration::from_secs(60);

/// An interface that waits for its device.
pub(super) struct Wait {
    /// Why the device cannot be opened; empty if that is not known yet.
    why: String,
    /// The time of the next attempt.
    next: Instant,
    /// The pause before the next attempt, for a device that takes time to open.
    pause: Duration,
    trying: Option<Trying>,
}

/// An attempt to prepare data for opening a device.
struct Trying {
    /// The options of the device.
    of: Backed,
    thread: JoinHandle<Result<Prepared, Unready>>,
    _waiter: Waiter,
}

impl Wait {
    fn new(why: String) -> Wait {
        Wait { why, next: Instant::now(), pause: Duration::ZERO, trying: None }
    }

    /// Records that the device could not be opened. If opening the device takes time, the pause before the next attempt grows with each
    /// failure. Any other device is tried again at each check of the devices.
    fn failed(&mut self, why: String, slow: bool) {
        self.why = why;
        if slow {
            self.pause = (2 * self.pause).clamp(PAUSE, LONGEST);
            self.next = Instant::now() + self.pause;
        }
    }

    /// Returns the data for opening the device now; `None` if it is not time yet, or while another thread prepares the data. A separate
    /// thread prepares the data, because this may take long, for example to read a large file.
    fn attempt(&mut self, backed: &Backed) -> Option<Prepared> {
        let ended = |trying: &mut Trying| trying.of != *backed || trying.thread.is_finished();
        if let Some(Trying { of, thread, .. }) = self.trying.take_if(ended)
            && of == *backed
        {
            match thread.join() {
                Ok(Ok(prepared)) => return Some(prepared),
                Ok(Err(unready)) => self.failed(unready.why.to_string(), true),
                Err(_) => {
                    self.failed("internal error: the thread that prepares the device died".into(), true)
                }
            }
        }
        if self.trying.is_some() || Instant::now() < self.next {
            return None;
        }
        if !backed.is_slow() {
            return Some(None);
        }
        let (of, patience) = (backed.clone(), Patience::of(MOST));
        let _waiter = Waiter(patience.clone());
        match thread::Builder::new().name("volley_device".into()).spawn(move || of.prepare(&patience)) {
            Ok(thread) => self.trying = Some(Trying { of: backed.clone(), thread, _waiter }),
            Err(e) => self.failed(format!("no thread can be started: {e}"), true),
        }
        None
    }
}

impl System {
    /// Returns why the device of a waiting interface cannot be opened, if that is known.
    pub fn why_absent(&self, name: &str) -> Option<&str> {
        self.waiting.get(name).map(|wait| wait.why.as_str()).filter(|why| !why.is_empty())
    }

    /// Records that the device of an interface cannot be opened. The interface then waits for the device.
    pub(super) fn waits(&mut self, name: &str, backed: &Backed, why: String) {
        let slow = backed.is_slow();
        self.waiting.entry(name.to_string()).or_insert_with(|| Wait::new(String::new())).failed(why, slow);
    }

    /// Returns the data for opening the device of a waiting interface now; `None` if it is not time yet, or if the data is not ready.
    pub(super) fn attempt(&mut self, name: &str, backed: &Backed) -> Option<Prepared> {
        let busy = self.waiting.values().filter(|wait| wait.trying.is_some()).count();
        let wait = self.waiting.entry(name.to_string()).or_insert_with(|| Wait::new(String::new()));
        // A file system that is slow or hangs must not get a thread for each device at once.
        if wait.trying.is_none() && busy >= AT_ONCE && backed.is_slow() { None } else { wait.attempt(backed) }
    }
}
