//! The control side: one [`Router`], owned by the main thread, through which everything changes.
//!
//! [`Router::poll`] is its turn: packets that workers punted, and timers. Between turns the owner calls the methods that
//! change things, each of which is complete when it returns: workers see the change at once, or not at all when it
//! was refused. Only of the next hops and routes behind an interface that comes or goes many may follow in the next turns.

mod accounts;
mod addresses;
mod arp;
mod balance;
mod budget;
mod devices;
mod events;
mod features;
mod interface_table;
mod interfaces;
mod ip6;
mod lent;
mod nd;
mod neighbors;
pub(crate) mod ping;
mod poll;
mod routes;
mod side;
mod state;
mod usage;
mod workers;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use buf::{Cache, Pool};
use graph::stats::MainThread;
use graph::{ArcControl, Blueprint, Builder, Runner, WorkerPort};
use infra::cpu::Schedule;
use infra::doorbell::Doorbell;
use infra::quiesce::{Domain, Mark, Participant};
use model::cli::CliError;

use crate::Unused;
use crate::adjacency::Adjacencies;
use crate::handoff::Shards;
use crate::interface::{Interface, TxPort};
use crate::ip::Routes;
use crate::neighbor::Neighbors;
use crate::tables::{self, Tables, Writers};

use interface_table::InterfaceTable;

pub use accounts::Accounts;
pub use budget::RouteMemory;
pub use events::{Made, Stirred, Turn};
pub use interface_table::{DeviceState, InterfaceInfo};
pub use interfaces::{check_mac, check_mtu};
pub use neighbors::check_neighbor;
pub use ping::{PingReply, PingTarget};
pub use poll::{Hooks, PuntHandler};
pub use side::{Routed, Side};
pub use workers::{MAX_WORKERS, Receive, ReceiveQueue};

/// Why the router did not do what was asked; nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterError(pub String);

impl RouterError {
    /// A worker cannot have its core.
    fn not_pinned(worker: usize, core: Option<usize>, why: &io::Error) -> RouterError {
        let where_to = core.map_or("any core".into(), |core| format!("core {core}"));
        RouterError(format!("worker {worker} cannot be pinned to {where_to}: {why}"))
    }
}

impl fmt::Display for RouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for RouterError {}

impl From<RouterError> for CliError {
    fn from(e: RouterError) -> Self {
        CliError::new(e.0)
    }
}

impl From<crate::ip::RouteError> for RouterError {
    fn from(e: crate::ip::RouteError) -> Self {
        RouterError(e.to_string())
    }
}
impl From<infra::class_a::Full> for RouterError {
    fn from(e: infra::class_a::Full) -> Self {
        RouterError(e.to_string())
    }
}
impl From<io::Error> for RouterError {
    fn from(e: io::Error) -> Self {
        RouterError(e.to_string())
    }
}

/// Adds the nodes of what a router can do: the list of features lives with the binary.
pub trait Install: FnOnce(&mut Builder, &Tables, &mut Hooks) -> Result<(), graph::GraphError> {}
impl<F: FnOnce(&mut Builder, &Tables, &mut Hooks) -> Result<(), graph::GraphError>> Install for F {}

/// How big a router is made.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Buffers.
    pub buffers: usize,
    /// Worker threads.
    pub workers: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { buffers: 16_384, workers: 1 }
    }
}

