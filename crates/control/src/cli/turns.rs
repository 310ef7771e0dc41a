//! Fair shares of the main thread: all non-root clients together have one turn in each of its rounds.

use std::sync::Arc;

use model::cli::CliError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

/// Most memory for output that non-root clients have not read yet, in KiB.
const MOST_UNREAD: u32 = 16 << 10;
/// Output of a client that does not count, in bytes.
const SMALL: usize = 64 << 10;

/// The turn and the memory shared by all non-root clients. Clones share the same.
#[derive(Clone, Debug)]
pub struct Turns {
    turn: Arc<Semaphore>,
    /// Free memory for unread output, in KiB.
    unread: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Turns {
        let unread = Arc::new(Semaphore::new(MOST_UNREAD as usize));
        Turns { turn: Arc::new(Semaphore::new(1)), unread }
    }
}

/// One client's access to its turns.
pub(super) struct Share(Option<Turns>);

impl Share {
    /// Returns a client's share. Root's clients do not share the turn.
    pub(super) fn of(turns: &Turns, is_root: bool) -> Share {
        Share((!is_root).then(|| turns.clone()))
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

    /// Reserves memory for output until the client has read it.
    ///
    /// # Errors
    /// If other non-root clients have too much unread output.
    pub(super) fn reserve(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, CliError> {
        let Some(Turns { unread, .. }) = self.0.as_ref().filter(|_| bytes > SMALL) else { return Ok(None) };
        // The longest output fits if it is the only one.
        let kib = u32::try_from(bytes >> 10).unwrap_or(MOST_UNREAD).min(MOST_UNREAD);
        match Arc::clone(unread).try_acquire_many_owned(kib) {
            Ok(reserved) => Ok(Some(reserved)),
            Err(_) => Err(CliError::new(format!(
                "this output has {kib} KiB, and CLI clients of users other than root may leave {MOST_UNREAD} KiB unread: \
                 end those that do not read, or try again later"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use tokio::task::{LocalSet, spawn_local};

    #[test]
    fn unread_output_is_limited_except_roots() {
        let turns = Turns::default();
        let (one, other, root) =
            (Share::of(&turns, false), Share::of(&turns, false), Share::of(&turns, true));
        let held = one.reserve(10 << 20).unwrap();
        assert!(other.reserve(SMALL).unwrap().is_none() && root.reserve(1 << 30).unwrap().is_none());
        let refused = other.reserve(7 << 20).unwrap_err().to_string();
        assert!(refused.starts_with("this output has 7168 KiB"), "{refused}");
        let also = other.reserve(6 << 20).unwrap();
        drop((held, also));
        assert!(one.reserve(usize::MAX).unwrap().is_some());
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
