//! Answers to clients, from a real router with running workers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use net::router::Sizes;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
};
use nix::time::ClockId;
use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::prometheus::parse_prometheus;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::collect::Collection;
use super::declared::{self, Id, Kind};
use super::server::{self, Health};
use super::text::{Format, Samples, samples};
use crate::app::Context;
use crate::cli::Call;
use crate::testing;
use model::metrics::Lines;

/// Time limit for any wait on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// Returns every metric.
fn metrics() -> Vec<&'static super::declared::Metric> {
    declared::metrics(&testing::catalog())
}

/// Returns a router with pg0 (10.0.0.1/24, up), pg1, a VRF and a neighbor. Its workers run if `turning`.
fn router(turning: bool) -> Context {
    let sizes = Sizes { buffers: 1024, workers: 2 };
    let mut context = Context::new(testing::system(testing::FEATURES, &sizes, turning));
    for line in [
        "create packet-generator interface pg0",
        "create packet-generator interface pg1",
        "set interface state pg0 up",
        "set interface ip address pg0 10.0.0.1/24",
        "set interface description pg0 \"up \\\"link\\\"\"",
        "set interface tcp-mss-clamp pg0 ip4 enable ip4-mss 1400 ip6 rx ip6-mss 1380",
        "set urpf ip4 rx loose pg0",
        "ip table add 4294967295 name blue",
        "ip route add 10.9.0.0/16 table blue via drop",
        "set ip neighbor pg0 10.0.0.2 02:00:00:00:00:07",
    ] {
        run(&mut context, line);
    }
    context
}

fn run(context: &mut Context, line: &str) -> String {
    let answer = Rc::new(testing::registry()).run(context, line, Call::default());
    let answer = answer.unwrap_or_else(|e| panic!("{}", e.render()));
    assert!(answer.job.is_none(), "{line} is a short command");
    answer.text
}

/// Collects all samples.
fn collect(context: &Context) -> Samples {
    let mut collection = Collection::new(Duration::from_secs(1_700_000_000));
    while collection.slice(context) {}
    collection.samples()
}

fn written(format: Format, samples: Samples) -> String {
    format.write(&samples).map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect()
}

/// Returns the value of a sample.
fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in\n{text}")).parse().unwrap()
}

#[test]
fn both_formats_parse_and_have_every_metric() {
    let context = router(false);
    let samples = collect(&context);
    // A packet generator has no speed.
    let metrics = || metrics().into_iter().filter(|m| m.name != "volley_interface_speed_bytes_per_second");
    let labels = |metric: &super::declared::Metric| metric.labels.iter().map(ToString::to_string).collect();

    let text = written(Format::Prometheus, samples.clone());
    let parsed = parse_prometheus(&text).unwrap();
    assert_eq!(parsed.families.len(), metrics().count());
    for metric in metrics() {
        let family = &parsed.families[metric.name];
        let kind = if metric.kind == Kind::Info { "gauge" } else { metric.kind.name() };
        assert_eq!((family.family_type.to_string().as_str(), &*family.help), (kind, metric.help));
        let had: BTreeSet<String> = family.get_label_names().iter().cloned().collect();
        assert_eq!(had, labels(metric), "{}", metric.name);
        assert!(family.iter_samples().count() > 0);
    }
    assert_eq!(value(&text, "volley_interface_up{interface=\"pg0\"}"), 1.0);
    assert_eq!(value(&text, "volley_interface_up{interface=\"pg1\"}"), 0.0);
    // The operator's route, and the routes that each VRF has.
    let fib = context.system.router.fib(u32::MAX).unwrap();
    let routes = context.system.router.routes::<Ipv4Addr>().count(fib) as f64;
    assert_eq!(value(&text, "volley_fib_routes{af=\"ip4\",vrf=\"4294967295\"}"), routes);
    assert!(routes > 1.0);
    let routes6 = context.system.router.routes::<Ipv6Addr>().count(fib) as f64;
    assert_eq!(value(&text, "volley_fib_routes{af=\"ip6\",vrf=\"4294967295\"}"), routes6);
    assert_eq!(value(&text, "volley_neighbors{af=\"ip6\",state=\"stale\"}"), 0.0);
    assert!(value(&text, "volley_fib_memory_bytes{af=\"ip4\",vrf=\"0\"}") > 0.0);
    assert_eq!(value(&text, "volley_neighbors{af=\"ip4\",state=\"static\"}"), 1.0);
    assert_eq!(value(&text, "volley_start_time_seconds"), 1_700_000_000.0);
    assert_eq!(value(&text, "volley_drop_packets_total{node=\"ip4-input\",reason=\"bad-version\"}"), 0.0);
    // Events that are not drops are in no sum of drops.
    let unreported = "{node=\"ip4-icmp-error\",reason=\"unreported-limit\"}";
    assert_eq!(value(&text, &format!("volley_node_events_total{unreported}")), 0.0);
    assert!(!text.contains(&format!("volley_drop_packets_total{unreported}")));
    let info =
        "kind=\"packet-generator\",vrf=\"0\",mac=\"02:fe:00:00:00:00\",description=\"up \\\"link\\\"\"";
    assert_eq!(value(&text, &format!("volley_interface_info{{interface=\"pg0\",{info}}}")), 1.0);
    let (resident, all) = ("process_resident_memory_bytes", "process_virtual_memory_bytes");
    assert!(value(&text, resident) > 1e6 && value(&text, all) > value(&text, resident));
    assert!(value(&text, "process_cpu_seconds_total") > 0.0);
    assert!(value(&text, "process_open_fds") >= 3.0 && value(&text, "process_threads") >= 1.0);
    let buffers =
        ["free", "cached", "lent", "used"].map(|s| value(&text, &format!("volley_buffers{{state=\"{s}\"}}")));
    assert_eq!(buffers.iter().sum::<f64>(), 1024.0);

    let text = written(Format::OpenMetrics, samples);
    assert!(text.ends_with("\n# EOF\n"));
    let parsed = parse_openmetrics(&text).unwrap();
    for metric in metrics() {
        let family = &parsed.families[metric.name.strip_suffix(metric.kind.suffix()).unwrap()];
        assert_eq!(format!("{:?}", family.family_type).to_lowercase(), metric.kind.name());
    }
}

