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

/// How long a router may take from its start until it forwards, and to end when asked to. (The promise is one
/// second; a test machine that is busy gets more, so that a slow start fails where it is measured, not everywhere.)
pub const START: Duration = Duration::from_secs(10);

/// The `volley` binary: `$VOLLEY_BIN`, or else the one that cargo builds now from these sources. The tester is beside it.
///
/// # Panics
/// When it does not build.
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
    assert!(out.status.success(), "volley does not build:\n{}", String::from_utf8_lossy(&out.stderr));
    out.stdout
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .find(|executable| executable.file_name().is_some_and(|name| name == "volley"))
        .expect("cargo names the binary it has built")
}

/// A running router. Dropped by a test that fails, it first prints what it knows: packet trace, drop reasons,
/// interfaces and log. Dropped by one that ends well, it must not have lost a buffer.
#[derive(Debug)]
pub struct Router {
    host: Host,
    process: Process,
    socket: PathBuf,
}

impl Router {
    /// Starts a router on `host` that runs `commands` (CLI, one a line) and waits until it forwards.
    ///
    /// # Panics
    /// When it ends, or is not ready within [`START`], with its log.
    pub fn start(host: &Host, commands: &str) -> Router {
        Router::start_with(host, "", commands)
    }

    /// As [`start`](Self::start), with more sections in its startup.conf.
    ///
    /// # Panics
    /// As that.
    pub fn start_with(host: &Host, sections: &str, commands: &str) -> Router {
        Router::launch(host, sections, commands).wait_ready()
    }

    /// As [`start`](Self::start), without these capabilities, as `setpriv` writes them: `-bpf,-sys_admin`.
    ///
    /// # Panics
    /// As that.
    pub fn start_without(host: &Host, capabilities: &str, commands: &str) -> Router {
        Router::launch_by(host, &format!("setpriv --bounding-set {capabilities}"), "", commands).wait_ready()
    }

    /// As [`launch`](Self::launch), by a program that is given the command as arguments.
    pub fn launch_by(host: &Host, launcher: &str, sections: &str, commands: &str) -> Router {
        Router::launch_from(host, &format!("{launcher} "), sections, &Router::written(host, commands))
    }

    /// Starts a router and does not wait.
    pub fn spawn(host: &Host, commands: &str) -> Router {
        Router::launch(host, "", commands)
    }

    /// Starts a router whose configuration is this file, commands or YAML, and does not wait.
    pub fn spawn_from(host: &Host, configuration: &Path) -> Router {
        Router::launch_from(host, "", "", configuration)
    }

    /// As [`spawn`](Self::spawn), with more sections in its startup.conf.
    pub fn launch(host: &Host, sections: &str, commands: &str) -> Router {
        Router::launch_from(host, "", sections, &Router::written(host, commands))
    }

    /// The file with these commands.
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

    /// Runs `volley run` with this startup.conf, for a start that is expected to fail.
    pub fn refused(host: &Host, startup: &str) -> Finished {
        let config = host.lab().dir().join("refused.conf");
        write(&config, startup);
        host.attempt(&format!("{} run -c {}", binary().display(), config.display()), START)
    }

    /// Waits until it forwards.
    ///
    /// # Panics
    /// When it ends, or is not ready within [`START`], with its log.
    pub fn wait_ready(mut self) -> Router {
        let ready = poll(START, || match self.process.running() {
            true => self.process.stderr().contains("volley: ready").then_some(true),
            false => Some(false),
        });
        assert_eq!(ready, Some(true), "the router is not ready; its log:\n{}", self.process.stderr());
        self
    }

    /// The socket of its CLI.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// Whether it has not ended.
    pub fn running(&mut self) -> bool {
        self.process.running()
    }

    /// Runs one CLI command, a whole line, through `volley ctl`; it may fail.
    pub fn attempt(&self, command: &str) -> Finished {
        self.in_background(command).finish(LIMIT)
    }

    /// Starts one CLI command, a whole line, through `volley ctl`, and does not wait for its end.
    pub fn in_background(&self, command: &str) -> Process {
        let words: [&OsStr; 5] =
            [binary().as_ref(), "ctl".as_ref(), "-s".as_ref(), self.socket.as_ref(), command.as_ref()];
        self.host.spawn_args(words)
    }

    /// Runs one CLI command that must succeed, and gives its output.
    ///
    /// # Panics
    /// When it fails, with its message.
    pub fn ctl(&self, command: &str) -> String {
        self.attempt(command).expect_ok()
    }

    /// Runs CLI commands, one a line, in one `volley ctl -`; all must succeed.
    ///
    /// # Panics
    /// When one fails, with its message.
    pub fn script(&self, commands: &str) -> String {
        self.script_in_background(commands).finish(LIMIT).expect_ok()
    }

    /// As [`Router::script`], but does not wait for the end.
    pub fn script_in_background(&self, commands: &str) -> Process {
        let file = self.host.lab().dir().join(format!("{}.script", self.host.name()));
        write(&file, commands);
        let ctl =
            format!("exec {} ctl -s {} - < {}", binary().display(), self.socket.display(), file.display());
        self.host.spawn_args(["sh", "-c", &ctl])
    }

    /// A `show` command's result as JSON.
    ///
    /// # Panics
    /// When it fails, or does not print JSON.
    pub fn json(&self, show: &str) -> Value {
        let text = self.ctl(&format!("{show} --json"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("`{show} --json` is not JSON: {e}\n{text}"))
    }

    /// A counter of an interface, by the name that `show interface` gives it; what it does not list is 0.
    pub fn counter(&self, interface: &str, counter: &str) -> u64 {
        let shown = self.json(&format!("show interface {interface}"));
        named(&shown[0]["counters"], counter).and_then(|c| c["count"].as_u64()).unwrap_or(0)
    }

    /// How many packets were dropped for a reason, given as `node` and short name.
    pub fn drops(&self, node: &str, reason: &str) -> u64 {
        let shown = self.json("show errors");
        let of_node = shown.as_array().into_iter().flatten().filter(|drop| drop["node"] == node);
        of_node.filter(|drop| drop["name"] == reason).filter_map(|drop| drop["count"].as_u64()).sum()
    }

    /// Kills it with SIGKILL: it cannot tidy up.
    pub fn kill(mut self) {
        self.process.signal(Signal::KILL);
        self.process.finish(START);
    }

    /// Asks it to end, with SIGTERM.
    ///
    /// # Panics
    /// When it does not end within [`START`], or not with success.
    pub fn stop(mut self) {
        self.process.signal(Signal::TERM);
        self.process.finish(START).expect_ok();
    }

    /// What a scenario leaves behind: no packet may be lost without a reason, and every buffer comes back.
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
        // A router that does not end by then is killed with its `Process`.
        self.process.finish(Duration::from_secs(2));
    }
}

/// The entry of a list of objects that has this name.
fn named<'v>(list: &'v Value, name: &str) -> Option<&'v Value> {
    list.as_array()?.iter().find(|entry| entry["name"] == name)
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
