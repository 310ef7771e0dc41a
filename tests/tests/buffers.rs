//! Adding packet buffers while packets pass: with devices that use the router's memory, and when no buffer is free.

use std::fs;
use std::time::Duration;

use scenarios::{Iperf, Ping, TWO_PORTS, address, cabled, lost_on_the_way, out_of_order};
use testkit::netns::{Host, LIMIT, Lab};
use testkit::process::until;
use testkit::router::Router;
use testkit::skip::skipped;

const SOON: Duration = Duration::from_secs(10);

/// Host `a` — router `r` — router `s` — host `b`. The routers use AF_XDP to the hosts and memif between each other, with the buffers of
/// `r`. Each has two workers and distributes flows over them. Returns the four in this order; `None` if namespaces or eBPF programs are not
/// available (reported as skipped).
fn two_routers() -> Option<(Host, Router, Router, Host)> {
    let lab = Lab::new()?;
    if !lab.can_load_programs() {
        return None;
    }
    let (a, r, s, b) = (lab.host("a"), lab.host("r"), lab.host("s"), lab.host("b"));
    for (host, router, own, gateway) in
        [(&a, &r, "10.0.0.2/24", "10.0.0.1"), (&b, &s, "10.0.1.2/24", "10.0.1.1")]
    {
        lab.link((host, "eth0"), (router, "eth0"));
        address(host, own, gateway);
        // AF_XDP does not carry checksum offload across a veth pair.
        host.run("ethtool -K eth0 tx off");
    }
    let socket = lab.dir().join("memif.sock");
    let start = |host: &Host, role: &str, own: u8, other: u8| {
        let commands = format!(
            "set workers 2\n\
             create interface af_xdp host-if eth0\n\
             create memif socket id 1 filename {}\n\
             create interface memif socket-id 1 {role} trusted\n\
             set interface state xdp-eth0 up\n\
             set interface state memif1/0 up\n\
             set interface ip address xdp-eth0 10.0.{own}.1/24\n\
             set interface ip address memif1/0 10.0.2.1{own}/24\n\
             ip route add 10.0.{other}.0/24 via 10.0.2.1{other}\n\
             set interface handoff xdp-eth0 on\n\
             set interface handoff memif1/0 on\n",
            socket.display()
        );
        Router::start(host, &commands)
    };
    let (master, slave) = (start(&s, "master", 1, 0), start(&r, "slave", 0, 1));
    Some((a, slave, master, b))
}

fn buffers(router: &Router) -> u64 {
    router.json("show buffers")["total"].as_u64().unwrap()
}

