//! Tests errors when a graph is built, and their texts.

use std::collections::BTreeSet;

use super::toys::{Batches, End, Feature, Kept, Log, Toy};
use super::{Rig, refused};
use crate::{ArcKey, Builder, Missing};

#[test]
fn unknown_names_are_refused() {
    let text = refused(|b, log| Toy::install(b, log, &Kept::default(), "a", &["nowhere"]));
    assert_eq!(text, "the graph cannot be built: node \"a\" leads to \"nowhere\", which is not a node");
    let text = refused(|b, _| {
        b.arc("arc", "nowhere", ArcKey::Rx);
        Ok(())
    });
    assert_eq!(text, "the graph cannot be built: arc \"arc\" leads to \"nowhere\", which is not a node");
    let text = refused(|b, _| b.edge("nobody", "drop").map(|_| ()));
    assert!(
        text.ends_with("cannot add an edge from \"nobody\" to \"drop\": \"nobody\" is not a node"),
        "{text}"
    );
    let text = refused(|b, log| {
        Feature::install(b, log, "ark", "one", &[], &[]);
        Ok(())
    });
    assert!(text.ends_with("feature \"one\" is for the arc \"ark\", which does not exist"), "{text}");
    let text = refused(|b, _| {
        b.feature("drop", "ghost", &[], &[]);
        Ok(())
    });
    assert!(text.ends_with("arc \"drop\" leads to \"ghost\", which is not a node"), "{text}");
    let text = refused(|b, _| b.end_arc_at("ark", "drop"));
    assert!(text.ends_with("arc \"ark\" cannot end at \"drop\": there is no such arc"), "{text}");
}

#[test]
fn duplicate_names_are_refused() {
    let text = refused(|b, log| {
        End::install(b, log, "end");
        End::install(b, log, "end");
        Ok(())
    });
    assert!(text.ends_with("there are two nodes \"end\""), "{text}");
    let text = refused(|b, _| {
        b.arc("drop", "drop", ArcKey::Rx);
        Ok(())
    });
    assert!(text.ends_with("there are two arcs \"drop\""), "{text}");
    let text = refused(|b, log| {
        Feature::install(b, log, "drop", "one", &[], &[]);
        b.feature("punt", "one", &[], &[]);
        Ok(())
    });
    assert!(
        text.ends_with("node \"one\" is a feature twice: a node can be a feature of one arc only"),
        "{text}"
    );
}

#[test]
fn invalid_edges_are_refused() {
    let text = refused(|b, log| Toy::install(b, log, &Kept::default(), "a", &["source"]));
    assert!(
        text.ends_with("node \"a\" leads to \"source\", which is an input node: nothing can be sent there"),
        "{text}"
    );
    let text = refused(|b, log| {
        End::install(b, log, "end");
        b.feature("drop", "end", &[], &[]);
        Ok(())
    });
    assert!(text.ends_with("\"end\" is a feature, but has no edge \"next-feature\""), "{text}");
    let text = refused(|b, log| Toy::install(b, log, &Kept::default(), "a", &["next-feature"]));
    assert!(text.ends_with("node \"a\" has the edge \"next-feature\", but is not on an arc"), "{text}");
    let text = refused(|b, log| {
        Toy::install(b, log, &Kept::default(), "a", &[])?;
        (0..129).try_for_each(|i| b.edge("a", &format!("n{i}")).map(|_| ()))
    });
    assert!(text.ends_with("node \"a\" has more than 128 edges"), "{text}");
}

#[test]
fn contradictory_feature_orders_are_refused() {
    let text = refused(|b, log| {
        Feature::install(b, log, "drop", "one", &["three"], &[]);
        Feature::install(b, log, "drop", "two", &["one"], &[]);
        Feature::install(b, log, "drop", "three", &[], &[]);
        b.feature("punt", "four", &[], &[]);
        b.feature("drop", "five", &["two"], &["one"]);
        Ok(())
    });
    // `three` can be first; the others depend on each other.
    assert!(text.ends_with("the features of arc \"drop\" cannot be ordered: the `after` and `before` of these features form a cycle: one, two, five"), "{text}");
    for (after, before, side) in [(&["gone"][..], &[][..], "after"), (&[], &["gone"], "before")] {
        let text = refused(|b, log| {
            Feature::install(b, log, "drop", "one", after, before);
            // The feature is on another arc, which does not count.
            Feature::install(b, log, "punt", "gone", &[], &[]);
            Ok(())
        });
        let expected = format!("feature \"one\" must come {side} \"gone\", which is not on arc \"drop\"");
        assert!(text.ends_with(&expected), "{text}");
    }
}

#[test]
fn edges_can_be_added_while_there_is_room() {
    let mut ids = Vec::new();
    let rig = Rig::new(|b, log| {
        End::install(b, log, "end");
        End::install(b, log, "other");
        Toy::install(b, log, &Kept::default(), "a", &["end"]).expect("a toy");
        ids = ["other", "end", "other"].map(|to| b.edge("a", to).expect("an edge").to_raw()).to_vec();
    });
    assert_eq!(ids, [1, 0, 1], "an existing edge is not added again");
    let a = rig.blueprint.nodes().iter().find(|n| n.name == "a").expect("a node");
    assert_eq!(a.edges, ["end", "other"]);
    rig.ends_clean();
}

#[test]
fn missing_nodes_are_listed_before_the_build() {
    let (mut b, log) = (Builder::new(), Log::default());
    assert!(b.missing().is_empty(), "the nodes of every graph are complete");
    Batches::default().install(&mut b, "source");
    Toy::install(&mut b, &log, &Kept::default(), "a", &["drop", "arc", "b", "b"]).expect("a toy");
    b.arc("arc", "end", ArcKey::Tx);
    Feature::install(&mut b, &log, "arc", "one", &["two"], &["three"]);
    b.feature("arc", "three", &[], &[]);
    let expected = BTreeSet::from([
        Missing::Node("b".into()),
        Missing::Node("end".into()),
        Missing::Feature("three"),
        Missing::Order { arc: "arc", feature: "two" },
    ]);
    assert_eq!(b.missing(), expected);
}

#[test]
fn the_error_names_a_node_that_fails_to_build() {
    struct Never;
    impl crate::PacketNode for Never {
        const NAME: &'static str = "never";
        type Next = crate::NoNext;
        type Drop = crate::NoReason;
        fn one(
            &mut self,
            _: &crate::Cx<'_>,
            _: &mut buf::Packet<'_>,
        ) -> crate::Verdict<Self::Next, Self::Drop> {
            crate::Verdict::Consume
        }
    }
    let mut b = Builder::new();
    b.packet(|_| -> std::io::Result<Never> { Err(std::io::Error::other("no luck")) });
    let (blueprint, _) = b.build(&infra::quiesce::Domain::new()).expect("a graph");
    let pool = buf::Pool::new(64).expect("a pool");
    let bell = infra::doorbell::Doorbell::new().expect("a doorbell");
    let failed = blueprint.worker(0, &pool, &bell.into()).err().expect("it fails");
    assert_eq!(failed.to_string(), "node \"never\": no luck");
}
