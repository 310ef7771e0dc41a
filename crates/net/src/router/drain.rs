//! A check that packets have left the graph.

use infra::quiesce::Mark;

use super::Router;

/// Number of consecutive rounds without a packet on any ring, after which no packet is in the graph. One round is not enough: the rings are
/// checked at its end. A worker may take a packet from its ring just before that, and pass it to another worker, which may do the same.
/// Each of these steps needs another round.
const ROUNDS: usize = 3;

/// A check in progress, by [`Router::is_drained`].
#[derive(Default)]
pub struct Drain {
    round: Option<Round>,
    quiet: usize,
}

/// A round. It ends when every worker has finished the turn that it was in when the round began.
struct Round {
    begun: Mark,
    exchanged: u64,
}

impl Router {
    /// Checks whether the packets that were received before the check began have all left the graph, including the main thread's answers to
    /// them. The check needs several calls: the caller calls again a little later, between turns of the main thread, until the result is
    /// true. While packets of other interfaces keep arriving, the check may never end.
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
