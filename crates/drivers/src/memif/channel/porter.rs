//! The thread that has a connection's socket.
//!
//! A peer may pass any file with a message, also before it has said a secret: a socket that waits until everything is sent
//! when it is closed, a file of a FUSE server that never answers. Whoever receives such a file and closes it hangs. So each
//! connection has a thread of its own, which alone reads from the socket, and closes nothing: the files have a thread for
//! that (`kernel::closing`), and so has the socket, as what was not read may have files. Only shared memory, which the
//! kernel closes by itself, and event descriptors (`bell.rs`) get any further.

use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use infra::doorbell::Doorbell;

use super::raw::{self, Piece};
use super::{File, Received};
use crate::kernel::closing;
use crate::memif::bell::{Bell, Home};
use crate::memif::message::{self, Message};
use crate::memif::region::MemoryFile;
use crate::memif::signal::Signals;

/// How long the peer is given to read the last messages.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A message to be sent, with its file.
pub(super) type Order = ([u8; message::LEN], Option<Arc<dyn AsFd + Send + Sync>>);

/// Counts the threads of one socket.
#[derive(Clone, Debug, Default)]
pub(in crate::memif) struct Porters(Arc<[AtomicUsize; 2]>);

impl Porters {
    /// How many there are.
    pub(in crate::memif) fn count(&self) -> usize {
        self.0[0].load(Ordering::Acquire)
    }

    /// How many close files of strangers at the moment. Those that hang stay among them.
    pub(in crate::memif) fn closing_now(&self) -> usize {
        self.0[1].load(Ordering::Acquire)
    }

    /// One more, until what is returned is dropped.
    pub(super) fn enter(&self) -> Entered {
        Entered::new(self, 0)
    }

    /// One more that closes files, until what is returned is dropped.
    pub(in crate::memif) fn closing(&self) -> Entered {
        Entered::new(self, 1)
    }
}

pub(in crate::memif) struct Entered(Porters, usize);

impl Entered {
    fn new(porters: &Porters, which: usize) -> Entered {
        porters.0[which].fetch_add(1, Ordering::AcqRel);
        Entered(porters.clone(), which)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.0[self.1].fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the main thread and the porter of a connection share.
pub(super) struct Link {
    /// Rings when there is an order, or the main thread has let go.
    pub(super) bell: Doorbell,
    pub(super) let_go: AtomicBool,
}

/// The thread's side of a connection.
pub(super) struct Porter {
    /// Closed by this thread or by nobody: where there can be no thread, it stays open rather than hang the main thread.
    pub(super) socket: ManuallyDrop<OwnedFd>,
    pub(super) link: Arc<Link>,
    pub(super) orders: Receiver<Order>,
    pub(super) to_main: SyncSender<Received>,
    /// Rings when there is something for the main thread.
    pub(super) main: Arc<Doorbell>,
    /// Tells event descriptors from other files.
    pub(super) signals: Arc<Signals>,
    /// Where the event descriptors of the connection are closed.
    pub(super) home: Arc<Home>,
    pub(super) porters: Porters,
}

impl Porter {
    /// Passes messages both ways until the connection ends.
    pub(super) fn run(self) {
        let mut files = self.serve();
        let Porter { socket, to_main, main, porters, .. } = self;
        // The main thread learns of the end now: the rest may take for ever.
        drop(to_main);
        main.ring();
        files.push(ManuallyDrop::into_inner(socket));
        closing::close(files, porters.closing());
    }

    /// Gives the files that came with the end.
    fn serve(&self) -> Vec<OwnedFd> {
        let mut order = None;
        let mut end = None;
        loop {
            self.link.bell.clear();
            let let_go = self.link.let_go.load(Ordering::Acquire);
            self.send(&mut order);
            if let_go {
                let end = *end.get_or_insert_with(|| Instant::now() + LAST_WORDS);
                let left = end.saturating_duration_since(Instant::now());
                if order.is_none() || left.is_zero() {
                    return Vec::new();
                }
                raw::wait(self.socket.as_fd(), libc::POLLOUT, self.link.bell.as_fd(), Some(left));
                continue;
            }
            let events = libc::POLLIN | if order.is_some() { libc::POLLOUT } else { 0 };
            raw::wait(self.socket.as_fd(), events, self.link.bell.as_fd(), None);
            match raw::receive(self.socket.as_fd()) {
                // Reset is reported once, when the peer closed without having read everything; its last words come after.
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionReset) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Vec::new(),
                Ok(Piece { len: 0, files, .. }) => return files,
                Ok(piece) => self.deliver(piece),
            }
        }
    }

    /// Sends what there is to send; `order` is what the peer had no room for.
    fn send(&self, order: &mut Option<Order>) {
        loop {
            let Some((bytes, file)) = &*order else {
                match self.orders.try_recv() {
                    Ok(next) => *order = Some(next),
                    Err(_) => return,
                }
                continue;
            };
            match raw::send(self.socket.as_fd(), bytes, file.as_ref().map(|f| f.as_fd())) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // If the peer has closed the connection, what it said before is still to be read: why, most likely.
                _ => *order = None,
            }
        }
    }

