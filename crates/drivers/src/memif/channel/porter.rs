//! The thread that owns a connection's socket.
//!
//! A peer may pass any file with a message, even before it has sent a secret: a file of a FUSE server that never answers, or an event
//! descriptor whose watcher holds a lock forever. Closing such a file blocks. So each connection has its own thread with its own descriptor
//! table (`kernel::apart`). Only this thread has the socket and the files received from it. The thread passes harmless files on
//! (`pass.rs`): shared memory, and copies of event descriptors. It keeps its own copy of an event descriptor until all other copies are
//! closed. It closes only files whose close cannot block, such as the listener and shared memory; the kernel closes all others after the
//! thread has ended.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use infra::doorbell::Doorbell;

use super::Freed;
use super::listener::accept;
use super::pass;
use super::raw::{self, Piece};
use crate::kernel::apart::Kept;
use crate::kernel::{passing, sys};
use crate::memif::message::{self, Message};
use crate::memif::region;
use crate::memif::release::Debt;
use crate::memif::ring::Fault;
use crate::memif::signal::{self, Context};

/// Time for the peer to read the last messages.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A message to send, and true if it has a file. The main thread passes the file through [`pass`].
pub(super) type Order = ([u8; message::LEN], bool);

/// A report to the main thread.
#[derive(Debug)]
pub(super) enum Told {
    /// A peer is connected.
    Begun,
    /// A received message, or its type number if the type is unknown; and true if it has a file. The thread passes the file through
    /// [`pass`].
    Message(Result<Message, u16>, bool),
    Garbage(String),
    Failed(io::Error),
}

/// The way in which a connection starts.
pub(super) enum Way {
    /// Accept a client of the listener, which is the last of the thread's files.
    Accept,
    Connect(PathBuf),
}

/// State of a connection's thread.
pub(super) struct Porter {
    pub(super) way: Way,
    pub(super) let_go: Arc<AtomicBool>,
    pub(super) orders: Receiver<Order>,
    pub(super) to_main: SyncSender<Told>,
    /// Used to test whether a file is an event descriptor.
    pub(super) signals: Arc<Context>,
    /// Descriptors of shared memory: files that were sent, and files that were received with any message, even an invalid one.
    pub(super) memory: RefCell<Vec<RawFd>>,
    /// Counter to which the thread adds the size of `memory` when it ends.
    pub(super) freed: Freed,
    /// The thread's duty to prove that no process uses `memory` any more.
    pub(super) debt: Debt,
}

/// The thread's own files: its end of the socket pair to the main thread ([`pass`]), `/dev/null` for tests of event descriptors, and the
/// main thread's doorbell.
struct Own {
    pass: Kept,
    null: Kept,
    /// Wakes the main thread.
    main: Doorbell,
}

/// Returns the error for a message whose file was lost.
pub(super) fn lost(kind: &str) -> String {
    format!(
        "the file descriptor of {kind} was lost: this process has no free file descriptor (raise LimitNOFILE of its service)"
    )
}

impl Porter {
    /// Passes messages in both directions until the connection ends. Then waits until the main thread has closed its copies of the files,
    /// and until the peer has released watched memory.
    pub(super) fn run(self, files: io::Result<Vec<Kept>>) {
        // After the thread ends, the kernel frees the peer's memory at this thread's priority.
        sys::give_way_to_workers();
        let mut files = match files {
            Ok(files) => files.into_iter(),
            Err(e) => return drop(self.to_main.send(Told::Failed(e))),
        };
        let (Some(pass), Some(main), Some(null)) = (files.next(), files.next(), files.next()) else { return };
        let own = Own { pass, null, main: Doorbell::from(ManuallyDrop::into_inner(main)) };
        let socket = self.begin(&own, files.next());
        if let Some(socket) = &socket {
            self.serve(&own, socket.as_fd());
            raw::hang_up(socket.as_fd());
        }
        // This reports the end to the main thread.
        drop(self.to_main);
        own.main.ring();
        // Wait until the main thread has closed its copies of the received files.
        while passing::receive(own.pass.as_fd(), &mut [0], true).map_or_else(
            |e| e.kind() == ErrorKind::Interrupted,
            |piece| {
                remember(&self.memory, &piece.files.into_iter().map(ManuallyDrop::new).collect::<Vec<_>>());
                piece.len > 0
            },
        ) {}
        let memory = self.memory.into_inner();
        // SAFETY: this thread has closed nothing, so the descriptors are open, and nothing else uses them any more.
        let memory: Vec<OwnedFd> =
            memory.into_iter().map(|file| unsafe { OwnedFd::from_raw_fd(file) }).collect();
        self.freed.add(region::allocated(memory.iter().map(AsFd::as_fd)));
        self.debt.settle(memory);
        own.main.ring();
    }

