//! Namespaces of the tester's own, in which nothing of the machine's network is seen, and of which nothing is left.
//!
//! The tester runs itself again in a network namespace and a mount namespace with a `/run` of its own, where `ip netns` keeps its
//! names. When it ends, however that happens, the kernel removes both, with all links and all namespaces in them; programs that it
//! started are killed. Needs no root where the system allows user namespaces.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::trial::Failure;

/// Set in a tester that runs in namespaces of its own.
const INSIDE: &str = "VOLLEY_BENCH_LAB";
/// What is done there before the tester begins.
const SETUP: &str = "mount -t tmpfs lab /run && mkdir /run/netns && ip link set lo up && exec \"$@\"";
/// An ordinary user's `PATH` has no sbin, where `ip` and `sysctl` are.
const SBIN: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// How long a router may take for what it is told or asked, with the largest table of routes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether this tester runs in namespaces of its own.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this very program again in namespaces of its own, with the same arguments; comes back only if that is impossible.
pub fn enter() -> Failure {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(e) => return Failure(format!("the tester's own program is not found: {e}")),
    };
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--net", "--", "sh", "-c", SETUP, "sh"]).arg(program);
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1").env("PATH", path());
    let e = command.exec();
    Failure(format!(
        "no namespaces can be made: unshare (package util-linux): {e}; root may, or a user where user namespaces are allowed"
    ))
}

/// Checks that a file, or a directory, is the same one in the namespaces.
///
/// # Errors
/// When it lies where they have a directory of their own.
pub fn check_path(file: &Path) -> Result<(), Failure> {
    let directory = file.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match directory.canonicalize() {
        Ok(d) if d.starts_with("/run") => {
            let why = "the tester has a /run of its own, where this would be lost: name a file elsewhere";
            Err(Failure(format!("{}: {why}", file.display())))
        }
        // Whoever opens a file in a directory that is not there says so.
        _ => Ok(()),
    }
}

fn path() -> String {
    format!("{}:{SBIN}", std::env::var("PATH").unwrap_or_default())
}

/// Runs a command that must succeed; gives what it printed.
///
/// # Errors
/// When it cannot be started or fails, with what it said.
pub fn run(words: &[impl AsRef<OsStr>]) -> Result<String, Failure> {
    let Some((program, arguments)) = words.split_first() else { return Err(Failure("no command".into())) };
    let said = || words.iter().map(|w| w.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
    said_by(self::program(program).args(arguments), &said())
}

/// What a command printed, which is called `name` in errors.
///
/// # Errors
/// As [`run`].
pub fn said_by(command: &mut Command, name: &str) -> Result<String, Failure> {
    said(command.stdin(std::process::Stdio::null()).output(), name)
}

/// As [`said_by`], of what need not end: a program that somebody else wrote, or that a router answers.
///
/// # Errors
/// As that, and when it takes more than [`PATIENCE`]: it is ended then.
pub fn said_in_time(command: &mut Command, name: &str) -> Result<String, Failure> {
    said(crate::program::output(command, PATIENCE), name)
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

/// As [`run`], for words separated by spaces.
///
/// # Errors
/// As that.
pub fn sh(command: &str) -> Result<String, Failure> {
    run(&command.split_whitespace().collect::<Vec<_>>())
}

/// A command in a namespace, which ends with the tester.
pub fn inside(namespace: &str) -> Command {
    let mut command = program("ip");
    // A Ctrl-C on the terminal is the tester's, which has a trial to end; a router that heard it would lose the frames of that.
    command.process_group(0);
    command.args(["netns", "exec", namespace, "setpriv", "--pdeathsig", "KILL", "--"]);
    command
}

/// A command that ends with the tester.
pub fn guarded() -> Command {
    let mut command = program("setpriv");
    command.process_group(0);
    command.args(["--pdeathsig", "KILL", "--"]);
    command
}

/// A program that is found where an ordinary user does not look, and speaks English.
pub fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", path()).env("LC_ALL", "C");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_without_a_word_is_no_gap_in_a_line() {
        let said =
            |line: &str| said_in_time(Command::new("sh").args(["-c", line]), line).unwrap_or_else(|e| e.0);
        assert_eq!(said("exit 3"), "exit 3: exit status: 3");
        assert_eq!(said("echo no >&2; exit 3"), "echo no >&2; exit 3: exit status: 3: no");
    }

    #[test]
    fn what_the_namespaces_hide_is_refused() {
        for hidden in ["/run/x.db", "/var/run/x.db"] {
            let said = check_path(Path::new(hidden)).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(said.starts_with(hidden) && said.contains("a /run of its own"), "{said}");
        }
        for seen in ["/tmp/run/x.db", "x.db", "/nowhere/x.db", "/running"] {
            assert_eq!(check_path(Path::new(seen)), Ok(()), "{seen}");
        }
    }
}
