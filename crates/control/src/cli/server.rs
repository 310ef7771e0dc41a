//! Serves the command line to many clients on one thread (the protocol is described in `protocol.rs`).
//!
//! A command, or a slice of a long one, runs while the state is borrowed, and does not wait. So all other tasks of the thread run between
//! slices, and a client that does not read delays only itself.
//!
//! There is room for [`CLIENTS`] clients, and for some additional clients of root. Root has a separate socket, so other users cannot lock
//! root out. If all places are taken, the new client replaces an existing one. The first of these rules that finds a client decides:
//!
//! - a client that never sent a whole line, unless it belongs to another user and is newer than [`NEW`];
//! - the client that has been idle longest, if it has been idle for at least [`Service::idle`];
//! - the longest idle client of another user, if that user has more than half of the places.
//!
//! If no rule finds a client, the new client is rejected.

use super::door::{Door, RECOVERY, Stranger};
use super::listen::Listener;
use super::protocol::Reply;
use super::repeated::Repeated;
use super::session::{LetGo, Seat, Session};
use super::sessions::{Client, Sessions};
use super::turns::{Share, Turns};
use model::cli::{Registry, Role, Values};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time;

/// Maximum number of clients of a listener served at once, without the additional clients of root.
const CLIENTS: usize = 64;
/// Maximum number of rejected clients that are sent the reason at the same time.
const FAREWELLS: usize = 64;
/// The default of [`Service::for_root`].
const FOR_ROOT: usize = 8;

/// The settings of a CLI server.
#[derive(Clone, Debug)]
pub struct Service {
    /// The prompt.
    pub prompt: String,
    /// Idle time after which a client can be disconnected, if the limit of clients is reached.
    pub idle: Duration,
    /// The role of the clients.
    pub role: Role,
    /// Number of additional clients that root can connect when the limit for all clients is reached.
    pub for_root: usize,
    /// The limits that the non-root clients of all listeners share: only one of these clients runs at a time, and they have one memory
    /// budget.
    pub turns: Turns,
    /// The list of connected clients, over all listeners.
    pub sessions: Sessions,
}

