//! The native API, with Python's own HTTP client, and with gRPC's client for Python.

use std::path::{Path, PathBuf};

use scenarios::tool::of_python;
use testkit::netns::{Host, Lab};
use testkit::router::Router;

/// Returns a namespace, a router there that serves the native API, and the API's sockets: the unrestricted and the read-only one. `None` if
/// namespaces are not available (reported as skipped).
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
fn packets_are_traced_and_captured() {
    let Some((r, _router, [socket, readers])) = served("") else { return };
    client(&r, &socket, "packets");
    client(&r, &readers, "views");
    let _ = rpc(&r, &socket, "packets");
}

#[test]
fn watchers_see_each_change() {
    let Some((r, _router, [socket, _])) = served("set interface state host-eth0 up\n") else { return };
    client(&r, &socket, "watch");
}

#[test]
fn a_flood_of_frames_delays_nobody() {
    let Some((r, _router, [_, readers])) = served("") else { return };
    client(&r, &readers, "floods");
}

#[test]
fn a_slow_upload_delays_nobody() {
    let Some((r, _router, [socket, _])) = served("set interface state host-eth0 up\n") else { return };
    client(&r, &socket, "slow");
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

/// Runs a task of the client for gRPC. `None` if it is not installed.
fn rpc(host: &Host, socket: &Path, task: &str) -> Option<()> {
    let python = of_python("python3")?;
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/grpc.py");
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/control/proto");
    let said = host.run(&format!("{} {tool} {proto} {} {task}", python.display(), socket.display()));
    assert_eq!(said.trim(), "done");
    Some(())
}

#[test]
fn rpc_replaces_patches_and_rolls_back_the_document() {
    let Some((r, router, [socket, _])) = served("set interface state host-eth0 up\n") else { return };
    if rpc(&r, &socket, "config").is_some() {
        assert!(!router.ctl("show config").contains("198.51.100.0"));
    }
}

#[test]
fn wrong_calls_name_the_place_and_change_nothing() {
    let Some((r, router, [socket, _])) = served("") else { return };
    let _ = rpc(&r, &socket, "faults");
    let _ = rpc(&r, &socket, "garbage");
    // The connections of clients that broke off are closed.
    assert!(!router.ctl("show cli-sessions").contains("native"));
}

#[test]
fn calls_run_at_the_same_time() {
    let Some((r, _router, [socket, _])) = served("") else { return };
    let _ = rpc(&r, &socket, "commands");
    let _ = rpc(&r, &socket, "many");
}

#[test]
fn rpc_watches_changes_and_statistics() {
    let Some((r, _router, [socket, _])) = served("set interface state host-eth0 up\n") else { return };
    let _ = rpc(&r, &socket, "watch");
    let _ = rpc(&r, &socket, "stats");
}

#[test]
fn a_read_only_caller_changes_nothing_and_sees_no_secrets() {
    let Some((r, _router, [socket, readers])) = served("") else { return };
    client(&r, &socket, "words");
    let _ = rpc(&r, &readers, "reads");
    let _ = rpc(&r, &readers, "secrets");
}

#[test]
fn routes_and_neighbors_are_loaded_in_one_change() {
    let commands = "set interface state host-eth0 up\nset interface ip address host-eth0 10.0.0.1/24\n\
                    set interface ip address host-eth0 2001:db8::1/64\n";
    let Some((r, router, [socket, _])) = served(commands) else { return };
    if rpc(&r, &socket, "load").is_none() {
        return;
    }
    let _ = rpc(&r, &socket, "refuses");
    let _ = rpc(&r, &socket, "loads");
    let _ = rpc(&r, &socket, "leaves");
    assert!(!router.ctl("show ip fib").contains("30.0."));
}