    fn deliver(&self, piece: Piece) {
        let Piece { len, bytes, mut files, files_lost } = piece;
        let received = match len {
            message::LEN => self.sort(Message::parse(&bytes), &mut files, files_lost),
            n => Received::Garbage(format!("a message of {n} bytes, and not of {}", message::LEN)),
        };
        // Waits while the main thread has much to read, until it lets go.
        let _ = self.to_main.send(received);
        self.main.ring();
        // What is left is a stranger's. The main thread knows already that it is to end the connection.
        if !files.is_empty() {
            closing::close(files, self.porters.closing());
        }
    }

    /// Takes the file that belongs to a message, if it is one that does no harm.
    fn sort(&self, message: Result<Message, u16>, files: &mut Vec<OwnedFd>, lost: bool) -> Received {
        let kind = match &message {
            Ok(message) => message.kind(),
            Err(_) if files.is_empty() && !lost => return Received::Message(message, None),
            Err(_) => "a message of an unknown type",
        };
        if lost {
            return Received::Garbage(format!(
                "{kind} lost its file: this process has no file descriptor left (see LimitNOFILE of its service)"
            ));
        }
        let file = match (files.len(), &message) {
            (0, _) => None,
            (1, Ok(Message::AddRegion { .. })) => match files.pop().map(MemoryFile::new) {
                Some(Ok(file)) => Some(File::Memory(file)),
                Some(Err(file)) => {
                    files.push(file);
                    return Received::Garbage(format!("the file of {kind} is not shared memory"));
                }
                None => None,
            },
            (1, Ok(Message::AddRing(_))) => {
                // One signal too many does no harm: whoever is woken looks, and sleeps again.
                match files.iter().try_for_each(|file| self.signals.ring(file.as_fd())) {
                    Ok(()) => files.pop().map(|file| File::Bell(Bell::new(file, &self.home))),
                    Err(e) if e.kind() == ErrorKind::InvalidInput => {
                        return Received::Garbage(format!("the file of {kind} is not an event descriptor"));
                    }
                    Err(e) => return Received::Garbage(format!("the peer cannot be woken: {e}")),
                }
            }
            (1, _) => return Received::Garbage(format!("{kind} with a file")),
            (n, _) => return Received::Garbage(format!("{kind} with {n} files")),
        };
        Received::Message(message, file)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;
    use crate::kernel::sys;
    use crate::memif::message::{AddRing, Direction};

    /// What becomes of a message that comes with these files, or without those that the process had no room for.
    fn sorted(message: Message, mut files: Vec<OwnedFd>, lost: bool) -> Received {
        let link = Link { bell: Doorbell::new().unwrap(), let_go: AtomicBool::new(false) };
        let porter = Porter {
            socket: ManuallyDrop::new(UnixStream::pair().unwrap().0.into()),
            link: Arc::new(link),
            orders: mpsc::sync_channel(1).1,
            to_main: mpsc::sync_channel(1).0,
            main: Arc::new(Doorbell::new().unwrap()),
            signals: Arc::new(Signals::new().unwrap()),
            home: Arc::default(),
            porters: Porters::default(),
        };
        let received = porter.sort(Ok(message), &mut files, lost);
        drop(ManuallyDrop::into_inner(porter.socket));
        received
    }

    fn garbage(received: Received) -> String {
        match received {
            Received::Garbage(why) => why,
            other => panic!("{other:?}"),
        }
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
        assert!(matches!(sorted(ring(), vec![bell()], false), Received::Message(Ok(_), Some(File::Bell(_)))));
        assert!(
            matches!(sorted(ring(), vec![], false), Received::Message(Ok(_), None)),
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
