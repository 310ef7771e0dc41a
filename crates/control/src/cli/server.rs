//! Serves the command line to many clients on one thread (the protocol is described in `protocol.rs`).
//!
//! A command, or a slice of a long one, runs while the state is borrowed; nothing waits while it is. So everything
//! else on the thread gets its turn between slices, and a client that does not read stops nobody but itself.
//!
//! There is room for [`CLIENTS`], and for some of root's besides, who comes by a socket of its own: so nobody keeps root out. When all
//! places are taken, one that never said a whole line gives way to the next one. If there is none, the client that has done nothing for
//! the longest time gives way, if that time is long enough. Otherwise the next one is told that there is no room.

use super::door::{Door, RECOVERY, Stranger};
use super::listen::Listener;
use super::repeated::Repeated;
use super::session::{LetGo, Seat, Session};
use super::turns::Turns;
use model::cli::{Registry, Values};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time;

/// How many clients are served at once.
const CLIENTS: usize = 64;
/// How many that were sent away are told so at once.
const FAREWELLS: usize = 64;
/// How many more there may be if these are root's.
const FOR_ROOT: usize = 8;

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
    /// The turn that clients have who are not root's, of all listeners that share it.
    pub turns: Turns,
}

impl Default for Service {
    fn default() -> Service {
        Service {
            prompt: "volley# ".into(),
            idle: Duration::from_secs(60),
            read_only: false,
            for_root: FOR_ROOT,
            turns: Turns::default(),
        }
    }
}

/// The sessions of a listener.
struct House<C> {
    registry: Rc<Registry<C>>,
    cx: Rc<RefCell<C>>,
    service: Service,
    prompt: Rc<str>,
    let_go: LetGo,
    no_room: String,
    /// A seat is the client's and this list's, until the client is gone.
    seats: Vec<Rc<Seat>>,
    clients: JoinSet<io::Result<()>>,
    /// Those that are told that there is no room.
    refused: JoinSet<io::Result<()>>,
    gone: Repeated,
    away: Repeated,
}

impl<C: Values + 'static> House<C> {
    fn new(registry: Rc<Registry<C>>, cx: Rc<RefCell<C>>, service: Service) -> House<C> {
        let seconds = service.idle.as_secs();
        House {
            registry,
            cx,
            prompt: service.prompt.as_str().into(),
            let_go: LetGo {
                idle: format!(
                    "disconnected: nothing was done here for {seconds} seconds or more, and others needed the place"
                ),
                silent: "disconnected: no command had come, and others needed the place".into(),
            },
            no_room: format!(
                "{CLIENTS} clients are connected to the CLI, which is the most, and each has a command that runs, or has done \
                 something within the last {seconds} seconds: close one, or try again later (unix {{ cli-idle-timeout SECONDS }} \
                 says when an idle one gives way)"
            ),
            service,
            seats: Vec::new(),
            clients: JoinSet::new(),
            refused: JoinSet::new(),
            gone: Repeated::new(say_gone),
            away: Repeated::new(say_away),
        }
    }

    /// How many have a thread of the door's.
    fn sessions(&self) -> usize {
        self.clients.len() + self.refused.len()
    }

    /// Lets a client in, or tells it that there is no room.
    ///
    /// # Errors
    /// When the system has no room for it.
    fn let_in(&mut self, stranger: Stranger, door: &Door) -> io::Result<()> {
        let (peer, is_root) = (stranger.peer.clone(), stranger.is_root());
        let stream = door.open(stranger)?;
        let (registry, cx, prompt) =
            (Rc::clone(&self.registry), Rc::clone(&self.cx), Rc::clone(&self.prompt));
        let session =
            Session::new(stream, registry, cx, prompt, self.service.read_only, &self.service.turns, peer);
        self.seats.retain(|seat| Rc::strong_count(seat) > 1);
        let places = CLIENTS + if is_root { self.service.for_root } else { 0 };
        let for_root = is_root || self.service.for_root == 0;
        let room = make_room(&self.seats, places, for_root, self.service.idle);
        if let Room::Made = room {
            self.gone.happened();
        }
        if !matches!(room, Room::None) {
            self.seats.push(session.seat());
            self.clients.spawn_local(session.serve(self.let_go.clone()));
        } else {
            self.away.happened();
            if self.refused.len() < FAREWELLS {
                self.refused.spawn_local(session.turn_away(self.no_room.clone()));
            }
        }
        Ok(())
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
    let (mut door, mut house) = (Door::new(&listener)?, House::new(registry, cx, service));
    loop {
        let sessions = house.sessions();
        let come = tokio::select! {
            come = door.next(sessions) => come,
            Some(ended) = house.clients.join_next() => {
                match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!("a CLI client is gone: {error}"),
                    Err(error) => tracing::error!("a CLI command failed badly: {error}"),
                }
                continue;
            }
            Some(_) = house.refused.join_next() => continue,
            () = house.gone.due() => {
                house.gone.say();
                continue;
            }
            () = house.away.due() => {
                house.away.say();
                continue;
            }
        };
        if let Err(error) = come.and_then(|stranger| house.let_in(stranger, &door)) {
            tracing::warn!("cannot accept a CLI client: {error}");
            time::sleep(RECOVERY).await;
            door.close_left();
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