#[test]
fn names_follow_the_conventions() {
    let names: BTreeSet<&str> = metrics().iter().map(|m| m.name).collect();
    assert_eq!(names.len(), metrics().len(), "each is declared once");
    for metric in metrics() {
        let name = metric.name;
        let prefixed = name.starts_with("volley_") || name.starts_with("process_");
        assert!(prefixed && !name.contains("__"), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        assert_eq!(name.ends_with("_info"), metric.kind == Kind::Info, "{name}");
        assert!(metric.help.ends_with('.') && !metric.help.contains(['\n', '\\']), "{name}");
    }
}

#[test]
fn labels_are_escaped() {
    let mut lines = Lines::default();
    lines.add(Id::DropPackets, &["a\"b\\c\nd", "größe, {}"], u64::MAX);
    lines.add_seconds(Id::WorkerBusy, &["0"], 12_000_000_034);
    let text = written(Format::Prometheus, samples(lines));
    assert!(text.contains(
        "\nvolley_drop_packets_total{node=\"a\\\"b\\\\c\\nd\",reason=\"größe, {}\"} 18446744073709551615\n"
    ));
    assert!(text.ends_with("\nvolley_worker_busy_seconds_total{worker=\"0\"} 12.000000034\n"), "{text}");
    parse_prometheus(&text).unwrap();
    let mut lines = Lines::default();
    lines.add_histogram(Id::VectorSize, &["0"], &[(1, 5), (2, 0), (4, 3)], 14);
    let samples = samples(lines);
    let text = written(Format::Prometheus, samples.clone());
    for (sample, n) in [
        ("_bucket{worker=\"0\",le=\"1\"}", 5.0),
        ("_bucket{worker=\"0\",le=\"4\"}", 8.0),
        ("_bucket{worker=\"0\",le=\"+Inf\"}", 8.0),
        ("_sum{worker=\"0\"}", 14.0),
        ("_count{worker=\"0\"}", 8.0),
    ] {
        assert_eq!(value(&text, &format!("volley_worker_vector_size_packets{sample}")), n, "{text}");
    }
    parse_prometheus(&text).unwrap();
    parse_openmetrics(&written(Format::OpenMetrics, samples)).unwrap();
}

#[test]
fn clients_get_the_format_they_prefer() {
    for (accept, format) in [
        ("", Format::Prometheus),
        ("*/*", Format::Prometheus),
        ("text/html, application/json;q=0.9", Format::Prometheus),
        ("application/openmetrics-text", Format::OpenMetrics),
        ("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0", Format::OpenMetrics),
        ("text/plain, application/openmetrics-text; version=1.0.0; q=0.5", Format::Prometheus),
        ("application/openmetrics-text;q=0", Format::Prometheus),
        ("application/openmetrics-text;q=nonsense", Format::Prometheus),
        // The header of Prometheus 3.
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            Format::OpenMetrics,
        ),
    ] {
        assert_eq!(Format::wanted(accept), format, "{accept}");
    }
}

