//! The tester against an independent forwarder in C with known rate, queue, delay, loss, duplicates, order and damage
//! (`tools/forwarder.c`), on a quiet and on a busy machine.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use scenarios::tester::{Campaign, Trials, count, counter, loads};
use serde_json::Value;
use testkit::netns::Lab;

/// Held while a test measures: the tests need the whole machine.
static MACHINE: Mutex<()> = Mutex::new(());

fn machine() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles the forwarder into the lab's directory.
fn forwarder(lab: &Lab) -> PathBuf {
    let program = lab.dir().join("forwarder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/forwarder.c");
    let out = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).output().expect("cc runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    program
}

/// Returns the forwarder with these properties, as a router of a campaign.
fn dut(lab: &Lab, keys: &str) -> String {
    let program = forwarder(lab).display().to_string();
    format!(
        "{{kind = 'command', name = 'known', bridge = true, ready = 'it forwards', counters = '{program} $BENCH_DIR/known',
          start = 'exec taskset -c $BENCH_CORES {program} $BENCH_LEFT_IF $BENCH_RIGHT_IF $BENCH_DIR/known {keys}'}}"
    )
}

/// Programs that keep all processors busy; they end when this is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn new() -> Busy {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let spin = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh runs");
        Busy((0..cores).map(spin).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().and_then(|()| child.wait()).expect("the program ends");
        }
    }
}

fn is_valid(trial: &Value) -> bool {
    trial["outcome"]["invalid"].as_array().is_some_and(Vec::is_empty)
}

fn load(trial: &Value) -> f64 {
    trial["outcome"]["request"]["load_fps"].as_f64().expect("a load")
}

fn lost(trial: &Value) -> u64 {
    count(&trial["outcome"], "intended") - count(&trial["outcome"], "received")
}

/// Rate of the known router in frames per second.
const RATE: f64 = 20_000.0;
/// Queue of the known router, in frames.
const QUEUE: f64 = 200.0;
/// Sending time of a trial in seconds.
const SECONDS: f64 = 0.5;

/// Measures the throughput of the known router, and returns the measurement and all trials.
fn throughput(lab: &Lab) -> (Value, Trials) {
    let head = format!(
        "name = 'known'\nvalidity = {{}}\ntrial-seconds = {SECONDS}\nwaits = {{ residual = 0.1, restabilise = 0.02 }}\nrepetitions = 1\n\
         procedures = ['throughput']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [128]\n"
    );
    let campaign = Campaign::write(lab, &head, &dut(lab, &format!("rate={RATE} queue={QUEUE}")), "");
    let results = campaign.run();
    let measurement = results["cells"][0]["measurements"][0].clone();
    (measurement, campaign.trials().of_procedures())
}

/// Checks that valid trials agree with the rate and the queue of the known router. With its queue of 200 frames, it
/// survives a slightly higher load for the time of a trial.
fn valid_trials_are_right(trials: &Trials) {
    for trial in trials.0.iter().filter(|trial| is_valid(trial)) {
        let (load, lost) = (load(trial), lost(trial));
        assert!(load > RATE * 0.995 || lost == 0, "{lost} frames lost at {load}: {trial}");
        let excess = (load - RATE) * SECONDS;
        assert!(excess < QUEUE * 1.1 || lost > 0, "no frame lost at {load}: {trial}");
        // Frames beyond rate and queue are lost. The tolerance is for frames that leave late because the tester was
        // absent for a moment.
        let expected = (excess - QUEUE).max(0.0);
        assert!((lost as f64 - expected).abs() <= 100.0 + 0.01 * expected, "{lost}, not {expected}: {trial}");
    }
}

/// Checks the throughput of each search. It must not be too high. If it is too low, the result must say that the tester was the limit.
fn results_are_right_or_marked(measurement: &Value) {
    let limited = measurement["limited_by_tester"] == true;
    for search in measurement["found"]["result"].as_array().expect("searches") {
        let found = search["throughput_fps"].as_f64().unwrap_or(0.0);
        assert!(found < (RATE + QUEUE / SECONDS) * 1.02, "too high: {search}");
        assert!(found > RATE * 0.98 || limited, "too low, and not marked: {search}");
    }
}

#[test]
fn the_throughput_of_a_known_router_is_found() {
    let Some(lab) = Lab::new() else { return };
    let _alone = machine();
    let (measurement, trials) = throughput(&lab);
    valid_trials_are_right(&trials);
    results_are_right_or_marked(&measurement);
}

