//! Trials over a cable, and over links that drop, duplicate and delay chosen frames.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use buf::{Gone, Held, TxCaps, Unsent};
use wire::Mac;
use wire::builder::PacketBuilder;

use super::*;
use crate::cable::cable;
use crate::engine::receiver::{Damaged, Tally};
use crate::sim::{Delay, Path, link};
use crate::stats::latency::Ranked as _;

fn udp4(size: usize) -> Template {
    let ip = PacketBuilder::ipv4(Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2));
    let b = ip.ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])).udp(1024, 7);
    Template::fixed(b.payload(&vec![0; size - 4 - 42]).build())
}

fn udp6(size: usize) -> Template {
    let (a, b) =
        (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2), Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 2));
    let b = PacketBuilder::ipv6(a, b).ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])).udp(1024, 7);
    Template::fixed(b.payload(&vec![0; size - 4 - 62]).build())
}

/// Returns a flow with these templates that takes a direction's whole load.
fn flow(templates: Vec<Template>, mode: Mode) -> Vec<Flow> {
    vec![Flow { templates, rate: Rate::Share(1.0), mode }]
}

/// Returns the direction from the first port to the second.
fn forth(flows: Vec<Flow>) -> Vec<Direction> {
    vec![Direction { from: 0, to: 1, flows }]
}

/// Returns a port that only sends, and one that only receives.
fn ends(tx: Box<dyn TxQueue>, rx: Box<dyn RxQueue>) -> Vec<Port> {
    let (nowhere, _) = cable(1);
    vec![
        Port { tx, more: Vec::new(), rx: Box::new(Silent), hosts: None },
        Port { tx: nowhere, more: Vec::new(), rx, hosts: None },
    ]
}

fn engine(ports: Vec<Port>, directions: Vec<Direction>, pool: &Pool) -> Engine {
    Engine::new(ports, directions, pool, Limits::NONE, Duration::from_millis(20), 7)
}

fn request(load_fps: f64, ms: u64) -> Request {
    Request { load_fps, duration: Duration::from_millis(ms) }
}

/// A queue that receives nothing.
struct Silent;
impl RxQueue for Silent {
    fn poll(&mut self, _: &mut Frame, _: &mut Cache) -> Result<(), Gone> {
        Ok(())
    }
    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// A link on which a closure decides what happens to the n-th frame.
struct Link<F> {
    out: Box<dyn TxQueue>,
    treat: F,
    n: u64,
    late: Option<Held>,
}

/// What the link does with a frame.
enum Fate {
    Pass,
    Drop,
    Twice,
    /// Forwarded after the next frame.
    Late,
    /// Forwarded with a changed byte at the end.
    Changed,
    /// Forwarded without its last bytes.
    Cut,
    /// Forwarded after the sender was kept busy for 5 ms.
    Busy,
}

impl<F: FnMut(u64) -> Fate + Send> TxQueue for Link<F> {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let mut out = Frame::new();
        let mut put = |held| out.push(held).unwrap_or_else(|_| panic!("there is room for twice a burst"));
        frame.drain(|mut held| {
            let fate = (self.treat)(self.n);
            self.n += 1;
            match fate {
                Fate::Pass => put(held),
                Fate::Drop => held.discard(),
                Fate::Twice => {
                    let copy = held.packet().duplicate(cache).expect("a buffer");
                    put(held);
                    put(copy);
                }
                Fate::Changed => {
                    *held.packet().bytes_mut().last_mut().expect("a frame has bytes") ^= 1;
                    put(held);
                }
                Fate::Cut => {
                    let len = held.packet().bytes().len() - 4;
                    held.packet().set_len(len);
                    put(held);
                }
                Fate::Busy => {
                    std::thread::sleep(Duration::from_millis(5));
                    put(held);
                }
                Fate::Late => {
                    self.late = Some(held);
                    return;
                }
            }
            if let Some(late) = self.late.take() {
                put(late);
            }
        });
        self.out.send(&mut out, cache)
    }

    fn caps(&self) -> TxCaps {
        self.out.caps()
    }
}

