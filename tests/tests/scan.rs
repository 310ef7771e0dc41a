//! Attacks on Neighbor Discovery (RFC 6583): a scan of a connected network, and made-up neighbors. The table must stay
//! within its limit, memory must not grow, known neighbors must stay reachable, and new ones must be learned.

use std::time::{Duration, Instant};

use scenarios::{Ping, Routed6, status};
use testkit::netns::{Host, LIMIT};
use testkit::process::{Process, until};
use testkit::router::Router;

/// Limit of the neighbor table.
const BOUND: usize = 500;
/// Maximum length of a list of neighbors. A list that is made while neighbors change may contain some that were just
/// evicted.
const LISTED: usize = 600;
/// Time for which an attack is observed.
const ATTACK: Duration = Duration::from_secs(6);
/// Memory growth that is allowed in this time, in KiB: three huge pages of the heap. A leak of a hundred bytes for each
/// packet of the attack would be more.
const LEVEL: u64 = 6 << 10;

/// Runs a tool of `tools/` on a host.
fn tool(host: &Host, words: &str) -> Process {
    host.spawn(&format!("python3 {}/tools/{words}", env!("CARGO_MANIFEST_DIR")))
}

fn count(router: &Router, counter: &str) -> u64 {
    let shown = router.json("show ip6 neighbor-config");
    shown["counters"][counter].as_u64().unwrap_or_else(|| panic!("no {counter}: {shown}"))
}

/// Checks the router during an attack. The checks begin when `begun` returns true. The neighbor table and the router's memory must stay
/// within their limits. `host` gets new addresses of `network`, and `other` pings each of them. `other` also pings `known` all the time and
/// must lose no reply.
fn withstands(
    net: &Routed6,
    mut attack: Process,
    begun: impl Fn() -> bool,
    (host, network): (&Host, &str),
    (other, known): (&Host, &str),
) {
    until("the attack has its effect", LIMIT, begun);
    let memory = || status(net.router.id(), "VmRSS");
    let (first, start) = (memory(), Instant::now());
    let mut flow = other.spawn(&format!("ping -n -i 0.01 -c {} -W 2 {known}", ATTACK.as_millis() / 10));
    let (mut most, mut strangers) = (0, 0);
    while start.elapsed() < ATTACK {
        strangers += 1;
        let stranger = format!("{network}::5:{strangers:x}");
        host.run(&format!("ip -6 addr add {stranger}/64 dev eth0 nodad"));
        Ping::until_answered(other, &stranger, LIMIT);
        let table = net.router.json("show ip6 neighbors");
        most = most.max(table.as_array().map_or(usize::MAX, Vec::len));
    }
    let last = memory();
    assert!(attack.running(), "{}", attack.stderr());
    let said = flow.finish(LIMIT).expect_ok();
    eprintln!("MEASURED {strangers} new neighbors learned, {most} neighbors at most, {first} and {last} KiB");
    assert!(said.contains(" 0% packet loss"), "{said}");
    assert!((BOUND / 2..=LISTED).contains(&most), "{most} neighbors");
    assert!(last < first + LEVEL, "memory grew from {first} to {last} KiB");
}

fn bounded() -> Option<Routed6> {
    let net = Routed6::new()?;
    net.router.ctl(&format!("set ip neighbor-config ip6 limit {BOUND}"));
    Some(net)
}

#[test]
fn a_scanned_network_stays_reachable() {
    let Some(net) = bounded() else { return };
    let attack = tool(&net.a, "scan.py 2001:db8:1::/64");
    let begun = || count(&net.router, "requests") > 10 * BOUND as u64;
    withstands(&net, attack, begun, (&net.b, "2001:db8:1:0"), (&net.a, "2001:db8:1::2"));
}

#[test]
fn made_up_neighbors_do_not_evict_real_ones() {
    let Some(net) = bounded() else { return };
    let attack = tool(&net.a, "made_up.py eth0 2001:db8::1");
    let begun = || count(&net.router, "recycled") > 10 * BOUND as u64;
    withstands(&net, attack, begun, (&net.a, "2001:db8:0:0"), (&net.b, "2001:db8::2"));
}
