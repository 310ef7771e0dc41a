//! Quiescent-state-based reclamation: values removed from a table are freed once every reader has passed a
//! point where it holds no reference to them.
//!
//! A reader (a worker) is a [`Participant`]. While it is in a [`Section`] it may hold references into tables.
//! It calls [`Section::quiescent`] between two vectors, and leaves the section before it sleeps, so that
//! reclamation never waits for a sleeping reader. The borrow checker proves that no reference is held across a
//! quiescent point or after the section.
//!
//! Each retirement gets a [`Mark`], the next value of the domain's epoch. A reader announces the epoch that
//! it saw at its last quiescent point. Once it announces the mark or a later one, it has also seen everything
//! that the writer did before the mark.

use crate::sync::{
    Arc, Mutex,
    atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
        fence,
    },
    lock, thread,
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The value that a participant announces outside of any section.
const OFFLINE: u64 = 0;

/// The epoch that a participant announces. It has its own pair of cache lines, because the participant's
/// thread writes it in every loop.
#[repr(align(128))]
struct Announced(AtomicU64);

struct State {
    participants: Vec<Arc<Announced>>,
    /// Retired values, in the order of their marks.
    retired: VecDeque<(Mark, Box<dyn Send>)>,
}

struct Inner {
    id: u64,
    epoch: AtomicU64,
    state: Mutex<State>,
}

/// A point in the history of a domain; see [`Domain::mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// A group of readers, and the tables that they read. Clones are handles on the same domain.
#[derive(Clone)]
pub struct Domain(Arc<Inner>);

impl Default for Domain {
    fn default() -> Self {
        Self::new()
    }
}

impl Domain {
    /// Returns a domain without readers.
    pub fn new() -> Self {
        // This is an atomic of the standard library: loom does not support its own atomics in statics, and no
        // other memory access is ordered by this one.
        static IDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        Self(Arc::new(Inner {
            id: IDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            epoch: AtomicU64::new(1),
            state: Mutex::new(State { participants: Vec::new(), retired: VecDeque::new() }),
        }))
    }

    /// Identifies the domain within the process.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Adds a reader, which starts outside of any section.
    pub fn register(&self) -> Participant {
        let announced = Arc::new(Announced(AtomicU64::new(OFFLINE)));
        lock(&self.0.state).participants.push(announced.clone());
        Participant { domain: self.clone(), announced }
    }

    /// Drops `garbage` in a later [`collect`](Self::collect), after a grace period. The caller has removed it from all tables, so that no
    /// reader can find it any more.
    pub fn retire(&self, garbage: Box<dyn Send>) {
        let mut state = lock(&self.0.state);
        // Drawn under the lock, so that the queue is in order.
        let mark = self.mark();
        state.retired.push_back((mark, garbage));
    }

    /// Calls `f` in a later [`collect`](Self::collect), after a grace period.
    pub fn defer(&self, f: impl FnOnce() + Send + 'static) {
        self.retire(Box::new(OnDrop(Some(f))));
    }

    /// Marks this moment. Once the mark has [`passed`](Self::passed), no reader holds a reference to a value
    /// removed before it.
    pub fn mark(&self) -> Mark {
        Mark(self.0.epoch.fetch_add(1, AcqRel) + 1)
    }

    /// True if every reader has been quiescent or offline at least once since [`mark`](Self::mark) returned
    /// `mark`.
    pub fn passed(&self, mark: Mark) -> bool {
        mark <= Self::reached(&lock(&self.0.state))
    }

    /// Returns the latest existing mark that every reader has passed. A mark made later does not count as passed, even if no reader is
    /// online now: a reader may come online before that mark is made.
    pub(crate) fn all_passed(&self) -> Mark {
        let now = Mark(self.0.epoch.load(Acquire));
        Self::reached(&lock(&self.0.state)).min(now)
    }

    /// Returns the latest mark that every reader has passed. If no reader is online, this is the greatest
    /// possible mark.
    fn reached(state: &State) -> Mark {
        // Pairs with the fence in enter(): either the reader sees the removal of earlier values, or this
        // thread sees that the reader is online.
        fence(SeqCst);
        let online = state.participants.iter().map(|a| a.0.load(Acquire)).filter(|&seen| seen != OFFLINE);
        Mark(online.min().unwrap_or(u64::MAX))
    }

    /// Frees the retired values whose marks every reader has passed. Returns their number.
    pub fn collect(&self) -> usize {
        let free: Vec<_> = {
            let mut state = lock(&self.0.state);
            let reached = Self::reached(&state);
            let n = state.retired.partition_point(|&(mark, _)| mark <= reached);
            state.retired.drain(..n).collect()
        };
        // Dropped outside of the lock: a drop may retire more.
        free.len()
    }

    /// Number of retired values that are not freed yet.
    pub fn pending(&self) -> usize {
        lock(&self.0.state).retired.len()
    }

