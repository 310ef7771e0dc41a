//! Restores kernel interfaces to the state in which the router found them, even if the router is killed.
//!
//! The kernel undoes settings made through a socket when the socket is closed. Two settings would stay: the up state of an interface that
//! was down, and a raised MTU. The guardians, small separate processes, restore them. For each interface that the router takes or returns,
//! it sends one line to each guardian over a socket pair. The kernel closes the router's end when the router ends, for any reason. One
//! guardian then restores the interfaces that the router did not return, and all guardians exit.
//!
//! The router keeps the list of the interfaces that it uses, so a replacement guardian starts with the full list. There are two guardians:
//! if an operator kills one together with the router, the other remains.
//!
//! The router and the guardians restore with the same function, `Found::restore`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use libc::c_int;

use crate::kernel::apart;
use crate::kernel::claim::Claim;
use crate::kernel::netdev::Netdev;
use crate::kernel::sys;

/// The number of guardians of a router.
pub const GUARDIANS: usize = 2;

/// The router's guardians. Clones share them; the default value has none.
#[derive(Clone, Default)]
pub struct Guardian(Arc<Mutex<Posts>>);

#[derive(Default)]
struct Posts {
    /// Interfaces that the router uses now, by index. A new guardian gets this list.
    lent: BTreeMap<c_int, Found>,
    /// Running guardians, by number.
    guardians: BTreeMap<usize, Running>,
    /// A file in memory that a guardian locks while it restores, so that only one guardian restores at a time.
    turn: Option<OwnedFd>,
}

/// A guardian process and the router's end of its socket pair.
struct Running {
    process: Child,
    socket: UnixStream,
}

impl Drop for Running {
    /// Kills the guardian before closing its socket. A running guardian would conclude from the closed socket that the
    /// router has ended.
    fn drop(&mut self) {
        // This fails only if the process has ended already. SIGKILL ends a process in any state.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Guardian {
    /// Starts guardian `number` in place of the previous one, and sends it the list of the interfaces that the router uses. `command` runs
    /// a program that calls [`watch`].
    ///
    /// The guardian keeps the network namespace and the standard error of this process. Its standard input is the socket, its standard
    /// output is the lock file, and no other file is open. It has its own session and ignores termination signals, so signals sent to all
    /// processes of a terminal or a service do not end it.
    ///
    /// Returns a socket that becomes readable when the guardian has ended.
    ///
    /// # Errors
    /// If the process cannot be started; the previous guardian then keeps running.
    pub fn start(&self, number: usize, mut command: Command) -> io::Result<UnixStream> {
        let (mut ours, its) = UnixStream::pair()?;
        // A stopped guardian must not block the router.
        ours.set_nonblocking(true)?;
        let above = |socket: UnixStream| UnixStream::from(apart::above(socket.into()));
        ours = above(ours);
        let ends = above(ours.try_clone()?);
        let mut posts = self.posts();
        // The list is in the socket before the guardian starts, so the guardian never sees an incomplete list.
        ours.write_all(
            posts.lent.values().map(|found| format!("lent {found}\n")).collect::<String>().as_bytes(),
        )?;
        command.stdin(OwnedFd::from(its)).stdout(posts.turn()?).current_dir("/");
        // SAFETY: between fork and exec the child only makes system calls, which is all that `sys::apart` does.
        unsafe { command.pre_exec(sys::apart) };
        let process = command.spawn()?;
        // Drops the previous guardian, if there was one.
        posts.guardians.insert(number, Running { process, socket: ours });
        Ok(ends)
    }

    fn lend(&self, found: &Found) {
        let mut posts = self.posts();
        posts.lent.insert(found.index, found.clone());
        posts.tell(&format!("lent {found}\n"));
    }

    fn take_back(&self, index: c_int) {
        let mut posts = self.posts();
        posts.lent.remove(&index);
        posts.tell(&format!("returned {index}\n"));
    }

    fn posts(&self) -> MutexGuard<'_, Posts> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Posts {
    fn tell(&mut self, line: &str) {
        for Running { process, socket } in self.guardians.values_mut() {
            // The guardian has ended, or is stopped and does not read. Kill it: the router notices that and starts
            // another.
            if socket.write_all(line.as_bytes()).is_err() {
                let _ = process.kill();
            }
        }
    }

    /// Reopens the lock file. Each guardian needs its own open file, because a lock belongs to the open file.
    fn turn(&mut self) -> io::Result<File> {
        let turn = match &mut self.turn {
            Some(turn) => turn,
            none => none.insert(sys::memory_file(c"volley-guardians")?),
        };
        File::options().write(true).open(format!("/proc/self/fd/{}", turn.as_raw_fd()))
    }
}

/// The state in which the router found an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    index: c_int,
    up: bool,
    mtu: c_int,
    /// Name for messages; the interface is identified by its index.
    name: String,
}

