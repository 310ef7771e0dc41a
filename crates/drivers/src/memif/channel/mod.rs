//! The control channel: connections, and the sockets that clients connect to. Nothing here blocks. Each connection
//! has a thread with its own descriptor table (`porter.rs`), which receives and closes untrusted files.

mod listener;
mod pass;
mod porter;
mod raw;

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError, TrySendError};

use infra::doorbell::Doorbell;

use super::bell::Bell;
use super::message::Message;
use super::region::MemoryFile;
use super::release::{Debt, Release};
use super::signal::Signals;
use crate::kernel::apart::{self, Crew};
pub(super) use listener::Listener;
pub(super) use pass::Pass;
use porter::{Order, Porter, Told, Way};
pub(super) use raw::MEMORY_NAME;

/// Maximum number of messages waiting for a peer to read them: more than a client needs to describe all its rings.
const MOST_WAITING: usize = 1024;
/// Maximum number of messages of a peer waiting for the main thread.
const MOST_RECEIVED: usize = 32;
/// Name of a connection's thread.
const THREAD: &str = "volley_memif";
/// Stack size of a connection's thread in bytes.
const STACK: usize = 128 << 10;

/// A file received with a message. It can be dropped on any thread.
#[derive(Debug)]
pub(super) enum File {
    /// Shared memory of a region.
    Memory(MemoryFile),
    /// The event descriptor of a ring.
    Bell(Bell),
}

/// An event of a connection, such as a received message.
#[derive(Debug)]
pub(super) enum Received {
    /// A peer is connected.
    Begun,
    /// A message, or its type number if the type is unknown; and the message's file, if it has one.
    Message(Result<Message, u16>, Option<File>),
    /// An invalid message, or a message with an unexpected file.
    Garbage(String),
    /// The connection failed.
    Failed(io::Error),
    /// The peer closed the connection.
    Closed,
    /// There are no events now.
    Nothing,
}

/// Resources shared by a router's channels.
#[derive(Clone)]
pub(super) struct Means {
    /// Wakes the main thread when there is something to [receive](Channel::receive).
    pub(super) bell: Arc<Doorbell>,
    pub(super) signals: Arc<Signals>,
}

/// Counts the bytes of memory that peers leave when their connections end. The kernel frees this memory at the cost of the router's CPU
/// time.
#[derive(Clone, Debug, Default)]
pub(super) struct Freed(Arc<AtomicU64>);

impl Freed {
    fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Returns the number of bytes counted since the last call.
    pub(super) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::AcqRel)
    }
}

/// A connection. After it is dropped, the peer has up to one second to read the messages already sent.
pub(super) struct Channel {
    pass: Arc<Pass>,
    let_go: Arc<AtomicBool>,
    orders: SyncSender<Order>,
    received: Receiver<Told>,
    release: Arc<Release>,
}

impl Channel {
    /// Connects to the listener at `path`, on a new thread of `crew`.
    ///
    /// # Errors
    /// If the process has no free descriptor or thread.
    pub(super) fn connect(path: &Path, means: &Means, crew: &Crew) -> io::Result<Channel> {
        Channel::new(Way::Connect(path.to_owned()), &[], means, crew, Freed::default())
    }

    /// Starts a thread of `crew` that waits for the listener's next client and accepts it. When the connection has ended, the thread adds
    /// the size of the memory that the client leaves, in bytes, to `freed`.
    ///
    /// # Errors
    /// As for [`connect`](Channel::connect).
    pub(super) fn accept(
        listener: &Listener,
        means: &Means,
        crew: &Crew,
        freed: &Freed,
    ) -> io::Result<Channel> {
        Channel::new(Way::Accept, &[listener.as_fd()], means, crew, freed.clone())
    }

