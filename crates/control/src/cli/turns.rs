//! Fair shares of the main thread and of memory.
//!
//! In each round of the main thread's tasks, only one non-root client runs, and one request of root to the native API: a connection may have
//! many requests. The users take turns: a user with many clients or requests runs no more often than a user with one client. All non-root
//! clients together have one memory budget, for their commands and for output that they have not read.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use model::cli::{CliError, Role};
use model::origin::Peer;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::session::Seat;
use crate::fair::Queue;

/// Maximum memory for output that non-root clients have not read yet, and for their unfinished commands, in KiB.
const MOST_UNREAD: u32 = 16 << 10;
/// A command that needs at most this number of bytes of memory makes no reservation.
const SMALL: usize = 64 << 10;
/// Time after which a client that reads none of its output is disconnected, if another client needs memory.
const STALLED: Duration = Duration::from_secs(5);

/// The limits that all non-root clients share: only one of these clients runs on the main thread at a time, and they have one memory
/// budget. All clones refer to the same limits.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    turn: Rc<RefCell<Waiting>>,
    /// The turn of root's requests to the native API.
    of_root: Rc<RefCell<Waiting>>,
    /// The clients that have reserved memory.
    holders: Rc<RefCell<Vec<Holder>>>,
}

/// A client that has reserved memory.
#[derive(Debug)]
struct Holder {
    seat: Weak<Seat>,
    /// The memory in KiB of all its reservations.
    kib: u32,
}

/// A user with non-root clients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum User {
    /// A user of this machine, by user ID.
    Own(u32),
    /// The name in a certificate, and the role that the certificate gives: authorities of different roles may use the same names.
    Certified(Role, Arc<str>),
    /// All users without a user ID and without a certificate, such as those of TCP clients; they count as one user.
    Unknown,
}

/// The state of the turn: whether a client has it, and the clients that wait for it.
#[derive(Debug, Default)]
struct Waiting {
    is_taken: bool,
    queue: Queue<User, oneshot::Sender<Turn>>,
}

/// Permission for one non-root client, or one request of root to the native API, to run on the main thread. The next client gets it when this value is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Rc<RefCell<Waiting>>>);

impl Turn {
    /// Waits for the turn. The users get it one after the other; the clients of one user get it in the order of their requests.
    async fn take(waiting: &Rc<RefCell<Waiting>>, user: &User) -> Option<Turn> {
        let turn = {
            let mut all = waiting.borrow_mut();
            if !std::mem::replace(&mut all.is_taken, true) {
                return Some(Turn(Some(waiting.clone())));
            }
            let (give, turn) = oneshot::channel();
            all.queue.add(user.clone(), give);
            turn
        };
        // Whoever has the turn hands it over.
        turn.await.ok()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(waiting) = self.0.take() else { return };
        loop {
            let next = waiting.borrow_mut().queue.next();
            let Some((_, next)) = next else { break };
            match next.send(Turn(Some(waiting.clone()))) {
                Ok(()) => return,
                // This client has left. Its turn must not be handed over a second time.
                Err(mut turn) => turn.0 = None,
            }
        }
        waiting.borrow_mut().is_taken = false;
    }
}

impl Turns {
    /// Disconnects the client that has read nothing for the longest time, among the clients with reserved memory. Does nothing if that time
    /// is shorter than [`STALLED`].
    fn let_go(&self, now: Instant) {
        let holders = self.holders.borrow();
        let seats = holders.iter().filter_map(|holder| holder.seat.upgrade());
        let stalled = seats.filter_map(|seat| Some((seat.told_since()?, seat)));
        let Some((since, seat)) = stalled.min_by_key(|(since, _)| *since) else { return };
        if now.saturating_duration_since(since) >= STALLED {
            seat.leave();
        }
    }
}

/// A client's share of the main thread and of memory, under the limits of [`Turns`].
pub(crate) enum Share {
    /// A client of root on the command line: it is not limited.
    Free,
    /// A client of root whose requests take turns with other such requests. Its memory is not limited.
    Root(Turns),
    /// A client of this user.
    Limited(Turns, User),
}

impl Share {
    /// Returns the share of a client of the command line. A client of root neither waits for a turn nor reserves memory.
    pub(crate) fn of(turns: &Turns, peer: &Peer, role: Role) -> Share {
        let user = match peer {
            Peer::User(0, _) => return Share::Free,
            Peer::User(id, _) => User::Own(*id),
            Peer::Certified(name, _) => User::Certified(role, name.clone()),
            Peer::Own | Peer::Address(_) => User::Unknown,
        };
        Share::Limited(turns.clone(), user)
    }

    /// Returns the share of a client that may make many requests at a time. Those of root do not delay root's commands.
    pub(crate) fn of_requests(turns: &Turns, peer: &Peer, role: Role) -> Share {
        match Share::of(turns, peer, role) {
            Share::Free => Share::Root(turns.clone()),
            limited => limited,
        }
    }

