//! The CLI without `volley ctl`: on the router's own terminal, and as plain text over TCP. Also process settings of
//! `startup.conf`.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::{Process, until};
use testkit::router::{START, binary};

/// A router whose standard input is a pipe of the test, so that it ends with the test in any case.
struct Started {
    router: Process,
    input: File,
}

/// Starts `volley run` with these arguments. It reads the lines and then waits for more.
fn started(host: &Host, words: &str, lines: &str) -> Started {
    let pipe = host.lab().dir().join("input");
    host.run(&format!("mkfifo {}", pipe.display()));
    // Opened for both directions, so that the open does not block.
    let mut input = File::options().read(true).write(true).open(&pipe).unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    // The shell is replaced by the router, so that no process is left after a kill.
    let script = format!("exec {} run {words} < {}", binary().display(), pipe.display());
    let router = host.spawn_args(["sh", "-c", &script]);
    until("the router is ready", START, || router.stderr().contains("volley: ready"));
    Started { router, input }
}

impl Started {
    /// Closes the router's input, which ends the router.
    fn end(self) {
        let Started { mut router, input } = self;
        drop(input);
        router.finish(START).expect_ok();
    }
}

/// Sends lines to the CLI's TCP port by a script, as `nc` would, and returns the answer.
fn said(host: &Host, lines: &str) -> String {
    let script = format!(
        "import socket; s = socket.create_connection(('127.0.0.1', 5002)); s.sendall(b'''{lines}'''); \
         s.shutdown(socket.SHUT_WR); print(b''.join(iter(lambda: s.recv(4096), b'')).decode(), end='')"
    );
    host.spawn_args(["python3", "-c", &script]).finish(LIMIT).expect_ok()
}

#[test]
fn the_start_command_of_the_papers_works() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let mut started = started(
        &r,
        "unix { interactive cli-listen 127.0.0.1:5002 }",
        "create loopback interface\nshow interface\nnonsense\nip table add 9\n",
    );
    let router = &mut started.router;
    until("all lines have run", LIMIT, || said(&r, "show ip table 9").contains("[9]"));
    assert!(router.stdout().contains("loop0"), "{}", router.stdout());
    assert!(router.stderr().contains("there is no command 'nonsense'"), "{}", router.stderr());
    let ctl = format!("{} ctl -s 127.0.0.1:5002 show version", binary().display());
    let version = r.attempt(&ctl, LIMIT).expect_ok();
    assert_eq!(said(&r, "show version\\n"), format!("volley# {version}volley# "));
    assert!(router.running());
    started.end();
}

#[test]
fn quit_on_the_console_ends_the_router() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let socket = lab.dir().join("cli.sock");
    let mut started =
        started(&r, &format!("unix {{ interactive cli-listen {} }}", socket.display()), "quit\n");
    // The router's input is still open.
    started.router.finish(START).expect_ok();
    assert!(!socket.exists());
}

#[test]
fn startup_conf_sets_core_dumps_prompt_and_scheduling() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let pidfile = lab.dir().join("pid");
    let words = format!(
        "unix {{ interactive cli-listen 127.0.0.1:5002 full-coredump coredump-size 1M cli-prompt r1# pidfile {} }} \
         cpu {{ scheduler-policy batch }}",
        pidfile.display()
    );
    let started = started(&r, &words, "");
    assert!(said(&r, "quit\\n").starts_with("r1# "));
    let process = Path::new("/proc").join(fs::read_to_string(&pidfile).unwrap().trim());
    let of = |file: &str| fs::read_to_string(process.join(file)).unwrap();
    let limits = of("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("1048576"), "{core}");
    assert_eq!(u32::from_str_radix(of("coredump_filter").trim(), 16), Ok(0x7f));
    for thread in fs::read_dir(process.join("task")).unwrap() {
        let path = thread.unwrap().path();
        let name = fs::read_to_string(path.join("comm")).unwrap();
        let stat = fs::read_to_string(path.join("stat")).unwrap();
        // Counted behind the name. The policy is field 41, and SCHED_BATCH is 3.
        let policy = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().to_owned();
        assert_eq!(policy == "3", name.starts_with("volley_wk_"), "{name}: policy {policy}");
    }
    started.end();
}

#[test]
fn a_missing_startup_conf_is_reported_without_a_line() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let refused = r.attempt(&format!("{} run -c /no/such.conf", binary().display()), Duration::from_secs(5));
    assert!(refused.code().is_some_and(|code| code != 0), "{refused}");
    assert!(refused.stderr.starts_with("/no/such.conf: cannot be read: No such file"), "{refused}");
}

