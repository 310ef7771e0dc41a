//! `volley bench`: runs, writes and lists campaigns, and reports and compares their results.

mod documents;
mod output;
mod run;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::campaign::{PAPERS, Paper, Procedure, Results, TEMPLATE};
use bench::compare::{compare, join};
use bench::report;
use bench::stats::Bootstrap;
use bench::store;
use bench::testbed;
use bench::traffic::{BUILTIN, Captured, Keep, captured, told};
use bench::trial::Failure;
use clap::{Parser, Subcommand};
use output::Output;

/// Default store.
const STORE: &str = "volley-bench.db";

/// Measure routers as RFC 2544 and its successors do.
#[derive(Parser)]
#[command(name = "volley-bench", version)]
pub struct Arguments {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Run a campaign and print its report as Markdown. Ctrl-C ends it after the current trial; all results are kept. Exit code: 0 if
    /// something was measured; 1 if nothing was, or the campaign was refused or failed; 130 if it was interrupted.
    Run(run::Arguments),
    /// Print the report of a campaign, or of several campaigns together, as Markdown.
    Report {
        /// Results as a JSON file, or a store. A store's last campaign is used, unless a number or name is appended, as in
        /// volley-bench.db#3.
        #[arg(value_name = "RESULTS", default_value = STORE)]
        results: Vec<PathBuf>,
        /// Print the results as JSON instead.
        #[arg(long)]
        json: bool,
        /// Also write the report to this file, as one page with plots.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// Show published results beside the measured ones, even if the campaign does not ask for them.
        #[arg(long)]
        published: bool,
    },
    /// Compare two results and show which figures are better or worse. Exit code: 1 if a figure is worse beyond the noise, 2 on errors.
    Compare {
        /// Base results as a JSON file, or a store. A store's last campaign is used, unless a number or name is appended, as in
        /// volley-bench.db#3.
        #[arg(value_name = "BASE")]
        base: PathBuf,
        /// New results, given in the same way.
        #[arg(value_name = "NEW")]
        new: PathBuf,
        /// Print the comparison as JSON instead.
        #[arg(long)]
        json: bool,
    },
    /// Print the record of each trial of a campaign, one line of JSON each.
    Trials {
        /// A store. Its last campaign is used, unless a number or name is appended, as in volley-bench.db#3.
        #[arg(value_name = "STORE", default_value = STORE)]
        store: PathBuf,
    },
    /// Write a commented campaign to edit.
    Init {
        /// Write a paper's campaign instead; "volley bench list" shows the names.
        #[arg(long, value_name = "NAME")]
        paper: Option<String>,
        /// Output file; standard output by default.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Turn a capture (pcap, pcapng) into a traffic definition for campaigns, with the same mix of frame sizes, IP versions and
    /// protocols.
    Traffic {
        /// The capture. The headers of its packets are enough.
        #[arg(value_name = "CAPTURE")]
        capture: PathBuf,
        /// Name of the traffic in campaigns; the file's name by default.
        #[arg(long)]
        name: Option<String>,
        /// Keep addresses and ports. By default addresses are those of the testbed, and ports are random (RFC 4814).
        #[arg(long)]
        addresses: bool,
        /// Keep VLAN tags, for routers with VLAN interfaces.
        #[arg(long)]
        vlans: bool,
    },
    /// List routers, testbeds, procedures, traffic and papers.
    List,
    /// Write manual pages and shell completions into a directory, for packagers.
    #[command(hide = true)]
    Documents {
        /// The directory.
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let done = match &arguments.what {
        Bench::Run(arguments) => {
            return run::run(arguments).map_or_else(|e| failed(&e, 1), ExitCode::from);
        }
        Bench::Report { results, json, html, published } => show(results, *json, html.as_deref(), *published),
        Bench::Compare { base, new, json } => {
            let worse = versus(base, new, *json);
            return worse.map_or_else(|e| failed(&e, 2), |worse| ExitCode::from(u8::from(worse)));
        }
        Bench::Trials { store } => trials(store),
        Bench::Init { paper, file } => init(paper.as_deref(), file.as_deref()),
        Bench::Traffic { capture, name, addresses, vlans } => {
            traffic(capture, name.as_deref(), Keep { addresses: *addresses, vlans: *vlans })
        }
        Bench::List => list(),
        Bench::Documents { directory } => {
            documents::write(directory).map_err(|e| Failure(format!("{}: {e}", directory.display())))
        }
    };
    done.map_or_else(|e| failed(&e, 1), |()| ExitCode::SUCCESS)
}

fn failed(e: &Failure, code: u8) -> ExitCode {
    tell(&format!("volley bench: {e}\n"));
    ExitCode::from(code)
}

/// Writes progress to standard error. Errors are ignored: the campaign continues even if the terminal is gone.
fn tell(text: &str) {
    _ = io::stderr().write_all(text.as_bytes());
}

/// Prints to standard output. A broken pipe is no error: the reader may have stopped early.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| Failure(format!("standard output: {e}"))),
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure(format!("JSON: {e}")))?;
    Ok(text + "\n")
}