    fn tell(&self, own: &Own, what: Told) {
        // Blocks while the main thread's queue is full, until it drops the channel.
        let _ = self.to_main.send(what);
        own.main.ring();
    }

    fn has_let_go(&self) -> bool {
        self.let_go.load(Ordering::Acquire)
    }

    /// Connects to the server or accepts a client, and reports the result to the main thread. Returns the connected socket; `None` after a
    /// failure, or if the main thread drops the channel before a client connects.
    fn begin(&self, own: &Own, listener: Option<Kept>) -> Option<Kept> {
        let socket = match (&self.way, listener) {
            (Way::Connect(path), _) => raw::connect(path),
            (Way::Accept, Some(listener)) => loop {
                if self.has_let_go() {
                    return None;
                }
                match accept(listener.as_fd()) {
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                        let both = [listener.as_fd(), own.pass.as_fd()].map(|file| (file, libc::POLLIN));
                        raw::wait(&both, None);
                    }
                    accepted => {
                        // This closes only this thread's copy of the listener. The socket's name is free as soon as the router has closed
                        // its other copies.
                        drop(ManuallyDrop::into_inner(listener));
                        break accepted;
                    }
                }
            },
            (Way::Accept, None) => Err(ErrorKind::NotFound.into()),
        };
        let (socket, told) = match socket {
            Ok(socket) => (Some(ManuallyDrop::new(socket)), Told::Begun),
            Err(e) => (None, Told::Failed(e)),
        };
        self.tell(own, told);
        socket
    }

    fn serve(&self, own: &Own, socket: BorrowedFd<'_>) {
        let mut waiting = Waiting::default();
        let mut end = None;
        loop {
            let let_go = self.has_let_go();
            self.take_files(own, &mut waiting);
            self.send(own, socket, &mut waiting);
            if let_go {
                let end = *end.get_or_insert_with(|| Instant::now() + LAST_WORDS);
                let left = end.saturating_duration_since(Instant::now());
                if waiting.order.is_none() || left.is_zero() {
                    return;
                }
                raw::wait(&[(socket, libc::POLLOUT)], Some(left));
                continue;
            }
            let events = libc::POLLIN | if waiting.order.is_some() { libc::POLLOUT } else { 0 };
            raw::wait(&[(socket, events), (own.pass.as_fd(), libc::POLLIN)], None);
            match raw::receive(socket) {
                // The kernel reports the reset once, if the peer closed without reading everything. The peer's last
                // messages follow.
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionReset) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) | Ok(Piece { len: 0, .. }) => return,
                Ok(piece) => self.deliver(own, piece),
            }
        }
    }

    /// Sends queued messages until the queue is empty or the socket accepts no more.
    fn send(&self, own: &Own, socket: BorrowedFd<'_>, waiting: &mut Waiting) {
        loop {
            let Some((bytes, has_file)) = waiting.order else {
                match self.orders.try_recv() {
                    Ok(next) => {
                        waiting.order = Some(next);
                        // The main thread has passed the message's file before the message.
                        self.take_files(own, waiting);
                    }
                    Err(_) => return,
                }
                continue;
            };
            let file = waiting.files.front().filter(|_| has_file);
            match raw::send(socket, &bytes, file.map(|f| f.as_fd())) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // If the peer has closed the connection, its earlier messages, most likely including the reason, are still to be read.
                _ => {
                    waiting.order = None;
                    if has_file {
                        waiting.files.pop_front();
                    }
                }
            }
        }
    }

    /// Takes the files that the main thread has passed, and the pending wakeups.
    fn take_files(&self, own: &Own, waiting: &mut Waiting) {
        while let Ok(piece) = passing::receive(own.pass.as_fd(), &mut [0], false)
            && piece.len > 0
        {
            let files: Vec<Kept> = piece.files.into_iter().map(ManuallyDrop::new).collect();
            remember(&self.memory, &files);
            waiting.files.extend(files);
        }
    }

    fn deliver(&self, own: &Own, piece: Piece) {
        let Piece { len, bytes, files, files_lost } = piece;
        remember(&self.memory, &files);
        let told = match len {
            message::LEN => self.sort(own, Message::parse(&bytes), files, files_lost),
            n => Told::Garbage(format!("a message has {n} bytes instead of {}", message::LEN)),
        };
        self.tell(own, told);
    }

    /// Passes the file of a message to the main thread, if the file is harmless. Returns the report about the message.
    fn sort(&self, own: &Own, message: Result<Message, u16>, mut files: Vec<Kept>, files_lost: bool) -> Told {
        let kind = match &message {
            Ok(message) => message.kind(),
            Err(_) if files.is_empty() && !files_lost => return Told::Message(message, false),
            Err(_) => "a message of an unknown type",
        };
        if files_lost {
            return Told::Garbage(lost(kind));
        }
        let Some(file) = files.pop() else { return Told::Message(message, false) };
        if !files.is_empty() {
            return Told::Garbage(format!("{kind} arrived with {} file descriptors", files.len() + 1));
        }
        match &message {
            Ok(Message::AddRegion { .. }) if !region::is_memory(file.as_fd()) => {
                return Told::Garbage(format!("the file descriptor of {kind} is not shared memory"));
            }
            Ok(Message::AddRing(_)) => {
                // A spurious signal does no harm: the peer wakes, checks, and sleeps again.
                let mut signaled = Ok(());
                let slow = signal::is_slow(|| signaled = self.signals.ring(own.null.as_fd(), file.as_fd()));
                match signaled {
                    Ok(()) => {}
                    Err(e) if e.kind() == ErrorKind::InvalidInput => {
                        return Told::Garbage(format!("the file descriptor of {kind} is not an eventfd"));
                    }
                    Err(e) => return Told::Garbage(format!("cannot signal the peer: {e}")),
                }
                if slow {
                    return Told::Garbage(Fault::SlowBell.to_string());
                }
            }
            Ok(Message::AddRegion { .. }) => {}
            _ => return Told::Garbage(format!("{kind} arrived with a file descriptor")),
        }
        if let Err(e) = pass::send(own.pass.as_fd(), Some(file.as_fd())) {
            return Told::Garbage(format!(
                "cannot pass the file descriptor of {kind} to the main thread: {e}"
            ));
        }
        Told::Message(message, true)
    }
}

