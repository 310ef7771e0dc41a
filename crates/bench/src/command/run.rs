//! `volley bench run`: a campaign from its file to its report, kept on the way.

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

/// What a program says that was interrupted: 128 and the number of the signal.
const INTERRUPTED: u8 = 128 + SIGINT as u8;

#[derive(Args)]
pub struct Arguments {
    /// The campaign; "volley bench init" writes one.
    #[arg(value_name = "FILE", required_unless_present = "paper")]
    file: Option<PathBuf>,
    /// A paper's campaign in place of a file; "volley bench list" shows them. As it is, it takes days, and hardware such as theirs.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    paper: Option<String>,
    /// The testbed, the meters and the routers (testbed, meter, duts) of this file, as far as it has them, in place of the campaign's.
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// In seconds: the quick profile, whatever times and repetitions the campaign has.
    #[arg(long)]
    quick: bool,
    /// Where each trial and each result is kept. It may hold any number of campaigns.
    #[arg(long, value_name = "FILE", default_value = STORE)]
    store: PathBuf,
    /// Go on with the last campaign in the store that asks for the same and was interrupted.
    #[arg(long)]
    resume: bool,
    /// Write the results there as well, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report there as well, as one page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The code that the program ends with, unless the campaign is refused.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let Arguments { file, machine, store: path, resume, json: json_to, html: html_to, .. } = arguments;
    // All that can be wrong with campaign and files is said before anything is touched.
    let asked = asked(arguments).map_err(|e| Failure(e.to_string()))?;
    asked.check_machine().map_err(|e| Failure(e.to_string()))?;
    let campaign = asked.campaign();
    [file.as_ref(), machine.as_ref(), Some(path), json_to.as_ref(), html_to.as_ref()]
        .into_iter()
        .flatten()
        .try_for_each(|p| lab::check_path(p))?;
    // Physical ports are in no namespace of the tester's own.
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
        // What a search does is shown in one line.
        true => tell(&format!("\r\x1b[K{line}")),
        false if line.starts_with(' ') => {}
        false => tell(&format!("{line}\n")),
    });
    if terminal {
        tell("\r\x1b[K");
    }
    let stopped = stop.load(Ordering::Relaxed);
    // What is in the store is what is reported: of the results before an interruption and those after it, and after whatever failure.
    let kept = match &ended {
        Ok(_) if !stopped => recorder.finish(),
        _ => Ok(()),
    };
    let results = store.results(recorder.id())?;
    // A file that cannot be written takes nothing from the others, nor from the report.
    let written = outputs.into_iter().map(|(file, made)| file.write(&made(&results)?)).collect::<Vec<_>>();
    let all = written.into_iter().chain([print(&report::markdown(&results)), ended.map(drop), kept]);
    let mut failures: Vec<String> = all.filter_map(|one| one.err().map(|e| e.0)).collect();
    if stopped {
        failures.push(format!(
            "interrupted. What was measured is kept; the same command with --resume goes on (--store {})",
            path.display()
        ));
    } else if results.is_empty() && failures.is_empty() {
        failures.push(format!(
            "nothing was measured: the report says why, and so does the store ({})",
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

/// What is to be measured, and on what.
fn asked(arguments: &Arguments) -> Result<Asked, Fault> {
    let Arguments { file, paper, machine, quick, .. } = arguments;
    let machine = machine.as_deref();
    let asked = match (file, paper) {
        (Some(file), _) => Asked::file(file, machine)?,
        (None, Some(name)) => Asked::paper(name, machine)?,
        (None, None) => return Err(Fault("a campaign's FILE, or --paper NAME".into())),
    };
    Ok(if *quick { asked.miniature() } else { asked })
}

/// The first signal ends the campaign after the trial that runs, the second one ends the tester at once.
fn stop_by_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: what is registered first sees the flag as the signals before have left it.
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
            tell(&format!("campaign {id} goes on; known already: {known} results\n"));
            return Ok(recorder);
        }
        tell("the store has no campaign that asks for the same and was interrupted: it begins\n");
    }
    store.begin(&head)
}