#[test]
fn a_cable_loses_nothing_in_any_direction_and_mode() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(4096)?;
    let mix = [udp6(84), udp4(64), Template { weight: 2, ..udp4(1518) }];
    for mode in [Mode::Stamped, Mode::Flood] {
        let ((a, b), (c, d)) = (cable(1024), cable(1024));
        let ports = vec![
            Port { tx: a, more: Vec::new(), rx: d, hosts: None },
            Port { tx: c, more: Vec::new(), rx: b, hosts: None },
        ];
        let back = Direction { from: 1, to: 0, flows: flow(mix.to_vec(), mode) };
        let directions = [forth(flow(vec![udp4(64)], mode)), vec![back]].concat();
        let mut engine = engine(ports, directions, &pool);
        for _ in 0..2 {
            let (outcome, report) = engine.run(request(20_000.0, 50))?;
            assert_eq!((outcome.intended, outcome.sent, outcome.received), (2000, 2000, 2000));
            assert!(outcome.is_valid(), "{:?}", outcome.invalid);
            for r in report.directions.iter().flatten() {
                assert_eq!(r.tally, Tally { received: 1000, ..Tally::default() });
                assert_eq!(r.last_lost, None);
                let measured = if mode == Mode::Stamped { 1000 } else { 0 };
                assert_eq!(r.delays.frames(), measured);
            }
        }
    }
    assert_eq!(pool.stats().lost, 0);
    Ok(())
}

#[test]
fn impairments_of_a_link_are_measured_for_each_frame() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(4096)?;
    let (tx, rx) = cable(4096);
    let treat = |n: u64| match n % 100 {
        7 => Fate::Drop,
        // The last frame is not held back, since no frame follows it.
        31 | 32 => Fate::Twice,
        50 => Fate::Late,
        _ => Fate::Pass,
    };
    let link = Box::new(Link { out: tx, treat, n: 0, late: None });
    let mut engine = engine(ends(link, rx), forth(flow(vec![udp4(64)], Mode::Stamped)), &pool);
    let (outcome, report) = engine.run(request(100_000.0, 100))?;
    let tally = Tally { received: 9_900, duplicated: 200, reordered: 100, ..Tally::default() };
    assert_eq!(report.directions[0][0].tally, tally);
    assert_eq!((outcome.lost(), outcome.sent), (100, 10_000));
    assert_eq!(report.directions[0][0].last_lost, Some(0.099_07));
    Ok(())
}

/// A frame that arrives damaged does not count as received, in any mode.
#[test]
fn damaged_frames_are_lost_and_counted_by_damage() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(4096)?;
    for (mode, size) in [(Mode::Stamped, 64), (Mode::Flood, 64), (Mode::Stamped, 1518), (Mode::Flood, 1518)] {
        let (tx, rx) = cable(4096);
        let treat = |n: u64| match n % 10 {
            3 => Fate::Changed,
            7 => Fate::Cut,
            _ => Fate::Pass,
        };
        let link = Box::new(Link { out: tx, treat, n: 0, late: None });
        let mut engine = engine(ends(link, rx), forth(flow(vec![udp4(size), udp6(size + 20)], mode)), &pool);
        let (outcome, report) = engine.run(request(100_000.0, 100))?;
        let damaged = Damaged { length: 1_000, checksum: 1_000, ..Damaged::default() };
        let tally = Tally { received: 8_000, damaged, ..Tally::default() };
        assert_eq!(report.directions[0][0].tally, tally, "{mode:?}, {size}");
        assert_eq!((outcome.lost(), report.foreign), (2_000, 0));
    }
    Ok(())
}

/// A duplicate does not make up for a lost frame, although a flood repeats its frames.
#[test]
fn duplicates_of_a_flood_are_no_substitute_for_lost_frames() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(8192)?;
    let (tx, rx) = cable(8192);
    // A flood of 1518-byte frames repeats after some 2,700 frames. The last frames arrive, so that the order
    // of all is known.
    let treat = |n: u64| match n % 3_000 {
        7 | 2_000..2_100 => Fate::Drop,
        31 | 1_000..1_100 => Fate::Twice,
        50 => Fate::Late,
        _ => Fate::Pass,
    };
    let link = Box::new(Link { out: tx, treat, n: 0, late: None });
    let mut engine = engine(ends(link, rx), forth(flow(vec![udp4(1518)], Mode::Flood)), &pool);
    let (outcome, report) = engine.run(request(100_000.0, 300))?;
    let tally = Tally { received: 28_990, duplicated: 1_010, reordered: 10, ..Tally::default() };
    assert_eq!(report.directions[0][0].tally, tally);
    assert_eq!((outcome.lost(), report.directions[0][0].last_lost), (1_010, Some(0.290_99)));
    Ok(())
}

