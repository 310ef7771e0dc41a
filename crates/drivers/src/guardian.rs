//! Gives the kernel's interfaces back as they were found, also when the router is killed and cannot do it.
//!
//! What is set up by a socket goes with the socket. An interface that was down and was set up, and an MTU that was raised,
//! would stay. So small processes of their own, the guardians, are told of each interface that is taken and of each that was
//! given back, one line each, over a pair of sockets. The kernel closes the router's end when the router ends, however
//! that happens; the guardians then restore what was not given back, one after the other, and end too.
//!
//! The router remembers what is lent, so that a guardian that ends can be replaced by one that knows as much. There are
//! two of them: whoever kills one together with the router leaves the other.
//!
//! All restore by the same function, `Found::restore`.

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

/// The number of guardians that a router has.
pub const GUARDIANS: usize = 2;

/// The router's guardians. Clones are the same; the default has none.
#[derive(Clone, Default)]
pub struct Guardian(Arc<Mutex<Posts>>);

#[derive(Default)]
struct Posts {
    /// The interfaces that are lent now, by index: what a new guardian has to know.
    lent: BTreeMap<c_int, Found>,
    /// By number.
    guardians: BTreeMap<usize, Running>,
    /// A file in memory, which guardians lock to restore one after the other.
    turn: Option<OwnedFd>,
}

/// A guardian, and the router's end of the sockets between them.
struct Running {
    process: Child,
    socket: UnixStream,
}

impl Drop for Running {
    /// Ends the guardian before its socket is closed: to one that lives, that is the router's end.
    fn drop(&mut self) {
        // This fails only if it has ended. A process that was sent SIGKILL ends whatever its state is.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Guardian {
    /// Starts guardian `number`, which takes the place of the one before it and knows of all that is lent. `command` runs
    /// a program that calls [`watch`]. It shares the network namespace and standard error with this process and nothing
    /// else: it has a session of its own, no other open file, and what an operator at a terminal or a service manager
    /// sends to all processes at once does not end it.
    ///
    /// Returns a socket that can be read when the guardian has ended.
    ///
    /// # Errors
    /// When the process cannot be started; the one before it stays.
    pub fn start(&self, number: usize, mut command: Command) -> io::Result<UnixStream> {
        let (mut ours, its) = UnixStream::pair()?;
        // A guardian that is stopped must not stop the router.
        ours.set_nonblocking(true)?;
        let above = |socket: UnixStream| UnixStream::from(apart::above(socket.into()));
        ours = above(ours);
        let ends = above(ours.try_clone()?);
        let mut posts = self.posts();
        // Said before it is there to listen: there is no moment in which it knows less than it should.
        ours.write_all(
            posts.lent.values().map(|found| format!("lent {found}\n")).collect::<String>().as_bytes(),
        )?;
        command.stdin(OwnedFd::from(its)).stdout(posts.turn()?).current_dir("/");
        // SAFETY: between fork and exec the child only makes system calls, which is all that `sys::apart` does.
        unsafe { command.pre_exec(sys::apart) };
        let process = command.spawn()?;
        // Drops the one before it, if there was any.
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
            // It has ended, or is stopped and hears no more. Then it must end: who started it sees that, and starts another.
            if socket.write_all(line.as_bytes()).is_err() {
                let _ = process.kill();
            }
        }
    }

    /// The file that guardians lock, opened once more: locks are those of who opened it.
    fn turn(&mut self) -> io::Result<File> {
        let turn = match &mut self.turn {
            Some(turn) => turn,
            none => none.insert(sys::memory_file(c"volley-guardians")?),
        };
        File::options().write(true).open(format!("/proc/self/fd/{}", turn.as_raw_fd()))
    }
}

/// How an interface was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    index: c_int,
    up: bool,
    mtu: c_int,
    /// For messages: an interface is known by its index.
    name: String,
}

