//! Workers, receive queues and flows: what moves while packets pass, and how a worker that has little to do rests.

use std::time::Duration;

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

/// Everything that can be changed of who does what, under eight flows of which every packet is counted.
#[test]
fn work_moves_and_no_packet_is_lost_or_overtaken() {
    let Some(net) = Routed::new() else { return };
    // 2,500 packets a second: what a ring holds while a busy machine runs no worker.
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

/// Flows of a port with one queue are done by several workers, each flow in its order.
#[test]
fn flows_are_shared_out() {
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
        // TCP, and what both ends say, over several workers.
        let end = Iperf::run(&a, &b, "10.0.1.2", "-P 4 -t 1");
        assert!(end["sum_received"]["bytes"].as_f64().is_some_and(|bytes| bytes > 1e6), "{end}");
        // The trace of a packet that was handed over goes on at the worker that has it.
        Ping::until_answered(&a, "10.0.1.2", SOON);
        router.ctl("trace add af-packet-input 1000 filter \"udp\"");
        Iperf::run(&a, &b, "10.0.1.2", "-u -P 16 -b 100K -l 200 -t 1");
        let trace = router.ctl("show trace");
        assert!(trace.contains("worker-handoff\n") && trace.contains("to worker "), "{trace}");
        router.stop();
    }
}

/// A router that has nothing to do sleeps, whatever the number of its workers; one that is told to poll does not.
#[test]
fn who_has_nothing_to_do_sleeps() {
    let Some((a, r, _)) = cabled() else { return };
    let router = Router::start(&r, &format!("{TWO_PORTS}set workers 2\n"));
    Ping::until_answered(&a, "10.0.0.1", SOON);
    let busy = |seconds: u64| {
        let spent = || testkit::process::cpu_time(router.id());
        let before = spent();
        std::thread::sleep(Duration::from_secs(seconds));
        (spent() - before).as_secs_f64() / seconds as f64
    };
    let idle = busy(3);
    assert!(idle < 0.15, "{:.1} % of a core to do nothing", 100.0 * idle);
    router.ctl("set interface rx-mode host-eth1 polling");
    let polling = busy(2);
    assert!(polling > 0.2, "{:.1} % of a core to poll", 100.0 * polling);
    router.ctl("set interface rx-mode host-eth1 adaptive");
    let all = || workers(&router).iter().all(|w| w["busy_percent"].as_f64().is_some_and(|busy| busy < 50.0));
    until("the workers have nothing to do", SOON, all);
    assert!(busy(3) < 0.15);
    assert!(workers(&router).iter().all(|w| w["sleeps"].as_u64().is_some_and(|n| n > 0)));
}

/// At a rate of some ten thousand packets a second a worker naps: it is woken less often than packets come.
#[test]
fn a_worker_naps_where_few_packets_come() {
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
}