#[test]
fn clear_commands_do_not_affect_metrics() {
    let mut context = router(false);
    let rx = context.system.router.tables().counters.rx.clone();
    rx.lane(0).unwrap().add(1, [5, 300]);
    let shown = |context: &Context| {
        let text = written(Format::Prometheus, collect(context));
        ["packets", "bytes"]
            .map(|what| value(&text, &format!("volley_interface_receive_{what}_total{{interface=\"pg0\"}}")))
    };
    assert_eq!(shown(&context), [5.0, 300.0]);
    run(&mut context, "clear interfaces");
    assert_eq!(rx.read(1), [0, 0]);
    assert_eq!(shown(&context), [5.0, 300.0]);
}

#[test]
fn mss_clamping_is_counted_by_family() {
    let mut context = router(false);
    let mss = context.system.router.attached::<mss::Clamps>().unwrap();
    mss.counts.lane(0).unwrap().add(1, [5, 7]);
    let name = "volley_interface_tcp_mss_clamp";
    let text = |context: &Context| written(Format::Prometheus, collect(context));
    let lowered = |text: &str, af: &str| {
        value(text, &format!("{name}ed_packets_total{{interface=\"pg0\",af=\"{af}\"}}"))
    };
    for line in ["show interface", "clear interfaces"] {
        let _ = Rc::new(testing::registry()).run(&mut context, line, Call::default());
        let text = text(&context);
        assert_eq!((lowered(&text, "ip4"), lowered(&text, "ip6")), (5.0, 7.0));
        let most = |labels: &str| value(&text, &format!("{name}_bytes{{interface=\"pg0\",{labels}}}"));
        assert_eq!(most("af=\"ip4\",direction=\"both\""), 1400.0);
        assert_eq!(most("af=\"ip6\",direction=\"rx\""), 1380.0);
        assert!(!text.contains(&format!("{name}ed_packets_total{{interface=\"pg1\"")), "{text}");
    }
    run(&mut context, "set interface tcp-mss-clamp pg0 ip4 disable");
    let text = text(&context);
    assert!(!text.contains("af=\"ip4\",direction="), "{text}");
    assert_eq!(lowered(&text, "ip6"), 7.0);
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().unwrap().into()
}

#[test]
fn thousands_of_interfaces_are_collected_in_slices() {
    let mut context = router(false);
    for n in 0..4000 {
        context.system.router.add_loopback(&format!("loop{n}"), wire::Mac([2, 0, 0, 0, 0, 1])).unwrap();
    }
    let mut collection = Collection::new(Duration::ZERO);
    let (mut slices, mut longest, mut busiest, mut more) = (0, Duration::ZERO, Duration::ZERO, true);
    let begun = Instant::now();
    while more {
        let (start, on_cpu) = (Instant::now(), cpu_time());
        more = collection.slice(&context);
        // The elapsed time depends on the scheduler, the CPU time does not.
        longest = longest.max(start.elapsed());
        busiest = busiest.max(cpu_time() - on_cpu);
        slices += 1;
    }
    let took = begun.elapsed();
    let text = written(Format::Prometheus, collection.samples());
    eprintln!(
        "MEASURED 4,002 interfaces: {slices} slices in {took:?}, the longest {longest:?}, {busiest:?} of it on the CPU at \
         most; {} bytes",
        text.len()
    );
    assert!(slices > 2, "{slices} slices in {took:?}");
    assert!(busiest < Duration::from_millis(5), "a slice ran for {busiest:?}");
    let all = text.lines().filter(|line| line.starts_with("volley_interface_up{")).collect::<BTreeSet<_>>();
    assert_eq!(all.len(), 4002, "each once");
}

/// Serves a router while a client runs on a thread of its own.
fn served<T: Send + 'static>(context: Context, client: impl FnOnce(SocketAddr) -> T + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let listener = server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        super::start(listener, &Rc::new(RefCell::new(context))).unwrap();
        tokio::task::spawn_blocking(move || client(address)).await.unwrap()
    })
}