/// A frame that leaves late, and frames that wait for the receiver, make a trial invalid.
#[test]
fn an_absent_tester_makes_the_trial_invalid() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(4096)?;
    let (tx, rx) = cable(4096);
    let treat = |n: u64| if n == 1_000 { Fate::Busy } else { Fate::Pass };
    let link = Box::new(Link { out: tx, treat, n: 0, late: None });
    let limits = Limits { behind: Duration::from_millis(4), away: Duration::from_millis(4), ..Limits::NONE };
    let directions = forth(flow(vec![udp4(64)], Mode::Stamped));
    let wait = Duration::from_millis(20);
    let mut engine = Engine::new(ends(link, rx), directions, &pool, limits, wait, 7);
    let (outcome, report) = engine.run(request(20_000.0, 100))?;
    let Absence { behind, away, .. } = report.absence;
    assert!(behind > 0.0045 && away > 0.0045, "{behind} {away}");
    let has = |of: fn(&Invalid) -> bool| outcome.invalid.iter().any(of);
    assert!(has(|i| matches!(i, Invalid::Behind(_))) && has(|i| matches!(i, Invalid::Away(_))));
    Ok(())
}

/// The overdue frames of all flows of a port leave as one burst, so [`Limits::queue`] applies to their sum.
#[test]
fn overdue_frames_are_counted_for_each_port_not_for_each_flow() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(4096)?;
    let half = || Flow { rate: Rate::Share(0.5), ..flow(vec![udp4(64)], Mode::Stamped).remove(0) };
    // The sender is kept busy for 5 ms: 100 frames of each flow are overdue then.
    let outcome = |queue: u64| -> Result<Outcome, Box<dyn std::error::Error>> {
        let (tx, rx) = cable(4096);
        let treat = |n: u64| if n == 1_000 { Fate::Busy } else { Fate::Pass };
        let link = Box::new(Link { out: tx, treat, n: 0, late: None });
        let (limits, wait) = (Limits { queue, ..Limits::NONE }, Duration::from_millis(20));
        let mut engine = Engine::new(ends(link, rx), forth(vec![half(), half()]), &pool, limits, wait, 7);
        let (outcome, report) = engine.run(request(40_000.0, 100))?;
        assert!(report.directions[0].iter().all(|flow| flow.lag >= 95), "the sender was busy");
        Ok(outcome)
    };
    let most = outcome(150)?.invalid.iter().find_map(|why| match why {
        Invalid::Lagged(n) => Some(*n),
        _ => None,
    });
    assert!(most.is_some_and(|n| n >= 190), "{most:?}");
    assert_eq!(outcome(1_000_000)?.invalid, []);
    Ok(())
}

#[test]
fn each_flow_may_have_one_frame_due_at_the_same_time() {
    let limits = Limits { queue: 10, ..Limits::NONE };
    assert_eq!(limits.of_port(10, 1), None);
    assert_eq!(limits.of_port(11, 1), Some(Invalid::Lagged(11)));
    assert_eq!(limits.of_port(14, 5), None);
    assert_eq!(limits.of_port(15, 5), Some(Invalid::Lagged(15)));
}

/// A latency stream and a flood each have their own rate and counts.
#[test]
fn flows_of_one_direction_are_counted_separately() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(4096)?;
    let (tx, rx) = cable(1024);
    let flows = vec![
        Flow { templates: vec![udp4(1518)], rate: Rate::Share(1.0), mode: Mode::Flood },
        Flow { templates: vec![udp4(64)], rate: Rate::Fixed(5_000.0), mode: Mode::Stamped },
    ];
    let (outcome, report) = engine(ends(tx, rx), forth(flows), &pool).run(request(20_000.0, 100))?;
    let received: Vec<_> =
        report.directions[0].iter().map(|f| (f.intended, f.tally.received, f.delays.frames())).collect();
    assert_eq!(received, [(2_000, 2_000, 0), (500, 500, 500)]);
    assert_eq!((outcome.intended, outcome.lost()), (2_500, 0));
    Ok(())
}

