//! Memory of many VRFs, and behavior when memory is short.

use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;

use scenarios::status;
use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::poll;
use testkit::router::{Router, START};
use testkit::skip::skipped;

/// Returns commands that add VRFs with these numbers, each with 10 routes of various prefix lengths.
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
    // The first VRF includes one-time allocations.
    router.script(&vrfs(1..2));
    let before = status(router.id(), "VmRSS");
    router.script(&vrfs(2..102));
    let grown = status(router.id(), "VmRSS") - before;
    assert!(grown < 50 << 10, "100 VRFs with 10 routes each take {grown} KiB");
    let shown = router.json("show ip fib table 50 summary")["lookup_memory_bytes"].as_u64().unwrap_or(0);
    assert!((20 << 10..300 << 10).contains(&shown), "{shown}");
    eprintln!("MEASURED 100 VRFs with 10 routes each: {grown} KiB; {shown} bytes in the lookup table of one");
    assert!(shown * 100 < grown << 10, "shown: {shown} bytes for one VRF; grown: {grown} KiB for 100");
}

#[test]
fn a_vrf_without_memory_for_its_table_is_refused() {
    let Some((router, host)) = alone() else { return };
    // Address space for the lookup tables of two or three VRFs.
    let limit = (status(router.id(), "VmSize") << 10) + (60 << 30);
    host.run(&format!("prlimit --pid {} --as={limit}:", router.id()));
    let refused = (1..10).find_map(|table| {
        let done = router.attempt(&format!("ip table add {table}"));
        (!done.ok()).then_some((table, done))
    });
    let Some((table, done)) = refused else { panic!("ten tables fit into 60 GiB") };
    assert!(table > 1, "{done}");
    let why = format!("no memory for the lookup table of table {table}: ");
    assert!(done.stdout.contains(&why) || done.stderr.contains(&why), "{done}");
    // The refused VRF leaves nothing, and the last one that was added works.
    let config = router.ctl("show config");
    assert!(config.contains(&format!("ip table add {}", table - 1)), "{config}");
    assert!(!config.contains(&format!("ip table add {table}")), "{config}");
    router.ctl(&format!("ip route add 10.0.0.0/24 table {} via drop", table - 1));
    host.attempt(&format!("prlimit --pid {} --as=unlimited:", router.id()), LIMIT).expect_ok();
    router.ctl(&format!("ip table add {table}"));
}

/// A control group with a memory limit. It is removed on drop.
struct Group {
    host: Host,
    script: String,
}

impl Group {
    /// Makes a group with a limit of `mib` MiB. Routers in it see the limit only if `seen`. `None` if control groups are not
    /// available (reported as skipped).
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
        // A namespace of a lab has a /sys without control groups, so the script mounts them. `hide` unmounts them again.
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
            skipped(&format!("needs a control group that limits memory: {tried}"));
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
fn a_memory_limit_refuses_routes_without_killing_the_router() {
    let Some(lab) = Lab::new() else { return };
    let host = lab.host("r");
    let Some(group) = Group::new(&host, 160, true) else { return };
    let router = Router::launch_by(&host, &group.launcher(), "routes { memory 1G }", "").wait_ready();
    // Routes with one path, then routes with eight paths.
    let ways = (1..9).map(|n| format!(" via 10.9.0.{n}")).collect::<String>();
    router.script("create loopback interface\nset interface state loop0 up\nset interface ip address loop0 10.9.0.100/24\n");
    for (n, to) in [(11, " via drop"), (12, &ways), (13, " via drop")] {
        let done = router.attempt(&format!("ip route add count 400000 {n}.0.0.0/32{to}"));
        let why = "no room for another route: ";
        assert!(!done.ok() && done.stderr.contains(why) && done.stderr.contains("memory."), "{done}");
    }
    assert_eq!(router.json("show ip route-memory")["without_memory"], 3);
    assert!(router.log().contains("a control group is out of memory"), "{}", router.log());
    // The refused command is rolled back, which leaves memory for a few routes.
    router.ctl("ip route add 10.0.0.0/24 via drop");
    assert_eq!(router.json("show ip fib summary")["by_length"]["24"], 1);
    router.stop();
}

#[test]
fn a_memory_limit_refuses_large_changes_and_files() {
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
    // Smaller steps succeed.
    for n in 11..11 + blocks {
        router.ctl(&format!("ip route del count 30000 {n}.0.0.0/32"));
    }
    router.ctl("ip route add 10.0.0.0/24 via drop");
    router.ctl("config rollback");
    router.stop();
}

#[test]
fn a_memory_limit_too_small_for_a_start_is_reported() {
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

/// A memory limit applies even if the router cannot see its control group, as in a container. The router then refuses
/// workers that need too much memory.
#[test]
fn a_hidden_memory_limit_refuses_workers() {
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

/// A client is refused if its memory would exceed the router's limit. The memory may have no pages yet, and the kernel
/// charges a page to the process that touches it first: the router.
#[test]
fn a_memif_client_cannot_exhaust_the_routers_memory() {
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
    assert!(refused.contains("the shared memory needs 300 MiB more"), "{refused}");
    assert!(!connected());
    let _client = Router::start(&client, &memif("slave"));
    assert!(poll(START, || connected().then_some(())).is_some(), "{}", router.log());
}
