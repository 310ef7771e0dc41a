//! The router under test: the `volley` binary in a namespace of a [`Lab`](crate::netns::Lab).

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::netns::{Host, LIMIT};
use crate::process::{Finished, Process, poll};

/// Time limit for a router's start and for its end. (The target is one second. A busy test machine gets more time, so that a slow start
/// fails only the test that measures it.)
pub const START: Duration = Duration::from_secs(10);

/// Returns the path of the `volley` binary: `$VOLLEY_BIN` if it is set, otherwise the binary that cargo builds now. The tester is in the
/// same directory.
///
/// # Panics
/// If the build fails.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("VOLLEY_BIN") {
        Some(path) => {
            fs::canonicalize(&path).unwrap_or_else(|e| panic!("VOLLEY_BIN={}: {e}", path.display()))
        }
        None => build(),
    })
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--package=volley",
            "--package=bench",
            "--message-format=json-render-diagnostics",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "building volley failed:\n{}", String::from_utf8_lossy(&out.stderr));
    out.stdout
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .find(|executable| executable.file_name().is_some_and(|name| name == "volley"))
        .expect("cargo reports the path of the binary")
}

/// A running router. If the test fails, dropping it prints packet trace, drop reasons, interfaces and log. Otherwise, dropping it while it
/// still runs asserts that no packet was lost without a reason and no buffer leaked.
#[derive(Debug)]
pub struct Router {
    host: Host,
    process: Process,
    socket: PathBuf,
}

impl Router {
    /// Starts a router on `host` with `commands` (CLI, one per line) and waits until it forwards.
    ///
    /// # Panics
    /// If the router ends, or does not forward within [`START`]. The router's log is printed.
    pub fn start(host: &Host, commands: &str) -> Router {
        Router::start_with(host, "", commands)
    }

    /// Starts a router like [`start`](Self::start), with additional sections in its startup.conf.
    ///
    /// # Panics
    /// As for [`start`](Self::start).
    pub fn start_with(host: &Host, sections: &str, commands: &str) -> Router {
        Router::launch(host, sections, commands).wait_ready()
    }

    /// Starts a router like [`start`](Self::start), but without the given capabilities. The capabilities are in the syntax of `setpriv`,
    /// for example `-bpf,-sys_admin`.
    ///
    /// # Panics
    /// As for [`start`](Self::start).
    pub fn start_without(host: &Host, capabilities: &str, commands: &str) -> Router {
        Router::launch_by(host, &format!("setpriv --bounding-set {capabilities}"), "", commands).wait_ready()
    }

    /// Starts a router like [`launch`](Self::launch) through a launcher program, which gets the command as arguments.
    pub fn launch_by(host: &Host, launcher: &str, sections: &str, commands: &str) -> Router {
        Router::launch_from(host, &format!("{launcher} "), sections, &Router::written(host, commands))
    }

    /// Starts a router without waiting.
    pub fn spawn(host: &Host, commands: &str) -> Router {
        Router::launch(host, "", commands)
    }

    /// Starts a router with this configuration file (commands or YAML), without waiting.
    pub fn spawn_from(host: &Host, configuration: &Path) -> Router {
        Router::launch_from(host, "", "", configuration)
    }

    /// Starts a router like [`spawn`](Self::spawn), with additional sections in its startup.conf.
    pub fn launch(host: &Host, sections: &str, commands: &str) -> Router {
        Router::launch_from(host, "", sections, &Router::written(host, commands))
    }

    /// Writes the commands to a file and returns its path.
    fn written(host: &Host, commands: &str) -> PathBuf {
        let configuration = host.lab().dir().join(format!("{}.cli", host.name()));
        write(&configuration, commands);
        configuration
    }

    fn launch_from(host: &Host, launcher: &str, sections: &str, configuration: &Path) -> Router {
        let socket = host.lab().dir().join(format!("{}.sock", host.name()));
        let config = host.lab().dir().join(format!("{}.conf", host.name()));
        let (listen, exec) = (socket.display(), configuration.display());
        write(&config, &format!("unix {{\n  nodaemon\n  cli-listen {listen}\n  exec {exec}\n}}\n{sections}"));
        let process = host.spawn(&format!("{launcher}{} run -c {}", binary().display(), config.display()));
        Router { host: host.clone(), process, socket }
    }

    /// Runs `volley run` with this startup.conf, for a start that must fail.
    pub fn refused(host: &Host, startup: &str) -> Finished {
        let config = host.lab().dir().join("refused.conf");
        write(&config, startup);
        host.attempt(&format!("{} run -c {}", binary().display(), config.display()), START)
    }

