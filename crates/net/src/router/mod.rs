//! Control of the router: every change goes through one [`Router`], which the main thread owns.
//!
//! [`Router::poll`] is one iteration of the main thread's loop: it handles punted packets and timers. Between two iterations, the owner
//! calls the methods that make changes. A change is usually complete when its method returns: workers see it at once, or not at all if it
//! was refused. Later iterations do two kinds of work: they publish the router's own addresses, and they update the next hops and routes
//! that depend on a changed interface or route, if these are many.

mod accounts;
mod addresses;
mod arp;
mod budget;
mod devices;
mod drain;
mod egress;
mod events;
mod features;
mod interface_table;
mod interfaces;
mod ip6;
mod kinds;
mod lent;
mod load;
mod nd;
mod neighbors;
mod poll;
mod routes;
mod side;
mod state;
mod usage;
mod vrfs;
mod workers;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use buf::{Cache, Pool};
use graph::{ArcControl, Blueprint, Builder, MainThread, Runner, WorkerPort};
use infra::cpu::Schedule;
use infra::doorbell::Doorbell;
use infra::quiesce::{Domain, Mark, Participant};
use model::cli::CliError;
use model::reason::Reason;

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
pub use drain::Drain;
pub use egress::{Egress, NoSource};
pub use events::{Change, Follows, Heard, Hears, Learns, Leaves, Loss, Made, News, Stirred, Turn, WasSet};
pub use interface_table::{DeviceState, InterfaceInfo};
pub use interfaces::{check_mac, check_mtu};
pub use ip6::Probed;
pub use kinds::KindInfo;
pub use neighbors::check_neighbor;
pub use poll::{Hooks, PuntHandler};
pub use side::{Routed, Side};
pub use vrfs::{MAX_VRFS, Vrfs};
pub use workers::{MAX_WORKERS, Receive, ReceiveQueue};

/// The reason why the router refused a change, or could not complete it, for example for lack of memory. A refused change has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterError {
    /// The reason, in words.
    pub why: String,
    reason: Reason,
}

impl RouterError {
    /// Returns an error with this text.
    pub fn new(why: impl Into<String>) -> RouterError {
        RouterError { why: why.into(), reason: Reason::Other }
    }

    /// Returns the same error with a reason.
    pub fn because(self, reason: Reason) -> RouterError {
        RouterError { reason, ..self }
    }

    /// Returns the reason.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the error for a worker that cannot be pinned to `core`, or unpinned if `core` is `None`.
    fn not_pinned(worker: usize, core: Option<usize>, why: &io::Error) -> RouterError {
        RouterError::new(match core {
            Some(core) => format!("cannot pin worker {worker} to core {core}: {why}"),
            None => format!("cannot remove the pinning of worker {worker}: {why}"),
        })
    }
}

impl fmt::Display for RouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
impl std::error::Error for RouterError {}

impl From<RouterError> for CliError {
    fn from(e: RouterError) -> Self {
        CliError::new(e.why).because(e.reason)
    }
}

impl From<crate::ip::BadAddress> for RouterError {
    fn from(e: crate::ip::BadAddress) -> Self {
        RouterError::new(e.0)
    }
}
impl From<crate::ip::RouteError> for RouterError {
    fn from(e: crate::ip::RouteError) -> Self {
        RouterError::new(e.to_string())
    }
}
impl From<infra::class_a::Full> for RouterError {
    fn from(e: infra::class_a::Full) -> Self {
        RouterError::new(e.to_string())
    }
}
impl From<io::Error> for RouterError {
    fn from(e: io::Error) -> Self {
        RouterError::new(e.to_string())
    }
}

/// Adds nodes to the graph of a router. The binary passes the nodes of all its features.
pub trait Install: FnOnce(&mut Builder, &Tables, &mut Hooks) -> Result<(), graph::GraphError> {}
impl<F: FnOnce(&mut Builder, &Tables, &mut Hooks) -> Result<(), graph::GraphError>> Install for F {}

/// The size of a router.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Number of packet buffers.
    pub buffers: usize,
    /// Number of worker threads.
    pub workers: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { buffers: 16_384, workers: 1 }
    }
}

