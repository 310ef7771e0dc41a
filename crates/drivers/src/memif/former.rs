//! Memory of ended connections that peers may still use.
//!
//! The kernel charges a page of a shared file to the process that first touched it, until no process uses the page.
//! So a peer that keeps the memory of ended connections and reconnects repeatedly would fill this router's memory.
//! Each connection's thread proves that the memory is released ([`release`](super::release)). An inotify watch on
//! each file shows whether the memory is freed when the thread closes its own copy. The watch itself keeps nothing
//! allocated.
//!
//! The peer can remove pages from memory that this router has created, until the memory is sealed. If the removed pages are freed, the
//! router later allocates pages in their place that are not reserved. If the removed pages are still in use elsewhere, no later check of
//! the file shows this. A second watch reports the first such change.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use infra::mem::Promise;

use super::SECOND;
use super::release::{Release, State};
use crate::kernel::inotify::{Event, Watches};

/// Maximum number of ended connections of a server's interface whose memory may still be in use. More than 1 is needed because this router
/// unmaps the memory on another thread, and a client may connect again at once.
pub(super) const OF_SERVER: usize = 4;
/// The limit for a client's interface (see [`OF_SERVER`]). The client connects again only after a second, when the memory is released.
pub(super) const OF_CLIENT: usize = 1;
/// Nanoseconds for which a file may still exist after the proof of release. If the connection ended early, other threads of this router may
/// still be unmapping or filling the memory.
const GRACE: u64 = 2 * SECOND;
/// Nanoseconds for which memory counts as used if its state is unknown.
const UNKNOWN: u64 = 3600 * SECOND;

/// An interface: its socket and its ID.
type Interface = (u32, u32);

/// A connection, open or ended.
#[derive(Debug)]
struct Connection {
    interface: Interface,
    release: Arc<Release>,
    /// Memory reserved ([`Promise`]) because the kernel may charge the connection's pages to this router.
    promises: Vec<Arc<Promise>>,
    /// True if the peer can keep pages in use although the proof of release succeeds.
    doubtful: bool,
    /// True if a process has used a system call to write to memory created by this router, or to remove pages from it.
    changed: bool,
    /// Time in nanoseconds when the release was first proved while a watched file of the connection still existed; `None` if it never was.
    released_at: Option<u64>,
    /// Set if the state of the memory is unknown: until this time, in nanoseconds, the connection counts as using the memory.
    unknown_until: Option<u64>,
}

/// Reservations of an interface that are kept until the time `until`, in nanoseconds, although the memory was proved released: a peer may
/// still use some of the pages ([`release`](super::release)). Reservations are kept only if the process cannot read all its memory limits.
/// It then cannot see that those pages reduce its free memory.
#[derive(Debug)]
struct Aftermath {
    interface: Interface,
    until: u64,
    _promises: Vec<Arc<Promise>>,
}

impl Connection {
    /// Returns the reservations to keep after the proof of release; `None` if there are none.
    fn aftermath(self, now: u64) -> Option<Aftermath> {
        let doubtful = self.doubtful && self.unknown_until.is_none();
        let blind: Vec<_> = self.promises.into_iter().filter(|p| doubtful && p.is_blind()).collect();
        (!blind.is_empty()).then(|| Aftermath {
            interface: self.interface,
            until: now + UNKNOWN,
            _promises: blind,
        })
    }
}

/// The memory of all connections, open and ended.
#[derive(Debug, Default)]
pub(super) struct Former {
    /// The inotify instance that reports files that are gone, if the kernel provided one.
    inotify: Option<Watches>,
    /// The connections by number.
    connections: BTreeMap<u64, Connection>,
    /// Maps watch descriptors of `inotify` to the numbers of the connections whose files they watch. Only files that still exist are
    /// watched.
    watches: BTreeMap<i32, u64>,
    /// The inotify instance that reports changes of memory created by this router, if the kernel provided one.
    changes: Option<Watches>,
    /// Maps watch descriptors of `changes` to the numbers of the connections whose memory they watch. Only memory created by this router is
    /// watched, and only until its first change.
    unchanged: BTreeMap<i32, u64>,
    aftermath: Vec<Aftermath>,
    /// The number of the last connection.
    last: u64,
}

