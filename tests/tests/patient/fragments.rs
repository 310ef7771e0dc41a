//! Fragments addressed to the router: all sizes, all orders, and errors.

use scenarios::{Ping, Routed, echo};
use testkit::netns::LIMIT;
use testkit::process::until;

#[test]
fn the_router_answers_pings_of_any_size() {
    let Some(Routed { a, b, router, .. }) = Routed::new() else { return };
    for size in [1472, 1473, 8000, 65_000, 65_507] {
        for (host, target) in [(&a, "10.0.0.1"), (&b, "10.0.0.1")] {
            let ping = Ping::run(host, &format!("-c 2 -i 0.05 -W 2 -s {size} {target}"));
            assert!(ping.complete(), "size {size}: {}", ping.text);
        }
    }
    let shown = router.json("show ip4-full-reassembly");
    assert_eq!((&shown["datagrams"], &shown["buffers"]), (&0.into(), &0.into()), "{shown}");
    assert_eq!(shown["completed"], 16, "{shown}");
}

#[test]
fn fragments_are_reassembled_in_any_order_and_twice() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    for order in ["forward", "backward", "shuffled", "twice"] {
        for (size, piece) in [(100, 8), (600, 64), (8000, 1480), (60_000, 1000)] {
            let answer =
                echo(&a, &format!("10.0.0.2 10.0.0.1 --size {size} --piece {piece} --order {order}"));
            assert_eq!(answer, format!("reply {size} ok"), "in pieces of {piece}, {order}");
        }
    }
    assert!(router.drops("ip4-full-reassembly", "duplicate") > 0);
}

#[test]
fn overlapping_fragments_are_not_answered() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    let answer = echo(&a, "10.0.0.2 10.0.0.1 --size 4000 --piece 1000 --order overlap --wait 0.5");
    assert_eq!(answer, "nothing");
    assert!(router.drops("ip4-full-reassembly", "overlap") >= 4);
}

#[test]
fn a_lost_fragment_is_reported_after_the_timeout() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    router.ctl("set ip4-full-reassembly timeout 1");
    let answer = echo(&a, "10.0.0.2 10.0.0.1 --size 4000 --piece 1000 --order lost --wait 5");
    // Fragment reassembly time exceeded.
    assert_eq!(answer, "error 11 1 0");
    assert_eq!(router.json("show ip4-full-reassembly")["datagrams"], 0);
}

#[test]
fn a_flood_of_first_fragments_does_not_stop_the_router() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    router.ctl("set ip4-full-reassembly timeout 5");
    let flood = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/flood.py");
    let mut flood = a.spawn(&format!("python3 {flood} 10.0.0.2 10.0.0.1"));
    until("the flood fills the table", LIMIT, || {
        assert!(flood.running(), "{}", flood.stderr());
        router.drops("ip4-full-reassembly", "displaced-datagrams") > 1000
    });
    let ping = Ping::run(&a, "-c 5 -i 0.05 -W 2 -s 4000 10.0.0.1");
    assert!(ping.complete(), "{}", ping.text);
    let shown = router.json("show ip4-full-reassembly details");
    assert!(shown["datagrams"].as_u64() <= shown["max_datagrams"].as_u64(), "{shown}");
    assert!(Ping::run(&a, "-c 3 -i 0.2 -W 2 10.0.1.2").complete(), "forwarded packets are not affected");
    drop(flood);
    until("the flood's last datagram has expired", LIMIT, || {
        router.json("show ip4-full-reassembly")["datagrams"] == 0
    });
}

#[test]
fn shallow_reassembly_holds_fragments_until_the_first() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    router.ctl("set interface feature host-eth0 ip4-sv-reassembly arc ip4-unicast");
    for order in ["forward", "backward", "shuffled"] {
        let answer = echo(&a, &format!("10.0.0.2 10.0.1.2 --size 8000 --piece 1480 --order {order}"));
        assert_eq!(answer, "reply 8000 ok", "{order}");
    }
    router.ctl("trace add af-packet-input 100");
    assert!(Ping::run(&a, "-c 3 -i 0.2 -W 2 -s 8000 10.0.1.2").complete());
    assert_eq!(router.json("show ip4-sv-reassembly")["completed"], 6);
    let trace = router.ctl("show trace");
    assert!(trace.contains("ip4-sv-reassembly: ports "), "{trace}");
}