/// Frames without a stamp of this trial count as foreign.
#[test]
fn foreign_frames_are_counted_separately() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(1024)?;
    let (mut tx, rx) = cable(64);
    let (mut cache, mut frame) = (pool.cache(), Frame::new());
    let strangers = [udp4(64).bytes, udp4(64).bytes[..30].to_vec(), vec![0xff; 60]];
    frame.alloc(&mut cache, strangers.len());
    for (mut p, bytes) in frame.packets().zip(&strangers) {
        assert!(p.fill(bytes));
    }
    tx.send(&mut frame, &mut cache).map_err(|e| format!("{e:?}"))?;
    let mut engine = engine(ends(tx, rx), forth(flow(vec![udp4(64)], Mode::Stamped)), &pool);
    let (_, report) = engine.run(request(1_000.0, 20))?;
    assert_eq!(report.directions[0][0].tally, Tally { received: 20, ..Tally::default() });
    assert_eq!(report.foreign, 3);
    Ok(())
}

/// Frames that a full ring does not accept are lost and not sent later.
#[test]
fn refused_frames_are_lost_and_not_sent_later() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(1024)?;
    let (tx, _rx) = cable(64);
    let (outcome, report) =
        engine(ends(tx, Box::new(Silent)), forth(flow(vec![udp4(64)], Mode::Stamped)), &pool)
            .run(request(10_000.0, 50))?;
    assert_eq!((report.directions[0][0].refused, outcome.sent, outcome.received), (436, 64, 0));
    assert_eq!(outcome.loss_ratio(), 1.0);
    Ok(())
}

#[test]
fn invalid_traffic_is_refused_with_the_reason() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(64)?;
    let field = drivers::pktgen::Field {
        offset: 44,
        width: 2,
        mode: drivers::pktgen::Mode::Random { min: 0, max: 9 },
        ip4_checksum: false,
    };
    let refused = [
        (
            vec![Template::fixed(udp4(64).bytes[..50].to_vec())],
            "direction 0, flow 0, template 0: a frame of 50 bytes has no room",
        ),
        (
            vec![udp4(64), Template { fields: vec![field], ..udp4(64) }],
            "template 1: field 0: it overlaps the tester's stamp",
        ),
        (vec![Template { weight: 5_000, ..udp4(64) }, udp4(64)], "the weights add up to 5001"),
    ];
    for (templates, why) in refused {
        let (tx, rx) = cable(64);
        let mut engine = engine(ends(tx, rx), forth(flow(templates, Mode::Stamped)), &pool);
        let Err(e) = engine.run(request(1_000.0, 10)) else { panic!("not refused: {why}") };
        assert!(e.to_string().contains(why), "{e}");
    }
    let (tx, rx) = cable(64);
    let mut engine = engine(ends(tx, rx), forth(flow(vec![udp4(64)], Mode::Stamped)), &pool);
    assert!(engine.run(request(1.0, 10)).is_err_and(|e| e.to_string().contains("no frame to send")));
    Ok(())
}

/// A send queue that several threads use.
#[derive(Clone)]
struct Shared(Arc<Mutex<Box<dyn TxQueue>>>);

impl TxQueue for Shared {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        self.0.lock().expect("no thread panicked").send(frame, cache)
    }

    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }
}

