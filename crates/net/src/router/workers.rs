//! Who does what: workers come and go, and queues and flows move from one to another, while packets pass.
//!
//! Every such change is an arrangement ([`Router::arrange`]), and has the same steps:
//!
//! 1. Nobody polls the queues whose packets will go another way. Their devices keep what comes, as far as they have room.
//! 2. The main thread waits until all workers have finished their turns, until nothing is on its way from one worker to
//!    another, and until they have finished the turns in which they took the last of it.
//! 3. The queues and shards have their new workers, and are polled again.
//!
//! So no packet is overtaken by a later one of its flow, and none is lost but for want of room in a device. How long its
//! queues stood still is told to whoever asked for the change.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use buf::Held;
use graph::{Punted, Runner, RxMode};

use super::{Routed, Router, RouterError};
use crate::handoff::{SHARDS, Shards, share_out};
use crate::interface::{Attention, Handoff, RxSlot};

/// How long an arrangement waits for the workers.
const GRACE: Duration = Duration::from_millis(200);
/// Workers at most.
pub const MAX_WORKERS: usize = 256;

/// What the operator wants of a device's receive queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receive {
    /// How eagerly they are polled.
    pub mode: RxMode,
    /// Whether their flows are shared out.
    pub handoff: Handoff,
    /// What holds for single queues.
    pub queues: BTreeMap<usize, ReceiveQueue>,
}

/// What the operator wants of one receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// How eagerly it is polled; `None`: as the others.
    pub mode: Option<RxMode>,
    /// Who polls it, if that is a worker that there is.
    pub worker: Option<usize>,
}

impl Receive {
    /// How a queue that is attended to so is to be attended to, where there are so many workers.
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
    /// The cores of the workers, in order of their numbers; `None`: any.
    pub fn cores(&self) -> &[Option<usize>] {
        &self.cores
    }

    /// The worker of each shard of flows.
    pub fn shards(&self) -> &Shards {
        self.shards.get()
    }

    /// How long queues stood still for the last change of who does what, of workers, receive queues or shards, unless that was asked
    /// before.
    pub fn stood_still(&mut self) -> Duration {
        std::mem::take(&mut self.stood_still)
    }

    /// The kernel's number of a worker's thread, if it has one.
    pub fn thread_id(&self, worker: usize) -> Option<i32> {
        self.runners.get(worker).map(Runner::thread_id)
    }

    /// Makes as many workers as there are `cores`, each on its core, while packets pass. Queues and shards move to those
    /// that come and from those that go, and else stay where they are.
    ///
    /// # Errors
    /// When there would be none or too many, a worker cannot be made or pinned, or one hangs. All is as it was then.
    pub fn set_workers(&mut self, cores: &[Option<usize>]) -> Result<(), RouterError> {
        if !(1..=MAX_WORKERS).contains(&cores.len()) {
            return Err(RouterError(format!("there can be 1 to {MAX_WORKERS} workers")));
        }
        let before = self.cores.clone();
        let done = self.have_workers(cores);
        // Those that came for nothing have no work yet.
        let stay = if done.is_ok() { cores.len() } else { before.len() };
        while self.ports.len() > stay {
            self.retire();
        }
        if done.is_err() {
            for (worker, core) in before.into_iter().enumerate() {
                // It had this core a moment ago; if that has gone meanwhile, there is nothing better to do.
                let _ = self.pin_worker(worker, core);
            }
        }
        done
    }

    /// Has the first workers on these `cores`, and all the work theirs.
    fn have_workers(&mut self, cores: &[Option<usize>]) -> Result<(), RouterError> {
        while self.ports.len() < cores.len() {
            self.hire()?;
        }
        for (worker, core) in cores.iter().enumerate() {
            self.pin_worker(worker, *core)?;
        }
        self.share_out_among(cores.len())
    }