/// Sends first one way and then the other, through devices that know only the buffers that existed at the start. No packet may be lost or
/// reordered.
#[test]
fn adding_buffers_under_traffic_loses_and_reorders_nothing() {
    let Some((a, r, s, b)) = two_routers() else { return };
    Ping::until_answered(&a, "10.0.1.2", SOON);
    // The very first packets may arrive before the peer has lent buffers for them.
    let full = || [&r, &s].map(|router| router.drops("interface-tx", "tx-queue-full"));
    let before = full();
    for (from, to, server) in [(&a, &b, "10.0.1.2"), (&b, &a, "10.0.0.2")] {
        // 2,500 packets a second: a ring holds them while a busy machine does not run the worker.
        let mut flow = Iperf::start(from, to, server, "-u -P 8 -b 500K -l 200 -t 6");
        let mut rounds = 0;
        while flow.running() {
            for router in [&r, &s] {
                let more = if rounds == 0 { 2 * buffers(router) } else { buffers(router) + 1000 };
                let said = router.ctl(&format!("set buffers {more}"));
                assert!(said.starts_with(&format!("there are {more} buffers now, until")), "{said}");
            }
            rounds += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
        let end = flow.finish();
        assert!(rounds > 2, "{rounds} rounds in six seconds");
        assert!(end["sum"]["packets"].as_u64().is_some_and(|packets| packets > 10_000), "{end}");
        assert_eq!((lost_on_the_way(&end, to), out_of_order(&end)), (0, 0), "{end}");
        // iperf3 does not count packets lost at the end of its run.
        assert!(Ping::run(from, &format!("-c 50 -i 0.01 {server}")).complete());
    }
    assert_eq!(full(), before);
    for router in [&r, &s] {
        let shown = router.json("show buffers");
        assert_eq!((&shown["at_start"]["total"], &shown["refused"]), (&16_384.into(), &0.into()));
        assert!(shown["added"]["total"].as_u64() > Some(2 * 16_384), "{shown}");
    }
}

/// A device that wants more buffers than exist leaves none to the others. It cannot take buffers that are added later, so packets pass
/// again.
#[test]
fn adding_buffers_ends_a_buffer_shortage() {
    let Some((a, r, _b)) = cabled() else { return };
    let lab = a.lab();
    if !lab.can_load_programs() {
        return;
    }
    let c = lab.host("c");
    lab.link((&c, "eth0"), (&r, "eth2"));
    let router = Router::start_with(&r, "buffers { buffers-per-numa 1024 }\n", TWO_PORTS);
    Ping::until_answered(&a, "10.0.1.2", SOON);
    let said = router.ctl("create interface af_xdp host-if eth2 rx-queue-size 4096");
    assert!(said.starts_with("xdp-eth2"), "{said}");
    router.ctl("set interface state xdp-eth2 up");
    // The device takes all buffers, except those that the main thread holds.
    until("the device has all buffers", SOON, || {
        let shown = router.json("show buffers");
        shown["available"] == 0 && shown["lent"].as_u64() >= Some(512)
    });
    let refused = || router.json("show buffers")["refused"].as_u64().unwrap();
    // Buffers that packets still hold serve other packets until the device has taken them as well.
    until("no packet passes", SOON, || !Ping::run(&a, "-c 3 -i 0.1 -W 1 10.0.1.2").complete());
    assert!(refused() > 0);
    until("the shortage is logged", SOON, || {
        router.ctl("show event-logger").contains("no buffer is free for packets")
    });
    router.ctl("set buffers 3000");
    Ping::until_answered(&a, "10.0.1.2", SOON);
    assert!(Ping::run(&a, "-c 100 -i 0.005 -s 1400 10.0.1.2").complete());
    let event = "there are 3000 buffers now, 1976 more than before";
    assert!(router.ctl("show event-logger").contains(event), "{}", router.log());
}

/// Returns the machine's available memory in KiB.
fn available_kib() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn buffers_beyond_the_machines_memory_are_refused_under_traffic() {
    let Some((a, r, _b)) = cabled() else { return };
    let router = Router::start(&r, TWO_PORTS);
    Ping::until_answered(&a, "10.0.1.2", SOON);
    let too_many = (available_kib() * 1024 / 2624 + 100_000).min(1 << 24);
    if available_kib() * 1024 > too_many * 2624 {
        skipped("needs a machine with less memory than the most buffers that can be asked for");
        return;
    }
    let refused = router.attempt(&format!("set buffers {too_many}"));
    let why = format!("cannot allocate {too_many} buffers: ");
    assert!(!refused.ok() && refused.stderr.contains(&why), "{refused}");
    assert!(refused.stderr.contains("of memory needed, ") && router.log().contains(&why), "{refused}");
    assert_eq!(buffers(&router), 16_384);
    // Some hundreds of megabytes: other clients are served meanwhile, and the change completes without its client.
    let many = 200_000;
    let mut adding = router.in_background(&format!("set buffers {many}"));
    until("the change is running", LIMIT, || {
        router.attempt(&format!("set buffers {}", many + 1)).stderr.contains("already being added")
            || !adding.running()
    });
    drop(adding);
    assert!(Ping::run(&a, "-c 50 -i 0.01 10.0.1.2").complete());
    until("the buffers exist", LIMIT, || buffers(&router) >= many);
}
