//! Network namespaces for tests over real links.
//!
//! A device opens in the namespace of the calling thread. So a test of real links runs in a process of its own: it starts the test program
//! again in new namespaces, to run only this test there. The namespaces end with that process.

use std::io::Write;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use buf::{Cache, Frame, Pool};
use drivers::Device;
use testkit::skip::{self, skipped};

/// Environment variable that is set in the process within the namespaces. It has the test's name.
const INSIDE: &str = "VOLLEY_DRIVERS_TEST";
/// Shell commands that mount a private `/run`, in which `ip netns` keeps names, set the loopback interface up, and then run the test.
const PREPARE: &str = "mount -t tmpfs lab /run && ip link set lo up && exec \"$0\" \"$@\"";

/// Runs `body` in new namespaces. IPv6 is disabled there, so links are silent until the test sends. The calling test passes its own `name`,
/// with its module path.
pub fn inside(name: &str, body: fn()) {
    if std::env::var(INSIDE).is_ok_and(|n| n == name) {
        sh("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
        return body();
    }
    let me = std::env::current_exe().unwrap();
    let enter = |user: &[&str]| {
        let mut c = Command::new("timeout");
        c.args(["60", "unshare"]).args(user).args(["--mount", "--net", "--", "sh", "-c"]);
        c
    };
    let users: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    let Some(user) =
        users.into_iter().find(|u| enter(u).arg("true").output().is_ok_and(|o| o.status.success()))
    else {
        skipped("needs root or a user namespace");
        return;
    };
    let mut command = enter(user);
    command.arg(PREPARE).arg(me).args(["--exact", name, "--nocapture"]).env(INSIDE, name);
    let out = command.output().unwrap();
    let said = |o: &Output| String::from_utf8_lossy(&[&o.stdout[..], &o.stderr[..]].concat()).into_owned();
    assert!(out.status.success(), "{name} failed in its namespace: {}", said(&out));
    for line in said(&out).lines().filter(|l| l.contains(skip::MARK) || l.contains("MEASURED")) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Runs a shell command. Returns true if the command succeeded, and its output.
pub fn attempt(command: &str) -> (bool, String) {
    let o = Command::new("timeout").args(["20", "sh", "-c", command]).output().unwrap();
    (o.status.success(), String::from_utf8_lossy(&[&o.stdout[..], &o.stderr[..]].concat()).into_owned())
}

/// Runs a shell command that must succeed. Returns its output.
pub fn sh(command: &str) -> String {
    let (ok, said) = attempt(command);
    assert!(ok, "{command}: {said}");
    said
}

/// Creates a veth pair in this namespace, both ends up.
pub fn veth(a: &str, b: &str) {
    sh(&format!("ip link add {a} type veth peer name {b} && ip link set {a} up && ip link set {b} up"));
}

/// Creates the namespace `host` and a veth link to it: `name` is this end, and `eth0` with this address is the host's end.
pub fn host(host: &str, name: &str, address: &str) {
    sh(&format!("ip netns add {host} && ip link add {name} type veth peer name eth0 netns {host}"));
    sh(&format!("ip link set {name} up && ip -n {host} addr add {address} dev eth0"));
    sh(&format!("ip -n {host} link set lo up && ip -n {host} link set eth0 up"));
}

pub fn cache() -> Cache {
    Pool::new(8192).unwrap().cache()
}

/// Polls the first queue until `n` packets have arrived, or for at most a second.
pub fn receive(device: &mut Device, cache: &mut Cache, n: usize) -> Frame {
    let mut frame = Frame::new();
    let start = Instant::now();
    while frame.len() < n && start.elapsed() < Duration::from_secs(1) {
        device.rx[0].poll(&mut frame, cache).unwrap();
    }
    frame
}

/// Returns the bytes of a frame's packets and frees them.
pub fn bytes(mut frame: Frame, cache: &mut Cache) -> Vec<Vec<u8>> {
    let bytes = frame.packets().map(|p| p.segments().flatten().copied().collect()).collect();
    frame.free(cache);
    bytes
}

/// Returns a frame with these packets.
pub fn frame(packets: &[Vec<u8>], cache: &mut Cache) -> Frame {
    let mut frame = Frame::new();
    assert_eq!(frame.alloc(cache, packets.len()), packets.len());
    for (i, bytes) in packets.iter().enumerate() {
        let mut packet = frame.get(i).unwrap();
        assert!(packet.fill_chained(bytes, cache));
        let flags = packet.flags();
        frame.note(flags);
    }
    frame
}

/// Sends packets on the first queue. Returns the number that the device did not take.
pub fn send(device: &mut Device, cache: &mut Cache, packets: &[Vec<u8>]) -> usize {
    let mut frame = frame(packets, cache);
    let _ = device.tx[0].send(&mut frame, cache);
    let left = frame.len();
    frame.free(cache);
    left
}

/// Asserts that every buffer is free again.
pub fn no_leak(cache: &Cache) {
    cache.publish();
    assert_eq!(cache.pool().stats().used, 0, "buffers leaked");
}
