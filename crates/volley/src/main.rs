//! `volley`: the router (`volley run`) and its client (`volley ctl`).

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use control::cli::client;
use control::startup::{Fault, Startup};
use control::{daemon, logging};
use drivers::guardian;

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
        Command::Ctl { socket, json, keep_going, words } => {
            client::run(client::ClientOptions { socket, json, keep_going, words })
        }
    }
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
