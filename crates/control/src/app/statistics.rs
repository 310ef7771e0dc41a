//! Freshness of the values in the statistics segment. A program reads the segment without asking the router. So when the router answers a
//! program's request, the segment must already show the result of that request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use super::Context;

/// The state of the statistics segment: the numbers of the last request for fresh values, and of the last answered request. Clones
/// share this state.
#[derive(Clone, Default)]
pub struct Statistics(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// True after the first reader has opened the segment.
    read: AtomicBool,
    asked: AtomicU64,
    published: Mutex<u64>,
    /// Wakes threads that wait for fresh values.
    changed: Condvar,
    /// Wakes tasks that wait for fresh values.
    done: Notify,
    /// Wakes the task that collects the values.
    bell: Notify,
}

impl Statistics {
    /// Requests fresh values.
    pub fn ask(&self) {
        self.0.asked.fetch_add(1, Ordering::AcqRel);
        self.0.bell.notify_one();
    }

    /// Returns the number of the last request.
    pub fn last_asked(&self) -> u64 {
        self.0.asked.load(Ordering::Acquire)
    }

    /// Waits for a request.
    pub async fn asked(&self) {
        self.0.bell.notified().await;
    }

    /// True if a program has opened the segment.
    pub fn is_read(&self) -> bool {
        self.0.read.load(Ordering::Acquire)
    }

    /// True if all requests for fresh values are answered, or if no program has opened the segment.
    pub fn is_fresh(&self) -> bool {
        !self.is_read() || *self.published_so_far() >= self.last_asked()
    }

    /// Waits until all requests are answered.
    pub async fn fresh(&self) {
        loop {
            let done = self.0.done.notified();
            if self.is_fresh() {
                return;
            }
            done.await;
        }
    }

    /// Records that the segment has fresh values for all requests up to number `asked`.
    pub fn published(&self, asked: u64) {
        let mut published = self.published_so_far();
        *published = asked.max(*published);
        drop(published);
        self.0.changed.notify_all();
        self.0.done.notify_waiters();
    }

    /// Records that a reader opens the segment. For the first reader, also requests values. Blocks the calling thread until values
    /// have been published for the first time, but at most for `patience`.
    pub fn opened(&self, patience: Duration) {
        if !self.0.read.swap(true, Ordering::AcqRel) {
            self.ask();
        }
        let nothing = |published: &mut u64| *published == 0;
        drop(self.0.changed.wait_timeout_while(self.published_so_far(), patience, nothing));
    }

    fn published_so_far(&self) -> MutexGuard<'_, u64> {
        self.0.published.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Context {
    /// Requests fresh values in the statistics segment if interfaces were added or removed since the last call.
    pub fn note_interfaces(&mut self) {
        if self.known_interfaces != self.system.interfaces_changed {
            self.known_interfaces = self.system.interfaces_changed;
            self.statistics.ask();
        }
    }
}
