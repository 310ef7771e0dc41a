//! Tests feature arcs: which features are enabled on an interface, and their order.

use super::Rig;
use super::toys::{COPY, End, Feature, Kept, Spec, Toy, specs};
use crate::arc::ArcError;
use crate::{ArcKey, Builder};

/// `source` → `a` —(arc)→ `end`, with the features `one`, `two` and `three` on the arc. The node `b` enters
/// the arc, too.
fn rig(key: ArcKey) -> Rig {
    Rig::new(|b, log| {
        let kept = Kept::default();
        b.edge("source", "a").expect("an edge");
        Toy::install(b, log, &kept, "a", &["arc", "b", "end"]).expect("a toy");
        Toy::install(b, log, &kept, "b", &["arc"]).expect("a toy");
        b.arc("arc", "end", key);
        // Declared in another order than the running order.
        Feature::install(b, log, "arc", "three", &[], &[]);
        Feature::install(b, log, "arc", "one", &[], &["three"]);
        Feature::install(b, log, "arc", "two", &["one"], &["three"]);
        End::install(b, log, "end");
    })
}

fn spec(id: u32, rx: u32, tx: u32) -> Spec {
    Spec { id, bytes: vec![0], rx, tx }
}

#[test]
fn disabled_features_are_skipped() {
    let mut rig = rig(ArcKey::Rx);
    rig.source.push(specs(10, &[0]));
    rig.turn();
    assert_eq!(rig.log.way(3), ["a", "end"]);
    rig.ends_clean();
}

#[test]
fn features_run_in_order_from_any_entry_of_the_arc() {
    let mut rig = rig(ArcKey::Rx);
    for feature in ["three", "one", "two"] {
        rig.arcs.enable("arc", feature, 5, true).expect("it is there");
    }
    let entered_late = Spec { id: 2, bytes: vec![1, 0], rx: 5, tx: 0 };
    let around = Spec { id: 3, bytes: vec![2], rx: 5, tx: 0 };
    rig.source.push(vec![spec(1, 5, 0), entered_late, around, spec(4, 4, 0)]);
    rig.turn();
    assert_eq!(rig.log.way(1), ["a", "one", "two", "three", "end"]);
    assert_eq!(rig.log.way(2), ["a", "b", "one", "two", "three", "end"]);
    assert_eq!(rig.log.way(3), ["a", "end"], "an edge to the end itself passes no feature");
    assert_eq!(rig.log.way(4), ["a", "end"], "another interface");
    let shown = rig.arcs.show(5);
    let arc = shown.iter().find(|(name, _)| *name == "arc").expect("the arc");
    assert_eq!(arc.1, [("one", true), ("two", true), ("three", true)]);
    rig.ends_clean();
}

#[test]
fn each_interface_has_its_own_features() {
    for key in [ArcKey::Rx, ArcKey::Tx] {
        let mut rig = rig(key);
        rig.arcs.enable("arc", "one", 1, true).expect("it is there");
        rig.arcs.enable("arc", "three", 1, true).expect("it is there");
        rig.arcs.enable("arc", "two", 2, true).expect("it is there");
        let by = |i: u32, id| match key {
            ArcKey::Rx => spec(id, i, 9),
            ArcKey::Tx => spec(id, 9, i),
        };
        // One frame with packets of all interfaces, and one frame for each interface. No feature was ever enabled on the last two
        // interfaces.
        let interfaces = [0, 1, 2, 1000, u32::MAX];
        rig.source.push((0..200).map(|id| by(interfaces[id as usize % 5], id)).collect());
        for (k, i) in interfaces.into_iter().enumerate() {
            rig.source.push((0..50).map(|id| by(i, 1000 + id * 5 + k as u32)).collect());
        }
        rig.turn();
        for id in (0..200).chain(1000..1250) {
            let expected: &[&str] = match id % 5 {
                1 => &["a", "one", "three", "end"],
                2 => &["a", "two", "end"],
                _ => &["a", "end"],
            };
            assert_eq!(rig.log.way(id), expected, "{key:?} {id}");
        }
        rig.ends_clean();
    }
}

