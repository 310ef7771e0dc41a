//! The whole graph under arbitrary packets, changes and times: nothing panics, no buffer is lost, what is sent is
//! well-formed, and counters agree. The same scripts run under libFuzzer (`fuzz/`); here there are as many as a test
//! has time for, always the same, or others for as long as `$VOLLEY_FUZZ_SECONDS` says (`make fuzz`).

mod link;
mod packet;
mod question;
mod run;
mod script;
mod state;
mod track;
mod world;

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use infra::hash::mix64;
use run::{LIFE, Seen, Worlds};

/// Scripts in a test run if `$VOLLEY_FUZZ_SCRIPTS` does not say how many, and bytes of the longest.
const SCRIPTS: u64 = 1000;
const LONGEST: u64 = 6000;
/// Threads with worlds of their own, which take 300 MB each.
const MOST_THREADS: usize = 8;

/// A script made from a number.
fn script(seed: u64) -> Vec<u8> {
    let len = mix64(seed << 32) % LONGEST;
    (0..len).map(|i| mix64(seed << 32 | (i + 1)) as u8).collect()
}

/// Whether these scripts, one after the other, fail in new worlds.
fn fail(scripts: &[Vec<u8>]) -> bool {
    let run = || {
        let mut worlds = Worlds::new(usize::MAX);
        scripts.iter().for_each(|script| drop(worlds.run(script, false)));
    };
    catch_unwind(run).is_err()
}

/// Leaves out of `all` what is not needed for it to fail.
fn shorten<T: Clone>(mut all: Vec<T>, fails: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut chunk = all.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < all.len() {
            let mut shorter = all.clone();
            shorter.drain(at..(at + chunk).min(all.len()));
            if fails(&shorter) {
                all = shorter;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    all
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// The scripts in `$VOLLEY_FUZZ`, between commas, for who looks for the cause of a failure.
fn from_environment() -> Option<Vec<Vec<u8>>> {
    let text = std::env::var("VOLLEY_FUZZ").ok()?;
    let script = |text: &str| {
        let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        (0..text.len()).step_by(2).map_while(byte).collect()
    };
    Some(text.split(',').map(script).collect())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Finds out why the last of these scripts of one world fails, and panics.
fn explain(seed: u64, mut scripts: Vec<Vec<u8>>) -> ! {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let last = scripts.pop().expect("the one that fails");
    if fail(std::slice::from_ref(&last)) {
        scripts = Vec::new();
    }
    // Of those before, and of the script itself.
    let before = shorten(scripts, |some| fail(&[some, std::slice::from_ref(&last)].concat()));
    let short = shorten(last, |some| fail(&[&before[..], &[some.to_vec()]].concat()));
    std::panic::set_hook(hook);
    let all = [before, vec![short]].concat();
    let text: Vec<String> = all.iter().map(|script| hex(script)).collect();
    eprintln!("script {seed} fails, and so does VOLLEY_FUZZ={}", text.join(","));
    let mut worlds = Worlds::new(usize::MAX);
    all.iter().for_each(|script| drop(worlds.run(script, true)));
    panic!("the short script fails only without traces");
}

/// The seed of a script that failed, and the scripts of its world, from the first to this one.
type Failure = (u64, Vec<Vec<u8>>);

/// Runs the scripts from the seed `first` on until `enough` says so of how many went before. Returns how many ran.
///
/// Each core has a thread with worlds of its own, and they take turns with the seeds: on one machine a world has the same
/// scripts each time.
fn run_scripts(first: u64, enough: impl Fn(u64) -> bool + Sync) -> (u64, Seen) {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS));
    let failed = AtomicBool::new(false);
    let run = |thread: usize| -> Result<(u64, Seen), Failure> {
        let (mut worlds, mut n, mut all) = (Worlds::new(LIFE), 0, Seen::default());
        for before in (thread as u64..).step_by(threads) {
            if enough(before) || failed.load(Ordering::Relaxed) {
                break;
            }
            let seed = first + before;
            match catch_unwind(AssertUnwindSafe(|| worlds.run(&script(seed), false))) {
                Ok(seen) => all.add(seen),
                Err(_) => {
                    failed.store(true, Ordering::Relaxed);
                    eprintln!("script {seed} fails; a short one is looked for");
                    return Err((seed, worlds.failed));
                }
            }
            n += 1;
        }
        Ok((n, all))
    };
    let run = &run;
    let ran: Vec<_> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..threads).map(|thread| s.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("panics of scripts are caught")).collect()
    });
    ran.into_iter().fold((0, Seen::default()), |(n, mut all), ran| {
        // No thread runs scripts now, whose panics would be kept quiet.
        let (more, seen) = ran.unwrap_or_else(|(seed, scripts)| explain(seed, scripts));
        all.add(seen);
        (n + more, all)
    })
}

#[test]
fn scripts_do_no_harm() {
    if let Some(scripts) = from_environment() {
        let mut worlds = Worlds::new(usize::MAX);
        scripts.iter().for_each(|script| drop(worlds.run(script, true)));
        // Not skipped: these were to be run.
        return;
    }
    let start = Instant::now();
    if let Some(seconds) = number("VOLLEY_FUZZ_SECONDS") {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Scripts are numbered by 32 bits.
        let first = number("VOLLEY_FUZZ_FROM").unwrap_or(mix64(now.as_nanos() as u64) >> 33);
        let time = Duration::from_secs(seconds);
        let (n, _) = run_scripts(first, |_| start.elapsed() >= time);
        let rate = n as f64 / start.elapsed().as_secs_f64();
        eprintln!("{n} scripts from {first} on, {rate:.0} a second");
        // Not skipped: so many were run as there was time for.
        return;
    }
    let scripts = number("VOLLEY_FUZZ_SCRIPTS").unwrap_or(SCRIPTS);
    let (_, seen) = run_scripts(0, |before| before >= scripts);
    eprintln!("MEASURED {:.0} scripts a second", scripts as f64 / start.elapsed().as_secs_f64());
    // The devices here are none of the drivers', though they come in by the node of one; every other had something to do.
    let idle = |(node, n): &(&&str, &u64)| **n == 0 && !drivers::INPUT_NODES.contains(*node);
    let idle: Vec<_> = seen.nodes.iter().filter(idle).collect();
    assert!(idle.is_empty(), "no packet came to {idle:?}");
    let quiet: Vec<_> = seen.punted.iter().filter(|(_, [passed, _])| *passed == 0).collect();
    assert!(quiet.is_empty(), "no packet went to the main thread because of {quiet:?}");
    assert!(
        seen.punted.values().any(|[_, policed]| *policed > 0),
        "no packet was too many for the main thread"
    );
    assert!(seen.reached6 > 0, "no IPv6 packet went to a station that the router had asked for");
    let features = world::World::new(300).router.features(0).into_iter();
    let features = features.flat_map(|(arc, all)| all.into_iter().map(move |(feature, _)| (arc, feature)));
    let off: Vec<_> = features.filter(|feature| !seen.features.contains(feature)).collect();
    assert!(off.is_empty(), "never switched on: {off:?}");
}