/// A router: the control side of everything.
pub struct Router {
    domain: Domain,
    tables: Tables,
    blueprint: Blueprint,
    arcs: ArcControl,
    hooks: Hooks,
    wake: Arc<Doorbell>,
    ports: Vec<WorkerPort>,
    runners: Vec<Runner>,
    /// How the kernel schedules them, if not as the main thread.
    schedule: Option<Schedule>,
    /// The cores of the workers.
    cores: Vec<Option<usize>>,
    /// Whether the workers are on threads.
    running: bool,
    rehomed: accounts::Rehomed,
    balance: balance::Balance,
    /// How long queues stood still for the last change of who does what.
    stood_still: Duration,
    /// When the last turn was, nanoseconds of the monotonic clock.
    now: u64,
    /// Turns of each worker when somebody last asked whether it turns.
    turns: Vec<u64>,
    tx_ports: infra::class_a::SlotWriter<TxPort>,
    shards: infra::class_a::Writer<Shards>,
    /// Interfaces that are gone, and whose indices no other is to have yet.
    leaving: Vec<u32>,
    /// Interfaces that have the index of one that is gone, until no worker can be on a path to that.
    heirs: VecDeque<(Mark, u32)>,
    /// The index that the next interface is to have.
    next_index: Option<u32>,
    /// Interfaces, adjacencies and neighbours: what resolves paths.
    pub(crate) near: Neighborhood,
    ip4: Side<Ipv4Addr>,
    ip6: Side<Ipv6Addr>,
    nd: ip6::Ip6,
    usage: usage::Usage,
    budget: budget::Budget,
    pings: ping::Pings,
    /// Counts what became of punted packets.
    outcomes: MainThread,
    // Last, and so dropped last: what still lies in the rings of `ports` finds its pool, whose memory is used again.
    bufs: Cache,
    pool: Pool,
}

/// What resolves paths: interfaces, adjacencies and neighbours.
pub struct Neighborhood {
    pub(crate) records: infra::class_a::SlotWriter<Interface>,
    pub(crate) interfaces: InterfaceTable,
    pub(crate) adjacencies: Adjacencies,
    pub(crate) neighbors4: Neighbors<Ipv4Addr>,
    pub(crate) neighbors6: Neighbors<Ipv6Addr>,
}

/// A router with its workers not yet on threads: for tests and benchmarks, which turn them by hand.
pub struct Parts {
    /// The control side.
    pub router: Router,
    /// The workers.
    pub workers: Vec<graph::Worker>,
}

impl Router {
    /// Builds the graph, the tables and the workers.
    ///
    /// # Errors
    /// When the graph does not fit together, or memory is not to be had.
    pub fn build(install: impl Install, sizes: &Sizes) -> Result<Parts, RouterError> {
        Router::with_pool(install, Pool::new(sizes.buffers)?, sizes.workers)
    }

