//! The sockets of operators, who may not change the configuration.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use testkit::netns::{LIMIT, Lab};
use testkit::router::{Router, binary};

#[test]
fn an_operator_resets_and_traces_but_changes_no_configuration() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let [cli, http]: [PathBuf; 2] = ["op.sock", "http-op.sock"].map(|name| lab.dir().join(name));
    let sections = format!(
        "unix {{ cli-listen-operator {} gid-operator 7 }} native-api {{ socket-name-operator {} }}",
        cli.display(),
        http.display()
    );
    let router = Router::start_with(&r, &sections, "create packet-generator interface pg0\n");
    let metadata = std::fs::metadata(&cli).unwrap();
    assert_eq!(
        (metadata.permissions().mode() & 0o777, std::os::unix::fs::MetadataExt::gid(&metadata)),
        (0o660, 7)
    );
    let run =
        |line: &str| r.attempt(&format!("{} ctl -s {} {line}", binary().display(), cli.display()), LIMIT);
    for line in [
        "show interface",
        "clear interfaces",
        "clear ip neighbors",
        "trace add pg-input 5",
        "clear trace",
        "clear errors",
    ] {
        let done = run(line);
        assert!(done.ok(), "{line}: {done}");
    }
    for line in [
        "set interface state pg0 up",
        "config save /tmp/x",
        "exec /etc/passwd",
        "clear logging",
        "config rollback",
    ] {
        let done = run(line);
        assert!(done.stderr.contains("this socket is for operators"), "{line}: {done}");
    }
    assert!(
        run("help clear").stdout.contains("clear runtime")
            && !run("help clear").stdout.contains("clear logging")
    );
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/native.py");
    assert_eq!(r.run(&format!("python3 {tool} {} operates", http.display())).trim(), "done");
    assert_eq!(router.json("show config history")["changes"].as_array().map(Vec::len).unwrap_or(0), 0);
}