    /// Waits until the router forwards.
    ///
    /// # Panics
    /// If the router ends, or does not forward within [`START`]. The router's log is printed.
    pub fn wait_ready(mut self) -> Router {
        let ready = poll(START, || match self.process.running() {
            true => self.process.stderr().contains("volley: ready").then_some(true),
            false => Some(false),
        });
        assert_eq!(ready, Some(true), "the router is not ready; its log:\n{}", self.process.stderr());
        self
    }

    /// Returns the path of the router's CLI socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the router's process ID.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the router's log so far.
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// True if the router has not ended.
    pub fn running(&mut self) -> bool {
        self.process.running()
    }

    /// Runs one CLI command line, which may fail, through `volley ctl`.
    pub fn attempt(&self, command: &str) -> Finished {
        self.in_background(command).finish(LIMIT)
    }

    /// Starts one CLI command line through `volley ctl`, without waiting for its end.
    pub fn in_background(&self, command: &str) -> Process {
        let words: [&OsStr; 5] =
            [binary().as_ref(), "ctl".as_ref(), "-s".as_ref(), self.socket.as_ref(), command.as_ref()];
        self.host.spawn_args(words)
    }

    /// Runs one CLI command that must succeed. Returns its output.
    ///
    /// # Panics
    /// If the command fails. The panic shows the command's message.
    pub fn ctl(&self, command: &str) -> String {
        self.attempt(command).expect_ok()
    }

    /// Runs CLI commands, one per line, in one `volley ctl -`; all must succeed. Returns their output.
    ///
    /// # Panics
    /// If a command fails. The command's message is printed.
    pub fn script(&self, commands: &str) -> String {
        self.script_in_background(commands).finish(LIMIT).expect_ok()
    }

    /// Starts CLI commands like [`Router::script`], without waiting for their end.
    pub fn script_in_background(&self, commands: &str) -> Process {
        let file = self.host.lab().dir().join(format!("{}.script", self.host.name()));
        write(&file, commands);
        let ctl =
            format!("exec {} ctl -s {} - < {}", binary().display(), self.socket.display(), file.display());
        self.host.spawn_args(["sh", "-c", &ctl])
    }

    /// Returns the result of a `show` command as JSON.
    ///
    /// # Panics
    /// If the command fails, or does not print JSON.
    pub fn json(&self, show: &str) -> Value {
        let text = self.ctl(&format!("{show} --json"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("`{show} --json` is not JSON: {e}\n{text}"))
    }

    /// Returns an interface counter by its name in `show interface`; 0 if it is not listed.
    pub fn counter(&self, interface: &str, counter: &str) -> u64 {
        let shown = self.json(&format!("show interface {interface}"));
        named(&shown[0]["counters"], counter).and_then(|c| c["count"].as_u64()).unwrap_or(0)
    }

    /// Returns the number of packets dropped by `node` for the reason with this short name.
    pub fn drops(&self, node: &str, reason: &str) -> u64 {
        let shown = self.json("show errors");
        let of_node = shown.as_array().into_iter().flatten().filter(|drop| drop["node"] == node);
        of_node.filter(|drop| drop["name"] == reason).filter_map(|drop| drop["count"].as_u64()).sum()
    }

    /// Kills the router with SIGKILL, so that it cannot clean up.
    pub fn kill(mut self) {
        self.process.signal(Signal::KILL);
        self.process.finish(START);
    }

    /// Stops the router with SIGTERM.
    ///
    /// # Panics
    /// If the router does not end successfully within [`START`].
    pub fn stop(mut self) {
        self.process.signal(Signal::TERM);
        self.process.finish(START).expect_ok();
    }

    /// Asserts that no packet was lost without a reason, and that every buffer is free again.
    fn check_buffers(&self) {
        let mut shown = Value::Null;
        let all_back = poll(START, || {
            shown = self.json("show buffers");
            (shown["used"] == 0).then_some(())
        });
        assert!(all_back.is_some() && shown["lost"] == 0, "buffers leaked: {shown}");
    }

    fn report(&self) {
        for show in ["show trace", "show errors", "show interface", "show ip neighbors", "show ip fib"] {
            eprintln!("=== {show}\n{}", self.attempt(show).stdout);
        }
        eprintln!("=== log of the router\n{}", self.log());
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report();
        } else if self.process.running() {
            self.check_buffers();
        }
        self.process.signal(Signal::TERM);
        // A router that has not ended by then is killed with its `Process`.
        self.process.finish(Duration::from_secs(2));
    }
}

/// Returns the object named `name` from a list of objects; `None` if the list has none.
fn named<'v>(list: &'v Value, name: &str) -> Option<&'v Value> {
    list.as_array()?.iter().find(|entry| entry["name"] == name)
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
