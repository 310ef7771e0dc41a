//! Short campaigns of the tester with real routers. The tests check that the results are plausible, not how high they are.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use scenarios::browser::{self, Media, Seen};
use scenarios::tester::{Campaign, PATIENT, count, loads};
use serde_json::Value;
use testkit::netns::Lab;
use testkit::router::binary;

/// Runs `volley bench` with these arguments. Returns whether it succeeded, its output and its messages.
fn bench(words: &[&str]) -> (bool, String, String) {
    let out = Command::new(binary()).arg("bench").args(words).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.success(), text(&out.stdout), text(&out.stderr))
}

/// Checks that no more frames were received than sent, and no more sent than intended.
fn conserved(outcome: &Value) {
    let [received, sent, intended] = ["received", "sent", "intended"].map(|name| outcome[name].as_u64());
    assert!(received <= sent && sent <= intended && intended > Some(0), "{outcome}");
}

/// Runs a campaign of short trials and checks that nothing failed. Returns its report and its results, and writes
/// `report.html`.
fn campaign(lab: &Lab, text: &str) -> (String, Value) {
    let (file, json) = (lab.dir().join("campaign.toml"), lab.dir().join("results.json"));
    let head = "name = 'ci'\ntrial-seconds = 0.1\nrepetitions = 1\nwaits = { residual = 0.02, restabilise = 0.02 }\n";
    std::fs::write(&file, format!("{head}{text}{PATIENT}")).expect("a file");
    let (store, html) = (lab.dir().join("store.db"), lab.dir().join("report.html"));
    let [file, json_to, store, html] = [&file, &json, &store, &html].map(|path| path.to_string_lossy());
    let (ok, report, said) = bench(&["run", &file, "--json", &json_to, "--store", &store, "--html", &html]);
    assert!(ok, "{said}");
    let results: Value = serde_json::from_slice(&std::fs::read(&json).expect("results")).expect("JSON");
    // Some routers are too fast: the tester cannot overload them. That is no failure here.
    let failed = list(&results["failures"], "failures").iter().filter_map(Value::as_str);
    let failed: Vec<_> = failed.filter(|why| !why.contains("it was not overloaded")).collect();
    assert!(failed.is_empty(), "{failed:?} {report}");
    (report, results)
}

/// Returns the result of a procedure.
fn found<'a>(cell: &'a Value, procedure: &str) -> &'a Value {
    let all = cell["measurements"].as_array().expect("measurements");
    let one = all.iter().map(|m| &m["found"]).find(|f| f["procedure"] == procedure);
    &one.unwrap_or_else(|| panic!("no {procedure}: {cell}"))["result"]
}

fn list<'a>(value: &'a Value, what: &str) -> &'a [Value] {
    value.as_array().unwrap_or_else(|| panic!("{what}: {value}"))
}

#[test]
fn the_kernel_and_volley_are_measured_side_by_side() {
    // The tester makes its own namespaces. The lab only checks that namespaces are available.
    let Some(lab) = Lab::new() else { return };
    let (report, results) = campaign(
        &lab,
        "procedures = ['throughput', 'latency', 'variation', 'loads']\nloads = ['2 kfps']\nlatency-at = [0.5]\n\
         duts = ['linux', 'volley']\n[[meter]]\nkind = 'cpu'\n\
         [[meter]]\nkind = 'command'\ncommand = 'echo $(($(date +%s%N) / 10000000))'\n[[test]]\ntraffic = 'rfc5180-256'\nsizes = [512]\nbidirectional = true\n",
    );
    let cells = list(&results["cells"], "cells");
    let names: Vec<_> = cells.iter().map(|c| (c["dut"].as_str(), c["size"].as_u64())).collect();
    assert_eq!(names, ["linux", "volley"].map(|dut| (Some(dut), Some(512))), "{report}");
    let mut forwarded = false;
    for cell in cells {
        let tester = cell["tester_fps"].as_f64().expect("a number");
        for search in list(found(cell, "throughput"), "searches") {
            let outcomes = list(&search["outcomes"], "outcomes");
            outcomes.iter().for_each(conserved);
            forwarded |= outcomes.iter().any(|outcome| outcome["received"].as_u64() > Some(0));
            let Some(fps) = search["throughput_fps"].as_f64() else { continue };
            assert!((1_000.0..=tester * 1.001).contains(&fps), "{fps} of {tester}: {search}");
        }
        let loads = ["latency", "loads", "variation"].map(|p| list(found(cell, p), p));
        for run in loads.concat().iter().flat_map(|load| list(&load["runs"], "runs")) {
            plausible(run);
            // CPU time is measured per thread for a program and per core for the kernel, never on the tester's core.
            let cpu = &run["usage"]["meters"][0]["reading"]["Ok"]["cpu-time"];
            let threads = cpu["threads"].as_array().map_or(0, Vec::len);
            let whose = if threads > 0 { "processes" } else { "cores" };
            assert_eq!((cpu["whose"].as_str(), threads > 0), (Some(whose), cell["dut"] == "volley"), "{cpu}");
            assert_eq!(list(&cpu["cores"], "cores").len(), 1, "{cpu}");
        }
        if cell["dut"] == "volley" {
            counted(cell);
        }
    }
    // On a busy machine the routers may lose frames at any load, but they always forward some.
    assert!(forwarded, "{report}");
    assert!(report.contains("RFC 2544-like") && report.contains("The links are virtual"), "{report}");
    assert!(
        report.contains("trials of throughput and frame loss rate send for 0.1 s, less than 60 s"),
        "{report}"
    );
    looks_right(&lab.dir().join("report.html"));
}

