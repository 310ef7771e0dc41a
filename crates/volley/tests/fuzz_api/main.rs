//! The binary API of a running router under arbitrary frames: it does not panic and does not grow, answers have their full length, and
//! another client is answered meanwhile. The frames are made from the definitions of all messages. Here, they are sent for some seconds.
//! With `$VOLLEY_FUZZ_SECONDS`, other frames are sent for that time (`make fuzz`). A failure shows the seed of its frames, for
//! `$VOLLEY_FUZZ_FROM`.

mod message;
mod peer;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use control::app::Context;
use infra::hash::mix64;
use message::Dice;
use peer::{Peer, frame, framed};
use testkit::netns::Lab;
use testkit::router::Router;
use vapi::Table;

/// The time of a test run without `$VOLLEY_FUZZ_SECONDS`.
const USUAL: Duration = Duration::from_secs(20);
/// Number of rounds after which the router gets its first configuration again. Without this, the objects that the frames create would make
/// the router grow.
const ROUNDS: u64 = 200;
/// Maximum number of frames of a round.
const FRAMES: usize = 40;
/// Limit on the growth of the router's memory until the end, in KiB. The journal keeps objects of a thousand changes, so that the memory
/// goes up and down by 60 MiB within some minutes.
const MORE_MEMORY: u64 = 128 << 10;
/// Limit on the growth of the router's number of descriptors until the end.
const MORE_FILES: usize = 8;
/// Time limit for an answer to the other client. Removing all objects that the frames created takes a part of this time in a build without
/// optimization.
const LONGEST: Duration = Duration::from_secs(5);

const START: &str = "create loopback interface\n\
    set interface ip address loop0 10.0.0.1/24\n\
    create packet-generator interface pg0\n\
    set interface state pg0 up\n\
    set interface ip address pg0 10.1.0.1/24\n\
    set interface ip address pg0 2001:db8::1/64\n\
    create host-interface name eth0\n\
    ip route add 192.0.2.0/24 via 10.1.0.2\n";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The results of the frames so far.
#[derive(Default)]
struct Seen {
    frames: u64,
    answers: u64,
    /// Connections that ended before the last answer: the router ended them after invalid data, or the client left.
    ended: u64,
    /// The identifiers of the answers that are no refusals.
    granted: BTreeSet<u16>,
}

/// Sends the frames of a seed, and checks the answers. One client in six then sends invalid data and leaves, without reading the answers.
fn round(socket: &Path, table: &Table<Context>, seed: u64, seen: &mut Seen) {
    let mut dice = Dice::new(seed);
    let mut peer = Peer::connect(socket, table).expect("the router serves clients");
    let known = !dice.one_in(16);
    if known {
        peer.introduce().expect("the router introduces itself");
    }
    let frames: Vec<Vec<u8>> =
        (0..=dice.below(FRAMES)).map(|_| frame(&message::message(table, &mut dice))).collect();
    seen.frames += frames.len() as u64;
    let sent = peer.send_somehow(&frames, &mut dice);
    let ended = if dice.one_in(6) { violate(&mut peer, table, &mut dice) } else { sent };
    let ended = ended.and_then(|()| peer.ping(0xa500_0000 | seed as u32 & 0xff_ffff).map(drop));
    seen.answers += peer.answers;
    seen.granted.append(&mut peer.granted);
    match ended {
        Ok(()) => {}
        // The router ends a connection after invalid data, and when the client takes its leave.
        Err(e) if e.kind() != io::ErrorKind::WouldBlock => seen.ended += 1,
        Err(e) => panic!("a client got no answer: {e}"),
    }
}

/// Sends something that is no frame, or only a part of one. The client then leaves.
fn violate(peer: &mut Peer<'_>, table: &Table<Context>, dice: &mut Dice) -> io::Result<()> {
    let message = message::message(table, dice);
    let bytes = match dice.below(5) {
        0 => framed(&message, message.len() as u32 + 1 + dice.below(200_000) as u32),
        1 => framed(&message, u32::MAX),
        2 => framed(&message, 0),
        3 => (0..dice.below(400)).map(|_| dice.roll() as u8).collect(),
        _ => frame(&message)[..dice.below(16 + message.len())].to_vec(),
    };
    peer.send(&bytes)?;
    Err(io::ErrorKind::BrokenPipe.into())
}

/// Saves the configuration that the frames made, and applies the file: the router must accept it.
fn reads_back(control: &mut Peer<'_>, file: &Path) {
    for command in ["save", "apply"] {
        let done = control.command(&format!("config {command} {}", file.display())).expect("an answer");
        assert_eq!(done, 0, "config {command} of what the frames made");
    }
}