/// A router. The main thread uses it to control all tables and workers.
pub struct Router {
    domain: Domain,
    tables: Tables,
    blueprint: Blueprint,
    arcs: ArcControl,
    hooks: Hooks,
    wake: Arc<Doorbell>,
    ports: Vec<WorkerPort>,
    /// Number of packets exchanged with the workers.
    exchanged: u64,
    runners: Vec<Runner>,
    /// The workers' scheduling by the kernel; `None` if it is the same as the main thread's.
    schedule: Option<Schedule>,
    /// The core of each worker; `None` if it runs on any core.
    cores: Vec<Option<usize>>,
    /// True if the workers run on threads of their own.
    running: bool,
    rehomed: accounts::Rehomed,
    load: load::Load,
    /// True if the operator assigned shards to workers.
    shards_chosen: bool,
    /// Time for which receive queues were not polled during the last change of workers, queues or shards.
    stood_still: Duration,
    /// Time of the last call of [`Router::poll`], in nanoseconds of the monotonic clock.
    now: u64,
    /// Number of iterations that each worker's loop had done at the last call of [`Router::still_worker`].
    turns: Vec<u64>,
    tx_ports: infra::class_a::SlotWriter<TxPort>,
    /// Number of frames given to devices outside the graph.
    sent_at_once: u64,
    shards: infra::class_a::Writer<Shards>,
    /// Indexes of removed interfaces that are not free yet.
    leaving: Vec<u32>,
    /// New interfaces that have the index of a removed one. Each stays here until no worker can still use a path to the removed
    /// interface.
    heirs: VecDeque<(Mark, u32)>,
    /// The preferred index for the next interface.
    next_index: Option<u32>,
    /// Interfaces, adjacencies and neighbors, by which paths are resolved.
    pub(crate) near: Neighborhood,
    vrfs: vrfs::Vrfs,
    ip4: Side<Ipv4Addr>,
    ip6: Side<Ipv6Addr>,
    nd: ip6::Ip6,
    usage: usage::Usage,
    budget: budget::Budget,
    /// Counters of the results of handling punted packets.
    outcomes: MainThread,
    // Last, and so dropped last: packets left in the rings of `ports` still need their pool, whose memory is reused.
    bufs: Cache,
    pool: Pool,
}

/// The interfaces, adjacencies and neighbors, by which paths are resolved.
pub struct Neighborhood {
    pub(crate) records: infra::class_a::SlotWriter<Interface>,
    pub(crate) interfaces: InterfaceTable,
    pub(crate) adjacencies: Adjacencies,
    pub(crate) neighbors4: Neighbors<Ipv4Addr>,
    pub(crate) neighbors6: Neighbors<Ipv6Addr>,
}

/// A router whose workers do not run on threads yet. Tests and benchmarks run the workers' loops themselves.
pub struct Parts {
    /// The router that the main thread uses to control all tables and workers.
    pub router: Router,
    /// The workers.
    pub workers: Vec<graph::Worker>,
}

impl Router {
    /// Builds the graph, the tables and the workers of a router.
    ///
    /// # Errors
    /// If the graph cannot be built, or there is not enough memory.
    pub fn build(install: impl Install, sizes: &Sizes) -> Result<Parts, RouterError> {
        Router::with_pool(install, Pool::new(sizes.buffers)?, sizes.workers)
    }

