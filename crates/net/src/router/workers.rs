//! Assignment of work to workers: workers are added and removed, and queues and flows move between them, while packets are forwarded.
//!
//! [`Router::arrange`] makes each of these changes in the same steps:
//!
//! 1. Workers stop polling the queues whose packets will go to other workers. The devices buffer packets as far as they have room.
//! 2. The main thread waits until all workers have finished the present iteration of their loops, and until no packet is on its way
//!    from one worker to another. Then it waits until the workers have finished the iterations that received the last of these packets.
//! 3. The queues and shards are assigned to their new workers, and the queues are polled again.
//!
//! So the packets of a flow stay in order, and packets are lost only if a device runs out of room. [`Router::stood_still`] returns the time
//! for which the queues were paused.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use buf::Held;
use graph::{Punted, Runner, RxMode};

use super::{Routed, Router, RouterError};
use crate::handoff::{SHARDS, Shards, share_out};
use crate::interface::{Attention, Handoff, RxSlot};

/// Maximum time that a change of the assignment waits for the workers.
const GRACE: Duration = Duration::from_millis(200);
/// Maximum number of workers.
pub const MAX_WORKERS: usize = 256;

/// The operator's configuration of a device's receive queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receive {
    /// The receive mode: polling, interrupt or adaptive.
    pub mode: RxMode,
    /// Handoff: whether workers pass the packets of these queues to the workers to which the packets' flows belong.
    pub handoff: Handoff,
    /// Settings for single queues, by number.
    pub queues: BTreeMap<usize, ReceiveQueue>,
}

/// The operator's configuration of one receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// The receive mode; if `None`, [`Receive::mode`] applies.
    pub mode: Option<RxMode>,
    /// The worker that polls the queue; `None` if the router may choose it. Ignored while this worker does not exist.
    pub worker: Option<usize>,
}

impl Receive {
    /// Returns the assignment of a queue according to this configuration. `now` is its present assignment, and `workers` the number
    /// of workers.
    pub(super) fn of(&self, slot: &RxSlot, now: Attention, workers: usize) -> Attention {
        let queue = self.queues.get(&slot.number).copied().unwrap_or_default();
        let chosen = queue.worker.filter(|w| *w < workers);
        let spread = match self.handoff {
            _ if workers == 1 => false,
            Handoff::On => true,
            Handoff::Off => false,
            Handoff::Auto => now.spread && now.handoff == Handoff::Auto && slot.of < workers,
        };
        Attention {
            worker: chosen.unwrap_or(now.worker),
            chosen: chosen.is_some(),
            mode: queue.mode.unwrap_or(self.mode),
            handoff: self.handoff,
            spread,
            paused: false,
        }
    }
}

impl Router {
    /// Returns the core of each worker; `None` if the worker may run on any core.
    pub fn cores(&self) -> &[Option<usize>] {
        &self.cores
    }

    /// Returns the worker of each shard of flows.
    pub fn shards(&self) -> &Shards {
        self.shards.get()
    }

    /// True if the operator assigned shards (groups of flows) to workers, and [`set_workers`](Self::set_workers) has not succeeded since.
    /// While it is true, features do not move shards.
    pub fn shards_chosen(&self) -> bool {
        self.shards_chosen
    }

    /// Returns the time for which receive queues were not polled during the last change of workers, queues or shards. A second call
    /// returns zero.
    pub fn stood_still(&mut self) -> Duration {
        std::mem::take(&mut self.stood_still)
    }

    /// Returns the kernel's thread ID of a worker, if the worker runs on a thread.
    pub fn thread_id(&self, worker: usize) -> Option<i32> {
        self.runners.get(worker).map(Runner::thread_id)
    }