/// Checks that a browser shows the whole page, on a screen and on paper.
fn looks_right(page: &Path) {
    for (media, width) in [(Media::Screen, 1280), (Media::Paper, 718)] {
        let seen = Seen::of(page, media, width);
        assert_eq!(seen.faults, Vec::<String>::new(), "{media:?}");
        assert!(seen.plots >= 5 && seen.tables >= 5, "{seen:?}");
    }
    assert!(browser::paper(page) >= 2, "number of printed pages");
}

/// Checks that Volley's ports sent at least the frames that the tester received in `loads`. The ports also count the router's own frames.
fn counted(cell: &Value) {
    let loads =
        list(&cell["measurements"], "measurements").iter().find(|m| m["found"]["procedure"] == "loads");
    let loads = loads.unwrap_or_else(|| panic!("no loads: {cell}"));
    let runs = list(&loads["found"]["result"], "loads").iter().flat_map(|load| list(&load["runs"], "runs"));
    let received: u64 = runs.filter_map(|run| run["outcome"]["received"].as_u64()).sum();
    let sent = list(&loads["counters"], "counters")
        .iter()
        .filter(|c| c[0].as_str().is_some_and(|name| name.ends_with(" tx packets")));
    let sent: u64 = sent.filter_map(|c| c[1].as_str()?.parse::<u64>().ok()).sum();
    assert!(received > 0 && sent >= received, "{received} received, {sent} sent by the router: {loads}");
}

/// Checks that the delays, the CPU time and the energy of a run are plausible.
fn plausible(run: &Value) {
    conserved(&run["outcome"]);
    let figure =
        |name: &str| run["delays"]["figures"][name].as_f64().unwrap_or_else(|| panic!("{name}: {run}"));
    let rising = ["minimum_ns", "typical_ns", "worst_case_ns", "maximum_ns"].map(figure);
    assert!(rising.is_sorted() && rising[0] > 0.0, "{run}");
    assert_eq!(figure("pdv_ns"), rising[2] - rising[0]);
    let counted: u64 = list(&run["delays"]["bins"], "bins").iter().filter_map(|b| b[1].as_u64()).sum();
    assert_eq!(Some(counted), run["outcome"]["received"].as_u64(), "{run}");
    let busy = run["usage"]["busy"].as_f64().expect("a number");
    assert!((0.1..=256.0).contains(&busy), "{busy}");
    let [cpu, energy] = list(&run["usage"]["meters"], "meters") else { panic!("two meters: {run}") };
    assert_eq!((cpu["kind"].as_str(), energy["kind"].as_str()), (Some("cpu-time"), Some("energy")));
    assert!(cpu["figures"]["cpu-time"]["cpu-seconds"].as_f64().is_some_and(|s| s >= 0.0), "{cpu}");
    // The meter's command counts 100 joules a second.
    let energy = &energy["figures"]["energy"];
    let watts = energy["average-watts"].as_f64().expect("a power");
    assert!((50.0..200.0).contains(&watts), "{energy}");
    let (packets, hours) = (&energy["packets-per-watt-hour"], energy["watt-hours"].as_f64().expect("energy"));
    let received = run["outcome"]["received"].as_f64().expect("a number");
    assert!(packets.as_f64().is_some_and(|p| (p * hours / received - 1.0).abs() < 1e-6), "{energy}");
}

