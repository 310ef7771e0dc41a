//! Tests of the program's command line.

use std::process::Command;

fn volley_bench(words: &[&str]) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_volley-bench")).args(words).output().unwrap();
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_documents_are_complete() {
    let directory = tempfile::tempdir().unwrap();
    let (done, said) = volley_bench(&["documents", directory.path().to_str().unwrap()]);
    assert!(done, "{said}");
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap().replace('\\', "");
    let (page, run) = (read("volley-bench.1"), read("volley-bench-run.1"));
    let (bash, zsh) = (read("volley-bench.bash"), read("_volley-bench"));
    let (helped, help) = volley_bench(&["--help"]);
    assert!(helped && run.contains("--resume") && run.contains("volley-bench"), "{help}\n{run}");
    for command in ["run", "report", "compare", "trials", "init", "traffic", "list"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        for text in [&page, &bash, &zsh] {
            assert!(text.contains(command), "{command}: {text}");
        }
    }
    assert!(!bash.contains("documents") && !help.contains("documents"), "{bash}\n{help}");
}

#[test]
fn unknown_subcommands_are_reported() {
    let (done, said) = volley_bench(&["measure"]);
    assert!(!done && said.contains("unrecognized subcommand 'measure'"), "{said}");
}