#[test]
fn threads_share_a_flood_and_leave_stamped_frames_to_one() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(16384)?;
    let (tx, rx) = cable(8192);
    let tx = Shared(Arc::new(Mutex::new(tx)));
    let mut ports = ends(Box::new(tx.clone()), rx);
    ports[0].more = (0..3).map(|_| Box::new(tx.clone()) as Box<dyn TxQueue>).collect();
    let flood = Flow { templates: vec![udp4(64)], rate: Rate::Share(1.0), mode: Mode::Flood };
    let stamped = Flow { templates: vec![udp6(84)], rate: Rate::Fixed(1_000.0), mode: Mode::Stamped };
    let mut engine = engine(ports, forth(vec![flood, stamped]), &pool);
    engine.set_sender_cores(infra::cpu::online_cores());
    // The queues are there for the second trial, too.
    for _ in 0..2 {
        let (outcome, report) = engine.run(request(100_000.0, 100))?;
        let [flows] = &report.directions[..] else { panic!("one direction") };
        let sent: Vec<_> = flows.iter().map(|f| (f.intended, f.sent, f.tally.received)).collect();
        assert_eq!(sent, [(10_000, 10_000, 10_000), (100, 100, 100)], "{outcome:?}");
        assert_eq!((outcome.lost(), report.astray, report.foreign), (0, 0, 0));
        // Frames of the parts alternate, so the last one is due at the end of the flow's time.
        assert!(
            (0.099..0.1).contains(&flows[0].last_received.expect("frames")),
            "{:?}",
            flows[0].last_received
        );
        assert!(flows[1].delays.figures()?.frames >= 100);
    }
    Ok(())
}

#[test]
fn a_port_that_vanishes_ends_the_threads() -> Result<(), Box<dyn std::error::Error>> {
    struct Vanished;
    impl TxQueue for Vanished {
        fn send(&mut self, _: &mut Frame, _: &mut Cache) -> Result<(), Unsent> {
            Err(Unsent::Gone)
        }
        fn caps(&self) -> TxCaps {
            TxCaps::default()
        }
    }
    let pool = Pool::new(8192)?;
    let (tx, rx) = cable(64);
    let mut ports = ends(tx, rx);
    ports[0].more = vec![Box::new(Vanished)];
    let mut engine = engine(ports, forth(flow(vec![udp4(64)], Mode::Flood)), &pool);
    engine.set_sender_cores(vec![infra::cpu::online_cores()[0]]);
    assert!(engine.run(request(1_000.0, 50)).is_err_and(|e| e.0.contains("port 0 vanished")));
    engine.set_sender_cores(vec![4000]);
    assert!(engine.run(request(1_000.0, 50)).is_err_and(|e| e.0.contains("sender-cores: core 4000")));
    Ok(())
}

#[test]
fn a_flood_has_all_values_of_its_fields() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(8192)?;
    let field = drivers::pktgen::Field {
        offset: 26,
        width: 4,
        mode: drivers::pktgen::Mode::Increment { min: 0x0a00_0001, max: 0x0a00_4e20, step: 1 },
        ip4_checksum: true,
    };
    // 4 MiB hold fewer than 20,000 frames of this size, but each source needs one.
    let template = Template { fields: vec![field], ..udp4(1024) };
    let mut sender = Sender::new(&[template], Mode::Flood, 1, 2, 3)?;
    let (mut frame, mut cache) = (Box::new(Frame::new()), pool.cache());
    let mut sources = Vec::new();
    while sources.len() < 40_000 {
        sender.fill(&mut frame, &mut cache, BURST, 0);
        sources
            .extend(frame.packets().map(|p| u32::from_be_bytes(p.bytes()[26..30].try_into().expect("four"))));
        frame.free(&mut cache);
    }
    let (first, second) = (&sources[..20_000], &sources[20_000..40_000]);
    assert_eq!(first, (0x0a00_0001..=0x0a00_4e20).collect::<Vec<u32>>());
    assert_eq!(first, second);
    Ok(())
}

#[test]
fn loads_may_be_slow_and_bursts_short() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(8192)?;
    let (tx, rx) = cable(64);
    let one = || flow(vec![udp4(64)], Mode::Stamped);
    let mut flows = [one(), one()].concat();
    flows[1].rate = Rate::Fixed(5_000.0);
    let mut engine = self::engine(ends(tx, rx), forth(flows), &pool);
    // A burst of 60 µs has one frame of one flow and none of the other.
    let burst = Request { load_fps: 20_000.0, duration: Duration::from_micros(60) };
    let (outcome, report) = engine.run(burst)?;
    assert_eq!((outcome.intended, outcome.received, report.directions[0][1].intended), (1, 1, 0));
    // At a slow load, the last frame is due long before the end of the trial: earlier than the end by more
    // than the wait.
    let (tx, rx) = cable(64);
    let mut engine =
        super::Engine { wait: Duration::ZERO, ..self::engine(ends(tx, rx), forth(one()), &pool) };
    let (outcome, _) = engine.run(Request { load_fps: 4.0, duration: Duration::from_millis(300) })?;
    assert_eq!(outcome.intended, 1);
    Ok(())
}