    fn new(
        way: Way,
        listener: &[BorrowedFd<'_>],
        means: &Means,
        crew: &Crew,
        freed: Freed,
    ) -> io::Result<Channel> {
        let (pass, theirs) = Pass::new()?;
        let let_go = Arc::<AtomicBool>::default();
        let (orders, to_send) = mpsc::sync_channel(MOST_WAITING);
        let (to_main, received) = mpsc::sync_channel(MOST_RECEIVED);
        let files = [&[theirs.as_fd(), means.bell.as_fd(), means.signals.null()], listener].concat();
        let signals = means.signals.context();
        let (memory, release) = (RefCell::default(), Arc::<Release>::default());
        let debt = Debt { release: release.clone(), created: matches!(way, Way::Connect(_)) };
        let porter =
            Porter { way, let_go: let_go.clone(), orders: to_send, to_main, signals, memory, freed, debt };
        apart::run(crew, THREAD, STACK, &files, move |files| porter.run(files))?;
        Ok(Channel { pass: Arc::new(pass), let_go, orders, received, release })
    }

    /// Queues a message, with a file if one is given.
    ///
    /// # Errors
    /// If the peer does not read messages, so that no more can be queued. A broken connection is reported by [`receive`](Channel::receive)
    /// instead, after the peer's earlier messages.
    pub(super) fn send(&self, message: &Message, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let stuck = || io::Error::other("the peer does not read messages");
        if let Some(file) = file {
            match self.pass.send(Some(file)) {
                // The thread has ended.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                sent => sent.map_err(|_| stuck())?,
            }
        }
        match self.orders.try_send((message.bytes(), file.is_some())) {
            Err(TrySendError::Full(_)) => Err(stuck()),
            Ok(()) | Err(TrySendError::Disconnected(_)) => {
                self.wake();
                Ok(())
            }
        }
    }

    /// Takes the next event from the queue. Does not block.
    pub(super) fn receive(&self) -> Received {
        let (message, has_file) = match self.received.try_recv() {
            Ok(Told::Begun) => return Received::Begun,
            Ok(Told::Message(message, has_file)) => (message, has_file),
            Ok(Told::Garbage(what)) => return Received::Garbage(what),
            Ok(Told::Failed(e)) => return Received::Failed(e),
            Err(TryRecvError::Empty) => return Received::Nothing,
            Err(TryRecvError::Disconnected) => return Received::Closed,
        };
        if !has_file {
            return Received::Message(message, None);
        }
        let file = match (&message, self.pass.take()) {
            (Ok(Message::AddRing(_)), Some(file)) => Some(File::Bell(self.bell(file))),
            (_, Some(file)) => MemoryFile::new(file).ok().map(File::Memory),
            (_, None) => None,
        };
        match (file, &message) {
            (Some(file), _) => Received::Message(message, Some(file)),
            (None, Ok(message)) => Received::Garbage(porter::lost(message.kind())),
            (None, Err(_)) => Received::Garbage(porter::lost("a message")),
        }
    }

    /// Returns the state of the proof that the peer has released the connection's memory.
    pub(super) fn release(&self) -> &Arc<Release> {
        &self.release
    }

    /// Wraps an event descriptor that the peer has, or will get. The connection's thread keeps a copy while the [`Bell`] exists.
    pub(super) fn bell(&self, file: OwnedFd) -> Bell {
        Bell::new(file, &self.pass)
    }

    fn wake(&self) {
        // If there is no room, earlier wakeups are still pending.
        let _ = self.pass.send(None);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.let_go.store(true, Ordering::Release);
        self.wake();
    }
}

/// Checks that a path, or `@NAME`, can be a socket's address.
///
/// # Errors
/// If it cannot.
pub(super) fn check_path(path: &Path) -> io::Result<()> {
    raw::address(path).map(|_| ())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A thread with its own descriptor table must not close descriptors of the process, even if it drops the last reference to
    /// them. They are not open in its table, and in debug builds, std aborts when it closes a descriptor that is not open.
    #[test]
    fn a_thread_never_closes_descriptors_of_the_process() {
        let crew = Crew::default();
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let signals = Arc::new(Signals::new().unwrap());
            let means = Means { bell: Arc::new(Doorbell::new().unwrap()), signals };
            let channel = Channel::connect(&folder.path().join("nobody"), &means, &crew).unwrap();
            drop((means, channel));
        }
        let end = Instant::now() + Duration::from_secs(20);
        while crew.working() > 0 {
            assert!(Instant::now() < end);
            std::thread::yield_now();
        }
    }
}