    /// Sets the number of workers to the length of `cores`, and pins each worker to its core, while packets are forwarded. Queues
    /// and shards (groups of flows) are moved away from removed workers and to new ones. All other queues and shards stay where
    /// they are.
    ///
    /// # Errors
    /// If there would be no worker or too many, a worker cannot be created or pinned, or a worker hangs. In this case, all changes are
    /// undone.
    pub fn set_workers(&mut self, cores: &[Option<usize>]) -> Result<(), RouterError> {
        if !(1..=MAX_WORKERS).contains(&cores.len()) {
            return Err(RouterError::new(format!("the number of workers must be 1 to {MAX_WORKERS}")));
        }
        let before = self.cores.clone();
        let done = self.have_workers(cores);
        // After an error, remove the new workers; they have no work yet.
        let stay = if done.is_ok() { cores.len() } else { before.len() };
        while self.ports.len() > stay {
            self.retire();
        }
        if done.is_err() {
            for (worker, core) in before.into_iter().enumerate() {
                // The worker had this core a moment ago. If the core is gone now, nothing better can be done.
                let _ = self.pin_worker(worker, core);
            }
        }
        done
    }

    /// Adds workers until there are as many as `cores`, pins them, and assigns all queues and shards to them.
    fn have_workers(&mut self, cores: &[Option<usize>]) -> Result<(), RouterError> {
        while self.ports.len() < cores.len() {
            self.hire()?;
        }
        for (worker, core) in cores.iter().enumerate() {
            self.pin_worker(worker, *core)?;
        }
        self.share_out_among(cores.len())
    }

    /// Pins a worker to a core; `None` lets it run on any core.
    ///
    /// # Errors
    /// If there is no such worker, or the kernel refuses.
    pub fn pin_worker(&mut self, worker: usize, core: Option<usize>) -> Result<(), RouterError> {
        let none = || RouterError::new(format!("there is no worker {worker}"));
        let now = *self.cores.get(worker).ok_or_else(none)?;
        if now == core {
            return Ok(());
        }
        if let Some(runner) = self.runners.get(worker) {
            runner.pin(core).map_err(|e| RouterError::not_pinned(worker, core, &e))?;
        }
        self.cores[worker] = core;
        self.near.interfaces.values().for_each(|i| self.warn_of_far_workers(i.index));
        Ok(())
    }

    /// Adds a worker without queues, which may run on any core.
    fn hire(&mut self) -> Result<(), RouterError> {
        let number = self.ports.len();
        let (worker, port) = self.blueprint.worker(number, &self.pool, &self.wake)?;
        if self.running {
            // The new thread must not inherit the main thread's own core.
            match Runner::start(worker, &port, self.schedule)
                .and_then(|runner| runner.pin(None).map(|()| runner))
            {
                Ok(runner) => self.runners.push(runner),
                Err(e) => {
                    self.blueprint.exchange().leave(number);
                    return Err(RouterError::new(format!("worker {number} cannot be started: {e}")));
                }
            }
        }
        self.ports.push(port);
        self.cores.push(None);
        Ok(())
    }

    /// Removes the last worker. The caller has moved all its queues and shards to other workers. Packets that wait on this worker for a
    /// next hop move to the first worker.
    fn retire(&mut self) {
        let Some(mut port) = self.ports.pop() else { return };
        self.cores.pop();
        let number = port.number;
        // The worker handles all packets sent to it before it ends.
        let worker = self.runners.pop().map(Runner::stop);
        let waiting = [self.waiting_on::<Ipv4Addr>(number), self.waiting_on::<Ipv6Addr>(number)];
        self.blueprint.exchange().leave(number);
        drop(worker);
        while let Some(Punted { reason, packet }) = port.punted() {
            self.punted(self.now, 0, reason, packet);
        }
        let until = Instant::now() + GRACE;
        for (node, packet) in waiting.into_iter().flatten() {
            // On the first worker, these packets wait again, and their next hop is requested again.
            while self.ports[0].is_full() && Instant::now() < until {
                std::thread::yield_now();
            }
            let sent = self.send(0, node, packet);
            self.rehomed.count(sent);
        }
    }

