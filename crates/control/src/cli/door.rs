//! Connections to a socket of the CLI, from when they are accepted to when they have a session: how fast they come in, and who waits.

use super::listen::{Listener, Socket};
use super::names::Names;
use super::pace::{Come, Pace};
use super::protocol::Reply;
use super::relay::{Relays, Unclosed};
use super::repeated::{Repeated, until};
use super::session::{ROOT, Stream};
use model::origin::Peer;
use nix::unistd::Uid;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{self, Instant};

/// Threads of clients that are gone; while there are so many, nobody is let in whose socket might hang one more.
const MOST_HANGING: usize = 64;
/// How many that came too fast are closed by one thread.
const AT_ONCE: usize = 64;
/// Clients that wait meanwhile, unread.
const MOST_PARKED: usize = 256;
/// How long no client is let in after the system had no room for one.
pub(super) const RECOVERY: Duration = Duration::from_millis(100);
/// How often it is tried again to find a thread that closes sockets.
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

/// A connection.
enum Arrived {
    Unix(UnixStream),
    Tcp(TcpStream, SocketAddr),
}

impl Arrived {
    /// Whose it is.
    fn known(self, names: &mut Names) -> io::Result<Stranger> {
        Ok(match self {
            Arrived::Unix(stream) => {
                let peer = stream.peer_cred().map(|peer| names.peer(peer.uid())).unwrap_or_default();
                Stranger { peer, socket: Accepted::Unix(Unclosed::new(stream.into_std()?)) }
            }
            Arrived::Tcp(stream, address) => {
                Stranger { peer: Peer::Address(address), socket: Accepted::Tcp(stream) }
            }
        })
    }
}

/// The next connection to root's own socket, if there is one.
async fn from_root(listener: Option<&UnixListener>) -> io::Result<Arrived> {
    match listener {
        Some(listener) => Ok(Arrived::Unix(listener.accept().await?.0)),
        None => std::future::pending().await,
    }
}

/// A client that has come, and that nobody may read from or close on this thread. One that is not served stays open until the process
/// ends.
pub(super) struct Stranger {
    pub(super) peer: Peer,
    socket: Accepted,
}

enum Accepted {
    Unix(Unclosed),
    Tcp(TcpStream),
}

impl Stranger {
    pub(super) fn is_root(&self) -> bool {
        self.peer.uid() == Some(ROOT)
    }

    /// Closes its socket, which cannot hang: no files were passed with it.
    fn close(self) {
        if let Accepted::Unix(client) = self.socket {
            drop(Unclosed::into_inner(client));
        }
    }

