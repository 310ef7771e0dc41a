//! Changes of who does what at a rate that keeps the machine busy: no packet that a ring has taken is lost or overtaken, and the
//! latest of them is not late.
//!
//! The router's peers are two memif interfaces of this process, which write the time and a number into every packet.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use drivers::memif::{Config, Role, Sockets, Tester};
use infra::clock::Clock;
use testkit::netns::{LIMIT, Lab};
use testkit::router::Router;
use wire::Mac;
use wire::builder::PacketBuilder;

/// Packets a second. Veth pairs here carry some five times as many when nothing else runs.
const RATE: u64 = 100_000;
/// How long packets are sent.
const TIME: Duration = Duration::from_secs(8);
/// Flows, each with packets as often as the others; and packets at once at most.
const FLOWS: usize = 64;
/// Packets in a ring: what comes while the machine runs somebody else.
const RING: u16 = 16_384;
/// How late the latest packet of a round of changes may be, in the median of the rounds: a machine that stops for a moment makes
/// one round late, a change that holds packets up makes every round late.
const LATEST: Duration = Duration::from_millis(50);
/// The router's Ethernet address where packets come in.
const ROUTER: Mac = Mac([2, 0xfe, 0, 0, 0, 0]);
/// Where the number and the time are in a packet: behind its UDP header.
const STAMP: std::ops::Range<usize> = 42..58;

/// What became of the packets.
#[derive(Debug, Default)]
struct Seen {
    /// Those that the router's ring took, and those that came back.
    accepted: u64,
    came: u64,
    overtaken: u64,
    /// The time on its way of each round's latest packet.
    latest: Vec<Duration>,
}

impl Seen {
    /// The median over the rounds of how late their latest packet was.
    fn usually_latest(&self) -> Duration {
        let mut latest = self.latest.clone();
        latest.sort();
        latest[latest.len() / 2]
    }
}

/// Two interfaces that are connected to the router's.
fn connect(path: &Path) -> (Sockets, [Tester; 2]) {
    let mut sockets = Sockets::new().unwrap();
    sockets.add_socket(1, path).unwrap();
    let testers = [0, 1].map(|id| {
        let config = Config { ring_size: RING, ..Config::new(1, id, Role::Client) };
        let mut tester = sockets.open_tester(&config).unwrap();
        tester.set_admin(true).unwrap();
        tester
    });
    let start = Instant::now();
    while !sockets.interfaces(None, false).iter().all(|i| i.connected) {
        assert!(start.elapsed() < LIMIT, "the router does not connect");
        sockets.turn(start.elapsed().as_nanos() as u64);
        thread::sleep(Duration::from_millis(1));
    }
    (sockets, testers)
}