impl Found {
    /// Restores the interface to this state. Returns `false` if nothing had to be changed.
    fn restore(&self, dev: &Netdev) -> io::Result<bool> {
        let (mtu, up) = (dev.mtu()?, dev.flags()? & libc::IFF_UP != 0);
        if mtu != self.mtu {
            dev.set_mtu(self.mtu)?;
        }
        dev.set_up(self.up)?;
        Ok((mtu, up) != (self.mtu, self.up))
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { index, up, mtu, name } = self;
        write!(f, "{index} {} {mtu} {name}", if *up { "up" } else { "down" })
    }
}

/// A kernel interface in use by the router. Dropping it restores the interface.
pub(crate) struct Loan {
    dev: Arc<Netdev>,
    found: Found,
    guardian: Guardian,
}

impl Loan {
    /// Records the current state of the interface.
    pub(crate) fn new(dev: Arc<Netdev>) -> io::Result<Loan> {
        let found = Found {
            index: dev.index(),
            up: dev.flags()? & libc::IFF_UP != 0,
            mtu: dev.mtu()?,
            name: dev.name()?,
        };
        Ok(Loan { dev, found, guardian: Guardian::default() })
    }

    /// Returns the MTU in bytes that the interface had before the router took it.
    pub(crate) fn mtu(&self) -> c_int {
        self.found.mtu
    }

    /// Tells `guardian` that the router uses the interface. Dropping the loan tells `guardian` that the interface is returned.
    pub(crate) fn guard(&mut self, guardian: &Guardian) {
        self.guardian = guardian.clone();
        self.guardian.lend(&self.found);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // This fails only if the interface no longer exists; nothing is left to restore then.
        let _ = self.found.restore(&self.dev);
        self.guardian.take_back(self.found.index);
    }
}

/// Runs a guardian. It reads standard input until the router has ended. If no other guardian has restored the interfaces, it then restores
/// those that the router did not return and no other router has claimed. Standard output is the lock file.
pub fn watch() {
    // Sets the process name that `ps` shows; otherwise it would be the name of the executable.
    let _ = std::fs::write("/proc/self/comm", "volley-guardian");
    let left = not_returned(io::stdin().lock());
    // Only the first guardian restores. The second may run much later, if it was stopped, and the interfaces may have
    // changed since.
    let turn = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let locked = turn.and_then(|turn| turn.lock().map(|()| turn));
    let is_done = |turn: &File| turn.metadata().is_ok_and(|file| file.len() > 0);
    if locked.as_ref().is_ok_and(is_done) {
        return;
    }
    for found in left {
        let claim = claim(&found);
        if claim.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists) {
            continue;
        }
        let outcome = Netdev::at(found.index).and_then(|dev| found.restore(&dev));
        let Found { name, up, mtu, .. } = &found;
        let state = if *up { "up" } else { "down" };
        let said = match outcome {
            Ok(true) => format!(
                "volley: the router ended without restoring {name}; it is restored to {state}, MTU {mtu} bytes\n"
            ),
            Err(e) if e.raw_os_error() != Some(libc::ENODEV) => {
                format!("volley: cannot restore {name} ({state}, MTU {mtu} bytes): {e}\n")
            }
            _ => continue,
        };
        // Standard error may be closed.
        let _ = io::stderr().write_all(said.as_bytes());
    }
    let _ = locked.and_then(|turn| turn.set_len(1));
}

/// How long a guardian waits for the kernel to release a killed router's claim on an interface.
const CLAIMED: Duration = Duration::from_secs(2);

