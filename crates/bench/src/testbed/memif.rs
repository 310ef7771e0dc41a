//! Shared memory with a program on this machine. The tester listens; the router connects and provides the memory.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use buf::Pool;
use drivers::Device;
use drivers::memif::{Config, Role, Sockets};
use rustix::event::{PollFd, PollFlags, poll};

use super::lasting::Lasting;
use super::link::Link;
use super::near::Near;
use crate::engine::run::Port;
use crate::trial::Failure;

/// Maximum time between two checks of idle sockets.
const LOOK: Duration = Duration::from_millis(100);

/// The tester's ends. They stay open until drop, so that a router need not reconnect for each traffic.
pub(super) struct Memif {
    ports: Lasting,
    _pump: Pump,
}

impl Memif {
    /// Listens on one socket in `directory` for each link, and stores the socket's path in the link.
    ///
    /// # Errors
    /// If a socket cannot be opened.
    pub fn listen(links: &mut [Link; 2], directory: &Path, pool: &Pool) -> Result<Memif, Failure> {
        let mut sockets = Sockets::new().map_err(failed)?;
        let mut open = Vec::new();
        for ((n, link), name) in (1..).zip(links.iter_mut()).zip(["left", "right"]) {
            let path = directory.join(format!("{name}.sock"));
            sockets.add_socket(n, &path).map_err(failed)?;
            open.push(sockets.open(&Config::new(n, 0, Role::Server), pool).map_err(failed)?);
            link.router = path.display().to_string();
            link.tester = format!("memif{n}/0");
        }
        Memif::new(open, links, vec![sockets])
    }

    /// Connects the tester's two ends with each other by one memif.
    ///
    /// # Errors
    /// If a socket cannot be opened.
    pub fn cable(links: &mut [Link; 2], directory: &Path, pool: &Pool) -> Result<Memif, Failure> {
        let path = directory.join("cable.sock");
        let (mut ends, mut open) = (Vec::new(), Vec::new());
        for role in [Role::Server, Role::Client] {
            let mut sockets = Sockets::new().map_err(failed)?;
            sockets.add_socket(1, &path).map_err(failed)?;
            open.push(sockets.open(&Config::new(1, 0, role), pool).map_err(failed)?);
            ends.push(sockets);
        }
        Memif::new(open, links, ends)
    }

    fn new(devices: Vec<Device>, links: &[Link; 2], sockets: Vec<Sockets>) -> Result<Memif, Failure> {
        Ok(Memif { ports: Lasting::new(devices, links)?, _pump: Pump::start(sockets)? })
    }
}

fn failed(e: impl Display) -> Failure {
    Failure(format!("memif: {e}"))
}

impl Near for Memif {
    fn open(&mut self, links: &[Link; 2], pool: &Pool) -> Result<Vec<Port>, Failure> {
        self.ports.open(links, pool)
    }

    fn is_connected(&mut self) -> bool {
        self.ports.is_connected()
    }
}

/// Handles the sockets' control messages, on a separate thread that sleeps between messages.
struct Pump {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    fn start(mut sockets: Vec<Sockets>) -> Result<Pump, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let turn = move || {
            let begin = Instant::now();
            while !ended.load(Ordering::Relaxed) {
                let now = || begin.elapsed().as_nanos() as u64;
                for s in &mut sockets {
                    s.turn(now());
                }
                let due = sockets.iter().filter_map(Sockets::next_timeout).min();
                let wait = due.map_or(LOOK, |due| LOOK.min(Duration::from_nanos(due.saturating_sub(now()))));
                let mut fds: Vec<_> = sockets.iter().map(|s| PollFd::new(s, PollFlags::IN)).collect();
                let time = rustix::event::Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
                // An interrupted wait only means an earlier check.
                let _ = poll(&mut fds, Some(&time));
            }
        };
        let thread = std::thread::Builder::new().name("memif".into()).spawn(turn).map_err(failed)?;
        Ok(Pump { stop, thread: Some(thread) })
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
