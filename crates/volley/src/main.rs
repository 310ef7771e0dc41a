//! `volley`: the router (`volley run`) and its client (`volley ctl`).

#![forbid(unsafe_code)]

mod documents;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use control::check::Checker;
use control::cli::client;
use control::startup::{Fault, Startup};
use control::{
    daemon,
    logging::{self, LogError},
    top,
};
use drivers::guardian;
use net::router::{Router, Sizes};

/// A software router that processes packets in vectors.
#[derive(Parser)]
#[command(name = "volley", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the router.
    Run {
        /// The start configuration, in the syntax of VPP's startup.conf.
        #[arg(short = 'c', long = "config", value_name = "FILE", conflicts_with = "words")]
        config: Option<PathBuf>,
        /// The start configuration as words instead of a file: unix { interactive cli-listen /run/volley/cli.sock }
        #[arg(trailing_var_arg = true, value_name = "WORDS")]
        words: Vec<String>,
    },
    /// Return interfaces to the kernel if the router is killed. Started by the router, not by hand.
    #[command(name = control::guardian::COMMAND, hide = true)]
    Guardian,
    /// Write the manual pages and the shell completions into a directory, for a package.
    #[command(hide = true)]
    Documents {
        /// The directory.
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
    /// Print the router's completions of the last word, one per line, for shell completions.
    #[command(hide = true)]
    Complete {
        /// The router's CLI socket.
        #[arg(short, long, value_name = "SOCKET", default_value = client::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// The words of a command; the last one may be incomplete or empty.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
        words: Vec<String>,
    },
    /// Check configurations (.yaml), startup.conf (.conf) and files of commands (any other name). Each fault has its
    /// line and column. Needs no running router; checks only the form of commands.
    Check {
        /// The files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Replace the configuration of a running router by a file (YAML), all or nothing.
    Apply {
        /// The router's CLI socket.
        #[arg(short, long, value_name = "SOCKET", default_value = client::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// Only show what would change.
        #[arg(long)]
        dry_run: bool,
        /// Roll back after this many minutes (or seconds, as in 90s), unless "volley ctl config confirm" is given.
        #[arg(long, value_name = "TIME")]
        confirm: Option<String>,
        /// Apply only if the running configuration still has this generation (see "show config yaml").
        #[arg(long, value_name = "N")]
        generation: Option<u64>,
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Roll back the last change of a running router's configuration, or the last N. Repeat it to roll back further.
    Rollback {
        /// The router's CLI socket.
        #[arg(short, long, value_name = "SOCKET", default_value = client::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// Only show what would change.
        #[arg(long)]
        dry_run: bool,
        /// Number of changes. Without it, roll back the change awaiting confirmation, or else the last one.
        #[arg(value_name = "N")]
        n: Option<u32>,
    },
    /// Write packets of a running router to standard output as they are received, sent or dropped:
    /// volley capture interface host-eth1 | tcpdump -n -r -
    Capture {
        /// The router's CLI socket.
        #[arg(short, long, value_name = "SOCKET", default_value = client::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// [rx] [tx] [drop] (default: rx and tx), [interface NAME|any], [max PACKETS], [max-bytes-per-pkt BYTES],
        /// [filter "EXPRESSION"] as in tcpdump.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
        words: Vec<String>,
    },
    /// Watch a running router in the terminal: interfaces with rates, workers with busy time, nodes with clocks, drops
    /// by reason.
    Top {
        /// The router's CLI socket.
        #[arg(short, long, value_name = "SOCKET", default_value = client::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// Seconds between two samples.
        #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
        interval: f64,
    },
    /// Measure routers as in RFC 2544 and its successors, with the tester volley-bench.
    #[command(disable_help_flag = true)]
    Bench {
        /// The arguments of volley-bench.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
        words: Vec<OsString>,
    },
    /// Talk to a running router: interactively, one command, or commands from standard input ("-").
    Ctl {
        /// The router's CLI socket.
        #[arg(short, long, value_name = "SOCKET", default_value = client::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
        /// Continue after a failed command (with "-").
        #[arg(long)]
        keep_going: bool,
        /// The command; interactive without one.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        words: Vec<String>,
    },
}

fn main() -> ExitCode {
    control::features::declare_log_classes(volley::features::ALL);
    match Arguments::parse_from(words(std::env::args_os())).command {
        Command::Run { config, words } => run(config, &words),
        Command::Guardian => {
            guardian::watch();
            ExitCode::SUCCESS
        }
        Command::Documents { directory } => match documents::write(&directory) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                tell(format_args!("volley: {}: {e}", directory.display()));
                ExitCode::FAILURE
            }
        },
        Command::Complete { socket, words } => {
            client::candidates(&socket, &words).iter().for_each(|word| println!("{word}"));
            ExitCode::SUCCESS
        }
        Command::Check { files } => check(&files),
        Command::Apply { socket, dry_run, confirm, generation, file } => {
            let mut words = vec!["config".into(), "apply".into(), file.display().to_string()];
            words.extend(dry_run.then(|| "dry-run".into()));
            words.extend(confirm.into_iter().flat_map(|time| ["confirm".into(), time]));
            words.extend(generation.into_iter().flat_map(|n| ["generation".into(), n.to_string()]));
            command(socket, words)
        }
        Command::Rollback { socket, dry_run, n } => {
            let mut words = vec!["config".into()];
            words.extend(dry_run.then(|| "diff".into()));
            words.push("rollback".into());
            words.extend(n.map(|n| n.to_string()));
            command(socket, words)
        }
        Command::Capture { socket, words } => client::capture(&socket, &words),
        Command::Top { socket, interval } => top::run(&top::Options { socket, interval }),
        Command::Bench { words } => bench(&words),
        Command::Ctl { socket, json, keep_going, words } => {
            client::run(client::ClientOptions { socket, json, keep_going, words })
        }
    }
}

