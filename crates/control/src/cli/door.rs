//! Connections to a CLI socket before their session begins: accepting them, limiting their rate, and queueing them.

use super::listen::{Listener, Socket};
use super::names::Names;
use super::pace::{Come, Pace};
use super::relay::{Relays, Unclosed};
use super::repeated::{Repeated, until};
use super::session::{ROOT, Stream};
use super::sessions::Entrance;
use model::origin::Peer;
use nix::unistd::Uid;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{self, Instant};

/// If this many threads hang while they close clients' sockets, only root's clients are accepted.
const MOST_HANGING: usize = 64;
/// Number of collected sockets of rejected clients at which a thread closes them at once, without waiting for [`RECOVERY`].
const AT_ONCE: usize = 64;
/// Maximum number of clients that wait while too many threads hang. Their input is not read.
const MOST_PARKED: usize = 256;
/// Pause in accepting clients after the system had no resources for a client. Also the interval at which parked clients are served. Also
/// the maximum time for which the sockets of rejected clients are collected before a thread closes them.
pub(crate) const RECOVERY: Duration = Duration::from_millis(100);
/// Interval between attempts to start a thread that closes sockets.
const RETRY: Duration = Duration::from_secs(1);

enum Acceptor {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Acceptor {
    fn new(socket: &Socket) -> io::Result<Acceptor> {
        Ok(match socket {
            Socket::Unix(listener) => Acceptor::Unix(UnixListener::from_std(listener.try_clone()?)?),
            Socket::Tcp(listener) => Acceptor::Tcp(TcpListener::from_std(listener.try_clone()?)?),
        })
    }

    async fn accept(&self) -> io::Result<Arrived> {
        Ok(match self {
            Acceptor::Unix(listener) => Arrived::Unix(listener.accept().await?.0),
            Acceptor::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Arrived::Tcp(stream, address)
            }
        })
    }
}

/// A new connection.
enum Arrived {
    Unix(UnixStream),
    Tcp(TcpStream, SocketAddr),
}

impl Arrived {
    /// Determines the client's user or address.
    fn known(self, names: &mut Names) -> io::Result<Stranger> {
        Ok(match self {
            Arrived::Unix(stream) => {
                let known = stream.peer_cred().map(|peer| (names.peer(peer.uid()), peer.pid()));
                let (peer, pid) = known.unwrap_or_default();
                let socket = Accepted::Unix(Unclosed::new(stream.into_std()?));
                Stranger { peer, pid, entrance: Entrance::Socket, socket }
            }
            Arrived::Tcp(stream, address) => Stranger {
                peer: Peer::Address(address),
                pid: None,
                entrance: Entrance::Tcp,
                socket: Accepted::Tcp(stream),
            },
        })
    }
}

/// Returns the next connection to root's own socket. Never returns if there is no such socket.
async fn from_root(listener: Option<&UnixListener>) -> io::Result<Arrived> {
    match listener {
        Some(listener) => Ok(Arrived::Unix(listener.accept().await?.0)),
        None => std::future::pending().await,
    }
}

/// A client without a session. The main thread may neither read from the client's socket nor close it. If a `Stranger` is dropped, its UNIX
/// socket stays open until the process ends.
pub(crate) struct Stranger {
    pub(crate) peer: Peer,
    /// The client's process ID, if the kernel reports it.
    pub(crate) pid: Option<i32>,
    pub(crate) entrance: Entrance,
    socket: Accepted,
}

enum Accepted {
    Unix(Unclosed),
    Tcp(TcpStream),
}

impl Stranger {
    pub(crate) fn is_root(&self) -> bool {
        self.peer.uid() == Some(ROOT)
    }

    /// Closes the client's socket. Only for sockets on which the kernel refuses passed files: closing such a socket cannot hang.
    fn close(self) {
        if let Accepted::Unix(client) = self.socket {
            drop(Unclosed::into_inner(client));
        }
    }

    /// Rejects a TCP client with a message. For a UNIX client, sends nothing and returns its socket. A thread must close it, because
    /// closing may hang.
    fn send_away(self, words: &[u8]) -> Option<Unclosed> {
        match self.socket {
            Accepted::Unix(client) => Some(client),
            Accepted::Tcp(client) => {
                // This is the first message, so the socket buffer has room for it.
                let _ = client.into_std().and_then(|client| (&client).write(words));
                None
            }
        }
    }

