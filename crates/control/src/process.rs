//! Settings of the process: core dumps, the pidfile, and the terminal.

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::Uid;
use tokio::signal::unix::SignalKind;

use crate::files;

/// Bits for the contents of a full core dump (core(5)): all anonymous and file mappings, shared or not, huge or not.
const EVERYTHING: &str = "0x7f";

/// Limits core dumps to `size` bytes (`u64::MAX` for any size), and includes all memory if `full`. Without a size, a
/// full core dump is limited only by the process's hard limit.
///
/// # Errors
/// Returns the parameter at fault, and a message for the operator.
pub fn core_dumps(full: bool, size: Option<u64>) -> Result<(), (&'static str, String)> {
    let refused = |name, what: &str, e: &dyn std::fmt::Display| (name, format!("{what}: {e}"));
    let (_, most) = getrlimit(Resource::RLIMIT_CORE)
        .map_err(|e| refused("coredump-size", "cannot read the limit of core dumps", &e))?;
    let limit = match size {
        Some(u64::MAX) => Some(RLIM_INFINITY),
        None => full.then_some(most),
        size => size,
    };
    if let Some(limit) = limit {
        let what = "the kernel refuses this size (raise LimitCORE= in the service manager's unit)";
        setrlimit(Resource::RLIMIT_CORE, limit, limit.max(most))
            .map_err(|e| refused("coredump-size", what, &e))?;
    }
    if full {
        fs::write("/proc/self/coredump_filter", EVERYTHING)
            .map_err(|e| refused("full-coredump", "cannot change the contents of core dumps", &e))?;
    }
    Ok(())
}

/// Raises the limit of open files to what the system allows, up to a bound. Service managers set a limit of 1,024, for programs that use
/// `select(2)`. This is too low, because each client of the CLI needs three descriptors.
pub fn allow_open_files() {
    const MOST: u64 = 65_536;
    /// The lowest limit of open files for which the router does not warn.
    const ENOUGH: u64 = 1024;
    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if now < most.min(MOST)
        && let Err(e) = setrlimit(Resource::RLIMIT_NOFILE, most.min(MOST), most)
    {
        tracing::warn!("cannot raise the limit of open files above {now}: {e}");
    }
    if most < ENOUGH {
        tracing::warn!(
            "the limit of open files is {most}, less than {ENOUGH}: many clients can use all of them, and then nobody else can run \
             commands, not even root. Raise it: LimitNOFILE of the service, or ulimit -n"
        );
    }
}

/// True if the process was started to ignore hangups, as by `nohup`. To be called before a handler is set.
pub fn ignores_hangups() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, SignalKind::hangup()))
}

/// True if a process ignores a signal, according to the text of its `/proc/PID/status`. Signal 1 is the lowest bit of a mask there.
fn ignores(status: &str, signal: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw_value() - 1) & 1 != 0
}

/// Creates a directory and its parents, unless it exists. Only the owner can create files in a new directory, whatever the umask.
///
/// # Errors
/// If the system refuses.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// The file with the process ID, removed at the end.
pub struct PidFile<'p>(&'p Path);

impl<'p> PidFile<'p> {
    /// Writes the process ID to the file `path`.
    ///
    /// # Errors
    /// If the file cannot be written, is not an ordinary file, or belongs to another user.
    pub fn write(path: &'p Path) -> io::Result<PidFile<'p>> {
        // Scripts send signals to this process ID: only the owner can change it, whatever the umask.
        let mut file = files::to_append(path, 0o644)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not an ordinary file"));
        }
        if ![0, Uid::effective().as_raw()].contains(&found.uid()) {
            return Err(io::Error::other(format!("it belongs to user {}: remove it", found.uid())));
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(PidFile(path))
    }
}

impl Drop for PidFile<'_> {
    fn drop(&mut self) {
        // Removes the file only if it has this process's ID: the file may have been replaced.
        if PidFile::read(self.0).is_ok_and(|text| text.trim() == std::process::id().to_string()) {
            let _ = fs::remove_file(self.0);
        }
    }
}

