//! Changes of workers and queues at a rate that keeps the machine busy: no packet that a ring has accepted is lost or
//! reordered, and the largest delay is bounded.
//!
//! The router's peers are two memif interfaces of this process. The test writes the time and a number into every packet.

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

/// Packets a second. Veth pairs carry about five times as many when nothing else runs.
const RATE: u64 = 100_000;
/// How long packets are sent.
const TIME: Duration = Duration::from_secs(8);
/// Number of flows, which send in turn. Also the maximum number of packets sent at once.
const FLOWS: usize = 64;
/// Packets in a ring, to hold those that arrive while the machine runs other processes.
const RING: u16 = 16_384;
/// Limit for the largest delay of a round of changes, in the median of all rounds. A machine that stops for a moment
/// delays one round. A change that holds packets up delays every round.
const LATEST: Duration = Duration::from_millis(50);
/// The router's Ethernet address on the receiving interface.
const ROUTER: Mac = Mac([2, 0xfe, 0, 0, 0, 0]);
/// Position of the number and the time in a packet: behind its UDP header.
const STAMP: std::ops::Range<usize> = 42..58;

/// Counts and delays of the packets.
#[derive(Debug, Default)]
struct Seen {
    /// Packets that the router's ring accepted.
    accepted: u64,
    /// Packets that came back.
    came: u64,
    /// Packets that came back after a later packet of their flow, or twice.
    overtaken: u64,
    /// The largest delay of each round.
    latest: Vec<Duration>,
}

impl Seen {
    /// Returns the median of the rounds' largest delays.
    fn usually_latest(&self) -> Duration {
        let mut latest = self.latest.clone();
        latest.sort();
        latest[latest.len() / 2]
    }
}

/// Opens two interfaces and waits until they are connected to the router's.
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

/// Sends and receives until `stop` is set. Then only receives, until all packets have arrived, or none for a second. `round` is the number
/// of the current round of changes.
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
            // Packets that this thread could not send in time are skipped: sending them would be a burst.
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
        // Packets of the router itself are ignored.
        let _ = into.receive(|_| ());
        thread::sleep(Duration::from_micros(300));
    }
}

#[test]
fn changes_on_a_busy_router_lose_and_delay_no_packet() {
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
                // Stop the tester if the change failed: a tester that went on would hide the failure.
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
    assert!(seen.accepted > least, "the machine is too busy to send half of the packets: {seen:?}");
    assert_eq!((seen.came, seen.overtaken), (seen.accepted, 0), "{seen:?}");
    assert!(seen.usually_latest() < LATEST, "{seen:?}");
    drop(sockets);
}
