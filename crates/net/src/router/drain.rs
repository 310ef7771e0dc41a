//! A check that packets have left the graph.

use infra::quiesce::Mark;

use super::Router;

/// Number of rounds without a packet on any ring, after which no packet is in the graph. The end of a round finds packets that are on a
/// ring then. But a worker may take a packet from its ring just before the end, and pass it to another worker, which may do the same. Each
/// of these steps needs another round.
const ROUNDS: usize = 3;

/// A check in progress, by [`Router::is_drained`].
#[derive(Default)]
pub struct Drain {
    round: Option<Round>,
    quiet: usize,
}

/// A round: it ends when all workers have ended the turns in which it began.
struct Round {
    begun: Mark,
    exchanged: u64,
}

impl Router {
    /// Checks step by step whether all packets have left the graph that were received before the check began, including the answers of the
    /// main thread to them. Returns true at the end. The caller calls again a little later, between turns of the main thread. While packets
    /// of other interfaces keep arriving, the check may never end.
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
