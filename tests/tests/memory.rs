//! Memory: what many VRFs take, and what happens when there is none.

use std::fmt::Write;
use std::net::Ipv4Addr;

use scenarios::status;
use testkit::netns::{Host, LIMIT, Lab};
use testkit::router::Router;

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
