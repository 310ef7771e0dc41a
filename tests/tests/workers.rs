//! Workers, receive queues and flows: moving them while packets pass, sleep and naps of workers with little work, and
//! overload.

use std::time::{Duration, Instant};

use scenarios::{Iperf, Ping, Routed, TWO_PORTS, cabled, lost_on_the_way, out_of_order};
use serde_json::Value;
use testkit::process::until;
use testkit::router::Router;

const SOON: Duration = Duration::from_secs(10);

fn workers(router: &Router) -> Vec<Value> {
    router
        .json("show threads")
        .as_array()
        .unwrap()
        .iter()
        .filter(|t| t["kind"] == "workers")
        .cloned()
        .collect()
}

/// Returns the router's CPU time as a share of one core, on average over this many seconds.
fn busy(router: &Router, seconds: u64) -> f64 {
    let spent = || testkit::process::cpu_time(router.id());
    let before = spent();
    std::thread::sleep(Duration::from_secs(seconds));
    (spent() - before).as_secs_f64() / seconds as f64
}

/// Changes workers, cores, queues and interfaces under eight flows whose packets are all counted.
#[test]
fn moving_work_loses_and_reorders_no_packet() {
    let Some(net) = Routed::new() else { return };
    // 2,500 packets a second: a ring holds them while a busy machine does not run the worker.
    let mut flow = Iperf::start(&net.a, &net.b, "10.0.1.2", "-u -P 8 -b 500K -l 200 -t 8");
    let mut rounds = 0;
    while flow.running() {
        for change in scenarios::rearrangements("host-eth0", "host-eth1") {
            net.router.ctl(&change);
        }
        rounds += 1;
    }
    let end = flow.finish();
    assert!(rounds > 2, "{rounds} rounds in eight seconds");
    assert!(end["sum"]["packets"].as_u64().is_some_and(|packets| packets > 15_000), "{end}");
    assert_eq!((lost_on_the_way(&end, &net.b), out_of_order(&end)), (0, 0), "{end}");
    assert_eq!(net.router.drops("worker-handoff", "handoff-ring-full"), 0);
    assert_eq!(workers(&net.router).len(), 1);
}

/// Several workers share the flows of a port with one queue, and each flow keeps its order.
#[test]
fn workers_share_the_flows_of_one_queue() {
    for count in [2, 4] {
        let Some((a, r, b)) = cabled() else { return };
        let commands = format!("{TWO_PORTS}set workers {count}\nset interface handoff host-eth0 on\n");
        let router = Router::start(&r, &commands);
        let end = Iperf::run(&a, &b, "10.0.1.2", "-u -P 16 -b 250K -l 200 -t 3");
        assert_eq!((lost_on_the_way(&end, &b), out_of_order(&end)), (0, 0), "{end}");
        let shown = router.json("show interface rx-placement host-eth0");
        assert_eq!((&shown[0]["shared_out"], &shown[0]["mode"]), (&true.into(), &"adaptive".into()));
        let took = router.json("show runtime");
        assert!(took.to_string().contains("handoff-input"), "{took}");
        // TCP in both directions over several workers.
        let end = Iperf::run(&a, &b, "10.0.1.2", "-P 4 -t 1");
        assert!(end["sum_received"]["bytes"].as_f64().is_some_and(|bytes| bytes > 1e6), "{end}");
        // The trace of a packet continues at the worker that the packet was handed to.
        Ping::until_answered(&a, "10.0.1.2", SOON);
        router.ctl("trace add af-packet-input 1000 filter \"udp\"");
        Iperf::run(&a, &b, "10.0.1.2", "-u -P 16 -b 100K -l 200 -t 1");
        let trace = router.ctl("show trace");
        assert!(trace.contains("worker-handoff\n") && trace.contains("to worker "), "{trace}");
        router.stop();
    }
}