#[test]
fn a_busy_machine_makes_trials_invalid_not_results_wrong() {
    let Some(lab) = Lab::new() else { return };
    let _alone = machine();
    let busy = Busy::new();
    let head = "name = 'known'\nvalidity = {}\ntrial-seconds = 0.5\nwaits = { residual = 0.1, restabilise = 0.02 }\nrepetitions = 6\n\
                procedures = ['loads']\nloads = ['15000 fps']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [128]\n";
    let campaign = Campaign::write(&lab, head, &dut(&lab, &format!("rate={RATE} queue={QUEUE}")), "");
    // The self-test may find that nothing can be measured, and says so.
    let out = campaign.spawn(&lab.host("t"), &[]).finish(scenarios::tester::LONG);
    drop(busy);
    let trials = campaign.trials().of_procedures();
    valid_trials_are_right(&trials);
    let invalid = trials.0.iter().filter(|trial| !is_valid(trial)).count();
    match trials.0.len() {
        0 => assert!(out.stderr.contains("the tester alone"), "{out}"),
        all => assert!(invalid * 10 >= all, "{invalid} of {all} are invalid"),
    }
}

/// Runs one load through the forwarder with these properties. Returns the results, and the trials of the load.
fn given(lab: &Lab, keys: &str, traffic: &str) -> (Value, Trials) {
    let head = format!(
        "name = 'known'\nvalidity = {{}}\ntrial-seconds = 1\nwaits = {{ residual = 0.5, restabilise = 0.02 }}\nrepetitions = 1\n\
         procedures = ['loads']\nloads = ['5000 fps']\n{traffic}"
    );
    let campaign = Campaign::write(lab, &head, &dut(lab, keys), "");
    let results = campaign.run();
    assert_eq!(results["failures"], Value::Array(Vec::new()));
    (results, campaign.trials().of_procedures())
}

const STAMPED: &str = "[[test]]\ntraffic = 'rfc2544'\nsizes = [128]\n";
const FLOOD: &str = "[[test]]\ntraffic = 'flood'\nsizes = [128]\n[[traffic]]\nname = 'flood'\n[[traffic.flows]]\nname = 'all'\n\
                     mark = 'flood'\nload = { share = 1.0 }\nframes = [{ family = 'ipv4' }]\n";

/// The mean delay that the tester measures is at most 1 µs below the true mean, and less than 1 ms above it, the limit for a valid trial.
/// The minimum is at most 1 µs below the forwarder's fixed delay. Measurements with invalid trials are skipped.
#[test]
fn delays_of_a_known_router_are_found() {
    let Some(lab) = Lab::new() else { return };
    let _alone = machine();
    for (delay, jitter) in [(200_000, 0), (5_000_000, 500_000)] {
        let (results, trials) = given(&lab, &format!("delay={delay} jitter={jitter}"), STAMPED);
        let run = &loads(&results, "known")[0]["runs"][0];
        if trials.0.iter().any(|trial| !is_valid(trial)) {
            eprintln!("the machine did not let the tester measure a delay of {delay} ns: {run}");
            continue;
        }
        let figure = |name: &str| run["delays"]["figures"][name].as_f64().expect("a figure");
        let truth = counter(&results, "delayed") as f64 / counter(&results, "left") as f64;
        let mean = figure("mean_ns");
        assert!((truth - 1e3..truth + 1e6).contains(&mean), "{mean} ns, not {truth} ns: {run}");
        assert!(figure("minimum_ns") >= f64::from(delay) - 1e3, "{run}");
        // Half of the frames wait less than a tenth of the limit.
        let median = figure("typical_ns") - f64::from(delay) - f64::from(jitter) / 2.0;
        assert!(median < truth - f64::from(delay) - f64::from(jitter) / 2.0 + 1e5, "{run}");
    }
}

#[test]
fn loss_duplicates_order_and_damage_are_counted_exactly() {
    let Some(lab) = Lab::new() else { return };
    let _alone = machine();
    for (traffic, mark) in [(STAMPED, "stamped"), (FLOOD, "flood")] {
        // The products of two of these primes exceed the number of frames: nothing happens twice to a frame.
        let (results, trials) =
            given(&lab, "after=400 drop=101 twice=103 swap=107 flip=109 cut=113 sum=127", traffic);
        let counted = |name| counter(&results, name);
        let of = |what| trials.sum(0, what);
        let damaged = |what: &str| {
            let flows = trials.0.iter().flat_map(|trial| trial["flows"].as_array().expect("flows"));
            flows.map(|flow| count(&flow["damaged"], what)).sum::<u64>()
        };
        assert_eq!((of("sent"), trials.foreign()), (counted("came"), 0), "{mark}");
        assert_eq!(damaged("length"), counted("cut"), "{mark}");
        assert_eq!(damaged("checksum"), counted("flipped") + counted("summed"), "{mark}");
        assert_eq!((damaged("ttl"), damaged("payload")), (0, 0), "{mark}");
        assert_eq!(of("duplicated"), counted("doubled"), "{mark}");
        assert_eq!(of("reordered"), counted("swapped"), "{mark}");
        let lost = ["dropped", "cut", "flipped", "summed"].map(counted).iter().sum::<u64>();
        assert_eq!(of("sent") - of("received"), lost, "{mark}");
        assert!(counted("dropped") > 40 && counted("doubled") > 40 && counted("swapped") > 40, "{results}");
    }
}
