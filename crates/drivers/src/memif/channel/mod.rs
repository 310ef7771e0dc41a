//! The control channel: connections, and the sockets that clients connect to. Nothing here waits: what a stranger sends is
//! received and closed by a thread of its own (`porter.rs`).

mod listener;
mod porter;
mod raw;

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError, TrySendError};
use std::thread;

use infra::doorbell::Doorbell;

use super::bell::{Bell, Home};
use super::message::Message;
use super::region::MemoryFile;
use super::signal::Signals;
pub(super) use listener::Listener;
pub(super) use porter::Porters;
use porter::{Link, Order, Porter};
pub(super) use raw::MEMORY_NAME;

/// Messages that wait for a peer to read them. All that a client has to say of its rings is fewer.
const MOST_WAITING: usize = 1024;
/// Messages of a peer that wait for the main thread.
const MOST_RECEIVED: usize = 32;
/// Bytes of the stack of a connection's thread.
const STACK: usize = 128 << 10;

/// A file that came with a message, and that can be dropped on any thread.
#[derive(Debug)]
pub(super) enum File {
    /// Shared memory, with a region.
    Memory(MemoryFile),
    /// An event descriptor, with a ring.
    Bell(Bell),
}

/// What came.
#[derive(Debug)]
pub(super) enum Received {
    /// A message, or the number of a type that is none, with the file that belongs to it.
    Message(Result<Message, u16>, Option<File>),
    /// Something that is no message, or has a file that it must not have.
    Garbage(String),
    /// The peer closed the connection.
    Closed,
    /// Nothing more now.
    Nothing,
}

/// What the channels of a router share.
#[derive(Clone)]
pub(super) struct Means {
    /// Rings when there is something to [receive](Channel::receive).
    pub(super) bell: Arc<Doorbell>,
    pub(super) signals: Arc<Signals>,
}

/// A connection. Dropped, it ends as soon as the peer has read what was sent, or has had a second to.
pub(super) struct Channel {
    link: Arc<Link>,
    orders: SyncSender<Order>,
    received: Receiver<Received>,
}

impl Channel {
    /// Connects to a listener.
    ///
    /// # Errors
    /// When nobody listens, or the process has no descriptor or thread left.
    pub(super) fn connect(path: &Path, means: &Means, porters: &Porters) -> io::Result<Channel> {
        Channel::of(raw::connect(path)?, means, porters)
    }

    /// Takes a socket that is connected; its thread is one of `porters`.
    ///
    /// # Errors
    /// When there can be no thread. The socket stays open then: to close it might hang.
    pub(super) fn of(socket: OwnedFd, means: &Means, porters: &Porters) -> io::Result<Channel> {
        // Not the kernel's word for "later": the client is lost.
        let lost = |e: io::Error| io::Error::other(format!("there can be no thread for a client: {e}"));
        let socket = ManuallyDrop::new(socket);
        let bell = Doorbell::new().map_err(lost)?;
        let link = Arc::new(Link { bell, let_go: AtomicBool::new(false) });
        let (orders, to_send) = mpsc::sync_channel(MOST_WAITING);
        let (to_main, received) = mpsc::sync_channel(MOST_RECEIVED);
        let entered = porters.enter();
        let porter = Porter {
            socket,
            link: link.clone(),
            orders: to_send,
            to_main,
            main: means.bell.clone(),
            signals: means.signals.clone(),
            home: Home::new(porters),
            porters: porters.clone(),
        };
        let thread = thread::Builder::new().name("volley_memif".into()).stack_size(STACK);
        thread
            .spawn(move || {
                porter.run();
                drop(entered);
            })
            .map_err(lost)?;
        Ok(Channel { link, orders, received })
    }

    /// Sends a message, as soon as the peer has read those before. A file goes along.
    ///
    /// # Errors
    /// When the peer reads nothing. That the connection is broken is known by [`receive`](Channel::receive), after what
    /// the peer said before.
    pub(super) fn send(
        &self,
        message: &Message,
        file: Option<Arc<dyn AsFd + Send + Sync>>,
    ) -> io::Result<()> {
        match self.orders.try_send((message.bytes(), file)) {
            Err(TrySendError::Full(_)) => Err(io::Error::other("the peer reads no messages")),
            Ok(()) | Err(TrySendError::Disconnected(_)) => {
                self.link.bell.ring();
                Ok(())
            }
        }
    }

    /// Takes the next message.
    pub(super) fn receive(&self) -> Received {
        match self.received.try_recv() {
            Ok(received) => received,
            Err(TryRecvError::Empty) => Received::Nothing,
            Err(TryRecvError::Disconnected) => Received::Closed,
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.link.let_go.store(true, Ordering::Release);
        self.link.bell.ring();
    }
}

/// Whether a path, or `@NAME`, can be a socket's.
///
/// # Errors
/// Why it cannot.
pub(super) fn check_path(path: &Path) -> io::Result<()> {
    raw::address(path).map(|_| ())
}