impl Former {
    /// Returns an empty set. The inotify instances are created now, because other processes of this user may take all of them later.
    pub(super) fn new() -> Former {
        Former { inotify: Watches::new().ok(), changes: Watches::new().ok(), ..Former::default() }
    }

    /// Watches the files of a new connection of an interface. Returns the connection's number in this set.
    ///
    /// # Errors
    /// If more than `most` ended connections of the interface may still use memory, one of the files belongs to an earlier connection, or a
    /// file cannot be watched. The new watches are then removed.
    pub(super) fn begin(
        &mut self,
        interface: Interface,
        files: &[BorrowedFd<'_>],
        release: &Arc<Release>,
        most: usize,
    ) -> Result<u64, String> {
        self.check(interface, most)?;
        let number = self.last + 1;
        for file in files {
            let refused = match watch(&mut self.inotify, |inotify| inotify.add(*file)) {
                // A region may have the same file as another one.
                Ok(watch) => match self.watches.insert(watch, number).filter(|other| *other != number) {
                    None => continue,
                    Some(former) => {
                        self.watches.insert(watch, former);
                        "the memory is that of a former connection: a client must create new memory".into()
                    }
                },
                Err(e) => e,
            };
            self.unwatch(number);
            return Err(refused);
        }
        self.last = number;
        release.watch();
        let connection = Connection {
            interface,
            release: release.clone(),
            promises: Vec::new(),
            doubtful: false,
            changed: false,
            released_at: None,
            unknown_until: None,
        };
        self.connections.insert(number, connection);
        Ok(number)
    }

    /// Watches for changes of memory that this router has created and filled. Call this before the peer gets the file.
    ///
    /// # Errors
    /// If the file cannot be watched.
    pub(super) fn watch_changes(&mut self, number: u64, file: BorrowedFd<'_>) -> Result<(), String> {
        let watch = watch(&mut self.changes, |changes| changes.add_first_change(file))?;
        self.unchanged.insert(watch, number);
        Ok(())
    }

    /// True if a process has used a system call to change the memory that this router created for the connection.
    pub(super) fn is_changed(&mut self, number: u64) -> bool {
        self.read_changes();
        self.connections.get(&number).is_some_and(|c| c.changed)
    }

    /// Checks the number of an interface's ended connections whose memory may still be in use.
    ///
    /// # Errors
    /// If the number is more than `most`.
    pub(super) fn check(&self, interface: Interface, most: usize) -> Result<(), String> {
        let of = || self.connections.values().filter(|c| c.interface == interface);
        let (all, unknown) = (of().count(), of().filter(|c| c.unknown_until.is_some()).count());
        match (all, unknown) {
            _ if all <= most => Ok(()),
            (_, 0) => Err(format!(
                "the peer still uses the memory of {all} former connections: waiting until the peer releases this memory"
            )),
            _ => Err(format!(
                "the router cannot detect whether peers still use the memory of {unknown} former connections: waiting for at most {} minutes, or until the interface is set down and up",
                UNKNOWN / SECOND / 60
            )),
        }
    }

    /// Keeps a reservation until the connection's memory is released. `doubtful` is true if the peer has created the memory: the peer can
    /// then keep pages in use although the proof of release succeeds.
    pub(super) fn keep(&mut self, number: u64, promise: Arc<Promise>, doubtful: bool) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.promises.push(promise);
            connection.doubtful |= doubtful;
        }
    }

    /// Removes a connection and its watches, and stops waiting for its memory: for example, because the kernel charges the memory
    /// only to the peer.
    pub(super) fn forget(&mut self, number: u64) {
        self.unwatch(number);
        if let Some(connection) = self.connections.remove(&number) {
            connection.release.unwatch();
        }
    }

    /// Removes the interface's connections whose memory is in an unknown state, and the reservations kept after a release. For
    /// operators, who take the risk that the memory is still in use.
    pub(super) fn forgive(&mut self, interface: Interface) {
        let forgiven = |c: &Connection| c.interface == interface && c.unknown_until.is_some();
        let numbers: Vec<u64> =
            self.connections.iter().filter(|(_, c)| forgiven(c)).map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.forget(number));
        self.aftermath.retain(|a| a.interface != interface);
    }

    /// Removes all connections and their watches, and stops waiting for the release of their memory.
    pub(super) fn end(&mut self) {
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.forget(number));
    }

    /// Removes the watches of a connection.
    fn unwatch(&mut self, number: u64) {
        for (inotify, watches) in [(&self.inotify, &mut self.watches), (&self.changes, &mut self.unchanged)] {
            let Some(inotify) = inotify else { continue };
            watches.retain(|watch, of| {
                if *of == number {
                    inotify.remove(*watch);
                }
                *of != number
            });
        }
    }

    /// Returns the time, in nanoseconds, at which [`look`](Former::look) must be called even if no thread reports a release. The time is at
    /// least a second after `now`. `None` if such a call is not necessary.
    pub(super) fn next_timeout(&self, now: u64) -> Option<u64> {
        let due = |c: &Connection| c.unknown_until.or(c.released_at.map(|since| since + GRACE));
        let unknown = self.connections.values().filter_map(due);
        unknown.chain(self.aftermath.iter().map(|a| a.until)).map(|until| until.max(now + SECOND)).min()
    }

    /// Removes the connections whose memory is released. Returns the interface of each connection whose memory has just entered the
    /// unknown state: a peer may still use that memory.
    pub(super) fn look(&mut self, now: u64) -> Vec<Interface> {
        // The threads close the memory before they report, so the watches are read after the reports.
        let states: Vec<(u64, State)> =
            self.connections.iter().map(|(number, c)| (*number, c.release.state())).collect();
        self.read_watches();
        self.read_changes();
        self.aftermath.retain(|a| now < a.until);
        let mut unknown = Vec::new();
        for (number, state) in states {
            let exists = self.watches.values().any(|of| *of == number);
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            let released = match (state, connection.unknown_until) {
                (State::Held, _) => continue,
                (_, Some(until)) => !exists && now >= until,
                // The removed pages may be in use elsewhere.
                (State::Released | State::Unwatched, None) if connection.changed => false,
                (State::Released | State::Unwatched, None) if exists => {
                    if now < *connection.released_at.get_or_insert(now) + GRACE {
                        continue;
                    }
                    false
                }
                (State::Released | State::Unwatched, None) => true,
                (State::Unknown, None) => false,
            };
            if released {
                let removed = self.connections.remove(&number);
                self.aftermath.extend(removed.and_then(|c| c.aftermath(now)));
            } else if connection.unknown_until.is_none() {
                connection.unknown_until = Some(now + UNKNOWN);
                unknown.push(connection.interface);
            }
        }
        unknown
    }

    /// Reads the inotify reports about watched files, and removes the files that do not exist any more from `watches`.
    fn read_watches(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        inotify.read(|event| match event {
            Event::Gone(watch) | Event::Removed(watch) => drop(self.watches.remove(&watch)),
            // From now on, only the threads report releases.
            Event::Lost => self.watches.clear(),
            Event::Changed(_) => {}
        });
    }

    /// Reads the reports about memory created by this router, and marks the connections whose memory has changed.
    fn read_changes(&mut self) {
        let mut events = Vec::new();
        self.changes.iter().for_each(|changes| changes.read(|event| events.push(event)));
        events.into_iter().for_each(|event| self.note_change(event));
    }

    fn note_change(&mut self, event: Event) {
        let changed: Vec<u64> = match event {
            Event::Changed(watch) => self.unchanged.remove(&watch).into_iter().collect(),
            // No watch has more than two events, so the queue does not overflow. But the kernel also loses an event if it has no memory for
            // it, and a peer may have used up that memory. So after a lost event, the memory of any connection may have changed.
            Event::Lost => std::mem::take(&mut self.unchanged).into_values().collect(),
            Event::Gone(watch) | Event::Removed(watch) => {
                self.unchanged.remove(&watch);
                Vec::new()
            }
        };
        for number in changed {
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.changed = true;
            }
        }
    }
}

