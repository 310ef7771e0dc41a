//! The guardian process: it restores the interfaces of a killed router, and it is small.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use scenarios::{Ping, TWO_PORTS, cabled};
use testkit::netns::Host;
use testkit::process::until;
use testkit::router::Router;

const SECOND: Duration = Duration::from_secs(1);

/// Returns whether a port is up, and its MTU.
fn port(host: &Host, name: &str) -> (bool, String) {
    let shown = host.run(&format!("ip -o link show dev {name}"));
    let flags = shown.split(['<', '>']).nth(1).unwrap();
    let mtu = shown.split_whitespace().skip_while(|w| *w != "mtu").nth(1).unwrap();
    (flags.split(',').any(|flag| flag == "UP"), mtu.to_owned())
}

/// Returns a field of `/proc/PID/status`. `None` if the process or the field does not exist.
fn status(id: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Returns the process ids of a router's children, including zombies.
fn children(router: &Router) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = router.id().to_string();
    ids.filter(|&id| status(id, "PPid").is_some_and(|p| p == parent)).collect()
}

/// Returns the process ids of a router's two guardians, once they are its only children.
fn guardians(router: &Router) -> [u32; 2] {
    let mut found = None;
    until("there are two guardians", SECOND, || {
        found = <[u32; 2]>::try_from(children(router)).ok();
        found
            .is_some_and(|ids| ids.iter().all(|&id| status(id, "Name").as_deref() == Some("volley-guardian")))
    });
    found.unwrap()
}

/// Sends SIGKILL to processes in this order.
fn kill(host: &Host, ids: &[u32]) {
    let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
    host.run(&format!("kill -KILL {}", ids.join(" ")));
}

fn ended(id: u32) -> bool {
    // An ended process is a zombie until its parent, or the reaper of orphans, waits for it.
    status(id, "State").is_none_or(|state| state.starts_with('Z'))
}

#[test]
fn after_sigkill_links_get_their_state_and_mtu_back() {
    let Some((a, r, _b)) = cabled() else { return };
    r.run("ip link set eth0 down");
    let before = [port(&r, "eth0"), port(&r, "eth1")];
    let router = Router::start(&r, TWO_PORTS);
    router.ctl("set interface mtu 4000 host-eth1");
    assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete());
    assert_eq!([port(&r, "eth0"), port(&r, "eth1")], [(true, "1500".into()), (true, "4000".into())]);
    let guardians = guardians(&router);
    router.kill();
    until("the ports are restored", SECOND, || [port(&r, "eth0"), port(&r, "eth1")] == before);
    until("the guardians have ended", SECOND, || guardians.iter().all(|&id| ended(id)));
}

#[test]
fn a_port_returned_before_the_kill_is_not_touched() {
    let Some((_a, r, _b)) = cabled() else { return };
    r.run("ip link set eth0 down");
    let router = Router::start(&r, TWO_PORTS);
    router.ctl("delete host-interface name eth0");
    assert_eq!(port(&r, "eth0"), (false, "1500".into()));
    r.run("ip link set eth0 mtu 2000 up");
    let guardians = guardians(&router);
    router.kill();
    until("the guardians have ended", SECOND, || guardians.iter().all(|&id| ended(id)));
    assert_eq!(port(&r, "eth0"), (true, "2000".into()));
}

#[test]
fn a_replaced_interface_keeps_its_own_state() {
    let Some((a, r, _b)) = cabled() else { return };
    r.run("ip link set eth0 down");
    let mut router = Router::start(&r, TWO_PORTS);
    let guardians = guardians(&router);
    r.run("ip link del eth0");
    a.lab().link((&a, "eth0"), (&r, "eth0"));
    until("the router has taken it again", Duration::from_secs(10), || {
        router.log().contains("host-eth0: the device is back")
    });
    assert!(router.running());
    router.kill();
    until("the guardians have ended", SECOND, || guardians.iter().all(|&id| ended(id)));
    // The new interface was up when the router took it. The one before was down.
    assert!(port(&r, "eth0").0);
}

#[test]
fn an_orderly_stop_ends_the_guardian_too() {
    let Some((_a, r, _b)) = cabled() else { return };
    r.run("ip link set eth0 down");
    let before = [port(&r, "eth0"), port(&r, "eth1")];
    let router = Router::start(&r, TWO_PORTS);
    router.ctl("set interface mtu 4000 host-eth1");
    let guardians = guardians(&router);
    router.stop();
    assert_eq!([port(&r, "eth0"), port(&r, "eth1")], before);
    until("the guardians have ended", SECOND, || guardians.iter().all(|&id| ended(id)));
    assert_eq!([port(&r, "eth0"), port(&r, "eth1")], before);
}

