//! The metrics of a running router, as Prometheus scrapes them.

use scenarios::{Ping, TWO_PORTS, cabled};
use testkit::netns::{Host, LIMIT};
use testkit::process::until;
use testkit::router::Router;

const METRICS: &str = "metrics { listen 127.0.0.1:9482 }\n";

/// Sends a GET request to the router in this namespace and returns the status and the body.
fn get(host: &Host, path: &str) -> (u16, String) {
    let script = format!(
        "import urllib.request as u, urllib.error as e\n\
         try: r = u.urlopen('http://127.0.0.1:9482{path}', timeout=20)\n\
         except e.HTTPError as refused: r = refused\n\
         print(r.status); print(r.read().decode(), end='')"
    );
    let answer = host.spawn_args(["python3", "-c", &script]).finish(LIMIT).expect_ok();
    let (status, body) = answer.split_once('\n').expect("a status");
    (status.parse().expect("a status"), body.to_owned())
}

fn scrape(host: &Host) -> String {
    let (status, body) = get(host, "/metrics");
    assert_eq!(status, 200, "{body}");
    body
}

fn value(scraped: &str, sample: &str) -> u64 {
    let line = scraped.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in\n{scraped}")).parse().expect("a whole number")
}

/// Counters of `show interface`, with their metrics.
const SAME: [(&str, &str); 5] = [
    ("rx packets", "receive_packets_total"),
    ("rx bytes", "receive_bytes_total"),
    ("tx packets", "transmit_packets_total"),
    ("tx bytes", "transmit_bytes_total"),
    ("drops", "drops_total"),
];

fn interface(scraped: &str, interface: &str, metric: &str) -> u64 {
    value(scraped, &format!("volley_interface_{metric}{{interface=\"{interface}\"}}"))
}

#[test]
fn metrics_equal_show_commands_and_survive_clear() {
    let Some((a, r, b)) = cabled() else { return };
    let router = Router::start_with(&r, METRICS, TWO_PORTS);
    assert!(Ping::run(&a, "-c 10 -i 0.02 -W 2 10.0.1.2").complete());
    // A destination without a route.
    Ping::run(&a, "-c 3 -i 0.02 -W 1 192.0.2.1");
    // ARP packets may still change the counters.
    until("the metrics equal the shown counters", LIMIT, || {
        let scraped = scrape(&r);
        ["host-eth0", "host-eth1"].into_iter().all(|name| {
            SAME.into_iter()
                .all(|(shown, metric)| interface(&scraped, name, metric) == router.counter(name, shown))
        })
    });
    let first = scrape(&r);
    assert!(interface(&first, "host-eth0", "receive_packets_total") >= 13);
    assert!(interface(&first, "host-eth0", "drops_total") >= 3);
    for dropped in router.json("show errors all").as_array().expect("reasons") {
        let (node, name) = (dropped["node"].as_str().unwrap(), dropped["name"].as_str().unwrap());
        let family = if dropped["dropped"] == true { "drop_packets" } else { "node_events" };
        let sample = format!("volley_{family}_total{{node=\"{node}\",reason=\"{name}\"}}");
        assert_eq!(value(&first, &sample), dropped["count"].as_u64().unwrap(), "{sample}");
    }
    assert_eq!(interface(&first, "host-eth0", "up"), 1);
    assert_eq!(interface(&first, "host-eth0", "mtu_bytes"), 1500);

    for clear in ["clear interfaces", "clear errors", "clear runtime"] {
        router.ctl(clear);
    }
    assert!(Ping::run(&a, "-c 5 -i 0.2 -W 2 10.0.1.2").complete());
    let second = scrape(&r);
    for (name, metric) in [("host-eth0", "receive_packets_total"), ("host-eth1", "transmit_packets_total")] {
        let (before, after) = (interface(&first, name, metric), interface(&second, name, metric));
        assert!(after >= before + 5, "{name} {metric}: {before}, then {after}");
    }
    for line in first.lines().filter(|line| line.contains("_total{")) {
        let (sample, before) = line.rsplit_once(' ').expect("a sample");
        // Only whole numbers are compared. Times have fractions.
        let Ok(before) = before.parse::<u64>() else { continue };
        assert!(value(&second, sample) >= before, "{sample} decreased");
    }

    // An interface that gets the index of a removed one starts with zero counters, including drops.
    router.ctl("delete host-interface name eth0");
    until("the index is free", LIMIT, || {
        let name = router.ctl("create loopback interface").trim().to_owned();
        let took = router.json(&format!("show interface {name}"))[0]["index"] == 1;
        if took {
            assert_eq!(router.counter(&name, "drops"), 0);
            assert_eq!(interface(&scrape(&r), &name, "drops_total"), 0);
        }
        took
    });

    // The metrics show a link that goes down.
    b.run("ip link set eth0 down");
    until("host-eth1 is down", LIMIT, || interface(&scrape(&r), "host-eth1", "up") == 0);
    assert_eq!(interface(&scrape(&r), "host-eth1", "admin_up"), 1);
    router.stop();
}

#[test]
fn silent_clients_do_not_block_scrapes_and_health() {
    let Some((a, r, _b)) = cabled() else { return };
    let router = Router::start_with(&r, METRICS, TWO_PORTS);
    let script = "import socket, time\n\
                  s = [socket.create_connection(('127.0.0.1', 9482)) for _ in range(40)]\n\
                  print('silent', flush=True); time.sleep(60)";
    let mut silent = r.spawn_args(["python3", "-c", script]);
    until("the clients are connected", LIMIT, || {
        assert!(silent.running(), "{}", silent.stderr());
        silent.stdout().contains("silent")
    });
    for _ in 0..3 {
        scrape(&r);
    }
    let (status, body) = get(&r, "/health");
    assert_eq!(status, 200, "{body}");
    let health: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&health["status"], &health["workers"]), (&"ok".into(), &1.into()), "{body}");
    assert_eq!(get(&r, "/").0, 404);
    assert!(Ping::run(&a, "-c 3 -i 0.2 -W 2 10.0.1.2").complete(), "packets flow");
    router.stop();
}

#[test]
fn public_and_used_listen_addresses_are_refused() {
    let Some((_a, r, _b)) = cabled() else { return };
    let refused = Router::refused(&r, "unix { nodaemon }\nmetrics { listen 0.0.0.0:9482 }\n");
    assert!(
        !refused.ok() && refused.stderr.contains("refused.conf:2:11: 0.0.0.0:9482 is not a loopback address")
    );
    let router = Router::start_with(&r, METRICS, "");
    let dir = r.lab().dir().join("second");
    let startup = format!("unix {{ runtime-dir {} }}\n{METRICS}", dir.display());
    let refused = Router::refused(&r, &startup);
    let message = "refused.conf:2:11: cannot serve metrics on 127.0.0.1:9482: Address already in use";
    assert!(!refused.ok() && refused.stderr.contains(message), "{}", refused.stderr);
    router.stop();
}
