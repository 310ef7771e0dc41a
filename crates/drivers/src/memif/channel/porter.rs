//! The thread that has a connection's socket.
//!
//! A peer may pass any file with a message, also before it has said a secret: a file of a FUSE server that never answers, an
//! event descriptor whose watcher never lets go. Whoever closes such a file hangs. So each connection has a thread of its
//! own, with a table of descriptors of its own (`kernel::apart`): it alone has the socket, and files that came by it. What does
//! no harm gets further (`pass.rs`): shared memory, which the kernel closes by itself, and copies of event descriptors, of
//! which this thread keeps one until all others are closed. It closes nothing itself; when it has ended, the kernel does.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
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
use crate::memif::ring::Fault;
use crate::memif::signal::{self, Context};

/// How long the peer is given to read the last messages.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A message to be sent, and whether a file goes with it, which comes by the pass.
pub(super) type Order = ([u8; message::LEN], bool);

/// What the main thread is told.
#[derive(Debug)]
pub(super) enum Told {
    /// There is a peer.
    Begun,
    /// A message, and whether a file belongs to it, which comes by the pass.
    Message(Result<Message, u16>, bool),
    Garbage(String),
    Failed(io::Error),
}

/// How a connection begins.
pub(super) enum Way {
    /// A client comes to the listener, which is the last of the thread's files.
    Accept,
    Connect(PathBuf),
}

/// The thread's side of a connection.
pub(super) struct Porter {
    pub(super) way: Way,
    pub(super) let_go: Arc<AtomicBool>,
    pub(super) orders: Receiver<Order>,
    pub(super) to_main: SyncSender<Told>,
    /// Tells event descriptors from other files.
    pub(super) signals: Arc<Context>,
    /// The files that are memory, whatever they came with.
    pub(super) memory: RefCell<Vec<RawFd>>,
    /// Is told how many bytes they have when the thread ends.
    pub(super) freed: Freed,
}

/// The thread's files: its end of the pass, and one that signals need.
struct Own {
    pass: Kept,
    null: Kept,
    /// Rings when there is something for the main thread.
    main: Doorbell,
}

/// What is said of a message whose file was lost.
pub(super) fn lost(kind: &str) -> String {
    format!("{kind} lost its file: this process has no file descriptor left (see LimitNOFILE of its service)")
}

impl Porter {
    /// Passes messages both ways until the connection ends, and waits until nobody uses what came by it.
    pub(super) fn run(self, files: io::Result<Vec<Kept>>) {
        // When it ends, the kernel frees what the peer has left.
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
        // The main thread learns of the end.
        drop(self.to_main);
        own.main.ring();
        // Until it has closed its copies of what came.
        while passing::receive(own.pass.as_fd(), &mut [0], true).map_or_else(
            |e| e.kind() == ErrorKind::Interrupted,
            |piece| {
                piece.files.into_iter().for_each(std::mem::forget);
                piece.len > 0
            },
        ) {}
        let memory = self.memory.borrow();
        // SAFETY: this thread closes nothing, so the descriptors are open.
        let files = memory.iter().map(|file| unsafe { BorrowedFd::borrow_raw(*file) });
        self.freed.add(region::allocated(files));
    }

    fn tell(&self, own: &Own, what: Told) {
        // Waits while the main thread has much to read, until it lets go.
        let _ = self.to_main.send(what);
        own.main.ring();
    }

    fn has_let_go(&self) -> bool {
        self.let_go.load(Ordering::Acquire)
    }

