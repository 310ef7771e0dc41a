//! The journal of changes: it names their authors, survives restarts and kills, and allows to roll changes back one by one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use scenarios::{TWO_PORTS, cabled};
use serde_json::{Value, json};
use testkit::netns::LIMIT;
use testkit::process::until;
use testkit::router::Router;
use testkit::skip::skipped;

const SOON: Duration = Duration::from_secs(20);

/// Returns these fields of the newest `n` entries of the journal.
fn newest(router: &Router, n: usize, fields: &[&str]) -> Vec<Vec<Value>> {
    let history = router.json(&format!("show config history {n}"));
    let of = |entry: &Value| fields.iter().map(|field| entry[field].clone()).collect();
    history.as_array().unwrap().iter().map(of).collect()
}

#[test]
fn changes_and_their_authors_survive_restarts_and_kills() {
    let Some((_a, r, _b)) = cabled() else { return };
    let lab = r.lab();
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    if !r.attempt(&format!("{nobody} true"), LIMIT).ok() {
        return skipped("needs root, to become another user");
    }
    fs::set_permissions(lab.dir(), Permissions::from_mode(0o755)).unwrap();
    let state = lab.dir().join("state");
    let sections = format!("unix {{ gid 65534 state-dir {} }}\n", state.display());
    let saved = lab.dir().join("r.cli");
    let start = |commands: &str| Router::start_with(&r, &sections, commands);

    let router = start(TWO_PORTS);
    let before = router.ctl("show config");
    assert_eq!(newest(&router, 9, &["kind", "front_end"]), [[json!("start"), json!("start")]]);
    router.ctl("set interface mtu 1400 host-eth0");
    let ctl = format!("{} ctl -s {}", testkit::router::binary().display(), router.socket().display());
    let line = "ip route add 20.0.0.0/24 via 10.0.1.2";
    r.attempt(&format!("{nobody} {ctl} {line}"), LIMIT).expect_ok();
    let both = [
        [json!("nobody"), json!(65534), json!("cli"), json!(line), json!(1)],
        [json!("root"), json!(0), json!("cli"), json!("set interface mtu 1400 host-eth0"), json!(2)],
    ];
    let fields = ["user", "uid", "front_end", "command", "back"];
    // Another thread looks up the names of the users.
    until("the names are known", SOON, || newest(&router, 2, &fields) == both);
    router.ctl("config save");
    router.ctl("ip route add 30.0.0.0/24 via 10.0.1.2");
    router.stop();
    let file = state.join("journal");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);

    // The last change was not saved.
    let router = start(&fs::read_to_string(&saved).unwrap());
    assert_eq!(
        newest(&router, 3, &["generation", "back"])[1..],
        [[json!(4), Value::Null], [json!(3), json!(1)]]
    );
    let would = router.ctl("config diff rollback");
    assert_eq!(would, format!("- {line}\n"));
    assert_eq!(router.ctl("config rollback"), would);
    router.ctl("config save");
    until("the journal is written", SOON, || fs::read_to_string(&file).unwrap().lines().count() == 7);
    router.kill();

    // A crash of the machine interrupted the write of a change.
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{whole}0123456789abcdef {{\"number\":7,")).unwrap();
    let router = start(&fs::read_to_string(&saved).unwrap());
    assert!(router.log().contains("1 changes in the journal cannot be read"), "{}", router.log());
    assert_eq!(newest(&router, 2, &["generation", "changed"])[1], [json!(6), json!("rollback of change 3")]);
    assert_eq!(router.ctl("config rollback"), "- set interface mtu 1400 host-eth0\n");
    assert_eq!(router.ctl("show config"), before);
    assert!(router.attempt("config rollback").stderr.contains("no change to roll back"));
    router.stop();

    // A file that is not a journal does not stop the start, and stays unchanged.
    fs::write(&file, "precious").unwrap();
    let router = start(TWO_PORTS);
    router.ctl("set interface mtu 1400 host-eth0");
    assert!(router.ctl("show config history").contains("it is not a journal: remove it"));
    until("the fault is logged", SOON, || router.log().contains("changes are not kept in "));
    router.stop();
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_full_disk_delays_only_the_journal() {
    let Some((_a, r, _b)) = cabled() else { return };
    let socket = r.lab().dir().join("cli.sock");
    let (binary, listen) = (testkit::router::binary().display(), socket.display());
    // A small file system in the router's mount namespace.
    let script = format!(
        "mkdir /run/small && mount -t tmpfs -o size=64k small /run/small && exec {binary} run 'unix {{ nodaemon cli-listen \
         {listen} state-dir /run/small/state }}'"
    );
    let router = r.spawn_args(["sh", "-c", &script]);
    until("the router is ready", SOON, || router.stderr().contains("volley: ready"));
    let ctl = |line: &str| r.attempt(&format!("{binary} ctl -s {listen} {line}"), LIMIT).expect_ok();
    let disk = format!("/proc/{}/root/run/small", router.id());
    let lines = || r.run(&format!("cat {disk}/state/journal")).lines().count();
    until("the start is written", SOON, || lines() == 2);
    r.attempt(&format!("dd if=/dev/zero of={disk}/large bs=4k"), LIMIT);
    for n in 0..60 {
        ctl(&format!("ip route add 20.0.{n}.0/24 via drop"));
    }
    let shown = ctl("show config history 1");
    assert!(
        shown.contains("! changes are not kept in /run/small/state/journal: No space left on device"),
        "{shown}"
    );
    r.run(&format!("rm {disk}/large"));
    until("all changes are written", SOON, || lines() == 62);
    until("the recovery is logged", SOON, || {
        router.stderr().contains("changes are kept in /run/small/state/journal again")
    });
    assert!(!ctl("show config history 1").contains("not kept"));
    // Changes that cannot be written before the end are lost, and the router logs this.
    r.attempt(&format!("dd if=/dev/zero of={disk}/large bs=4k"), LIMIT);
    for n in 60..120 {
        ctl(&format!("ip route add 20.0.{n}.0/24 via drop"));
    }
    r.run(&format!("kill {}", router.id()));
    until("the loss is logged", SOON, || router.stderr().contains(" changes are lost"));
}
