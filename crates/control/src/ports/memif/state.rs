//! memif's sockets and connections, which the router keeps for this feature, and their turns on the main thread.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use drivers::Device;
use drivers::memif::{Config, Role, Sockets};
use graph::GraphError;
use net::feature::RuntimeDir;
use net::router::{Hooks, Router};

use crate::intent::{Refused, refuse};
use crate::process;

/// The memif socket that is always there.
pub(super) const DEFAULT_SOCKET: u32 = 0;

/// What memif has on the main thread.
pub(super) struct Memif {
    /// Sockets and connections.
    pub sockets: Sockets,
    /// Where sockets are whose names are relative.
    directory: PathBuf,
}

impl Memif {
    /// The file of a socket: relative names are those in the run-time directory.
    pub fn path(&self, path: &Path) -> PathBuf {
        // One without a file stays as it is.
        let no_file = path.as_os_str().as_encoded_bytes().starts_with(b"@");
        if no_file { path.to_owned() } else { self.directory.join(path) }
    }

    /// Makes the directory of a socket that an interface listens on.
    fn prepare(&self, config: &Config) -> Result<(), Refused> {
        let socket = self.sockets.sockets().into_iter().find(|s| s.id == config.socket);
        // No other directory is made: its name may be a slip of the finger.
        let own = socket.is_some_and(|s| s.path.starts_with(&self.directory));
        if config.role == Role::Server && own {
            let made = process::make_directory(&self.directory);
            made.or_else(|e| {
                refuse(format!("the directory {} cannot be made: {e}", self.directory.display()))
            })?;
        }
        Ok(())
    }
}

/// Opens a device.
///
/// # Errors
/// When the socket's directory cannot be made, or the device cannot be opened.
pub(super) fn open(router: &mut Router, config: &Config) -> Result<Device, Refused> {
    let pool = router.pool().clone();
    let memif = router.state_mut::<Memif>()?;
    memif.prepare(config)?;
    memif.sockets.open(config, &pool).or_else(|e| refuse(e.to_string()))
}

/// Makes what memif has, and asks for its turns.
///
/// # Errors
/// When the process has no descriptors or threads left.
pub(super) fn install(hooks: &mut Hooks) -> Result<(), GraphError> {
    let directory = hooks.state(|_| Ok(RuntimeDir::default()))?.0.clone();
    let memif = hooks.state(|_| {
        let mut sockets = Sockets::new()?;
        let default = sockets.add_socket(DEFAULT_SOCKET, &directory.join("memif.sock"));
        default.map_err(std::io::Error::other)?;
        Ok(Memif { sockets, directory })
    })?;
    let bell = memif.sockets.as_fd().try_clone_to_owned();
    let bell = bell.map_err(|e| GraphError(format!("memif has no descriptor: {e}")))?;
    hooks.watch(bell, turn);
    hooks.on_turn(due);
    Ok(())
}

/// Gives the connections a turn, at `now` in nanoseconds of the monotonic clock.
pub(super) fn turn(router: &mut Router, now: u64) {
    let changed = router.state_mut::<Memif>().is_ok_and(|memif| memif.sockets.turn(now));
    if changed {
        router.suspect_links();
    }
}

/// Gives the connections a turn if one is due. Returns when the next one is.
fn due(router: &mut Router, now: u64) -> Option<u64> {
    let next = |router: &Router| router.state::<Memif>().ok()?.sockets.next_timeout();
    if next(router)? <= now {
        turn(router, now);
    }
    next(router)
}