/// Records in `memory` those of `files` that are shared memory.
fn remember(memory: &RefCell<Vec<RawFd>>, files: &[Kept]) {
    let files = files.iter().filter(|file| region::is_memory(file.as_fd()));
    memory.borrow_mut().extend(files.map(|file| file.as_raw_fd()));
}

/// Messages that wait until the peer has read earlier messages.
#[derive(Default)]
struct Waiting {
    order: Option<Order>,
    /// The files of the waiting messages, in order. The first is that of `order`, if `order` has a file.
    files: VecDeque<Kept>,
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;
    use crate::memif::channel::Pass;
    use crate::memif::message::{AddRing, Direction};
    use crate::memif::signal::Signals;

    /// Returns the parts of a connection: the thread's state, the thread's own files, and the main thread's end of the socket pair.
    fn porter() -> (Porter, Own, Pass) {
        let (ours, theirs) = Pass::new().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let own = Own {
            pass: ManuallyDrop::new(theirs),
            null: ManuallyDrop::new(null.into()),
            main: Doorbell::new().unwrap(),
        };
        let porter = Porter {
            way: Way::Accept,
            let_go: Arc::default(),
            orders: mpsc::sync_channel(1).1,
            to_main: mpsc::sync_channel(1).0,
            signals: Signals::new().unwrap().context(),
            memory: RefCell::default(),
            freed: Freed::default(),
            debt: Debt { release: Arc::default(), created: false },
        };
        (porter, own, ours)
    }

