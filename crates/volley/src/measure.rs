//! `volley bench`: the tester's command line.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use bench::campaign::{self, Campaign, Procedure, TEMPLATE};
use bench::report;
use bench::testbed::{self, lab};
use bench::traffic::BUILTIN;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Bench {
    /// Run a campaign, and print its report as Markdown.
    Run {
        /// The campaign; "volley bench init" writes one.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Write the results there as well, as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Write a campaign with words beside each key, to be changed.
    Init {
        /// Where to; standard output if it is not given.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show what can be measured, and with what.
    List,
}

pub fn run(what: &Bench) -> ExitCode {
    let done = match what {
        Bench::Run { file, json } => measure(file, json.as_deref()),
        Bench::Init { file: None } => {
            print!("{TEMPLATE}");
            Ok(())
        }
        Bench::Init { file: Some(file) } => init(file),
        Bench::List => {
            println!("routers:");
            bench::dut::Kind::ALL.iter().for_each(|(kind, what)| println!("  {:<20} {what}", kind.name()));
            println!("\ntestbeds:");
            testbed::Kind::ALL.iter().for_each(|(kind, what)| println!("  {:<20} {what}", kind.name()));
            println!("\nprocedures:");
            Procedure::ALL.iter().for_each(|(p, what)| println!("  {:<20} {what}", p.name()));
            println!("\ntraffic:");
            BUILTIN.iter().for_each(|(name, what)| println!("  {name:<20} {what}"));
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("volley bench: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Nobody's file is overwritten.
fn init(file: &Path) -> Result<(), String> {
    let named = |e: std::io::Error| format!("{}: {e}", file.display());
    let mut new = std::fs::File::create_new(file).map_err(named)?;
    new.write_all(TEMPLATE.as_bytes()).map_err(named)
}

fn measure(file: &Path, json: Option<&Path>) -> Result<(), String> {
    // All that can be wrong with the campaign is said before anything is touched.
    let campaign = Campaign::load(file).map_err(|e| e.to_string())?;
    let mut out = match json {
        Some(path) => {
            Some((path, std::fs::File::create(path).map_err(|e| format!("{}: {e}", path.display()))?))
        }
        None => None,
    };
    // Physical ports are in no namespace of the tester's own.
    if campaign.testbed.kind != testbed::Kind::Physical && !lab::is_inside() {
        return Err(lab::enter().to_string());
    }
    let terminal = std::io::stderr().is_terminal();
    let stop = AtomicBool::new(false);
    let results = campaign::run(&campaign, &campaign::Nothing, &stop, &|line| match terminal {
        // What a search does is shown in one line.
        true => eprint!("\r\x1b[K{line}"),
        false if line.starts_with(' ') => {}
        false => eprintln!("{line}"),
    });
    if terminal {
        eprint!("\r\x1b[K");
    }
    let results = results.map_err(|e| e.to_string())?;
    if let Some((path, file)) = &mut out {
        serde_json::to_writer_pretty(file, &results).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    print!("{}", report::markdown(&results));
    Ok(())
}