/// Sends a request. Returns head and body of the answer.
fn request(address: SocketAddr, text: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (head.to_lowercase(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: v\r\n\r\n"))
}

#[test]
fn serves_http() {
    served(router(true), |address| {
        let (head, body) = get(address, "/metrics");
        assert!(head.starts_with("http/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        parse_prometheus(&body).unwrap();
        let open = "GET /metrics HTTP/1.1\r\nHost: v\r\nAccept: application/openmetrics-text\r\n\r\n";
        let (head, body) = request(address, open);
        assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
        parse_openmetrics(&body).unwrap();

        let (head, body) = get(address, "/health");
        assert!(head.starts_with("http/1.1 200") && head.contains("application/json"), "{head} {body}");
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(json, serde_json::json!({ "status": "ok", "workers": 2, "faults": [] }));

        let (head, body) = request(address, "HEAD /metrics HTTP/1.1\r\nHost: v\r\n\r\n");
        assert!(head.starts_with("http/1.1 200") && body.is_empty(), "{head} {body}");
        assert!(get(address, "/").0.starts_with("http/1.1 404"));
        let (head, _) = request(address, "POST /metrics HTTP/1.1\r\nHost: v\r\nContent-Length: 0\r\n\r\n");
        assert!(head.starts_with("http/1.1 405") && head.contains("allow: get, head"), "{head}");
        assert!(request(address, "nonsense\r\n\r\n").0.starts_with("http/1.1 400"));
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20 << 10));
        // The server may close the connection before the whole request is sent.
        let mut stream = TcpStream::connect(address).unwrap();
        let mut answer = Vec::new();
        drop(stream.write_all(long.as_bytes()));
        drop(stream.read_to_end(&mut answer));
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    });
}

#[test]
fn silent_clients_do_not_block_others() {
    served(router(true), |address| {
        // Half of the clients have begun their requests.
        let mut silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
        silent.iter_mut().step_by(2).for_each(|s| drop(s.write_all(b"GET /metr")));
        let start = Instant::now();
        for _ in 0..20 {
            assert!(get(address, "/metrics").0.starts_with("http/1.1 200"));
        }
        assert!(start.elapsed() < LONG);
        // Silent clients are disconnected in the end.
        let first = &mut silent[0];
        first.set_read_timeout(Some(LONG)).unwrap();
        assert!(!matches!(first.read(&mut [0; 1]), Ok(1..)), "nothing was asked");
    });
}

/// Returns a router as `router` does, with this many loopback interfaces in addition.
fn large_router(interfaces: usize) -> Context {
    let mut context = router(true);
    for n in 0..interfaces {
        context.system.router.add_loopback(&format!("loop{n}"), wire::Mac([2, 0, 0, 0, 0, 1])).unwrap();
    }
    context
}

/// Calls `again` repeatedly on another thread while `meanwhile` runs. Also stops if `meanwhile` panics.
/// Returns the number of calls.
fn beside(mut again: impl FnMut() + Send, meanwhile: impl FnOnce()) -> usize {
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let times = scope.spawn(|| {
            let mut times = 0;
            while !over.load(Ordering::Relaxed) {
                again();
                times += 1;
            }
            times
        });
        let ends = Ends(&over);
        meanwhile();
        drop(ends);
        times.join().unwrap()
    })
}

/// Asks for the metrics, without reading the answer.
fn slow_reader(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: v\r\n\r\n").unwrap();
    stream
}

/// Fails unless requests for the metrics and the health are answered completely. The metrics must have more
/// than `least` bytes.
fn must_be_answered(address: SocketAddr, least: usize) {
    let (head, body) = get(address, "/metrics");
    let whole = format!("content-length: {}", body.len());
    assert!(head.starts_with("http/1.1 200") && head.contains(&whole), "{head}");
    assert!(body.len() > least, "{} bytes", body.len());
    assert!(get(address, "/health").0.starts_with("http/1.1 200"));
}

#[test]
fn slow_readers_do_not_block_others() {
    // The answer is larger than the sockets' buffers.
    served(large_router(12_000), |address| {
        // More clients than places.
        let slow: Vec<TcpStream> = (0..300).map(|_| slow_reader(address)).collect();
        for _ in 0..5 {
            must_be_answered(address, 7 << 20);
        }
        drop(slow);
    });
}