/// Returns the report as one HTML page.
fn page(results: &Results) -> Result<String, Failure> {
    report::html(results).map_err(|e| Failure(format!("the page: {e}")))
}

fn show(operands: &[PathBuf], as_json: bool, html: Option<&Path>, published: bool) -> Result<(), Failure> {
    let all = operands.iter().map(|operand| store::load(operand)).collect::<Result<Vec<_>, _>>()?;
    let mut results = join(all)?;
    results.campaign.published |= published && !as_json;
    let files: Vec<&Path> = operands.iter().map(PathBuf::as_path).collect();
    let page = html.map(|path| Output::new(path, &files)?.write(&page(&results)?));
    print(&if as_json { json(&results)? } else { report::markdown(&results) })?;
    page.unwrap_or(Ok(()))
}

fn versus(base: &Path, new: &Path, as_json: bool) -> Result<bool, Failure> {
    let comparison = compare(&store::load(base)?, &store::load(new)?, &Bootstrap::default());
    if comparison.rows.is_empty() {
        let both = format!("{} and {}", base.display(), new.display());
        return Err(Failure(format!(
            "{both} have no figure in common: both need the same router, traffic, size and procedure"
        )));
    }
    print(&if as_json { json(&comparison)? } else { comparison.markdown() })?;
    Ok(comparison.is_worse())
}

fn trials(operand: &Path) -> Result<(), Failure> {
    let (store, id) = store::open(operand)?;
    store.trials(id, &mut |record| print(&format!("{record}\n")))
}

/// Writes a campaign to a new file or to standard output. Never overwrites a file.
fn init(paper: Option<&str>, file: Option<&Path>) -> Result<(), Failure> {
    let text = match paper {
        Some(name) => Paper::named(name).map_err(|e| Failure(e.to_string()))?.text,
        None => TEMPLATE,
    };
    let Some(file) = file else { return print(text) };
    let named = |e: io::Error| Failure(format!("{}: {e}", file.display()));
    let mut new = std::fs::File::create_new(file).map_err(named)?;
    new.write_all(text.as_bytes()).map_err(named)
}

/// Makes a traffic definition from a capture and prints it. Reports on standard error how the traffic differs from the capture.
fn traffic(capture: &Path, name: Option<&str>, keep: Keep) -> Result<(), Failure> {
    let of_file = || capture.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or_else(of_file).unwrap_or_default();
    let Captured { traffic, frames, longer, left_out } =
        captured(capture, &name, keep).map_err(|e| Failure(e.to_string()))?;
    if !left_out.is_empty() {
        tell(&format!("of {frames} frames, these were skipped: {}\n", told(&left_out)));
    }
    if longer > 0 {
        tell(&format!("{longer} of {frames} frames were enlarged to make room for the tester's stamp\n"));
    }
    print(&traffic.toml().map_err(|e| Failure(e.to_string()))?)
}

fn list() -> Result<(), Failure> {
    let mut text = String::new();
    let mut section = |title: &str, lines: &mut dyn Iterator<Item = (&str, &str)>| {
        text += &format!("{title}:\n");
        lines.for_each(|(name, what)| text += &format!("  {name:<22} {what}\n"));
        text += "\n";
    };
    section("routers", &mut bench::dut::Kind::ALL.iter().map(|(kind, what)| (kind.name(), *what)));
    section("testbeds", &mut testbed::Kind::ALL.iter().map(|(kind, what)| (kind.name(), *what)));
    section("procedures", &mut Procedure::ALL.iter().map(|(procedure, what)| (procedure.name(), *what)));
    section("traffic", &mut BUILTIN.into_iter());
    section("papers", &mut PAPERS.iter().map(|paper| (paper.name, paper.what)));
    print(text.trim_end())?;
    print("\n")
}
