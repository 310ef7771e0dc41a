//! Tests the worker with simple nodes.

mod arcs;
mod books;
mod fields;
mod flow;
mod names;
mod outcomes;
mod random;
mod rings;
mod run;
mod toys;
mod traces;

use std::sync::Arc;

use buf::{Pool, PoolStats};
use infra::doorbell::Doorbell;
use infra::quiesce::{Domain, Participant};

use crate::{ArcControl, Blueprint, Builder, GraphError, Worker, WorkerPort};
use toys::{Batches, Log};

/// A built graph with one worker, whose turns the test runs.
struct Rig {
    blueprint: Blueprint,
    arcs: ArcControl,
    domain: Domain,
    participant: Participant,
    pool: Pool,
    worker: Worker,
    port: WorkerPort,
    bell: Arc<Doorbell>,
    log: Log,
    source: Batches,
}

impl Rig {
    /// Returns a graph with the input node `source` and the nodes that `install` adds. `install` also adds
    /// the edges of `source`.
    fn new(install: impl FnOnce(&mut Builder, &Log)) -> Rig {
        let (mut builder, log, source) = (Builder::new(), Log::default(), Batches::default());
        source.install(&mut builder, "source");
        install(&mut builder, &log);
        let domain = Domain::new();
        let (blueprint, arcs) = builder.build(&domain).expect("a graph");
        let pool = Pool::new(4096).expect("a pool");
        let bell = Arc::new(Doorbell::new().expect("a doorbell"));
        let (worker, port) = blueprint.worker(0, &pool, &bell).expect("a worker");
        let participant = domain.register();
        Rig { blueprint, arcs, domain, participant, pool, worker, port, bell, log, source }
    }

    fn turn_at(&mut self, now: u64) -> usize {
        let section = self.participant.enter();
        self.worker.turn_at(section.guard(), now)
    }

    fn turn(&mut self) -> usize {
        self.turn_at(1_000_000_000)
    }

    fn dropped(&self, node: &str, reason: &str) -> u64 {
        self.blueprint.stats().dropped_for(node, reason).expect("a reason")
    }

    /// Returns how often a node was called, and how many packets it got.
    fn ran(&self, node: &str) -> (u64, u64) {
        let all = self.blueprint.stats().runtime(None);
        let n = all.iter().find(|n| n.name == node).expect("a node");
        (n.calls, n.packets)
    }

    /// Frees the worker with all packets that it held, and returns the pool's statistics.
    fn end(self) -> PoolStats {
        let Rig { worker, port, pool, domain, participant, .. } = self;
        drop((worker, port, participant));
        domain.collect();
        pool.stats()
    }

    /// Frees the worker, and checks that no buffer is in use and no packet was lost.
    fn ends_clean(self) {
        let s = self.end();
        assert_eq!((s.used, s.lost), (0, 0));
    }
}

/// Builds the graph that `install` makes, which must fail. Returns the text of the error.
fn refused(install: impl FnOnce(&mut Builder, &Log) -> Result<(), GraphError>) -> String {
    let mut builder = Builder::new();
    Batches::default().install(&mut builder, "source");
    let built = install(&mut builder, &Log::default()).and_then(|()| builder.build(&Domain::new()));
    built.map(|_| ()).expect_err("the graph must be refused").to_string()
}
