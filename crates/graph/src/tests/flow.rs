//! Tests the paths of packets between nodes.

use std::sync::{Arc, Mutex};

use buf::{FRAME_SIZE, Frame, Held, Packet};
use infra::cpu::Level;

use super::Rig;
use super::toys::{CONSUME, COPY, DROP, End, Feature, HOLD, KEEP, Kept, MAKE, Spec, Toy, free_kept, specs};
use crate::{ArcKey, Builder, Cx, EdgeId, FrameNode, NoNext, NoReason, NodeId, Out, PacketNode, Verdict};

/// `source` → `a`. The edges of `a` lead to `left` (0), `right` (1) and `a` (2).
fn forked() -> (Rig, Kept) {
    let kept = Kept::default();
    let rig = Rig::new(|b, log| {
        End::install(b, log, "left");
        End::install(b, log, "right");
        Toy::install(b, log, &kept, "a", &["left", "right", "a"]).expect("a toy");
        b.edge("source", "a").expect("an edge");
    });
    (rig, kept)
}

fn spec(id: u32, bytes: &[u8]) -> Spec {
    Spec { id, bytes: bytes.to_vec(), ..Spec::default() }
}

/// Memory addresses of the frames that a node received.
type Seen = Arc<Mutex<Vec<usize>>>;

/// A packet node that removes the first byte of each packet.
struct Shorten;
crate::edges! { enum ShortenNext { Look = "look" } }
impl PacketNode for Shorten {
    const NAME: &'static str = "shorten";
    type Next = ShortenNext;
    type Drop = NoReason;
    #[inline(always)]
    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<ShortenNext, NoReason> {
        assert!(p.advance(1));
        Verdict::Next(ShortenNext::Look)
    }
}

/// A node that records the memory address of its frame, and checks that the frame knows the receive interface of all its packets.
struct Look(Seen);
impl FrameNode for Look {
    const NAME: &'static str = "look";
    type Next = NoNext;
    type Drop = NoReason;
    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, NoReason>) {
        self.0.lock().expect("a list").push(std::ptr::from_ref(frame).addr());
        assert_eq!(frame.uniform_rx(), Some(7), "the facts are passed on too");
        out.all(Verdict::Edge(EdgeId::from_raw(0)));
    }
}

#[test]
fn a_frame_with_one_verdict_is_passed_on_whole() {
    let seen = Seen::default();
    let mut rig = Rig::new(|b: &mut Builder, log| {
        b.edge("source", "look-first").expect("an edge");
        let (first, second) = (seen.clone(), seen.clone());
        b.frame_as("look-first", move |_| Ok(Look(first.clone())));
        b.edge("look-first", "shorten").expect("an edge");
        b.packet(|_| Ok(Shorten));
        b.frame(move |_| Ok(Look(second.clone())));
        b.edge("look", "end").expect("an edge");
        End::install(b, log, "end");
    });
    for n in [1, 256] {
        let mut batch = specs(n, b"xy");
        batch.iter_mut().for_each(|s| s.rx = 7);
        rig.source.push(batch);
        rig.turn();
        assert!(rig.log.at("end").into_iter().eq(0..n));
        rig.log.clear();
    }
    let seen = seen.lock().expect("a list").clone();
    assert!(seen.len() == 4 && seen[0] == seen[1] && seen[2] == seen[3], "copied: {seen:x?}");
    assert_eq!((rig.ran("shorten"), rig.ran("end")), ((2, 257), (2, 257)));
    rig.ends_clean();
}

#[test]
fn every_cpu_level_splits_frames_alike() {
    for level in [Level::V2, Level::V3, Level::V4] {
        let (mut rig, _) = forked();
        rig.worker.set_kernels(kernels::at_most(level));
        let batch = (0..256).map(|id| spec(id, &[(id % 3 == 0) as u8])).collect();
        rig.source.push(batch);
        rig.turn();
        assert!(rig.log.at("left").into_iter().eq((0..256).filter(|i| i % 3 != 0)));
        assert!(rig.log.at("right").into_iter().eq((0..256).filter(|i| i % 3 == 0)));
        assert_eq!((rig.ran("left"), rig.ran("right")), ((1, 170), (1, 86)));
        rig.ends_clean();
    }
}

/// `source` → `a` → `b0`, `b1`, `b2` and `b3` → `end`.
fn diamond(kept: &Kept) -> Rig {
    Rig::new(|b, log| {
        b.edge("source", "a").expect("an edge");
        Toy::install(b, log, kept, "a", &["b0", "b1", "b2", "b3"]).expect("a toy");
        for name in ["b0", "b1", "b2", "b3"] {
            Toy::install(b, log, kept, name, &["end"]).expect("a toy");
        }
        End::install(b, log, "end");
    })
}

