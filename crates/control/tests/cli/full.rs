//! Tests of a server that has its maximum number of clients.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use control::cli::Service;
use control::cli::client::{Connection, Failure};

use super::toy::*;
use super::typed;

#[test]
fn full_server_refuses_clients_with_a_reason() {
    let server =
        Server::serving(|| Service { idle: Duration::from_secs(3600), for_root: 0, ..Service::default() });
    let held: Vec<Connection> = (0..64).map(|_| server.connect()).collect();
    let (code, out, errors) = server.ctl(&["show", "count"], "", |_| ());
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(errors.contains("64 clients are connected") && errors.contains("cli-idle-timeout"), "{errors}");
    assert!(typed(&server, "show count\n").starts_with("64 clients are connected"));
    drop(held);
    let begun = Instant::now();
    while server.ctl(&["show", "count"], "", |_| ()).0 != 0 {
        assert!(begun.elapsed() < LONG);
    }
}

#[test]
fn longest_idle_client_is_disconnected() {
    let server = Server::serving(|| Service { idle: Duration::ZERO, for_root: 0, ..Service::default() });
    // The busy client replaces client 0. Then client 1 runs a command, so client 2 is idle longest.
    let mut clients: Vec<Connection> = (0..64).map(|_| server.connect()).collect();
    let mut busy = UnixStream::connect(server.socket()).unwrap();
    busy.write_all(b"{\"run\":{\"line\":\"numbers forever\"}}\n").unwrap();
    server.wait_for_jobs(1);
    assert!(
        matches!(run(&mut clients[0], "show count"), Err(Failure::Closed(_))),
        "the busy client replaced it"
    );
    run(&mut clients[1], "show count").unwrap();
    let mut new = server.connect();
    assert_eq!(run(&mut new, "show count").unwrap(), "0\n");
    let error = run(&mut clients[2], "add 1").unwrap_err();
    assert!(
        matches!(&error, Failure::Closed(why) if why.contains("the limit of clients was reached")),
        "{error}"
    );
    for client in clients.iter_mut().skip(3).chain([&mut new]) {
        assert_eq!(
            run(client, "show count").unwrap(),
            "0\n",
            "the command of the disconnected client did not run"
        );
    }
    assert_eq!(server.jobs.load(SeqCst), 1, "the busy client stays");
}
