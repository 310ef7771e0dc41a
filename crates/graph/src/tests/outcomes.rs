//! Tests how packets end: ignored, dropped, consumed, kept, or with the main thread. Tests that all are
//! accounted for.

use buf::{Frame, Held, NO_INTERFACE};
use infra::quiesce::Domain;

use super::Rig;
use super::toys::{End, Spec};
use crate::stats::{MAIN_THREAD, NodeBooks};
use crate::trace::Fate;
use crate::{
    Builder, Cx, EdgeId, Extended, FrameNode, MainReason, MoreReasons, NoNext, Out, PuntReason, Reasons,
    Verdict,
};

/// Treats each packet by its first byte: 0 passes it on, 1 ignores it, 2 drops it, 3 consumes it, 4 sends it
/// twice, 5 keeps it.
struct Sorts {
    kept: Vec<Held>,
    /// True if packets leave in the order of the frame.
    in_order: bool,
}

crate::reasons! {
    enum Reason {
        Broken = "broken", Error, "it is broken";
        Unused = "unused", Info, counted, "no node uses it";
    }
}

crate::reasons! {
    enum Other {
        Late = "late", Info, counted, "it arrived too late";
        Lost = "lost", Warn, "it was lost";
    }
}

crate::reasons! {
    enum Same { Broken = "broken", Error, "it is broken, too"; }
}

impl FrameNode for Sorts {
    const NAME: &'static str = "sorts";
    type Next = NoNext;
    type Drop = Reason;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, Reason>) {
        out.each(frame, |_, p| match p.bytes()[0] {
            0 => Verdict::Edge(EdgeId::from_raw(0)),
            1 => Verdict::Ignore(Reason::Unused),
            2 => Verdict::Drop(Reason::Broken),
            3 => Verdict::Consume,
            _ => Verdict::Hold,
        });
        if self.in_order {
            out.in_order();
        }
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut packet: Held, out: &mut Out<'_, NoNext, Reason>) {
        if packet.packet().bytes()[0] == 5 {
            cx.bufs.note_kept(1);
            return self.kept.push(packet);
        }
        let copy = packet.packet().duplicate(cx.bufs).expect("a buffer");
        [packet, copy].into_iter().for_each(|p| out.emit_edge(EdgeId::from_raw(0), p));
    }
}

impl Drop for Sorts {
    fn drop(&mut self) {
        self.kept.drain(..).for_each(Held::discard);
    }
}

fn rig(in_order: bool) -> Rig {
    Rig::new(|b, log| {
        End::install(b, log, "end");
        b.frame(move |_| Ok(Sorts { kept: Vec::new(), in_order }));
        b.edge("sorts", "end").expect("an edge");
        b.edge("source", "sorts").expect("an edge");
    })
}

fn spec(id: u32, what: u8) -> Spec {
    Spec { id, bytes: vec![what], rx: 3, ..Spec::default() }
}

#[test]
fn ignored_packets_are_counted_but_not_as_drops() {
    for in_order in [false, true] {
        let mut rig = rig(in_order);
        // A whole frame of each kind, and a mixed frame.
        rig.source.push((0..5).map(|id| spec(id, 1)).collect());
        rig.source.push((0..6).map(|id| spec(id, [0, 1, 2, 1, 3, 4][id as usize])).collect());
        rig.turn();
        assert_eq!((rig.dropped("sorts", "unused"), rig.dropped("sorts", "broken")), (7, 1));
        assert_eq!((rig.ran("error-drop").1, rig.blueprint.stats().drops_of(3)), (1, 1));
        assert_eq!(rig.log.at("end"), [0, 5, 5]);
        rig.ends_clean();
    }
}

#[test]
fn a_trace_shows_an_ignored_packet() {
    let mut rig = rig(false);
    let source = rig.blueprint.node("source").expect("a node");
    assert!(rig.blueprint.tracer().add(source, 1, None));
    rig.source.push(vec![spec(0, 1)]);
    rig.turn();
    let entries = rig.blueprint.tracer().entries();
    let last = entries.last().expect("an entry");
    assert!(matches!(last.fate, Fate::Ignored(reason) if reason.name == "unused"));
    assert!(rig.blueprint.tracer().describe(last).contains("ignored: no node uses it (unused)"));
    rig.ends_clean();
}

