//! Clients that misuse the router's sockets in every way (`tools/stranger.py`) stop neither the router nor other clients.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use scenarios::{Ping, Routed, cabled};
use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::{Process, until};
use testkit::router::Router;
use testkit::skip::skipped;

const TWO_PORTS: &str = "create host-interface name eth0\n\
                         create host-interface name eth1\n\
                         set interface state host-eth0 up\n\
                         set interface state host-eth1 up\n\
                         set interface ip address host-eth0 10.0.0.1/24\n\
                         set interface ip address host-eth1 10.0.1.1/24\n";

/// Starts a misbehaving client or server (`tools/stranger.py`) and waits until it prints `word`. `what` is its misbehavior with arguments.
pub fn stranger(host: &Host, what: &str, word: &str) -> Process {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/stranger.py");
    let process = host.spawn(&format!("python3 -u {tool} {what}"));
    until(&format!("{what} is at work"), LIMIT, || process.stdout().contains(word));
    process
}

/// Stops a misbehaving client or server and returns its output.
pub fn stop(mut stranger: Process) -> String {
    stranger.signal(Signal::TERM);
    stranger.finish(LIMIT).expect_ok()
}

/// Runs a misbehaving client or server that ends by itself, and returns its output.
fn done(host: &Host, what: &str) -> String {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/stranger.py");
    host.attempt(&format!("python3 -u {tool} {what}"), 3 * LIMIT).expect_ok()
}

/// Returns the socket and the commands of a memif server interface with `rings` transmit queues.
fn server(dir: &Path, rings: u32) -> (PathBuf, String) {
    let socket = dir.join("memif.sock");
    let commands = server_on(&socket, rings);
    (socket, commands)
}

/// Returns the commands for a memif server interface with `rings` transmit queues on this socket.
fn server_on(socket: &Path, rings: u32) -> String {
    format!(
        "create memif socket id 1 filename {}\n\
         create interface memif id 0 socket-id 1 master rx-queues 1 tx-queues {rings}\n\
         set interface state memif1/0 up\n",
        socket.display()
    )
}

/// Starts a well-behaved router on `host` that connects to a memif server.
fn client(host: &Host, socket: &Path) -> Router {
    let commands = format!(
        "create memif socket id 1 filename {}\n\
         create interface memif id 0 socket-id 1 slave\n\
         set interface state memif1/0 up\n",
        socket.display()
    );
    Router::start(host, &commands)
}

/// Returns the numbers of hanging threads of memif sockets, without sockets that have none.
fn hanging(router: &Router) -> Vec<u64> {
    let shown = router.json("show memif");
    let counts = shown["sockets"].as_array().unwrap().iter().map(|s| s["hanging_threads"].as_u64().unwrap());
    counts.filter(|n| *n > 0).collect()
}

fn is_connected(router: &Router) -> bool {
    router.json("show memif")["interfaces"][0]["connected"] == true
}

#[test]
fn clients_that_leave_give_their_places_back() {
    let Some(lab) = Lab::new() else { return };
    let router = Router::start(&lab.host("r"), "");
    let send = |text: &[u8]| {
        let mut client = UnixStream::connect(router.socket()).unwrap();
        client.write_all(text).unwrap();
        client
    };
    // A script that ends its input and waits gets its answer.
    let mut script = send(b"wait 12\nshow version\n");
    script.shutdown(Shutdown::Write).unwrap();
    // Clients that are gone: one with further lines, and one that has sent more than the router reads ahead.
    drop(send("wait 3600\n".repeat(50).as_bytes()));
    let mut filler = send(b"{\"run\":{\"line\":\"wait 3600\"}}\n");
    filler.set_nonblocking(true).unwrap();
    while filler.write(&[b' '; 4096]).is_ok() {}
    drop(filler);
    let mut answer = String::new();
    script.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("volley v"), "{answer}");
    let sessions = || router.json("show cli-sessions").as_array().map_or(0, Vec::len);
    // The only remaining session is that of the client that asks.
    until("the places are free", LIMIT * 2, || sessions() <= 1);
}

