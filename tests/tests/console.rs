//! The CLI without `volley ctl`: on the terminal that the router was started from, and as plain text over TCP; and what else
//! `startup.conf` says of the process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::{Process, until};
use testkit::router::{START, binary};

/// Starts `volley run` with these words; it reads the lines, and then waits until the file `end` is there.
fn started(host: &Host, words: &str, lines: &str) -> Process {
    let end = host.lab().dir().join("end");
    let script = format!(
        "(printf '{lines}'; until [ -e {} ]; do sleep 0.05; done) | exec {} run {words}",
        end.display(),
        binary().display()
    );
    let router = host.spawn_args(["sh", "-c", &script]);
    until("it is ready", START, || router.stderr().contains("volley: ready"));
    router
}

/// Lets the input of a router that was `started` end.
fn end_input(host: &Host) {
    fs::write(host.lab().dir().join("end"), "").unwrap();
}

/// What is answered to lines that are sent to the port; as `nc` does it, if there is one, and a script otherwise.
fn said(host: &Host, lines: &str) -> String {
    let script = format!(
        "import socket; s = socket.create_connection(('127.0.0.1', 5002)); s.sendall(b'''{lines}'''); \
         s.shutdown(socket.SHUT_WR); print(b''.join(iter(lambda: s.recv(4096), b'')).decode(), end='')"
    );
    host.spawn_args(["python3", "-c", &script]).finish(LIMIT).expect_ok()
}

#[test]
fn the_command_that_the_papers_print_starts_it_as_it_stands() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let mut router = started(
        &r,
        "unix { interactive cli-listen 127.0.0.1:5002 }",
        "create loopback interface\\nshow interface\\nnonsense\\nip table add 9\\n",
    );
    until("all lines are carried out", LIMIT, || said(&r, "show ip table 9").contains("[9]"));
    assert!(router.stdout().contains("loop0"), "{}", router.stdout());
    assert!(router.stderr().contains("there is no command 'nonsense'"), "{}", router.stderr());
    let ctl = format!("{} ctl -s 127.0.0.1:5002 show version", binary().display());
    let version = r.attempt(&ctl, LIMIT).expect_ok();
    assert_eq!(said(&r, "show version\\n"), format!("volley# {version}volley# "));
    assert!(router.running());
    end_input(&r);
    router.finish(START).expect_ok();
}

#[test]
fn to_leave_the_console_ends_the_router() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let socket = lab.dir().join("cli.sock");
    let mut router =
        started(&r, &format!("unix {{ interactive cli-listen {} }}", socket.display()), "quit\\n");
    until("it ends", START, || !socket.exists());
    end_input(&r);
    router.finish(START).expect_ok();
}

#[test]
fn core_dumps_and_the_workers_schedule_are_as_the_configuration_says() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let pidfile = lab.dir().join("pid");
    let words = format!(
        "unix {{ interactive cli-listen 127.0.0.1:5002 full-coredump coredump-size 1M cli-prompt r1# pidfile {} }} \
         cpu {{ scheduler-policy batch }}",
        pidfile.display()
    );
    let mut router = started(&r, &words, "");
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
        // Behind the name: the policy is field 41, SCHED_BATCH is 3.
        let policy = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().to_owned();
        assert_eq!(policy == "3", name.starts_with("volley_wk_"), "{name}: policy {policy}");
    }
    end_input(&r);
    router.finish(START).expect_ok();
}

#[test]
fn a_configuration_that_is_not_there_is_named_without_a_place_in_it() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let refused = r.attempt(&format!("{} run -c /no/such.conf", binary().display()), Duration::from_secs(5));
    assert!(refused.code().is_some_and(|code| code != 0), "{refused}");
    assert!(refused.stderr.starts_with("/no/such.conf: cannot be read: No such file"), "{refused}");
}
