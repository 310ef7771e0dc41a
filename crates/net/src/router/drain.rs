//! A check that packets have left the graph.

use infra::quiesce::Mark;

use super::Router;

/// Number of consecutive rounds without packets on any ring, after which the graph is empty. One round is not enough, because the rings are
/// checked only at the end of a round. A worker may take a packet from its ring just before that, and pass it to another worker, which may
/// do the same. Each of these steps needs another round.
const ROUNDS: usize = 3;

/// A check in progress, by [`Router::is_drained`].
#[derive(Default)]
pub struct Drain {
    round: Option<Round>,
    quiet: usize,
}

/// A round of the check. When it begins, each worker is in some iteration of its loop. The round ends when all workers have
/// finished that iteration.
struct Round {
    begun: Mark,
    exchanged: u64,
}

impl Router {
    /// Checks whether all packets received before the check began have left the graph, together with the main thread's answers to
    /// them. The check takes several calls: the caller lets the main thread's loop run for a while between them, until the result
    /// is true. While packets of other interfaces keep arriving, the check may never end.
    pub fn is_drained(&mut self, drain: &mut Drain) -> bool {
        let Some(Round { begun, exchanged }) = drain.round.take() else {
            drain.round = Some(self.round());
            return false;
        };
        if !self.domain.passed(begun) {
            drain.round = Some(Round { begun, exchanged });
            return false;
        }
        let rings =
            self.ports.iter().all(graph::WorkerPort::is_empty) && self.blueprint.exchange().is_empty();
        drain.quiet = if rings && exchanged == self.exchanged { drain.quiet + 1 } else { 0 };
        if drain.quiet < ROUNDS {
            drain.round = Some(self.round());
        }
        drain.quiet >= ROUNDS
    }

    fn round(&self) -> Round {
        Round { begun: self.domain.mark(), exchanged: self.exchanged }
    }
}