/// A router without work sleeps, whatever the number of its workers. In polling mode it does not.
#[test]
fn an_idle_router_sleeps_unless_it_polls() {
    let Some((a, r, _)) = cabled() else { return };
    let router = Router::start(&r, &format!("{TWO_PORTS}set workers 2\n"));
    Ping::until_answered(&a, "10.0.0.1", SOON);
    let idle = busy(&router, 3);
    assert!(idle < 0.15, "{:.1} % of a core while idle", 100.0 * idle);
    router.ctl("set interface rx-mode host-eth1 polling");
    let polling = busy(&router, 2);
    assert!(polling > 0.2, "{:.1} % of a core while polling", 100.0 * polling);
    router.ctl("set interface rx-mode host-eth1 adaptive");
    let all = || workers(&router).iter().all(|w| w["busy_percent"].as_f64().is_some_and(|busy| busy < 50.0));
    until("the workers are idle", SOON, all);
    assert!(busy(&router, 3) < 0.15);
    assert!(workers(&router).iter().all(|w| w["sleeps"].as_u64().is_some_and(|n| n > 0)));
}

/// Below full load a worker naps. A few thousand packets a second take less than 60 % of a core.
#[test]
fn a_worker_naps_below_full_load() {
    let Some(net) = Routed::new() else { return };
    net.router.script(
        "create packet-generator interface pg0\n\
         set interface state pg0 up\n\
         set interface ip address pg0 10.7.0.1/24\n\
         set ip neighbor pg0 10.7.0.2 02:00:00:00:00:07\n\
         packet-generator new { name x interface pg0 node ethernet-input rate 200000 size 64-64 \
         data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.9.0.1 -> 10.7.0.2 UDP: 1 -> 2 } }\n",
    );
    let naps = || workers(&net.router)[0]["naps"].as_u64().unwrap();
    let before = naps();
    net.router.ctl("packet-generator enable-stream");
    until("the worker naps", SOON, || naps() > before + 100);
    net.router.ctl("packet-generator disable-stream");
    // Naps leave part of the core to others at a few thousand packets a second.
    let came = || net.router.counter("host-eth0", "rx packets");
    let mut flow = Iperf::start(&net.a, &net.b, "10.0.1.2", "-u -b 4M -l 200 -t 8");
    let first = came();
    until("packets arrive", SOON, || came() > first + 500);
    let (before, start) = (came(), Instant::now());
    // The smallest of four values: a busy machine makes caches cold and system calls slow.
    let share = (0..4).map(|_| busy(&net.router, 1)).fold(f64::INFINITY, f64::min);
    let rate = (came() - before) as f64 / start.elapsed().as_secs_f64();
    assert!(flow.running() && rate > 1500.0, "{rate:.0} packets a second");
    assert!(share < 0.6, "{:.1} % of a core for {rate:.0} packets a second", 100.0 * share);
    flow.finish();
}

/// The router answers each command within two seconds while its worker is overloaded. The generator is as fast as the worker: half of its
/// packets expire and are counted, and the others leave by the port.
#[test]
fn an_overloaded_router_answers_commands() {
    let Some(net) = Routed::new() else { return };
    net.router.script(
        "create packet-generator interface pg0\n\
         set interface state pg0 up\n\
         set interface ip address pg0 10.7.0.1/24\n\
         set ip neighbor host-eth1 10.0.1.7 02:00:00:00:00:07\n\
         packet-generator new { name good interface pg0 node ethernet-input size 64-64 \
         data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.7.0.2 -> 10.0.1.7 UDP: 1 -> 2 } }\n\
         packet-generator new { name old interface pg0 node ethernet-input size 64-64 \
         data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.7.0.2 -> 10.0.1.7 ttl 1 UDP: 1 -> 2 } }\n\
         packet-generator enable-stream\n",
    );
    let expired = || net.router.drops("ip4-icmp-error", "ttl-expired");
    let worker_is_busy = || workers(&net.router)[0]["busy_percent"].as_f64().is_some_and(|busy| busy > 80.0);
    until("the worker is fully loaded", SOON, worker_is_busy);
    let mut before = expired();
    for round in 0..20 {
        let start = Instant::now();
        let shown = net.router.ctl("show interface");
        let took = start.elapsed();
        assert!(took < Duration::from_secs(2), "the answer took {took:?} in round {round}");
        assert!(shown.contains("pg0"), "{shown}");
        let now = expired();
        assert!(now > before, "packets are dropped in round {round}");
        before = now;
    }
    assert!(net.router.counter("host-eth1", "tx packets") > 0);
    assert!(worker_is_busy(), "{:?}", workers(&net.router));
}
