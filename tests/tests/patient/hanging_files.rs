//! Files whose file systems are slow, or do not answer, keep nobody waiting but the clients that named them.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use scenarios::{Ping, cabled};
use testkit::netns::{LIMIT, Lab};
use testkit::process::{Process, until};
use testkit::router::Router;
use testkit::skip::skipped;

use crate::strangers::{stop, stranger};

#[test]
fn a_hanging_file_system_does_not_delay_other_commands() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let router = Router::start(&r, "");
    let held = stranger(&r, "mute LOOKUP", "\n");
    if held.stdout().contains("cannot") {
        return skipped("needs root, for a FUSE file system");
    }
    let file = held.stdout().trim().to_string();
    let commands = [
        "create pcap interface pcap3 tx FILE",
        "create tap id 5 host-ns FILE",
        "pcap trace rx max 10 file FILE",
    ];
    let mut waiting: Vec<Process> =
        commands.iter().map(|command| router.in_background(&command.replace("FILE", &file))).collect();
    until("a thread waits", LIMIT, || held.stdout().contains("somebody waits"));
    // A command that came after the apply would be refused at once.
    until("all commands run", LIMIT, || {
        let sessions = router.json("show cli-sessions").to_string();
        sessions.matches(&file).count() == commands.len()
    });
    // An apply runs its steps on the main thread. The thread waits for the hanging file system only once, and only for a moment.
    let yaml = lab.dir().join("x.yaml");
    fs::write(&yaml, format!("interfaces:\n  pcap5:\n    pcap: {{ tx: \"{file}\" }}\n")).unwrap();
    let begun = Instant::now();
    for _ in 0..4 {
        let refused = router.attempt(&format!("config apply {}", yaml.display()));
        assert!(refused.stderr.contains("the file system does not answer"), "{refused}");
        for _ in 0..5 {
            assert!(router.ctl("show version").starts_with("volley v"));
        }
    }
    assert!(begun.elapsed() < LIMIT / 2, "{:?}", begun.elapsed());
    assert!(waiting.iter_mut().all(Process::running), "each command waits for its own file");
    stop(held);
    for (command, waiting) in commands.iter().zip(&mut waiting) {
        let ended = waiting.finish(LIMIT);
        assert!(!ended.ok() && !ended.stderr.is_empty(), "{command}: {ended}");
    }
    assert_eq!(router.json("show interface").as_array().map(Vec::len), Some(0));
    router.stop();
}

/// A capture that cannot be read is refused after some seconds. It keeps neither the rollback of an unconfirmed configuration waiting, nor a
/// start.
#[test]
fn a_capture_that_hangs_does_not_block_changes() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let native = lab.dir().join("http.sock");
    let router = Router::start_with(&r, &format!("native-api {{ socket-name {} }}", native.display()), "");
    let held = stranger(&r, "mute READ", "\n");
    if held.stdout().contains("cannot") {
        return skipped("needs root, for a FUSE file system");
    }
    let file = |name: &str, text: &str| {
        let path = lab.dir().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let mute = held.stdout().trim().to_string();
    let hangs = format!("interfaces:\n  pcap0:\n    pcap: {{ rx: \"{mute}\" }}\n");
    let (hangs, other) = (file("hangs.yaml", &hangs), file("other.yaml", "tables: [ 7 ]\n"));
    router.ctl(&format!("config apply {other} confirm 2s"));
    // The rollback is due before the file system has been silent for too long.
    let refused = router.attempt(&format!("config apply {hangs} dry-run"));
    assert!(refused.stderr.contains("the file was not read in time"), "{refused}");
    until("the configuration is rolled back", LIMIT, || !router.ctl("show config").contains("ip table add"));
    // The router knows now that the file hangs.
    let begun = Instant::now();
    for _ in 0..100 {
        let refused = router.attempt(&format!("create pcap interface pcap1 rx {mute}"));
        assert!(refused.stderr.contains("the file system does not answer"), "{refused}");
    }
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    router.ctl("ip table add 8");
    // The reading of an apply ends when its client leaves.
    let second = stranger(&r, "mute READ", "\n");
    let path = second.stdout().trim().to_string();
    let body = format!("{{\"interfaces\": {{\"pcap0\": {{\"pcap\": {{\"rx\": \"{path}\"}}}}}}}}");
    let mut client = UnixStream::connect(&native).unwrap();
    write!(client, "PUT /v1/config HTTP/1.1\r\nhost: v\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    until("a thread reads the file", LIMIT, || second.stdout().contains("somebody waits"));
    drop(client);
    let begun = Instant::now();
    until("other changes are made", LIMIT, || router.attempt("ip table add 9").ok());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    // The kernel ends the process only after the file system has answered.
    let killed = Pid::from_raw(router.id() as i32).unwrap();
    kill_process(killed, Signal::KILL).unwrap();
    let again = Router::spawn_from(&r, Path::new(&hangs)).wait_ready();
    let pcap0 = again.ctl("show interface pcap0");
    assert!(pcap0.contains("the file system does not answer"), "{pcap0}");
    again.ctl("ip table add 8");
    // A rollback restores the interface, which waits again.
    again.ctl("delete pcap interface pcap0");
    again.ctl("config rollback");
    assert!(again.ctl("show interface pcap0").contains("the file system does not answer"));
    stop(held);
    stop(second);
    again.stop();
}

/// A file system that answers slowly keeps a thread of the router only while a client waits for the file.
#[test]
fn the_reading_of_a_slow_file_ends_when_its_client_leaves() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let native = lab.dir().join("http.sock");
    let generator = "create packet-generator interface pg0";
    let router =
        Router::start_with(&r, &format!("native-api {{ socket-name {} }}", native.display()), generator);
    let server = stranger(&r, "slow 0.2", "\n");
    if server.stdout().contains("cannot") {
        return skipped("needs root, for a FUSE file system");
    }
    let path = server.stdout().trim().to_string();
    let tasks = format!("/proc/{}/task", router.id());
    let readers = || {
        let tasks = fs::read_dir(&tasks).unwrap().flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "volley_files").count()
    };
    let before = readers();
    let lines = [
        format!("create pcap interface pcap1 rx {path}"),
        format!("packet-generator new pcap {path} source pg0 name x"),
        format!("exec {path}"),
        format!("config apply {path}"),
        format!("ip route load {path} via 10.0.0.1"),
        format!("api trace replay {path}"),
    ];
    let mut clients = Vec::new();
    for line in &lines {
        let mut client = UnixStream::connect(router.socket()).unwrap();
        // As `volley ctl` does.
        writeln!(client, "{{\"run\": {{\"line\": \"{line}\"}}}}").unwrap();
        clients.push(client);
    }
    let body = format!("{{\"commands\": [\"create pcap interface pcap2 rx {path}\"]}}");
    let mut client = UnixStream::connect(&native).unwrap();
    write!(client, "POST /v1/commands HTTP/1.1\r\nhost: v\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    clients.push(client);
    until("threads read the file", LIMIT, || readers() == before + clients.len());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(readers(), before + clients.len(), "they wait while there is progress");
    clients.clear();
    until("no thread reads the file", 4 * LIMIT, || readers() <= before);
    assert!(!router.ctl("show interface").contains("pcap"));
    stop(server);
    // The same for a file without end whose file system answers at once.
    let server = stranger(&r, "slow 0.01", "\n");
    let path = server.stdout().trim().to_string();
    for line in [format!("exec {path}"), format!("config apply {path}"), format!("api trace replay {path}")] {
        let mut client = UnixStream::connect(router.socket()).unwrap();
        writeln!(client, "{{\"run\": {{\"line\": \"{line}\"}}}}").unwrap();
        clients.push(client);
    }
    until("threads read the file", LIMIT, || readers() == before + clients.len());
    clients.clear();
    until("no thread reads the file", 2 * LIMIT, || readers() <= before);
    stop(server);
}

