//! The tester's store: a campaign is interrupted, resumed, reported, and compared with itself.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use scenarios::tester::PATIENT;
use serde_json::Value;
use testkit::netns::Lab;
use testkit::router::binary;

/// A campaign with two frame sizes, so with two results of three trials each.
static CAMPAIGN: LazyLock<String> = LazyLock::new(|| {
    let text = "name = 'kept'\ntrial-seconds = 1\nrepetitions = 3\nwaits = { residual = 0.05, restabilise = 0.05 }\nduts = ['volley']\nprocedures = ['loads']\n\
                        loads = ['5 kfps']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64, 256]\n";
    format!("{text}{PATIENT}")
});

/// Returns the command `volley bench` in a directory, in a process group of its own, as a shell would start it.
fn bench(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("bench").args(words).current_dir(directory).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end. Returns its exit code, its output and its messages.
fn ended(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

fn loads(trials: &str) -> Vec<Value> {
    let all = trials.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    all.filter(|trial| trial["procedure"] == "loads").collect()
}

#[test]
fn an_interrupted_campaign_is_kept_and_resumed() {
    // The tester makes its own namespaces. The lab only checks that namespaces are available.
    let Some(lab) = Lab::new() else { return };
    std::fs::write(lab.dir().join("campaign.toml"), &*CAMPAIGN).expect("a file");
    let run = |words: &[&str]| bench(lab.dir(), &[&["run", "campaign.toml"], words].concat());

    // Ctrl-C on a terminal, during the second result: the whole process group gets the signal.
    let mut child = run(&[]).spawn().expect("the binary runs");
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok) {
        if line.starts_with("2/2") {
            let begun = (0..500).any(|_| {
                std::thread::sleep(Duration::from_millis(20));
                loads(&ended(bench(lab.dir(), &["trials"])).1).iter().any(|t| t["key"]["size"] == 256)
            });
            assert!(begun, "no trial with 256 bytes is in the store");
            // The next trial runs by then.
            std::thread::sleep(Duration::from_millis(400));
            kill_process_group(Pid::from_child(&child), Signal::INT).expect("it runs");
        }
        said += &(line + "\n");
    }
    let mut report = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut report).expect("text");
    assert_eq!(child.wait().expect("it ended").code(), Some(130), "{said}");
    let how = "to resume, repeat the command with --resume (--store volley-bench.db)";
    assert!(said.contains(how), "{said}");
    assert!(report.contains("The campaign is not finished"), "{report}");
    let (code, trials, said) = ended(bench(lab.dir(), &["trials"]));
    let before = loads(&trials);
    assert!(code == Some(0) && before.len() > 3, "{} trials: {said}", before.len());
    // The router did not get the signal: the frames of the last trial came back.
    let last = &before[before.len() - 1]["outcome"];
    let frames = |what: &str| last[what].as_u64().unwrap_or_default();
    assert!(frames("received") * 10 > frames("sent") * 9, "{last}");

    let (code, report, said) = ended(run(&["--resume", "--json", "results.json"]));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("campaign 1 resumed: 1 results are already known"), "{said}");
    assert!(!report.contains("not finished"), "{report}");
    let (_, trials, _) = ended(bench(lab.dir(), &["trials", "volley-bench.db#kept"]));
    let after = loads(&trials);
    // The first result was not measured again.
    let first = |trials: &[Value]| trials.iter().filter(|t| t["key"]["size"] == 64).count();
    assert_eq!(first(&after), first(&before));
    assert!(after.starts_with(&before) && after.len() >= 6, "{} trials", after.len());

    // The report and the JSON from the store are the same as those of the run.
    assert_eq!(ended(bench(lab.dir(), &["report"])).1, report);
    let json = std::fs::read_to_string(lab.dir().join("results.json")).expect("results");
    assert_eq!(ended(bench(lab.dir(), &["report", "volley-bench.db#1", "--json"])).1, json);
    let results: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&results["cells"].as_array().map(Vec::len), &results["failures"]),
        (&Some(2), &Value::Array(vec![]))
    );
    let facts = results["provenance"]["facts"].as_array().expect("facts");
    assert!(facts.iter().any(|fact| fact[0] == "kernel"), "{facts:?}");

    // A campaign is not worse than itself.
    let (code, text, said) = ended(bench(lab.dir(), &["compare", "volley-bench.db", "results.json"]));
    assert_eq!(code, Some(0), "{said}");
    assert!(!text.contains("Other conditions") && !text.contains("**worse**"), "{text}");
    for figure in ["| 64 | median delay at 5 kfps |", "| 256 | loss at 5 kfps |"] {
        assert!(text.contains(figure), "{figure}: {text}");
    }
    let (code, _, said) = ended(bench(lab.dir(), &["compare", "volley-bench.db#9", "results.json"]));
    assert!(code == Some(2) && said.contains("no such campaign: 9; the store has 1 (kept)"), "{said}");
}