    /// Takes the packets that wait on a worker for their next hops. Returns each with the node to which it must be sent.
    fn waiting_on<A: Routed>(&self, worker: usize) -> Vec<(&'static str, Held)> {
        let mut waiting = Vec::new();
        self.tables.of::<A>().unresolved.take(worker, |packet| waiting.push((A::NODES.lookup, packet)));
        waiting
    }

    /// Divides queues and shards among the first `workers` workers.
    fn share_out_among(&mut self, workers: usize) -> Result<(), RouterError> {
        let slots = self.tables.placement.slots();
        let wished: Vec<Attention> =
            slots.iter().map(|s| self.wishes(s).of(s, s.attention(), workers)).collect();
        let free: Vec<usize> = wished.iter().filter(|a| !a.chosen).map(|a| a.worker).collect();
        let mut shared = share_out(&free, workers).into_iter();
        let wished = wished.into_iter().map(|a| match a.chosen {
            true => a,
            false => Attention { worker: shared.next().unwrap_or(0), ..a },
        });
        let shards = self.shards().shared_out(workers);
        self.arrange(&slots, wished.collect(), shards)?;
        self.shards_chosen = false;
        Ok(())
    }

    fn wishes(&self, slot: &RxSlot) -> Receive {
        self.near.interfaces.get(slot.interface).map_or_else(Receive::default, |i| i.receive.clone())
    }

    /// Returns the worker with the fewest queues, preferring workers that are not pinned to a core of another NUMA node than `node`. `new`
    /// contains the workers of queues that are about to be added: these queues count, too.
    pub(super) fn least_loaded(&self, new: &[usize], node: Option<u32>) -> usize {
        let slots = self.tables.placement.slots();
        let queues = |worker: &usize| {
            let there = slots.iter().filter(|s| s.attention().worker == *worker).count();
            there + new.iter().filter(|w| *w == worker).count()
        };
        let at = |worker: usize| self.cores.get(worker).copied().flatten().and_then(infra::cpu::numa_node_of);
        let far = |worker: usize| node.is_some() && at(worker).is_some_and(|at| Some(at) != node);
        (0..self.ports.len()).min_by_key(|worker| (far(*worker), queues(worker))).unwrap_or(0)
    }

    /// Logs a warning for each worker that polls a device of another NUMA node.
    pub(super) fn warn_of_far_workers(&self, index: u32) {
        let name = self.near.interfaces.get(index).map_or("", |i| &i.name);
        for (worker, core, node) in self.far_workers(index) {
            tracing::warn!(
                "{name}: worker {worker} polls this interface from another NUMA node ({node}, core {core}), so packets cross NUMA nodes; \
                 move the worker (set worker {worker} core …) or the queue (set interface rx-placement)"
            );
        }
    }

    /// Returns the workers that poll a device but are on another NUMA node, each with its core and its node.
    pub(super) fn far_workers(&self, index: u32) -> Vec<(usize, usize, u32)> {
        let device = self.near.interfaces.get(index).and_then(|i| i.device.as_ref());
        let Some(own) = device.and_then(|d| d.control.numa_node()) else { return Vec::new() };
        let slots = self.tables.placement.slots();
        let polls =
            |worker: &usize| slots.iter().any(|s| s.interface == index && s.attention().worker == *worker);
        let far = |worker: usize| {
            let core = self.cores.get(worker).copied().flatten()?;
            let node = infra::cpu::numa_node_of(core).filter(|node| *node != own)?;
            Some((worker, core, node))
        };
        (0..self.ports.len()).filter(polls).filter_map(far).collect()
    }

    /// Sets the operator's configuration of a device's receive queues.
    ///
    /// # Errors
    /// If the interface does not exist, or a worker hangs.
    pub fn set_receive(&mut self, index: u32, wishes: Receive) -> Result<(), RouterError> {
        let before = std::mem::replace(&mut self.info_mut(index)?.receive, wishes);
        let done = self.attend_to(index);
        match &done {
            Ok(()) => self.warn_of_far_workers(index),
            Err(_) => self.info_mut(index)?.receive = before,
        }
        done
    }