#[test]
fn every_procedure_ends_with_a_result() {
    let Some(lab) = Lab::new() else { return };
    let (_, results) = campaign(
        &lab,
        "procedures = ['throughput', 'loss-rate', 'back-to-back', 'ndr-pdr', 'maximum-receive-rate', 'soak', 'recovery']\n\
         soak = { share = 0.5, seconds = 0.2, each = 0.1 }\nduts = ['linux']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n\
         [[goal]]\nname = 'NDR'\nwidth = 0.2\ninitial-seconds = 0.1\nfinal-seconds = 0.1\nsum-seconds = 0.1\n",
    );
    let cell = &results["cells"][0];
    let points =
        [found(cell, "maximum-receive-rate"), found(cell, "soak")].map(|f| &f["points"][0]["outcomes"]);
    points.iter().flat_map(|o| list(o, "outcomes")).for_each(conserved);
    assert_eq!(points.map(|o| list(o, "outcomes").len()), [1, 2]);
    let searches = list(found(cell, "ndr-pdr"), "searches");
    assert_eq!(searches[0]["goals"][0]["goal"]["name"], "NDR");
    assert!(!list(&found(cell, "loss-rate")["points"], "points").is_empty());
    if list(&results["failures"], "failures").is_empty() {
        let recovery = &list(found(cell, "recovery"), "recovery")[0];
        list(&recovery["outcomes"], "outcomes").iter().for_each(conserved);
    }
    let seen = Seen::of(&lab.dir().join("report.html"), Media::Screen, 1280);
    assert_eq!(seen.faults, Vec::<String>::new());
    assert!(
        found(cell, "back-to-back")["ended"].is_string() || found(cell, "back-to-back")["ended"].is_object()
    );
}

/// Routers get 300 routes, and frames go to all of these networks in turn: IPv4 in both directions, IPv6 in one. A restart during a trial
/// has an outage time.
#[test]
fn tester_fills_tables_and_restarts_routers() {
    let Some(lab) = Lab::new() else { return };
    let (report, results) = campaign(
        &lab,
        "procedures = ['loads']\nloads = ['5 kfps']\nduts = ['linux', 'volley']\n\
         [[test]]\ntraffic = 'rfc2544'\nsizes = [64]\nroutes = 300\nbidirectional = true\n\
         [[test]]\ntraffic = 'rfc5180'\nsizes = [84]\nroutes = 300\n\
         [[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n",
    );
    let cells = list(&results["cells"], "cells");
    assert_eq!(
        cells.iter().map(|c| c["routes"].as_u64()).collect::<Vec<_>>(),
        [300, 300, 0, 300, 300, 0].map(Some)
    );
    for cell in cells {
        let outcome = &list(&list(found(cell, "loads"), "loads")[0]["runs"], "runs")[0]["outcome"];
        let [sent, received] = ["sent", "received"].map(|name| outcome[name].as_u64().expect("a number"));
        // There are more frames than networks, and without routes none would arrive.
        assert!(sent > 300 && received > sent / 2, "{cell}\n{report}");
    }
    let (report, results) = campaign(
        &lab,
        "procedures = ['throughput', 'reset']\nduts = ['volley']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n",
    );
    let reset = &list(found(&results["cells"][0], "reset"), "reset")[0];
    conserved(&reset["outcome"]);
    let seconds = reset["seconds"].as_f64().unwrap_or_else(|| panic!("the router did not recover: {report}"));
    assert!((0.01..5.0).contains(&seconds), "{seconds} s");
}

/// If the tester cannot send some traffic, or if the command of a meter fails, only the results that need this traffic or this meter are
/// missing.
#[test]
fn unsendable_traffic_and_a_missing_meter_end_no_campaign() {
    let Some(lab) = Lab::new() else { return };
    let (file, json, store) =
        (lab.dir().join("campaign.toml"), lab.dir().join("results.json"), lab.dir().join("store.db"));
    // The first traffic is too slow for a single frame in a self-test.
    let text = "name = 'ci'\ntrial-seconds = 0.1\nrepetitions = 1\nwaits = { residual = 0.02, restabilise = 0.02 }\nduts = ['linux']\n\
                procedures = ['loads']\nloads = ['5 kfps']\n[[meter]]\nkind = 'command'\ncommand = 'false'\n\
                [[meter]]\nkind = 'cpu'\n\
                [[test]]\ntraffic = 'rare'\nsizes = [64]\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n\
                [[traffic]]\nname = 'rare'\n[[traffic.flows]]\nname = 'a'\nload = { fps = 0.001 }\nframes = [{ family = 'ipv4' }]\n";
    std::fs::write(&file, format!("{text}{PATIENT}")).expect("a file");
    let [file, json_to, store] = [&file, &json, &store].map(|path| path.to_string_lossy());
    let (ok, report, said) = bench(&["run", &file, "--json", &json_to, "--store", &store]);
    assert!(ok, "{said}");
    let results: Value = serde_json::from_slice(&std::fs::read(&json).expect("results")).expect("JSON");
    let lines = |of: &str| -> Vec<_> { list(&results[of], of).iter().filter_map(Value::as_str).collect() };
    let (failures, caveats) = (lines("failures"), lines("caveats"));
    let ([traffic], [meter]) = (&failures[..], &caveats[..]) else { panic!("{failures:?}, {caveats:?}") };
    assert!(traffic.starts_with("rare, 64 bytes: ") && traffic.contains("no frame to send"), "{report}");
    assert!(meter.starts_with("meter 1 (command \"false\"): ") && report.contains(meter), "{report}");
    let [cell] = list(&results["cells"], "cells") else { panic!("{report}") };
    let run = &list(&list(found(cell, "loads"), "loads")[0]["runs"], "runs")[0];
    conserved(&run["outcome"]);
    let [missing, cpu] = list(&run["usage"]["meters"], "meters") else { panic!("two meters: {run}") };
    assert!(missing["reading"]["Err"].is_string() && cpu["reading"]["Ok"]["cpu-time"].is_object(), "{run}");
}

