//! What the start configuration says of the process itself: core dumps, the file with its number, its terminal.

use std::fs;
use std::io;
use std::path::Path;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};

/// What a core dump of everything holds, in bits (core(5)): all anonymous and file mappings, shared or not, huge or not.
const EVERYTHING: &str = "0x7f";

/// Has core dumps be `size` bytes at most (`u64::MAX`: any size), and hold all memory if `full`. A full one without a size
/// may be as large as the process may have it.
///
/// # Errors
/// The parameters at fault, and a message for the operator.
pub fn core_dumps(full: bool, size: Option<u64>) -> Result<(), (&'static str, String)> {
    let refused = |name, what: &str, e: &dyn std::fmt::Display| (name, format!("{what}: {e}"));
    let (_, most) = getrlimit(Resource::RLIMIT_CORE)
        .map_err(|e| refused("coredump-size", "the limit of core dumps cannot be read", &e))?;
    let limit = match size {
        Some(u64::MAX) => Some(RLIM_INFINITY),
        None => full.then_some(most),
        size => size,
    };
    if let Some(limit) = limit {
        let what =
            "the kernel refuses this size (LimitCORE= in the service manager's unit raises what is allowed)";
        setrlimit(Resource::RLIMIT_CORE, limit, limit.max(most))
            .map_err(|e| refused("coredump-size", what, &e))?;
    }
    if full {
        fs::write("/proc/self/coredump_filter", EVERYTHING)
            .map_err(|e| refused("full-coredump", "what core dumps hold cannot be changed", &e))?;
    }
    Ok(())
}

/// The file with the number of the process, removed at the end.
pub struct PidFile<'p>(&'p Path);

impl<'p> PidFile<'p> {
    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(path: &'p Path) -> io::Result<PidFile<'p>> {
        fs::write(path, format!("{}\n", std::process::id()))?;
        Ok(PidFile(path))
    }
}

impl Drop for PidFile<'_> {
    fn drop(&mut self) {
        // Only what this process wrote: the path may have been made something else, or another's, since.
        if fs::read_to_string(self.0).is_ok_and(|text| text.trim() == std::process::id().to_string()) {
            let _ = fs::remove_file(self.0);
        }
    }
}

/// The terminal on standard input as it was found, and as it is left.
pub struct Terminal(Option<Termios>);

impl Terminal {
    /// Remembers how the terminal is set; one that is none needs nothing.
    pub fn remember() -> Terminal {
        Terminal(tcgetattr(io::stdin()).ok())
    }

    /// Whether there is a terminal.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The thread that edits a line may be in the middle of it.
        if let Some(found) = &self.0 {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, found);
        }
    }
}