#[test]
fn features_can_be_disabled() {
    let mut rig = rig(ArcKey::Rx);
    let way = |rig: &mut Rig| {
        rig.log.clear();
        rig.source.push(vec![spec(1, 1, 0)]);
        rig.turn();
        rig.log.way(1)
    };
    for feature in ["one", "two", "three"] {
        rig.arcs.enable("arc", feature, 1, true).expect("it is there");
    }
    rig.arcs.enable("arc", "one", 2, true).expect("it is there");
    rig.arcs.enable("arc", "two", 1, false).expect("it is there");
    assert_eq!(way(&mut rig), ["a", "one", "three", "end"]);
    rig.arcs.forget(1);
    assert_eq!(way(&mut rig), ["a", "end"]);
    assert!(rig.arcs.show(1).iter().all(|(_, f)| f.iter().all(|(_, on)| !on)));
    let two = rig.arcs.show(2);
    assert!(two.iter().any(|(_, f)| f.contains(&("one", true))), "the other interface is not affected");
    rig.arcs.enable("arc", "two", 1, true).expect("it is there");
    assert_eq!(way(&mut rig), ["a", "two", "end"], "a new interface of that number starts without features");
    rig.ends_clean();
}

#[test]
fn copies_enter_arcs_too() {
    for key in [ArcKey::Rx, ArcKey::Tx] {
        let mut rig = rig(key);
        rig.arcs.enable("arc", "two", 6, true).expect("it is there");
        rig.source.push(vec![
            Spec { id: 1, bytes: vec![COPY, 0, 2], rx: 6, tx: 6 },
            Spec { id: 2, bytes: vec![COPY, 0, 2], rx: 5, tx: 5 },
        ]);
        rig.turn();
        assert_eq!(rig.log.at("two"), [1], "the copy, not the packet");
        assert_eq!(rig.log.at("end").len(), 4);
        rig.ends_clean();
    }
}

#[test]
fn an_edge_named_twice_enters_the_arc_twice() {
    let mut rig = Rig::new(|b: &mut Builder, log| {
        b.edge("source", "twice").expect("an edge");
        b.packet(|_| Ok(Twice));
        b.arc("arc", "end", ArcKey::Rx);
        Feature::install(b, log, "arc", "one", &[], &[]);
        End::install(b, log, "end");
    });
    rig.arcs.enable("arc", "one", 0, true).expect("it is there");
    rig.source.push(vec![Spec { id: 0, ..Spec::default() }, Spec { id: 1, ..Spec::default() }]);
    rig.turn();
    assert_eq!((rig.log.way(0), rig.log.way(1)), (vec!["one", "end"], vec!["one", "end"]));
    rig.ends_clean();
}

struct Twice;
crate::edges! { enum TwiceNext { A = "arc", B = "arc" } }
impl crate::PacketNode for Twice {
    const NAME: &'static str = "twice";
    type Next = TwiceNext;
    type Drop = crate::NoReason;
    fn one(
        &mut self,
        _: &crate::Cx<'_>,
        p: &mut buf::Packet<'_>,
    ) -> crate::Verdict<TwiceNext, crate::NoReason> {
        crate::Verdict::Next(if p.hash() == 0 { TwiceNext::A } else { TwiceNext::B })
    }
}

#[test]
fn dropped_packets_pass_the_features_of_their_arc() {
    let mut rig = Rig::new(|b, log| {
        b.edge("source", "a").expect("an edge");
        Toy::install(b, log, &Kept::default(), "a", &[]).expect("a toy");
        Feature::install(b, log, "drop", "capture", &[], &[]);
    });
    rig.arcs.enable("drop", "capture", 3, true).expect("it is there");
    let dropped = |id, rx| Spec { id, bytes: vec![super::toys::DROP + 1], rx, tx: 0 };
    rig.source.push(vec![dropped(1, 3), dropped(2, 4)]);
    rig.turn();
    assert_eq!((rig.log.at("capture"), rig.dropped("a", "one")), (vec![1], 2));
    rig.ends_clean();
}

#[test]
fn unknown_arcs_and_features_are_refused() {
    let mut rig = rig(ArcKey::Rx);
    let no_arc = rig.arcs.enable("ark", "one", 1, true).expect_err("no such arc");
    let no_feature = rig.arcs.enable("arc", "four", 1, true).expect_err("no such feature");
    assert_eq!(no_arc, ArcError::NoArc("ark".into()));
    assert_eq!(no_arc.to_string(), "there is no feature arc \"ark\"");
    assert_eq!(no_feature.to_string(), "feature arc \"arc\" has no feature \"four\"");
    rig.ends_clean();
}