#[test]
fn a_resumed_search_continues_after_its_last_repetition() {
    let Some(lab) = Lab::new() else { return };
    let search = CAMPAIGN
        .replace("trial-seconds = 1", "trial-seconds = 0.2")
        .replace("'loads'", "'throughput'")
        .replace("loads = ['5 kfps']\n", "")
        .replace("[64, 256]", "[64]");
    std::fs::write(lab.dir().join("campaign.toml"), search).expect("a file");
    let run = |words: &[&str]| bench(lab.dir(), &[&["run", "campaign.toml"], words].concat());
    let trials = || {
        let text = ended(bench(lab.dir(), &["trials"])).1;
        let all = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        all.filter(|t| t["procedure"] == "throughput" && t["repetition"] == 1).count()
    };

    let mut child = run(&[]).spawn().expect("the binary runs");
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok) {
        if line.starts_with("2/3") {
            kill_process_group(Pid::from_child(&child), Signal::INT).expect("it runs");
        }
        said += &(line + "\n");
    }
    assert_eq!(child.wait().expect("it ended").code(), Some(130), "{said}");
    let before = trials();
    assert!(before > 0, "{said}");
    let (code, _, said) = ended(run(&["--resume", "--json", "results.json"]));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("campaign 1 resumed: 1 results are already known"), "{said}");
    // The first repetition is not measured again.
    assert_eq!(trials(), before);
    let results = std::fs::read_to_string(lab.dir().join("results.json")).expect("results");
    let results: Value = serde_json::from_str(&results).expect("JSON");
    let searches = &results["cells"][0]["measurements"][0]["found"]["result"];
    assert_eq!(searches.as_array().map(Vec::len), Some(3), "{searches}");
}

/// A Python program that locks the store for longer than the tester waits to save a trial.
const HOLDER: &str = "import sqlite3, time; c = sqlite3.connect('volley-bench.db', isolation_level=None); \
                      c.execute('BEGIN IMMEDIATE'); time.sleep(15)";

#[test]
fn a_locked_store_ends_a_campaign_that_can_be_resumed() {
    let Some(lab) = Lab::new() else { return };
    let short = CAMPAIGN.replace("trial-seconds = 1", "trial-seconds = 0.1").replace("[64, 256]", "[64]");
    std::fs::write(lab.dir().join("campaign.toml"), short).expect("a file");
    let mut child = bench(lab.dir(), &["run", "campaign.toml"]).spawn().expect("the binary runs");
    let (mut said, mut holder) = (String::new(), None);
    for line in BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok) {
        if line.starts_with("1/1") {
            let python = Command::new("python3").args(["-c", HOLDER]).current_dir(lab.dir()).spawn();
            holder = Some(python.expect("python3 runs"));
        }
        said += &(line + "\n");
    }
    // Later results are saved, but the campaign is not finished.
    assert_eq!(child.wait().expect("it ended").code(), Some(1), "{said}");
    assert!(said.contains("another program has locked the store") && said.contains("--resume"), "{said}");
    let mut holder = holder.expect("the first result was started");
    holder.kill().and_then(|()| holder.wait()).expect("it ends");
    let (code, _, said) = ended(bench(lab.dir(), &["run", "campaign.toml", "--resume"]));
    assert!(code == Some(0) && said.contains("campaign 1 resumed"), "{said}");
}

#[test]
fn a_campaign_without_results_fails_with_the_reason() {
    let Some(lab) = Lab::new() else { return };
    let dead = "[{ kind = 'command', name = 'dead', start = 'exit 3' }, { kind = 'command', name = 'deaf', configure = 'true' }]";
    let text = CAMPAIGN
        .replace("['volley']", dead)
        .replace("[64, 256]", "[64]")
        .replace("seconds = 1", "seconds = 0.1");
    std::fs::write(lab.dir().join("campaign.toml"), &text).expect("a file");
    let run = || ended(bench(lab.dir(), &["run", "campaign.toml", "--json", "results.json"]));
    let (code, report, said) = run();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.ends_with(
            "nothing was measured: see the failures in the report, or in the store (volley-bench.db)\n"
        ),
        "{said}"
    );
    for why in ["dead: the router did not start", "deaf, rfc2544, 64 bytes: the router forwards nothing"] {
        assert!(report.contains(why), "missing: {why}\nin {report}");
    }
    assert_eq!(ended(bench(lab.dir(), &["report"])).1, report);
    let results = std::fs::read_to_string(lab.dir().join("results.json")).expect("results");
    assert!(results.contains("the router forwards nothing"), "{results}");
    // A campaign with any result succeeds.
    let some = text.replace("{ kind = 'command', name = 'deaf', configure = 'true' }", "'linux'");
    std::fs::write(lab.dir().join("campaign.toml"), some).expect("a file");
    assert_eq!(run().0, Some(0));
}