    /// Applies the operator's configuration to the queues of a device.
    fn attend_to(&mut self, index: u32) -> Result<(), RouterError> {
        let slots = self.tables.placement.slots();
        let workers = self.ports.len();
        let wish = |s: &Arc<RxSlot>| match s.interface == index {
            true => self.wishes(s).of(s, s.attention(), workers),
            false => s.attention(),
        };
        let wished = slots.iter().map(wish).collect();
        self.arrange(&slots, wished, self.shards().clone())
    }

    /// Assigns shards (groups of flows) to a worker.
    ///
    /// # Errors
    /// If a shard or the worker does not exist, or a worker hangs.
    pub fn give_shards(&mut self, shards: &[usize], worker: usize) -> Result<(), RouterError> {
        if shards.iter().any(|shard| *shard >= SHARDS) {
            return Err(RouterError::new(format!("shard numbers must be 0 to {}", SHARDS - 1)));
        }
        let slots = self.tables.placement.slots();
        let now = slots.iter().map(|s| s.attention()).collect();
        self.arrange(&slots, now, self.shards().given(shards, worker))?;
        self.shards_chosen = true;
        Ok(())
    }

    /// Assigns the receive queues as in `wished`, and the flows as in `shards`. `slots` must contain all receive queues, and `wished` the
    /// assignment of each queue in the same order. The [module](self) describes the steps.
    ///
    /// # Errors
    /// If an assigned worker does not exist, or any worker hangs. Then nothing changes.
    pub fn arrange(
        &mut self,
        slots: &[Arc<RxSlot>],
        wished: Vec<Attention>,
        shards: Shards,
    ) -> Result<(), RouterError> {
        let last = wished.iter().map(|a| a.worker).chain(shards.workers()).max();
        if let Some(worker) = last.filter(|worker| *worker >= self.ports.len()) {
            return Err(RouterError::new(format!("there is no worker {worker}")));
        }
        let other_shards = shards != *self.shards();
        let moves = |now: Attention, wished: &Attention| {
            now.worker != wished.worker || now.spread != wished.spread || now.spread && other_shards
        };
        let moving: Vec<bool> = slots.iter().zip(&wished).map(|(s, w)| moves(s.attention(), w)).collect();
        let any = moving.contains(&true);
        self.stood_still = Duration::ZERO;
        let start = Instant::now();
        let set = |r: &Router, how: &dyn Fn(usize, &mut Attention)| {
            let mut at = 0;
            r.tables.placement.attend(|_, attention| {
                how(at, attention);
                at += 1;
            });
        };
        if any {
            set(self, &|at, attention| attention.paused = moving[at]);
            if let Err(e) = self.settle() {
                set(self, &|_, attention| attention.paused = false);
                self.wake_workers();
                return Err(e);
            }
        }
        if other_shards {
            self.shards.set(shards);
        }
        set(self, &|at, attention| *attention = wished[at]);
        self.wake_workers();
        if any {
            self.stood_still = start.elapsed();
        }
        Ok(())
    }

    /// Waits until the workers have processed all packets that they received from the queues that are paused now.
    fn settle(&self) -> Result<(), RouterError> {
        let hangs = || {
            let stats = self.graph().stats();
            let at = (0..self.ports.len()).find_map(|w| Some((w, stats.running(w)?)));
            let who = at.map_or("a worker".into(), |(w, node)| format!("worker {w}, in node {node},"));
            RouterError::new(format!(
                "no changes made: {who} has not finished its packets after {} ms",
                GRACE.as_millis()
            ))
        };
        if self.blueprint.exchange().settle(&self.domain, GRACE) { Ok(()) } else { Err(hangs()) }
    }
}