/// Pings until `done`. Returns the longest time for an answer.
fn bystander(socket: &Path, done: &AtomicBool) -> Duration {
    let table = volley::features::messages();
    let mut peer = Peer::connect(socket, &table).expect("the router serves clients");
    peer.introduce().expect("the router introduces itself");
    let mut longest = Duration::ZERO;
    for context in 1.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let took = peer.ping(context).expect("a client that does nothing wrong is answered");
        longest = longest.max(took);
        std::thread::sleep(Duration::from_millis(2));
    }
    longest
}

/// Resident memory in KiB, and number of descriptors.
fn usage(router: &Router) -> (u64, usize) {
    let process = format!("/proc/{}", router.id());
    let status = std::fs::read_to_string(format!("{process}/status")).expect("the router runs");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux shows it");
    let memory = memory.trim().trim_end_matches(" kB").parse().expect("a number");
    (memory, std::fs::read_dir(format!("{process}/fd")).expect("the router runs").count())
}

/// Says from about which seed on the frames fail.
struct Failing<'s>(&'s Cell<u64>);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the frames from about VOLLEY_FUZZ_FROM={} on fail", self.0.get());
        }
    }
}

/// Ends the other client.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn frames_do_no_harm() {
    let Some(lab) = Lab::new() else { return };
    let (r, far) = (lab.host("r"), lab.host("far"));
    lab.link((&r, "eth0"), (&far, "eth0"));
    let socket = lab.dir().join("api.sock");
    let sections = format!("socksvr {{ socket-name {} }}\n", socket.display());
    let mut router = Router::start_with(&r, &sections, START);
    let first_state = lab.dir().join("first.yaml");
    router.ctl(&format!("config save {}", first_state.display()));
    let table = volley::features::messages();
    let mut control = Peer::connect(&socket, &table).expect("the router serves clients");
    control.introduce().expect("the router introduces itself");

    let seconds = number("VOLLEY_FUZZ_SECONDS");
    let time = seconds.map_or(USUAL, Duration::from_secs);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let random = if seconds.is_some() { mix64(now.as_nanos() as u64) >> 33 } else { 0 };
    let first = number("VOLLEY_FUZZ_FROM").unwrap_or(random);
    let done = AtomicBool::new(false);
    let (at, mut seen, mut before, mut after) = (Cell::new(first), Seen::default(), None, (0, 0));
    let began = Instant::now();
    let _failing = Failing(&at);
    let waited = std::thread::scope(|s| {
        let other = s.spawn(|| bystander(&socket, &done));
        // Ends the other client, too, if this one fails.
        let ends = Done(&done);
        while began.elapsed() < time || before.is_none() || at.get() % ROUNDS != first % ROUNDS {
            round(&socket, &table, at.get(), &mut seen);
            assert!(router.running(), "the router has ended");
            at.set(at.get() + 1);
            if at.get() % ROUNDS == first % ROUNDS {
                reads_back(&mut control, &lab.dir().join("made.yaml"));
                let reset = control.command(&format!("config apply {}", first_state.display()));
                assert_eq!(reset.expect("an answer"), 0, "the first configuration is accepted again");
                after = usage(&router);
                // The first rounds fill what stays: the journal, the log, the trace.
                before = before.or((at.get() > first + ROUNDS).then_some(after));
            }
        }
        drop(ends);
        other.join().expect("a client that does nothing wrong is served")
    });
    let log = router.log();
    assert!(!log.contains("panicked"), "{log}");
    let before = before.expect("several resets");
    let rate = seen.frames as f64 / began.elapsed().as_secs_f64();
    let answers: Vec<_> =
        table.entries().iter().filter_map(|e| table.id(&e.service.as_ref()?.reply)).collect();
    let granted = answers.iter().filter(|id| seen.granted.contains(id)).count();
    eprintln!(
        "MEASURED {} frames from {first} on, {rate:.0} a second; {} answers, of {granted} of {} kinds without a refusal; {} connections \
         ended; {} KiB and {} files, before {} and {}; \
         another client waited {:.0} ms at most",
        seen.frames,
        seen.answers,
        answers.len(),
        seen.ended,
        after.0,
        after.1,
        before.0,
        before.1,
        waited.as_secs_f64() * 1e3
    );
    assert!(after.0 < before.0 + MORE_MEMORY, "the router grows: {} KiB, then {}", before.0, after.0);
    assert!(after.1 <= before.1 + MORE_FILES, "descriptors stay open: {}, then {}", before.1, after.1);
    assert!(waited < LONGEST, "another client waited {waited:?}");
    assert!(
        granted > answers.len() / 2,
        "the frames get only {granted} kinds of answers that are no refusals"
    );
    assert!(seen.answers > seen.frames / 4, "{} answers to {} frames", seen.answers, seen.frames);
}
