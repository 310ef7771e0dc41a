//! Serves the command line to many clients on one thread (the protocol is described in `protocol.rs`).
//!
//! A command, or a slice of a long one, runs while the state is borrowed; nothing waits while it is. So everything
//! else on the thread gets its turn between slices, and a client that does not read stops nobody but itself.
//!
//! There is room for [`CLIENTS`], and for some of root's besides, who comes by a socket of its own: so nobody keeps root out. When all places are taken,
//! one that never said a whole line gives way to the next one. If there is none, the client that has done nothing for the
//! longest time gives way, if that time is long enough. Otherwise the next one is told that there is no room.

use super::listen::{Listener, Socket};
use super::names::Names;
use super::pace::{Come, Pace};
use super::protocol::Reply;
use super::relay::{Relays, Unclosed};
use super::session::{LetGo, ROOT, Seat, Session, Stream};
use model::cli::{Registry, Values};
use model::origin::Peer;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{self, Instant};

/// How many clients are served at once.
const CLIENTS: usize = 64;
/// How many that were sent away are told so at once.
const FAREWELLS: usize = 64;
/// How many more there may be if these are root's.
const FOR_ROOT: usize = 8;
/// Threads of clients that are gone; while there are so many, nobody is let in whose socket might hang one more.
const MOST_HANGING: usize = 64;
/// How many that came too fast are closed by one thread.
const AT_ONCE: usize = 64;
/// Clients that wait meanwhile, unread.
const MOST_PARKED: usize = 256;
/// How long nothing more is said of what has just been said.
const SILENCE: Duration = Duration::from_secs(10);
/// How long no client is let in after the system had no room for one.
const RECOVERY: Duration = Duration::from_millis(100);

/// How clients are served.
#[derive(Clone, Debug)]
pub struct Service {
    /// What is shown where a command can be typed.
    pub prompt: String,
    /// How long a client has done nothing when it gives way to another, should all places be taken.
    pub idle: Duration,
    /// Whether only commands that change nothing are carried out.
    pub read_only: bool,
    /// How many clients of root's are served when all other places are taken.
    pub for_root: usize,
}

impl Default for Service {
    fn default() -> Service {
        Service {
            prompt: "volley# ".into(),
            idle: Duration::from_secs(60),
            read_only: false,
            for_root: FOR_ROOT,
        }
    }
}

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
struct Stranger {
    peer: Peer,
    socket: Accepted,
}

enum Accepted {
    Unix(Unclosed),
    Tcp(TcpStream),
}