#[test]
fn a_file_whose_close_hangs_does_not_block_any_socket() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let (memif, commands) = server(lab.dir(), 1);
    let readers = lab.dir().join("readers.sock");
    // This section adds to the router's own `unix` section.
    let unix = format!("unix {{ cli-listen-read-only {} }}", readers.display());
    let router = Router::start_with(&r, &unix, &commands);
    let cli = router.socket().to_owned();
    let sockets = [(&cli, "SOCK_STREAM", 12), (&readers, "SOCK_STREAM", 12), (&memif, "SOCK_SEQPACKET", 12)];
    let strangers: Vec<Process> = sockets
        .iter()
        .map(|(socket, kind, count)| {
            stranger(&r, &format!("hang {} {kind} {count} {}", socket.display(), router.id()), "ed\n")
        })
        .collect();
    match strangers[2].stdout().as_str() {
        "passed\n" => {}
        "cannot\n" => return skipped("needs root and /dev/fuse, for a file system that hangs"),
        other => panic!("{other}"),
    }
    // Each close takes a minute or longer. Other clients get answers long before.
    until("threads hang", LIMIT, || hanging(&router) == [12]);
    for _ in 0..20 {
        assert!(router.ctl("show version").starts_with("volley v"));
    }
    // A well-behaved client connects.
    let mut client = client(&lab.host("c"), &memif);
    until("the client is connected", LIMIT, || is_connected(&router));
    // Disconnecting and connecting it again do not wait for the hanging threads.
    for state in ["down", "up"] {
        router.ctl(&format!("set interface state memif1/0 {state}"));
        until("the client follows", LIMIT, || is_connected(&router) == (state == "up"));
    }
    strangers.into_iter().for_each(|s| drop(stop(s)));
    until("no thread hangs any more", LIMIT, || hanging(&router).is_empty());
    assert!(is_connected(&router) && client.running());
}

#[test]
fn silent_memif_clients_do_not_block_others() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let (memif, commands) = server(lab.dir(), 1);
    let router = Router::start(&r, &commands);
    let silent = stranger(&r, &format!("silent {} 24", memif.display()), "silent");
    for n in 0..4 {
        let client = client(&lab.host(&format!("c{n}")), &memif);
        until("the client is connected", LIMIT, || is_connected(&router));
        client.stop();
        until("the client is gone", LIMIT, || !is_connected(&router));
    }
    stop(silent);
}

#[test]
fn invalid_memif_packets_do_not_affect_other_ports() {
    let Some((a, r, b)) = cabled() else { return };
    let (memif, commands) = server(a.lab().dir(), 16);
    let router = Router::start(&r, &format!("{TWO_PORTS}{commands}"));
    Ping::until_answered(&a, "10.0.1.2", LIMIT);
    let rubbish = stranger(&r, &format!("rubbish {} 0 32", memif.display()), "begins");
    until("the stranger is disconnected", LIMIT, || {
        let reason = router.json("show memif")["interfaces"][0]["not_connected_because"].clone();
        reason.as_str().is_some_and(|why| why.contains("most of the peer's packets are unusable"))
    });
    // Replies after more than a second count as lost.
    let ping = Ping::run(&a, "-i 0.01 -c 400 -W 1 10.0.1.2");
    let said = stop(rubbish);
    assert!(said.contains("times: ") && !said.contains("\n0 times"), "{said}");
    assert!(ping.rtts.len() * 100 >= ping.sent * 99, "{ping:?}; {said}");
    drop(b);
}

#[test]
fn a_memif_client_cannot_punch_holes_into_its_memory() {
    let Some(Routed { a, router, r, .. }) = Routed::new() else { return };
    let (memif, commands) = server(a.lab().dir(), 1);
    router.script(&commands);
    let holes = stranger(&r, &format!("holes {} 0", memif.display()), "begins");
    // The name's control character would reverse text on a terminal, so it is escaped. JSON has it unchanged.
    let name = "stranger\u{fffd}\\u202e\"";
    until("the name is shown", LIMIT, || router.ctl("show memif").contains(name));
    assert_eq!(router.json("show memif")["interfaces"][0]["remote_name"], "stranger\u{fffd}\u{202e}");
    let ping = Ping::run(&a, "-i 0.01 -c 200 -W 1 10.0.1.2");
    let said = stop(holes);
    assert!(said.contains("\n0 of ") && !said.contains(" of 0 ") && said.contains("; connected"), "{said}");
    assert!(ping.rtts.len() * 100 >= ping.sent * 99, "{ping:?}; {said}");
}