#[test]
fn killed_guardians_are_replaced_at_once() {
    let Some((_a, r, _b)) = cabled() else { return };
    r.run("ip link set eth0 down");
    let before = [port(&r, "eth0"), port(&r, "eth1")];
    let router = Router::start(&r, TWO_PORTS);
    let first = guardians(&router);
    kill(&r, &first);
    until("the guardians are replaced", SECOND, || {
        let now = children(&router);
        now.len() == 2 && !now.iter().any(|id| first.contains(id))
    });
    for number in 0..2 {
        let said = format!("guardian {number} has ended; it is restarted");
        assert_eq!(router.log().matches(&said).count(), 1, "{}", router.log());
    }
    // The new guardians restore changes from before and after their start.
    router.ctl("set interface mtu 4000 host-eth1");
    router.kill();
    until("the ports are restored", SECOND, || [port(&r, "eth0"), port(&r, "eth1")] == before);
}

#[test]
fn one_guardian_suffices_when_the_other_is_killed() {
    let Some((_a, r, _b)) = cabled() else { return };
    r.run("ip link set eth0 down");
    let before = [port(&r, "eth0"), port(&r, "eth1")];
    for round in 0..6 {
        let router = Router::start(&r, TWO_PORTS);
        router.ctl("set interface mtu 4000 host-eth1");
        let guardian = guardians(&router)[round % 2];
        let mut both = [guardian, router.id()];
        both.rotate_left(round / 2 % 2);
        kill(&r, &both);
        until("the ports are restored", SECOND, || [port(&r, "eth0"), port(&r, "eth1")] == before);
        router.kill();
    }
}

/// Sends a signal to processes.
fn signal(host: &Host, signal: &str, ids: &[u32]) {
    let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
    host.run(&format!("kill -{signal} {}", ids.join(" ")));
}

/// One or both guardians are stopped and continue only after the next router has taken the ports.
#[test]
fn a_late_guardian_does_not_touch_the_next_routers_ports() {
    for late in [1, 2] {
        let Some((a, r, _b)) = cabled() else { return };
        r.run("ip link set eth0 down");
        let router = Router::start(&r, TWO_PORTS);
        let guardians = guardians(&router);
        signal(&r, "STOP", &guardians[..late]);
        router.kill();
        let next = Router::start(&r, TWO_PORTS);
        assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete());
        signal(&r, "CONT", &guardians);
        until("the guardians have ended", 5 * SECOND, || guardians.iter().all(|&id| ended(id)));
        assert!(port(&r, "eth0").0, "{late} late guardians");
        assert!(Ping::run(&a, "-c 1 -W 2 10.0.0.1").complete());
        drop(next);
    }
}

#[test]
fn repeatedly_killed_guardians_restart_at_growing_intervals() {
    let Some((_a, r, _b)) = cabled() else { return };
    let router = Router::start(&r, TWO_PORTS);
    let mut killed = BTreeSet::new();
    let end = Instant::now() + 3 * SECOND;
    while Instant::now() < end {
        let running: Vec<_> = children(&router).into_iter().filter(|&id| !ended(id)).collect();
        if !running.is_empty() {
            killed.extend(running.iter().copied());
            // One of them may be gone since the last kill.
            let ids: Vec<_> = running.iter().map(u32::to_string).collect();
            r.attempt(&format!("kill -KILL {}", ids.join(" ")), SECOND);
        }
    }
    // Restarts at once, then after 0.1 s, 0.2 s, 0.4 s and so on: 6 of each guardian in 3 seconds, plus the first two.
    assert!((6..=14).contains(&killed.len()), "{killed:?}");
    let log = router.log();
    let lines = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!(
        [lines("; it is restarted"), lines("again: it is restarted"), lines("guardian")],
        [2, 2, 4],
        "{log}"
    );
    router.ctl("show version");
}

#[test]
fn the_guardian_is_small_and_in_its_own_session() {
    let Some((_a, r, _b)) = cabled() else { return };
    let router = Router::start(&r, TWO_PORTS);
    let ids = guardians(&router);
    for id in ids {
        small_and_apart(&r, &router, id);
    }
    // A signal that a guardian does not ignore would end the guardian before the next command has run.
    router.ctl("show version");
    assert!(!ids.iter().any(|&id| ended(id)));
    router.stop();
    until("the guardians have ended", SECOND, || ids.iter().all(|&id| ended(id)));
}

fn small_and_apart(r: &Host, router: &Router, id: u32) {
    let proc = format!("/proc/{id}");
    let mut files: Vec<_> =
        fs::read_dir(format!("{proc}/fd")).unwrap().flatten().map(|f| f.file_name()).collect();
    files.sort();
    assert_eq!(files, ["0", "1", "2"], "it has no sockets and no rings");
    let session = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().parse::<u32>().unwrap()
    };
    assert_eq!((session(id), session(router.id()) == id), (id, false));
    let anonymous = status(id, "RssAnon").unwrap();
    let kilobytes: u64 = anonymous.trim_end_matches(" kB").parse().unwrap();
    // An empty heap takes 5 MiB in every process.
    assert!(kilobytes < 6 << 10, "{anonymous}");
    assert_eq!(fs::read_link(format!("{proc}/cwd")).unwrap(), Path::new("/"));
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        r.run(&format!("kill -{signal} {id}"));
    }
}