/// Sends until told to stop, and looks at what comes until all has come, or nothing for a second. `round` is the number of the
/// round of changes that runs.
fn test([mut into, mut from]: [Tester; 2], round: &AtomicUsize, stop: &AtomicBool) -> Seen {
    let packet = |flow: usize| {
        PacketBuilder::ipv4([198, 18, 0, 2].into(), [20, 0, 0, 1].into())
            .ethernet(Mac([2, 0, 0, 0, 9, 8]), ROUTER)
            .udp(1024 + flow as u16, 1024)
            .payload(&[0; 24])
            .build()
    };
    let mut packets: Vec<Vec<u8>> = (0..FLOWS).map(packet).collect();
    let (clock, mut seen, mut last) = (Clock::new(), Seen::default(), [None; FLOWS]);
    let (mut turned, mut due, mut quiet) = (clock.now_ns(), 0, clock.now_ns());
    loop {
        let now = clock.now_ns();
        seen.latest.resize(round.load(Ordering::Relaxed) + 1, Duration::ZERO);
        due += (now - turned) * RATE;
        turned = now;
        if !stop.load(Ordering::Relaxed) {
            // What this thread was too late for is not made up for: that would be a burst.
            let n = (due / 1_000_000_000).min(FLOWS as u64);
            due = if n < FLOWS as u64 { due % 1_000_000_000 } else { 0 };
            for number in seen.accepted..seen.accepted + n {
                let stamp = &mut packets[number as usize % FLOWS][STAMP];
                stamp[..8].copy_from_slice(&number.to_be_bytes());
                stamp[8..].copy_from_slice(&now.to_be_bytes());
            }
            let next = (seen.accepted..).map(|number| &packets[number as usize % FLOWS][..]);
            seen.accepted += into.send(0, n as usize, next).unwrap_or(0) as u64;
        } else if seen.came >= seen.accepted || now - quiet > 1_000_000_000 {
            return seen;
        }
        while from
            .receive(|packet| {
                let word =
                    |at: usize| packet.get(at..at + 8).map(|b| u64::from_be_bytes(b.try_into().unwrap()));
                let (Some(number), Some(sent)) = (word(STAMP.start), word(STAMP.start + 8)) else { return };
                let last = &mut last[number as usize % FLOWS];
                seen.overtaken += u64::from(last.is_some_and(|last| last >= number));
                *last = Some(number);
                seen.came += 1;
                let latest = seen.latest.last_mut().unwrap();
                *latest = (*latest).max(Duration::from_nanos(clock.now_ns().saturating_sub(sent)));
                quiet = now;
            })
            .unwrap_or(0)
            > 0
        {}
        // What the router says by itself is not looked at.
        let _ = into.receive(|_| ());
        thread::sleep(Duration::from_micros(300));
    }
}

#[test]
fn a_busy_router_is_rearranged_and_every_packet_comes_in_time() {
    let Some(lab) = Lab::new() else { return };
    let (r, path) = (lab.host("r"), lab.dir().join("memif.sock"));
    let router = Router::start(
        &r,
        &format!(
            "create memif socket id 1 filename {}\n\
             create interface memif id 0 socket-id 1 master\n\
             create interface memif id 1 socket-id 1 master\n\
             set interface mac address memif1/0 {ROUTER}\n\
             set interface state memif1/0 up\n\
             set interface state memif1/1 up\n\
             set interface ip address memif1/0 10.0.0.1/24\n\
             set interface ip address memif1/1 10.0.1.1/24\n\
             set ip neighbor memif1/1 10.0.1.2 02:00:00:00:09:09\n\
             ip route add 20.0.0.0/24 via 10.0.1.2\n",
            path.display()
        ),
    );
    let (sockets, testers) = connect(&path);
    testkit::process::until("both links are up", LIMIT, || {
        let shown = router.json("show interface");
        shown.as_array().is_some_and(|all| all.iter().all(|i| i["link_up"] == true))
    });
    let mut buffers = router.json("show buffers")["total"].as_u64().unwrap();
    let (stop, round) = (AtomicBool::new(false), AtomicUsize::new(0));
    let seen = thread::scope(|scope| {
        let tester = scope.spawn(|| test(testers, &round, &stop));
        let start = Instant::now();
        while start.elapsed() < TIME {
            buffers += 1000;
            let more = format!("set buffers {buffers}");
            for change in scenarios::rearrangements("memif1/0", "memif1/1").into_iter().chain([more]) {
                let done = router.attempt(&change);
                // The tester would go on, and nobody see what is wrong.
                stop.fetch_or(!done.ok(), Ordering::Relaxed);
                assert!(done.ok(), "{done}");
            }
            round.fetch_add(1, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        tester.join().unwrap()
    });
    let rounds = round.into_inner();
    println!("{rounds} rounds: {seen:?}");
    assert!(rounds > 2, "{rounds} rounds");
    let least = RATE * TIME.as_secs() / 2;
    assert!(seen.accepted > least, "the machine is too busy to send half of what was wanted: {seen:?}");
    assert_eq!((seen.came, seen.overtaken), (seen.accepted, 0), "{seen:?}");
    assert!(seen.usually_latest() < LATEST, "{seen:?}");
    drop(sockets);
}
