//! Tests of the command line over real sockets, with a toy server and different clients.

mod full;
mod hostile;
mod toy;

use control::cli::client::{Connection, Failure, candidates};
use control::cli::{Call, CliError, Connected, Entrance, Listener, Role, Service, Sessions, run_file, serve};
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

use toy::*;

#[test]
fn single_commands_are_answered() {
    let server = Server::start();
    assert_eq!(server.ctl(&["add", "5"], "", |_| ()), ok(0, ""));
    assert_eq!(server.ctl(&["sh", "co"], "", |_| ()), ok(0, "5\n"));
    assert_eq!(server.ctl(&["show count"], "", |_| ()), ok(0, "5\n"));
    assert_eq!(server.ctl(&["show", "count", "--json"], "", |_| ()), ok(0, "5\n"));
    let (code, out, errors) = server.ctl(&["set", "int", "state", "host-eth7", "up"], "", |_| ());
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(errors.contains("\n              ^^^^^^^^^\nthere is no interface 'host-eth7'"), "{errors}");
}

#[test]
fn commands_from_standard_input_stop_at_the_first_fault() {
    let server = Server::start();
    let script = "add 1 # one\n\nadd x\nadd 2\nadd y\nshow count";
    let (code, out, errors) = server.ctl(&["-"], script, |_| ());
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(errors.starts_with("line 3:\nadd x\n    ^\n"), "{errors}");
    assert_eq!(server.ctl(&["show", "count"], "", |_| ()).1, "1\n");
    let (code, out, errors) = server.ctl(&["-"], script, |options| options.keep_going = true);
    assert_eq!((code, out.as_str()), (1, "4\n"));
    assert!(errors.contains("line 3:") && errors.contains("line 5:"), "{errors}");
    assert_eq!(server.ctl(&[], "show count", |options| options.json = true), ok(0, "4\n"));
}

#[test]
fn errors_are_json_if_answers_are() {
    let server = Server::start();
    let error = |errors: &str| serde_json::from_str::<serde_json::Value>(errors).unwrap()["error"].clone();
    let (code, out, errors) = server.ctl(&["set int state host-eth7 up"], "", |options| options.json = true);
    assert_eq!((code, out.as_str()), (1, ""));
    let found = error(&errors);
    assert_eq!(found["message"], "there is no interface 'host-eth7'");
    assert_eq!((&found["line"], &found["column"]), (&"set int state host-eth7 up".into(), &15.into()));
    // The last word of the command asks for JSON, too.
    let (_, _, errors) = server.ctl(&["set int state host-eth7 up --json"], "", |_| ());
    assert_eq!(error(&errors)["length"], 9);
    let (_, _, errors) = server.ctl(&["-"], "add 1\n\nadd x", |options| options.json = true);
    assert_eq!(error(&errors)["input_line"], 3);
    let (_, _, errors) = server.ctl(&["-"], b"add \xff\n", |options| options.json = true);
    assert_eq!(error(&errors)["message"], "line 1, column 5: expected text in UTF-8");
    let (code, _, errors) = server.ctl(&["show count"], "", |options| {
        (options.json, options.socket) = (true, "/nonexistent/cli.sock".into());
    });
    assert_eq!(code, 2);
    assert!(error(&errors)["message"].as_str().unwrap().contains("/nonexistent/cli.sock"));
}

#[test]
fn lines_that_are_not_utf8_are_faults() {
    let server = Server::start();
    let script = b"add 1\nadd \xff\nadd 2\nshow count\n";
    let (code, out, errors) = server.ctl(&["-"], script, |_| ());
    assert_eq!((code, out.as_str(), errors.as_str()), (1, "", "line 2, column 5: expected text in UTF-8\n"));
    let (code, out, errors) = server.ctl(&["-"], script, |options| options.keep_going = true);
    assert_eq!(
        (code, out.as_str(), errors.as_str()),
        (1, "4\n", "line 2, column 5: expected text in UTF-8\n")
    );
}

#[test]
fn missing_server_is_reported() {
    let server = Server::start();
    let socket = server.directory.path().join("other.sock");
    let (code, _, errors) = server.ctl(&["show", "count"], "", |options| options.socket = socket);
    assert_eq!(code, 2);
    assert!(errors.contains("is volley running?"), "{errors}");
}

