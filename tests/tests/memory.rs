//! Memory: what many VRFs take, and what happens when there is none.

use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;

use scenarios::status;
use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::poll;
use testkit::router::{Router, START};
use testkit::skip::skipped;

/// Adds the VRFs of these numbers, each with 10 routes of various lengths.
fn vrfs(numbers: std::ops::Range<u32>) -> String {
    let mut commands = String::new();
    for table in numbers {
        let _ = writeln!(commands, "ip table add {table}");
        for (n, len) in
            [(20, 8), (30, 16), (40, 20), (50, 22), (60, 24), (70, 24), (80, 24), (90, 28), (100, 32)]
        {
            let network = (n << 24 | (table % 256) << 16 | 16 << 8) & (u32::MAX << (32 - len));
            let prefix = Ipv4Addr::from_bits(network);
            let _ = writeln!(commands, "ip route add {prefix}/{len} table {table} via drop");
        }
        let _ = writeln!(commands, "ip route add 0.0.0.0/0 table {table} via drop");
    }
    commands
}

fn alone() -> Option<(Router, Host)> {
    let host = Lab::new()?.host("r");
    Some((Router::start(&host, ""), host))
}

#[test]
fn a_small_vrf_takes_little_memory() {
    let Some((router, _host)) = alone() else { return };
    // The first makes whatever is made once.
    router.script(&vrfs(1..2));
    let before = status(router.id(), "VmRSS");
    router.script(&vrfs(2..102));
    let grown = status(router.id(), "VmRSS") - before;
    assert!(grown < 50 << 10, "100 VRFs with 10 routes each take {grown} KiB");
    let shown = router.json("show ip fib table 50 summary")["lookup_memory_bytes"].as_u64().unwrap_or(0);
    assert!((20 << 10..300 << 10).contains(&shown), "{shown}");
    eprintln!("MEASURED 100 VRFs with 10 routes each: {grown} KiB; {shown} bytes in the lookup table of one");
    assert!(shown * 100 < grown << 10, "what is shown is {shown} of {grown} KiB / 100");
}

#[test]
fn a_vrf_for_which_there_is_no_memory_is_refused() {
    let Some((router, host)) = alone() else { return };
    // Room for the lookup tables of two or three: each takes a lot of address space.
    let limit = (status(router.id(), "VmSize") << 10) + (60 << 30);
    host.run(&format!("prlimit --pid {} --as={limit}:", router.id()));
    let refused = (1..10).find_map(|table| {
        let done = router.attempt(&format!("ip table add {table}"));
        (!done.ok()).then_some((table, done))
    });
    let Some((table, done)) = refused else { panic!("ten tables in 60 GiB") };
    assert!(table > 1, "{done}");
    let why = format!("no memory for the lookup table of table {table}: ");
    assert!(done.stdout.contains(&why) || done.stderr.contains(&why), "{done}");
    // It is as before, and the last one that was made works.
    let config = router.ctl("show config");
    assert!(config.contains(&format!("ip table add {}", table - 1)), "{config}");
    assert!(!config.contains(&format!("ip table add {table}")), "{config}");
    router.ctl(&format!("ip route add 10.0.0.0/24 table {} via drop", table - 1));
    host.attempt(&format!("prlimit --pid {} --as=unlimited:", router.id()), LIMIT).expect_ok();
    router.ctl(&format!("ip table add {table}"));
}

/// A control group with a limit of memory, which lasts as long as this.
struct Group {
    host: Host,
    script: String,
}

impl Group {
    /// A group that may take so many MiB; `None`, and a report, where there can be none. Routers in it see the limit, or do not.
    fn new(host: &Host, mib: u32, seen: bool) -> Option<Group> {
        let (kind, limit) = match fs::read_to_string("/proc/cgroups") {
            Ok(controllers)
                if controllers.lines().any(|l| l.starts_with("memory\t") && !l.contains("memory\t0\t")) =>
            {
                ("cgroup -o memory", "memory.limit_in_bytes")
            }
            _ => ("cgroup2", "memory.max"),
        };
        let lab = host.lab().dir();
        let (name, script) = (lab.file_name()?.to_str()?, lab.join("join.sh").display().to_string());
        // A program in a namespace has a /sys of its own, without groups.
        let hide = if seen { "" } else { "umount -R /sys/fs/cgroup" };
        let join = format!(
            "set -e\ncd /sys/fs/cgroup\nmount -t tmpfs none .\ncd /sys/fs/cgroup\nmkdir all kind\n\
             mount -t cgroup2 none all\nmount -t {kind} none kind\ngroup=/sys/fs/cgroup/kind/{name}\n\
             if [ \"$1\" = rmdir ]; then exec rmdir $group; fi\n\
             mkdir -p $group\necho {mib}M > $group/{limit}\necho $$ > $group/cgroup.procs\ncd /\n{hide}\nexec \"$@\"\n"
        );
        fs::write(&script, join).unwrap();
        let group = Group { host: host.clone(), script };
        let tried = host.attempt(&format!("sh {} true", group.script), LIMIT);
        if !tried.ok() {
            skipped(&format!("no control group can limit memory here: {tried}"));
            return None;
        }
        Some(group)
    }

    fn launcher(&self) -> String {
        format!("sh {}", self.script)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        poll(START, || self.host.attempt(&format!("sh {} rmdir", self.script), LIMIT).ok().then_some(()));
    }
}