/// Executes the tester: the program beside this one if it exists, otherwise the installed program.
fn bench(words: &[OsString]) -> ExitCode {
    let beside = std::env::current_exe().ok().map(|volley| volley.with_file_name("volley-bench"));
    let program = beside.filter(|program| program.is_file()).unwrap_or_else(|| "volley-bench".into());
    let e = std::process::Command::new(&program).args(words).exec();
    tell(format_args!(
        "volley: cannot run the tester: {}: {e} (install the package volley-bench)",
        program.display()
    ));
    ExitCode::FAILURE
}

/// Returns the words of the command line. If the program is called `vppctl`, replaces its name by `volley ctl`, so that it is the
/// CLI client, as in VPP.
fn words(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = given.into_iter().collect();
    let name = words.first().map(Path::new).and_then(Path::file_name);
    if name == Some(OsStr::new("vppctl")) {
        words.splice(..1, ["volley".into(), "ctl".into()]);
    }
    words
}

/// Sends one command to a running router.
fn command(socket: PathBuf, words: Vec<String>) -> ExitCode {
    client::run(client::ClientOptions { socket, json: false, keep_going: false, words })
}

/// Checks files against a router without interfaces, and prints the faults and warnings. Only faults make the program fail.
fn check(files: &[PathBuf]) -> ExitCode {
    let router = match Router::build(volley::features::install, &Sizes::default()) {
        Ok(parts) => parts.router,
        Err(e) => {
            tell(format_args!("volley: {e}"));
            return ExitCode::FAILURE;
        }
    };
    let checker = Checker::new(&router, volley::features::ALL);
    let mut wrong = false;
    for path in files {
        let found = checker.check(path);
        found.faults.iter().for_each(tell);
        found.warnings.iter().for_each(|warning| tell(format_args!("warning: {warning}")));
        wrong |= !found.faults.is_empty();
    }
    if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run(config: Option<PathBuf>, words: &[String]) -> ExitCode {
    let startup = match config {
        Some(path) => Startup::load(&path),
        None => Startup::from_args(words),
    };
    let startup = match startup {
        Ok(startup) => startup,
        Err(faults) => return faulty(&faults),
    };
    let log = match logging::init(&startup.logging, startup.unix.log.as_deref()) {
        Ok(log) => log,
        Err(e) => {
            let about: &[&str] = if matches!(e, LogError::File { .. }) { &["log"] } else { &[] };
            tell(format_args!("volley: {}", startup.about(about, e)));
            return ExitCode::FAILURE;
        }
    };
    let ended = daemon::run(&startup, volley::features::ALL, Arc::clone(&log));
    log.drain();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tell(format_args!("volley: {e}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line on standard error. Errors are ignored, because standard error may be a file on a full disk, or a pipe without a reader.
fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn faulty(faults: &[Fault]) -> ExitCode {
    faults.iter().for_each(tell);
    tell("volley: not started: fix the errors above");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(words_given: &[&str]) -> Command {
        let words = words(words_given.iter().map(OsString::from));
        Arguments::try_parse_from(words).unwrap_or_else(|e| panic!("{words_given:?}: {e}")).command
    }

    #[test]
    fn vppctl_is_the_client() {
        for name in ["vppctl", "/usr/bin/vppctl"] {
            let Command::Ctl { socket, words, .. } = called(&[name, "-s", "/run/x.sock", "show", "int"])
            else {
                panic!("{name} is the client")
            };
            assert_eq!((socket, words.join(" ")), ("/run/x.sock".into(), "show int".into()));
        }
        assert!(matches!(called(&["vppctl"]), Command::Ctl { words, .. } if words.is_empty()));
        assert!(matches!(called(&["/usr/bin/volley", "check", "x"]), Command::Check { .. }));
        assert!(
            matches!(called(&["volley", "ctl", "vppctl"]), Command::Ctl { words, .. } if words == ["vppctl"])
        );
    }

    /// The documents name every command and parameter, and some of the arguments.
    #[test]
    fn documents_are_complete() {
        let directory = std::env::temp_dir().join(format!("volley-documents-{}", std::process::id()));
        documents::write(&directory).unwrap();
        // Undoes roff's escapes of apostrophes and hyphens.
        let plain = |text: String| text.replace("\\*(Aq", "'").replace('\\', "");
        let read = |name: &str| plain(std::fs::read_to_string(directory.join(name)).unwrap());
        let (cli, conf, ctl) = (read("volley-cli.7"), read("volley-startup.conf.5"), read("volley-ctl.1"));
        let (bash, zsh, daemon) = (read("volley.bash"), read("_volley"), read("volley.8"));
        std::fs::remove_dir_all(&directory).unwrap();
        let (registry, _) = volley::features::declared();
        assert!(registry.declarations().len() > 50);
        for (syntax, help) in registry.declarations() {
            let syntax: Vec<_> = syntax.split_whitespace().collect();
            assert!(cli.contains(&syntax.join(" ")) && cli.contains(help), "{syntax:?}");
        }
        for entry in control::startup::entries() {
            assert!(conf.contains(entry.names[0]), "{:?}", entry.names);
        }
        assert!(ctl.contains("--keep-going") && daemon.contains("volley run") && daemon.contains("SIGTERM"));
        for (shell, asks) in [(&bash, "volley complete"), (&zsh, "_volley_router")] {
            assert!(shell.contains("dry-run") && shell.contains(asks), "{shell}");
            assert!(!shell.contains("guardian"), "{shell}");
        }
    }
}