/// Root needs its own socket, because other users can exhaust the common socket's backlog or its threads.
#[test]
fn root_uses_its_own_socket_unless_another_user_owns_it() {
    let server = Server::start();
    let own = server.directory.path().join("cli.sock.root");
    if !nix::unistd::Uid::effective().is_root() {
        assert_eq!(server.ctl(&["show", "count"], "", |_| ()).0, 0);
        // Not skipped: other users than root do not need the socket.
        return;
    }
    // A socket on which no connection is accepted.
    fs::rename(server.socket(), server.directory.path().join("served.sock")).unwrap();
    let unserved = std::os::unix::net::UnixListener::bind(server.socket()).unwrap();
    assert_eq!(server.ctl(&["show", "count"], "", |_| ()), ok(0, "0\n"));
    drop(unserved);
    fs::rename(server.directory.path().join("served.sock"), server.socket()).unwrap();
    let theirs = server.directory.path().join("theirs.sock");
    let listener = std::os::unix::net::UnixListener::bind(&theirs).unwrap();
    listener.set_nonblocking(true).unwrap();
    std::os::unix::fs::lchown(&theirs, Some(4001), None).unwrap();
    fs::rename(&theirs, &own).unwrap();
    assert_eq!(server.ctl(&["show", "count"], "", |_| ()), ok(0, "0\n"));
    assert!(listener.accept().is_err(), "no client connected");
}

#[test]
fn second_server_is_refused_until_the_first_ends() {
    let mut server = Server::start();
    let error = Listener::unix(&server.socket(), None).unwrap_err().to_string();
    assert!(error.contains("another volley answers"), "{error}");
    assert_eq!(server.ctl(&["show", "count"], "", |_| ()).0, 0);
    let socket = server.socket();
    let _ = server.stop.take().map(|stop| stop.send(()));
    server.thread.take().unwrap().join().unwrap();
    assert!(!socket.exists());
    assert!(Listener::unix(&socket, None).is_ok());
}

#[test]
fn output_is_streamed() {
    let server = Server::start();
    let mut connection = server.connect();
    assert_eq!(run(&mut connection, "numbers to 3").unwrap(), "1\n2\n3\n");
    server.wait_for_jobs(0);
    let text = run(&mut connection, "big 100001").unwrap();
    assert_eq!(text, format!("{}\n", "é".repeat(100_001)));
}

#[test]
fn interrupted_commands_end() {
    let server = Server::start();
    let mut connection = server.connect();
    let mut out = Vec::new();
    let begun = Instant::now();
    let interrupted = || begun.elapsed() > Duration::from_millis(50);
    let result = connection.run("numbers forever", false, &mut out, &interrupted);
    assert!(matches!(result, Err(Failure::Interrupted)), "{result:?}");
    assert!(out.starts_with(b"1\n2\n"));
    server.wait_for_jobs(1);
    drop(connection);
    server.wait_for_jobs(0);
}

#[test]
fn long_commands_do_not_block_others() {
    let server = Server::start();
    // This client never reads.
    let mut deaf = UnixStream::connect(server.socket()).unwrap();
    deaf.write_all(b"{\"run\":{\"line\":\"flood\"}}\n").unwrap();
    server.wait_for_jobs(1);
    let mut other = server.connect();
    for _ in 0..10 {
        assert_eq!(run(&mut other, "show count").unwrap(), "0\n");
    }
    drop(deaf);
    server.wait_for_jobs(0);
}

