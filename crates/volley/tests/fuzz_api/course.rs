//! Sends inputs to a running router, one seed after the other, while another client uses the router. Checks that the router does not panic,
//! that its memory does not grow, and that it answers the other client.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use infra::hash::mix64;
use testkit::router::Router;

/// The time of a test run without `$VOLLEY_FUZZ_SECONDS`.
const USUAL: Duration = Duration::from_secs(20);
/// Number of rounds after which the router gets its first configuration again. Without this, the objects that the inputs create would make
/// the router grow.
const ROUNDS: u64 = 200;
/// Limit on the growth of the router's memory until the end, in KiB. The journal keeps objects of a thousand changes, so that the memory
/// goes up and down by 60 MiB within some minutes.
const MORE_MEMORY: u64 = 128 << 10;
/// Limit on the growth of the router's number of descriptors until the end.
const MORE_FILES: usize = 8;
/// Time limit for an answer to the other client. Removing all objects that the inputs created takes a part of this time in a build without
/// optimization.
const LONGEST: Duration = Duration::from_secs(5);

/// The results of a test run.
pub struct Course {
    first: u64,
    took: Duration,
    /// Memory in KiB and number of descriptors, after the first rounds and at the end.
    usage: [(u64, usize); 2],
    /// Longest time for an answer to the other client.
    waited: Duration,
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs a test. Calls `round` with one seed after the other. After every [`ROUNDS`] rounds, calls `reset`, which restores the router's
/// first configuration. Meanwhile `other` runs as another client, until the flag that it gets is set. `other` returns its longest time for
/// an answer.
pub fn run(
    router: &mut Router,
    mut round: impl FnMut(u64),
    mut reset: impl FnMut(&Router),
    other: impl FnOnce(&AtomicBool) -> Duration + Send,
) -> Course {
    let seconds = number("VOLLEY_FUZZ_SECONDS");
    let time = seconds.map_or(USUAL, Duration::from_secs);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let random = if seconds.is_some() { mix64(now.as_nanos() as u64) >> 33 } else { 0 };
    let first = number("VOLLEY_FUZZ_FROM").unwrap_or(random);
    // One after the other: two routers and four clients share few cores.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let done = AtomicBool::new(false);
    let (at, mut usages) = (Cell::new(first), Vec::new());
    let began = Instant::now();
    let _failing = Failing(&at);
    let waited = std::thread::scope(|s| {
        let other = s.spawn(|| other(&done));
        // Ends the other client, too, if this one fails.
        let ends = Done(&done);
        while began.elapsed() < time || usages.len() < 3 || at.get() % ROUNDS != first % ROUNDS {
            round(at.get());
            assert!(router.running(), "the router has ended");
            at.set(at.get() + 1);
            if at.get() % ROUNDS == first % ROUNDS {
                reset(router);
                usages.push(usage(router));
            }
        }
        drop(ends);
        other.join().expect("a client that does nothing wrong is served")
    });
    let log = router.log();
    assert!(!log.contains("panicked"), "{log}");
    // The first rounds fill what stays: the journal, the log, the trace.
    Course { first, took: began.elapsed(), usage: [usages[1], usages[usages.len() - 1]], waited }
}

impl Course {
    /// Prints a line about the run: `inputs` is the number of inputs, and `did` describes their effects. Then checks that the router's
    /// memory and descriptors have not grown, and that the other client was answered in time.
    pub fn check(&self, inputs: u64, did: &str) {
        let [before, after] = self.usage;
        eprintln!(
            "MEASURED {inputs} inputs from {} on, {:.0} a second; {did}; {} KiB and {} files, before {} and {}; another client waited \
             {:.0} ms at most",
            self.first,
            inputs as f64 / self.took.as_secs_f64(),
            after.0,
            after.1,
            before.0,
            before.1,
            self.waited.as_secs_f64() * 1e3
        );
        assert!(after.0 < before.0 + MORE_MEMORY, "the router grows: {} KiB, then {}", before.0, after.0);
        assert!(after.1 <= before.1 + MORE_FILES, "descriptors stay open: {}, then {}", before.1, after.1);
        assert!(self.waited < LONGEST, "another client waited {:?}", self.waited);
    }
}

/// Returns the router's resident memory in KiB, and its number of file descriptors.
fn usage(router: &Router) -> (u64, usize) {
    let process = format!("/proc/{}", router.id());
    let status = std::fs::read_to_string(format!("{process}/status")).expect("the router runs");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux shows it");
    let memory = memory.trim().trim_end_matches(" kB").parse().expect("a number");
    (memory, std::fs::read_dir(format!("{process}/fd")).expect("the router runs").count())
}

/// Prints, if the test fails, the seed from which on the inputs fail.
struct Failing<'s>(&'s Cell<u64>);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the inputs from about VOLLEY_FUZZ_FROM={} on fail", self.0.get());
        }
    }
}

/// Tells the other client to end when this value is dropped.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