#[test]
fn in_a_group_with_little_memory_routes_are_refused_and_the_router_lives() {
    let Some(lab) = Lab::new() else { return };
    let host = lab.host("r");
    let Some(group) = Group::new(&host, 160, true) else { return };
    let router = Router::launch_by(&host, &group.launcher(), "routes { memory 1G }", "").wait_ready();
    // Of one way, and of eight each.
    let ways = (1..9).map(|n| format!(" via 10.9.0.{n}")).collect::<String>();
    router.script("create loopback interface\nset interface state loop0 up\nset interface ip address loop0 10.9.0.100/24\n");
    for (n, to) in [(11, " via drop"), (12, &ways), (13, " via drop")] {
        let done = router.attempt(&format!("ip route add count 400000 {n}.0.0.0/32{to}"));
        let why = "no room for another route: ";
        assert!(!done.ok() && done.stderr.contains(why) && done.stderr.contains("memory."), "{done}");
    }
    assert_eq!(router.json("show ip route-memory")["without_memory"], 3);
    assert!(router.log().contains("a control group is out of memory"), "{}", router.log());
    // What was begun is taken back, and there is memory for a few.
    router.ctl("ip route add 10.0.0.0/24 via drop");
    assert_eq!(router.json("show ip fib summary")["by_length"]["24"], 1);
    router.stop();
}

#[test]
fn in_a_group_with_little_memory_large_changes_and_files_are_refused_and_the_router_lives() {
    let Some(lab) = Lab::new() else { return };
    let host = lab.host("r");
    let Some(group) = Group::new(&host, 200, true) else { return };
    let router = Router::launch_by(&host, &group.launcher(), "routes { memory 1G }", "").wait_ready();
    let added = |n: u32| router.attempt(&format!("ip route add count 30000 {n}.0.0.0/32 via drop")).ok();
    let blocks = (11..90).take_while(|n| added(*n)).count();
    assert!((1..70).contains(&blocks), "{blocks} blocks of routes");
    let file = lab.dir().join("large.yaml");
    fs::write(&file, "#".repeat(60 << 20)).unwrap();
    let apply = format!("config apply {}", file.display());
    for (command, why) in [
        ("config diff rollback", "not enough memory for this change of the configuration: "),
        ("config rollback", "not enough memory for this change of the configuration: "),
        (&apply, "of memory needed, "),
        ("set workers 64", "not enough memory for 63 more workers: "),
    ] {
        let done = router.attempt(command);
        assert!(!done.ok() && done.stderr.contains(why), "{command}: {done}");
    }
    // By hand it goes.
    for n in 11..11 + blocks {
        router.ctl(&format!("ip route del count 30000 {n}.0.0.0/32"));
    }
    router.ctl("ip route add 10.0.0.0/24 via drop");
    router.ctl("config rollback");
    router.stop();
}

#[test]
fn in_a_group_with_too_little_memory_a_router_does_not_start_and_says_why() {
    let Some(lab) = Lab::new() else { return };
    let host = lab.host("r");
    let beside =
        "42 MiB of memory needed, and 64 MiB for the rest of the process: the kernel killed a trial process";
    for (seen, why) in [(true, "memory."), (false, beside)] {
        let Some(group) = Group::new(&host, 96, seen) else { return };
        let mut router = Router::launch_by(&host, &group.launcher(), "", "");
        poll(START, || (!router.running()).then_some(()));
        let log = router.log();
        assert!(!router.running() && log.contains("MiB") && log.contains(why), "{log}");
    }
}

/// As around a container.
#[test]
fn where_a_limit_cannot_be_seen_workers_for_whom_there_is_no_memory_are_refused() {
    let Some(lab) = Lab::new() else { return };
    let host = lab.host("r");
    let Some(group) = Group::new(&host, 256, false) else { return };
    let router = Router::launch_by(&host, &group.launcher(), "", "").wait_ready();
    let done = router.attempt("set workers 64");
    let why =
        "not enough memory for 63 more workers: 567 MiB of memory needed: the kernel killed a trial process";
    assert!(!done.ok() && done.stderr.contains(why), "{done}");
    router.ctl("set workers 3");
    assert_eq!(
        router.json("show threads").as_array().map(Vec::len),
        Some(4),
        "{}",
        router.json("show threads")
    );
    router.stop();
}

/// Whoever touches a page first takes it in its own name, and a client's memory may be without pages.
#[test]
fn a_memif_client_cannot_have_the_router_take_memory_that_is_not_there() {
    let Some(lab) = Lab::new() else { return };
    let (host, client) = (lab.host("r"), lab.host("c"));
    let Some(group) = Group::new(&host, 160, true) else { return };
    let socket = lab.dir().join("memif.sock").display().to_string();
    let memif = |role: &str| {
        format!(
            "create memif socket id 1 filename {socket}\ncreate interface memif id 0 socket-id 1 {role}\n\
             set interface state memif1/0 up\n"
        )
    };
    let router = Router::launch_by(&host, &group.launcher(), "", &memif("master")).wait_ready();
    let connected = || router.json("show memif memif1/0")["interfaces"][0]["connected"] == true;
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/stranger.py");
    let refused = client.attempt(&format!("python3 {tool} sparse {socket} 0 300"), START).expect_ok();
    assert!(refused.contains("300 MiB of the shared memory are not allocated yet"), "{refused}");
    assert!(!connected());
    let _client = Router::start(&client, &memif("slave"));
    assert!(poll(START, || connected().then_some(())).is_some(), "{}", router.log());
}