impl PidFile<'_> {
    /// Returns the beginning of an ordinary file. Other users may have put anything in its place.
    fn read(path: &Path) -> io::Result<String> {
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = fs::File::options().read(true).custom_flags(flags.bits()).open(path)?;
        let mut text = String::new();
        if file.metadata()?.is_file() {
            file.take(32).read_to_string(&mut text)?;
        }
        Ok(text)
    }
}

/// The original settings of the terminal on standard input, restored at the end.
pub struct Terminal(Option<Termios>);

impl Terminal {
    /// Saves the settings of the terminal, if there is one.
    pub fn remember() -> Terminal {
        Terminal(tcgetattr(io::stdin()).ok())
    }

    /// True if there is a terminal.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The thread that edits a line may have left the terminal in raw mode.
        if let Some(found) = &self.0 {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    /// Creates a directory that all users can write to. It has a file of the test's user, two links to this file, and a pipe.
    fn trap() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::write(at("victim"), "untouched").unwrap();
        std::os::unix::fs::symlink(at("victim"), at("link")).unwrap();
        fs::hard_link(at("victim"), at("name")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let victim = at("victim");
        (directory, victim)
    }

    #[test]
    fn links_and_pipes_of_others_are_refused() {
        let (directory, victim) = trap();
        for name in ["link", "name", "pipe"] {
            let path = directory.path().join(name);
            assert!(PidFile::write(&path).is_err(), "{name}");
            assert!(files::to_append(&path, 0o640).is_err(), "{name}");
        }
        // Even if a reader has opened it, a pipe is refused where other users could have created it.
        let pipe = directory.path().join("pipe");
        let _reader = fs::File::options()
            .read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open(&pipe)
            .unwrap();
        assert!(files::to_append(&pipe, 0o640).unwrap_err().to_string().starts_with("it is a pipe, and"));
        let foreign = directory.path().join("foreign");
        fs::write(&foreign, "").unwrap();
        // Only root can give a file away.
        if std::os::unix::fs::chown(&foreign, Some(65534), None).is_ok() {
            let why = files::to_append(&foreign, 0o640).unwrap_err().to_string();
            assert!(why.starts_with("it is a file of user 65534, and other users"), "{why}");
        }
        // Nobody else can replace our link in a directory with the sticky bit.
        let safe = directory.path().join("safe");
        fs::create_dir(&safe).unwrap();
        fs::write(safe.join("log"), "untouched").unwrap();
        std::os::unix::fs::symlink(&safe, directory.path().join("way")).unwrap();
        assert!(files::to_append(&directory.path().join("way/log"), 0o640).is_ok());
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(files::to_append(&directory.path().join("way/log"), 0o640).is_err());
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(files::to_append(&safe.join("log"), 0o640).is_ok(), "no link");
        // In this directory, other users cannot create a pipe, so a pipe is accepted.
        let pipe = safe.join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _reader = fs::File::options()
            .read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open(&pipe)
            .unwrap();
        assert!(files::to_append(&pipe, 0o640).is_ok());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        let own = directory.path().join("own");
        fs::write(&own, "an older and longer number").unwrap();
        let file = PidFile::write(&own).unwrap();
        assert_eq!(fs::read_to_string(&own).unwrap(), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!own.exists());
        assert!(files::to_append(Path::new("/dev/null"), 0o640).is_ok());
    }

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status = "Name:\tvolley\nSigBlk:\t0000000000000004\nSigIgn:\t0000000000001001\nSigCgt:\t00\n";
        let all = [
            (SignalKind::hangup(), true),
            (SignalKind::interrupt(), false),
            (SignalKind::quit(), false),
            (SignalKind::pipe(), true),
        ];
        for (signal, ignored) in all {
            assert_eq!(ignores(status, signal), ignored, "{signal:?}");
        }
        assert!(!ignores("", SignalKind::hangup()));
    }

    /// At the end, another user may have put anything in the place of the file.
    #[test]
    fn a_replaced_pid_file_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let pipe = |path: &Path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let endless = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        for replace in [pipe as fn(&Path), endless] {
            let file = PidFile::write(&path).unwrap();
            fs::remove_file(&path).unwrap();
            replace(&path);
            drop(file);
            assert!(path.symlink_metadata().is_ok());
            fs::remove_file(&path).unwrap();
        }
        drop(PidFile::write(&path).unwrap());
        assert!(!path.exists());
    }
}
