//! Tables of real routers: a packet to an address of every prefix of both families reaches the next hop of its longest match and no other.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use scenarios::{Fan, Input, Table, Way, frame, real};
use testkit::process::poll;
use testkit::rib::{Family, Prefixes, Random};

/// Number of random destinations of each family that are not chosen from a prefix.
const ANYWHERE: usize = 20_000;
/// Time limit for all packets to arrive.
const LIMIT: Duration = Duration::from_secs(60);

/// The table of one family, and the destinations of packets.
struct Part<A> {
    prefixes: Prefixes<A>,
    table: Table<A>,
    destinations: Vec<A>,
}

impl<A: Family> Part<A> {
    fn new(r: &mut Random) -> Part<A> {
        let prefixes = real(r);
        let table = Table::new(&prefixes, r);
        let mut destinations: Vec<A> = prefixes.iter().map(|p| table.destination(*p, r)).collect();
        let longest = |to: &A| table.lookup(*to).map(|(prefix, _)| prefix);
        let own = prefixes.iter().zip(&destinations).filter(|(p, to)| longest(to) == Some(**p)).count();
        assert!(own * 10 > prefixes.len() * 9, "only {own} of {} prefixes are tested", prefixes.len());
        eprintln!("MEASURED {} prefixes, {own} of them tested with an address of their own", prefixes.len());
        // One eighth of all IPv6 addresses is forwarded.
        let anywhere = std::iter::repeat_with(|| A::random(r)).filter(|a| a.forwarded());
        destinations.extend(anywhere.take(ANYWHERE));
        Part { prefixes, table, destinations }
    }

    fn load(&self, fan: &Fan) {
        let start = Instant::now();
        fan.run("ip route load", &self.table.lines(&self.prefixes));
        eprintln!("MEASURED {} routes in {:?}", self.prefixes.len(), start.elapsed());
    }

    /// Removes every eighth route.
    fn thin_out(&mut self, fan: &Fan) {
        let (mut commands, mut n) = (String::new(), 0);
        self.prefixes.retain(|(prefix, len)| {
            n += 1;
            let stays = n % 8 != 0;
            if !stays {
                let _ = writeln!(commands, "ip route del {}/{len}", prefix.to_ip());
                self.table.remove((*prefix, *len));
            }
            stays
        });
        fan.run("exec", &commands);
    }

    /// Returns the destinations and their expected ways. `None` for a destination without a route.
    fn ways(&self) -> Vec<(IpAddr, Option<Way>)> {
        let way = |to| self.table.lookup(to).map(|(_, hop)| Way::to::<A>(hop));
        self.destinations.iter().map(|to| (to.to_ip(), way(*to))).collect()
    }
}

/// Sends all packets and checks the way of each.
fn check(fan: &mut Fan, wanted: &[(IpAddr, Option<Way>)]) {
    let (mut ways, mut twice, mut arrived) = (vec![None; wanted.len()], 0, 0);
    let mut look = |fan: &mut Fan| {
        arrived += fan.arrived(|packet| {
            let way = ways.get_mut(packet.number as usize).expect("a number that was sent");
            twice += usize::from(way.replace(packet.way).is_some());
        });
        arrived
    };
    let sent = fan.sent(0) + wanted.len() as u64;
    let routed = wanted.iter().filter(|(_, way)| way.is_some()).count() as u64;
    fan.play(0, true);
    let all = poll(LIMIT, || (look(fan) >= routed && fan.sent(0) == sent).then_some(()));
    fan.play(0, false);
    // Wait for surplus packets.
    std::thread::sleep(Duration::from_millis(50));
    look(fan);
    let both = wanted.iter().zip(&ways);
    let wrong: Vec<_> = both.filter(|((_, wanted), way)| wanted != *way).collect();
    let sample = &wrong[..wrong.len().min(10)];
    assert!(wrong.is_empty(), "{} of {} went elsewhere: {sample:#?}", wrong.len(), wanted.len());
    assert_eq!((twice, all), (0, Some(())), "{} of {sent} packets received", fan.sent(0));
    eprintln!("MEASURED {} packets, {routed} of them with a route", wanted.len());
}

#[test]
fn a_packet_to_every_prefix_goes_to_its_next_hop() {
    let mut r = Random::new(11);
    let mut four = Part::<u32>::new(&mut r);
    let mut six = Part::<u128>::new(&mut r);
    let wanted = [four.ways(), six.ways()].concat();
    let mut frames: Vec<_> = (0..).zip(&wanted).map(|(n, (to, _))| frame(*to, n, 7)).collect();
    r.shuffle(&mut frames);
    let Some(mut fan) = Fan::new(&[Input { frames, rate: 200_000, rounds: 1 }], "") else { return };
    four.load(&fan);
    six.load(&fan);
    check(&mut fan, &wanted);
    // A shorter prefix covers the addresses of removed longer ones.
    four.thin_out(&fan);
    six.thin_out(&fan);
    check(&mut fan, &[four.ways(), six.ways()].concat());
}
