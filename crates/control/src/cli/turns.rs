//! Fair shares of the main thread: all non-root clients together have one turn in each of its rounds.

use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// The turn shared by all non-root clients. Clones are the same turn.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Turns {
        Turns(Arc::new(Semaphore::new(1)))
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
        let Some(Turns(turns)) = &self.0 else { return work() };
        // First come, first served. The semaphore is never closed.
        let turn = turns.acquire().await;
        let done = work();
        // Hold the turn until all other runnable tasks have run.
        yield_now().await;
        drop(turn);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use tokio::task::{LocalSet, spawn_local};

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
