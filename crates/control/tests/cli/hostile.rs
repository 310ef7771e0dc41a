//! Tests of the client with a server that is not a router.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use control::cli::client::{Connection, Failure, candidates};

/// Starts a server that greets one client, waits for the client's next request, and then passes the
/// connection to `act`. Returns the directory of the socket and the path of the socket.
fn hostile(act: impl FnOnce(UnixStream) + Send + 'static) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cli.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut requests = BufReader::new(stream.try_clone().unwrap());
        requests.read_line(&mut String::new()).unwrap();
        stream.write_all(b"{\"hello\":{\"prompt\":\"\\u001b[2Jx# \"}}\n").unwrap();
        requests.read_line(&mut String::new()).unwrap();
        act(stream);
    });
    (directory, socket)
}

#[test]
fn terminals_get_no_control_characters_of_a_server() {
    let (_directory, socket) = hostile(|mut stream| {
        let reply = b"{\"out\":\"a\\u001b]0;title\\u0007b\\n\"}\n{\"failed\":\"\\u009b2J\"}\n";
        stream.write_all(reply).unwrap();
    });
    let mut connection = Connection::open(&socket).unwrap();
    assert_eq!(connection.prompt(), "\\u001b[2Jx# ");
    let mut out = Vec::new();
    let failure = connection.run("show version", false, &mut out, &|| false).unwrap_err();
    assert_eq!(String::from_utf8(out).unwrap(), "a\\u001b]0;title\\u0007b\n");
    assert_eq!(failure.to_string(), "\\u009b2J");
}

#[test]
fn replies_that_no_router_sends_are_refused() {
    for (reply, part) in [
        ("{\"\\u001b[2J\":1}\n", "unknown variant `\\u001b[2J`"),
        ("{\"data\":{\"bytes\":3,\"told\":\"\"}}\n\u{1b}[2", "binary data instead of text"),
    ] {
        let (_directory, socket) = hostile(move |mut stream| stream.write_all(reply.as_bytes()).unwrap());
        let mut connection = Connection::open(&socket).unwrap();
        let mut out = Vec::new();
        let failure = connection.run("show version", false, &mut out, &|| false).unwrap_err();
        assert!(failure.to_string().contains(part) && out.is_empty(), "{failure}");
    }
}

#[test]
fn a_line_without_end_is_interrupted_and_limited() {
    let endless = |mut stream: UnixStream| while stream.write_all(&[b' '; 65536]).is_ok() {};
    let (_directory, socket) = hostile(endless);
    let mut connection = Connection::open(&socket).unwrap();
    let begun = Instant::now();
    let interrupted = || begun.elapsed() > Duration::from_millis(5);
    let failure = connection.run("show version", false, &mut Vec::new(), &interrupted).unwrap_err();
    assert!(matches!(failure, Failure::Interrupted), "{failure}");
    let (_directory, socket) = hostile(endless);
    let mut connection = Connection::open(&socket).unwrap();
    let failure = connection.run("show version", false, &mut Vec::new(), &|| false).unwrap_err();
    assert!(failure.to_string().contains("more than 64 MiB"), "{failure}");
}

#[test]
fn a_completion_of_no_place_in_the_line_is_ignored() {
    let reply = |from: usize| {
        format!(
            "{{\"completion\":{{\"from\":{from},\"candidates\":[{{\"text\":\"\\u001bx\",\"help\":\"\",\"placeholder\":false}}]}}}}\n"
        )
    };
    for (from, expected) in [(99, vec![]), (5, vec!["\\u001bx".to_string()])] {
        let (_directory, socket) =
            hostile(move |mut stream| stream.write_all(reply(from).as_bytes()).unwrap());
        assert_eq!(candidates(&socket, &["show".into(), "v".into()]), expected);
    }
}

/// An editor cannot interrupt its wait for completions, so the wait must end by itself.
#[test]
fn a_server_that_does_not_complete_ends_the_wait() {
    let (_directory, socket) = hostile(|mut stream| {
        // Incomplete data must not prolong the wait.
        while stream.write_all(b" ").is_ok() {
            thread::sleep(Duration::from_millis(200));
        }
    });
    let mut connection = Connection::open(&socket).unwrap();
    let begun = Instant::now();
    let failure = connection.complete("sh").unwrap_err();
    assert!(failure.to_string().contains("has not answered within 5 s"), "{failure}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn completions_of_a_server_are_limited() {
    let (_directory, socket) = hostile(|mut stream| {
        let one = |text: &str| format!("{{\"text\":\"{text}\",\"help\":\"\",\"placeholder\":false}}");
        let all: Vec<String> =
            (0..5000).map(|n| one(&n.to_string())).chain([one(&"w".repeat(5000))]).collect();
        let first = format!("{},{}", one(&"v".repeat(5000)), all.join(","));
        let reply = format!("{{\"completion\":{{\"from\":0,\"candidates\":[{first}]}}}}\n");
        stream.write_all(reply.as_bytes()).unwrap();
    });
    let completion = Connection::open(&socket).unwrap().complete("").unwrap();
    assert_eq!(completion.candidates.len(), 999);
    assert!(completion.candidates.iter().all(|one| one.text.len() < 10));
}
