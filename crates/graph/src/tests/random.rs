//! Runs random packets through random graphs, and compares the results with a model that follows each packet
//! separately.

use std::collections::BTreeMap;

use infra::cpu::Level;
use proptest::prelude::*;

use super::Rig;
use super::toys::{
    CONSUME, COPY, DROP, End, HOLD, KEEP, Kept, MAKE, REASONS, Spec, TOY_REASONS, Toy, free_kept,
};
use crate::Reasons;

const TOYS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];
const ENDS: [&str; 2] = ["e0", "e1"];

/// For each `Toy` node, the numbers of the nodes to which its edges lead. `TOYS` have the lowest numbers,
/// then `ENDS`.
type Edges = Vec<Vec<usize>>;

fn name(node: usize) -> &'static str {
    TOYS.iter().chain(&ENDS).copied().nth(node).unwrap_or("?")
}

/// Generates a byte of a packet. Most bytes are edges, so that packets pass several nodes.
fn step() -> impl Strategy<Value = u8> {
    prop_oneof![
        12 => 0..4u8,
        1 => (0..REASONS).prop_map(|r| DROP + r),
        2 => Just(HOLD),
        1 => Just(KEEP),
        1 => Just(COPY),
        1 => Just(MAKE),
        1 => Just(CONSUME),
    ]
}

#[derive(Default, Debug, PartialEq, Eq)]
struct Count {
    /// Number of dropped packets, by node and reason.
    dropped: BTreeMap<(&'static str, &'static str), u64>,
    /// Number of packets that reached an end, by end.
    ended: BTreeMap<&'static str, u64>,
    kept: u64,
    consumed: u64,
    made: u64,
}

impl Count {
    fn out(&self) -> u64 {
        self.dropped.values().sum::<u64>() + self.ended.values().sum::<u64>() + self.kept + self.consumed
    }

    fn drop(&mut self, node: usize, reason: u8) {
        let reason = <super::toys::ToyDrop as Reasons>::INFO[usize::from(reason)].name;
        *self.dropped.entry((name(node), reason)).or_default() += 1;
    }

    /// Follows a packet with the bytes `bytes` from `node` on.
    fn follow(&mut self, edges: &Edges, node: usize, bytes: &[u8]) {
        if node >= TOYS.len() {
            *self.ended.entry(name(node)).or_default() += 1;
            return;
        }
        let to = |e: u8| edges[node][usize::from(e)];
        match bytes {
            [] => self.drop(node, 0),
            [COPY, edge, rest @ ..] => {
                self.made += 1;
                self.follow(edges, to(*edge), rest);
                self.follow(edges, node, rest);
            }
            [MAKE, edge, rest @ ..] => {
                self.made += 1;
                self.consumed += 1;
                self.follow(edges, to(*edge), rest);
            }
            [HOLD, edge, rest @ ..] => self.follow(edges, to(*edge), rest),
            [HOLD] => self.drop(node, 0),
            [KEEP, ..] => self.kept += 1,
            [CONSUME, ..] => self.consumed += 1,
            [first @ DROP..HOLD, ..] => self.drop(node, (first - DROP) % TOY_REASONS.len() as u8),
            [edge, rest @ ..] => self.follow(edges, to(*edge), rest),
        }
    }
}

/// Makes the bytes of a packet valid. Each COPY and MAKE must be followed by an edge, and so must each HOLD that is not the last byte. At
/// most two COPY bytes remain, so that the packet becomes at most four packets.
fn sound(mut bytes: Vec<u8>) -> Vec<u8> {
    let (mut named, mut copies) = (false, 0);
    for b in &mut bytes {
        copies += u32::from(*b == COPY);
        if (named && *b > 3) || (*b == COPY && copies > 2) {
            *b = 1;
        }
        named = !named && [HOLD, COPY, MAKE].contains(b);
    }
    if named && bytes.last() != Some(&HOLD) {
        bytes.pop();
    }
    bytes
}

/// Generates the edges of one node: to four different nodes, in any order.
fn edges() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::subsequence((0..TOYS.len() + ENDS.len()).collect::<Vec<_>>(), 4).prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn random_graphs_lose_no_packet(
        edges in prop::collection::vec(edges(), TOYS.len()),
        ways in prop::collection::vec(prop::collection::vec(step(), 0..10).prop_map(sound), 1..12),
        batches in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..=256), 1..4),
        level in prop_oneof![Just(Level::V2), Just(Level::V3), Just(Level::V4)],
    ) {
        let kept = Kept::default();
        let mut rig = Rig::new(|b, log| {
            ENDS.iter().for_each(|e| End::install(b, log, e));
            for (toy, to) in TOYS.iter().zip(&edges) {
                let to: Vec<&str> = to.iter().map(|n| name(*n)).collect();
                Toy::install(b, log, &kept, toy, &to).expect("a toy");
            }
            b.edge("source", "t0").expect("an edge");
        });
        rig.worker.set_kernels(kernels::at_most(level));
        let mut model = Count::default();
        let mut flows: Vec<Vec<u32>> = vec![Vec::new(); ways.len()];
        let mut sent = 0;
        for batch in &batches {
            let mut specs = Vec::new();
            for pick in batch {
                let way = pick.index(ways.len());
                model.follow(&edges, 0, &ways[way]);
                flows[way].push(sent);
                specs.push(Spec { id: sent, bytes: ways[way].clone(), ..Spec::default() });
                sent += 1;
            }
            rig.source.push(specs);
        }
        rig.turn();

        let mut found = Count { consumed: model.consumed, made: model.made, ..Count::default() };
        for d in rig.blueprint.stats().dropped().iter().filter(|d| d.packets > 0) {
            found.dropped.insert((d.node, d.reason.name), d.packets);
        }
        for end in ENDS {
            let n = rig.log.at(end).len() as u64;
            if n > 0 {
                found.ended.insert(end, n);
            }
        }
        // The worker's cache has published its fill, so the buffers in use are the kept packets.
        found.kept = rig.pool.stats().used as u64;
        prop_assert_eq!(&found, &model);
        prop_assert_eq!(u64::from(sent) + model.made, found.out());
        prop_assert_eq!(free_kept(&kept) as u64, found.kept);

        // Packets on the same path arrive in order.
        for (way, flow) in ways.iter().zip(&flows) {
            if !way.contains(&COPY) {
                for end in ENDS {
                    let arrived: Vec<u32> = rig.log.at(end).into_iter().filter(|id| flow.contains(id)).collect();
                    prop_assert!(arrived.is_sorted(), "{arrived:?} by {way:?}");
                }
            }
        }
        prop_assert_eq!(rig.turn(), 0);
        let s = rig.end();
        prop_assert_eq!((s.used, s.lost), (0, 0));
    }
}
