//! Costs of the tester itself: TSC clocks per frame sent and per frame received, over an in-memory cable.
//!
//! `cargo bench -p bench --bench tester` prints a table and writes `target/bench/tester.json`, one object per line. The costs bound what
//! the tester can measure. Sending means building the frames, writing the tester's stamps into them, and putting them into the cable.
//! Receiving means taking the frames out of the cable, checking and counting them, and freeing their buffers. Both run on one pinned
//! thread, in bursts as in a trial. Figures are medians over repetitions.
//!
//! `delay-error-*` is the error of the delay that the tester measures through a simulated router, in nanoseconds: the measured median delay
//! less the simulated router's delay.

use std::error::Error;
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bench::accuracy::delay_error_ns;
use bench::cable::cable;
use bench::engine::receiver::{Account, Receiver};
use bench::engine::run::BURST;
use bench::engine::sender::{Mode, Sender};
use bench::trial::Request;
use buf::{Frame, Pool};
use drivers::pktgen::{self, Field, Template};
use infra::clock::{self, Clock, tsc};
use wire::Mac;
use wire::builder::PacketBuilder;

/// Number of measured repetitions.
const REPETITIONS: usize = 15;
/// Number of bursts in each repetition.
const BURSTS: usize = 10_000;

/// A UDP frame of `size` bytes, including the frame check sequence, with random ports as in RFC 4814.
fn udp(is_v6: bool, size: usize) -> Template {
    let b = match is_v6 {
        true => PacketBuilder::ipv6(
            Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2),
            Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 2),
        ),
        false => PacketBuilder::ipv4(Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2)),
    };
    let b = b.ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])).udp(1024, 1);
    let ports = if is_v6 { 54 } else { 34 };
    let field = |offset, min, max| Field {
        offset,
        width: 2,
        mode: pktgen::Mode::Random { min, max },
        ip4_checksum: false,
    };
    let payload = size - 4 - b.header_len();
    let bytes = b.payload(&vec![0; payload]).build();
    Template { fields: vec![field(ports, 1024, 65535), field(ports + 2, 1, 49151)], ..Template::fixed(bytes) }
}

/// A case: name, mode of the frames (stamped or flood), frame template, and the maximum median in clocks per frame.
type Case = (&'static str, Mode, Template, f64);

/// Returns the clocks per frame sent and per frame received, one value for each repetition.
fn run((_, mode, template, _): &Case) -> Result<[Vec<f64>; 2], Box<dyn Error>> {
    let pool = Pool::new(4096)?;
    let (mut cache, mut frame) = (pool.cache(), Box::new(Frame::new()));
    let (mut tx, mut rx) = cable(1024);
    let hz = Clock::new().tsc_hz();
    let frames = (BURSTS * BURST) as u64;
    let mut clocks = [Vec::new(), Vec::new()];
    // The first repetition warms the caches and does not count.
    for repetition in 0..=REPETITIONS {
        let mut sender = Sender::new(std::slice::from_ref(template), *mode, 1, 7, 0)?;
        let expected = sender.expected(std::slice::from_ref(template), 0)?;
        let account = Account::new(0, expected, frames, *mode, hz, 0)?;
        let mut receiver = Receiver::new(7, vec![account], 1);
        let (mut sent, mut received) = (0, 0);
        for _ in 0..BURSTS {
            let start = tsc();
            sender.fill(&mut frame, &mut cache, BURST, start);
            let taken = tx.send(&mut frame, &mut cache);
            let between = tsc();
            let came = rx.poll(&mut frame, &mut cache);
            receiver.take(0, &mut frame, tsc(), |_, _| {}, |_| {});
            frame.free(&mut cache);
            received += tsc() - between;
            sent += between - start;
            taken.map_err(|e| format!("{e:?}"))?;
            came.map_err(|gone| gone.0)?;
        }
        let tally = receiver.into_streams().next().map(|account| account.tally);
        assert_eq!(tally.map(|t| t.received), Some(frames), "{tally:?}");
        if repetition > 0 {
            clocks[0].push(sent as f64 / frames as f64);
            clocks[1].push(received as f64 / frames as f64);
        }
    }
    Ok(clocks)
}

fn main() -> Result<(), Box<dyn Error>> {
    let core = infra::cpu::online_cores().last().copied().unwrap_or(0);
    infra::cpu::pin_current(core)?;
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    let mut file = std::fs::File::create(directory.join("tester.json"))?;
    println!(
        "tester benchmark: TSC clocks per frame on core {core}, bursts of {BURST}, {:.2} core clocks per TSC clock",
        clock::core_per_tsc()
    );
    println!("{:<22} {:>8} {:>8} {:>8} {:>8}", "bench", "median", "min", "max", "target");
    let cases: [Case; 6] = [
        ("flood-64", Mode::Flood, udp(false, 64), 35.0),
        ("flood-ip6-84", Mode::Flood, udp(true, 84), 35.0),
        ("stamped-64", Mode::Stamped, udp(false, 64), 60.0),
        ("stamped-ip6-84", Mode::Stamped, udp(true, 84), 60.0),
        ("flood-1518", Mode::Flood, udp(false, 1518), f64::INFINITY),
        ("stamped-1518", Mode::Stamped, udp(false, 1518), f64::INFINITY),
    ];
    let mut tell = |name: &str, unit: &str, mut samples: Vec<f64>, target: f64| {
        samples.sort_by(f64::total_cmp);
        let (median, min, max) = (samples[samples.len() / 2], samples[0], samples[samples.len() - 1]);
        let verdict = if median <= target { "ok" } else { "MISSED" };
        println!("{name:<22} {median:>8.1} {min:>8.1} {max:>8.1} {target:>8.1}  {verdict}");
        writeln!(
            file,
            "{{\"bench\": \"{name}\", \"unit\": \"{unit}\", \"median\": {median:.2}, \"min\": {min:.2}, \"max\": {max:.2}, \
             \"samples\": {}}}",
            samples.len()
        )
    };
    for case in &cases {
        let (name, _, _, target) = case;
        for (what, clocks) in ["send", "receive"].into_iter().zip(run(case)?) {
            tell(&format!("{name}-{what}"), "clocks/frame", clocks, *target)?;
        }
    }
    println!("\n{:<22} {:>8} {:>8} {:>8} {:>8}  nanoseconds", "", "median", "min", "max", "target");
    for (name, kfps) in [("delay-error-10k", 10.0), ("delay-error-100k", 100.0), ("delay-error-1m", 1000.0)] {
        tell(name, "ns", delay_errors(kfps * 1e3)?, 1000.0)?;
    }
    Ok(())
}

/// Returns the result of [`delay_error_ns`] for each of several trials at this load.
fn delay_errors(load_fps: f64) -> Result<Vec<f64>, Box<dyn Error>> {
    let pool = Pool::new(8192)?;
    let request = Request { load_fps, duration: Duration::from_millis(200) };
    Ok((0..REPETITIONS).map(|_| delay_error_ns(&pool, request)).collect::<Result<_, _>>()?)
}
