//! Runs a worker on its own thread, and holds the main thread's ends of the worker's rings.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use buf::{Held, Pool};
use infra::cpu::{self, Schedule};
use infra::doorbell::Doorbell;
use infra::quiesce::Participant;
use infra::ring::{Consumer, Producer, spsc};
use infra::wait;

use crate::build::Blueprint;
use crate::edge::EdgeId;
use crate::node::WaitSet;
use crate::rest::{Pacer, Rest};
use crate::rings::{Inject, Punted, Rings};
use crate::worker::Worker;

/// Capacity of a ring to or from the main thread, in packets.
const RING: usize = 1024;
/// Maximum length of a sleep: how long a worker may take to notice a change for which no bell rings.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// The main thread's ends of one worker's rings.
pub struct WorkerPort {
    /// The worker's number.
    pub number: usize,
    punted: Consumer<Punted>,
    inject: Producer<Inject>,
    wake: Arc<Doorbell>,
}

impl WorkerPort {
    /// Returns the next packet that the worker punted. After `None`, the main thread may sleep until the worker rings the bell `wake_main`
    /// of [`Blueprint::worker`]. The main thread must clear this bell before the first call, not after the last.
    pub fn punted(&mut self) -> Option<Punted> {
        self.punted.pop().or_else(|| {
            // See the fence in the punt node.
            fence(Ordering::SeqCst);
            self.punted.pop()
        })
    }

    /// Sends a packet into the worker's graph by an edge of the node `inject`.
    ///
    /// # Errors
    /// Returns the packet if the ring is full.
    pub fn inject(&mut self, edge: EdgeId, packet: Held) -> Result<(), Held> {
        self.inject.push(Inject { edge, packet }).map_err(|i| i.packet)?;
        self.wake.ring();
        Ok(())
    }

    /// True if the ring to the worker is full.
    pub fn is_full(&self) -> bool {
        self.inject.len() == self.inject.capacity()
    }

    /// True if no packet is on the rings to and from the worker.
    pub fn is_empty(&self) -> bool {
        self.inject.is_empty() && self.punted.is_empty()
    }

    /// Wakes a sleeping worker, because data that it reads has changed.
    pub fn wake(&self) {
        self.wake.ring();
    }
}

impl Blueprint {
    /// Makes the worker with this number, and the main thread's ends of its rings. The worker rings
    /// `wake_main` when it punts a packet.
    ///
    /// # Errors
    /// Fails if a node cannot be made, or if memory cannot be allocated.
    pub fn worker(
        &self,
        number: usize,
        pool: &Pool,
        wake_main: &Arc<Doorbell>,
    ) -> io::Result<(Worker, WorkerPort)> {
        let wake = Arc::new(Doorbell::new()?);
        let (punt, punted) = spsc(RING);
        let (inject, injected) = spsc(RING);
        let rings = Rings {
            punt,
            punted: self.stats.punted.lane(number)?,
            wake_main: wake_main.clone(),
            inject: injected,
            wake: wake.clone(),
            reasons: self.punt_reasons.clone(),
        };
        let worker = Worker::new(self, number, pool.cache(), rings)?;
        self.exchange.join(number, wake.clone());
        Ok((worker, WorkerPort { number, punted, inject, wake }))
    }
}

/// A worker that runs on its own thread.
pub struct Runner {
    stop: Arc<AtomicBool>,
    wake: Arc<Doorbell>,
    /// The kernel's thread ID.
    id: i32,
    thread: Option<JoinHandle<Worker>>,
}

impl Runner {
    /// Starts a thread for the worker. The thread may run on the cores of the calling thread, and has the
    /// same scheduling unless `schedule` is given.
    ///
    /// # Errors
    /// Fails if the thread cannot be started, or cannot have this scheduling.
    pub fn start(worker: Worker, port: &WorkerPort, schedule: Option<Schedule>) -> io::Result<Runner> {
        let stop = Arc::new(AtomicBool::new(false));
        let wake = port.wake.clone();
        let (stopped, bell) = (stop.clone(), wake.clone());
        let participant = worker.domain().register();
        let (tell, told) = sync_channel(1);
        let thread = thread::Builder::new().name(format!("volley_wk_{}", port.number)).spawn(move || {
            let scheduled = schedule.map_or(Ok(()), Schedule::apply);
            // The starting thread waits for this message.
            let _ = tell.send(scheduled.map(|()| cpu::thread_id()));
            wait::exactly();
            run(worker, participant, &stopped, &bell)
        })?;
        // If an error is returned below, dropping the runner stops the thread.
        let mut runner = Runner { stop, wake, id: 0, thread: Some(thread) };
        runner.id = told
            .recv()
            .map_err(|_| io::Error::other("the worker's thread ended before its first turn"))??;
        Ok(runner)
    }

    /// Returns the kernel's ID of the worker's thread.
    pub fn thread_id(&self) -> i32 {
        self.id
    }

    /// Binds the worker's thread to a core, or with `None` to all cores that the process may use. The worker
    /// keeps running.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pin(&self, core: Option<usize>) -> io::Result<()> {
        match core {
            Some(core) => cpu::pin(self.id, &[core]),
            None => cpu::pin(self.id, cpu::own_cores()),
        }
    }

    /// Stops the worker after the packets that the main thread has already injected, and returns it; `None` if the worker's thread
    /// panicked.
    pub fn stop(mut self) -> Option<Worker> {
        self.halt()
    }

    fn halt(&mut self) -> Option<Worker> {
        self.stop.store(true, Ordering::Release);
        self.wake.ring();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Runs turns, and rests between them, until `stop` is set. While the worker rests, it is offline for
/// quiescence, so that writers do not wait for it.
fn run(mut worker: Worker, mut participant: Participant, stop: &AtomicBool, wake: &Doorbell) -> Worker {
    let mut pacer = Pacer::default();
    while !stop.load(Ordering::Acquire) {
        let mut section = participant.enter();
        let rest = loop {
            let came = worker.turn(section.guard());
            section.quiescent();
            match pacer.after(came, worker.turned(), || worker.eager()) {
                Rest::Not if stop.load(Ordering::Acquire) => break Rest::Not,
                Rest::Not => {}
                rest => break rest,
            }
        };
        drop(section);
        match rest {
            Rest::Not => continue,
            Rest::Nap(time) => {
                worker.rests(worker.now(), true);
                thread::sleep(time);
                continue;
            }
            Rest::Sleep => {}
        }
        // If a bell rings after this line, the poll below ends. `worker.wait` finds everything that happened before.
        wake.about_to_sleep();
        let mut set = WaitSet::default();
        worker.wait(&mut set);
        if set.busy {
            wake.awake();
            continue;
        }
        let now = worker.now();
        let longest = set
            .until
            .map_or(LONGEST_SLEEP, |t| LONGEST_SLEEP.min(Duration::from_nanos(t.saturating_sub(now))));
        let _ = wait::any(&set.fds, longest);
        wake.clear();
        worker.rests(now, false);
    }
    // Packets that the main thread sent before the stop are still processed.
    let mut section = participant.enter();
    for _ in 0..=RING / buf::FRAME_SIZE {
        worker.turn(section.guard());
        section.quiescent();
    }
    drop(section);
    worker
}