    /// Sends it away with a word, unless somebody else has to do it, because to close its socket might hang.
    fn send_away(self, words: &[u8]) -> Option<Unclosed> {
        match self.socket {
            Accepted::Unix(client) => Some(client),
            Accepted::Tcp(client) => {
                // Nothing was said to it before, so there is room, unless it is gone.
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

/// Accepts connections of a listener, and paces them.
pub(super) struct Door {
    acceptor: Acceptor,
    /// Root's own socket.
    for_root: Option<UnixListener>,
    /// That nobody else may use it: the router is root's, too.
    only_root: bool,
    relays: Relays,
    /// When it is tried again to close the sockets of clients for which there was no thread.
    left_at: Instant,
    names: Names,
    pace: Pace<Stranger>,
    /// Those that wait until threads hang no more.
    parked: VecDeque<Stranger>,
    /// Those that came too fast, and since when the first of them is here.
    turned: Vec<Unclosed>,
    turned_at: Instant,
    /// What these are told.
    too_fast: Arc<[u8]>,
    fast: Repeated,
    stuck: Repeated,
}

impl Door {
    pub(super) fn new(listener: &Listener) -> io::Result<Door> {
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
            too_fast: too_fast()?,
            fast: Repeated::new(say_fast),
            stuck: Repeated::new(say_stuck),
        })
    }

    /// Waits for whoever may go in next, if `sessions` are inside. To give up waiting loses nobody.
    ///
    /// # Errors
    /// When the system has no room for one more.
    pub(super) async fn next(&mut self, sessions: usize) -> io::Result<Stranger> {
        loop {
            let crowded = self.relays.hanging(sessions) >= MOST_HANGING;
            let room_to_wait = self.parked.len() < MOST_PARKED;
            let (arrived, has_turn) = tokio::select! {
                // One after the other, so that it is seen whether they hang.
                () = time::sleep(RECOVERY), if !crowded && !self.parked.is_empty() => match self.parked.pop_front() {
                    Some(stranger) => return Ok(stranger),
                    None => continue,
                },
                () = until(self.pace.due()) => match self.pace.next(Instant::now().into_std()) {
                    Some(stranger) => (stranger, true),
                    None => continue,
                },
                arrived = from_root(self.for_root.as_ref()), if self.only_root || room_to_wait => {
                    (arrived?.known(&mut self.names)?, false)
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
                // To close one that can have no files is safe.
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

    /// What stands for the socket of a client that goes in.
    ///
    /// # Errors
    /// When the system has no room for that.
    pub(super) fn open(&self, stranger: Stranger) -> io::Result<Box<dyn Stream>> {
        stranger.stream(&self.relays)
    }

    /// Closes the sockets of clients for which the system had no room.
    pub(super) fn close_left(&self) {
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
        "{clients} CLI client(s) turned away: users who are not root open more than 400 connections a second, and too many of \
         these wait"
    );
}

/// What those are told that came too fast.
fn too_fast() -> io::Result<Arc<[u8]>> {
    let why = "400 connections a second are accepted from a user who is not root, and too many wait: run many commands over one \
               connection (volley ctl -), or try again later";
    let mut line = serde_json::to_vec(&Reply::Closed(why.into()))?;
    line.push(b'\n');
    Ok(line.into())
}

fn say_stuck(_: u64) {
    tracing::warn!(
        "closing the files of {MOST_HANGING} former CLI clients hangs: only root's clients are served until that ends, or the \
         router is restarted"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::listen::roots;
    use std::os::unix::net::UnixStream as Client;

    /// A client that waits, of another user's, and its other end.
    fn waiting() -> (Stranger, Client) {
        let (accepted, client) = Client::pair().unwrap();
        let peer = Names::default().peer(4001);
        (Stranger { peer, socket: Accepted::Unix(Unclosed::new(accepted)) }, client)
    }

    /// Where no thread could be made when it came, and nobody comes later.
    #[test]
    fn a_client_without_a_thread_is_closed_as_soon_as_there_can_be_one() {
        use std::io::Read;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let listener = Listener::unix(&directory.path().join("cli.sock"), None).unwrap();
        let (mut client, accepted) = Client::pair().unwrap();
        runtime.block_on(async {
            let mut door = Door::new(&listener).unwrap();
            door.relays.leave(accepted, b"too many");
            assert!(
                time::timeout(Duration::from_millis(500), door.next(0)).await.is_err(),
                "nobody else comes"
            );
        });
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert_eq!(said, "too many");
    }

    /// As where closing hangs: on kernels that let files through.
    #[test]
    fn a_crowded_door_is_no_obstacle_to_root() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        let listener = Listener::unix(&path, None).unwrap();
        runtime.block_on(async {
            let mut door = Door::new(&listener).unwrap();
            door.relays.refuses_files = false;
            let (parked, _ends): (Vec<_>, Vec<_>) = (0..MOST_PARKED).map(|_| waiting()).unzip();
            door.parked.extend(parked);
            // Threads without a session are those that hang.
            let pairs: Vec<_> = (0..MOST_HANGING).map(|_| Client::pair().unwrap()).collect();
            let (theirs, _ends): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let _inner: Vec<_> =
                theirs.into_iter().map(|one| door.relays.stand_in(Unclosed::new(one)).unwrap()).collect();
            let soon = Duration::from_millis(200);
            let _client = Client::connect(&path).unwrap();
            assert!(time::timeout(soon, door.next(0)).await.is_err(), "there is no room to wait");
            let _root = Client::connect(roots(&path)).unwrap();
            let come = time::timeout(Duration::from_secs(10), door.next(0)).await;
            // Who is not root has no such socket that helps.
            assert_eq!(
                come.is_ok_and(|come| come.is_ok_and(|one| one.is_root())),
                Uid::effective().is_root()
            );
        });
    }
}
