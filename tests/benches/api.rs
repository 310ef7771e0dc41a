//! Benchmarks of the APIs of the running router. Binary API: routes that a client adds without waiting for answers, a dump of a million
//! routes while another client waits for answers, and clients that connect and disconnect. Native API: a million routes that a client in
//! Python loads by gRPC, while another client waits for answers. `cargo bench -p scenarios --bench api` prints a table and writes
//! `target/bench/api.json`, one object a line.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use scenarios::Figure;
use scenarios::tool::of_python;
use testkit::netns::{Host, Lab};
use testkit::router::Router;

/// Repetitions of each measurement.
const REPETITIONS: usize = 3;
/// Routes added in one repetition.
const ADDED: u32 = 300_000;
/// Routes of the dump.
const DUMPED: u32 = 1_000_000;
/// Number of clients that connect and disconnect.
const CLIENTS: usize = 1000;
/// Length of the header before each message, in bytes.
const HEADER: usize = 16;
/// The next hop of all routes.
const GATEWAY: [u8; 4] = [10, 0, 0, 2];

const START: &str = "create packet-generator interface pg0\n\
    set interface state pg0 up\n\
    set interface ip address pg0 10.0.0.1/24\n";

/// A client of the binary API.
struct Client {
    stream: UnixStream,
    /// The identifiers of all messages, by name.
    table: Vec<(String, u16)>,
    received: Vec<u8>,
    /// Number of received bytes that have been parsed.
    taken: usize,
}

impl Client {
    fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).expect("the router serves clients");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        let mut client = Client { stream, table: Vec::new(), received: Vec::new(), taken: 0 };
        let mut create = vec![0, 15];
        create.extend([0; 4 + 64]);
        client.send(&frame(&create));
        let reply = client.next();
        let entry = |entry: &[u8]| {
            let name = String::from_utf8_lossy(&entry[2..]);
            let (name, _) = name.trim_end_matches('\0').rsplit_once('_').expect("a checksum");
            (name.to_owned(), u16::from_be_bytes([entry[0], entry[1]]))
        };
        client.table = reply[20..].chunks_exact(66).map(entry).collect();
        client
    }

    fn id(&self, name: &str) -> u16 {
        self.table.iter().find(|(known, _)| known == name).expect("a message of the router").1
    }

    /// Returns a request with these fields after its head.
    fn request(&self, name: &str, fields: &[u8]) -> Vec<u8> {
        frame(&[&self.id(name).to_be_bytes()[..], &[0; 8], fields].concat())
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the router reads");
    }

    /// Returns the next message.
    fn next(&mut self) -> Vec<u8> {
        loop {
            let rest = &self.received[self.taken..];
            if let Some(header) = rest.first_chunk::<HEADER>() {
                let length = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
                if let Some(message) = rest.get(HEADER..HEADER + length) {
                    let message = message.to_vec();
                    self.taken += HEADER + length;
                    return message;
                }
            }
            self.received.drain(..self.taken);
            self.taken = 0;
            let mut piece = vec![0; 1 << 18];
            let n = self.stream.read(&mut piece).expect("the router answers");
            assert!(n > 0, "the router closed the connection");
            self.received.extend(&piece[..n]);
        }
    }

    /// Returns the time for the answer to a ping.
    fn ping(&mut self) -> Duration {
        let ping = self.request("control_ping", &[]);
        let asked = Instant::now();
        self.send(&ping);
        self.next();
        asked.elapsed()
    }
}

fn frame(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADER];
    frame[8..12].copy_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend(message);
    frame
}

/// Returns the fields of `ip_route_add_del` for the `n`th route, a /32 from 16.0.0.0 on.
fn route(n: u32) -> Vec<u8> {
    let mut fields = vec![1, 0];
    fields.extend([0; 8]);
    fields.push(0);
    fields.extend(((16 << 24) + n).to_be_bytes());
    fields.extend([0; 12]);
    // The prefix's length, and one path: any interface, table 0, no interface for reverse paths, weight 1.
    fields.extend([32, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0]);
    // Type, flags and protocol, and the next hop.
    fields.extend([0; 12]);
    fields.extend(GATEWAY);
    fields.extend([0; 12 + 12]);
    // No labels.
    fields.extend([0; 1 + 16 * 7]);
    fields
}

/// Starts a router that serves the API, with these sections in its startup.conf. Returns its host, the router and its socket; `None` if
/// namespaces are not available.
fn served(sections: &str) -> Option<(Host, Router, std::path::PathBuf)> {
    let lab = Lab::new()?;
    let r = lab.host("r");
    let socket = lab.dir().join("api.sock");
    let sections = format!("socksvr {{ socket-name {} }}\n{sections}", socket.display());
    let router = Router::start_with(&r, &sections, START);
    Some((r, router, socket))
}