#[test]
fn frames_for_one_node_merge_up_to_256() {
    let mut rig = diamond(&Kept::default());
    rig.source.push((0..256).map(|id| spec(id, &[(id % 4) as u8, 0])).collect());
    rig.turn();
    assert_eq!((rig.ran("b0"), rig.ran("b3"), rig.ran("end")), ((1, 64), (1, 64), (1, 256)));
    // 320 packets from 256 need more than one frame.
    let way = |id: u32| if id < 64 { vec![COPY, 0, 0, 0] } else { vec![(id % 4) as u8, 0] };
    rig.blueprint.stats().clear_runtime();
    rig.source.push((0..256).map(|id| spec(id, &way(id))).collect());
    rig.turn();
    assert_eq!((rig.ran("b0"), rig.ran("end")), ((1, 176), (2, 320)));
    let total = rig.blueprint.stats().node_totals(0).find(|n| n.name == "end").expect("a node");
    assert_eq!((total.calls, total.packets), (3, 576), "totals never decrease");
    assert!(total.timed_packets > 0 && total.clocks > 0);
    rig.ends_clean();
}

#[test]
fn order_within_a_flow_is_kept() {
    let mut rig = diamond(&Kept::default());
    // A flow is the packets of one path. Paths split at `a` and meet at `end`; batch sizes are odd.
    for batch in 0..6u32 {
        let n = [256, 1, 17, 255, 100, 3][batch as usize];
        rig.source.push((0..n).map(|i| spec(batch * 1000 + i, &[(i * 7 % 4) as u8, 0])).collect());
    }
    assert_eq!(rig.turn(), 632);
    for way in ["b0", "b1", "b2", "b3"] {
        let flow = rig.log.at(way);
        let end: Vec<u32> = rig.log.at("end").into_iter().filter(|id| flow.contains(id)).collect();
        assert!(end == flow && flow.is_sorted() && !flow.is_empty(), "{way}");
    }
    rig.ends_clean();
}

#[test]
fn waiting_frames_run_in_order_of_arrival() {
    let mut rig = diamond(&Kept::default());
    // Two copies of each of 200 packets fill more than one frame of the next node.
    rig.source.push((0..200).map(|id| spec(id, &[COPY, 0, COPY, 0, DROP])).collect());
    rig.turn();
    // The first copy of each packet makes another copy in `b0`, which continues to the end.
    assert_eq!((rig.ran("b0"), rig.ran("end")), ((2, 400), (1, 200)));
    assert!(rig.log.at("b0").is_sorted() && rig.log.at("end").is_sorted());
    rig.ends_clean();
}

#[test]
fn drops_are_counted_by_reason_and_freed() {
    let (mut rig, _) = forked();
    let mut batch: Vec<Spec> = (0..100).map(|id| spec(id, &[DROP + (id % 3) as u8])).collect();
    batch.extend((100..110).map(|id| spec(id, &[0])));
    rig.source.push(batch);
    rig.turn();
    assert_eq!(["empty", "one", "two"].map(|r| rig.dropped("a", r)), [34, 33, 33]);
    assert_eq!((rig.ran("error-drop"), rig.ran("drop")), ((1, 100), (1, 100)));
    assert_eq!(rig.pool.stats().used, 0, "dropped packets are freed in the same turn");
    let stats = rig.blueprint.stats().clone();
    assert_eq!(stats.dropped_for("a", "no-such"), None);
    let (id, node) =
        (0..).map_while(|i| Some((i, stats.reason(i)?))).find(|(_, r)| r.1.name == "two").expect("it");
    assert_eq!((node.0, stats.reason(id).map(|r| r.1.text)), ("a", Some("the packet wanted it badly")));
    assert_eq!(stats.reason(u32::MAX), None);
    stats.clear_errors();
    assert_eq!(rig.dropped("a", "one"), 0);
    let total = |reason| stats.dropped_totals().find(|d| d.node == "a" && d.reason.name == reason);
    assert_eq!(total("one").map(|d| d.packets), Some(33), "totals never decrease");
    rig.ends_clean();
}

