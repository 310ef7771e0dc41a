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

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().map(|all| all.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
}

#[test]
fn the_kernel_and_volley_are_measured_side_by_side() {
    // The tester makes namespaces of its own; this only says whether that is allowed here.
    let Some(lab) = Lab::new() else { return };
    let (file, json) = (lab.dir().join("campaign.toml"), lab.dir().join("results.json"));
    let campaign = "name = 'ci'\ntrial-seconds = 0.2\nrepetitions = 1\nduts = ['linux', 'volley']\n\
                    [[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n[[test]]\ntraffic = 'rfc5180-256'\nsizes = [512]\nbidirectional = true\n";
    std::fs::write(&file, campaign).expect("a file");
    let (ok, report, said) = bench(&["run", &file.to_string_lossy(), "--json", &json.to_string_lossy()]);
    assert!(ok, "{said}");
    let results: Value = serde_json::from_slice(&std::fs::read(&json).expect("results")).expect("JSON");
    assert_eq!(results["failures"], Value::Array(Vec::new()), "{report}");
    let cells = results["cells"].as_array().expect("cells");
    let names: Vec<_> = cells.iter().map(|c| (c["dut"].as_str(), c["size"].as_u64())).collect();
    let expected = ["linux", "volley"].map(|dut| [64, 512].map(|size| (Some(dut), Some(size))));
    assert_eq!(names, expected.concat(), "{report}");
    for cell in cells {
        let tester = cell["tester_fps"].as_f64().expect("a number");
        for fps in numbers(&cell["throughput_fps"]) {
            assert!((1_000.0..=tester * 1.001).contains(&fps), "{fps} of {tester}: {cell}");
        }
        for latency in cell["latency"].as_array().into_iter().flatten() {
            for run in latency["runs"].as_array().into_iter().flatten() {
                let ns = numbers(&run["ns"]);
                assert!(ns.len() == 5 && ns.is_sorted() && ns[0] > 0.0, "{run}");
                let busy = run["busy"].as_f64().expect("a number");
                assert!((0.1..=256.0).contains(&busy), "{run}");
            }
        }
    }
    // On any machine the routers forward something without loss.
    assert!(cells.iter().any(|c| !numbers(&c["throughput_fps"]).is_empty()), "{report}");
    assert!(report.contains("RFC 2544-like") && report.contains("The links are virtual"), "{report}");
    assert!(report.contains("trials of throughput and frame loss rate send for 0.2 s, not 60 s"), "{report}");
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
