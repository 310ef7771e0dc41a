//! A table is torn down and rebuilt without pause, while packets go to prefixes that stay. Every packet must reach its own
//! next hop, and memory must not grow. `make soak` runs it for a minute; `VOLLEY_CHURN_SECONDS` sets another time.

use std::fmt::Write;
use std::time::{Duration, Instant};

use scenarios::{Arrival, Fan, Input, Table, Way, frame, real, status};
use testkit::process::poll;
use testkit::rib::{Family, Prefixes, Random, extend};

/// Default time of the test in seconds.
const SECONDS: u32 = 15;
/// Number of routes that come and go, for IPv4 and IPv6, in a long test, which has a release build. A debug build takes ten times as long
/// for a change: a short test has a fifth of the routes.
const CHURNED: [usize; 2] = [210_000, 40_000];
const FEWER: usize = 5;
/// Number of prefixes of each family that stay.
const STABLE: usize = 1000;
/// Number of destinations in each prefix that stays.
const ADDRESSES: usize = 4;
/// Packets a second to each family.
const RATE: u32 = 25_000;
/// Tolerance in KiB for the whole memory and for the routes' memory. It applies to the values with all routes installed: the smallest value
/// of the later rounds may exceed the largest value of the earlier rounds by this much.
///
/// The routes of a round take about 25 MiB. About 40 MiB more are used temporarily: records of a round's changes, and memory that the heap
/// returns late. After the teardown only the routes' memory is compared, because the heap sometimes keeps another 40 MiB until the next
/// round.
const LEVEL: [u64; 2] = [48 << 10, 1 << 10];
/// Time limit for each wait.
const LIMIT: Duration = Duration::from_secs(20);

/// The routes of one family.
struct Part<A> {
    table: Table<A>,
    stable: Prefixes<A>,
    churned: Prefixes<A>,
    /// Destinations of the packets. Each has the way that its packets must take.
    destinations: Vec<(A, Way)>,
}

impl<A: Family> Part<A> {
    fn new(r: &mut Random, churned: usize) -> Part<A> {
        let mut prefixes = extend(&real::<A>(r), churned + STABLE);
        prefixes.truncate(churned + STABLE);
        prefixes.retain(|(prefix, _)| prefix.forwarded());
        let table = Table::new(&prefixes, r);
        let mut part = Part { table, stable: Vec::new(), churned: Vec::new(), destinations: Vec::new() };
        for prefix in prefixes {
            match part.addresses(prefix, r) {
                Some(addresses) if part.stable.len() < STABLE => {
                    part.stable.push(prefix);
                    part.destinations.extend(addresses);
                }
                _ => part.churned.push(prefix),
            }
        }
        assert_eq!(part.stable.len(), STABLE, "number of prefixes that stay");
        part
    }

    /// Returns addresses of a prefix with their ways, or `None` if the prefix cannot be one that stays. The prefix must be covered by a
    /// shorter prefix of the table, and no longer prefix may cover the addresses.
    fn addresses(&self, (prefix, len): (A, u8), r: &mut Random) -> Option<Vec<(A, Way)>> {
        let shorter = (0..len).any(|len| self.table.hop((prefix & A::mask(len), len)).is_some());
        let mut address = || {
            let to = self.table.destination((prefix, len), r);
            let (longest, hop) = self.table.lookup(to)?;
            (longest == (prefix, len)).then_some((to, Way::to::<A>(hop)))
        };
        if shorter { (0..ADDRESSES).map(|_| address()).collect() } else { None }
    }

    fn frames(&self, first: usize) -> Vec<Vec<u8>> {
        (first as u32..).zip(&self.destinations).map(|(n, (to, _))| frame(to.to_ip(), n, 7)).collect()
    }

    fn build(&self, fan: &Fan) {
        fan.run("ip route load", &self.table.lines(&self.churned));
    }

    /// Removes the routes, in another order each time.
    fn tear_down(&mut self, fan: &Fan, r: &mut Random) {
        r.shuffle(&mut self.churned);
        let mut commands = String::new();
        for (prefix, len) in &self.churned {
            let _ = writeln!(commands, "ip route del {}/{len}", prefix.to_ip());
        }
        fan.run("exec", &commands);
    }
}

/// The packets that have arrived.
struct Receiver {
    ways: Vec<Way>,
    arrived: Vec<u64>,
    misrouted: Vec<Arrival>,
}