#[test]
fn a_killed_router_restarts_despite_blocked_closes() {
    // Event descriptors whose close hangs, of a client that leaves or stays; a file whose close hangs; a file in a command
    // whose read hangs.
    for what in ["held 0", "held 1", "hang", "mute"] {
        let Some(lab) = Lab::new() else { return };
        let r = lab.host("r");
        let (memif, commands) = server(lab.dir(), 1);
        let mut router = Router::start(&r, &commands);
        let asked = match what.strip_prefix("held ") {
            Some(stays) => format!("held {} 0 {stays}", memif.display()),
            None if what == "hang" => format!("hang {} SOCK_SEQPACKET 1 {}", memif.display(), router.id()),
            None => what.into(),
        };
        let mut held = stranger(&r, &asked, "\n");
        if held.stdout().contains("cannot") {
            return skipped("needs root, for userfaultfd(2) and for a FUSE file system");
        }
        let mut reader = None;
        match what {
            "held 1" => until("the stranger is connected", LIMIT, || is_connected(&router)),
            "mute" => {
                let file = held.stdout();
                let line = format!("ctl -s {} exec {}", router.socket().display(), file.trim());
                reader = Some(r.spawn(&format!("{} {line}", testkit::router::binary().display())));
                until("a thread reads the file", LIMIT, || held.stdout().contains("somebody waits"));
            }
            _ => until("a thread hangs", LIMIT, || hanging(&router) == [1]),
        }
        let killed = Pid::from_raw(router.id() as i32).unwrap();
        kill_process(killed, Signal::KILL).unwrap();
        // A new router uses the same sockets, although the kernel has not ended the old process.
        let again = Router::start(&r, &commands);
        assert!(router.running() && held.running(), "{what}: nothing blocks the end");
        let client = client(&lab.host("c"), &memif);
        until("a well-behaved client is connected", LIMIT, || is_connected(&again));
        stop(held);
        until("the old process has ended", LIMIT, || !router.running());
        client.stop();
        drop(reader);
    }
}

#[test]
fn invalid_handshakes_and_changing_rings_do_no_harm() {
    let Some(Routed { a, router, r, .. }) = Routed::new() else { return };
    let (memif, commands) = server(a.lab().dir(), 4);
    router.script(&commands);
    let told: u32 = done(&r, &format!("lie {} 0 400", memif.display())).trim().parse().unwrap();
    assert!(told > 200, "{told}");
    let rewritten: u32 = done(&r, &format!("rewrite {} 0 4", memif.display())).trim().parse().unwrap();
    assert!(rewritten > 100, "{rewritten}");
    // The opposite direction: a server sends invalid messages to the router.
    let liar = a.lab().dir().join("liar.sock");
    let mut serves = r.spawn(&format!(
        "python3 -u {} serve {} 6",
        concat!(env!("CARGO_MANIFEST_DIR"), "/tools/stranger.py"),
        liar.display()
    ));
    until("the stranger serves", LIMIT, || serves.stdout().contains("serves"));
    let clients: String = (0..8)
        .map(|id| {
            format!("create interface memif id {id} socket-id 2 slave\nset interface state memif2/{id} up\n")
        })
        .collect();
    router.script(&format!("create memif socket id 2 filename {}\n{clients}", liar.display()));
    let said = serves.finish(LIMIT).expect_ok();
    assert!(said.lines().last().unwrap().parse::<u32>().unwrap() > 8, "{said}");
    assert!(Ping::run(&a, "-c 3 -W 2 10.0.1.2").complete());
}

/// A server that keeps pages of the router's memory in sockets gets no memory for further connections. The kernel charges the kept pages
/// to the router.
#[test]
fn a_memif_server_that_keeps_pages_in_sockets_gets_no_more() {
    let Some(lab) = Lab::new() else { return };
    let (r, s) = (lab.host("r"), lab.host("s"));
    let socket = lab.dir().join("memif.sock");
    let server = stranger(&s, &format!("splice {} 8", socket.display()), "serves");
    let router = client(&r, &socket);
    let why = "the peer still uses the memory of 2 former connections";
    until("the client waits", LIMIT, || router.log().contains(why));
    until("the server counts", LIMIT, || server.stdout().lines().count() > 1);
    let connections = server.stdout().lines().last().unwrap().parse::<u32>().unwrap();
    assert_eq!(connections, 2, "{}", router.log());
    stop(server);
    fs::remove_file(&socket).unwrap();
    let honest = Router::start(&s, &server_on(&socket, 1));
    until("the honest server is connected", LIMIT, || is_connected(&router) && is_connected(&honest));
    router.stop();
}

