//! Arbitrary requests to the native API: over HTTP/1.1, valid and damaged, and arbitrary frames of HTTP/2. The requests are made from the
//! API's OpenAPI document.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use testkit::netns::Lab;
use testkit::process::until;
use testkit::router::Router;

use super::dice::Dice;
use super::{START, course};

/// Time limit for an answer. On a busy machine, an answer may take most of this time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Operations that end only when the client leaves.
const ENDLESS: [&str; 2] = ["/v1/watch", "/v1/capture"];
/// Values that have a meaning in at least one operation or field.
const WORDS: [&str; 20] = [
    "",
    "0",
    "1",
    "-1",
    "7",
    "1e9",
    "4294967296",
    "true",
    "no",
    "*",
    "loop0",
    "pg0",
    "interface",
    "10.0.0.0/8",
    "10.1.0.2",
    "2001:db8::7",
    "pg-input",
    "icmp or arp",
    "\u{202e}",
    "%00/../~1",
];
const COMMANDS: [&str; 8] = [
    "show version",
    "show ip fib",
    "set interface mtu 1400 pg0",
    "set interface state loop0 up",
    "ip route add 10.77.0.0/16 via 10.1.0.3",
    "ip route del 10.77.0.0/16",
    "create loopback interface",
    "nonsense",
];

struct Operation {
    method: String,
    path: String,
    parameters: Vec<String>,
    /// The content types of the body.
    takes: Vec<String>,
}

/// Returns the operations of an OpenAPI document.
fn operations(document: &Value) -> Vec<Operation> {
    let strings = |list: &Value| {
        list.as_array().into_iter().flatten().filter_map(|p| Some(p["name"].as_str()?.to_owned())).collect()
    };
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let takes = operation["requestBody"]["content"].as_object();
            let takes = takes.into_iter().flat_map(Map::keys).cloned().collect();
            let parameters = strings(&operation["parameters"]);
            all.push(Operation { method: method.to_uppercase(), path: path.clone(), parameters, takes });
        }
    }
    all
}

/// Returns a random JSON value.
fn value(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 4 } else { 6 }) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2 => json!(dice.roll() as i64 >> dice.below(63)),
        3 => json!(dice.one_of(&WORDS)),
        4 => (0..dice.below(4)).map(|_| value(dice, depth - 1)).collect(),
        _ => (0..dice.below(4)).map(|_| (dice.one_of(&WORDS).to_owned(), value(dice, depth - 1))).collect(),
    }
}

/// Changes, removes or adds values somewhere in a document.
fn change(document: &mut Value, dice: &mut Dice) {
    match document {
        Value::Object(map) if !map.is_empty() && !dice.one_in(6) => {
            let at = dice.below(map.len());
            let key = map.keys().nth(at).cloned().unwrap_or_default();
            match dice.below(5) {
                0 => drop(map.remove(&key)),
                1 => drop(map.insert(dice.one_of(&WORDS).to_owned(), value(dice, 3))),
                _ => change(&mut map[&key], dice),
            }
        }
        Value::Array(list) if !list.is_empty() && !dice.one_in(6) => {
            let at = dice.below(list.len());
            match dice.below(4) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                _ => change(&mut list[at], dice),
            }
        }
        other => *other = value(dice, 3),
    }
}

/// Returns a JSON pointer into a document. The pointer may lead to no value.
fn pointer(mut at: &Value, dice: &mut Dice) -> String {
    let mut path = String::new();
    while !dice.one_in(4) {
        let (token, next) = match at {
            Value::Object(map) if !map.is_empty() => {
                let (key, next) = map.iter().nth(dice.below(map.len())).expect("it is below the number");
                (key.replace('~', "~0").replace('/', "~1"), next)
            }
            Value::Array(list) if !list.is_empty() => {
                let n = dice.below(list.len());
                (n.to_string(), &list[n])
            }
            _ => return path + "/-",
        };
        let _ = write!(path, "/{token}");
        at = next;
    }
    path
}