#[test]
fn held_packets_continue_and_kept_packets_stay() {
    let (mut rig, kept) = forked();
    let way = |id| match id % 4 {
        0 => vec![HOLD, 1],
        1 => vec![KEEP],
        2 => vec![HOLD],
        _ => vec![1],
    };
    rig.source.push((0..40).map(|id| spec(id, &way(id))).collect());
    rig.turn();
    let right = rig.log.at("right");
    let of = |k| right.iter().copied().filter(move |id| id % 4 == k).collect::<Vec<u32>>();
    assert!(of(0).into_iter().eq((0..40).step_by(4)) && of(3).into_iter().eq((3..40).step_by(4)));
    assert_eq!(right.len(), 20);
    assert_eq!(rig.dropped("a", "empty"), 10, "dropped from `held`");
    assert_eq!((rig.pool.stats().used, free_kept(&kept)), (10, 10));
    rig.ends_clean();
}

/// A node that holds some packets, and sends each of these twice. Of the other packets, some leave by another
/// edge, and some are dropped or consumed.
struct Double {
    in_order: bool,
}
crate::reasons! { enum DoubleDrop { Asked = "asked", Info, "the packet wanted it"; } }

impl FrameNode for Double {
    const NAME: &'static str = "double";
    type Next = NoNext;
    type Drop = DoubleDrop;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, DoubleDrop>) {
        out.each(frame, |_, p| match p.hash() % 7 {
            0 | 1 => Verdict::Hold,
            2 => Verdict::Drop(DoubleDrop::Asked),
            3 => Verdict::Consume,
            4 => Verdict::Edge(EdgeId::from_raw(1)),
            _ => Verdict::Edge(EdgeId::from_raw(0)),
        });
        if self.in_order {
            out.in_order();
        }
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut held: Held, out: &mut Out<'_, NoNext, DoubleDrop>) {
        let copy = held.packet().duplicate(cx.bufs).expect("a buffer");
        out.emit_edge(EdgeId::from_raw(0), held);
        out.emit_edge(EdgeId::from_raw(0), copy);
    }
}

#[test]
fn held_packets_leave_in_order_if_the_node_requires_it() {
    let order = |id: u32| match id % 7 {
        0 | 1 => vec![id; 2],
        2..=4 => vec![],
        _ => vec![id],
    };
    for in_order in [true, false] {
        let mut rig = Rig::new(|b, log| {
            b.edge("source", "double").expect("an edge");
            b.frame(move |_| Ok(Double { in_order }));
            // The first edge enters an arc, with a feature on one of the two interfaces.
            b.edge("double", "arc").expect("an edge");
            b.edge("double", "other").expect("an edge");
            b.arc("arc", "end", ArcKey::Rx);
            Feature::install(b, log, "arc", "feature", &[], &[]);
            End::install(b, log, "end");
            End::install(b, log, "other");
        });
        rig.arcs.enable("arc", "feature", 1, true).expect("a feature");
        rig.source.push((0..256).map(|id| Spec { rx: id % 2, ..spec(id, b"x") }).collect());
        rig.turn();
        for (rx, node) in [(0, "end"), (1, "feature")] {
            let first: Vec<u32> = (0..256).filter(|id| id % 2 == rx).flat_map(order).collect();
            let passed: Vec<u32> = rig.log.at(node).into_iter().filter(|id| id % 2 == rx).collect();
            assert_eq!(passed == first, in_order, "{node}");
        }
        assert!(rig.log.at("other").into_iter().eq((0..256).filter(|id| id % 7 == 4)));
        assert_eq!(rig.dropped("double", "asked"), (0..256).filter(|id| id % 7 == 2).count() as u64);
        rig.ends_clean();
    }
}

#[test]
fn copies_and_made_packets_have_their_own_paths() {
    let (mut rig, _) = forked();
    rig.source.push(vec![
        spec(1, &[COPY, 0, COPY, 0, 1]),
        spec(2, &[MAKE, 2, 2, 1]),
        spec(3, &[CONSUME]),
        spec(4, &[0]),
    ]);
    rig.turn();
    let sorted = |mut v: Vec<u32>| {
        v.sort_unstable();
        v
    };
    assert_eq!(sorted(rig.log.at("left")), [1, 1, 4]);
    assert_eq!(sorted(rig.log.at("right")), [1, 2]);
    assert_eq!(rig.log.way(2), ["a", "a", "a", "right"]);
    assert_eq!(rig.pool.stats().used, 0);
    rig.ends_clean();
}