    /// Builds the graph, the tables, and so many workers, with buffers that are there.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn with_pool(install: impl Install, pool: Pool, workers: usize) -> Result<Parts, RouterError> {
        let domain = Domain::new();
        let (writers, tables) = tables::tables(&domain)?;
        let mut builder = Builder::new();
        let mut hooks = Hooks::new(&domain, pool.stats().total);
        builder.main_thread::<Unused>();
        install(&mut builder, &tables, &mut hooks).map_err(|e| RouterError(e.to_string()))?;
        let (blueprint, arcs) = builder.build(&domain).map_err(|e| RouterError(e.to_string()))?;
        let wake = Arc::new(Doorbell::new()?);
        let built = (0..workers.max(1)).map(|number| blueprint.worker(number, &pool, &wake));
        let (workers, ports): (Vec<_>, Vec<_>) = built.collect::<Result<_, _>>()?;
        // The first buffers are the main thread's, so that it has its reserve whatever the workers take.
        let mut bufs = pool.cache();
        bufs.has(1 + workers.len());
        let Writers { interfaces, ports: tx_ports, adjacencies, ip4, ip6, shards } = writers;
        let mut router = Router {
            near: Neighborhood {
                records: interfaces,
                interfaces: InterfaceTable::default(),
                adjacencies: Adjacencies::new(&domain, adjacencies, tables.adjacency_counters.clone()),
                neighbors4: Neighbors::default(),
                neighbors6: Neighbors::default(),
            },
            ip4: Side::new(&domain, ip4)?,
            ip6: Side::new(&domain, ip6)?,
            nd: ip6::Ip6::default(),
            usage: usage::Usage::default(),
            budget: budget::Budget::default(),
            pings: ping::Pings::default(),
            outcomes: blueprint.stats().main_thread()?,
            domain,
            tables,
            blueprint,
            arcs,
            hooks,
            bufs,
            pool,
            wake,
            ports,
            runners: Vec::new(),
            schedule: None,
            cores: vec![None; workers.len()],
            running: false,
            rehomed: accounts::Rehomed::default(),
            balance: balance::Balance::default(),
            stood_still: Duration::ZERO,
            now: 0,
            shards,
            turns: Vec::new(),
            leaving: Vec::new(),
            heirs: VecDeque::new(),
            next_index: None,
            tx_ports,
        };
        router.shards.set(Shards::default().shared_out(workers.len()));
        Ok(Parts { router, workers })
    }

    /// Says how the kernel is to schedule the workers that are started from now on.
    pub fn schedule_workers(&mut self, schedule: Schedule) {
        self.schedule = Some(schedule);
    }

    /// Puts the workers on threads, each pinned to its core if `cores` has one for it. One that cannot have its core runs on
    /// any: that is said, and packets are forwarded.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(&mut self, workers: Vec<graph::Worker>, cores: &[Option<usize>]) -> Result<(), RouterError> {
        for (i, (worker, port)) in workers.into_iter().zip(&self.ports).enumerate() {
            let runner = Runner::start(worker, port, self.schedule)?;
            let core = cores.get(i).copied().flatten();
            match runner.pin(core) {
                Ok(()) => self.cores[i] = core,
                Err(e) => tracing::warn!(event = "workers", "{}", RouterError::not_pinned(i, core, &e)),
            }
            self.runners.push(runner);
        }
        self.running = true;
        Ok(())
    }

    /// A worker that has not turned since this was last asked, and the node that it is in. One that sleeps turns ten times
    /// a second; one that has not for longer than that hangs, and forwards nothing.
    pub fn still_worker(&mut self) -> Option<(usize, Option<&'static str>)> {
        let stats = self.graph().stats();
        let now: Vec<u64> = (0..self.runners.len()).map(|w| stats.worker_totals(w).turns).collect();
        let before = std::mem::replace(&mut self.turns, now);
        let still = before.iter().zip(&self.turns).position(|(before, now)| now == before)?;
        Some((still, self.graph().stats().running(still)))
    }

    /// Rings when a worker has something for [`poll`](Self::poll).
    pub fn doorbell(&self) -> &Arc<Doorbell> {
        &self.wake
    }

    /// Read handles on every table.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The graph: statistics, traces, node names.
    pub fn graph(&self) -> &Blueprint {
        &self.blueprint
    }

    /// Every arc with its features in order, and whether they are on for this interface.
    pub fn features(&self, index: u32) -> Vec<(&'static str, Vec<(&'static str, bool)>)> {
        self.arcs.show(index)
    }

    /// Feature arcs.
    pub fn arcs(&mut self) -> &mut ArcControl {
        &mut self.arcs
    }

    /// The buffer pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Routes and VRFs, to be looked at.
    pub fn routes<A: Routed>(&self) -> &Routes<A> {
        &A::side(self).routes
    }

    /// Adjacencies, to be looked at.
    pub fn adjacencies(&self) -> &Adjacencies {
        &self.near.adjacencies
    }

    /// A part in the quiescence of this router's tables, for those who turn its workers by hand.
    pub fn participant(&self) -> Participant {
        self.domain.register()
    }

    /// Frees what no worker can see any more. Called now and then.
    pub fn collect(&self) -> usize {
        self.domain.collect()
    }
}

/// The longest that [`Router::poll`] may be put off.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod books_tests;
#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod ip6_tests;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod own_tests;
#[cfg(test)]
mod routes_tests;
#[cfg(test)]
mod share_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod toys_tests;
#[cfg(test)]
mod workers_tests;
