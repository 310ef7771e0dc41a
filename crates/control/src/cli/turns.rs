//! Fair shares of the main thread and of memory. All non-root clients together have one turn in each of the main thread's rounds, and one
//! memory budget for their commands and the output that they have not read.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use model::cli::CliError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::session::Seat;

/// Maximum memory for output that non-root clients have not read yet, and for their unfinished commands, in KiB.
const MOST_UNREAD: u32 = 16 << 10;
/// Memory in bytes up to which a command needs no reservation.
const SMALL: usize = 64 << 10;
/// Time after which a client that reads none of its output is disconnected, if another client needs memory.
const STALLED: Duration = Duration::from_secs(5);

/// The turn and the memory that all non-root clients share. All clones refer to the same turn and memory.
#[derive(Clone, Debug)]
pub struct Turns {
    turn: Arc<Semaphore>,
    /// Free memory for unread output, in KiB.
    unread: Arc<Semaphore>,
    /// The clients that have reserved memory.
    holders: Rc<RefCell<Vec<Weak<Seat>>>>,
}

impl Default for Turns {
    fn default() -> Turns {
        let unread = Arc::new(Semaphore::new(MOST_UNREAD as usize));
        Turns { turn: Arc::new(Semaphore::new(1)), unread, holders: Rc::default() }
    }
}

impl Turns {
    /// Disconnects the client that has read nothing for the longest time, among the clients with reserved memory. Does nothing if that time
    /// is shorter than [`STALLED`].
    fn let_go(&self, now: Instant) {
        let mut holders = self.holders.borrow_mut();
        holders.retain(|seat| seat.strong_count() > 0);
        let stalled =
            holders.iter().filter_map(Weak::upgrade).filter_map(|seat| Some((seat.told_since()?, seat)));
        let Some((since, seat)) = stalled.min_by_key(|(since, _)| *since) else { return };
        if now.saturating_duration_since(since) >= STALLED {
            seat.leave();
        }
    }
}

/// The turn, which a client has until this value is dropped.
pub(crate) type Turn = OwnedSemaphorePermit;

/// One client's access to the turn and the memory; `None` for a client of root, which needs neither.
pub(crate) struct Share(Option<Turns>);

impl Share {
    /// Returns a client's access. A client of root neither waits for the turn nor reserves memory.
    pub(crate) fn of(turns: &Turns, is_root: bool) -> Share {
        Share((!is_root).then(|| turns.clone()))
    }

    /// Waits for the turn; `None` for a client of root. To be dropped after a slice, when all other runnable tasks have run.
    pub(crate) async fn take(&self) -> Option<Turn> {
        let Turns { turn, .. } = self.0.as_ref()?;
        // First come, first served. The semaphore is never closed.
        Arc::clone(turn).acquire_owned().await.ok()
    }

    /// Runs `work` in this client's turn.
    pub(super) async fn turn<R>(&self, work: impl FnOnce() -> R) -> R {
        let Some(Turns { turn, .. }) = &self.0 else { return work() };
        // First come, first served. The semaphore is never closed.
        let turn = turn.acquire().await;
        let done = work();
        // Hold the turn until all other runnable tasks have run.
        yield_now().await;
        drop(turn);
        done
    }

    /// Returns an empty reservation of memory for a command of this client.
    pub(crate) fn hold(&self, seat: &Rc<Seat>) -> Hold {
        Hold { turns: self.0.clone(), seat: Rc::downgrade(seat), held: None }
    }
}

/// Memory reserved for a command: for its output until the client has read it, and for what the command itself keeps.
pub(crate) struct Hold {
    /// `None` for root, whose memory is not limited.
    turns: Option<Turns>,
    seat: Weak<Seat>,
    held: Option<OwnedSemaphorePermit>,
}

impl Hold {
    /// Changes the reservation to this many bytes.
    ///
    /// # Errors
    /// If the other non-root clients hold too much memory. The call then disconnects one of them that does not read its output, so that a
    /// later attempt may succeed.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), CliError> {
        let Some(turns) = &self.turns else { return Ok(()) };
        // The longest output fits if it is the only one.
        let kib = if bytes <= SMALL {
            0
        } else {
            u32::try_from(bytes >> 10).unwrap_or(MOST_UNREAD).min(MOST_UNREAD)
        };
        let had = self.held.as_ref().map_or(0, |held| held.num_permits() as u32);
        if kib <= had {
            drop(self.held.as_mut().and_then(|held| held.split((had - kib) as usize)));
            return Ok(());
        }
        let Ok(more) = Arc::clone(&turns.unread).try_acquire_many_owned(kib - had) else {
            turns.let_go(Instant::now());
            return Err(CliError::new(format!(
                "this command needs {kib} KiB, but other clients hold too much of the {MOST_UNREAD} KiB for commands and unread \
                 output of all users except root: try again later, or end clients that do not read (show cli-sessions)"
            )));
        };
        match &mut self.held {
            Some(held) => held.merge(more),
            None => {
                turns.holders.borrow_mut().push(self.seat.clone());
                self.held = Some(more);
            }
        }
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let (Some(turns), Some(_)) = (&self.turns, &self.held) {
            let mut holders = turns.holders.borrow_mut();
            if let Some(at) = holders.iter().position(|seat| seat.ptr_eq(&self.seat)) {
                holders.swap_remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::State;
    use super::*;
    use std::cell::Cell;
    use tokio::task::{LocalSet, spawn_local};

    #[test]
    fn unread_output_is_limited_except_roots() {
        let turns = Turns::default();
        let seats = [false, false, true].map(Seat::new);
        let [mut one, mut other, mut root] =
            seats.each_ref().map(|seat| Share::of(&turns, seat.is_root()).hold(seat));
        one.set(1 << 20).unwrap();
        one.set(10 << 20).unwrap();
        other.set(SMALL).unwrap();
        root.set(1 << 30).unwrap();
        let refused = other.set(7 << 20).unwrap_err().to_string();
        assert!(refused.starts_with("this command needs 7168 KiB"), "{refused}");
        other.set(6 << 20).unwrap();
        one.set(9 << 20).unwrap();
        other.set(7 << 20).unwrap();
        assert_eq!(turns.holders.borrow().len(), 2);
        drop((one, other));
        assert_eq!(turns.holders.borrow().len(), 0);
        Share::of(&turns, false).hold(&seats[0]).set(usize::MAX).unwrap();
    }

    #[test]
    fn a_client_that_does_not_read_gives_way() {
        let turns = Turns::default();
        let seats = [(); 3].map(|()| Seat::new(false));
        let mut holds = seats.each_ref().map(|seat| Share::of(&turns, false).hold(seat));
        holds[0].set(8 << 20).unwrap();
        holds[1].set(8 << 20).unwrap();
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
                let (share, begun, rounds) = (Share::of(&turns, false), begun.clone(), rounds.clone());
                spawn_local(async move {
                    loop {
                        share.turn(|| begun.borrow_mut().push((client, rounds.get()))).await;
                    }
                });
            }
            let root = Share::of(&turns, true);
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
}