impl Default for Service {
    fn default() -> Service {
        Service {
            prompt: "volley# ".into(),
            idle: Duration::from_secs(60),
            role: Role::Admin,
            for_root: FOR_ROOT,
            turns: Turns::default(),
            sessions: Sessions::default(),
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
    /// The state ([`Seat`]) of each client. When a client's session ends, the session drops its reference to the state.
    seats: Vec<Rc<Seat>>,
    clients: JoinSet<io::Result<()>>,
    /// Sessions that reject a client.
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
                    "disconnected: idle for {seconds} seconds or more, and the limit of clients was reached"
                ),
                silent: "disconnected: no command was sent, and the limit of clients was reached".into(),
            },
            no_room: format!(
                "{CLIENTS} clients are connected to the CLI, the maximum, and none has been idle for {seconds} seconds: \
                 close one, or try again later (unix {{ cli-idle-timeout SECONDS }} sets this time)"
            ),
            service,
            seats: Vec::new(),
            clients: JoinSet::new(),
            refused: JoinSet::new(),
            gone: Repeated::new(say_gone),
            away: Repeated::new(say_away),
        }
    }

    /// Returns the number of clients with a relay thread.
    fn sessions(&self) -> usize {
        self.clients.len() + self.refused.len()
    }

    /// Starts a client's session, or rejects it if there is no room.
    ///
    /// # Errors
    /// If the system has no descriptor or thread left for the client.
    fn let_in(&mut self, stranger: Stranger, door: &Door) -> io::Result<()> {
        let is_root = stranger.is_root();
        let client = Client {
            entrance: stranger.entrance,
            role: self.service.role,
            peer: stranger.peer.clone(),
            pid: stranger.pid,
        };
        let stream = door.open(stranger)?;
        let (registry, cx, prompt) =
            (Rc::clone(&self.registry), Rc::clone(&self.cx), Rc::clone(&self.prompt));
        let client_user = client.peer.uid();
        let share = Share::of(&self.service.turns, &client.peer, client.role);
        let guest = self.service.sessions.enter(client.clone());
        let session = Session::new(stream, registry, cx, prompt, share, client, guest);
        self.seats.retain(|seat| Rc::strong_count(seat) > 1);
        let places = CLIENTS + if is_root { self.service.for_root } else { 0 };
        let for_root = is_root || self.service.for_root == 0;
        let room = make_room(&self.seats, places, for_root, self.service.idle, client_user);
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

/// Serves clients until the future is dropped, which also ends their commands. Runs on a `LocalSet` of a runtime with one thread.
///
/// Each slice borrows `cx`, so no other task may hold a borrow of it while waiting.
///
/// # Errors
/// If the runtime cannot use the listener.
pub async fn serve<C: Values + 'static>(
    listener: Listener,
    registry: Rc<Registry<C>>,
    cx: Rc<RefCell<C>>,
    service: Service,
) -> io::Result<()> {
    let (mut door, mut house) = (Door::new(&listener, too_fast()?)?, House::new(registry, cx, service));
    loop {
        let sessions = house.sessions();
        let come = tokio::select! {
            come = door.next(sessions) => come,
            Some(ended) = house.clients.join_next() => {
                match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!("a CLI client disconnected: {error}"),
                    Err(error) => tracing::error!("internal error: a CLI session panicked: {error}"),
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

/// Returns the message to clients that connect too fast.
fn too_fast() -> io::Result<Arc<[u8]>> {
    let why = "too many connections: non-root users may open 400 a second, and the queue is full: run many commands \
               over one connection (volley ctl -), or try again later";
    let mut line = serde_json::to_vec(&Reply::Closed(why.into()))?;
    line.push(b'\n');
    Ok(line.into())
}

/// The room for another client.
pub(crate) enum Room {
    /// A place is free.
    Free,
    /// A client is being disconnected to make room.
    Made,
    /// The limit of clients is reached, and no client can be disconnected.
    None,
}

/// Time in which a new client that has sent nothing yet is not disconnected in favor of another user's client.
const NEW: Duration = Duration::from_millis(500);

/// Finds a place for a new client of `user`. If all `places` are taken, disconnects the client that the rules of this module select.
/// Disconnects clients of root only if `for_root` is true.
pub(crate) fn make_room(
    seats: &[Rc<Seat>],
    places: usize,
    for_root: bool,
    idle: Duration,
    user: Option<u32>,
) -> Room {
    if seats.iter().filter(|seat| !seat.is_leaving()).count() < places {
        return Room::Free;
    }
    let may_go = |spoken: bool, since: &time::Instant, seat: &Seat| match spoken {
        true => since.elapsed() >= idle,
        // A client of another user has some time for its first request. If it had none, a user who connects all the time would displace it
        // before.
        false => seat.user() == user || since.elapsed() >= NEW,
    };
    let longest = seats
        .iter()
        .filter(|seat| for_root || !seat.is_root())
        .filter_map(|seat| Some((seat.has_spoken(), seat.idle_since()?, seat)))
        .filter(|(spoken, since, seat)| may_go(*spoken, since, seat))
        .min_by_key(|(spoken, since, _)| (*spoken, *since));
    match longest {
        Some((.., seat)) => {
            seat.leave();
            Room::Made
        }
        None => room_of_others(seats, places, user),
    }
}

/// Makes room for a new client of `user` when no client has been idle for long enough. If another user, except root, has more than
/// half of the places, disconnects the longest idle client of that user.
fn room_of_others(seats: &[Rc<Seat>], places: usize, user: Option<u32>) -> Room {
    let has = |of: Option<u32>| seats.iter().filter(|seat| !seat.is_leaving() && seat.user() == of).count();
    let others = seats.iter().filter(|seat| !seat.is_root() && seat.user() != user);
    let greedy = others.map(|seat| seat.user()).find(|other| has(*other) > places / 2);
    let Some(greedy) = greedy else { return Room::None };
    let its = seats.iter().filter(|seat| seat.user() == greedy);
    match its.filter_map(|seat| Some((seat.idle_since()?, seat))).min_by_key(|(since, _)| *since) {
        Some((_, seat)) => {
            seat.leave();
            Room::Made
        }
        None => Room::None,
    }
}

fn say_gone(clients: u64) {
    tracing::info!("disconnected {clients} idle CLI client(s) to make room: {CLIENTS} are connected");
}

fn say_away(clients: u64) {
    tracing::warn!("rejected {clients} CLI client(s): {CLIENTS} are connected");
}

#[cfg(test)]
mod tests {
    use super::super::session::State;
    use super::*;

    #[test]
    fn a_fast_user_does_not_displace_new_clients_of_others() {
        let idle = Duration::from_secs(60);
        let seats: Vec<_> = (0..8).map(|n| Seat::new(Some(if n < 7 { 7 } else { 8 }))).collect();
        seats.iter().filter(|seat| seat.user() == Some(7)).for_each(|seat| {
            seat.begin();
            seat.enter(State::Asked);
        });
        assert!(
            matches!(make_room(&seats, 8, false, idle, Some(7)), Room::None),
            "the others' client is new"
        );
        assert!(matches!(make_room(&seats, 8, false, idle, Some(8)), Room::Made), "its own one may go");
    }

    #[test]
    fn a_user_with_most_places_makes_room_for_others() {
        let idle = Duration::from_secs(60);
        let seats: Vec<_> = (0..8).map(|n| Seat::new(Some(if n < 6 { 7 } else { 8 }))).collect();
        seats.iter().for_each(|seat| seat.begin());
        let made = |user| matches!(make_room(&seats, 8, false, idle, Some(user)), Room::Made);
        assert!(!made(9), "all of them run commands");
        seats.iter().for_each(|seat| seat.enter(State::Asked));
        assert!(!made(7), "it has most places itself");
        assert!(made(9));
        assert_eq!(seats.iter().filter(|seat| seat.is_leaving()).count(), 1);
        // A place is free now: nobody else has to leave.
        assert!(matches!(make_room(&seats, 8, false, idle, Some(9)), Room::Free));
        let all: Vec<_> = seats.iter().cloned().chain([Seat::new(Some(9))]).collect();
        assert!(matches!(make_room(&all, 8, false, idle, Some(8)), Room::Made), "5 of 8 are more than half");
        let all: Vec<_> = all.into_iter().chain([Seat::new(Some(9))]).collect();
        all.iter().for_each(|seat| seat.begin());
        assert!(matches!(make_room(&all, 8, false, idle, Some(8)), Room::None), "4 of 8 are not");
    }
}
