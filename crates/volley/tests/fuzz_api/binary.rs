//! Arbitrary frames of the binary API.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::app::Context;
use testkit::netns::Lab;
use testkit::router::Router;
use vapi::Table;

use super::dice::Dice;
use super::peer::{Peer, frame, framed};
use super::{START, course, message};

/// Maximum number of frames in a round.
const FRAMES: usize = 40;

/// The results of the frames so far.
#[derive(Default)]
struct Seen {
    frames: u64,
    answers: u64,
    /// Number of connections that ended before the last answer: the router closed them after invalid data, or the client disconnected.
    ended: u64,
    /// Identifiers of answers that report success.
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
    let ended =
        sent.and_then(|()| if dice.one_in(6) { violate(&mut peer, table, &mut dice) } else { Ok(()) });
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

/// Sends bytes that are not a frame, or only a part of a frame. Returns an error, so that the client then disconnects.
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

/// Sends pings until `done` is set. Returns the longest time for an answer.
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
    let mut seen = Seen::default();
    let course = course::run(
        &mut router,
        |seed| round(&socket, &table, seed, &mut seen),
        |_| {
            reads_back(&mut control, &lab.dir().join("made.yaml"));
            let reset = control.command(&format!("config apply {}", first_state.display()));
            assert_eq!(reset.expect("an answer"), 0, "the first configuration is accepted again");
        },
        |done| bystander(&socket, done),
    );
    let answers: Vec<_> =
        table.entries().iter().filter_map(|e| table.id(&e.service.as_ref()?.reply)).collect();
    let granted = answers.iter().filter(|id| seen.granted.contains(id)).count();
    let did = format!(
        "{} answers, of {granted} of {} kinds without a refusal; {} connections ended",
        seen.answers,
        answers.len(),
        seen.ended
    );
    course.check(seen.frames, &did);
    assert!(
        granted > answers.len() / 2,
        "the frames get only {granted} kinds of answers that are no refusals"
    );
    assert!(seen.answers > seen.frames / 4, "{} answers to {} frames", seen.answers, seen.frames);
}
