//! Tests the contents of traces.

use buf::bpf::Program;
use buf::{Frame, Held};

use super::Rig;
use super::toys::{COPY, DROP, End, Feature, HOLD, Kept, Spec, Toy, specs};
use crate::trace::{Entry, Fate, Tracer};
use crate::{ArcKey, Builder, NodeId};

fn rig() -> Rig {
    Rig::new(|b: &mut Builder, log| {
        let kept = Kept::default();
        End::install(b, log, "end");
        Toy::install(b, log, &kept, "a", &["b", "arc", "end"]).expect("a toy");
        Toy::install(b, log, &kept, "b", &["end"]).expect("a toy");
        b.arc("arc", "end", ArcKey::Rx);
        Feature::install(b, log, "arc", "feature", &[], &[]);
        b.edge("source", "a").expect("an edge");
    })
}

fn id(rig: &Rig, name: &str) -> NodeId {
    rig.blueprint.node(name).expect("a node")
}

/// A line of a trace: the node, the packet's fate or next node, and the packet's length before and after the node.
type Line = (&'static str, String, Option<u16>, Option<u16>);

fn lines(rig: &Rig, trace: u32) -> Vec<Line> {
    let tracer = rig.blueprint.tracer();
    let line = |e: &Entry| {
        let fate = match e.fate {
            Fate::Next(n) => tracer.node_name(n).to_string(),
            Fate::Dropped(r) => format!("dropped {}", r.name),
            Fate::Ignored(r) => format!("ignored {}", r.name),
            Fate::Held => "held".into(),
            Fate::Taken => "taken".into(),
        };
        (tracer.node_name(e.node), fate, e.before.map(|s| s.len), e.after.map(|s| s.len))
    };
    tracer.entries().iter().filter(|e| e.trace == trace).map(line).collect()
}

fn line(node: &'static str, fate: &str, before: Option<u16>, after: Option<u16>) -> Line {
    (node, fate.to_string(), before, after)
}

#[test]
fn a_trace_shows_each_node_with_the_packet_before_and_after() {
    let mut rig = rig();
    assert!(rig.blueprint.tracer().add(id(&rig, "source"), 3, None));
    assert!(!rig.blueprint.tracer().add(id(&rig, "a"), 3, None), "tracing starts only at input nodes");
    assert!(!rig.blueprint.tracer().add(NodeId(u32::MAX), 3, None));
    rig.arcs.enable("arc", "feature", 1, true).expect("it is there");
    let spec = |id, bytes: &[u8], rx| Spec { id, bytes: bytes.to_vec(), rx, tx: 0 };
    rig.source.push(vec![spec(0, &[0, 0, 7], 0), spec(1, &[1, 7], 1)]);
    rig.source.push(vec![spec(2, &[0, DROP + 1, 7], 0), spec(3, &[0, 0], 0)]);
    rig.turn_at(3_661_000_002_000);
    assert_eq!(
        lines(&rig, 1),
        [
            line("source", "a", None, Some(3)),
            line("a", "b", Some(3), Some(2)),
            line("b", "end", Some(2), Some(1)),
            line("end", "taken", Some(1), None),
        ]
    );
    assert_eq!(
        lines(&rig, 2),
        [
            line("source", "a", None, Some(2)),
            line("a", "feature", Some(2), Some(1)),
            line("feature", "end", Some(1), Some(1)),
            line("end", "taken", Some(1), None),
        ]
    );
    let third = lines(&rig, 3);
    assert_eq!(third[2], line("b", "dropped one", Some(2), Some(1)));
    assert_eq!((third[3].0, third[4].0), ("error-drop", "drop"));
    assert_eq!(rig.blueprint.tracer().entries().len(), 4 + 4 + 5, "the fourth packet was not requested");
    let tracer = rig.blueprint.tracer();
    let entries = tracer.entries();
    let dropped = entries.iter().find(|e| matches!(e.fate, Fate::Dropped(_))).expect("it");
    assert_eq!((dropped.bytes_before(), dropped.bytes_after()), (&[DROP + 1, 7][..], &[7][..]));
    assert_eq!(tracer.describe(dropped), "  dropped: the packet wanted it (one)\n");
    tracer.clear();
    assert!(tracer.entries().is_empty());
    rig.ends_clean();
}

/// Returns a filter for packets in which the byte at offset 1 is 7.
fn sevens() -> Program {
    let lines = ["48 0 0 1", "21 0 1 7", "6 0 0 1", "6 0 0 0"];
    Program::new(&lines.map(|l| l.parse().expect("an instruction"))).expect("a program")
}

#[test]
fn only_matching_packets_are_traced() {
    let mut rig = rig();
    let (tracer, source) = (rig.blueprint.tracer().clone(), id(&rig, "source"));
    let packets = |bytes: &[&[u8]]| {
        bytes
            .iter()
            .enumerate()
            .map(|(i, b)| Spec { id: i as u32, bytes: b.to_vec(), ..Spec::default() })
            .collect()
    };
    assert!(tracer.add(source, 3, Some(sevens())));
    rig.source.push(packets(&[&[2, 1, 1], &[2, 7, 2], &[2], &[2, 7, 4]]));
    rig.source.push(packets(&[&[2, 7, 5], &[2, 7, 6]]));
    rig.turn();
    let traced = |tracer: &Tracer| {
        let of_source = |e: &&Entry| e.node == source;
        let all = tracer.entries();
        all.iter().filter(of_source).map(|e| (e.trace, e.bytes_before()[2])).collect::<Vec<_>>()
    };
    assert_eq!(traced(&tracer), [(1, 2), (2, 4), (3, 5)]);
    // The latest request for a node replaces the earlier one.
    tracer.clear();
    tracer.add(source, 1, Some(sevens()));
    tracer.add(source, 1, None);
    rig.source.push(packets(&[&[2, 1, 8], &[2, 1, 9], &[2, 7, 10]]));
    rig.turn();
    assert_eq!(traced(&tracer), [(4, 8), (5, 9)]);
    rig.ends_clean();
}

#[test]
fn held_packets_and_copies_stay_traced() {
    let mut rig = rig();
    // The count of packets to trace stays at its maximum and does not wrap.
    assert!(rig.blueprint.tracer().add(id(&rig, "source"), u32::MAX, None));
    rig.blueprint.tracer().add(id(&rig, "source"), 2, None);
    let hold = Spec { id: 1, bytes: vec![HOLD, 2], ..Spec::default() };
    let copy = Spec { id: 2, bytes: vec![COPY, 2, 0, 0], ..Spec::default() };
    rig.source.push(vec![hold, copy]);
    rig.turn();
    let nodes = |l: Vec<Line>| l.into_iter().map(|l| (l.0, l.1)).collect::<Vec<_>>();
    let told = |l: &[(&'static str, &str)]| l.iter().map(|(n, f)| (*n, f.to_string())).collect::<Vec<_>>();
    assert_eq!(nodes(lines(&rig, 1)), told(&[("source", "a"), ("a", "held"), ("end", "taken")]));
    let ends = lines(&rig, 2).iter().filter(|l| l.0 == "end").count();
    assert_eq!(ends, 2, "the copy and its packet");
    rig.ends_clean();
}

#[test]
fn injected_packets_can_be_traced() {
    let mut edge = None;
    let mut rig = Rig::new(|b, log| {
        End::install(b, log, "end");
        edge = b.inject_to("end").ok();
    });
    assert!(rig.blueprint.tracer().add(id(&rig, "inject"), 1, None));
    let mut cache = rig.pool.cache();
    let held = Held::alloc(&mut cache).expect("a buffer");
    assert!(rig.port.inject(edge.expect("an edge"), held).is_ok());
    rig.turn();
    assert_eq!(lines(&rig, 1).iter().map(|l| l.0).collect::<Vec<_>>(), ["inject", "end"]);
    drop(cache);
    rig.ends_clean();
}

#[test]
fn a_trace_keeps_the_first_bytes_of_long_packets() {
    let mut rig = rig();
    let mut cache = rig.pool.cache();
    let mut held = Held::alloc(&mut cache).expect("a buffer");
    let mut bytes = vec![0; 5000];
    bytes[0] = 2;
    assert!(held.packet().fill_chained(&bytes, &mut cache));
    let mut frame = Frame::new();
    assert!(frame.push(held).is_ok());
    frame.set_traced(0..1, 77);
    let section = rig.participant.enter();
    rig.worker.feed(section.guard(), 5, rig.blueprint.node("a").expect("a node"), &mut frame);
    drop(section);
    let entries = rig.blueprint.tracer().entries();
    assert_eq!(entries.iter().map(|e| e.total_len).collect::<Vec<_>>(), [4999, 4999]);
    assert_eq!((entries[0].bytes_before()[0], entries[0].bytes_before().len()), (2, 96));
    drop(cache);
    rig.ends_clean();
}

#[test]
fn the_log_is_bounded() {
    let mut rig = rig();
    rig.blueprint.tracer().add(id(&rig, "source"), u32::MAX, None);
    for _ in 0..100 {
        rig.source.push(specs(256, &[2]));
    }
    rig.turn();
    assert_eq!(rig.blueprint.tracer().entries().len(), 64 * 1024);
    rig.blueprint.tracer().clear();
    rig.source.push(specs(1, &[2]));
    rig.turn();
    assert!(rig.blueprint.tracer().entries().is_empty(), "clearing also cancels requests");
    rig.ends_clean();
}