#[test]
fn a_hangup_ends_only_a_router_on_that_terminal() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    // Without a terminal, a hangup comes from an operator who expects a reload.
    let mut started = started(&r, "unix { interactive cli-listen 127.0.0.1:5002 }", "");
    r.run(&format!("kill -HUP {}", started.router.id()));
    until("the router logs it", LIMIT, || started.router.stderr().contains("hangup signal ignored"));
    assert_eq!(said(&r, "quit\n"), "volley# ");
    assert!(started.router.running());
    started.end();
    // On a terminal of its own, which closes after the router has ended or has survived long enough.
    for (ignored, code) in [("DFL", 0), ("IGN", 9)] {
        let script = format!(
            "import os, pty, signal, sys, time\n\
             pid, terminal = pty.fork()\n\
             if pid == 0:\n\
             \x20   signal.signal(signal.SIGHUP, signal.SIG_{ignored})\n\
             \x20   os.execv('{0}', ['{0}', 'run', 'unix {{ interactive cli-listen {1}/h.sock }}'])\n\
             text = b''\n\
             while b'volley: ready' not in text: text += os.read(terminal, 4096)\n\
             os.kill(pid, signal.SIGHUP)\n\
             for _ in range({2}):\n\
             \x20   ended, status = os.waitpid(pid, os.WNOHANG)\n\
             \x20   if ended: sys.exit(os.waitstatus_to_exitcode(status))\n\
             \x20   time.sleep(0.01)\n\
             os.kill(pid, signal.SIGKILL)\n\
             os.waitpid(pid, 0)\n\
             sys.exit(9)\n",
            binary().display(),
            lab.dir().display(),
            if code == 0 { 1000 } else { 50 },
        );
        let ended = r.spawn_args(["python3", "-c", &script]).finish(LIMIT);
        assert_eq!(ended.code(), Some(code), "{ignored}: {ended}");
    }
}

#[test]
fn a_refused_start_command_is_marked_below_its_line() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let dir = lab.dir().display();
    fs::write(lab.dir().join("bad.cli"), "create loopback interface\n\n  set interface state loop0 upp\n")
        .unwrap();
    fs::write(lab.dir().join("bad.conf"), format!("unix {{ cli-listen {dir}/b.sock exec {dir}/bad.cli }}\n"))
        .unwrap();
    let refused = r.attempt(&format!("{} run -c {dir}/bad.conf", binary().display()), LIMIT);
    let line = "\n  set interface state loop0 upp\n                            ^^^\n";
    assert!(refused.stderr.contains(line), "{refused}");
    assert!(refused.stderr.contains("bad.cli:3:29: "), "{refused}");
    assert!(refused.stderr.contains("bad.conf:1:"), "{refused}");
}

/// Starts clients of the TCP port by a Python script, where `client()` makes a new one. They stay until the process is
/// dropped.
fn clients(host: &Host, script: &str) -> Process {
    let script = format!(
        "import socket, threading, time\n\
         def client(): return socket.create_connection(('127.0.0.1', 5002))\n\
         def go(f, *a): threading.Thread(target=f, args=a, daemon=True).start()\n\
         {script}\nprint('done', flush=True)\ntime.sleep(60)\n"
    );
    let clients = host.spawn_args(["python3", "-c", &script]);
    until("the script has run", LIMIT, || clients.stdout().contains("done"));
    clients
}

#[test]
fn silent_clients_do_not_block_others() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let started = started(&r, "unix { interactive cli-listen 127.0.0.1:5002 cli-idle-timeout 3600 }", "");
    // The console on the router's standard input is a client as well.
    let silent = clients(
        &r,
        "all = [client() for _ in range(63)]\n\
         [c.sendall(b'show ver') for c in all[:20]]\n\
         [go(lambda c=c: print(c.makefile().read(), flush=True)) for c in all]",
    );
    for _ in 0..3 {
        assert!(said(&r, "show version\\n").starts_with("volley# volley v"));
    }
    until("a silent client gets the reason", LIMIT, || {
        silent.stdout().contains("disconnected: no command was sent")
    });
    started.end();
}

#[test]
fn many_short_connections_get_all_their_answers() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let started = started(&r, "unix { interactive cli-listen 127.0.0.1:5002 }", "");
    // Many scripts run at once, and each makes a new connection for each command. TCP clients have no known user.
    let scripts = clients(
        &r,
        "answers = []\n\
         def ask():\n\
         \x20   for _ in range(20):\n\
         \x20       c = client()\n\
         \x20       c.sendall(b'show version\\nquit\\n')\n\
         \x20       answers.append(c.makefile().read())\n\
         all = [threading.Thread(target=ask) for _ in range(40)]\n\
         [t.start() for t in all]\n\
         [t.join() for t in all]\n\
         print(sum('volley v' in a for a in answers), 'answers', flush=True)",
    );
    assert!(scripts.stdout().contains("800 answers"), "{}", scripts.stdout());
    assert!(!started.router.stderr().contains("rejected"));
    started.end();
}