    fn stream(self, relays: &Relays) -> io::Result<Box<dyn Stream>> {
        Ok(match self.socket {
            Accepted::Unix(client) => Box::new(UnixStream::from_std(relays.stand_in(client)?)?),
            Accepted::Tcp(stream) => Box::new(stream),
        })
    }
}

/// Accepts connections of a listener, at a limited rate.
pub(crate) struct Door {
    acceptor: Acceptor,
    /// Root's own socket.
    for_root: Option<UnixListener>,
    /// True if only root can use `for_root`, because the router runs as root.
    only_root: bool,
    relays: Relays,
    /// Time of the next attempt to close sockets that are still open because no thread could be started to close them.
    left_at: Instant,
    names: Names,
    pace: Pace<Stranger>,
    /// Clients that wait until fewer threads hang.
    parked: VecDeque<Stranger>,
    /// The sockets of clients rejected by the rate limit.
    turned: Vec<Unclosed>,
    /// The arrival time of the first client in `turned`.
    turned_at: Instant,
    /// The message to clients that are rejected by the rate limit.
    too_fast: Arc<[u8]>,
    fast: Repeated,
    stuck: Repeated,
}

impl Door {
    /// Accepts connections of a listener. `too_fast` is sent to clients that the rate limit rejects.
    ///
    /// # Errors
    /// If the runtime cannot use the listener.
    pub(crate) fn new(listener: &Listener, too_fast: Arc<[u8]>) -> io::Result<Door> {
        let for_root = listener.for_root.as_ref().map(|socket| UnixListener::from_std(socket.try_clone()?));
        Ok(Door {
            acceptor: Acceptor::new(&listener.socket)?,
            for_root: for_root.transpose()?,
            only_root: Uid::effective().is_root(),
            relays: Relays::new(listener.refuses_files),
            left_at: Instant::now(),
            names: Names::default(),
            pace: Pace::default(),
            parked: VecDeque::new(),
            turned: Vec::new(),
            turned_at: Instant::now(),
            too_fast,
            fast: Repeated::new(say_fast),
            stuck: Repeated::new(say_stuck),
        })
    }

    /// Waits for the next client to serve. `sessions` is the current number of sessions. Cancelling the wait loses no client.
    ///
    /// # Errors
    /// If the system cannot accept another connection.
    pub(crate) async fn next(&mut self, sessions: usize) -> io::Result<Stranger> {
        loop {
            let crowded = self.relays.hanging(sessions) >= MOST_HANGING;
            let room_to_wait = self.parked.len() < MOST_PARKED;
            let (arrived, has_turn) = tokio::select! {
                // Serves one parked client at a time, to see whether its thread hangs.
                () = time::sleep(RECOVERY), if !crowded && !self.parked.is_empty() => match self.parked.pop_front() {
                    Some(stranger) => return Ok(stranger),
                    None => continue,
                },
                () = until(self.pace.due()) => match self.pace.next(Instant::now().into_std()) {
                    Some(stranger) => (stranger, true),
                    None => continue,
                },
                arrived = from_root(self.for_root.as_ref()), if self.only_root || room_to_wait => {
                    (Stranger { entrance: Entrance::Root, ..arrived?.known(&mut self.names)? }, false)
                }
                arrived = self.acceptor.accept(), if room_to_wait => (arrived?.known(&mut self.names)?, false),
                () = time::sleep_until(self.turned_at + RECOVERY), if !self.turned.is_empty() => {
                    self.close_turned();
                    continue;
                }
                () = time::sleep_until(self.left_at), if self.relays.has_left() => {
                    self.left_at = Instant::now() + RETRY;
                    self.close_left();
                    continue;
                }
                () = self.fast.due() => {
                    self.fast.say();
                    continue;
                }
                () = self.stuck.due() => {
                    self.stuck.say();
                    continue;
                }
            };
            if arrived.is_root() {
                return Ok(arrived);
            }
            if crowded {
                self.stuck.happened();
                // A socket that refuses files can be closed safely.
                match self.relays.refuses_files {
                    true => arrived.close(),
                    false => self.parked.push_back(arrived),
                }
                continue;
            }
            if has_turn {
                return Ok(arrived);
            }
            match self.pace.come(arrived.peer.uid(), arrived, std::time::Instant::now()) {
                Come::In(stranger) => return Ok(stranger),
                Come::Waits => {}
                Come::Away(stranger) => self.turn_away(stranger),
            }
        }
    }