impl Found {
    /// Makes the interface as it was found; `false` when it is.
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

/// An interface of the kernel that is in use here. Dropped, the interface is as it was found.
pub(crate) struct Loan {
    dev: Arc<Netdev>,
    found: Found,
    guardian: Guardian,
}

impl Loan {
    /// Notes how the interface is now.
    pub(crate) fn new(dev: Arc<Netdev>) -> io::Result<Loan> {
        let found = Found {
            index: dev.index(),
            up: dev.flags()? & libc::IFF_UP != 0,
            mtu: dev.mtu()?,
            name: dev.name()?,
        };
        Ok(Loan { dev, found, guardian: Guardian::default() })
    }

    /// The MTU that it was found with.
    pub(crate) fn mtu(&self) -> c_int {
        self.found.mtu
    }

    /// Tells the guardian of it, from now on.
    pub(crate) fn guard(&mut self, guardian: &Guardian) {
        self.guardian = guardian.clone();
        self.guardian.lend(&self.found);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // This fails only because the interface is gone, and then nothing is left to restore.
        let _ = self.found.restore(&self.dev);
        self.guardian.take_back(self.found.index);
    }
}

/// The guardian's life: listens on standard input to the router that started it, and when that has ended restores the
/// interfaces that it did not give back. Standard output is the file to lock meanwhile.
pub fn watch() {
    // For `ps`, which would show the name of the file that is run.
    let _ = std::fs::write("/proc/self/comm", "volley-guardian");
    let left = not_returned(io::stdin().lock());
    // Only the first one restores: the second may be late by as long as somebody stopped it, and others have changed the
    // interfaces since.
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
                "volley: the router ended without giving {name} back; it is as before: {state}, MTU {mtu} bytes\n"
            ),
            Err(e) if e.raw_os_error() != Some(libc::ENODEV) => {
                format!("volley: {name} cannot be made as before ({state}, MTU {mtu} bytes): {e}\n")
            }
            _ => continue,
        };
        // Nobody may be left to read this.
        let _ = io::stderr().write_all(said.as_bytes());
    }
    let _ = locked.and_then(|turn| turn.set_len(1));
}

/// How long the kernel may take to give up the claim of a router that was killed.
const CLAIMED: Duration = Duration::from_secs(2);

/// Claims an interface to restore it.
///
/// # Errors
/// `AlreadyExists` when another router has taken it meanwhile; anything else where there are no claims.
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

/// Reads to the end what the router says; gives the interfaces that it has still.
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

    /// Starts a program in a guardian's place.
    fn start(guardian: &Guardian, script: &str) -> UnixStream {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        guardian.start(0, command).unwrap()
    }

    /// Waits until a guardian has ended, and gives what it has said to the socket before.
    fn ended(mut ends: UnixStream) -> String {
        let mut said = Vec::new();
        loop {
            match ends.read_to_end(&mut said) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                // It has left some words unheard.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => break,
                Err(e) => panic!("{e}"),
                Ok(_) => break,
            }
        }
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn what_was_given_back_is_left_alone() {
        let guardian = Guardian::default();
        // It repeats what it has heard.
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
    fn one_that_takes_the_place_of_another_knows_as_much() {
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
    fn one_that_does_not_listen_ends_and_holds_nobody_up() {
        let guardian = Guardian::default();
        let deaf = start(&guardian, "exec sleep 1000");
        // As much as the kernel keeps for it, and more.
        (0..100_000).for_each(|i| guardian.take_back(i));
        assert_eq!(ended(deaf), "");
        let next = start(&guardian, "echo here >&0");
        assert_eq!(ended(next), "here\n");
    }

    #[test]
    fn one_that_is_replaced_has_ended_before_its_socket_closes() {
        let guardian = Guardian::default();
        let directory = tempfile::tempdir().unwrap();
        let heard = directory.path().join("end");
        // It would tell of the end of its input.
        start(&guardian, &format!("cat; echo the router has ended > {}", heard.display()));
        let id = guardian.posts().guardians[&0].process.id();
        start(&guardian, "exit");
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "and none stays as a zombie");
        assert!(!heard.exists());
    }

    #[test]
    fn a_line_that_is_cut_off_means_nothing() {
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