/// Measures how long a route takes, if the client does not wait for answers before it sends the next.
fn added() -> Option<Vec<Figure>> {
    let mut samples = Vec::new();
    for _ in 0..REPETITIONS {
        let (_r, _router, socket) = served("")?;
        let mut client = Client::connect(&socket);
        let requests: Vec<u8> =
            (0..ADDED).flat_map(|n| client.request("ip_route_add_del", &route(n))).collect();
        let began = Instant::now();
        let mut writer = client.stream.try_clone().expect("a descriptor");
        let sender = std::thread::spawn(move || writer.write_all(&requests).expect("the router reads"));
        for _ in 0..ADDED {
            let reply = client.next();
            assert_eq!(reply[6..10], [0; 4], "the route is added");
        }
        samples.push(began.elapsed().as_secs_f64() * 1e6 / f64::from(ADDED));
        sender.join().expect("all is sent");
    }
    Some(vec![Figure { bench: "route-added", unit: "us", samples, target: 1e6 / 300_000.0 }])
}

/// Measures a dump of a million routes, and the longest time that another client waits for an answer meanwhile.
fn dumped() -> Option<Vec<Figure>> {
    let (r, router, socket) = served("")?;
    let file = r.lab().dir().join("routes");
    let address = |n: u32| std::net::Ipv4Addr::from_bits((16 << 24) + n);
    let lines: String = (0..DUMPED).map(|n| format!("{}/32\n", address(n))).collect();
    std::fs::write(&file, lines).expect("a file");
    router.ctl(&format!("ip route load {} via 10.0.0.2", file.display()));
    let (mut times, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        let done = AtomicBool::new(false);
        let (time, wait) = std::thread::scope(|s| {
            let other = s.spawn(|| {
                let mut client = Client::connect(&socket);
                let mut longest = Duration::ZERO;
                while !done.load(Ordering::Relaxed) {
                    longest = longest.max(client.ping());
                    std::thread::sleep(Duration::from_millis(1));
                }
                longest
            });
            let mut client = Client::connect(&socket);
            // The IPv4 routes of table 0.
            let table = [0; 4 + 1 + 64];
            let (ask, end) = (client.request("ip_route_dump", &table), client.request("control_ping", &[]));
            let last = client.id("control_ping_reply").to_be_bytes();
            let began = Instant::now();
            client.send(&[ask, end].concat());
            let routes = std::iter::from_fn(|| Some(client.next()).filter(|m| !m.starts_with(&last))).count();
            let time = began.elapsed();
            done.store(true, Ordering::Relaxed);
            assert!(routes >= DUMPED as usize, "{routes} routes");
            (time, other.join().expect("another client is served"))
        });
        times.push(time.as_secs_f64());
        waits.push(wait.as_secs_f64() * 1e3);
    }
    Some(vec![
        Figure { bench: "dump-1M-routes", unit: "s", samples: times, target: 3.0 },
        Figure { bench: "ping-at-dump", unit: "ms", samples: waits, target: 50.0 },
    ])
}

/// Measures how long a client takes to connect and disconnect, and how many file descriptors the router keeps open afterwards.
fn connected() -> Option<Vec<Figure>> {
    let (_r, router, socket) = served("")?;
    let files = || std::fs::read_dir(format!("/proc/{}/fd", router.id())).expect("the router runs").count();
    drop(Client::connect(&socket));
    std::thread::sleep(Duration::from_millis(200));
    let (mut times, mut left) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        let before = files();
        let began = Instant::now();
        (0..CLIENTS).for_each(|_| drop(Client::connect(&socket)));
        times.push(began.elapsed().as_secs_f64() * 1e6 / CLIENTS as f64);
        std::thread::sleep(Duration::from_millis(200));
        left.push(files().saturating_sub(before) as f64);
    }
    Some(vec![
        Figure { bench: "connect", unit: "us", samples: times, target: f64::INFINITY },
        Figure { bench: "descriptors-left", unit: "files", samples: left, target: 0.0 },
    ])
}

/// Measures a load of a million routes by gRPC, with prefixes in order and at random, and the longest time that another client waits for an
/// answer meanwhile.
fn loaded() -> Option<Vec<Figure>> {
    let python = of_python("python3")?;
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/grpc.py");
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/control/proto");
    let [mut ordered, mut random, mut waits] = [const { Vec::new() }; 3];
    for _ in 0..REPETITIONS {
        for (order, samples) in [("ordered", &mut ordered), ("random", &mut random)] {
            let lab = Lab::new()?;
            let r = lab.host("r");
            let socket = lab.dir().join("http.sock");
            let _router = Router::start_with(
                &r,
                &format!("native-api {{ socket-name {} }}\n", socket.display()),
                START,
            );
            let said = r.run(&format!(
                "{} {tool} {proto} {} measure {DUMPED} {order}",
                python.display(),
                socket.display()
            ));
            let mut figures = said.split_whitespace().map_while(|figure| figure.parse::<f64>().ok());
            samples.push(1.0 / figures.next().expect("a rate"));
            waits.push(figures.next().expect("a time"));
        }
    }
    let target = 1.0 / 1.5;
    Some(vec![
        Figure { bench: "route-loaded-in-order", unit: "us", samples: ordered, target },
        Figure { bench: "route-loaded-at-random", unit: "us", samples: random, target },
        Figure { bench: "answer-at-load", unit: "ms", samples: waits, target: 50.0 },
    ])
}

fn main() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/api.json");
    drop(std::fs::remove_file(directory));
    Figure::add("api.json", [added as fn() -> Option<Vec<Figure>>, dumped, connected, loaded]);
}
