//! `volley`: the router (`volley run`) and its client (`volley ctl`).

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use control::cli::client;
use control::startup::{Fault, Startup};
use control::system::System;
use control::{config, daemon, logging};
use drivers::{Guardian, guardian};
use net::router::{Router, Sizes};

/// A software router and switch around vector packet processing.
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
        /// The same words instead of a file: unix { interactive cli-listen /run/volley/cli.sock }
        #[arg(trailing_var_arg = true, value_name = "WORDS")]
        words: Vec<String>,
    },
    /// Give interfaces back to the kernel should the router be killed. Started by the router, not by hand.
    #[command(name = daemon::GUARDIAN, hide = true)]
    Guardian,
    /// Say what is wrong with configuration files (YAML), each fault with its line and column. Needs no running router.
    Check {
        /// The files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Make the configuration of a running router what a file (YAML) says, all or nothing.
    Apply {
        /// The router's CLI socket.
        #[arg(short, long, value_name = "SOCKET", default_value = client::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// Only show what would change.
        #[arg(long)]
        dry_run: bool,
        /// Take it back after so many minutes, unless "volley ctl config confirm" is said.
        #[arg(long, value_name = "MINUTES")]
        confirm: Option<u32>,
        /// Only if the configuration is still of this generation, as "show config yaml" names it.
        #[arg(long, value_name = "N")]
        generation: Option<u64>,
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Take back the last change of a running router's configuration, or the last N.
    Rollback {
        /// The router's CLI socket.
        #[arg(short, long, value_name = "SOCKET", default_value = client::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// How many; what waits to be confirmed, or else one, if it is not given.
        #[arg(value_name = "N")]
        n: Option<u32>,
    },
    /// Talk to a running router: interactively, one command, or commands from standard input ("-").
    Ctl {
        /// The router's CLI socket.
        #[arg(short, long, value_name = "SOCKET", default_value = client::DEFAULT_SOCKET)]
        socket: PathBuf,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
        /// Go on after a command that failed (with "-").
        #[arg(long)]
        keep_going: bool,
        /// The command; none: interactive.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        words: Vec<String>,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run { config, words } => run(config, &words),
        Command::Guardian => {
            guardian::watch();
            ExitCode::SUCCESS
        }
        Command::Check { files } => check(&files),
        Command::Apply { socket, dry_run, confirm, generation, file } => {
            let mut words = vec!["config".into(), "apply".into(), file.display().to_string()];
            words.extend(dry_run.then(|| "dry-run".into()));
            words.extend(confirm.into_iter().flat_map(|minutes| ["confirm".into(), minutes.to_string()]));
            words.extend(generation.into_iter().flat_map(|n| ["generation".into(), n.to_string()]));
            command(socket, words)
        }
        Command::Rollback { socket, n } => {
            let mut words = vec!["config".into(), "rollback".into()];
            words.extend(n.map(|n| n.to_string()));
            command(socket, words)
        }
        Command::Ctl { socket, json, keep_going, words } => {
            client::run(client::ClientOptions { socket, json, keep_going, words })
        }
    }
}

/// One command to a running router.
fn command(socket: PathBuf, words: Vec<String>) -> ExitCode {
    client::run(client::ClientOptions { socket, json: false, keep_going: false, words })
}

/// Says what is wrong with configuration files. What they ask for is held against a router without interfaces.
fn check(files: &[PathBuf]) -> ExitCode {
    let system = match Router::build(volley::features::install, &Sizes::default()) {
        Ok(parts) => System::new(parts.router, Guardian::default()),
        Err(e) => {
            eprintln!("volley: {e}");
            return ExitCode::FAILURE;
        }
    };
    let mut wrong = 0;
    for path in files {
        let name = path.display();
        let faults = match std::fs::read_to_string(path) {
            Err(e) => vec![format!("{name}: {e}")],
            Ok(text) => match config::read(&text, &name.to_string()) {
                Err(faults) => faults.iter().map(ToString::to_string).collect(),
                Ok(wanted) => wanted.faults(&system).iter().map(ToString::to_string).collect(),
            },
        };
        faults.iter().for_each(|fault| eprintln!("{fault}"));
        wrong += faults.len();
    }
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
    if let Err(e) = logging::init(logging::DEFAULT_FILTER, startup.unix.log.as_deref()) {
        eprintln!("volley: {}", startup.about(&["log"], e));
        return ExitCode::FAILURE;
    }
    match daemon::run(&startup, volley::features::install) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("volley: {e}");
            ExitCode::FAILURE
        }
    }
}

fn faulty(faults: &[Fault]) -> ExitCode {
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    eprintln!("volley: not started: mend the configuration first");
    ExitCode::FAILURE
}
