//! The tester's own namespaces, isolated from the machine's network, and removed without a trace.
//!
//! The tester runs itself again in a network namespace and a mount namespace. There, `/run` is a new file system, because `ip netns` keeps
//! its names there. When the tester ends for any reason, the kernel removes both, with all their links and namespaces, and kills the
//! programs that the tester started. Root is not needed if the system allows user namespaces.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::trial::Failure;

/// Environment variable that marks a tester in its own namespaces.
const INSIDE: &str = "VOLLEY_BENCH_LAB";
/// Commands in the new namespaces before the tester starts.
const SETUP: &str = "mount -t tmpfs lab /run && mkdir /run/netns && ip link set lo up && exec \"$@\"";
/// Directories of `ip` and `sysctl`, which are missing in an ordinary user's `PATH`.
const SBIN: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// Time limit for a router's commands, sufficient for the largest route table.
const PATIENCE: Duration = Duration::from_secs(120);

/// True if this tester runs in its own namespaces.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this program again in new namespaces, with the same arguments. Returns only on failure.
pub fn enter() -> Failure {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(e) => return Failure(format!("cannot find the tester's own executable: {e}")),
    };
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--net", "--", "sh", "-c", SETUP, "sh"]).arg(program);
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1").env("PATH", path());
    let e = command.exec();
    Failure(format!(
        "cannot make namespaces: unshare (package util-linux): {e}: run as root, or allow user namespaces"
    ))
}

/// Checks that a path leads to the same file or directory inside and outside of the tester's namespaces.
///
/// # Errors
/// If the path is in a directory that the namespaces replace.
pub fn check_path(file: &Path) -> Result<(), Failure> {
    let directory = file.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match directory.canonicalize() {
        Ok(d) if d.starts_with("/run") => {
            let why =
                "the tester runs with its own /run, where the file would be lost: name a file elsewhere";
            Err(Failure(format!("{}: {why}", file.display())))
        }
        // A missing directory is reported when the file is opened.
        _ => Ok(()),
    }
}

fn path() -> String {
    format!("{}:{SBIN}", std::env::var("PATH").unwrap_or_default())
}

/// Runs a command that must succeed, and returns its output.
///
/// # Errors
/// If the command cannot be started, or fails; the error includes its error output.
pub fn run(words: &[impl AsRef<OsStr>]) -> Result<String, Failure> {
    let Some((program, arguments)) = words.split_first() else { return Err(Failure("no command".into())) };
    let said = || words.iter().map(|w| w.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
    said_by(self::program(program).args(arguments), &said())
}

/// Runs a command, called `name` in errors, and returns its output.
///
/// # Errors
/// Same as [`run`].
pub fn said_by(command: &mut Command, name: &str) -> Result<String, Failure> {
    said(command.stdin(std::process::Stdio::null()).output(), name)
}

/// Like [`said_by`], for a command that may hang, such as a user's program or a router's client.
///
/// # Errors
/// As [`said_by`], or if the command takes longer than [`PATIENCE`]; the command is then killed.
pub fn said_in_time(command: &mut Command, name: &str) -> Result<String, Failure> {
    said(crate::program::output(command, PATIENCE), name)
}

/// Like [`said_in_time`]; the command gets `input` on its standard input.
///
/// # Errors
/// As [`said_in_time`].
pub fn fed_in_time(command: &mut Command, name: &str, input: impl Into<Vec<u8>>) -> Result<String, Failure> {
    said(crate::program::fed(command, input.into(), PATIENCE), name)
}

fn said(output: std::io::Result<Output>, name: &str) -> Result<String, Failure> {
    match output {
        Ok(Output { status, stdout, .. }) if status.success() => {
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        }
        Ok(Output { status, stderr, .. }) => {
            let (status, stderr) = (status.to_string(), String::from_utf8_lossy(&stderr));
            let all = [name, &status, stderr.trim()].into_iter().filter(|words| !words.is_empty());
            Err(Failure(all.collect::<Vec<_>>().join(": ")))
        }
        Err(e) => Err(Failure(format!("{name}: {e}"))),
    }
}

/// Like [`run`], for a command given as words separated by spaces.
///
/// # Errors
/// Same as [`run`].
pub fn sh(command: &str) -> Result<String, Failure> {
    run(&command.split_whitespace().collect::<Vec<_>>())
}

/// Returns a command that runs in a namespace, and is killed when the tester ends.
pub fn inside(namespace: &str) -> Command {
    let mut command = program("ip");
    // Ctrl-C on the terminal is for the tester, which completes its trial first. A router that received it would drop the trial's frames.
    command.process_group(0);
    command.args(["netns", "exec", namespace, "setpriv", "--pdeathsig", "KILL", "--"]);
    command
}

/// Returns a command that is killed when the tester ends.
pub fn guarded() -> Command {
    let mut command = program("setpriv");
    command.process_group(0);
    command.args(["--pdeathsig", "KILL", "--"]);
    command
}

/// Returns a command whose program is also searched in the sbin directories, with messages in English.
pub fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", path()).env("LC_ALL", "C");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_output_is_reported_without_a_gap() {
        let said =
            |line: &str| said_in_time(Command::new("sh").args(["-c", line]), line).unwrap_or_else(|e| e.0);
        assert_eq!(said("exit 3"), "exit 3: exit status: 3");
        assert_eq!(said("echo no >&2; exit 3"), "echo no >&2; exit 3: exit status: 3: no");
    }

    #[test]
    fn paths_hidden_by_the_namespaces_are_refused() {
        for hidden in ["/run/x.db", "/var/run/x.db"] {
            let said = check_path(Path::new(hidden)).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(said.starts_with(hidden) && said.contains("its own /run"), "{said}");
        }
        for seen in ["/tmp/run/x.db", "x.db", "/nowhere/x.db", "/running"] {
            assert_eq!(check_path(Path::new(seen)), Ok(()), "{seen}");
        }
    }
}