#[test]
fn an_invalid_campaign_is_refused_with_its_line() {
    let Some(lab) = Lab::new() else { return };
    let file = lab.dir().join("bad.toml");
    std::fs::write(&file, "name = 'x'\nduts = ['linux']\ncolor = 1\n").expect("a file");
    let (ok, _, said) = bench(&["run", &file.to_string_lossy()]);
    assert!(!ok && said.contains("bad.toml") && said.contains("line 3") && said.contains("color"), "{said}");
    let fresh = lab.dir().join("fresh.toml");
    assert!(bench(&["init", &fresh.to_string_lossy()]).0);
    let (ok, _, said) = bench(&["init", &fresh.to_string_lossy()]);
    assert!(!ok && said.contains("fresh.toml"), "{said}");
}

#[test]
fn a_closed_standard_error_does_not_change_the_exit_code() {
    let (read, write) = std::io::pipe().expect("a pipe");
    drop(read);
    let mut command = Command::new(binary());
    let status =
        command.args(["bench", "run", "/nowhere/campaign.toml"]).stderr(write).status().expect("it runs");
    assert_eq!(status.code(), Some(1), "the exit code without a reader of its messages");
}

/// Throughput is searched in turns, one repetition for each router, so that a change of the machine's speed affects all routers alike.
/// Other procedures run all repetitions with a router in one turn.
#[test]
fn routers_are_measured_in_turns() {
    let Some(lab) = Lab::new() else { return };
    let head = "name = 'turns'\ntrial-seconds = 0.1\nwaits = { residual = 0.02, restabilise = 0.02 }\nrepetitions = 2\n\
                procedures = ['throughput', 'loads']\nloads = ['1 kfps']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n";
    let campaign = Campaign::write(&lab, head, "'linux', 'none'", "");
    let results = campaign.run();
    assert_eq!(results["failures"], Value::Array(Vec::new()));
    let trials = campaign.trials().of_procedures();
    let of = |procedure: &str| {
        let own = trials.0.iter().filter(|trial| trial["procedure"] == procedure);
        let mut all: Vec<_> = own.map(|trial| (&trial["key"]["dut"], count(trial, "repetition"))).collect();
        all.dedup();
        all.iter().map(|(dut, n)| format!("{} {n}", dut.as_str().expect("a name"))).collect::<Vec<_>>()
    };
    assert_eq!(of("throughput"), ["linux 1", "none 1", "linux 2", "none 2"]);
    assert_eq!(of("loads"), ["linux 1", "linux 2", "none 1", "none 2"]);
    for (cell, dut) in list(&results["cells"], "cells").iter().zip(["linux", "none"]) {
        assert_eq!(cell["dut"], dut);
        assert_eq!(list(found(cell, "throughput"), "throughput").len(), 2);
        assert_eq!(list(&loads(&results, dut)[0]["runs"], "runs").len(), 2);
    }
}

/// After the time `most-minutes`, no further procedure begins. The campaign reports how many procedures are missing.
#[test]
fn a_campaign_ends_at_its_limit_of_time() {
    let Some(lab) = Lab::new() else { return };
    let head = "name = 'limited'\ntrial-seconds = 0.1\nwaits = { residual = 0.02, restabilise = 0.02 }\nrepetitions = 10000\n\
                most-minutes = 0.3\nprocedures = ['throughput']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n";
    let began = Instant::now();
    let results = Campaign::write(&lab, head, "'linux', 'none'", "").run();
    // The procedure that runs at the limit still ends: a search of some 15 trials, with repeats of the invalid ones.
    assert!(began.elapsed() < Duration::from_secs(90), "{:?}", began.elapsed());
    let failures = list(&results["failures"], "failures");
    let why = failures.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
    assert!(why.contains("reached its limit (most-minutes) of 0.3 minutes: "), "{why}");
    assert!(why.contains("of 20000 procedures are missing"), "{why}");
}