    /// Calls `sort` with a received message and its files. `lost` means that the process had no free descriptor for one of the files.
    /// Returns `sort`'s report for the main thread, and true if `sort` has passed a file along with it.
    fn sorted(message: Message, files: Vec<OwnedFd>, lost: bool) -> (Told, bool) {
        let (porter, own, ours) = porter();
        let files = files.into_iter().map(ManuallyDrop::new).collect();
        let told = porter.sort(&own, Ok(message), files, lost);
        (told, ours.take().is_some())
    }

    fn garbage((told, has_file): (Told, bool)) -> String {
        match told {
            Told::Garbage(why) if !has_file => why,
            other => panic!("{other:?}"),
        }
    }

    /// The kernel frees memory received with an invalid message at the cost of the router's CPU time, too. So the size of that
    /// memory is counted.
    #[test]
    fn memory_received_with_an_invalid_message_is_freed_too() {
        let (porter, own, _ours) = porter();
        let files = [sys::memory_file(c"test").unwrap(), sys::eventfd().unwrap()].map(ManuallyDrop::new);
        let memory = files[0].as_raw_fd();
        let bytes = [0; message::LEN];
        porter.deliver(&own, Piece { len: 5, bytes, files: files.into(), files_lost: false });
        assert_eq!(*porter.memory.borrow(), [memory]);
    }

    #[test]
    fn only_harmless_files_are_passed_on() {
        let ring = || {
            let (direction, index) = (Direction::ToServer, 0);
            Message::AddRing(AddRing {
                direction,
                index,
                region: 0,
                offset: 0,
                log2_size: 4,
                private_header: 0,
            })
        };
        let region = || Message::AddRegion { index: 0, size: 4096 };
        let bell = || sys::eventfd().unwrap();
        let socket = || OwnedFd::from(UnixStream::pair().unwrap().0);
        let memory = || sys::memory_file(c"test").unwrap();
        assert!(matches!(sorted(ring(), vec![bell()], false), (Told::Message(Ok(_), true), true)));
        assert!(matches!(sorted(region(), vec![memory()], false), (Told::Message(Ok(_), true), true)));
        assert!(
            matches!(sorted(ring(), vec![], false), (Told::Message(Ok(_), false), false)),
            "the server reports the missing file"
        );
        for (message, files, why) in [
            (region(), vec![socket()], "the file descriptor of ADD_REGION is not shared memory"),
            (region(), vec![bell()], "the file descriptor of ADD_REGION is not shared memory"),
            (ring(), vec![socket()], "the file descriptor of ADD_RING is not an eventfd"),
            (ring(), vec![bell(), bell()], "ADD_RING arrived with 2 file descriptors"),
            (Message::Ack, vec![bell()], "ACK arrived with a file descriptor"),
        ] {
            assert_eq!(garbage(sorted(message, files, false)), why);
        }
    }

    #[test]
    fn a_file_lost_without_a_free_descriptor_is_reported() {
        let why = garbage(sorted(Message::AddRegion { index: 0, size: 4096 }, vec![], true));
        assert!(
            why.starts_with(
                "the file descriptor of ADD_REGION was lost: this process has no free file descriptor"
            ),
            "{why}"
        );
    }
}