/// In real time, the tester's counts equal those of a simulated router, and the measured delays are at least as long as the true ones.
#[test]
fn measured_figures_equal_those_of_a_simulated_router() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(8192)?;
    let delay_ns = 300_000;
    let path = Path::new(5)
        .loss(0.01)
        .duplication(0.02)
        .reordering(0.03, 400_000)
        .delay(Delay::Jittered(delay_ns, delay_ns + 100_000));
    let (tx, rx, watched) = link(path);
    let flows = forth(flow(vec![udp4(64)], Mode::Stamped));
    let (outcome, report) = engine(ends(tx, rx), flows, &pool).run(request(20_000.0, 250))?;
    let (truth, flow) = (watched.truth(), &report.directions[0][0]);
    assert_eq!((truth.sent, outcome.sent), (5_000, 5_000));
    assert!(truth.lost > 10 && truth.duplicated > 10 && truth.held_back > 10, "{truth:?}");
    let Tally { received, duplicated, reordered, over, damaged } = flow.tally;
    assert_eq!((outcome.lost(), received), (truth.lost, 5_000 - truth.lost));
    assert_eq!((duplicated, over, damaged.all()), (truth.duplicated, 0, 0));
    assert_eq!(reordered, watched.reordered());
    // On a busy machine the tester sees frames late, never early.
    let figures = flow.delays.figures()?;
    assert!(
        figures.minimum_ns >= truth.min_delay_ns && figures.maximum_ns >= truth.max_delay_ns,
        "{figures:?} {truth:?}"
    );
    assert!(figures.mean_ns >= truth.delay_sum_ns as f64 / received as f64, "{figures:?} {truth:?}");
    Ok(())
}

#[test]
fn consecutive_steps_have_their_own_counts() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(8192)?;
    let (tx, rx) = cable(4096);
    // Frames 1000 to 1999 belong to the second step.
    let treat = |n| if (1_500..1_600).contains(&n) { Fate::Drop } else { Fate::Pass };
    let link = Box::new(Link { out: tx, treat, n: 0, late: None });
    let mut engine = engine(ends(link, rx), forth(flow(vec![udp4(64)], Mode::Stamped)), &pool);
    let steps = engine.run_steps(&[request(20_000.0, 50), request(10_000.0, 100)])?;
    let found: Vec<_> = steps
        .iter()
        .map(|(o, report)| {
            (o.intended, o.lost(), report.directions[0][0].last_lost.map(|s| (s * 1e4).round()))
        })
        .collect();
    assert_eq!(found, [(1000, 0, None), (1000, 100, Some(599.0))]);
    // The steps were sent without a gap.
    assert!(steps.iter().all(|(o, _)| o.took < Duration::from_millis(200)), "{steps:?}", steps = steps[0].0);
    Ok(())
}

#[test]
fn ipdv_is_measured_between_successive_frames() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(8192)?;
    let (tx, rx) = cable(4096);
    // Frame 10 is lost, frame 20 is duplicated, frame 30 is late.
    let treat = |n| match n {
        10 => Fate::Drop,
        20 => Fate::Twice,
        30 => Fate::Late,
        _ => Fate::Pass,
    };
    let link = Box::new(Link { out: tx, treat, n: 0, late: None });
    let mut engine = engine(ends(link, rx), forth(flow(vec![udp4(64)], Mode::Stamped)), &pool);
    engine.record_ipdv(true);
    let (_, report) = engine.run(request(2_000.0, 50))?;
    let flow = &report.directions[0][0];
    let figures = flow.ipdv.as_ref().and_then(|i| i.figures().ok()).expect("differences");
    // 100 frames have 99 pairs: two are undefined around the loss, and two around the late frame.
    assert_eq!((figures.pairs, figures.undefined), (95, 4), "{figures:?}");
    assert!(figures.minimum_ns <= 0 && figures.maximum_ns >= 0);
    Ok(())
}
