//! The clients of the native API: the package for Python, and the one for Go. Each has tests of its own, which run with a real router.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scenarios::tool::of_python;
use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::Finished;
use testkit::router::{Router, binary};
use testkit::skip::skipped;

/// Time limit of a client's own tests, and of the compilation of what they use.
const LONG: Duration = Duration::from_secs(300);

/// Returns the folder of the client for a language.
fn client(language: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../clients")).join(language).canonicalize().unwrap()
}

/// Returns `name=value` for the program `env`.
fn variable(name: &str, value: &Path) -> OsString {
    let mut all = OsString::from(name);
    all.push("=");
    all.push(value);
    all
}

#[test]
fn the_python_package_passes_its_own_tests() {
    let Some(lab) = Lab::new() else { return };
    let (python, program) = (client("python"), variable("VOLLEY_BIN", binary()));
    let words = ["-B", "-X", "dev", "-m", "unittest", "discover", "-s"].map(OsString::from);
    let words = [OsString::from("env"), program, "python3".into()].into_iter().chain(words);
    let done = lab.host("r").spawn_args(words.chain([python.join("tests").into()])).finish(LONG);
    assert!(done.ok() && !done.stderr.contains("Warning"), "{done}");
    assert!(done.stderr.contains("\nOK\n"), "{done}");
}

#[test]
fn the_python_package_has_correct_types() {
    let Some(lab) = Lab::new() else { return };
    let Some(mypy) = of_python("mypy") else { return };
    let (python, host) = (client("python"), lab.host("r"));
    let check = |files: &[PathBuf]| {
        let words = [OsString::from("env"), variable("MYPYPATH", &python), mypy.clone().into()];
        let options = ["--strict", "--cache-dir=/dev/null"].map(OsString::from);
        let files = files.iter().map(|file| file.clone().into());
        host.spawn_args(words.into_iter().chain(options).chain(files)).finish(LONG)
    };
    let done = check(&[python.join("volley"), python.join("tests")]);
    assert!(done.ok(), "{done}");
    // The types find the mistakes of a program that uses the package.
    let wrong = lab.dir().join("wrong.py");
    fs::write(&wrong, "import volley\nvolley.Client().replace({'loopbacks': {'loop0': {'mut': 1}}})\n")
        .unwrap();
    let done = check(&[wrong]);
    assert!(!done.ok() && done.stdout.contains("wrong.py:2: error: "), "{done}");
}

#[test]
fn the_python_package_can_be_installed() {
    let Some(lab) = Lab::new() else { return };
    let Some(python) = of_python("python3") else { return };
    // The build writes into the folder of the package, so it gets a copy.
    let (folder, into) = (lab.dir().join("source"), lab.dir().join("installed"));
    let host = lab.host("r");
    host.run(&format!("cp -r {} {}", client("python").display(), folder.display()));
    let options = "install -q --no-index --no-build-isolation --no-deps --target";
    let command = format!("{} -m pip {options} {} {}", python.display(), into.display(), folder.display());
    host.attempt(&command, LONG).expect_ok();
    assert!(into.join("volley/py.typed").exists());
    let import = "import volley, volley.document; print(volley.Client().socket)";
    let words =
        [OsString::from("env"), variable("PYTHONPATH", &into), "python3".into(), "-c".into(), import.into()];
    assert_eq!(host.spawn_args(words).finish(LIMIT).expect_ok(), "/run/volley/http.sock\n");
}

/// Runs the program `go` in the folder of the client, without access to any registry.
fn go(host: &Host, socket: &Path, arguments: &str) -> Finished {
    let script = format!(
        "cd {} && VOLLEY_SOCKET={} GOFLAGS='-mod=mod -buildvcs=false' GOPROXY=off GOTOOLCHAIN=local go {arguments}",
        client("go").display(),
        socket.display()
    );
    host.spawn_args(["sh", "-c", &script]).finish(LONG)
}

#[test]
fn the_go_client_passes_its_own_tests() {
    let Some(lab) = Lab::new() else { return };
    let (r, far) = (lab.host("r"), lab.host("far"));
    if !r.spawn_args(["go", "version"]).finish(LIMIT).ok() {
        return skipped("needs go");
    }
    lab.link((&r, "eth0"), (&far, "eth0"));
    let socket = lab.dir().join("http.sock");
    go(&r, &socket, "vet ./...").expect_ok();
    let format = format!("gofmt -l {}", client("go").display());
    assert_eq!(r.attempt(&format, LIMIT).stdout, "", "gofmt would change these files");
    let section = format!("native-api {{ socket-name {} }}", socket.display());
    let router = Router::start_with(&r, &section, "");
    let tested = go(&r, &socket, "test -count=1 -v ./...");
    assert!(tested.ok() && !tested.stdout.contains("SKIP"), "{tested}");
    // The example adds an address, and confirms it when the link is up.
    router.script("create host-interface name eth0\nset interface state host-eth0 up\n");
    let example = |arguments: &str| {
        go(&r, &socket, &format!("run ./examples/address -socket {} {arguments}", socket.display()))
    };
    let added = example("host-eth0 10.0.0.1/24").expect_ok();
    assert!(added.contains("+ set interface ip address host-eth0 10.0.0.1/24"), "{added}");
    example("host-eth0 10.0.1.1/24").expect_ok();
    let shown = router.ctl("show interface address");
    assert!(shown.contains("10.0.0.1/24") && shown.contains("10.0.1.1/24"), "{shown}");
    assert!(router.attempt("config confirm").stderr.contains("awaits confirmation"));
    for (arguments, reason) in [
        ("host-eth9 10.0.2.1/24", "there is no interface host-eth9"),
        ("host-eth0 10.0.2.1/33", "/interfaces/host-eth0/addresses: "),
    ] {
        let refused = example(arguments);
        assert!(!refused.ok() && refused.stderr.contains(reason), "{refused}");
    }
}