impl Receiver {
    fn look(&mut self, fan: &mut Fan) {
        fan.arrived(|packet| {
            let n = packet.number as usize;
            self.arrived[n] += 1;
            if packet.way != self.ways[n] {
                self.misrouted.push(packet);
            }
        });
        let some = &self.misrouted[..self.misrouted.len().min(10)];
        assert!(some.is_empty(), "{} packets went to another next hop: {some:#?}", self.misrouted.len());
    }
}

/// Returns the memory of the router and of its routes in KiB.
fn memory(fan: &Fan) -> [u64; 2] {
    let routes = fan.router.json("show ip route-memory");
    let routes = routes["used_bytes"].as_u64().unwrap_or_else(|| panic!("no used_bytes: {routes}"));
    [status(fan.router.id(), "VmRSS"), routes >> 10]
}

#[test]
fn rebuilding_a_table_does_not_disturb_other_traffic() {
    let set = std::env::var("VOLLEY_CHURN_SECONDS").ok().and_then(|s| s.parse().ok());
    let (seconds, churned) = match set {
        Some(seconds) => (seconds, CHURNED),
        None => (SECONDS, CHURNED.map(|n| n / FEWER)),
    };
    let mut r = Random::new(12);
    let mut four = Part::<u32>::new(&mut r, churned[0]);
    let mut six = Part::<u128>::new(&mut r, churned[1]);
    let addresses = STABLE * ADDRESSES;
    let rounds = seconds * RATE / addresses as u32;
    let inputs = [four.frames(0), six.frames(addresses)].map(|frames| Input { frames, rate: RATE, rounds });
    // A worker for each family.
    let commands = "set workers 2\n\
                    set interface rx-placement pcap4 worker 0\n\
                    set interface rx-placement pcap5 worker 1\n";
    let Some(mut fan) = Fan::new(&inputs, commands) else { return };
    fan.run("ip route load", &four.table.lines(&four.stable));
    fan.run("ip route load", &six.table.lines(&six.stable));
    let ways = four.destinations.iter().map(|d| d.1).chain(six.destinations.iter().map(|d| d.1)).collect();
    let mut receiver = Receiver { ways, arrived: vec![0; 2 * addresses], misrouted: Vec::new() };
    let all = u64::from(rounds) * addresses as u64;
    fan.play(0, true);
    fan.play(1, true);
    let start = Instant::now();
    let (mut built, mut torn_down) = (Vec::new(), Vec::new());
    while built.len() < 3 || [0, 1].into_iter().any(|input| fan.sent(input) < all) {
        four.build(&fan);
        receiver.look(&mut fan);
        six.build(&fan);
        built.push(memory(&fan));
        receiver.look(&mut fan);
        four.tear_down(&fan, &mut r);
        receiver.look(&mut fan);
        six.tear_down(&fan, &mut r);
        torn_down.push(memory(&fan));
        receiver.look(&mut fan);
    }
    eprintln!(
        "MEASURED {} times {} and {} routes in {:.1?}, {all} packets of each family meanwhile; KiB in all and of routes, \
         built {built:?}, torn down {torn_down:?}",
        built.len(),
        four.churned.len(),
        six.churned.len(),
        start.elapsed(),
    );
    poll(LIMIT, || {
        receiver.look(&mut fan);
        (receiver.arrived.iter().sum::<u64>() >= 2 * all).then_some(())
    });
    let lost: Vec<_> = (0..).zip(&receiver.arrived).filter(|(_, n)| **n != u64::from(rounds)).collect();
    let some = &lost[..lost.len().min(10)];
    assert!(lost.is_empty(), "{} addresses got more or less than {rounds} packets: {some:?}", lost.len());
    assert_eq!(fan.router.json("show errors"), serde_json::json!([]));
    // One-time allocations happen in the first two rounds.
    let grown = |rounds: &[[u64; 2]], which: usize| {
        let of = |rounds: &[[u64; 2]]| rounds.iter().map(|round| round[which]).collect::<Vec<_>>();
        let (earlier, later) = rounds.split_at((rounds.len() / 2).max(2));
        of(later).into_iter().min().unwrap().saturating_sub(of(earlier).into_iter().max().unwrap())
    };
    assert!(grown(&built, 0) < LEVEL[0], "KiB in all and of routes, by round: {built:?}");
    for rounds in [&built, &torn_down] {
        assert!(grown(rounds, 1) < LEVEL[1], "KiB in all and of routes, by round: {rounds:?}");
    }
}