    /// Gives a socket that is connected.
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
                        // The router has others. Its name is free as soon as they are closed.
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
            waiting.take_files(own.pass.as_fd());
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
                // Reset is reported once, when the peer closed without having read everything; its last words come after.
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionReset) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) | Ok(Piece { len: 0, .. }) => return,
                Ok(piece) => self.deliver(own, piece),
            }
        }
    }

    /// Sends what there is to send.
    fn send(&self, own: &Own, socket: BorrowedFd<'_>, waiting: &mut Waiting) {
        loop {
            let Some((bytes, has_file)) = waiting.order else {
                match self.orders.try_recv() {
                    Ok(next) => {
                        waiting.order = Some(next);
                        // Its file came before it.
                        waiting.take_files(own.pass.as_fd());
                    }
                    Err(_) => return,
                }
                continue;
            };
            let file = waiting.files.front().filter(|_| has_file);
            match raw::send(socket, &bytes, file.map(|f| f.as_fd())) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // If the peer has closed the connection, what it said before is still to be read: why, most likely.
                _ => {
                    waiting.order = None;
                    if has_file {
                        waiting.files.pop_front();
                    }
                }
            }
        }
    }

    fn deliver(&self, own: &Own, piece: Piece) {
        let Piece { len, bytes, files, files_lost } = piece;
        let memory = files.iter().filter(|file| region::is_memory(file.as_fd()));
        self.memory.borrow_mut().extend(memory.map(|file| file.as_raw_fd()));
        let told = match len {
            message::LEN => self.sort(own, Message::parse(&bytes), files, files_lost),
            n => Told::Garbage(format!("a message of {n} bytes, and not of {}", message::LEN)),
        };
        self.tell(own, told);
    }

    /// Hands over the file that belongs to a message, if it is one that does no harm.
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
            return Told::Garbage(format!("{kind} with {} files", files.len() + 1));
        }
        match &message {
            Ok(Message::AddRegion { .. }) if !region::is_memory(file.as_fd()) => {
                return Told::Garbage(format!("the file of {kind} is not shared memory"));
            }
            Ok(Message::AddRing(_)) => {
                // One signal too many does no harm: whoever is woken looks, and sleeps again.
                let mut signalled = Ok(());
                let slow = signal::is_slow(|| signalled = self.signals.ring(own.null.as_fd(), file.as_fd()));
                match signalled {
                    Ok(()) => {}
                    Err(e) if e.kind() == ErrorKind::InvalidInput => {
                        return Told::Garbage(format!("the file of {kind} is not an event descriptor"));
                    }
                    Err(e) => return Told::Garbage(format!("the peer cannot be woken: {e}")),
                }
                if slow {
                    return Told::Garbage(Fault::SlowBell.to_string());
                }
            }
            Ok(Message::AddRegion { .. }) => {}
            _ => return Told::Garbage(format!("{kind} with a file")),
        }
        if let Err(e) = pass::send(own.pass.as_fd(), Some(file.as_fd())) {
            return Told::Garbage(format!("the file of {kind} cannot be passed on: {e}"));
        }
        Told::Message(message, true)
    }
}

/// What waits until the peer has read what came before.
#[derive(Default)]
struct Waiting {
    order: Option<Order>,
    /// The files of that order and of those behind it.
    files: VecDeque<Kept>,
}

impl Waiting {
    /// Takes the files that the main thread has handed over, and forgets that it woke this one.
    fn take_files(&mut self, pass: BorrowedFd<'_>) {
        while let Ok(piece) = passing::receive(pass, &mut [0], false)
            && piece.len > 0
        {
            self.files.extend(piece.files.into_iter().map(ManuallyDrop::new));
        }
    }
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

    /// A thread's side with its files, and the main thread's end of the pass.
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
        };
        (porter, own, ours)
    }

    /// What the main thread is told of a message that comes with these files, or without those that the process had no room
    /// for, and whether it is given a file.
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

    /// The kernel frees it all the same.
    #[test]
    fn memory_that_comes_with_a_wrong_message_is_remembered() {
        let (porter, own, _ours) = porter();
        let files = [sys::memory_file(c"test").unwrap(), sys::eventfd().unwrap()].map(ManuallyDrop::new);
        let memory = files[0].as_raw_fd();
        let bytes = [0; message::LEN];
        porter.deliver(&own, Piece { len: 5, bytes, files: files.into(), files_lost: false });
        assert_eq!(*porter.memory.borrow(), [memory]);
    }

    #[test]
    fn only_files_that_do_no_harm_are_let_through() {
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
            "the server says so"
        );
        for (message, files, why) in [
            (region(), vec![socket()], "the file of ADD_REGION is not shared memory"),
            (region(), vec![bell()], "the file of ADD_REGION is not shared memory"),
            (ring(), vec![socket()], "the file of ADD_RING is not an event descriptor"),
            (ring(), vec![bell(), bell()], "ADD_RING with 2 files"),
            (Message::Ack, vec![bell()], "ACK with a file"),
        ] {
            assert_eq!(garbage(sorted(message, files, false)), why);
        }
    }

    #[test]
    fn a_file_that_the_process_had_no_descriptor_for_is_named_as_such() {
        let why = garbage(sorted(Message::AddRegion { index: 0, size: 4096 }, vec![], true));
        assert!(
            why.starts_with("ADD_REGION lost its file: this process has no file descriptor left"),
            "{why}"
        );
    }
}