/// Adds a watch by `add`, and returns its descriptor. Creates the inotify instance if it is missing.
fn watch(
    inotify: &mut Option<Watches>,
    add: impl FnOnce(&Watches) -> io::Result<i32>,
) -> Result<i32, String> {
    let refused = |e: io::Error| format!("cannot watch the memory (inotify): {e}");
    let inotify = match inotify {
        Some(inotify) => inotify,
        None => inotify.insert(Watches::new().map_err(refused)?),
    };
    add(inotify).map_err(refused)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::memif::region::Region;
    use crate::memif::release::Debt;

    const INTERFACE: Interface = (0, 1);

    /// The router's side of a connection: its file, and the state of the proof that the peer has released the memory.
    struct Ours(OwnedFd, Arc<Release>);

    impl Ours {
        fn new() -> Ours {
            Ours(Region::create(c"test", 8192).unwrap().1, Arc::default())
        }

        fn begin(&self, former: &mut Former, most: usize) -> Result<u64, String> {
            former.begin(INTERFACE, &[self.0.as_fd()], &self.1, most)
        }

        fn peers(&self) -> OwnedFd {
            self.0.try_clone().unwrap()
        }

        /// Ends the connection. A thread then waits for the proof of release.
        fn end(self) {
            std::thread::spawn(move || Debt { release: self.1, created: false }.settle(vec![self.0]));
        }
    }

    /// Calls [`begin`](Ours::begin) until it succeeds.
    fn begin_at_last(former: &mut Former, ours: &Ours, most: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        while let Err(why) = ours.begin(former, most) {
            assert!(Instant::now() < until, "{why}");
            std::thread::yield_now();
            assert_eq!(former.look(0), []);
        }
    }

    #[test]
    fn memory_that_peers_keep_is_counted_until_they_release_it() {
        let mut former = Former::default();
        let mut kept = Vec::new();
        for _ in 0..=OF_SERVER {
            let ours = Ours::new();
            kept.push(ours.peers());
            ours.begin(&mut former, OF_SERVER).unwrap();
            ours.end();
        }
        let next = Ours::new();
        for _ in 0..2 {
            assert_eq!(former.look(0), []);
            let why = next.begin(&mut former, OF_SERVER).unwrap_err();
            assert!(why.contains("5 former connections"), "refused ones do not count: {why}");
        }
        former.begin((0, 2), &[next.0.as_fd()], &next.1, OF_CLIENT).unwrap();
        kept.pop();
        begin_at_last(&mut former, &Ours::new(), OF_SERVER);
    }

    #[test]
    fn a_promise_lasts_until_the_memory_is_released() {
        let (mut former, ours) = (Former::default(), Ours::new());
        let (peers, promise) = (ours.peers(), Arc::new(Promise::of(4096).unwrap()));
        let number = ours.begin(&mut former, OF_CLIENT).unwrap();
        former.keep(number, promise.clone(), true);
        ours.end();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!((former.look(0), Arc::strong_count(&promise)), (vec![], 2));
        drop(peers);
        let until = Instant::now() + Duration::from_secs(20);
        while Arc::strong_count(&promise) > 1 {
            assert!(Instant::now() < until);
            std::thread::yield_now();
            former.look(0);
        }
    }

    /// A removal of pages is reported; a store through a mapping is not. A peer that removes pages could move them into sockets first, or
    /// make the router allocate other pages that nobody has reserved.
    #[test]
    fn a_peer_that_removes_pages_of_created_memory_is_found() {
        let removes = [libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 0];
        for mode in removes {
            let (mut former, ours) = (Former::default(), Ours::new());
            let peers = ours.peers();
            let number = ours.begin(&mut former, 0).unwrap();
            former.watch_changes(number, ours.0.as_fd()).unwrap();
            // Stores through a mapping are allowed.
            let region = Region::of_peer(peers.as_fd(), 8192, None).unwrap();
            // SAFETY: the address is within the mapping.
            unsafe { region.at(0, 1).unwrap().write(1) };
            assert!(!former.is_changed(number));
            // SAFETY: no memory is involved.
            assert_eq!(unsafe { libc::fallocate(peers.as_raw_fd(), mode, 0, 4096) }, 0);
            assert!(former.is_changed(number));
            drop((region, peers));
            ours.end();
            let until = Instant::now() + Duration::from_secs(20);
            while former.look(0).is_empty() {
                assert!(Instant::now() < until);
                std::thread::yield_now();
            }
            let why = former.check(INTERFACE, 0).unwrap_err();
            assert!(why.contains("cannot detect whether peers still use the memory of 1"), "{why}");
        }
    }

    #[test]
    fn any_memory_may_have_changed_if_an_event_is_lost() {
        let (mut former, ours) = (Former::default(), [Ours::new(), Ours::new()]);
        let numbers = ours.each_ref().map(|ours| {
            let number = ours.begin(&mut former, 0).unwrap_or_else(|_| ours.begin(&mut former, 1).unwrap());
            former.watch_changes(number, ours.0.as_fd()).unwrap();
            number
        });
        assert_eq!(numbers.map(|number| former.is_changed(number)), [false; 2]);
        former.note_change(Event::Lost);
        assert_eq!(numbers.map(|number| former.is_changed(number)), [true; 2]);
    }

    #[test]
    fn released_memory_leaves_no_watches() {
        let (mut former, ours) = (Former::default(), Ours::new());
        let number = ours.begin(&mut former, 0).unwrap();
        former.watch_changes(number, ours.0.as_fd()).unwrap();
        ours.end();
        let until = Instant::now() + Duration::from_secs(20);
        while !former.connections.is_empty() || !former.watches.is_empty() || !former.unchanged.is_empty() {
            assert!(Instant::now() < until);
            std::thread::yield_now();
            assert_eq!(former.look(0), []);
        }
    }

    /// Memory that still exists two seconds after the proof of release counts as used for an hour, or longer if it exists longer: a peer
    /// may have opened it a second time.
    #[test]
    fn memory_that_outlives_the_proof_counts_for_an_hour() {
        let (mut former, ours) = (Former::default(), Ours::new());
        let second = std::fs::File::open(format!("/proc/self/fd/{}", ours.0.as_raw_fd())).unwrap();
        ours.begin(&mut former, 0).unwrap();
        ours.end();
        let until = Instant::now() + Duration::from_secs(20);
        while former.next_timeout(5).is_none() {
            assert!(Instant::now() < until);
            std::thread::yield_now();
            assert_eq!(former.look(5), []);
        }
        let next = Ours::new();
        let refused = |former: &mut Former, why: &str| next.begin(former, 0).is_err_and(|e| e.contains(why));
        let found = 5 + GRACE;
        assert_eq!((former.next_timeout(5), former.look(found - 1)), (Some(found), vec![]));
        assert!(refused(&mut former, "still uses"), "this router may still unmap it");
        assert_eq!(former.look(found), [INTERFACE]);
        assert_eq!(former.next_timeout(found), Some(UNKNOWN + found));
        former.look(UNKNOWN + found);
        assert!(refused(&mut former, "cannot detect"), "it still exists");
        drop(second);
        former.look(UNKNOWN + found - 1);
        assert!(refused(&mut former, "cannot detect"));
        former.look(UNKNOWN + found);
        next.begin(&mut former, 0).unwrap();
    }

    #[test]
    fn an_operator_can_take_the_risk() {
        let (mut former, ours) = (Former::default(), Ours::new());
        let number = ours.begin(&mut former, 0).unwrap();
        drop(Debt { release: ours.1.clone(), created: false });
        assert_eq!(former.look(0), [INTERFACE]);
        assert_eq!(former.look(0), [], "reported once");
        let next = Ours::new();
        assert!(next.begin(&mut former, 0).is_err());
        former.forgive((0, 2));
        assert!(former.connections.contains_key(&number));
        former.forgive(INTERFACE);
        next.begin(&mut former, 0).unwrap();
        former.end();
        assert!(former.connections.is_empty() && former.watches.is_empty());
    }

    #[test]
    fn memory_of_a_former_connection_is_refused() {
        let (mut former, one, other) = (Former::default(), Ours::new(), Ours::new());
        let twice = [one.0.as_fd(), one.0.as_fd()];
        let number = former.begin(INTERFACE, &twice, &one.1, OF_CLIENT).unwrap();
        let files = [other.0.as_fd(), one.0.as_fd()];
        let why = former.begin(INTERFACE, &files, &other.1, OF_CLIENT).unwrap_err();
        assert!(why.contains("must create new memory"), "{why}");
        assert_eq!(former.watches.values().collect::<Vec<_>>(), [&number]);
        assert_eq!(other.1.state(), State::Unwatched);
    }
}