#[test]
fn counters_account_for_all_packets_of_a_node() {
    let mut rig = rig(false);
    rig.source.push((0..60).map(|id| spec(id, (id % 6) as u8)).collect());
    rig.turn();
    let books = rig.blueprint.stats().node_books().find(|n| n.name == "sorts").expect("a node");
    let expected =
        NodeBooks { name: "sorts", input: false, packets: 60, made: 10, freed: 20, kept: 10, dropped: 10 };
    assert_eq!(books, expected);
    assert_eq!(books.packets + books.made, rig.ran("end").1 + 10 + 20 + 10);
    rig.ends_clean();
}

#[test]
fn drops_of_the_main_thread_are_counted_too() {
    let rig = Rig::new(|b, _| {
        b.edge("source", "error-drop").expect("an edge");
        b.main_reasons::<Reason>();
        b.main_reasons::<Other>();
        b.main_reasons::<Reason>();
        b.punt_reason("all", 1000);
    });
    let stats = rig.blueprint.stats();
    let mut main = stats.main_thread().expect("counters");
    main.done(PuntReason(0), 3, None);
    main.done(PuntReason(0), 3, Some(Reason::Broken.into()));
    main.done(PuntReason(0), NO_INTERFACE, Some(Reason::Broken.into()));
    main.done(PuntReason(0), 3, Some(Reason::Unused.into()));
    main.done(PuntReason(0), 3, Some(Other::Late.into()));
    main.ended(3, Other::Lost);
    assert_eq!(rig.dropped(MAIN_THREAD, "broken"), 2);
    assert_eq!(["unused", "late", "lost"].map(|name| rig.dropped(MAIN_THREAD, name)), [1, 1, 1]);
    assert_eq!([3, NO_INTERFACE].map(|interface| stats.drops_of(interface)), [2, 1]);
    assert_eq!(stats.handled_total(PuntReason(0)), 5);
    let names = || stats.dropped().into_iter().filter(|d| d.node == MAIN_THREAD).map(|d| d.reason.name);
    assert_eq!(names().collect::<Vec<_>>(), ["broken", "unused", "late", "lost"]);
    rig.ends_clean();
}

#[test]
fn two_reasons_of_the_main_thread_cannot_have_one_name() {
    let mut b = Builder::new();
    b.main_reasons::<Reason>();
    b.main_reasons::<Same>();
    let why = b.build(&Domain::new()).err().expect("an error").0;
    assert_ne!(MainReason::from(Reason::Broken), Same::Broken.into());
    assert!(why.contains("two reasons of the main thread have the name \"broken\""), "{why}");
}

/// Treats each packet by its first byte: 0 drops it for the node's own reason, 1 ignores it for the first further reason, and any other
/// byte drops it for the second further reason.
struct Extends;

impl FrameNode for Extends {
    const NAME: &'static str = "extends";
    type Next = NoNext;
    type Drop = Extended<Same>;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, Extended<Same>>) {
        out.each(frame, |_, p| match p.bytes()[0] {
            0 => Verdict::Drop(Extended::Own(Same::Broken)),
            1 => Verdict::Ignore(Extended::More(0)),
            _ => Verdict::Drop(Extended::More(1)),
        });
    }
}

#[test]
fn a_node_may_have_further_reasons() {
    let mut rig = Rig::new(|b, _| {
        let more = MoreReasons::default();
        b.frame(|_| Ok(Extends));
        b.more_reasons("extends", &more);
        b.edge("source", "extends").expect("an edge");
        assert_eq!(Other::INFO.iter().map(|reason| more.add(reason)).collect::<Vec<_>>(), [0, 1]);
    });
    rig.source.push((0..6).map(|id| spec(id, [0, 1, 2, 2, 1, 2][id as usize])).collect());
    rig.turn();
    assert_eq!(["broken", "late", "lost"].map(|name| rig.dropped("extends", name)), [1, 2, 3]);
    assert_eq!((rig.ran("error-drop").1, rig.blueprint.stats().drops_of(3)), (4, 4));
    let last = rig.blueprint.node("extends").map(|n| &rig.blueprint.nodes()[n.0 as usize]).expect("a node");
    let reason = rig.blueprint.stats().reason(last.first_reason + 2).expect("a reason");
    assert_eq!((reason.0, reason.1.name), ("extends", "lost"));
    rig.ends_clean();
}
