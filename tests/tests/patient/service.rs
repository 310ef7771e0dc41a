//! The router as a service: its messages to the service manager (sd_notify(3)).

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::process::Signal;
use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::{Process, until};
use testkit::router::{START, binary};

/// The watchdog's time limit.
const WATCHDOG: Duration = Duration::from_millis(400);

/// A stand-in for the service manager: the socket to which the service sends messages, and the service.
struct Manager {
    socket: UnixDatagram,
    service: Process,
}

impl Manager {
    /// Starts a router that runs `commands` as a service.
    fn start(host: &Host, commands: &str) -> Manager {
        let dir = host.lab().dir();
        let [notify, commands_file, config, cli] =
            ["notify", "setup.cli", "startup.conf", "cli.sock"].map(|n| dir.join(n));
        let socket = UnixDatagram::bind(&notify).unwrap();
        fs::write(&commands_file, commands).unwrap();
        let (cli, exec) = (cli.display(), commands_file.display());
        fs::write(&config, format!("unix {{ cli-listen {cli} startup-config {exec} }}")).unwrap();
        let words = [
            "env".to_owned(),
            format!("NOTIFY_SOCKET={}", notify.display()),
            format!("WATCHDOG_USEC={}", WATCHDOG.as_micros()),
            binary().display().to_string(),
            "run".to_owned(),
            "-c".to_owned(),
            config.display().to_string(),
        ];
        Manager { socket, service: host.spawn_args(words) }
    }

    /// Returns the next message, if one arrives in time.
    fn next(&self, limit: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(limit)).unwrap();
        let mut message = [0; 4096];
        match self.socket.recv(&mut message) {
            Ok(len) => Some(String::from_utf8(message[..len].to_vec()).unwrap()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(e) => panic!("{e}"),
        }
    }

    /// Waits for a message with a line that starts with `line`, and returns the message.
    fn told(&self, line: &str, limit: Duration) -> String {
        let (start, mut all) = (Instant::now(), Vec::new());
        while let Some(left) = limit.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            all.extend(self.next(left));
            if let Some(message) = all.last().filter(|m| m.lines().any(|l| l.starts_with(line))) {
                return message.clone();
            }
        }
        panic!("no {line} in {limit:?}, but {all:?}; its log:\n{}", self.service.stderr());
    }

    /// Returns the first thread of the router with this name.
    fn thread(&self, name: &str) -> Pid {
        let threads = fs::read_dir(format!("/proc/{}/task", self.service.id())).unwrap().flatten();
        let mut named = threads.filter(|thread| {
            fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
        });
        let thread = named.next().unwrap_or_else(|| panic!("no thread {name}"));
        Pid::from_raw(thread.file_name().to_str().unwrap().parse().unwrap())
    }
}

/// A thread that is stopped until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(thread: Pid) -> Stopped {
        ptrace::seize(thread, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(thread).unwrap();
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        Stopped(thread)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        ptrace::detach(self.0, None).unwrap();
    }
}

#[test]
fn the_manager_is_notified_of_ready_watchdog_and_stop() {
    let Some(lab) = Lab::new() else { return };
    let mut manager =
        Manager::start(&lab.host("r"), "create loopback interface\nset interface state loop0 up\n");
    let first = manager.next(START).expect("the message that it is ready");
    assert_eq!(first, "READY=1\nSTATUS=forwarding; 1 of 1 interfaces usable\n", "{first}");
    let start = Instant::now();
    for _ in 0..4 {
        manager.told("WATCHDOG=1", WATCHDOG * 2);
    }
    // The first message arrives at once, the others at half the watchdog's time limit.
    assert!(start.elapsed() > WATCHDOG, "{:?}", start.elapsed());
    manager.service.signal(Signal::TERM);
    assert_eq!(manager.told("STOPPING=1", LIMIT), "STOPPING=1\nSTATUS=stopped by SIGTERM\n");
    manager.service.finish(START).expect_ok();
}

#[test]
fn a_router_that_fails_to_start_never_reports_ready() {
    let Some(lab) = Lab::new() else { return };
    let mut manager =
        Manager::start(&lab.host("r"), "create loopback interface\nset interface state lop0 up\n");
    assert!(!manager.service.finish(START).ok());
    assert_eq!(manager.next(Duration::from_millis(1)), None);
}

#[test]
fn a_worker_that_hangs_silences_the_watchdog() {
    let Some(lab) = Lab::new() else { return };
    let manager = Manager::start(&lab.host("r"), "");
    manager.told("READY=1", START);
    let worker = manager.thread("volley_wk_0");
    let stopped = Stopped::new(worker);
    manager.told("STATUS=a worker hangs", LIMIT);
    assert_eq!(manager.next(WATCHDOG * 3), None, "the manager would restart the router");
    // The main thread runs, and the watchdog continues once the worker runs again.
    drop(stopped);
    manager.told("WATCHDOG=1", LIMIT);
    until("the recovery is logged", LIMIT, || manager.service.stderr().contains("all workers run again"));
}