/// Returns the body of a request.
fn body(path: &str, kind: &str, config: &Value, dice: &mut Dice) -> Value {
    if dice.one_in(8) {
        return value(dice, 4);
    }
    if kind.contains("json-patch") {
        let one = |dice: &mut Dice| {
            let op = dice.one_of(&["add", "remove", "replace", "move", "copy", "test", "x"]);
            let value = if dice.one_in(2) {
                value(dice, 2)
            } else {
                config.pointer(&pointer(config, dice)).cloned().unwrap_or_default()
            };
            json!({ "op": op, "path": pointer(config, dice), "from": pointer(config, dice), "value": value })
        };
        return (0..dice.below(5)).map(|_| one(dice)).collect();
    }
    match path {
        "/v1/commands" => {
            json!({ "commands": (0..dice.below(4)).map(|_| dice.one_of(&COMMANDS)).collect::<Vec<_>>() })
        }
        "/v1/config" => {
            let mut document = config.clone();
            (0..=dice.below(3)).for_each(|_| change(&mut document, dice));
            document
        }
        "/v1/trace" => json!({ "node": "pg-input", "packets": dice.below(40), "wait_ms": dice.below(20) }),
        _ => json!({ "changes": dice.below(4) }),
    }
}

/// Returns a request that is valid HTTP/1.1, and the path.
fn request(all: &[Operation], config: &Value, dice: &mut Dice) -> (Vec<u8>, String) {
    let o = &all[dice.below(all.len())];
    let escaped = |word: &str| word.bytes().map(|b| format!("%{b:02x}")).collect::<String>();
    let mut path = o.path.clone();
    while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
        path.replace_range(
            from..=to,
            &if dice.one_in(2) { "version".into() } else { escaped(dice.one_of(&WORDS)) },
        );
    }
    let mut query = String::new();
    let (mut headers, mut sent) = (String::new(), Vec::new());
    for name in &o.parameters {
        let word = dice.one_of(&WORDS);
        match dice.below(4) {
            0 => _ = write!(query, "{}{name}={}", if query.is_empty() { '?' } else { '&' }, escaped(word)),
            1 if word.is_ascii() => _ = write!(headers, "{name}: {word}\r\n"),
            _ => {}
        }
    }
    if let Some(kind) = (!o.takes.is_empty()).then(|| &o.takes[dice.below(o.takes.len())]) {
        sent = body(&o.path, kind, config, dice).to_string().into_bytes();
        let _ = write!(headers, "Content-Type: {kind}\r\n");
    }
    let length = sent.len();
    let head = format!(
        "{} {path}{query} HTTP/1.1\r\nHost: v\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n",
        o.method
    );
    (head.into_bytes().into_iter().chain(sent).collect(), o.path.clone())
}

/// Returns frames of HTTP/2 (RFC 9113 section 4.1) after the client's preface. Some have a wrong length.
fn frames(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for _ in 0..dice.below(30) {
        let payload = match dice.below(4) {
            // GET http / of the static table (RFC 7541 appendix A).
            0 => vec![0x82, 0x86, 0x84],
            n => dice.bytes(n * 4).collect(),
        };
        let announced = if dice.one_in(10) { dice.below(1 << 15) } else { payload.len() };
        bytes.extend(&(announced as u32).to_be_bytes()[1..]);
        bytes.extend([dice.below(11) as u8, dice.roll() as u8 & 0x2d]);
        bytes.extend((dice.below(8) as u32).to_be_bytes());
        bytes.extend(payload);
    }
    bytes
}

/// Changes some bytes, cuts the end off, or repeats a part.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len().max(1));
        match dice.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at..),
            2 => bytes.insert(at.min(bytes.len()), dice.roll() as u8),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = dice.roll() as u8;
                }
            }
        }
    }
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).expect("the router serves clients");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time limit");
    stream
}

/// Sends a request, and returns the status and the body of the answer.
fn ask(socket: &Path, request: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = connect(socket);
    stream.write_all(request).expect("a valid request is read");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("a valid request is answered");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a header") + 4;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {head}")), answer.split_off(end))
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: v\r\nConnection: close\r\n\r\n").into_bytes()
}

/// Returns a JSON document, which may arrive in chunks.
fn document(socket: &Path, path: &str) -> Value {
    let (status, body) = ask(socket, &get(path));
    assert_eq!(status, 200, "{path}");
    let text = String::from_utf8(body).expect("UTF-8");
    // Chunks (RFC 9112 section 7.1) have their length in front.
    let whole = if text.starts_with('{') { text } else { chunks(&text) };
    serde_json::from_str(&whole).unwrap_or_else(|e| panic!("{path}: {e}: {whole}"))
}