#[test]
fn tunnels_run_in_rank_order() {
    // out → encap → out: a cycle in the middle, entered at `in`, left at `end`.
    let kept = Kept::default();
    let mut rig = Rig::new(|b, log| {
        End::install(b, log, "end");
        Toy::install(b, log, &kept, "out", &["encap", "end"]).expect("a toy");
        Toy::install(b, log, &kept, "encap", &["out"]).expect("a toy");
        Toy::install(b, log, &kept, "in", &["out"]).expect("a toy");
        b.edge("source", "in").expect("an edge");
    });
    let rank = |name: &str| rig.blueprint.node(name).expect("a node");
    assert!(rank("source") < rank("in") && rank("in") < rank("out") && rank("encap") < rank("end"));
    assert!(rank("end") > rank("out"), "the targets of a cycle run after the cycle");
    rig.source.push((0..200).map(|id| spec(id, if id % 2 == 0 { &[0, 1] } else { &[0, 0, 0, 1] })).collect());
    rig.turn();
    assert_eq!((rig.ran("out").1, rig.ran("encap").1), (300, 100));
    // Packets that return from the tunnel are merged with the others before the end runs.
    assert_eq!(rig.ran("end"), (1, 200));
    assert_eq!(rig.log.way(1), ["in", "out", "encap", "out", "end"]);
    rig.ends_clean();
}

#[test]
fn a_frame_can_be_fed_to_a_node() {
    let (mut rig, _) = forked();
    let mut cache = rig.pool.cache();
    let mut frame = Frame::new();
    assert_eq!(frame.alloc(&mut cache, 5), 5);
    let section = rig.participant.enter();
    for wrong in [rig.blueprint.node("source").expect("a node"), NodeId(u32::MAX)] {
        rig.worker.feed(section.guard(), 0, wrong, &mut frame);
        assert_eq!(frame.len(), 5, "the frame is unchanged");
    }
    rig.worker.feed(section.guard(), 0, rig.blueprint.node("a").expect("a node"), &mut frame);
    drop(section);
    assert!(frame.is_empty());
    assert_eq!(rig.dropped("a", "empty"), 5);
    drop(cache);
    rig.ends_clean();
}

#[test]
fn empty_turns_run_no_nodes_behind_inputs() {
    let (mut rig, _) = forked();
    for _ in 0..1000 {
        assert_eq!(rig.turn(), 0);
    }
    assert_eq!((rig.ran("source"), rig.ran("a")), ((1000, 0), (0, 0)));
    rig.source.push(specs(FRAME_SIZE as u32, &[0]));
    assert_eq!(rig.turn(), FRAME_SIZE);
    rig.ends_clean();
}

#[test]
fn vectors_are_counted_by_size() {
    let (mut rig, _) = forked();
    for n in [1, 2, 3, 4, 5, 129, 255, 256, 256] {
        rig.source.push(specs(n, &[0]));
        rig.turn();
    }
    rig.turn();
    let sizes = rig.blueprint.stats().vector_sizes(0);
    let counted: Vec<_> =
        sizes.into_iter().zip(0..).filter(|(c, _)| c[0] > 0).map(|(c, n)| (1 << n, c)).collect();
    assert_eq!(counted, [(1, [1, 1]), (2, [1, 2]), (4, [2, 7]), (8, [1, 5]), (256, [4, 896])]);
    assert_eq!(rig.blueprint.stats().vector_sizes(1), [[0; 2]; crate::stats::SIZE_CLASSES]);
    rig.ends_clean();
}

#[test]
fn time_is_measured_per_packet() {
    let (mut rig, _) = forked();
    rig.source.push(specs(256, &[0]));
    rig.turn();
    let stats = rig.blueprint.stats();
    let all = stats.runtime(Some(0));
    let a = all.iter().find(|n| n.name == "a").expect("a node");
    assert!(a.clocks_per_packet > 0.0 && a.packets_per_call() == 256.0, "{a:?}");
    // The only call was the slowest.
    assert_eq!((a.slowest_clocks as f64 / 256.0, a.slowest_packets), (a.clocks_per_packet, 256));
    let of_all = stats.runtime(None);
    assert_eq!(of_all.iter().find(|n| n.name == "a"), Some(a));
    assert!(stats.runtime(Some(1)).iter().all(|n| n.calls == 0), "the other worker did nothing");
    stats.clear_runtime();
    let cleared = |n: &crate::stats::NodeRuntime| {
        n.calls == 0 && n.clocks_per_packet == 0.0 && (n.slowest_clocks, n.slowest_packets) == (0, 0)
    };
    assert!(stats.runtime(None).iter().all(cleared));
    rig.ends_clean();
}
