//! The tester beside real routers: seconds, and whether its numbers can be, not how large they are.

use std::process::Command;

use serde_json::Value;
use testkit::netns::Lab;
use testkit::router::binary;

/// Runs `volley bench` with these words; what it printed, and whether it succeeded.
fn bench(words: &[&str]) -> (bool, String, String) {
    let out = Command::new(binary()).arg("bench").args(words).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.success(), text(&out.stdout), text(&out.stderr))
}

/// Nothing came that was not sent, and nothing was sent that was not asked.
fn conserved(outcome: &Value) {
    let [received, sent, intended] = ["received", "sent", "intended"].map(|name| outcome[name].as_u64());
    assert!(received <= sent && sent <= intended && intended > Some(0), "{outcome}");
}

#[test]
fn the_kernel_and_volley_are_measured_side_by_side() {
    // The tester makes namespaces of its own; this only says whether that is allowed here.
    let Some(lab) = Lab::new() else { return };
    let (file, json) = (lab.dir().join("campaign.toml"), lab.dir().join("results.json"));
    let campaign = "name = 'ci'\ntrial-seconds = 0.1\nrepetitions = 1\n\
                    procedures = ['throughput', 'latency', 'variation', 'loss-rate', 'back-to-back', 'ndr-pdr', 'maximum-receive-rate', 'loads', 'soak', 'recovery']\n\
                    loads = ['2 kfps']\nlatency-at = [0.5]\nsoak = { share = 0.5, seconds = 0.2, each = 0.1 }\nduts = ['linux', 'volley']\n\
                    [[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n[[test]]\ntraffic = 'rfc5180-256'\nsizes = [512]\nbidirectional = true\n";
    std::fs::write(&file, campaign).expect("a file");
    let path = |name: &str| lab.dir().join(name).to_string_lossy().into_owned();
    let words =
        ["run", &file.to_string_lossy(), "--json", &json.to_string_lossy(), "--store", &path("store.db")];
    let (ok, report, said) = bench(&words);
    assert!(ok, "{said}");
    let results: Value = serde_json::from_slice(&std::fs::read(&json).expect("results")).expect("JSON");
    assert_eq!(results["failures"], Value::Array(Vec::new()), "{report}");
    let cells = results["cells"].as_array().expect("cells");
    let names: Vec<_> = cells.iter().map(|c| (c["dut"].as_str(), c["size"].as_u64())).collect();
    let expected = ["linux", "volley"].map(|dut| [64, 512].map(|size| (Some(dut), Some(size))));
    assert_eq!(names, expected.concat(), "{report}");
    let mut forwarded = false;
    for cell in cells {
        let tester = cell["tester_fps"].as_f64().expect("a number");
        let found = |procedure: &str| {
            let all = cell["measurements"].as_array().expect("measurements");
            let one = all.iter().map(|m| &m["found"]).find(|f| f["procedure"] == procedure);
            one.unwrap_or_else(|| panic!("no {procedure}: {cell}"))["result"].clone()
        };
        for search in found("throughput").as_array().expect("searches") {
            let Some(fps) = search["throughput_fps"].as_f64() else { continue };
            assert!((1_000.0..=tester * 1.001).contains(&fps), "{fps} of {tester}: {search}");
            forwarded = true;
            let outcomes = search["outcomes"].as_array().expect("outcomes");
            outcomes.iter().for_each(conserved);
        }
        let loads = [found("latency"), found("loads"), found("variation")];
        for run in loads
            .iter()
            .flat_map(|l| l.as_array().expect("loads"))
            .flat_map(|l| l["runs"].as_array().expect("runs"))
        {
            conserved(&run["outcome"]);
            let figures = &run["delays"]["figures"];
            let figure = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}: {run}"));
            let rising = ["minimum_ns", "typical_ns", "worst_case_ns", "maximum_ns"].map(figure);
            assert!(rising.is_sorted() && rising[0] > 0.0, "{figures}");
            assert_eq!(figure("pdv_ns"), rising[2] - rising[0]);
            let counted: u64 =
                run["delays"]["bins"].as_array().expect("bins").iter().filter_map(|b| b[1].as_u64()).sum();
            assert_eq!(Some(counted), run["outcome"]["received"].as_u64(), "{run}");
            let busy = run["usage"]["busy"].as_f64().expect("a number");
            assert!((0.1..=256.0).contains(&busy), "{busy}");
        }
        let lossy = &found("maximum-receive-rate")["points"][0]["outcomes"];
        lossy.as_array().expect("outcomes").iter().for_each(conserved);
        let goals = found("ndr-pdr")["goals"].as_array().expect("goals").len();
        assert_eq!(goals, 2);
        assert!(found("loss-rate")["points"].as_array().is_some_and(|p| !p.is_empty()));
        assert!(found("soak")["points"][0]["outcomes"].as_array().is_some_and(|o| o.len() == 2));
        assert!(found("recovery").as_array().is_some_and(|r| r.len() == 1));
        assert!(found("back-to-back")["ended"].is_string());
    }
    // On any machine the routers forward something without loss.
    assert!(forwarded, "{report}");
    assert!(report.contains("RFC 2544-like") && report.contains("The links are virtual"), "{report}");
    assert!(report.contains("trials of throughput and frame loss rate send for 0.1 s, not 60 s"), "{report}");
}

#[test]
fn a_campaign_that_cannot_be_is_refused_before_anything_is_touched() {
    let Some(lab) = Lab::new() else { return };
    let file = lab.dir().join("bad.toml");
    std::fs::write(&file, "name = 'x'\nduts = ['linux']\ncolour = 1\n").expect("a file");
    let (ok, _, said) = bench(&["run", &file.to_string_lossy()]);
    assert!(!ok && said.contains("bad.toml") && said.contains("line 3") && said.contains("colour"), "{said}");
    let fresh = lab.dir().join("fresh.toml");
    assert!(bench(&["init", &fresh.to_string_lossy()]).0);
    let (ok, _, said) = bench(&["init", &fresh.to_string_lossy()]);
    assert!(!ok && said.contains("fresh.toml"), "{said}");
}
