//! Gives the kernel's interfaces back as they were found, also when the router is killed and cannot do it.
//!
//! What is set up by a socket goes with the socket. An interface that was down and was set up, and an MTU that was raised,
//! would stay. So a small process of its own, the guardian, is told of each interface that is taken and of each that was
//! given back, one line each, over a pair of sockets. The kernel closes the router's end when the router ends, however
//! that happens; the guardian then restores what was not given back, and ends too.
//!
//! Both restore by the same function, `Found::restore`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use libc::c_int;

use crate::kernel::netdev::Netdev;
use crate::kernel::sys;

/// The router's end. Clones are the same; the default is no guardian at all.
#[derive(Clone, Default)]
pub struct Guardian(Arc<Mutex<Option<UnixStream>>>);

impl Guardian {
    /// Starts the guardian: `command` runs a program that calls [`watch`]. It shares the network namespace and standard
    /// error with this process and nothing else: it has a session of its own, no other open file, and what an operator
    /// at a terminal or a service manager sends to all processes at once does not end it.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(mut command: Command) -> io::Result<Guardian> {
        let (ours, its) = UnixStream::pair()?;
        // A guardian that is stopped must not stop the router.
        ours.set_nonblocking(true)?;
        command.stdin(OwnedFd::from(its)).stdout(Stdio::null()).current_dir("/");
        // SAFETY: between fork and exec the child only makes system calls, which is all that `sys::apart` does.
        unsafe { command.pre_exec(sys::apart) };
        command.spawn()?;
        Ok(Guardian(Arc::new(Mutex::new(Some(ours)))))
    }

    fn tell(&self, line: fmt::Arguments<'_>) {
        let mut socket = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(s) = &mut *socket
            && let Err(e) = s.write_all(format!("{line}\n").as_bytes())
        {
            tracing::warn!(
                "the guardian does not listen any more ({e}): should this process be killed, its interfaces stay as \
                 they are then"
            );
            *socket = None;
        }
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
        self.guardian.tell(format_args!("lent {}", self.found));
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // This fails only because the interface is gone, and then nothing is left to restore.
        let _ = self.found.restore(&self.dev);
        self.guardian.tell(format_args!("returned {}", self.found.index));
    }
}

/// The guardian's life: listens on standard input to the router that started it, and when that has ended restores the
/// interfaces that it did not give back.
pub fn watch() {
    // For `ps`, which would show the name of the file that is run.
    let _ = std::fs::write("/proc/self/comm", "volley-guardian");
    for found in not_returned(io::stdin().lock()) {
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
    use super::*;

    #[test]
    fn what_was_given_back_is_left_alone() {
        let (mut ours, its) = UnixStream::pair().unwrap();
        let found = |index, up, mtu| Found { index, up, mtu, name: format!("eth{index}") };
        let guardian = Guardian(Arc::new(Mutex::new(Some(its))));
        for f in [found(3, false, 1500), found(12, true, 9000), found(4, true, 1500)] {
            guardian.tell(format_args!("lent {f}"));
        }
        guardian.tell(format_args!("returned 12"));
        guardian.tell(format_args!("returned 3"));
        guardian.tell(format_args!("lent {}", found(3, true, 2000)));
        drop(guardian);
        let left: Vec<Found> = not_returned(io::BufReader::new(&mut ours)).collect();
        assert_eq!(left, [found(3, true, 2000), found(4, true, 1500)]);
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

    #[test]
    fn a_guardian_that_has_ended_is_no_obstacle() {
        let (ours, its) = UnixStream::pair().unwrap();
        let guardian = Guardian(Arc::new(Mutex::new(Some(its))));
        drop(ours);
        guardian.tell(format_args!("returned 1"));
        assert!(guardian.0.lock().unwrap().is_none());
    }
}