fn chunks(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length");
        whole.push_str(&rest[..length]);
        text = rest[length..].strip_prefix("\r\n").expect("the end of a chunk");
    }
    whole
}

/// The results of the requests so far.
#[derive(Default)]
struct Seen {
    inputs: u64,
    /// Number of answers by status.
    answers: BTreeMap<u16, u64>,
    /// The paths that were answered with 200.
    done: BTreeSet<String>,
}

/// Sends the input of a seed: a valid request, a damaged request, or frames of HTTP/2. Checks that a valid request gets an answer that is
/// no server error.
fn round(socket: &Path, all: &[Operation], config: &Value, seed: u64, seen: &mut Seen) {
    let mut dice = Dice::new(seed);
    seen.inputs += 1;
    let (mut bytes, path) = request(all, config, &mut dice);
    let kind = dice.below(4);
    if kind < 2 && !ENDLESS.contains(&path.as_str()) {
        let (status, body) = ask(socket, &bytes);
        assert_ne!(
            status / 100,
            5,
            "{}: {}",
            String::from_utf8_lossy(&bytes),
            String::from_utf8_lossy(&body)
        );
        *seen.answers.entry(status).or_default() += 1;
        if status == 200 {
            seen.done.insert(path);
        }
        return;
    }
    if kind == 3 {
        bytes = frames(&mut dice);
    }
    if !dice.one_in(3) {
        damage(&mut bytes, &mut dice);
    }
    let mut stream = connect(socket);
    // The router may end the connection before it has read everything, and may wait for the rest of a request.
    for piece in bytes.chunks(1 + dice.below(bytes.len().max(1))) {
        match stream.write_all(piece) {
            Ok(()) => {}
            // While it answers, it does not read further requests.
            Err(e) if e.kind() == ErrorKind::WouldBlock && !ENDLESS.contains(&path.as_str()) => {
                panic!("the router does not read: {e}")
            }
            Err(_) => return,
        }
    }
    if dice.one_in(2) {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    stream.set_read_timeout(Some(Duration::from_millis(5))).expect("a time limit");
    let _ = stream.read(&mut [0; 4096]);
}

/// Reads the API's version until `done`. Returns the longest time for an answer.
fn bystander(socket: &Path, done: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    while !done.load(Ordering::Relaxed) {
        let asked = Instant::now();
        assert_eq!(ask(socket, &get("/v1")).0, 200, "a client that does nothing wrong is answered");
        longest = longest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    }
    longest
}

/// Restores the router's first configuration. Confirms a change that awaits confirmation, and tries again while another change is being
/// rolled back.
fn reset(router: &Router, first: &Path) {
    let apply = format!("config apply {}", first.display());
    until("the first configuration is accepted", PATIENCE, || {
        router.attempt("config confirm");
        router.attempt(&apply).ok()
    });
}

#[test]
fn requests_do_no_harm() {
    let Some(lab) = Lab::new() else { return };
    let (r, far) = (lab.host("r"), lab.host("far"));
    lab.link((&r, "eth0"), (&far, "eth0"));
    let socket = lab.dir().join("http.sock");
    let sections = format!("native-api {{ socket-name {} }}\n", socket.display());
    let mut router = Router::start_with(&r, &sections, START);
    let first = lab.dir().join("first.yaml");
    router.ctl(&format!("config save {}", first.display()));
    let all = operations(&document(&socket, "/v1/openapi.json"));
    assert!(all.len() > 10, "{}", all.len());
    let config = document(&socket, "/v1/config");
    let mut seen = Seen::default();
    let course = course::run(
        &mut router,
        |seed| round(&socket, &all, &config, seed, &mut seen),
        |router| reset(router, &first),
        |done| bystander(&socket, done),
    );
    course.check(seen.inputs, &format!("answers by status: {:?}", seen.answers));
    // A change awaits confirmation only now and then.
    let rare = |path: &str| ENDLESS.contains(&path) || path == "/v1/config/confirm";
    for operation in all.iter().filter(|o| !rare(&o.path)) {
        assert!(seen.done.contains(&operation.path), "{} never succeeded: {:?}", operation.path, seen.done);
    }
    for status in [400, 404, 422] {
        assert!(seen.answers.contains_key(&status), "no answer has the status {status}: {:?}", seen.answers);
    }
}
