//! `volley bench run`: reads a campaign, runs it, stores each result at once, and writes the report.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bench::campaign::{self, Asked, Campaign, Fault, Results};
use bench::report;
use bench::store::{Recorder, Store};
use bench::testbed::{self, lab};
use bench::trial::Failure;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::output::Output;
use super::{STORE, json, page, print, tell};

/// Exit code after an interruption: 128 plus the number of SIGINT, also after SIGTERM.
const INTERRUPTED: u8 = 128 + SIGINT as u8;

#[derive(Args)]
pub struct Arguments {
    /// The campaign; "volley bench init" writes one.
    #[arg(value_name = "FILE", required_unless_present = "paper")]
    file: Option<PathBuf>,
    /// Run a paper's campaign instead of a file; "volley bench list" shows the names. It takes days, and needs hardware like the authors'.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    paper: Option<String>,
    /// Replace the campaign's testbed, meters and routers (testbed, meter, duts) with those that this file has.
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Use the quick profile, with times of a few seconds, instead of the campaign's times and repetitions.
    #[arg(long)]
    quick: bool,
    /// Store for each trial and result. It can hold any number of campaigns.
    #[arg(long, value_name = "FILE", default_value = STORE)]
    store: PathBuf,
    /// Resume the store's last unfinished campaign with the same contents as this one.
    #[arg(long)]
    resume: bool,
    /// Also write the results to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the report to this file, as one page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the campaign and returns the exit code. Returns an error if the campaign cannot begin, or its results cannot be read from the
/// store.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let Arguments { file, machine, store: path, resume, json: json_to, html: html_to, .. } = arguments;
    // Report all faults of campaign and files before any change to the machine.
    let asked = asked(arguments).map_err(|e| Failure(e.to_string()))?;
    asked.check_machine().map_err(|e| Failure(e.to_string()))?;
    let campaign = asked.campaign();
    [file.as_ref(), machine.as_ref(), Some(path), json_to.as_ref(), html_to.as_ref()]
        .into_iter()
        .flatten()
        .try_for_each(|p| lab::check_path(p))?;
    // Virtual links need the tester's own namespace; physical ports must stay in this one.
    if campaign.testbed.kind != testbed::Kind::Physical && !lab::is_inside() {
        return Err(lab::enter());
    }
    let stop = stop_by_signals()?;
    let store = Store::open(path)?;
    let mut files: Vec<&Path> =
        [file, machine].into_iter().flatten().map(PathBuf::as_path).chain([&**path]).collect();
    let mut outputs = Vec::new();
    for (to, made) in [(json_to, json as fn(&Results) -> _), (html_to, page)] {
        let Some(to) = to else { continue };
        outputs.push((Output::new(to, &files)?, made));
        files.push(to);
    }
    let recorder = begin(&store, campaign, *resume)?;
    let terminal = std::io::stderr().is_terminal();
    let ended = campaign::run(campaign, &recorder, &stop, &|line| match terminal {
        // Show progress in a single line.
        true => tell(&format!("\r\x1b[K{line}")),
        false if line.starts_with(' ') => {}
        false => tell(&format!("{line}\n")),
    });
    if terminal {
        tell("\r\x1b[K");
    }
    let stopped = stop.load(Ordering::Relaxed);
    // Report from the store: it has the results from before and after an interruption, even if the campaign failed.
    let kept = match &ended {
        Ok(_) if !stopped => recorder.finish(),
        _ => Ok(()),
    };
    let results = store.results(recorder.id())?;
    // One unwritable file must not prevent the other files or the report.
    let written = outputs.into_iter().map(|(file, made)| file.write(&made(&results)?)).collect::<Vec<_>>();
    let all = written.into_iter().chain([print(&report::markdown(&results)), ended.map(drop), kept]);
    let mut failures: Vec<String> = all.filter_map(|one| one.err().map(|e| e.0)).collect();
    if stopped {
        failures.push(format!(
            "interrupted; the results are kept: to resume, repeat the command with --resume (--store {})",
            path.display()
        ));
    } else if results.is_empty() && failures.is_empty() {
        failures.push(format!(
            "nothing was measured: see the failures in the report, or in the store ({})",
            path.display()
        ));
    }
    for why in &failures {
        tell(&format!("volley bench: {why}\n"));
    }
    Ok(match (stopped, failures.as_slice()) {
        (true, _) => INTERRUPTED,
        (false, []) => 0,
        (false, _) => 1,
    })
}

/// Reads the campaign and the machine file.
fn asked(arguments: &Arguments) -> Result<Asked, Fault> {
    let Arguments { file, paper, machine, quick, .. } = arguments;
    let machine = machine.as_deref();
    let asked = match (file, paper) {
        (Some(file), _) => Asked::file(file, machine)?,
        (None, Some(name)) => Asked::paper(name, machine)?,
        (None, None) => return Err(Fault("no campaign given: pass FILE or --paper NAME".into())),
    };
    Ok(if *quick { asked.miniature() } else { asked })
}

/// Installs signal handlers: the first signal ends the campaign after the current trial, the second one ends the tester at once.
fn stop_by_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the shutdown handler must see the flag before this signal sets it.
        flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|e| Failure(format!("signals: {e}")))?;
    }
    Ok(stop)
}

fn begin<'a>(store: &'a Store, campaign: &Campaign, resume: bool) -> Result<Recorder<'a>, Failure> {
    let head = campaign::head(campaign);
    if resume {
        if let Some(recorder) = store.resume(&head)? {
            let (id, known) = (recorder.id(), recorder.known_before());
            tell(&format!("campaign {id} resumed: {known} results are already known\n"));
            return Ok(recorder);
        }
        tell("the store has no unfinished campaign equal to this one: starting a new one\n");
    }
    store.begin(&head)
}
