//! A lab of network namespaces that leaves nothing behind.
//!
//! A [`Lab`] is a process with its own mount namespace and a private `/run`, in which `ip netns` keeps its names. Its
//! standard input is a pipe from the test. The kernel closes the pipe when the test ends, for any reason, and the
//! process then ends too. The mount namespace, the network namespaces and the links go with it. So there is nothing
//! to clean up, names cannot clash, and the machine's own network is never touched.
//!
//! A lab works for root, and for other users if the system allows user namespaces. Otherwise [`Lab::new`] reports the
//! test as skipped and returns `None`.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::process::{Finished, Process};
use crate::skip::skipped;

/// Time limit of a command in [`Host::run`].
pub const LIMIT: Duration = Duration::from_secs(20);

/// Directories of `ip` and `ethtool` in Debian, which an ordinary user's `PATH` does not contain.
const SBIN: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// Shell script of the holder process. It mounts a private `/run`, reports success, waits for the end of its input, and then removes the
/// lab's directory. The script outlives a test that is interrupted or killed, so it always cleans up.
const HOLD: &str = "\
    trap '' HUP INT TERM
    mount -t tmpfs lab /run && mkdir /run/netns && ip link set lo up && echo held || exit 1
    cat >/dev/null
    rm -rf \"$1\"";

/// Network namespaces and the processes in them.
#[derive(Debug)]
pub struct Lab {
    holder: Child,
    user_namespace: bool,
    dir: PathBuf,
}

impl Lab {
    /// Returns a new, empty lab. Reports the test as skipped and returns `None` if namespaces are not allowed.
    ///
    /// # Panics
    /// If namespaces are allowed, but the lab cannot be set up.
    pub fn new() -> Option<Arc<Lab>> {
        let Some(user_namespace) = privilege() else {
            skipped("needs root or a user namespace");
            return None;
        };
        let (holder, dir) = hold(user_namespace).expect("namespaces worked a moment ago");
        Some(Arc::new(Lab { holder, user_namespace, dir }))
    }

    /// Returns a directory for this lab's files, which is removed with the lab.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// True if eBPF programs can be loaded into the kernel here. If not, reports the test as skipped: root of a user namespace
    /// cannot load programs.
    pub fn can_load_programs(&self) -> bool {
        if self.user_namespace {
            skipped("loading programs into the kernel needs root");
        }
        !self.user_namespace
    }

    /// Creates a namespace: a host with a loopback interface and no IPv6, so that a link is silent until a test
    /// sends.
    pub fn host(self: &Arc<Lab>, name: &str) -> Host {
        self.run(&format!("ip netns add {name}"));
        let host = Host { lab: Arc::clone(self), name: name.to_owned() };
        host.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
        host.run("ip link set lo up");
        host
    }

    /// Connects two hosts by a veth pair and sets both ends up.
    pub fn link(&self, (a, a_name): (&Host, &str), (b, b_name): (&Host, &str)) {
        let (a_ns, b_ns) = (&a.name, &b.name);
        self.run(&format!("ip -n {a_ns} link add {a_name} type veth peer name {b_name} netns {b_ns}"));
        a.run(&format!("ip link set {a_name} up"));
        b.run(&format!("ip link set {b_name} up"));
    }

    /// Runs a command in the lab, outside its hosts.
    fn run(&self, command: &str) -> String {
        let mut inside = self.enter();
        inside.args(command.split_whitespace());
        self.start(command, inside).finish(LIMIT).expect_ok()
    }

    fn start(&self, label: &str, command: Command) -> Process {
        Process::start(label, command, self.dir()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns an `nsenter` command that enters the holder's namespaces; the caller appends the program.
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.env("PATH", path()).env("LC_ALL", "C");
        command.arg(format!("--target={}", self.holder.id()));
        if self.user_namespace {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["--mount", "--net", "--wdns=/", "--"]);
        command
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = release(&mut self.holder);
    }
}

/// One network namespace of a [`Lab`]. Clones share the host.
#[derive(Clone, Debug)]
pub struct Host {
    lab: Arc<Lab>,
    name: String,
}

impl Host {
    /// Returns the host's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the host's lab.
    pub fn lab(&self) -> &Arc<Lab> {
        &self.lab
    }

    /// Runs a command that must succeed within [`LIMIT`]. Returns its standard output. Words are separated by white
    /// space, without quoting.
    ///
    /// # Panics
    /// If the command fails. The command's output is printed.
    pub fn run(&self, command: &str) -> String {
        self.attempt(command, LIMIT).expect_ok()
    }

