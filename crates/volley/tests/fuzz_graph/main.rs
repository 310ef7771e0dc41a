//! The whole graph under arbitrary packets, changes and times: nothing panics, no buffer is lost, sent packets are well-formed, and
//! counters agree. The same scripts run under libFuzzer (`fuzz/`). Here, a fixed set of scripts runs. With `$VOLLEY_FUZZ_SECONDS`, other
//! scripts run for that time (`make fuzz`).

mod link;
mod packet;
mod question;
mod run;
mod script;
mod sent;
mod state;
mod track;
mod world;

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use infra::hash::mix64;
use run::{LIFE, Seen, Worlds};

/// Number of scripts in a test run without `$VOLLEY_FUZZ_SCRIPTS`.
const SCRIPTS: u64 = 1000;
/// All scripts are shorter than this number of bytes.
const LONGEST: u64 = 6000;
/// Maximum number of threads; each has its own worlds, which take 300 MB.
const MOST_THREADS: usize = 8;

/// Returns the script for a seed.
fn script(seed: u64) -> Vec<u8> {
    let len = mix64(seed << 32) % LONGEST;
    (0..len).map(|i| mix64(seed << 32 | (i + 1)) as u8).collect()
}

/// True if these scripts, one after the other, fail in new worlds.
fn fail(scripts: &[Vec<u8>]) -> bool {
    let run = || {
        let mut worlds = Worlds::new(usize::MAX);
        scripts.iter().for_each(|script| drop(worlds.run(script, false)));
    };
    catch_unwind(run).is_err()
}

/// Returns `all` without elements that are not needed for `fails` to return true.
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

/// Returns the scripts in `$VOLLEY_FUZZ`, separated by commas, to look for the cause of a failure.
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

/// Finds a shorter sequence of scripts that still fails, prints it, and panics. The last of `scripts` has failed in a world that ran the
/// others before.
fn explain(seed: u64, mut scripts: Vec<Vec<u8>>) -> ! {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let last = scripts.pop().expect("the one that fails");
    if fail(std::slice::from_ref(&last)) {
        scripts = Vec::new();
    }
    // Shortens the list of earlier scripts, and then the last script itself.
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

/// The seed of a failed script, and the scripts of its world, up to this one.
type Failure = (u64, Vec<Vec<u8>>);

/// Runs the scripts from the seed `first` on. Ends when `enough` returns true; its argument is the number of seeds before the next one.
/// Returns the number of scripts run, and their results.
///
/// Each core, up to [`MOST_THREADS`], has a thread with its own worlds. With `n` threads, each runs every `n`th seed.
/// So on one machine, a world always has the same scripts.
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
                    eprintln!("script {seed} fails; looking for a short one");
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
        // `explain` silences all panics, so it runs only now, when no thread runs scripts any more.
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
        // Not skipped: the given scripts ran.
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
        // Not skipped: scripts ran for the given time.
        return;
    }
    let scripts = number("VOLLEY_FUZZ_SCRIPTS").unwrap_or(SCRIPTS);
    let (_, seen) = run_scripts(0, |before| before >= scripts);
    eprintln!("MEASURED {:.0} scripts a second", scripts as f64 / start.elapsed().as_secs_f64());
    let world = world::World::new(300);
    // The devices use one driver's input node. Every node but those of the other drivers must have had packets.
    let is_input =
        |name: &str| world.router.graph().nodes().iter().any(|node| node.input && node.name == name);
    let idle: Vec<_> = seen.nodes.iter().filter(|(node, n)| **n == 0 && !is_input(node)).collect();
    assert!(idle.is_empty(), "no packet reached {idle:?}");
    let quiet: Vec<_> = seen.punted.iter().filter(|(_, [passed, _])| *passed == 0).collect();
    assert!(quiet.is_empty(), "no packet was punted for {quiet:?}");
    assert!(seen.punted.values().any(|[_, policed]| *policed > 0), "no punted packet was policed");
    assert!(seen.reached6 > 0, "no IPv6 packet reached a resolved station");
    let features = world.router.features(0).into_iter();
    let features = features.flat_map(|(arc, all)| all.into_iter().map(move |(feature, _)| (arc, feature)));
    let off: Vec<_> = features.filter(|feature| !seen.features.contains(feature)).collect();
    assert!(off.is_empty(), "never enabled: {off:?}");
}