    /// Waits for this client's turn, and returns it. A client without limits gets `None` at once. The caller must drop the turn after its
    /// slice, once all other runnable tasks have run.
    pub(crate) async fn take(&self) -> Option<Turn> {
        match self {
            Share::Free => None,
            Share::Root(turns) => Turn::take(&turns.of_root, &User::Own(0)).await,
            Share::Limited(turns, user) => Turn::take(&turns.turn, user).await,
        }
    }

    /// Runs `work` in this client's turn.
    pub(crate) async fn turn<R>(&self, work: impl FnOnce() -> R) -> R {
        if let Share::Free = self {
            return work();
        }
        let turn = self.take().await;
        let done = work();
        // Hold the turn until all other runnable tasks have run.
        yield_now().await;
        drop(turn);
        done
    }

    /// Returns an empty reservation of memory for a command of this client.
    pub(crate) fn hold(&self, seat: &Rc<Seat>) -> Hold {
        let turns = match self {
            Share::Free | Share::Root(_) => None,
            Share::Limited(turns, _) => Some(turns.clone()),
        };
        Hold { turns, seat: Rc::downgrade(seat), kib: 0 }
    }
}

/// Memory reserved for a command: for its output until the client has read it, and for the data that the command itself stores. A client
/// may have several reservations, for requests that run at the same time.
pub(crate) struct Hold {
    /// `None` for root, whose memory is not limited.
    turns: Option<Turns>,
    seat: Weak<Seat>,
    /// The size of this reservation, in KiB.
    kib: u32,
}

impl Hold {
    /// Changes the reservation to `bytes` bytes. A reservation of at most [`SMALL`] bytes counts as 0. A larger one counts as at most half
    /// of the whole budget.
    ///
    /// All clients of one user together get at most half of the memory that the other users have not reserved. Here, all clients without a
    /// user ID count as one user.
    ///
    /// # Errors
    /// If the reservation grows, and the user's clients would exceed this limit. Then the call also looks for the client that has read none
    /// of its output for the longest time, and disconnects it if that time is at least [`STALLED`]. So a later attempt may succeed.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), CliError> {
        let Some(turns) = &self.turns else { return Ok(()) };
        // A reservation has at most half of the memory, so that the longest output fits if it is the only one.
        let most = MOST_UNREAD / 2;
        let kib = if bytes <= SMALL { 0 } else { u32::try_from(bytes >> 10).unwrap_or(most).min(most) };
        let user = self.seat.upgrade().and_then(|seat| seat.user());
        let mut holders = turns.holders.borrow_mut();
        let at = holders.iter().position(|holder| holder.seat.ptr_eq(&self.seat));
        if kib > self.kib {
            let of = |holder: &Holder| holder.seat.upgrade().and_then(|seat| seat.user());
            let sum =
                |own: bool| holders.iter().filter(|h| (of(h) == user) == own).map(|h| h.kib).sum::<u32>();
            let room = MOST_UNREAD.saturating_sub(sum(false)) / 2;
            if sum(true) - self.kib + kib > room {
                drop(holders);
                turns.let_go(Instant::now());
                return Err(CliError::new(format!(
                    "this command needs {kib} KiB, but your other clients use too much of your limit ({room} KiB for commands and \
                     unread output): try again later, or close clients that do not read their output (show cli-sessions)"
                )));
            }
        }
        let all = at.map_or(0, |at| holders[at].kib) - self.kib + kib;
        self.kib = kib;
        match (at, all) {
            (Some(at), 0) => drop(holders.swap_remove(at)),
            (Some(at), all) => holders[at].kib = all,
            (None, 0) => {}
            (None, all) => holders.push(Holder { seat: self.seat.clone(), kib: all }),
        }
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // A reservation of 0 bytes is always granted.
        let _ = self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::State;
    use super::*;
    use std::cell::Cell;
    use tokio::task::{LocalSet, spawn_local};

    /// Returns the share of a client of this user.
    fn of(turns: &Turns, user: Option<u32>) -> Share {
        Share::of(turns, &user.map_or(Peer::Own, |id| Peer::user(id, None)), Role::Viewer)
    }

    #[test]
    fn unread_output_is_limited_except_roots() {
        let turns = Turns::default();
        let seats = [7, 7, 8, 0].map(|user| Seat::new(Some(user)));
        let [mut one, mut same, mut other, mut root] =
            seats.each_ref().map(|seat| of(&turns, seat.user()).hold(seat));
        one.set(1 << 20).unwrap();
        one.set(7 << 20).unwrap();
        same.set(SMALL).unwrap();
        root.set(1 << 30).unwrap();
        let refused = same.set(2 << 20).unwrap_err().to_string();
        assert!(refused.starts_with("this command needs 2048 KiB"), "{refused}");
        same.set(1 << 20).unwrap();
        // Another user has half of the rest, whatever this one holds.
        other.set(4 << 20).unwrap();
        other.set(5 << 20).unwrap_err();
        one.set(3 << 20).unwrap();
        other.set(6 << 20).unwrap();
        one.set(5 << 20).unwrap_err();
        assert_eq!(turns.holders.borrow().len(), 3);
        drop((one, same, other));
        assert_eq!(turns.holders.borrow().len(), 0);
        of(&turns, Some(7)).hold(&seats[0]).set(usize::MAX).unwrap();
    }