    /// Runs a command that may fail, for at most `limit`.
    pub fn attempt(&self, command: &str, limit: Duration) -> Finished {
        self.spawn(command).finish(limit)
    }

    /// Starts a command in the background. It is killed when the result is dropped, or when the test ends.
    pub fn spawn(&self, command: &str) -> Process {
        self.spawn_args(command.split_whitespace())
    }

    /// Starts a command like [`Host::spawn`], given as separate words, which may contain white space.
    pub fn spawn_args(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Process {
        let mut inside = self.lab.enter();
        // `ip netns exec` mounts the namespace's own /sys; `setpriv` makes the kernel kill the program when the test ends.
        inside.args(["ip", "netns", "exec", &self.name, "setpriv", "--pdeathsig", "KILL", "--"]);
        let mut label = format!("[{}]", self.name);
        for word in words {
            label.push(' ');
            label.push_str(&word.as_ref().to_string_lossy());
            inside.arg(word);
        }
        self.lab.start(&label, inside)
    }

    /// True if this host can create tap devices. If not, reports the test as skipped: access to `/dev/net/tun` may be denied even
    /// where namespaces are allowed.
    pub fn can_tap(&self) -> bool {
        let can = self.attempt("ip tuntap add mode tap name probe0", LIMIT).ok();
        if can {
            self.run("ip tuntap del mode tap name probe0");
        } else {
            skipped("needs access to /dev/net/tun");
        }
        can
    }
}

fn path() -> String {
    format!("{}:{SBIN}", std::env::var("PATH").unwrap_or_default())
}

/// Returns whether a lab needs a user namespace; `None` if no lab is possible.
fn privilege() -> Option<bool> {
    static PRIVILEGE: OnceLock<Option<bool>> = OnceLock::new();
    *PRIVILEGE.get_or_init(|| {
        [false, true].into_iter().find(|&user_namespace| match hold(user_namespace) {
            Ok((mut holder, _)) => release(&mut holder).is_ok(),
            Err(_) => false,
        })
    })
}

/// Starts the holder: a process with namespaces for a lab, and with a new directory, which it removes when it ends. Returns when
/// the namespaces exist.
fn hold(user_namespace: bool) -> io::Result<(Child, PathBuf)> {
    let dir = tempfile::Builder::new().prefix("volley-lab-").tempdir()?;
    let mut command = Command::new("unshare");
    command.env("PATH", path());
    if user_namespace {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--net", "--", "sh", "-c", HOLD, "sh"]).arg(dir.path());
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = String::new();
    if let Some(stdout) = holder.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if line.trim() == "held" {
        return Ok((holder, dir.keep()));
    }
    holder.wait()?;
    Err(io::Error::from(io::ErrorKind::PermissionDenied))
}

/// Ends a holder by closing its input, and waits for it.
fn release(holder: &mut Child) -> io::Result<ExitStatus> {
    drop(holder.stdin.take());
    holder.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_reach_each_other_and_nothing_else() {
        let Some(lab) = Lab::new() else { return };
        let (a, b) = (lab.host("a"), lab.host("b"));
        lab.link((&a, "eth0"), (&b, "eth0"));
        a.run("ip addr add 10.0.0.1/24 dev eth0");
        b.run("ip addr add 10.0.0.2/24 dev eth0");
        a.run("ping -q -c 1 -W 1 10.0.0.2");
        assert!(!a.attempt("ping -q -c 1 -W 1 10.0.1.2", LIMIT).ok());
        let links: Vec<_> = a.run("ls /sys/class/net").split_whitespace().map(str::to_owned).collect();
        assert_eq!(links, ["eth0", "lo"]);
    }

    #[test]
    fn labs_are_isolated_from_each_other() {
        let (Some(one), Some(two)) = (Lab::new(), Lab::new()) else { return };
        let (a, _same_name) = (one.host("a"), two.host("a"));
        assert_eq!(one.run("ip netns list").trim(), "a");
        assert_ne!(a.run("readlink /proc/self/ns/net"), two.run("readlink /proc/self/ns/net"));
    }

    #[test]
    fn a_dropped_lab_leaves_nothing() {
        let Some(lab) = Lab::new() else { return };
        let host = lab.host("a");
        let program = host.spawn("sleep 60");
        let processes = [lab.holder.id(), program.id()];
        let dir = lab.dir().to_owned();
        drop((program, host, lab));
        assert!(processes.iter().all(|id| !Path::new(&format!("/proc/{id}")).exists()));
        assert!(!dir.exists());
    }
}