#[test]
fn clients_beyond_the_limit_are_refused_with_few_log_lines() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let started = started(&r, "unix { interactive cli-listen 127.0.0.1:5002 cli-idle-timeout 3600 }", "");
    let _busy = clients(
        &r,
        "all = [client() for _ in range(63)]\n\
         for c in all:\n\
         \x20   c.sendall(b'show version\\n')\n\
         \x20   text = b''\n\
         \x20   while text.count(b'volley# ') < 2: text += c.recv(4096)\n\
         for _ in range(300): client().close()",
    );
    let told = said(&r, "show version\\n");
    assert!(told.starts_with("64 clients are connected to the CLI, the maximum"), "{told}");
    assert!(told.contains("none has been idle for 3600 seconds"), "{told}");
    let log = started.router.stderr();
    let lines = log.lines().filter(|line| line.contains("rejected")).count();
    assert!((1..=3).contains(&lines), "{log}");
    started.end();
}

/// Returns the KiB of anonymous memory of a process.
fn anonymous(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// 60 clients send commands and do not read the answers, so their commands wait unfinished. The commands hold sorted lists, or filters with
/// their caches. The router's memory grows by less than 56 MiB.
#[test]
fn clients_that_read_nothing_take_little_memory() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let started = started(&r, "unix { interactive cli-listen 127.0.0.1:5002 }", "");
    let ctl = |line: &str| {
        let command = format!("{} ctl -s 127.0.0.1:5002 {line}", binary().display());
        r.attempt(&command, LIMIT).expect_ok();
    };
    ctl("create loopback interface");
    ctl("set interface state loop0 up");
    ctl("ip route add count 100000 20.0.0.0/32 via loop0");
    let before = anonymous(started.router.id());
    let filters = "| except '[0-9a-z.: /]*[aeiou][0-9a-z.: /]{25}[!-&]' \
                   | except '[0-9a-z.: /]*[24:][0-9a-z.: /]{24}[!-&]'";
    for command in ["show ip fib".into(), format!("show tech-support {filters}")] {
        let flood = clients(
            &r,
            &format!(
                "all = [client() for _ in range(60)]\n\
                 for c in all: c.sendall(b\"{command}\\n\" * 20)\n\
                 time.sleep(4)\n\
                 print('all sent', flush=True)"
            ),
        );
        until("all clients wait", LIMIT, || flood.stdout().contains("all sent"));
        ctl("show version");
        let grown = anonymous(started.router.id()).saturating_sub(before);
        assert!(grown < 56 << 10, "\"{command}\" of 60 clients takes {grown} KiB");
    }
    started.end();
}

#[test]
fn flooding_clients_take_little_memory_and_delay_no_others() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let started = started(&r, "unix { interactive cli-listen 127.0.0.1:5002 }", "");
    let before = anonymous(started.router.id());
    let flood = clients(
        &r,
        "def send(c, text):\n\
         \x20   while True: c.sendall(text)\n\
         def read(c):\n\
         \x20   while c.recv(65536): pass\n\
         def endless(c):\n\
         \x20   c.sendall(b'x' * (1 << 20))\n\
         \x20   c.shutdown(socket.SHUT_WR)\n\
         \x20   print(c.makefile().read(), flush=True)\n\
         for _ in range(8):\n\
         \x20   go(endless, client())\n\
         \x20   go(send, client(), b'\\n' * 65536)\n\
         \x20   go(send, client(), b'show version\\n' * 5000)\n\
         \x20   go(send, client(), b'\"hello\"\\n' * 8000)\n\
         for _ in range(4):\n\
         \x20   c = client()\n\
         \x20   go(read, c)\n\
         \x20   go(send, c, b'\\n' * 65536)",
    );
    until("the endless lines are refused", LIMIT, || {
        flood.stdout().matches("is longer than 256 KiB").count() == 8
    });
    let ctl = format!("{} ctl -s 127.0.0.1:5002 show version", binary().display());
    for _ in 0..10 {
        let start = Instant::now();
        r.attempt(&ctl, LIMIT).expect_ok();
        let took = start.elapsed();
        assert!(took < Duration::from_secs(2), "a command took {took:?}");
    }
    let grown = anonymous(started.router.id()).saturating_sub(before);
    assert!(grown < 48 << 10, "the clients take {grown} KiB");
    started.end();
}