    /// Binds a worker to a core; `None`: to any.
    ///
    /// # Errors
    /// When there is no such worker, or the kernel refuses.
    pub fn pin_worker(&mut self, worker: usize, core: Option<usize>) -> Result<(), RouterError> {
        let none = || RouterError(format!("there is no worker {worker}"));
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

    /// Makes a further worker, without queues, on any core.
    fn hire(&mut self) -> Result<(), RouterError> {
        let number = self.ports.len();
        let (worker, port) = self.blueprint.worker(number, &self.pool, &self.wake)?;
        if self.running {
            // The main thread may have a core of its own, which this one does not share.
            match Runner::start(worker, &port, self.schedule)
                .and_then(|runner| runner.pin(None).map(|()| runner))
            {
                Ok(runner) => self.runners.push(runner),
                Err(e) => {
                    self.blueprint.exchange().leave(number);
                    return Err(RouterError(format!("worker {number} cannot be started: {e}")));
                }
            }
        }
        self.ports.push(port);
        self.cores.push(None);
        Ok(())
    }

    /// Lets the last worker go, which has neither queues nor shards any more. What it keeps goes to the first.
    fn retire(&mut self) {
        let Some(mut port) = self.ports.pop() else { return };
        self.cores.pop();
        let number = port.number;
        // It does what it was sent before it ends.
        let worker = self.runners.pop().map(Runner::stop);
        let waiting = [self.waiting_on::<Ipv4Addr>(number), self.waiting_on::<Ipv6Addr>(number)];
        self.blueprint.exchange().leave(number);
        drop(worker);
        while let Some(Punted { reason, packet }) = port.punted() {
            self.punted(self.now, 0, reason, packet);
        }
        let until = Instant::now() + GRACE;
        for (node, packet) in waiting.into_iter().flatten() {
            // They are held again there, and asked for again.
            while self.ports[0].is_full() && Instant::now() < until {
                std::thread::yield_now();
            }
            let sent = self.send(0, node, packet);
            self.rehomed.count(sent);
        }
    }

    /// The packets that wait for next hops on a worker, and the node that they go on from.
    fn waiting_on<A: Routed>(&self, worker: usize) -> Vec<(&'static str, Held)> {
        let mut waiting = Vec::new();
        A::tables(&self.tables).unresolved.take(worker, |packet| waiting.push((A::NODES.lookup, packet)));
        waiting
    }

    /// Shares queues and shards out between the first `workers` workers.
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
        self.balance.shards_chosen = false;
        Ok(())
    }

    fn wishes(&self, slot: &RxSlot) -> Receive {
        self.near.interfaces.get(slot.interface).map_or_else(Receive::default, |i| i.receive.clone())
    }

    /// The worker with the fewest queues, of those that are at a NUMA node if any is.
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

    /// Warns of the workers that poll a device from another NUMA node than its own.
    pub(super) fn warn_of_far_workers(&self, index: u32) {
        let name = self.near.interfaces.get(index).map_or("", |i| &i.name);
        for (worker, core, node) in self.far_workers(index) {
            tracing::warn!(
                "{name}: its device is not at NUMA node {node}, where worker {worker} runs on core {core}: every packet \
                 crosses from one node to the other; set worker {worker} core …, or set interface rx-placement"
            );
        }
    }

    /// The workers that poll a device from another NUMA node than its own, each with its core and that one's node.
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

    /// What the operator wants of a device's receive queues.
    ///
    /// # Errors
    /// When there is no such interface, or a worker hangs.
    pub fn set_receive(&mut self, index: u32, wishes: Receive) -> Result<(), RouterError> {
        let before = std::mem::replace(&mut self.info_mut(index)?.receive, wishes);
        let done = self.attend_to(index);
        match &done {
            Ok(()) => self.warn_of_far_workers(index),
            Err(_) => self.info_mut(index)?.receive = before,
        }
        done
    }

    /// Has the queues of a device attended to as the operator wants.
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

    /// Gives shards of flows to a worker.
    ///
    /// # Errors
    /// When there are no such shards, no such worker, or a worker hangs.
    pub fn give_shards(&mut self, shards: &[usize], worker: usize) -> Result<(), RouterError> {
        if shards.iter().any(|shard| *shard >= SHARDS) {
            return Err(RouterError(format!("shards have the numbers 0 to {}", SHARDS - 1)));
        }
        if worker >= self.ports.len() {
            return Err(RouterError(format!("there is no worker {worker}")));
        }
        let slots = self.tables.placement.slots();
        let now = slots.iter().map(|s| s.attention()).collect();
        self.arrange(&slots, now, self.shards().given(shards, worker))?;
        self.balance.shards_chosen = true;
        Ok(())
    }

    /// Has each of the `slots`, which are all, attended to as in `wished`, and the shards so: see the
    /// [module](self).
    pub(super) fn arrange(
        &mut self,
        slots: &[Arc<RxSlot>],
        wished: Vec<Attention>,
        shards: Shards,
    ) -> Result<(), RouterError> {
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

    /// Waits until everything that workers have taken from queues that are paused has left them.
    fn settle(&self) -> Result<(), RouterError> {
        let hangs = || {
            let stats = self.graph().stats();
            let at = (0..self.ports.len()).find_map(|w| Some((w, stats.running(w)?)));
            let who = at.map_or("a worker".into(), |(w, node)| format!("worker {w}, in node {node},"));
            RouterError(format!("nothing was changed: {who} does not finish its work"))
        };
        if self.blueprint.exchange().settle(&self.domain, GRACE) { Ok(()) } else { Err(hangs()) }
    }
}
