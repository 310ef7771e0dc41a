//! Routes with several paths: the distribution of flows over the paths, and the flows that move when a path is removed.

use std::collections::HashMap;

use scenarios::{Fan, Input, Way, frame, gateway};
use testkit::netns::LIMIT;
use testkit::process::until;
use testkit::rib::{Family, Random, below};

/// Number of flows to addresses of the prefix.
const FLOWS: usize = 4000;
/// Number of packets of each flow.
const ROUNDS: u32 = 3;
/// Number of paths, each through a port of its own.
const PATHS: u16 = 4;

/// Sends the packets of all flows and returns the way of each flow. Checks that all packets of a flow take the same
/// way.
fn ways(fan: &mut Fan) -> Vec<Way> {
    let (mut ways, mut arrived) = (vec![None; FLOWS], 0);
    let all = FLOWS as u64 * u64::from(ROUNDS);
    fan.play(0, true);
    until("all packets have arrived", LIMIT, || {
        arrived += fan.arrived(|packet| {
            let way = ways[packet.number as usize].get_or_insert(packet.way);
            assert_eq!(*way, packet.way, "a flow has one path: {packet:?}");
        });
        arrived == all
    });
    fan.play(0, false);
    ways.into_iter().collect::<Option<_>>().expect("every flow has arrived")
}

/// Checks that each way gets its share of the flows within 1/7, which is more than the deviation by chance.
fn check_spread(ways: &[Way], over: u16) {
    let mut flows: HashMap<Way, usize> = HashMap::new();
    ways.iter().for_each(|way| *flows.entry(*way).or_default() += 1);
    let share = ways.len() / usize::from(over);
    eprintln!("MEASURED flows over {over} paths: {:?}", flows.values());
    assert_eq!(flows.len(), usize::from(over), "{flows:?}");
    assert!(flows.values().all(|n| n.abs_diff(share) < share / 7), "{flows:?}");
}

fn several_paths<A: Family>(network: &str, len: u8) {
    let prefix = (A::parse(network).expect("an address"), len);
    let mut r = Random::new(13);
    // Groups of four flows differ only in the source port.
    let to: Vec<A> = (0..FLOWS / 4).map(|_| below(prefix, &mut r)).collect();
    let frames = (0..FLOWS).map(|n| frame(to[n / 4].to_ip(), n as u32, 1024 + n as u16)).collect();
    let Some(mut fan) = Fan::new(&[Input { frames, rate: 50_000, rounds: ROUNDS }], "") else { return };
    let route = |fan: &Fan, what: &str, hop: u16| {
        fan.router.ctl(&format!("ip route {what} {network}/{len} via {}", gateway::<A>(hop)));
    };
    (0..PATHS).for_each(|hop| route(&fan, "add", hop));
    let before = ways(&mut fan);
    check_spread(&before, PATHS);
    let gone = Way::to::<A>(2);
    route(&fan, "del", 2);
    let after = ways(&mut fan);
    check_spread(&after, PATHS - 1);
    let moved = |(before, after): &(&Way, &Way)| before != after;
    assert!(
        before.iter().zip(&after).filter(moved).all(|(before, _)| *before == gone),
        "flows of other paths moved"
    );
    // Only the removed path's flows move, in equal parts.
    let of_gone = before.iter().zip(&after).filter(|(before, _)| **before == gone).map(|(_, after)| *after);
    check_spread(&of_gone.collect::<Vec<_>>(), PATHS - 1);
    route(&fan, "add", 2);
    check_spread(&ways(&mut fan), PATHS);
}

#[test]
fn ipv4_flows_are_distributed_over_several_paths() {
    several_paths::<u32>("20.1.0.0", 16);
}

#[test]
fn ipv6_flows_are_distributed_over_several_paths() {
    several_paths::<u128>("2001:db8::", 32);
}
