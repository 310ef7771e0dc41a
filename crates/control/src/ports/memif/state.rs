//! memif's sockets and connections, and the work that the main thread does for them.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};

use drivers::Device;
use drivers::memif::{Config, Role, Sockets};
use graph::GraphError;
use net::feature::{RuntimeDir, Unopened};
use net::router::{Hooks, Router};

use crate::intent::{Refused, refuse};
use crate::process;

const SECOND: u64 = 1_000_000_000;
/// The longest pause, in nanoseconds, between attempts to listen on a socket whose name another program uses.
const LONGEST_PAUSE: u64 = 60 * SECOND;

/// The memif socket that always exists.
pub(super) const DEFAULT_SOCKET: u32 = 0;

/// The state of memif on the main thread.
pub(super) struct Memif {
    /// Sockets and connections.
    pub sockets: Sockets,
    /// The run-time directory, for sockets with relative names.
    directory: PathBuf,
    /// The server interfaces whose socket name another program uses, by socket ID and interface ID.
    taken: BTreeMap<(u32, u32), Taken>,
}

/// The state of a server interface whose socket name another program uses.
struct Taken {
    /// The time of the next attempt, in nanoseconds of the monotonic clock.
    next: u64,
    /// The pause before the next attempt, in nanoseconds.
    pause: u64,
    /// Why the last attempt failed.
    why: String,
}

impl Memif {
    /// Returns the path of a socket. Relative names are in the run-time directory.
    pub fn path(&self, path: &Path) -> PathBuf {
        // The name of an abstract socket stays unchanged.
        let no_file = path.as_os_str().as_encoded_bytes().starts_with(b"@");
        if no_file { path.to_owned() } else { self.directory.join(path) }
    }

    /// If the interface listens on a socket in the run-time directory, creates this directory. Like VPP, also creates the
    /// subdirectories that are part of the socket's name.
    fn prepare(&self, config: &Config) -> Result<(), Refused> {
        let socket = self.sockets.sockets().into_iter().find(|s| s.id == config.socket);
        // No other directory is created: its name may be mistyped.
        let Some(rest) = socket.as_ref().and_then(|s| s.path.strip_prefix(&self.directory).ok()) else {
            return Ok(());
        };
        let is_below = rest.components().all(|part| matches!(part, Component::Normal(_)));
        let within = rest.parent().filter(|_| is_below).unwrap_or(Path::new(""));
        if config.role == Role::Server {
            let directory = self.directory.join(within);
            let made = process::make_directory(&directory);
            made.or_else(|e| refuse(format!("cannot create the directory {}: {e}", directory.display())))?;
        }
        Ok(())
    }
}

/// Opens a device. `waits` is true if the interface already waits for its socket, and tries again.
///
/// # Errors
/// If the socket's directory cannot be created, or the device cannot be opened. If another program uses the name of a server's socket, the
/// device counts as missing, and the interface waits until the name is free. So a program that takes the name of a stopped router's socket
/// cannot keep the router from starting. The interface tries again after 1, 2, 4 ... 60 s, because each attempt connects to the other
/// program.
pub(super) fn open(router: &mut Router, config: &Config, waits: bool) -> Result<Device, Unopened> {
    let (pool, now) = (router.pool().clone(), router.now());
    let memif = router.state_mut::<Memif>().map_err(Unopened::new)?;
    let key = (config.socket, config.id);
    if let Some(taken) = memif.taken.get(&key).filter(|taken| waits && now < taken.next) {
        return Err(Unopened::new(&taken.why));
    }
    memif.prepare(config).map_err(Unopened::new)?;
    let opened = memif.sockets.open(config, &pool);
    match &opened {
        Err(e) if e.taken => {
            let pause = memif.taken.get(&key).map_or(SECOND, |taken| (2 * taken.pause).min(LONGEST_PAUSE));
            memif.taken.insert(key, Taken { next: now + pause, pause, why: e.to_string() });
        }
        _ => drop(memif.taken.remove(&key)),
    }
    opened.map_err(|e| Unopened { missing: e.taken, ..Unopened::new(e) })
}

/// Adds memif's state to the router. From then on, the main thread also does memif's work: after each event on memif's file
/// descriptor, and when a timeout of memif expires.
///
/// # Errors
/// If the process has no descriptors or threads left.
pub(super) fn install(hooks: &mut Hooks) -> Result<(), GraphError> {
    let directory = hooks.state(|_| Ok(RuntimeDir::default()))?.0.clone();
    let memif = hooks.state(|_| {
        let mut sockets = Sockets::new()?;
        let default = sockets.add_socket(DEFAULT_SOCKET, &directory.join("memif.sock"));
        default.map_err(std::io::Error::other)?;
        Ok(Memif { sockets, directory, taken: BTreeMap::new() })
    })?;
    let bell = memif.sockets.as_fd().try_clone_to_owned();
    let bell = bell.map_err(|e| GraphError(format!("cannot create a file descriptor for memif: {e}")))?;
    hooks.watch(bell, turn);
    hooks.on_turn(due);
    Ok(())
}

/// Does the work of memif's sockets and connections that is due; `now` is in nanoseconds of the monotonic clock.
pub(super) fn turn(router: &mut Router, now: u64) {
    let changed = router.state_mut::<Memif>().is_ok_and(|memif| memif.sockets.turn(now));
    if changed {
        router.suspect_links();
    }
}

/// If memif's next timeout has expired, does the due work of its sockets and connections. Returns the timeout after that.
fn due(router: &mut Router, now: u64) -> Option<u64> {
    let next = |router: &Router| router.state::<Memif>().ok()?.sockets.next_timeout();
    if next(router)? <= now {
        turn(router, now);
    }
    next(router)
}