#[test]
fn ever_new_slow_readers_do_not_block_others() {
    served(large_router(6_000), |address| {
        let mut slow = Vec::new();
        let come = || {
            slow.push(slow_reader(address));
            std::thread::sleep(Duration::from_millis(10));
        };
        let came = beside(come, || {
            for _ in 0..20 {
                must_be_answered(address, 3 << 20);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        assert!(came > 20);
    });
}

/// Connects a client that reads nothing, from another address of this host.
fn connect_from([a, b, c, d]: [u8; 4], to: SocketAddr) -> nix::Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // The kernel buffers little for this client.
    setsockopt(&socket, sockopt::RcvBuf, &2048)?;
    bind(socket.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0))?;
    connect(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, to.port()))?;
    Ok(socket)
}

#[test]
fn flood_of_one_network_does_not_block_others() {
    served(large_router(12_000), |address| {
        let mut kept = VecDeque::new();
        let come = || {
            if let Ok(socket) = connect_from([127, 0, 0, 2], address) {
                // The write fails if the server has already closed the connection.
                let _ = nix::unistd::write(&socket, b"GET /metrics HTTP/1.1\r\nHost: v\r\n\r\n");
                kept.push_back(socket);
            }
            if kept.len() > 1500 {
                kept.pop_front();
            }
            // At a higher rate, the connections would wait for each other.
            std::thread::sleep(Duration::from_micros(500));
        };
        let came = beside(come, || {
            std::thread::sleep(Duration::from_millis(200));
            (0..20).for_each(|_| must_be_answered(address, 7 << 20));
        });
        assert!(came > 200, "more than there are places");
    });
}

#[test]
fn concurrent_scrapers_get_all_metrics() {
    served(router(true), |address| {
        let clients: Vec<_> = (0..12)
            .map(|_| {
                std::thread::spawn(move || (0..20).map(|_| get(address, "/metrics").1).collect::<Vec<_>>())
            })
            .collect();
        for text in clients.into_iter().flat_map(|client| client.join().unwrap()) {
            parse_prometheus(&text).unwrap();
        }
    });
}

#[test]
fn health_names_stuck_workers() {
    let (head, body) = served(router(false), |address| get(address, "/health"));
    assert!(head.starts_with("http/1.1 503"), "{head}");
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    let fault = |n| format!("worker {n} has not finished a turn for 2 seconds");
    assert_eq!(
        json,
        serde_json::json!({ "status": "failing", "workers": 2, "faults": [fault(0), fault(1)] })
    );
}

#[test]
fn health_names_missing_devices() {
    let mut context = router(true);
    context.system.router.add_absent_device("host-eth7", wire::Mac([0; 6]), 1500).unwrap();
    served(context, |address| {
        let (head, body) = get(address, "/health");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        let faults = ["host-eth7 has no device"];
        assert_eq!(json, serde_json::json!({ "status": "degraded", "workers": 2, "faults": faults }));
        let (_, metrics) = get(address, "/metrics");
        assert_eq!(value(&metrics, "volley_interface_absent{interface=\"host-eth7\"}"), 1.0);
        assert_eq!(value(&metrics, "volley_interface_absent{interface=\"pg0\"}"), 0.0);
        assert_eq!(value(&metrics, "volley_config_vain_rollbacks"), 0.0);
    });
}

#[test]
fn silent_main_thread_is_a_fault() {
    let context = router(true);
    let listener: TcpListener = server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let graph = context.system.router.graph();
    let health = Health { stats: graph.stats().clone(), workers: graph.exchange().clone() };
    // Nothing answers the requests.
    let (ask, _asked) = mpsc::channel(1);
    server::serve(listener, health, ask).unwrap();
    let (head, body) = get(address, "/health");
    assert!(
        head.starts_with("http/1.1 503") && body.contains("the main thread does not answer"),
        "{head} {body}"
    );
    assert!(get(address, "/metrics").0.starts_with("http/1.1 503"));
}

#[test]
fn counters_only_grow() {
    let context = router(true);
    let before = collect(&context);
    std::thread::sleep(Duration::from_millis(250));
    let after = collect(&context);
    let read = |samples| -> BTreeMap<String, f64> {
        let text = written(Format::Prometheus, samples);
        let lines = text.lines().filter(|line| !line.starts_with('#') && line.contains("_total"));
        lines
            .map(|line| line.rsplit_once(' ').map(|(s, v)| (s.to_owned(), v.parse().unwrap())).unwrap())
            .collect()
    };
    let (before, after) = (read(before), read(after));
    assert!(before.iter().all(|(sample, value)| after[sample] >= *value));
    for worker in 0..2 {
        let sample = format!("volley_worker_turns_total{{worker=\"{worker}\"}}");
        assert!(after[&sample] > before[&sample], "workers turn");
    }
}