    /// Returns the stream of a client to be served: a relay to its UNIX socket, or its own TCP socket.
    ///
    /// # Errors
    /// If the system has no descriptor or thread left.
    pub(crate) fn open(&self, stranger: Stranger) -> io::Result<Box<dyn Stream>> {
        stranger.stream(&self.relays)
    }

    /// Tries again to close the sockets that are still open because no thread could be started to close them.
    pub(crate) fn close_left(&self) {
        self.relays.close_left();
    }

    fn turn_away(&mut self, stranger: Stranger) {
        self.fast.happened();
        if self.turned.is_empty() {
            self.turned_at = Instant::now();
        }
        self.turned.extend(stranger.send_away(&self.too_fast));
        if self.turned.len() >= AT_ONCE {
            self.close_turned();
        }
    }

    fn close_turned(&mut self) {
        self.relays.close(std::mem::take(&mut self.turned), &self.too_fast);
    }
}

fn say_fast(clients: u64) {
    tracing::warn!(
        "rejected {clients} client(s): a non-root user opens more than 400 connections a second, and the queue \
         is full"
    );
}

fn say_stuck(_: u64) {
    tracing::warn!(
        "{MOST_HANGING} threads hang while they close file descriptors passed by disconnected clients: only root can \
         connect until they finish or the router is restarted"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::listen::roots;
    use std::os::unix::net::UnixStream as Client;

    /// Returns a client of a non-root user as the door sees it, and the client's end of the connection.
    fn waiting() -> (Stranger, Client) {
        let (accepted, client) = Client::pair().unwrap();
        let peer = Names::default().peer(4001);
        let socket = Accepted::Unix(Unclosed::new(accepted));
        (Stranger { peer, pid: None, entrance: Entrance::Socket, socket }, client)
    }

    /// A client's socket for which no thread could be started is closed later, even if no other client arrives.
    #[test]
    fn client_left_without_a_thread_is_closed_later() {
        use std::io::Read;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let listener = Listener::unix(&directory.path().join("cli.sock"), None).unwrap();
        let (mut client, accepted) = Client::pair().unwrap();
        runtime.block_on(async {
            let mut door = Door::new(&listener, Arc::from([])).unwrap();
            door.relays.leave(accepted, b"too many");
            assert!(
                time::timeout(Duration::from_millis(500), door.next(0)).await.is_err(),
                "another client arrived"
            );
        });
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert_eq!(said, "too many");
    }

    /// If the router runs as root, root can connect while threads hang, even if the kernel cannot refuse files passed by clients.
    #[test]
    fn root_can_connect_while_threads_hang() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        let listener = Listener::unix(&path, None).unwrap();
        runtime.block_on(async {
            let mut door = Door::new(&listener, Arc::from([])).unwrap();
            door.relays.refuses_files = false;
            let (parked, _ends): (Vec<_>, Vec<_>) = (0..MOST_PARKED).map(|_| waiting()).unzip();
            door.parked.extend(parked);
            // Threads without a session count as hanging.
            let pairs: Vec<_> = (0..MOST_HANGING).map(|_| Client::pair().unwrap()).collect();
            let (theirs, _ends): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let _inner: Vec<_> =
                theirs.into_iter().map(|one| door.relays.stand_in(Unclosed::new(one)).unwrap()).collect();
            let soon = Duration::from_millis(200);
            let _client = Client::connect(&path).unwrap();
            assert!(time::timeout(soon, door.next(0)).await.is_err(), "a client was accepted");
            let _root = Client::connect(roots(&path)).unwrap();
            let come = time::timeout(Duration::from_secs(10), door.next(0)).await;
            // For other users this socket gives no priority.
            assert_eq!(
                come.is_ok_and(|come| come.is_ok_and(|one| one.is_root())),
                Uid::effective().is_root()
            );
        });
    }
}