    #[test]
    fn reservations_of_one_client_add_up() {
        let (turns, seat) = (Turns::default(), Seat::new(Some(7)));
        let [mut one, mut other] = [(); 2].map(|()| of(&turns, Some(7)).hold(&seat));
        one.set(5 << 20).unwrap();
        other.set(4 << 20).unwrap_err();
        other.set(3 << 20).unwrap();
        one.set(6 << 20).unwrap_err();
        drop(one);
        assert_eq!(turns.holders.borrow()[0].kib, 3 << 10);
        other.set(8 << 20).unwrap();
        drop(other);
        assert!(turns.holders.borrow().is_empty());
    }

    #[test]
    fn a_client_that_does_not_read_gives_way() {
        let turns = Turns::default();
        let seats = [(); 3].map(|()| Seat::new(Some(7)));
        let mut holds = seats.each_ref().map(|seat| of(&turns, Some(7)).hold(seat));
        holds[0].set(4 << 20).unwrap();
        holds[1].set(4 << 20).unwrap();
        seats[1].enter(State::Told);
        holds[2].set(1 << 20).unwrap_err();
        turns.let_go(Instant::now());
        assert!(seats.iter().all(|seat| !seat.is_leaving()), "it may be about to read");
        turns.let_go(Instant::now() + STALLED);
        assert_eq!(seats.each_ref().map(|seat| seat.is_leaving()), [false, true, false]);
    }

    #[test]
    fn clients_share_one_turn_per_round_equally() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (turns, rounds) = (Turns::default(), Rc::new(Cell::new(0)));
            let begun = Rc::new(RefCell::new(Vec::new()));
            for client in 0..60 {
                let (share, begun, rounds) = (of(&turns, Some(client + 1)), begun.clone(), rounds.clone());
                spawn_local(async move {
                    loop {
                        share.turn(|| begun.borrow_mut().push((client, rounds.get()))).await;
                    }
                });
            }
            let root = of(&turns, Some(0));
            for round in 0..600 {
                rounds.set(round);
                root.turn(|| ()).await;
                yield_now().await;
            }
            let begun = begun.borrow();
            assert!((300..=1200).contains(&begun.len()), "{}", begun.len());
            let most = (0..600).map(|round| begun.iter().filter(|(_, at)| *at == round).count()).max();
            assert!(most <= Some(2), "{most:?} turns of others between two of root's");
            let of = |client| begun.iter().filter(|(other, _)| *other == client).count();
            assert!((0..60).all(|client| of(client).abs_diff(of(0)) <= 1));
        });
    }

    /// Root's requests take turns with each other, and do not delay root's commands.
    #[test]
    fn requests_of_root_run_one_per_round() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (turns, count) = (Turns::default(), Rc::new(Cell::new(0u32)));
            let peer = Peer::user(0, None);
            for _ in 0..960 {
                let (share, count) = (Share::of_requests(&turns, &peer, Role::Admin), count.clone());
                spawn_local(async move {
                    loop {
                        share.turn(|| count.set(count.get() + 1)).await;
                    }
                });
            }
            let command = of(&turns, Some(0));
            for _ in 0..100 {
                let before = count.get();
                command.turn(|| ()).await;
                yield_now().await;
                assert!(count.get() - before <= 2, "{}", count.get() - before);
            }
            assert!(count.get() >= 50, "{}", count.get());
        });
    }

    /// One user has very many clients that run all the time, and another user has a single client. Each user gets half of the turns. A
    /// client that leaves while it waits uses up no turn.
    #[test]
    fn users_share_the_turns_equally() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let turns = Turns::default();
            let counts = [7, 8].map(|_| Rc::new(Cell::new(0u32)));
            for client in 0..101 {
                let user = usize::from(client == 100);
                let (share, count) = (of(&turns, Some(7 + user as u32)), counts[user].clone());
                let task = spawn_local(async move {
                    loop {
                        share.turn(|| count.set(count.get() + 1)).await;
                    }
                });
                if client % 10 == 0 && client < 100 {
                    spawn_local(async move {
                        for _ in 0..50 {
                            yield_now().await;
                        }
                        task.abort();
                    });
                }
            }
            for _ in 0..2000 {
                yield_now().await;
            }
            let [one, other] = counts.map(|count| count.get());
            assert!(
                one + other > 900 && one.abs_diff(other) < 60,
                "{one} turns of many clients, {other} of one"
            );
        });
    }
}