/// The version of a router changes between two of its turns in a campaign, so the campaign ends without the results of the later turns.
/// When the campaign is resumed, the router is measured anew.
#[test]
fn a_campaign_with_a_changed_router_is_not_finished() {
    let Some(lab) = Lab::new() else { return };
    let (version, steady) = (lab.dir().join("version"), lab.dir().join("steady"));
    let text = CAMPAIGN.replace("['loads']", "['throughput']").replace("loads = ['5 kfps']\n", "");
    let text = text.replace("seconds = 1", "seconds = 0.1").replace("repetitions = 3", "repetitions = 2");
    let duts = format!(
        "[{{ kind = 'command', name = 'new', bridge = true, version = 'test -e {steady} || echo x >> {file}; cat {file}', \
         stop = 'ip link del br0', configure = 'ip link add br0 type bridge && ip link set br0 up && \
         ip link set $BENCH_LEFT_IF master br0 && ip link set $BENCH_RIGHT_IF master br0' }}, 'linux']",
        file = version.display(),
        steady = steady.display()
    );
    let text = text.replace("['volley']", &duts).replace("[64, 256]", "[64]");
    std::fs::write(lab.dir().join("campaign.toml"), text).expect("a file");
    let run = |words: &[&str]| {
        ended(bench(lab.dir(), &[&["run", "campaign.toml", "--json", "r.json"], words].concat()))
    };
    let (code, report, said) = run(&[]);
    assert_eq!(code, Some(1), "{said}");
    let why = "the campaign is not finished: results of new are missing; the failures in the report have the reason";
    assert!(said.contains(why) && said.contains("repeat the command with --resume"), "{said}");
    let conclusion = report.split("## ").nth(1).expect("a section");
    assert!(conclusion.contains("The campaign is not finished"), "{report}");
    assert!(report.contains("new has changed while it was measured"), "{report}");
    assert_eq!(ended(bench(lab.dir(), &["report"])).1, report);

    // The router stays the same from now on. Its old results were those of another router.
    std::fs::write(&steady, "").expect("a file");
    let (code, report, said) = run(&["--resume"]);
    assert!(code == Some(0) && said.contains("campaign 1 resumed: 2 results are already known"), "{said}");
    assert!(said.contains("new has changed since the interruption: its 1 old results are dropped"), "{said}");
    assert!(!report.contains("not finished"), "{report}");
    let json = std::fs::read_to_string(lab.dir().join("r.json")).expect("results");
    let results: Value = serde_json::from_str(&json).expect("JSON");
    let runs = |cell: &Value| cell["measurements"][0]["found"]["result"].as_array().map(Vec::len);
    let all: Vec<_> = results["cells"].as_array().expect("cells").iter().map(runs).collect();
    assert_eq!(all, [Some(2), Some(2)], "{json}");
}

#[test]
fn an_unusable_store_is_refused_before_the_campaign() {
    let Some(lab) = Lab::new() else { return };
    std::fs::write(lab.dir().join("campaign.toml"), &*CAMPAIGN).expect("a file");
    for (store, why) in [
        ("campaign.toml", "campaign.toml: not a store of volley bench: name another file"),
        ("none/x.db", "none/x.db: cannot open the store: check that its directory exists"),
        ("/run/x.db", "/run/x.db: the tester runs with its own /run"),
    ] {
        let (code, report, said) = ended(bench(lab.dir(), &["run", "campaign.toml", "--store", store]));
        assert!(code == Some(1) && report.is_empty() && said.contains(why), "{said}");
    }
    assert_eq!(std::fs::read_to_string(lab.dir().join("campaign.toml")).expect("a file"), *CAMPAIGN);
}

#[test]
fn results_never_overwrite_a_file_of_the_command() {
    let Some(lab) = Lab::new() else { return };
    let text = CAMPAIGN.replace("['volley']", "['linux']").replace("[64, 256]", "[64]");
    let text = text.replace("seconds = 1", "seconds = 0.1");
    std::fs::write(lab.dir().join("campaign.toml"), &text).expect("a file");
    let run = |words: &[&str]| ended(bench(lab.dir(), &[&["run", "campaign.toml"], words].concat()));
    // An output that cannot be written does not stop the others.
    let (code, report, said) = run(&["--html", "/dev/full", "--json", "results.json"]);
    assert!(code == Some(1) && said.contains("volley bench: /dev/full: No space left"), "{said}");
    assert_eq!(ended(bench(lab.dir(), &["report", "results.json"])).1, report);
    for (words, why) in [
        (
            &["--json", "./campaign.toml"][..],
            "./campaign.toml: it is the same file as campaign.toml of this command",
        ),
        (&["--store", "new.db", "--html", "new.db"], "new.db: it is the same file as new.db of this command"),
        (&["--json", "both", "--html", "both"], "both: it is the same file as both of this command"),
        (&["--store", "new.db", "--json", "volley-bench.db"], "volley-bench.db: it is a store"),
    ] {
        let (code, report, said) = run(words);
        assert!(code == Some(1) && report.is_empty() && said.contains(why), "{said}");
    }
    let (code, _, said) = ended(bench(lab.dir(), &["report", "results.json", "--html", "results.json"]));
    assert!(
        code == Some(1) && said.contains("it is the same file as results.json of this command"),
        "{said}"
    );
    assert_eq!(ended(bench(lab.dir(), &["report", "results.json"])).1, report);
    assert_eq!(ended(bench(lab.dir(), &["report"])).1, report);
    assert_eq!(std::fs::read_to_string(lab.dir().join("campaign.toml")).expect("a file"), text);
}