    /// Waits until every reader has been quiescent or offline since this call, then calls
    /// [`collect`](Self::collect). Returns false if `timeout` expires first. The calling thread must not be
    /// in a section, or it would wait for itself.
    pub fn synchronize(&self, timeout: Duration) -> bool {
        let mark = self.mark();
        let start = Instant::now();
        while !self.passed(mark) {
            if start.elapsed() >= timeout {
                return false;
            }
            thread::yield_now();
        }
        self.collect();
        true
    }
}

struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

/// A reader of a domain's tables. The domain forgets it on drop.
pub struct Participant {
    domain: Domain,
    announced: Arc<Announced>,
}

impl Participant {
    /// Goes online: until the section is dropped, the tables keep everything that this reader can see.
    pub fn enter(&mut self) -> Section<'_> {
        self.announced.0.store(self.domain.0.epoch.load(Acquire), Relaxed);
        // The announcement must be visible before the first table is read; see reached().
        fence(SeqCst);
        let guard = Guard { domain: self.domain.id() };
        Section { participant: self, guard }
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        lock(&self.domain.0.state).participants.retain(|a| !Arc::ptr_eq(a, &self.announced));
    }
}

/// The time during which a reader is online. The reader goes offline on drop.
pub struct Section<'p> {
    participant: &'p mut Participant,
    guard: Guard,
}

impl Section<'_> {
    /// Returns the guard, which tables require as proof that the reader is online. References into tables
    /// live as long as this borrow.
    #[inline(always)]
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Announces that this reader holds no reference into any table now. (`&mut` proves it.)
    #[inline]
    pub fn quiescent(&mut self) {
        let announced = &self.participant.announced.0;
        let epoch = self.participant.domain.0.epoch.load(Acquire);
        // Only this thread writes the announcement, so the load is cheap. Without a new epoch nothing is written, so the cache line stays
        // shared.
        if announced.load(Relaxed) != epoch {
            announced.store(epoch, Release);
        }
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        self.participant.announced.0.store(OFFLINE, Release);
    }
}

/// Proof that the current section is online. A holder of `&'g Guard` may hold `&'g T` into the domain's
/// tables.
pub struct Guard {
    domain: u64,
}

impl Guard {
    /// Panics if this guard is not for `domain`, the domain of the table to be read. The guard would then not
    /// protect the table's values.
    #[inline(always)]
    pub(crate) fn check(&self, domain: u64) {
        if self.domain != domain {
            wrong_domain();
        }
    }
}

#[cold]
#[inline(never)]
fn wrong_domain() -> ! {
    panic!("a table was read under the guard of another quiescence domain");
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicUsize;

    fn counted(domain: &Domain) -> Arc<AtomicUsize> {
        let freed = Arc::new(AtomicUsize::new(0));
        let f = freed.clone();
        domain.defer(move || {
            f.fetch_add(1, Relaxed);
        });
        freed
    }

    #[test]
    fn waits_for_online_readers_only() {
        let d = Domain::new();
        let (mut a, mut b, _never_online) = (d.register(), d.register(), d.register());
        let mut sa = a.enter();
        let sb = b.enter();
        let freed = counted(&d);
        assert_eq!((d.collect(), d.pending(), freed.load(Relaxed)), (0, 1, 0));
        sa.quiescent();
        assert_eq!(d.collect(), 0);
        drop(sb);
        assert_eq!((d.collect(), d.pending(), freed.load(Relaxed)), (1, 0, 1));
        let later = counted(&d);
        assert_eq!(d.collect(), 0);
        drop(sa);
        drop(a);
        assert_eq!((d.collect(), later.load(Relaxed)), (1, 1));
    }

    #[test]
    fn a_later_reader_does_not_delay_retirement() {
        let d = Domain::new();
        let mut p = d.register();
        let freed = counted(&d);
        let _s = p.enter();
        d.collect();
        assert_eq!(freed.load(Relaxed), 1);
    }

    /// While no reader is online, every existing mark is passed. A mark made later must not count as passed.
    #[test]
    fn no_reader_has_passed_a_later_mark() {
        let d = Domain::new();
        let mut p = d.register();
        let drawn = d.mark();
        let passed = d.all_passed();
        assert!(drawn <= passed);
        let _s = p.enter();
        let later = d.mark();
        assert!(later > passed && later > d.all_passed());
    }

    #[test]
    fn synchronize_times_out_or_succeeds() {
        let d = Domain::new();
        let mut p = d.register();
        let s = p.enter();
        assert!(!d.synchronize(Duration::from_millis(2)));
        drop(s);
        assert!(d.synchronize(Duration::from_secs(5)));
    }

    #[test]
    fn a_destructor_may_retire_more() {
        let d = Domain::new();
        let inner = d.clone();
        d.defer(move || inner.retire(Box::new(0)));
        assert_eq!((d.collect(), d.pending()), (1, 1));
        assert_eq!((d.collect(), d.pending()), (1, 0));
    }

    #[test]
    #[should_panic(expected = "another quiescence domain")]
    fn a_foreign_guard_is_refused() {
        let (a, b) = (Domain::new(), Domain::new());
        let mut p = a.register();
        p.enter().guard().check(b.id());
    }
}