    /// Builds the graph, the tables and the workers of a router that uses an existing buffer pool.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn with_pool(install: impl Install, pool: Pool, workers: usize) -> Result<Parts, RouterError> {
        let domain = Domain::new();
        let (writers, tables) = tables::tables(&domain)?;
        let mut builder = Builder::new();
        let mut hooks = Hooks::new(&domain, pool.stats().total);
        builder.main_reasons::<Unused>();
        install(&mut builder, &tables, &mut hooks).map_err(|e| RouterError::new(e.to_string()))?;
        let (blueprint, arcs) = builder.build(&domain).map_err(|e| RouterError::new(e.to_string()))?;
        let wake = Arc::new(Doorbell::new()?);
        let built = (0..workers.max(1)).map(|number| blueprint.worker(number, &pool, &wake));
        let (workers, ports): (Vec<_>, Vec<_>) = built.collect::<Result<_, _>>()?;
        // The main thread takes the first buffers, so that it has its reserve even if workers take all others.
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
            vrfs: vrfs::Vrfs::default(),
            ip4: Side::new(&domain, ip4)?,
            ip6: Side::new(&domain, ip6)?,
            nd: ip6::Ip6::default(),
            usage: usage::Usage::default(),
            budget: budget::Budget::default(),
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
            exchanged: 0,
            runners: Vec::new(),
            schedule: None,
            cores: vec![None; workers.len()],
            running: false,
            rehomed: accounts::Rehomed::default(),
            load: load::Load::default(),
            shards_chosen: false,
            stood_still: Duration::ZERO,
            now: 0,
            shards,
            turns: Vec::new(),
            leaving: Vec::new(),
            heirs: VecDeque::new(),
            next_index: None,
            tx_ports,
            sent_at_once: 0,
        };
        router.shards.set(Shards::default().shared_out(workers.len()));
        Ok(Parts { router, workers })
    }

    /// Sets how the kernel schedules workers that are started from now on.
    pub fn schedule_workers(&mut self, schedule: Schedule) {
        self.schedule = Some(schedule);
    }

    /// Starts the workers on threads, each pinned to its core if `cores` has one for it. A worker that cannot be pinned
    /// runs on any core: the router logs a warning, and packets are still forwarded.
    ///
    /// # Errors
    /// If a thread cannot be started.
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

    /// Returns a worker that has not finished an iteration of its loop since the last call, and the node that it is running, if any. `None`
    /// if there is no such worker. Even a sleeping worker does ten iterations a second. So if the calls are much more than 100 ms apart,
    /// this worker hangs and forwards nothing.
    pub fn still_worker(&mut self) -> Option<(usize, Option<&'static str>)> {
        let stats = self.graph().stats();
        let now: Vec<u64> = (0..self.runners.len()).map(|w| stats.worker_totals(w).turns).collect();
        let before = std::mem::replace(&mut self.turns, now);
        let still = before.iter().zip(&self.turns).position(|(before, now)| now == before)?;
        Some((still, self.graph().stats().running(still)))
    }

    /// Returns the doorbell that workers ring when they have work for [`poll`](Self::poll).
    pub fn doorbell(&self) -> &Arc<Doorbell> {
        &self.wake
    }

    /// Returns read handles for all tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the graph: statistics, traces, node names.
    pub fn graph(&self) -> &Blueprint {
        &self.blueprint
    }

    /// Returns every arc with its features in order, and whether each feature is on or off on this interface.
    pub fn features(&self, index: u32) -> Vec<(&'static str, Vec<(&'static str, bool)>)> {
        self.arcs.show(index)
    }

    /// Returns the feature arcs.
    pub fn arcs(&mut self) -> &mut ArcControl {
        &mut self.arcs
    }

    /// Returns the buffer pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns routes and VRFs, read-only.
    pub fn routes<A: Routed>(&self) -> &Routes<A> {
        &A::side(self).routes
    }

    /// Returns the adjacencies, read-only.
    pub fn adjacencies(&self) -> &Adjacencies {
        &self.near.adjacencies
    }

    /// Registers a participant in the quiescence domain of the tables, for code that runs the workers' loops itself.
    pub fn participant(&self) -> Participant {
        self.domain.register()
    }

    /// Frees memory that no worker can use any more. Returns the number of values that were freed. Each call of
    /// [`poll`](Self::poll) does the same.
    pub fn collect(&self) -> usize {
        self.domain.collect()
    }
}

/// Maximum time between two calls of [`Router::poll`].
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod addresses_tests;
#[cfg(test)]
mod books_tests;
#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod events_tests;
#[cfg(test)]
mod ip6_tests;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod lab;
#[cfg(test)]
mod own_tests;
#[cfg(test)]
mod routes_tests;
#[cfg(test)]
mod share_tests;
#[cfg(test)]
mod straight_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod toys_tests;
#[cfg(test)]
mod workers_tests;