#[test]
fn unread_lists_wait_and_end_with_their_client() {
    const LEN: usize = 2_000_000;
    let server = Server::start();
    let request = format!("{{\"run\":{{\"line\":\"list {LEN}\"}}}}\n");
    let mut slow = UnixStream::connect(server.socket()).unwrap();
    slow.write_all(request.as_bytes()).unwrap();
    server.wait_for_jobs(1);
    let mut other = server.connect();
    for _ in 0..100 {
        assert_eq!(run(&mut other, "show count").unwrap(), "0\n");
    }
    // The system buffers only a few hundred kilobytes of the output.
    let made = server.rows.load(SeqCst);
    assert!((1..LEN / 10).contains(&made), "{made} rows were made");
    let (mut lines, mut last) = (BufReader::new(&slow), String::new());
    while last.trim_end() != "\"done\"" {
        last.clear();
        assert!(lines.read_line(&mut last).unwrap() > 0, "the connection was closed");
    }
    assert_eq!(server.rows.load(SeqCst), LEN);
    server.wait_for_jobs(0);
    slow.write_all(request.as_bytes()).unwrap();
    server.wait_for_jobs(1);
    drop(slow);
    server.wait_for_jobs(0);
}

#[test]
fn others_are_answered_while_a_list_is_shown() {
    const LEN: usize = 300_000;
    let server = Server::start();
    let mut reader = server.connect();
    let listing = thread::spawn(move || run(&mut reader, &format!("list {LEN} --json")).unwrap());
    server.wait_for_jobs(1);
    let mut other = server.connect();
    let mut between = 0;
    while server.jobs.load(SeqCst) > 0 {
        run(&mut other, "show count").unwrap();
        between += 1;
    }
    assert!(between > 10, "the other client was answered {between} times meanwhile");
    let shown: Vec<usize> = serde_json::from_str(&listing.join().unwrap()).unwrap();
    assert!(shown.into_iter().eq(0..LEN));
}

#[test]
fn router_completes_words() {
    let server = Server::start();
    let found = server.connect().complete("set interface state host-eth1 u").unwrap();
    assert_eq!((found.from, found.candidates[0].text.as_str()), (30, "up"));
}

#[test]
fn router_completes_words_for_shells() {
    let server = Server::start();
    let at = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        candidates(&server.socket(), &words)
    };
    assert_eq!(at(&["sh"]), ["show"]);
    assert_eq!(at(&["set", "int", "st", ""]), ["host-eth0", "host-eth1"]);
    assert_eq!(at(&["set", "int", "st", "host-eth1", "u"]), ["up"]);
    // Values that the operator must choose are not offered.
    assert_eq!(at(&["add", ""]), [""; 0]);
    assert_eq!(at(&[]), [""; 0]);
    assert_eq!(candidates(Path::new("/no/such.sock"), &["sh".into()]), [""; 0]);
}