/// A server that removes pages of the router's memory is not connected. Nothing shows whether the server still uses removed pages, and the
/// router would need new pages that nobody has reserved.
#[test]
fn a_memif_server_that_removes_pages_is_not_connected() {
    let Some(lab) = Lab::new() else { return };
    let (r, s) = (lab.host("r"), lab.host("s"));
    let socket = lab.dir().join("memif.sock");
    let server = stranger(&s, &format!("punch {} 8", socket.display()), "serves");
    let router = client(&r, &socket);
    let why = "the router cannot detect whether peers still use the memory of 2 former connections";
    until("the client waits", LIMIT, || router.log().contains(why));
    assert!(router.log().contains("the peer has removed pages of the memory"), "{}", router.log());
    until("the server counts", LIMIT, || server.stdout().lines().count() > 1);
    let connections = server.stdout().lines().last().unwrap().parse::<u32>().unwrap();
    assert_eq!(connections, 2, "{}", router.log());
    assert!(!router.log().contains(": connected to"), "{}", router.log());
    stop(server);
    router.stop();
}

#[test]
fn clients_of_another_user_do_not_lock_root_out() {
    let Some(Routed { router, r, .. }) = Routed::new() else { return };
    let nobody = "setpriv --reuid 65534 --clear-groups";
    if !r.attempt(&format!("{nobody} true"), LIMIT).ok() {
        return skipped("needs root, to become another user");
    }
    // As if the group of the user `nobody` could use the CLI.
    fs::set_permissions(r.lab().dir(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(router.socket(), Permissions::from_mode(0o666)).unwrap();
    let line = "monitor interface host-eth0 interval 0.001";
    let unread = stranger(&r, &format!("unread {} 70 65534 {line}", router.socket().display()), "unread");
    for _ in 0..8 {
        assert!(router.ctl("show version").starts_with("volley v"));
    }
    let other = r.attempt(
        &format!(
            "{nobody} {} ctl -s {} show version",
            testkit::router::binary().display(),
            router.socket().display()
        ),
        LIMIT,
    );
    assert!(!other.ok(), "all connections of the other user are in use: {other}");
    stop(unread);
}

#[test]
fn another_user_cannot_hold_the_routers_lock_file() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    if !r.attempt(&format!("{nobody} true"), LIMIT).ok() {
        return skipped("needs root, to become another user");
    }
    fs::set_permissions(lab.dir(), Permissions::from_mode(0o755)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let lock = lab.dir().join("r.sock.lock");
    // Called first, as a build may take longer than the strangers live.
    let program = testkit::router::binary().display();
    // A lock file of an old version. Two strangers hold it; one of them has ended and left it to a child process.
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
    let mut holds = r.spawn(&format!("{nobody} flock -s {} sleep 60", lock.display()));
    let script = format!("exec 9<{}; flock -s 9; sleep 60 & echo left", lock.display());
    let left = r.spawn_args(nobody.split(' ').chain(["sh", "-c", &script]));
    until("the file is locked", LIMIT, || left.stdout().contains("left"));
    let readers = lab.dir().join("readers.sock");
    let router =
        Router::start_with(&r, &format!("unix {{ cli-listen-read-only {} }}", readers.display()), "");
    assert!(holds.running() && router.log().contains("replacing lock file"), "{}", router.log());
    let locks = [lock, lab.dir().join("readers.sock.lock")];
    for lock in &locks {
        assert_eq!(mode(lock), 0o600, "{}", lock.display());
        let tried = r.attempt(&format!("{nobody} flock -n -s {} true", lock.display()), LIMIT);
        assert!(!tried.ok(), "{tried}");
    }
    // The new lock stops a second router, as the old one did.
    let config = lab.dir().join("r.conf");
    let second = r.attempt(&format!("{program} run -c {}", config.display()), LIMIT);
    assert!(second.stderr.contains("another volley answers on"), "{second}");
    router.stop();
    let again = Router::start(&r, "");
    assert_eq!(mode(&locks[0]), 0o600);
    again.stop();
}

#[test]
fn other_users_cannot_write_the_runtime_directory_or_pid_file() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let run = lab.dir().join("run");
    let config = lab.dir().join("open.conf");
    let (dir, program) = (run.display(), testkit::router::binary().display());
    let text = format!("unix {{ nodaemon runtime-dir {dir} cli-listen {dir}/cli.sock pidfile {dir}/pid }}");
    fs::write(&config, text).unwrap();
    let script = format!("umask 0; exec {program} run -c {}", config.display());
    let mut router = r.spawn_args(["sh", "-c", &script]);
    until("the router is ready", LIMIT, || router.stderr().contains("volley: ready"));
    for (path, mode) in [(&run, 0o755), (&run.join("pid"), 0o644), (&run.join("cli.sock.lock"), 0o600)] {
        let found = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(found & 0o7777, mode, "{}", path.display());
    }
    router.signal(Signal::TERM);
    router.finish(LIMIT).expect_ok();
}