/// Claims an interface before restoring it.
///
/// # Errors
/// `AlreadyExists` if another router has claimed the interface; any other error if the interface is gone or claims are not supported here.
fn claim(found: &Found) -> io::Result<Claim> {
    let name = Netdev::at(found.index)?.name()?;
    let begun = Instant::now();
    loop {
        match Claim::new(&name) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && begun.elapsed() < CLAIMED => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// Reads the router's messages to the end. Returns the interfaces that the router took and did not give back.
fn not_returned(said: impl BufRead) -> impl Iterator<Item = Found> {
    let mut lent = BTreeMap::new();
    for line in said.lines().map_while(Result::ok) {
        let mut words = line.splitn(5, ' ');
        let mut next = || words.next().unwrap_or_default();
        match (next(), next().parse::<c_int>()) {
            ("lent", Ok(index)) => {
                let up = next() == "up";
                let Ok(mtu) = next().parse() else { continue };
                lent.insert(index, Found { index, up, mtu, name: next().to_owned() });
            }
            ("returned", Ok(index)) => {
                lent.remove(&index);
            }
            _ => {}
        }
    }
    lent.into_values()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn found(index: c_int, up: bool, mtu: c_int) -> Found {
        Found { index, up, mtu, name: format!("eth{index}") }
    }

    /// Starts a shell script in place of a guardian.
    fn start(guardian: &Guardian, script: &str) -> UnixStream {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        guardian.start(0, command).unwrap()
    }

    /// Waits until a guardian has ended, and returns the text that it wrote to its socket.
    fn ended(mut ends: UnixStream) -> String {
        let mut said = Vec::new();
        loop {
            match ends.read_to_end(&mut said) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                // The guardian left some input unread.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => break,
                Err(e) => panic!("{e}"),
                Ok(_) => break,
            }
        }
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn returned_interfaces_are_not_restored() {
        let guardian = Guardian::default();
        // This guardian echoes its input.
        let heard = start(&guardian, "head -n 6 >&0");
        for f in [found(3, false, 1500), found(12, true, 9000), found(4, true, 1500)] {
            guardian.lend(&f);
        }
        guardian.take_back(12);
        guardian.take_back(3);
        guardian.lend(&found(3, true, 2000));
        let left: Vec<Found> = not_returned(ended(heard).as_bytes()).collect();
        assert_eq!(left, [found(3, true, 2000), found(4, true, 1500)]);
    }

    #[test]
    fn a_replacement_guardian_knows_all_lent_interfaces() {
        let guardian = Guardian::default();
        let first = start(&guardian, "exit");
        for f in [found(3, false, 1500), found(12, true, 9000)] {
            guardian.lend(&f);
        }
        guardian.take_back(3);
        ended(first);
        let second = start(&guardian, "head -n 2 >&0");
        guardian.lend(&found(5, true, 1500));
        let left: Vec<Found> = not_returned(ended(second).as_bytes()).collect();
        assert_eq!(left, [found(5, true, 1500), found(12, true, 9000)]);
    }

    #[test]
    fn a_guardian_that_does_not_read_is_ended_without_blocking() {
        let guardian = Guardian::default();
        let deaf = start(&guardian, "exec sleep 1000");
        // More lines than the socket buffer holds.
        (0..100_000).for_each(|i| guardian.take_back(i));
        assert_eq!(ended(deaf), "");
        let next = start(&guardian, "echo here >&0");
        assert_eq!(ended(next), "here\n");
    }

    #[test]
    fn a_replaced_guardian_ends_before_its_socket_closes() {
        let guardian = Guardian::default();
        let directory = tempfile::tempdir().unwrap();
        let heard = directory.path().join("end");
        // This guardian would write a file at the end of its input.
        start(&guardian, &format!("cat; echo the router has ended > {}", heard.display()));
        let id = guardian.posts().guardians[&0].process.id();
        start(&guardian, "exit");
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "no zombie is left");
        assert!(!heard.exists());
    }

    #[test]
    fn truncated_lines_are_ignored() {
        for said in [
            "lent",
            "lent 3",
            "lent 3 up",
            "lent 3 up x eth0",
            "returned",
            "\u{0}\u{1}",
            "lent x up 1500 eth0",
        ] {
            assert_eq!(not_returned(said.as_bytes()).count(), 0, "{said}");
        }
    }
}