impl Stranger {
    fn is_root(&self) -> bool {
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

/// Serves clients until it is dropped, which ends their commands. Runs on a `LocalSet` of a runtime with one thread.
///
/// Each slice borrows `cx` for itself, so nobody may hold a borrow of it while waiting.
///
/// # Errors
/// The runtime cannot take the listener.
pub async fn serve<C: Values + 'static>(
    listener: Listener,
    registry: Rc<Registry<C>>,
    cx: Rc<RefCell<C>>,
    service: Service,
) -> io::Result<()> {
    let acceptor = Acceptor::new(&listener.socket)?;
    let for_root = listener.for_root.as_ref().map(|socket| UnixListener::from_std(socket.try_clone()?));
    let for_root = for_root.transpose()?;
    let (prompt, idle): (Rc<str>, _) = (service.prompt.into(), service.idle);
    let let_go = LetGo {
        idle: format!(
            "disconnected: nothing was done here for {} seconds or more, and others needed the place",
            idle.as_secs()
        ),
        silent: "disconnected: no command had come, and others needed the place".into(),
    };
    let no_room = format!(
        "{CLIENTS} clients are connected to the CLI, which is the most, and each has a command that runs, or has done \
         something within the last {} seconds: close one, or try again later (unix {{ cli-idle-timeout SECONDS }} says \
         when an idle one gives way)",
        idle.as_secs()
    );
    let (mut gone, mut away, mut stuck) = (Repeated::default(), Repeated::default(), Repeated::default());
    let too_fast = too_fast()?;
    let (mut pace, mut fast) = (Pace::default(), Repeated::default());
    let (mut turned, mut turned_at) = (Vec::new(), Instant::now());
    let (mut clients, mut refused) = (JoinSet::new(), JoinSet::new());
    let mut seats: Vec<Rc<Seat>> = Vec::new();
    let (relays, mut parked, mut names) = (Relays::default(), VecDeque::<Stranger>::new(), Names::default());
    loop {
        let crowded = relays.hanging(clients.len() + refused.len()) >= MOST_HANGING;
        let room_to_wait = parked.len() < MOST_PARKED;
        let (accepted, has_turn) = tokio::select! {
            // One after the other, so that it is seen whether they hang.
            () = time::sleep(RECOVERY), if !crowded && !parked.is_empty() => match parked.pop_front() {
                Some(stranger) => (Ok(stranger), true),
                None => continue,
            },
            () = until(pace.due()) => match pace.next(Instant::now().into_std()) {
                Some(stranger) => (Ok(stranger), true),
                None => continue,
            },
            accepted = from_root(for_root.as_ref()) => (accepted.and_then(|one| one.known(&mut names)), true),
            accepted = acceptor.accept(), if room_to_wait => {
                (accepted.and_then(|one| one.known(&mut names)), false)
            }
            () = time::sleep_until(turned_at + RECOVERY), if !turned.is_empty() => {
                relays.close(std::mem::take(&mut turned), &too_fast);
                continue;
            }
            Some(ended) = clients.join_next() => {
                match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!("a CLI client is gone: {error}"),
                    Err(error) => tracing::error!("a CLI command failed badly: {error}"),
                }
                continue;
            }
            Some(_) = refused.join_next() => continue,
            () = gone.due() => {
                gone.say(say_gone);
                continue;
            }
            () = away.due() => {
                away.say(say_away);
                continue;
            }
            () = fast.due() => {
                fast.say(say_fast);
                continue;
            }
            () = stuck.due() => {
                stuck.say(say_stuck);
                continue;
            }
        };
        if crowded && accepted.as_ref().is_ok_and(|stranger| !stranger.is_root()) {
            stuck.happened(say_stuck);
            // To close one that can have no files is safe.
            match accepted {
                Ok(stranger) if listener.refuses_files => stranger.close(),
                accepted => parked.extend(accepted),
            }
            continue;
        }
        let accepted = match accepted {
            Ok(stranger) if !has_turn && !stranger.is_root() => {
                match pace.come(stranger.peer.uid(), stranger, std::time::Instant::now()) {
                    Come::In(stranger) => Ok(stranger),
                    Come::Waits => continue,
                    Come::Away(stranger) => {
                        fast.happened(say_fast);
                        if turned.is_empty() {
                            turned_at = Instant::now();
                        }
                        turned.extend(stranger.send_away(&too_fast));
                        if turned.len() >= AT_ONCE {
                            relays.close(std::mem::take(&mut turned), &too_fast);
                        }
                        continue;
                    }
                }
            }
            accepted => accepted,
        };
        let come = accepted.and_then(|stranger| Ok((stranger.peer.clone(), stranger.stream(&relays)?)));
        let (peer, stream) = match come {
            Ok(come) => come,
            Err(error) => {
                tracing::warn!("cannot accept a CLI client: {error}");
                time::sleep(RECOVERY).await;
                continue;
            }
        };
        let (registry, cx, prompt) = (Rc::clone(&registry), Rc::clone(&cx), Rc::clone(&prompt));
        let is_root = peer.uid() == Some(ROOT);
        let session = Session::new(stream, registry, cx, prompt, service.read_only, peer);
        // A seat is the client's and this list's, until the client is gone.
        seats.retain(|seat| Rc::strong_count(seat) > 1);
        let places = CLIENTS + if is_root { service.for_root } else { 0 };
        let room = make_room(&seats, places, is_root || service.for_root == 0, idle);
        if let Room::Made = room {
            gone.happened(say_gone);
        }
        if !matches!(room, Room::None) {
            seats.push(session.seat());
            clients.spawn_local(session.serve(let_go.clone()));
        } else {
            away.happened(say_away);
            if refused.len() < FAREWELLS {
                refused.spawn_local(session.turn_away(no_room.clone()));
            }
        }
    }
}

/// Whether there is room for one more.
enum Room {
    /// There is.
    Free,
    /// There is, because another one is told to go.
    Made,
    /// There is not.
    None,
}

/// Looks for room; one that can go is told to. None of root's goes for another's.
fn make_room(seats: &[Rc<Seat>], places: usize, for_root: bool, idle: Duration) -> Room {
    if seats.iter().filter(|seat| !seat.is_leaving()).count() < places {
        return Room::Free;
    }
    let longest = seats
        .iter()
        .filter(|seat| for_root || !seat.is_root())
        .filter_map(|seat| Some((seat.has_spoken(), seat.idle_since()?, seat)))
        .min_by_key(|(spoken, since, _)| (*spoken, *since));
    match longest.filter(|(spoken, since, _)| !spoken || since.elapsed() >= idle) {
        Some((.., seat)) => {
            seat.leave();
            Room::Made
        }
        None => Room::None,
    }
}

fn say_gone(clients: u64) {
    tracing::info!("{clients} idle CLI client(s) gave way to others: {CLIENTS} are connected");
}

fn say_away(clients: u64) {
    tracing::warn!("{clients} CLI client(s) turned away: {CLIENTS} are connected");
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

/// Waits for a moment, if there is one.
async fn until(moment: Option<std::time::Instant>) {
    match moment {
        Some(moment) => time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

fn say_stuck(_: u64) {
    tracing::warn!(
        "closing the files of {MOST_HANGING} former CLI clients hangs: only root's clients are served until that ends, or the \
         router is restarted"
    );
}

/// Something that anybody can cause as often as he likes: the first time is told at once, and those that follow are
/// counted and told together.
#[derive(Default)]
struct Repeated {
    times: u64,
    silent_until: Option<Instant>,
}

impl Repeated {
    fn happened(&mut self, say: fn(u64)) {
        self.times += 1;
        if self.silent_until.is_none_or(|end| end <= Instant::now()) {
            self.say(say);
        }
    }

    fn say(&mut self, say: fn(u64)) {
        say(std::mem::take(&mut self.times));
        self.silent_until = Some(Instant::now() + SILENCE);
    }

    /// Waits until there is something to tell.
    async fn due(&self) {
        until(self.silent_until.filter(|_| self.times > 0).map(Instant::into_std)).await;
    }
}