/// A file system that takes no packets keeps neither the main thread waiting nor the clients of others: not while packets are captured, and
/// not when the file or its interface is removed.
#[test]
fn captures_to_a_file_system_that_hangs_keep_nobody_waiting() {
    let Some((a, r, _b)) = cabled() else { return };
    let commands = "create host-interface name eth0\n\
        set interface state host-eth0 up\n\
        set interface ip address host-eth0 10.0.0.1/24";
    let router = Router::start(&r, commands);
    let servers = [(); 2].map(|()| stranger(&r, "mute WRITE", "\n"));
    if servers.iter().any(|server| server.stdout().contains("cannot")) {
        return skipped("needs root, for a FUSE file system");
    }
    let path = |n: usize| servers[n].stdout().lines().next().unwrap().to_owned();
    let is_quick = |line: &str| {
        let begun = Instant::now();
        let ended = router.attempt(line);
        assert!(begun.elapsed() < LIMIT / 4, "{line}: {:?}", begun.elapsed());
        ended.stdout + &ended.stderr
    };
    router.ctl(&format!("pcap trace rx tx max 100000 intfc any file {}", path(0)));
    Ping::until_answered(&a, "10.0.0.1", LIMIT);
    until("a thread writes", LIMIT, || {
        Ping::run(&a, "-c 20 -i 0.01 -W 1 -s 1400 10.0.0.1");
        servers[0].stdout().contains("somebody waits")
    });
    Ping::until_answered(&a, "10.0.0.1", LIMIT);
    assert!(is_quick("show version").starts_with("volley v"));
    let told = is_quick("pcap trace off");
    assert!(told.contains("its file system does not answer"), "{told}");
    for line in [
        &format!("create pcap interface pcap0 tx {}", path(1)),
        "set interface state pcap0 up",
        "set interface ip address pcap0 10.9.0.1/24",
        "set ip neighbor pcap0 10.9.0.2 02:00:00:00:00:09",
    ] {
        router.ctl(line);
    }
    a.run("ip route replace 10.9.0.0/24 via 10.0.0.1");
    until("a thread writes", LIMIT, || {
        Ping::run(&a, "-c 1 -W 1 10.9.0.2");
        servers[1].stdout().contains("somebody waits")
    });
    is_quick("delete pcap interface pcap0");
    assert!(is_quick("show version").starts_with("volley v"));
    assert!(!is_quick("show interface").contains("pcap0"));
    Ping::until_answered(&a, "10.0.0.1", LIMIT);
    servers.into_iter().for_each(|server| drop(stop(server)));
    router.stop();
}
