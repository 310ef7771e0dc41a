//! The native API, with Python's own HTTP client.

use std::path::{Path, PathBuf};

use testkit::netns::{Host, Lab};
use testkit::router::Router;

/// Returns a namespace with a router that serves the native API, and the sockets: for all, and read-only.
fn served(commands: &str) -> Option<(Host, Router, [PathBuf; 2])> {
    let lab = Lab::new()?;
    let (r, far) = (lab.host("r"), lab.host("far"));
    lab.link((&r, "eth0"), (&far, "eth0"));
    let sockets = ["http.sock", "http-ro.sock"].map(|name| lab.dir().join(name));
    let [all, readers] = &sockets;
    let section = format!(
        "native-api {{ socket-name {} socket-name-read-only {} }}\n",
        all.display(),
        readers.display()
    );
    let router = Router::start_with(&r, &section, &format!("create host-interface name eth0\n{commands}"));
    Some((r, router, sockets))
}

/// Runs a task of the client.
fn client(host: &Host, socket: &Path, task: &str) {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/native.py");
    let said = host.run(&format!("python3 {tool} {} {task}", socket.display()));
    assert_eq!(said.trim(), "done");
}

#[test]
fn the_document_is_replaced_patched_and_rolled_back() {
    let Some((r, router, [socket, _])) = served("set interface state host-eth0 up\n") else { return };
    client(&r, &socket, "config");
    assert!(!router.ctl("show config").contains("198.51.100.0"));
}

#[test]
fn wrong_requests_name_the_place_and_change_nothing() {
    let Some((r, _router, [socket, _])) = served("") else { return };
    client(&r, &socket, "faults");
}

#[test]
fn commands_and_long_lists_run_in_slices() {
    let Some((r, _router, [socket, _])) = served("") else { return };
    client(&r, &socket, "commands");
}

#[test]
fn watchers_see_each_change() {
    let Some((r, _router, [socket, _])) = served("set interface state host-eth0 up\n") else { return };
    client(&r, &socket, "watch");
}

#[test]
fn a_read_only_client_changes_nothing() {
    let Some((r, _router, [socket, readers])) = served("") else { return };
    client(&r, &readers, "reads");
    client(&r, &socket, "describes");
    client(&r, &socket, "many");
}

#[test]
fn words_of_any_form_are_understood_and_secrets_stay_hidden() {
    let Some((r, _router, [socket, readers])) = served("") else { return };
    client(&r, &socket, "words");
    client(&r, &readers, "secrets");
}

#[test]
fn a_client_that_leaves_takes_its_change_back() {
    let Some((r, router, [socket, _])) = served("") else { return };
    client(&r, &socket, "leaves");
    assert!(!router.ctl("show ip fib").contains("30.0."));
}