#[test]
fn read_only_socket_changes_nothing() {
    let server = Server::serving(|| Service { role: Role::Viewer, ..Service::default() });
    let mut connection = server.connect();
    for line in
        ["add 5", "ad 5 --json", "set interface state host-eth0 up", "exec /etc/hostname", "numbers to 3"]
    {
        match run(&mut connection, line) {
            Err(Failure::Refused(why)) => {
                assert!(why.contains("this socket is read-only"), "{line}: {why}")
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    assert_eq!(run(&mut connection, "show count").unwrap(), "0\n");
    assert_eq!(run(&mut connection, "sh co").unwrap(), "0\n");
    assert!(run(&mut connection, "help add").unwrap().contains("Add to the count."));
    // Typed lines are refused, too; unknown commands are reported as everywhere.
    assert!(typed(&server, "add 5\nshow count\n").contains("read-only"));
    assert!(typed(&server, "show count\n").contains("# 0\n"));
    assert!(typed(&server, "nonsense\n").contains("there is no command"));
}

#[test]
fn binary_output_needs_a_client_that_accepts_it() {
    let server = Server::start();
    let mut connection = server.connect();
    let (mut out, mut told) = (Vec::new(), String::new());
    connection.stream("bytes 250000", &mut out, &mut told, &|| false).unwrap();
    let expected: Vec<u8> =
        [100_000, 100_000, 50_000].iter().flat_map(|n| (0..*n).map(|i: u32| i as u8)).collect();
    assert!(out == expected && told == format!("{} are left", u32::MAX), "{} bytes, {told}", out.len());
    // The connection can still be used.
    assert_eq!(run(&mut connection, "show count").unwrap(), "0\n");
    // Binary output is refused for other requests, typed lines, and files of commands.
    assert!(
        matches!(run(&mut connection, "bytes 5"), Err(Failure::Refused(why)) if why == "these are bytes")
    );
    assert!(typed(&server, "bytes 5\n").contains("these are bytes"));
    let file = server.directory.path().join("commands");
    fs::write(&file, "bytes 5\n").unwrap();
    let exec = format!("exec {}", file.display());
    let refused = connection.stream(&exec, &mut out, &mut told, &|| false);
    assert!(matches!(refused, Err(Failure::Refused(why)) if why.contains("these are bytes")));
    // A client that disconnects ends the command.
    let stop = std::cell::Cell::new(0);
    let interrupted = || stop.replace(stop.get() + 1) > 3;
    let ended = connection.stream("bytes 4000000000", &mut out, &mut told, &interrupted);
    assert!(matches!(ended, Err(Failure::Interrupted)), "{ended:?}");
    drop(connection);
    server.wait_for_jobs(0);
}

/// Sends raw bytes. Returns the first line of the answer, or `None` if the server closes the connection instead.
fn raw(socket: &Path, bytes: &[u8]) -> Option<String> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    // The server may close the connection before everything is written.
    let _ = stream.write_all(bytes);
    let mut line = String::new();
    match BufReader::new(stream).read_line(&mut line) {
        Ok(0) => None,
        Ok(_) => Some(line),
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
            None
        }
    }
}

#[test]
fn invalid_requests_are_answered_and_floods_are_cut() {
    let server = Server::start();
    for bytes in
        [&b"{"[..], b"{\"run\":3}", b"\"\xff\xfe", format!("{{\"x\":{}", "[".repeat(10_000)).as_bytes()]
    {
        let bytes = [bytes, b"\n"].concat();
        let answer = raw(&server.socket(), &bytes).unwrap();
        assert!(answer.contains("invalid request"), "{answer}");
    }
    let answer = raw(&server.socket(), &vec![b'{'; 1 << 20]).unwrap();
    assert!(answer.contains("a line or request is longer than 256 KiB"), "{answer}");
    let readers = Server::serving(|| Service { role: Role::Viewer, ..Service::default() });
    let request = |len: usize| format!("{{\"run\":{{\"line\":\"show count{}\"}}}}\n", " ".repeat(len));
    assert_eq!(raw(&readers.socket(), request(8000).as_bytes()).unwrap(), "{\"out\":\"0\\n\"}\n");
    let answer = raw(&readers.socket(), request(9000).as_bytes()).unwrap();
    assert!(answer.contains("a line or request is longer than 8 KiB"), "{answer}");
    assert_eq!(server.ctl(&["show", "count"], "", |_| ()), ok(0, "0\n"));
}

#[test]
fn connected_clients_are_listed_with_their_commands() {
    let sessions = Sessions::default();
    let server = {
        let sessions = sessions.clone();
        Server::serving(move || Service { role: Role::Viewer, sessions, ..Service::default() })
    };
    let idle = UnixStream::connect(server.socket()).unwrap();
    let mut busy = UnixStream::connect(server.socket()).unwrap();
    // A part of a request.
    busy.write_all(b"{").unwrap();
    let wait = |what: &str, is_so: fn(&[(u64, Connected)]) -> bool| {
        let begun = Instant::now();
        while !is_so(&sessions.connected()) {
            assert!(begun.elapsed() < LONG, "{what}: {:?}", sessions.connected());
            thread::sleep(Duration::from_millis(1));
        }
    };
    wait("both are connected", |all| all.len() == 2);
    let uid = nix::unistd::Uid::effective().as_raw();
    for (_, one) in sessions.connected() {
        assert_eq!((one.client.entrance, one.client.role), (Entrance::Socket, Role::Viewer));
        assert_eq!((one.client.peer.uid(), one.client.pid), (Some(uid), Some(std::process::id() as i32)));
    }
    drop(busy);
    wait("one has left", |all| all.len() == 1);
    drop(idle);
    wait("all have left", |all| all.is_empty());
    let own = server.directory.path().join("cli.sock.root");
    let root = UnixStream::connect(own).unwrap();
    wait("by root's socket", |all| all.iter().any(|(_, one)| one.client.entrance == Entrance::Root));
    drop(root);
}

#[test]
fn running_command_is_listed() {
    let sessions = Sessions::default();
    let server = {
        let sessions = sessions.clone();
        Server::serving(move || Service { sessions, ..Service::default() })
    };
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.write_all(b"numbers forever\n").unwrap();
    let begun = Instant::now();
    let runs = |line: &str| {
        let all = sessions.connected();
        all.iter().any(|(_, one)| one.running.as_ref().is_some_and(|(of, _)| **of == *line))
    };
    while !runs("numbers forever") {
        assert!(begun.elapsed() < LONG, "{:?}", sessions.connected());
        thread::sleep(Duration::from_millis(1));
    }
    drop(stream);
    server.wait_for_jobs(0);
}

#[test]
fn tcp_is_served() {
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let socket = PathBuf::from(listener.address().unwrap().to_string());
    let (done, ended) = oneshot::channel::<()>();
    let server = thread::spawn(move || {
        let toy = Toy { count: 7, ..Toy::default() };
        on_local_set(async move {
            tokio::select! {
                _ = serve(listener, registry(), Rc::new(RefCell::new(toy)), Service::default()) => {}
                _ = ended => {}
            }
        });
    });
    assert_eq!(run(&mut Connection::open(&socket).unwrap(), "show count").unwrap(), "7\n");
    done.send(()).unwrap();
    server.join().unwrap();
}

/// Sends `lines` and then nothing more. Returns everything that the server sends until it closes the connection.
fn typed(server: &Server, lines: &str) -> String {
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(lines.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn plain_lines_are_answered_as_text() {
    let server = Server::serving(|| Service { prompt: "r1# ".into(), ..Service::default() });
    // Line ends as of telnet; and the output of a job, after which the other lines run.
    let text = typed(&server, "add 3\r\nsh count\r\nnumbers to 2\nadd x\nshow count --json");
    let fault = "add x\n    ^\n";
    let (before, after) = text.split_once(fault).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(before, "r1# r1# 3\nr1# 1\n2\nr1# ");
    assert!(after.ends_with("\nr1# 3\nr1# "), "{after}");
    assert_eq!(typed(&server, "quit\nshow count\n"), "r1# ");
    server.wait_for_jobs(0);
}

#[test]
fn silent_clients_get_a_prompt() {
    let server = Server::start();
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut prompt = [0; 8];
    stream.read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"volley# ");
    assert_eq!(server.connect().prompt(), "volley# ", "programs get it, too");
}

#[test]
fn slow_programs_are_still_recognized() {
    let server = Server::start();
    let answer = |wait: Duration| {
        let mut stream = UnixStream::connect(server.socket()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        thread::sleep(wait);
        stream.write_all(b"\"hello\"\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let hello = "{\"hello\":{\"prompt\":\"volley# \"}}\n";
    assert_eq!(answer(Duration::from_millis(400)), hello);
    assert_eq!(answer(Duration::from_millis(2500)), format!("volley# \n{hello}"));
}

#[test]
fn requests_before_the_end_of_input_are_answered() {
    let server = Server::start();
    for _ in 0..20 {
        let requests = ["numbers to 500", "big 100000", "add 1", "numbers to 3", "show count"]
            .map(|line| format!("{{\"run\":{{\"line\":\"{line}\"}}}}\n"));
        let answers = typed(&server, &requests.concat());
        assert_eq!(answers.matches("\"done\"\n").count(), requests.len(), "{answers}");
    }
    assert_eq!(server.ctl(&["show", "count"], "", |_| ()), ok(0, "20\n"));
}

#[test]
fn http_requests_change_nothing() {
    let server = Server::start();
    let text = typed(&server, "POST / HTTP/1.1\r\nHost: 127.0.0.1:5002\r\n\r\nadd 5\r\n");
    assert!(text.ends_with("this is not a web server\n"), "{text}");
    assert_eq!(server.ctl(&["show", "count"], "", |_| ()), ok(0, "0\n"));
}

#[test]
fn files_are_run_up_to_the_first_fault() {
    let server = Server::start();
    let write = |name: &str, text: &str| fs::write(server.directory.path().join(name), text).unwrap();
    let inner = server.directory.path().join("inner");
    write("inner", "add 10\nnumbers to 2\n");
    write("outer", &format!("# first\nadd 1\nexec {}\nshow count\n", inner.display()));
    write("bad", "add 100\n  add 4294967295 # too much\nadd 1000\n");
    write("circle", &format!("exec {}\n", server.directory.path().join("circle").display()));
    let exec = |name: &str| {
        server.ctl(&["exec", &server.directory.path().join(name).display().to_string()], "", |_| ())
    };

    assert_eq!(exec("outer"), ok(0, "1\n2\n11\n"));
    let (code, _, errors) = exec("bad");
    assert_eq!(code, 1);
    assert!(errors.contains("bad:2:7: too much") && errors.contains("      ^^^^^^^^^^\n"), "{errors}");
    assert_eq!(server.ctl(&["show", "count"], "", |_| ()).1, "111\n");
    assert!(exec("circle").2.contains("levels of nested exec"));
    assert!(exec("missing").2.contains("cannot read"));
    assert!(exec(".").2.contains("it is not an ordinary file"));
    server.wait_for_jobs(0);
}

#[test]
fn contents_of_other_files_are_not_shown() {
    let server = Server::start();
    let exec = |text: &str| {
        let file = server.directory.path().join("file");
        fs::write(&file, text).unwrap();
        let (_, out, errors) = server.ctl(&["exec", &file.display().to_string()], "", |_| ());
        out + &errors
    };
    let shadow = "root:$6$secret:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n";
    // The first word of this file is also that of a command, but nothing shows that the file has commands.
    let settings = "set imap_pass=secret\nset imap_user=secret\n";
    for (text, place) in [(shadow, "file:1:1: "), (settings, "file:1:5: ")] {
        let said = exec(text);
        assert!(said.contains(place) && said.contains("volley check") && !said.contains("secret"), "{said}");
    }
    // If the first line happens to be a command, the lines after it are still not shown.
    let said = exec("# comment\nshow count\nroot:secret\n");
    assert!(said.contains("file:3:1: ") && !said.contains("secret"), "{said}");
    // After a valid command, a mistyped one is shown; so is a command that fails.
    let said = exec("show count\nadd some\n");
    assert!(said.contains("file:2:5: ") && said.contains("add some\n    ^^^^\n"), "{said}");
    let said = exec("add 4294967295\nadd 4294967295\n");
    assert!(said.contains("add 4294967295\n"), "{said}");
}

#[test]
fn large_files_do_not_block_others() {
    let server = Server::start();
    let path = server.directory.path().join("large");
    fs::write(&path, "add 1\n".repeat(200_000)).unwrap();
    let (progress, seen) = mpsc::channel();
    let socket = server.socket();
    let loader = thread::spawn(move || {
        run(&mut Connection::open(&socket).unwrap(), &format!("exec {}", path.display())).unwrap();
    });
    let mut other = server.connect();
    loop {
        let count: u32 = run(&mut other, "show count").unwrap().trim().parse().unwrap();
        progress.send(count).unwrap();
        if count == 200_000 {
            break;
        }
    }
    loader.join().unwrap();
    drop(progress);
    let between = seen.iter().filter(|count| (1..200_000).contains(count)).count();
    assert!(between > 10, "the other client was answered {between} times meanwhile");
}

#[test]
fn files_run_at_the_start_without_a_client() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("setup");
    fs::write(&path, "add 3\nnumbers to 2\nshow count\nnonsense\n").unwrap();
    let cx = Rc::new(RefCell::new(Toy::default()));
    let error: CliError = on_local_set(run_file(&registry(), &cx, &path, |_| ())).unwrap_err();
    assert!(error.to_string().contains("setup:4:1: there is no command 'nonsense'"), "{error}");
    fs::write(&path, "numbers to 2\nshow count\n").unwrap();
    let mut said = String::new();
    on_local_set(run_file(&registry(), &cx, &path, |text| said += text)).unwrap();
    assert_eq!(said, "1\n2\n3\n");
    let answer = registry().run(&mut cx.borrow_mut(), "show count", Call::default()).unwrap();
    assert_eq!(answer.text, "3\n");
}
